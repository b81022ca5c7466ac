// Custom calls: markers of shardings and placements pass their adjoint on, marked alike; the
// borders of manual regions exchange their roles; LAPACK's routines have rules of their own.
//
// A value that a region sees on several devices (its sharding repeats it along axes that are manual
// inside) is one variable outside:
//   enter(x)   x += leave(all-reduce(c) over the devices that had the same)
//   leave(x)   x += enter(c) / (how many devices had the same)
// Both sides of the border are marked as in the forward pass. The axes of the mesh that are not
// manual there are left to propagation.

#include "ir/custom_call.h"

#include <fmt/format.h>

#include <map>

#include "core/autodiff/emit.h"
#include "core/autodiff/manual_region.h"
#include "core/autodiff/reverse_scope.h"
#include "ir/linalg_call.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

// What a value lies like on one side of a border: a sharding, and as backend_config which of its
// dims are open (empty: none).
struct Side {
  const Sharding* sharding = nullptr;
  std::string_view open_dims;
};

Side SideOf(const Instruction* x) {
  const bool is_marker = IsRegionMarker(*x) || IsCustomCallTo(*x, kShardingTarget);
  return {x->sharding(), is_marker ? x->backend_config() : std::string_view()};
}

Side OutsideOf(const Instruction* x, Context& context) {
  Side side = SideOf(x);
  if (side.sharding == nullptr || side.sharding->IsUnknown()) side.sharding = context.Replicated();
  return side;
}

Side InsideOf(const Instruction* x, Context& context) {
  if (IsOfManualRegion(x->sharding())) return SideOf(x);
  return {ManualRegionOf(x, x->shape()->rank(), context), {}};
}

// Devices that have the same part of a value: groups of `count`.
struct Copies {
  int64_t count = 1;
  ReplicaGroups groups;
};

// The coordinates of a device that tell it from those with a copy of what it has: its tile outside,
// its place in a region around this one, and its place along the axes that stay automatic.
std::vector<int64_t> PlaceOf(int64_t device, const Sharding* outside, const Sharding* inside) {
  std::vector<int64_t> place;
  if (outside->IsTiled()) {
    const std::vector<int64_t> at = outside->tiles.CoordinateOf(device);
    const int64_t manual = outside->SubgroupDim(SubgroupType::kManual);
    place.assign(at.begin(), at.begin() + outside->data_rank());
    if (manual >= 0) place.push_back(at[At(manual)]);
  }
  if (inside->IsTiled()) {
    std::vector<int64_t> at = inside->tiles.CoordinateOf(device);
    at.erase(at.begin() + inside->SubgroupDim(SubgroupType::kManual));
    place.insert(place.end(), at.begin(), at.end());
  }
  return place;
}

Expected<Copies> CopiesOf(const Instruction* marker, const Sharding* outside,
                          const Sharding* inside, ReverseScope& scope) {
  if (outside->IsManual()) return Copies{};  // in a region of all axes: no further ones
  const bool is_known = outside->IsReplicated() ||
                        (outside->IsTiled() && outside->SubgroupDim(SubgroupType::kUnreduced) < 0);
  if (!is_known) {
    return Fail(scope.ErrorAt(marker, "E-GRAD-007",
                              fmt::format("derivatives cross the border of a manual region as "
                                          "tiles or copies; outside this value is {}",
                                          ToString(outside))));
  }
  std::map<std::vector<int64_t>, std::vector<int64_t>> same;
  for (int64_t device = 0; device < scope.module().DeviceCount(); ++device) {
    same[PlaceOf(device, outside, inside)].push_back(device);
  }
  Copies copies{static_cast<int64_t>(same.begin()->second.size()), {}};
  std::vector<int64_t> devices;
  for (const auto& [place, group] : same) {
    devices.insert(devices.end(), group.begin(), group.end());
  }
  const int64_t dims[] = {static_cast<int64_t>(same.size()), copies.count};
  const TileAssignment groups = TileAssignment::List(dims, std::move(devices));
  copies.groups = ReplicaGroups::FromTiles(
      groups, groups.has_axes() ? ReplicaGroups::Form::kIota : ReplicaGroups::Form::kLists);
  return copies;
}

Instruction* Marker(Builder& b, std::string_view target, Instruction* x, const Shape* shape,
                    const Side& side) {
  CustomCallAttributes attributes;
  attributes.target = b.module().arena().Copy(target);
  Instruction* operands[] = {x};
  Instruction* marker = b.Add(Opcode::kCustomCall, operands, attributes, shape);
  marker->set_sharding(side.sharding);
  marker->set_backend_config(side.open_dims);
  return marker;
}

Expected<void> GradRegionMarker(Instruction* x, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const Emit e(b);
  Instruction* operand = x->operand(0);
  const Shape* shape = operand->shape()->bare();
  const bool enters = IsCustomCallTo(*x, kEnterManualTarget);
  const Side outside = OutsideOf(enters ? operand : x, b.context());
  const Side inside = InsideOf(enters ? x : operand, b.context());
  Expected<Copies> copies = CopiesOf(x, outside.sharding, inside.sharding, scope);
  if (!copies) return Fail(std::move(copies.error()));
  if (enters) {
    if (copies->count > 1) {
      c = b.AllReduce(c, copies->groups, b.BinaryComputation(Opcode::kAdd, c->shape()->dtype()));
      if (inside.sharding->IsManual()) c->set_sharding(inside.sharding);
    }
    c = Marker(b, kShardingTarget, c, c->shape(), inside);
    scope.Add(operand, Marker(b, kLeaveManualTarget, c, shape, outside));
    return {};
  }
  if (copies->count > 1) c = e.Mul(c, 1 / static_cast<double>(copies->count));
  c = Marker(b, kShardingTarget, c, c->shape(), outside);
  scope.Add(operand, Marker(b, kEnterManualTarget, c, shape, inside));
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
  if (target == kTopKTarget) return GradTopK(x, adjoints, scope);
  if (IsLinalgCall(target)) return GradLapackCall(x, adjoints, scope);
  Diagnostic error = scope.ErrorAt(
      x, "E-GRAD-003",
      fmt::format("derivatives cannot follow a value through custom-call '{}'", target));
  error.hint = "--stop REGEX makes instructions constants";
  return Fail(std::move(error));
}

}  // namespace gshard
