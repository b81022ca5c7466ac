// Where a device's tile lies: partition-id arithmetic, emitted on demand and once per computation.
//
// Ordinals are (partition-id / stride) % size, offsets ordinal * tile size: a few scalar
// instructions whatever the number of devices. Only explicit device lists need a table. Results are
// s32 scalars (s64 where a dim needs it); an unsharded dim has offset 0.
#ifndef GSHARD_CORE_PARTITION_LAYOUT_SHARD_GEOMETRY_H_
#define GSHARD_CORE_PARTITION_LAYOUT_SHARD_GEOMETRY_H_

#include <cstdint>
#include <map>
#include <tuple>
#include <vector>

#include "core/partition/layout/mesh_layout.h"
#include "ir/builder.h"

namespace gshard {

class ShardGeometry {
 public:
  ShardGeometry(Builder& builder, int64_t device_count)
      : builder_(builder), device_count_(device_count) {}

  // Mixed-radix number of this device's coordinates on `axes`.
  Instruction* Ordinal(AxisSpan axes, const DeviceOrder* order, DType dtype = DType::kS32);
  // ordinal * scale + bias; constant folded where it can be.
  Instruction* Affine(AxisSpan axes, const DeviceOrder* order, int64_t scale, int64_t bias,
                      DType dtype = DType::kS32);
  // floor((ordinal * scale + bias) / divisor).
  Instruction* AffineFloor(AxisSpan axes, const DeviceOrder* order, int64_t scale, int64_t bias,
                           int64_t divisor, DType dtype = DType::kS32);
  // First element of this device's tile along `dim`.
  Instruction* Offset(const Shape* base, const MeshLayout* layout, int64_t dim);
  // table[ordinal], as a scalar; emitted as arithmetic where the table is affine.
  Instruction* Lookup(AxisSpan axes, const DeviceOrder* order, std::span<const int64_t> table,
                      DType dtype = DType::kS32);
  // Global position of every element along `dim`: iota + offset, of the local dims given.
  Instruction* Positions(std::span<const int64_t> local_dims, int64_t dim, Instruction* offset);

  // Scalars (the builder makes each once).
  Instruction* Int(int64_t value, DType dtype = DType::kS32) {
    return builder_.ScalarInt(dtype, value);
  }
  Instruction* Number(DType dtype, double value) { return builder_.Scalar(dtype, value); }
  Instruction* PartitionId() { return builder_.PartitionId(); }

 private:
  using AxesKey = std::vector<int64_t>;
  static AxesKey KeyOf(AxisSpan axes, const DeviceOrder* order, DType dtype);

  Builder& builder_;
  int64_t device_count_;
  std::map<AxesKey, Instruction*> ordinals_;
  std::map<AxesKey, Instruction*> derived_;
  std::map<const DeviceOrder*, Instruction*> positions_;
  std::map<std::tuple<std::vector<int64_t>, int64_t, Instruction*>, Instruction*> iotas_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_LAYOUT_SHARD_GEOMETRY_H_
