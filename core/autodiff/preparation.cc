#include "core/autodiff/preparation.h"

#include <algorithm>
#include <array>
#include <unordered_map>
#include <unordered_set>

#include "core/analysis/trip_count.h"
#include "core/autodiff/leaves.h"
#include "ir/async_sugar.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// --- one caller for every called computation

class CallerSeparator {
 public:
  explicit CallerSeparator(Module& module) : module_(module) {}

  Expected<void> Run() {
    std::vector<Computation*> work = {module_.entry()};
    while (!work.empty()) {
      Computation* computation = work.back();
      work.pop_back();
      const std::vector<Instruction*> list(computation->instructions().begin(),
                                           computation->instructions().end());
      for (Instruction* x : list) {
        if (BringsOperands(*x)) {
          return Fail(module_.ErrorAt(
              x, "E-GRAD-003",
              "derivatives cannot follow operands that come after their operation has started"));
        }
        if (!IsControlFlow(x->opcode())) continue;
        for (int64_t k = 0; k < static_cast<int64_t>(x->called().size()); ++k) {
          if (!seen_.insert(x->called(k)).second) {
            if (module_.instruction_limit() > kMaxInstructions) {
              return Fail(module_.ErrorAt(x, "E-GRAD-008",
                                          "nested calls make more instructions than can be "
                                          "differentiated"));
            }
            x->set_called(k, Copy(*x->called(k)));
            seen_.insert(x->called(k));
          }
          work.push_back(x->called(k));
        }
      }
    }
    return {};
  }

 private:
  static constexpr uint32_t kMaxInstructions = 20'000'000;

  Computation* Copy(const Computation& original) {
    Computation* copy = module_.AddComputation(original.name());
    std::unordered_map<const Instruction*, Instruction*> value;
    for (const Instruction* x : PostOrder(original)) {
      std::vector<Instruction*> operands;
      for (const Instruction* operand : x->operands()) operands.push_back(value.at(operand));
      value[x] = module_.Clone(copy, x, operands, module_.UniqueName(x->name()));
    }
    for (Instruction* x : copy->instructions()) x->set_extras(nullptr);
    copy->set_root(value.at(original.root()));
    return copy;
  }

  Module& module_;
  std::unordered_set<const Computation*> seen_;
};

// --- calls that take a part of an operand, or the bounds of a loop

// call(w, i) to {dynamic-slice(parameter 0, ..)}: the adjoint of w is added in place only where the
// slice is seen. So are loops' bodies kept free of calls: what they leave for the way back is a
// value of the loop.
class PartInliner {
 public:
  explicit PartInliner(Module& module) : module_(module) {}

  void Run() { Visit(module_.entry(), false); }

 private:
  static bool TakesPart(const Computation& callee) {
    return std::ranges::any_of(callee.instructions(), [](const Instruction* x) {
      switch (x->opcode()) {
        case Opcode::kSlice:
        case Opcode::kDynamicSlice:
        case Opcode::kDynamicUpdateSlice:
        case Opcode::kGather:
          return ParameterLeafOf(x->operand(0)).has_value();
        default:  // takes operands whole
          return false;
      }
    });
  }

  // Where a loop's counter starts, or ends, may be among the operands.
  static bool HasUncountedLoop(const Computation& callee) {
    return std::ranges::any_of(callee.instructions(), [](const Instruction* x) {
      return x->opcode() == Opcode::kWhile && !TripCount(*x);
    });
  }

  void Visit(Computation* computation, bool in_loop) {
    std::unordered_map<const Instruction*, Instruction*> value;
    auto current = [&](Instruction* x) {
      auto it = value.find(x);
      return it == value.end() ? x : it->second;
    };
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    std::vector<Instruction*> list;
    for (Instruction* x : old) {
      for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, current(x->operand(i)));
      if (IsControlFlow(x->opcode())) {
        for (Computation* called : x->called()) {
          Visit(called, in_loop || x->opcode() == Opcode::kWhile);
        }
      }
      const bool is_inlined =
          x->opcode() == Opcode::kCall &&
          (in_loop || TakesPart(*x->called(0)) || HasUncountedLoop(*x->called(0)));
      if (!is_inlined) {
        list.push_back(x);
        continue;
      }
      value[x] = Expand(x, computation, list);
    }
    Instruction* root = current(computation->root());
    computation->SetInstructions(std::move(list));
    computation->set_root(root);
  }

  // The callee has no other caller: its instructions come out of it with their names.
  Instruction* Expand(Instruction* call, Computation* into, std::vector<Instruction*>& list) {
    std::unordered_map<const Instruction*, Instruction*> value;
    Computation* callee = call->called(0);
    for (int64_t k = 0; k < callee->parameter_count(); ++k) {
      value[callee->parameter(k)] = call->operand(k);
    }
    for (Instruction* x : callee->instructions()) {
      if (x->opcode() == Opcode::kParameter) continue;
      std::vector<Instruction*> operands;
      for (Instruction* operand : x->operands()) operands.push_back(value.at(operand));
      const std::string_view name = x->name();
      Instruction* copy = module_.Clone(into, x, operands, name);
      copy->set_extras(nullptr);
      x->set_name(module_.UniqueName(name));
      value[x] = copy;
      list.push_back(copy);
    }
    Instruction* result = value.at(callee->root());
    if (call->sharding() != nullptr && result->sharding() == nullptr) {
      result->set_sharding(call->sharding());
    }
    return result;
  }

  Module& module_;
};

// What a reduction or a comparison applies to scalars has no layout: annotations within, which JAX
// writes in regions that are manual in some axes, say nothing and hide what the function is.
void DropMarkersOfScalars(Module& module) {
  std::unordered_set<Computation*> functions;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (IsControlFlow(x->opcode())) continue;
      for (Computation* called : x->called()) functions.insert(called);
    }
  }
  for (Computation* function : functions) {
    std::unordered_map<const Instruction*, Instruction*> value;
    std::vector<Instruction*> list;
    for (Instruction* x : function->instructions()) {
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        if (auto it = value.find(x->operand(i)); it != value.end()) x->set_operand(i, it->second);
      }
      if (IsIdentityCall(*x) && x->operand_count() == 1) {
        value[x] = x->operand(0);
      } else {
        list.push_back(x);
      }
    }
    if (value.empty()) continue;
    Instruction* root = function->root();
    if (auto it = value.find(root); it != value.end()) root = it->second;
    function->SetInstructions(std::move(list));
    function->set_root(root);
  }
}

// Loops on a tuple, as the rules expect them: one on an array gets a tuple of one.
void MakeTupleState(Module& module) {
  const std::vector<Computation*> computations(module.computations().begin(),
                                               module.computations().end());
  for (Computation* computation : computations) {
    const std::vector<Instruction*> list(computation->instructions().begin(),
                                         computation->instructions().end());
    std::unordered_map<Instruction*, Instruction*> replaced;
    for (Instruction* loop : list) {
      if (loop->opcode() != Opcode::kWhile || loop->shape()->IsTuple()) continue;
      Builder outer(module, computation);
      outer.set_origin(loop);
      const Shape* element = loop->shape();
      Instruction* init = outer.Tuple(std::array{loop->operand(0)});
      for (Computation* called : loop->called()) {
        Builder inner(module, called);
        Instruction* parameter = called->parameter(0);
        const std::vector<Instruction*> users(called->instructions().begin(),
                                              called->instructions().end());
        parameter->set_shape(init->shape());
        Instruction* value = inner.GetTupleElement(parameter, 0);
        for (Instruction* user : users) {
          for (int64_t i = 0; i < user->operand_count(); ++i) {
            if (user->operand(i) == parameter) user->set_operand(i, value);
          }
        }
        Instruction* root = called->root() == parameter ? value : called->root();
        const bool is_body = called == loop->called(1);
        called->set_root(is_body ? inner.Tuple(std::array{root}) : root);
      }
      loop->set_operand(0, init);
      loop->set_shape(init->shape());
      if (loop->sharding() != nullptr) {
        loop->set_sharding(module.context().TupleOf({loop->sharding()}));
      }
      Instruction* value = outer.GetTupleElement(loop, 0);
      value->set_shape(element);
      replaced[loop] = value;
    }
    for (Instruction* user : list) {
      for (int64_t i = 0; i < user->operand_count(); ++i) {
        auto it = replaced.find(user->operand(i));
        if (it != replaced.end() && it->second != user) user->set_operand(i, it->second);
      }
    }
    if (auto it = replaced.find(computation->root()); it != replaced.end()) {
      computation->set_root(it->second);
    }
  }
}

}  // namespace

Expected<void> PrepareForDifferentiation(Module& module) {
  if (auto separated = CallerSeparator(module).Run(); !separated) return separated;
  DropMarkersOfScalars(module);
  PartInliner(module).Run();
  RemoveDeadCode(module);
  MakeTupleState(module);
  return {};
}

}  // namespace gshard
