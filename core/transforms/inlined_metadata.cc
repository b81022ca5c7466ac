// See inlined_metadata.h.

#include "core/transforms/inlined_metadata.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <utility>

#include "ir/metadata.h"

namespace gshard {
namespace {

constexpr std::string_view kFrames = "StackFrames";
constexpr int kMaxCallDepth = 500;  // of calls; a longer stack is a damaged table

bool IsPlace(std::string_view field) {
  return field.starts_with("source_") || field == "stack_frame_id";
}

// "jit(step)/jvp(f)/dot" behind a call of "jit(step)/jvp(f)": named from the program's start.
bool IsNamedFromStart(std::string_view op_name, std::string_view call) {
  const std::string_view root = call.substr(0, call.find('/'));
  return root.ends_with(')') && op_name.starts_with(root) &&
         (op_name.size() == root.size() || op_name[root.size()] == '/');
}

// Of a quoted string, as it is written: names are joined with their escapes.
std::string_view WithoutQuotes(std::string_view value) {
  const bool is_quoted = value.size() >= 2 && value.front() == '"' && value.back() == '"';
  return is_quoted ? value.substr(1, value.size() - 2) : value;
}

int64_t NumberOf(std::string_view value) {
  int64_t number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

void Append(std::string& text, std::string_view field, std::string_view value) {
  text.append(1, ' ').append(field).append(1, '=').append(value);
}

}  // namespace

void InlinedMetadata::ReadFrames() {
  if (std::exchange(has_frames_, true)) return;
  ForEachTableRow(module_.debug_tables(), kFrames, [&](int64_t number, std::string_view row) {
    const auto [location, parent] = IntegerFields(row, "file_location_id", "parent_frame_id");
    // The text has the parent's number plus one; a parent stands before its children.
    frames_.try_emplace(number, Frame{location, parent - 1 < number ? parent - 1 : 0});
    last_ = std::max(last_, number);
    return true;
  });
}

InlinedMetadata::Call& InlinedMetadata::CallOf(std::string_view metadata) {
  if (metadata.data() == last_text_.data() && metadata.size() == last_text_.size()) {
    return *last_call_;
  }
  auto [it, fresh] = calls_.try_emplace(metadata);
  Call& call = it->second;
  last_text_ = metadata;
  last_call_ = &call;
  if (!fresh) return call;
  for (const auto& [field, value] : ParseFrontendAttributes(metadata)) {
    if (field == "op_name") call.op_name = WithoutQuotes(value);
    if (field == "stack_frame_id") call.frame = NumberOf(value);
    if (IsPlace(field)) Append(call.place, field, value);
  }
  return call;
}

std::string_view InlinedMetadata::Of(std::string_view call, std::string_view own) {
  if (call.empty() || own == call) return own;
  if (own.empty()) return call;
  Call& caller = CallOf(call);
  auto [made, fresh] = caller.made.try_emplace(own.data());
  if (fresh) made->second = Made(caller, own);
  return made->second;
}

std::string_view InlinedMetadata::Made(const Call& call, std::string_view own) {
  std::string_view name;
  std::string rest;
  bool has_place = false;
  for (const auto& [field, value] : ParseFrontendAttributes(own)) {
    if (field == "op_name") {
      name = WithoutQuotes(value);
      continue;
    }
    has_place = has_place || IsPlace(field);
    if (field == "stack_frame_id" && call.frame > 0) {
      ReadFrames();
      Append(rest, field, std::to_string(Joined(NumberOf(value), call.frame)));
    } else {
      Append(rest, field, value);
    }
  }
  std::string text;
  text.reserve(call.op_name.size() + name.size() + rest.size() + call.place.size() + 16);
  if (!name.empty() || !call.op_name.empty()) {
    text += " op_name=\"";
    if (name.empty()) {
      text += call.op_name;
    } else {
      if (!call.op_name.empty() && !IsNamedFromStart(name, call.op_name)) {
        text.append(call.op_name).append(1, '/');
      }
      text += name;
    }
    text += '"';
  }
  text += rest;
  if (!has_place) text += call.place;
  if (text.empty()) return own;
  text.front() = '{';
  text += '}';
  return module_.arena().Copy(std::string_view(text));
}

bool InlinedMetadata::IsCalledFrom(int64_t frame, int64_t outer) const {
  for (auto it = frames_.find(frame); it != frames_.end(); it = frames_.find(it->second.parent)) {
    if (it->first == outer) return true;
  }
  return false;
}

int64_t InlinedMetadata::Joined(int64_t own, int64_t outer, int depth) {
  const auto frame = frames_.find(own);
  if (frame == frames_.end() || depth > kMaxCallDepth || IsCalledFrom(own, outer)) return own;
  if (const auto made = joined_.find({own, outer}); made != joined_.end()) return made->second;
  const Frame inner = frame->second;
  const int64_t parent = inner.parent > 0 ? Joined(inner.parent, outer, depth + 1) : outer;
  const int64_t number = ++last_;
  frames_[number] = {inner.location, parent};
  joined_[{own, outer}] = number;
  rows_ += fmt::format("\n{} {{file_location_id={} parent_frame_id={}}}", number, inner.location,
                       parent + 1);
  return number;
}

void InlinedMetadata::WriteFrames() {
  if (rows_.empty()) return;
  const std::string_view tables = module_.debug_tables();
  size_t end = tables.find(kFrames);
  ForEachTableRow(tables, kFrames, [&](int64_t, std::string_view row) {
    end = static_cast<size_t>(row.data() + row.size() - tables.data());
    return true;
  });
  std::string text(tables.substr(0, end));
  text += rows_;
  text += tables.substr(end);
  module_.set_debug_tables(module_.arena().Copy(std::string_view(text)));
  rows_.clear();
}

}  // namespace gshard
