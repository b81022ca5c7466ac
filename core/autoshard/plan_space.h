// The space that automatic sharding searches: groups of tensors, and the cuts that each may have.
//
// A group is the parameters, the inputs, the results of dots and convolutions, or the results of
// operations that propagation gives no sharding, whose dims have the same names and sizes
// (dim_names.h): the same weight of all layers, the hidden activations of all layers. All its
// members are cut alike. A cut gives each mesh axis a dim of the tensor, or
// none; where no annotation is put, propagation decides.
//
// A space may be read by many threads: it holds instruction ids, which are the same in every
// thread's copy of the program because all parse the same text, and no shardings.
#ifndef GSHARD_CORE_AUTOSHARD_PLAN_SPACE_H_
#define GSHARD_CORE_AUTOSHARD_PLAN_SPACE_H_

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "core/autoshard/dim_names.h"
#include "ir/mesh.h"
#include "ir/module.h"

namespace gshard::autoshard {

// By mesh axis: the dim that it cuts, or -1: the tensor is replicated along it.
using Cut = std::vector<int>;

enum class GroupKind : uint8_t {
  kState,    // parameters that the program returns updated: weights, optimizer state
  kInput,    // other parameters: batches, or the weights of an inference step
  kProduct,  // results of dots and convolutions
  kResult,   // of other operations: propagation gives them no sharding, but their dims may be cut
  kWritten,  // what else the user's text annotates: that annotation, or none
};

inline bool IsParameter(GroupKind kind) {
  return kind == GroupKind::kState || kind == GroupKind::kInput;
}
// Results of operations, which may be padded.
inline bool IsComputed(GroupKind kind) {
  return kind == GroupKind::kProduct || kind == GroupKind::kResult;
}
// "weights", "inputs", "products", "results", "annotated".
std::string_view GroupName(GroupKind kind);

struct Group {
  GroupKind kind = GroupKind::kInput;
  const Shape* shape = nullptr;   // of each member; of the module's context
  std::vector<int> names;         // by dim
  std::vector<uint32_t> members;  // instruction ids
  double bytes = 0;               // of all members, whole
  // Number 0: no annotation. Cuts of computed values may pad a dim by up to half; others divide
  // evenly.
  std::vector<std::optional<Cut>> options;
};

// A choice for every group: an index into its options, or kAsWritten.
struct Plan {
  static constexpr int kAsWritten = -1;  // as the user's text has it
  std::vector<int> choices;
  bool cuts_weight_updates = false;  // ZeRO (core/transforms/weight_update_sharding.h)
  bool operator==(const Plan&) const = default;
};

class PlanSpace {
 public:
  // `module` is what plans are put on: without calls. Instructions that it annotates are fixed.
  // `written`: by instruction id, what else the user's text annotates; null: nothing.
  PlanSpace(const Module& module, const std::vector<const Sharding*>& written,
            const std::vector<MeshAxis>& mesh);

  const std::vector<Group>& groups() const { return groups_; }
  const std::vector<MeshAxis>& mesh() const { return mesh_; }
  int name_count() const { return names_.count(); }
  // Names that some cut of some group cuts, the heaviest first: by bytes of state and inputs.
  const std::vector<int>& cuttable_names() const { return cuttable_; }
  // The names of examples: the first dims of inputs of integers, such as tokens; without any, of
  // all inputs of a step that returns weights.
  const std::set<int>& example_names() const { return examples_; }
  // The names of experts: batch dims of products of a weight and activations, as Mixture-of-Experts
  // layers have them (GShard, arXiv 2006.16668, section 2.2).
  const std::set<int>& expert_names() const { return experts_; }
  // Groups of which options were left out because there were too many.
  int64_t shortened_groups() const { return shortened_; }

  // The plan without annotations.
  Plan EmptyPlan() const { return {std::vector<int>(groups_.size(), 0), false}; }
  // The option of a group that is this cut; nothing if it does not divide.
  std::optional<int> OptionOf(size_t group, const Cut& cut) const;
  // Returns the number of instructions that a plan annotates.
  int64_t AnnotationsOf(const Plan& plan) const;
  // Groups of which one's members are operands of the other's, in pairs, each once.
  const std::vector<std::pair<size_t, size_t>>& neighbours() const { return neighbours_; }

 private:
  void AddMember(const Instruction* x, GroupKind kind);
  void AddOptions(Group& group);
  std::vector<int> NamesOf(const Instruction* array) const;  // by dim
  void FindExamples();
  void FindExperts(const Module& module);
  void FindNeighbours(const Module& module);

  std::vector<MeshAxis> mesh_;
  DimNames names_;
  std::vector<Group> groups_;
  std::vector<int> cuttable_;
  std::set<int> examples_, experts_;
  std::vector<std::pair<size_t, size_t>> neighbours_;
  int64_t shortened_ = 0;
};

// A mesh of these axes, over the devices in their order.
Mesh MeshOf(const std::vector<MeshAxis>& axes);

// "data,_,data+model", as `gshard-opt annotate` takes it.
std::string SpecText(const std::vector<MeshAxis>& mesh, const Shape* shape, const Cut& cut);
// The axes of each dim, major first: what ShardingByAxes takes.
std::vector<std::vector<int>> AxesByDim(const Shape* shape, const Cut& cut);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PLAN_SPACE_H_
