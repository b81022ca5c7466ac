// See plan_pricer.h.

#include "core/autoshard/plan_pricer.h"

#include <algorithm>
#include <utility>

#include "core/estimate/parallel_for.h"
#include "core/partition/scope/partition_tables.h"
#include "core/propagation/derived_shardings.h"
#include "core/spmd/ready_module.h"
#include "core/transforms/annotations/annotate.h"
#include "core/transforms/weight_update_sharding.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/parser.h"

namespace gshard::autoshard {

struct PlanPricer::Reading {
  std::unique_ptr<Module> module;
  std::vector<const Sharding*> written;                 // by instruction id
  std::vector<std::vector<const Sharding*>> by_option;  // of each group; null: not made yet
  KnownFigures known;
  KeptPartitionTables tables;
  std::optional<DerivedShardings> derived;
  std::optional<ReadyModule> ready;

  // Is the program that these shardings are put on the one that passes have made ready?
  bool MayUseReady(const std::vector<PlannedSharding>& shardings) const {
    return ready && std::ranges::all_of(shardings, [&](const PlannedSharding& one) {
             return ready->MayBeSharded(one.instruction);
           });
  }

  std::vector<PlannedSharding> ShardingsOf(const PlanSpace& space, const Plan& plan) {
    by_option.resize(space.groups().size());
    const Mesh mesh = MeshOf(space.mesh());
    std::vector<PlannedSharding> shardings;
    for (size_t g = 0; g < space.groups().size(); ++g) {
      const Group& group = space.groups()[g];
      const int choice = plan.choices[g];
      if (choice == Plan::kAsWritten) {
        for (const uint32_t id : group.members) {
          if (written[id] != nullptr) shardings.push_back({id, written[id]});
        }
        continue;
      }
      const std::optional<Cut>& cut = group.options[At(choice)];
      if (!cut) continue;
      by_option[g].resize(group.options.size(), nullptr);
      const Sharding*& sharding = by_option[g][At(choice)];
      if (sharding == nullptr) {
        sharding = ShardingByAxes(module->context(), mesh, AxesByDim(group.shape, *cut));
      }
      for (const uint32_t id : group.members) shardings.push_back({id, sharding});
    }
    return shardings;
  }
};

PlanPricer::PlanPricer(PricingOptions options) : options_(std::move(options)) {
  if (options_.cost.masked_shares == nullptr) options_.cost.masked_shares = &masked_shares_;
}
PlanPricer::~PlanPricer() = default;

namespace {

// What `annotated` says of the instructions of `module`, which have the same names; a Sharding call
// that is not there any more speaks of its operand.
std::vector<const Sharding*> AnnotationsBeside(const Module& module, const Module& annotated) {
  std::unordered_map<std::string_view, const Instruction*> by_name;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) by_name[x->name()] = x;
  }
  std::vector<const Sharding*> written(module.instruction_limit(), nullptr);
  for (const Computation* computation : annotated.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() == nullptr) continue;
      const Instruction* value = x;
      while (IsCustomCallTo(*value, kShardingTarget) && !by_name.contains(value->name())) {
        value = value->operand(0);
      }
      const auto found = by_name.find(value->name());
      if (found != by_name.end() && found->second->sharding() == nullptr) {
        written[found->second->id()] = x->sharding();
      }
    }
  }
  return written;
}

}  // namespace

Expected<std::unique_ptr<PlanPricer>> PlanPricer::Make(const std::string& text,
                                                       const std::string& written,
                                                       const std::vector<MeshAxis>& mesh,
                                                       PricingOptions options) {
  std::unique_ptr<PlanPricer> pricer(new PlanPricer(std::move(options)));
  const auto source = SourceText::FromString("plan", text);
  const auto written_source = SourceText::FromString("plan", written);
  const int threads = ThreadsOrCores(pricer->options_.threads);
  for (int i = 0; i < threads; ++i) {
    auto reading = std::make_unique<Reading>();
    auto module = ParseModule(source);
    if (!module) return Fail(std::move(module.error()));
    reading->module = std::move(*module);
    reading->derived.emplace(reading->module->context());
    reading->ready = ReadyModule::Make(*reading->module, pricer->options_.program.propagation.mode);
    reading->known.figures = &pricer->by_shardings_;
    reading->written.resize(reading->module->instruction_limit(), nullptr);
    if (!written.empty()) {
      auto annotated = ParseModule(written_source, reading->module->shared_context());
      if (!annotated) return Fail(std::move(annotated.error()));
      reading->written = AnnotationsBeside(*reading->module, **annotated);
    }
    pricer->readings_.push_back(std::move(reading));
  }
  pricer->space_.emplace(pricer->module(), pricer->written(), mesh);
  pricer->threads_.emplace(static_cast<size_t>(threads), [of = pricer.get()](auto& plan, size_t i) {
    return of->PriceOne(plan, *of->readings_[i]);
  });
  return pricer;
}

const Module& PlanPricer::module() const { return *readings_[0]->module; }
const std::vector<const Sharding*>& PlanPricer::written() const { return readings_[0]->written; }

std::string PlanPricer::KeyOf(const Plan& plan) {
  std::string key(plan.cuts_weight_updates ? "z" : "-");
  for (const int choice : plan.choices) key += static_cast<char>(choice + 2);
  return key;
}

std::optional<PlanFigures> PlanPricer::PriceOne(const Plan& plan, Reading& reading) {
  DeviceProgramOptions program = options_.program;
  program.is_partitioned = false;
  program.counts_useful_flops = false;  // a plan's MFU is that of its text
  program.weight_update_sharding = plan.cuts_weight_updates;
  program.tells_causes = false;
  program.reshard_plans = &reshard_plans_;
  program.partition_tables = &reading.tables;
  program.propagation.derived = &*reading.derived;
  const std::vector<PlannedSharding> shardings = reading.ShardingsOf(*space_, plan);
  const Module* whole = reading.module.get();
  if (!plan.cuts_weight_updates && reading.MayUseReady(shardings)) {
    program.ready = &*reading.ready;
    whole = &reading.ready->module();
  }
  Expected<PlanFigures> figures = PricePlan(*whole, shardings, options_.chip, std::move(program),
                                            options_.cost, &reading.known);
  if (!figures) return std::nullopt;
  return *figures;
}

void PlanPricer::StartOver() {
  known_.clear();
  refused_ = 0;
}

size_t PlanPricer::MostAhead() const { return 2 * readings_.size(); }

std::vector<std::optional<PlanFigures>> PlanPricer::Price(std::span<const Plan> plans,
                                                          std::span<const Plan> next) {
  std::vector<PlanToPrice> fresh, ahead;
  for (const Plan& plan : plans) {
    std::string key = KeyOf(plan);
    if (known_.try_emplace(key, std::nullopt).second) fresh.push_back({std::move(key), plan});
  }
  for (const Plan& plan : next) {
    std::string key = KeyOf(plan);
    if (!known_.contains(key)) ahead.push_back({std::move(key), plan});
  }
  if (!fresh.empty()) {
    const auto figures = threads_->Run(fresh, ahead);
    for (size_t i = 0; i < fresh.size(); ++i) {
      if (!figures[i]) ++refused_;
      known_[fresh[i].key] = figures[i];
    }
  }
  std::vector<std::optional<PlanFigures>> answers;
  for (const Plan& plan : plans) answers.push_back(known_.at(KeyOf(plan)));
  return answers;
}

Expected<std::unique_ptr<Module>> PlanPricer::Apply(const Plan& plan) const {
  std::unique_ptr<Module> module =
      WithShardings(*readings_[0]->module, readings_[0]->ShardingsOf(*space_, plan));
  if (plan.cuts_weight_updates) {
    auto done = ShardWeightUpdate(*module, {});
    if (!done) return Fail(std::move(done.error()));
  }
  return module;
}

}  // namespace gshard::autoshard
