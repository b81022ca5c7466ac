// A whole program: computations (callees before callers, the entry last when printed), header
// attributes, debug tables. Owns its instructions; shares its Context. One mutating thread at a
// time.
#ifndef GSHARD_IR_MODULE_H_
#define GSHARD_IR_MODULE_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "ir/arena.h"
#include "ir/computation.h"
#include "ir/context.h"
#include "ir/diagnostic.h"
#include "ir/instruction.h"
#include "ir/name_table.h"
#include "ir/source_text.h"

namespace gshard {

// The header's attributes in their parsed form; raw views verbatim with brackets, empty if absent.
struct ModuleHeader {
  bool is_scheduled = false;
  struct Alias {
    std::vector<int64_t> output_index;
    int64_t parameter = 0;
    std::vector<int64_t> parameter_index;
    bool must_alias = false;
    bool kind_written = true;
  };
  std::vector<Alias> input_output_alias;
  struct Donor {
    int64_t parameter = 0;
    std::vector<int64_t> index;
  };
  std::vector<Donor> buffer_donor;
  std::optional<bool> alias_passthrough_params;
  // Of the entry: null if the text has none (then taken from parameters and root).
  std::vector<const Shape*> entry_parameter_layouts;
  const Shape* entry_result_layout = nullptr;
  // Empty: absent. One entry, or one per parameter / root element.
  std::vector<bool> propagation_to_parameters;
  std::vector<bool> propagation_to_output;
  int64_t replica_count = 1;
  int64_t num_partitions = 1;
  std::string_view frontend_attributes;    // raw
  std::string_view origin_recovery_table;  // raw
  std::string_view debug_attributes;       // raw
  std::vector<const Mesh*> meshes;         // our sugar
};

class Module {
 public:
  Module(std::string name, std::shared_ptr<Context> context);
  ~Module();
  Module(const Module&) = delete;
  Module& operator=(const Module&) = delete;
  // Takes what `other` has, such as a changed clone of this module. What this module had is gone;
  // instructions and computations of `other` stay where they are.
  Module& operator=(Module&& other) noexcept;

  const std::string& name() const { return name_; }
  void set_name(std::string name) { name_ = std::move(name); }
  Context& context() const { return *context_; }
  const std::shared_ptr<Context>& shared_context() const { return context_; }
  Arena& arena() { return storage_->arena; }

  ModuleHeader& header() { return header_; }
  const ModuleHeader& header() const { return header_; }
  // FileNames, FunctionNames, FileLocations, StackFrames verbatim; empty if none. ir/metadata.h
  // reads it.
  std::string_view debug_tables() const { return debug_tables_; }
  void set_debug_tables(std::string_view text) { debug_tables_ = text; }

  // Callees before callers. The entry is among them (last after parsing). A new computation is
  // appended; SetComputations restores the order.
  std::span<Computation* const> computations() const { return computations_; }
  Computation* entry() const { return entry_; }
  void set_entry(Computation* entry) { entry_ = entry; }
  Computation* AddComputation(std::string_view name);  // name made unique
  void SetComputations(std::vector<Computation*> computations);

  // Low-level: a new instruction at the end of `parent`. `attributes` must be of the opcode's
  // struct and is copied into the arena (spans inside it are not: copy them first, see Builder).
  // `name` is stored as given: it must be unique (UniqueName) and outlive the module.
  template <typename T>
  Instruction* Add(Computation* parent, Opcode opcode, std::string_view name, const Shape* shape,
                   std::span<Instruction* const> operands, const T& attributes,
                   std::span<Computation* const> called = {}) {
    CheckInternal(AttributeTagOf(opcode) == &AttributeType<T>::kTag,
                  "attributes of another opcode");
    return AddRaw(parent, opcode, name, shape, operands, arena().New<T>(attributes), called);
  }
  // `attributes` is already in the arena.
  Instruction* AddRaw(Computation* parent, Opcode opcode, std::string_view name, const Shape* shape,
                      std::span<Instruction* const> operands, void* attributes,
                      std::span<Computation* const> called);
  // Copy of `original` in `parent` with other operands and the same everything else (attributes are
  // shared). Same module only. `name` as in Add.
  Instruction* Clone(Computation* parent, const Instruction* original,
                     std::span<Instruction* const> operands, std::string_view name);

  // `base` if free, else its root (without a numeric suffix) with the first free of .1, .2, ..; the
  // view lives in the arena. Instruction and computation names are separate spaces.
  std::string_view UniqueName(std::string_view base) {
    return instruction_names_.TakeUnique(base, arena());
  }
  // The names of instructions in use; the parser resolves operands by their ids.
  NameTable& instruction_names() { return instruction_names_; }

  const ReplicaGroups* Own(ReplicaGroups groups);  // lives as long as the module
  uint32_t instruction_limit() const { return next_id_; }
  // One more than the largest channel_id that an instruction of the module was made with.
  int64_t NextChannelId() const { return largest_channel_id_ + 1; }

  // N: num_partitions if > 1, else the device count of its tiled shardings, else the largest device
  // that its lists, other shardings and collectives name, plus one (docs/text-format.md).
  int64_t DeviceCount() const;
  // A note that says where DeviceCount() comes from: the header or the first such sharding.
  Diagnostic WhyDeviceCount() const;

  const std::shared_ptr<const SourceText>& source() const { return source_; }
  void set_source(std::shared_ptr<const SourceText> source) { source_ = std::move(source); }

  // Error at an instruction's place in the user's text. Where it has none, as one that a pass made
  // or a proto holds, the error names the file, if there is one, and the instruction.
  Diagnostic ErrorAt(const Instruction* instruction, std::string code, std::string message) const;
  Diagnostic ErrorAt(SourceRange range, std::string code, std::string message) const;

  // A copy with its own instructions, computations and names. Shares the context, the source text
  // and, kept alive by both, what attribute spans and views point to.
  std::unique_ptr<Module> Clone() const;

 private:
  // Everything instructions point into. Clones keep the storage of their original alive.
  struct Storage {
    Arena arena;
    std::deque<Computation> computations;
    std::deque<ReplicaGroups> replica_groups;
    std::vector<std::shared_ptr<const Storage>> inherited;
  };

  std::string name_;
  std::shared_ptr<Context> context_;
  std::shared_ptr<const SourceText> source_;
  std::shared_ptr<Storage> storage_;
  ModuleHeader header_;
  std::string_view debug_tables_;
  std::vector<Computation*> computations_;
  Computation* entry_ = nullptr;
  uint32_t next_id_ = 0;
  int64_t largest_channel_id_ = 0;
  NameTable instruction_names_;
  NameTable computation_names_;
};

// A zeroed attribute struct of the opcode in `arena`, and a copy of one (spans inside are shared).
void* NewAttributes(Arena& arena, Opcode opcode);
void* CopyAttributes(Arena& arena, Opcode opcode, const void* attributes);

}  // namespace gshard

#endif  // GSHARD_IR_MODULE_H_
