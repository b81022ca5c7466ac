#include "core/analysis/updates.h"

#include <algorithm>
#include <unordered_map>
#include <utility>

#include "core/analysis/gradient_results.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

int64_t NumberOfParameter(const Instruction* parameter) {
  return parameter->attributes<ParameterAttributes>().number;
}

// Is it its operand, put somewhere, or a tile of it?
bool IsPlaced(const Instruction& x) {
  return IsRegionMarker(x) || IsCustomCallTo(x, kShardingTarget);
}

// Which parameters of the entry reach a value by elementwise operations on arrays of its dims; in
// manual regions on tiles of these.
class ElementwiseSources {
 public:
  explicit ElementwiseSources(const Module& module) : entry_(module.entry()) {
    for (const Computation* computation : module.computations()) {
      for (const Instruction* x : computation->instructions()) {
        if (x->opcode() != Opcode::kConditional) continue;
        for (size_t i = 0; i < x->called().size(); ++i) {
          arguments_[x->called()[i]].push_back(x->operand(static_cast<int64_t>(i) + 1));
        }
      }
    }
  }

  // Numbers, in the order in which they are found.
  std::vector<int64_t> Of(const Instruction* value) {
    shape_ = value->shape(), open_.clear(), seen_.clear();
    Open(value, shape_);
    std::vector<int64_t> found;
    while (!open_.empty()) {
      const auto [x, like] = open_.back();
      open_.pop_back();
      if (x->opcode() == Opcode::kParameter) {
        const bool has_dims = x->parent() == entry_ && SameDims(x->shape(), shape_);
        if (has_dims) found.push_back(NumberOfParameter(x));
        for (const Instruction* argument : ArgumentsOf(x->parent())) Open(argument, like);
      } else if (x->opcode() == Opcode::kConditional) {
        for (const Computation* branch : x->called()) Open(branch->root(), like);
      } else if (x->opcode() == Opcode::kGetTupleElement) {
        OpenElement(x->operand(0), x->attributes<GetTupleElementAttributes>().index, like);
      } else if (IsPlaced(*x)) {
        Open(x->operand(0), x->operand(0)->shape());
      } else if (IsElementwise(x->opcode())) {
        for (const Instruction* operand : x->operands()) Open(operand, like);
      }
    }
    return found;
  }

 private:
  std::vector<const Instruction*> ArgumentsOf(const Computation* branch) const {
    const auto found = arguments_.find(branch);
    return found == arguments_.end() ? std::vector<const Instruction*>() : found->second;
  }

  // If it has the dims of `like`.
  void Open(const Instruction* x, const Shape* like) {
    const bool is_alike = x->shape()->IsArray() && like->IsArray() && SameDims(x->shape(), like);
    if (is_alike && seen_.insert(x).second) open_.emplace_back(x, like);
  }

  void OpenElement(const Instruction* tuple, int64_t index, const Shape* like) {
    const auto open = [&](const Instruction* x) {
      if (x->opcode() == Opcode::kTuple) Open(x->operand(index), like);
    };
    open(tuple);
    if (tuple->opcode() == Opcode::kConditional) {
      for (const Computation* branch : tuple->called()) open(branch->root());
    } else if (tuple->opcode() == Opcode::kParameter) {
      for (const Instruction* argument : ArgumentsOf(tuple->parent())) open(argument);
    }
  }

  const Computation* entry_;
  // By branch: what conditionals hand to it.
  std::unordered_map<const Computation*, std::vector<const Instruction*>> arguments_;
  const Shape* shape_ = nullptr;
  std::vector<std::pair<const Instruction*, const Shape*>> open_;  // and whose dims it has
  std::unordered_set<const Instruction*> seen_;
};

using InstructionSet = std::unordered_set<const Instruction*>;

InstructionSet Behind(const Instruction* result) {
  InstructionSet behind;
  std::vector<const Instruction*> open = {result};
  while (!open.empty()) {
    const Instruction* x = open.back();
    open.pop_back();
    if (!behind.insert(x).second) continue;
    open.insert(open.end(), x->operands().begin(), x->operands().end());
  }
  return behind;
}

// What the loss depends on: of floating scalar results that depend on donated parameters and on
// other arrays, the one with the least behind it. The norm of an update has the loss's gradient
// behind it. Empty: there is none.
InstructionSet BehindLoss(const Module& module, const std::unordered_set<int64_t>& donated) {
  InstructionSet least;
  for (const Instruction* result : OutputsOf(*module.entry())) {
    const Shape* shape = result->shape();
    if (!shape->IsArray() || shape->rank() != 0 || !IsFloat(shape->dtype())) continue;
    InstructionSet behind = Behind(result);
    bool uses_donated = false, uses_others = false;
    for (const Instruction* x : module.entry()->parameters()) {
      if (!behind.contains(x) || !x->shape()->IsArray() || x->shape()->rank() == 0) continue;
      (donated.contains(NumberOfParameter(x)) ? uses_donated : uses_others) = true;
    }
    const bool is_less = least.empty() || behind.size() < least.size();
    if (uses_donated && uses_others && is_less) least = std::move(behind);
  }
  return least;
}

void AddUpdate(Updates& updates, int64_t output, int64_t parameter) {
  updates.parameters.insert(parameter);
  updates.outputs.insert(output);
  updates.parameter_of.emplace(output, parameter);
}

}  // namespace

std::vector<Instruction*> OutputsOf(const Computation& entry) {
  if (entry.root()->opcode() != Opcode::kTuple) return {entry.root()};
  return {entry.root()->operands().begin(), entry.root()->operands().end()};
}

Updates FindUpdates(const Module& module) {
  Updates updates;
  std::vector<const Shape*> donated;
  for (const ModuleHeader::Alias& alias : module.header().input_output_alias) {
    if (!alias.parameter_index.empty() || alias.output_index.size() > 1) continue;
    AddUpdate(updates, alias.output_index.empty() ? 0 : alias.output_index[0], alias.parameter);
    donated.push_back(module.entry()->parameter(alias.parameter)->shape());
  }
  if (donated.empty()) {
    for (auto [result, parameter] : GradientResultsOf(module)) {
      AddUpdate(updates, result, parameter);
    }
    if (!updates.parameters.empty()) return updates;
  }
  InstructionSet behind_loss;
  if (!donated.empty()) behind_loss = BehindLoss(module, updates.parameters);
  const auto is_state = [&](int64_t number) {
    const Instruction* x = module.entry()->parameter(number);
    return !behind_loss.contains(x) || std::ranges::any_of(donated, [&](const Shape* shape) {
      return shape->IsArray() && SameDims(shape, x->shape());
    });
  };
  ElementwiseSources sources(module);
  const std::vector<Instruction*> outputs = OutputsOf(*module.entry());
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Shape* shape = outputs[k]->shape();
    const auto output = static_cast<int64_t>(k);
    if (!shape->IsArray() || shape->rank() == 0 || updates.outputs.contains(output)) continue;
    if (outputs[k]->opcode() == Opcode::kParameter) continue;
    for (const int64_t number : sources.Of(outputs[k])) {
      if (is_state(number)) AddUpdate(updates, output, number);
    }
  }
  return updates;
}

}  // namespace gshard
