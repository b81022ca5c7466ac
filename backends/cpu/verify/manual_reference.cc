// One walk: new shardings, and a copy in front of each entry that keeps how the value is cut there.
// The dims along which it is cut are those that differ on the two sides.
#include "backends/cpu/verify/manual_reference.h"

#include <algorithm>
#include <vector>

#include "ir/custom_call.h"
#include "ir/sharding_algebra.h"

namespace gshard::cpu {
namespace {

const Sharding* WithoutTiles(Context& context, const Sharding* s) {
  if (s->IsTuple()) {
    Sharding tuple;
    tuple.kind = ShardingKind::kTuple;
    for (const Sharding* element : s->elements) {
      tuple.elements.push_back(WithoutTiles(context, element));
    }
    return context.Intern(std::move(tuple));
  }
  if (s->IsManual()) return s;
  if (s->IsTiled() && s->HasManualSubgroup()) {
    return ReplicateAllDataDims(context, s, s->data_rank());
  }
  return context.Replicated();
}

// How the value is cut by the axes that are manual inside: along the dims that change, into as many
// tiles as make the shape inside. They are the major ones of a dim; what else cuts it, the axes that
// are not manual, are replicas.
const Sharding* CutAtBorder(Context& context, const Instruction& outside,
                            const Instruction& inside, const Sharding* s) {
  if (!s->IsTiled()) return s;
  std::vector<int64_t> cut;
  for (int64_t d = 0; d < outside.shape()->rank(); ++d) {
    const int64_t whole = outside.shape()->dim(d), part = inside.shape()->dim(d);
    if (whole == part) continue;
    cut.push_back(d);
    const int64_t tiles = part > 0 ? whole / part : 1;
    if (tiles <= 1 || s->TileCount(d) == tiles || s->TileCount(d) % tiles != 0) continue;
    const int64_t minor[] = {d + 1};
    s = SplitDim(context, s, d, tiles);
    s = RemoveDims(context, ReplicateOnDims(context, s, minor), minor);
  }
  return KeepOnlyDims(context, s, cut);
}

void Rewrite(Module& module, Computation& computation) {
  const std::vector<Instruction*> given(computation.instructions().begin(),
                                        computation.instructions().end());
  std::vector<Instruction*> list, copies;
  for (Instruction* x : given) {  // new ones are appended to the computation meanwhile
    if (IsCustomCallTo(*x, kEnterManualTarget) && x->operand(0)->sharding() != nullptr) {
      Instruction* const operands[] = {x->operand(0)};
      Instruction* copy =
          module.Add(&computation, Opcode::kCopy, module.UniqueName(operands[0]->name()),
                     operands[0]->shape(), operands, NoAttributes());
      copy->set_sharding(
          CutAtBorder(module.context(), *operands[0], *x, operands[0]->sharding()));
      copy->set_source(x->source());
      x->set_operand(0, copy);
      list.push_back(copy);
      copies.push_back(copy);
    }
    list.push_back(x);
  }
  std::sort(copies.begin(), copies.end());
  // How the manual axes cut and put together values at the borders stays; copies have it from their
  // operands.
  for (Instruction* x : list) {
    if (x->sharding() == nullptr) continue;
    if (IsCustomCallTo(*x, kLeaveManualTarget)) {
      x->set_sharding(CutAtBorder(module.context(), *x, *x->operand(0), x->sharding()));
      continue;
    }
    if (!std::binary_search(copies.begin(), copies.end(), x)) {
      x->set_sharding(WithoutTiles(module.context(), x->sharding()));
    }
  }
  computation.SetInstructions(std::move(list));
}

}  // namespace

bool HasManualRegions(const Module& module) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (IsRegionMarker(*x)) return true;
    }
  }
  return false;
}

void ReplicateOutsideManual(Module& module) {
  for (Computation* computation : module.computations()) Rewrite(module, *computation);
}

}  // namespace gshard::cpu
