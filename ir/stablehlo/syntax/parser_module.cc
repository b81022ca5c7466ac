// The top level of the text: modules, functions, meshes, aliases, resources.
#include <fmt/format.h>

#include "ir/stablehlo/syntax/parser.h"

namespace gshard::stablehlo {
namespace {

std::string_view Unquote(std::string_view text) {
  if (text.size() >= 2 && text.front() == '"') return text.substr(1, text.size() - 2);
  return text;
}

std::string_view SymbolName(std::string_view text) {
  if (text.starts_with('@')) text.remove_prefix(1);
  return Unquote(text);
}

std::string_view FindAttribute(std::span<const NamedAttribute> attributes, std::string_view key) {
  for (const NamedAttribute& attribute : attributes) {
    if (attribute.key == key) return attribute.value;
  }
  return {};
}

}  // namespace

bool Parser::ParseTopLevel() {
  const char c = lexer_.Peek();
  if (c == '#' || c == '!') return ParseAlias();
  if (c == '{') return ParseResources();
  if (c == '"') return ParseGenericTopLevel({});
  const char* start = lexer_.position();
  const std::string_view word = lexer_.Identifier();
  if (word == "module" || word == "builtin.module") return ParseModule(word);
  lexer_.set_position(start);
  if (word == "func.func") return ParseFunction();
  if (word == "sdy.mesh") return ParseMesh();
  return FailExpected("a module");
}

// #loc3 = loc("x")
bool Parser::ParseAlias() {
  const char* start = lexer_.position();
  lexer_.Advance();
  lexer_.Suffix();
  const std::string_view name = lexer_.Since(start);
  if (!Expect('=', "of an alias")) return false;
  lexer_.SkipSpace();
  const char* value = lexer_.position();
  if (lexer_.Raw() == '#' || lexer_.Raw() == '!') lexer_.Advance();
  lexer_.Suffix();
  const char open = lexer_.Raw();
  if (lexer_.Since(value).empty() || open == '(' || open == '<') {
    if (lexer_.Balanced().empty()) {
      return FailExpected("the value of an alias",
                          name.starts_with("#loc") ? "what pretty_debug_info prints, MLIR itself "
                                                     "does not read: print without it"
                                                   : "");
    }
  }
  program_.aliases[name] = lexer_.Since(value);
  return true;
}

// {-# dialect_resources: { builtin: { name: "0x.." } } #-}
bool Parser::ParseResources() {
  if (!lexer_.Consume("{-#")) return FailExpected("a module");
  int depth = 0;
  std::string_view key;
  while (!lexer_.Consume("#-}")) {
    if (lexer_.Consume('{')) {
      ++depth;
    } else if (lexer_.Consume('}')) {
      --depth;
    } else if (lexer_.Peek() == '"') {
      const std::string_view text = lexer_.String();
      if (text.empty()) return FailExpected("a string");
      if (lexer_.Peek() == ':') {
        key = Unquote(text);
      } else {
        program_.resources[key] = text;
      }
    } else if (!lexer_.Consume(':') && !lexer_.Consume(',')) {
      key = lexer_.Suffix();
      if (key.empty()) return FailExpected("the key of a resource or '#-}'");
    }
  }
  return depth == 0 || FailExpected("balanced braces in the resources");
}

bool Parser::ParseModule(std::string_view) {
  if (lexer_.Peek() == '@') {
    const char* start = lexer_.position();
    lexer_.Advance();
    if (lexer_.Raw() == '"' ? lexer_.String().empty() : lexer_.Suffix().empty()) {
      return FailExpected("the module's name");
    }
    program_.name = SymbolName(lexer_.Since(start));
  }
  if (lexer_.ConsumeWord("attributes") && !ParseAttributeDict(program_.attributes, '{', '}')) {
    return false;
  }
  if (!Expect('{', "of the module") || !ParseModuleBody()) return false;
  std::string_view location;
  return Expect('}', "at the end of the module") && ParseLocation(location);
}

bool Parser::ParseModuleBody() {
  while (lexer_.Peek() != '}') {
    const char* start = lexer_.position();
    if (lexer_.Raw() == '"') {
      if (!ParseGenericTopLevel({})) return false;
      continue;
    }
    if (lexer_.Raw() == '^' && lexer_.Consume("^bb0:")) continue;
    const std::string_view word = lexer_.Identifier();
    lexer_.set_position(start);
    if (word == "func.func") {
      if (!ParseFunction()) return false;
    } else if (word == "sdy.mesh") {
      if (!ParseMesh()) return false;
    } else if (word == "module" || word == "builtin.module") {
      return Fail(ParseError::kModule, word, "a module inside of a module is not read");
    } else {
      return FailExpected("a function (func.func) or a mesh (sdy.mesh)");
    }
  }
  return true;
}

// sdy.mesh @mesh = <["x"=2]> {stablehlo.mesh = ..}; `#sdy.mesh` may stand before the bracket.
bool Parser::ParseMesh() {
  lexer_.Identifier();
  if (!Expect('@', "of a mesh")) return false;
  const char* start = lexer_.position();
  if (lexer_.Raw() == '"' ? lexer_.String().empty() : lexer_.Suffix().empty()) {
    return FailExpected("the name of a mesh");
  }
  const std::string_view name = SymbolName(lexer_.Since(start));
  if (!Expect('=', "after the name of a mesh")) return false;
  lexer_.Consume("#sdy.mesh");
  const std::string_view text = lexer_.Balanced();
  if (text.empty()) return FailExpected("'<' of a mesh");
  program_.meshes.push_back({name, text});
  std::vector<NamedAttribute> ignored;
  if (lexer_.Peek() == '{' && !ParseAttributeDict(ignored, '{', '}')) return false;
  std::string_view location;
  return ParseLocation(location);
}

// "builtin.module"() ({ .. }), "func.func"() .., "sdy.mesh"() ..
bool Parser::ParseGenericTopLevel(std::string_view) {
  const char* start = lexer_.position();
  const std::string_view quoted = lexer_.String();
  if (quoted == "\"builtin.module\"") {
    if (!Expect("(", "of the operands") || !Expect(")", "of the operands")) return false;
    if (lexer_.Consume('<') && (!ParseAttributeDict(program_.attributes, '{', '}') ||
                                !Expect('>', "after the properties"))) {
      return false;
    }
    if (!Expect('(', "of the module's region") || !Expect('{', "of the module's region")) {
      return false;
    }
    if (!ParseModuleBody() || !Expect('}', "at the end of the module") ||
        !Expect(')', "at the end of the module")) {
      return false;
    }
    if (lexer_.Peek() == '{' && !ParseAttributeDict(program_.attributes, '{', '}')) return false;
    if (lexer_.Consume(':') &&
        (!Expect("()", "of the module's type") || !Expect("->", "of the module's type") ||
         !Expect("()", "of the module's type"))) {
      return false;
    }
    program_.name = Unquote(FindAttribute(program_.attributes, "sym_name"));
    std::string_view location;
    return ParseLocation(location);
  }
  if (quoted != "\"func.func\"" && quoted != "\"sdy.mesh\"") {
    return FailExpected("a module, a function or a mesh");
  }
  lexer_.set_position(start);
  Operation* op = nullptr;
  bindings_.clear();
  hidden_.clear();
  if (!ParseOperation(op)) return false;
  if (op->name == "func.func") return CompleteGenericFunction(*op);
  std::string_view mesh = FindAttribute(op->attributes, "mesh");
  mesh.remove_prefix(std::min(mesh.find('<'), mesh.size()));  // #sdy.mesh<..>
  program_.meshes.push_back({Unquote(FindAttribute(op->attributes, "sym_name")), mesh});
  return true;
}

bool Parser::AddFunction(Function* function) {
  if (!program_.function_of.emplace(function->name, function).second) {
    return errors_.Fail(ParseError::kDuplicateName, function->source,
                        fmt::format("function '@{}' exists already", function->name));
  }
  program_.functions.push_back(function);
  return true;
}

// [{..}, {..}] of arg_attrs and res_attrs.
bool Parser::CompleteGenericFunction(const Operation& op) {
  auto* function = program_.arena.New<Function>();
  function->name = Unquote(FindAttribute(op.attributes, "sym_name"));
  function->source = op.source;
  function->is_public = FindAttribute(op.attributes, "sym_visibility") != "\"private\"";
  if (!op.regions.empty()) function->body = op.regions[0];
  const std::string_view type = FindAttribute(op.attributes, "function_type");
  Lexer outer = lexer_;
  lexer_ = Lexer(errors_.text(), type.empty() ? errors_.text().substr(0, 0) : type);
  std::vector<const Shape*> arguments, results;
  bool ok = !type.empty() && ParseTypes(arguments, results);
  const auto read_dicts = [&](std::string_view text, size_t count,
                              std::span<const std::span<const NamedAttribute>>& dicts) {
    std::vector<std::span<const NamedAttribute>> list(count);
    if (!text.empty()) {
      lexer_ = Lexer(errors_.text(), text);
      if (!Expect('[', "of a list of attributes")) return false;
      for (size_t i = 0; lexer_.Peek() == '{'; ++i) {
        std::vector<NamedAttribute> attributes;
        if (!ParseAttributeDict(attributes, '{', '}')) return false;
        if (i < count) list[i] = program_.arena.Copy(std::span<const NamedAttribute>(attributes));
        lexer_.Consume(',');
      }
    }
    dicts = program_.arena.Copy(std::span<const std::span<const NamedAttribute>>(list));
    return true;
  };
  ok = ok && read_dicts(FindAttribute(op.attributes, "arg_attrs"), arguments.size(),
                        function->argument_attributes);
  ok = ok && read_dicts(FindAttribute(op.attributes, "res_attrs"), results.size(),
                        function->result_attributes);
  lexer_ = outer;
  if (!ok) {
    return errors_.Fail(ParseError::kMissingAttribute, op.source,
                        "a function needs its sym_name and function_type");
  }
  function->results = program_.arena.Copy(std::span<const Shape* const>(results));
  return AddFunction(function);
}

bool Parser::ParseFunctionArguments(Region* body, Function* function) {
  std::vector<Value> arguments;
  std::vector<std::span<const NamedAttribute>> attributes;
  if (!Expect('(', "of a function's arguments")) return false;
  if (!lexer_.Consume(')')) {
    do {
      Value argument;
      if (lexer_.Consume('%')) {
        argument.name = lexer_.Suffix();
        if (argument.name.empty()) return FailExpected("the name of an argument");
        argument.source = lexer_.RangeOf(argument.name);
        if (!Expect(':', "after an argument")) return false;
      }
      if (!ParseType(argument.type)) return false;
      std::vector<NamedAttribute> own;
      if (lexer_.Peek() == '{' && !ParseAttributeDict(own, '{', '}')) return false;
      if (!ParseLocation(argument.location)) return false;
      attributes.push_back(program_.arena.Copy(std::span<const NamedAttribute>(own)));
      arguments.push_back(argument);
    } while (lexer_.Consume(','));
    if (!Expect(')', "after a function's arguments")) return false;
  }
  const std::span<Value> values = program_.arena.NewSpan<Value>(arguments.size());
  for (size_t i = 0; i < values.size(); ++i) {
    values[i] = arguments[i];
    if (!values[i].name.empty() && !Define(values[i].name, &values[i], 1, values[i].source)) {
      return false;
    }
    values[i].index = static_cast<uint32_t>(i);
  }
  body->arguments = values;
  function->argument_attributes =
      program_.arena.Copy(std::span<const std::span<const NamedAttribute>>(attributes));
  return true;
}

bool Parser::ParseFunctionResults(Function* function) {
  std::vector<const Shape*> types;
  std::vector<std::span<const NamedAttribute>> attributes;
  if (lexer_.Consume("->")) {
    if (lexer_.Consume('(')) {
      if (!lexer_.Consume(')')) {
        do {
          if (!ParseType(types.emplace_back())) return false;
          std::vector<NamedAttribute> own;
          if (lexer_.Peek() == '{' && !ParseAttributeDict(own, '{', '}')) return false;
          attributes.push_back(program_.arena.Copy(std::span<const NamedAttribute>(own)));
        } while (lexer_.Consume(','));
        if (!Expect(')', "after a function's results")) return false;
      }
    } else {
      if (!ParseType(types.emplace_back())) return false;
      attributes.emplace_back();
    }
  }
  function->results = program_.arena.Copy(std::span<const Shape* const>(types));
  function->result_attributes =
      program_.arena.Copy(std::span<const std::span<const NamedAttribute>>(attributes));
  return true;
}

// func.func public @main(%arg0: T {..}) -> (U {..}) attributes {..} { .. }
bool Parser::ParseFunction() {
  auto* function = program_.arena.New<Function>();
  function->source = lexer_.RangeOf(lexer_.Identifier());
  function->is_public = !lexer_.ConsumeWord("private");
  if (function->is_public && !lexer_.ConsumeWord("public")) lexer_.ConsumeWord("nested");
  if (!Expect('@', "of a function")) return false;
  const char* start = lexer_.position();
  if (lexer_.Raw() == '"' ? lexer_.String().empty() : lexer_.Suffix().empty()) {
    return FailExpected("the name of a function");
  }
  function->source = lexer_.RangeOf(lexer_.Since(start));
  function->name = SymbolName(lexer_.Since(start));
  bindings_.clear();
  hidden_.clear();
  auto* body = program_.arena.New<Region>();
  body->source = function->source;
  OpenScope(body);
  if (!ParseFunctionArguments(body, function) || !ParseFunctionResults(function)) return false;
  std::vector<NamedAttribute> ignored;
  if (lexer_.ConsumeWord("attributes") && !ParseAttributeDict(ignored, '{', '}')) return false;
  if (lexer_.Consume('{')) {
    std::vector<Operation*> operations;
    if (!ParseBlock(operations) || !Expect('}', "at the end of a function")) return false;
    body->operations = program_.arena.Copy(std::span<Operation* const>(operations));
    function->body = body;
  }
  CloseScope();
  std::string_view location;
  return ParseLocation(location) && AddFunction(function);
}

}  // namespace gshard::stablehlo
