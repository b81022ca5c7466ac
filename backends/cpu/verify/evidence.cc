// One tap, shown to an observer that keeps every instance of it.
#include "backends/cpu/verify/evidence.h"

#include <cmath>
#include <cstring>
#include <limits>
#include <mutex>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/verify/element_error.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kMostElements = int64_t{1} << 25;  // of all instances

// Keeps what is shown the `iteration`-th time, and ends the run.
class Keeper final : public TapObserver {
 public:
  Keeper(int64_t iteration, size_t bytes, size_t classes)
      : iteration_(iteration), bytes_(bytes), instances_(classes) {}

  bool Prepare(std::span<const uint32_t>) override { return shown_ <= iteration_; }
  void Show(uint32_t, uint32_t c, std::byte* data, int64_t part, int64_t) override {
    if (shown_ != iteration_ || part != 0) return;
    const std::lock_guard lock(mutex_);
    pointers_.emplace_back(c, data);
    if (instances_[c].empty()) instances_[c].assign(data, data + bytes_);
  }
  void Finish(std::span<const uint32_t>) override {
    // Other parts were not there yet when the first was shown.
    for (const auto& [c, data] : pointers_) instances_[c].assign(data, data + bytes_);
    pointers_.clear();
    ++shown_;
  }
  std::vector<std::vector<std::byte>>& instances() { return instances_; }

 private:
  const int64_t iteration_;
  const size_t bytes_;
  int64_t shown_ = 0;
  std::mutex mutex_;
  std::vector<std::vector<std::byte>> instances_;  // by class of devices
  std::vector<std::pair<uint32_t, std::byte*>> pointers_;
};

std::vector<double> Numbers(DType dtype, std::span<const std::byte> data) {
  std::vector<double> numbers(data.size() / static_cast<size_t>(StorageBytes(dtype)));
  for (size_t i = 0; i < numbers.size(); ++i) {
    numbers[i] = ElementValue(dtype, data.data(), static_cast<int64_t>(i));
  }
  return numbers;
}

}  // namespace

Expected<std::optional<Evidence>> Evidence::Collect(const Module& partitioned, const Inputs& inputs,
                                                    const InstructionsOptions& options,
                                                    const LocalCheckResult::Fault& fault) {
  const Instruction* local = fault.form->local;
  const TapPoint taps[] = {{local, local}};
  MeshRunOptions mesh = options.mesh;
  mesh.taps = taps;
  auto run = MeshRun::Prepare(partitioned, inputs, mesh);
  if (!run) return Fail(run.error());
  const auto spread = (*run)->SpreadOfTap(0, fault.form->sharding);
  const size_t classes = spread ? spread->class_count() : 0;
  const DType dtype = local->shape()->dtype();
  if (classes == 0 || static_cast<int64_t>(classes) * local->shape()->element_count() +
                              static_cast<int64_t>(fault.want.data.size()) >
                          kMostElements) {
    return std::nullopt;
  }
  if (Expected<void> done = (*run)->Start(options.run.stop); !done) return Fail(done.error());
  Keeper keeper(fault.iteration, static_cast<size_t>(BufferBytes(local->shape())), classes);
  RunOptions once = options.run;
  once.observer = &keeper;
  Expected<void> done = (*run)->Run(once);
  if (!done && done.error().code != "E-RUN-STOPPED") return Fail(done.error());
  Evidence evidence;
  evidence.dims_ = fault.want.dims;
  evidence.sizes_.assign(local->shape()->dims().begin(), local->shape()->dims().end());
  evidence.whole_ = Numbers(dtype, fault.want.data);
  evidence.allowed_ = fault.allowed;
  for (const std::vector<std::byte>& instance : keeper.instances()) {
    if (instance.empty()) return std::nullopt;  // not reached, or on some devices only
    evidence.values_.push_back(Numbers(dtype, instance));
  }
  for (uint32_t c = 0; c < classes; ++c) {
    for (uint32_t device : spread->devices(c)) evidence.devices_.push_back(device);
  }
  std::sort(evidence.devices_.begin(), evidence.devices_.end());
  for (uint32_t device = 0; device < mesh.grid.device_count(); ++device) {
    evidence.value_of_.push_back(spread->class_of(device));
    evidence.starts_.push_back((*run)->BoxOf(*spread, device).start);
  }
  return std::optional<Evidence>(std::move(evidence));
}

std::vector<double> Evidence::WantAt(std::span<const int64_t> start) const {
  int64_t count = 1;
  for (int64_t size : sizes_) count *= size;
  std::vector<double> want(static_cast<size_t>(count), std::numeric_limits<double>::quiet_NaN());
  std::vector<int64_t> index(sizes_.size(), 0);
  for (double& value : want) {
    int64_t flat = 0;
    bool inside = true;
    for (size_t i = 0; i < dims_.size(); ++i) {
      const int64_t at = start[i] + index[i];
      inside = inside && at >= 0 && at < dims_[i];
      flat = flat * dims_[i] + at;
    }
    if (inside) value = whole_[static_cast<size_t>(flat)];
    for (size_t i = sizes_.size(); i-- > 0;) {
      if (++index[i] < sizes_[i]) break;
      index[i] = 0;
    }
  }
  return want;
}

bool Evidence::Holds(uint32_t device, std::span<const int64_t> index) const {
  for (size_t i = 0; i < index.size(); ++i) {
    const int64_t at = index[i] - starts_[device][i];
    if (at < 0 || at >= sizes_[i]) return false;
  }
  return true;
}

bool Evidence::Agree(std::span<const double> have, std::span<const double> want,
                     double factor) const {
  bool any = false;
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) continue;
    any = true;
    // Infinities agree with themselves only.
    if (have[i] != want[i] && !(std::fabs(have[i] - want[i]) <= factor * allowed_)) return false;
  }
  return any;
}

}  // namespace gshard::cpu
