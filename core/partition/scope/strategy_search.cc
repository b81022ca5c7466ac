#include "core/partition/scope/strategy_search.h"

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "core/partition/scope/partition_scope.h"
#include "core/partition/scope/placed_roles.h"

namespace gshard {
namespace {

constexpr size_t kMaxCombinations = 512;
constexpr int kNone = -1;
// Addresses of so many slices take no longer than a message, of which more may be needed otherwise.
constexpr double kSlicesOfAMessage = 128;
// A strategy that puts sub-axes where nobody has them must cost less than this part of the best
// other.
constexpr double kFreeLabelShare = 0.75;

// One operand or result: the labels of its dims and the layouts that suggest roles for sub-axes.
struct Tensor {
  const Shape* shape = nullptr;
  const std::vector<int>* labels = nullptr;
  PartitionedValue* operand = nullptr;  // null: a result
  const MeshLayout* wanted = nullptr;   // of a result
  std::vector<const MeshLayout*> seen;
  size_t same_as = 0;  // the first tensor that is the same operand
};

// Per sub-axis: the label it cuts, or kNone. In place: a search makes hundreds.
class Roles {
 public:
  explicit Roles(size_t size) : size_(size) {
    CheckInternal(size <= labels_.size(), "more sub-axes than device numbers have bits");
    std::fill_n(labels_.begin(), size, static_cast<int16_t>(kNone));
  }
  size_t size() const { return size_; }
  int operator[](size_t sub_axis) const { return labels_[sub_axis]; }
  void Set(size_t sub_axis, int label) { labels_[sub_axis] = static_cast<int16_t>(label); }
  bool operator==(const Roles& other) const {
    return std::equal(labels_.begin(), labels_.begin() + static_cast<int64_t>(size_),
                      other.labels_.begin());
  }

 private:
  size_t size_;
  std::array<int16_t, 64> labels_;
};

// A layout that this value has, or that a result is wanted in, as far as it takes part in planning.
const MeshLayout* Tiled(MeshLayoutTable& layouts, const MeshLayout* layout) {
  return layout->IsMaximal() ? layouts.Replicated(layout->rank()) : layout;
}

class StrategySearch {
 public:
  StrategySearch(PartitionScope& scope, const Labels& labels,
                 std::span<PartitionedValue* const> operands, std::span<const Shape* const> results,
                 std::span<const MeshLayout* const> wanted)
      : scope_(scope), labels_(labels), layouts_(scope.layouts()) {
    for (size_t i = 0; i < results.size(); ++i) {
      Tensor tensor{results[i], &labels.results[i], nullptr, Tiled(layouts_, wanted[i]),
                    {},         tensors_.size()};
      tensor.seen.push_back(tensor.wanted);
      tensors_.push_back(std::move(tensor));
    }
    for (size_t i = 0; i < operands.size(); ++i) {
      Tensor tensor{operands[i]->shape, &labels.operands[i], operands[i], nullptr, {},
                    tensors_.size()};
      tensor.same_as -= i - FirstOfSame(operands, i);
      scope.CollectLayouts(*operands[i], tensor.seen);
      const bool is_placed = !scope.run().options.policies.place_by_cost;
      if (is_placed && tensor.seen.empty() && operands[i]->layout != nullptr) {
        tensor.seen.push_back(operands[i]->layout);  // of what can be made in any layout
      }
      for (const MeshLayout*& layout : tensor.seen) layout = Tiled(layouts_, layout);
      tensors_.push_back(std::move(tensor));
    }
    frame_ = tensors_[0].wanted;
    for (const Tensor& tensor : tensors_) {
      for (const MeshLayout* layout : tensor.seen) {
        if (frame_->order == nullptr && layout->order != nullptr && frame_->IsReplicated()) {
          frame_ = layout;
        }
      }
    }
    FindSubAxes();
    FindLabelSizes();
    implied_share_ = ImpliedShare();
  }

  Strategy Run() {
    // What the results or the operands suggest as they stand; free if everything fits.
    if (!scope_.run().options.policies.place_by_cost) {
      Consider(WherePlaced());
      if (best_.has_value()) return Take();
    }
    Consider(FromTensor(tensors_[0]));
    if (best_.has_value() && best_cost_ == WorkCost(best_roles_)) return Take();
    for (size_t t = 1; t < tensors_.size(); ++t) Consider(FromTensor(tensors_[t]));
    Enumerate();
    ConsiderFreeLabels();
    return Take();
  }

 private:
  // Which label each sub-axis cuts where the tensor lies so, dim by dim, major first.
  template <typename Visit>
  void ForEachCut(const Tensor& tensor, const MeshLayout& layout, const Visit& visit) const {
    if (layout.order != frame_->order) return;
    for (size_t d = 0; d < layout.dims.size(); ++d) {
      const int label = (*tensor.labels)[d];
      if (label == Labels::kWhole) continue;
      for (const DeviceAxis& axis : layout.dims[d]) {
        for (const int sub_axis : SubAxesOf(sub_axes_, axis)) {
          visit(label, static_cast<size_t>(sub_axis));
        }
      }
    }
  }

  void FindSubAxes() {
    AxisList axes = frame_->manual;
    auto collect = [&](const MeshLayout* layout) {
      if (layout->order != frame_->order) return;
      for (const AxisList& list : layout->dims) axes.insert(axes.end(), list.begin(), list.end());
    };
    for (const Tensor& tensor : tensors_) {
      for (const MeshLayout* layout : tensor.seen) collect(layout);
    }
    std::optional<AxisList> common = CommonSubAxes(axes, layouts_.device_count());
    if (!common.has_value()) {
      axes = frame_->manual;
      collect(tensors_[0].wanted);
      for (Tensor& tensor : tensors_) tensor.seen.clear();
      tensors_[0].seen.push_back(tensors_[0].wanted);
      common = CommonSubAxes(axes, layouts_.device_count());
    }
    sub_axes_ = std::move(*common);
    choices_.resize(sub_axes_.size());
    for (const Tensor& tensor : tensors_) {
      for (const MeshLayout* layout : tensor.seen) {
        ForEachCut(tensor, *layout, [&](int label, size_t sub_axis) {
          std::vector<int>& choices = choices_[sub_axis];
          if (std::find(choices.begin(), choices.end(), label) == choices.end()) {
            choices.push_back(label);
          }
        });
      }
    }
    for (std::vector<int>& choices : choices_) choices.push_back(kNone);
    FindOrderConflicts();
  }

  // Of two lists with the same sub-axes in different orders one has an axis after one it is major
  // to.
  bool HasAscendingAxes() const {
    for (const Tensor& tensor : tensors_) {
      for (const MeshLayout* layout : tensor.seen) {
        for (const AxisList& axes : layout->dims) {
          for (size_t k = 1; k < axes.size(); ++k) {
            if (axes[k].stride > axes[k - 1].stride) return true;
          }
        }
      }
    }
    return false;
  }

  // Do two layouts have the same two sub-axes in one label, but in different orders? Each order is
  // a candidate then.
  void FindOrderConflicts() {
    if (!HasAscendingAxes()) return;
    std::vector<std::pair<int, std::vector<int>>> runs;  // label, sub-axes major first
    for (const Tensor& tensor : tensors_) {
      for (const MeshLayout* layout : tensor.seen) {
        if (layout->order != frame_->order) continue;
        for (size_t d = 0; d < layout->dims.size(); ++d) {
          if ((*tensor.labels)[d] == Labels::kWhole) continue;
          std::vector<int> run;
          for (const DeviceAxis& axis : layout->dims[d]) {
            for (int sub_axis : SubAxesOf(sub_axes_, axis)) run.push_back(sub_axis);
          }
          if (run.size() > 1) runs.emplace_back((*tensor.labels)[d], std::move(run));
        }
      }
    }
    auto place = [](const std::vector<int>& run, int sub_axis) {
      return std::find(run.begin(), run.end(), sub_axis) - run.begin();
    };
    for (size_t a = 0; a < runs.size(); ++a) {
      for (size_t b = a + 1; b < runs.size(); ++b) {
        if (runs[a].first != runs[b].first) continue;
        std::ptrdiff_t last = -1;
        for (int sub_axis : runs[a].second) {
          std::ptrdiff_t at = place(runs[b].second, sub_axis);
          if (at == std::ssize(runs[b].second)) continue;
          has_order_conflicts_ |= at < last;
          last = at;
        }
      }
    }
  }

  void FindLabelSizes() {
    sizes_.resize(labels_.labels.size());
    for (const Tensor& tensor : tensors_) {
      for (size_t d = 0; d < tensor.labels->size(); ++d) {
        int label = (*tensor.labels)[d];
        if (label != Labels::kWhole) {
          sizes_[static_cast<size_t>(label)].push_back(tensor.shape->dim(static_cast<int64_t>(d)));
        }
      }
    }
    double work = 0;
    for (const Tensor& tensor : tensors_) {
      work = std::max(work, static_cast<double>(tensor.shape->element_count()));
    }
    flops_ = labels_.flops > 0 ? labels_.flops : work;
  }

  Roles FromTensor(const Tensor& tensor) const {
    Roles roles(sub_axes_.size());
    if (tensor.seen.empty()) return roles;
    ForEachCut(tensor, *tensor.seen[0],
               [&](int label, size_t sub_axis) { roles.Set(sub_axis, label); });
    return roles;
  }

  PlacedTensor Placed(const Tensor& tensor) const {
    PlacedTensor placed{tensor.labels, std::vector<std::vector<int>>(tensor.labels->size())};
    if (tensor.seen.empty() || tensor.seen[0]->order != frame_->order) return placed;
    for (size_t d = 0; d < placed.cut.size(); ++d) {
      for (const DeviceAxis& axis : tensor.seen[0]->dims[d]) {
        for (int sub_axis : SubAxesOf(sub_axes_, axis)) placed.cut[d].push_back(sub_axis);
      }
    }
    return placed;
  }

  Roles WherePlaced() {
    std::vector<PlacedTensor> operands;
    for (size_t t = labels_.results.size(); t < tensors_.size(); ++t) {
      operands.push_back(Placed(tensors_[t]));
    }
    const PlacedRoles placed =
        RolesWherePlaced(labels_, Placed(tensors_[0]), operands, sub_axes_.size());
    auto to_roles = [](const std::vector<int>& labels) {
      Roles roles(labels.size());
      for (size_t k = 0; k < labels.size(); ++k) roles.Set(k, labels[k]);
      return roles;
    };
    const Roles roles = to_roles(placed.roles);
    if (!placed.with_sums.has_value()) return roles;
    const Roles with_sums = to_roles(*placed.with_sums);
    // A step costs less than a byte, and does not break a tie.
    return MoveCost(with_sums) > MoveCost(roles) + 1 ? roles : with_sums;
  }

  double MoveCost(const Roles& roles) {
    const std::vector<AxisList> cut = CutOf(roles, 0);
    double cost = 0;
    for (const Tensor& tensor : tensors_) {
      const MeshLayout* layout = LayoutOf(tensor, cut);
      cost += tensor.operand != nullptr
                  ? scope_.ReshardCost(*tensor.operand, layout)
                  : scope_.run().planner.Plan(tensor.shape, layout, tensor.wanted).cost;
    }
    return cost;
  }

  // The part of the work that each device does where the shardings are taken at their word: what
  // the result's leaves to all devices of an axis, all of them do, unless operands that are cut
  // along it alike make sums there.
  double ImpliedShare() const {
    double share = 1;
    for (size_t sub_axis = 0; sub_axis < sub_axes_.size(); ++sub_axis) {
      if (IsCutBy(*tensors_[0].wanted, sub_axis) || IsSummedOver(static_cast<int>(sub_axis))) {
        share /= static_cast<double>(sub_axes_[sub_axis].size);
      }
    }
    return share;
  }

  // Do all operands that have some summed label have it cut by this sub-axis, in a layout at hand?
  bool IsSummedOver(int sub_axis) const {
    for (size_t label = 0; label < labels_.labels.size(); ++label) {
      if (!labels_.labels[label].summed) continue;
      bool is_cut = true;
      bool has_any = false;
      for (const Tensor& tensor : tensors_) {
        auto at = std::find(tensor.labels->begin(), tensor.labels->end(), static_cast<int>(label));
        if (tensor.operand == nullptr || at == tensor.labels->end()) continue;
        auto d = static_cast<size_t>(at - tensor.labels->begin());
        has_any = true;
        is_cut &= !tensor.seen.empty() && tensor.seen[0]->order == frame_->order &&
                  HasSubAxis(tensor.seen[0]->dims[d], sub_axis);
      }
      if (has_any && is_cut) return true;
    }
    return false;
  }

  bool HasSubAxis(const AxisList& list, int sub_axis) const {
    return std::any_of(list.begin(), list.end(), [&](const DeviceAxis& axis) {
      for (int inside : SubAxesOf(sub_axes_, axis)) {
        if (inside == sub_axis) return true;
      }
      return false;
    });
  }

  bool IsCutBy(const MeshLayout& layout, size_t sub_axis) const {
    auto has = [&](const AxisList& list) { return HasSubAxis(list, static_cast<int>(sub_axis)); };
    return layout.order == frame_->order &&
           (std::any_of(layout.dims.begin(), layout.dims.end(), has) || has(layout.unreduced));
  }

  // Work repeated beyond what the shardings imply weighs more than padding: cutting an uneven dim
  // is no reason to move data, and traffic is not bought with work that nobody asked to be
  // repeated.
  double WorkCost(const Roles& roles) const {
    const PartitionOptions& options = scope_.run().options;
    double shared = 1;
    double shared_slices = 1;
    double padded = 1;
    double extra = 0;
    for (size_t label = 0; label < sizes_.size(); ++label) {
      int64_t count = CountOf(roles, static_cast<int>(label));
      if (count == 1 || sizes_[label].empty()) continue;
      int64_t size = sizes_[label][0];
      if (size > 0) {
        const auto tiles = static_cast<double>(std::min(count, size));
        shared /= tiles;
        if (labels_.labels[label].divides_slices) shared_slices /= tiles;
        padded *= static_cast<double>(CeilOfRatio(size, count)) / static_cast<double>(size);
      }
      extra += labels_.labels[label].bytes_if_cut;
    }
    const double repeated = std::max(0.0, shared - implied_share_);
    const double repeated_slices =
        labels_.slices * std::max(0.0, shared_slices - implied_share_) - kSlicesOfAMessage;
    return flops_ * (repeated * options.bytes_per_repeated_flop + padded * options.bytes_per_flop) +
           std::max(0.0, repeated_slices) * options.bytes_per_repeated_slice + extra;
  }

  int64_t CountOf(const Roles& roles, int label) const {
    int64_t count = 1;
    for (size_t sub_axis = 0; sub_axis < roles.size(); ++sub_axis) {
      if (roles[sub_axis] == label) count *= sub_axes_[sub_axis].size;
    }
    return count;
  }

  bool IsLegal(const Roles& roles) const {
    for (size_t label = 0; label < sizes_.size(); ++label) {
      int64_t count = CountOf(roles, static_cast<int>(label));
      if (count == 1) continue;
      const Labels::Label& kind = labels_.labels[label];
      if (kind.max_tiles > 0 && count > kind.max_tiles) return false;
      if (kind.groups > 0 && kind.groups % count != 0) return false;
      if (!kind.divides) continue;
      for (int64_t size : sizes_[label]) {
        if (size % count != 0) return false;
      }
    }
    return true;
  }

  // Sub-axes of each label, ordered as in tensor `first`, else as in the results, else as in the
  // operands.
  std::vector<AxisList> CutOf(const Roles& roles, size_t first) const {
    std::vector<AxisList> cut(labels_.labels.size());
    std::vector<uint8_t> placed(sub_axes_.size(), 0);
    for (size_t k = 0; k <= tensors_.size(); ++k) {
      if (k == first + 1) continue;
      const Tensor& tensor = tensors_[k == 0 ? first : k - 1];
      for (const MeshLayout* layout : tensor.seen) {
        ForEachCut(tensor, *layout, [&](int label, size_t sub_axis) {
          if (roles[sub_axis] != label || placed[sub_axis] != 0) return;
          placed[sub_axis] = 1;
          cut[static_cast<size_t>(label)].push_back(sub_axes_[sub_axis]);
        });
      }
    }
    // Labels that nobody has them on.
    for (size_t sub_axis = 0; sub_axis < roles.size(); ++sub_axis) {
      if (roles[sub_axis] == kNone || placed[sub_axis] != 0) continue;
      cut[static_cast<size_t>(roles[sub_axis])].push_back(sub_axes_[sub_axis]);
    }
    for (AxisList& list : cut) list = MergedAxes(list);
    return cut;
  }

  const MeshLayout* LayoutOf(const Tensor& tensor, const std::vector<AxisList>& cut) const {
    std::vector<const AxisList*> dims;
    for (int label : *tensor.labels) {
      dims.push_back(label == Labels::kWhole ? &NoAxes() : &cut[static_cast<size_t>(label)]);
    }
    const MeshLayout* reduced = layouts_.WithDims(frame_, dims);
    if (tensor.operand != nullptr) return reduced;
    AxisList partial;
    for (size_t label = 0; label < cut.size(); ++label) {
      if (!labels_.labels[label].summed) continue;
      partial.insert(partial.end(), cut[label].begin(), cut[label].end());
    }
    if (partial.empty()) return reduced;
    MeshLayout layout = *reduced;
    layout.order = frame_->order;
    layout.unreduced = std::move(partial);
    layout.combiner = labels_.combiner;
    return layouts_.Intern(std::move(layout));
  }

  // A bound of what moving operands and results costs, from numbers of tiles alone.
  double LeastMoveCost(const Roles& roles) {
    bool is_partial = false;
    for (size_t sub_axis = 0; sub_axis < roles.size(); ++sub_axis) {
      int role = roles[sub_axis];
      is_partial |= role != kNone && labels_.labels[static_cast<size_t>(role)].summed;
    }
    double cost = 0;
    for (size_t t = 0; t < tensors_.size(); ++t) {
      const Tensor& tensor = tensors_[t];
      if (tensor.same_as != t) continue;
      tile_counts_.clear();
      for (int label : *tensor.labels) {
        tile_counts_.push_back(label == Labels::kWhole ? 1 : CountOf(roles, label));
      }
      if (tensor.operand == nullptr) {
        if (!is_partial) cost += LeastReshardBytes(tensor.shape, tile_counts_, tensor.wanted);
      } else if (tensor.operand->maker == nullptr && !tensor.seen.empty()) {
        double least = std::numeric_limits<double>::infinity();
        for (const MeshLayout* seen : tensor.seen) {
          least = std::min(least, LeastReshardBytes(tensor.shape, seen, tile_counts_));
        }
        cost += least;
      }
    }
    return cost;
  }

  // Is tensor t an operand that was counted before, in the same layout?
  bool IsCounted(size_t t, std::span<const MeshLayout* const> chosen) const {
    size_t first = tensors_[t].same_as;
    return first != t && chosen[first] == chosen[t];
  }

  void Consider(const Roles& roles) {
    for (const Roles& done : considered_) {
      if (done == roles) return;
    }
    considered_.push_back(roles);
    if (!IsLegal(roles)) return;
    double work = WorkCost(roles);
    if (work >= best_cost_ || work + LeastMoveCost(roles) >= best_cost_) return;
    std::vector<AxisList> as_in_result = CutOf(roles, 0);
    ConsiderCut(roles, work, as_in_result);
    for (size_t t = 1; has_order_conflicts_ && t < tensors_.size(); ++t) {
      std::vector<AxisList> cut = CutOf(roles, t);
      if (cut != as_in_result) ConsiderCut(roles, work, cut);
    }
  }

  // `work`: of the roles, however their sub-axes are ordered.
  void ConsiderCut(const Roles& roles, double work, const std::vector<AxisList>& cut) {
    double cost = work;
    std::vector<const MeshLayout*> chosen;
    for (const Tensor& tensor : tensors_) chosen.push_back(LayoutOf(tensor, cut));
    for (size_t t = 0; t < tensors_.size() && cost < best_cost_; ++t) {
      const Tensor& tensor = tensors_[t];
      if (IsCounted(t, chosen)) continue;
      if (tensor.operand != nullptr) {
        cost += scope_.ReshardCost(*tensor.operand, chosen[t]);
      } else if (chosen[t] != tensor.wanted) {
        const bool is_paid_later = labels_.sums_leave_loop;
        const MeshLayout* from = is_paid_later ? layouts_.Reduced(chosen[t]) : chosen[t];
        cost += scope_.run().planner.Plan(tensor.shape, from, tensor.wanted).cost;
      }
    }
    if (cost >= best_cost_) return;
    best_cost_ = cost;
    best_roles_ = roles;
    best_ = {std::move(chosen), cut};
  }

  void Enumerate() {
    size_t combinations = 1;
    for (const std::vector<int>& choices : choices_) {
      combinations = std::min(combinations * choices.size(), kMaxCombinations + 1);
    }
    if (combinations <= kMaxCombinations) {
      Roles roles(sub_axes_.size());
      EnumerateFrom(0, roles);
      return;
    }
    // Too many: improve the best one sub-axis at a time.
    for (bool improved = true; improved;) {
      improved = false;
      for (size_t sub_axis = 0; sub_axis < sub_axes_.size(); ++sub_axis) {
        for (int label : choices_[sub_axis]) {
          Roles roles = best_.has_value() ? best_roles_ : Roles(sub_axes_.size());
          roles.Set(sub_axis, label);
          double before = best_cost_;
          Consider(roles);
          improved |= best_cost_ < before;
        }
      }
    }
  }

  void EnumerateFrom(size_t sub_axis, Roles& roles) {
    if (sub_axis == sub_axes_.size()) {
      Consider(roles);
      return;
    }
    for (int label : choices_[sub_axis]) {
      roles.Set(sub_axis, label);
      EnumerateFrom(sub_axis + 1, roles);
    }
  }

  // Sub-axes that would leave partial values may cut any dim of the result instead, though nobody
  // has them there: attention with cut heads is local if queries and keys are cut by batch for it
  // (two exchanges of small operands instead of the sum of a large product), and large activations
  // may stay with their rows while small weights are gathered. Only into equal tiles, and where
  // much is saved: whoever uses the result expects it elsewhere.
  void ConsiderFreeLabels() {
    double best_so_far = best_cost_;
    best_cost_ -= (1 - kFreeLabelShare) * (best_cost_ - WorkCost(best_roles_));
    double bound = best_cost_;
    std::vector<Roles> bases = {best_roles_};
    for (const Tensor& tensor : tensors_) {
      Roles roles = FromTensor(tensor);
      if (std::find(bases.begin(), bases.end(), roles) == bases.end()) bases.push_back(roles);
    }
    for (const Roles& base : bases) {
      for (int label : *tensors_[0].labels) {
        if (label == Labels::kWhole) continue;
        Roles roles = base;
        for (size_t sub_axis = 0; sub_axis < roles.size(); ++sub_axis) {
          int role = roles[sub_axis];
          bool is_summed = role != kNone && labels_.labels[static_cast<size_t>(role)].summed;
          if (is_summed) roles.Set(sub_axis, label);
        }
        if (roles != base && CutsEvenly(roles, label)) Consider(roles);
      }
    }
    cuts_freely_ = best_cost_ != bound;
    if (!cuts_freely_) best_cost_ = best_so_far;
  }

  bool CutsEvenly(const Roles& roles, int label) const {
    int64_t count = CountOf(roles, label);
    const std::vector<int64_t>& sizes = sizes_[static_cast<size_t>(label)];
    return std::all_of(sizes.begin(), sizes.end(), [&](int64_t size) { return size % count == 0; });
  }

  Strategy Take() {
    CheckInternal(best_.has_value(), "no strategy");
    Strategy strategy;
    size_t results = labels_.results.size();
    strategy.results.assign(best_->layouts.begin(),
                            best_->layouts.begin() + static_cast<int64_t>(results));
    strategy.operands.assign(best_->layouts.begin() + static_cast<int64_t>(results),
                             best_->layouts.end());
    strategy.cut = best_->cut;
    strategy.cost = best_cost_;
    strategy.cuts_freely = cuts_freely_;
    return strategy;
  }

  struct Choice {
    std::vector<const MeshLayout*> layouts;  // per tensor
    std::vector<AxisList> cut;
  };

  PartitionScope& scope_;
  const Labels& labels_;
  MeshLayoutTable& layouts_;
  std::vector<Tensor> tensors_;        // results, then operands
  const MeshLayout* frame_ = nullptr;  // gives manual sub-axes and device order
  AxisList sub_axes_;
  bool has_order_conflicts_ = false;
  std::vector<std::vector<int>> choices_;  // per sub-axis: labels and kNone
  std::vector<std::vector<int64_t>> sizes_;
  double flops_ = 0;
  double implied_share_ = 1;
  bool cuts_freely_ = false;
  std::vector<int64_t> tile_counts_;  // of the tensor being priced
  std::vector<Roles> considered_;
  double best_cost_ = std::numeric_limits<double>::infinity();
  Roles best_roles_{0};
  std::optional<Choice> best_;
};

}  // namespace

size_t FirstOfSame(std::span<PartitionedValue* const> operands, size_t i) {
  constexpr size_t kMaxCompared = 16;
  size_t first = i - std::min(i, kMaxCompared);
  while (operands[first] != operands[i]) ++first;
  return first;
}

Strategy CheapestStrategy(PartitionScope& scope, const Labels& labels,
                          std::span<PartitionedValue* const> operands,
                          std::span<const Shape* const> results,
                          std::span<const MeshLayout* const> wanted) {
  return StrategySearch(scope, labels, operands, results, wanted).Run();
}

}  // namespace gshard
