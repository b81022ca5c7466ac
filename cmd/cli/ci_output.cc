// See ci_output.h.

#include "cmd/cli/ci_output.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>

#include "cmd/cli/program.h"
#include "core/report/ci/github.h"
#include "core/report/ci/junit.h"
#include "core/report/ci/sarif.h"

namespace gshard {
namespace {

std::string EnvironmentText(const char* name) {
  const char* text = std::getenv(name);
  return text != nullptr ? text : "";
}

// The folder that CI systems name files from.
std::string ProjectFolder() {
  for (const char* name : {"GITHUB_WORKSPACE", "CI_PROJECT_DIR"}) {
    if (std::string folder = EnvironmentText(name); !folder.empty()) return folder;
  }
  std::error_code error;
  return std::filesystem::current_path(error).string();
}

// Other steps of a job write to the same file, so it is added to.
Expected<void> AppendFile(const std::string& path, const std::string& text) {
  std::FILE* file = std::fopen(path.c_str(), "ae");
  bool ok = file != nullptr && std::fwrite(text.data(), 1, text.size(), file) == text.size();
  if (file != nullptr && std::fclose(file) != 0) ok = false;
  if (ok) return {};
  return Fail(MakeError("E-IO-003", fmt::format("writing '{}', which GITHUB_STEP_SUMMARY names, "
                                                "failed: {}",
                                                path, std::strerror(errno))));
}

}  // namespace

void AddCiFlags(const Command& command, CiFlags& flags) {
  command.AddSwitch("--github", flags.github,
                    "Tell GitHub Actions what is checked: annotations on standard error, and a "
                    "table in the file that GITHUB_STEP_SUMMARY names");
  command.Add("--junit", flags.junit, "Write the checks as JUnit's XML (default: none)",
              {.type = "FILE", .is_output = true});
  command.Add("--sarif", flags.sarif,
              "Write failed checks and warnings as SARIF 2.1.0 (default: none)",
              {.type = "FILE", .is_output = true});
}

Expected<void> WriteCiReport(const CiFlags& flags, CiReport report) {
  if (!flags.AreGiven()) return {};
  report.version.assign(GSHARD_VERSION);
  // What has no line of the user's program is told of the file that was checked.
  for (CiCheck& check : report.checks) {
    if (check.place.file == "<stdin>") check.place = {};
    if (check.place.file.empty() && report.subject != "-") check.place.file = report.subject;
  }
  MakeRelative(report, ProjectFolder());
  if (flags.github) {
    if (auto told = WriteFile("-", GithubAnnotations(report), /*dash_is_stderr=*/true); !told) {
      return told;
    }
    const std::string summary = EnvironmentText("GITHUB_STEP_SUMMARY");
    if (!summary.empty()) {
      if (auto added = AppendFile(summary, GithubSummary(report)); !added) return added;
    }
  }
  if (!flags.junit.empty()) {
    if (auto written = WriteFile(flags.junit, JUnitXml(report)); !written) return written;
  }
  if (!flags.sarif.empty()) {
    if (auto written = WriteFile(flags.sarif, SarifJson(report)); !written) return written;
  }
  return {};
}

}  // namespace gshard
