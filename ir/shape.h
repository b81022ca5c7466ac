// Shapes and layouts. Both are immutable, interned by a Context and compared by pointer.
//
// Two shapes are *compatible* (same types and dims, layouts ignored) iff their bare() is the same
// pointer. Dims are in elements; byte sizes are those of the dense array, 4-bit types packed.
#ifndef GSHARD_IR_SHAPE_H_
#define GSHARD_IR_SHAPE_H_

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/dtype.h"

namespace gshard {

// "{1,0:T(8,128)S(1)}": minor-to-major order, and what stands after the colon, verbatim.
struct Layout {
  std::span<const int64_t> minor_to_major;
  std::string_view tail;  // "T(8,128)S(1)", without the colon; empty for most
};

// The dims of the first tile of a layout's tail, {8, 128} of "T(8,128)(2,1)S(1)"; empty: none.
std::vector<int64_t> FirstTile(std::string_view tail);

enum class ShapeKind : uint8_t { kArray, kTuple, kToken, kOpaque, kBuffer };

class Shape {
 public:
  // Size of an unbounded dynamic dim ("?").
  static constexpr int64_t kUnbounded = INT64_MIN;

  ShapeKind kind() const { return kind_; }
  bool IsArray() const { return kind_ == ShapeKind::kArray; }
  bool IsTuple() const { return kind_ == ShapeKind::kTuple; }
  bool IsToken() const { return kind_ == ShapeKind::kToken; }
  bool IsScalar() const { return IsArray() && dims_.empty(); }

  // Of arrays (kToken, kOpaque for those kinds; of a buffer: its element's).
  DType dtype() const { return dtype_; }
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  std::span<const int64_t> dims() const { return dims_; }
  int64_t dim(int64_t i) const { return dims_[static_cast<size_t>(i)]; }
  // True for "<=n" (dim(i) is the bound) and for "?".
  bool IsDynamic(int64_t i) const {
    return !dynamic_.empty() && dynamic_[static_cast<size_t>(i)] != 0;
  }
  bool HasDynamicDims() const { return !dynamic_.empty(); }
  std::span<const uint8_t> dynamic_flags() const { return dynamic_; }  // empty if all static
  const Layout* layout() const { return layout_; }                     // null: none given

  // Of tuples; of a buffer: its one element.
  std::span<const Shape* const> elements() const { return elements_; }
  const Shape* element(int64_t i) const { return elements_[static_cast<size_t>(i)]; }

  // The same shape without any layout; interned, so pointer equality means compatibility.
  const Shape* bare() const { return bare_; }

  // Elements of an array (0 for other kinds), saturating at INT64_MAX.
  int64_t element_count() const { return element_count_; }
  // Dense bytes; for tuples the sum over leaves; tokens take none. Saturating.
  int64_t byte_size() const { return byte_size_; }
  // Number of non-tuple leaves in pre-order: 1 for anything but a tuple.
  int64_t leaf_count() const { return leaf_count_; }
  // Of tuples: the number of the leaf that element i begins with.
  int64_t first_leaf(int64_t i) const { return first_leaves_[static_cast<size_t>(i)]; }

 private:
  friend class Context;
  ShapeKind kind_ = ShapeKind::kArray;
  DType dtype_ = DType::kOpaque;
  std::span<const int64_t> dims_;
  std::span<const uint8_t> dynamic_;
  const Layout* layout_ = nullptr;
  std::span<const Shape* const> elements_;
  std::span<const int64_t> first_leaves_;  // of elements_, for tuples
  const Shape* bare_ = nullptr;
  int64_t element_count_ = 0;
  int64_t byte_size_ = 0;
  int64_t leaf_count_ = 1;
};

inline bool Compatible(const Shape* a, const Shape* b) { return a->bare() == b->bare(); }
// Same dims, element types ignored; both must be arrays.
bool SameDims(const Shape* a, const Shape* b);

// As XLA prints it: "f32[8,16]{1,0}", "(f32[], /*index=5*/s32[2]{0})". `layouts` off drops layouts.
void AppendShape(std::string& out, const Shape* shape, bool layouts = true);
std::string ToString(const Shape* shape, bool layouts = true);

}  // namespace gshard

#endif  // GSHARD_IR_SHAPE_H_
