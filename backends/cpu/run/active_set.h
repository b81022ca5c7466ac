// The devices that take part where control flow has split them, or where this process runs some.
#ifndef GSHARD_BACKENDS_CPU_RUN_ACTIVE_SET_H_
#define GSHARD_BACKENDS_CPU_RUN_ACTIVE_SET_H_

#include <tsl/robin_map.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "core/analysis/device_classes.h"

namespace gshard::cpu {

class ActiveSet {
 public:
  // This process runs devices [begin, end) of them.
  explicit ActiveSet(std::vector<uint8_t> devices, uint32_t begin = 0, uint32_t end = UINT32_MAX)
      : devices_(std::move(devices)), begin_(begin), end_(end) {}

  // Of all processes.
  const std::vector<uint8_t>& devices() const { return devices_; }
  // Per class: whether any of its devices is active and run here. Computed when first asked for.
  const std::vector<uint8_t>& OfClasses(const DeviceClasses* classes) {
    return Mask(classes, begin_, end_, masks_);
  }
  // Whether any is active anywhere.
  const std::vector<uint8_t>& Everywhere(const DeviceClasses* classes) {
    return Mask(classes, 0, UINT32_MAX, everywhere_);
  }

 private:
  using Masks =
      tsl::robin_map<const DeviceClasses*, std::unique_ptr<std::vector<uint8_t>>>;

  const std::vector<uint8_t>& Mask(const DeviceClasses* classes, uint32_t begin, uint32_t end,
                                   Masks& masks) {
    std::unique_ptr<std::vector<uint8_t>>& mask = masks[classes];
    if (mask == nullptr) {
      mask = std::make_unique<std::vector<uint8_t>>(classes->count(), uint8_t{0});
      for (uint32_t d = begin; d < devices_.size() && d < end; ++d) {
        if (devices_[d] != 0) (*mask)[classes->class_of(d)] = 1;
      }
    }
    return *mask;
  }

  std::vector<uint8_t> devices_;
  uint32_t begin_, end_;
  Masks masks_, everywhere_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_ACTIVE_SET_H_
