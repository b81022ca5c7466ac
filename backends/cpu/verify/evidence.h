// What every device holds of a wrong array, beside what it should hold.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_EVIDENCE_H_
#define GSHARD_BACKENDS_CPU_VERIFY_EVIDENCE_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/verify/step_check.h"

namespace gshard::cpu {

class Evidence {
 public:
  // Runs the mesh to the wrong array. Nothing where all instances are too many to look at, or
  // find no room. Errors:
  // of running.
  static Expected<std::optional<Evidence>> Collect(const Module& partitioned, const Inputs& inputs,
                                                   const InstructionsOptions& options,
                                                   const StepCheckResult::Fault& fault);

  // One device of each tile and value, lowest first.
  std::span<const uint32_t> devices() const { return devices_; }
  uint32_t device_count() const { return static_cast<uint32_t>(value_of_.size()); }
  bool SameTile(uint32_t a, uint32_t b) const { return starts_[a] == starts_[b]; }
  // Elements of the device's box, row-major; of padding and outside the array: nothing is known of
  // what they should be (NaN).
  const std::vector<double>& have(uint32_t device) const { return values_[value_of_[device]]; }
  std::vector<double> WantOf(uint32_t device) const { return WantAt(starts_[device]); }
  // What a box that begins here should hold.
  std::vector<double> WantAt(std::span<const int64_t> start) const;
  // Is the element within the device's box?
  bool Holds(uint32_t device, std::span<const int64_t> index) const;
  std::span<const int64_t> start(uint32_t device) const { return starts_[device]; }
  std::span<const int64_t> sizes() const { return sizes_; }
  std::span<const int64_t> dims() const { return dims_; }

  // Within what rounding allows, wherever it is known what should be. A factor is of what is
  // allowed, but no further than half of the error that is to be explained.
  bool Agree(std::span<const double> have, std::span<const double> want, double factor = 1) const;
  bool IsWrong(uint32_t device) const { return !Agree(have(device), WantOf(device)); }

 private:
  std::vector<int64_t> dims_, sizes_;
  std::vector<double> whole_;  // what should be
  double allowed_ = 0, error_ = 0;
  std::vector<uint32_t> devices_;
  std::vector<uint32_t> value_of_;            // by device
  std::vector<std::vector<double>> values_;   // different instances
  std::vector<std::vector<int64_t>> starts_;  // by device
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_EVIDENCE_H_
