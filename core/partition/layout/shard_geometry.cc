#include "core/partition/layout/shard_geometry.h"

#include <algorithm>

namespace gshard {

ShardGeometry::AxesKey ShardGeometry::KeyOf(AxisSpan axes, const DeviceOrder* order, DType dtype) {
  AxesKey key = {reinterpret_cast<int64_t>(order), static_cast<int64_t>(dtype)};
  for (const DeviceAxis& axis : axes) {
    key.push_back(axis.size);
    key.push_back(axis.stride);
  }
  return key;
}

Instruction* ShardGeometry::Ordinal(AxisSpan axes, const DeviceOrder* order, DType dtype) {
  if (AxesSize(axes) == 1) return Int(0, dtype);
  Instruction*& cached = ordinals_[KeyOf(axes, order, dtype)];
  if (cached != nullptr) return cached;
  if (dtype != DType::kU32) {
    return cached = builder_.Convert(Ordinal(axes, order, DType::kU32), dtype);
  }
  Instruction* position = PartitionId();
  if (order != nullptr) {
    Instruction*& looked_up = positions_[order];
    if (looked_up == nullptr) {
      Instruction* table = builder_.IntegerTable(DType::kU32, order->positions);
      Instruction* start[] = {position};
      const int64_t one[] = {1};
      looked_up = builder_.Reshape(builder_.DynamicSlice(table, start, one), {});
    }
    position = looked_up;
  }
  Instruction* ordinal = nullptr;
  for (const DeviceAxis& axis : axes) {
    Instruction* coordinate = position;
    if (axis.stride > 1) {
      coordinate = builder_.Add(Opcode::kDivide, {coordinate, Int(axis.stride, DType::kU32)});
    }
    if (axis.stride * axis.size < device_count_) {
      coordinate = builder_.Add(Opcode::kRemainder, {coordinate, Int(axis.size, DType::kU32)});
    }
    if (ordinal != nullptr) {
      ordinal = builder_.Add(Opcode::kMultiply, {ordinal, Int(axis.size, DType::kU32)});
      coordinate = builder_.Add(Opcode::kAdd, {ordinal, coordinate});
    }
    ordinal = coordinate;
  }
  return cached = ordinal;
}

Instruction* ShardGeometry::Affine(AxisSpan axes, const DeviceOrder* order, int64_t scale,
                                   int64_t bias, DType dtype) {
  if (AxesSize(axes) == 1 || scale == 0) return Int(bias, dtype);
  AxesKey key = KeyOf(axes, order, dtype);
  key.push_back(scale);
  key.push_back(bias);
  Instruction*& cached = derived_[key];
  if (cached != nullptr) return cached;
  Instruction* value = nullptr;
  if (bias != 0) {
    value = builder_.Add(Opcode::kAdd, {Affine(axes, order, scale, 0, dtype), Int(bias, dtype)});
  } else {
    value = Ordinal(axes, order, dtype);
    if (scale != 1) value = builder_.Add(Opcode::kMultiply, {value, Int(scale, dtype)});
  }
  return derived_[key] = value;
}

Instruction* ShardGeometry::AffineFloor(AxisSpan axes, const DeviceOrder* order, int64_t scale,
                                        int64_t bias, int64_t divisor, DType dtype) {
  if (divisor == 1 || (scale % divisor == 0 && bias % divisor == 0)) {
    return Affine(axes, order, scale / divisor, bias / divisor, dtype);
  }
  // Shifted so that the dividend is never negative: integer division truncates.
  int64_t count = AxesSize(axes);
  int64_t least = std::min(bias, bias + scale * (count - 1));
  int64_t shift = least < 0 ? CeilOfRatio(-least, divisor) : 0;
  Instruction* dividend = Affine(axes, order, scale, bias + shift * divisor, dtype);
  Instruction* quotient = builder_.Add(Opcode::kDivide, {dividend, Int(divisor, dtype)});
  if (shift == 0) return quotient;
  return builder_.Add(Opcode::kSubtract, {quotient, Int(shift, dtype)});
}

Instruction* ShardGeometry::Offset(const Shape* base, const MeshLayout* layout, int64_t dim) {
  const AxisList& axes = layout->axes(dim);
  DType dtype = base->dim(dim) > INT32_MAX ? DType::kS64 : DType::kS32;
  return Affine(axes, layout->order, CeilOfRatio(base->dim(dim), AxesSize(axes)), 0, dtype);
}

Instruction* ShardGeometry::Lookup(AxisSpan axes, const DeviceOrder* order,
                                   std::span<const int64_t> table, DType dtype) {
  CheckInternal(static_cast<int64_t>(table.size()) == AxesSize(axes), "table of another size");
  int64_t step = table.size() > 1 ? table[1] - table[0] : 0;
  bool affine = true;
  for (size_t i = 1; i < table.size(); ++i) affine &= table[i] - table[i - 1] == step;
  if (affine) return Affine(axes, order, step, table[0], dtype);
  Instruction* values = builder_.IntegerTable(dtype, table);
  Instruction* start[] = {Ordinal(axes, order)};
  const int64_t one[] = {1};
  return builder_.Reshape(builder_.DynamicSlice(values, start, one), {});
}

Instruction* ShardGeometry::Positions(std::span<const int64_t> local_dims, int64_t dim,
                                      Instruction* offset) {
  std::vector<int64_t> dims(local_dims.begin(), local_dims.end());
  Instruction*& cached = iotas_[{dims, dim, offset}];
  if (cached != nullptr) return cached;
  DType dtype = offset->shape()->dtype();
  Instruction* iota = builder_.Iota(builder_.context().Array(dtype, dims), dim);
  if (offset == Int(0, dtype)) return cached = iota;
  cached = builder_.Add(Opcode::kAdd, {iota, builder_.BroadcastScalar(offset, dims)});
  return cached;
}

}  // namespace gshard
