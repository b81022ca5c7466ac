// A named list of instructions in definition order (operands before users) with a root.
// Owned by its Module; same threading rule.
#ifndef GSHARD_IR_COMPUTATION_H_
#define GSHARD_IR_COMPUTATION_H_

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "ir/instruction.h"

namespace gshard {

class Computation {
 public:
  Module& module() const { return *module_; }
  std::string_view name() const { return name_; }
  void set_name(std::string_view name) { name_ = name; }
  std::string_view execution_thread() const { return execution_thread_; }  // empty: main
  void set_execution_thread(std::string_view thread) { execution_thread_ = thread; }

  // Text order: every operand stands before its users.
  std::span<Instruction* const> instructions() const { return instructions_; }
  Instruction* root() const { return root_; }
  void set_root(Instruction* root) { root_ = root; }
  // parameters()[k] is parameter(k). Filled as parameters are added, gaps are null until verified.
  std::span<Instruction* const> parameters() const { return parameters_; }
  int64_t parameter_count() const { return static_cast<int64_t>(parameters_.size()); }
  Instruction* parameter(int64_t k) const { return parameters_[static_cast<size_t>(k)]; }

  // Replaces the list (reordering, removing); sets no operands. Parameters follow from the list.
  void SetInstructions(std::vector<Instruction*> instructions);

  SourceRange source() const { return source_; }
  void set_source(SourceRange range) { source_ = range; }

 private:
  friend class Module;
  void Append(Instruction* instruction);
  void RecordParameter(Instruction* instruction);

  Module* module_ = nullptr;
  std::string_view name_;
  std::string_view execution_thread_;
  std::vector<Instruction*> instructions_;
  std::vector<Instruction*> parameters_;
  Instruction* root_ = nullptr;
  SourceRange source_;
};

}  // namespace gshard

#endif  // GSHARD_IR_COMPUTATION_H_
