// Scan: local on the dims that are not scanned, if the body treats elements alike. Part of the
// reduce family.
#include <tsl/robin_map.h>

#include <algorithm>

#include "core/partition/moving_tiles.h"
#include "core/partition/ops/rules.h"

namespace gshard::partition_rules {

namespace {

size_t At(int64_t i) { return static_cast<size_t>(i); }

// Does every element of the body's results depend on the same element of its arguments only?
bool TreatsElementsAlike(const Computation* body, std::span<const int64_t> element) {
  auto is_element = [&](const Shape* shape) {
    return std::equal(shape->dims().begin(), shape->dims().end(), element.begin(), element.end());
  };
  return std::all_of(
      body->instructions().begin(), body->instructions().end(), [&](const Instruction* x) {
        switch (x->opcode()) {
          case Opcode::kTuple:
          case Opcode::kGetTupleElement:
            return true;
          case Opcode::kParameter:
            return x->shape()->IsArray();
          case Opcode::kConstant:
            return x->shape()->IsScalar();
          case Opcode::kBroadcast:
            return x->operand(0)->shape()->IsScalar() && is_element(x->shape());
          default:
            return IsElementwise(x->opcode()) && (x->shape()->IsScalar() || is_element(x->shape()));
        }
      });
}

// A body that TreatsElementsAlike, on tiles of the layout instead of whole elements. Nothing in it
// has a layout of its own: collectives would run once a step.
Computation* BodyOnTiles(PartitionScope& outer, const Instruction& source, const MeshLayout* layout,
                         std::span<const int64_t> tile) {
  const Computation* body = source.called(0);
  CalleeSignature signature;
  signature.parameters.assign(At(source.operand_count()), {layout});
  if (Computation* known = outer.FindCallee(body, signature)) return known;
  PartitionScope scope(outer.run(), outer.run().module.AddComputation(body->name()));
  Builder& builder = scope.builder();
  tsl::robin_map<const Instruction*, Instruction*> made;
  for (const Instruction* x : body->instructions()) {
    std::vector<Instruction*> operands;
    for (const Instruction* operand : x->operands()) operands.push_back(made.at(operand));
    builder.set_origin(x);
    const Shape* shape = x->shape();
    if (x->opcode() == Opcode::kTuple) {
      made[x] = builder.Tuple(operands);
      scope.TakeName(made[x], x);
    } else if (x->opcode() == Opcode::kGetTupleElement) {
      made[x] =
          builder.GetTupleElement(operands[0], x->attributes<GetTupleElementAttributes>().index);
    } else {
      if (!shape->IsScalar()) shape = outer.context().Array(shape->dtype(), tile);
      made[x] = scope.CloneLocal(x, operands, shape);
    }
  }
  builder.computation()->set_root(made.at(body->root()));
  outer.KeepCallee(body, signature, builder.computation());
  return builder.computation();
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
  bool alike = TreatsElementsAlike(source.called(0), element);
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
  std::vector<int64_t> tile = LocalDims(rule.operand_shape(0), strategy.operands[0]);
  tile.erase(tile.begin() + scan.dimension);
  std::vector<AxisList> axes = strategy.operands[0]->dims;
  axes.erase(axes.begin() + scan.dimension);
  const MeshLayout* layout = rule.layouts().WithDims(strategy.operands[0], std::move(axes));
  local->set_called(0, BodyOnTiles(rule.scope(), source, layout, tile));
  return rule.scope().NewFromLocal(shape, strategy.results, local);
}

}  // namespace gshard::partition_rules
