#include "ir/proto/shapes.h"

#include <fmt/format.h>

#include <array>
#include <limits>

#include "ir/proto/wire.h"

namespace gshard::proto {
namespace {

constexpr int kMaxShapeDepth = 250;
constexpr size_t kMaxRank = 1024;
constexpr int64_t kTuplePrimitive = 13;
constexpr int64_t kBufferPrimitive = 34;

// By xla's PrimitiveType, from 1; kTuplePrimitive and kBufferPrimitive stand as kOpaque.
constexpr std::array kDTypes = {
    DType::kPred,
    DType::kS8,
    DType::kS16,
    DType::kS32,
    DType::kS64,
    DType::kU8,
    DType::kU16,
    DType::kU32,
    DType::kU64,
    DType::kF16,
    DType::kF32,
    DType::kF64,
    DType::kOpaque,
    DType::kOpaque,
    DType::kC64,
    DType::kBF16,
    DType::kToken,
    DType::kC128,
    DType::kF8E5M2,
    DType::kF8E4M3FN,
    DType::kS4,
    DType::kU4,
    DType::kF8E4M3B11FNUZ,
    DType::kF8E5M2FNUZ,
    DType::kF8E4M3FNUZ,
    DType::kS2,
    DType::kU2,
    DType::kF8E4M3,
    DType::kF8E3M4,
    DType::kS1,
    DType::kU1,
    DType::kF4E2M1FN,
    DType::kF8E8M0FNU,
    DType::kOpaque,
    DType::kF6E3M2FN,
    DType::kF6E2M3FN,
};

// As XLA spells it in a layout: "u32".
std::string TypeName(int64_t number) {
  const auto dtype = DTypeFromNumber(number);
  return std::string(DTypeName(dtype.value_or(DType::kOpaque)));
}

}  // namespace

std::optional<DType> DTypeFromNumber(int64_t number) {
  if (number < 1 || number > static_cast<int64_t>(kDTypes.size())) return std::nullopt;
  if (number == kTuplePrimitive || number == kBufferPrimitive) return std::nullopt;
  return kDTypes[static_cast<size_t>(number - 1)];
}

const Shape* ShapeReader::Fail(std::string message) {
  errors_->Fail(Error::kValue, std::move(message));
  return nullptr;
}

const Shape* ShapeReader::Read(std::string_view bytes) {
  if (const auto it = known_.find(bytes); it != known_.end()) return it->second;
  const Shape* shape = ReadNew(bytes, 0);
  if (shape != nullptr) known_.emplace(bytes, shape);
  return shape;
}

const Shape* ShapeReader::ReadNew(std::string_view bytes, int depth) {
  if (depth > kMaxShapeDepth)
    return Fail(fmt::format("a shape nested more than {} deep", kMaxShapeDepth));
  int64_t type = 0;
  std::vector<int64_t> dims;
  std::vector<int64_t> dynamic;
  std::vector<const Shape*> elements;
  std::string_view layout;
  FieldReader field(bytes);
  while (field.Next()) {
    bool ok = true;
    switch (field.number()) {
      case 2:
        type = field.integer();
        break;
      case 3:
        ok = field.AppendTo(dims);
        break;
      case 4:
        elements.push_back(ReadNew(field.bytes(), depth + 1));
        if (elements.back() == nullptr) return nullptr;
        break;
      case 5:
        layout = field.bytes();
        break;
      case 6:
        ok = field.AppendTo(dynamic);
        break;
      default:
        break;
    }
    if (!ok) break;
  }
  if (!field.ok()) {
    errors_->Damaged("a shape");
    return nullptr;
  }
  if (type == kTuplePrimitive) return context_->Tuple(elements);
  if (type == kBufferPrimitive && elements.size() == 1) return context_->Buffer(elements[0]);
  const std::optional<DType> dtype = DTypeFromNumber(type);
  if (!dtype.has_value()) return Fail(fmt::format("a shape of unknown element type {}", type));
  if (!IsArrayType(*dtype)) {
    return *dtype == DType::kToken ? context_->Token() : context_->Opaque();
  }
  return Array(*dtype, dims, std::move(dynamic), layout);
}

const Shape* ShapeReader::Array(DType dtype, std::span<const int64_t> dims,
                                std::vector<int64_t> dynamic, std::string_view layout) {
  if (dims.size() > kMaxRank) return Fail(fmt::format("a shape of {} dimensions", dims.size()));
  if (!dynamic.empty() && dynamic.size() != dims.size()) {
    return Fail(fmt::format("a shape of {} dimensions, {} of them marked as static or dynamic",
                            dims.size(), dynamic.size()));
  }
  std::vector<uint8_t> flags(dims.size(), 0);
  bool any_dynamic = false;
  bool zero = false;
  bool overflow = false;
  int64_t count = DTypeBits(dtype) / 8 + 1;
  for (size_t i = 0; i < dims.size(); ++i) {
    flags[i] = !dynamic.empty() && dynamic[i] != 0 ? 1 : 0;
    if (dims[i] == Shape::kUnbounded) flags[i] = 1;
    if (dims[i] < 0 && dims[i] != Shape::kUnbounded) {
      return Fail(fmt::format("a dimension of size {}", dims[i]));
    }
    any_dynamic |= flags[i] != 0;
    zero |= dims[i] == 0;
    if (dims[i] > 0) overflow |= __builtin_mul_overflow(count, dims[i], &count);
  }
  if (overflow && !zero) return Fail("a shape of more bytes than 64 bits can count");
  const Layout* interned = nullptr;
  if (!layout.empty() && !ReadLayout(layout, dims.size(), interned)) return nullptr;
  return context_->Array(dtype, dims, interned, any_dynamic ? flags : std::vector<uint8_t>{});
}

bool ShapeReader::AppendTile(std::string_view bytes, std::string& tail) {
  std::vector<int64_t> dims;
  FieldReader field(bytes);
  while (field.Next()) {
    if (field.number() == 1 && !field.AppendTo(dims)) return errors_->Damaged("a tile");
  }
  if (!field.ok()) return errors_->Damaged("a tile");
  if (tail.empty()) tail += 'T';
  tail += '(';
  for (size_t i = 0; i < dims.size(); ++i) {
    if (i > 0) tail += ',';
    tail += dims[i] == std::numeric_limits<int64_t>::min() ? "*" : fmt::format("{}", dims[i]);
  }
  tail += ')';
  return true;
}

// "1,0", and what stands after the colon: "T(8,128)(2,1)E(32)S(1)".
bool ShapeReader::ReadLayout(std::string_view bytes, size_t rank, const Layout*& layout) {
  std::vector<int64_t> order;
  std::string tiles;
  std::string splits;
  int64_t index_type = 0, pointer_type = 0, element_bits = 0, space = 0, prefix = 0, alignment = 1;
  FieldReader field(bytes);
  bool ok = true;
  while (ok && field.Next()) {
    switch (field.number()) {
      case 1:
        ok = field.AppendTo(order);
        break;
      case 6:
        ok = AppendTile(field.bytes(), tiles);
        break;
      case 7:
        element_bits = field.integer();
        break;
      case 8:
        space = field.integer();
        break;
      case 11:
        index_type = field.integer();
        break;
      case 12:
        pointer_type = field.integer();
        break;
      case 15:
        prefix = field.integer();
        break;
      case 16:
        alignment = field.integer();
        break;
      case 17: {
        int64_t dim = 0;
        std::vector<int64_t> indices;
        FieldReader split(field.bytes());
        while (split.Next()) {
          if (split.number() == 1) dim = split.integer();
          if (split.number() == 2) ok = ok && split.AppendTo(indices);
        }
        ok = ok && split.ok();
        splits += fmt::format("({}:{})", dim, fmt::join(indices, ","));
        break;
      }
      default:
        break;
    }
  }
  if (!ok || !field.ok()) return errors_->Damaged("a layout");
  std::vector<bool> seen(rank, false);
  for (int64_t dim : order) {
    if (dim < 0 || dim >= static_cast<int64_t>(rank) || seen[static_cast<size_t>(dim)]) {
      return errors_->Fail(Error::kValue,
                           fmt::format("a layout that is no order of {} dimensions", rank));
    }
    seen[static_cast<size_t>(dim)] = true;
  }
  if (order.size() != rank) {
    return errors_->Fail(Error::kValue, fmt::format("a layout of {} dimensions for a shape of {}",
                                                    order.size(), rank));
  }
  std::string tail = tiles;
  if (alignment > 1) tail += fmt::format("L({})", alignment);
  if (index_type != 0) tail += fmt::format("#({})", TypeName(index_type));
  if (pointer_type != 0) tail += fmt::format("*({})", TypeName(pointer_type));
  if (element_bits != 0) tail += fmt::format("E({})", element_bits);
  if (space != 0) tail += fmt::format("S({})", space);
  if (!splits.empty()) tail += "SC" + splits;
  if (prefix != 0) tail += fmt::format("M({})", prefix);
  if (rank == 0 && tail.empty()) return true;
  layout = context_->InternLayout(order, tail);
  return true;
}

}  // namespace gshard::proto
