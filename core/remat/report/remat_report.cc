// See remat_report.h.

#include "core/remat/report/remat_report.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <filesystem>
#include <fstream>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <tuple>
#include <utility>

#include "core/json.h"
#include "core/report/quantity_text.h"
#include "core/report/table_text.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

constexpr std::string_view kPolicies = "jax.checkpoint_policies";

// "dot_general" of "jit(step)/jvp(f)/dot_general"; the instruction's name where there is no
// op_name.
std::string OperationOf(const RematValue& value) {
  if (value.op_name.empty()) return value.name;
  return value.op_name.substr(value.op_name.rfind('/') + 1);
}

// Groups values by their source line, of what is kept also by operation; most bytes first.
std::vector<RematLine> LinesOf(std::span<const RematValue> values, bool by_operation) {
  constexpr size_t kMaxOperations = 3;
  struct Group {
    RematLine line;
    int64_t largest = -1;
    std::vector<std::string> operations;
  };
  std::map<std::tuple<std::string, std::string, bool>, Group> groups;
  for (const RematValue& value : values) {
    const std::string operation = OperationOf(value);
    Group& group = groups[{value.source, by_operation ? operation : "", value.is_carried}];
    group.line.source = value.source;
    group.line.is_carried = value.is_carried;
    ++group.line.values;
    group.line.bytes += value.bytes;
    if (value.bytes > group.largest) {
      group.largest = value.bytes;
      group.line.shape = value.shape;
    }
    if (std::ranges::find(group.operations, operation) == group.operations.end()) {
      group.operations.push_back(operation);
    }
  }
  std::vector<RematLine> lines;
  for (auto& [key, group] : groups) {
    const size_t more =
        group.operations.size() > kMaxOperations ? group.operations.size() - kMaxOperations : 0;
    group.operations.resize(group.operations.size() - more);
    group.line.operations = fmt::format("{}", fmt::join(group.operations, ", "));
    if (more > 0) group.line.operations += fmt::format(" and {} more", more);
    lines.push_back(std::move(group.line));
  }
  std::ranges::stable_sort(lines, std::ranges::greater{}, &RematLine::bytes);
  return lines;
}

// "gpt_22" of "/home/me/gpt.py:22".
std::string NameFor(const std::string& source) {
  const SourceLine line = ParseSourceLine(source);
  std::string_view stem = line.file.substr(line.file.rfind('/') + 1);
  stem = stem.substr(0, stem.find('.'));
  std::string name;
  for (const char c : stem) name += std::isalnum(static_cast<unsigned char>(c)) ? c : '_';
  return fmt::format("{}_{}", name, line.line);
}

// The text between quotes that starts at `begin`, if it is an argument that ends the call: "q" of
// `checkpoint_name(x, "q")` and of `name="q")`.
std::optional<std::string_view> LastArgument(std::string_view text, size_t begin) {
  const size_t end = text.find(text[begin], begin + 1);
  const size_t before = text.find_last_not_of(' ', begin == 0 ? 0 : begin - 1);
  if (end == text.npos || before == text.npos) return std::nullopt;
  const size_t after = text.find_first_not_of(' ', end + 1);
  const bool is_argument =
      (text[before] == ',' || text[before] == '=') && after != text.npos && text[after] == ')';
  return is_argument ? std::optional(text.substr(begin + 1, end - begin - 1)) : std::nullopt;
}

// The names that a line of the user's program gives its values, as far as the file is there and
// says them in so many words.
std::vector<std::string> NamesOnLine(const std::string& source) {
  constexpr uintmax_t kMaxBytes = 1 << 24;
  const SourceLine line = ParseSourceLine(source);
  const std::filesystem::path file(line.file);
  std::error_code error;
  const bool is_file = std::filesystem::is_regular_file(file, error);
  if (!is_file || std::filesystem::file_size(file, error) > kMaxBytes || error) return {};
  std::ifstream in(file);
  std::string text;
  for (int64_t number = 0; number < line.line; ++number) {
    if (!std::getline(in, text)) return {};
  }
  constexpr std::string_view kCall = "checkpoint_name(";
  std::vector<std::string> names;
  for (size_t call = text.find(kCall); call != text.npos; call = text.find(kCall, call + 1)) {
    for (size_t quote = text.find_first_of("\"'", call + kCall.size()); quote != text.npos;
         quote = text.find_first_of("\"'", quote + 1)) {
      const auto name = LastArgument(text, quote);
      if (!name) continue;
      names.emplace_back(*name);
      break;
    }
  }
  return names;
}

// An operation of a line of which some values are kept, as a name decides about it: all or none.
struct Choice {
  std::string source, operation;
  int64_t kept = 0, all = 0;  // bytes
};
using PlaceOfValue = std::pair<std::string, std::string>;  // source and operation

// The lines to keep: those of which all is kept, then those of which most is, as long as no more
// bytes are kept than there are now.
std::vector<Choice> ChooseLines(const std::map<PlaceOfValue, int64_t>& again,
                                const RematReport& report) {
  std::vector<Choice> choices;
  int64_t room = 0;
  for (const RematLine& line : report.kept) {
    if (line.is_carried || line.source.empty()) continue;
    const auto found = again.find({line.source, line.operations});
    const int64_t others = found == again.end() ? 0 : found->second;
    choices.push_back({line.source, line.operations, line.bytes, line.bytes + others});
    room += line.bytes;
  }
  std::ranges::stable_sort(choices, std::ranges::greater{}, [](const Choice& choice) {
    return static_cast<double>(choice.kept) / static_cast<double>(choice.all);
  });
  std::erase_if(choices, [&](const Choice& choice) {
    if (choice.all > room) return true;
    room -= choice.all;
    return false;
  });
  return choices;
}

// Those that the line has, or one of ours.
void AppendNames(const Choice& choice, std::set<std::string>& used, RematReport& report) {
  const std::vector<std::string> written = NamesOnLine(choice.source);
  for (const std::string& name : written) {
    if (!used.insert(name).second) continue;
    report.names.push_back({name, choice.source, choice.operation, true});
  }
  if (!written.empty()) return;
  const std::string base = NameFor(choice.source);
  std::string name = base;
  for (int i = 2; !used.insert(name).second; ++i) name = fmt::format("{}_{}", base, i);
  report.names.push_back({name, choice.source, choice.operation, false});
}

void MakePolicy(const RematRecord& record, RematReport& report) {
  std::map<PlaceOfValue, int64_t> again;  // bytes
  for (const RematValue& value : record.recomputed) {
    if (value.is_residual) again[{value.source, OperationOf(value)}] += value.bytes;
  }
  if (again.empty()) return;
  for (const RematLine& line : report.kept) {
    if (line.is_carried) continue;
    if (line.source.empty()) {
      report.unnamed_bytes += line.bytes;
    } else if (again.contains({line.source, line.operations})) {
      report.mixed.push_back({line.source, line.operations, false});
    }
  }
  std::set<std::string> used;
  for (const Choice& choice : ChooseLines(again, report)) {
    report.named_bytes += choice.all;
    AppendNames(choice, used, report);
    for (Mixed& mixed : report.mixed) {
      mixed.is_named =
          mixed.is_named || (mixed.source == choice.source && mixed.operation == choice.operation);
    }
  }
  std::vector<std::string> quoted;
  for (const KeptName& name : report.names) quoted.push_back(JsonString(name.name));
  report.policy = quoted.empty() ? fmt::format("{}.nothing_saveable", kPolicies)
                                 : fmt::format("{}.save_only_these_names({})", kPolicies,
                                               fmt::join(quoted, ", "));
}

std::string Bytes(int64_t bytes) { return HumanBytes(static_cast<double>(bytes)); }

std::string LineText(const std::string& source) { return source.empty() ? "(not known)" : source; }

std::string TableOfAgain(const RematReport& report) {
  TextTable table{{{"source", false},
                   {"values", true},
                   {"bytes not kept", true},
                   {"FLOPs again", true},
                   {"operations", false}},
                  {}};
  for (const RematLine& line : report.recomputed) {
    table.rows.push_back({LineText(line.source), fmt::format("{}", line.values), Bytes(line.bytes),
                          HumanFlops(line.flops), line.operations});
  }
  return TableAsText(table);
}

std::string TableOfKept(const RematReport& report) {
  std::map<PlaceOfValue, std::string> name_of;
  for (const KeptName& name : report.names) {
    std::string& names = name_of[{name.source, name.operation}];
    names += (names.empty() ? "" : ", ") + JsonString(name.name);
  }
  TextTable table{
      {{"source", false}, {"values", true}, {"bytes", true}, {"name", false}, {"operation", false}},
      {}};
  for (const RematLine& line : report.kept) {
    table.rows.push_back(
        {LineText(line.source), fmt::format("{}", line.values), Bytes(line.bytes),
         line.is_carried ? "carried: always kept" : name_of[{line.source, line.operations}],
         line.operations});
  }
  return TableAsText(table);
}

// The policy, and what the user has to write for it.
std::string PolicyText(const RematReport& report) {
  std::string text = fmt::format(
      "\nthe same in JAX: jax.checkpoint(f, policy=policy) with\n"
      "  policy = {}\n",
      report.policy);
  for (const KeptName& name : report.names) {
    if (name.is_written) continue;
    const RematLine& line = *std::ranges::find_if(report.kept, [&](const RematLine& kept) {
      return kept.source == name.source && kept.operations == name.operation && !kept.is_carried;
    });
    text += fmt::format("  {}: name its value, x = checkpoint_name(x, {}): {} of {}\n", name.source,
                        JsonString(name.name), line.shape, line.operations);
  }
  for (const Mixed& mixed : report.mixed) {
    text += fmt::format("  {}: only some values of {} are kept here; by name {}\n", mixed.source,
                        mixed.operation,
                        mixed.is_named ? "all of them are" : "none is, which needs less memory");
  }
  if (report.unnamed_bytes > 0) {
    text += fmt::format(
        "  {} are kept of values without a source line: name them where they are "
        "made\n",
        Bytes(report.unnamed_bytes));
  }
  return text;
}

Json LinesAsJson(std::span<const RematLine> lines, bool are_kept) {
  Json list = Json::Array();
  for (const RematLine& line : lines) {
    Json row = {{"source", line.source}, {"values", line.values}, {"bytes", line.bytes}};
    if (are_kept) {
      row.Set("is_carried", line.is_carried);
    } else {
      row.Set("flops", line.flops);
    }
    row.Set("operations", line.operations);
    row.Set("shape", line.shape);
    list.Append(std::move(row));
  }
  return list;
}

}  // namespace

RematReport MakeRematReport(const RematRecord& record, const RematStats& stats) {
  RematReport report;
  report.stats = stats;
  report.recomputed = LinesOf(record.recomputed, false);
  report.kept = LinesOf(record.kept, true);
  std::map<std::string, double> flops = record.flops;
  for (RematLine& line : report.recomputed) {
    const auto found = flops.find(line.source);
    if (found == flops.end()) continue;
    line.flops = found->second;
    flops.erase(found);
  }
  // Lines on the way to these values, which are not kept either way.
  for (const auto& [source, again] : flops) {
    if (again <= 0) continue;
    RematLine& line = report.recomputed.emplace_back();
    line.source = source;
    line.flops = again;
  }
  for (const RematLine& line : report.recomputed) report.flops += line.flops;
  MakePolicy(record, report);
  return report;
}

std::string RematReportAsText(const RematReport& report) {
  const RematStats& stats = report.stats;
  std::string text = fmt::format("{}: {} a device, {} before, limit {} ({})\n", report.module,
                                 Bytes(stats.peak_after), Bytes(stats.peak_before),
                                 Bytes(report.limit_bytes), report.chip);
  if (report.recomputed.empty()) return text + "nothing is computed again\n";
  text += fmt::format("\ncomputed again on each device, {} in all:\n", HumanFlops(report.flops));
  text += TableOfAgain(report);
  if (!report.kept.empty()) {
    text += "\nkept from the forward pass for the backward pass, on each device:\n";
    text += TableOfKept(report);
  }
  return report.policy.empty() ? text : text + PolicyText(report);
}

std::string RematReportAsJson(const RematReport& report) {
  const RematStats& stats = report.stats;
  Json names = Json::Array();
  for (const KeptName& name : report.names) {
    names.Append({{"name", name.name},
                  {"source", name.source},
                  {"operation", name.operation},
                  {"is_written", name.is_written}});
  }
  Json policy = {{"policy", report.policy}, {"names", std::move(names)}};
  policy.Set("named_bytes", report.named_bytes);
  Json mixed = Json::Array();
  for (const Mixed& one : report.mixed) {
    mixed.Append(
        {{"source", one.source}, {"operation", one.operation}, {"is_named", one.is_named}});
  }
  policy.Set("mixed", std::move(mixed));
  policy.Set("unnamed_bytes", report.unnamed_bytes);
  const Json document = {{"schema", "gshard.remat/1"},
                         {"module", report.module},
                         {"chip", report.chip},
                         {"limit_bytes", report.limit_bytes},
                         {"fits", stats.peak_after <= report.limit_bytes},
                         {"peak_bytes", stats.peak_after},
                         {"peak_before_bytes", stats.peak_before},
                         {"values", stats.values},
                         {"instructions", stats.instructions},
                         {"flops_per_device", report.flops},
                         {"recomputed", LinesAsJson(report.recomputed, false)},
                         {"kept", LinesAsJson(report.kept, true)},
                         {"jax", std::move(policy)}};
  return document.Text();
}

}  // namespace gshard
