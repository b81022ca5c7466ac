// Random values: every tile draws its own stream; copies of one tile must agree.
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

RuleResult Rng(PartitionContext& rule) {
  std::vector<Instruction*> locals;
  for (size_t i = 0; i < rule.operands().size(); ++i) {
    locals.push_back(rule.Operand(static_cast<int64_t>(i), rule.Whole(0)));
  }
  const MeshLayout* layout = rule.wanted();
  if (layout->IsMaximal()) layout = rule.Whole(layout->rank());
  const Shape* shape = LocalShape(rule.context(), rule.source().shape(), layout);
  Instruction* drawn = rule.EmitLocal(locals, shape);
  if (layout->IsManual()) return rule.Result(drawn, layout);
  AxisList used = layout->manual;
  for (const AxisList& axes : layout->dims) used.insert(used.end(), axes.begin(), axes.end());
  AxisList copies = ComplementAxes(used, rule.layouts().device_count());
  if (copies.empty()) return rule.Result(drawn, layout);
  // The first device of each set of copies draws for all.
  MeshLayout partial = *layout;
  partial.unreduced = copies;
  Builder& builder = rule.builder();
  Instruction* is_first =
      builder.Compare(ComparisonDirection::kEq, rule.geometry().Ordinal(copies, layout->order),
                      rule.geometry().Int(0));
  Instruction* zero = rule.geometry().Number(shape->dtype(), 0);
  Instruction* local =
      builder.Add(Opcode::kSelect, {builder.BroadcastScalar(is_first, shape->dims()), drawn,
                                    builder.BroadcastScalar(zero, shape->dims())});
  return rule.Result(local, rule.layouts().Intern(std::move(partial)));
}

}  // namespace gshard::partition_rules
