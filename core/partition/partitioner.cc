#include "core/partition/partitioner.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_set>

#include "core/analysis/partitioned.h"
#include "core/partition/rule_table.h"
#include "core/partition/scope/partial_values.h"
#include "core/partition/scope/value_numbering.h"
#include "core/transforms/shard_barriers.h"
#include "ir/attribute_names.h"
#include "ir/custom_call.h"
#include "ir/device_subsets.h"
#include "ir/dims.h"
#include "ir/host_transfers.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"
#include "ir/ops/shape_rules.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/traversal.h"

namespace gshard {

namespace {

// Where tiles must lie exactly as the user's sharding has them (the entry, borders of manual
// regions), or may be copies where that makes them empty.
enum class Fidelity : uint8_t { kExact, kWithoutEmptyTiles };

const MeshLayout* LayoutOfLeaf(MeshLayoutTable& layouts, const Shape* shape,
                               const Sharding* sharding, Fidelity fidelity) {
  if (!shape->IsArray()) return layouts.Replicated(0);
  const MeshLayout* layout = layouts.FromSharding(sharding, shape->rank());
  return fidelity == Fidelity::kExact ? layout : layouts.WithoutEmptyTiles(layout, shape);
}

// Layouts of the leaves of a value with this sharding.
void AppendLayouts(MeshLayoutTable& layouts, const Shape* shape, const Sharding* sharding,
                   Fidelity fidelity, std::vector<const MeshLayout*>& result) {
  if (!shape->IsTuple()) {
    if (sharding != nullptr && sharding->IsTuple()) sharding = sharding->elements[0];
    result.push_back(LayoutOfLeaf(layouts, shape, sharding, fidelity));
    return;
  }
  const std::vector<const Shape*> shapes = LeafShapes(shape);
  std::vector<const Sharding*> leaves(shapes.size(), sharding);
  if (sharding != nullptr && sharding->IsTuple()) leaves = LeafShardings(shape, sharding);
  for (size_t i = 0; i < shapes.size(); ++i) {
    result.push_back(LayoutOfLeaf(layouts, shapes[i], leaves[i], fidelity));
  }
}

std::vector<const MeshLayout*> LayoutsOf(MeshLayoutTable& layouts, const Shape* shape,
                                         const Sharding* sharding, Fidelity fidelity) {
  std::vector<const MeshLayout*> result;
  AppendLayouts(layouts, shape, sharding, fidelity, result);
  return result;
}

// Do two layouts belong to the same manual region?
bool SameRegion(const MeshLayout* a, const MeshLayout* b) {
  return a->IsManual() == b->IsManual() && a->manual == b->manual;
}

// Has no region: it can be made anywhere.
bool IsMadeFromNothing(const PartitionedValue& value) {
  return value.maker != nullptr && (value.payload == nullptr || IsMadeFromNothing(*value.payload));
}

// Tiles have sizes.
Expected<void> CheckBounded(const Module& module, std::span<Instruction* const> instructions) {
  for (const Instruction* x : instructions) {
    if (!HasUnbounded(x->shape())) continue;
    return Fail(
        module.ErrorAt(x, "E-PARTITION-008", "a dimension without a bound cannot be partitioned"));
  }
  return {};
}

// Operations that are the same on local values whatever those are.
bool IsCopiedInManualRegion(Opcode opcode) {
  switch (opcode) {
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCall:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kOptBarrier:
    case Opcode::kAfterAll:
    case Opcode::kAddDependency:
      return false;
    default:  // the same on local values
      return true;
  }
}

class ComputationPartitioner {
 public:
  ComputationPartitioner(PartitionRun& run, const Computation& source, std::string_view name)
      : run_(run),
        source_(source),
        scope_(run, run.module.AddComputation(name)),
        numbering_(run.value_of) {}

  // parameter layouts per leaf; empty: by the parameters' own shardings (the entry).
  Expected<Computation*> Run(const CalleeSignature& signature, bool is_entry) {
    const Instruction* root = source_.root();
    const std::vector<const MeshLayout*>& leaves = root_layouts_ = RootLayouts(signature, is_entry);
    run_.demand.Collect(source_, OutputShardings(leaves));
    for (const Instruction* instruction : source_.instructions()) {
      PartitionedValue* known =
          run_.options.policies.follow_users ? numbering_.Find(*instruction) : nullptr;
      if (known != nullptr) {
        run_.value_of[instruction->id()] = known;
        Promise(*instruction);
        continue;
      }
      scope_.builder().set_origin(instruction);
      RuleResult value = instruction->opcode() == Opcode::kParameter
                             ? Parameter(*instruction, signature, is_entry)
                             : Visit(*instruction);
      if (!value) return Fail(value.error());
      run_.value_of[instruction->id()] = *value;
      Promise(*instruction);
      numbering_.Add(*instruction);
    }
    scope_.builder().set_origin(root);
    PartitionedValue* value = run_.value_of[root->id()];
    if (Expected<void> legal = CheckPassedOn(*root, *value, leaves); !legal) {
      return Fail(legal.error());
    }
    Instruction* local =
        scope_.Materialize(value, leaves, {.user = nullptr, .value = root, .note = {}});
    if (root->opcode() == Opcode::kTuple && local->opcode() == Opcode::kTuple) {
      scope_.TakeName(local, root);
    }
    Computation* computation = scope_.builder().computation();
    computation->set_root(local);
    computation->set_source(source_.source());
    computation->set_execution_thread(source_.execution_thread());
    return computation;
  }

 private:
  std::vector<const MeshLayout*> RootLayouts(const CalleeSignature& signature, bool is_entry) {
    if (!signature.root.empty()) return signature.root;
    const Instruction* root = source_.root();
    std::vector<const MeshLayout*> leaves =
        LayoutsOf(run_.layouts, root->shape(), root->sharding(),
                  is_entry ? Fidelity::kExact : Fidelity::kWithoutEmptyTiles);
    if (is_entry) return leaves;
    for (const MeshLayout*& leaf : leaves) leaf = run_.layouts.ReplicatedLike(leaf, leaf->rank());
    return leaves;
  }

  // Of the root, or per operand of a root tuple: the sharding it ends in; its own object if that
  // says the same.
  std::vector<const Sharding*> OutputShardings(std::span<const MeshLayout* const> leaves) {
    std::vector<const Sharding*> shardings;
    const Instruction* root = source_.root();
    const Instruction* const itself[] = {root};
    auto outputs = std::span<const Instruction* const>(itself);
    if (root->opcode() == Opcode::kTuple) outputs = root->operands();
    for (const Instruction* operand : outputs) {
      const Sharding* sharding = nullptr;
      if (operand->shape()->IsArray()) {
        const MeshLayout* own =
            LayoutOfLeaf(run_.layouts, operand->shape(), operand->sharding(), Fidelity::kExact);
        const bool is_own = own == leaves[0] && operand->sharding() != nullptr;
        sharding = is_own ? operand->sharding() : run_.layouts.ToSharding(leaves[0]);
      }
      shardings.push_back(sharding);
      leaves = leaves.subspan(static_cast<size_t>(operand->shape()->leaf_count()));
    }
    return shardings;
  }

  // Elements of the root will be needed where the computation has its outputs.
  void Promise(const Instruction& instruction) {
    int64_t leaf = run_.demand.OutputLeaf(instruction);
    PartitionedValue* value = run_.value_of[instruction.id()];
    const bool is_settled = leaf < 0 || value->required_layout != nullptr;
    if (is_settled || !run_.options.policies.follow_users) return;
    const MeshLayout* layout = root_layouts_[static_cast<size_t>(leaf)];
    if (IsTiled(layout) && SameRegion(layout, PartitionScope::LayoutOf(*value))) {
      value->required_layout = layout;
    }
  }

  // What is an output and nothing else is made where it is to be, tile by tile, if that repeats no
  // work.
  void AimAtOutput(const Instruction& source, const MeshLayout*& wanted) {
    if (!run_.demand.IsOnlyOutput(source)) return;
    const MeshLayout* layout = root_layouts_[static_cast<size_t>(run_.demand.OutputLeaf(source))];
    bool fits = IsTiled(layout) && IsTiled(wanted) && SameRegion(layout, wanted);
    if (fits && layout->TileCount() >= wanted->TileCount()) wanted = layout;
  }

  static bool IsTiled(const MeshLayout* layout) {
    return layout->kind == MeshLayout::Kind::kTiled && layout->unreduced.empty();
  }

  RuleResult Parameter(const Instruction& source, const CalleeSignature& signature, bool is_entry) {
    int64_t number = source.attributes<ParameterAttributes>().number;
    std::vector<const MeshLayout*> leaves =
        is_entry ? LayoutsOf(run_.layouts, source.shape(), source.sharding(), Fidelity::kExact)
                 : signature.parameters[static_cast<size_t>(number)];
    const Shape* shape = LocalShapeByLeaf(run_.module.context(), source.shape(), leaves);
    Instruction* local = scope_.CloneLocal(&source, {}, shape);
    local->set_sharding(is_entry ? source.sharding() : nullptr);
    PartitionedValue* value = scope_.NewFromLocal(source.shape(), leaves, local);
    value->source = &source;
    return value;
  }

  RuleResult Visit(const Instruction& source) {
    std::vector<PartitionedValue*>& operands = operands_;
    operands.clear();
    for (const Instruction* operand : source.operands()) {
      operands.push_back(run_.value_of[operand->id()]);
    }
    std::vector<const MeshLayout*>& wanted = wanted_;
    wanted.clear();
    bool is_border = IsRegionMarker(source) || HasSideEffect(source);
    const bool follows_users = run_.options.policies.follow_users;
    AppendLayouts(run_.layouts, source.shape(),
                  follows_users ? run_.demand.ShardingOf(source) : source.sharding(),
                  Fidelity::kExact, wanted);
    const bool drops = run_.options.policies.drop_empty_tiles && !is_border;
    if (drops) DropEmptyTiles(source, operands, wanted);
    // The host exchanges with every device what nobody says anything of.
    if (HasSideEffect(source) && source.sharding() == nullptr && source.opcode() != Opcode::kRng &&
        source.opcode() != Opcode::kRngGetAndUpdateState && !IsHostTransfer(source)) {
      return Fail(run_.module.ErrorAt(
          &source, "E-PARTITION-001",
          fmt::format("{} has a side effect and needs a sharding that says which devices do it",
                      OpcodeName(source.opcode()))));
    }
    bool is_manual = AdoptRegion(source, operands, wanted);
    if (follows_users && source.shape()->IsArray() && !is_border) AimAtOutput(source, wanted[0]);
    if (!IsRegionMarker(source)) {
      if (Expected<void> legal = CheckRegions(source, operands, wanted); !legal) {
        return Fail(legal.error());
      }
    }
    PartitionContext rule(scope_, source, operands, wanted);
    if (const MeshLayout* owner = OwnerOf(source, operands)) {
      return Annotated(DoneByOwner(rule, owner), source, wanted);
    }
    RuleResult result = is_manual && !IsRegionMarker(source) ? CopyManual(rule) : Partitioned(rule);
    if (!result) return result;
    PartitionedValue* value = Annotated(*result, source, rule.wanted_leaves());
    if (!follows_users) Settle(*value);
    return value;
  }

  // Copies instead of empty tiles, unless an operand has those already. Products are where such
  // values move: their other operand had better be cut without empty tiles.
  void DropEmptyTiles(const Instruction& source, std::span<PartitionedValue* const> operands,
                      std::vector<const MeshLayout*>& wanted) {
    const Shape* array = source.shape();
    std::vector<const Shape*> leaves;
    if (array->IsTuple()) AppendLeafShapes(array, leaves);
    auto has_empty_tiles = [&](const PartitionedValue* operand) {
      if (operand->variants.empty()) return false;
      const MeshLayout* layout = operand->variants[0].layout;
      return run_.layouts.WithoutEmptyTiles(layout, operand->shape) != layout;
    };
    bool is_product = source.opcode() == Opcode::kDot || source.opcode() == Opcode::kConvolution;
    for (size_t i = 0; i < wanted.size(); ++i) {
      const Shape* shape = array->IsTuple() ? leaves[i] : array;
      const MeshLayout* dropped = run_.layouts.WithoutEmptyTiles(wanted[i], shape);
      if (dropped == wanted[i]) continue;
      if (is_product || std::none_of(operands.begin(), operands.end(), has_empty_tiles)) {
        wanted[i] = dropped;
      }
    }
  }

  // An instruction without sharding belongs to the region of its operands; also one that GSPMD has
  // no rule for, such as an fft, and that propagation has left whole in a region of some axes. True
  // if it is to be copied as it stands.
  bool AdoptRegion(const Instruction& source, std::span<PartitionedValue* const> operands,
                   std::vector<const MeshLayout*>& wanted) {
    const bool has_none = source.sharding() == nullptr;
    const bool is_left_whole = !has_none && source.sharding()->IsReplicated() &&
                               source.opcode() != Opcode::kCopy &&
                               source.opcode() != Opcode::kCustomCall;
    // Several results, as of a top-k, are of one region as well.
    const bool is_operation =
        source.shape()->IsArray() || (has_none && !wanted.empty() && IsOperationOnArrays(source));
    if ((has_none || is_left_whole) && is_operation) {
      for (const PartitionedValue* operand : operands) {
        if (operand->IsTuple() || IsMadeFromNothing(*operand)) continue;
        const MeshLayout* layout = PartitionScope::LayoutOf(*operand);
        if (layout->IsManual() ? has_none : !layout->manual.empty()) {
          for (const MeshLayout*& leaf : wanted) {
            leaf = run_.layouts.ReplicatedLike(layout, leaf->rank());
          }
          break;
        }
      }
    }
    return IsCopiedInManualRegion(source.opcode()) && !wanted.empty() &&
           std::all_of(wanted.begin(), wanted.end(),
                       [](const MeshLayout* layout) { return layout->IsManual(); });
  }

  // Values that are the same everywhere may be used anywhere.
  static bool MayBeUsedIn(const PartitionedValue& value, const MeshLayout* wanted) {
    if (IsMadeFromNothing(value) || !value.shape->IsArray()) return true;
    const MeshLayout* layout = PartitionScope::LayoutOf(value);
    return SameRegion(layout, wanted) || (layout->IsReplicated() && layout->manual.empty());
  }

  // The first array of a value that is to be used within a region of all axes, or without, where it
  // is not, and has another shape there; null: none. Takes as many layouts as it has leaves. (Where
  // nothing in a region says that it is manual, values have their local shapes and count as
  // copies.)
  const PartitionedValue* FirstBeyondBorder(const PartitionedValue& value,
                                            std::span<const MeshLayout* const>& wanted) {
    if (!value.IsTuple()) {
      const MeshLayout* layout = wanted[0];
      wanted = wanted.subspan(1);
      // What can be made in any layout has none yet.
      if (value.layout == nullptr && value.variants.empty()) return nullptr;
      if (MayBeUsedIn(value, layout)) return nullptr;
      const MeshLayout* own = PartitionScope::LayoutOf(value);
      if (own->IsManual() == layout->IsManual()) return nullptr;
      Context& context = run_.module.context();
      const Shape* here = LocalShape(context, value.shape, own);
      return SameDims(here, LocalShape(context, value.shape, layout)) ? nullptr : &value;
    }
    for (const PartitionedValue* element : value.elements) {
      if (const PartitionedValue* found = FirstBeyondBorder(*element, wanted)) return found;
    }
    return nullptr;
  }

  Diagnostic BorderError(const Instruction& at, std::string_view what,
                         const PartitionedValue& value, const MeshLayout* wanted) {
    return run_.module.ErrorAt(
        &at, "E-PARTITION-002",
        fmt::format("{} crosses the border of a manual region, from {} to {}, without "
                    "SPMDFullToShardShape or SPMDShardToFullShape",
                    what, run_.layouts.ToText(PartitionScope::LayoutOf(value)),
                    run_.layouts.ToText(wanted)));
  }

  // A copy with the sharding {replicated} takes a value out of a region of some axes, as in XLA: it
  // is put together over the axes that are not manual, and what each device has then counts.
  static bool LeavesRegion(const Instruction& source, const MeshLayout* layout) {
    return source.opcode() == Opcode::kCopy && source.sharding() != nullptr &&
           source.sharding()->IsReplicated() && !layout->IsManual() && !layout->manual.empty();
  }
  PartitionedValue* LeaveRegion(const Instruction& source, size_t i, const MeshLayout* layout) {
    PartitionedValue* operand = operands_[i];
    const auto rank = operand->shape->rank();
    const MeshLayout* whole = run_.layouts.ReplicatedLike(layout, rank);
    Instruction* local = scope_.Materialize(
        operand, {&whole, 1}, {.user = &source, .value = source.operand(static_cast<int64_t>(i))});
    const MeshLayout* replicated = run_.layouts.Replicated(rank);
    return scope_.NewFromLocal(operand->shape, {&replicated, 1}, local);
  }

  // Values cross the border of a manual region by markers only.
  Expected<void> CheckRegions(const Instruction& source,
                              std::span<PartitionedValue* const> operands,
                              std::span<const MeshLayout* const> wanted) {
    const Opcode opcode = source.opcode();
    if (opcode == Opcode::kWhile) return CheckPassedOn(source, *operands[0], wanted);
    if (opcode == Opcode::kGetTupleElement) {
      const int64_t index = source.attributes<GetTupleElementAttributes>().index;
      return CheckPassedOn(source, *operands[0]->elements[At(index)], wanted);
    }
    if (!source.shape()->IsArray()) return {};
    for (size_t i = 0; i < operands.size(); ++i) {
      if (MayBeUsedIn(*operands[i], wanted[0])) continue;
      const MeshLayout* layout = PartitionScope::LayoutOf(*operands[i]);
      if (LeavesRegion(source, layout)) {
        operands_[i] = LeaveRegion(source, i, layout);
        continue;
      }
      const std::string what =
          fmt::format("operand {} ({})", i, source.operand(static_cast<int64_t>(i))->name());
      return Fail(BorderError(source, what, *operands[i], wanted[0]));
    }
    return {};
  }

  // Of what passes a value on as it is.
  Expected<void> CheckPassedOn(const Instruction& source, const PartitionedValue& value,
                               std::span<const MeshLayout* const> wanted) {
    std::span<const MeshLayout* const> rest = wanted;
    const PartitionedValue* found = FirstBeyondBorder(value, rest);
    if (found == nullptr) return {};
    const MeshLayout* layout = wanted[wanted.size() - rest.size() - 1];
    const std::string what = found->source == nullptr ? fmt::format("a value of {}", source.name())
                                                      : std::string(found->source->name());
    return Fail(BorderError(source, what, *found, layout));
  }

  // The layout of the one device that has the operands, if it is to do the operation as well: what
  // is broadcast afterwards is no larger. Null: none.
  const MeshLayout* OwnerOf(const Instruction& source,
                            std::span<PartitionedValue* const> operands) {
    auto has_owner = [](const PartitionedValue* operand) {
      return operand->variants.size() == 1 && operand->variants[0].layout->IsMaximal();
    };
    if (std::none_of(operands.begin(), operands.end(), has_owner)) return nullptr;
    if (!source.shape()->IsArray()) return nullptr;
    if (!IsElementwise(source.opcode()) && source.opcode() != Opcode::kReduce) return nullptr;
    const MeshLayout* owner = nullptr;
    int64_t bytes = 0;
    for (const PartitionedValue* operand : operands) {
      if (!operand->shape->IsArray()) return nullptr;
      if (scope_.IsAvailableWithoutCommunication(*operand,
                                                 run_.layouts.Replicated(operand->shape->rank())))
        continue;
      if (!has_owner(operand)) return nullptr;
      const MeshLayout* layout = operand->variants[0].layout;
      if (owner != nullptr && owner->device != layout->device) return nullptr;
      owner = layout;
      bytes += operand->shape->byte_size();
    }
    return source.shape()->byte_size() <= bytes ? owner : nullptr;
  }

  // All devices do it; what comes out counts on the owner.
  PartitionedValue* DoneByOwner(PartitionContext& rule, const MeshLayout* owner) {
    std::vector<Instruction*> locals;
    for (size_t i = 0; i < rule.operands().size(); ++i) {
      const PartitionedValue& operand = *rule.operands()[i];
      bool is_owned = !operand.variants.empty() && operand.variants[0].layout->IsMaximal();
      locals.push_back(is_owned ? operand.variants[0].local
                                : rule.Operand(static_cast<int64_t>(i),
                                               run_.layouts.Replicated(operand.shape->rank())));
    }
    MeshLayout layout = *owner;
    layout.dims.resize(static_cast<size_t>(rule.source().shape()->rank()));
    return rule.Result(rule.EmitLocal(locals, rule.source().shape()),
                       run_.layouts.Intern(std::move(layout)));
  }

  // Arrays in, arrays out: no control flow, no communication, no markers.
  static bool IsOperationOnArrays(const Instruction& source) {
    switch (source.opcode()) {
      case Opcode::kCustomCall:
      case Opcode::kAsyncStart:
      case Opcode::kAsyncUpdate:
      case Opcode::kAsyncDone:
        return false;
      default:  // IsCopiedInManualRegion answers
        return IsCopiedInManualRegion(source.opcode()) && !IsCollective(source.opcode()) &&
               !HasSideEffect(source);
    }
  }

  // Rules divide by sizes: they see arrays that have elements.
  RuleResult Partitioned(PartitionContext& rule) {
    const Instruction& source = rule.source();
    if (IsOperationOnArrays(source)) {
      if (HasNoElements(source.shape())) return scope_.NewWithoutElements(&source);
      const auto is_empty = [](const PartitionedValue* x) { return HasNoElements(x->shape); };
      // What the others of a concatenate are put together to needs no whole operands.
      if ((source.opcode() != Opcode::kConcatenate &&
           std::ranges::any_of(rule.operands(), is_empty)) ||
          std::ranges::any_of(rule.ResultShapes(), HasNoElements)) {
        return rule.Default();
      }
    }
    OpRule op = RuleFor(source.opcode()).rule;
    if (IsPartial(rule.wanted_leaves())) return RunWantedPartial(rule, op);
    std::optional<RuleResult> deferred = RunBeforeCombining(rule, op);
    return deferred ? *std::move(deferred) : op(rule);
  }

  PartitionedValue* CopyManual(PartitionContext& rule) {
    const Instruction& source = rule.source();
    std::vector<Instruction*> locals;
    for (size_t i = 0; i < rule.operands().size(); ++i) {
      PartitionedValue* operand = rule.operands()[i];
      std::vector<const MeshLayout*> leaves = rule.WholeLeaves(operand->shape);
      ReshardCause cause{.user = &source, .value = source.operand(static_cast<int64_t>(i))};
      locals.push_back(scope_.Materialize(operand, leaves, cause));
    }
    Instruction* local = rule.EmitLocal(locals, source.shape());
    return scope_.NewFromLocal(source.shape(), rule.wanted_leaves(), local);
  }

  // Moves a value to where its sharding says, from where it goes on.
  void Settle(PartitionedValue& value) {
    if (value.IsTuple() || value.maker != nullptr || value.variants.empty() ||
        value.layout == nullptr || value.variants[0].layout->IsMaximal() ||
        !IsTiled(value.layout) || !SameRegion(value.variants[0].layout, value.layout)) {
      return;
    }
    Instruction* local =
        scope_.Reshard(&value, value.layout, {.user = nullptr, .value = value.source});
    value.variants.clear();
    value.variants.push_back({value.layout, local});
  }

  // Notes where the value's sharding wants it. Values move when somebody needs them there.
  PartitionedValue* Annotated(PartitionedValue* value, const Instruction& source,
                              std::span<const MeshLayout* const> wanted) {
    if (value->IsTuple()) {
      if (value->source == nullptr) value->source = &source;
      return value;
    }
    const MeshLayout* layout = wanted[0];
    if (layout->IsMaximal()) layout = run_.layouts.Replicated(layout->rank());
    if (value->layout != nullptr && value->source != nullptr && value->layout != layout &&
        value->source != &source) {
      value = scope_.NewCopy(*value);
    }
    if (value->source == nullptr) value->source = &source;
    value->layout = layout;
    return value;
  }

  PartitionRun& run_;
  const Computation& source_;
  PartitionScope scope_;
  ValueNumbering numbering_;
  std::vector<PartitionedValue*> operands_;  // of the instruction being visited
  std::vector<const MeshLayout*> wanted_;
  std::vector<const MeshLayout*> root_layouts_;  // per leaf of the root
};

// The record of how shards form global values (docs: `cli`), and what follows from the new shapes.
void UpdateHeader(PartitionRun& run, const Computation& before, const Computation& after) {
  ModuleHeader& header = run.module.header();
  Context& context = run.module.context();
  Arena& arena = run.module.arena();
  const Instruction* root = before.root();
  const Sharding* sharding = root->sharding() != nullptr ? root->sharding() : context.Replicated();
  header.num_partitions = run.layouts.device_count();
  const auto record = [&](std::string_view key, std::string_view value) {
    header.frontend_attributes =
        WithFrontendAttribute(arena, header.frontend_attributes, key, value);
  };
  record(kNumPartitionsAttribute, std::to_string(run.layouts.device_count()));
  record(kOutputShardingsAttribute, ToString(sharding));
  std::vector<const Shape*> parameters;
  for (const Instruction* parameter : before.parameters()) parameters.push_back(parameter->shape());
  record(kParameterShapesAttribute, ToString(context.Tuple(parameters), /*layouts=*/false));
  record(kOutputShapesAttribute, ToString(root->shape(), /*layouts=*/false));
  if (run.options.policies == PartitionPolicies::AsXla()) record(kPartitionedAsAttribute, "xla");

  for (size_t k = 0; k < header.entry_parameter_layouts.size(); ++k) {
    const Instruction* parameter = before.parameters()[k];
    header.entry_parameter_layouts[k] = LocalShapeByLeaf(
        context, header.entry_parameter_layouts[k],
        LayoutsOf(run.layouts, parameter->shape(), parameter->sharding(), Fidelity::kExact));
  }
  if (header.entry_result_layout != nullptr) {
    header.entry_result_layout =
        LocalShapeByLeaf(context, header.entry_result_layout,
                         LayoutsOf(run.layouts, root->shape(), root->sharding(), Fidelity::kExact));
  }
  // A buffer can be passed on only where the shards agree as well.
  auto leaf_at = [](const Shape* shape, std::span<const int64_t> index) -> const Shape* {
    for (int64_t i : index) {
      if (!shape->IsTuple() || i >= static_cast<int64_t>(shape->elements().size())) return nullptr;
      shape = shape->element(i);
    }
    return shape;
  };
  std::erase_if(header.input_output_alias, [&](const ModuleHeader::Alias& alias) {
    const Shape* output = leaf_at(after.root()->shape(), alias.output_index);
    const Shape* input = leaf_at(after.parameter(alias.parameter)->shape(), alias.parameter_index);
    return output == nullptr || input == nullptr || !Compatible(output, input);
  });
}

// A computation that stays beside its copy (a fusion calls it) gets names of its own: in text each
// name stands for one instruction.
void NameApart(Module& module) {
  std::unordered_set<std::string_view> taken;
  for (const Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      if (!taken.insert(x->name()).second) x->set_name(module.UniqueName(x->name()));
    }
  }
}

bool HoldsWholeArray(const MeshLayout* layout) {
  return !layout->IsManual() && layout->manual.empty() && layout->unreduced.empty();
}

// Each source's form in its own layout, else any other that is alive.
std::vector<LocalForm> FindLocalForms(PartitionRun& run,
                                      std::span<const Instruction* const> sources) {
  std::vector<uint8_t> alive(run.module.instruction_limit(), 0);
  for (const Computation* computation : run.module.computations()) {
    for (const Instruction* x : computation->instructions()) alive[x->id()] = 1;
  }
  std::vector<LocalForm> forms;
  for (const Instruction* source : sources) {
    const PartitionedValue* value = run.value_of[source->id()];
    if (value == nullptr || value->IsTuple() || !source->shape()->IsArray()) continue;
    const PartitionedValue::Variant* best = nullptr;
    for (const PartitionedValue::Variant& variant : value->variants) {
      if (alive[variant.local->id()] == 0 || !HoldsWholeArray(variant.layout)) continue;
      if (best == nullptr || variant.layout == value->layout) best = &variant;
    }
    if (best == nullptr) continue;
    forms.push_back(
        {source->name(), best->local, run.layouts.ToSharding(best->layout), source->shape()});
  }
  return forms;
}

}  // namespace

Expected<Computation*> PartitionScope::Callee(const Computation* computation,
                                              const CalleeSignature& signature) {
  if (Computation* found = FindCallee(computation, signature)) return found;
  Expected<Computation*> callee =
      ComputationPartitioner(run_, *computation, computation->name()).Run(signature, false);
  if (!callee) return callee;
  CacheCallee(computation, signature, *callee);
  return callee;
}

Computation* PartitionScope::FindCallee(const Computation* computation,
                                        const CalleeSignature& signature) const {
  auto found = run_.callees.find({computation, signature});
  return found == run_.callees.end() ? nullptr : found->second;
}

void PartitionScope::CacheCallee(const Computation* computation, const CalleeSignature& signature,
                                 Computation* made) {
  auto at = run_.callees.lower_bound({computation, {}});
  if (at == run_.callees.end() || at->first.first != computation) {
    run_.first_copies.emplace_back(computation, made);
  }
  run_.callees.emplace(std::make_pair(computation, signature), made);
}

Expected<PartitionStats> PartitionModule(Module& module, const PartitionOptions& options) {
  int64_t device_count = options.num_partitions > 0 ? options.num_partitions : module.DeviceCount();
  RemoveShardBarriers(module);
  RemoveDeadCode(module);
  std::vector<const Instruction*> sources;
  for (const Computation* computation : CallPostOrder(module)) {
    const auto instructions = computation->instructions();
    if (Expected<void> sized = CheckBounded(module, instructions); !sized) {
      return Fail(sized.error());
    }
    if (options.local_forms != nullptr) {
      sources.insert(sources.end(), instructions.begin(), instructions.end());
    }
  }
  if (Expected<void> ok = RefuseDeviceSubsets(module, device_count); !ok) return Fail(ok.error());
  PartitionRun run(module, options, device_count);
  const int64_t plans_before = run.planner.plans_made();
  Computation* before = module.entry();
  Expected<Computation*> after =
      ComputationPartitioner(run, *before, before->name()).Run({}, /*is_entry=*/true);
  if (!after) return Fail(after.error());
  UpdateHeader(run, *before, **after);
  (*after)->set_name(before->name());
  module.set_entry(*after);
  module.SetComputations(CallPostOrder(module));
  RemoveDeadCode(module);
  // The first copy takes the name of a source that is gone: fusions and reductions keep theirs.
  const auto& kept = module.computations();
  bool keeps_copied = false;
  for (const auto& [source, copy] : run.first_copies) {
    if (std::ranges::find(kept, source) == kept.end()) {
      copy->set_name(source->name());
    } else {
      keeps_copied = true;
    }
  }
  if (keeps_copied) NameApart(module);
  if (options.local_forms != nullptr) *options.local_forms = FindLocalForms(run, sources);
  run.stats.reshards = run.planner.plans_made() - plans_before;
  return run.stats;
}

}  // namespace gshard
