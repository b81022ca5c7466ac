// One probe, shown to an observer that keeps every instance of it.
#include "backends/cpu/verify/evidence.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/verify/element_error.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kMaxElements = int64_t{1} << 25;  // of all instances

// Keeps what is shown the `iteration`-th time, and ends the run.
class Keeper final : public ProbeObserver {
 public:
  Keeper(int64_t iteration, const Shape& shape, size_t classes)
      : iteration_(iteration), shape_(shape), instances_(classes) {}

  bool Prepare(std::span<const uint32_t>) override {
    if (shown_ == iteration_) {
      for (std::vector<std::byte>& instance : instances_) {
        instance.resize(static_cast<size_t>(BufferBytes(&shape_)));
      }
    }
    return shown_ <= iteration_;
  }
  bool Wants(uint32_t) const override { return shown_ == iteration_; }
  // Devices run one after another in the same memory: what is not copied now is overwritten.
  void Show(uint32_t, uint32_t c, std::byte* data, int64_t part, int64_t parts) override {
    if (shown_ != iteration_) return;
    const int64_t bytes = StorageBytes(shape_.dtype());
    const int64_t begin = shape_.element_count() * part / parts * bytes;
    const int64_t end = shape_.element_count() * (part + 1) / parts * bytes;
    std::memcpy(instances_[c].data() + begin, data + begin, static_cast<size_t>(end - begin));
    if (part == 0) was_shown_[c] = 1;
  }
  void Finish(std::span<const uint32_t>) override { ++shown_; }
  // By class of devices; empty where nothing was shown.
  std::vector<std::vector<std::byte>>& instances() {
    for (size_t c = 0; c < instances_.size(); ++c) {
      if (was_shown_[c] == 0) instances_[c].clear();
    }
    return instances_;
  }

 private:
  const int64_t iteration_;
  const Shape& shape_;
  int64_t shown_ = 0;
  std::vector<std::vector<std::byte>> instances_;
  std::vector<uint8_t> was_shown_ = std::vector<uint8_t>(instances_.size(), 0);
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
                                                    const StepCheckResult::Fault& fault) {
  const Instruction* local = fault.form->local;
  const ProbePoint probes[] = {{local, local}};
  MeshRunOptions mesh = options.mesh;
  mesh.probes = probes;
  std::string no_room;
  auto run = GSHARD_TRY(options.runs.PrepareIfRoom(partitioned, inputs, mesh, no_room));
  if (run == nullptr) return std::nullopt;
  const auto spread = run->SpreadOfProbe(0, fault.form->sharding);
  const size_t classes = spread ? spread->class_count() : 0;
  const DType dtype = local->shape()->dtype();
  if (classes == 0 || static_cast<int64_t>(classes) * local->shape()->element_count() +
                              static_cast<int64_t>(fault.want.data.size()) >
                          kMaxElements) {
    return std::nullopt;
  }
  GSHARD_TRY(options.runs.Start(*run, options.run.stop));
  Keeper keeper(fault.iteration, *local->shape(), classes);
  RunOptions once = options.run;
  once.observer = &keeper;
  Expected<void> done = options.runs.Run(*run, once);
  if (!done && done.error().code != "E-RUN-STOPPED") return Fail(done.error());
  Evidence evidence;
  evidence.dims_ = fault.want.dims;
  evidence.sizes_.assign(local->shape()->dims().begin(), local->shape()->dims().end());
  evidence.whole_ = Numbers(dtype, fault.want.data);
  evidence.allowed_ = fault.allowed;
  evidence.error_ = fault.error;
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
    evidence.starts_.push_back(run->BoxOf(*spread, device).start);
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
  const double allowed = std::max(allowed_, std::min(factor * allowed_, error_ / 2));
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i])) continue;
    any = true;
    // Infinities agree with themselves only.
    if (have[i] != want[i] && !(std::fabs(have[i] - want[i]) <= allowed)) return false;
  }
  return any;
}

}  // namespace gshard::cpu
