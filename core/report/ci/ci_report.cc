// See ci_report.h.

#include "core/report/ci/ci_report.h"

#include <algorithm>
#include <charconv>

namespace gshard {

int64_t CiReport::Count(CiOutcome outcome) const {
  return std::ranges::count_if(checks,
                               [&](const CiCheck& check) { return check.outcome == outcome; });
}

CiPlace SourcePlace(std::string_view source) {
  const size_t colon = source.rfind(':');
  int64_t line = 0;
  if (colon != std::string_view::npos) {
    const char* end = source.data() + source.size();
    const auto [stop, error] = std::from_chars(source.data() + colon + 1, end, line);
    if (error == std::errc() && stop == end && line > 0) {
      return {std::string(source.substr(0, colon)), line, 0};
    }
  }
  return {std::string(source), 0, 0};
}

CiCheck CheckOf(const Diagnostic& diagnostic, std::string name) {
  return {std::move(name),
          diagnostic.severity == Severity::kError ? CiOutcome::kFailed : CiOutcome::kWarning,
          diagnostic.code,
          diagnostic.message,
          diagnostic.hint,
          {diagnostic.file, diagnostic.line, diagnostic.column}};
}

void MakeRelative(CiReport& report, std::string_view root) {
  std::string folder(root);
  if (folder.empty()) return;
  if (folder.back() != '/') folder += '/';
  for (CiCheck& check : report.checks) {
    if (check.place.file.starts_with(folder)) check.place.file.erase(0, folder.size());
  }
}

}  // namespace gshard
