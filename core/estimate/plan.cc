// See plan.h.

#include "core/estimate/plan.h"

#include <algorithm>
#include <utility>

#include "ir/sharding_text.h"

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

std::string FiguresByShardings::KeyOf(const Module& propagated, Numbers& numbers) {
  std::string key;
  key.reserve(2 * sizeof(uint32_t) * propagated.instruction_limit() + 1);
  const auto append = [&](uint32_t value) {
    key.append(reinterpret_cast<const char*>(&value), sizeof value);
  };
  for (const Computation* computation : propagated.computations()) {
    for (const Instruction* x : computation->instructions()) {
      append(x->id());
      const auto [number, is_new] = numbers.try_emplace(x->sharding(), 0);
      if (is_new && x->sharding() != nullptr) {
        const std::lock_guard lock(mutex_);
        const auto next = static_cast<uint32_t>(numbers_.size()) + 1;  // 0: none
        number->second = numbers_.try_emplace(ToString(x->sharding()), next).first->second;
      }
      append(number->second);
    }
  }
  return key;
}

std::optional<PlanFigures> FiguresByShardings::Find(const std::string& key) const {
  const std::lock_guard lock(mutex_);
  const auto found = figures_.find(key);
  if (found == figures_.end()) return std::nullopt;
  return found->second;
}

void FiguresByShardings::Add(std::string key, const PlanFigures& figures) {
  const std::lock_guard lock(mutex_);
  figures_.emplace(std::move(key), figures);
}

int64_t FiguresByShardings::size() const {
  const std::lock_guard lock(mutex_);
  return static_cast<int64_t>(figures_.size());
}

Expected<PlanFigures> PricePlan(const Module& whole, const std::vector<PlannedSharding>& shardings,
                                const Chip& chip, DeviceProgramOptions program,
                                const CostOptions& cost, KnownFigures* known) {
  std::string key;
  std::optional<PlanFigures> priced_before;
  if (known != nullptr) {
    program.after_propagation = [&](const Module& propagated) -> Expected<void> {
      key = known->figures->KeyOf(propagated, known->numbers);
      key += program.weight_update_sharding ? 'z' : '-';
      priced_before = known->figures->Find(key);
      if (priced_before) return Fail(MakeError("", "priced before"));
      return {};
    };
  }
  Expected<DeviceProgram> made = MakeDeviceProgram(WithShardings(whole, shardings), program);
  if (priced_before) return *priced_before;
  if (!made) return Fail(std::move(made.error()));
  PlanFigures figures;
  figures.returns_state_alike = ReturnsStateAlike(*made->module);
  Expected<StepFigures> step = PriceProgram(*std::move(made), chip, cost);
  if (!step) return Fail(std::move(step.error()));
  figures.step = *step;
  if (known != nullptr) known->figures->Add(std::move(key), figures);
  return figures;
}

}  // namespace gshard
