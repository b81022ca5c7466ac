#include "ir/device_atoms.h"

#include <algorithm>

namespace gshard {

void DeviceAtoms::Cut(std::span<const DeviceAxis> axes) {
  for (const DeviceAxis& axis : axes) {
    cuts_.push_back(axis.stride);
    cuts_.push_back(axis.stride * axis.size);
  }
}

bool DeviceAtoms::Finish() {
  std::ranges::sort(cuts_);
  cuts_.erase(std::unique(cuts_.begin(), cuts_.end()), cuts_.end());
  return std::ranges::adjacent_find(cuts_, [](int64_t a, int64_t b) { return b % a != 0; }) ==
         cuts_.end();
}

std::vector<int> DeviceAtoms::Of(std::span<const DeviceAxis> axes) const {
  std::vector<int> atoms;
  for (const DeviceAxis& axis : axes) {
    const auto low = std::ranges::lower_bound(cuts_, axis.stride) - cuts_.begin();
    auto high = std::ranges::lower_bound(cuts_, axis.stride * axis.size) - cuts_.begin();
    while (high-- > low) atoms.push_back(static_cast<int>(high));
  }
  return atoms;
}

}  // namespace gshard
