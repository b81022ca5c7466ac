// What rules build with: one computation under construction and what the whole run shares.
#ifndef GSHARD_CORE_PARTITION_SCOPE_PARTITION_SCOPE_H_
#define GSHARD_CORE_PARTITION_SCOPE_PARTITION_SCOPE_H_

#include <cstdint>
#include <map>
#include <memory_resource>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/partition/layout/shard_geometry.h"
#include "core/partition/plan/demand.h"
#include "core/partition/scope/partition_tables.h"
#include "core/partition/scope/partitioned_value.h"
#include "ir/builder.h"
#include "ir/traversal.h"

namespace gshard {

// What a called computation is given and must return, per leaf.
struct CalleeSignature {
  std::vector<std::vector<const MeshLayout*>> parameters;
  std::vector<const MeshLayout*> root;  // empty: whole, in the root's own manual region
  auto operator<=>(const CalleeSignature&) const = default;
};

// One run over a module.
struct PartitionRun {
  Module& module;
  PartitionOptions options;
  std::optional<PartitionTables> own_tables;  // where the options keep none
  PartitionTables& tables;
  MeshLayoutTable& layouts;
  ReshardPlanner& planner;
  PartitionStats stats;
  // Owns the values; they are never destroyed one by one.
  std::pmr::monotonic_buffer_resource memory;
  Demand demand;
  // By source instruction id.
  std::vector<PartitionedValue*> value_of;
  std::vector<uint8_t> name_taken;
  std::map<std::pair<const Computation*, CalleeSignature>, Computation*> callees;
  std::vector<std::pair<const Computation*, Computation*>> first_copies;  // of callees
  // Of source computations, made when asked for.
  std::map<const Computation*, Users> users;

  PartitionRun(Module& m, const PartitionOptions& o, int64_t device_count)
      : module(m),
        options(o),
        tables(o.tables != nullptr ? o.tables->For(m, o, device_count)
                                   : own_tables.emplace(m, o, device_count)),
        layouts(tables.layouts),
        planner(tables.planner),
        demand(m.instruction_limit()),
        value_of(m.instruction_limit()),
        name_taken(m.instruction_limit()) {}

  const Users& UsersIn(const Computation& source) {
    return users.try_emplace(&source, source).first->second;
  }
};

// Arrays of no elements are the same in every layout but for their shape: nothing is to be computed
// or moved.
inline bool HasNoElements(const Shape* shape) {
  return shape->IsArray() && shape->element_count() == 0;
}

// Why a collective is being inserted; becomes frontend attribute gshard.cause.
struct ReshardCause {
  const Instruction* user = nullptr;  // who needs the value; null: its own sharding asks for it
  const Instruction* value = nullptr;
  std::string_view note = {};       // instead of the sentence made from the above
  const MeshLayout* has = nullptr;  // of a change of layout
  const MeshLayout* wants = nullptr;
  bool full_rematerialization = false;
};

// The computation under construction and the values in it. Not thread-safe, like the PartitionRun
// that it belongs to: both add to one module and its Context.
class PartitionScope {
 public:
  PartitionScope(PartitionRun& run, Computation* computation)
      : run_(run),
        builder_(run.module, computation),
        geometry_(builder_, run.layouts.device_count()) {}
  PartitionScope(const PartitionScope&) = delete;
  PartitionScope& operator=(const PartitionScope&) = delete;

  PartitionRun& run() { return run_; }
  Builder& builder() { return builder_; }
  ShardGeometry& geometry() { return geometry_; }
  MeshLayoutTable& layouts() { return run_.layouts; }
  Context& context() { return run_.module.context(); }
  int64_t device_count() const { return run_.layouts.device_count(); }

  // --- values
  // A new array value with one variant.
  PartitionedValue* NewValue(const Shape* shape, const MeshLayout* layout, Instruction* local);
  // The value of an instruction whose result has no elements: made from nothing in any layout.
  PartitionedValue* NewWithoutElements(const Instruction* source);
  // The local form of a value without elements.
  Instruction* WithoutElements(const PartitionedValue& value, const MeshLayout* layout);
  // A new value that `maker` makes in any layout.
  PartitionedValue* NewRematerializable(const Shape* shape, const Instruction* source,
                                        const PartitionedValue::Rematerializer* maker,
                                        PartitionedValue* payload = nullptr);
  PartitionedValue* NewTuple(const Shape* shape, std::span<PartitionedValue* const> elements);
  // Returns a value with the same local forms under another source or layout.
  PartitionedValue* NewCopy(const PartitionedValue& value);
  // From a local tuple whose leaves have the layouts given (pre-order).
  PartitionedValue* NewFromLocal(const Shape* shape, std::span<const MeshLayout* const> leaves,
                                 Instruction* local);

  // Returns the layout of an array by the sharding of its source, else that of its first variant.
  static const MeshLayout* LayoutOf(const PartitionedValue& value) {
    return value.layout != nullptr ? value.layout : value.variants[0].layout;
  }
  // Returns these layouts per leaf (pre-order).
  static std::vector<const MeshLayout*> LeafLayouts(const PartitionedValue& value);
  // The computation partitioned for these layouts; made once per signature.
  Expected<Computation*> Callee(const Computation* computation, const CalleeSignature& signature);
  // Looks such a computation up for a rule that makes it itself; null: not made yet.
  Computation* FindCallee(const Computation* computation, const CalleeSignature& signature) const;
  void CacheCallee(const Computation* computation, const CalleeSignature& signature,
                   Computation* made);
  // The operation of `source` on other operands, with its name, attributes and metadata; no
  // sharding. For shapes that are known: nothing is inferred.
  Instruction* CloneLocal(const Instruction* source, std::span<Instruction* const> operands,
                          const Shape* shape);
  // Gives `local` the name of `source`; a copy of it where the name is taken already.
  void TakeName(Instruction* local, const Instruction* source);

  // --- resharding. Both layouts of a reshard belong to the same manual region.
  // Brings the value of an array to a layout, once: by the cheapest plan from where it is at hand
  // or will be needed, or by computing it again where that costs less.
  Instruction* Reshard(PartitionedValue* value, const MeshLayout* layout,
                       const ReshardCause& cause);
  // Cost of the plan alone, in units of one byte received by a device (ReshardPlan::cost): 0 if the
  // value is there already or is made anew; Reshard may compute it again for less.
  double ReshardCost(const PartitionedValue& value, const MeshLayout* layout);
  // Adds the layouts in which a value is at hand or will be needed; if a Rematerializer makes it,
  // those in which it can be made from what is at hand.
  void CollectLayouts(const PartitionedValue& value, std::vector<const MeshLayout*>& layouts);
  // True if the value can be had in this layout without moving anything.
  bool IsAvailableWithoutCommunication(const PartitionedValue& value, const MeshLayout* layout);
  // The local form of any value with its leaves in the layouts given (pre-order).
  Instruction* Materialize(PartitionedValue* value, std::span<const MeshLayout* const> leaves,
                           const ReshardCause& cause);

  // --- collectives along axes of a layout; the cause is recorded.
  Instruction* AllReduce(Instruction* x, const MeshLayout* layout, AxisSpan axes,
                         Computation* to_apply, const ReshardCause& cause);
  Instruction* AllReduce(Instruction* x, const MeshLayout* layout, AxisSpan axes, Opcode combiner,
                         const ReshardCause& cause);
  Instruction* AllGather(Instruction* x, int64_t dim, const MeshLayout* layout, AxisSpan axes,
                         const ReshardCause& cause);
  Instruction* ReduceScatter(Instruction* x, int64_t dim, const MeshLayout* layout, AxisSpan axes,
                             Opcode combiner, const ReshardCause& cause);
  Instruction* AllToAll(Instruction* x, int64_t dim, const MeshLayout* layout, AxisSpan axes,
                        const ReshardCause& cause);
  Instruction* CollectivePermute(Instruction* x, std::span<const DevicePair> pairs,
                                 const ReshardCause& cause);

  // Edges of tiles sent around before, by what was sent from where to where (halo.cc makes keys).
  Instruction*& Exchanged(const std::vector<int64_t>& key) { return exchanged_[key]; }
  // What an instruction of the source does with rows that their devices own (own_rows.h).
  enum class RowUse : uint8_t { kNone, kGoesOn, kAddsUp };
  RowUse RowUseOf(const Instruction& x) const {
    const auto found = row_uses_.find(&x);
    return found == row_uses_.end() ? RowUse::kNone : found->second;
  }
  void SetRowUse(const Instruction& x, RowUse use) { row_uses_[&x] = use; }
  // PartitionedValue::own_rows, by what was looked up where (gather_scatter.cc makes keys).
  PartitionedValue*& RowOwners(const std::vector<int64_t>& key) { return row_owners_[key]; }

  // Dim padded at its end or cut to `size`. New elements are unspecified (zero).
  Instruction* Resize(Instruction* x, int64_t dim, int64_t size);

 private:
  void ShareOwners(PartitionedValue* value, const ReshardCause& cause);
  // The operation of the value's source on operands in this layout.
  Instruction* Recompute(PartitionedValue* value, const MeshLayout* layout);
  // Whole on every device, and cut from there; said to the recorder. `cause` has all its fields.
  Instruction* RematerializeAsXla(PartitionedValue* value, PartitionedValue::Variant from,
                                  const MeshLayout* layout, const ReshardCause& cause);
  PartitionedValue* NewEmpty(const Shape* shape);
  std::string_view NameOf(const Instruction* source);
  Instruction* Caused(Instruction* collective, const ReshardCause& cause, int64_t bytes);

  PartitionRun& run_;
  Builder builder_;
  ShardGeometry geometry_;
  std::map<std::vector<int64_t>, Instruction*> exchanged_;
  std::map<std::vector<int64_t>, PartitionedValue*> row_owners_;
  std::map<const Instruction*, RowUse> row_uses_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_SCOPE_PARTITION_SCOPE_H_
