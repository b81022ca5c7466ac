// A multi-dimensional array of device numbers, held without listing the devices.
//
// The flattened (row-major) array is a mixed-radix counter: a list of DeviceAxis, major to minor,
// where device = sum(coordinate_k * stride_k). `<=[2,4]T(1,0)` is {size 4, stride 1}, {size 2,
// stride 4}. Everything that cuts the array where dims and axes align (transpose, replicate a dim,
// split, merge, group) stays in this form, so 2048 devices cost what 8 cost. Arrays with no such
// form (an explicit list, a reversed dim) hold the list instead; it is shared, never copied.
//
// Canonical: no axis of size 1; neighbours with stride_i == size_{i+1} * stride_{i+1} merged; a
// list that has an axis form is turned into it. So two assignments are equal iff their members are
// equal. Values are immutable and may be shared between threads.
#ifndef GSHARD_IR_TILE_ASSIGNMENT_H_
#define GSHARD_IR_TILE_ASSIGNMENT_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace gshard {

struct DeviceAxis {
  int64_t size = 1;
  int64_t stride = 1;
  bool operator==(const DeviceAxis&) const = default;
};

class TileAssignment {
 public:
  // More devices than this are refused by the parsers, so that no text can ask for gigabytes where
  // an array must be listed.
  static constexpr int64_t kMaxDevices = int64_t{1} << 20;

  TileAssignment() = default;  // no dims, one device: 0
  // <=[reshape_dims]T(permutation) read as an array of `dims`. Products must agree.
  static TileAssignment Iota(std::span<const int64_t> dims, std::span<const int64_t> reshape_dims,
                             std::span<const int64_t> permutation);
  static TileAssignment Iota(std::span<const int64_t> dims);  // <=[product]
  // Row-major list of different devices; recognises axis forms of all of 0..n-1. O(devices).
  static TileAssignment List(std::span<const int64_t> dims, std::vector<int64_t> devices);
  static bool IsPermutation(std::span<const int64_t> devices);
  // From axes in major-to-minor order of the flattened array.
  static TileAssignment FromAxes(std::span<const int64_t> dims, std::vector<DeviceAxis> axes);

  std::span<const int64_t> dims() const { return dims_; }
  int64_t dim(int64_t i) const { return dims_[static_cast<size_t>(i)]; }
  int64_t rank() const { return static_cast<int64_t>(dims_.size()); }
  int64_t device_count() const { return device_count_; }

  bool has_axes() const { return list_ == nullptr; }
  // Canonical axes of the whole array; valid iff has_axes().
  std::span<const DeviceAxis> axes() const { return axes_; }
  // The axes of each dim, major to minor (a coordinate is their mixed-radix number); axes are split
  // at dim boundaries. Nothing if a boundary cuts an axis unevenly (such arrays keep their axes but
  // have no per-dim view) or if !has_axes().
  std::optional<std::vector<std::vector<DeviceAxis>>> AxesByDim() const;
  std::optional<std::vector<DeviceAxis>> AxesOfDim(int64_t i) const;

  // Device at a coordinate (one per dim) or at a flat row-major index.
  int64_t DeviceAt(std::span<const int64_t> coordinate) const;
  int64_t DeviceAtFlat(int64_t index) const;
  // Flat index of one of them: O(axes) for axis forms, else O(1) after a lazily built inverse.
  int64_t FlatIndexOf(int64_t device) const;
  // Coordinate of a device, one per dim.
  std::vector<int64_t> CoordinateOf(int64_t device) const;
  // All devices in row-major order. O(devices): for printing explicit lists and for tests.
  std::vector<int64_t> ToList() const;

  // dims permuted: result dim i is dim permutation[i].
  TileAssignment Transpose(std::span<const int64_t> permutation) const;
  // Same flat order, other dims (equal product).
  TileAssignment Reshape(std::span<const int64_t> dims) const;
  // Coordinates mirrored along `dims`. Explicit list unless the dims have size 1.
  TileAssignment Reverse(std::span<const int64_t> dims) const;
  // Devices ascending within each run along the last dim.
  TileAssignment SortLastDim() const;

  bool operator==(const TileAssignment& other) const;
  size_t Hash() const;

  // "[2,4]<=[8]" or "[2,2]0,3,1,2": what follows "devices=". `as_list`: the list in any case.
  std::string ToString(bool as_list = false) const;

 private:
  struct ExplicitList;
  explicit TileAssignment(std::span<const int64_t> dims);
  // Drops axes of size 1 and merges neighbours.
  void SetAxes(std::span<const DeviceAxis> axes);

  std::vector<int64_t> dims_;
  std::vector<DeviceAxis> axes_;
  std::shared_ptr<const ExplicitList> list_;
  int64_t device_count_ = 1;
};

}  // namespace gshard

#endif  // GSHARD_IR_TILE_ASSIGNMENT_H_
