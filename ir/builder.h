// Builds well-formed instructions: infers shapes, copies attribute spans, makes names and channel
// ids.
//
// A builder appends to one computation. Errors in use (shapes that do not fit) are InternalError:
// passes must not build ill-formed programs. Every new instruction gets the current scope: source
// range and metadata of the instruction it derives from.
#ifndef GSHARD_IR_BUILDER_H_
#define GSHARD_IR_BUILDER_H_

#include <initializer_list>
#include <span>
#include <string_view>
#include <vector>

#include "ir/module.h"

namespace gshard {

class Builder {
 public:
  Builder(Module& module, Computation* computation) : module_(&module), computation_(computation) {}

  Module& module() const { return *module_; }
  Context& context() const { return module_->context(); }
  Computation* computation() const { return computation_; }

  // Instructions made from now on derive from `origin` (its source range and metadata); null: none.
  void set_origin(const Instruction* origin) { origin_ = origin; }
  const Instruction* origin() const { return origin_; }

  // Generic: shape inferred when null. `name` is a base made unique; empty: the opcode's text.
  template <typename T>
  Instruction* Add(Opcode opcode, std::span<Instruction* const> operands, const T& attributes,
                   const Shape* shape = nullptr, std::span<Computation* const> called = {},
                   std::string_view name = {}) {
    CheckInternal(AttributeTagOf(opcode) == &AttributeType<T>::kTag,
                  "attributes of another opcode");
    return AddOwned(opcode, operands, module_->arena().New<T>(attributes), shape, called, name);
  }
  Instruction* Add(Opcode opcode, std::initializer_list<Instruction*> operands,
                   const Shape* shape = nullptr, std::string_view name = {}) {
    return Add(opcode, std::span<Instruction* const>(operands.begin(), operands.size()),
               NoAttributes{}, shape, {}, name);
  }
  // Same opcode and attributes as `original` (attributes shared), other operands, shape given or
  // inferred.
  Instruction* CloneWith(const Instruction* original, std::span<Instruction* const> operands,
                         const Shape* shape = nullptr);

  // Dims copied into the arena, for attribute structs.
  Dims Copy(std::span<const int64_t> values) { return module_->arena().Copy(values); }

  Instruction* Parameter(int64_t number, const Shape* shape, std::string_view name);
  Instruction* Scalar(DType dtype, double value);
  Instruction* ScalarInt(DType dtype, int64_t value);
  Instruction* Constant(const Literal* literal);
  Instruction* IntegerTable(DType dtype, std::span<const int64_t> values);  // 1-D
  Instruction* Zero(const Shape* shape);  // broadcast of scalar zero (or a scalar)
  Instruction* Iota(const Shape* shape, int64_t dimension);
  Instruction* PartitionId();
  Instruction* Convert(Instruction* x, DType dtype);  // x itself if it has the type
  Instruction* Compare(ComparisonDirection direction, Instruction* a, Instruction* b);
  Instruction* Broadcast(Instruction* x, std::span<const int64_t> result_dims,
                         std::span<const int64_t> dimensions);
  Instruction* BroadcastScalar(Instruction* scalar, std::span<const int64_t> result_dims);
  Instruction* Reshape(Instruction* x, std::span<const int64_t> dims);  // x itself if equal
  Instruction* Transpose(Instruction* x, std::span<const int64_t> permutation);  // x if identity
  Instruction* Slice(Instruction* x, std::span<const int64_t> starts,
                     std::span<const int64_t> limits,
                     std::span<const int64_t> strides = {});  // x if whole
  Instruction* DynamicSlice(Instruction* x, std::span<Instruction* const> starts,
                            std::span<const int64_t> sizes);
  Instruction* DynamicUpdateSlice(Instruction* x, Instruction* update,
                                  std::span<Instruction* const> starts);
  Instruction* Pad(Instruction* x, Instruction* value,
                   std::span<const PadDim> padding);  // x if none
  Instruction* Concatenate(std::span<Instruction* const> parts,
                           int64_t dimension);  // the part if one
  Instruction* Reduce(Instruction* x, Instruction* init, std::span<const int64_t> dimensions,
                      Computation* to_apply);
  Instruction* Tuple(std::span<Instruction* const> elements);
  Instruction* GetTupleElement(Instruction* tuple, int64_t index);  // looks through tuple()

  // Collectives over partitions: fresh channel_id; use_global_device_ids where it applies.
  Instruction* AllReduce(Instruction* x, ReplicaGroups groups, Computation* to_apply);
  Instruction* AllGather(Instruction* x, int64_t dimension, ReplicaGroups groups,
                         int64_t group_size);
  Instruction* ReduceScatter(Instruction* x, int64_t dimension, ReplicaGroups groups,
                             int64_t group_size, Computation* to_apply);
  Instruction* AllToAll(Instruction* x, int64_t dimension, ReplicaGroups groups);
  Instruction* CollectivePermute(Instruction* x, std::span<const DevicePair> pairs);

  // A scalar computation `opcode(a, b)` of the module ("add_f32"), made once per opcode and type.
  Computation* BinaryComputation(Opcode opcode, DType dtype);

 private:
  Instruction* AddOwned(Opcode opcode, std::span<Instruction* const> operands, void* attributes,
                        const Shape* shape, std::span<Computation* const> called,
                        std::string_view name);

  Module* module_;
  Computation* computation_;
  const Instruction* origin_ = nullptr;
};

}  // namespace gshard

#endif  // GSHARD_IR_BUILDER_H_
