#include "ir/proto/texts.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <span>
#include <utility>
#include <vector>

#include "ir/lexer.h"
#include "ir/metadata.h"
#include "ir/proto/wire.h"

namespace gshard::proto {
namespace {

constexpr int kMaxOriginDepth = 250;

// Whether none of eight bytes is escaped in quotes: all are ASCII from the blank on and none of
// "'\\ or 0x7f. A byte of (x - 0x01..) & ~x & 0x80.. is set where one of x is 0, and perhaps above
// it.
bool IsPlainWord(const char* bytes) {
  constexpr uint64_t kOnes = 0x0101010101010101, kTops = 0x8080808080808080;
  uint64_t word = 0;
  std::memcpy(&word, bytes, sizeof(word));
  const auto with = [word](uint64_t byte) {
    const uint64_t x = word ^ (kOnes * byte);
    return (x - kOnes) & ~x;
  };
  const uint64_t below_blank = (word - kOnes * 0x20) & ~word;
  const uint64_t escaped = word | below_blank | with('"') | with('\'') | with('\\') | with(0x7f);
  return (escaped & kTops) == 0;
}

// In double quotes with C escapes, as XLA prints strings: quotes of both kinds and bytes that are
// not ASCII are escaped.
void AppendQuoted(std::string_view text, std::string& out) {
  static constexpr std::array<bool, 256> kIsPlain = [] {
    std::array<bool, 256> plain{};
    for (size_t byte = 0x20; byte < 0x7f; ++byte) plain[byte] = true;
    plain['"'] = plain['\''] = plain['\\'] = false;
    return plain;
  }();
  out += '"';
  for (size_t at = 0; at < text.size(); ++at) {
    const size_t begin = at;
    while (at + 8 <= text.size() && IsPlainWord(text.data() + at)) at += 8;
    while (at < text.size() && kIsPlain[static_cast<unsigned char>(text[at])]) ++at;
    out.append(text.substr(begin, at - begin));
    if (at == text.size()) break;
    const size_t known = std::string_view("\n\r\t\"'\\").find(text[at]);
    if (known != std::string_view::npos) {
      out += '\\';
      out += "nrt\"'\\"[known];
    } else {
      out += fmt::format("\\{:03o}", static_cast<unsigned char>(text[at]));
    }
  }
  out += '"';
}

// Fields of a message in braces, separated by blanks.
class Braces {
 public:
  explicit Braces(std::string& out) : out_(out) {}
  void Add(std::string_view name, std::string_view text) {
    if (text.empty()) return;
    Begin(name);
    AppendQuoted(text, out_);
  }
  void Add(std::string_view name, int64_t value) {
    if (value == 0) return;
    Begin(name);
    const fmt::format_int digits(value);
    out_.append(digits.data(), digits.size());
  }
  void Begin(std::string_view name) {
    out_ += open_ ? ' ' : '{';
    out_ += name;
    out_ += '=';
    open_ = true;
  }
  void End() {
    if (open_) out_ += '}';
  }

 private:
  std::string& out_;
  bool open_ = false;
};

bool AppendIndex(const std::vector<int64_t>& index, std::string& out) {
  out += fmt::format("{{{}}}", fmt::join(index, ","));
  return true;
}

// As XLA prints doubles here: the shortest text.
std::string Double(double value) { return fmt::format("{}", value); }

// Columns of a table in the order of the text.
struct Column {
  uint32_t field;
  std::string_view head;
};
constexpr std::array<Column, 6> kLocation = {{{1, "file_name_id="},
                                              {2, "function_name_id="},
                                              {3, "line="},
                                              {5, "end_line="},
                                              {4, "column="},
                                              {6, "end_column="}}};
constexpr std::array<Column, 2> kFrame = {{{1, "file_location_id="}, {2, "parent_frame_id="}}};

// "{line=1 column=2}", appended at once: tables have thousands of rows.
bool AppendRow(std::string_view bytes, std::span<const Column> columns, int64_t add_to_last,
               std::string& out) {
  constexpr size_t kMaxOfColumn = 40;  // of a head, a blank and the digits of 64 bits
  std::array<int64_t, kLocation.size() + 1> values{};
  FieldReader field(bytes);
  while (field.Next()) {
    if (field.number() < values.size()) values[field.number()] = field.integer();
  }
  values[columns.back().field] += add_to_last;
  char row[kLocation.size() * kMaxOfColumn];
  char* end = row;
  for (const Column& column : columns) {  // zeros, too: XLA's parser wants every one
    const fmt::format_int digits(values[column.field]);
    const char before = end == row ? '{' : ' ';
    *end++ = before;
    end = std::copy(column.head.begin(), column.head.end(), end);
    end = std::copy_n(digits.data(), digits.size(), end);
  }
  *end++ = '}';
  out.append(row, end);
  return field.ok();
}

}  // namespace

bool AppendMetadata(std::string_view bytes, std::string& out) {
  std::string_view op_type, op_name, file, deduplicated, scheduling;
  int64_t line = 0, frame = 0, end_line = 0, column = 0, end_column = 0;
  std::vector<int64_t> profile_types;
  FieldReader field(bytes);
  while (field.Next()) {
    switch (field.number()) {
      case 1:
        op_type = field.bytes();
        break;
      case 2:
        op_name = field.bytes();
        break;
      case 3:
        file = field.bytes();
        break;
      case 4:
        line = field.integer();
        break;
      case 5:
        field.AppendTo(profile_types);
        break;
      case 12:
        deduplicated = field.bytes();
        break;
      case 15:
        frame = field.integer();
        break;
      case 16:
        scheduling = field.bytes();
        break;
      case 17:
        end_line = field.integer();
        break;
      case 18:
        column = field.integer();
        break;
      case 19:
        end_column = field.integer();
        break;
      default:
        break;
    }
  }
  Braces braces(out);
  braces.Add("op_type", op_type);
  braces.Add("op_name", op_name);
  braces.Add("source_file", file);
  braces.Add("source_line", line);
  braces.Add("source_end_line", end_line);
  braces.Add("source_column", column);
  braces.Add("source_end_column", end_column);
  if (!profile_types.empty()) {
    braces.Begin("profile_type");
    AppendIndex(profile_types, out);
  }
  braces.Add("deduplicated_name", deduplicated);
  braces.Add("scheduling_name", scheduling);
  braces.Add("stack_frame_id", frame);
  braces.End();
  return field.ok();
}

bool AppendBareOrQuoted(std::string_view text, std::string& out) {
  if (text.empty()) return true;
  const auto plain = [](char c) { return static_cast<unsigned char>(c) >= 0x20; };
  if (text[0] == '{' && std::all_of(text.begin(), text.end(), plain) &&
      Lexer(text).JsonDict().size() == text.size()) {
    out += text;
  } else {
    AppendQuoted(text, out);
  }
  return true;
}

std::string_view Escaped(std::string_view text, Arena& arena) {
  const std::string quoted = Quoted(text);
  if (quoted.size() == text.size() + 2) return text;
  return arena.Copy(std::string_view(quoted).substr(1, quoted.size() - 2));
}

bool AppendFrontendAttributes(std::string_view bytes, std::string& out) {
  std::vector<std::pair<std::string_view, std::string_view>> entries;
  FieldReader field(bytes);
  bool ok = true;
  while (field.Next()) {
    if (field.number() != 1) continue;
    auto& entry = entries.emplace_back();
    FieldReader pair(field.bytes());
    while (pair.Next()) {
      if (pair.number() == 1) entry.first = pair.bytes();
      if (pair.number() == 2) entry.second = pair.bytes();
    }
    ok = ok && pair.ok() && Lexer(entry.first).Identifier() == entry.first && !entry.first.empty();
  }
  if (!ok || !field.ok()) return false;
  std::stable_sort(entries.begin(), entries.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
  for (size_t i = 0; i < entries.size(); ++i) {
    out.append(i == 0 ? "{" : ",").append(entries[i].first).append(1, '=');
    if (entries[i].second.empty()) out += "\"\"";
    AppendBareOrQuoted(entries[i].second, out);
  }
  if (!entries.empty()) out += '}';
  return true;
}

bool AppendStackFrames(std::string_view bytes, std::string& out) {
  constexpr const char* kTitles[] = {"FileNames", "FunctionNames", "FileLocations", "StackFrames"};
  std::vector<std::string_view> tables[4];
  FieldReader field(bytes);
  while (field.Next()) {
    if (field.number() >= 1 && field.number() <= 4) {
      tables[field.number() - 1].push_back(field.bytes());
    }
  }
  bool ok = field.ok();
  for (size_t table = 0; table < 4; ++table) {
    if (tables[table].empty()) continue;
    out.append(out.empty() ? "" : "\n\n").append(kTitles[table]);
    int64_t number = 0;
    for (std::string_view row : tables[table]) {
      const fmt::format_int digits(++number);
      out.append(1, '\n').append(digits.data(), digits.size()).append(1, ' ');
      if (table < 2) AppendQuoted(row, out);
      if (table == 2) ok = AppendRow(row, kLocation, 0, out) && ok;
      // Text counts parents from 1, and a frame without one from itself.
      if (table == 3) ok = AppendRow(row, kFrame, 1, out) && ok;
    }
  }
  return ok;
}

bool AppendOrigin(std::string_view bytes, std::string& out) {
  // Leaves {1 index*, 2 array{1 name, 2 index*}} in pre-order: the indices say how they nest.
  struct Leaf {
    std::vector<int64_t> index;
    std::string text;
  };
  std::vector<Leaf> leaves;
  FieldReader field(bytes);
  bool ok = true;
  while (ok && field.Next()) {
    if (field.number() != 1) continue;
    Leaf& leaf = leaves.emplace_back();
    FieldReader part(field.bytes());
    while (ok && part.Next()) {
      if (part.number() == 1) ok = part.AppendTo(leaf.index);
      if (part.number() != 2) continue;
      std::string_view name;
      std::vector<int64_t> index;
      FieldReader array(part.bytes());
      while (ok && array.Next()) {
        if (array.number() == 1) name = array.bytes();
        if (array.number() == 2) ok = array.AppendTo(index);
      }
      ok = ok && array.ok();
      AppendQuoted(name, leaf.text);
      if (!index.empty()) {
        leaf.text += ' ';
        AppendIndex(index, leaf.text);
      }
    }
    ok = ok && part.ok() && leaf.index.size() < kMaxOriginDepth;
  }
  if (!ok || !field.ok()) return false;
  if (leaves.empty()) return true;
  out += '{';
  std::vector<int64_t> open;  // the index of the leaf before
  for (const Leaf& leaf : leaves) {
    size_t same = 0;
    while (same < open.size() && same < leaf.index.size() && open[same] == leaf.index[same]) ++same;
    if (&leaf != leaves.data()) {
      for (size_t i = same + 1; i < open.size(); ++i) out += ')';
      out += ", ";
      for (size_t i = same + 1; i < leaf.index.size(); ++i) out += '(';
    } else {
      out.append(leaf.index.size(), '(');
    }
    out += fmt::format("{{{}}}", leaf.text);
    open = leaf.index;
  }
  out.append(open.size(), ')').append(1, '}');
  return true;
}

bool AppendStatistics(std::string_view bytes, std::string& out) {
  int64_t index = 0;
  std::string values;
  FieldReader field(bytes);
  bool ok = true;
  while (field.Next()) {
    if (field.number() == 1) index = field.integer();
    if (field.number() != 2) continue;
    std::string_view name;
    double value = 0;
    FieldReader pair(field.bytes());
    while (pair.Next()) {
      if (pair.number() == 1) name = pair.bytes();
      if (pair.number() == 2) value = pair.real();
    }
    ok = ok && pair.ok();
    values.append(",").append(name).append("=").append(Double(value));
  }
  if (!ok || !field.ok()) return false;
  if (!values.empty()) out += fmt::format("{{visualizing_index={}{}}}", index, values);
  return true;
}

bool AppendResultAccuracy(std::string_view bytes, std::string& out) {
  FieldReader field(bytes);
  while (field.Next()) {
    if (field.number() == 1 && field.integer() == 1) out += "{mode=highest}";
    if (field.number() != 2) continue;
    double atol = 0, rtol = 0;
    int64_t ulps = 0;
    FieldReader tolerance(field.bytes());
    while (tolerance.Next()) {
      if (tolerance.number() == 1) atol = tolerance.real();
      if (tolerance.number() == 2) rtol = tolerance.real();
      if (tolerance.number() == 3) ulps = tolerance.integer();
    }
    if (!tolerance.ok()) return false;
    out +=
        fmt::format("{{tolerance={{atol={},rtol={},ulps={}}}}}", Double(atol), Double(rtol), ulps);
  }
  return field.ok();
}

bool AppendOperandAliasing(std::string_view bytes, std::string& out) {
  std::vector<int64_t> output, index;
  int64_t operand = 0;
  FieldReader field(bytes);
  bool ok = true;
  while (ok && field.Next()) {
    if (field.number() == 1) ok = field.AppendTo(output);
    if (field.number() == 2) operand = field.integer();
    if (field.number() == 3) ok = field.AppendTo(index);
  }
  AppendIndex(output, out);
  out += fmt::format(": ({}, ", operand);
  AppendIndex(index, out);
  out += ')';
  return ok && field.ok();
}

std::optional<std::string_view> TextReader::ReadNonempty(std::string_view bytes) {
  const uint32_t id = known_.Intern(bytes);
  if (id < texts_.size()) return texts_[id];
  text_.clear();
  if (!append_(bytes, text_)) return std::nullopt;
  return texts_.emplace_back(arena_->Copy(std::string_view(text_)));
}

}  // namespace gshard::proto
