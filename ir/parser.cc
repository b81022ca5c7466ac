// The module level of the parser: errors, header, debug tables, computations.
#include "ir/parser.h"

#include <fmt/format.h>

#include <algorithm>

#include "ir/module_parser.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

constexpr size_t kMaxNesting = 250;
constexpr std::string_view kHowToPrint =
    "print HLO text from JAX with jax.jit(f).lower(*args).as_text('hlo', debug_info=True)";

constexpr std::string_view kHeaderAttributes[] = {
    "is_scheduled",
    "input_output_alias",
    "buffer_donor",
    "alias_passthrough_params",
    "entry_computation_layout",
    "allow_spmd_sharding_propagation_to_parameters",
    "allow_spmd_sharding_propagation_to_output",
    "replica_count",
    "num_partitions",
    "frontend_attributes",
    "origin_recovery_table",
    "debug_attributes",
    "meshes",
};

// A few stray bytes do not make a text binary; the parser points at them.
bool IsBinary(std::string_view head) {
  const auto is_control = [](char c) {
    const auto byte = static_cast<unsigned char>(c);
    return byte < 0x20 && !HasClass(c, kSpace) && c != '\f';
  };
  const auto controls = static_cast<size_t>(std::count_if(head.begin(), head.end(), is_control));
  return head.find('\0') != head.npos || controls > 8 + head.size() / 64 ||
         (head.size() > 1 && head[0] == '\n' && is_control(head[1]));
}

}  // namespace

// --- errors and nesting

ModuleParser::ModuleParser(std::shared_ptr<const SourceText> source,
                           std::shared_ptr<Context> context)
    : source_(std::move(source)), context_(std::move(context)), lexer_(source_->text()) {
  if (context_ == nullptr) context_ = std::make_shared<Context>();
  module_ = std::make_unique<Module>("", context_);
  module_->set_source(source_);
}

bool ModuleParser::Open::TooDeep() const {
  if (parser_->open_.size() <= kMaxNesting) return false;
  parser_->Fail(ParseError::kNesting, parser_->HereRange(),
                fmt::format("nested more than {} levels deep", kMaxNesting));
  return true;
}

Diagnostic ModuleParser::NoteAt(SourceRange range, std::string message) const {
  return source_->Locate(range, Severity::kNote, {}, std::move(message));
}

bool ModuleParser::Fail(ParseError error, SourceRange range, std::string message,
                        std::string hint) {
  if (error_.has_value()) return false;
  error_ = source_->Locate(range, Severity::kError, CodeOf(error), std::move(message));
  error_->hint = std::move(hint);
  if (error == ParseError::kTruncated && !open_.empty()) {
    const OpenPlace& place = open_.back();
    error_->notes.push_back(
        NoteAt({place.offset, place.offset + 1},
               place.name.empty() ? fmt::format("{} opened here", place.what)
                                  : fmt::format("{} '{}' opened here", place.what, place.name)));
  }
  return false;
}

bool ModuleParser::FailAt(ParseError error, std::string_view view, std::string message,
                          std::string hint) {
  return Fail(error, lexer_.RangeOf(view), std::move(message), std::move(hint));
}

SourceRange ModuleParser::HereRange() {
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  SourceRange range{lexer_.offset(), lexer_.offset() + 1};
  while (HasClass(lexer_.Raw(), kNameContinue)) lexer_.Advance();
  if (lexer_.position() > start) range = lexer_.RangeOf(lexer_.Since(start));
  lexer_.set_position(start);
  return range;
}

bool ModuleParser::FailExpected(std::string_view expected, std::string hint) {
  if (lexer_.AtEnd()) {
    if (lexer_.unclosed_comment() != nullptr) {
      return FailAt(ParseError::kTruncated, {lexer_.unclosed_comment(), 2},
                    "the comment that starts here is not closed");
    }
    return Fail(ParseError::kTruncated, {lexer_.offset(), lexer_.offset()},
                fmt::format("the text ends where {} is expected", expected), std::move(hint));
  }
  return Fail(ParseError::kSyntax, HereRange(), fmt::format("expected {}", expected),
              std::move(hint));
}

bool ModuleParser::FailUnclosed(std::string_view expected) {
  if (lexer_.unclosed() == nullptr) return FailExpected(expected);
  const char open = *lexer_.unclosed();
  return FailAt(ParseError::kTruncated, {lexer_.unclosed(), 1},
                open == '"' || open == '\''
                    ? std::string("the string that starts here is not closed")
                    : fmt::format("this '{}' is not closed", open));
}

bool ModuleParser::FailNumber(Lexer::Number result, std::string_view what) {
  if (result == Lexer::Number::kNone) return FailExpected(what);
  return Fail(ParseError::kNumberRange, HereRange(), fmt::format("{} does not fit 64 bits", what));
}

bool ModuleParser::Expect(char c, std::string_view where) {
  if (lexer_.Consume(c)) return true;
  return FailExpected(fmt::format("'{}' {}", c, where));
}

bool ModuleParser::Expect(std::string_view punctuation, std::string_view where) {
  if (lexer_.Consume(punctuation)) return true;
  return FailExpected(fmt::format("'{}' {}", punctuation, where));
}

// --- module level

bool ModuleParser::CheckIsHloText() {
  const std::string_view text = lexer_.text();
  const std::string_view head = text.substr(0, 4096);
  auto not_hlo = [&](std::string message) {
    return Fail(ParseError::kNotHloText, {lexer_.offset(), lexer_.offset() + 1}, std::move(message),
                std::string(kHowToPrint));
  };
  if (head.starts_with("ML\xefR")) return not_hlo("this is MLIR bytecode, not HLO text");
  if (head.starts_with("\x1f\x8b") || head.starts_with("\x28\xb5\x2f\xfd")) {
    return not_hlo("this is a compressed file, not HLO text");
  }
  if (IsBinary(head)) {
    return not_hlo("this is a binary file (a serialized HloModuleProto?), not HLO text");
  }
  if (lexer_.AtEnd()) return FailExpected("an HLO module");
  const char* start = lexer_.position();
  const std::string_view word = lexer_.Identifier();
  const char next = lexer_.Peek();
  lexer_.set_position(start);
  const bool mlir =
      (word == "module" &&
       (next == '@' || next == '{' || head.find("stablehlo.") != head.npos ||
        head.find("mhlo.") != head.npos || head.find("func.func") != head.npos)) ||
      word == "func.func" || word == "builtin.module" ||
      (*start == '#' && (head.find("#loc") != head.npos || head.find("#sdy") != head.npos)) ||
      (*start == '"' && head.find("builtin.module") != head.npos);
  if (mlir) return not_hlo("this is MLIR (StableHLO), not HLO text");
  if ((word == "name" || word == "hlo_module") && (next == ':' || next == '{')) {
    return not_hlo("this is a protocol buffer in text form, not HLO text");
  }
  return true;
}

Expected<std::unique_ptr<Module>> ModuleParser::Parse() {
  // Reserving by the size of the text avoids most growth.
  bindings_.reserve(lexer_.text().size() / 256);
  if (CheckIsHloText() && ParseText()) return std::move(module_);
  CheckInternal(error_.has_value(), "the parser failed without an error");
  return gshard::Fail(*std::move(error_));
}

bool ModuleParser::ParseText() {
  std::string name;
  if (lexer_.ConsumeWord("HloModule")) {
    if (!ParseHeader() || !ParseDebugTables()) return false;
  } else {
    // A computation starts with `ENTRY`, `name {` or `name (`; an instruction with `ROOT`,
    // `name =` or its shape.
    const char* start = lexer_.position();
    bool instruction = lexer_.Peek() == '(';
    if (!instruction && !lexer_.ConsumeWord("ENTRY")) {
      instruction = lexer_.ConsumeWord("ROOT");
      lexer_.Consume('%');
      lexer_.Identifier();
      const char next = lexer_.Peek();
      instruction = instruction || next == '=' || next == '[';
    }
    lexer_.set_position(start);
    if (instruction) return ParseLoneInstruction();
  }
  if (lexer_.AtEnd()) return FailExpected("a computation");
  while (!lexer_.AtEnd()) {
    Computation* computation = nullptr;
    if (!ParseComputation(&computation, /*is_inline=*/false)) return false;
  }
  // An unclosed comment looks like the end of the text.
  if (lexer_.unclosed_comment() != nullptr) return FailExpected("the end of the comment");
  if (module_->entry() == nullptr) {
    // What has a program's layout is printed as a whole.
    if (module_->header().entry_result_layout != nullptr) {
      return FailExpected("the ENTRY computation");
    }
    module_->set_entry(finished_.back());
  }
  std::stable_partition(finished_.begin(), finished_.end(),
                        [&](const Computation* c) { return c != module_->entry(); });
  module_->SetComputations(std::move(finished_));
  if (module_->name().empty()) {
    module_->set_name(fmt::format("module_{}", module_->entry()->name()));
  }
  return true;
}

bool ModuleParser::ParseName(std::string_view& name, std::string_view what) {
  lexer_.Consume('%');
  name = lexer_.Identifier();
  if (!name.empty()) return true;
  return FailExpected(what);
}

bool ModuleParser::ParseHeader() {
  const Open open(this, "HloModule header");
  std::string_view name;
  if (!ParseName(name, "the module's name")) return false;
  module_->set_name(std::string(name));
  std::vector<std::string_view> seen;
  while (lexer_.Consume(',')) {
    const std::string_view attribute = lexer_.Identifier();
    if (attribute.empty()) return FailExpected("a header attribute after ','");
    if (std::find(seen.begin(), seen.end(), attribute) != seen.end()) {
      return FailAt(ParseError::kRepeatedAttribute, attribute,
                    fmt::format("header attribute '{}' is given twice", attribute));
    }
    seen.push_back(attribute);
    if (std::find(std::begin(kHeaderAttributes), std::end(kHeaderAttributes), attribute) ==
        std::end(kHeaderAttributes)) {
      NearestWord nearest(attribute);
      for (std::string_view known : kHeaderAttributes) nearest.Offer(known);
      return FailAt(ParseError::kUnknownAttribute, attribute,
                    fmt::format("unknown header attribute '{}'", attribute), nearest.Hint());
    }
    if (!Expect('=', "after the name of a header attribute")) return false;
    if (!ParseHeaderAttribute(attribute)) return false;
  }
  return true;
}

bool ModuleParser::ParseHeaderAttribute(std::string_view name) {
  ModuleHeader& header = module_->header();
  if (name == "is_scheduled") return ParseBool(header.is_scheduled);
  if (name == "input_output_alias") return ParseAliases();
  if (name == "buffer_donor") return ParseDonors();
  if (name == "alias_passthrough_params") {
    bool value = false;
    if (!ParseBool(value)) return false;
    header.alias_passthrough_params = value;
    return true;
  }
  if (name == "entry_computation_layout") return ParseEntryLayout();
  if (name == "allow_spmd_sharding_propagation_to_parameters") {
    return ParseBools(header.propagation_to_parameters);
  }
  if (name == "allow_spmd_sharding_propagation_to_output") {
    return ParseBools(header.propagation_to_output);
  }
  if (name == "replica_count" || name == "num_partitions") {
    int64_t& count = name == "replica_count" ? header.replica_count : header.num_partitions;
    lexer_.SkipSpace();
    const char* start = lexer_.position();
    if (!ParseInt(count, "a number of devices")) return false;
    if (count >= 1 && count <= (int64_t{1} << 31)) return true;
    return FailAt(ParseError::kNumberRange, lexer_.Since(start),
                  fmt::format("{} must be at least 1 and at most 2^31", name));
  }
  if (name == "frontend_attributes") return ParseFrontendAttributes(header.frontend_attributes);
  if (name == "origin_recovery_table") return ParseRaw(header.origin_recovery_table);
  if (name == "debug_attributes") return ParseRaw(header.debug_attributes);
  return ParseMeshDeclarations();
}

// { {0}: (0, {}, may-alias), {1,0}: (2, {1}, must-alias) }
bool ModuleParser::ParseAliases() {
  lexer_.SkipSpace();
  const Open open(this, "input_output_alias");
  if (!Expect('{', "of input_output_alias")) return false;
  if (lexer_.Consume('}')) return true;
  do {
    ModuleHeader::Alias alias;
    Dims index;
    if (!ParseDims(index)) return false;
    alias.output_index.assign(index.begin(), index.end());
    if (!Expect(':', "after an output index") || !Expect('(', "before the parameter") ||
        !ParseInt(alias.parameter, "a parameter number") ||
        !Expect(',', "after the parameter number") || !ParseDims(index)) {
      return false;
    }
    alias.parameter_index.assign(index.begin(), index.end());
    if (lexer_.Consume(',')) {
      const std::string_view kind = lexer_.Identifier();
      if (kind != "may-alias" && kind != "must-alias") {
        lexer_.set_position(kind.data());
        return FailExpected("may-alias or must-alias");
      }
      alias.must_alias = kind == "must-alias";
    }
    if (!Expect(')', "after an alias")) return false;
    module_->header().input_output_alias.push_back(std::move(alias));
  } while (lexer_.Consume(','));
  return Expect('}', "at the end of input_output_alias");
}

// { (1, {}), (2, {0}) }
bool ModuleParser::ParseDonors() {
  lexer_.SkipSpace();
  const Open open(this, "buffer_donor");
  if (!Expect('{', "of buffer_donor")) return false;
  if (lexer_.Consume('}')) return true;
  do {
    ModuleHeader::Donor donor;
    Dims index;
    if (!Expect('(', "before a donated parameter") ||
        !ParseInt(donor.parameter, "a parameter number") ||
        !Expect(',', "after the parameter number") || !ParseDims(index) ||
        !Expect(')', "after a donated parameter")) {
      return false;
    }
    donor.index.assign(index.begin(), index.end());
    module_->header().buffer_donor.push_back(std::move(donor));
  } while (lexer_.Consume(','));
  return Expect('}', "at the end of buffer_donor");
}

// {(f32[4,8]{1,0}, ..)->f32[8]{0}}
bool ModuleParser::ParseEntryLayout() {
  lexer_.SkipSpace();
  const Open open(this, "entry_computation_layout");
  if (!Expect('{', "of entry_computation_layout") || !Expect('(', "before the parameters")) {
    return false;
  }
  ModuleHeader& header = module_->header();
  if (!lexer_.Consume(')')) {
    do {
      const Shape* shape = nullptr;
      if (!ParseShape(shape)) return false;
      header.entry_parameter_layouts.push_back(shape);
    } while (lexer_.Consume(','));
    if (!Expect(')', "after the parameters")) return false;
  }
  return Expect("->", "before the result") && ParseShape(header.entry_result_layout) &&
         Expect('}', "at the end of entry_computation_layout");
}

// {true,false}, or true
bool ModuleParser::ParseBools(std::vector<bool>& values) {
  bool value = false;
  if (lexer_.Peek() != '{') {
    if (!ParseBool(value)) return false;
    values.push_back(value);
    return true;
  }
  const Open open(this, "list of booleans");
  lexer_.Advance();
  if (lexer_.Consume('}')) return true;
  do {
    if (!ParseBool(value)) return false;
    values.push_back(value);
  } while (lexer_.Consume(','));
  return Expect('}', "at the end of the list");
}

bool ModuleParser::ParseMeshDeclarations() {
  const std::string_view text = lexer_.Balanced();
  if (text.empty()) return FailUnclosed("'{' of meshes");
  auto meshes = ParseMeshes(*context_, text);
  if (!meshes.has_value()) {
    const TextError& error = meshes.error();
    return FailAt(ParseError::kSharding,
                  text.substr(std::min(error.offset, text.size()), error.length), error.message);
  }
  module_->header().meshes = *std::move(meshes);
  return true;
}

// FileNames, FunctionNames, FileLocations and StackFrames are kept as they are: rows of a number
// and a string or braces.
bool ModuleParser::ParseDebugTables() {
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  const char* end = start;
  while (lexer_.ConsumeWord("FileNames") || lexer_.ConsumeWord("FunctionNames") ||
         lexer_.ConsumeWord("FileLocations") || lexer_.ConsumeWord("StackFrames")) {
    const Open open(this, "debug table");
    end = lexer_.position();
    while (HasClass(lexer_.Peek(), kDigit)) {
      int64_t number = 0;
      if (!ParseInt(number, "a row number")) return false;
      const std::string_view row = lexer_.Peek() == '{' ? lexer_.Balanced() : lexer_.String();
      if (row.empty()) return FailUnclosed("a string or '{' in a row of a debug table");
      end = lexer_.position();
    }
  }
  module_->set_debug_tables({start, static_cast<size_t>(end - start)});
  return true;
}

// (p: f32[8,16], q: s32[]) -> f32[8]
bool ModuleParser::ParseSignature(const Shape** result, std::string_view* result_text) {
  const Open open(this, "parameter list");
  if (!Expect('(', "of the parameter list")) return false;
  if (!lexer_.Consume(')')) {
    do {
      std::string_view name;
      const Shape* shape = nullptr;
      if (!ParseName(name, "a parameter's name") || !Expect(':', "after a parameter's name") ||
          !ParseShape(shape)) {
        return false;
      }
    } while (lexer_.Consume(','));
    if (!Expect(')', "after the parameters")) return false;
  }
  if (!Expect("->", "before the result shape")) return false;
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  if (!ParseShape(*result)) return false;
  *result_text = lexer_.Since(start);
  return true;
}

bool ModuleParser::ParseComputation(Computation** result, bool is_inline) {
  bool is_entry = false;
  std::string_view name = "_";
  std::string_view name_text;
  const Shape* declared = nullptr;
  std::string_view declared_text;
  if (!is_inline) {
    lexer_.SkipSpace();
    const char* start = lexer_.position();
    const std::string_view word = lexer_.Identifier();
    is_entry = word == "ENTRY";
    if (!is_entry) lexer_.set_position(start);
    if (is_entry && module_->entry() != nullptr) {
      return FailAt(ParseError::kModule, word,
                    fmt::format("a second ENTRY; the first is '{}'", module_->entry()->name()));
    }
    lexer_.SkipSpace();
    start = lexer_.position();
    if (!ParseName(name, "a computation")) return false;
    name_text = lexer_.Since(start);
    if (lexer_.Peek() != '(' && lexer_.Peek() != '{') {
      if (word == "HloModule") {
        return FailAt(ParseError::kModule, word, "a second HloModule in one text");
      }
      const bool first = finished_.empty() && module_->name().empty();
      return FailExpected("'(' or '{' after the name of a computation",
                          first ? "HLO text starts with 'HloModule name'" : "");
    }
    if (lexer_.Peek() == '(' && !ParseSignature(&declared, &declared_text)) return false;
    if (const auto it = computation_of_.find(name); it != computation_of_.end()) {
      FailAt(ParseError::kDuplicateName, name_text,
             fmt::format("computation '{}' exists already", name));
      error_->notes.push_back(NoteAt(it->second->source(), "it was defined here"));
      return false;
    }
  }
  const Open open(this, "computation", is_inline ? "" : name);
  if (open.TooDeep()) return false;
  if (lexer_.Peek() == '{' && is_inline) name_text = {lexer_.position(), 1};
  if (!Expect('{', "of the computation's body")) return false;

  Computation* computation = module_->AddComputation(name);
  computation->set_source(lexer_.RangeOf(name_text));
  const uint32_t outer_serial = computation_serial_;
  computation_serial_ = ++last_serial_;
  const size_t first_hidden = hidden_bindings_.size();
  if (is_inline) ++inline_depth_;
  while (lexer_.Peek() != '}') {
    if (!ParseInstruction(computation)) return false;
  }
  lexer_.Advance();
  if (is_inline) --inline_depth_;
  while (hidden_bindings_.size() > first_hidden) {
    bindings_[hidden_bindings_.back().first] = hidden_bindings_.back().second;
    hidden_bindings_.pop_back();
  }
  computation_serial_ = outer_serial;
  if (!FinishComputation(computation, name_text, declared, declared_text)) return false;
  if (!is_inline) {
    if (lexer_.Consume(',')) {
      if (!lexer_.ConsumeWord("execution_thread")) return FailExpected("execution_thread=");
      if (!Expect('=', "after execution_thread")) return false;
      std::string_view thread;
      if (!ParseString(thread)) return false;
      computation->set_execution_thread(thread);
    }
    computation_of_[name] = computation;
    if (is_entry) module_->set_entry(computation);
  }
  finished_.push_back(computation);
  *result = computation;
  return true;
}

bool ModuleParser::FinishComputation(Computation* computation, std::string_view name_text,
                                     const Shape* declared, std::string_view declared_text) {
  if (computation->instructions().empty()) {
    return FailAt(ParseError::kModule, name_text,
                  fmt::format("computation '{}' has no instructions", computation->name()));
  }
  for (size_t i = 0; i < computation->parameters().size(); ++i) {
    if (computation->parameters()[i] != nullptr) continue;
    return FailAt(ParseError::kParameters, name_text,
                  fmt::format("computation '{}' has {} parameters or more, but no parameter({})",
                              computation->name(), computation->parameters().size(), i));
  }
  if (computation->root() == nullptr) computation->set_root(computation->instructions().back());
  const Instruction* root = computation->root();
  if (declared != nullptr && !Compatible(declared, root->shape())) {
    FailAt(ParseError::kShapeMismatch, declared_text,
           fmt::format("computation '{}' is declared to return {}, but its root returns {}",
                       computation->name(), ToString(declared, /*layouts=*/false),
                       ToString(root->shape(), /*layouts=*/false)));
    error_->notes.push_back(
        NoteAt(root->source(), fmt::format("the root '{}' is here", root->name())));
    return false;
  }
  return true;
}

// One instruction as the whole text: operands are parameters of the shapes they carry.
bool ModuleParser::ParseLoneInstruction() {
  module_->set_name("_");
  Computation* computation = module_->AddComputation("_");
  computation_serial_ = ++last_serial_;
  lone_instruction_ = true;
  if (!ParseInstruction(computation)) return false;
  if (!lexer_.AtEnd() || lexer_.unclosed_comment() != nullptr) {
    return FailExpected("the end of the text after a lone instruction",
                        "instructions belong into a computation: ENTRY main { .. }");
  }
  module_->set_entry(computation);
  return FinishComputation(computation, lexer_.text().substr(0, 1), nullptr, {});
}

Expected<std::unique_ptr<Module>> ParseModule(std::shared_ptr<const SourceText> source,
                                              std::shared_ptr<Context> context) {
  return ModuleParser(std::move(source), std::move(context)).Parse();
}

}  // namespace gshard
