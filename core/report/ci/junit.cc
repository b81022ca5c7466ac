// See junit.h.

#include "core/report/ci/junit.h"

#include <fmt/format.h>

#include <string_view>

namespace gshard {
namespace {

// Text or the value of an attribute. XML 1.0 has no way to write most control characters: they are
// left out.
std::string XmlText(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '>':
        escaped += "&gt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      case '\n':
        escaped += "&#10;";
        break;
      case '\t':
        escaped += "&#9;";
        break;
      default:
        if (static_cast<unsigned char>(c) >= 0x20) escaped += c;
    }
  }
  return escaped;
}

std::string Told(const CiCheck& check) {
  std::string text;
  if (!check.place.file.empty()) {
    text += check.place.file;
    if (check.place.line > 0) text += fmt::format(":{}", check.place.line);
    text += ": ";
  }
  text += check.message;
  if (!check.hint.empty()) text += "\nhint: " + check.hint;
  return text;
}

std::string TestCase(const CiReport& report, const CiCheck& check) {
  std::string text =
      fmt::format("    <testcase classname=\"{}\" name=\"{}\" time=\"0\"",
                  XmlText(report.program + "." + report.subject), XmlText(check.name));
  if (check.outcome == CiOutcome::kPassed) return text + "/>\n";
  text += ">\n";
  if (check.outcome == CiOutcome::kFailed) {
    text += fmt::format("      <failure type=\"{}\" message=\"{}\">{}</failure>\n",
                        XmlText(check.rule), XmlText(check.message), XmlText(Told(check)));
  } else {
    text += fmt::format("      <system-out>{}</system-out>\n",
                        XmlText(fmt::format("warning [{}]: {}", check.rule, Told(check))));
  }
  return text + "    </testcase>\n";
}

}  // namespace

std::string JUnitXml(const CiReport& report) {
  const std::string counts = fmt::format("tests=\"{}\" failures=\"{}\" errors=\"0\"",
                                         report.checks.size(), report.Count(CiOutcome::kFailed));
  std::string text = fmt::format(
      "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n<testsuites name=\"{}\" {} time=\"0\">\n"
      "  <testsuite name=\"{}\" {} skipped=\"0\" time=\"0\">\n",
      XmlText(report.program), counts, XmlText(report.program + " " + report.subject), counts);
  for (const CiCheck& check : report.checks) text += TestCase(report, check);
  return text + "  </testsuite>\n</testsuites>\n";
}

}  // namespace gshard
