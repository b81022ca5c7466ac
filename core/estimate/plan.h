// A program with the shardings of a few instructions replaced, and its price. The module is not
// read again for it, and no pattern is matched: a search tries hundreds. Whether the update of
// weights is cut (ZeRO) is DeviceProgramOptions::weight_update_sharding.
#ifndef GSHARD_CORE_ESTIMATE_PLAN_H_
#define GSHARD_CORE_ESTIMATE_PLAN_H_

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "core/estimate/device_program.h"

namespace gshard {

// Threads that search together each parse the same text, so instruction ids are the same in all
// their copies; shardings are made in each copy's own Context.
struct PlannedSharding {
  uint32_t instruction = 0;            // its id in the whole program
  const Sharding* sharding = nullptr;  // of the program's context; null: none, propagation decides
};

// Returns a copy of `whole` in which these shardings replace its own. The last one counts if an
// instruction has several.
std::unique_ptr<Module> WithShardings(const Module& whole,
                                      const std::vector<PlannedSharding>& shardings);

struct PlanFigures {
  StepFigures step;
  // Results that take the place of arguments (input_output_alias) lie as those do: what a step
  // returns can be given to the next one as it is.
  bool returns_state_alike = true;
};

// Figures of plans by the shardings that propagation gives to all values. A plan that only says
// what another one leaves to propagation is the same program, and is not partitioned again. For
// plans of one program, priced with the same options. Many threads may use it at once.
class FiguresByShardings {
 public:
  // Numbers that this class has given to the shardings of one context; one thread's.
  using Numbers = std::unordered_map<const Sharding*, uint32_t>;

  // Returns what tells apart programs with different shardings, the same in all contexts.
  std::string KeyOf(const Module& propagated, Numbers& numbers);
  std::optional<PlanFigures> Find(const std::string& key) const;
  void Add(std::string key, const PlanFigures& figures);
  int64_t size() const;  // number of programs

 private:
  mutable std::mutex mutex_;
  std::unordered_map<std::string, uint32_t> numbers_;  // by the sharding's text
  std::unordered_map<std::string, PlanFigures> figures_;
};

// What a thread knows of plans that were priced before.
struct KnownFigures {
  FiguresByShardings* figures = nullptr;
  FiguresByShardings::Numbers numbers;  // of the context of `whole`
};

// One evaluation: copy, annotate, propagate, partition, clean, price. `whole` stays as it is, but
// its context learns shapes and shardings. With `known` the last three are done once for plans that
// propagation makes alike. Errors: those of MakeDeviceProgram and PriceProgram.
Expected<PlanFigures> PricePlan(const Module& whole, const std::vector<PlannedSharding>& shardings,
                                const Chip& chip, DeviceProgramOptions program,
                                const CostOptions& cost, KnownFigures* known = nullptr);

}  // namespace gshard

#endif  // GSHARD_CORE_ESTIMATE_PLAN_H_
