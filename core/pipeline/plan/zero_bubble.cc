#include "core/pipeline/plan/zero_bubble.h"

#include <numeric>

#include "core/pipeline/plan/schedule_progress.h"
#include "ir/diagnostic.h"

namespace gshard::pipeline {
namespace {

using Order = std::vector<ScheduledPass>;

// Of one pass of each kind, in any unit.
struct MeanTimes {
  double forward = 1, backward = 1, weights = 1;
  double Of(Pass pass) const {
    return pass == Pass::kForward ? forward : pass == Pass::kBackward ? backward : weights;
  }
};

MeanTimes MeanOf(const PassTimes& times) {
  auto mean = [](const std::vector<double>& of) {
    const double sum = std::accumulate(of.begin(), of.end(), 0.0);
    return of.empty() ? 0 : sum / static_cast<double>(of.size());
  };
  MeanTimes result{mean(times.forward), mean(times.backward), mean(times.weights)};
  const double all = result.forward + result.backward + result.weights;
  if (all <= 0) return {};
  for (double* of : {&result.forward, &result.backward, &result.weights}) *of *= 3 / all;
  return result;
}

bool HasForward(const Schedule& s, int64_t k) { return s.has_forward_of_last || k != s.stages - 1; }

// Forward and backward passes of stage k: `warmup` forward passes, then by turns.
Order Alternating(const Schedule& s, int64_t k, int64_t warmup, bool backward_first) {
  Order order;
  int64_t forward = 0;
  auto add_forward = [&] {
    if (forward == s.microbatches) return;
    if (HasForward(s, k)) order.push_back({Pass::kForward, forward, k});
    ++forward;
  };
  while (forward < std::min(warmup, s.microbatches)) add_forward();
  for (int64_t i = 0; i < s.microbatches; ++i) {
    if (!backward_first) add_forward();
    order.push_back({Pass::kBackward, i, k});
    if (backward_first) add_forward();
  }
  return order;
}

// 1F1B with the gradients of weights right after what hands on the cotangent.
Order NothingPutOff(const Schedule& s, int64_t k) {
  Order order;
  for (const ScheduledPass& p : Alternating(s, k, s.stages - 1 - k, /*backward_first=*/false)) {
    order.push_back(p);
    if (p.pass == Pass::kBackward) order.push_back({Pass::kWeights, p.microbatch, k});
  }
  return order;
}

// Gradients of weights only where else too many micro-batches would be kept, and at the end.
Order AllPutOff(const Schedule& s, int64_t k) {
  Order order;
  int64_t begun = 0, weights = 0;
  for (const ScheduledPass& p : Alternating(s, k, s.stages - k, /*backward_first=*/true)) {
    const bool begins = p.pass == Pass::kForward || !HasForward(s, k);
    if (begins && begun++ - weights == s.stages) order.push_back({Pass::kWeights, weights++, k});
    order.push_back(p);
  }
  while (weights < s.microbatches) order.push_back({Pass::kWeights, weights++, k});
  return order;
}

// Forward and backward passes as above; gradients of weights fill the gaps that are long enough for
// them, found by letting all devices run.
class GapFiller {
 public:
  GapFiller(const Schedule& s, const MeanTimes& times)
      : s_(s), times_(times), progress_(s), devices_(static_cast<size_t>(s.stages)) {
    for (int64_t k = 0; k < s.stages; ++k) {
      devices_[static_cast<size_t>(k)].planned =
          Alternating(s, k, s.stages - k, /*backward_first=*/true);
    }
  }

  DeviceOrders Run() {
    for (double now = 0;;) {
      double next = Progress::kNever;
      bool is_left = false;
      for (int64_t k = 0; k < s_.stages; ++k) {
        Device& device = devices_[static_cast<size_t>(k)];
        if (device.weights == s_.microbatches) continue;
        is_left = true;
        const bool waits = device.free <= now + kSlack && !Advance(device, k, now);
        if (!waits) next = std::min(next, device.free);
      }
      if (!is_left) break;
      CheckInternal(next < Progress::kNever, "a zero-bubble schedule waits for itself");
      now = next;
    }
    DeviceOrders orders;
    for (Device& device : devices_) orders.push_back(std::move(device.order));
    return orders;
  }

 private:
  static constexpr double kSlack = 1e-9;  // of times whose mean is 1
  struct Device {
    Order planned, order;
    size_t next = 0;  // of `planned`
    int64_t begun = 0, backward = 0, weights = 0;
    double free = 0;
  };

  // Lets the device begin a pass now; false: there is none that it may.
  bool Advance(Device& device, int64_t k, double now) {
    const bool has_late = device.weights < device.backward;
    const ScheduledPass late{Pass::kWeights, device.weights, k};
    if (device.next == device.planned.size()) {
      if (has_late) Begin(device, late, now);
      return has_late;
    }
    const ScheduledPass& p = device.planned[device.next];
    const bool begins = p.pass == Pass::kForward || !HasForward(s_, k);
    const bool is_full = begins && has_late && device.begun - device.weights >= s_.stages;
    const double wait = progress_.Ready(p) - now;
    if (is_full || (has_late && wait >= times_.weights - kSlack && wait > kSlack)) {
      Begin(device, late, now);
      return true;
    }
    if (wait > kSlack) return false;
    ++device.next;
    if (begins) ++device.begun;
    if (p.pass == Pass::kBackward) ++device.backward;
    Begin(device, p, now);
    return true;
  }

  void Begin(Device& device, const ScheduledPass& p, double now) {
    if (p.pass == Pass::kWeights) ++device.weights;
    device.free = now + times_.Of(p.pass);
    progress_.At(p.pass, p.stage, p.microbatch) = device.free;
    device.order.push_back(p);
  }

  const Schedule& s_;
  MeanTimes times_;
  Progress progress_;
  std::vector<Device> devices_;
};

}  // namespace

std::vector<DeviceOrders> ZeroBubbleOrders(const Schedule& s, const PassTimes& times,
                                           bool puts_off) {
  std::vector<DeviceOrders> all;
  auto add = [&](auto order_of) {
    DeviceOrders& orders = all.emplace_back();
    for (int64_t k = 0; k < s.stages; ++k) orders.push_back(order_of(s, k));
  };
  add(NothingPutOff);
  if (!puts_off) return all;
  add(AllPutOff);
  // With times as they are, and as if all were alike: then ticks are alike, too.
  for (const MeanTimes& of : {MeanOf(times), MeanTimes{}}) all.push_back(GapFiller(s, of).Run());
  return all;
}

}  // namespace gshard::pipeline
