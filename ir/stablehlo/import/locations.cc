#include "ir/stablehlo/import/locations.h"

#include <fmt/format.h>

#include "ir/metadata.h"
#include "ir/stablehlo/syntax/attribute.h"
#include "ir/stablehlo/syntax/lexer.h"

namespace gshard::stablehlo {
namespace {

constexpr int kMaxDepth = 500;
constexpr int kMaxSteps = 5000;  // of one location: aliases can make it exponentially long

std::string StringOf(std::string_view quoted) {
  std::string value;
  ReadString(quoted, value);
  return value;
}

// "jit(f)/while/body/dot_general" -> "dot_general", "jit(relu)" -> "jit_relu_".
std::string BaseNameOf(std::string_view op_name) {
  const size_t slash = op_name.rfind('/');
  std::string name(slash == op_name.npos ? op_name : op_name.substr(slash + 1));
  for (char& c : name) {
    if (!HasClass(c, kNameContinue)) c = '_';
  }
  if (!name.empty() && !HasClass(name[0], kNameStart)) name.insert(0, 1, '_');
  return name.size() > 200 ? name.substr(0, 200) : name;
}

// The text of one location of a call site: an alias, a place in a file, a name or a nested one.
std::string_view TakeSite(Lexer& sites) {
  sites.SkipSpace();
  const char* start = sites.position();
  if (sites.Raw() == '#') {
    sites.Advance();
    sites.Suffix();
  } else if (sites.Raw() == '"') {
    sites.String();
    if (sites.Raw() == ':') {
      int64_t number = 0;
      while (sites.Consume(':') && sites.Integer(number)) {
      }
      if (sites.ConsumeWord("to")) {
        sites.Integer(number);
        if (sites.Consume(':')) sites.Integer(number);
      }
    } else {
      sites.Balanced();
    }
  } else {
    sites.Identifier();
    if (sites.Raw() == '<') sites.Balanced();
    sites.Balanced();
  }
  return sites.Since(start);
}

}  // namespace

int64_t Locations::IdOf(std::map<std::string, int64_t, std::less<>>& ids,
                        std::vector<std::string>& list, const std::string& text) {
  const auto [it, fresh] = ids.try_emplace(text, static_cast<int64_t>(list.size()) + 1);
  if (fresh) list.push_back(text);
  return it->second;
}

int64_t Locations::FrameOf(const Place& place, int64_t parent) {
  if (place.file.empty()) return parent;
  const int64_t file = IdOf(file_ids_, files_, Quoted(place.file));
  const int64_t function = IdOf(function_ids_, functions_, Quoted(place.function));
  const int64_t location =
      IdOf(location_ids_, locations_,
           fmt::format("{{file_name_id={} function_name_id={} line={} end_line={} column={} "
                       "end_column={}}}",
                       file, function, place.line, place.end_line, place.column, place.end_column));
  // A frame without a parent has 1 as its parent, others the parent's number plus one, as XLA
  // prints them.
  return IdOf(frame_ids_, frames_,
              fmt::format("{{file_location_id={} parent_frame_id={}}}", location, parent + 1));
}

void Locations::ReadNamed(std::string_view quoted, std::string_view rest, int64_t parent, int depth,
                          Place& place) {
  Lexer lexer(rest);
  if (!lexer.Consume(':')) {
    Place child;
    const std::string_view inner = lexer.Balanced();
    if (inner.size() > 2) Read(inner.substr(1, inner.size() - 2), parent, depth + 1, child);
    const bool is_function = child.op_name.empty() && child.function.empty() &&
                             !child.file.empty() && child.frame == parent;
    const std::string name = StringOf(quoted);
    if (is_function) child.function = name;
    place = child;
    place.op_name = name;
    return;
  }
  place.file = StringOf(quoted);
  lexer.Integer(place.line);
  if (lexer.Consume(':')) lexer.Integer(place.column);
  place.end_line = place.line;
  place.end_column = place.column;
  if (!lexer.ConsumeWord("to")) return;
  lexer.Integer(place.end_line);
  if (lexer.Consume(':')) lexer.Integer(place.end_column);
}

// The first part of a fused location that names a place.
void Locations::ReadFused(std::string_view parts_text, int64_t parent, int depth, Place& place) {
  Lexer parts(parts_text);
  do {
    const std::string_view part = parts.Element();
    if (part.empty()) break;
    Place candidate;
    Read(part, parent, depth + 1, candidate);
    if (place.op_name.empty()) place.op_name = candidate.op_name;
    if (place.file.empty() && !candidate.file.empty()) {
      candidate.op_name = place.op_name;
      place = candidate;
    }
  } while (parts.Consume(','));
}

// callee at caller: the caller is the callee's parent frame.
void Locations::ReadCallSite(std::string_view text, int64_t parent, int depth, Place& place) {
  Lexer sites(text);
  const std::string_view callee = TakeSite(sites);
  Place caller;
  caller.frame = parent;
  if (sites.ConsumeWord("at")) Read(TakeSite(sites), parent, depth + 1, caller);
  const int64_t frame = caller.file.empty() ? caller.frame : FrameOf(caller, caller.frame);
  Read(callee, frame, depth + 1, place);
}

void Locations::Read(std::string_view text, int64_t parent, int depth, Place& place) {
  place.frame = parent;
  if (depth > kMaxDepth || ++steps_ > kMaxSteps) return;
  Lexer lexer(text);
  lexer.SkipSpace();
  if (lexer.Raw() == '#') {
    const char* start = lexer.position();
    lexer.Advance();
    lexer.Suffix();
    const auto it = program_.aliases.find(lexer.Since(start));
    if (it == program_.aliases.end()) return;
    const std::pair<const char*, int64_t> key(it->second.data(), parent);
    if (const auto read = read_.find(key); read != read_.end()) {
      place = read->second;
      return;
    }
    Read(it->second, parent, depth + 1, place);
    read_.emplace(key, place);
    return;
  }
  if (lexer.Raw() == '"') {
    const std::string_view quoted = lexer.String();
    return ReadNamed(quoted, lexer.Rest(), parent, depth, place);
  }
  const std::string_view word = lexer.Identifier();
  if (word == "fused" && lexer.Peek() == '<') lexer.Balanced();
  const std::string_view inner = lexer.Balanced();
  if (inner.size() < 2) return;
  const std::string_view content = inner.substr(1, inner.size() - 2);
  if (word == "loc") return Read(content, parent, depth + 1, place);
  if (word == "fused") return ReadFused(content, parent, depth, place);
  if (word == "callsite") ReadCallSite(content, parent, depth, place);
}

// Is the outermost location of `text` a name?
bool Locations::IsNamed(std::string_view text) const {
  for (int i = 0; i < kMaxDepth; ++i) {
    Lexer lexer(text);
    lexer.SkipSpace();
    if (lexer.Raw() == '"') return true;
    if (lexer.Raw() == '#') {
      const char* start = lexer.position();
      lexer.Advance();
      lexer.Suffix();
      const auto it = program_.aliases.find(lexer.Since(start));
      if (it == program_.aliases.end()) return false;
      text = it->second;
    } else if (lexer.Consume("loc(")) {
      text = lexer.Rest();
    } else {
      return false;
    }
  }
  return false;
}

Locations::Entry Locations::MakeEntry(std::string_view text) {
  Place place;
  steps_ = 0;
  Read(text, 0, 0, place);
  Entry entry;
  // A name around a place is a function's in a chain of call sites, an operation's by itself.
  if (!place.function.empty() && place.op_name == place.function) {
    (IsNamed(text) ? place.function : place.op_name).clear();
  }
  if (place.op_name.empty() && place.file.empty()) return entry;
  std::string metadata = "{";
  const auto add = [&metadata](const std::string& part) {
    if (metadata.size() > 1) metadata += ' ';
    metadata += part;
  };
  if (!place.op_name.empty()) add("op_name=" + Quoted(place.op_name));
  if (!place.file.empty()) {
    const int64_t frame = FrameOf(place, place.frame);
    add(fmt::format("source_file={} source_line={} stack_frame_id={}", Quoted(place.file),
                    place.line, frame));
  }
  metadata += '}';
  entry.metadata = arena_.Copy(std::string_view(metadata));
  entry.op_name = arena_.Copy(std::string_view(place.op_name));
  entry.base_name = arena_.Copy(std::string_view(BaseNameOf(place.op_name)));
  return entry;
}

const Locations::Entry& Locations::Of(std::string_view text) {
  static const Entry nothing;
  if (text.empty() || text == "unknown") return nothing;
  if (const auto it = entries_.find(text); it != entries_.end()) return it->second;
  return entries_.emplace(text, MakeEntry(text)).first->second;
}

std::string Locations::DebugTables() const {
  if (frames_.empty()) return {};
  std::string text;
  // As the parser of HLO text takes them: no line ends behind the last row.
  const auto add = [&text](std::string_view title, const std::vector<std::string>& rows) {
    if (!text.empty()) text += "\n\n";
    text += title;
    for (size_t i = 0; i < rows.size(); ++i) {
      text += fmt::format("\n{} {}", i + 1, rows[i]);
    }
  };
  add("FileNames", files_);
  add("FunctionNames", functions_);
  add("FileLocations", locations_);
  add("StackFrames", frames_);
  return text;
}

}  // namespace gshard::stablehlo
