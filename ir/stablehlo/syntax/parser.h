// Recursive-descent parser of StableHLO, CHLO and Shardy text in pretty and generic form
// (docs/stablehlo.md), one pass, linear. Operations share one grammar: operands, `key = value`,
// words and brackets in any order, an attribute dictionary, types. Which of them an operation
// needs, the importer asks. Internal to ir/stablehlo.
#ifndef GSHARD_IR_STABLEHLO_SYNTAX_PARSER_H_
#define GSHARD_IR_STABLEHLO_SYNTAX_PARSER_H_

#include <string>
#include <string_view>
#include <vector>

#include "ir/context.h"
#include "ir/stablehlo/syntax/errors.h"
#include "ir/stablehlo/syntax/lexer.h"
#include "ir/stablehlo/syntax/syntax.h"
#include "tsl/robin_set.h"

namespace gshard::stablehlo {

class Parser {
 public:
  Parser(Errors& errors, Context& context, Program& program)
      : errors_(errors), context_(context), program_(program), lexer_(errors.text()) {}

  bool Parse();

 private:
  // --- errors (parser.cc)
  bool Fail(ParseError code, std::string_view view, std::string message, std::string hint = {});
  bool FailExpected(std::string_view expected, std::string hint = {});
  bool Expect(char c, std::string_view where);
  bool Expect(std::string_view punctuation, std::string_view where);
  bool TooDeep();

  // --- module level (parser_module.cc)
  bool ParseTopLevel();
  bool ParseAlias();
  bool ParseResources();
  bool ParseModule(std::string_view name);
  bool ParseModuleBody();
  bool ParseGenericTopLevel(std::string_view name);
  bool ParseMesh();
  bool ParseFunction();
  bool ParseFunctionArguments(Region* body, Function* function);
  bool ParseFunctionResults(Function* function);
  bool AddFunction(Function* function);
  bool CompleteGenericFunction(const Operation& op);
  bool SkipOperation();

  // --- types (parser_type.cc)
  bool ParseType(const Shape*& type);
  bool ParseTensorType(const Shape*& type);
  bool ReadTensorType(std::string_view inner, const Shape*& type);
  bool ReadEncoding(std::string_view text, std::vector<int64_t>& dims,
                    std::vector<uint8_t>& dynamic);
  bool ReadElementType(std::string_view text, DType& dtype);
  bool ParseTypeList(std::vector<const Shape*>& types, char close);
  // `(A, B) -> C`, `A, B`, `A -> (B, C)`.
  bool ParseTypes(std::vector<const Shape*>& operands, std::vector<const Shape*>& results);

  // --- operations (parser_operation.cc)
  struct Draft {  // an operation as it grows
    std::vector<Value*> operands;
    std::vector<const Shape*> operand_types, result_types;
    std::vector<NamedAttribute> attributes;
    std::vector<Region*> regions;
    uint32_t unnamed = 0;
    int64_t leading_operands = -1;
  };
  struct ResultName {
    std::string_view name;
    uint32_t count = 1;
    SourceRange source;
  };
  bool ParseOperation(Operation*& result);
  bool ParseResultNames(std::vector<ResultName>& names, uint32_t& count);
  bool ParseGeneric(Draft& draft);
  bool ParsePretty(std::string_view name, Draft& draft);
  bool ParseItems(Draft& draft, bool in_parentheses);
  bool ParseKeyed(Draft& draft);
  void AddUnnamed(Draft& draft, std::string_view text);
  bool ParseAttributeDict(std::vector<NamedAttribute>& attributes, char open, char close);
  bool ParsePrettyTypes(Draft& draft);
  bool ParseReduce(Draft& draft);
  bool ParseWhile(Draft& draft);
  bool ParseScan(Draft& draft);
  bool ParseRegionArguments(std::vector<Value>& arguments);
  bool ParseLocation(std::string_view& location);
  bool ParseOperand(Draft& draft);
  bool ParseOperands(Draft& draft);
  bool Finish(Operation& op, Draft& draft, std::span<const ResultName> names, uint32_t count);

  // --- regions and scopes (parser_operation.cc)
  // At '{'. `arguments`: those written before the region.
  bool ParseRegion(std::span<const Value> arguments, Region*& result);
  bool ParseBlock(std::vector<Operation*>& operations);
  bool Define(std::string_view name, Value* first, uint32_t count, SourceRange source);
  void OpenScope(Region* region);
  void CloseScope();
  Value* Lookup(std::string_view name, std::string_view text, int64_t index);

  struct Binding {
    Value* first = nullptr;
    uint32_t count = 0;
  };
  struct Scope {
    Region* region = nullptr;
    size_t first_hidden = 0;
    std::vector<Value*> captures;
    tsl::robin_set<const Value*> captured;
  };

  Errors& errors_;
  Context& context_;
  Program& program_;
  Lexer lexer_;
  ViewMap<const Shape*> type_of_;
  ViewMap<Binding> bindings_;
  std::vector<std::pair<std::string_view, Binding>> hidden_;  // to restore when a scope closes
  std::vector<Scope> scopes_;
  size_t depth_ = 0;
};

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_SYNTAX_PARSER_H_
