// Operations, regions and the scopes of values.
#include <fmt/format.h>

#include <algorithm>

#include "ir/stablehlo/syntax/parser.h"

namespace gshard::stablehlo {
namespace {

constexpr std::string_view kUnnamed[] = {"#0", "#1", "#2", "#3", "#4", "#5"};

bool IsTerminator(std::string_view name) { return name == "return" || name.ends_with(".return"); }

}  // namespace

// --- scopes

void Parser::OpenScope(Region* region) {
  scopes_.emplace_back();
  scopes_.back().region = region;
  scopes_.back().first_hidden = hidden_.size();
}

void Parser::CloseScope() {
  Scope& scope = scopes_.back();
  scope.region->captures = program_.arena.Copy(std::span<Value* const>(scope.captures));
  while (hidden_.size() > scope.first_hidden) {
    bindings_[hidden_.back().first] = hidden_.back().second;
    hidden_.pop_back();
  }
  scopes_.pop_back();
}

bool Parser::Define(std::string_view name, Value* first, uint32_t count, SourceRange source) {
  Binding& binding = bindings_[name];
  if (binding.first != nullptr && binding.first->depth == scopes_.size()) {
    errors_.Fail(ParseError::kDuplicateName, source,
                 fmt::format("'%{}' is defined already in this scope", name));
    errors_.Note(binding.first->source, "it was defined here");
    return false;
  }
  hidden_.emplace_back(name, binding);
  binding = {first, count};
  for (uint32_t i = 0; i < count; ++i) {
    first[i].name = name;
    first[i].depth = static_cast<uint32_t>(scopes_.size());
    first[i].source = source;
    first[i].index = first[i].definition != nullptr ? first[i].index : i;
  }
  return true;
}

Value* Parser::Lookup(std::string_view name, std::string_view text, int64_t index) {
  const auto it = bindings_.find(name);
  if (it == bindings_.end() || it->second.first == nullptr) {
    NearestWord nearest(name);
    for (const auto& [other, binding] : bindings_) {
      if (binding.first != nullptr) nearest.Offer(other);
    }
    Fail(ParseError::kUnknownOperand, text,
         fmt::format("no value '%{}' is defined before this one", name), nearest.Hint());
    return nullptr;
  }
  const Binding& binding = it->second;
  if (index < 0 && binding.count != 1) {
    Fail(ParseError::kUnknownOperand, text,
         fmt::format("'%{}' has {} results: write %{}#0 for the first", name, binding.count, name));
    return nullptr;
  }
  if (index >= static_cast<int64_t>(binding.count)) {
    Fail(ParseError::kUnknownOperand, text,
         fmt::format("'%{}' has {} results only", name, binding.count));
    return nullptr;
  }
  Value* value = binding.first + std::max<int64_t>(index, 0);
  for (size_t depth = value->depth; depth < scopes_.size(); ++depth) {
    if (scopes_[depth].captured.insert(value).second) scopes_[depth].captures.push_back(value);
  }
  return value;
}

// --- operands and attributes

bool Parser::ParseOperand(Draft& draft) {
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  if (!lexer_.Consume('%')) return FailExpected("a value: %name");
  const std::string_view name = lexer_.Suffix();
  if (name.empty()) return FailExpected("the name of a value after '%'");
  int64_t index = -1;
  if (lexer_.Raw() == '#') {
    lexer_.Advance();
    if (!lexer_.Integer(index) || index < 0) return FailExpected("a result number after '#'");
  }
  Value* value = Lookup(name, lexer_.Since(start), index);
  if (value == nullptr) return false;
  draft.operands.push_back(value);
  return true;
}

// `(%a, %b)`
bool Parser::ParseOperands(Draft& draft) {
  if (!Expect('(', "of the operands")) return false;
  if (lexer_.Consume(')')) return true;
  do {
    if (!ParseOperand(draft)) return false;
  } while (lexer_.Consume(','));
  return Expect(')', "after the operands");
}

bool Parser::ParseAttributeDict(std::vector<NamedAttribute>& attributes, char open, char close) {
  if (!Expect(open, "of the attributes")) return false;
  if (lexer_.Consume(close)) return true;
  do {
    NamedAttribute attribute;
    if (lexer_.Peek() == '"') {
      attribute.key = lexer_.String();
      if (attribute.key.size() >= 2)
        attribute.key = attribute.key.substr(1, attribute.key.size() - 2);
    } else {
      attribute.key = lexer_.Identifier();
    }
    if (attribute.key.empty()) return FailExpected("the name of an attribute");
    if (lexer_.Consume('=')) {
      attribute.value = lexer_.Element();
      if (attribute.value.empty()) return FailExpected("the value of an attribute");
    }
    attributes.push_back(attribute);
  } while (lexer_.Consume(','));
  return Expect(close, "after the attributes");
}

void Parser::AddUnnamed(Draft& draft, std::string_view text) {
  const size_t last = std::size(kUnnamed) - 1;
  draft.attributes.push_back({kUnnamed[std::min<size_t>(draft.unnamed++, last)], text});
}

// Behind `key =`: a string, word or number, or brackets as in `[2] x [1]`, `[b, f]x[i, o]->[b, f]`.
bool Parser::ParseKeyed(Draft& draft) {
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  char c = lexer_.Raw();
  if (c == '"') {
    if (lexer_.String().empty()) return FailExpected("a string");
  } else if (c == '[' || c == '{' || c == '<' || c == '(') {
    while (true) {
      if (lexer_.Balanced().empty()) return FailExpected("the value of an attribute");
      const char* behind = lexer_.position();
      if (lexer_.Consume("->") || lexer_.ConsumeWord("x")) {
        c = lexer_.Peek();
        if (c == '[') continue;
      }
      lexer_.set_position(behind);
      break;
    }
  } else {
    if (c == '#' || c == '@' || c == '-' || c == '!') lexer_.Advance();
    if (lexer_.Suffix().empty()) return FailExpected("the value of an attribute");
    if (lexer_.Raw() == '+') {  // 1.0e+00
      lexer_.Advance();
      lexer_.Suffix();
    }
    if (lexer_.Raw() == '<' && lexer_.Balanced().empty()) {
      return FailExpected("the value of an attribute");
    }
  }
  draft.attributes.back().value = lexer_.Since(start);
  return true;
}

// Operands, `key = value`, words and brackets up to what ends them. At most the first parenthesis
// holds operands; the next one holds the arguments of a region.
bool Parser::ParseItems(Draft& draft, bool in_parentheses) {
  bool parentheses = in_parentheses;
  while (true) {
    const char c = lexer_.Peek();
    if (c == '%') {
      if (!ParseOperand(draft)) return false;
    } else if (c == '@') {
      const char* start = lexer_.position();
      lexer_.Advance();
      if (lexer_.Raw() == '"' ? lexer_.String().empty() : lexer_.Suffix().empty()) {
        return FailExpected("a symbol after '@'");
      }
      AddUnnamed(draft, lexer_.Since(start));
    } else if (c == '"') {
      const std::string_view text = lexer_.String();
      if (text.empty()) return FailExpected("a string");
      AddUnnamed(draft, text);
    } else if (c == '(' && !parentheses) {
      parentheses = true;
      lexer_.Advance();
      if (!ParseItems(draft, /*in_parentheses=*/true) || !Expect(')', "after the operands")) {
        return false;
      }
    } else if (c == '[' || c == '<') {
      const std::string_view text = lexer_.Balanced();
      if (text.empty()) return FailExpected("a closed bracket");
      AddUnnamed(draft, text);
    } else if (c == '{' && !in_parentheses) {
      const char next = lexer_.RawAt(1);
      if (next == '"' && draft.unnamed == 0 && draft.operands.empty()) {
        AddUnnamed(draft, lexer_.Balanced());  // sdy.all_reduce {"x"} %t
      } else if (!ParseAttributeDict(draft.attributes, '{', '}')) {
        return false;
      }
    } else if (c == ',') {
      lexer_.Advance();
    } else if (HasClass(c, kNameStart)) {
      const char* start = lexer_.position();
      const std::string_view word = lexer_.Identifier();
      if (word == "loc" && lexer_.Raw() == '(') {
        lexer_.set_position(start);
        return true;
      }
      if (lexer_.Raw() == '<') {
        if (lexer_.Balanced().empty()) return FailExpected("a closed '<'");
        AddUnnamed(draft, lexer_.Since(start));
      } else if (lexer_.Consume('=')) {
        draft.attributes.push_back({word, {}});
        if (!ParseKeyed(draft)) return false;
      } else {
        AddUnnamed(draft, word);
      }
    } else {
      return true;
    }
  }
}

// --- forms

// "dialect.op"(%a) <{props}> ({region}) {attrs} : (A) -> B
bool Parser::ParseGeneric(Draft& draft) {
  if (!ParseOperands(draft)) return false;
  if (lexer_.Consume('<')) {
    if (!ParseAttributeDict(draft.attributes, '{', '}') || !Expect('>', "after the properties")) {
      return false;
    }
  }
  if (lexer_.Peek() == '(') {
    lexer_.Advance();
    do {
      Region* region = nullptr;
      if (!ParseRegion({}, region)) return false;
      draft.regions.push_back(region);
    } while (lexer_.Consume(','));
    if (!Expect(')', "after the regions")) return false;
  }
  if (lexer_.Peek() == '{' && !ParseAttributeDict(draft.attributes, '{', '}')) return false;
  if (!Expect(':', "before the type of an operation")) return false;
  if (lexer_.Peek() != '(') return FailExpected("'(' of a function type");
  return ParseTypes(draft.operand_types, draft.result_types);
}

bool Parser::ParsePrettyTypes(Draft& draft) {
  if (!lexer_.Consume(':')) return true;
  return ParseTypes(draft.operand_types, draft.result_types);
}

// (%arg2: T, %arg3: U)
bool Parser::ParseRegionArguments(std::vector<Value>& arguments) {
  if (!Expect('(', "of the arguments")) return false;
  if (lexer_.Consume(')')) return true;
  do {
    Value argument;
    if (!Expect('%', "of an argument")) return false;
    argument.name = lexer_.Suffix();
    if (argument.name.empty()) return FailExpected("the name of an argument");
    argument.source = lexer_.RangeOf(argument.name);
    if (!Expect(':', "after an argument") || !ParseType(argument.type)) return false;
    if (!ParseLocation(argument.location)) return false;
    arguments.push_back(argument);
  } while (lexer_.Consume(','));
  return Expect(')', "after the arguments");
}

// reduce(%x init: %c), (%y init: %d) applies stablehlo.add across dimensions = [1] : types
//   reducer(%a: t, %b: t) (%c: u, %d: u) { .. }
bool Parser::ParseReduce(Draft& draft) {
  std::vector<Value*> inits;
  do {
    if (!Expect('(', "of an operand of reduce") || !ParseOperand(draft)) return false;
    if (!lexer_.ConsumeWord("init") || !lexer_.Consume(':')) return FailExpected("'init:'");
    if (!ParseOperand(draft)) return false;
    inits.push_back(draft.operands.back());
    draft.operands.pop_back();
    if (!Expect(')', "after an operand of reduce")) return false;
  } while (lexer_.Consume(','));
  draft.operands.insert(draft.operands.end(), inits.begin(), inits.end());
  if (lexer_.ConsumeWord("applies")) {
    const std::string_view op = lexer_.Identifier();
    if (op.empty()) return FailExpected("the operation that reduce applies");
    draft.attributes.push_back({"applies", op});
  }
  if (!lexer_.ConsumeWord("across")) return FailExpected("'across dimensions = [..]'");
  if (!ParseItems(draft, false) || !ParsePrettyTypes(draft)) return false;
  if (!lexer_.ConsumeWord("reducer")) return true;
  std::vector<Value> left, right;
  do {
    std::vector<Value> pair;
    if (!ParseRegionArguments(pair)) return false;
    if (pair.size() != 2) return FailExpected("two arguments in each parenthesis of a reducer");
    left.push_back(pair[0]);
    right.push_back(pair[1]);
  } while (lexer_.Peek() == '(');
  left.insert(left.end(), right.begin(), right.end());
  Region* region = nullptr;
  if (!ParseRegion(left, region)) return false;
  draft.regions.push_back(region);
  return true;
}

// while(%iterArg = %0, ..) : T, U attributes {..} cond { .. } do { .. }
bool Parser::ParseWhile(Draft& draft) {
  std::vector<Value> arguments;
  if (!Expect('(', "of the operands of while")) return false;
  if (!lexer_.Consume(')')) {
    do {
      Value argument;
      if (!Expect('%', "of an argument of while")) return false;
      argument.name = lexer_.Suffix();
      if (argument.name.empty()) return FailExpected("the name of an argument");
      argument.source = lexer_.RangeOf(argument.name);
      if (!Expect('=', "after an argument of while") || !ParseOperand(draft)) return false;
      arguments.push_back(argument);
    } while (lexer_.Consume(','));
    if (!Expect(')', "after the operands of while")) return false;
  }
  if (!ParsePrettyTypes(draft)) return false;
  if (draft.result_types.size() != arguments.size()) {
    return FailExpected(fmt::format("{} types of while", arguments.size()));
  }
  for (size_t i = 0; i < arguments.size(); ++i) arguments[i].type = draft.result_types[i];
  if (lexer_.ConsumeWord("attributes") && !ParseAttributeDict(draft.attributes, '{', '}')) {
    return false;
  }
  for (const std::string_view word : {std::string_view("cond"), std::string_view("do")}) {
    if (!lexer_.ConsumeWord(word)) return FailExpected(fmt::format("'{}' of while", word));
    Region* region = nullptr;
    if (!ParseRegion(arguments, region)) return false;
    draft.regions.push_back(region);
  }
  return true;
}

// chlo.scan(%x) inits(%y) dimension=0 attributes {..} { ^bb0(..): .. } : types
bool Parser::ParseScan(Draft& draft) {
  if (!ParseOperands(draft)) return false;
  draft.leading_operands = static_cast<int64_t>(draft.operands.size());
  if (!lexer_.ConsumeWord("inits")) return FailExpected("'inits(..)' of scan");
  if (!ParseOperands(draft)) return false;
  if (!lexer_.ConsumeWord("dimension")) return FailExpected("'dimension=..' of scan");
  if (!Expect('=', "after 'dimension'")) return false;
  draft.attributes.push_back({"dimension", {}});
  if (!ParseKeyed(draft)) return false;
  if (lexer_.ConsumeWord("attributes") && !ParseAttributeDict(draft.attributes, '{', '}')) {
    return false;
  }
  Region* region = nullptr;
  if (!ParseRegion({}, region)) return false;
  draft.regions.push_back(region);
  if (lexer_.Peek() == '{' && !ParseAttributeDict(draft.attributes, '{', '}')) return false;
  return ParsePrettyTypes(draft);
}

bool Parser::ParsePretty(std::string_view name, Draft& draft) {
  if (name == "stablehlo.while") return ParseWhile(draft);
  if (name == "chlo.scan") return ParseScan(draft);
  if (name == "stablehlo.reduce") return ParseReduce(draft);
  if (!ParseItems(draft, false)) return false;
  if (lexer_.Peek() == '(') {
    // sdy.manual_computation(..) .. (%arg0: T) { .. } : types
    std::vector<Value> arguments;
    Region* region = nullptr;
    if (!ParseRegionArguments(arguments) || !ParseRegion(arguments, region)) return false;
    draft.regions.push_back(region);
    if (lexer_.Peek() == '{' && !ParseAttributeDict(draft.attributes, '{', '}')) return false;
  }
  return ParsePrettyTypes(draft);
}

// --- operations

bool Parser::ParseResultNames(std::vector<ResultName>& names, uint32_t& count) {
  if (lexer_.Peek() != '%') return true;
  do {
    ResultName result;
    const char* start = lexer_.position();
    if (!Expect('%', "of a result")) return false;
    result.name = lexer_.Suffix();
    if (result.name.empty()) return FailExpected("the name of a result");
    result.source = lexer_.RangeOf(lexer_.Since(start));
    int64_t number = 1;
    if (lexer_.Consume(':') && (!lexer_.Integer(number) || number < 1 || number > 1'000'000)) {
      return FailExpected("the number of results");
    }
    result.count = static_cast<uint32_t>(number);
    count += result.count;
    names.push_back(result);
  } while (lexer_.Consume(','));
  return Expect('=', "after the results");
}

bool Parser::ParseLocation(std::string_view& location) {
  const char* start = lexer_.position();
  lexer_.SkipSpace();
  if (lexer_.Raw() != 'l') return true;
  if (!lexer_.ConsumeWord("loc") || lexer_.Raw() != '(') {
    lexer_.set_position(start);
    return true;
  }
  const std::string_view text = lexer_.Balanced();
  if (text.empty()) return FailExpected("a location in parentheses");
  location = text.substr(1, text.size() - 2);
  return true;
}

bool Parser::ParseOperation(Operation*& result) {
  std::vector<ResultName> names;
  uint32_t count = 0;
  if (!ParseResultNames(names, count)) return false;
  lexer_.SkipSpace();
  Draft draft;
  auto* op = program_.arena.New<Operation>();
  if (lexer_.Raw() == '"') {
    const std::string_view quoted = lexer_.String();
    if (quoted.size() < 3) return FailExpected("the name of an operation");
    op->name = quoted.substr(1, quoted.size() - 2);
    op->source = lexer_.RangeOf(quoted);
    if (!ParseGeneric(draft)) return false;
  } else {
    op->name = lexer_.Identifier();
    if (op->name.empty()) return FailExpected("an operation");
    op->source = lexer_.RangeOf(op->name);
    if (!ParsePretty(op->name, draft)) return false;
  }
  if (!ParseLocation(op->location)) return false;
  result = op;
  return Finish(*op, draft, names, count);
}

bool Parser::Finish(Operation& op, Draft& draft, std::span<const ResultName> names,
                    uint32_t count) {
  Arena& arena = program_.arena;
  // `op %a, %b : T` gives the type of the result, once: of all results, or of the last operand.
  if (count == 1 && draft.operand_types.empty() && draft.result_types.size() > 1) {
    draft.result_types = {draft.result_types.back()};
  }
  if (!IsTerminator(op.name) && count != draft.result_types.size() && count != 0) {
    return errors_.Fail(ParseError::kOperandCount, op.source,
                        fmt::format("'{}' has {} result names and {} result types", op.name, count,
                                    draft.result_types.size()));
  }
  if (!draft.operand_types.empty() && draft.operand_types.size() != draft.operands.size()) {
    return errors_.Fail(ParseError::kOperandCount, op.source,
                        fmt::format("'{}' has {} operands and {} operand types", op.name,
                                    draft.operands.size(), draft.operand_types.size()));
  }
  op.operands = arena.Copy(std::span<Value* const>(draft.operands));
  op.leading_operands = draft.leading_operands;
  op.operand_types = arena.Copy(std::span<const Shape* const>(draft.operand_types));
  op.attributes = arena.Copy(std::span<const NamedAttribute>(draft.attributes));
  op.regions = arena.Copy(std::span<Region* const>(draft.regions));
  if (IsTerminator(op.name)) return true;
  // Results without names count, too: nobody uses them, but their types tell the shape.
  const std::span<Value> results = arena.NewSpan<Value>(draft.result_types.size());
  for (size_t i = 0; i < results.size(); ++i) {
    results[i] = Value{};
    results[i].type = draft.result_types[i];
    results[i].definition = &op;
    results[i].index = static_cast<uint32_t>(i);
    results[i].source = op.source;
  }
  op.results = results;
  uint32_t first = 0;
  for (const ResultName& name : names) {
    if (!Define(name.name, results.data() + first, name.count, name.source)) return false;
    first += name.count;
  }
  return true;
}

// --- regions

bool Parser::ParseBlock(std::vector<Operation*>& operations) {
  while (lexer_.Peek() != '}') {
    Operation* op = nullptr;
    if (!ParseOperation(op)) return false;
    operations.push_back(op);
    if (IsTerminator(op->name) && lexer_.Peek() != '}') {
      return FailExpected("'}' after the return of a region");
    }
  }
  return true;
}

bool Parser::ParseRegion(std::span<const Value> given, Region*& result) {
  ++depth_;
  if (TooDeep()) return false;
  lexer_.SkipSpace();
  const char* start = lexer_.position();
  if (!Expect('{', "of a region")) return false;
  auto* region = program_.arena.New<Region>();
  region->source = lexer_.RangeOf(lexer_.Since(start));
  OpenScope(region);
  std::vector<Value> arguments(given.begin(), given.end());
  if (lexer_.Consume('^')) {
    lexer_.Suffix();
    if (lexer_.Peek() == '(' && !ParseRegionArguments(arguments)) return false;
    if (!Expect(':', "after the name of a block")) return false;
  }
  const std::span<Value> values = program_.arena.NewSpan<Value>(arguments.size());
  std::copy(arguments.begin(), arguments.end(), values.begin());
  for (size_t i = 0; i < values.size(); ++i) {
    if (!Define(values[i].name, &values[i], 1, values[i].source)) return false;
    values[i].index = static_cast<uint32_t>(i);
  }
  region->arguments = values;
  std::vector<Operation*> operations;
  if (!ParseBlock(operations) || !Expect('}', "at the end of a region")) return false;
  region->operations = program_.arena.Copy(std::span<Operation* const>(operations));
  CloseScope();
  --depth_;
  result = region;
  return true;
}

}  // namespace gshard::stablehlo
