// Makes a Module of a parsed program: callees first, regions as computations, captured values as
// operands. Converters (ir/stablehlo/import/converters.h) see operations one at a time through this
// interface. Internal to ir/stablehlo. One object imports one program.
#ifndef GSHARD_IR_STABLEHLO_IMPORT_IMPORTER_H_
#define GSHARD_IR_STABLEHLO_IMPORT_IMPORTER_H_

#include <initializer_list>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "ir/builder.h"
#include "ir/dims.h"
#include "ir/module.h"
#include "ir/shardy_text.h"
#include "ir/stablehlo/import/dim_specifications.h"
#include "ir/stablehlo/import/locations.h"
#include "ir/stablehlo/import/op_table.h"
#include "ir/stablehlo/syntax/attribute.h"
#include "ir/stablehlo/syntax/errors.h"

namespace gshard::stablehlo {

class Importer {
 public:
  Importer(Errors& errors, Program& program, std::shared_ptr<const SourceText> source,
           std::shared_ptr<Context> context, const DimSizes& dims);

  // Null after an error.
  std::unique_ptr<Module> Run();

  // --- what converters ask
  Module& module() { return *module_; }
  Context& context() { return module_->context(); }
  Arena& arena() { return module_->arena(); }
  Program& program() { return program_; }
  Errors& errors() { return errors_; }
  Computation* computation() const { return computation_; }
  // A builder at the end of the current computation, whose instructions derive from `op`: for
  // operations made of several. Shapes must fit: check before.
  Builder BuilderFor(const Operation& op);

  bool Fail(const Operation& op, ParseError code, std::string message, std::string hint = {});
  // Exactly `count` operands (arrays if `arrays`); an error otherwise.
  bool WantOperands(const Operation& op, size_t count, bool arrays = true);
  bool WantResults(const Operation& op, size_t count);
  bool WantRegions(const Operation& op, size_t count);
  Instruction* Operand(const Operation& op, size_t i) const { return op.operands[i]->instruction; }
  std::vector<Instruction*> Operands(const Operation& op) const;
  // The static shape of result i as written; null where the text leaves it open.
  const Shape* ResultShape(const Operation& op, size_t i = 0) const;
  // An array of dims that the text or its constants give; null after an error: one is negative.
  const Shape* ArrayOf(const Operation& op, DType dtype, Dims dims);

  // --- attributes: the first of `keys` that the operation has
  std::optional<std::string_view> Find(const Operation& op,
                                       std::initializer_list<std::string_view> keys) const;
  // Readers leave `value` alone where the attribute is absent and `required` is off.
  bool Int(const Operation& op, std::initializer_list<std::string_view> keys, int64_t& value,
           bool required = true);
  bool Bool(const Operation& op, std::initializer_list<std::string_view> keys, bool& value);
  bool Integers(const Operation& op, std::initializer_list<std::string_view> keys, Dims& value,
                bool required = true);
  bool String(const Operation& op, std::initializer_list<std::string_view> keys,
              std::string& value);
  bool BadValue(const Operation& op, std::string_view key, std::string_view value);
  // The value behind `#alias`; `text` itself if it is none.
  std::string_view Resolve(std::string_view text) const;

  // --- making instructions
  // Of `op` in the current computation; `shape` null: inferred, with an error where it does not
  // follow. Null after an error.
  template <typename T>
  Instruction* Emit(const Operation& op, Opcode opcode, std::span<Instruction* const> operands,
                    const T& attributes, const Shape* shape,
                    std::span<Computation* const> called = {}) {
    CheckInternal(AttributeTagOf(opcode) == &AttributeType<T>::kTag,
                  "attributes of another opcode");
    return EmitRaw(op, opcode, operands, arena().New<T>(attributes), shape, called);
  }
  Instruction* EmitRaw(const Operation& op, Opcode opcode, std::span<Instruction* const> operands,
                       void* attributes, const Shape* shape, std::span<Computation* const> called);
  Instruction* EmitElement(const Operation& op, Instruction* tuple, int64_t index);
  // Result i of `op`. False for null, so that it ends a converter.
  bool Define(const Operation& op, size_t i, Instruction* x);
  // Emits with the operation's results as the shape, a tuple's elements where there are several,
  // and defines them.
  template <typename T>
  bool EmitResults(const Operation& op, Opcode opcode, std::span<Instruction* const> operands,
                   const T& attributes, std::span<Computation* const> called = {}) {
    return DefineAll(
        op, EmitRaw(op, opcode, operands, arena().New<T>(attributes), ResultsShape(op), called));
  }
  // One result, or a tuple of several.
  const Shape* ResultsShape(const Operation& op);
  bool DefineAll(const Operation& op, Instruction* x);
  void SetFrontendAttribute(Instruction* x, std::string_view key, std::string_view value);
  // `text` as it is: `{..}` of other dictionaries.
  void SetRawFrontendAttribute(Instruction* x, std::string_view key, std::string_view text);

  // --- regions and functions
  // A region without captures but constants as a computation of its own. `extra`: parameters
  // that HLO wants besides. Null after an error.
  Computation* RegionComputation(const Operation& op, const Region& region);
  // The computation of `op(a, b)` on scalars of a type, for `reduce .. applies op`.
  Computation* AppliedComputation(const Operation& op, std::string_view name, DType dtype);
  // A region whose captured values come in with its arguments as elements of one tuple parameter
  // (`as_tuple`), or as that value itself where there is just one. Arguments that are `passed_on`
  // (empty: none) stand for the operands, which are captured or constants.
  Computation* CapturingComputation(const Operation& op, const Region& region,
                                    std::string_view name, std::span<Value* const> captures,
                                    const std::vector<bool>& passed_on, bool as_tuple,
                                    bool return_captures);
  // All but the terminator, into the current computation.
  bool ConvertOperations(const Region& region);
  // A region as the body of a call: one parameter for each argument and captured value.
  Computation* BodyComputation(const Operation& op, const Region& region, std::string_view name);
  // The computation of @name for arguments of these shapes, converted on first use. `values`: the
  // arguments where they are values of `op`, else empty. Null after an error.
  Computation* FunctionComputation(const Operation& op, std::string_view name,
                                   std::span<const Shape* const> shapes,
                                   std::span<Value* const> values);
  Function* FindFunction(const Operation& op, std::string_view symbol);
  // The values of the terminator of `region` in the current computation.
  bool TerminatorValues(const Region& region, std::vector<Instruction*>& values);
  // Between them, conversions are inside of a manual region over `axes`.
  void EnterManual(std::string_view axes);
  void LeaveManual();
  // In a computation of scalars, where shardings have no meaning?
  bool in_reducer() const { return reducer_depth_ > 0; }

  // --- shardings
  // `#sdy.sharding<..>`, `#sdy.sharding_per_value<[..]>`, or either from its bracket on. Null after
  // an error.
  const Sharding* ReadSharding(std::string_view text, const Shape* shape);
  // Can the shardings of a manual computation's values and its axes be read?
  bool CheckManualRegion(const Operation& op, std::string_view in_shardings,
                         std::string_view out_shardings, const std::string& axes);
  const ShardyMeshes& meshes() const { return meshes_; }
  const Sharding* ReadHloSharding(SourceRange place, std::string_view quoted, const Shape* shape);

  // --- values that are known while importing
  // The elements of an integer array that constants and sizes determine, in order.
  bool ConstantIntegers(const Value& value, std::vector<int64_t>& elements);
  // A shape-carrying operand as dims; an error that names what is not known.
  bool ConstantDims(const Operation& op, size_t operand, std::vector<int64_t>& dims);

 private:
  class Inside;  // switches to another computation while alive

  bool ReadHeader();
  bool ReadMeshes();
  Function* FindEntry();
  bool ConvertEntry(Function& function);
  bool AddArgument(Function& function, size_t i, bool is_entry, const Shape* shape);
  bool ReadShardRecord(std::span<const NamedAttribute> attributes, Instruction* x);
  bool AddArgumentAliases(Function& function, size_t i, bool single_result);
  // By argument and dim, as EvaluateDim takes them.
  using SpecifiedDims = std::map<std::pair<size_t, int64_t>, std::string>;
  bool ReadDimSpecifications(const Function& function, SpecifiedDims& dims);
  bool BindDynamicDims(Function& function);
  bool FinishEntry(Function& function, std::vector<Instruction*>& values);
  Computation* ConvertFunction(const Operation& op, Function& function,
                               std::span<const Shape* const> shapes);
  bool ConvertOperation(const Operation& op);
  bool CheckOperandTypes(const Operation& op);
  bool CloneInto(const Operation& op, Value* value, int depth);
  Instruction* AddParameter(Computation* computation, int64_t number, const Shape* shape,
                            std::string_view base, SourceRange source, std::string_view location);
  void SetRoot(Computation* computation, std::span<Instruction* const> values, const Operation* op,
               bool always_tuple);
  std::string_view NameFor(const Operation& op, Opcode opcode);
  bool SetSharding(const Operation& op, Instruction* x);
  const Sharding* SpreadOver(const Shape* shape, const Sharding* sharding);
  const Sharding* WithCaptures(const Instruction& loop, const Shape* shape,
                               const Sharding* sharding, const Sharding* otherwise);
  bool ReadShardyList(std::string_view text, std::vector<ShardySharding>& list);
  const Shape* InferredShape(const Operation& op, Opcode opcode,
                             std::span<Instruction* const> operands, void* attributes,
                             std::span<Computation* const> called);

  Errors& errors_;
  bool simplifies_ = true;  // until there is something that the verifier will refuse
  Program& program_;
  const DimSizes& given_dims_;
  std::unique_ptr<Module> module_;
  Locations locations_;
  Computation* computation_ = nullptr;
  std::vector<Computation*> finished_;  // callees first
  std::set<const Function*> open_functions_;
  std::vector<std::string> manual_axes_;
  std::map<std::string, Computation*, std::less<>> function_computations_;
  std::map<std::string, Computation*, std::less<>> applied_computations_;
  ShardyMeshes meshes_;
  std::map<std::string, const Sharding*, std::less<>> shardings_;
  std::map<std::pair<const Function*, int64_t>, int64_t> dynamic_dims_;
  // Arguments whose elements callers know, and the parameters they became.
  std::map<const Value*, std::vector<int64_t>> known_;
  std::map<const Instruction*, std::vector<int64_t>> known_parameters_;
  int reducer_depth_ = 0;
};

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_IMPORT_IMPORTER_H_
