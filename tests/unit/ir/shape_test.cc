#include "ir/shape.h"

#include <catch2/catch.hpp>
#include <vector>

#include "ir/context.h"

namespace gshard {
namespace {

using Ints = std::vector<int64_t>;

TEST_CASE("dtypes by name", "[ir][dtype]") {
  for (int i = 0; i < kDTypeCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    CHECK(DTypeFromName(DTypeName(dtype)) == dtype);
  }
  CHECK_FALSE(DTypeFromName("").has_value());
  CHECK_FALSE(DTypeFromName("f33").has_value());
  CHECK_FALSE(DTypeFromName("f32 ").has_value());
  CHECK(StorageBytes(DType::kS4) == 1);
  CHECK(StorageBytes(DType::kC128) == 16);
  CHECK(StorageBytes(DType::kToken) == 0);
}

TEST_CASE("shapes are interned", "[ir][shape]") {
  Context ctx;
  const Ints dims = {8, 16}, order = {1, 0}, other_order = {0, 1};
  const Shape* plain = ctx.Array(DType::kF32, dims);
  CHECK(ctx.Array(DType::kF32, Ints{8, 16}) == plain);
  CHECK(ctx.Array(DType::kF32, Ints{16, 8}) != plain);
  CHECK(ctx.Array(DType::kBF16, dims) != plain);
  const Shape* laid_out = ctx.Array(DType::kF32, dims, ctx.InternLayout(order, ""));
  CHECK(laid_out != plain);
  CHECK(ctx.InternLayout(order, "") == ctx.InternLayout(Ints{1, 0}, ""));
  CHECK(ctx.InternLayout(order, "") != ctx.InternLayout(other_order, ""));
  CHECK(ctx.InternLayout(order, "") != ctx.InternLayout(order, "S(1)"));
  CHECK(Compatible(laid_out, plain));
  CHECK(laid_out->bare() == plain);
  const std::vector<uint8_t> none = {0, 0}, second = {0, 1};
  CHECK(ctx.Array(DType::kF32, dims, nullptr, none) == plain);
  CHECK(ctx.Array(DType::kF32, dims, nullptr, second) != plain);

  const std::vector<const Shape*> a = {plain, laid_out}, b = {plain, plain};
  const Shape* tuple = ctx.Tuple(a);
  CHECK(tuple->bare() == ctx.Tuple(b));
  CHECK(ctx.Tuple(b)->bare() == ctx.Tuple(b));
  CHECK(tuple->leaf_count() == 2);
  CHECK(tuple->byte_size() == 2 * 8 * 16 * 4);
  CHECK(ctx.Tuple({})->leaf_count() == 0);
  // As many leaves as elements, but not one each.
  const std::vector<const Shape*> nested = {tuple, plain, ctx.Tuple({}), plain};
  const Shape* uneven = ctx.Tuple(nested);
  CHECK(uneven->leaf_count() == 4);
  CHECK(uneven->first_leaf(0) == 0);
  CHECK(uneven->first_leaf(1) == 2);
  CHECK(uneven->first_leaf(2) == 3);
  CHECK(uneven->first_leaf(3) == 3);
  CHECK(ctx.WithDims(laid_out, Ints{4, 16})->layout() == laid_out->layout());
  CHECK(ctx.WithDims(laid_out, Ints{4})->layout() == nullptr);
  CHECK(ctx.WithDType(laid_out, DType::kS8)->byte_size() == 128);
}

TEST_CASE("sizes saturate", "[ir][shape]") {
  Context ctx;
  const Shape* huge = ctx.Array(DType::kF32, Ints{INT64_MAX / 2, 4});
  CHECK(huge->element_count() == INT64_MAX);
  CHECK(huge->byte_size() == INT64_MAX);
  CHECK(ctx.Array(DType::kF32, Ints{INT64_MAX, INT64_MAX, 0})->element_count() == 0);
  CHECK(ctx.Array(DType::kS4, Ints{3})->byte_size() == 2);
  CHECK(ctx.Array(DType::kPred, Ints{3})->byte_size() == 3);
  const Shape* shape = ctx.Array(DType::kF32, Ints{2});
  for (int i = 0; i < 70; ++i) shape = ctx.Tuple(std::vector<const Shape*>{shape, shape});
  CHECK(shape->leaf_count() == INT64_MAX);
}

// As XLA prints them.
TEST_CASE("shapes print", "[ir][shape]") {
  Context ctx;
  const Shape* f32_8 = ctx.Array(DType::kF32, Ints{8}, ctx.InternLayout(Ints{0}, ""));
  CHECK(ToString(ctx.Scalar(DType::kF32)) == "f32[]");
  CHECK(ToString(ctx.Array(DType::kS32, {}, ctx.InternLayout({}, "T(128)S(6)"))) ==
        "s32[]{:T(128)S(6)}");
  CHECK(ToString(ctx.Array(DType::kS32, {}, ctx.InternLayout({}, ""))) == "s32[]");
  CHECK(ToString(ctx.Array(DType::kF32, Ints{0}, ctx.InternLayout(Ints{0}, ""))) == "f32[0]{0}");
  const std::vector<uint8_t> second = {0, 1};
  CHECK(ToString(ctx.Array(DType::kF32, Ints{2, 3}, ctx.InternLayout(Ints{1, 0}, ""), second)) ==
        "f32[2,<=3]{1,0}");
  const std::vector<uint8_t> first = {1};
  CHECK(ToString(ctx.Array(DType::kF32, Ints{Shape::kUnbounded}, nullptr, first)) == "f32[?]");
  CHECK(ToString(ctx.Token()) == "token[]");
  CHECK(ToString(ctx.Opaque()) == "opaque[]");
  CHECK(ToString(ctx.Buffer(f32_8)) == "b(f32[8]{0})");
  const std::vector<const Shape*> seven(7, f32_8);
  CHECK(ToString(ctx.Tuple(seven)) ==
        "(f32[8]{0}, f32[8]{0}, f32[8]{0}, f32[8]{0}, f32[8]{0}, /*index=5*/f32[8]{0}, f32[8]{0})");
  CHECK(ToString(ctx.Tuple({})) == "()");
  CHECK(ToString(f32_8, false) == "f32[8]");
}

}  // namespace
}  // namespace gshard
