#include <catch2/catch.hpp>

#include "core/json.h"
#include "core/report/ci/ci_report.h"
#include "core/report/ci/github.h"
#include "core/report/ci/junit.h"
#include "core/report/ci/sarif.h"

namespace gshard {
namespace {

CiReport OneOfEach() {
  CiReport report{"gshard-cost", "1.2.3", "step.hlo", {}, ""};
  report.checks = {{"peak", CiOutcome::kPassed, "budget", "kept", "", {}},
                   {"a<b",
                    CiOutcome::kFailed,
                    "budget",
                    "50% over\nby \"much\"",
                    "try & see",
                    {"m, 1.py", 3, 7}},
                   {"all-reduce r", CiOutcome::kWarning, "W-1", "odd", "", {"/abs/x.hlo", 0, 0}}};
  return report;
}

TEST_CASE("Lines of users' programs are told from names without one", "[ci]") {
  CHECK(SourcePlace("gpt.py:22").line == 22);
  CHECK(SourcePlace("a:b/gpt.py:22").file == "a:b/gpt.py");
  CHECK(SourcePlace("gpt.py:x").file == "gpt.py:x");
  CHECK(SourcePlace("gpt.py:0").line == 0);
  CHECK(SourcePlace("").file.empty());
}

TEST_CASE("Places below the root are named from there, others stay", "[ci]") {
  CiReport report = OneOfEach();
  report.checks[0].place.file = "/abs/other/x.hlo";
  report.checks[1].place.file = "/absolute/x.hlo";
  MakeRelative(report, "/abs");
  CHECK(report.checks[0].place.file == "other/x.hlo");
  CHECK(report.checks[1].place.file == "/absolute/x.hlo");
  CHECK(report.checks[2].place.file == "x.hlo");
  MakeRelative(report, "");
  CHECK(report.checks[2].place.file == "x.hlo");
}

TEST_CASE("Annotations escape what GitHub gives a meaning, failures first", "[ci]") {
  CHECK(GithubAnnotations(OneOfEach()) ==
        "::error file=m%2C 1.py,line=3,col=7,title=gshard-cost%3A a<b::50%25 over%0Aby "
        "\"much\"%0Atry & see\n"
        "::warning file=/abs/x.hlo,title=gshard-cost%3A all-reduce r::odd\n");
}

TEST_CASE("Of many annotations eight are written, and the last counts the others", "[ci]") {
  CiReport report = OneOfEach();
  report.checks.assign(11, report.checks[1]);
  const std::string text = GithubAnnotations(report);
  CHECK(std::ranges::count(text, '\n') == 8);
  CHECK(text.find("has 3 more") != std::string::npos);
  report.checks.resize(8);
  CHECK(GithubAnnotations(report).find("more") == std::string::npos);
}

TEST_CASE("A summary ends with a whole line below GitHub's limit", "[ci]") {
  CiReport report = OneOfEach();
  report.markdown = std::string(1 << 20, 'x') + "\n";
  const std::string text = GithubSummary(report);
  CHECK(text.size() <= 1 << 20);
  CHECK(text.find("1 of 3 checks failed") != std::string::npos);
  CHECK(text.ends_with("a summary may have 1 MiB.\n"));
}

TEST_CASE("JUnit counts cases, and XML escapes them", "[ci]") {
  CiReport report = OneOfEach();
  report.checks[0].name = "bell\a";
  const std::string text = JUnitXml(report);
  CHECK(text.find("tests=\"3\" failures=\"1\"") != std::string::npos);
  CHECK(text.find("name=\"bell\" time=\"0\"/>") != std::string::npos);
  CHECK(text.find("name=\"a&lt;b\"") != std::string::npos);
  CHECK(text.find("message=\"50% over&#10;by &quot;much&quot;\"") != std::string::npos);
  CHECK(text.find("<system-out>warning [W-1]: /abs/x.hlo: odd</system-out>") != std::string::npos);
}

TEST_CASE("SARIF has failures and warnings, each with its rule and a URI", "[ci]") {
  const Json run = Json::Parse(SarifJson(OneOfEach())).At("runs").At(size_t{0});
  const Json results = run.At("results");
  REQUIRE(results.size() == 2);
  CHECK(results.At(size_t{0}).StringAt("level") == "error");
  CHECK(results.At(size_t{1}).StringAt("ruleId") == "W-1");
  const auto uri = [&](size_t i) {
    return results.At(i)
        .At("locations")
        .At(size_t{0})
        .At("physicalLocation")
        .At("artifactLocation")
        .StringAt("uri");
  };
  CHECK(uri(0) == "m%2C%201.py");
  CHECK(uri(1) == "file:///abs/x.hlo");
}

}  // namespace
}  // namespace gshard
