// See github.h.

#include "core/report/ci/github.h"

#include <fmt/format.h>

#include <string_view>

#include "core/report/table_text.h"

namespace gshard {
namespace {

constexpr size_t kMaxSummaryBytes = 1 << 20;

// The data of a workflow command; of its properties (`file=`) two more characters have a meaning.
std::string CommandText(std::string_view text, bool is_property) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '%':
        escaped += "%25";
        break;
      case '\r':
        escaped += "%0D";
        break;
      case '\n':
        escaped += "%0A";
        break;
      case ':':
        escaped += is_property ? "%3A" : ":";
        break;
      case ',':
        escaped += is_property ? "%2C" : ",";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

std::string Annotation(const CiReport& report, const CiCheck& check, size_t hidden) {
  std::string command = check.outcome == CiOutcome::kFailed ? "::error " : "::warning ";
  if (!check.place.file.empty()) {
    command += fmt::format("file={},", CommandText(check.place.file, /*is_property=*/true));
    if (check.place.line > 0) command += fmt::format("line={},", check.place.line);
    if (check.place.column > 0) command += fmt::format("col={},", check.place.column);
  }
  command += fmt::format("title={}", CommandText(report.program + ": " + check.name, true));
  std::string message = check.message;
  if (!check.hint.empty()) message += "\n" + check.hint;
  if (hidden > 0) message += fmt::format("\nThe summary of this step has {} more.", hidden);
  return command + "::" + CommandText(message, false) + "\n";
}

std::string PlaceText(const CiPlace& place) {
  if (place.file.empty()) return "";
  return place.line > 0 ? fmt::format("{}:{}", place.file, place.line) : place.file;
}

}  // namespace

std::string GithubAnnotations(const CiReport& report) {
  std::vector<const CiCheck*> told;
  for (const CiOutcome outcome : {CiOutcome::kFailed, CiOutcome::kWarning}) {
    for (const CiCheck& check : report.checks) {
      if (check.outcome == outcome) told.push_back(&check);
    }
  }
  std::string commands;
  const size_t shown = std::min(told.size(), kMaxAnnotations);
  for (size_t i = 0; i < shown; ++i) {
    commands += Annotation(report, *told[i], i + 1 == shown ? told.size() - shown : 0);
  }
  return commands;
}

std::string GithubSummary(const CiReport& report) {
  const int64_t failed = report.Count(CiOutcome::kFailed);
  std::string text = fmt::format(
      "### {} {}: {}\n\n", report.program, report.subject,
      failed > 0 ? fmt::format("{} of {} checks failed", failed, report.checks.size()) : "ok");
  TextTable table{{{"check", false}, {"", false}, {"what", false}, {"where", false}}, {}};
  for (const CiCheck& check : report.checks) {
    const char* outcome = check.outcome == CiOutcome::kFailed    ? "failed"
                          : check.outcome == CiOutcome::kWarning ? "warning"
                                                                 : "ok";
    table.rows.push_back({check.name, outcome, check.message, PlaceText(check.place)});
  }
  if (!table.rows.empty()) text += TableAsMarkdown(table);
  if (!report.markdown.empty()) text += "\n" + report.markdown;
  if (text.size() > kMaxSummaryBytes) {
    constexpr std::string_view kCut = "\n\nThe rest is left out: a summary may have 1 MiB.\n";
    text.resize(kMaxSummaryBytes - kCut.size());
    text.resize(text.rfind('\n') + 1);  // no half row
    text += kCut;
  }
  return text;
}

}  // namespace gshard
