// See plan.h.

#include "core/estimate/plan.h"

#include <algorithm>
#include <utility>

namespace gshard {
namespace {

// The part of a shape that an alias names; null: there is none.
const Shape* PartAt(const Shape* shape, std::span<const int64_t> index) {
  for (const int64_t i : index) {
    if (!shape->IsTuple() || i < 0 || i >= static_cast<int64_t>(shape->elements().size())) {
      return nullptr;
    }
    shape = shape->element(i);
  }
  return shape;
}

// Tiles of different dims have different shapes.
bool ReturnsStateAlike(const Module& device) {
  const Computation& entry = *device.entry();
  return std::ranges::all_of(
      device.header().input_output_alias, [&](const ModuleHeader::Alias& alias) {
        if (alias.parameter < 0 || alias.parameter >= entry.parameter_count()) return true;
        const Shape* from =
            PartAt(entry.parameter(alias.parameter)->shape(), alias.parameter_index);
        const Shape* to = PartAt(entry.root()->shape(), alias.output_index);
        if (from == nullptr || to == nullptr || !from->IsArray() || !to->IsArray()) return true;
        return std::ranges::equal(from->dims(), to->dims());
      });
}

}  // namespace

std::unique_ptr<Module> WithShardings(const Module& whole,
                                      const std::vector<PlannedSharding>& shardings) {
  std::unique_ptr<Module> module = whole.Clone();
  std::vector<const PlannedSharding*> planned(module->instruction_limit(), nullptr);
  for (const PlannedSharding& one : shardings) planned[one.instruction] = &one;
  for (Computation* computation : module->computations()) {
    for (Instruction* x : computation->instructions()) {
      if (planned[x->id()] != nullptr) x->set_sharding(planned[x->id()]->sharding);
    }
  }
  return module;
}

Expected<PlanFigures> PricePlan(const Module& whole, const std::vector<PlannedSharding>& shardings,
                                const Chip& chip, const DeviceProgramOptions& program,
                                const CostOptions& cost) {
  Expected<DeviceProgram> made = MakeDeviceProgram(WithShardings(whole, shardings), program);
  if (!made) return Fail(std::move(made.error()));
  PlanFigures figures;
  figures.returns_state_alike = ReturnsStateAlike(*made->module);
  Expected<StepFigures> step = PriceProgram(*std::move(made), chip, cost);
  if (!step) return Fail(std::move(step.error()));
  figures.step = *step;
  return figures;
}

}  // namespace gshard
