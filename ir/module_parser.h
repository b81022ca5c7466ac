// Recursive-descent parser of one HLO module; the grammar is docs/text-format.md.
//
// One pass over the text. Functions return false after recording the first error. Names, metadata
// and unread attributes become views into the text; shapes and shardings are cached by their text.
// Internal to ir/: use ParseModule (ir/parser.h). One object parses one text.
#ifndef GSHARD_IR_MODULE_PARSER_H_
#define GSHARD_IR_MODULE_PARSER_H_

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/attribute_table.h"
#include "ir/lexer.h"
#include "ir/module.h"
#include "ir/parser_errors.h"
#include "ir/text_hash.h"
#include "tsl/robin_map.h"

namespace gshard {

class ModuleParser {
 public:
  ModuleParser(std::shared_ptr<const SourceText> source, std::shared_ptr<Context> context);

  Expected<std::unique_ptr<Module>> Parse();
  // The whole text is one shape.
  Expected<const Shape*> ParseLoneShape();

 private:
  // --- errors and nesting (parser.cc)
  bool Fail(ParseError error, SourceRange range, std::string message, std::string hint = {});
  bool FailAt(ParseError error, std::string_view view, std::string message, std::string hint = {});
  // "expected X", at the cursor; tells apart text that ends too early and what is open there.
  bool FailExpected(std::string_view expected, std::string hint = {});
  // After a Lexer call came back empty: an unclosed string or bracket, else "expected X".
  bool FailUnclosed(std::string_view expected);
  bool FailNumber(Lexer::Number result, std::string_view what);
  bool Expect(char c, std::string_view where);
  bool Expect(std::string_view punctuation, std::string_view where);
  SourceRange HereRange();
  Diagnostic NoteAt(SourceRange range, std::string message) const;

  // While alive, `what` is open since the cursor's place: for messages, and to bound the nesting.
  class Open {
   public:
    Open(ModuleParser* parser, const char* what, std::string_view name = {}) : parser_(parser) {
      parser_->open_.push_back({what, name, parser_->lexer_.offset()});
    }
    Open(const Open&) = delete;
    Open& operator=(const Open&) = delete;
    ~Open() { parser_->open_.pop_back(); }
    bool TooDeep() const;

   private:
    ModuleParser* parser_;
  };
  struct OpenPlace {
    const char* what;
    std::string_view name;
    uint32_t offset;
  };

  // --- module level (parser.cc)
  bool CheckIsHloText();
  bool ParseText();
  bool ParseHeader();
  bool ParseHeaderAttribute(std::string_view name);
  bool ParseAliases();
  bool ParseDonors();
  bool ParseEntryLayout();
  bool ParseBools(std::vector<bool>& values);
  bool ParseMeshDeclarations();
  bool ParseDebugTables();
  bool ParseComputation(Computation** result, bool is_inline);
  bool ParseSignature(const Shape** result, std::string_view* result_text);
  bool FinishComputation(Computation* computation, std::string_view name_text,
                         const Shape* declared, std::string_view declared_text);
  bool ParseLoneInstruction();
  bool ParseName(std::string_view& name, std::string_view what);

  // --- instructions (parser_instruction.cc)
  struct Line {                  // what stands in one instruction's text besides its own attributes
    std::string_view name_text;  // with '%'
    std::string_view name;       // as written; empty: a nested instruction
    const Shape* shape = nullptr;
    Opcode opcode = Opcode::kTuple;
    std::string_view opcode_text;
    enum class Async : uint8_t { kNone, kStart, kUpdate, kDone } async = Async::kNone;
    size_t first_operand = 0;  // in operands_
    size_t first_called = 0;   // in called_
    void* attributes = nullptr;
    AsyncAttributes* async_attributes = nullptr;
    uint32_t own_seen = 0;
    uint32_t async_seen = 0;
    uint32_t common_seen = 0;
    const Sharding* sharding = nullptr;
    std::string_view sharding_text;
    std::string_view metadata, frontend_attributes, backend_config;
    Instruction::Extras extras;
    bool has_extras = false;
  };
  bool ParseInstruction(Computation* computation);
  bool ParseOpcode(Line& line);
  bool ParseOperands(Computation* computation, Line& line);
  bool ParseOperand(Computation* computation);
  bool ParseTupleIndices(Computation* computation, Instruction*& operand);
  bool ParseNested(Computation* computation, const Shape* shape, std::string_view opcode_text);
  bool ResolveOperand(Computation* computation, std::string_view text, std::string_view name,
                      const Shape* shape);
  bool Finish(Computation* computation, Line& line, Instruction** result);
  bool InferResultShape(Line& line);
  bool WrapAsync(Line& line);
  bool CheckAsyncChain(const Line& line);
  bool CheckNewName(const Line& line, uint32_t symbol);
  bool CheckLegalName(std::string_view name, std::string_view text);

  // --- attributes (parser_attributes.cc)
  bool ParseAttributes(Computation* computation, Line& line);
  bool ParseCommonAttribute(Computation* computation, Line& line, std::string_view name);
  bool ParseRow(const AttributeRow& row, Line& line, void* attributes);
  bool CheckRequired(const Line& line, std::span<const AttributeRow> rows, uint32_t seen);
  bool CompleteAttributes(Line& line);  // defaults and derived fields
  bool UnknownAttribute(const Line& line, std::string_view name);
  bool ParseComputationReference(Computation** computation);
  bool ParseSharding(Line& line);
  bool ParseFrontendAttributes(std::string_view& text);
  bool ParsePredecessors(Computation* computation, Line& line);

  // --- values (parser_values.cc)
  bool ParseInt(int64_t& value, std::string_view what);
  bool ParseBool(bool& value);
  bool ParseDouble(double& value);
  bool ParseDims(Dims& dims);
  bool ParseOneDim(int64_t& dim);
  bool ParseWord(const AttributeRow& row, size_t& index, std::string_view& word);
  bool ParseString(std::string_view& text);
  bool ParseRaw(std::string_view& text);
  bool ParseSlice(SliceAttributes& slice);
  bool ParsePadding(std::span<const PadDim>& padding);
  bool ParseWindow(std::span<const WindowDim>& window);
  bool ParseDimLabels(std::string_view& labels);
  bool PlaceDimLabels(ConvolutionAttributes& convolution);
  bool ParsePrecisionWord(const AttributeRow& row, size_t& index, std::string_view& word);
  bool ParsePrecision(std::span<const Precision>& precision);
  bool ParseReplicaGroups(const ReplicaGroups*& groups);
  bool ParseDevicePairs(std::span<const DevicePair>& pairs);
  bool ParseShapeList(std::span<const Shape* const>& shapes);

  // --- shapes (parser_shape.cc)
  // At `(`, or at a type name.
  bool ParseShape(const Shape*& shape);
  bool ParseTupleShape(const Shape*& shape);
  // The cursor stands behind the type name, at `[` (or `(` of a buffer).
  bool ParseArrayShape(std::string_view type, const Shape*& shape);
  bool ParseNewArrayShape(std::string_view type, const Shape*& shape);
  bool ParseLayout(int64_t rank, const Layout*& layout);
  // Is the identifier just taken the type of a shape that goes on at the cursor?
  bool AtShapeBody(std::string_view identifier);

  // --- literals (parser_literal.cc)
  bool ParseLiteral(const Shape* shape, const Literal*& literal);
  bool ParseArrayLiteral(const Shape* shape, const Literal*& literal);

  std::shared_ptr<const SourceText> source_;
  std::shared_ptr<Context> context_;
  Lexer lexer_;
  std::unique_ptr<Module> module_;
  std::optional<Diagnostic> error_;
  std::vector<OpenPlace> open_;

  // Instruction names: what each symbol of module_->instruction_names() means in which computation.
  struct Binding {
    Instruction* instruction = nullptr;
    uint32_t computation = 0;  // serial number; 0: never bound
  };
  std::vector<Binding> bindings_;  // by symbol
  uint32_t computation_serial_ = 0;
  uint32_t last_serial_ = 0;
  // Bindings hidden by an inline computation, restored at its end.
  std::vector<std::pair<uint32_t, Binding>> hidden_bindings_;
  int inline_depth_ = 0;
  bool lone_instruction_ = false;  // unknown typed operands become parameters

  tsl::robin_map<std::string_view, Computation*, TextHash> computation_of_;
  std::vector<Computation*> finished_;  // in the order they end: callees before callers

  tsl::robin_map<std::string_view, const Shape*, TextHash> shape_of_;
  tsl::robin_map<std::string_view, const Sharding*, TextHash> sharding_of_;
  tsl::robin_map<std::string_view, const ReplicaGroups*, TextHash> groups_of_;

  // Stacks that nested calls share: each uses what lies above its start.
  std::vector<Instruction*> operands_;
  std::vector<Computation*> called_;
  std::vector<const Shape*> shapes_;
  std::vector<int64_t> integers_;
};

}  // namespace gshard

#endif  // GSHARD_IR_MODULE_PARSER_H_
