#include "ir/source_lines.h"

#include <fmt/format.h>

#include <charconv>

#include "ir/metadata.h"

namespace gshard {
namespace {

// The rows of a debug table as written, by number.
std::unordered_map<int64_t, std::string_view> Rows(std::string_view tables,
                                                   std::string_view table) {
  std::unordered_map<int64_t, std::string_view> rows;
  ForEachTableRow(tables, table, [&](int64_t number, std::string_view row) {
    rows.emplace(number, row);
    return true;
  });
  return rows;
}

// Without its quotes: names of files that need escapes stay as they are written.
std::string_view Inner(std::string_view quoted) {
  return quoted.size() < 2 ? std::string_view() : quoted.substr(1, quoted.size() - 2);
}

}  // namespace

SourceLine ParseSourceLine(std::string_view text) {
  const size_t colon = text.rfind(':');
  if (colon == text.npos || colon == 0) return {};
  int64_t line = 0;
  const char* end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data() + colon + 1, end, line);
  if (error != std::errc() || stop != end || line < 1) return {};
  return {text.substr(0, colon), line};
}

bool IsFile(std::string_view file, std::string_view asked) {
  if (asked.empty() || !file.ends_with(asked)) return false;
  return file.size() == asked.size() || file[file.size() - asked.size() - 1] == '/' ||
         asked.front() == '/';
}

SourceLines::SourceLines(const Module& module) {
  const std::string_view tables = module.debug_tables();
  const auto files = Rows(tables, "FileNames");
  const auto locations = Rows(tables, "FileLocations");
  for (const auto& [number, row] : Rows(tables, "StackFrames")) {
    const auto location = locations.find(IntegerField(row, "file_location_id"));
    if (location == locations.end()) continue;
    const auto file = files.find(IntegerField(location->second, "file_name_id"));
    if (file == files.end()) continue;
    // The text has the parent's number plus one.
    frames_[number] = {{Inner(file->second), IntegerField(location->second, "line")},
                       IntegerField(row, "parent_frame_id") - 1};
  }
}

std::vector<SourceLine> SourceLines::Of(const Instruction& x) const {
  std::vector<SourceLine> lines;
  std::string_view file;
  for (const auto& [field, value] : ParseFrontendAttributes(x.metadata())) {
    if (field == "source_file") file = Inner(value);
  }
  const int64_t number = IntegerField(x.metadata(), "stack_frame_id");
  for (auto frame = frames_.find(number); frame != frames_.end();) {
    lines.push_back(frame->second.line);
    // A parent stands before its children, else the table is damaged.
    if (frame->second.parent >= frame->first) break;
    frame = frames_.find(frame->second.parent);
  }
  if (lines.empty() && !file.empty())
    lines.push_back({file, IntegerField(x.metadata(), "source_line")});
  return lines;
}

std::string SourceLines::TextOf(const Instruction& x) const {
  const OpMetadata metadata = ParseMetadata(x.metadata());
  if (!metadata.source_file.empty()) return WrittenSourceLine(metadata);
  const auto frame = frames_.find(metadata.stack_frame_id);
  if (frame == frames_.end() || frame->second.line.file.empty()) return {};
  return fmt::format("{}:{}", Unquoted(frame->second.line.file), frame->second.line.line);
}

}  // namespace gshard
