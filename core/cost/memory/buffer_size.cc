// Tiled sizes. See buffer_size.h.

#include "core/cost/memory/buffer_size.h"

#include <algorithm>
#include <string_view>

namespace gshard {
namespace {

constexpr int64_t kMaxBytes = int64_t{1} << 46;

int64_t CappedProduct(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

// Unbounded ones as 1.
std::vector<int64_t> KnownDims(const Shape* shape) {
  std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
  for (int64_t& dim : dims) dim = dim < 0 ? 1 : dim;
  return dims;
}

// The dims in physical order, the most minor last; unbounded ones as 1.
std::vector<int64_t> PhysicalDims(const Shape* shape) {
  std::vector<int64_t> dims;
  const Layout* layout = shape->layout();
  if (layout != nullptr && static_cast<int64_t>(layout->minor_to_major.size()) == shape->rank()) {
    for (size_t i = layout->minor_to_major.size(); i-- > 0;)
      dims.push_back(shape->dim(layout->minor_to_major[i]));
  } else {
    dims.assign(shape->dims().begin(), shape->dims().end());
  }
  for (int64_t& dim : dims) dim = dim < 0 ? 1 : dim;
  return dims;
}

// Pads the minor dims to whole tiles; dims and tile end with the most minor.
void PadToTiles(std::vector<int64_t>& dims, const std::vector<int64_t>& tile) {
  for (size_t i = 0; i < std::min(tile.size(), dims.size()); ++i) {
    int64_t size = tile[tile.size() - 1 - i];
    int64_t& dim = dims[dims.size() - 1 - i];
    dim = CappedProduct(dim / size + (dim % size != 0), size);
  }
}

int64_t ElementsOf(const std::vector<int64_t>& dims) {
  int64_t elements = 1;
  for (int64_t dim : dims) elements = CappedProduct(elements, dim);
  return elements;
}

int64_t PowerOfTwoUpTo(int64_t size, int64_t least, int64_t most) {
  int64_t tile = least;
  while (tile < size && tile < most) tile *= 2;
  return tile;
}

int64_t PaddedTo(int64_t size, int64_t tile) {
  return CappedProduct(size / tile + (size % tile != 0), tile);
}

bool MayBe(uint32_t dims, size_t dim) { return dim >= 32 || (dims >> dim & 1) != 0; }

struct TiledOrder {
  size_t minor = 0, second = 0;
  int64_t elements = INT64_MAX;
};

// Rows of the smallest tile: `words` of 32 bits.
int64_t LeastRows(DType dtype, int64_t words) {
  return words * std::max<int64_t>(1, 32 / DTypeBits(dtype));
}

// The order that pads least to a TPU's T(8,128), fewer rows for narrow arrays.
TiledOrder LeastPaddedOrder(const std::vector<int64_t>& dims, int64_t least_rows,
                            MinorDims may_be) {
  TiledOrder least;
  const int64_t unpadded = ElementsOf(dims);
  for (size_t minor = dims.size(); minor-- > 0;) {
    if (!MayBe(may_be.first, minor)) continue;
    for (size_t second = dims.size(); second-- > 0;) {
      if (second == minor || !MayBe(may_be.second, second)) continue;
      const int64_t rows = PowerOfTwoUpTo(dims[second], least_rows, 8);
      int64_t elements = CappedProduct(PaddedTo(dims[minor], 128), PaddedTo(dims[second], rows));
      for (size_t d = 0; d < dims.size(); ++d) {
        if (d != minor && d != second) elements = CappedProduct(elements, dims[d]);
      }
      if (elements < least.elements) least = {minor, second, elements};
      if (elements == unpadded) return least;
    }
  }
  return least;
}

// Elements with the padding of a TPU; vectors have tiles of 128 to 1024 elements.
int64_t ElementsInTpuTiles(const std::vector<int64_t>& dims, int64_t least_rows, MinorDims may_be) {
  if (dims.empty()) return 1;
  if (dims.size() == 1) return PaddedTo(dims[0], PowerOfTwoUpTo(dims[0], 128, 1024));
  return LeastPaddedOrder(dims, least_rows, may_be).elements;
}

}  // namespace

MinorDims LeastPadded(const Shape* shape, MinorDims may_be) {
  if (!shape->IsArray() || shape->rank() < 2 || shape->rank() > 32) return may_be;
  const int64_t least_rows = LeastRows(shape->dtype(), 1);
  const TiledOrder least = LeastPaddedOrder(KnownDims(shape), least_rows, may_be);
  return {uint32_t{1} << least.minor, uint32_t{1} << least.second};
}

bool IsInFastMemory(const Shape* leaf) {
  if (!leaf->IsArray() || leaf->layout() == nullptr) return false;
  const std::string_view tail = leaf->layout()->tail;
  return tail.find("S(1)") != std::string_view::npos || tail.find("S(3)") != std::string_view::npos;
}

bool HasTiles(const Shape* leaf) {
  return leaf->IsArray() && leaf->layout() != nullptr && !FirstTile(leaf->layout()->tail).empty();
}

int64_t BufferBytes(const Shape* leaf, Tiling tiling, MinorDims minor) {
  if (leaf->kind() == ShapeKind::kBuffer) leaf = leaf->element(0);
  if (!leaf->IsArray()) return 0;
  std::string_view tail = leaf->layout() != nullptr ? leaf->layout()->tail : std::string_view();
  bool unbounded = std::any_of(leaf->dims().begin(), leaf->dims().end(),
                               [](int64_t dim) { return dim == Shape::kUnbounded; });
  if (!unbounded && (tiling == Tiling::kDense || (tiling == Tiling::kLayout && tail.empty())))
    return std::clamp<int64_t>(leaf->byte_size(), 0, kMaxBytes);
  std::vector<int64_t> tile = tiling == Tiling::kDense ? std::vector<int64_t>() : FirstTile(tail);
  int64_t elements = 0;
  if (IsOfTpu(tiling) && tile.empty()) {
    const int64_t least_rows = LeastRows(leaf->dtype(), tiling == Tiling::kTpuV3 ? 2 : 1);
    elements = ElementsInTpuTiles(KnownDims(leaf), least_rows, minor);
  } else {
    std::vector<int64_t> dims = PhysicalDims(leaf);
    PadToTiles(dims, tile);
    elements = ElementsOf(dims);
  }
  int64_t bits = CappedProduct(elements, DTypeBits(leaf->dtype()));
  return std::clamp<int64_t>(bits / 8 + (bits % 8 != 0), 0, kMaxBytes);
}

void AppendLeafBytes(const Shape* shape, Tiling tiling, std::vector<int64_t>& bytes) {
  if (!shape->IsTuple()) {
    bytes.push_back(BufferBytes(shape, tiling));
    return;
  }
  for (const Shape* element : shape->elements()) AppendLeafBytes(element, tiling, bytes);
}

}  // namespace gshard
