// Memory-minimising orders. See memory_schedule.h.

#include "core/cost/memory/memory_schedule.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <queue>
#include <unordered_map>

#include "ir/op_traits.h"

namespace gshard {
namespace {

// What every order needs to know.
struct ScheduleInput {
  const BufferGraph& graph;
  AdjacencyLists successors;
  std::vector<bool> freeable;       // by buffer
  std::vector<int64_t> allocation;  // by node: bytes of its results

  ScheduleInput(const BufferGraph& g, const CallContext& context)
      : graph(g), successors(Reversed(g.predecessors)), freeable(g.buffers.size(), true) {
    for (size_t i = 0; i < g.parameter_leaves.size(); ++i) {
      if (context.parameters[i] != Ownership::kOwned) freeable[g.parameter_leaves[i]] = false;
    }
    for (uint32_t buffer : g.root_leaves) freeable[buffer] = false;
    for (uint32_t node = 0; node < g.nodes.size(); ++node) {
      int64_t bytes = 0;
      for (uint32_t buffer : g.allocates[node]) bytes += g.buffers[buffer].bytes;
      allocation.push_back(g.nodes[node]->opcode() == Opcode::kParameter ? 0 : bytes);
    }
  }
};

// Greedy list scheduling. Which node would free a buffer is known in constant time: the XOR of the
// readers that are left is the last reader itself.
class ListScheduler {
 public:
  // Of equal gains those run first that come first in `ties`.
  ListScheduler(const ScheduleInput& input, const Order& ties)
      : input_(input), graph_(input.graph), rank_(ties.size()) {
    for (uint32_t i = 0; i < ties.size(); ++i) rank_[ties[i]] = i;
  }

  Order Run() {
    size_t n = graph_.nodes.size();
    readers_.assign(graph_.buffers.size(), 0);
    reader_xor_.assign(graph_.buffers.size(), 0);
    gain_.resize(n);
    waits_for_.resize(n);
    for (uint32_t node = 0; node < n; ++node) {
      gain_[node] = -input_.allocation[node];
      waits_for_[node] = static_cast<uint32_t>(graph_.predecessors[node].size());
      for (uint32_t buffer : graph_.reads[node]) {
        ++readers_[buffer];
        reader_xor_[buffer] ^= node;
      }
    }
    for (uint32_t buffer = 0; buffer < graph_.buffers.size(); ++buffer) CreditLastReader(buffer);
    for (uint32_t node = 0; node < n; ++node)
      if (waits_for_[node] == 0) Push(node);
    Order order;
    scheduled_.assign(n, false);
    while (!ready_.empty()) {
      Entry entry = ready_.top();
      ready_.pop();
      if (scheduled_[entry.node] || entry.gain != gain_[entry.node]) continue;
      scheduled_[entry.node] = true;
      order.push_back(entry.node);
      Finish(entry.node);
    }
    return order;
  }

 private:
  struct Entry {
    int64_t gain;
    uint32_t rank, node;
    bool operator<(const Entry& other) const {
      return gain != other.gain ? gain < other.gain : rank > other.rank;
    }
  };

  void Push(uint32_t node) { ready_.push({gain_[node], rank_[node], node}); }

  // The node that is the only reader left frees the buffer.
  void CreditLastReader(uint32_t buffer) {
    if (readers_[buffer] != 1 || !input_.freeable[buffer]) return;
    uint32_t node = reader_xor_[buffer];
    gain_[node] += graph_.buffers[buffer].bytes;
    if (waits_for_[node] == 0) Push(node);
  }

  void Finish(uint32_t node) {
    for (uint32_t buffer : graph_.reads[node]) {
      --readers_[buffer];
      reader_xor_[buffer] ^= node;
      CreditLastReader(buffer);
    }
    for (uint32_t successor : input_.successors[node])
      if (--waits_for_[successor] == 0) Push(successor);
  }

  const ScheduleInput& input_;
  const BufferGraph& graph_;
  std::vector<uint32_t> rank_;                  // by node
  std::vector<uint32_t> readers_, reader_xor_;  // by buffer
  std::vector<int64_t> gain_;                   // by node: bytes freed - bytes allocated
  std::vector<uint32_t> waits_for_;
  std::vector<bool> scheduled_;
  std::priority_queue<Entry> ready_;
};

// From the last node up. Nodes that write memory take a step each and give their operands' nodes
// another: those may run two steps before them, or one where nothing else can. Of those that may,
// the end of the longest path runs last.
class LatencyHidingScheduler {
 public:
  // Of equal paths that node runs last that comes last in the text.
  explicit LatencyHidingScheduler(const ScheduleInput& input)
      : input_(input),
        path_(input.graph.nodes.size(), 0),
        may_run_at_(input.graph.nodes.size(), 0),
        users_(input.graph.nodes.size()) {}

  Order Run() {
    const auto count = static_cast<uint32_t>(path_.size());
    for (uint32_t node = 0; node < count; ++node) {
      for (const uint32_t before : input_.graph.predecessors[node]) {
        path_[node] = std::max(path_[node], path_[before]);
      }
      path_[node] += Writes(node) ? 1 : 0;
      users_[node] = static_cast<uint32_t>(input_.successors[node].size());
    }
    Order order;
    for (uint32_t node = count; node-- > 0;) {
      if (users_[node] == 0) Open(node);
    }
    while (!silent_.empty() || !ready_.empty() || !later_.empty()) {
      const uint32_t node = Next();
      order.push_back(node);
      Finish(node);
    }
    std::ranges::reverse(order);
    return order;
  }

 private:
  // The largest first.
  using Queue = std::priority_queue<std::pair<int64_t, uint32_t>>;

  bool Writes(uint32_t node) const { return input_.allocation[node] > 0; }

  void Open(uint32_t node) {
    if (!Writes(node)) {
      silent_.push(node);
    } else if (may_run_at_[node] <= step_) {
      ready_.push({path_[node], node});
    } else {
      later_.push({-may_run_at_[node], node});
    }
  }

  uint32_t Next() {
    if (!silent_.empty()) {
      const uint32_t node = silent_.top();
      silent_.pop();
      return node;
    }
    if (ready_.empty()) step_ = -later_.top().first;
    while (!later_.empty() && -later_.top().first <= step_) {
      const uint32_t node = later_.top().second;
      later_.pop();
      ready_.push({path_[node], node});
    }
    const uint32_t node = ready_.top().second;
    ready_.pop();
    ++step_;
    return node;
  }

  void Finish(uint32_t node) {
    const int64_t from = Writes(node) ? step_ + 1 : may_run_at_[node];
    for (const uint32_t before : input_.graph.predecessors[node]) {
      may_run_at_[before] = std::max(may_run_at_[before], from);
      if (--users_[before] == 0) Open(before);
    }
  }

  const ScheduleInput& input_;
  std::vector<int64_t> path_;        // by node: the longest from the start, in nodes that write
  std::vector<int64_t> may_run_at_;  // by node: the step, counted from the end
  std::vector<uint32_t> users_;      // by node: those that have no step yet
  std::priority_queue<uint32_t> silent_;  // they write nothing: at once, the last of the text first
  Queue ready_, later_;                   // by path, and by step
  int64_t step_ = 0;
};

// Depth first from the root, the operand that needs most memory first.
class DepthFirstScheduler {
 public:
  // `any_order`: in which each node comes after those that it waits for.
  DepthFirstScheduler(const ScheduleInput& input, const Order& any_order)
      : input_(input), graph_(input.graph), any_order_(any_order) {}

  Order Run() {
    size_t n = graph_.nodes.size();
    need_.resize(n);
    list_of_.resize(n);
    for (uint32_t node : any_order_) AddNeed(node);
    visited_.assign(n, false);
    // What nothing reads comes where it stands in the text; the root is such a node.
    for (uint32_t node = 0; node < n; ++node)
      if (input_.successors[node].empty()) Visit(node);
    return std::move(order_);
  }

 private:
  // Sethi-Ullman numbers, as if the graph were a tree.
  void AddNeed(uint32_t node) {
    operands_.assign(graph_.predecessors[node].begin(), graph_.predecessors[node].end());
    if (operands_.size() > 1) {
      std::stable_sort(operands_.begin(), operands_.end(), [&](uint32_t a, uint32_t b) {
        return need_[a] - input_.allocation[a] > need_[b] - input_.allocation[b];
      });
    }
    int64_t held = 0, need = 0;
    for (uint32_t operand : operands_) {
      need = std::max(need, held + need_[operand]);
      held += input_.allocation[operand];
      sorted_.Append(operand);
    }
    list_of_[node] = static_cast<uint32_t>(sorted_.size());
    sorted_.EndList();
    need_[node] = std::max(need, held + input_.allocation[node]);
  }

  void Visit(uint32_t root) {
    struct Frame {
      uint32_t node;
      size_t next;
    };
    std::vector<Frame> stack;
    if (!visited_[root]) stack.push_back({root, 0});
    visited_[root] = true;
    while (!stack.empty()) {
      Frame& frame = stack.back();
      const std::span<const uint32_t> operands = sorted_[list_of_[frame.node]];
      if (frame.next == operands.size()) {
        order_.push_back(frame.node);
        stack.pop_back();
        continue;
      }
      uint32_t operand = operands[frame.next++];
      if (visited_[operand]) continue;
      visited_[operand] = true;
      stack.push_back({operand, 0});
    }
  }

  const ScheduleInput& input_;
  const BufferGraph& graph_;
  const Order& any_order_;
  std::vector<int64_t> need_;       // by node
  AdjacencyLists sorted_;           // operands by need, in any_order
  std::vector<uint32_t> list_of_;   // by node: in sorted_
  std::vector<uint32_t> operands_;  // of the node at hand
  std::vector<bool> visited_;
  Order order_;
};

// By collective of several operands, these, the deepest first: others were joined to it in the
// order of the text.
using JoinedOperands = std::unordered_map<uint32_t, std::vector<uint32_t>>;

JoinedOperands OperandsOfJoined(const BufferGraph& graph) {
  JoinedOperands joined;
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
    const auto before = graph.predecessors[node];
    if (before.size() > 1 && IsCollective(graph.nodes[node]->opcode()))
      joined[node].assign(before.begin(), before.end());
  }
  if (joined.empty()) return joined;
  std::vector<uint32_t> depth(graph.nodes.size(), 0);
  for (uint32_t node = 0; node < graph.nodes.size(); ++node) {
    for (const uint32_t before : graph.predecessors[node])
      depth[node] = std::max(depth[node], depth[before] + 1);
    const auto sorted = joined.find(node);
    if (sorted != joined.end())
      std::ranges::stable_sort(sorted->second, std::greater(),
                               [&](uint32_t x) { return depth[x]; });
  }
  return joined;
}

// Operands before their users, in the order of operands: those of the root first, then of whatever
// else nothing reads.
Order PostOrder(const ScheduleInput& input) {
  const BufferGraph& graph = input.graph;
  const JoinedOperands joined = OperandsOfJoined(graph);
  const auto operands_of = [&](uint32_t node) {
    const auto sorted = joined.find(node);
    return sorted != joined.end() ? std::span<const uint32_t>(sorted->second)
                                  : graph.predecessors[node];
  };
  struct Frame {
    uint32_t node;
    size_t left;  // operands that were not looked at; a graph has a node's last operand first
  };
  std::vector<bool> visited(graph.nodes.size(), false);
  std::vector<Frame> stack;
  Order order;
  const auto enter = [&](uint32_t node) {
    if (visited[node]) return;
    visited[node] = true;
    stack.push_back({node, operands_of(node).size()});
  };
  const auto visit = [&](uint32_t last) {
    enter(last);
    while (!stack.empty()) {
      Frame& frame = stack.back();
      if (frame.left > 0) {
        enter(operands_of(frame.node)[--frame.left]);
      } else {
        order.push_back(frame.node);
        stack.pop_back();
      }
    }
  };
  const auto root = std::ranges::find(graph.nodes, graph.computation->root());
  if (root != graph.nodes.end()) visit(static_cast<uint32_t>(root - graph.nodes.begin()));
  for (uint32_t node = 0; node < graph.nodes.size(); ++node)
    if (input.successors[node].empty()) visit(node);
  return order;
}

// Moves nodes that free nothing down to their first user: broadcasts, constants, copies.
Order SinkToUsers(const ScheduleInput& input, const Order& order) {
  const BufferGraph& graph = input.graph;
  auto end = static_cast<uint32_t>(order.size());
  std::vector<uint32_t> last_use(graph.buffers.size(), 0), place(order.size());
  for (uint32_t step = 0; step < end; ++step) {
    for (uint32_t buffer : graph.reads[order[step]]) last_use[buffer] = step;
  }
  for (uint32_t step = end; step-- > 0;) {
    uint32_t node = order[step];
    place[node] = step;
    std::span<const uint32_t> users = input.successors[node];
    if (users.empty() || graph.nodes[node]->opcode() == Opcode::kParameter) continue;
    uint32_t target = end;
    for (uint32_t user : users) target = std::min(target, place[user]);
    int64_t held = 0;  // bytes that would be held longer
    for (uint32_t buffer : graph.reads[node]) {
      if (input.freeable[buffer] && last_use[buffer] < target) held += graph.buffers[buffer].bytes;
    }
    if (held > 0 && held >= input.allocation[node]) continue;
    place[node] = target;
    for (uint32_t buffer : graph.reads[node]) last_use[buffer] = std::max(last_use[buffer], target);
  }
  // By place, nodes of one place as they stood: a place is one of the steps.
  std::vector<uint32_t> next(order.size() + 1, 0);
  for (const uint32_t node : order) ++next[place[node] + 1];
  std::partial_sum(next.begin(), next.end(), next.begin());
  Order sunk(order.size());
  for (const uint32_t node : order) sunk[next[place[node]]++] = node;
  return sunk;
}

// What starts early, in front.
void StartEarly(const BufferGraph& graph, Order& order) {
  if (graph.starts_early.empty()) return;
  std::ranges::stable_partition(order, [&](uint32_t node) { return graph.starts_early[node]; });
}

MemorySchedule Scheduled(const BufferGraph& graph, Order order, const CallContext& context) {
  CheckInternal(order.size() == graph.nodes.size(), "a schedule lost instructions");
  Liveness liveness = ComputeLiveness(graph, order, context);
  return {std::move(order), std::move(liveness)};
}

// The one with the least peak, the first of equal ones.
MemorySchedule BestOf(const BufferGraph& graph, std::vector<Order> orders,
                      const CallContext& context) {
  MemorySchedule best;
  best.liveness.peak_bytes = INT64_MAX;
  for (size_t i = 0; i < orders.size(); ++i) {
    StartEarly(graph, orders[i]);
    const auto before = orders.begin() + static_cast<int64_t>(i);
    if (std::find(orders.begin(), before, orders[i]) != before) continue;
    MemorySchedule schedule = Scheduled(graph, orders[i], context);
    if (schedule.liveness.peak_bytes < best.liveness.peak_bytes) best = std::move(schedule);
  }
  return best;
}

}  // namespace

Order TextOrder(const BufferGraph& graph) {
  Order order(graph.nodes.size());
  std::iota(order.begin(), order.end(), 0U);
  return order;
}

MemorySchedule MinimizeMemory(const BufferGraph& graph, const CallContext& context) {
  const ScheduleInput input(graph, context);
  Order text = TextOrder(graph);
  std::vector<Order> orders = {text, SinkToUsers(input, text)};
  for (Order order : {ListScheduler(input, text).Run(), DepthFirstScheduler(input, text).Run()}) {
    orders.push_back(SinkToUsers(input, order));
    orders.push_back(std::move(order));
  }
  return BestOf(graph, std::move(orders), context);
}

MemorySchedule ScheduleForTpu(const BufferGraph& graph, const CallContext& context) {
  const ScheduleInput input(graph, context);
  Order post_order = PostOrder(input);
  Order list = ListScheduler(input, post_order).Run();
  Order depth_first = DepthFirstScheduler(input, post_order).Run();
  return BestOf(graph, {std::move(list), std::move(depth_first), std::move(post_order)}, context);
}

MemorySchedule ScheduleForGpu(const BufferGraph& graph, const CallContext& context) {
  const ScheduleInput input(graph, context);
  return BestOf(graph, {LatencyHidingScheduler(input).Run()}, context);
}

}  // namespace gshard
