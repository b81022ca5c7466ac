// See cost_diff.h.

#include "core/report/cost_diff.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <set>

#include "core/json.h"
#include "core/report/quantity_text.h"
#include "core/report/table_text.h"

namespace gshard {
namespace {

// Differences below this share are no changes: they would be told as +0.00%.
constexpr double kSame = 5e-5;

bool Differs(const BeforeAfter& value) {
  return std::abs(value.Change()) > kSame * std::max(std::abs(value.before), std::abs(value.after));
}

// The values of both maps by key, a missing one as it is made by default.
template <typename Map, typename Visit>
void ForEachPair(const Map& before, const Map& after, const Visit& visit) {
  const typename Map::mapped_type none{};
  auto of = [&](const Map& map, const typename Map::key_type& key) -> const auto& {
    auto it = map.find(key);
    return it == map.end() ? none : it->second;
  };
  std::set<typename Map::key_type> keys;
  for (const Map* map : {&before, &after}) {
    for (const auto& [key, value] : *map) keys.insert(key);
  }
  for (const auto& key : keys) visit(key, of(before, key), of(after, key));
}

template <typename Rows, typename Measure>
void SortByChange(Rows& rows, const Measure& measure) {
  std::stable_sort(rows.begin(), rows.end(), [&](const auto& a, const auto& b) {
    return std::abs(measure(a)) > std::abs(measure(b));
  });
}

std::vector<CostDiff::Total> Totals(const CostFigures& a, const CostFigures& b) {
  auto row = [&](const char* key, const char* label, double CostFigures::*member) {
    return CostDiff::Total{key, label, {a.*member, b.*member}};
  };
  return {row("step_time_s", "step time", &CostFigures::step_time_s),
          row("compute_time_s", "compute", &CostFigures::compute_time_s),
          row("exposed_communication_s", "exposed communication",
              &CostFigures::exposed_communication_s),
          row("mfu", "utilisation (MFU)", &CostFigures::mfu),
          row("flops_per_device", "work a device", &CostFigures::flops_per_device),
          row("hbm_bytes_per_device", "HBM traffic a device", &CostFigures::hbm_bytes_per_device),
          row("peak_bytes", "peak memory", &CostFigures::peak_bytes),
          row("argument_bytes", "arguments", &CostFigures::argument_bytes),
          row("output_bytes", "outputs", &CostFigures::output_bytes),
          row("temp_bytes", "temporaries", &CostFigures::temp_bytes)};
}

std::string FigureText(const std::string& key, double value) {
  if (key.ends_with("_s")) return HumanSeconds(value);
  if (key == "mfu") return fmt::format("{:.1f}%", 100 * value);
  if (key.starts_with("flops")) return HumanFlops(value);
  return HumanBytes(value);
}

std::string Share(const BeforeAfter& value) {
  if (!Differs(value)) return "=";
  if (value.before == 0) return "new";
  if (value.after == 0) return "gone";
  const double factor = value.after / value.before;
  if (factor >= 10) return fmt::format("{:.0f}x", factor);
  const double percent = 100 * (factor - 1);
  return fmt::format("{:+.{}f}%", percent, std::abs(percent) < 0.1 ? 2 : 1);
}

std::string SignedBytes(double bytes) {
  return fmt::format("{}{}", bytes < 0 ? '-' : '+', HumanBytes(std::abs(bytes)));
}

std::string SignedSeconds(double seconds) {
  return fmt::format("{}{}", seconds < 0 ? '-' : '+', HumanSeconds(std::abs(seconds)));
}

struct Section {
  std::string title;
  TextTable table;
  size_t hidden = 0;  // rows beyond `top`
};

Section TotalsSection(const CostDiff& diff) {
  Section section{"", {{{"", false}, {"before", true}, {"after", true}, {"change", true}}, {}}, 0};
  for (const CostDiff::Total& total : diff.totals) {
    section.table.rows.push_back({total.label, FigureText(total.key, total.value.before),
                                  FigureText(total.key, total.value.after), Share(total.value)});
  }
  return section;
}

Section TrafficSection(const CostDiff& diff) {
  Section section{"sent by a device, by mesh axes",
                  {{{"axes", false}, {"before", true}, {"after", true}, {"change", true}}, {}},
                  0};
  for (const CostDiff::Traffic& row : diff.traffic) {
    section.table.rows.push_back({row.axes, HumanBytes(row.bytes_per_device.before),
                                  HumanBytes(row.bytes_per_device.after),
                                  Share(row.bytes_per_device)});
  }
  return section;
}

Section CollectiveSection(const CostDiff& diff, size_t top) {
  Section section{"collectives that changed",
                  {{{"bytes", true},
                    {"time", true},
                    {"count", true},
                    {"collective", false},
                    {"axes", false},
                    {"because of", false}},
                   {}},
                  0};
  for (const CostDiff::Collectives& row : diff.collectives) {
    if (section.table.rows.size() == top) break;
    section.table.rows.push_back({SignedBytes(row.bytes_per_device.Change()),
                                  SignedSeconds(row.time_s.Change()),
                                  fmt::format("{} -> {}", row.count.before, row.count.after),
                                  row.kind, row.axes, row.cause.empty() ? "-" : row.cause});
  }
  section.hidden = diff.collectives.size() - section.table.rows.size();
  return section;
}

Section TensorSection(const CostDiff& diff, size_t top) {
  Section section{
      "tensors at the memory peak that changed",
      {{{"bytes", true}, {"before", true}, {"after", true}, {"tensor", false}, {"source", false}},
       {}},
      0};
  for (const CostDiff::Tensor& row : diff.tensors) {
    if (section.table.rows.size() == top) break;
    section.table.rows.push_back({SignedBytes(row.bytes.Change()), HumanBytes(row.bytes.before),
                                  HumanBytes(row.bytes.after), row.name, row.source});
  }
  section.hidden = diff.tensors.size() - section.table.rows.size();
  return section;
}

Section WorkSection(const CostDiff& diff, size_t top) {
  Section section{"opcodes that changed",
                  {{{"opcode", false},
                    {"count", true},
                    {"time", true},
                    {"change", true},
                    {"work", true},
                    {"change", true}},
                   {}},
                  0};
  for (const CostDiff::Work& row : diff.opcodes) {
    if (section.table.rows.size() == top) break;
    section.table.rows.push_back(
        {row.opcode, fmt::format("{} -> {}", row.count.before, row.count.after),
         HumanSeconds(row.time_s.after), Share(row.time_s),
         row.flops.after > 0 ? HumanFlops(row.flops.after) : "-", Share(row.flops)});
  }
  section.hidden = diff.opcodes.size() - section.table.rows.size();
  return section;
}

std::vector<Section> Sections(const CostDiff& diff, size_t top) {
  std::vector<Section> sections = {TotalsSection(diff), TrafficSection(diff),
                                   CollectiveSection(diff, top), TensorSection(diff, top),
                                   WorkSection(diff, top)};
  std::erase_if(sections, [](const Section& section) { return section.table.rows.empty(); });
  return sections;
}

std::string Described(const std::string& file, const CostFigures& figures) {
  return fmt::format("{} ({}, {} device{}, {})", file, figures.module, figures.devices,
                     figures.devices == 1 ? "" : "s", figures.chip);
}

// That times are of two chips; empty if they are of one, or if a report does not tell.
std::string ChipNote(const CostDiff& diff) {
  const std::string &before = diff.before.chip, &after = diff.after.chip;
  if (before == after || before.empty() || after.empty()) return "";
  return fmt::format("note: times are of {} before and of {} after\n", before, after);
}

Json ToJson(const BeforeAfter& value) { return {{"before", value.before}, {"after", value.after}}; }

Json Side(const std::string& file, const CostFigures& figures) {
  return {{"file", file},
          {"module", figures.module},
          {"devices", static_cast<int64_t>(figures.devices)},
          {"chip", figures.chip}};
}

}  // namespace

CostDiff DiffCosts(std::string before_name, CostFigures before, std::string after_name,
                   CostFigures after) {
  CostDiff diff;
  diff.totals = Totals(before, after);
  ForEachPair(before.bytes_by_axes, after.bytes_by_axes,
              [&](const std::string& axes, double a, double b) {
                diff.traffic.push_back({axes, {a, b}});
              });
  ForEachPair(before.collectives, after.collectives,
              [&](const CostFigures::CollectiveKey& key, const CostFigures::Collectives& a,
                  const CostFigures::Collectives& b) {
                const auto& [kind, axes, cause] = key;
                CostDiff::Collectives row{kind,
                                          axes,
                                          cause,
                                          {a.count, b.count},
                                          {a.bytes_per_device, b.bytes_per_device},
                                          {a.time_s, b.time_s}};
                if (Differs(row.count) || Differs(row.bytes_per_device) || Differs(row.time_s))
                  diff.collectives.push_back(std::move(row));
              });
  ForEachPair(
      before.tensors, after.tensors,
      [&](const std::string& name, const CostFigures::Tensor& a, const CostFigures::Tensor& b) {
        CostDiff::Tensor row{name, b.source.empty() ? a.source : b.source, {a.bytes, b.bytes}};
        if (Differs(row.bytes)) diff.tensors.push_back(std::move(row));
      });
  ForEachPair(
      before.opcodes, after.opcodes,
      [&](const std::string& opcode, const CostFigures::Work& a, const CostFigures::Work& b) {
        CostDiff::Work row{opcode,
                           {a.count, b.count},
                           {a.flops, b.flops},
                           {a.bytes, b.bytes},
                           {a.time_s, b.time_s}};
        if (Differs(row.count) || Differs(row.flops) || Differs(row.bytes) || Differs(row.time_s))
          diff.opcodes.push_back(std::move(row));
      });
  SortByChange(diff.traffic, [](const auto& row) { return row.bytes_per_device.Change(); });
  SortByChange(diff.collectives, [](const auto& row) { return row.bytes_per_device.Change(); });
  SortByChange(diff.tensors, [](const auto& row) { return row.bytes.Change(); });
  SortByChange(diff.opcodes, [](const auto& row) { return row.flops.Change(); });
  SortByChange(diff.opcodes, [](const auto& row) { return row.time_s.Change(); });
  diff.before_name = std::move(before_name);
  diff.after_name = std::move(after_name);
  diff.before = std::move(before);
  diff.after = std::move(after);
  return diff;
}

std::string CostDiffAsText(const CostDiff& diff, size_t top) {
  std::string text =
      fmt::format("before  {}\nafter   {}\n{}\n", Described(diff.before_name, diff.before),
                  Described(diff.after_name, diff.after), ChipNote(diff));
  for (const Section& section : Sections(diff, top)) {
    if (!section.title.empty()) text += "\n" + section.title + "\n";
    text += TableAsText(section.table);
    if (section.hidden > 0) text += fmt::format("  and {} more\n", section.hidden);
  }
  return text;
}

std::string CostDiffAsMarkdown(const CostDiff& diff, size_t top) {
  std::string text = fmt::format("**{}** → **{}**\n", Described(diff.before_name, diff.before),
                                 Described(diff.after_name, diff.after));
  if (const std::string note = ChipNote(diff); !note.empty()) text += "\n" + note;
  for (const Section& section : Sections(diff, top)) {
    text += "\n";
    if (!section.title.empty()) text += "**" + section.title + "**\n\n";
    text += TableAsMarkdown(section.table);
    if (section.hidden > 0) text += fmt::format("\nand {} more\n", section.hidden);
  }
  return text;
}

std::string CostDiffAsJson(const CostDiff& diff, std::span<const FailedCheck> failed) {
  Json document = {{"schema", "gshard.diff/1"},
                   {"failed_checks", FailedChecksAsJson(failed)},
                   {"before", Side(diff.before_name, diff.before)},
                   {"after", Side(diff.after_name, diff.after)}};
  for (const CostDiff::Total& total : diff.totals) document.Set(total.key, ToJson(total.value));
  Json traffic = Json::Array(), collectives = Json::Array(), tensors = Json::Array(),
       opcodes = Json::Array();
  for (const CostDiff::Traffic& row : diff.traffic) {
    traffic.Append({{"axes", row.axes}, {"bytes_per_device", ToJson(row.bytes_per_device)}});
  }
  for (const CostDiff::Collectives& row : diff.collectives) {
    collectives.Append({{"kind", row.kind},
                        {"axes", row.axes},
                        {"cause", row.cause},
                        {"count", ToJson(row.count)},
                        {"bytes_per_device", ToJson(row.bytes_per_device)},
                        {"time_s", ToJson(row.time_s)}});
  }
  for (const CostDiff::Tensor& row : diff.tensors) {
    tensors.Append({{"name", row.name}, {"source", row.source}, {"bytes", ToJson(row.bytes)}});
  }
  for (const CostDiff::Work& row : diff.opcodes) {
    opcodes.Append({{"opcode", row.opcode},
                    {"count", ToJson(row.count)},
                    {"flops", ToJson(row.flops)},
                    {"bytes", ToJson(row.bytes)},
                    {"time_s", ToJson(row.time_s)}});
  }
  document.Set("traffic", std::move(traffic));
  document.Set("collectives", std::move(collectives));
  document.Set("tensors", std::move(tensors));
  document.Set("opcodes", std::move(opcodes));
  return document.Text();
}

}  // namespace gshard
