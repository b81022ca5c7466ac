// Builds well-formed instructions: infers shapes, copies attribute spans, makes names and channel
// ids.
//
// A builder appends to one computation. Errors in use (shapes that do not fit) are InternalError:
// passes must not build ill-formed programs. Every new instruction gets the current scope: source
// range and metadata of the instruction it derives from. Shapes made here carry no layout. Scalar
// constants and partition-id are made once per builder and shared by its later instructions, so a
// builder must not outlive a reordering of its computation's instruction list.
#ifndef GSHARD_IR_BUILDER_H_
#define GSHARD_IR_BUILDER_H_

#include <initializer_list>
#include <span>
#include <string_view>
#include <unordered_map>
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
  // Same opcode, attributes, called computations, frontend attributes and backend_config as
  // `original` (shared, not copied: its module must live on), other operands; no sharding. Named
  // after the original. Shape given or inferred; where it cannot be inferred from the operands
  // (reshape, broadcast, iota, ..) the original's must still fit.
  Instruction* CloneWith(const Instruction* original, std::span<Instruction* const> operands,
                         const Shape* shape = nullptr);

  // Dims copied into the arena, for attribute structs.
  Dims Copy(std::span<const int64_t> values) { return module_->arena().Copy(values); }

  Instruction* Parameter(int64_t number, const Shape* shape, std::string_view name);
  Instruction* Scalar(DType dtype, double value);      // cached
  Instruction* ScalarInt(DType dtype, int64_t value);  // cached; exact for 64-bit integers
  Instruction* Constant(const Literal* literal);
  Instruction* IntegerTable(DType dtype, std::span<const int64_t> values);  // 1-D
  Instruction* Filled(const Shape* shape, Instruction* scalar);  // `scalar` in every element
  Instruction* Zero(const Shape* shape);  // broadcast of scalar zero (or a scalar)
  Instruction* Iota(const Shape* shape, int64_t dimension);
  Instruction* PartitionId();                         // u32[], cached
  Instruction* Convert(Instruction* x, DType dtype);  // x itself if it has the type
  Instruction* Compare(ComparisonDirection direction, Instruction* a, Instruction* b);
  Instruction* Select(Instruction* pred, Instruction* on_true,
                      Instruction* on_false);  // the value if both are the same instruction
  // `opcode` is an elementwise operation of two operands without attributes: add, maximum, and, ..
  Instruction* Binary(Opcode opcode, Instruction* a, Instruction* b);
  Instruction* Add(Instruction* a, Instruction* b) { return Binary(Opcode::kAdd, a, b); }
  Instruction* Subtract(Instruction* a, Instruction* b) { return Binary(Opcode::kSubtract, a, b); }
  Instruction* Multiply(Instruction* a, Instruction* b) { return Binary(Opcode::kMultiply, a, b); }
  Instruction* Minimum(Instruction* a, Instruction* b) { return Binary(Opcode::kMinimum, a, b); }
  Instruction* Maximum(Instruction* a, Instruction* b) { return Binary(Opcode::kMaximum, a, b); }
  Instruction* And(Instruction* a, Instruction* b) { return Binary(Opcode::kAnd, a, b); }
  Instruction* Clamp(Instruction* low, Instruction* x, Instruction* high);
  // x itself if the dims are equal and `dimensions` is the identity.
  Instruction* Broadcast(Instruction* x, std::span<const int64_t> result_dims,
                         std::span<const int64_t> dimensions);
  Instruction* BroadcastScalar(Instruction* scalar, std::span<const int64_t> result_dims);
  // x itself if equal; looks through reshapes.
  Instruction* Reshape(Instruction* x, std::span<const int64_t> dims);
  Instruction* Transpose(Instruction* x, std::span<const int64_t> permutation);  // x if identity
  Instruction* Slice(Instruction* x, std::span<const int64_t> starts,
                     std::span<const int64_t> limits,
                     std::span<const int64_t> strides = {});  // x if whole
  Instruction* SliceDim(Instruction* x, int64_t dimension, int64_t start,
                        int64_t limit);  // other dims whole
  // x if whole: starts are clamped, so they cannot matter then.
  Instruction* DynamicSlice(Instruction* x, std::span<Instruction* const> starts,
                            std::span<const int64_t> sizes);
  // `size` elements of one dim from `start` on, a scalar; other dims whole.
  Instruction* DynamicSliceDim(Instruction* x, int64_t dimension, Instruction* start, int64_t size);
  // The update if it has the shape of x.
  Instruction* DynamicUpdateSlice(Instruction* x, Instruction* update,
                                  std::span<Instruction* const> starts);
  // The update begins at `start`, a scalar, in one dim, and at 0 in the others.
  Instruction* DynamicUpdateDim(Instruction* x, Instruction* update, int64_t dimension,
                                Instruction* start);
  Instruction* Pad(Instruction* x, Instruction* value,
                   std::span<const PadDim> padding);  // x if none
  Instruction* PadDimension(Instruction* x, Instruction* value, int64_t dimension, int64_t low,
                            int64_t high);  // other dims as they are
  Instruction* Concatenate(std::span<Instruction* const> parts,
                           int64_t dimension);  // the part if one
  // Dim `from` is taken apart into `groups` pieces, which it must have, and they become the major
  // part of dim `to`; x itself if there is one.
  Instruction* MoveGroups(Instruction* x, int64_t from, int64_t to, int64_t groups);
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
  // Zeros in all dims of `x` but one.
  std::vector<Instruction*> StartsAt(const Instruction* x, int64_t dimension, Instruction* start);
  // `declared`: stands in for the shape in the text where inference wants one.
  Instruction* AddOwned(Opcode opcode, std::span<Instruction* const> operands, void* attributes,
                        const Shape* shape, std::span<Computation* const> called,
                        std::string_view name, const Shape* declared = nullptr);
  CollectiveAttributes FreshCollective(ReplicaGroups groups);

  struct ScalarKey {
    DType dtype;
    uint64_t bits;
    bool operator==(const ScalarKey&) const = default;
  };
  struct ScalarKeyHash {
    size_t operator()(const ScalarKey& key) const;
  };
  struct Combiner {
    Opcode opcode;
    DType dtype;
    Computation* computation;
  };

  Module* module_;
  Computation* computation_;
  const Instruction* origin_ = nullptr;
  std::unordered_map<ScalarKey, Instruction*, ScalarKeyHash> scalars_;   // key: bits of the double
  std::unordered_map<ScalarKey, Instruction*, ScalarKeyHash> integers_;  // key: the integer
  Instruction* partition_id_ = nullptr;
  std::vector<Combiner> combiners_;
};

}  // namespace gshard

#endif  // GSHARD_IR_BUILDER_H_
