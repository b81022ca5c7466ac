#include "core/analysis/attention/masked_share.h"

#include <algorithm>

namespace gshard {
namespace {

// What is added to a score, or put in its place, to cut it off: -1e9, -inf, the type's lowest.
constexpr double kLow = -1e4;
// Sampled positions along the first dim on which a mask depends, and along each further one where
// there are two; where there are more, few of each.
constexpr int64_t kRows = 16, kColumns = 64, kOfMany = 6;
constexpr int kProbes = 8;
constexpr double kBases[] = {0.1, 0.4, 0.6, 0.9};

class MaskSampler {
 public:
  MaskSampler(const std::vector<const Instruction*>& operations, PositionValues& values)
      : values_(values), dims_(operations[0]->shape()->dims()) {
    for (const Instruction* x : operations) {
      if (x->operand(0)->shape()->rank() == x->shape()->rank()) operations_.push_back(x);
    }
  }

  double Share() {
    if (operations_.empty() || dims_.size() > PositionValues::kMaxRank) return 0;
    std::vector<size_t> varied;
    for (size_t d = 0; d < dims_.size(); ++d) {
      if (dims_[d] > 1 && DependsOn(d)) varied.push_back(d);
    }
    if (varied.empty()) return 0;
    std::vector<int64_t> counts(varied.size(), kOfMany);
    if (varied.size() <= 2) {
      counts.front() = kRows;
      counts.back() = kColumns;
    }
    for (size_t i = 0; i < varied.size(); ++i) counts[i] = std::min(counts[i], dims_[varied[i]]);
    int64_t total = 1, masked = 0;
    for (int64_t count : counts) total *= count;
    PositionValues::Index index = At(0.5);
    for (int64_t sample = 0; sample < total; ++sample) {
      int64_t rest = sample;
      for (size_t i = varied.size(); i-- > 0;) {
        const double place = static_cast<double>(rest % counts[i]) + 0.5;
        index[varied[i]] = Position(varied[i], place / static_cast<double>(counts[i]));
        rest /= counts[i];
      }
      masked += IsMasked(index) ? 1 : 0;
    }
    return static_cast<double>(masked) / static_cast<double>(total);
  }

 private:
  int64_t Position(size_t dim, double share) const {
    const auto size = static_cast<double>(dims_[dim]);
    return std::min(dims_[dim] - 1, static_cast<int64_t>(share * size));
  }

  PositionValues::Index At(double share) const {
    PositionValues::Index index;
    for (size_t d = 0; d < dims_.size(); ++d) index.push_back(Position(d, share));
    return index;
  }

  bool DependsOn(size_t dim) {
    for (double base : kBases) {
      PositionValues::Index index = At(base);
      const bool is_masked = IsMasked(index);
      for (int probe = 0; probe < kProbes; ++probe) {
        index[dim] = Position(dim, (probe + 0.5) / kProbes);
        if (IsMasked(index) != is_masked) return true;
      }
    }
    return false;
  }

  bool IsMasked(const PositionValues::Index& index) {
    return std::any_of(operations_.begin(), operations_.end(),
                       [&](const Instruction* x) { return Masks(x, index); });
  }

  bool Masks(const Instruction* x, const PositionValues::Index& index) {
    if (x->opcode() == Opcode::kSelect) {
      const std::optional<double> chosen = values_.At(x->operand(0), index);
      if (!chosen) return false;
      const std::optional<double> value = values_.At(x->operand(*chosen != 0 ? 1 : 2), index);
      return value && (*value <= kLow || *value == 0);
    }
    for (const Instruction* operand : x->operands()) {
      const std::optional<double> value = values_.At(operand, index);
      if (value && *value <= kLow) return true;
    }
    return false;
  }

  PositionValues& values_;
  std::vector<const Instruction*> operations_;
  std::span<const int64_t> dims_;
};

}  // namespace

double MaskedShare(const std::vector<const Instruction*>& operations, PositionValues& values) {
  return operations.empty() ? 0 : MaskSampler(operations, values).Share();
}

}  // namespace gshard
