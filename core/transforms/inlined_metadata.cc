// See inlined_metadata.h.

#include "core/transforms/inlined_metadata.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "ir/device_text.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

constexpr std::string_view kFrames = "StackFrames";
constexpr size_t kMaxCallDepth = 500;  // of calls; a longer stack is a damaged table

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
  frames_.resize(1);
  const std::string_view tables = module_.debug_tables();
  ForEachTableRow(tables, kFrames, [&](int64_t number, std::string_view row) {
    rows_end_ = row.data() + row.size();
    // A number beyond the length of the text is a damaged row's.
    if (number <= 0 || number >= static_cast<int64_t>(tables.size())) return true;
    const auto place = static_cast<size_t>(number);
    if (place >= frames_.size()) frames_.resize(place + 1);
    if (frames_[place].location >= 0) return true;
    const auto [location, parent] = IntegerFields(row, "file_location_id", "parent_frame_id");
    // The text has the parent's number plus one; a parent stands before its children.
    frames_[place] = {location, parent > 0 && parent <= number ? parent - 1 : 0};
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
  call.joined =
      &joined_.try_emplace(call.frame, FrameNumbers{{call.frame, call.frame}}).first->second;
  return call;
}

std::string_view InlinedMetadata::Of(std::string_view call, std::string_view own) {
  if (call.empty() || own == call) return own;
  if (own.empty()) return call;
  Call& caller = CallOf(call);
  auto [made, fresh] = caller.made.try_emplace(own.data());
  if (fresh) made.value() = Made(caller, own);
  return made.value();
}

std::string_view InlinedMetadata::Made(const Call& call, std::string_view own) {
  std::string_view name;
  rest_.clear();
  bool has_place = false;
  for (const auto& [field, value] : ParseFrontendAttributes(own)) {
    if (field == "op_name") {
      name = WithoutQuotes(value);
      continue;
    }
    has_place = has_place || IsPlace(field);
    if (field == "stack_frame_id" && call.frame > 0) {
      Append(rest_, field, {});
      AppendInteger(rest_, Joined(NumberOf(value), call));
    } else {
      Append(rest_, field, value);
    }
  }
  text_.clear();
  if (!name.empty() || !call.op_name.empty()) {
    text_ += " op_name=\"";
    if (name.empty()) {
      text_ += call.op_name;
    } else {
      if (!call.op_name.empty() && !IsNamedFromStart(name, call.op_name)) {
        text_.append(call.op_name).append(1, '/');
      }
      text_ += name;
    }
    text_ += '"';
  }
  text_ += rest_;
  if (!has_place) text_ += call.place;
  if (text_.empty()) return own;
  text_.front() = '{';
  text_ += '}';
  return module_.arena().Copy(std::string_view(text_));
}

const InlinedMetadata::Frame* InlinedMetadata::FrameOf(int64_t number) const {
  if (number <= 0 || number >= static_cast<int64_t>(frames_.size())) return nullptr;
  const Frame* frame = &frames_[static_cast<size_t>(number)];
  return frame->location >= 0 ? frame : nullptr;
}

int64_t InlinedMetadata::Joined(int64_t own, const Call& call) {
  ReadFrames();
  if (FrameOf(own) == nullptr) return own;
  stack_.clear();  // what of it was not joined yet, the innermost first
  int64_t caller = call.frame;
  bool is_called_from_there = false;
  int64_t number = own;
  for (const Frame* frame; (frame = FrameOf(number)) != nullptr; number = frame->parent) {
    if (const auto known = call.joined->find(number); known != call.joined->end()) {
      caller = known->second;
      is_called_from_there = caller == number;
      break;
    }
    stack_.push_back(number);
    if (stack_.size() > kMaxCallDepth) return own;
  }
  for (auto inner = stack_.rbegin(); inner != stack_.rend(); ++inner) {
    caller = is_called_from_there ? *inner : NewFrame(FrameOf(*inner)->location, caller);
    call.joined->emplace(*inner, caller);
  }
  return caller;
}

int64_t InlinedMetadata::NewFrame(int64_t location, int64_t parent) {
  const auto number = static_cast<int64_t>(frames_.size());
  frames_.push_back({location, parent});
  rows_ += '\n';
  AppendInteger(rows_, number);
  rows_ += " {file_location_id=";
  AppendInteger(rows_, location);
  rows_ += " parent_frame_id=";
  AppendInteger(rows_, parent + 1);
  rows_ += '}';
  return number;
}

void InlinedMetadata::WriteFrames() {
  if (rows_.empty()) return;
  const std::string_view tables = module_.debug_tables();
  const auto end = static_cast<size_t>(rows_end_ - tables.data());
  std::string text;
  text.reserve(tables.size() + rows_.size());
  text.append(tables.substr(0, end)).append(rows_).append(tables.substr(end));
  module_.set_debug_tables(module_.arena().Copy(std::string_view(text)));
  rows_.clear();
}

}  // namespace gshard
