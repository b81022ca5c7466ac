// Minimum cuts of small directed graphs: Dinic's algorithm (1970), O(V^2 E).
#ifndef GSHARD_CORE_PIPELINE_PLAN_MINIMUM_CUT_H_
#define GSHARD_CORE_PIPELINE_PLAN_MINIMUM_CUT_H_

#include <cstdint>
#include <vector>

namespace gshard::pipeline {

class FlowNetwork {
 public:
  static constexpr int64_t kUncuttable = int64_t{1} << 60;

  int AddNode() {
    edges_.emplace_back();
    return static_cast<int>(edges_.size()) - 1;
  }
  void AddEdge(int from, int to, int64_t capacity);

  // By node: on the source's side of the minimum cut that is nearest the source. Once only.
  std::vector<bool> SourceSide(int source, int sink);
  // After SourceSide: does a path of uncuttable edges join source and sink, so that there is no cut?
  bool IsUncuttable() const { return flow_ >= kUncuttable; }

 private:
  struct Edge {
    int to;
    size_t reverse;  // index into edges_[to]
    int64_t capacity;
  };
  bool FindLevels(int source, int sink);
  int64_t Augment(int node, int sink, int64_t most);

  std::vector<std::vector<Edge>> edges_;  // by node
  std::vector<int> level_;
  int64_t flow_ = 0;
  std::vector<size_t> next_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_MINIMUM_CUT_H_
