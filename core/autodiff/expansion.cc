#include "core/autodiff/expansion.h"

#include <fmt/format.h>

#include <unordered_map>

#include "core/autodiff/leaves.h"

namespace gshard {
namespace {

class Lifter {
 public:
  Lifter(Builder& builder, std::span<const int64_t> dims) : builder_(builder), dims_(dims) {}

  // Leaves of the root.
  Expected<std::vector<Instruction*>> Lift(const Computation& scalar,
                                           std::span<const std::vector<Instruction*>> arguments) {
    std::unordered_map<const Instruction*, std::vector<Instruction*>> values;
    for (const Instruction* x : scalar.instructions()) {
      std::vector<std::vector<Instruction*>> operands;
      for (const Instruction* operand : x->operands()) operands.push_back(values.at(operand));
      if (x->opcode() == Opcode::kParameter) {
        values[x] = arguments[At(x->attributes<ParameterAttributes>().number)];
        continue;
      }
      auto lifted = LiftOne(x, operands);
      if (!lifted) return lifted;
      values[x] = std::move(*lifted);
    }
    return values.at(scalar.root());
  }

 private:
  Expected<std::vector<Instruction*>> LiftOne(const Instruction* x,
                                              std::span<const std::vector<Instruction*>> operands) {
    using List = std::vector<Instruction*>;
    switch (x->opcode()) {
      case Opcode::kConstant:
        return List{builder_.BroadcastScalar(
            builder_.Constant(x->attributes<ConstantAttributes>().literal), dims_)};
      case Opcode::kTuple: {
        List leaves;
        for (const List& operand : operands) {
          leaves.insert(leaves.end(), operand.begin(), operand.end());
        }
        return leaves;
      }
      case Opcode::kGetTupleElement: {
        const auto first = operands[0].begin() + FirstLeafRead(*x);
        return List(first, first + x->shape()->leaf_count());
      }
      case Opcode::kCall:
      case Opcode::kMap:
      case Opcode::kFusion:
        return Lift(*x->called(0), operands);
      case Opcode::kBroadcast:
      case Opcode::kReshape:
      case Opcode::kBitcast:
      case Opcode::kTranspose:
      case Opcode::kOptBarrier:
        if (x->shape()->IsScalar() || x->opcode() == Opcode::kOptBarrier) return operands[0];
        break;
      default:  // elementwise, or refused
        break;
    }
    if (!IsElementwise(x->opcode()) || !x->shape()->IsScalar()) {
      return Fail(builder_.module().ErrorAt(
          x, "E-GRAD-005",
          fmt::format("'{}' in a computation of elements has no derivative: only elementwise "
                      "operations do",
                      x->name())));
    }
    List arrays;
    for (const List& operand : operands) arrays.push_back(operand[0]);
    return List{
        builder_.CloneWith(x, arrays, builder_.context().Array(x->shape()->dtype(), dims_))};
  }

  Builder& builder_;
  std::span<const int64_t> dims_;
};

}  // namespace

Expected<std::vector<Instruction*>> LiftComputation(Builder& builder, const Computation& scalar,
                                                    std::span<Instruction* const> arguments) {
  std::vector<std::vector<Instruction*>> lists;
  for (Instruction* argument : arguments) lists.push_back({argument});
  const std::vector<int64_t> dims(arguments[0]->shape()->dims().begin(),
                                  arguments[0]->shape()->dims().end());
  return Lifter(builder, dims).Lift(scalar, lists);
}

Expected<std::vector<Instruction*>> BuildLoop(Builder& builder, int64_t trips,
                                              std::span<Instruction* const> init,
                                              const LoopBody& body) {
  if (trips == 0) return std::vector<Instruction*>(init.begin(), init.end());
  Module& module = builder.module();
  std::vector<Instruction*> inits = {builder.ScalarInt(DType::kS32, 0)};
  inits.insert(inits.end(), init.begin(), init.end());
  std::vector<const Shape*> shapes;
  for (const Instruction* x : inits) shapes.push_back(x->shape()->bare());
  const Shape* shape = module.context().Tuple(shapes);

  Computation* condition = module.AddComputation("expansion_condition");
  Builder test(module, condition);
  test.set_origin(builder.origin());
  test.Parameter(0, shape, "state");
  condition->set_root(test.Compare(ComparisonDirection::kLt,
                                   test.GetTupleElement(condition->parameter(0), 0),
                                   test.ScalarInt(DType::kS32, trips)));

  Computation* iteration = module.AddComputation("expansion_body");
  Builder inside(module, iteration);
  inside.set_origin(builder.origin());
  Instruction* parameter = inside.Parameter(0, shape, "state");
  Instruction* i = inside.GetTupleElement(parameter, 0);
  std::vector<Instruction*> state;
  for (size_t k = 1; k < inits.size(); ++k) {
    state.push_back(inside.GetTupleElement(parameter, static_cast<int64_t>(k)));
  }
  Expected<std::vector<Instruction*>> next = body(inside, i, state);
  if (!next) return next;
  std::vector<Instruction*> root = {inside.Add(i, inside.ScalarInt(DType::kS32, 1))};
  root.insert(root.end(), next->begin(), next->end());
  iteration->set_root(inside.Tuple(root));

  Computation* called[] = {condition, iteration};
  Instruction* operands[] = {builder.Tuple(inits)};
  Instruction* loop = builder.Add(Opcode::kWhile, operands, NoAttributes{}, shape, called);
  std::vector<Instruction*> results;
  for (size_t k = 1; k < inits.size(); ++k) {
    results.push_back(builder.GetTupleElement(loop, static_cast<int64_t>(k)));
  }
  return results;
}

}  // namespace gshard
