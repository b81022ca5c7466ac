#include "ir/input/older_forms.h"

#include <fmt/format.h>

#include <algorithm>
#include <vector>

namespace gshard {
namespace {

bool ReturnsBitsOnly(const Instruction* x) {
  return x->opcode() == Opcode::kRngBitGenerator && x->shape() != nullptr &&
         x->shape()->IsArray() && x->operand_count() == 1 && x->operand(0)->shape()->IsArray();
}

// x of `computation` as an element of a generator that comes before it in `list`.
Instruction* AddBits(Module& module, Computation* computation, Instruction* x,
                     std::vector<Instruction*>& list) {
  const Shape* parts[] = {x->operand(0)->shape(), x->shape()};
  Instruction* state[] = {x->operand(0)};
  Instruction* generator =
      module.Add(computation, Opcode::kRngBitGenerator,
                 module.UniqueName(fmt::format("{}.generator", x->name())),
                 module.context().Tuple(parts), state, x->attributes<RngBitGeneratorAttributes>());
  generator->set_metadata(x->metadata());
  generator->set_source(x->source());
  Instruction* both[] = {generator};
  Instruction* bits = module.Add(computation, Opcode::kGetTupleElement, x->name(), x->shape(), both,
                                 GetTupleElementAttributes{1});
  bits->set_metadata(x->metadata());
  bits->set_source(x->source());
  bits->set_sharding(x->sharding());
  list.push_back(generator);
  list.push_back(bits);
  return bits;
}

}  // namespace

void RewriteOlderForms(Module& module) {
  for (Computation* computation : module.computations()) {
    const std::span<Instruction* const> old = computation->instructions();
    if (std::ranges::none_of(old, ReturnsBitsOnly)) continue;
    // Without what Add appends.
    const std::vector<Instruction*> before(old.begin(), old.end());
    std::vector<Instruction*> list;
    for (Instruction* x : before) {
      if (!ReturnsBitsOnly(x)) {
        list.push_back(x);
        continue;
      }
      Instruction* bits = AddBits(module, computation, x, list);
      for (Instruction* user : before) {
        for (int64_t i = 0; i < user->operand_count(); ++i) {
          if (user->operand(i) == x) user->set_operand(i, bits);
        }
      }
      if (computation->root() == x) computation->set_root(bits);
    }
    computation->SetInstructions(std::move(list));
  }
}

}  // namespace gshard
