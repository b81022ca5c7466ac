// See explain_source.h.

#include "cmd/cli/explain_source.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "cmd/cli/program.h"
#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "core/analysis/partitioned.h"
#include "core/json.h"
#include "core/spmd/per_device_module.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/parser_errors.h"

namespace gshard {
namespace {

constexpr size_t kMaxRows = 40;

// A value at the line, or one made by a function that the line calls.
struct ValueHere {
  std::string name, opcode, shape, sharding, op_name;
  bool in_call = false;
};

struct CollectiveHere {
  std::string kind, name, shape, cause;
};

// Does x come from the line? Sets `in_call` where it does by way of a call.
bool ComesFrom(const SourceLines& lines, const Instruction& x, SourceLine asked, bool& in_call) {
  const std::vector<SourceLine> stack = lines.Of(x);
  for (size_t i = 0; i < stack.size(); ++i) {
    if (stack[i].line != asked.line || !IsFile(stack[i].file, asked.file)) continue;
    in_call = i > 0;
    return true;
  }
  return false;
}

// What the line itself says comes first, then what it calls, each in text order.
std::vector<ValueHere> ValuesAt(Module& module, SourceLine asked, bool of_device) {
  const SourceLines lines(module);
  const Mesh* mesh = of_device ? nullptr : NamedMesh(module);
  std::vector<ValueHere> values;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      ValueHere here;
      if (!ComesFrom(lines, *x, asked, here.in_call)) continue;
      here.name = x->name();
      here.opcode = OpcodeName(x->opcode());
      here.shape = ToString(x->shape(), false);
      if (!of_device) {
        here.sharding = x->sharding() == nullptr ? "replicated"
                                                 : AxisText(module.context(), x->sharding(), mesh);
      }
      here.op_name = OpNameOf(*x);
      values.push_back(std::move(here));
    }
  }
  std::stable_partition(values.begin(), values.end(),
                        [](const ValueHere& value) { return !value.in_call; });
  return values;
}

// Those that are put down to the line, and those that move its values or serve them.
std::vector<CollectiveHere> CollectivesAt(const Module& module, SourceLine asked,
                                          const ExplainRecorder& recorder,
                                          const std::vector<ValueHere>& values) {
  std::set<std::string_view> names;
  for (const ValueHere& value : values) names.insert(value.name);
  auto is_here = [&](const Instruction* x) { return x != nullptr && names.contains(x->name()); };
  const SourceLines lines(module);
  std::vector<CollectiveHere> collectives;
  bool in_call = false;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (!IsCollective(x->opcode())) continue;
      const CollectiveCause* cause = recorder.cause_of(x);
      const bool moves = cause != nullptr && (is_here(cause->value) || is_here(cause->user));
      if (!moves && !ComesFrom(lines, *x, asked, in_call)) continue;
      collectives.push_back({std::string(OpcodeName(x->opcode())), std::string(x->name()),
                             ToString(x->shape(), false),
                             FrontendAttribute(x->frontend_attributes(), kCauseAttribute)});
    }
  }
  return collectives;
}

// Lines of that file that have values, the nearest first; or files there are.
std::string NearestLines(const Module& module, SourceLine asked) {
  constexpr size_t kMax = 8;
  const SourceLines lines(module);
  std::set<int64_t> numbers;
  std::set<std::string, std::less<>> files;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const SourceLine& line : lines.Of(*x)) {
        files.emplace(line.file);
        if (IsFile(line.file, asked.file)) numbers.insert(line.line);
      }
    }
  }
  if (!numbers.empty()) {
    std::vector<int64_t> nearest(numbers.begin(), numbers.end());
    std::ranges::stable_sort(nearest, {}, [&](int64_t n) { return std::abs(n - asked.line); });
    nearest.resize(std::min(nearest.size(), kMax));
    std::ranges::sort(nearest);
    return fmt::format("nearest lines of {} that have any: {}", asked.file,
                       fmt::join(nearest, ", "));
  }
  if (files.empty()) {
    return "the text has no source lines: print it from JAX with as_text('hlo', debug_info=True)";
  }
  NearestWord meant(asked.file);
  std::vector<std::string_view> names;
  for (std::string_view file : files) {
    file.remove_prefix(file.rfind('/') + 1);
    names.push_back(file);
    meant.Offer(file);
  }
  if (!meant.best().empty()) return meant.Hint();
  names.resize(std::min(names.size(), kMax));
  return fmt::format("files there are: {}", fmt::join(names, ", "));
}

std::string TextOf(SourceLine asked, const std::vector<ValueHere>& values,
                   const std::vector<CollectiveHere>& collectives) {
  size_t width = 0;
  for (const ValueHere& value : values) width = std::max(width, value.name.size());
  width = std::min<size_t>(width, 40);
  std::string text = fmt::format("{}:{}: {} value{}\n", asked.file, asked.line, values.size(),
                                 values.size() == 1 ? "" : "s");
  bool in_call = false;
  for (size_t i = 0; i < std::min(values.size(), kMaxRows); ++i) {
    const ValueHere& value = values[i];
    if (value.in_call && !in_call) text += "of functions it calls:\n";
    in_call = value.in_call;
    text += fmt::format("  {:<{}}  {} {}", value.name, width, value.shape, value.opcode);
    if (!value.sharding.empty()) text += fmt::format(", {}", value.sharding);
    if (!value.op_name.empty()) text += fmt::format("  ({})", value.op_name);
    text += "\n";
  }
  if (values.size() > kMaxRows) {
    text += fmt::format("  and {} more: --json has all\n", values.size() - kMaxRows);
  }
  if (!collectives.empty()) text += "collectives:\n";
  for (size_t i = 0; i < std::min(collectives.size(), kMaxRows); ++i) {
    const CollectiveHere& collective = collectives[i];
    text += fmt::format("  {} {} {}: {}\n", collective.kind, collective.name, collective.shape,
                        collective.cause.empty() ? "no cause is recorded" : collective.cause);
  }
  if (collectives.size() > kMaxRows) {
    text += fmt::format("  and {} more: --json has all\n", collectives.size() - kMaxRows);
  }
  return text + "why: gshard-opt explain with the name of one of them\n";
}

std::string JsonOf(SourceLine asked, const std::vector<ValueHere>& values,
                   const std::vector<CollectiveHere>& collectives) {
  Json value_list = Json::Array(), collective_list = Json::Array();
  for (const ValueHere& value : values) {
    value_list.Append({{"name", value.name},
                       {"opcode", value.opcode},
                       {"shape", value.shape},
                       {"sharding", value.sharding},
                       {"op_name", value.op_name},
                       {"in_call", value.in_call}});
  }
  for (const CollectiveHere& collective : collectives) {
    collective_list.Append({{"kind", collective.kind},
                            {"name", collective.name},
                            {"shape", collective.shape},
                            {"cause", collective.cause}});
  }
  const Json document = {{"schema", kExplainSchema},
                         {"source", fmt::format("{}:{}", asked.file, asked.line)},
                         {"values", std::move(value_list)},
                         {"collectives", std::move(collective_list)}};
  return document.Text();
}

}  // namespace

int ExplainSourceLine(const ExplainOptions& options, SourceLine asked, Module& module,
                      PassContext& context) {
  ExplainRecorder recorder;
  context.recorder = &recorder;
  std::vector<ValueHere> values;
  std::string nearest;
  auto survey = [&](Module& surveyed, bool of_device) {
    values = ValuesAt(surveyed, asked, of_device);
    if (values.empty()) nearest = NearestLines(surveyed, asked);
  };
  bool has_collectives = true;
  if (IsPartitioned(module)) {
    survey(module, /*of_device=*/true);
  } else {
    auto devices = ReadDevices(module, options.num_partitions);
    if (!devices) return RefuseToExplain(options, devices.error());
    has_collectives = devices->partitions > 1;
    PerDeviceOptions way;
    way.num_partitions = options.num_partitions;
    way.after_propagation = [&](Module& propagated) {
      survey(propagated, /*of_device=*/false);
      return Expected<void>();
    };
    auto made = has_collectives ? MakePerDeviceModule(module, context, way)
                                : CompleteShardings(module, context, way);
    if (!made) return RefuseToExplain(options, made.error());
  }
  if (values.empty()) {
    return RefuseToExplain(
        options,
        MakeError("E-EXPLAIN-002", fmt::format("no value comes from {}:{}", asked.file, asked.line),
                  std::move(nearest)));
  }
  std::vector<CollectiveHere> collectives;
  if (has_collectives) collectives = CollectivesAt(module, asked, recorder, values);
  const std::string text =
      options.json ? JsonOf(asked, values, collectives) : TextOf(asked, values, collectives);
  auto written = WriteFile("-", text);
  return written ? kExitOk : ReportError(written.error());
}

}  // namespace gshard
