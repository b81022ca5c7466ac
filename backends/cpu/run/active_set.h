// The devices that take part where control flow has split them.
#ifndef GSHARD_BACKENDS_CPU_RUN_ACTIVE_SET_H_
#define GSHARD_BACKENDS_CPU_RUN_ACTIVE_SET_H_

#include <tsl/robin_map.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "backends/cpu/mesh/device_classes.h"

namespace gshard::cpu {

class ActiveSet {
 public:
  explicit ActiveSet(std::vector<uint8_t> devices) : devices_(std::move(devices)) {}

  const std::vector<uint8_t>& devices() const { return devices_; }
  // Per class: whether any of its devices is active. Computed when first asked for.
  const std::vector<uint8_t>& OfClasses(const DeviceClasses* classes) {
    std::unique_ptr<std::vector<uint8_t>>& mask = masks_[classes];
    if (mask == nullptr) {
      mask = std::make_unique<std::vector<uint8_t>>(classes->count(), uint8_t{0});
      for (uint32_t d = 0; d < devices_.size(); ++d) {
        if (devices_[d] != 0) (*mask)[classes->class_of(d)] = 1;
      }
    }
    return *mask;
  }

 private:
  std::vector<uint8_t> devices_;
  tsl::robin_map<const DeviceClasses*, std::unique_ptr<std::vector<uint8_t>>> masks_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_ACTIVE_SET_H_
