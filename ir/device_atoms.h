// Common refinement of device axes: pieces small enough that every axis of several arrays over the
// same devices is a run of whole pieces. Sets of devices are then compared and crossed without
// listing them.
//
// Device numbers 0..n-1 are read in the mixed radix given by a chain of cuts 1 = c0 | c1 | .. | ck
// = n; atom i is the digit of stride c_i and size c_{i+1} / c_i. An axis {size, stride} is the run
// of atoms from cut `stride` to cut `stride * size`.
#ifndef GSHARD_IR_DEVICE_ATOMS_H_
#define GSHARD_IR_DEVICE_ATOMS_H_

#include <cstdint>
#include <span>
#include <vector>

#include "ir/tile_assignment.h"

namespace gshard {

class DeviceAtoms {
 public:
  explicit DeviceAtoms(int64_t devices) : cuts_{1, devices} {}

  void Cut(std::span<const DeviceAxis> axes);
  // Orders the cuts. False if they do not divide one another: there is no common refinement.
  bool Finish();

  // After Finish().
  int count() const { return static_cast<int>(cuts_.size()) - 1; }
  int64_t size(int atom) const { return cut(atom + 1) / cut(atom); }
  int64_t stride(int atom) const { return cut(atom); }
  DeviceAxis axis(int atom) const { return {size(atom), stride(atom)}; }
  // Atoms of an axis list, major to minor. Each axis must have been cut.
  std::vector<int> Of(std::span<const DeviceAxis> axes) const;

 private:
  int64_t cut(int i) const { return cuts_[static_cast<size_t>(i)]; }
  std::vector<int64_t> cuts_;
};

}  // namespace gshard

#endif  // GSHARD_IR_DEVICE_ATOMS_H_
