#include "core/pipeline/plan/manual_regions.h"

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>
#include <unordered_set>
#include <utility>

#include "core/analysis/combiner.h"
#include "core/transforms/rewriter.h"
#include "fmt/format.h"
#include "ir/custom_call.h"
#include "ir/dimwise_call.h"
#include "ir/op_traits.h"
#include "ir/sharding_algebra.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

bool IsAcrossDevices(const Instruction& x) {
  return HasFlag(x.opcode(), kCollective) && x.attributes<CollectiveAttributes>().channel_id != 0;
}

bool HasStandIn(const Instruction& x) {
  const auto& collective = x.attributes<CollectiveAttributes>();
  switch (x.opcode()) {
    case Opcode::kAllReduce:
      return CombinerOf(x.called(0)).has_value();
    case Opcode::kReduceScatter:
      return CombinerOf(x.called(0)).has_value() && collective.dimension >= 0;
    case Opcode::kAllGather:
      return collective.dimension >= 0;
    case Opcode::kAllToAll:
      return collective.dimension >= 0 && x.operand_count() == 1 && x.shape()->IsArray();
    case Opcode::kCollectivePermute:
      return collective.slice_sizes.empty() && x.operand_count() == 1 && x.shape()->IsArray();
    case Opcode::kCollectiveBroadcast:
      return collective.has_dynamic_root.empty() && x.operand_count() == 1;
    default:  // has no local operation that stands for it
      return false;
  }
}

bool SameGroups(const CollectiveAttributes& a, const CollectiveAttributes& b) {
  const bool same = a.replica_groups == b.replica_groups ||
                    (a.replica_groups != nullptr && b.replica_groups != nullptr &&
                     *a.replica_groups == *b.replica_groups);
  return same && a.use_global_device_ids == b.use_global_device_ids && a.dimension == b.dimension &&
         std::ranges::equal(a.source_target_pairs, b.source_target_pairs,
                            [](const DevicePair& one, const DevicePair& other) {
                              return one.source == other.source && one.target == other.target;
                            });
}

const Shape* ElementOf(const Shape* shape, int64_t i) {
  return shape->IsTuple() ? shape->element(i) : shape;
}

Instruction* BehindCopies(Instruction* x) {
  while (x->opcode() == Opcode::kCopy) x = x->operand(0);
  return x;
}

// The number in the target; -1: no stand-in.
int64_t NumberOf(const Instruction* x) {
  if (x->opcode() != Opcode::kCustomCall) return -1;
  std::string_view target = x->attributes<CustomCallAttributes>().target;
  if (!target.starts_with(kDimwiseTarget)) return -1;
  target.remove_prefix(kDimwiseTarget.size());
  int64_t number = -1;
  std::from_chars(target.data(), target.data() + target.size(), number);
  return number;
}

}  // namespace

class RegionHiding {
 public:
  RegionHiding(Module& module, ManualRegions& regions) : module_(module), regions_(regions) {}

  Expected<void> Run() {
    if (!HasRegions()) return {};
    if (auto checked = Check(); !checked) return checked;
    const std::vector<Computation*> all(module_.computations().begin(),
                                        module_.computations().end());
    Rewriter rewriter(module_);
    for (Computation* computation : all) {
      rewriter.Run(computation, [&](Instruction* x, Rewriter& r) { return Visit(x, r.builder()); });
    }
    return {};
  }

 private:
  bool HasRegions() const {
    for (const Computation* computation : module_.computations()) {
      if (std::ranges::any_of(computation->instructions(),
                              [](const Instruction* x) { return IsRegionMarker(*x); })) {
        return true;
      }
    }
    return false;
  }

  Expected<void> Check() const {
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        std::string why;
        if (IsRegionMarker(*x) && computation != module_.entry()) {
          why = "its region is in a loop or a branch, whose micro-batches are not told apart";
        } else if (IsRegionMarker(*x) && !x->shape()->IsArray()) {
          why = "it is no array";
        } else if (HasFlag(x->opcode(), kCollective) && IsAcrossDevices(*x) && !HasStandIn(*x)) {
          why = "micro-batches of such a collective are not known";
        }
        if (why.empty()) continue;
        Diagnostic error = module_.ErrorAt(
            x, "E-PIPELINE-011",
            fmt::format("pipelines do not take '{}' of a manual region: {}", x->name(), why));
        error.hint =
            "give the values outside shard_map shardings instead, or call it for each layer";
        return Fail(std::move(error));
      }
    }
    return {};
  }

  Instruction* Visit(Instruction* x, Builder& b) {
    if (x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kTuple) {
      return x->operand(0)->operand(x->attributes<GetTupleElementAttributes>().index);
    }
    if (IsRegionMarker(*x)) return Border(x, b);
    if (x->opcode() == Opcode::kPartitionId) {
      ManualRegions::Hidden hidden;
      hidden.original = x;
      hidden.inside = x->sharding();
      return StandIn(b, x, {}, x->shape(), Number(hidden), "");
    }
    if (!HasFlag(x->opcode(), kCollective) || !IsAcrossDevices(*x)) return x;
    ManualRegions::Hidden hidden;
    hidden.original = x;
    if (!x->called().empty()) hidden.combiner = CombinerOf(x->called(0));
    const int64_t dimension = x->attributes<CollectiveAttributes>().dimension;
    const std::string whole = dimension >= 0 ? fmt::format("{}", dimension) : "";
    const int64_t number = Number(hidden);
    std::vector<Instruction*> results;
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      results.push_back(StandIn(b, x, {x->operand(i)}, ElementOf(x->shape(), i), number, whole));
    }
    return x->shape()->IsTuple() ? b.Tuple(results) : results[0];
  }

  Instruction* Border(Instruction* x, Builder& b) {
    const bool enters = IsCustomCallTo(*x, kEnterManualTarget);
    ManualRegions::Hidden hidden;
    hidden.original = x;
    Instruction* operand = x->operand(0);
    hidden.inside = enters ? x->sharding() : operand->sharding();
    hidden.outside = enters ? operand->sharding() : x->sharding();
    hidden.open = x->backend_config();
    if (enters && hidden.inside == nullptr) hidden.inside = b.context().Manual();
    if (IsCustomCallTo(*operand, kShardingTarget) && operand->operand_count() == 1 &&
        !operand->backend_config().empty()) {
      // Made again before the border, with its open dims.
      hidden.operand_open = operand->backend_config();
      operand = operand->operand(0);
    }
    return StandIn(b, x, {operand}, x->shape(), Number(hidden), "");
  }

  int64_t Number(const ManualRegions::Hidden& hidden) {
    auto same = [&](const ManualRegions::Hidden& other) {
      if (other.inside != hidden.inside || other.outside != hidden.outside ||
          other.combiner != hidden.combiner || other.open != hidden.open ||
          other.operand_open != hidden.operand_open) {
        return false;
      }
      const Instruction &a = *hidden.original, &b = *other.original;
      if (a.opcode() != b.opcode()) return false;
      if (a.opcode() == Opcode::kPartitionId) return true;
      if (a.opcode() != Opcode::kCustomCall) {
        return SameGroups(a.attributes<CollectiveAttributes>(),
                          b.attributes<CollectiveAttributes>());
      }
      return a.attributes<CustomCallAttributes>().target ==
             b.attributes<CustomCallAttributes>().target;
    };
    auto known = std::ranges::find_if(regions_.hidden_, same);
    const int64_t number = known - regions_.hidden_.begin();
    if (known == regions_.hidden_.end()) regions_.hidden_.push_back(hidden);
    return number;
  }

  Instruction* StandIn(Builder& b, const Instruction* x, std::vector<Instruction*> operands,
                       const Shape* shape, int64_t number, const std::string& whole) {
    CustomCallAttributes attributes;
    attributes.target = module_.arena().Copy(
        std::string_view(fmt::format("{}{}:{}", kDimwiseTarget, number, whole)));
    Instruction* made = b.Add(Opcode::kCustomCall, operands, attributes, shape, {}, x->name());
    made->set_sharding(x->shape()->IsTuple() ? nullptr : x->sharding());
    return made;
  }

  Module& module_;
  ManualRegions& regions_;
};

Expected<ManualRegions> ManualRegions::Hide(Module& module, int64_t devices) {
  ManualRegions regions;
  regions.devices_ = devices;
  if (auto done = RegionHiding(module, regions).Run(); !done) return Fail(std::move(done.error()));
  return regions;
}

const ManualRegions::Hidden* ManualRegions::HiddenOf(const Instruction* x) const {
  const int64_t number = NumberOf(x);
  if (number < 0 || number >= std::ssize(hidden_)) return nullptr;
  return &hidden_[static_cast<size_t>(number)];
}

void ManualRegions::FindInside(const Module& module) {
  inside_.clear();
  if (empty()) return;
  Context& context = module.context();
  for (const Instruction* x : module.entry()->instructions()) {
    if (const Hidden* hidden = HiddenOf(x)) {
      if (Leaves(x)) continue;
      if (Enters(x)) {
        inside_[x] = hidden->inside;
        continue;
      }
      if (hidden->original->opcode() == Opcode::kPartitionId) {
        inside_[x] = hidden->inside != nullptr ? hidden->inside : context.Manual();
        continue;
      }
    }
    for (const Instruction* operand : x->operands()) {
      auto from = inside_.find(operand);
      if (from == inside_.end()) continue;
      inside_.emplace(x, from->second);
      break;
    }
  }
}

void ManualRegions::SeparateConstants(Module& module) const {
  if (empty()) return;
  ManualRegions regions = *this;
  regions.FindInside(module);
  Computation* entry = module.entry();
  const std::vector<Instruction*> before(entry->instructions().begin(),
                                         entry->instructions().end());
  std::unordered_set<const Instruction*> constants, used_inside, used_outside;
  for (const Instruction* x : before) {
    const bool of_constants = std::ranges::all_of(
        x->operands(), [&](const Instruction* operand) { return constants.contains(operand); });
    if (x->opcode() != Opcode::kParameter && of_constants && HiddenOf(x) == nullptr &&
        MayBeRepeated(*x)) {
      constants.insert(x);
    }
  }
  const auto is_read_inside = [&](const Instruction* user) {
    return constants.contains(user) ? used_inside.contains(user)
                                    : regions.IsInside(user) || Leaves(user);
  };
  used_outside.insert(entry->root());
  for (auto it = before.rbegin(); it != before.rend(); ++it) {  // users first
    const Instruction* user = *it;
    const bool inside = is_read_inside(user);
    const bool outside = constants.contains(user) ? used_outside.contains(user) : !inside;
    for (const Instruction* operand : user->operands()) {
      if (!constants.contains(operand)) continue;
      if (inside) used_inside.insert(operand);
      if (outside) used_outside.insert(operand);
    }
  }
  std::unordered_map<const Instruction*, Instruction*> copies;
  const auto inner = [&](Instruction* operand) {
    const auto copy = copies.find(operand);
    return copy == copies.end() ? operand : copy->second;
  };
  std::vector<Instruction*> list;
  for (Instruction* x : before) {
    list.push_back(x);
    if (constants.contains(x) && used_inside.contains(x) && used_outside.contains(x)) {
      std::vector<Instruction*> operands;
      for (Instruction* operand : x->operands()) operands.push_back(inner(operand));
      copies[x] = module.Clone(entry, x, operands, module.UniqueName(x->name()));
      list.push_back(copies[x]);
    } else if (is_read_inside(x)) {
      for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, inner(x->operand(i)));
    }
  }
  entry->SetInstructions(std::move(list));
}

bool ManualRegions::Enters(const Instruction* x) const {
  const Hidden* hidden = HiddenOf(x);
  return hidden != nullptr && IsCustomCallTo(*hidden->original, kEnterManualTarget);
}

bool ManualRegions::Leaves(const Instruction* x) const {
  const Hidden* hidden = HiddenOf(x);
  return hidden != nullptr && IsCustomCallTo(*hidden->original, kLeaveManualTarget);
}

int64_t ManualRegions::PartsOfBatch(const Module& module, int64_t microbatches) const {
  int64_t parts = 1;
  for (const Instruction* x : module.entry()->instructions()) {
    if (!Enters(x)) continue;
    const Hidden* hidden = HiddenOf(x);
    const Instruction* behind = BehindCopies(x->operand(0));
    const Hidden* from = HiddenOf(behind);
    const bool lies_alike = from != nullptr && from->outside == hidden->outside &&
                            IsCustomCallTo(*from->original, kLeaveManualTarget);
    const Sharding* s = x->sharding();
    if (lies_alike || s == nullptr || !s->IsTiled()) continue;
    for (int64_t d = 0; d < x->shape()->rank(); ++d) {
      if (s->TileCount(d) != microbatches || x->shape()->dim(d) == 0) continue;
      parts = std::lcm(parts, x->operand(0)->shape()->dim(d) / x->shape()->dim(d));
    }
  }
  return parts;
}

const Sharding* ManualRegions::ShardingOf(Context& context, const Instruction* x) const {
  const Hidden* hidden = HiddenOf(x);
  if (Leaves(x)) {
    return hidden->outside != nullptr ? hidden->outside : context.Replicated();
  }
  auto found = inside_.find(x);
  if (found == inside_.end()) return nullptr;
  const Sharding* base = found->second;
  if (base->IsManual()) {
    if (!x->shape()->IsTuple()) return base;
    return context.TupleOf(LeafShardings(x->shape(), base));
  }
  // In a region of some axes the rest is for propagation to find, but for what nothing reaches.
  const bool is_said = hidden != nullptr && (hidden->original->opcode() == Opcode::kCustomCall ||
                                             hidden->original->opcode() == Opcode::kPartitionId);
  return is_said ? base : nullptr;
}

const Sharding* ManualRegions::OperandSharding(const Instruction* x) const {
  return Enters(x) ? HiddenOf(x)->outside : Leaves(x) ? HiddenOf(x)->inside : nullptr;
}

std::string_view ManualRegions::OpenDimsOfOperand(const Instruction* x) const {
  return Enters(x) || Leaves(x) ? HiddenOf(x)->operand_open : std::string_view();
}

int64_t ManualRegions::CopiesOf(const Sharding* base) const {
  return base->IsManual() ? devices_ : base->SubgroupSize(SubgroupType::kManual);
}

const Sharding* ManualRegions::InsideSharding(Context& context, const Instruction* x,
                                              int64_t rank) const {
  const Sharding* base = inside_.at(x);
  return base->IsManual() ? base : ReplicateAllDataDims(context, base, rank);
}

const Shape* ManualRegions::WholeShape(Context& context, const Instruction* x) const {
  std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
  if (dims.empty()) dims.push_back(1);
  dims[0] *= CopiesOf(inside_.at(x));
  return context.Array(x->shape()->dtype(), dims);
}

int64_t ManualRegions::WholeBytes(const Instruction* x) const {
  const auto inside = inside_.find(x);
  return x->shape()->byte_size() * (inside == inside_.end() ? 1 : CopiesOf(inside->second));
}

const Sharding* ManualRegions::WholeSharding(Context& context, const Instruction* x) const {
  const Sharding* base = inside_.at(x);
  const size_t rank = static_cast<size_t>(std::max<int64_t>(x->shape()->rank(), 1));
  std::vector<int64_t> dims(rank, 1);
  dims[0] = CopiesOf(base);
  if (base->IsManual()) return context.Tiled(TileAssignment::Iota(dims));
  // Subgroups are in the order manual, replicated.
  const Sharding* only = ReplicateAllDataDims(context, base, static_cast<int64_t>(rank))->canonical;
  std::vector<SubgroupType> rest;
  if (const int64_t others = devices_ / dims[0]; others > 1) {
    dims.push_back(others);
    rest.push_back(SubgroupType::kReplicated);
  }
  return context.Tiled(only->tiles.Reshape(dims), rest);
}

namespace {

void MarkManual(Context& context, Computation* computation) {
  for (Instruction* x : computation->instructions()) {
    x->set_sharding(x->shape()->IsTuple()
                        ? context.TupleOf(LeafShardings(x->shape(), context.Manual()))
                        : context.Manual());
    const bool flow = x->opcode() == Opcode::kWhile || x->opcode() == Opcode::kConditional ||
                      x->opcode() == Opcode::kCall;
    if (!flow) continue;
    for (Computation* called : x->called()) MarkManual(context, called);
  }
}

bool IsWhollyManual(const Sharding* s) {
  if (s == nullptr) return false;
  if (!s->IsTuple()) return s->IsManual();
  return !s->elements.empty() &&
         std::ranges::all_of(s->elements, [](const Sharding* leaf) { return leaf->IsManual(); });
}

}  // namespace

Instruction* ManualRegions::Original(Instruction* x, Rewriter& rewriter, int64_t stages) const {
  const Hidden* hidden = HiddenOf(x);
  if (hidden == nullptr) return x;
  Builder& b = rewriter.builder();
  const Instruction& original = *hidden->original;
  const std::vector<Instruction*> operands(x->operands().begin(), x->operands().end());
  if (original.opcode() == Opcode::kCustomCall) {
    CustomCallAttributes attributes;
    attributes.target =
        IsCustomCallTo(original, kEnterManualTarget) ? kEnterManualTarget : kLeaveManualTarget;
    Instruction* border =
        b.Add(Opcode::kCustomCall, operands, attributes, x->shape(), {}, x->name());
    border->set_backend_config(hidden->open);
    return border;
  }
  if (original.opcode() == Opcode::kPartitionId) {
    Instruction* id = b.Add(Opcode::kPartitionId, {}, x->shape());
    id->set_sharding(x->sharding());
    if (stages == 1) return id;
    // Devices of a stage are numbered one after another.
    return b.Binary(Opcode::kRemainder, id, b.ScalarInt(DType::kU32, devices_));
  }
  CollectiveAttributes attributes = original.attributes<CollectiveAttributes>();
  attributes.channel_id = b.module().NextChannelId();
  if (stages > 1 && attributes.replica_groups != nullptr) {
    std::vector<std::vector<int64_t>> groups;
    for (int64_t stage = 0; stage < stages; ++stage) {
      for (std::vector<int64_t>& group : attributes.replica_groups->ToLists(devices_)) {
        for (int64_t& member : group) member += stage * devices_;
        groups.push_back(std::move(group));
      }
    }
    attributes.replica_groups = b.module().Own(ReplicaGroups::FromLists(std::move(groups)));
  }
  std::vector<DevicePair> pairs;
  for (int64_t stage = 0; stage < stages; ++stage) {
    for (const DevicePair& pair : attributes.source_target_pairs) {
      pairs.push_back({pair.source + stage * devices_, pair.target + stage * devices_});
    }
  }
  attributes.source_target_pairs = b.module().arena().Copy(pairs);
  std::vector<Computation*> called;
  if (hidden->combiner) {
    called.push_back(b.BinaryComputation(*hidden->combiner, x->shape()->dtype()));
  }
  return b.Add(original.opcode(), operands, attributes, x->shape(), called, x->name());
}

void ManualRegions::Restore(Module& module, int64_t stages) const {
  if (empty()) return;
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  for (Computation* computation : all) {
    for (Instruction* x : computation->instructions()) {
      const bool flow = x->opcode() == Opcode::kWhile || x->opcode() == Opcode::kConditional ||
                        x->opcode() == Opcode::kCall;
      if (!flow || !IsWhollyManual(x->sharding())) continue;
      for (Computation* called : x->called()) MarkManual(module.context(), called);
    }
  }
  Rewriter rewriter(module);
  for (Computation* computation : all) {
    rewriter.Run(computation, [&](Instruction* x, Rewriter& r) { return Original(x, r, stages); });
  }
  module.SetComputations(CallPostOrder(module));
}

}  // namespace gshard::pipeline
