// Values of manual regions (plan/manual_regions.h) in the program that is emitted: their shardings
// over the mesh with the stage axis, and the borders through which they are handed on.
//
// Buffers and transfers between stages hold values of the whole mesh. Where a boundary of stages or
// phases lies within a region, what crosses it leaves the region there, each device's array as a
// tile of a whole one, and enters it again on the other side.
#ifndef GSHARD_CORE_PIPELINE_EMIT_MANUAL_BORDERS_H_
#define GSHARD_CORE_PIPELINE_EMIT_MANUAL_BORDERS_H_

#include <functional>

#include "core/pipeline/emit/region_shardings.h"
#include "core/pipeline/plan/manual_regions.h"
#include "ir/builder.h"

namespace gshard::pipeline {

class ManualBorders {
 public:
  enum class Where : uint8_t { kEntry, kStage };  // kStage: manual over the stages

  ManualBorders(const ManualRegions& regions, const RegionShardings& shardings, Where where)
      : regions_(&regions), shardings_(&shardings), where_(where) {}

  // The sharding `s` over the mesh of one stage, here; of a tuple by leaf.
  const Sharding* Here(const Shape* shape, const Sharding* s) const;

  // `made`, which stands for operand `of` of x, as x takes it. A border has it lying as the text
  // says; into a region comes what is of none, the same for all devices (the number of the
  // micro-batch, a layer's own constants), but for what is made of nothing. Otherwise it is `made`.
  Instruction* OperandOf(Builder& b, const Instruction* x, const Instruction* of,
                         Instruction* made) const;

  // What is handed on of x: x's own shape if it is outside, else an array of the whole mesh.
  const Shape* HandedOn(const Instruction* x) const;
  Instruction* HandOn(Builder& b, const Instruction* x, Instruction* local) const;
  Instruction* Take(Builder& b, const Instruction* x, Instruction* handed_on) const;

 private:
  Instruction* Marker(Builder& b, std::string_view target, Instruction* x, const Shape* shape,
                      const Sharding* s) const;

  const ManualRegions* regions_;
  const RegionShardings* shardings_;
  Where where_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_MANUAL_BORDERS_H_
