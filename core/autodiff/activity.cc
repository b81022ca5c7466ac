#include "core/autodiff/activity.h"

#include <algorithm>

#include "core/autodiff/leaves.h"
#include "core/autodiff/rules.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

bool Any(const LeafMask& mask) { return std::ranges::find(mask, true) != mask.end(); }

size_t LeafCount(const Instruction* x) { return At(x->shape()->leaf_count()); }

// Adds `from` to `to`; true if something was new.
bool Merge(LeafMask& to, const LeafMask& from) {
  bool changed = false;
  for (size_t i = 0; i < to.size(); ++i) {
    if (!from[i] || to[i]) continue;
    to[i] = changed = true;
  }
  return changed;
}

}  // namespace

bool Activity::IsVaried(const Instruction* x, int64_t leaf) const {
  return x->id() < varied_.size() && At(leaf) < varied_[x->id()].size() &&
         varied_[x->id()][At(leaf)];
}

bool Activity::IsAnyVaried(const Instruction* x) const {
  return x->id() < varied_.size() && Any(varied_[x->id()]);
}

LeafMask Activity::Varied(const Instruction* x) const {
  if (x->id() < varied_.size() && !varied_[x->id()].empty()) return varied_[x->id()];
  return LeafMask(LeafCount(x), false);
}

bool Activity::Mark(const Instruction* x, const LeafMask& leaves) {
  if (!Any(leaves) || is_constant_(x)) return false;
  if (varied_.size() <= x->id()) varied_.resize(std::max<size_t>(x->id() + 1, varied_.size() * 2));
  LeafMask& mask = varied_[x->id()];
  const std::vector<const Shape*> shapes = LeafShapes(x->shape());
  if (mask.size() < shapes.size()) mask.resize(shapes.size(), false);
  bool changed = false;
  for (size_t i = 0; i < shapes.size(); ++i) {
    if (!leaves[i] || mask[i] || !IsDifferentiable(shapes[i])) continue;
    mask[i] = changed = true;
  }
  return changed;
}

void Activity::Copy(const Instruction* original, const Instruction* copy) {
  if (IsAnyVaried(original)) Mark(copy, Varied(original));
}

void Activity::Propagate(std::span<Instruction* const> instructions) {
  for (const Instruction* x : instructions) {
    if (std::ranges::none_of(x->operands(), [&](auto* o) { return IsAnyVaried(o); })) continue;
    Mark(x, Transfer(x));
  }
}

// Varied leaves of the result of a computation, its parameters standing for the operands.
LeafMask Activity::TransferCall(const Instruction* x, int64_t first_operand) {
  LeafMask result;
  for (size_t k = 0; k < x->called().size(); ++k) {
    Computation* callee = x->called()[k];
    bool changed = false;
    for (int64_t i = 0; i < callee->parameter_count(); ++i) {
      const int64_t operand = first_operand + (first_operand == 1 ? static_cast<int64_t>(k) : i);
      changed |= Mark(callee->parameter(i), Varied(x->operand(operand)));
    }
    if (changed) Propagate(callee->instructions());
    const LeafMask root = Varied(callee->root());
    if (result.empty()) result.resize(root.size(), false);
    Merge(result, root);
  }
  return result;
}

void Activity::TransferLoop(const Instruction* x) {
  Computation* body = x->called(1);
  LeafMask state = Varied(x->operand(0));
  do {
    if (!Mark(body->parameter(0), state)) break;
    Propagate(body->instructions());
  } while (Merge(state, Varied(body->root())));
  Mark(x, state);
}

LeafMask Activity::Transfer(const Instruction* x) {
  const size_t leaves = LeafCount(x);
  switch (x->opcode()) {
    case Opcode::kTuple: {
      LeafMask mask;
      for (const Instruction* operand : x->operands()) {
        const LeafMask part = Varied(operand);
        mask.insert(mask.end(), part.begin(), part.end());
      }
      return mask;
    }
    case Opcode::kGetTupleElement: {
      const LeafMask all = Varied(x->operand(0));
      const auto first = all.begin() + FirstLeafRead(*x);
      return LeafMask(first, first + static_cast<std::ptrdiff_t>(leaves));
    }
    case Opcode::kOptBarrier:
    case Opcode::kDomain:
    case Opcode::kAddDependency:
    case Opcode::kCopy:
      return Varied(x->operand(0));
    case Opcode::kWhile:
      TransferLoop(x);
      return Varied(x);
    case Opcode::kConditional:
      return TransferCall(x, 1);
    case Opcode::kAsyncStart: {
      // ((operands), result, context): what async-done reads is the result.
      const LeafMask result = TransferCall(x, 0);
      LeafMask mask(leaves, false);
      const auto first = At(x->shape()->first_leaf(1));
      for (size_t i = 0; i < result.size() && first + i < leaves; ++i) mask[first + i] = result[i];
      return mask;
    }
    case Opcode::kCall:
    case Opcode::kFusion:
      return TransferCall(x, 0);
    default:  // as its rule in core/autodiff/rule_table.cc says
      return LeafMask(leaves, GradRuleFor(x->opcode()).kind != GradKind::kZero);
  }
}

std::vector<LeafMask> Activity::UsefulOperands(const Instruction& x, const LeafMask& useful) const {
  std::vector<LeafMask> operands;
  for (const Instruction* operand : x.operands()) operands.emplace_back(LeafCount(operand), false);
  switch (x.opcode()) {
    case Opcode::kTuple: {
      size_t leaf = 0;
      for (LeafMask& operand : operands) {
        for (size_t i = 0; i < operand.size(); ++i) operand[i] = useful[leaf++];
      }
      return operands;
    }
    case Opcode::kGetTupleElement: {
      const auto first = At(FirstLeafRead(x));
      for (size_t i = 0; i < useful.size(); ++i) operands[0][first + i] = useful[i];
      return operands;
    }
    case Opcode::kOptBarrier:
    case Opcode::kDomain:
    case Opcode::kAddDependency:
    case Opcode::kCopy:
      operands[0] = useful;
      return operands;
    case Opcode::kWhile:
      operands[0] = CarriedAdjoints(x, useful);
      return operands;
    case Opcode::kConditional:
      for (size_t k = 0; k < x.called().size(); ++k) {
        operands[k + 1] = UsefulParameters(*x.called()[k], useful)[0];
      }
      return operands;
    default:  // as its rule in core/autodiff/rule_table.cc says
      if (CalleesOf(x.opcode()) == Callees::kOnce &&
          useful.size() == LeafCount(x.called(0)->root())) {
        return UsefulParameters(*x.called(0), useful);
      }
      for (LeafMask& operand : operands) operand.assign(operand.size(), true);
      return operands;
  }
}

std::vector<LeafMask> Activity::UsefulParameters(const Computation& computation,
                                                 const LeafMask& useful) const {
  std::vector<LeafMask> mask(computation.module().instruction_limit());
  std::span<Instruction* const> list = computation.instructions();
  mask[computation.root()->id()] = useful;
  for (size_t i = list.size(); i-- > 0;) {
    const Instruction* x = list[i];
    LeafMask& of_x = mask[x->id()];
    if (of_x.empty() || x->opcode() == Opcode::kParameter) continue;
    const LeafMask varied = Varied(x);
    for (size_t leaf = 0; leaf < of_x.size(); ++leaf) of_x[leaf] = of_x[leaf] && varied[leaf];
    if (!Any(of_x)) continue;
    const std::vector<LeafMask> operands = UsefulOperands(*x, of_x);
    for (size_t k = 0; k < operands.size(); ++k) {
      LeafMask& of_operand = mask[x->operand(static_cast<int64_t>(k))->id()];
      if (of_operand.empty()) of_operand.resize(operands[k].size(), false);
      Merge(of_operand, operands[k]);
    }
  }
  std::vector<LeafMask> parameters;
  for (const Instruction* parameter : computation.parameters()) {
    LeafMask of = mask[parameter->id()];
    const LeafMask varied = Varied(parameter);
    of.resize(varied.size(), false);
    for (size_t leaf = 0; leaf < of.size(); ++leaf) of[leaf] = of[leaf] && varied[leaf];
    parameters.push_back(std::move(of));
  }
  return parameters;
}

LeafMask Activity::CarriedAdjoints(const Instruction& loop, LeafMask wanted) const {
  const Computation& body = *loop.called(1);
  const LeafMask varied = Varied(body.parameter(0));
  for (size_t i = 0; i < wanted.size(); ++i) wanted[i] = wanted[i] && varied[i];
  while (Merge(wanted, UsefulParameters(body, wanted)[0])) {
  }
  return wanted;
}

}  // namespace gshard
