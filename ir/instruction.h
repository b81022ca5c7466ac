// One operation of a computation. Instructions live in their module's arena and are handed around
// by pointer; a module is mutated by one thread at a time.
//
// There are no user lists: ir/traversal.h computes them (and orders) for a whole computation, which
// is cheaper than keeping them true. Operands must be in the same computation.
#ifndef GSHARD_IR_INSTRUCTION_H_
#define GSHARD_IR_INSTRUCTION_H_

#include <cstdint>
#include <span>
#include <string_view>

#include "ir/attributes.h"
#include "ir/diagnostic.h"
#include "ir/opcode.h"
#include "ir/shape.h"

namespace gshard {

class Computation;
class Module;
struct Sharding;

// Index of an attribute struct's type; opcodes.def pairs opcodes with types.
template <typename T>
struct AttributeType {
  static constexpr char kTag = 0;
};
using AttributeTag = const char*;
AttributeTag AttributeTagOf(Opcode opcode);

class Instruction {
 public:
  Opcode opcode() const { return opcode_; }
  // Dense within the module: below module.instruction_limit(). Passes index vectors by it.
  uint32_t id() const { return id_; }
  std::string_view name() const { return name_; }  // without '%'; unique in the module
  const Shape* shape() const { return shape_; }
  Computation* parent() const { return parent_; }

  std::span<Instruction* const> operands() const { return {operands_, operand_count_}; }
  Instruction* operand(int64_t i) const { return operands_[i]; }
  int64_t operand_count() const { return operand_count_; }
  std::span<Computation* const> called() const { return {called_, called_count_}; }
  Computation* called(int64_t i) const { return called_[i]; }

  // T must be the opcode's struct in opcodes.def (checked).
  template <typename T>
  const T& attributes() const {
    CheckInternal(AttributeTagOf(opcode_) == &AttributeType<T>::kTag,
                  "attributes<T>() of another opcode");
    return *static_cast<const T*>(attributes_);
  }
  template <typename T>
  T& mutable_attributes() {
    return const_cast<T&>(attributes<T>());
  }
  const void* raw_attributes() const { return attributes_; }

  const Sharding* sharding() const { return sharding_; }  // null: none
  void set_sharding(const Sharding* sharding) { sharding_ = sharding; }

  // Verbatim text with its braces or quotes; empty if absent. Parsed on demand: ir/metadata.h.
  std::string_view metadata() const { return metadata_; }
  std::string_view frontend_attributes() const { return frontend_attributes_; }
  std::string_view backend_config() const { return backend_config_; }
  void set_metadata(std::string_view text) { metadata_ = text; }
  void set_frontend_attributes(std::string_view text) { frontend_attributes_ = text; }
  void set_backend_config(std::string_view text) { backend_config_ = text; }

  // Rare common attributes; null if all are absent.
  struct Extras {
    std::span<Instruction* const> control_predecessors;
    std::string_view statistics, origin;  // raw
  };
  const Extras* extras() const { return extras_; }
  void set_extras(const Extras* extras) { extras_ = extras; }
  std::span<Instruction* const> control_predecessors() const {
    return extras_ != nullptr ? extras_->control_predecessors : std::span<Instruction* const>{};
  }

  // Where the user's text has it. Instructions made by passes carry the range of what they came
  // from.
  SourceRange source() const { return source_; }
  void set_source(SourceRange range) { source_ = range; }

  void set_name(std::string_view name) { name_ = name; }  // caller keeps uniqueness and lifetime
  void set_shape(const Shape* shape) { shape_ = shape; }
  void set_operand(int64_t i, Instruction* operand) { operands_[i] = operand; }
  void set_called(int64_t i, Computation* computation) { called_[i] = computation; }

 private:
  friend class Module;
  friend class Computation;
  Opcode opcode_ = Opcode::kTuple;
  uint32_t id_ = 0;
  uint32_t operand_count_ = 0;
  uint32_t called_count_ = 0;
  std::string_view name_;
  const Shape* shape_ = nullptr;
  Computation* parent_ = nullptr;
  Instruction** operands_ = nullptr;
  Computation** called_ = nullptr;
  void* attributes_ = nullptr;
  const Sharding* sharding_ = nullptr;
  const Extras* extras_ = nullptr;
  std::string_view metadata_;
  std::string_view frontend_attributes_;
  std::string_view backend_config_;
  SourceRange source_;
};

}  // namespace gshard

#endif  // GSHARD_IR_INSTRUCTION_H_
