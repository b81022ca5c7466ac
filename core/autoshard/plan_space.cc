// See plan_space.h.

#include "core/autoshard/plan_space.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "core/op_dims/dim_relation.h"
#include "core/propagation/rule_summary.h"
#include "ir/dims.h"
#include "ir/op_traits.h"
#include "ir/opcode.h"

namespace gshard::autoshard {
namespace {

// Of one group: more are shortened to those that cut most.
constexpr size_t kMaxOptions = 64;

// Entry parameters from which a result is made by elementwise operations alone, or whose memory a
// result takes: what a training step updates, and the caches of a decoding step.
std::unordered_set<const Instruction*> UpdatedParameters(const Module& module) {
  const Computation& entry = *module.entry();
  std::unordered_set<const Instruction*> updated, seen;
  for (const ModuleHeader::Alias& alias : module.header().input_output_alias) {
    if (alias.parameter >= 0 && alias.parameter < entry.parameter_count()) {
      updated.insert(entry.parameter(alias.parameter));
    }
  }
  std::vector<const Instruction*> list;
  const Instruction* root = entry.root();
  if (root->opcode() == Opcode::kTuple) {
    list.assign(root->operands().begin(), root->operands().end());
  } else {
    list.push_back(root);
  }
  const std::unordered_set<const Instruction*> results(list.begin(), list.end());
  for (const ModuleHeader::Donor& donor : module.header().buffer_donor) {
    if (donor.parameter < 0 || donor.parameter >= entry.parameter_count()) continue;
    const Instruction* parameter = entry.parameter(donor.parameter);
    const bool has_result = std::ranges::any_of(list, [&](const Instruction* result) {
      return result->shape()->bare() == parameter->shape()->bare();
    });
    if (has_result && parameter->shape()->IsArray()) updated.insert(parameter);
  }
  while (!list.empty()) {
    const Instruction* x = list.back();
    list.pop_back();
    if (!x->shape()->IsArray() || x->shape()->rank() == 0 || !seen.insert(x).second) continue;
    if (x->opcode() == Opcode::kParameter && !results.contains(x)) updated.insert(x);
    if (!IsElementwise(x->opcode())) continue;
    for (const Instruction* operand : x->operands()) {
      const Shape* shape = operand->shape();
      const bool is_alike =
          shape->IsArray() && std::ranges::equal(shape->dims(), x->shape()->dims());
      if (is_alike) list.push_back(operand);
    }
  }
  return updated;
}

int64_t WaysOf(const std::vector<MeshAxis>& mesh, const Cut& cut, int dim) {
  int64_t ways = 1;
  for (size_t axis = 0; axis < cut.size(); ++axis) {
    if (cut[axis] == dim) ways *= mesh[axis].size;
  }
  return ways;
}

int64_t AllWays(const std::vector<MeshAxis>& mesh, const Cut& cut) {
  int64_t ways = 1;
  for (size_t axis = 0; axis < cut.size(); ++axis) ways *= cut[axis] >= 0 ? mesh[axis].size : 1;
  return ways;
}

// Parameters are cut evenly, as frameworks demand of arguments; computed values may be padded by up
// to half of their size.
bool MayCut(const std::vector<MeshAxis>& mesh, const Group& group, const Cut& cut) {
  for (int64_t d = 0; d < group.shape->rank(); ++d) {
    const int64_t ways = WaysOf(mesh, cut, static_cast<int>(d));
    const int64_t size = group.shape->dim(d);
    if (ways == 1) continue;
    if (size < ways) return false;
    const int64_t padding = (ways - size % ways) % ways;
    if (padding > (IsComputed(group.kind) ? size / 2 : 0)) return false;
  }
  return true;
}

// Does a result get no sharding but what is written on it, although the operation can be computed
// in parts along one of its dims? A batch of FFTs, for example.
bool NeedsAnnotation(const Instruction* x) {
  if (TakesShardings(x->opcode())) return false;
  const DimRelation relation = RelationOf(*x);
  if (!relation.relates) return false;
  const auto may_be_cut = [&](const FactorList& dim) {
    return !dim.empty() && relation.factors[At(dim[0])].kind == FactorKind::kPassThrough;
  };
  return std::ranges::any_of(relation.results[0], may_be_cut);
}

}  // namespace

std::string_view GroupName(GroupKind kind) {
  constexpr std::string_view kNames[] = {"weights", "inputs", "products", "results", "annotated"};
  return kNames[static_cast<size_t>(kind)];
}

PlanSpace::PlanSpace(const Module& module, const std::vector<const Sharding*>& written,
                     const std::vector<MeshAxis>& mesh)
    : mesh_(mesh), names_(module) {
  const auto updated = UpdatedParameters(module);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() != nullptr) continue;  // fixed
      const bool is_array = x->shape()->IsArray() && x->shape()->element_count() > 1;
      if (is_array && computation == module.entry() && x->opcode() == Opcode::kParameter) {
        AddMember(x, updated.contains(x) ? GroupKind::kState : GroupKind::kInput);
      } else if (is_array && IsProduct(x->opcode())) {
        AddMember(x, GroupKind::kProduct);
      } else if (is_array && NeedsAnnotation(x)) {
        AddMember(x, GroupKind::kResult);
      } else if (written[x->id()] != nullptr) {
        AddMember(x, GroupKind::kWritten);
      }
    }
  }
  std::map<int, double> weights;
  for (Group& group : groups_) {
    AddOptions(group);
    if (group.kind == GroupKind::kWritten) continue;
    const double weight = IsComputed(group.kind) ? 0 : group.bytes;
    for (const std::optional<Cut>& option : group.options) {
      if (!option) continue;
      for (const int dim : *option) {
        if (dim >= 0) weights[group.names[At(dim)]] += weight;
      }
    }
  }
  for (const auto& [name, weight] : weights) cuttable_.push_back(name);
  std::stable_sort(cuttable_.begin(), cuttable_.end(),
                   [&](int a, int b) { return weights[a] > weights[b]; });
  FindExamples();
  FindExperts(module);
  FindNeighbours(module);
}

void PlanSpace::AddMember(const Instruction* x, GroupKind kind) {
  std::vector<int> names;
  if (kind != GroupKind::kWritten) names = NamesOf(x);
  auto group = std::ranges::find_if(groups_, [&](const Group& other) {
    return other.kind == kind && other.names == names &&
           (kind == GroupKind::kWritten ||
            std::ranges::equal(other.shape->dims(), x->shape()->dims()));
  });
  if (group == groups_.end()) {
    Group fresh;
    fresh.kind = kind;
    fresh.shape = x->shape();
    fresh.names = std::move(names);
    group = groups_.insert(groups_.end(), std::move(fresh));
  }
  group->members.push_back(x->id());
  group->bytes += static_cast<double>(x->shape()->byte_size());
}

std::vector<int> PlanSpace::NamesOf(const Instruction* array) const {
  std::vector<int> names;
  for (int64_t d = 0; d < array->shape()->rank(); ++d) names.push_back(names_.Of(array, 0, d));
  return names;
}

void PlanSpace::AddOptions(Group& group) {
  group.options = {std::nullopt};
  if (group.kind == GroupKind::kWritten) return;
  std::vector<Cut> cuts = {Cut(mesh_.size(), -1)};
  for (size_t axis = 0; axis < mesh_.size(); ++axis) {
    if (mesh_[axis].size == 1) continue;
    const size_t before = cuts.size();
    for (size_t i = 0; i < before; ++i) {
      for (int64_t d = 0; d < group.shape->rank(); ++d) {
        Cut cut = cuts[i];
        cut[axis] = static_cast<int>(d);
        if (MayCut(mesh_, group, cut)) cuts.push_back(std::move(cut));
      }
    }
  }
  if (cuts.size() >= kMaxOptions) {
    ++shortened_;
    std::stable_sort(cuts.begin() + 1, cuts.end(), [&](const Cut& a, const Cut& b) {
      return AllWays(mesh_, a) > AllWays(mesh_, b);
    });
    cuts.resize(kMaxOptions - 1);
  }
  group.options.insert(group.options.end(), cuts.begin(), cuts.end());
}

void PlanSpace::FindExamples() {
  const auto is_input = [](const Group& group) {
    return group.kind == GroupKind::kInput && !group.names.empty();
  };
  const bool has_integers = std::ranges::any_of(groups_, [&](const Group& group) {
    return is_input(group) && IsInteger(group.shape->dtype());
  });
  const bool has_state = std::ranges::any_of(
      groups_, [](const Group& group) { return group.kind == GroupKind::kState; });
  for (const Group& group : groups_) {
    if (!is_input(group)) continue;
    const bool counts = has_integers ? IsInteger(group.shape->dtype()) : has_state;
    if (counts) examples_.insert(group.names[0]);
  }
}

void PlanSpace::FindExperts(const Module& module) {
  // A weight, or its part in one layer of a loop.
  const auto is_weight = [&](const std::vector<int>& names) {
    const auto is_of = [&](const Group& group) {
      return IsParameter(group.kind) && std::ranges::all_of(names, [&](int name) {
               return std::ranges::find(group.names, name) != group.names.end();
             });
    };
    return std::ranges::none_of(names, [&](int name) { return examples_.contains(name); }) &&
           std::ranges::any_of(groups_, is_of);
  };
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kDot) continue;
      const auto& dims = x->attributes<DotAttributes>();
      for (const int64_t side : {0, 1}) {
        const Instruction* operand = x->operand(side);
        const Dims batch = side == 0 ? dims.lhs_batch : dims.rhs_batch;
        const Dims contracting = side == 0 ? dims.lhs_contracting : dims.rhs_contracting;
        const std::vector<int> names = NamesOf(operand);
        const auto others = names.size() - batch.size() - contracting.size();
        if (batch.size() != 1 || contracting.empty() || others == 0 || !is_weight(names)) continue;
        experts_.insert(names[At(batch[0])]);
      }
    }
  }
}

void PlanSpace::FindNeighbours(const Module& module) {
  std::unordered_map<uint32_t, size_t> group_of;
  for (size_t g = 0; g < groups_.size(); ++g) {
    for (const uint32_t id : groups_[g].members) group_of[id] = g;
  }
  // The nearest members that a value is made from, through all else in its computation.
  std::set<std::pair<size_t, size_t>> pairs;
  for (const Computation* computation : module.computations()) {
    std::unordered_map<const Instruction*, std::set<size_t>> from;
    for (const Instruction* x : computation->instructions()) {
      std::set<size_t> sources;
      for (const Instruction* operand : x->operands()) {
        const std::set<size_t>& more = from[operand];
        sources.insert(more.begin(), more.end());
      }
      const auto own = group_of.find(x->id());
      if (own != group_of.end()) {
        for (const size_t source : sources) {
          if (source != own->second) pairs.emplace(std::minmax(source, own->second));
        }
        sources = {own->second};
      }
      constexpr size_t kMaxSources = 8;  // of sums of everything, such as a norm of all gradients
      if (sources.size() > kMaxSources) sources.clear();
      from[x] = std::move(sources);
    }
  }
  neighbours_.assign(pairs.begin(), pairs.end());
}

std::optional<int> PlanSpace::OptionOf(size_t group, const Cut& cut) const {
  const auto& options = groups_[group].options;
  const auto found = std::ranges::find_if(
      options, [&](const std::optional<Cut>& option) { return option && *option == cut; });
  if (found == options.end()) return std::nullopt;
  return static_cast<int>(found - options.begin());
}

int64_t PlanSpace::AnnotationsOf(const Plan& plan) const {
  size_t annotations = 0;
  for (size_t g = 0; g < groups_.size(); ++g) {
    if (plan.choices[g] != 0) annotations += groups_[g].members.size();
  }
  return static_cast<int64_t>(annotations);
}

Mesh MeshOf(const std::vector<MeshAxis>& axes) {
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : axes) sizes.push_back(axis.size);
  return {"mesh", axes, TileAssignment::Iota(sizes), ""};
}

std::vector<std::vector<int>> AxesByDim(const Shape* shape, const Cut& cut) {
  std::vector<std::vector<int>> dims(At(shape->rank()));
  for (size_t axis = 0; axis < cut.size(); ++axis) {
    if (cut[axis] >= 0) dims[At(cut[axis])].push_back(static_cast<int>(axis));
  }
  return dims;
}

std::string SpecText(const std::vector<MeshAxis>& mesh, const Shape* shape, const Cut& cut) {
  std::string text;
  for (const std::vector<int>& axes : AxesByDim(shape, cut)) {
    if (!text.empty()) text += ',';
    if (axes.empty()) text += '_';
    for (size_t i = 0; i < axes.size(); ++i) {
      if (i > 0) text += '+';
      text += mesh[At(axes[i])].name;
    }
  }
  return text;
}

}  // namespace gshard::autoshard
