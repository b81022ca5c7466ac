#include "core/partition/scope/partial_values.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "core/partition/scope/own_rows.h"
#include "core/partition/scope/range_cut.h"
#include "ir/dims.h"

namespace gshard {

namespace {

bool IsPartial(const MeshLayout* layout) { return !layout->unreduced.empty(); }

// Rules that carry values or leave partial results take partial layouts as they are.
bool KnowsPartialLayouts(Opcode opcode) {
  switch (opcode) {
    case Opcode::kDot:
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCall:
    case Opcode::kAsyncStart:
    case Opcode::kAsyncUpdate:
    case Opcode::kAsyncDone:
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kOptBarrier:
      return true;
    default:  // no rule of its own for partial values
      return false;
  }
}

// Is it the convert of a float to a wider one? Such converts are linear.
bool WidensFloat(const Instruction& x) {
  if (x.opcode() != Opcode::kConvert) return false;
  const DType from = x.operand(0)->shape()->dtype(), to = x.shape()->dtype();
  return IsFloat(from) && IsFloat(to) && DTypeBits(from) < DTypeBits(to);
}

// Do the dims of `layout` leave all sub-axes of `axes` alone?
bool HasNoneOf(MeshLayoutTable& layouts, const MeshLayout& layout, AxisList axes) {
  for (const AxisList& list : layout.dims) axes.insert(axes.end(), list.begin(), list.end());
  std::optional<AxisList> sub_axes = CommonSubAxes(axes, layouts.device_count());
  if (!sub_axes.has_value()) return false;
  std::vector<bool> taken(sub_axes->size(), false);
  for (const DeviceAxis& axis : axes) {
    for (int sub_axis : SubAxesOf(*sub_axes, axis)) {
      if (taken[static_cast<size_t>(sub_axis)]) return false;
      taken[static_cast<size_t>(sub_axis)] = true;
    }
  }
  return true;
}

// One operation on operands that are partial along the sub-axes its result is wanted partial along.
class PartialOperandRule {
 public:
  PartialOperandRule(PartitionContext& rule, OpRule op)
      : rule_(rule), op_(op), source_(rule.source()), wanted_(rule.wanted()) {}

  // Nothing: not an operation for partial values, or not on these.
  std::optional<RuleResult> Run() {
    if (!source_.shape()->IsArray() || wanted_->kind != MeshLayout::Kind::kTiled) {
      return std::nullopt;
    }
    std::optional<std::vector<bool>> partial = PartialOperands();
    if (!partial.has_value()) return std::nullopt;
    std::vector<PartitionedValue*> operands;
    for (size_t i = 0; i < partial->size(); ++i) {
      PartitionedValue* operand =
          (*partial)[i] ? PartialOperand(rule_.operands()[i]) : CombinedOperand(i);
      if (operand == nullptr) return std::nullopt;
      operands.push_back(operand);
    }
    RuleResult result = RunHidden(operands);
    return result ? Uncovered(*result, nullptr) : result;
  }

  // The same on rows that their devices own, for any operation that takes them (FlowOfRows).
  std::optional<RuleResult> RunOnRows() {
    std::vector<std::vector<int64_t>> dims(rule_.operands().size());
    std::vector<const std::vector<int64_t>*> rows(dims.size(), nullptr);
    for (size_t i = 0; i < dims.size(); ++i) {
      const PartitionedValue& operand = *rule_.operands()[i];
      if (operand.own_rows == nullptr || operand.maker != nullptr) continue;
      if (owners_ == nullptr) owners_ = operand.own_rows;
      if (operand.own_rows != owners_) continue;
      dims[i].assign(operand.row_dims.begin(), operand.row_dims.end());
      rows[i] = &dims[i];
    }
    const std::optional<RowFlow> flow = FlowOfRows(source_, rows);
    if (!flow.has_value()) return std::nullopt;
    std::vector<PartitionedValue*> operands;
    for (size_t i = 0; i < rows.size(); ++i) {
      PartitionedValue* operand =
          rows[i] != nullptr ? RowsOperand(rule_.operands()[i], flow->sums) : CombinedOperand(i);
      if (operand == nullptr) return std::nullopt;
      if (rows[i] == nullptr && flow->sums && source_.opcode() == Opcode::kDot) {
        operand = OwnFactor(operand, i, flow->operands[i]);
      }
      operands.push_back(operand);
    }
    RuleResult result = RunHidden(operands);
    if (!result) return result;
    if (flow->regroups) owners_ = RegroupedOwners(rule_, owners_, *rows[0], *flow);
    PartitionedValue* value = Uncovered(*result, flow->sums ? nullptr : &flow->result);
    if (flow->sums) return value;
    value->own_rows = owners_;
    value->row_dims.assign(flow->result.begin(), flow->result.end());
    return value;
  }

 private:
  // Which operands an operation takes partial so that it is linear in them.
  std::optional<std::vector<bool>> PartialOperands() const {
    auto count = At(source_.operand_count());
    std::vector<bool> first(count, false), all(count, true);
    if (count == 0) return std::nullopt;
    first[0] = true;
    switch (source_.opcode()) {
      case Opcode::kCopy:
      case Opcode::kTranspose:
      case Opcode::kReshape:
      case Opcode::kReverse:
      case Opcode::kBroadcast:
        return IfPartial(all);
      case Opcode::kSlice:
        // Slices of these look at the operands of the operand.
        if (source_.operand(0)->opcode() == Opcode::kPad ||
            source_.operand(0)->opcode() == Opcode::kSort ||
            source_.operand(0)->opcode() == Opcode::kGetTupleElement) {
          return std::nullopt;
        }
        return IfPartial(all);
      case Opcode::kDynamicSlice:
      case Opcode::kGather:
        return IfPartial(first);
      case Opcode::kSelect:
        all[0] = false;
        return IfPartial(all);
      case Opcode::kReduce:
        if (count != 2 || CombinerOf(source_.called(0)) != wanted_->combiner ||
            !IsFilledWithIdentity(source_.operand(1), wanted_->combiner)) {
          return std::nullopt;
        }
        return IfPartial(first);
      default:  // not of maxima and the like
        return wanted_->combiner == Opcode::kAdd ? PartialSummands() : std::nullopt;
    }
  }

  std::optional<std::vector<bool>> PartialSummands() const {
    DType dtype = source_.shape()->dtype();
    if (dtype == DType::kPred) return std::nullopt;
    auto count = At(source_.operand_count());
    std::vector<bool> all(count, true);
    switch (source_.opcode()) {
      case Opcode::kNegate:
      case Opcode::kAdd:
      case Opcode::kSubtract:
        return IfPartial(all);
      case Opcode::kConvert:
        return WidensFloat(source_) ? IfPartial(all) : std::nullopt;
      case Opcode::kDot:
      case Opcode::kMultiply: {
        if (source_.operand(0)->shape()->dtype() != dtype && !IsFloat(dtype)) return std::nullopt;
        std::vector<bool> one = {IsPartialAlike(*rule_.operand(0)),
                                 IsPartialAlike(*rule_.operand(1))};
        if (one[0] == one[1]) return std::nullopt;
        return one;
      }
      default:  // not linear
        return std::nullopt;
    }
  }

  // `operands` if one of those named is partial already: others are taken apart then, which moves
  // nothing.
  std::optional<std::vector<bool>> IfPartial(std::vector<bool> operands) const {
    for (size_t i = 0; i < operands.size(); ++i) {
      if (operands[i] && IsPartialAlike(*rule_.operands()[i])) return operands;
    }
    return std::nullopt;
  }

  bool IsAlike(const MeshLayout* layout) const {
    return IsAlikeButForCombiner(layout) && layout->combiner == wanted_->combiner;
  }
  bool IsAlikeButForCombiner(const MeshLayout* layout) const {
    return layout->kind == MeshLayout::Kind::kTiled && layout->unreduced == wanted_->unreduced &&
           layout->manual == wanted_->manual && layout->order == wanted_->order;
  }
  bool IsPartialAlike(const PartitionedValue& value) const {
    return !value.IsTuple() && value.maker == nullptr &&
           std::ranges::any_of(value.variants, [&](const PartitionedValue::Variant& variant) {
             return IsAlike(variant.layout);
           });
  }

  // The operation's rule, with the partial sub-axes hidden.
  RuleResult RunHidden(std::span<PartitionedValue* const> operands) {
    const MeshLayout* hidden[] = {Hidden(wanted_)};
    PartitionContext inner(rule_.scope(), source_, operands, hidden);
    return op_(inner);
  }

  // --- layouts in which the partial sub-axes are manual, and back

  const MeshLayout* Hidden(const MeshLayout* layout) const {
    MeshLayout hidden = *layout;
    hidden.manual = wanted_->manual;
    hidden.manual.insert(hidden.manual.end(), wanted_->unreduced.begin(), wanted_->unreduced.end());
    hidden.unreduced.clear();
    hidden.order = wanted_->order;
    return rule_.layouts().Intern(std::move(hidden));
  }
  const MeshLayout* Partial(const MeshLayout* hidden) const {
    MeshLayout layout = *hidden;
    layout.manual = wanted_->manual;
    layout.unreduced.insert(layout.unreduced.end(), wanted_->unreduced.begin(),
                            wanted_->unreduced.end());
    layout.combiner = wanted_->combiner;
    return rule_.layouts().Intern(std::move(layout));
  }

  PartitionedValue* PartialOperand(PartitionedValue* operand) {
    if (operand->IsTuple()) return nullptr;
    PartitionedValue* proxy = nullptr;
    auto add = [&](const MeshLayout* layout, Instruction* local) {
      if (proxy == nullptr) {
        proxy = rule_.scope().NewValue(operand->shape, Hidden(layout), local);
      } else {
        proxy->variants.push_back({Hidden(layout), local});
      }
    };
    for (const PartitionedValue::Variant& variant : operand->variants) {
      if (IsAlike(variant.layout)) add(variant.layout, variant.local);
    }
    if (proxy == nullptr) {
      const MeshLayout* whole = rule_.Whole(operand->shape->rank());
      if (!StaysClear(*operand, whole)) return nullptr;
      const MeshLayout* layout = Partial(Hidden(whole));
      add(layout, rule_.Move(operand, layout));
    }
    proxy->source = operand->source;
    return proxy;
  }

  // An operand that every device of a group has alike.
  PartitionedValue* CombinedOperand(size_t i) {
    PartitionedValue* operand = rule_.operands()[i];
    if (operand->IsTuple()) return nullptr;
    PartitionedValue* proxy = nullptr;
    if (operand->maker != nullptr && operand->payload == nullptr) {
      proxy = rule_.scope().NewRematerializable(operand->shape, operand->source, operand->maker);
    } else {
      const MeshLayout* whole = rule_.Whole(operand->shape->rank());
      const MeshLayout* layout = PartitionScope::LayoutOf(*operand);
      if (!StaysClear(*operand, layout)) {
        if (operand->maker == nullptr && owners_ == nullptr) return nullptr;
        layout = operand->maker == nullptr
                     ? WithoutAxes(rule_.layouts(), *layout, wanted_->unreduced)
                     : whole;
      }
      Instruction* local = rule_.Operand(static_cast<int64_t>(i), layout);
      proxy = rule_.scope().NewValue(operand->shape, Hidden(layout), local);
    }
    proxy->source = operand->source;
    return proxy;
  }

  // Can the value be had in this layout, and does the layout leave the partial sub-axes alone?
  bool StaysClear(const PartitionedValue& value, const MeshLayout* layout) const {
    if (value.maker == nullptr && value.Find(layout) == nullptr) return false;
    if (layout->kind != MeshLayout::Kind::kTiled || IsPartial(layout) ||
        layout->manual != wanted_->manual) {
      return false;
    }
    if (layout->TileCount() == 1) return true;
    return layout->order == wanted_->order &&
           HasNoneOf(rule_.layouts(), *layout, wanted_->unreduced);
  }

  // Rows as they are along the sub-axes that their owners differ by. What else they are partial
  // along is added up. `masked`: rows of other devices are to be zero.
  PartitionedValue* RowsOperand(PartitionedValue* operand, bool masked) {
    for (const PartitionedValue::Variant& variant : operand->variants) {
      if (!IsAlikeButForCombiner(variant.layout)) continue;
      const bool is_first = &variant == operand->variants.data();
      Instruction* any = is_first && !masked ? operand->unmasked : nullptr;
      return PartialOperand(operand, variant.layout, any != nullptr ? any : variant.local);
    }
    MeshLayout layout = *operand->variants[0].layout;
    if (layout.kind != MeshLayout::Kind::kTiled || layout.manual != wanted_->manual ||
        layout.order != wanted_->order) {
      return nullptr;
    }
    layout.unreduced = wanted_->unreduced;
    const MeshLayout* partial = rule_.layouts().Intern(std::move(layout));
    return PartialOperand(operand, partial, rule_.Move(operand, partial));
  }
  PartitionedValue* PartialOperand(PartitionedValue* operand, const MeshLayout* layout,
                                   Instruction* local) {
    PartitionedValue* proxy = rule_.scope().NewValue(operand->shape, Hidden(layout), local);
    proxy->source = operand->source;
    return proxy;
  }

  // A local value, in a layout whose partial sub-axes are hidden, with zero for the rows that other
  // devices have. `dims`: which of its dims rows are.
  Instruction* OwnRows(Instruction* local, const MeshLayout* layout,
                       std::span<const int64_t> dims) {
    std::vector<AxisList> lists;
    for (int64_t d : dims) lists.push_back(layout->dims[At(d)]);
    const MeshLayout* where = rule_.layouts().WithDims(layout, std::move(lists));
    Builder& builder = rule_.builder();
    const Dims sizes = local->shape()->dims();
    Instruction* own = builder.Broadcast(rule_.Move(owners_, where), sizes, dims);
    Instruction* nothing = ReductionIdentity(rule_.scope(), local->shape()->dtype());
    return builder.Select(own, local, builder.BroadcastScalar(nothing, sizes));
  }

  // The factor of a dot that adds rows up, zero where others' rows are: an infinite factor times
  // their zeros is no number.
  PartitionedValue* OwnFactor(PartitionedValue* factor, size_t i, std::span<const int64_t> dims) {
    const MeshLayout* layout = factor->maker != nullptr ? Hidden(rule_.Whole(factor->shape->rank()))
                                                        : factor->variants[0].layout;
    Instruction* local = factor->maker != nullptr
                             ? rule_.Operand(static_cast<int64_t>(i), rule_.Whole(layout->rank()))
                             : factor->variants[0].local;
    return rule_.scope().NewValue(factor->shape, layout, OwnRows(local, layout, dims));
  }

  // The rule's result as a partial value of the source's. `rows`: its dims that rows are, if those
  // of other devices are to be zero.
  PartitionedValue* Uncovered(PartitionedValue* result, const std::vector<int64_t>* rows) {
    const MeshLayout* layout = Hidden(wanted_);
    if (result->maker == nullptr) {
      layout = result->variants[0].layout;
      if (IsPartial(layout) && layout->combiner != wanted_->combiner) {
        layout = rule_.layouts().Reduced(layout);
      }
    }
    Instruction* local = rule_.Move(result, layout);
    if (rows == nullptr) return rule_.Result(local, Partial(layout));
    PartitionedValue* value = rule_.Result(OwnRows(local, layout, *rows), Partial(layout));
    if (!AreSummed(rule_.scope(), source_)) value->unmasked = local;
    return value;
  }

  PartitionContext& rule_;
  OpRule op_;
  const Instruction& source_;
  const MeshLayout* wanted_;
  PartitionedValue* owners_ = nullptr;  // of the rows that the operands are
};

// Movements, and sums of what is summed over devices: operations that `x` may be the first of.
bool CombinesAlike(const Instruction& x, Opcode combiner) {
  switch (x.opcode()) {
    case Opcode::kCopy:
    case Opcode::kReshape:
    case Opcode::kSlice:
    case Opcode::kTranspose:
      return true;
    case Opcode::kReduce:
      return x.operand_count() == 2 && CombinerOf(x.called(0)) == combiner;
    default:  // changes partial values
      return false;
  }
}

// Does a chain of such operations, each the only user of the one before, make half or less of it?
bool MakesSmaller(const Instruction& source, Opcode combiner, const Users& users) {
  constexpr int kMax = 8;
  const Instruction* x = &source;
  for (int i = 0; i < kMax && CombinesAlike(*x, combiner); ++i) {
    if (2 * x->shape()->element_count() <= source.operand(0)->shape()->element_count()) return true;
    if (users.of(x).size() != 1 || users.of(x)[0]->operand(0) != x) return false;
    x = users.of(x)[0];
  }
  return false;
}

// The layout of an operand that is there as partial values only, for nobody else; null: none.
const MeshLayout* OnlyPartial(PartitionContext& rule, int64_t i) {
  const PartitionedValue& operand = *rule.operand(i);
  if (operand.IsTuple() || operand.maker != nullptr || operand.required_layout != nullptr ||
      operand.variants.size() != 1 || !IsPartial(operand.variants[0].layout)) {
    return nullptr;
  }
  const Instruction& source = rule.source();
  const Users& users = rule.scope().run().UsersIn(*source.parent());
  return users.of(source.operand(i)).size() == 1 ? operand.variants[0].layout : nullptr;
}

// The partial layout that the result may be left in; null: none.
const MeshLayout* DeferredLayout(PartitionContext& rule) {
  const Instruction& source = rule.source();
  if (source.operand_count() == 0 || !source.shape()->IsArray()) return nullptr;
  const MeshLayout* has = OnlyPartial(rule, 0);
  const MeshLayout* wanted = rule.wanted();
  if (has == nullptr || wanted->kind != MeshLayout::Kind::kTiled || has->manual != wanted->manual) {
    return nullptr;
  }
  if (source.opcode() == Opcode::kAdd || source.opcode() == Opcode::kSubtract) {
    // Where the sum is scattered, adding up tiles is less work.
    const bool is_alike = has->combiner == Opcode::kAdd && OnlyPartial(rule, 1) == has;
    return is_alike && wanted->TileCount() <= has->TileCount() ? has : nullptr;
  }
  const Users& users = rule.scope().run().UsersIn(*source.parent());
  if (!MakesSmaller(source, has->combiner, users)) return nullptr;
  MeshLayout layout = *wanted;
  const bool is_clear = (wanted->order == has->order || wanted->TileCount() == 1) &&
                        HasNoneOf(rule.layouts(), *wanted, has->unreduced);
  if (!is_clear && has->TileCount() > 1) return nullptr;
  if (!is_clear) layout.dims.assign(layout.dims.size(), {});
  layout.order = has->order;
  layout.unreduced = has->unreduced;
  layout.combiner = has->combiner;
  return rule.layouts().Intern(std::move(layout));
}

}  // namespace

bool IsPartial(std::span<const MeshLayout* const> leaves) {
  return std::ranges::any_of(leaves, [](const MeshLayout* leaf) { return IsPartial(leaf); });
}

const MeshLayout* WithoutAxes(MeshLayoutTable& layouts, const MeshLayout& layout,
                              const AxisList& axes) {
  std::vector<AxisList> dims = layout.dims;
  for (AxisList& list : dims) {
    MeshLayout one = layout;
    one.dims.assign(1, list);
    if (!HasNoneOf(layouts, one, axes)) list.clear();
  }
  return layouts.WithDims(&layout, std::move(dims));
}

RuleResult RunWantedPartial(PartitionContext& rule, OpRule op) {
  if (std::optional<RuleResult> result = PartialOperandRule(rule, op).Run()) return *result;
  if (KnowsPartialLayouts(rule.source().opcode())) return op(rule);
  std::vector<const MeshLayout*> combined;
  for (const MeshLayout* leaf : rule.wanted_leaves()) {
    combined.push_back(rule.layouts().Reduced(leaf));
  }
  PartitionContext inner(rule.scope(), rule.source(), rule.operands(), combined);
  return op(inner);
}

std::optional<RuleResult> RunBeforeCombining(PartitionContext& rule, OpRule op) {
  if (!rule.scope().run().options.policies.defer_sums) return std::nullopt;
  if (rule.source().shape()->IsArray()) {
    const MeshLayout* of_rows[] = {LayoutFromOwnRows(rule)};
    PartitionContext inner(rule.scope(), rule.source(), rule.operands(), of_rows);
    if (of_rows[0] != nullptr) return PartialOperandRule(inner, op).RunOnRows();
  }
  const MeshLayout* partial[] = {DeferredLayout(rule)};
  if (partial[0] == nullptr) return std::nullopt;
  PartitionContext inner(rule.scope(), rule.source(), rule.operands(), partial);
  return PartialOperandRule(inner, op).Run();
}

}  // namespace gshard
