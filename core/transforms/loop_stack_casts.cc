#include "core/transforms/loop_stack_casts.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

bool IsCast(const Instruction* x) {
  return x->opcode() == Opcode::kConvert && x->shape()->dtype() == DType::kBF16;
}

// Does it give back elements of its first operand, unchanged?
bool PassesOn(const Instruction* x, const Instruction* of) {
  if (x->operand(0) != of || x->sharding() != nullptr || IsCollective(x->opcode())) return false;
  return x->opcode() == Opcode::kDynamicSlice || x->opcode() == Opcode::kSlice ||
         x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kBitcast;
}

// One loop: which elements of its state become narrow, and who reads them.
class LoopCasts {
 public:
  LoopCasts(const LoopParts& parts, const Users& users) : parts_(parts), users_(users) {}

  bool Find() {
    for (int64_t i = 0; i < parts_.size(); ++i) {
      if (IsReadNarrowOnly(i)) elements_.push_back(i);
    }
    return !elements_.empty();
  }

  void Apply(Module& module, Builder& builder,
             std::unordered_map<const Instruction*, Instruction*>& casts) {
    std::vector<Instruction*> inits;
    for (int64_t i = 0; i < parts_.size(); ++i) inits.push_back(parts_.Init(builder, i));
    for (int64_t i : elements_) {
      Instruction*& init = inits[static_cast<size_t>(i)];
      Instruction*& cast = casts[init];
      if (cast == nullptr) cast = builder.Convert(init, DType::kBF16);
      init = cast;
    }
    SetState(parts_, builder, inits);
    for (Instruction* x : narrowed_)
      x->set_shape(builder.context().WithDType(x->shape(), DType::kBF16));
    for (Instruction* barrier : barriers_) {
      Instruction* tuple = barrier->operand(0);
      std::vector<const Shape*> shapes;
      for (const Instruction* operand : tuple->operands()) shapes.push_back(operand->shape());
      tuple->set_shape(builder.context().Tuple(shapes));
      barrier->set_shape(tuple->shape());
    }
    parts_.body->root()->set_shape(parts_.loop->shape());
    Rewriter(module).Run(parts_.body, [&](Instruction* x, Rewriter&) {
      return dropped_.contains(x) ? x->operand(0) : x;
    });
  }

 private:
  bool IsReadNarrowOnly(int64_t i) {
    const Shape* shape = parts_.body_state->shape()->element(i);
    if (!shape->IsArray() || shape->dtype() != DType::kF32 || shape->rank() < 2) return false;
    if (ElementOf(parts_.Next(i), parts_.body_state) != i) return false;
    if (IsElementRead(parts_.condition_state, i) || IsElementRead(parts_.loop, i)) return false;
    std::vector<Instruction*> narrowed;
    std::vector<const Instruction*> dropped;
    for (Instruction* x : users_.of(parts_.body_state)) {
      if (ElementOf(x, parts_.body_state) == i) narrowed.push_back(x);
    }
    for (size_t n = 0; n < narrowed.size(); ++n) {
      const bool is_element = ElementOf(narrowed[n], parts_.body_state) == i;
      for (Instruction* user : users_.of(narrowed[n])) {
        if (is_element && user == parts_.body->root()) continue;
        if (IsCast(user)) {
          dropped.push_back(user);
        } else if (user != parts_.body->root() && PassesOn(user, narrowed[n])) {
          if (std::ranges::find(narrowed, user) == narrowed.end()) narrowed.push_back(user);
        } else if (!AddBehindBarrier(narrowed[n], user, narrowed)) {
          return false;
        }
      }
    }
    if (dropped.empty()) return false;
    narrowed_.insert(narrowed_.end(), narrowed.begin(), narrowed.end());
    dropped_.insert(dropped.begin(), dropped.end());
    return true;
  }

  // Is `tuple` what a barrier, as jax.checkpoint writes them, hands on? Adds what it makes of x.
  bool AddBehindBarrier(const Instruction* x, Instruction* tuple,
                        std::vector<Instruction*>& narrowed) {
    if (tuple->opcode() != Opcode::kTuple || users_.of(tuple).size() != 1) return false;
    Instruction* barrier = users_.of(tuple)[0];
    if (barrier->opcode() != Opcode::kOptBarrier || barrier == parts_.body->root()) return false;
    for (Instruction* element : users_.of(barrier)) {
      const auto index = ElementOf(element, barrier);
      if (!index) return false;
      if (tuple->operand(*index) == x) narrowed.push_back(element);
    }
    barriers_.push_back(barrier);
    return true;
  }

  bool IsElementRead(const Instruction* tuple, int64_t i) const {
    return std::ranges::any_of(users_.of(tuple), [&](const Instruction* user) {
      const auto element = ElementOf(user, tuple);
      if (!element) return true;
      return *element == i && (!users_.of(user).empty() || user == user->parent()->root());
    });
  }

  const LoopParts& parts_;
  const Users& users_;
  std::vector<int64_t> elements_;
  std::vector<Instruction*> narrowed_;
  std::vector<Instruction*> barriers_;              // that hand some of them on
  std::unordered_set<const Instruction*> dropped_;  // casts in the body
};

bool IsLoop(const Instruction* x) { return x->opcode() == Opcode::kWhile; }

}  // namespace

bool CastLoopStacks(Module& module) {
  const CallSites sites(module);
  const Users users(module);
  std::unordered_map<const Instruction*, Instruction*> casts;
  bool changed = false;
  Rewriter rewriter(module);
  const std::vector<Computation*> computations(module.computations().begin(),
                                               module.computations().end());
  for (Computation* computation : computations) {
    const std::vector<Instruction*> list(computation->instructions().begin(),
                                         computation->instructions().end());
    if (std::ranges::none_of(list, IsLoop)) continue;
    rewriter.Begin(computation);
    for (Instruction* x : list) {
      if (const std::optional<LoopParts> parts = PartsOf(x, sites)) {
        LoopCasts loop(*parts, users);
        rewriter.builder().set_origin(x);
        if (loop.Find()) {
          loop.Apply(module, rewriter.builder(), casts);
          changed = true;
        }
      }
      rewriter.Keep(x);
    }
    rewriter.Finish();
  }
  RemoveDeadCode(module);
  return changed;
}

}  // namespace gshard
