// Instructions: names, operands, shapes, the sugar of asynchronous operations.
#include <fmt/format.h>

#include <algorithm>
#include <charconv>

#include "ir/async_sugar.h"
#include "ir/module_parser.h"
#include "ir/shape_inference.h"

namespace gshard {
namespace {

std::string Plural(size_t count, std::string_view noun) {
  return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

}  // namespace

bool ModuleParser::ParseInstruction(Computation* computation) {
  Line line;
  bool is_root = false;
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  bool percent = lexer_.Consume('%');
  std::string_view name = lexer_.Identifier();
  if (!percent && name == "ROOT") {
    is_root = true;
    if (computation->root() != nullptr) {
      FailAt(ParseError::kModule, name,
             fmt::format("a second ROOT in computation '{}'", computation->name()));
      error_->notes.push_back(NoteAt(computation->root()->source(), "the first is here"));
      return false;
    }
    lexer_.SkipSpace();
    start = lexer_.position();
    percent = lexer_.Consume('%');
    name = lexer_.Identifier();
  }
  if (lone_instruction_ && !percent && (lexer_.Raw() == '[' || lexer_.Raw() == '(')) {
    // A lone instruction may come without a name.
    lexer_.set_position(start);
    line.name_text = {start, 1};
    line.name = "_";
  } else {
    if (name.empty()) return FailExpected("an instruction or '}'");
    line.name_text = lexer_.Since(start);
    line.name = name;
    if (!lexer_.Consume('=')) return FailExpected("'=' after the name of an instruction");
    if (!CheckLegalName(name, line.name_text)) return false;
  }

  if (lexer_.Peek() == '(') {
    if (!ParseTupleShape(line.shape)) return false;
  } else {
    line.opcode_text = lexer_.Identifier();
    if (line.opcode_text.empty()) return FailExpected("a shape or an opcode");
    if (AtShapeBody(line.opcode_text)) {
      if (!ParseArrayShape(line.opcode_text, line.shape)) return false;
      line.opcode_text = {};
    }
  }
  if (line.opcode_text.empty()) {
    line.opcode_text = lexer_.Identifier();
    if (line.opcode_text.empty()) return FailExpected("an opcode after the shape");
  }
  Instruction* instruction = nullptr;
  if (!ParseOpcode(line) || !ParseOperands(computation, line) ||
      !ParseAttributes(computation, line) || !Finish(computation, line, &instruction)) {
    return false;
  }
  if (is_root) computation->set_root(instruction);
  return true;
}

bool ModuleParser::CheckLegalName(std::string_view name, std::string_view text) {
  // Few names can be types: a digit second, or pred, bf16, token, opaque.
  constexpr std::string_view kFirst = "pbto";
  const bool possible =
      name.size() > 1 && (HasClass(name[1], kDigit) || kFirst.find(name[0]) != kFirst.npos);
  if (!possible || !DTypeFromName(name).has_value()) return true;
  return FailAt(ParseError::kIllegalName, text,
                fmt::format("'{}' is the name of a type, not of an instruction", name),
                fmt::format("rename it to '{}_'", name));
}

bool ModuleParser::ParseOpcode(Line& line) {
  std::optional<Opcode> opcode = OpcodeFromName(line.opcode_text);
  if (!opcode.has_value()) {
    const AsyncOpcode async = ParseAsyncOpcode(line.opcode_text);
    opcode = async.wrapped;
    line.async = async.step == AsyncStep::kStart    ? Line::Async::kStart
                 : async.step == AsyncStep::kUpdate ? Line::Async::kUpdate
                                                    : Line::Async::kDone;
  }
  if (!opcode.has_value()) {
    NearestWord nearest(line.opcode_text);
    for (int i = 0; i < kOpcodeCount; ++i) nearest.Offer(OpcodeName(static_cast<Opcode>(i)));
    return FailAt(ParseError::kUnknownOpcode, line.opcode_text,
                  fmt::format("unknown opcode '{}'", line.opcode_text), nearest.Hint());
  }
  line.opcode = *opcode;
  if (line.async == Line::Async::kUpdate) line.opcode = Opcode::kAsyncUpdate;
  if (line.async == Line::Async::kDone) line.opcode = Opcode::kAsyncDone;
  line.attributes = NewAttributes(module_->arena(), line.opcode);
  if (line.async == Line::Async::kStart) {
    line.async_attributes = module_->arena().New<AsyncAttributes>();
  }
  return true;
}

bool ModuleParser::ParseOperands(Computation* computation, Line& line) {
  line.first_operand = operands_.size();
  line.first_called = called_.size();
  lexer_.SkipSpace();
  const Open open(this, "operand list of", line.opcode_text);
  if (open.TooDeep() || !Expect('(', "before the operands")) return false;
  if (line.opcode == Opcode::kParameter) {
    auto* parameter = static_cast<ParameterAttributes*>(line.attributes);
    lexer_.SkipSpace();
    const char* start = lexer_.position();
    if (!ParseInt(parameter->number, "a parameter number")) return false;
    const std::string_view number = lexer_.Since(start);
    // Every parameter below it needs a line of its own.
    if (parameter->number < 0 ||
        parameter->number > static_cast<int64_t>(1000 + lexer_.text().size() / 16)) {
      return FailAt(ParseError::kParameters, number,
                    fmt::format("no module of this size can have a parameter {}", number));
    }
    if (parameter->number < computation->parameter_count() &&
        computation->parameter(parameter->number) != nullptr) {
      FailAt(ParseError::kParameters, number,
             fmt::format("computation '{}' has a parameter({}) already", computation->name(),
                         parameter->number));
      error_->notes.push_back(
          NoteAt(computation->parameter(parameter->number)->source(), "it is here"));
      return false;
    }
  } else if (line.opcode == Opcode::kConstant) {
    if (line.shape == nullptr) {
      return FailAt(ParseError::kShapeNotInferable, line.opcode_text,
                    "a constant needs its shape before the opcode");
    }
    if (!ParseLiteral(line.shape, static_cast<ConstantAttributes*>(line.attributes)->literal)) {
      return false;
    }
  } else if (lexer_.Peek() != ')') {
    do {
      if (!ParseOperand(computation)) return false;
    } while (lexer_.Consume(','));
  }
  if (!lexer_.Consume(')')) return FailExpected("',' or ')' in the operand list");
  const size_t count = operands_.size() - line.first_operand;
  if (!TakesOperands(line.opcode, count)) {
    const int arity = InfoOf(line.opcode).arity;
    return FailAt(ParseError::kOperandCount, line.opcode_text,
                  fmt::format("{} takes {}, but has {}", line.opcode_text,
                              Plural(static_cast<size_t>(arity), "operand"), count));
  }
  return true;
}

// shape? %name ('#' int)*, or shape? opcode(operands)
bool ModuleParser::ParseOperand(Computation* computation) {
  const Shape* shape = nullptr;
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  if (lexer_.Raw() == '%') {
    lexer_.Advance();
    const std::string_view name = lexer_.Identifier();
    if (name.empty()) return FailExpected("a name after '%'");
    return ResolveOperand(computation, lexer_.Since(start), name, shape);
  }
  std::string_view word;
  if (lexer_.Raw() == '(') {
    if (!ParseTupleShape(shape)) return false;
  } else {
    word = lexer_.Identifier();
    if (word.empty()) return FailExpected("an operand");
    if (AtShapeBody(word)) {
      if (!ParseArrayShape(word, shape)) return false;
      word = {};
    }
  }
  if (word.empty()) {
    lexer_.SkipSpace();
    start = lexer_.position();
    const bool percent = lexer_.Consume('%');
    word = lexer_.Identifier();
    if (word.empty()) return FailExpected("an operand's name after its shape");
    if (percent) return ResolveOperand(computation, lexer_.Since(start), word, shape);
  }
  if (lexer_.Peek() == '(') return ParseNested(computation, shape, word);
  return ResolveOperand(computation, word, word, shape);
}

bool ModuleParser::ResolveOperand(Computation* computation, std::string_view text,
                                  std::string_view name, const Shape* shape) {
  NameTable& names = module_->instruction_names();
  const uint32_t symbol = names.Find(name);
  Instruction* operand = nullptr;
  if (symbol < bindings_.size() && bindings_[symbol].computation == computation_serial_) {
    operand = bindings_[symbol].instruction;
  }
  if (operand == nullptr && lone_instruction_ && shape != nullptr && inline_depth_ == 0) {
    if (!CheckLegalName(name, text)) return false;
    Line line;
    line.name_text = text;
    line.name = name;
    line.opcode = Opcode::kParameter;
    line.shape = shape;
    auto* parameter = module_->arena().New<ParameterAttributes>();
    parameter->number = computation->parameter_count();
    line.attributes = parameter;
    line.first_operand = operands_.size();
    line.first_called = called_.size();
    if (!Finish(computation, line, &operand)) return false;
  }
  if (operand == nullptr) {
    NearestWord nearest(name);
    for (uint32_t i = 0; i < bindings_.size() && i < names.size(); ++i) {
      if (bindings_[i].computation == computation_serial_) nearest.Offer(names.name(i));
    }
    if (lone_instruction_) {
      return FailAt(ParseError::kUnknownOperand, text,
                    fmt::format("no instruction '{}' before this one", name),
                    "if the text is the middle of a program, copy it from 'HloModule' on; operands "
                    "of a lone instruction carry their shapes");
    }
    return FailAt(ParseError::kUnknownOperand, text,
                  fmt::format("no instruction '{}' before this one in computation '{}'", name,
                              computation->name()),
                  nearest.Hint());
  }
  if (lexer_.Peek() == '#' && !ParseTupleIndices(computation, operand)) return false;
  if (shape != nullptr && !Compatible(shape, operand->shape())) {
    FailAt(ParseError::kShapeMismatch, text,
           fmt::format("operand '{}' is written with shape {}, but it is {}", name,
                       ToString(shape, /*layouts=*/false),
                       ToString(operand->shape(), /*layouts=*/false)));
    error_->notes.push_back(NoteAt(operand->source(), "it is defined here"));
    return false;
  }
  operands_.push_back(operand);
  return true;
}

// t#1#0 stands for two get-tuple-elements.
bool ModuleParser::ParseTupleIndices(Computation* computation, Instruction*& operand) {
  while (lexer_.Peek() == '#') {
    const char* start = lexer_.position();
    lexer_.Advance();
    int64_t index = 0;
    if (!ParseInt(index, "a tuple index after '#'")) return false;
    const std::string_view text = lexer_.Since(start);
    if (!operand->shape()->IsTuple() || index < 0 ||
        static_cast<size_t>(index) >= operand->shape()->elements().size()) {
      return FailAt(ParseError::kShape, text,
                    fmt::format("{} has no element {}",
                                ToString(operand->shape(), /*layouts=*/false), index));
    }
    Line line;
    line.name_text = text;
    line.opcode = Opcode::kGetTupleElement;
    line.shape = operand->shape()->element(index);
    auto* attributes = module_->arena().New<GetTupleElementAttributes>();
    attributes->index = index;
    line.attributes = attributes;
    line.first_operand = operands_.size();
    line.first_called = called_.size();
    operands_.push_back(operand);
    if (!Finish(computation, line, &operand)) return false;
  }
  return true;
}

// An operation in the place of an operand becomes an instruction named OPCODE.anon.
bool ModuleParser::ParseNested(Computation* computation, const Shape* shape,
                               std::string_view opcode_text) {
  Line line;
  line.name_text = opcode_text;
  line.shape = shape;
  line.opcode_text = opcode_text;
  Instruction* instruction = nullptr;
  if (!ParseOpcode(line) || !ParseOperands(computation, line) ||
      !CheckRequired(line, AttributesOf(line.opcode), 0) ||
      !Finish(computation, line, &instruction)) {
    return false;
  }
  operands_.push_back(instruction);
  return true;
}

bool ModuleParser::InferResultShape(Line& line) {
  if (!ShapeIsInferable(line.opcode) || line.async != Line::Async::kNone) {
    return FailAt(ParseError::kShapeNotInferable, line.opcode_text,
                  fmt::format("{} needs its shape before the opcode", line.opcode_text));
  }
  const size_t first = shapes_.size();
  for (size_t i = line.first_operand; i < operands_.size(); ++i) {
    shapes_.push_back(operands_[i]->shape());
  }
  const auto shape = InferShape(
      *context_, OpView{.opcode = line.opcode,
                        .operands = std::span<const Shape* const>(shapes_).subspan(first),
                        .attributes = line.attributes,
                        .called = std::span<Computation* const>(called_).subspan(line.first_called),
                        .declared = nullptr});
  shapes_.resize(first);
  if (!shape.has_value()) return FailAt(ParseError::kShape, line.opcode_text, shape.error());
  line.shape = *shape;
  return true;
}

// Defines the instruction and pops its operands and called computations.
bool ModuleParser::Finish(Computation* computation, Line& line, Instruction** result) {
  if (!CompleteAttributes(line)) return false;
  if (line.shape == nullptr && !InferResultShape(line)) return false;
  if (line.sharding != nullptr && line.shape->IsTuple() && !line.sharding->IsTuple() &&
      line.shape->leaf_count() > 0) {
    line.sharding = context_->TupleOf(
        std::vector<const Sharding*>(static_cast<size_t>(line.shape->leaf_count()), line.sharding));
  }
  if (line.async == Line::Async::kStart && !WrapAsync(line)) return false;
  if (line.async > Line::Async::kStart && !CheckAsyncChain(line)) return false;

  NameTable& names = module_->instruction_names();
  std::string_view name = line.name;
  uint32_t symbol = NameTable::kNone;
  if (name.empty()) {
    name = module_->UniqueName(fmt::format("{}.anon", OpcodeName(line.opcode)));
    symbol = names.Find(name);
  } else {
    symbol = names.Intern(name);
    if (!CheckNewName(line, symbol)) return false;
    if (!names.Take(symbol)) name = module_->UniqueName(name);
  }
  Instruction* instruction = module_->AddRaw(
      computation, line.opcode, name, line.shape,
      std::span<Instruction* const>(operands_).subspan(line.first_operand), line.attributes,
      std::span<Computation* const>(called_).subspan(line.first_called));
  operands_.resize(line.first_operand);
  called_.resize(line.first_called);
  instruction->set_source(lexer_.RangeOf(line.name_text));
  instruction->set_sharding(line.sharding);
  instruction->set_metadata(line.metadata);
  instruction->set_frontend_attributes(line.frontend_attributes);
  instruction->set_backend_config(line.backend_config);
  if (line.has_extras) {
    instruction->set_extras(module_->arena().New<Instruction::Extras>(line.extras));
  }
  *result = instruction;

  if (symbol >= bindings_.size()) {
    bindings_.resize(std::max<size_t>(names.size(), bindings_.size() * 2));
  }
  if (inline_depth_ > 0) hidden_bindings_.emplace_back(symbol, bindings_[symbol]);
  bindings_[symbol] = {instruction, computation_serial_};
  return true;
}

bool ModuleParser::CheckNewName(const Line& line, uint32_t symbol) {
  if (symbol >= bindings_.size() || bindings_[symbol].computation != computation_serial_) {
    return true;
  }
  FailAt(ParseError::kDuplicateName, line.name_text,
         fmt::format("instruction '{}' exists already in this computation", line.name));
  error_->notes.push_back(NoteAt(bindings_[symbol].instruction->source(), "it was defined here"));
  return false;
}

// OP-start(operands): an async-start that calls a computation of just OP.
bool ModuleParser::WrapAsync(Line& line) {
  const auto elements = line.shape->elements();
  const auto operands = std::span<Instruction* const>(operands_).subspan(line.first_operand);
  if (!line.shape->IsTuple() || elements.size() < 2 || !elements[0]->IsTuple() ||
      elements[0]->elements().size() != operands.size()) {
    return FailAt(ParseError::kAsync, line.opcode_text,
                  fmt::format("{} must have the shape ((operands..), result, ..), not {}",
                              line.opcode_text, ToString(line.shape, /*layouts=*/false)));
  }
  Computation* wrapped = module_->AddComputation("async_wrapped");
  wrapped->set_execution_thread(line.async_attributes->execution_thread);
  wrapped->set_source(lexer_.RangeOf(line.opcode_text));
  std::vector<Instruction*> parameters;
  for (size_t i = 0; i < operands.size(); ++i) {
    ParameterAttributes parameter;
    parameter.number = static_cast<int64_t>(i);
    parameters.push_back(
        module_->Add(wrapped, Opcode::kParameter,
                     module_->UniqueName(fmt::format("{}.wrapped.parameter.{}", line.name, i)),
                     operands[i]->shape(), {}, parameter));
  }
  Instruction* root = module_->AddRaw(
      wrapped, line.opcode, module_->UniqueName(fmt::format("{}.wrapped", line.name)), elements[1],
      parameters, line.attributes,
      std::span<Computation* const>(called_).subspan(line.first_called));
  root->set_source(lexer_.RangeOf(line.name_text));
  if (line.opcode == Opcode::kCustomCall) {
    // The payload is the call's own.
    root->set_backend_config(std::exchange(line.backend_config, {}));
  }
  for (Instruction* instruction : wrapped->instructions()) {
    if (instruction != root) instruction->set_source(root->source());
  }
  wrapped->set_root(root);
  finished_.push_back(wrapped);
  called_.resize(line.first_called);
  called_.push_back(wrapped);
  line.opcode = Opcode::kAsyncStart;
  line.attributes = line.async_attributes;
  return true;
}

// OP-update and OP-done must continue an async-start of OP.
bool ModuleParser::CheckAsyncChain(const Line& line) {
  const Instruction* start = AsyncStartOf(operands_.back());
  const AsyncOpcode async = ParseAsyncOpcode(line.opcode_text);
  if (start != nullptr && !start->called().empty() &&
      start->called(0)->root()->opcode() == async.wrapped) {
    return true;
  }
  return FailAt(ParseError::kAsync, line.opcode_text,
                fmt::format("the operand of {} is not a {}-start", line.opcode_text,
                            OpcodeName(*async.wrapped)));
}

}  // namespace gshard
