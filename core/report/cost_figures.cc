// See cost_figures.h.

#include "core/report/cost_figures.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/json.h"

namespace gshard {
namespace {

constexpr std::string_view kCostSchemas = "gshard.cost/";

double NumberOr(const Json& object, std::string_view key, double otherwise) {
  return object.Has(key) ? object.NumberAt(key) : otherwise;
}

std::string TextOr(const Json& object, std::string_view key) {
  return object.Has(key) ? object.StringAt(key) : std::string();
}

// "dot_general.162" -> "dot_general": numbers change with every edit of a program.
std::string WithoutNumber(std::string name) {
  const size_t dot = name.rfind('.');
  const bool numbered = dot != std::string::npos && dot > 0 && dot + 1 < name.size() &&
                        name.find_first_not_of("0123456789", dot + 1) == std::string::npos;
  return numbered ? name.substr(0, dot) : name;
}

// The same of every name in a sentence: "mul.108 needs dot_general.35 as [data, _]".
std::string WithoutNumbers(const std::string& text) {
  std::string out;
  for (size_t begin = 0; begin <= text.size();) {
    const size_t end = std::min(text.find(' ', begin), text.size());
    out += (begin > 0 ? " " : "") + WithoutNumber(text.substr(begin, end - begin));
    begin = end + 1;
  }
  return out;
}

std::string JoinedAxes(const Json& row) {
  std::string text;
  const Json axes = row.At("axes");
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) text += '+';
    text += axes.At(i).AsString();
  }
  return text.empty() ? "-" : text;
}

// Calls tell each cause; what the list of calls leaves out is a row without one.
void ReadCollectives(const Json& document, CostFigures& figures) {
  std::map<std::pair<std::string, std::string>, CostFigures::Collectives> told;
  if (document.Has("collective_calls")) {
    const Json calls = document.At("collective_calls");
    for (size_t i = 0; i < calls.size(); ++i) {
      const Json call = calls.At(i);
      const std::string kind = call.StringAt("kind"), axes = JoinedAxes(call);
      for (CostFigures::Collectives* row :
           {&figures.collectives[{kind, axes, WithoutNumbers(TextOr(call, "cause"))}],
            &told[{kind, axes}]}) {
        row->count += call.NumberAt("count");
        row->bytes_per_device += call.NumberAt("bytes_per_device");
        row->time_s += call.NumberAt("time_s");
      }
    }
  }
  const Json rows = document.At("collectives");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json row = rows.At(i);
    const std::string kind = row.StringAt("kind"), axes = JoinedAxes(row);
    const double bytes = row.NumberAt("bytes_per_device");
    figures.bytes_by_axes[axes] += bytes;
    const CostFigures::Collectives& known = told[{kind, axes}];
    const double rest = row.NumberAt("count") - known.count;
    if (rest < 0.5) continue;
    const std::string cause =
        known.count > 0 ? "(others)" : WithoutNumbers(TextOr(row, "cause"));
    CostFigures::Collectives& others = figures.collectives[{kind, axes, cause}];
    others.count += rest;
    others.bytes_per_device += bytes - known.bytes_per_device;
    others.time_s += row.NumberAt("time_s") - known.time_s;
  }
}

void ReadMemory(const Json& memory, CostFigures& figures) {
  figures.peak_bytes = memory.NumberAt("peak_bytes");
  figures.argument_bytes = memory.NumberAt("argument_bytes");
  figures.output_bytes = memory.NumberAt("output_bytes");
  figures.temp_bytes = memory.NumberAt("temp_bytes");
  const Json rows = memory.At("at_peak");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json row = rows.At(i);
    std::string key = TextOr(row, "op_name");
    if (key.empty()) key = WithoutNumber(row.StringAt("name"));
    CostFigures::Tensor& tensor = figures.tensors[key];
    tensor.bytes += row.NumberAt("bytes");
    tensor.source = TextOr(row, "source");
  }
}

void ReadOpcodes(const Json& document, CostFigures& figures) {
  if (!document.Has("by_opcode")) return;
  const Json rows = document.At("by_opcode");
  for (size_t i = 0; i < rows.size(); ++i) {
    const Json row = rows.At(i);
    CostFigures::Work& work = figures.opcodes[row.StringAt("key")];
    work.count += row.NumberAt("count");
    work.flops += row.NumberAt("flops");
    work.bytes += row.NumberAt("bytes");
    work.time_s += row.NumberAt("time_s");
  }
}

CostFigures Read(const Json& document) {
  CostFigures figures;
  figures.module = TextOr(document, "module");
  figures.chip = document.StringAt("chip");
  figures.devices = document.NumberAt("devices");
  figures.step_time_s = document.NumberAt("step_time_s");
  figures.compute_time_s = document.NumberAt("compute_time_s");
  figures.exposed_communication_s = document.NumberAt("exposed_communication_s");
  figures.flops_per_device = document.NumberAt("flops_per_device");
  figures.hbm_bytes_per_device = document.NumberAt("hbm_bytes_per_device");
  figures.mfu = NumberOr(document, "mfu", 0);
  ReadMemory(document.At("memory"), figures);
  ReadCollectives(document, figures);
  ReadOpcodes(document, figures);
  return figures;
}

}  // namespace

bool IsCostDocument(std::string_view text) {
  const size_t begin = text.find_first_not_of(" \t\r\n");
  return begin != std::string_view::npos && text[begin] == '{';
}

Expected<CostFigures> ReadCostFigures(std::string_view json, const std::string& file) {
  auto fail = [&](std::string message, std::string hint = "") {
    Diagnostic error = MakeError("E-COST-020", std::move(message), std::move(hint));
    error.file = file;
    return Fail(std::move(error));
  };
  try {
    const Json document = Json::Parse(json);
    const std::string schema = TextOr(document, "schema");
    if (!schema.starts_with(kCostSchemas)) {
      return fail(fmt::format("this is no report of gshard-cost: its schema is '{}'", schema),
                  "gshard-cost IN --json writes one");
    }
    if (document.Has("error")) {
      return fail("this report tells of an error: " + document.At("error").StringAt("message"));
    }
    return Read(document);
  } catch (const JsonError& error) {
    return fail(fmt::format("this is no report of gshard-cost: {}", error.what()));
  }
}

}  // namespace gshard
