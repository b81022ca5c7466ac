// Manual regions (shard_map) of a step that is split into micro-batches and stages.
//
// A region's values are those of one device of the mesh. Where the batch is cut over D devices the
// micro-batch of a region's value is the part of that device's rows that the micro-batch of the
// whole has: row (device, micro-batch, i) of the batch is row (device, i) of a micro-batch, and row
// i inside. So to the split a border is an operation whose result's dims follow its operand's,
// D times as long or short, and a collective over devices is one whose rows stay where they are.
// Both have stand-ins (IsDimwiseCall) while micro-batches and stages are planned, which knows no
// devices, and stage functions are written; Restore puts them back for the mesh with its stages.
#ifndef GSHARD_CORE_PIPELINE_PLAN_MANUAL_REGIONS_H_
#define GSHARD_CORE_PIPELINE_PLAN_MANUAL_REGIONS_H_

#include <optional>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace gshard {
class Rewriter;
}

namespace gshard::pipeline {

class ManualRegions {
 public:
  // Replaces borders, collectives and device numbers of `module` (flat, over `devices` devices) by
  // stand-ins. Errors: E-PIPELINE-011 at what has none.
  static Expected<ManualRegions> Hide(Module& module, int64_t devices);

  bool empty() const { return hidden_.empty(); }

  // Notes which instructions of the entry are inside a region.
  void FindInside(const Module& module);
  bool IsInside(const Instruction* x) const { return inside_.count(x) != 0; }

  // Constants, and what is made of constants alone, that are used both inside regions and outside
  // get a copy for the inside: propagation has merged what is equal, and could not see the borders.
  void SeparateConstants(Module& module) const;

  // A border from outside to inside, or back.
  bool Enters(const Instruction* x) const;
  bool Leaves(const Instruction* x) const;

  // Of a module that propagation has cut into `microbatches` tiles: into how many parts regions cut
  // the batch, or a multiple. A border whose value comes from another region and is cut as there
  // does not count, as its rows may be in any order.
  int64_t PartsOfBatch(const Module& module, int64_t microbatches) const;

  // How x lies over the mesh of one stage: manual inside, as the text says it at a border. Null:
  // for propagation to find.
  const Sharding* ShardingOf(Context& context, const Instruction* x) const;
  // How the operand of border x lies; the dims of it that are open, as calls to Sharding have them.
  // Null: replicated.
  const Sharding* OperandSharding(const Instruction* x) const;
  std::string_view OpenDimsOfOperand(const Instruction* x) const;

  // Of inside value x, reshaped to `rank`: manual, and nothing else.
  const Sharding* InsideSharding(Context& context, const Instruction* x, int64_t rank) const;
  // An inside value as one of the whole mesh, to be handed from stage to stage, or kept: the
  // devices' arrays one after another along dim 0 (a scalar: as an element of a vector).
  const Shape* WholeShape(Context& context, const Instruction* x) const;
  const Sharding* WholeSharding(Context& context, const Instruction* x) const;
  // The bytes of what is handed on of x: of an inside value those of the whole mesh.
  int64_t WholeBytes(const Instruction* x) const;

  // Puts the operations back, on `stages` meshes of `devices` devices one after another.
  void Restore(Module& module, int64_t stages) const;

 private:
  struct Hidden {
    const Instruction* original = nullptr;
    const Sharding* inside = nullptr;   // of a border: on the region's side
    const Sharding* outside = nullptr;  // of a border: on the other side; null: replicated
    // Of a border: open dims of its operand's sharding and of its own, as calls to Sharding have them.
    std::string_view operand_open, open;
    std::optional<Opcode> combiner;  // of a collective that reduces
  };
  friend class RegionHiding;
  const Hidden* HiddenOf(const Instruction* x) const;
  int64_t CopiesOf(const Sharding* base) const;
  Instruction* Original(Instruction* x, Rewriter& rewriter, int64_t stages) const;

  int64_t devices_ = 1;
  std::vector<Hidden> hidden_;  // by the number in a stand-in's target
  // By instruction of the entry: a sharding of the region's side, of any rank.
  std::unordered_map<const Instruction*, const Sharding*> inside_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_MANUAL_REGIONS_H_
