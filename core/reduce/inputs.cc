// See inputs.h.

#include "core/reduce/inputs.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "ir/builder.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/literal.h"
#include "ir/printer.h"
#include "ir/traversal.h"

namespace gshard::reduce {
namespace {

// Can a part of `whole` be `part`?
bool Fits(const Shape* whole, const Shape* part) {
  if (!whole->IsArray() || !part->IsArray() || whole->dtype() != part->dtype()) return false;
  if (whole->HasDynamicDims() || part->HasDynamicDims()) return false;
  return std::ranges::equal(part->dims(), whole->dims(),
                            [](int64_t some, int64_t all) { return some <= all; });
}

Instruction* PartOf(Builder& builder, Instruction* whole, const Shape* part, bool from_end) {
  const auto dims = part->dims();
  std::vector<int64_t> starts(dims.size(), 0), limits(dims.begin(), dims.end());
  if (from_end) {
    limits.assign(whole->shape()->dims().begin(), whole->shape()->dims().end());
    for (size_t i = 0; i < dims.size(); ++i) starts[i] = limits[i] - dims[i];
  }
  return builder.Slice(whole, starts, limits);
}

// Leaves what the root needs, and all parameters, whose numbers stay; forgets what the header says
// of the results that were.
void KeepRootOnly(Module& module) {
  Computation& entry = *module.entry();
  std::unordered_set<const Instruction*> needed = {entry.root()};
  std::vector<const Instruction*> open = {entry.root()};
  while (!open.empty()) {
    const Instruction* x = open.back();
    open.pop_back();
    for (const Instruction* operand : x->operands()) {
      if (needed.insert(operand).second) open.push_back(operand);
    }
  }
  std::vector<Instruction*> list;
  for (Instruction* x : entry.instructions()) {
    if (!needed.contains(x) && x->opcode() != Opcode::kParameter) continue;
    if (!x->control_predecessors().empty()) x->set_extras(nullptr);
    list.push_back(x);
  }
  entry.SetInstructions(std::move(list));
  RemoveDeadCode(module);
  ModuleHeader& header = module.header();
  header.entry_parameter_layouts.clear();
  header.entry_result_layout = nullptr;
  header.input_output_alias.clear();
  header.buffer_donor.clear();
  header.propagation_to_output.clear();
}

// The program with these results; empty if there are none.
std::string TextOf(Builder& builder, std::span<Instruction* const> results) {
  if (results.empty()) return "";
  Module& module = builder.module();
  module.entry()->set_root(builder.Tuple(results));
  KeepRootOnly(module);
  return PrintModule(module, {.named = true});
}

void AppendLeaves(const Literal* literal, std::vector<const Literal*>& leaves) {
  if (literal->shape->IsTuple()) {
    for (const Literal* element : literal->elements) AppendLeaves(element, leaves);
  } else {
    leaves.push_back(literal);
  }
}

}  // namespace

InputProgram MakeInputProgram(Module& best, const Module& candidate,
                              std::span<const int64_t> leaves, const InputRule& rule) {
  Computation* entry = best.entry();
  std::unordered_map<std::string_view, Instruction*> by_name;
  for (Instruction* x : entry->instructions()) by_name[x->name()] = x;
  std::unordered_map<const Instruction*, int64_t> first_leaf;
  int64_t count = 0;
  for (const Instruction* parameter : entry->parameters()) {
    first_leaf[parameter] = count;
    count += parameter->shape()->leaf_count();
  }
  InputProgram program;
  std::vector<Instruction*> results;
  Builder builder(best, entry);
  int64_t next = 0;  // leaf of the candidate
  for (const Instruction* parameter : candidate.entry()->parameters()) {
    const std::vector<const Shape*> shapes = LeafShapes(parameter->shape());
    const int64_t first = std::exchange(next, next + static_cast<int64_t>(shapes.size()));
    const auto found = by_name.find(parameter->name());
    if (found == by_name.end()) continue;
    Instruction* source = found->second;
    const auto input = first_leaf.find(source);
    const bool is_input = input != first_leaf.end();
    if (!is_input && !rule.may_compute) continue;
    const std::vector<const Shape*> wholes = LeafShapes(source->shape());
    if (wholes.size() != shapes.size()) continue;
    for (size_t i = 0; i < shapes.size(); ++i) {
      const int64_t leaf = static_cast<int64_t>(i);
      if (is_input && !std::ranges::binary_search(leaves, input->second + leaf)) continue;
      if (!Fits(wholes[i], shapes[i])) continue;
      Instruction* whole = LeafValue(builder, source, leaf);
      results.push_back(PartOf(builder, whole, shapes[i], rule.from_end));
      program.leaves.push_back(first + leaf);
      program.moves_only &= is_input;
      program.same_places &= is_input && input->second == first && SameDims(wholes[i], shapes[i]);
    }
  }
  program.text = TextOf(builder, results);
  return program;
}

InputProgram MakeArgumentProgram(Module& module, std::span<const Literal* const> arguments) {
  std::vector<const Literal*> leaves;
  for (const Literal* argument : arguments) AppendLeaves(argument, leaves);
  std::vector<const Shape*> shapes;
  for (const Instruction* x : module.entry()->parameters()) AppendLeafShapes(x->shape(), shapes);
  InputProgram program;
  std::vector<Instruction*> results;
  Builder builder(module, module.entry());
  for (size_t i = 0; i < std::min(leaves.size(), shapes.size()); ++i) {
    if (leaves[i]->elided || !Fits(leaves[i]->shape, shapes[i])) continue;
    if (!SameDims(leaves[i]->shape, shapes[i])) continue;
    results.push_back(builder.Constant(leaves[i]));
    program.leaves.push_back(static_cast<int64_t>(i));
  }
  program.text = TextOf(builder, results);
  return program;
}

}  // namespace gshard::reduce
