// Custom calls: markers of shardings and placements pass their adjoint on, marked alike; the
// borders of manual regions exchange their roles; LAPACK's routines have rules of their own.
//
// A value that a region sees on several devices (its sharding repeats it) is one variable outside:
//   enter(x)   x += leave(all-reduce(c) over the devices that had the same)
//   leave(x)   x += enter(c) / (how many devices had the same)

#include "ir/custom_call.h"

#include <fmt/format.h>

#include "core/autodiff/emit.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {
namespace {

// Devices that have the same part of a value, each once in one list.
struct Copies {
  int64_t count = 1;
  ReplicaGroups groups;
};

Expected<Copies> CopiesOf(const Instruction* marker, const Sharding* sharding,
                          ReverseScope& scope) {
  const int64_t devices = scope.module().DeviceCount();
  if (sharding == nullptr || sharding->IsReplicated()) {
    const int64_t dims[] = {1, devices};
    return Copies{devices, ReplicaGroups::FromTiles(TileAssignment::Iota(dims))};
  }
  if (sharding->IsTiled() && !sharding->HasManualSubgroup()) {
    const int64_t count = sharding->SubgroupSize(SubgroupType::kReplicated);
    if (count == 1) return Copies{};
    const int64_t dims[] = {sharding->tiles.device_count() / count, count};
    return Copies{count, ReplicaGroups::FromTiles(sharding->tiles.Reshape(dims))};
  }
  return Fail(scope.ErrorAt(marker, "E-GRAD-007",
                            "derivatives cross the border of a region that is manual in all mesh "
                            "axes only"));
}

Instruction* Marker(Builder& b, std::string_view target, Instruction* x, const Shape* shape,
                    const Sharding* sharding) {
  CustomCallAttributes attributes;
  attributes.target = b.module().arena().Copy(target);
  Instruction* operands[] = {x};
  Instruction* marker = b.Add(Opcode::kCustomCall, operands, attributes, shape);
  marker->set_sharding(sharding);
  return marker;
}

Expected<void> GradRegionMarker(Instruction* x, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  Instruction* operand = x->operand(0);
  const Sharding* manual = b.context().Manual();
  const Shape* shape = operand->shape()->bare();
  if (IsCustomCallTo(*x, kEnterManualTarget)) {
    const Sharding* outside = operand->sharding();
    Expected<Copies> copies = CopiesOf(x, outside, scope);
    if (!copies) return Fail(std::move(copies.error()));
    if (copies->count > 1) {
      c = b.AllReduce(c, copies->groups, b.BinaryComputation(Opcode::kAdd, c->shape()->dtype()));
      c->set_sharding(manual);
    }
    c = Marker(b, kShardingTarget, c, c->shape(), manual);
    scope.Add(operand, Marker(b, kLeaveManualTarget, c, shape,
                              outside != nullptr ? outside : b.context().Replicated()));
    return {};
  }
  Expected<Copies> copies = CopiesOf(x, x->sharding(), scope);
  if (!copies) return Fail(std::move(copies.error()));
  if (copies->count > 1) c = e.Mul(c, 1 / static_cast<double>(copies->count));
  c = Marker(b, kShardingTarget, c, c->shape(),
             x->sharding() != nullptr ? x->sharding() : b.context().Replicated());
  scope.Add(operand, Marker(b, kEnterManualTarget, c, shape, manual));
  return {};
}

}  // namespace

Expected<void> GradCustomCall(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const std::string_view target = x->attributes<CustomCallAttributes>().target;
  if (IsRegionMarker(*x)) return GradRegionMarker(x, adjoints[0], scope);
  if (IsIdentityCall(*x)) {
    Instruction* operands[] = {adjoints[0]};
    Instruction* marked = scope.builder().CloneWith(x, operands, adjoints[0]->shape());
    marked->set_sharding(x->sharding());
    scope.Add(x->operand(0), marked);
    return {};
  }
  if (target == "TopK") return GradTopK(x, adjoints, scope);
  if (target.starts_with("lapack_")) return GradLapackCall(x, adjoints, scope);
  Diagnostic error = scope.ErrorAt(
      x, "E-GRAD-003",
      fmt::format("derivatives cannot follow a value through custom-call '{}'", target));
  error.hint = "--stop REGEX makes instructions constants";
  return Fail(std::move(error));
}

}  // namespace gshard
