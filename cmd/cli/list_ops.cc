// The matrix opcode x layer. See list_ops.h.

#include "cmd/cli/list_ops.h"

#include <fmt/format.h>

#include <string>

#include "backends/cpu/opcode_support.h"
#include "cmd/cli/program.h"
#include "core/autodiff/rules.h"
#include "core/cost/op_cost.h"
#include "core/json.h"
#include "core/partition/rule_table.h"
#include "core/propagation/rule_summary.h"
#include "ir/attribute_table.h"
#include "ir/opcode.h"
#include "ir/shape_inference.h"

namespace gshard {
namespace {

std::string Name(Opcode opcode) { return std::string(OpcodeName(opcode)); }
std::string Family(Opcode opcode) { return std::string(InfoOf(opcode).family); }

// How many attributes its text may have.
std::string Attributes(Opcode opcode) { return std::to_string(AttributesOf(opcode).size()); }

std::string ShapeRule(Opcode opcode) { return ShapeIsInferable(opcode) ? "inferred" : "declared"; }

// Of the operands; "any": its shape rule decides.
std::string Types(Opcode opcode) {
  const uint32_t types = InfoOf(opcode).types;
  std::string list;
  auto add = [&](uint32_t mask, const char* name) {
    if ((types & mask) == mask) list += list.empty() ? name : fmt::format(",{}", name);
  };
  add(kPredType, "pred");
  if ((types & kIntegerType) != kIntegerType) {
    add(kSignedType, "signed");
    add(kUnsignedType, "unsigned");
  }
  add(kIntegerType, "int");
  add(kFloatType, "float");
  add(kComplexType, "complex");
  return list.empty() ? "any" : list;
}

std::string Propagate(Opcode opcode) { return PropagationSummary(opcode); }

// "rule", or "whole": operands are made whole and every device computes all of it.
std::string Partition(Opcode opcode) { return RuleFor(opcode).is_default ? "whole" : "rule"; }

std::string Cost(Opcode opcode) { return std::string(CostKindOf(opcode)); }
std::string Grad(Opcode opcode) { return TextOf(GradRuleFor(opcode).kind); }
std::string Run(Opcode opcode) { return cpu::TextOf(cpu::SupportOf(opcode)); }

// One line a layer. Every cell says something: tests/checks/list_ops.py fails on an empty one.
struct Column {
  const char* name;
  int width;
  std::string (*cell)(Opcode);
};
constexpr Column kColumns[] = {
    {"opcode", 28, Name},
    {"family", 16, Family},
    {"attributes", 12, Attributes},
    {"shape", 10, ShapeRule},
    {"types", 24, Types},
    {"propagate", 11, Propagate},
    {"partition", 11, Partition},
    {"cost", 9, Cost},
    {"grad", 6, Grad},
    {"run", 10, Run},
};

std::string Row(std::string (*cell)(const Column&, Opcode), Opcode opcode) {
  std::string line;
  for (const Column& column : kColumns) {
    line += fmt::format("{:<{}}", cell(column, opcode), column.width);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

}  // namespace

int RunListOps(bool json) {
  Json rows = Json::Array();
  std::string text;
  if (!json) text = Row([](const Column& column, Opcode) { return std::string(column.name); }, {});
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    if (!json) {
      text += Row([](const Column& column, Opcode of) { return column.cell(of); }, opcode);
      continue;
    }
    Json row;
    for (const Column& column : kColumns) row.Set(column.name, column.cell(opcode));
    rows.Append(std::move(row));
  }
  if (json) {
    const Json document = {{"schema", "gshard.list_ops/1"}, {"ops", std::move(rows)}};
    text = document.Text();
  }
  auto written = WriteFile("-", text);
  return written ? kExitOk : ReportError(written.error());
}

}  // namespace gshard
