// See seeds.h.

#include "core/autoshard/seeds.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/dims.h"

namespace gshard::autoshard {
namespace {

Plan EmptyPlan(const PlanSpace& space) {
  return {std::vector<int>(space.groups().size(), 0), false};
}

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

// Along all of `axes`: inputs in their first dim that divides, state in its largest if `state`.
Plan BatchPlan(const PlanSpace& space, const std::vector<size_t>& axes, bool inputs, bool state) {
  Plan plan = EmptyPlan(space);
  for (size_t g = 0; g < space.groups().size(); ++g) {
    const Group& group = space.groups()[g];
    Cut cut(space.mesh().size(), -1);
    for (const size_t axis : axes) {
      if (group.kind == GroupKind::kInput && inputs) {
        AddAxis(space, g, cut, axis, 0);
      } else if (group.kind == GroupKind::kState && state) {
        for (const int64_t dim : BySize(group.shape)) {
          if (AddAxis(space, g, cut, axis, dim)) break;
        }
      }
    }
    Choose(space, g, cut, plan);
  }
  return plan;
}

// Parameters and inputs in their largest dims.
Plan LargestDimPlan(const PlanSpace& space, const std::vector<size_t>& axes) {
  Plan plan = EmptyPlan(space);
  for (size_t g = 0; g < space.groups().size(); ++g) {
    const Group& group = space.groups()[g];
    if (group.kind != GroupKind::kState && group.kind != GroupKind::kInput) continue;
    Cut cut(space.mesh().size(), -1);
    for (const size_t axis : axes) {
      for (const int64_t dim : BySize(group.shape)) {
        if (AddAxis(space, g, cut, axis, dim)) break;
      }
    }
    Choose(space, g, cut, plan);
  }
  return plan;
}

}  // namespace

Plan PlanByNames(const PlanSpace& space, const NameChoice& names, NamedTensors tensors) {
  Plan plan = EmptyPlan(space);
  for (size_t g = 0; g < space.groups().size(); ++g) {
    const Group& group = space.groups()[g];
    if (group.kind == GroupKind::kWritten) continue;
    Cut cut(space.mesh().size(), -1);
    if (group.kind == GroupKind::kProduct) {
      if (tensors == NamedTensors::kParameters) continue;
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
      for (size_t d = 0; d < group.names.size(); ++d) {
        const bool has_name = std::ranges::find(names[axis], group.names[d]) != names[axis].end();
        if (has_name && AddAxis(space, g, cut, axis, static_cast<int64_t>(d))) break;
      }
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
  std::vector<NamedPlan> plans = {{"no annotations", EmptyPlan(space)}};
  if (has_written) {
    Plan plan = EmptyPlan(space);
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
    plans.push_back({"FSDP over " + where, BatchPlan(space, axes, true, true)});
    if (zero) {
      Plan plan = BatchPlan(space, axes, true, false);
      plan.cuts_weight_updates = true;
      plans.push_back({"ZeRO over " + where, std::move(plan)});
    }
    plans.push_back({"largest dims over " + where, LargestDimPlan(space, axes)});
  }
  return plans;
}

}  // namespace gshard::autoshard
