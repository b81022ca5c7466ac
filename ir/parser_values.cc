// The values of attributes: numbers, words, lists, windows, labels, groups.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/dim_labels.h"
#include "ir/metadata.h"
#include "ir/module_parser.h"
#include "ir/sharding_text.h"

namespace gshard {

bool ModuleParser::ParseInt(int64_t& value, std::string_view what) {
  const Lexer::Number result = lexer_.Integer(value);
  return result == Lexer::Number::kOk || FailNumber(result, what);
}

bool ModuleParser::ParseBool(bool& value) {
  const std::string_view word = lexer_.Identifier();
  if (word == "true" || word == "false") {
    value = word == "true";
    return true;
  }
  if (!word.empty()) lexer_.set_position(word.data());
  return FailExpected("true or false");
}

bool ModuleParser::ParseDouble(double& value) {
  lexer_.SkipSpace();
  const auto result = std::from_chars(lexer_.position(), lexer_.end(), value);
  if (result.ec != std::errc()) return FailExpected("a number");
  lexer_.set_position(result.ptr);
  return true;
}

bool ModuleParser::ParseDims(Dims& dims) {
  lexer_.SkipSpace();
  const Open open(this, "list of integers");
  if (!Expect('{', "before a list of integers")) return false;
  const size_t first = integers_.size();
  if (!lexer_.Consume('}')) {
    do {
      int64_t value = 0;
      if (!ParseInt(value, "an integer")) return false;
      integers_.push_back(value);
    } while (lexer_.Consume(','));
    if (!Expect('}', "at the end of a list of integers")) return false;
  }
  dims = module_->arena().Copy(std::span<const int64_t>(integers_).subspan(first));
  integers_.resize(first);
  return true;
}

bool ModuleParser::ParseOneDim(int64_t& dim) {
  return Expect('{', "before a dimension") && ParseInt(dim, "a dimension number") &&
         Expect('}', "after the dimension: there can be only one");
}

bool ModuleParser::ParseWord(const AttributeRow& row, size_t& index, std::string_view& word) {
  word = lexer_.Identifier();
  if (word.empty()) return FailExpected(fmt::format("one of {}", Listed(row.words)));
  const auto it = std::find(row.words.begin(), row.words.end(), word);
  if (it != row.words.end()) {
    index = static_cast<size_t>(it - row.words.begin());
    return true;
  }
  NearestWord nearest(word);
  for (std::string_view known : row.words) nearest.Offer(known);
  return FailAt(ParseError::kAttributeValue, word,
                fmt::format("'{}' is no value of '{}': expected one of {}", word, row.name,
                            Listed(row.words)),
                nearest.Hint());
}

// The inside of a string, escaped as between double quotes.
bool ModuleParser::ParseString(std::string_view& text) {
  const std::string_view quoted = lexer_.String();
  if (quoted.empty()) return FailUnclosed("a string");
  text = quoted.substr(1, quoted.size() - 2);
  if (quoted[0] == '\'' && text.find('"') != text.npos) {
    const std::string requoted = Quoted(Unquoted(quoted));
    text = module_->arena().Copy(std::string_view(requoted).substr(1, requoted.size() - 2));
  }
  return true;
}

// Balanced brackets, a string, or a word or number.
bool ModuleParser::ParseRaw(std::string_view& text) {
  const char c = lexer_.Peek();
  if (c == '{' || c == '(' || c == '[') {
    text = lexer_.Balanced();
  } else if (c == '"' || c == '\'') {
    text = lexer_.String();
  } else {
    const char* start = lexer_.position();
    while (HasClass(lexer_.Raw(), kNameContinue)) lexer_.Advance();
    text = lexer_.Since(start);
    if (text.empty()) return FailExpected("a value");
  }
  return !text.empty() || FailUnclosed("a value");
}

// {[0:4], [1:9:2]}
bool ModuleParser::ParseSlice(SliceAttributes& slice) {
  lexer_.SkipSpace();
  const Open open(this, "slice");
  if (!Expect('{', "before the ranges of a slice")) return false;
  const size_t first = integers_.size();
  if (!lexer_.Consume('}')) {
    do {
      int64_t start = 0;
      int64_t limit = 0;
      int64_t stride = 1;
      if (!Expect('[', "before a range") || !ParseInt(start, "the start of a range") ||
          !Expect(':', "after the start of a range") || !ParseInt(limit, "the limit of a range")) {
        return false;
      }
      if (lexer_.Consume(':') && !ParseInt(stride, "a stride")) return false;
      if (!Expect(']', "after a range")) return false;
      integers_.insert(integers_.end(), {start, limit, stride});
    } while (lexer_.Consume(','));
    if (!Expect('}', "after the ranges of a slice")) return false;
  }
  const size_t rank = (integers_.size() - first) / 3;
  const auto starts = module_->arena().NewSpan<int64_t>(rank);
  const auto limits = module_->arena().NewSpan<int64_t>(rank);
  const auto strides = module_->arena().NewSpan<int64_t>(rank);
  for (size_t i = 0; i < rank; ++i) {
    starts[i] = integers_[first + 3 * i];
    limits[i] = integers_[first + 3 * i + 1];
    strides[i] = integers_[first + 3 * i + 2];
  }
  slice = {starts, limits, strides};
  integers_.resize(first);
  return true;
}

// 0_1x2_3_1
bool ModuleParser::ParsePadding(std::span<const PadDim>& padding) {
  std::vector<PadDim> dims;
  lexer_.SkipSpace();
  if (lexer_.Raw() != '-' && !HasClass(lexer_.Raw(), kDigit)) {
    return FailExpected("padding, such as 0_1x2_3_1");
  }
  do {
    PadDim dim;
    if (!ParseInt(dim.low, "low padding") || !Expect('_', "between low and high padding") ||
        !ParseInt(dim.high, "high padding")) {
      return false;
    }
    if (lexer_.Raw() == '_') {
      lexer_.Advance();
      if (!ParseInt(dim.interior, "interior padding")) return false;
    }
    dims.push_back(dim);
    if (lexer_.Raw() != 'x') break;
    lexer_.Advance();
  } while (true);
  padding = module_->arena().Copy(dims);
  return true;
}

// {size=3x3 stride=2x2 pad=0_1x1_0 lhs_dilate=1x2 rhs_dilate=1x1 rhs_reversal=0x1}
bool ModuleParser::ParseWindow(std::span<const WindowDim>& window) {
  lexer_.SkipSpace();
  const Open open(this, "window");
  if (!Expect('{', "of a window")) return false;
  std::vector<WindowDim> dims;
  bool has_rank = false;
  constexpr std::string_view kFields[] = {"size",       "stride",     "pad",
                                          "lhs_dilate", "rhs_dilate", "rhs_reversal"};
  while (!lexer_.Consume('}')) {
    if (lexer_.Consume(',')) continue;
    const std::string_view field = lexer_.Identifier();
    const auto it = std::find(std::begin(kFields), std::end(kFields), field);
    if (field.empty() || it == std::end(kFields)) {
      if (!field.empty()) lexer_.set_position(field.data());
      return FailExpected(fmt::format("'}}' or one of {}", Listed(kFields)));
    }
    if (!Expect('=', "after the name of a window field")) return false;
    lexer_.SkipSpace();
    const char* start = lexer_.position();
    size_t i = 0;
    for (;; ++i) {
      if (!has_rank) dims.emplace_back();
      WindowDim ignored;
      WindowDim& dim = i < dims.size() ? dims[i] : ignored;
      int64_t value = 0;
      if (!ParseInt(value, "an integer")) return false;
      switch (it - std::begin(kFields)) {
        case 0:
          dim.size = value;
          break;
        case 1:
          dim.stride = value;
          break;
        case 2:
          dim.pad_low = value;
          if (!Expect('_', "between low and high padding") ||
              !ParseInt(dim.pad_high, "high padding")) {
            return false;
          }
          break;
        case 3:
          dim.base_dilation = value;
          break;
        case 4:
          dim.window_dilation = value;
          break;
        default:
          dim.reversal = value != 0;
          break;
      }
      if (lexer_.Raw() != 'x') break;
      lexer_.Advance();
    }
    has_rank = true;
    if (i + 1 != dims.size()) {
      return FailAt(ParseError::kAttributeValue, lexer_.Since(start),
                    fmt::format("window field '{}' is for {} dimensions, those before are for {}",
                                field, i + 1, dims.size()));
    }
  }
  window = module_->arena().Copy(dims);
  return true;
}

// b01f_01io->b01f
bool ModuleParser::ParseDimLabels(std::string_view& labels) {
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  const auto is_label = [](char c) {
    return HasClass(c, kDigit) || c == 'b' || c == 'f' || c == 'i' || c == 'o' || c == '?';
  };
  int parts = 0;
  while (true) {
    const char* part = lexer_.position();
    while (is_label(lexer_.Raw())) lexer_.Advance();
    if (lexer_.position() - part < 2) {
      return FailExpected("dimension labels, such as b01f_01io->b01f");
    }
    if (++parts == 3) break;
    const std::string_view separator = parts == 1 ? "_" : "->";
    if (!Expect(separator, "in dimension labels")) return false;
  }
  labels = lexer_.Since(start);
  return true;
}

bool ModuleParser::PlaceDimLabels(ConvolutionAttributes& convolution) {
  const std::string_view labels = convolution.dim_labels;
  if (auto wrong = gshard::PlaceDimLabels(module_->arena(), convolution)) {
    return FailAt(ParseError::kAttributeValue, wrong->labels, wrong->message);
  }
  if (convolution.input_spatial.size() != convolution.window.size() ||
      convolution.kernel_spatial.size() != convolution.window.size() ||
      convolution.output_spatial.size() != convolution.window.size()) {
    return FailAt(
        ParseError::kAttributeValue, labels,
        fmt::format("the window has {} dimensions, the labels have {}, {} and {}",
                    convolution.window.size(), convolution.input_spatial.size(),
                    convolution.kernel_spatial.size(), convolution.output_spatial.size()));
  }
  return true;
}

// XLA takes "HIGHEST" too.
bool ModuleParser::ParsePrecisionWord(const AttributeRow& row, size_t& index,
                                      std::string_view& word) {
  const char* start = lexer_.position();
  std::string lower(lexer_.Identifier());
  for (char& c : lower) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
  }
  const auto it = std::find(row.words.begin(), row.words.end(), lower);
  if (it == row.words.end()) {
    lexer_.set_position(start);
    return ParseWord(row, index, word);
  }
  index = static_cast<size_t>(it - row.words.begin());
  return true;
}

bool ModuleParser::ParsePrecision(std::span<const Precision>& precision) {
  lexer_.SkipSpace();
  const Open open(this, "operand_precision");
  if (!Expect('{', "of operand_precision")) return false;
  AttributeRow row = Attribute("operand_precision", AttributeKind::kWord);
  row.words = kPrecisionWords;
  std::vector<Precision> values;
  bool all_default = true;
  if (!lexer_.Consume('}')) {
    do {
      size_t index = 0;
      std::string_view word;
      if (!ParsePrecisionWord(row, index, word)) return false;
      values.push_back(static_cast<Precision>(index));
      all_default &= values.back() == Precision::kDefault;
    } while (lexer_.Consume(','));
    if (!Expect('}', "after operand_precision")) return false;
  }
  precision = all_default ? std::span<const Precision>{} : module_->arena().Copy(values);
  return true;
}

// {{0,1},{2,3}}, {}, [2,4]<=[8]T(0), mesh['x'=2,'y'=2], device_ids=(..) {'x'}
bool ModuleParser::ParseReplicaGroups(const ReplicaGroups*& groups) {
  const char c = lexer_.Peek();
  const char* start = lexer_.position();
  bool closed = true;
  if (c == '{') {
    closed = !lexer_.Balanced().empty();
  } else if (c == '[') {
    closed = !lexer_.Balanced().empty();
    if (closed && lexer_.Consume("<=")) {
      closed = !lexer_.Balanced().empty();
      const char* behind = lexer_.position();
      if (closed && lexer_.Consume('T')) {
        closed = !lexer_.Balanced().empty();
      } else {
        lexer_.set_position(behind);
      }
    }
  } else if (lexer_.ConsumeWord("mesh")) {
    closed = !lexer_.Balanced().empty();
    if (closed && lexer_.Consume(',')) {
      if (!lexer_.ConsumeWord("device_ids") || !lexer_.Consume('=')) {
        return FailExpected("device_ids=");
      }
      closed = !lexer_.Balanced().empty();
    }
    closed = closed && !lexer_.Balanced().empty();
  } else {
    return FailExpected("replica groups, such as {{0,1},{2,3}} or [2,4]<=[8]");
  }
  if (!closed) return FailUnclosed("a bracket in replica groups");
  const std::string_view text = lexer_.Since(start);
  if (const auto it = groups_of_.find(text); it != groups_of_.end()) {
    groups = it->second;
    return true;
  }
  auto parsed = gshard::ParseReplicaGroups(text);
  if (!parsed.has_value()) {
    const TextError& error = parsed.error();
    return FailAt(ParseError::kAttributeValue,
                  text.substr(std::min(error.offset, text.size()), error.length), error.message);
  }
  groups = module_->Own(*std::move(parsed));
  groups_of_.emplace(text, groups);
  return true;
}

bool ModuleParser::ParseDevicePairs(std::span<const DevicePair>& pairs) {
  lexer_.SkipSpace();
  const Open open(this, "list of device pairs");
  if (!Expect('{', "before the pairs")) return false;
  const size_t first = integers_.size();
  if (!lexer_.Consume('}')) {
    do {
      int64_t source = 0;
      int64_t target = 0;
      if (!Expect('{', "before a pair") || !ParseInt(source, "a device") ||
          !Expect(',', "between source and target") || !ParseInt(target, "a device") ||
          !Expect('}', "after a pair")) {
        return false;
      }
      integers_.insert(integers_.end(), {source, target});
    } while (lexer_.Consume(','));
    if (!Expect('}', "after the pairs")) return false;
  }
  const auto copy = module_->arena().NewSpan<DevicePair>((integers_.size() - first) / 2);
  for (size_t i = 0; i < copy.size(); ++i) {
    copy[i] = {integers_[first + 2 * i], integers_[first + 2 * i + 1]};
  }
  integers_.resize(first);
  pairs = copy;
  return true;
}

bool ModuleParser::ParseShapeList(std::span<const Shape* const>& shapes) {
  lexer_.SkipSpace();
  const Open open(this, "list of shapes");
  if (!Expect('{', "before the shapes")) return false;
  const size_t first = shapes_.size();
  if (!lexer_.Consume('}')) {
    do {
      const Shape* shape = nullptr;
      if (!ParseShape(shape)) return false;
      shapes_.push_back(shape);
    } while (lexer_.Consume(','));
    if (!Expect('}', "after the shapes")) return false;
  }
  shapes = module_->arena().Copy(std::span<const Shape* const>(shapes_).subspan(first));
  shapes_.resize(first);
  return true;
}

}  // namespace gshard
