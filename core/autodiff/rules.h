// Reverse-mode rules: one a differentiable opcode, in core/autodiff/ops/<family>.cc.
//
// A rule gets an instruction x of the forward program and the adjoints of its leaves (dL/dx), and
// adds to the adjoints of its operands. It writes nothing for operands that the scope does not want
// and never sees an x without any adjoint: zeros are symbolic.
#ifndef GSHARD_CORE_AUTODIFF_RULES_H_
#define GSHARD_CORE_AUTODIFF_RULES_H_

#include <span>

#include "ir/diagnostic.h"
#include "ir/instruction.h"

namespace gshard {

class ReverseScope;

// One a leaf of x; null: zero. Of an array: {the adjoint}.
using Adjoints = std::span<Instruction* const>;
using GradFunction = Expected<void> (*)(Instruction* x, Adjoints adjoints, ReverseScope& scope);

enum class GradKind : uint8_t {
  kRule,  // has a function
  kZero,  // the derivative is zero, or there is nothing to differentiate
  kNone,  // moves values where derivatives cannot follow (hosts); an error when one has to
};

struct GradRule {
  GradKind kind = GradKind::kZero;
  GradFunction function = nullptr;
};

const GradRule& GradRuleFor(Opcode opcode);
const char* TextOf(GradKind kind);  // "rule", "zero", "none"

#define GSHARD_GRAD(name) \
  Expected<void> name(Instruction* x, Adjoints adjoints, ReverseScope& scope)
// elementwise.cc
GSHARD_GRAD(GradElementwise);
GSHARD_GRAD(GradMap);
// broadcast.cc, reshape.cc, transpose.cc
GSHARD_GRAD(GradBroadcast);
GSHARD_GRAD(GradReshape);
GSHARD_GRAD(GradBitcast);
GSHARD_GRAD(GradTranspose);
// slice.cc
GSHARD_GRAD(GradSlice);
GSHARD_GRAD(GradPad);
GSHARD_GRAD(GradConcatenate);
GSHARD_GRAD(GradReverse);
GSHARD_GRAD(GradDynamicSlice);
GSHARD_GRAD(GradDynamicUpdateSlice);
GSHARD_GRAD(GradSetDimensionSize);
// dot.cc, convolution.cc
GSHARD_GRAD(GradDot);
GSHARD_GRAD(GradRaggedDot);
GSHARD_GRAD(GradScaledDot);
GSHARD_GRAD(GradConvolution);
// reduce.cc, scan.cc, batch_norm.cc, reduce_window.cc
GSHARD_GRAD(GradReduce);
GSHARD_GRAD(GradScan);
GSHARD_GRAD(GradBatchNormTraining);
GSHARD_GRAD(GradBatchNormInference);
GSHARD_GRAD(GradBatchNormGrad);
GSHARD_GRAD(GradReduceWindow);
GSHARD_GRAD(GradSelectAndScatter);
// gather_scatter.cc, sort.cc
GSHARD_GRAD(GradGather);
GSHARD_GRAD(GradScatter);
GSHARD_GRAD(GradSort);
GSHARD_GRAD(GradTopK);
// linalg.cc, fft.cc
GSHARD_GRAD(GradCholesky);
GSHARD_GRAD(GradTriangularSolve);
GSHARD_GRAD(GradFft);
// control_flow.cc
GSHARD_GRAD(GradWhile);
GSHARD_GRAD(GradConditional);
GSHARD_GRAD(GradCall);
GSHARD_GRAD(GradAsyncDone);
// tuple.cc
GSHARD_GRAD(GradTuple);
GSHARD_GRAD(GradGetTupleElement);
GSHARD_GRAD(GradFirstOperand);
GSHARD_GRAD(GradCopyDone);
// collectives.cc
GSHARD_GRAD(GradAllReduce);
GSHARD_GRAD(GradAllGather);
GSHARD_GRAD(GradReduceScatter);
GSHARD_GRAD(GradAllToAll);
GSHARD_GRAD(GradCollectivePermute);
GSHARD_GRAD(GradCollectiveBroadcast);
GSHARD_GRAD(GradRaggedAllToAll);
GSHARD_GRAD(GradCollectiveDone);
// custom_call.cc, lapack_call.cc
GSHARD_GRAD(GradCustomCall);
GSHARD_GRAD(GradLapackCall);
#undef GSHARD_GRAD

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_RULES_H_
