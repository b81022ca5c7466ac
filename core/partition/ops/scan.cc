// Scan: local on the dims that are not scanned, if the body treats elements alike. Part of the
// reduce family.
#include <algorithm>

#include "core/partition/moving_tiles.h"
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// Does every element of the body's results depend on the same element of its arguments only?
bool TreatsElementsAlike(const Computation* body) {
  return std::all_of(body->instructions().begin(), body->instructions().end(),
                     [](const Instruction* x) {
                       switch (x->opcode()) {
                         case Opcode::kParameter:
                         case Opcode::kConstant:
                         case Opcode::kTuple:
                         case Opcode::kGetTupleElement:
                           return true;
                         case Opcode::kBroadcast:
                           return x->operand(0)->shape()->IsScalar();
                         default:
                           return IsElementwise(x->opcode());
                       }
                     });
}

}  // namespace

RuleResult Scan(PartitionContext& rule) {
  const Instruction& source = rule.source();
  const auto& scan = rule.attributes<ScanAttributes>();
  const Shape* shape = source.shape();
  std::span<const Shape* const> results = rule.ResultShapes();
  auto inputs = source.operand_count() - scan.num_carries;
  auto outputs = static_cast<int64_t>(results.size()) - scan.num_carries;

  // Dims of one element, the scanned one left out.
  std::span<const int64_t> whole = rule.operand_shape(0)->dims();
  std::vector<int64_t> element(whole.begin(), whole.end());
  element.erase(element.begin() + scan.dimension);
  auto is_element = [&](const Shape* x) {
    return std::equal(x->dims().begin(), x->dims().end(), element.begin(), element.end());
  };
  auto is_stack = [&](const Shape* x) {
    return std::equal(x->dims().begin(), x->dims().end(), whole.begin(), whole.end());
  };
  bool alike = TreatsElementsAlike(source.called(0));
  for (int64_t i = 0; i < source.operand_count(); ++i) {
    alike &= i < inputs ? is_stack(rule.operand_shape(i)) : is_element(rule.operand_shape(i));
  }
  for (int64_t i = 0; i < static_cast<int64_t>(results.size()); ++i) {
    alike &= i < outputs ? is_stack(results[At(i)]) : is_element(results[At(i)]);
  }
  if (!alike || element.empty()) return rule.Default();

  Labels labels;
  std::vector<int> carry;
  for (size_t d = 0; d < element.size(); ++d) carry.push_back(labels.Add());
  std::vector<int> stack = carry;
  stack.insert(stack.begin() + scan.dimension, Labels::kWhole);
  labels.operands.assign(At(inputs), stack);
  labels.operands.insert(labels.operands.end(), At(scan.num_carries), carry);
  labels.results.assign(At(outputs), stack);
  labels.results.insert(labels.results.end(), At(scan.num_carries), carry);
  Strategy strategy = ChooseMovingTiles(rule, labels);

  const MeshLayout* first = strategy.operands[0];
  std::vector<AxisList> axes = first->dims;
  axes.erase(axes.begin() + scan.dimension);
  const MeshLayout* element_layout = rule.layouts().WithDims(first, std::move(axes));
  CalleeSignature signature;
  signature.parameters.assign(At(source.operand_count()), {element_layout});
  signature.root.assign(results.size(), element_layout);
  Expected<Computation*> body = rule.scope().Callee(source.called(0), signature);
  if (!body) return Fail(body.error());
  std::vector<Instruction*> locals;
  for (int64_t i = 0; i < source.operand_count(); ++i) {
    locals.push_back(rule.Operand(i, strategy.operands[At(i)]));
  }
  std::vector<const Shape*> shapes;
  for (size_t i = 0; i < results.size(); ++i) {
    shapes.push_back(LocalShape(rule.context(), results[i], strategy.results[i]));
  }
  Instruction* local =
      rule.EmitLocal(locals, shape->IsTuple() ? rule.context().Tuple(shapes) : shapes[0]);
  local->set_called(0, *body);
  return rule.scope().NewFromLocal(shape, strategy.results, local);
}

}  // namespace gshard::partition_rules
