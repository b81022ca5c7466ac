#include "ir/source_lines.h"

#include <fmt/format.h>

#include <charconv>

#include "ir/metadata.h"

namespace gshard {
namespace {

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
  std::unordered_map<int64_t, std::string_view> files;
  ForEachTableRow(tables, "FileNames", [&](int64_t number, std::string_view name) {
    files.try_emplace(number, Inner(name));
    return true;
  });
  std::unordered_map<int64_t, SourceLine> locations;
  ForEachTableRow(tables, "FileLocations", [&](int64_t number, std::string_view row) {
    const auto [file_number, line] = IntegerFields(row, "file_name_id", "line");
    const auto file = files.find(file_number);
    if (file != files.end()) {
      locations.try_emplace(number, SourceLine{file->second, line});
    }
    return true;
  });
  ForEachTableRow(tables, "StackFrames", [&](int64_t number, std::string_view row) {
    const auto [location, parent] = IntegerFields(row, "file_location_id", "parent_frame_id");
    const auto line = locations.find(location);
    // The text has the parent's number plus one.
    if (line != locations.end()) frames_.try_emplace(number, Frame{line->second, parent - 1});
    return true;
  });
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
