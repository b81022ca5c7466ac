// See unrolled_step.h.

#include "core/report/trace/unrolled_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>

#include "core/cost/branched_loop.h"
#include "ir/compiled_text.h"

namespace gshard {
namespace {

constexpr size_t kMaxNodes = size_t{1} << 20;   // what Chakra's feeder holds at a time
constexpr size_t kMaxVisits = size_t{1} << 26;  // nodes that take no time included
constexpr size_t kMaxEnds = 8;                  // of more, a node joins them

size_t GroupOf(const BranchedLoop& loop, int64_t device) {
  for (size_t group = 0; group < loop.values.groups.size(); ++group) {
    const std::vector<int64_t>& members = loop.values.groups[group];
    if (std::binary_search(members.begin(), members.end(), device)) return group;
  }
  return 0;
}

class Unroller {
 public:
  Unroller(const PricedStep& priced, int64_t device) : device_(device) {
    for (const auto& loop : priced.model->branched_loops()) branched_[loop->loop] = loop.get();
  }

  // False if there are too many nodes.
  bool Run(const ComputationCost& entry) {
    AddTrip(entry, {}, nullptr, nullptr, 0);
    return !too_many_;
  }
  std::vector<UnrolledNode> Take() { return std::move(nodes_); }

 private:
  using Nodes = std::vector<uint32_t>;

  Nodes AddNode(const StepNode* step, double seconds, const Nodes& after) {
    if (nodes_.size() >= kMaxNodes) {
      too_many_ = true;
      return {};
    }
    UnrolledNode node;
    node.step = step;
    node.seconds = seconds;
    node.after = after;
    if (step != nullptr) node.execution = executions_[step->instruction]++;
    for (uint32_t before : after) has_user_[before] = true;
    nodes_.push_back(std::move(node));
    has_user_.push_back(false);
    return {static_cast<uint32_t>(nodes_.size() - 1)};
  }

  Nodes Joined(Nodes nodes) {
    std::sort(nodes.begin(), nodes.end());
    nodes.erase(std::unique(nodes.begin(), nodes.end()), nodes.end());
    return nodes.size() > kMaxEnds ? AddNode(nullptr, 0, nodes) : nodes;
  }

  // Of the nodes since `begin`, those that no other waits for; `entry` if there are none.
  Nodes EndsSince(size_t begin, const Nodes& entry) {
    Nodes ends;
    for (size_t i = begin; i < nodes_.size(); ++i) {
      if (!has_user_[i]) ends.push_back(static_cast<uint32_t>(i));
    }
    return nodes_.size() == begin ? entry : Joined(std::move(ends));
  }

  // One trip. `done`: what stands for each node of the trip before, and then of this one; may be
  // null. `loop`: the branched loop whose body it is, or null.
  void AddTrip(const ComputationCost& cost, const Nodes& entry, std::vector<Nodes>* done,
               const BranchedLoop* loop, int64_t trip) {
    std::vector<Nodes> now(cost.steps.size());
    for (size_t i = 0; i < cost.steps.size() && !too_many_; ++i) {
      if (++visits_ > kMaxVisits) too_many_ = true;
      const ScheduleNode& node = cost.nodes[i];
      Nodes needs;
      auto add = [&](const Nodes& more) { needs.insert(needs.end(), more.begin(), more.end()); };
      for (int32_t before : node.after) add(now[static_cast<size_t>(before)]);
      if (done != nullptr && !done->empty()) {
        for (int32_t before : node.after_previous) add((*done)[static_cast<size_t>(before)]);
      }
      if (needs.empty()) add(entry);
      now[i] = AddStep(cost.steps[i], node.seconds, Joined(std::move(needs)), loop, trip);
    }
    if (done != nullptr) *done = std::move(now);
  }

  Nodes AddStep(const StepNode& step, double seconds, const Nodes& needs, const BranchedLoop* loop,
                int64_t trip) {
    switch (step.kind) {
      case StepNode::Kind::kLoop:
        return AddLoop(step, needs);
      case StepNode::Kind::kCallee:
        return AddCallee(step, needs, loop, trip);
      case StepNode::Kind::kKernel:
        if (step.work.flops == 0 && step.work.is_scalar) return needs;
        break;
      case StepNode::Kind::kCollective:
      case StepNode::Kind::kCopy:
        break;
    }
    return AddNode(&step, seconds, needs);
  }

  Nodes AddLoop(const StepNode& step, const Nodes& entry) {
    const size_t begin = nodes_.size();
    const auto known = branched_.find(step.instruction);
    const BranchedLoop* loop = known == branched_.end() ? nullptr : known->second;
    const ComputationCost& condition = *step.callees[0].first;
    const int64_t trips = std::llround(step.callees[0].second) - 1;
    Nodes checked = entry;
    std::vector<Nodes> done;
    for (int64_t trip = 0; trip <= trips && !too_many_; ++trip) {
      const size_t check = nodes_.size();
      AddTrip(condition, checked, nullptr, nullptr, 0);
      checked = EndsSince(check, checked);
      if (trip < trips) AddTrip(*step.callees[1].first, entry, &done, loop, trip);
    }
    return EndsSince(begin, entry);
  }

  Nodes AddCallee(const StepNode& step, const Nodes& entry, const BranchedLoop* loop,
                  int64_t trip) {
    const size_t begin = nodes_.size();
    const ComputationCost* callee = step.callees.empty() ? nullptr : step.callees[0].first;
    if (step.slowest != nullptr) callee = TakenBranch(step, loop, trip);
    if (callee != nullptr) AddTrip(*callee, entry, nullptr, nullptr, 0);
    return EndsSince(begin, entry);
  }

  // Null: the device idles.
  const ComputationCost* TakenBranch(const StepNode& step, const BranchedLoop* loop, int64_t trip) {
    if (loop == nullptr) return step.slowest;
    for (size_t k = 0; k < loop->ticks.size(); ++k) {
      if (loop->ticks[k].conditional != step.instruction) continue;
      const int64_t tick =
          trip * static_cast<int64_t>(loop->ticks.size()) + static_cast<int64_t>(k);
      const size_t branch = loop->BranchAt(tick, GroupOf(*loop, device_));
      return loop->is_idle[branch] ? nullptr : loop->branches[branch];
    }
    return step.slowest;
  }

  int64_t device_;
  std::unordered_map<const Instruction*, const BranchedLoop*> branched_;
  std::unordered_map<const Instruction*, int64_t> executions_;
  std::vector<UnrolledNode> nodes_;
  std::vector<bool> has_user_;  // by node
  size_t visits_ = 0;
  bool too_many_ = false;
};

}  // namespace

const Instruction* UnrolledNode::Collective() const {
  if (step == nullptr || step->kind != StepNode::Kind::kCollective) return nullptr;
  return CollectiveOf(step->instruction);
}

Expected<std::vector<UnrolledStep>> UnrollStep(const PricedStep& priced) {
  std::map<std::vector<size_t>, std::vector<uint32_t>> classes;
  for (int64_t device = 0; device < priced.devices; ++device) {
    std::vector<size_t> groups;
    for (const auto& loop : priced.model->branched_loops()) {
      groups.push_back(GroupOf(*loop, device));
    }
    classes[groups].push_back(static_cast<uint32_t>(device));
  }
  std::vector<UnrolledStep> steps;
  for (auto& [groups, devices] : classes) {
    Unroller unroller(priced, devices.front());
    if (!unroller.Run(*priced.entry)) {
      return Fail(MakeError(
          "E-TRACE-001",
          fmt::format("a device runs more than {} kernels and collectives in a step", kMaxNodes),
          "a trace has each of them by itself: take a step with fewer layers or trips"));
    }
    steps.push_back({std::move(devices), unroller.Take()});
  }
  return steps;
}

}  // namespace gshard
