// What each device of a run computes and holds: arithmetic, and most live bytes.
//
// Devices that go the same way are counted once, together; where they part ways, each way counts
// for those that take it. So a device that takes a branch without arithmetic has done none.
#ifndef GSHARD_BACKENDS_CPU_RUN_DEVICE_TALLY_H_
#define GSHARD_BACKENDS_CPU_RUN_DEVICE_TALLY_H_

#include <algorithm>
#include <cstdint>
#include <utility>
#include <vector>

namespace gshard::cpu {

struct DeviceWork {
  int64_t flops = 0;
  int64_t peak_bytes = 0;  // of live values, in the parts of the program that the device ran
  bool operator==(const DeviceWork&) const = default;

  void Add(const DeviceWork& other) {
    flops += other.flops;
    peak_bytes = std::max(peak_bytes, other.peak_bytes);
  }
};

// Not thread-safe: of the control thread.
class DeviceTally {
 public:
  explicit DeviceTally(size_t devices) : devices_(devices) {}

  // Of every device in the innermost Group; of all devices outside.
  void Add(const DeviceWork& work) { open_.Add(work); }

  // While it lives, what is added is that of `devices` (nonzero: a member) alone. Groups nest.
  class Group {
   public:
    Group(DeviceTally& tally, const std::vector<uint8_t>& devices)
        : tally_(tally), members_(devices), outer_(std::exchange(tally.open_, {})) {}
    ~Group() {
      for (size_t d = 0; d < members_.size(); ++d) {
        if (members_[d] != 0) tally_.devices_[d].Add(tally_.open_);
      }
      tally_.open_ = outer_;
    }
    Group(const Group&) = delete;
    Group& operator=(const Group&) = delete;

   private:
    DeviceTally& tally_;
    std::vector<uint8_t> members_;
    DeviceWork outer_;
  };

  // By device. No Group is alive.
  std::vector<DeviceWork> Totals() const {
    std::vector<DeviceWork> totals = devices_;
    for (DeviceWork& work : totals) work.Add(open_);
    return totals;
  }

 private:
  std::vector<DeviceWork> devices_;
  DeviceWork open_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_DEVICE_TALLY_H_
