// Writes a module as StableHLO text. A value of HLO is the list of its leaves here: tuples vanish.
// Operations of HLO alone are undone: fusions are inlined, asynchronous pairs joined, copies
// dropped. Regions see the values around them, so branches take no operands. Internal to
// ir/stablehlo; one object writes one module.
#ifndef GSHARD_IR_STABLEHLO_PRINT_MODULE_WRITER_H_
#define GSHARD_IR_STABLEHLO_PRINT_MODULE_WRITER_H_

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "ir/module.h"
#include "ir/source_lines.h"
#include "ir/stablehlo/print/sharding_writer.h"
#include "ir/traversal.h"

namespace gshard::stablehlo {

using Leaves = std::vector<std::string>;

class ModuleWriter {
 public:
  ModuleWriter(const Module& module, bool gspmd, bool locations);

  Expected<std::string> Write();

  // --- what the writers of single operations use (write_*.cc)
  // An operation as it is put together.
  struct Line {
    explicit Line(const Instruction* instruction) : x(instruction) {}
    void Add(std::string_view attribute);

    const Instruction* x;
    std::string head;               // all that stands between the results and the attributes
    std::vector<std::string> dict;  // `key = value` of the attribute dictionary
    std::string types;              // behind the colon
    std::string tail;               // regions of reduce and while
    std::vector<size_t> leaves;     // of `x` that the results are; empty: all
  };
  const Module& module() const { return module_; }
  ShardingWriter& shardings() { return shardings_; }
  // The leaves of operand i, of all operands, "%a, %b".
  const Leaves& Of(const Instruction* x) const { return values_.at(x); }
  const std::string& One(const Instruction* x, int64_t operand = 0) const {
    return Of(x->operand(operand)).front();
  }
  std::string Operands(const Instruction* x) const;
  Leaves OperandLeaves(const Instruction* x) const;
  // "(A, B) -> C" of all operand leaves and the result.
  std::string FunctionType(const Instruction* x) const;
  std::string FunctionType(std::span<const Shape* const> operands,
                           std::span<const Shape* const> results) const;
  const std::string& Type(const Shape* shape) const;
  // Fresh names for the results; defines `x`.
  void Emit(Line& line) { Emit(line, line.x->shape()); }
  void Emit(Line& line, const Shape* results);
  // A line whose attributes are in place already.
  void EmitInPlace(Line& line) { EmitFinished(line, line.x->shape()); }
  void EmitRaw(const Instruction* x, std::string_view text);  // a line without results
  void SetValue(const Instruction* x, Leaves leaves) { values_[x] = std::move(leaves); }
  std::string NewValue();
  // `"stablehlo.name"(operands) <{props}> ({regions}) : type`
  void Generic(const Instruction* x, std::string_view name, std::vector<std::string> props,
               const std::string& regions = {}, const Shape* results = nullptr,
               std::vector<size_t> leaves = {});
  // A computation of scalars as a region `{ ^bb0(..): .. }` with its block's arguments.
  std::string Region(const Computation& computation);
  // The same with arguments written elsewhere; they are appended to `arguments`.
  std::string RegionBody(const Computation& computation, Leaves& arguments);
  // A branch or loop body: its parameter's leaves are known, its root's leaves are returned.
  std::string Body(const Computation& computation, const Leaves& parameter,
                   std::string_view terminator, int indentation);
  // A branch: the values of its operand are seen, constants are written again inside.
  std::string BranchBody(const Computation& branch, const Instruction* operand,
                         const Leaves& leaves);
  std::string_view FunctionName(const Computation& computation);
  // Values of a computation written in place of `x`: fusions, asynchronous computations.
  bool Inline(const Instruction* x, const Computation& computation, const Leaves& operands);
  bool Fail(const Instruction* x, std::string message, std::string hint = {});
  void Indent(int by) { indentation_ += by; }
  std::string Spaces() const { return std::string(static_cast<size_t>(indentation_), ' '); }
  std::string& out() { return out_; }
  std::string FreshArgument();
  // Commonly printed attributes of an instruction: shardings, frontend attributes.
  void AddCommonAttributes(Line& line);
  const Users& users(const Computation& computation);
  bool in_reducer() const { return reducer_depth_ > 0; }

 private:
  void EmitFinished(Line& line, const Shape* results);
  bool WriteFunction(const Computation& computation, bool is_entry);
  std::string ArgumentText(const Instruction* parameter, const Leaves& names, bool is_entry);
  std::string ResultText(const Computation& computation, bool is_entry);
  std::string ModuleAttributes() const;
  bool WriteInstructions(const Computation& computation);
  bool WriteInstruction(const Instruction* x);
  bool HasTypes(const Instruction* x);  // else failed
  bool IsWhole(const Instruction* x);   // the same
  std::string LocationOf(const Instruction* x);
  void CollectMeshes();

  const Module& module_;
  std::optional<SourceLines> lines_;  // where locations are written
  ShardingWriter shardings_;
  std::string out_;
  int indentation_ = 2;
  int64_t next_value_ = 0;
  int64_t next_argument_ = 0;
  int reducer_depth_ = 0;
  int depth_ = 0;
  std::unordered_map<const Instruction*, Leaves> values_;
  mutable std::unordered_map<const Shape*, std::string> types_;
  std::vector<const Computation*> pending_;  // functions that are called but not written yet
  std::unordered_map<const Computation*, std::string> function_names_;
  std::unordered_map<const Computation*, std::unique_ptr<Users>> users_;
  std::optional<Diagnostic> error_;
};

// --- the writers of families; true if they wrote `x`, or failed
bool WriteElementwise(ModuleWriter& w, const Instruction* x);
bool WriteMovement(ModuleWriter& w, const Instruction* x);
bool WriteContraction(ModuleWriter& w, const Instruction* x);
bool WriteReduction(ModuleWriter& w, const Instruction* x);
bool WriteControlFlow(ModuleWriter& w, const Instruction* x);
bool WriteManualRegion(ModuleWriter& w, const Instruction* x);
bool WriteCollective(ModuleWriter& w, const Instruction* x);
bool WriteCustomCall(ModuleWriter& w, const Instruction* x);
// A copy that has another sharding than its operand, as a constraint. False: it is no such copy.
bool WriteResharding(ModuleWriter& w, const Instruction* x);

// "[0, 1]", "array<i64: 0, 1>".
std::string ListText(Dims dims);
std::string ArrayText(Dims dims);
std::string Joined(std::span<const std::string> parts);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_PRINT_MODULE_WRITER_H_
