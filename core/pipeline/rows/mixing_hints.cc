#include "core/pipeline/rows/mixing_hints.h"

#include <algorithm>
#include <unordered_set>
#include <vector>

#include "core/transforms/algebraic_simplifier.h"
#include "core/transforms/loop_parts.h"
#include "fmt/format.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

// Is `computation` the one that starts here, or run by it?
bool Runs(const Computation* start, const Computation* computation) {
  if (start == computation) return true;
  for (const Instruction* x : start->instructions()) {
    for (const Computation* called : x->called()) {
      if (IsControlFlow(x->opcode()) && Runs(called, computation)) return true;
    }
  }
  return false;
}

// The loop or conditional of the entry that runs `computation`; null: none.
const Instruction* RunnerOf(const Module& module, const Computation* computation) {
  for (const Instruction* x : module.entry()->instructions()) {
    if (!IsControlFlow(x->opcode())) continue;
    for (const Computation* called : x->called()) {
      if (Runs(called, computation)) return x;
    }
  }
  return nullptr;
}

// Does a turn of the loop take an array that the turn before has made, rather than put rows of its
// own beside those of other turns?
bool CarriesArrays(const Instruction* loop) {
  const Computation* body = loop->called(1);
  const Instruction* root = body->root();
  if (root->opcode() != Opcode::kTuple) return true;
  for (int64_t i = 0; i < root->operand_count(); ++i) {
    const Instruction* next = root->operand(i);
    if (next->shape()->element_count() == 1) continue;
    const bool stacks = next->opcode() == Opcode::kDynamicUpdateSlice;
    const Instruction* own = stacks ? next->operand(0) : next;
    if (ElementOf(own, body->parameter(0)) != i) return true;
  }
  return false;
}

// Does the all-reduce give all micro-batches a slice that one of them has? There one number decides
// whose it is, and the others have zeros:
//
//   all-reduce(select(broadcast(is mine), slice, zeros)), to_apply=add
bool TakesRowsOfOne(const Instruction* x) {
  if (x->opcode() != Opcode::kAllReduce || x->operand_count() != 1) return false;
  const Instruction* term = x->operand(0);
  while (KeepsOrder(term->opcode()) || term->opcode() == Opcode::kConvert) term = term->operand(0);
  return term->opcode() == Opcode::kSelect && FillingScalar(term->operand(0)) != nullptr &&
         FillingScalar(term->operand(2)) != nullptr;
}

// The product of rows of all examples, which `x` gathers, with those of a micro-batch; null: none.
const Instruction* ProductWithAll(const Instruction* x,
                                  const std::function<bool(const Instruction*)>& varies) {
  if (x->opcode() != Opcode::kAllGather) return nullptr;
  const Users users(*x->parent());
  std::unordered_set<const Instruction*> all = {x};
  std::vector<const Instruction*> open = {x};
  while (!open.empty()) {
    const Instruction* from = open.back();
    open.pop_back();
    for (const Instruction* user : users.of(from)) {
      if (user->opcode() == Opcode::kDot) {
        const Instruction* other = user->operand(user->operand(0) == from ? 1 : 0);
        if (!all.contains(other) && varies(other)) return user;
      } else if ((MovesOneArray(user->opcode()) || IsElementwise(user->opcode())) &&
                 all.insert(user).second) {
        open.push_back(user);
      }
    }
  }
  return nullptr;
}

std::string HintOfLoop(const Instruction* loop, const Instruction* x) {
  const std::string turns = fmt::format("each turn of the loop '{}' ", loop->name());
  if (CarriesArrays(loop)) {
    return turns +
           "needs it whole. If that loop adds up gradients over parts of the batch, take a step "
           "without it: --microbatches says into how many parts";
  }
  if (TakesRowsOfOne(x)) {
    return turns +
           "takes other examples, as jax.lax.map over examples or over chunks of their tokens "
           "does. jax.vmap in its place takes all of them at once; chunks along the sequence have "
           "a part of each example";
  }
  return turns +
         "needs it whole. A loop may carry a sum over the examples from turn to turn, or return "
         "what each example adds to it";
}

}  // namespace

std::string HintOfMixing(const Module& module, const Instruction* x,
                         const std::function<bool(const Instruction*)>& varies) {
  const Instruction* runner = RunnerOf(module, x->parent());
  if (runner != nullptr && runner->opcode() == Opcode::kWhile) return HintOfLoop(runner, x);
  if (runner != nullptr) return fmt::format("a branch of '{}' needs it whole", runner->name());
  const Instruction* product = ProductWithAll(x, varies);
  if (product == nullptr) return "";
  return fmt::format(
      "'{}' compares each example with all others, as contrastive losses do, and a micro-batch "
      "does "
      "not have them. A loss that compares within groups of examples goes, where micro-batches do "
      "not cut the groups: jax.vmap over them",
      product->name());
}

}  // namespace gshard::pipeline
