// See seeds.h.

#include "core/autoshard/seeds.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "ir/dims.h"

namespace gshard::autoshard {
namespace {

bool IsCut(const Cut& cut) {
  return std::ranges::any_of(cut, [](int dim) { return dim >= 0; });
}

// Cuts `axis` in dim `dim` too, if that divides.
bool AddAxis(const PlanSpace& space, size_t group, Cut& cut, size_t axis, int64_t dim) {
  Cut more = cut;
  more[axis] = static_cast<int>(dim);
  if (!space.OptionOf(group, more)) return false;
  cut = std::move(more);
  return true;
}

void Choose(const PlanSpace& space, size_t group, const Cut& cut, Plan& plan) {
  if (!IsCut(cut)) return;
  if (const auto option = space.OptionOf(group, cut)) plan.choices[group] = *option;
}

// Dims, the largest first.
std::vector<int64_t> BySize(const Shape* shape) {
  std::vector<int64_t> dims;
  for (int64_t d = 0; d < shape->rank(); ++d) dims.push_back(d);
  std::stable_sort(dims.begin(), dims.end(),
                   [&](int64_t a, int64_t b) { return shape->dim(a) > shape->dim(b); });
  return dims;
}

// Cuts `axis` in the largest dim that it divides, of those larger than `least`; false: there is
// none.
bool CutLargest(const PlanSpace& space, size_t group, Cut& cut, size_t axis, int64_t least = 0) {
  const Shape* shape = space.groups()[group].shape;
  return std::ranges::any_of(BySize(shape), [&](int64_t dim) {
    return shape->dim(dim) > least && AddAxis(space, group, cut, axis, dim);
  });
}

// Cuts `axis` in the first dim whose name is wanted and that it divides; false: there is none.
template <typename IsWanted>
bool CutFirst(const PlanSpace& space, size_t group, Cut& cut, size_t axis, IsWanted is_wanted) {
  const std::vector<int>& names = space.groups()[group].names;
  for (size_t d = 0; d < names.size(); ++d) {
    if (is_wanted(names[d]) && AddAxis(space, group, cut, axis, static_cast<int64_t>(d))) {
      return true;
    }
  }
  return false;
}

// Along all of `axes`: inputs in their first dim that divides, state in its largest if `state`, and
// results that propagation does not reach in the dim that has the name of an input's cut dim.
Plan BatchPlan(const PlanSpace& space, const std::vector<size_t>& axes, bool inputs, bool state) {
  Plan plan = space.EmptyPlan();
  std::set<int> batch;  // names
  for (const Group& group : space.groups()) {
    if (group.kind == GroupKind::kInput && inputs) batch.insert(group.names[0]);
  }
  for (size_t g = 0; g < space.groups().size(); ++g) {
    const Group& group = space.groups()[g];
    Cut cut(space.mesh().size(), -1);
    for (const size_t axis : axes) {
      if (group.kind == GroupKind::kInput && inputs) {
        AddAxis(space, g, cut, axis, 0);
      } else if (group.kind == GroupKind::kResult) {
        CutFirst(space, g, cut, axis, [&](int name) { return batch.contains(name); });
      } else if (group.kind == GroupKind::kState && state) {
        CutLargest(space, g, cut, axis);
      }
    }
    Choose(space, g, cut, plan);
  }
  return plan;
}

// Parameters and inputs in their largest dims.
Plan LargestDimPlan(const PlanSpace& space, const std::vector<size_t>& axes) {
  Plan plan = space.EmptyPlan();
  for (size_t g = 0; g < space.groups().size(); ++g) {
    const Group& group = space.groups()[g];
    if (!IsParameter(group.kind)) continue;
    Cut cut(space.mesh().size(), -1);
    for (const size_t axis : axes) CutLargest(space, g, cut, axis);
    Choose(space, g, cut, plan);
  }
  return plan;
}

// The first that is one of `wanted`; the end of `names`: there is none.
std::vector<int>::const_iterator FirstOf(const std::vector<int>& names,
                                         const std::set<int>& wanted) {
  return std::ranges::find_if(names, [&](int name) { return wanted.contains(name); });
}

// Parallelism as people write it for networks of layers around a residual stream. Example: of a
// Transformer's weights wi [model, hidden], wo [hidden, model], query [model, heads, head_dim] ..
// the stream's name is `model`, and what tensor parallelism splits is `hidden` and `heads`.
class LayerParallelism {
 public:
  explicit LayerParallelism(const PlanSpace& space)
      : space_(space), counts_(static_cast<size_t>(space.name_count())) {
    std::vector<bool> of_products(counts_.size());
    for (const Group& group : space.groups()) {
      if (group.kind != GroupKind::kProduct) continue;
      for (const int name : group.names) of_products[At(name)] = true;
    }
    for (const Group& group : space.groups()) {
      if (!IsWeight(group)) continue;
      for (const int name : std::set<int>(group.names.begin(), group.names.end())) {
        counts_[At(name)] += of_products[At(name)] ? static_cast<int>(group.members.size()) : 0;
      }
    }
    // Of names that as many weights have the smaller: what is split is larger than the stream.
    std::vector<int64_t> sizes(counts_.size());
    for (const Group& group : space.groups()) {
      for (size_t d = 0; d < group.names.size(); ++d) {
        sizes[At(group.names[d])] = group.shape->dim(static_cast<int64_t>(d));
      }
    }
    for (int name = 0; name < space.name_count(); ++name) {
      if (counts_[At(name)] == 0) continue;
      const auto rank = [&](int n) { return std::pair(counts_[At(n)], -sizes[At(n)]); };
      if (stream_ < 0 || rank(name) > rank(stream_)) stream_ = name;
    }
  }

  bool HasStream() const { return stream_ >= 0 && !space_.example_names().empty(); }

  // Examples are cut along `data`; the split dims of weights and activations along `model`; with
  // `shards_weights` the weights' stream dim along `data`; with `cuts_stream` the stream itself
  // along `model` between the layers' parts.
  Plan TensorParallel(const std::vector<size_t>& data, size_t model, bool shards_weights,
                      bool cuts_stream) const {
    Plan plan = space_.EmptyPlan();
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      const Group& group = space_.groups()[g];
      if (group.kind == GroupKind::kWritten) continue;
      Cut cut(space_.mesh().size(), -1);
      const bool has_examples = HasExamples(group);
      const auto is_wanted = [&](const int name) {
        return name != stream_ && counts_[At(name)] > 0 && !space_.example_names().contains(name);
      };
      const bool is_split = CutFirst(space_, g, cut, model, is_wanted) ||
                            (IsWeight(group) && CutVocabulary(g, cut, model));
      if (has_examples) {
        // Heads that the axis does not divide: propagation may find a way in parts of it.
        if (!is_split && std::ranges::any_of(group.names, is_wanted)) continue;
        for (const size_t axis : data) CutExamples(g, cut, axis);
        if (cuts_stream && !is_split) CutStream(g, cut, model);
      } else if (shards_weights) {
        for (const size_t axis : data) CutStream(g, cut, axis);
      }
      Choose(space_, g, cut, plan);
    }
    return plan;
  }

  bool HasExperts() const {
    return !space_.expert_names().empty() && !space_.example_names().empty();
  }

  // Experts are cut along `model`, examples along all axes: along `data` alone where they come
  // behind the experts, so that the experts' inputs and results are moved by all-to-alls (GShard,
  // arXiv 2006.16668, section 3.2). With `shards_weights` weights are cut along `data` as well.
  Plan ExpertParallel(const std::vector<size_t>& data, size_t model, bool shards_weights) const {
    Plan plan = space_.EmptyPlan();
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      const Group& group = space_.groups()[g];
      if (group.kind == GroupKind::kWritten) continue;
      Cut cut(space_.mesh().size(), -1);
      const auto expert = FirstOf(group.names, space_.expert_names());
      const auto example = FirstOf(group.names, space_.example_names());
      // Gates, which have experts last, and products without experts are left to propagation.
      const bool is_product = group.kind == GroupKind::kProduct;
      const bool is_of_experts = expert != group.names.end() && expert + 1 != group.names.end() &&
                                 (!is_product || group.names.size() > 2);
      if (is_product && !is_of_experts) continue;
      if (is_of_experts && expert < example) CutExperts(g, cut, model);
      for (size_t axis = 0; axis < cut.size(); ++axis) {
        const bool is_data = std::ranges::find(data, axis) != data.end();
        if (cut[axis] < 0 && (is_data || axis == model)) CutExamples(g, cut, axis);
        if (is_data && shards_weights && IsWeight(group)) CutLargest(space_, g, cut, axis);
      }
      Choose(space_, g, cut, plan);
    }
    return plan;
  }

 private:
  bool HasExamples(const Group& group) const {
    return FirstOf(group.names, space_.example_names()) != group.names.end();
  }

  bool IsWeight(const Group& group) const {
    return IsParameter(group.kind) && group.names.size() >= 2 && IsFloat(group.shape->dtype()) &&
           !HasExamples(group);
  }

  // Of a table of embeddings: the dim that is larger than the stream's, if there is one.
  bool CutVocabulary(size_t group, Cut& cut, size_t axis) const {
    const Group& of = space_.groups()[group];
    const auto stream = std::ranges::find(of.names, stream_);
    if (stream == of.names.end()) return false;
    return CutLargest(space_, group, cut, axis, of.shape->dim(stream - of.names.begin()));
  }

  void CutExamples(size_t group, Cut& cut, size_t axis) const {
    CutFirst(space_, group, cut, axis,
             [&](int name) { return space_.example_names().contains(name); });
  }

  void CutExperts(size_t group, Cut& cut, size_t axis) const {
    CutFirst(space_, group, cut, axis,
             [&](int name) { return space_.expert_names().contains(name); });
  }

  void CutStream(size_t group, Cut& cut, size_t axis) const {
    CutFirst(space_, group, cut, axis, [&](const int name) { return name == stream_; });
  }

  const PlanSpace& space_;
  std::vector<int> counts_;  // by name: weights that have it, where products have it too
  int stream_ = -1;          // the name that most weights have; -1: there is none
};

// Tensor and expert parallelism along each axis, the others being for data.
void AddLayerPlans(const PlanSpace& space, const std::vector<size_t>& axes,
                   std::vector<NamedPlan>& plans) {
  const LayerParallelism parallelism(space);
  for (const size_t model : axes) {
    std::vector<size_t> data = axes;
    std::erase(data, model);
    const std::string where = " over " + space.mesh()[model].name;
    for (const bool shards_weights : {false, true}) {
      if (shards_weights && data.empty()) break;
      const std::string fsdp = shards_weights ? "FSDP and " : "";
      for (const bool cuts_stream : {false, true}) {
        if (!parallelism.HasStream()) break;
        plans.push_back({fsdp + "tensor parallel" + (cuts_stream ? ", stream cut," : "") + where,
                         parallelism.TensorParallel(data, model, shards_weights, cuts_stream),
                         /*is_tensor_parallel=*/true});
      }
      if (!parallelism.HasExperts()) continue;
      plans.push_back({fsdp + "expert parallel" + where,
                       parallelism.ExpertParallel(data, model, shards_weights)});
    }
  }
}

}  // namespace

Plan PlanByNames(const PlanSpace& space, const NameChoice& names, NamedTensors tensors) {
  Plan plan = space.EmptyPlan();
  for (size_t g = 0; g < space.groups().size(); ++g) {
    const Group& group = space.groups()[g];
    if (group.kind == GroupKind::kWritten) continue;
    Cut cut(space.mesh().size(), -1);
    if (IsComputed(group.kind)) {
      if (tensors == NamedTensors::kParameters && group.kind == GroupKind::kProduct) continue;
      if (tensors == NamedTensors::kParametersOfWholeProducts) {
        plan.choices[g] = space.OptionOf(g, cut).value_or(0);
        continue;
      }
    } else if (tensors == NamedTensors::kProducts) {
      continue;
    } else if (tensors == NamedTensors::kProductsOfWholeTensors) {
      plan.choices[g] = space.OptionOf(g, cut).value_or(0);
      continue;
    }
    for (size_t axis = 0; axis < names.size(); ++axis) {
      CutFirst(space, g, cut, axis,
               [&](int name) { return std::ranges::find(names[axis], name) != names[axis].end(); });
    }
    Choose(space, g, cut, plan);
  }
  return plan;
}

std::vector<NameChoice> NameChoices(const PlanSpace& space, int most, size_t heaviest) {
  std::vector<int> names = space.cuttable_names();
  names.resize(std::min(names.size(), heaviest));
  std::vector<std::vector<int>> of_axis = {{}};
  for (const int name : names) of_axis.push_back({name});
  for (size_t i = 0; most > 1 && i < names.size(); ++i) {
    for (size_t k = i + 1; k < names.size(); ++k) of_axis.push_back({names[i], names[k]});
  }
  std::vector<NameChoice> choices = {{}};
  for (const MeshAxis& axis : space.mesh()) {
    std::vector<NameChoice> longer;
    for (const NameChoice& choice : choices) {
      for (const std::vector<int>& one : of_axis) {
        if (axis.size == 1 && !one.empty()) break;
        longer.push_back(choice);
        longer.back().push_back(one);
      }
    }
    choices = std::move(longer);
  }
  return choices;
}

double CountNameChoices(const PlanSpace& space, int most, size_t heaviest) {
  const auto names = static_cast<double>(std::min(space.cuttable_names().size(), heaviest));
  const double of_axis = 1 + names + (most > 1 ? names * (names - 1) / 2 : 0);
  double count = 1;
  for (const MeshAxis& axis : space.mesh()) count *= axis.size > 1 ? of_axis : 1;
  return count;
}

std::vector<NamedPlan> StylePlans(const PlanSpace& space, bool has_written, bool zero) {
  std::vector<NamedPlan> plans = {{"no annotations", space.EmptyPlan()}};
  if (has_written) {
    Plan plan = space.EmptyPlan();
    std::ranges::fill(plan.choices, Plan::kAsWritten);
    plans.push_back({"the text's annotations", std::move(plan)});
  }
  std::vector<std::vector<size_t>> lists;
  std::vector<size_t> all;
  for (size_t axis = 0; axis < space.mesh().size(); ++axis) {
    if (space.mesh()[axis].size == 1) continue;
    all.push_back(axis);
    lists.push_back({axis});
  }
  if (all.size() > 1) lists.insert(lists.begin(), all);
  for (const std::vector<size_t>& axes : lists) {
    std::string where;
    for (const size_t axis : axes) where += (where.empty() ? "" : "+") + space.mesh()[axis].name;
    plans.push_back({"data parallel over " + where, BatchPlan(space, axes, true, false)});
    plans.push_back({"FSDP over " + where, BatchPlan(space, axes, true, true), false, axes == all});
    if (zero) {
      Plan plan = BatchPlan(space, axes, true, false);
      plan.cuts_weight_updates = true;
      plans.push_back({"ZeRO over " + where, std::move(plan)});
    }
    plans.push_back({"largest dims over " + where, LargestDimPlan(space, axes)});
  }
  AddLayerPlans(space, all, plans);
  return plans;
}

}  // namespace gshard::autoshard
