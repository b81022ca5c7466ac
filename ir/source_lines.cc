#include "ir/source_lines.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/metadata.h"

namespace gshard {
namespace {

// Without its quotes: names of files that need escapes stay as they are written.
std::string_view Inner(std::string_view quoted) {
  return quoted.size() < 2 ? std::string_view() : quoted.substr(1, quoted.size() - 2);
}

// Folders that libraries are in.
constexpr std::string_view kLibraryFolders[] = {"/site-packages/", "/dist-packages/", "/lib/python",
                                                "/venv/", "/.venv/"};

// "/home/me/" of "/home/me/a.py" and "/home/me/b/c.py".
std::string_view CommonFolder(std::string_view folder, std::string_view file) {
  while (!file.starts_with(folder)) {
    folder.remove_suffix(1);
    folder = folder.substr(0, folder.rfind('/') + 1);
  }
  return folder;
}

std::string_view FolderOf(std::string_view file) { return file.substr(0, file.rfind('/') + 1); }

}  // namespace

bool IsLibraryFile(std::string_view file) {
  return file.starts_with('<') ||
         std::ranges::any_of(kLibraryFolders, [&](std::string_view folder) {
           return file.find(folder) != file.npos;
         });
}

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
    const std::string_view file = Inner(name);
    files.try_emplace(number, file);
    if (!IsLibraryFile(file)) {
      root_ = root_.data() == nullptr ? FolderOf(file) : CommonFolder(root_, file);
    }
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
  const bool is_written = !metadata.source_file.empty();
  if (is_written && !IsLibraryFile(metadata.source_file)) return WrittenSourceLine(metadata);
  const SourceLine* line = Innermost(metadata.stack_frame_id);
  const bool is_known = line != nullptr && !line->file.empty();
  if (is_written && (!is_known || IsLibraryFile(line->file))) return WrittenSourceLine(metadata);
  return is_known ? fmt::format("{}:{}", Unquoted(line->file), line->line) : "";
}

std::string SourceLines::ShortTextOf(const Instruction& x) const {
  std::string text = TextOf(x);
  if (!IsLibraryFile(text)) {
    return text.starts_with(root_) ? text.substr(root_.size()) : text;
  }
  size_t begin = 0;
  for (const std::string_view folder : kLibraryFolders) {
    const size_t found = text.rfind(folder);
    if (found != text.npos) begin = std::max(begin, found + folder.size());
  }
  return text.substr(begin);
}

const SourceLine* SourceLines::Innermost(int64_t number) const {
  const auto innermost = frames_.find(number);
  for (auto frame = innermost; frame != frames_.end();) {
    if (!IsLibraryFile(frame->second.line.file)) return &frame->second.line;
    // A parent stands before its children, else the table is damaged.
    if (frame->second.parent >= frame->first) break;
    frame = frames_.find(frame->second.parent);
  }
  return innermost == frames_.end() ? nullptr : &innermost->second.line;
}

std::string SourceLineOf(const Module& module, const Instruction& x) {
  return SourceLines(module).TextOf(x);
}

}  // namespace gshard
