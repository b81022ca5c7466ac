// Scalars that depend on the device alone, in closed form: offsets, ordinals, table lookups.
//
// A DeviceFunction is bias + sum of coefficient * ((device / stride) % size): what mixed-radix
// arithmetic on partition-id gives. So two offsets can be compared, and an offset with a place in a
// replica group, for all devices at once: costs are in the number of sub-axes, not of devices.
#ifndef GSHARD_CORE_ANALYSIS_DEVICE_FUNCTION_H_
#define GSHARD_CORE_ANALYSIS_DEVICE_FUNCTION_H_

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/instruction.h"
#include "ir/replica_groups.h"

namespace gshard {

struct DeviceSubAxis {
  int64_t size = 1, stride = 1, coefficient = 0;
  bool operator==(const DeviceSubAxis&) const = default;
};

// Normal form: sub-axes by decreasing stride, disjoint, no size 1, no coefficient 0, neighbours
// that continue each other merged. Equal functions of devices 0..n-1 have equal forms.
struct DeviceFunction {
  int64_t bias = 0;
  std::vector<DeviceSubAxis> sub_axes;

  bool IsConstant() const { return sub_axes.empty(); }
  int64_t Least() const;
  int64_t Largest() const;
  int64_t At(int64_t device) const;
  bool operator==(const DeviceFunction&) const = default;
};

DeviceFunction ConstantFunction(int64_t value);
// The device's own number.
DeviceFunction IdentityFunction(int64_t device_count);
DeviceFunction Scaled(const DeviceFunction& f, int64_t factor);
// Nothing where the sub-axes of both are not sub-axes of one number system.
std::optional<DeviceFunction> Sum(const DeviceFunction& f, const DeviceFunction& g);
// f / divisor, rounded down, and f % divisor, for f >= 0 and divisor > 0; nothing where that has no
// such form.
std::optional<DeviceFunction> Quotient(const DeviceFunction& f, int64_t divisor);
std::optional<DeviceFunction> Remainder(const DeviceFunction& f, int64_t divisor);
// table[device] for devices 0..table.size()-1, if it has at most `max_sub_axes` sub-axes. O(table).
std::optional<DeviceFunction> FunctionOfTable(std::span<const int64_t> table, int64_t max_sub_axes);
// The place of a device in its group; nothing for lists without such a form.
std::optional<DeviceFunction> PlaceInGroup(const ReplicaGroups& groups, int64_t device_count);

// Reads integer scalars (arrays of one element) of a per-device program as device functions.
class DeviceFunctions {
 public:
  // Groups of collectives and partition-id count 0..device_count-1.
  explicit DeviceFunctions(int64_t device_count) : device_count_(device_count) {}

  int64_t device_count() const { return device_count_; }
  // Through partition-id, constants, arithmetic, converts, reshapes, clamps that change nothing and
  // lookups in constant tables; nothing where a value may depend on more than the device, or wrap
  // around. Remembered per instruction.
  std::optional<DeviceFunction> Of(const Instruction* x);

 private:
  std::optional<DeviceFunction> Read(const Instruction* x);
  std::optional<DeviceFunction> ReadBinary(const Instruction* x);
  std::optional<DeviceFunction> ReadLookup(const Instruction* x);

  int64_t device_count_;
  int depth_ = 0;
  std::unordered_map<const Instruction*, std::optional<DeviceFunction>> known_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_DEVICE_FUNCTION_H_
