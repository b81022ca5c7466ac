#include "core/transforms/expand/scan_expander.h"

#include <algorithm>
#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

bool NeedsPlan(const Computation& computation) {
  for (const Instruction* x : computation.instructions()) {
    switch (x->opcode()) {
      case Opcode::kWhile:
      case Opcode::kConditional:
      case Opcode::kAsyncStart:
      case Opcode::kPartitionId:
      case Opcode::kReplicaId:
      case Opcode::kRngGetAndUpdateState:
        return true;
      case Opcode::kCall:
      case Opcode::kFusion:
      case Opcode::kScan:
        if (NeedsPlan(*x->called(0))) return true;
        break;
      case Opcode::kCustomCall:
        break;
      default:  // runs in a kernel unless it communicates
        if (IsCollective(x->opcode()) || HasSideEffect(*x)) return true;
    }
  }
  return false;
}

class ScanLoop {
 public:
  ScanLoop(Module& module, Builder& builder, const Instruction& scan)
      : module_(module),
        builder_(builder),
        scan_(scan),
        attributes_(scan.attributes<ScanAttributes>()) {
    const auto results =
        static_cast<int64_t>(scan.shape()->IsTuple() ? scan.shape()->elements().size() : size_t{1});
    inputs_ = scan.operand_count() - attributes_.num_carries;
    outputs_ = results - attributes_.num_carries;
    length_ = scan.operand(0)->shape()->dim(attributes_.dimension);
  }

  Instruction* Run() {
    std::vector<Instruction*> initial = {builder_.ScalarInt(DType::kS32, 0)};
    for (int64_t i = inputs_; i < scan_.operand_count(); ++i) initial.push_back(scan_.operand(i));
    for (int64_t i = 0; i < outputs_; ++i) initial.push_back(builder_.Zero(Result(i)));
    if (length_ == 0) {  // no slice to take
      initial.erase(initial.begin());
      return builder_.Add(Opcode::kCopy, {Results(initial)});
    }
    for (int64_t i = 0; i < inputs_; ++i) initial.push_back(scan_.operand(i));
    Instruction* tuple = builder_.Tuple(initial);
    Computation* called[] = {Condition(tuple->shape()), Body(tuple->shape())};
    Instruction* loop =
        builder_.Add(Opcode::kWhile, {&tuple, 1}, NoAttributes{}, tuple->shape(), called);
    std::vector<Instruction*> state;
    for (int64_t i = 0; i < attributes_.num_carries + outputs_; ++i) {
      state.push_back(builder_.GetTupleElement(loop, 1 + i));
    }
    return Results(state);
  }

 private:
  // Of (carries.., outputs..).
  Instruction* Results(std::vector<Instruction*> state) {
    std::rotate(state.begin(), state.begin() + attributes_.num_carries, state.end());
    return scan_.shape()->IsTuple() ? builder_.Tuple(state) : state[0];
  }

  const Shape* Result(int64_t i) const {
    return scan_.shape()->IsTuple() ? scan_.shape()->element(i) : scan_.shape();
  }

  Computation* Condition(const Shape* carried) {
    Builder builder(module_, module_.AddComputation("scan_condition"));
    Instruction* iteration = builder.Parameter(0, carried, "iteration");
    builder.computation()->set_root(builder.Compare(ComparisonDirection::kLt,
                                                    builder.GetTupleElement(iteration, 0),
                                                    builder.ScalarInt(DType::kS32, length_)));
    return builder.computation();
  }

  Computation* Body(const Shape* carried) {
    Builder builder(module_, module_.AddComputation("scan_body"));
    builder.set_origin(&scan_);
    Instruction* iteration = builder.Parameter(0, carried, "iteration");
    Instruction* index = builder.GetTupleElement(iteration, 0);
    Instruction* at = attributes_.is_reverse
                          ? builder.Subtract(builder.ScalarInt(DType::kS32, length_ - 1), index)
                          : index;
    const int64_t carries = attributes_.num_carries;
    std::vector<Instruction*> arguments;
    for (int64_t i = 0; i < inputs_; ++i) {
      Instruction* input = builder.GetTupleElement(iteration, 1 + carries + outputs_ + i);
      arguments.push_back(
          builder.Reshape(builder.DynamicSliceDim(input, attributes_.dimension, at, 1),
                          scan_.called(0)->parameter(i)->shape()->dims()));
    }
    for (int64_t i = 0; i < carries; ++i) {
      arguments.push_back(builder.GetTupleElement(iteration, 1 + i));
    }
    Computation* step[] = {scan_.called(0)};
    const Shape* shape = step[0]->root()->shape();
    Instruction* made = builder.Add(Opcode::kCall, arguments, CallAttributes{}, shape, step);
    auto result = [&](int64_t i) {
      return shape->IsTuple() ? builder.GetTupleElement(made, i) : made;
    };
    std::vector<Instruction*> next = {builder.Add(index, builder.ScalarInt(DType::kS32, 1))};
    for (int64_t i = 0; i < carries; ++i) next.push_back(result(outputs_ + i));
    for (int64_t i = 0; i < outputs_; ++i) {
      Instruction* output = builder.GetTupleElement(iteration, 1 + carries + i);
      next.push_back(builder.DynamicUpdateDim(output, builder.Reshape(result(i), OneSlice(output)),
                                              attributes_.dimension, at));
    }
    for (int64_t i = 0; i < inputs_; ++i) {
      next.push_back(builder.GetTupleElement(iteration, 1 + carries + outputs_ + i));
    }
    builder.computation()->set_root(builder.Tuple(next));
    return builder.computation();
  }

  std::vector<int64_t> OneSlice(const Instruction* x) const {
    std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
    dims[static_cast<size_t>(attributes_.dimension)] = 1;
    return dims;
  }

  Module& module_;
  Builder& builder_;
  const Instruction& scan_;
  const ScanAttributes attributes_;
  int64_t inputs_ = 0, outputs_ = 0, length_ = 0;
};

}  // namespace

bool ExpandScans(Module& module) {
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  bool any = false;
  for (Computation* computation : all) {
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    auto expands = [](const Instruction* x) {
      return x->opcode() == Opcode::kScan && NeedsPlan(*x->called(0));
    };
    if (std::none_of(old.begin(), old.end(), expands)) continue;
    any = true;
    Rewriter rewriter(module);
    rewriter.Begin(computation);
    for (Instruction* x : old) {
      rewriter.RedirectOperands(x);
      rewriter.builder().set_origin(x);
      if (!expands(x)) {
        rewriter.Keep(x);
        continue;
      }
      Instruction* result = ScanLoop(module, rewriter.builder(), *x).Run();
      result->set_sharding(x->sharding());
      rewriter.Replace(x, result);
    }
    rewriter.Finish();
  }
  if (!any) return false;
  // Callees before callers.
  const std::vector<Computation*> order = CallPostOrder(module);
  module.SetComputations({order.begin(), order.end()});
  return true;
}

}  // namespace gshard
