// The interface between the partitioner and what it knows of each opcode.
//
// A rule sees the source instruction and its partitioned operands, asks for operands in the layouts
// it needs, emits the local operation and returns the result in whatever layout it came out; the
// driver moves it to the one its sharding asks for. Rules are rows of one table, opcode -> rule;
// the table is complete by construction. The default rule makes operands whole and is always right.
//
// An uneven tile ends in padding, which may hold anything, NaN too. A rule that sums over a dim, or
// chooses along it, masks the padding there first, in each operand that has the dim (MaskPadding);
// padding of other dims may go into the padding of the result. Where a summed label is cut
// (strategy.h), the local results are partial, and the layouts that Choose returns say so: the
// driver adds them up when it moves the result, no rule emits the all-reduce. A rule may emit other
// operations than its source, for example because it matters where the tile lies in the array
// (Offset and Positions of geometry()), and then returns the last of them with Finish.
#ifndef GSHARD_CORE_PARTITION_SCOPE_OP_RULE_H_
#define GSHARD_CORE_PARTITION_SCOPE_OP_RULE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "core/partition/scope/masking.h"
#include "core/partition/scope/partition_scope.h"
#include "core/partition/scope/strategy.h"

namespace gshard {

class PartitionContext;
using RuleResult = Expected<PartitionedValue*>;
using OpRule = RuleResult (*)(PartitionContext& rule);

class PartitionContext {
 public:
  PartitionContext(PartitionScope& scope, const Instruction& source,
                   std::span<PartitionedValue* const> operands,
                   std::span<const MeshLayout* const> wanted)
      : scope_(scope),
        source_(source),
        operands_(operands),
        wanted_(wanted),
        shape_(source.shape()),
        result_shapes_(&shape_, 1) {
    if (shape_->IsTuple()) result_shapes_ = shape_->elements();
  }
  PartitionContext(const PartitionContext&) = delete;
  PartitionContext& operator=(const PartitionContext&) = delete;

  PartitionScope& scope() { return scope_; }
  Builder& builder() { return scope_.builder(); }
  ShardGeometry& geometry() { return scope_.geometry(); }
  MeshLayoutTable& layouts() { return scope_.layouts(); }
  Context& context() { return scope_.context(); }
  const Instruction& source() const { return source_; }
  template <typename T>
  const T& attributes() const {
    return source_.attributes<T>();
  }

  std::span<PartitionedValue* const> operands() const { return operands_; }
  PartitionedValue* operand(int64_t i) const { return operands_[static_cast<size_t>(i)]; }
  const Shape* operand_shape(int64_t i) const { return operand(i)->shape; }
  // The result's layout by its sharding; tuples: one per leaf.
  std::span<const MeshLayout* const> wanted_leaves() const { return wanted_; }
  const MeshLayout* wanted() const { return wanted_[0]; }
  // Whole, within the manual region that the instruction belongs to.
  const MeshLayout* Whole(int64_t rank) { return layouts().ReplicatedLike(Region(), rank); }

  // Operand i in a layout (its local form); the cause is recorded.
  Instruction* Operand(int64_t i, const MeshLayout* layout);
  // A value a rule made itself, moved for the sake of this instruction.
  Instruction* Move(PartitionedValue* value, const MeshLayout* layout);
  ReshardCause Cause() const { return {.user = &source_}; }

  // The source operation on local operands, with its name and attributes.
  Instruction* EmitLocal(std::span<Instruction* const> operands, const Shape* shape);
  // Gives a main local operation the source's name.
  void TakeName(Instruction* local);

  PartitionedValue* Result(Instruction* local, const MeshLayout* layout) {
    return scope_.NewValue(source_.shape(), layout, local);
  }
  // The result's shape; of a tuple: one per element.
  std::span<const Shape* const> ResultShapes() const { return result_shapes_; }
  // Chooses layouts by labels (StrategyTable with this instruction's operands and results).
  const Strategy& Choose(const Labels& labels);
  // Where a result was made in tiles that nobody else has, with one move to where it is wanted
  // reckoned in: its users share that move, instead of each moving what it makes of the tiles. Only
  // if nothing but outputs comes of it, element by element: others may go on with tiles.
  void ShareMove(const Strategy& strategy, PartitionedValue& value);
  // Chooses, brings the operands there, emits the source operation on them (with `shape` inferred
  // or, if it is an array, the local shape) and returns the result. For operations that are the
  // same operation on tiles.
  PartitionedValue* ByLabels(const Labels& labels);
  // The source operation on local operands, its results (one per element of a tuple) in the layouts
  // given.
  PartitionedValue* Emit(std::span<Instruction* const> operands,
                         std::span<const MeshLayout* const> results);
  // The result of `local`, an operation made for this rule, under the source's name; `operand` is
  // what it was made from (where nothing was to be done they are the same), or null.
  PartitionedValue* Finish(Instruction* local, const Instruction* operand,
                           const MeshLayout* layout);
  // Operands whole, operation whole.
  PartitionedValue* Default();
  // Whole, per leaf of a shape.
  std::vector<const MeshLayout*> WholeLeaves(const Shape* shape);

  tl::unexpected<Diagnostic> Error(std::string code, std::string message,
                                   std::string hint = "") const;

 private:
  // A layout of the manual region that the instruction belongs to; a result () has no leaf that
  // says it.
  const MeshLayout* Region();

  PartitionScope& scope_;
  const Instruction& source_;
  std::span<PartitionedValue* const> operands_;
  std::span<const MeshLayout* const> wanted_;
  const Shape* shape_;
  std::span<const Shape* const> result_shapes_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_OP_RULE_H_
