// See schedule.h.

#include "core/cost/schedule.h"

#include <algorithm>
#include <limits>
#include <map>
#include <numeric>
#include <queue>

#include "ir/diagnostic.h"

namespace gshard {
namespace {

// Trips that are simulated; those from kFirstSteady to kLastSteady, which neither the loop's
// beginning nor its end disturbs, stand for all others.
constexpr int kSimulatedTrips = 6;
constexpr int kFirstSteady = 2, kLastSteady = 4;
// A trip may begin before the one before it is through, not before that one's predecessor is.
constexpr int kTripsInFlight = 2;

class Simulation {
 public:
  Simulation(const std::vector<ScheduleNode>& nodes, int copies, bool in_order,
             double compute_share)
      : nodes_(nodes),
        count_(nodes.size()),
        copies_(copies),
        in_order_(in_order),
        slow_rate_(1 - compute_share) {
    FindPaths();
    RankNodes();
    Connect();
  }

  void Run() {
    for (size_t i = 0; i < count_ * static_cast<size_t>(copies_); ++i) {
      if (waits_for_[i] == 0 && IsOpen(CopyOf(i))) Ready(i, 0);
    }
    double now = 0;
    for (StartReady(now); finished_ < start_.size(); StartReady(now)) {
      const double compute_end = compute_ == kNothing ? kNever : now + compute_left_ / Rate();
      const double aside_end = running_.empty() ? kNever : running_.top().first;
      const double next = std::min(compute_end, aside_end);
      CheckInternal(next != kNever, "nothing runs, and not all of a step has run");
      if (compute_ != kNothing) compute_left_ -= (next - now) * Rate();
      now = next;
      if (compute_end <= now) FinishCompute(now);
      while (!running_.empty() && running_.top().first <= now) {
        size_t done = running_.top().second;
        running_.pop();
        if (nodes_[NodeOf(done)].links != 0) --collectives_aside_;
        Finish(done, now);
      }
    }
  }

  double End() const { return end_.empty() ? 0 : *std::max_element(end_.begin(), end_.end()); }
  // When compute is through with a trip.
  double ComputeEnd(int copy) const {
    double end = 0;
    for (size_t i = 0; i < count_; ++i) {
      if (nodes_[i].on_compute) end = std::max(end, end_[Instance(copy, i)]);
    }
    return end;
  }

  // Adds to `exposed` (per node), `times` over, the part of [from, to) in which compute waits for
  // collectives or is slowed by them.
  void AddExposed(double from, double to, double times, std::vector<double>& exposed) const {
    for (const Stall& stall : stalls_) {  // a collective that nothing overlaps
      const double part = std::min(stall.end, to) - std::max(stall.start, from);
      exposed[NodeOf(stall.instance)] += times * std::max(0.0, part);
    }
    std::vector<size_t> aside;
    for (size_t i = 0; i < start_.size(); ++i) {
      if (!nodes_[NodeOf(i)].on_compute && end_[i] > start_[i]) aside.push_back(i);
    }
    std::sort(aside.begin(), aside.end(),
              [&](size_t a, size_t b) { return start_[a] < start_[b]; });
    size_t first = 0;
    // Shares `seconds` lost between begin and end by how long each ran there.
    auto share = [&](double begin, double end, double seconds) {
      while (first < aside.size() && end_[aside[first]] <= begin) ++first;
      auto overlap = [&](size_t i) {
        return std::max(0.0, std::min(end, end_[i]) - std::max(begin, start_[i]));
      };
      double sum = 0;
      for (size_t k = first; k < aside.size() && start_[aside[k]] < end; ++k)
        sum += overlap(aside[k]);
      if (sum <= 0) return;
      for (size_t k = first; k < aside.size() && start_[aside[k]] < end; ++k) {
        exposed[NodeOf(aside[k])] += times * seconds * overlap(aside[k]) / sum;
      }
    };
    auto within = [&](double begin, double end, double seconds) {
      const double from_here = std::max(begin, from), to_here = std::min(end, to);
      if (to_here > from_here) {
        share(from_here, to_here, seconds * (to_here - from_here) / (end - begin));
      }
    };
    double busy_until = 0;
    for (size_t instance : computed_) {
      within(busy_until, start_[instance], start_[instance] - busy_until);
      const double slowed = end_[instance] - start_[instance] - nodes_[NodeOf(instance)].seconds;
      if (slowed > 0) within(start_[instance], end_[instance], slowed);
      busy_until = std::max(busy_until, end_[instance]);
    }
    within(busy_until, to, to - busy_until);
  }

  std::vector<ScheduledEvent> EventsOf(int copy) const {
    std::vector<bool> critical(start_.size());
    size_t last = 0;
    for (size_t i = 0; i < end_.size(); ++i) {
      if (end_[i] > end_[last]) last = i;
    }
    for (size_t i = last; !end_.empty();) {
      critical[i] = true;
      if (waited_for_[i] == kNothing) break;
      i = waited_for_[i];
    }
    std::vector<ScheduledEvent> events;
    double first = -1;
    for (size_t i = 0; i < count_; ++i) {
      if (nodes_[i].seconds <= 0) continue;
      size_t instance = Instance(copy, i);
      events.push_back(
          {static_cast<int32_t>(i), start_[instance], end_[instance], critical[instance]});
      if (first < 0 || start_[instance] < first) first = start_[instance];
    }
    for (ScheduledEvent& event : events) {
      event.start_s -= first;
      event.end_s -= first;
    }
    std::stable_sort(events.begin(), events.end(),
                     [](const auto& a, const auto& b) { return a.start_s < b.start_s; });
    return events;
  }

 private:
  // Keys of instances (KeyOf), the smallest first.
  using KeyQueue = std::priority_queue<uint64_t, std::vector<uint64_t>, std::greater<>>;
  // Of instances that are ready and need these links.
  struct ReadyLinks {
    uint32_t links = 0;
    KeyQueue keys;
  };

  static constexpr size_t kNothing = SIZE_MAX;
  static constexpr double kNever = std::numeric_limits<double>::infinity();
  struct Stall {
    size_t instance;
    double start, end;
  };
  size_t Instance(int copy, size_t node) const { return static_cast<size_t>(copy) * count_ + node; }
  size_t NodeOf(size_t instance) const {
    return static_cast<uint32_t>(instance) % static_cast<uint32_t>(count_);
  }
  int CopyOf(size_t instance) const {
    return static_cast<int>(static_cast<uint32_t>(instance) / static_cast<uint32_t>(count_));
  }
  bool IsOpen(int copy) const {
    return copy < kTripsInFlight ||
           finished_of_copy_[static_cast<size_t>(copy - kTripsInFlight)] == count_;
  }

  void FindPaths() {
    tail_.resize(count_);
    std::vector<bool> has_users(count_);
    feeds_collectives_.assign(count_, true);
    for (const ScheduleNode& node : nodes_) {
      const bool is_aside = !node.on_compute && node.links != 0;
      for (int32_t before : node.after) {
        has_users[static_cast<size_t>(before)] = true;
        if (!is_aside) feeds_collectives_[static_cast<size_t>(before)] = false;
      }
      for (int32_t before : node.after_previous) {
        feeds_collectives_[static_cast<size_t>(before)] = false;
      }
    }
    for (size_t i = 0; i < count_; ++i) {
      feeds_collectives_[i] = feeds_collectives_[i] && has_users[i];
    }
    head_.resize(count_);
    for (size_t i = 0; i < count_; ++i) {
      for (int32_t before : nodes_[i].after) {
        const auto b = static_cast<size_t>(before);
        head_[i] = std::max(head_[i], head_[b] + nodes_[b].seconds);
      }
    }
    for (size_t i = count_; i-- > 0;) {
      tail_[i] += nodes_[i].seconds;
      for (int32_t before : nodes_[i].after) {
        double& tail = tail_[static_cast<size_t>(before)];
        tail = std::max(tail, tail_[i]);
      }
    }
  }

  // Of ready nodes of one trip the one of the lowest rank goes first.
  void RankNodes() {
    by_rank_.resize(count_);
    std::iota(by_rank_.begin(), by_rank_.end(), uint32_t{0});
    if (!in_order_) {
      std::sort(by_rank_.begin(), by_rank_.end(), [&](uint32_t a, uint32_t b) {
        if (tail_[a] != tail_[b]) return tail_[a] > tail_[b];
        // Of equals, what is near the start, wherever it stands in the text.
        return head_[a] != head_[b] ? head_[a] < head_[b] : a < b;
      });
    }
    rank_.resize(count_);
    for (uint32_t rank = 0; rank < count_; ++rank) rank_[by_rank_[rank]] = rank;
  }

  // Of two ready instances the one of the smaller key goes first: what only collectives wait for (a
  // slice of the next weights) before all else, then earlier trips.
  uint64_t KeyOf(size_t instance) const {
    const size_t node = NodeOf(instance);
    const uint64_t comes_later = in_order_ || !feeds_collectives_[node] ? 1 : 0;
    return comes_later << 40 | static_cast<uint64_t>(CopyOf(instance)) << 32 | rank_[node];
  }
  size_t InstanceOf(uint64_t key) const {
    return Instance(static_cast<int>(key >> 32 & 0xFF), by_rank_[key & UINT32_MAX]);
  }

  void Connect() {
    const size_t total = count_ * static_cast<size_t>(copies_);
    users_ = WaitingNodes(nodes_, &ScheduleNode::after);
    next_users_ = WaitingNodes(nodes_, &ScheduleNode::after_previous);
    waits_for_.resize(total);
    start_.assign(total, 0);
    end_.assign(total, 0);
    ready_at_.assign(total, 0);
    waited_for_.assign(total, kNothing);
    is_ready_.assign(total, false);
    finished_of_copy_.assign(static_cast<size_t>(copies_), 0);
    for (size_t i = 0; i < count_; ++i) {
      for (int copy = 0; copy < copies_; ++copy) {
        waits_for_[Instance(copy, i)] =
            nodes_[i].after.size() + (copy > 0 ? nodes_[i].after_previous.size() : 0);
      }
    }
  }

  void Ready(size_t instance, double now) {
    if (is_ready_[instance]) return;
    is_ready_[instance] = true;
    ready_at_[instance] = now;
    const ScheduleNode& node = nodes_[NodeOf(instance)];
    if (node.seconds <= 0 && node.links == 0) {  // takes no time and no stream
      start_[instance] = end_[instance] = now;
      instant_.push_back(instance);
      return;
    }
    (node.on_compute ? ready_compute_ : ReadyOn(node.links)).push(KeyOf(instance));
  }

  KeyQueue& ReadyOn(uint32_t links) {
    for (ReadyLinks& ready : ready_links_) {
      if (ready.links == links) return ready.keys;
    }
    ready_links_.push_back({links, {}});
    return ready_links_.back().keys;
  }
  // The one with the first of all instances whose links are free, or null.
  KeyQueue* NextOnFreeLinks() {
    KeyQueue* next = nullptr;
    for (ReadyLinks& ready : ready_links_) {
      const bool may_start = !ready.keys.empty() && LinksFree(ready.links);
      if (may_start && (next == nullptr || ready.keys.top() < next->top())) next = &ready.keys;
    }
    return next;
  }

  bool LinksFree(uint32_t links) const { return (links & links_busy_) == 0; }

  void Start(size_t instance, double now) {
    const ScheduleNode& node = nodes_[NodeOf(instance)];
    start_[instance] = now;
    // It waited for the stream, if it was ready before.
    if (ready_at_[instance] < now) {
      size_t before = node.on_compute ? last_compute_ : last_link_;
      if (before != kNothing) waited_for_[instance] = before;
    }
    links_busy_ |= node.links;
    if (node.on_compute) {
      compute_ = instance;
      compute_left_ = node.seconds;
      last_compute_ = instance;
      computed_.push_back(instance);
    } else {
      last_link_ = instance;
      end_[instance] = now + node.seconds;
      running_.push({end_[instance], instance});
      if (node.links != 0) ++collectives_aside_;
    }
  }

  // Of compute, while collectives take some of its units.
  double Rate() const { return collectives_aside_ > 0 ? slow_rate_ : 1; }

  void FinishCompute(double now) {
    const size_t done = compute_;
    compute_ = kNothing;
    end_[done] = now;
    if (nodes_[NodeOf(done)].is_stall) stalls_.push_back({done, start_[done], now});
    Finish(done, now);
  }

  // All that can start, and what can once those have that take no time.
  void StartReady(double now) {
    while (StartAll(now)) {
    }
  }

  bool StartAll(double now) {
    bool any = false;
    while (!instant_.empty()) {
      size_t done = instant_.back();
      instant_.pop_back();
      Finish(done, now);
      any = true;
    }
    while (KeyQueue* ready = NextOnFreeLinks()) {
      const size_t next = InstanceOf(ready->top());
      ready->pop();
      Start(next, now);
      any = true;
    }
    while (compute_ == kNothing && !ready_compute_.empty()) {
      const size_t next = InstanceOf(ready_compute_.top());
      if (!LinksFree(nodes_[NodeOf(next)].links)) break;
      if (in_order_) {
        if (!IsNextInOrder(next)) break;
        ++next_in_order_;
      }
      ready_compute_.pop();
      Start(next, now);
      any = true;
    }
    return any;
  }

  // In text order: all compute nodes before it, of its trip, have started.
  bool IsNextInOrder(size_t instance) {
    while (next_in_order_ < start_.size() && (!nodes_[NodeOf(next_in_order_)].on_compute ||
                                              (nodes_[NodeOf(next_in_order_)].seconds <= 0 &&
                                               nodes_[NodeOf(next_in_order_)].links == 0))) {
      ++next_in_order_;
    }
    return instance == next_in_order_;
  }

  void Finish(size_t instance, double now) {
    const size_t node = NodeOf(instance);
    const int copy = CopyOf(instance);
    links_busy_ &= ~nodes_[node].links;
    ++finished_;
    if (++finished_of_copy_[static_cast<size_t>(copy)] == count_ &&
        copy + kTripsInFlight < copies_) {
      for (size_t i = 0; i < count_; ++i) {
        size_t opened = Instance(copy + kTripsInFlight, i);
        if (waits_for_[opened] == 0) Ready(opened, now);
      }
    }
    auto release = [&](size_t user) {
      if (--waits_for_[user] > 0) return;
      waited_for_[user] = nodes_[node].seconds > 0 ? instance : waited_for_[instance];
      if (IsOpen(CopyOf(user))) Ready(user, now);
    };
    for (int32_t user : users_.For(node)) release(Instance(copy, static_cast<size_t>(user)));
    if (copy + 1 < copies_) {
      for (int32_t user : next_users_.For(node))
        release(Instance(copy + 1, static_cast<size_t>(user)));
    }
  }

  const std::vector<ScheduleNode>& nodes_;
  const size_t count_;
  const int copies_;
  const bool in_order_;
  std::vector<double> tail_, head_;  // per node: longest path to the end, with it; from the start
  std::vector<bool> feeds_collectives_;   // per node: its only users
  std::vector<uint32_t> rank_, by_rank_;  // of nodes; nodes
  WaitingNodes users_, next_users_;
  // Per instance (copy * count + node).
  std::vector<size_t> waits_for_, waited_for_;
  std::vector<double> start_, end_, ready_at_;
  std::vector<bool> is_ready_;
  std::vector<size_t> finished_of_copy_;
  std::vector<size_t> computed_;  // instances on the compute stream, in order
  std::vector<Stall> stalls_;
  KeyQueue ready_compute_;
  std::vector<ReadyLinks> ready_links_;  // each of other links
  std::priority_queue<std::pair<double, size_t>, std::vector<std::pair<double, size_t>>,
                      std::greater<>>
      running_;
  std::vector<size_t> instant_;
  size_t finished_ = 0, next_in_order_ = 0;
  size_t last_compute_ = kNothing, last_link_ = kNothing;
  size_t compute_ = kNothing;  // that runs
  double compute_left_ = 0;    // seconds of it, at full rate
  int collectives_aside_ = 0;
  const double slow_rate_;
  uint32_t links_busy_ = 0;
};

// `trips` more of a loop, each as long as the steady ones.
void AddSteadyTrips(const Simulation& simulation, const std::vector<ScheduleNode>& nodes,
                    double trips, Schedule& schedule) {
  double busy = 0, slowest_link = 0;
  std::map<uint32_t, double> links;
  for (const ScheduleNode& node : nodes) {
    if (node.on_compute && !node.is_stall) busy += node.seconds;
    if (!node.on_compute && node.links != 0) links[node.links] += node.seconds;
  }
  for (const auto& [stream, seconds] : links) slowest_link = std::max(slowest_link, seconds);
  const double from = simulation.ComputeEnd(kFirstSteady), to = simulation.ComputeEnd(kLastSteady);
  const double period = std::max({(to - from) / (kLastSteady - kFirstSteady), busy, slowest_link});
  schedule.seconds += trips * period;
  // Waits there, in the proportions of the window.
  std::vector<double> exposed(nodes.size());
  simulation.AddExposed(from, to, 1, exposed);
  double sum = std::accumulate(exposed.begin(), exposed.end(), 0.0);
  const double target = trips * (period - busy);
  if (sum <= 0) {  // links that cannot keep up: shared by how long each node takes
    for (size_t i = 0; i < nodes.size(); ++i)
      exposed[i] = nodes[i].on_compute ? 0 : nodes[i].seconds;
    sum = std::accumulate(exposed.begin(), exposed.end(), 0.0);
  }
  if (sum <= 0) return;
  for (size_t i = 0; i < nodes.size(); ++i) schedule.exposed_s[i] += exposed[i] * target / sum;
}

}  // namespace

WaitingNodes::WaitingNodes(const std::vector<ScheduleNode>& nodes,
                           std::vector<int32_t> ScheduleNode::*list) {
  begin_.resize(nodes.size() + 1);
  for (const ScheduleNode& node : nodes) {
    for (const int32_t before : node.*list) ++begin_[static_cast<size_t>(before) + 1];
  }
  std::partial_sum(begin_.begin(), begin_.end(), begin_.begin());
  waiting_.resize(begin_.back());
  std::vector<size_t> next(begin_.begin(), begin_.end() - 1);
  for (size_t i = 0; i < nodes.size(); ++i) {
    for (const int32_t before : nodes[i].*list) {
      waiting_[next[static_cast<size_t>(before)]++] = static_cast<int32_t>(i);
    }
  }
}

Schedule Simulate(const std::vector<ScheduleNode>& nodes, double trips, bool in_order,
                  double compute_share) {
  Schedule schedule;
  schedule.exposed_s.assign(nodes.size(), 0);
  if (nodes.empty() || trips < 1) return schedule;
  const int copies = static_cast<int>(std::min<double>(trips, kSimulatedTrips));
  Simulation simulation(nodes, copies, in_order, compute_share);
  simulation.Run();
  schedule.seconds = simulation.End();
  simulation.AddExposed(0, schedule.seconds, 1, schedule.exposed_s);
  if (trips > copies) AddSteadyTrips(simulation, nodes, trips - copies, schedule);
  schedule.events = simulation.EventsOf(copies > 1 ? 1 : 0);
  return schedule;
}

}  // namespace gshard
