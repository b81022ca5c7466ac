#include "core/analysis/attention/module_attention.h"

#include <algorithm>
#include <set>

#include "core/analysis/attention/masked_share.h"
#include "core/analysis/attention/needed_values.h"
#include "core/analysis/attention/position_values.h"

namespace gshard {
namespace {

using Edge = std::pair<const Instruction*, const Instruction*>;  // user, operand

// Operations by which `kernel` may mask its scores: those of one shape together.
std::vector<std::vector<const Instruction*>> MaskingOperations(const AttentionKernel& kernel) {
  std::vector<std::vector<const Instruction*>> groups;
  for (const Instruction* x : kernel.members) {
    if (x->opcode() != Opcode::kSelect && x->opcode() != Opcode::kAdd) continue;
    if (!x->shape()->IsArray() || x->shape()->element_count() != kernel.score_elements) continue;
    auto same = std::find_if(groups.begin(), groups.end(), [&](const auto& group) {
      return std::ranges::equal(group[0]->shape()->dims(), x->shape()->dims());
    });
    if (same == groups.end()) {
      groups.push_back({x});
    } else {
      same->push_back(x);
    }
  }
  return groups;
}

}  // namespace

ModuleAttention::ModuleAttention(const Module& module, const Users& users,
                                 std::optional<MaskedOn> masked, KnownMaskedShares* known) {
  for (const Computation* computation : module.computations()) {
    std::vector<AttentionKernel> found = FindAttention(*computation, users);
    if (!found.empty()) kernels_.emplace(computation, std::move(found));
  }
  if (kernels_.empty()) return;
  const CarriedValues carried(module);
  if (masked) {
    KnownMaskedShares own;
    FindMasks(carried, module.DeviceCount(), *masked, known != nullptr ? *known : own);
    ShareMasks(carried);
  }
  FindSpared(module, carried);
}

const std::vector<AttentionKernel>& ModuleAttention::KernelsOf(
    const Computation& computation) const {
  static const std::vector<AttentionKernel> kNone;
  auto found = kernels_.find(&computation);
  return found == kernels_.end() ? kNone : found->second;
}

void ModuleAttention::FindMasks(const CarriedValues& carried, int64_t device_count, MaskedOn on,
                                KnownMaskedShares& known) {
  PositionValues values(carried);
  const auto share_of = [&](const std::vector<const Instruction*>& operations) {
    PositionValues::Key key;
    key.words.push_back(static_cast<uint64_t>(device_count));
    key.words.push_back(static_cast<uint64_t>(on));
    for (const Instruction* x : operations) {
      if (!values.AppendKey(x, key)) return MaskedShare(operations, device_count, on, values);
    }
    std::optional<double> share = known.Find(key.words);
    if (!share) {
      share = MaskedShare(operations, device_count, on, values);
      known.Add(std::move(key.words), *share);
    }
    return *share;
  };
  for (auto& [computation, kernels] : kernels_) {
    for (AttentionKernel& kernel : kernels) {
      for (const auto& operations : MaskingOperations(kernel)) {
        kernel.masked_share = std::max(kernel.masked_share, share_of(operations));
      }
    }
  }
}

// A backward kernel that uses scores of a forward one, of its computation or saved by a loop, has
// as much to do as that.
void ModuleAttention::ShareMasks(const CarriedValues& carried) {
  std::unordered_map<const Instruction*, double> share_of;  // of scores
  for (const auto& [computation, kernels] : kernels_) {
    for (const AttentionKernel& kernel : kernels) {
      if (kernel.masked_share == 0) continue;
      for (const Instruction* x : kernel.members) {
        share_of[x] = kernel.masked_share;
        if (x->opcode() == Opcode::kDynamicUpdateSlice) {
          share_of[x->operand(1)] = kernel.masked_share;
        }
      }
    }
  }
  for (auto& [computation, kernels] : kernels_) {
    for (AttentionKernel& kernel : kernels) {
      for (const Instruction* x : kernel.members) {
        for (const Instruction* operand : x->operands()) {
          const Instruction* scores =
              operand->opcode() == Opcode::kDynamicSlice ? carried.StoredSlice(operand) : operand;
          if (x->opcode() == Opcode::kDynamicSlice) scores = carried.StoredSlice(x);
          auto known = scores == nullptr ? share_of.end() : share_of.find(scores);
          if (known == share_of.end() || !scores->shape()->IsArray() ||
              scores->shape()->element_count() != kernel.score_elements) {
            continue;
          }
          kernel.masked_share = std::max(kernel.masked_share, known->second);
        }
      }
    }
  }
}

void ModuleAttention::FindSpared(const Module& module, const CarriedValues& carried) {
  const PositionValues values(carried);
  std::set<Edge> cut;
  NeededValues::Changes changes;
  for (const auto& [computation, kernels] : kernels_) {
    for (const AttentionKernel& kernel : kernels) {
      std::vector<const Instruction*> members = kernel.members, residuals = kernel.residuals;
      std::ranges::sort(members);
      std::ranges::sort(residuals);
      for (const Instruction* x : kernel.members) {
        if (std::ranges::binary_search(residuals, x)) continue;
        for (const Instruction* operand : x->operands()) {
          if (std::ranges::binary_search(residuals, operand)) {
            cut.emplace(x, operand);
          } else if (!std::ranges::binary_search(members, operand) && x->opcode() != Opcode::kDot &&
                     operand->shape()->IsArray()) {
            auto sources = values.Sources(operand, kernel.row_elements);
            if (!sources) continue;
            if (std::find(sources->begin(), sources->end(), operand) != sources->end()) continue;
            cut.emplace(x, operand);
            for (const Instruction* source : *sources) changes.also_needed.emplace(x, source);
          }
        }
      }
    }
  }
  if (cut.empty()) return;
  std::vector<bool> has_cut(module.instruction_limit());
  for (const auto& [user, operand] : cut) has_cut[user->id()] = true;
  changes.is_unneeded = [&](const Instruction* user, const Instruction* operand) {
    return has_cut[user->id()] && cut.contains({user, operand});
  };
  const NeededValues needed(module, changes);
  begin_.resize(module.instruction_limit());
  spared_.reserve(begin_.size());
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      begin_[x->id()] = spared_.size();
      for (int64_t i = 0; i < NeededValues::ElementsOf(x); ++i) {
        spared_.push_back(needed.IsLeftOut(x, i));
      }
    }
  }
}

}  // namespace gshard
