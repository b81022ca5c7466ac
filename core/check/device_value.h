// What the arrays of the program of one device are on each device, as far as its text tells: where
// they are equal, and for small integers and preds that follow from the device's number, which.
#ifndef GSHARD_CORE_CHECK_DEVICE_VALUE_H_
#define GSHARD_CORE_CHECK_DEVICE_VALUE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <vector>

#include "core/analysis/collective_classes.h"
#include "core/analysis/device_classes.h"
#include "core/analysis/device_groups.h"
#include "ir/literal.h"
#include "ir/module.h"

namespace gshard {

struct DeviceValue {
  const DeviceClasses* classes = nullptr;  // devices of one class hold the same
  // Elements row-major, class after class. Null: not known, unless it is a constant.
  std::shared_ptr<const std::vector<int64_t>> elements;
  const Literal* literal = nullptr;

  bool IsKnown() const { return elements != nullptr || literal != nullptr; }
  // Element `at` of `count` on a device; the value is known.
  int64_t ElementOn(uint32_t device, int64_t at, int64_t count) const;
};

// An instruction's result: its arrays and tokens in pre-order.
using DeviceLeaves = std::vector<DeviceValue>;

int64_t ElementsOf(const Shape* leaf);  // of a token: 0

// The transfer functions of operations that run no computation with control flow or communication.
class DeviceValueRules {
 public:
  DeviceValueRules(DeviceClassTable& table, const DeviceGrid& grid)
      : table_(table), collectives_(table), grid_(grid) {}

  // As `sharding`, the record of an entry parameter, lays the leaves out; null: the same on all
  // devices. Replicas have data of their own.
  DeviceLeaves OfParameter(const Shape* shape, const Sharding* sharding);
  // Of an operation that neither calls nor communicates; operands in order.
  DeviceLeaves Of(const Instruction& x, std::span<const DeviceLeaves* const> operands);
  DeviceLeaves OfCollective(const Instruction& x, const CollectiveDevices& devices,
                            std::span<const DeviceLeaves* const> operands);

  // Of unknown elements, and not finer than all of `operands` together.
  const DeviceClasses* ClassesOf(std::span<const DeviceLeaves* const> operands);
  DeviceValue Unknown(const DeviceClasses* classes) const { return {classes, nullptr, nullptr}; }
  // `taken` where `mask` (one per device) says so, else `other`.
  DeviceValue Merge(std::span<const uint8_t> mask, const DeviceValue& taken,
                    const DeviceValue& other, int64_t count);
  // What holds for both, whichever of them it is.
  DeviceValue Widen(const DeviceValue& a, const DeviceValue& b, int64_t count);

 private:
  // Of an array or token that `part` lays out.
  const DeviceClasses* ClassesOfTiles(const Shape* leaf, const Sharding* part);
  DeviceValue Evaluated(const Instruction& x, std::span<const DeviceLeaves* const> operands);
  DeviceValue Selected(const Instruction& x, std::span<const DeviceLeaves* const> operands);
  int64_t ElementOf(const Instruction& x, int64_t at, uint32_t device,
                    std::span<const DeviceLeaves* const> operands) const;
  // One list of `count` elements for each class of `classes`: the classes of equal lists.
  DeviceValue ByValue(const DeviceClasses* classes, std::vector<int64_t> elements, int64_t count);

  DeviceClassTable& table_;
  CollectiveClasses collectives_;
  DeviceGrid grid_;
  std::map<const Sharding*, const DeviceClasses*> classes_of_tiles_;  // parameters share theirs
};

}  // namespace gshard

#endif  // GSHARD_CORE_CHECK_DEVICE_VALUE_H_
