#include "core/pipeline/scatter_terms.h"

#include <optional>

#include "core/analysis/combiner.h"
#include "core/transforms/rewriter.h"
#include "ir/constant_fill.h"

namespace gshard::pipeline {
void SeparateScatterTerms(Module& module) {
  RewriteModule(module, [](Instruction* x, Rewriter& rewriter) -> Instruction* {
    if (x->opcode() != Opcode::kScatter || x->operand_count() != 3) return x;
    const std::optional<Opcode> combiner = CombinerOf(x->called(0));
    if (!combiner || ConstantFill(x->operand(0)) != nullptr) return x;
    Builder& b = rewriter.builder();
    Instruction* const operands[] = {IdentityArray(b, x->shape()->bare(), *combiner), x->operand(1),
                                     x->operand(2)};
    Instruction* term = b.CloneWith(x, operands, x->shape());
    term->set_sharding(x->sharding());
    return b.Binary(*combiner, x->operand(0), term);
  });
}

}  // namespace gshard::pipeline
