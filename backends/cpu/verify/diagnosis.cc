// A list of mistakes, the most telling first; each says in words that the evidence fits it.
#include "backends/cpu/verify/diagnosis.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "backends/cpu/verify/evidence.h"
#include "core/analysis/combiner.h"
#include "core/analysis/meshes.h"
#include "core/analysis/partitioned.h"
#include "ir/attribute_names.h"
#include "ir/computation.h"
#include "ir/mesh.h"
#include "ir/metadata.h"
#include "ir/source_lines.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr size_t kMaxMadeBy = 8;      // instructions told
constexpr uint32_t kMaxSubsets = 64;  // of mesh axes
constexpr int64_t kMaxShift = 16;     // along a dim, besides whole tiles
constexpr size_t kMaxPairsTold = 4;

// The mesh axes by name with their coordinates: one axis of all devices where the module has none.
struct Axes {
  std::vector<std::string> names;
  std::vector<int64_t> sizes;
  std::vector<std::vector<int64_t>> coordinates;  // by device
};

Axes AxesOf(const Module& partitioned, uint32_t devices) {
  Axes axes;
  const std::unique_ptr<Module> copy = partitioned.Clone();
  const Mesh* mesh = MainMesh(*copy);
  if (mesh == nullptr || mesh->device_count() != devices) {
    axes.names = {"all devices"};
    axes.sizes = {devices};
    for (uint32_t d = 0; d < devices; ++d) axes.coordinates.push_back({d});
    return axes;
  }
  for (const MeshAxis& axis : mesh->axes) {
    axes.names.push_back(axis.name);
    axes.sizes.push_back(axis.size);
  }
  for (uint32_t d = 0; d < devices; ++d) {
    axes.coordinates.push_back(mesh->devices.CoordinateOf(d));
  }
  return axes;
}

class Diagnostician {
 public:
  // `made_by`: the wrong array's instructions behind right ones.
  Diagnostician(const Evidence& evidence, const Axes& axes,
                std::span<const Instruction* const> made_by)
      : evidence_(evidence), axes_(axes), made_by_(made_by) {
    for (uint32_t device : evidence.devices()) {
      if (evidence.IsWrong(device)) wrong_.push_back(device);
    }
  }

  // Empty: nothing is recognised.
  std::string Run() const {
    if (wrong_.empty()) return {};
    for (const auto test :
         {&Diagnostician::NotANumber, &Diagnostician::Zeros, &Diagnostician::MissingSum,
          &Diagnostician::PartsOfASum, &Diagnostician::ExchangedPieces, &Diagnostician::Scaled,
          &Diagnostician::Opposite, &Diagnostician::Reciprocal, &Diagnostician::Shifted,
          &Diagnostician::BlocksOutOfOrder, &Diagnostician::Offset}) {
      std::string text = (this->*test)();
      if (!text.empty()) return text + OnSomeDevices();
    }
    std::string text = AtABorder();
    if (!text.empty()) return text + OnSomeDevices();
    return wrong_.size() < evidence_.devices().size() ? "wrong" + OnSomeDevices() : "";
  }

 private:
  using Numbers = std::vector<double>;

  // visit(have, want) of the elements of wrong devices that should have a value.
  template <typename Visit>
  void ForEachElement(Visit visit) const {
    for (uint32_t device : wrong_) {
      const Numbers want = evidence_.WantOf(device);
      const Numbers& have = evidence_.have(device);
      for (size_t i = 0; i < want.size(); ++i) {
        if (!std::isnan(want[i])) visit(have[i], want[i]);
      }
    }
  }

  std::string OnSomeDevices() const {
    if (wrong_.size() == evidence_.devices().size()) return {};
    std::string list;
    for (size_t i = 0; i < std::min(wrong_.size(), kMaxPairsTold); ++i) {
      list += fmt::format("{}{}", i == 0 ? "" : ", ", wrong_[i]);
    }
    if (wrong_.size() > kMaxPairsTold) list += ", ..";
    return fmt::format(" (on device{} {} only, others are right)", wrong_.size() == 1 ? "" : "s",
                       list);
  }

  std::string NotANumber() const {
    bool beside_numbers = false, beside_infinity = false;
    ForEachElement([&](double have, double want) {
      if (!std::isnan(have)) return;
      beside_numbers = beside_numbers || std::isfinite(want);
      beside_infinity = beside_infinity || std::isinf(want);
    });
    if (!beside_numbers && !beside_infinity) return {};
    if (!beside_numbers) {
      return "NaN where the reference has infinity: sums of infinities depend on their order, and "
             "inputs without any tell whether something is wrong";
    }
    return "NaN where the reference has numbers: padding of uneven shards is read, a mask is "
           "missing";
  }

  std::string Zeros() const {
    bool zero = true, nonzero_wanted = false;
    ForEachElement([&](double have, double want) {
      zero = zero && have == 0;
      nonzero_wanted = nonzero_wanted || want != 0;
    });
    if (!zero || !nonzero_wanted) return {};
    return "zeros: nothing arrives there (no pair of a permute has the device as its target, or a "
           "mask is wrong)";
  }

  // Devices that have the same coordinates but along the axes of `subset`.
  std::vector<std::vector<uint32_t>> GroupsAlong(uint32_t subset) const {
    std::map<std::vector<int64_t>, std::vector<uint32_t>> groups;
    for (uint32_t d = 0; d < evidence_.device_count(); ++d) {
      std::vector<int64_t> key = axes_.coordinates[d];
      for (size_t a = 0; a < key.size(); ++a) {
        if ((subset >> a & 1) != 0) key[a] = -1;
      }
      groups[key].push_back(d);
    }
    std::vector<std::vector<uint32_t>> out;
    for (auto& [key, members] : groups) out.push_back(std::move(members));
    return out;
  }

  std::string NamesOf(uint32_t subset) const {
    std::string names;
    for (size_t a = 0; a < axes_.names.size(); ++a) {
      if ((subset >> a & 1) != 0) names += (names.empty() ? "" : "+") + axes_.names[a];
    }
    return names;
  }
  int64_t SizeOf(uint32_t subset) const {
    int64_t size = 1;
    for (size_t a = 0; a < axes_.sizes.size(); ++a) {
      if ((subset >> a & 1) != 0) size *= axes_.sizes[a];
    }
    return size;
  }
  uint32_t SubsetCount() const {
    const auto axes = static_cast<uint32_t>(std::min<size_t>(axes_.names.size(), 6));
    return std::min(uint32_t{1} << axes, kMaxSubsets);
  }

  enum class Fold { kSum, kMax, kMin };
  static double Apply(Fold fold, double a, double b) {
    if (fold == Fold::kSum) return a + b;
    return fold == Fold::kMax ? std::max(a, b) : std::min(a, b);
  }

  bool GroupsFoldToReference(const std::vector<std::vector<uint32_t>>& groups, Fold fold) const {
    for (const std::vector<uint32_t>& group : groups) {
      Numbers folded = evidence_.have(group[0]);
      for (size_t m = 1; m < group.size(); ++m) {
        if (!evidence_.SameTile(group[0], group[m])) return false;
        const Numbers& member = evidence_.have(group[m]);
        for (size_t i = 0; i < folded.size(); ++i) folded[i] = Apply(fold, folded[i], member[i]);
      }
      if (!evidence_.Agree(folded, evidence_.WantOf(group[0]), static_cast<double>(group.size()))) {
        return false;
      }
    }
    return true;
  }

  // Does a collective among the array's instructions fold over just these groups?
  bool HasFold(std::vector<std::vector<uint32_t>> groups, Fold fold) const {
    const Opcode wanted = fold == Fold::kSum   ? Opcode::kAdd
                          : fold == Fold::kMax ? Opcode::kMaximum
                                               : Opcode::kMinimum;
    std::sort(groups.begin(), groups.end());
    return std::any_of(made_by_.begin(), made_by_.end(), [&](const Instruction* x) {
      if (x->opcode() != Opcode::kAllReduce && x->opcode() != Opcode::kReduceScatter) return false;
      if (CombinerOf(x->called(0)) != wanted) return false;
      const ReplicaGroups* found = x->attributes<CollectiveAttributes>().replica_groups;
      std::vector<std::vector<uint32_t>> lists;
      for (const auto& list :
           (found == nullptr ? ReplicaGroups() : *found).ToLists(evidence_.device_count())) {
        std::vector<uint32_t>& members = lists.emplace_back(list.begin(), list.end());
        std::sort(members.begin(), members.end());
      }
      std::sort(lists.begin(), lists.end());
      return lists == groups;
    });
  }

  std::string MissingSum() const {
    for (const Fold fold : {Fold::kSum, Fold::kMax, Fold::kMin}) {
      for (uint32_t subset = 1; subset < SubsetCount(); ++subset) {
        if (SizeOf(subset) == 1) continue;
        const std::vector<std::vector<uint32_t>> groups = GroupsAlong(subset);
        if (!GroupsFoldToReference(groups, fold) || HasFold(groups, fold)) continue;
        const char* what = fold == Fold::kSum ? "sum" : fold == Fold::kMax ? "maximum" : "minimum";
        return fmt::format(
            "the {} over {} of the devices' values equals the reference: an all-reduce over {} is "
            "missing here",
            what, NamesOf(subset), NamesOf(subset));
      }
    }
    return {};
  }

  // The different values on the devices of a tile add up to it.
  std::string PartsOfASum() const {
    int64_t most = 0;
    for (uint32_t first : evidence_.devices()) {
      Numbers sum = evidence_.have(first);
      std::vector<const Numbers*> seen = {&evidence_.have(first)};
      for (uint32_t other = 0; other < evidence_.device_count(); ++other) {
        const Numbers& value = evidence_.have(other);
        if (!evidence_.SameTile(first, other)) continue;
        const bool known = std::any_of(
            seen.begin(), seen.end(), [&](const Numbers* s) { return s == &value || *s == value; });
        if (known) continue;
        seen.push_back(&value);
        for (size_t i = 0; i < sum.size(); ++i) sum[i] += value[i];
      }
      if (seen.size() < 2) return {};
      if (!evidence_.Agree(sum, evidence_.WantOf(first), static_cast<double>(seen.size()))) {
        return {};
      }
      most = std::max(most, static_cast<int64_t>(seen.size()));
    }
    return fmt::format(
        "{} different values on the devices add up to the reference: sums over parts of the "
        "devices only, the replica groups are wrong",
        most);
  }

  std::string ExchangedPieces() const {
    std::vector<std::pair<uint32_t, uint32_t>> pairs;  // device, whose piece it holds
    for (uint32_t device : wrong_) {
      const Numbers& have = evidence_.have(device);
      const auto owner =
          std::find_if(evidence_.devices().begin(), evidence_.devices().end(), [&](uint32_t other) {
            return !evidence_.SameTile(device, other) &&
                   evidence_.Agree(have, evidence_.WantOf(other));
          });
      if (owner == evidence_.devices().end()) return {};
      pairs.emplace_back(device, *owner);
    }
    std::string text;
    for (size_t i = 0; i < std::min(pairs.size(), kMaxPairsTold); ++i) {
      text += fmt::format("{}device {} holds device {}'s piece", i == 0 ? "" : ", ", pairs[i].first,
                          pairs[i].second);
    }
    if (pairs.size() > kMaxPairsTold) {
      text += fmt::format(", and {} more", pairs.size() - kMaxPairsTold);
    }
    return text + ": wrong pair in the permute, wrong order in a group, or wrong start";
  }

  std::string Scaled() const {
    double have_want = 0, want_want = 0;
    ForEachElement([&](double have, double want) {
      have_want += have * want;
      want_want += want * want;
    });
    if (!(want_want > 0) || !std::isfinite(have_want)) return {};
    const double factor = have_want / want_want;
    if (std::fabs(factor) < 1e-6) return {};
    for (uint32_t device : wrong_) {
      Numbers scaled = evidence_.WantOf(device);
      for (double& value : scaled) value *= factor;
      if (!evidence_.Agree(evidence_.have(device), scaled, 4 * std::max(1.0, std::fabs(factor)))) {
        return {};
      }
    }
    if (std::fabs(factor + 1) < 1e-4) return "the negative of the reference: operands are swapped";
    std::string text = fmt::format("scaled by {:.6g}", factor);
    for (uint32_t subset = 1; subset < SubsetCount(); ++subset) {
      const auto size = static_cast<double>(SizeOf(subset));
      if (size == 1) continue;
      if (std::fabs(factor - size) < 1e-4 * size) {
        return text +
               fmt::format(", the size of {}: added up over it once too often", NamesOf(subset));
      }
      if (std::fabs(factor * size - 1) < 1e-4) {
        return text + fmt::format(
                          ", one over the size of {}: equal values are not added up over it, "
                          "or divided twice",
                          NamesOf(subset));
      }
    }
    return text;
  }

  std::string Opposite() const {
    bool opposite = true;
    ForEachElement([&](double have, double want) {
      opposite = opposite && (want == 0 || want == 1) && have == 1 - want;
    });
    return opposite ? "the opposite of the reference: operands or branches are swapped" : "";
  }

  std::string Reciprocal() const {
    bool reciprocal = true;
    ForEachElement([&](double have, double want) {
      reciprocal = reciprocal && std::fabs(have * want - 1) < 1e-3;
    });
    return reciprocal ? "the reciprocal of the reference: operands are swapped" : "";
  }

  std::string Shifted() const {
    for (size_t dim = 0; dim < evidence_.dims().size(); ++dim) {
      const int64_t size = evidence_.sizes()[dim];
      std::vector<int64_t> shifts;
      for (int64_t s = 1; s <= std::min(kMaxShift, evidence_.dims()[dim] - 1); ++s) {
        shifts.insert(shifts.end(), {s, -s});
      }
      shifts.insert(shifts.end(), {size, -size});
      for (int64_t shift : shifts) {
        if (IsShiftedBy(dim, shift)) {
          return fmt::format("shifted by {} along dim {}: a slice starts at the wrong place", shift,
                             dim);
        }
      }
    }
    return {};
  }
  bool IsShiftedBy(size_t dim, int64_t shift) const {
    bool any = false;
    for (uint32_t device : wrong_) {
      std::vector<int64_t> start(evidence_.start(device).begin(), evidence_.start(device).end());
      start[dim] += shift;
      const Numbers want = evidence_.WantAt(start);
      const auto unknown =
          std::count_if(want.begin(), want.end(), [](double value) { return std::isnan(value); });
      if (2 * unknown > static_cast<int64_t>(want.size())) continue;
      if (!evidence_.Agree(evidence_.have(device), want)) return false;
      any = true;
    }
    return any;
  }

  // Each block along a dim is another block of what should be.
  std::string BlocksOutOfOrder() const {
    for (size_t dim = 0; dim < evidence_.dims().size(); ++dim) {
      for (uint32_t subset = 1; subset < SubsetCount(); ++subset) {
        const int64_t blocks = SizeOf(subset);
        if (blocks == 1 || evidence_.sizes()[dim] % blocks != 0) continue;
        const std::string order = OrderOfBlocks(dim, blocks);
        if (order.empty()) continue;
        return fmt::format(
            "the {} blocks along dim {} are in the order {}: the devices of a replica group "
            "are in the wrong order",
            blocks, dim, order);
      }
    }
    return {};
  }
  std::string OrderOfBlocks(size_t dim, int64_t blocks) const {
    const uint32_t device = wrong_[0];
    const Numbers want = evidence_.WantOf(device);
    const Numbers& have = evidence_.have(device);
    int64_t inner = 1, outer = 1;
    for (size_t i = 0; i < evidence_.sizes().size(); ++i) {
      if (i < dim) outer *= evidence_.sizes()[i];
      if (i > dim) inner *= evidence_.sizes()[i];
    }
    const int64_t run = evidence_.sizes()[dim] / blocks * inner;
    auto block = [&](const Numbers& from, int64_t b) {
      Numbers part;
      for (int64_t o = 0; o < outer; ++o) {
        const auto begin = from.begin() + (o * blocks + b) * run;
        part.insert(part.end(), begin, begin + run);
      }
      return part;
    };
    std::string order;
    for (int64_t b = 0; b < blocks; ++b) {
      const Numbers part = block(have, b);
      int64_t found = 0;
      while (found < blocks && !evidence_.Agree(part, block(want, found))) ++found;
      if (found == blocks) return {};
      order += fmt::format("{}{}", b == 0 ? "" : ",", found);
    }
    return order;
  }

  std::string Offset() const {
    double sum = 0, count = 0;
    ForEachElement([&](double have, double want) {
      sum += have - want;
      ++count;
    });
    const double offset = sum / count;
    if (!std::isfinite(offset) || count < 2) return {};
    for (uint32_t device : wrong_) {
      Numbers moved = evidence_.WantOf(device);
      for (double& value : moved) value += offset;
      if (!evidence_.Agree(evidence_.have(device), moved, 4)) return {};
    }
    return fmt::format("off by {:.6g} everywhere", offset);
  }

  // Wrong elements are next to a border of the devices' tiles.
  std::string AtABorder() const {
    for (size_t dim = 0; dim < evidence_.dims().size(); ++dim) {
      const int64_t size = evidence_.sizes()[dim];
      if (size < 3 || size == evidence_.dims()[dim]) continue;
      int64_t low = -1, high = size;  // wrong up to here, and from here on
      int64_t inner = 1;
      for (size_t i = dim + 1; i < evidence_.sizes().size(); ++i) inner *= evidence_.sizes()[i];
      for (uint32_t device : wrong_) {
        const Numbers want = evidence_.WantOf(device);
        const Numbers& have = evidence_.have(device);
        for (size_t i = 0; i < want.size(); ++i) {
          if (evidence_.Agree({&have[i], 1}, {&want[i], 1}) || std::isnan(want[i])) continue;
          const int64_t at = static_cast<int64_t>(i) / inner % size;
          if (2 * at < size) {
            low = std::max(low, at);
          } else {
            high = std::min(high, at);
          }
        }
      }
      if (high - low - 1 < size / 2) continue;
      return fmt::format(
          "only the outermost {} of {} elements along dim {} of the tiles are wrong: a wrong halo",
          std::max(low + 1, size - high), size, dim);
    }
    return {};
  }

  const Evidence& evidence_;
  const Axes& axes_;
  const std::span<const Instruction* const> made_by_;
  std::vector<uint32_t> wrong_;
};

// Per-device instructions between right arrays and the wrong one, the last first.
std::vector<const Instruction*> MadeBy(const Instruction& local, std::span<const LocalForm> forms) {
  std::unordered_set<const Instruction*> right;
  for (const LocalForm& form : forms) {
    if (form.local != &local) right.insert(form.local);
  }
  std::vector<const Instruction*> list = {&local};
  for (size_t next = 0; next < list.size() && list.size() < 64; ++next) {
    for (const Instruction* operand : list[next]->operands()) {
      if (right.count(operand) != 0 || operand->opcode() == Opcode::kParameter ||
          std::find(list.begin(), list.end(), operand) != list.end()) {
        continue;
      }
      list.push_back(operand);
    }
  }
  return list;
}

// A device with the right copy of what every wrong one holds.
std::optional<uint32_t> RightCopy(const Evidence& evidence) {
  std::optional<uint32_t> first;
  for (uint32_t device : evidence.devices()) {
    if (!evidence.IsWrong(device)) continue;
    const auto right =
        std::find_if(evidence.devices().begin(), evidence.devices().end(), [&](uint32_t other) {
          return evidence.SameTile(device, other) && !evidence.IsWrong(other);
        });
    if (right == evidence.devices().end()) return std::nullopt;
    if (!first) first = *right;
  }
  return first;
}

void Place(const Module& whole, const Instruction& x, Finding& finding) {
  const std::string line = SourceLineOf(whole, x);
  if (const size_t colon = line.rfind(':'); colon != std::string::npos && colon + 1 < line.size()) {
    finding.file = line.substr(0, colon);
    finding.line = std::atoll(line.c_str() + colon + 1);
    return;
  }
  const Diagnostic located = whole.ErrorAt(&x, "", "");
  finding.file = located.file;
  finding.line = static_cast<int64_t>(located.line);
}

}  // namespace

Expected<Finding> Diagnose(const Module& whole, const Module& partitioned,
                           std::span<const LocalForm> forms, const Inputs& inputs,
                           const InstructionsOptions& options,
                           const StepCheckResult::Fault& fault) {
  Finding finding;
  finding.mismatch = fault.mismatch;
  Place(whole, *fault.x, finding);
  const std::vector<const Instruction*> made_by = MadeBy(*fault.form->local, forms);
  for (const Instruction* x : made_by) {
    if (finding.made_by.size() < kMaxMadeBy) {
      finding.made_by.push_back(fmt::format("{} {}", OpcodeName(x->opcode()), x->name()));
    }
    if (finding.cause.empty()) {
      finding.cause = FrontendAttribute(x->frontend_attributes(), kCauseAttribute);
    }
  }
  auto evidence = GSHARD_TRY(Evidence::Collect(partitioned, inputs, options, fault));
  if (!evidence) return finding;
  const Axes axes = AxesOf(partitioned, evidence->device_count());
  if (fault.reference_varies) finding.mismatch.right_device = RightCopy(*evidence);
  finding.diagnosis = finding.mismatch.right_device
                          ? fmt::format("device {}'s copy is right: {}",
                                        *finding.mismatch.right_device, kUnequalCopies)
                          : Diagnostician(*evidence, axes, made_by).Run();
  // The device that is wrong, not the first that has the element.
  for (uint32_t device : evidence->devices()) {
    if (!evidence->Holds(device, fault.mismatch.index) || !evidence->IsWrong(device)) continue;
    finding.mismatch.device = device;
    break;
  }
  return finding;
}

}  // namespace gshard::cpu
