// See placed_roles.h.

#include "core/partition/scope/placed_roles.h"

#include <algorithm>

#include "ir/dims.h"

namespace gshard {
namespace {

constexpr int kNoRole = Labels::kWhole;

std::vector<int> RolesOf(const PlacedTensor& tensor, size_t sub_axes) {
  std::vector<int> roles(sub_axes, kNoRole);
  for (size_t d = 0; d < tensor.cut.size(); ++d) {
    for (int sub_axis : tensor.cut[d]) roles[At(sub_axis)] = (*tensor.labels)[d];
  }
  return roles;
}

// The sub-axes by which the tensor has this label cut; null: it has not the label.
const std::vector<int>* CutOf(const PlacedTensor& tensor, int label) {
  const auto at = std::ranges::find(*tensor.labels, label);
  return at == tensor.labels->end() ? nullptr : &tensor.cut[At(at - tensor.labels->begin())];
}

class Finder {
 public:
  Finder(const Labels& labels, const PlacedTensor& result, std::span<const PlacedTensor> operands,
         size_t sub_axes)
      : labels_(labels),
        result_(result),
        operands_(operands),
        roles_(RolesOf(result, sub_axes)),
        matched_(sub_axes, 0) {}

  PlacedRoles Run() {
    if (labels_.placed_by_operands) return {OfFirstOperand(), std::nullopt};
    const bool is_contraction = std::ranges::any_of(
        labels_.labels, [](const Labels::Label& label) { return label.summed; });
    if (!is_contraction) return {roles_, std::nullopt};
    KeepCommon();
    MatchResult();
    ForSummed([&](int label) {
      const std::vector<int> alike = SummedAlike(label);
      // What else cuts a label that loses sub-axes to the sum is cut behind it.
      for (int sub_axis : alike) {
        const int lost = roles_[At(sub_axis)];
        if (lost != kNoRole) std::ranges::replace(roles_, lost, kNoRole);
      }
      for (int sub_axis : alike) roles_[At(sub_axis)] = label;
    });
    return {roles_, WithSums()};
  }

 private:
  template <typename Function>
  void ForSummed(Function function) const {
    for (size_t label = 0; label < labels_.labels.size(); ++label) {
      if (labels_.labels[label].summed) function(static_cast<int>(label));
    }
  }

  std::vector<int> OfFirstOperand() const {
    const PlacedTensor& operand = operands_[0];
    std::vector<int> roles = roles_;
    const std::vector<int> own = RolesOf(operand, roles.size());
    for (size_t sub_axis = 0; sub_axis < roles.size(); ++sub_axis) {
      if (CutOf(operand, roles[sub_axis]) != nullptr) roles[sub_axis] = kNoRole;
      if (own[sub_axis] != kNoRole) roles[sub_axis] = own[sub_axis];
    }
    return roles;
  }

  void KeepCommon() {
    for (int label : *result_.labels) {
      const std::vector<int>* first = label == kNoRole ? nullptr : CutOf(operands_[0], label);
      if (first == nullptr || first->empty()) continue;
      const bool is_common = std::ranges::all_of(operands_, [&](const PlacedTensor& operand) {
        const std::vector<int>* cut = CutOf(operand, label);
        return cut != nullptr && *cut == *first;
      });
      if (!is_common || !IsLeftBy(label, *first)) continue;
      std::ranges::replace(roles_, label, kNoRole);
      for (int sub_axis : *first) {
        roles_[At(sub_axis)] = label;
        matched_[At(sub_axis)] = 1;
      }
    }
  }

  // Does the result leave these sub-axes to the label? It may have some of them elsewhere if it
  // begins the label's list with others.
  bool IsLeftBy(int label, const std::vector<int>& list) const {
    const std::vector<int>& wanted = *CutOf(result_, label);
    const bool begins = !wanted.empty() && wanted.size() < list.size() &&
                        std::equal(wanted.begin(), wanted.end(), list.begin());
    return begins || std::ranges::all_of(list, [&](int sub_axis) {
             const int role = roles_[At(sub_axis)];
             return role == kNoRole || role == label;
           });
  }

  void MatchResult() {
    for (size_t d = 0; d < result_.cut.size(); ++d) {
      const int label = (*result_.labels)[d];
      if (label == kNoRole || result_.cut[d].empty()) continue;
      for (const PlacedTensor& operand : operands_) {
        const std::vector<int>* cut = CutOf(operand, label);
        if (cut == nullptr || *cut != result_.cut[d]) continue;
        for (int sub_axis : *cut) matched_[At(sub_axis)] = 1;
      }
    }
  }

  std::vector<int> Unmatched(std::vector<int> list) const {
    std::erase_if(list, [&](int sub_axis) { return matched_[At(sub_axis)] != 0; });
    return list;
  }

  // The unmatched sub-axes by which all operands with this label have it cut; empty where they
  // differ.
  std::vector<int> SummedAlike(int label) const {
    std::optional<std::vector<int>> alike;
    for (const PlacedTensor& operand : operands_) {
      const std::vector<int>* cut = CutOf(operand, label);
      if (cut == nullptr) continue;
      std::vector<int> list = Unmatched(*cut);
      if (alike.has_value() && *alike != list) return {};
      alike = std::move(list);
    }
    return alike.value_or(std::vector<int>());
  }

  // Seen where an operand and the result have something cut alike only.
  std::optional<std::vector<int>> WithSums() const {
    if (std::ranges::count(matched_, 1) == 0) return std::nullopt;
    std::vector<int> summed = roles_;
    ForSummed([&](int label) {
      for (const PlacedTensor& operand : operands_) {
        const std::vector<int>* cut = CutOf(operand, label);
        if (cut == nullptr) continue;
        for (int sub_axis : Unmatched(*cut)) {
          if (roles_[At(sub_axis)] == kNoRole) summed[At(sub_axis)] = label;
        }
      }
    });
    if (summed == roles_) return std::nullopt;
    return summed;
  }

  const Labels& labels_;
  const PlacedTensor& result_;
  std::span<const PlacedTensor> operands_;
  std::vector<int> roles_;
  std::vector<uint8_t> matched_;  // sub-axes that an operand and the result have cut alike
};

}  // namespace

PlacedRoles RolesWherePlaced(const Labels& labels, const PlacedTensor& result,
                             std::span<const PlacedTensor> operands, size_t sub_axes) {
  if (operands.empty()) return {RolesOf(result, sub_axes), std::nullopt};
  return Finder(labels, result, operands, sub_axes).Run();
}

}  // namespace gshard
