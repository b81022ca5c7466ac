// Which devices are known to hold the same value: partitions of the device set into classes.
//
// A value of the CPU backend has one buffer per class and every operation runs once per class: so
// 2048 devices cost little more than the values that truly differ. Partitions are interned:
// equal partitions are the same pointer. Classes are numbered by their first device, so that the
// classes of a value that is tiled in device order are its tiles in order.
#ifndef GSHARD_CORE_ANALYSIS_DEVICE_CLASSES_H_
#define GSHARD_CORE_ANALYSIS_DEVICE_CLASSES_H_

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

namespace gshard {

class DeviceClasses {
 public:
  uint32_t count() const { return static_cast<uint32_t>(first_device_.size()); }
  uint32_t class_of(uint32_t device) const { return class_of_[device]; }
  std::span<const uint32_t> class_of() const { return class_of_; }
  // The lowest device of a class.
  uint32_t first_device(uint32_t c) const { return first_device_[c]; }
  bool IsUniform() const { return count() == 1; }

 private:
  friend class DeviceClassTable;
  std::vector<uint32_t> class_of_;
  std::vector<uint32_t> first_device_;
};

// class of `fine` -> class of `coarse`; the index is a class of the finer partition.
using ClassMap = std::vector<uint32_t>;

// Interns partitions of one device set. Not thread-safe; results live as long as the table.
class DeviceClassTable {
 public:
  explicit DeviceClassTable(uint32_t device_count);
  ~DeviceClassTable();

  uint32_t device_count() const { return device_count_; }
  const DeviceClasses* Uniform() const { return uniform_; }
  const DeviceClasses* Distinct() const { return distinct_; }
  // Devices with equal labels are in one class; labels.size() == device_count().
  const DeviceClasses* Intern(std::span<const uint64_t> labels);
  // The coarsest partition that refines both. O(1) when asked before, else O(devices).
  const DeviceClasses* Join(const DeviceClasses* a, const DeviceClasses* b);
  bool Refines(const DeviceClasses* fine, const DeviceClasses* coarse) {
    return Join(fine, coarse) == fine;
  }
  // Classes of `fine` with equal labels become one; labels.size() == fine->count(). O(classes) when
  // asked before.
  const DeviceClasses* Merge(const DeviceClasses* fine, std::span<const uint64_t> labels);
  // Null if the partitions are the same (the identity). `fine` must refine `coarse`.
  const ClassMap* MapOf(const DeviceClasses* fine, const DeviceClasses* coarse);

 private:
  struct Tables;
  uint32_t device_count_;
  std::unique_ptr<Tables> tables_;
  const DeviceClasses* uniform_ = nullptr;
  const DeviceClasses* distinct_ = nullptr;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_DEVICE_CLASSES_H_
