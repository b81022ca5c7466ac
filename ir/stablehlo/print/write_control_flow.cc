// Loops, branches, calls, tuples; fusions and asynchronous pairs are undone.
#include <fmt/format.h>

#include "ir/async_sugar.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/stablehlo/print/dense_text.h"
#include "ir/stablehlo/print/module_writer.h"

namespace gshard::stablehlo {
namespace {

bool WriteWhile(ModuleWriter& w, const Instruction* x) {
  const Leaves init = w.OperandLeaves(x);
  const std::vector<const Shape*> shapes = LeafShapes(x->shape());
  ModuleWriter::Line line(x);
  Leaves arguments;
  line.head = "stablehlo.while(";
  for (size_t i = 0; i < init.size(); ++i) {
    arguments.push_back(w.FreshArgument());
    if (i > 0) line.head += ", ";
    line.head += fmt::format("{} = {}", arguments[i], init[i]);
    if (i > 0) line.types += ", ";
    line.types += w.Type(shapes[i]);
  }
  line.head += ")";
  const std::string spaces = w.Spaces();
  line.tail = fmt::format("\n{}cond {{\n{}{}}} do {{\n", spaces,
                          w.Body(*x->called(0), arguments, "stablehlo.return", 2), spaces);
  line.tail +=
      fmt::format("{}{}}}", w.Body(*x->called(1), arguments, "stablehlo.return", 2), spaces);
  // Attributes stand behind the types: `while(..) : T attributes {..}`.
  w.AddCommonAttributes(line);
  if (!line.dict.empty()) {
    line.types += fmt::format(" attributes {{{}}}", Joined(line.dict));
    line.dict.clear();
  }
  w.EmitInPlace(line);
  return true;
}

bool WriteConditional(ModuleWriter& w, const Instruction* x) {
  const bool is_if = x->operand(0)->shape()->dtype() == DType::kPred;
  std::string regions;
  for (size_t i = 0; i < x->called().size(); ++i) {
    const Leaves& operand = w.Of(x->operand(static_cast<int64_t>(i) + 1));
    const Computation& branch = *x->called(static_cast<int64_t>(i));
    if (!regions.empty()) regions += ", ";
    regions += fmt::format("{{\n{}{}}}",
                           w.BranchBody(branch, x->operand(static_cast<int64_t>(i) + 1), operand),
                           w.Spaces());
  }
  ModuleWriter::Line line(x);
  line.head = fmt::format("\"stablehlo.{}\"({}) ({})", is_if ? "if" : "case", w.One(x), regions);
  const Shape* index[] = {x->operand(0)->shape()};
  line.types = w.FunctionType(index, LeafShapes(x->shape()));
  w.Emit(line);
  return true;
}

bool WriteCall(ModuleWriter& w, const Instruction* x) {
  ModuleWriter::Line line(x);
  const std::string_view name = w.FunctionName(*x->called(0));
  line.types = w.FunctionType(x);
  if (x->attributes<CallAttributes>().is_composite) {
    std::string composite = FrontendAttribute(x->frontend_attributes(), "composite.name");
    std::string values = "{}";
    for (const auto& [key, value] : ParseFrontendAttributes(x->frontend_attributes())) {
      if (key == "composite.attributes" && !value.starts_with('"')) values = value;
    }
    std::string version = FrontendAttribute(x->frontend_attributes(), "composite.version");
    if (version.empty()) version.assign(1, '0');
    if (composite.empty()) composite = name.substr(1);
    line.head = fmt::format("stablehlo.composite {} {}", QuotedMlir(composite), w.Operands(x));
    if (values != "{}") line.Add(fmt::format("composite_attributes = {}", values));
    line.Add(fmt::format("decomposition = {}", name));
    line.Add(fmt::format("version = {} : i32", version));
  } else {
    line.head = fmt::format("func.call {}({})", name, w.Operands(x));
  }
  w.Emit(line);
  return true;
}

bool WriteTuple(ModuleWriter& w, const Instruction* x) {
  w.SetValue(x, w.OperandLeaves(x));
  return true;
}

bool WriteElement(ModuleWriter& w, const Instruction* x) {
  const Instruction* tuple = x->operand(0);
  const Leaves& leaves = w.Of(tuple);
  size_t first = 0;
  const int64_t index = x->attributes<GetTupleElementAttributes>().index;
  for (int64_t i = 0; i < index; ++i) first += LeafShapes(tuple->shape()->element(i)).size();
  const size_t count = LeafShapes(x->shape()).size();
  w.SetValue(x, Leaves(leaves.begin() + static_cast<std::ptrdiff_t>(first),
                       leaves.begin() + static_cast<std::ptrdiff_t>(first + count)));
  return true;
}

bool WriteBarrier(ModuleWriter& w, const Instruction* x) {
  ModuleWriter::Line line(x);
  line.head = "stablehlo.optimization_barrier " + w.Operands(x);
  for (const Shape* leaf : LeafShapes(x->shape())) {
    if (!line.types.empty()) line.types += ", ";
    line.types += w.Type(leaf);
  }
  if (line.types.empty()) return WriteTuple(w, x);
  if (x->sharding() != nullptr || !x->frontend_attributes().empty()) {
    // The pretty form has attributes in front, where readers differ.
    w.Generic(x, "stablehlo.optimization_barrier", {});
    return true;
  }
  w.Emit(line);
  return true;
}

}  // namespace

bool WriteControlFlow(ModuleWriter& w, const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kWhile:
      return WriteWhile(w, x);
    case Opcode::kConditional:
      return WriteConditional(w, x);
    case Opcode::kCall:
      return WriteCall(w, x);
    case Opcode::kFusion:
      return w.Inline(x, *x->called(0), w.OperandLeaves(x));
    case Opcode::kAsyncStart:
      if (!StartsWithoutOperands(*x)) return w.Inline(x, *x->called(0), w.OperandLeaves(x));
      w.SetValue(x, {});
      return true;
    case Opcode::kAsyncUpdate:
      if (BringsOperands(*x)) {
        Leaves operands;
        for (const Instruction* operand : x->operands().subspan(1)) {
          operands.insert(operands.end(), w.Of(operand).begin(), w.Of(operand).end());
        }
        return w.Inline(x, *AsyncStartOf(x)->called(0), operands);
      }
      [[fallthrough]];
    case Opcode::kAsyncDone:
      w.SetValue(x, w.Of(x->operand(0)));
      return true;
    case Opcode::kTuple:
      return WriteTuple(w, x);
    case Opcode::kGetTupleElement:
      return WriteElement(w, x);
    case Opcode::kOptBarrier:
      return WriteBarrier(w, x);
    case Opcode::kAfterAll: {
      ModuleWriter::Line line(x);
      line.head = "stablehlo.after_all";
      if (x->operand_count() > 0) line.head += fmt::format(" {}", w.Operands(x));
      line.types = w.Type(x->shape());
      w.Emit(line);
      return true;
    }
    default:
      return false;
  }
}

}  // namespace gshard::stablehlo
