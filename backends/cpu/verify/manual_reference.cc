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

// How the value is cut by the axes that are manual inside: along the dims that change.
const Sharding* CutAtBorder(Context& context, const Instruction& outside,
                            const Instruction& inside) {
  std::vector<int64_t> cut;
  for (int64_t d = 0; d < outside.shape()->rank(); ++d) {
    if (outside.shape()->dim(d) != inside.shape()->dim(d)) cut.push_back(d);
  }
  return KeepOnlyDims(context, outside.sharding(), cut);
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
      copy->set_sharding(CutAtBorder(module.context(), *operands[0], *x));
      copy->set_source(x->source());
      x->set_operand(0, copy);
      list.push_back(copy);
      copies.push_back(copy);
    }
    list.push_back(x);
  }
  std::sort(copies.begin(), copies.end());
  // How values are cut and put together at the borders stays; copies have it from their operands.
  for (Instruction* x : list) {
    if (x->sharding() == nullptr || IsCustomCallTo(*x, kLeaveManualTarget)) continue;
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
