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

// A scan of one result whose body returns a tuple of it, while the scan does not, or the reverse.
bool DiffersFromBody(const Instruction* x) {
  if (x->opcode() != Opcode::kScan || x->called().empty() || x->shape() == nullptr) return false;
  const Shape* root = x->called(0)->root()->shape();
  const Shape* shape = x->shape();
  const auto is_one = [](const Shape* tuple) {
    return tuple->IsTuple() && tuple->elements().size() == 1;
  };
  return (is_one(root) && shape->IsArray()) || (is_one(shape) && root->IsArray());
}

// The scan as its body has it in place of `x`, in `list`, and its result as `x` has it.
Instruction* FitToBody(Module& module, Instruction* x, std::vector<Instruction*>& list) {
  const Shape* shape = x->shape();
  const Sharding* sharding = x->sharding();
  Instruction* const scan[] = {x};
  x->set_shape(shape->IsTuple() ? shape->element(0) : module.context().Tuple({&shape, 1}));
  if (sharding != nullptr) {
    x->set_sharding(sharding->IsTuple() ? sharding->elements[0]
                                        : module.context().TupleOf({sharding}));
  }
  list.push_back(x);
  const std::string_view name = module.UniqueName(x->name());
  Instruction* result =
      shape->IsTuple() ? module.Add(x->parent(), Opcode::kTuple, name, shape, scan, NoAttributes{})
                       : module.Add(x->parent(), Opcode::kGetTupleElement, name, shape, scan,
                                    GetTupleElementAttributes{0});
  result->set_metadata(x->metadata());
  result->set_source(x->source());
  result->set_sharding(sharding);
  list.push_back(result);
  return result;
}

void RewriteScans(Module& module) {
  for (Computation* computation : module.computations()) {
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    if (std::ranges::none_of(old, DiffersFromBody)) continue;
    std::vector<Instruction*> list;
    for (Instruction* x : old) {
      if (!DiffersFromBody(x)) {
        list.push_back(x);
        continue;
      }
      Instruction* result = FitToBody(module, x, list);
      for (Instruction* user : old) {
        for (int64_t i = 0; i < user->operand_count(); ++i) {
          if (user->operand(i) == x) user->set_operand(i, result);
        }
      }
      if (computation->root() == x) computation->set_root(result);
    }
    computation->SetInstructions(std::move(list));
  }
}

}  // namespace

void RewriteOlderForms(Module& module) {
  RewriteScans(module);
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
