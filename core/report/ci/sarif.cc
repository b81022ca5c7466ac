// See sarif.h.

#include "core/report/ci/sarif.h"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "core/json.h"

namespace gshard {
namespace {

std::string RuleText(const std::string& rule) {
  if (rule == "budget") return "A bound of a budget is exceeded";
  if (rule == "limit") return "A device needs more memory than it may";
  if (rule == "diff") return "A change costs more than it may";
  if (rule == "verify") return "The partitioned program computes something else";
  return "The program's communication can fail (" + rule + ")";
}

// A path as the reference of a URI.
std::string UriOf(std::string_view path) {
  std::string uri = path.starts_with('/') ? "file://" : "";
  for (const char c : path) {
    const bool is_plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                          (c >= '0' && c <= '9') ||
                          std::string_view("/-._~").find(c) != std::string_view::npos;
    uri += is_plain ? std::string(1, c) : fmt::format("%{:02X}", static_cast<unsigned char>(c));
  }
  return uri;
}

Json Location(const CiPlace& place) {
  Json artifact = {{"uri", UriOf(place.file)}};
  if (!place.file.starts_with('/')) artifact.Set("uriBaseId", "%SRCROOT%");
  Json physical = {{"artifactLocation", std::move(artifact)}};
  if (place.line > 0) {
    Json region = {{"startLine", place.line}};
    if (place.column > 0) region.Set("startColumn", place.column);
    physical.Set("region", std::move(region));
  }
  return {{"physicalLocation", std::move(physical)}};
}

}  // namespace

std::string SarifJson(const CiReport& report) {
  std::map<std::string, int64_t> places;  // of rules in their list
  Json rules = Json::Array(), results = Json::Array();
  for (const CiCheck& check : report.checks) {
    if (check.outcome == CiOutcome::kPassed) continue;
    const auto [place, is_new] = places.emplace(check.rule, static_cast<int64_t>(places.size()));
    if (is_new) {
      rules.Append({{"id", check.rule}, {"shortDescription", {{"text", RuleText(check.rule)}}}});
    }
    std::string message = check.name + ": " + check.message;
    if (!check.hint.empty()) message += "\n" + check.hint;
    Json result = {{"ruleId", check.rule},
                   {"ruleIndex", place->second},
                   {"level", check.outcome == CiOutcome::kFailed ? "error" : "warning"},
                   {"message", {{"text", message}}}};
    if (!check.place.file.empty()) {
      Json locations = Json::Array();
      locations.Append(Location(check.place));
      result.Set("locations", std::move(locations));
    }
    results.Append(std::move(result));
  }
  Json run = {
      {"tool",
       {{"driver",
         {{"name", report.program}, {"version", report.version}, {"rules", std::move(rules)}}}}},
      {"results", std::move(results)}};
  Json runs = Json::Array();
  runs.Append(std::move(run));
  const Json document = {{"$schema", "https://json.schemastore.org/sarif-2.1.0.json"},
                         {"version", "2.1.0"},
                         {"runs", std::move(runs)}};
  return document.Text();
}

}  // namespace gshard
