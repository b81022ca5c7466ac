#include "core/pipeline/plan/minimum_cut.h"

#include <algorithm>

namespace gshard::pipeline {

void FlowNetwork::AddEdge(int from, int to, int64_t capacity) {
  std::vector<Edge>& out = edges_[static_cast<size_t>(from)];
  std::vector<Edge>& back = edges_[static_cast<size_t>(to)];
  out.push_back({to, back.size(), capacity});
  back.push_back({from, out.size() - 1, 0});
}

bool FlowNetwork::FindLevels(int source, int sink) {
  level_.assign(edges_.size(), -1);
  std::vector<int> queue = {source};
  level_[static_cast<size_t>(source)] = 0;
  for (size_t i = 0; i < queue.size(); ++i) {
    for (const Edge& edge : edges_[static_cast<size_t>(queue[i])]) {
      int& level = level_[static_cast<size_t>(edge.to)];
      if (edge.capacity <= 0 || level >= 0) continue;
      level = level_[static_cast<size_t>(queue[i])] + 1;
      queue.push_back(edge.to);
    }
  }
  return level_[static_cast<size_t>(sink)] >= 0;
}

// One path of the level graph; depth is the number of levels.
int64_t FlowNetwork::Augment(int node, int sink, int64_t most) {
  if (node == sink) return most;
  const size_t at = static_cast<size_t>(node);
  for (size_t& i = next_[at]; i < edges_[at].size(); ++i) {
    Edge& edge = edges_[at][i];
    if (edge.capacity <= 0 || level_[static_cast<size_t>(edge.to)] != level_[at] + 1) continue;
    int64_t pushed = Augment(edge.to, sink, std::min(most, edge.capacity));
    if (pushed == 0) continue;
    edge.capacity -= pushed;
    edges_[static_cast<size_t>(edge.to)][edge.reverse].capacity += pushed;
    return pushed;
  }
  return 0;
}

std::vector<bool> FlowNetwork::SourceSide(int source, int sink) {
  while (flow_ < kUncuttable && FindLevels(source, sink)) {
    next_.assign(edges_.size(), 0);
    while (int64_t pushed = Augment(source, sink, kUncuttable)) {
      flow_ += pushed;
      if (flow_ >= kUncuttable) break;
    }
  }
  FindLevels(source, sink);
  std::vector<bool> side(edges_.size());
  for (size_t i = 0; i < side.size(); ++i) side[i] = level_[i] >= 0;
  return side;
}

}  // namespace gshard::pipeline
