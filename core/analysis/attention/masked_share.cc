#include "core/analysis/attention/masked_share.h"

#include <algorithm>
#include <span>

#include "ir/dims.h"

namespace gshard {
namespace {

// What is added to a score, or put in its place, to cut it off: -1e9, -inf, the type's lowest.
constexpr double kLow = -1e4;
// Sampled positions along the first dim on which a mask depends, and along each further one where
// there are two; where there are more, few of each.
constexpr int64_t kRows = 16, kColumns = 64, kOfMany = 6;
constexpr int kProbes = 8;
constexpr int64_t kTogether = 1024;  // positions that are evaluated in one go
constexpr int64_t kDevices = 4;
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
    const std::vector<size_t> varied = VariedDims();
    if (varied.empty()) return 0;
    std::vector<int64_t> counts(varied.size(), kOfMany);
    if (varied.size() <= 2) {
      counts.front() = kRows;
      counts.back() = kColumns;
    }
    for (size_t i = 0; i < varied.size(); ++i) counts[i] = std::min(counts[i], dims_[varied[i]]);
    int64_t total = 1, masked = 0;
    for (int64_t count : counts) total *= count;
    for (int64_t first = 0; first < total; first += kTogether) {
      Grid grid = AllAt(0.5, static_cast<size_t>(std::min(kTogether, total - first)));
      for (size_t sample = 0; sample < grid[0].size(); ++sample) {
        int64_t rest = first + static_cast<int64_t>(sample);
        for (size_t i = varied.size(); i-- > 0;) {
          const double place = static_cast<double>(rest % counts[i]) + 0.5;
          grid[varied[i]][sample] = Position(varied[i], place / static_cast<double>(counts[i]));
          rest /= counts[i];
        }
      }
      masked += std::ranges::count(AreMasked(grid), uint8_t{1});
    }
    return static_cast<double>(masked) / static_cast<double>(total);
  }

 private:
  using Grid = std::vector<std::vector<int64_t>>;  // by dim, then by position

  int64_t Position(size_t dim, double share) const {
    const auto size = static_cast<double>(dims_[dim]);
    return std::min(dims_[dim] - 1, static_cast<int64_t>(share * size));
  }

  // `count` times the position at this share of each dim.
  Grid AllAt(double share, size_t count) const {
    Grid grid;
    for (size_t d = 0; d < dims_.size(); ++d) grid.emplace_back(count, Position(d, share));
    return grid;
  }

  // The dims along which the mask changes anywhere on lines through a few places.
  std::vector<size_t> VariedDims() {
    constexpr size_t kLine = kProbes + 1;  // one position and the probes beside it
    Grid grid(dims_.size());
    std::vector<size_t> dim_of_line;
    for (size_t dim = 0; dim < dims_.size(); ++dim) {
      if (dims_[dim] <= 1) continue;
      for (double base : kBases) {
        const Grid line = AllAt(base, kLine);
        for (size_t d = 0; d < dims_.size(); ++d) {
          grid[d].insert(grid[d].end(), line[d].begin(), line[d].end());
        }
        for (int probe = 0; probe < kProbes; ++probe) {
          grid[dim][dim_of_line.size() * kLine + At(probe)] =
              Position(dim, (probe + 0.5) / kProbes);
        }
        dim_of_line.push_back(dim);
      }
    }
    if (dim_of_line.empty()) return {};
    const std::vector<uint8_t> masked = AreMasked(grid);
    std::vector<size_t> varied;
    for (size_t i = 0; i < dim_of_line.size(); ++i) {
      const auto line = std::span(masked).subspan(i * kLine, kLine);
      if (std::ranges::count(line, line[0]) == kProbes + 1) continue;
      if (varied.empty() || varied.back() != dim_of_line[i]) varied.push_back(dim_of_line[i]);
    }
    return varied;
  }

  std::vector<uint8_t> AreMasked(const Grid& grid) {
    PositionValues::Positions positions{grid[0].size(), grid.size()};
    for (size_t d = 0; d < grid.size(); ++d) positions.dims[d] = grid[d].data();
    std::vector<uint8_t> masked(positions.count);
    for (const Instruction* x : operations_) {
      if (x->opcode() == Opcode::kSelect) {
        MarkSelected(x, positions, masked);
      } else {
        MarkAdded(x, positions, masked);
      }
    }
    return masked;
  }

  void MarkSelected(const Instruction* select, const PositionValues::Positions& positions,
                    std::vector<uint8_t>& masked) {
    const PositionValues::Elements chosen = values_.At(select->operand(0), positions);
    if (std::ranges::count(chosen.known, 0) == std::ssize(chosen.known)) return;
    for (const bool is_true : {true, false}) {
      const PositionValues::Elements value =
          values_.At(select->operand(is_true ? 1 : 2), positions);
      for (size_t i = 0; i < positions.count; ++i) {
        if (!chosen.IsKnownAt(i) || (chosen.ValueAt(i) != 0) != is_true) continue;
        if (!value.IsKnownAt(i)) continue;
        if (value.ValueAt(i) <= kLow || value.ValueAt(i) == 0) masked[i] = 1;
      }
    }
  }

  void MarkAdded(const Instruction* add, const PositionValues::Positions& positions,
                 std::vector<uint8_t>& masked) {
    for (const Instruction* operand : add->operands()) {
      const PositionValues::Elements value = values_.At(operand, positions);
      for (size_t i = 0; i < positions.count; ++i) {
        if (value.IsKnownAt(i) && value.ValueAt(i) <= kLow) masked[i] = 1;
      }
    }
  }

  PositionValues& values_;
  std::vector<const Instruction*> operations_;
  std::span<const int64_t> dims_;
};

}  // namespace

double MaskedShare(const std::vector<const Instruction*>& operations, int64_t device_count,
                   MaskedOn on, PositionValues& values) {
  if (operations.empty()) return 0;
  values.AskAnew();
  const double first = MaskSampler(operations, values).Share();
  if (!values.AskedForDevice()) return first;
  double least = first, last = first;
  for (int64_t i = on == MaskedOn::kAverage ? kDevices - 1 : 1; i < kDevices; ++i) {
    values.SetDevice(i * (device_count - 1) / (kDevices - 1));
    last = MaskSampler(operations, values).Share();
    least = std::min(least, last);
  }
  values.SetDevice(0);
  return on == MaskedOn::kAverage ? (first + last) / 2 : least;
}

}  // namespace gshard
