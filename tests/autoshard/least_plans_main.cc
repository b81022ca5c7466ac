// Is the plan that automatic sharding finds the least of all? Makes small random programs, prices
// every plan of each by the real pipeline, and compares the search's plan with the least of them.
//
//   gshard_least_plans --graphs 0:1000 [--verbose] [--enumerate] [--print 7]
//   gshard_least_plans --elimination --graphs 0:10000
//
// The search has the evaluations that `gshard-opt auto` has by default, but it may not price all
// plans where there are few, unless --enumerate asks for that: so its seeds and moves are judged.
// With --elimination no plan is priced: the plans that elimination finds (plan_model.h) are
// compared with the least of all by the same model. Ends with "N passed, N failed"; exit code 1 if
// less than 99 % of the plans are the least.
#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/autoshard/plan_model.h"
#include "core/autoshard/search.h"
#include "core/transforms/annotations/annotate.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "tests/autoshard/enumeration.h"
#include "tests/autoshard/random_step.h"

namespace gshard::autoshard {
namespace {

constexpr size_t kMaxGroups = 5;
constexpr double kSameTime = 1e-3;  // as the search says (search.cc)

struct Options {
  std::string graphs = "0:1000";
  int print = -1;
  double most_plans = 12000;
  bool verbose = false, enumerate = false, elimination = false;
  int threads = 0;
};

struct Problem {
  RandomStep step;
  std::vector<MeshAxis> mesh;
  std::string chip, text;
  int limit_share = 0;  // of the fastest plan's peak, in percent; 0: no limit
};

std::optional<Problem> MakeProblem(int seed) {
  Random random(static_cast<uint64_t>(seed) + 1);
  for (int i = 0; i < 4; ++i) random.Below(2);  // seeds beside each other begin alike
  Problem problem;
  problem.step = MakeRandomStep(random);
  const std::vector<MeshAxis> meshes[] = {
      {{"a", 8}}, {{"a", 64}}, {{"a", 4}, {"b", 2}}, {{"a", 8}, {"b", 16}}};
  problem.mesh = meshes[random.Below(4)];
  constexpr const char* kChips[] = {"h100", "tpu-v3", "tpu-v5p"};
  problem.chip = kChips[random.Below(3)];
  constexpr int kShares[] = {0, 0, 80, 55};
  problem.limit_share = kShares[random.Below(4)];
  auto module = ParseModule(SourceText::FromString("step.hlo", problem.step.text));
  if (!module) {
    std::fputs((problem.step.text + Render(module.error())).c_str(), stderr);
    std::exit(2);
  }
  if (!Annotate(**module, {.mesh = problem.mesh, .rules = {}})) return std::nullopt;
  problem.text = PrintModule(**module);
  return problem;
}

std::unique_ptr<PlanPricer> PricerOf(const Problem& problem, int threads) {
  PricingOptions options;
  options.chip = *BuiltInChip(problem.chip);
  options.threads = threads;
  return std::move(*PlanPricer::Make(problem.text, "", problem.mesh, options));
}

double CountPlans(const PlanSpace& space, bool zero) {
  double count = zero ? 2 : 1;
  for (const Group& group : space.groups()) count *= static_cast<double>(group.options.size());
  return count;
}

// Every plan, as a counter over the groups' options counts them.
std::vector<Plan> EveryPlan(const PlanSpace& space, bool zero) {
  std::vector<Plan> plans;
  Plan plan = space.EmptyPlan();
  for (;;) {
    plans.push_back(plan);
    if (zero) {
      plans.push_back(plan);
      plans.back().cuts_weight_updates = true;
    }
    size_t g = 0;
    while (g < plan.choices.size()) {
      const int next = ++plan.choices[g];
      if (next < static_cast<int>(space.groups()[g].options.size())) break;
      plan.choices[g++] = 0;
    }
    if (g == plan.choices.size()) return plans;
  }
}

PricedPlan LeastOf(const std::vector<PricedPlan>& plans, int64_t limit) {
  const PricedPlan* least = &plans.front();
  for (const PricedPlan& plan : plans) {
    if (IsBetter(plan, *least, limit)) least = &plan;
  }
  return *least;
}

// As good as the least: it fits where that does, and is as fast; where neither fits, as small.
bool IsAsGood(const PricedPlan& plan, const PricedPlan& least, int64_t limit) {
  if (plan.figures.returns_state_alike != least.figures.returns_state_alike) return false;
  const StepFigures &found = plan.figures.step, &best = least.figures.step;
  if (limit > 0 && best.peak_bytes > limit) return found.peak_bytes <= best.peak_bytes;
  if (limit > 0 && found.peak_bytes > limit) return false;
  return found.step_time_s <= best.step_time_s / (1 - kSameTime);
}

std::string TextOf(const PlanSpace& space, const PricedPlan& priced) {
  std::string text = fmt::format("{:.3f} us {:.2f} MiB{}:", 1e6 * priced.figures.step.step_time_s,
                                 static_cast<double>(priced.figures.step.peak_bytes) / (1 << 20),
                                 priced.plan.cuts_weight_updates ? " zero" : "");
  for (size_t g = 0; g < space.groups().size(); ++g) {
    const Group& group = space.groups()[g];
    const auto& cut = group.options[static_cast<size_t>(priced.plan.choices[g])];
    text += fmt::format(" {}{}={}", GroupName(group.kind), ToString(group.shape, false),
                        cut ? SpecText(space.mesh(), group.shape, *cut) : "free");
  }
  return text;
}

struct Tally {
  int tried = 0, least = 0;
  int64_t plans = 0, evaluations = 0;
};

class Checker {
 public:
  explicit Checker(const Options& options) : options_(options) {}

  // Whether the program was taken: it has few groups and plans.
  bool Check(int seed) {
    const std::optional<Problem> problem = MakeProblem(seed);
    if (!problem) return false;
    const auto all = PricerOf(*problem, options_.threads);
    const PlanSpace& space = all->space();
    const bool zero = problem->step.has_updates;
    const double count = CountPlans(space, zero);
    if (space.groups().size() > kMaxGroups || count > options_.most_plans) return false;
    std::vector<Plan> plans = EveryPlan(space, zero);
    const auto figures = all->Price(plans);
    std::vector<PricedPlan> priced;
    for (size_t i = 0; i < plans.size(); ++i) {
      if (figures[i]) priced.push_back({plans[i], *figures[i], space.AnnotationsOf(plans[i])});
    }
    if (priced.empty()) return false;
    int64_t limit = 0;
    if (problem->limit_share > 0) {
      limit = LeastOf(priced, 0).figures.step.peak_bytes * problem->limit_share / 100;
    }
    Judge(seed, *problem, zero, limit, priced);
    return true;
  }

  int Report() const {
    Tally all;
    for (const auto& [kind, tally] : tallies_) {
      fmt::print("{:24} {:5} of {:5} least; {} plans a graph, {} priced by the search\n", kind,
                 tally.least, tally.tried, tally.plans / tally.tried,
                 tally.evaluations / tally.tried);
      all.tried += tally.tried;
      all.least += tally.least;
    }
    fmt::print("{} of {} plans are the least of all ({:.2f} %)\n", all.least, all.tried,
               100.0 * all.least / std::max(1, all.tried));
    const bool passed = all.tried > 0 && all.least >= 0.99 * all.tried && claims_ok_;
    fmt::print("{} passed, {} failed\n", passed ? 1 : 0, passed ? 0 : 1);
    return passed ? 0 : 1;
  }

 private:
  void Judge(int seed, const Problem& problem, bool zero, int64_t limit,
             const std::vector<PricedPlan>& priced) {
    const auto pricer = PricerOf(problem, options_.threads);
    const PlanSpace& space = pricer->space();
    SearchOptions search;
    search.limit_bytes = limit;
    search.zero = zero;
    if (!options_.enumerate) search.most_enumerated = 0;
    const auto result = SearchPlans(*pricer, search);
    if (!result) return;
    const PricedPlan least = LeastOf(priced, limit);
    const PricedPlan& found = result->plans.front();
    const bool is_least = IsAsGood(found, least, limit);
    // What is said to be exhaustive must be.
    const bool all_priced = static_cast<double>(pricer->evaluations()) >= CountPlans(space, zero);
    if (result->is_exhaustive && !(is_least && all_priced)) {
      fmt::print("graph {}: said to be the best of all plans, and is not\n", seed);
      claims_ok_ = false;
    }
    Tally& tally = tallies_[fmt::format("{} {} {}", problem.step.family,
                                        problem.mesh.size() == 1 ? "1 axis" : "2 axes",
                                        limit > 0 ? "limit" : "")];
    ++tally.tried;
    tally.least += is_least;
    tally.plans += static_cast<int64_t>(priced.size());
    tally.evaluations += pricer->evaluations();
    if (!is_least || options_.verbose) {
      fmt::print(
          "graph {} {} {} {} axes, limit {:.2f} MiB, {} plans, {} priced{}\n  found {}\n"
          "  least {}\n",
          seed, problem.step.family, problem.chip, problem.mesh.size(),
          static_cast<double>(limit) / (1 << 20), priced.size(), pricer->evaluations(),
          is_least ? "" : ": NOT the least", TextOf(space, found), TextOf(space, least));
      std::fflush(stdout);
    }
  }

  const Options& options_;
  std::map<std::string, Tally> tallies_;
  bool claims_ok_ = true;
};

// Elimination against enumeration of its own model, for `end` - `first` programs of few plans.
int CheckElimination(int first, int end, double most_plans) {
  int taken = 0, equal = 0;
  for (int seed = first; taken < end - first; ++seed) {
    const std::optional<Problem> problem = MakeProblem(seed);
    if (!problem) continue;
    const auto module = ParseModule(SourceText::FromString("step.hlo", problem->text));
    const PlanSpace space(**module,
                          std::vector<const Sharding*>((*module)->instruction_limit(), nullptr),
                          problem->mesh);
    const Mesh mesh = MeshOf(problem->mesh);
    const Chip chip = *BuiltInChip(problem->chip);
    const auto network = Network::Make(chip, mesh.device_count(), &mesh);
    const PlanModel model(**module, space, chip, *network);
    constexpr double kPrices[] = {0, 1e-13, 1e-11};  // seconds a byte
    const SumOfCosts sum = model.Sum(model.AllOptions(), kPrices[seed % 3]);
    double plans = 1;
    for (const int size : sum.sizes) plans *= size;
    if (plans > most_plans) continue;
    ++taken;
    const auto least = LeastByElimination(sum, plans);
    const double enumerated = LeastByEnumeration(sum);
    const bool is_equal = least && std::abs(least->cost - enumerated) <= 1e-9 * enumerated;
    equal += is_equal;
    if (!is_equal) {
      fmt::print("graph {}: elimination finds {:.9g} s, enumeration {:.9g} s\n", seed,
                 least ? least->cost : 0, enumerated);
    }
  }
  fmt::print("{} of {} plans by elimination are the least of their model\n", equal, taken);
  fmt::print("{} passed, {} failed\n", equal == taken ? 1 : 0, equal == taken ? 0 : 1);
  return equal == taken ? 0 : 1;
}

int Run(const Options& options) {
  if (options.print >= 0) {
    if (const auto problem = MakeProblem(options.print)) std::fputs(problem->text.c_str(), stdout);
    return 0;
  }
  const size_t colon = options.graphs.find(':');
  const int first = std::stoi(options.graphs), count = std::stoi(options.graphs.substr(colon + 1));
  if (options.elimination) return CheckElimination(first, count, options.most_plans);
  Checker checker(options);
  int taken = 0;
  for (int seed = first; taken < count - first; ++seed) taken += checker.Check(seed);
  return checker.Report();
}

}  // namespace
}  // namespace gshard::autoshard

int main(int argc, char** argv) {
  CLI::App app("Compares plans of automatic sharding with the least of all plans.");
  gshard::autoshard::Options options;
  app.add_option("--graphs", options.graphs, "FIRST:END, as many graphs from this seed on");
  app.add_option("--print", options.print, "Print the program of a seed");
  app.add_option("--most-plans", options.most_plans, "Graphs of more plans are left out");
  app.add_option("--threads", options.threads, "Threads (default: one a core)");
  app.add_flag("--enumerate", options.enumerate, "Let the search price all plans where few");
  app.add_flag("--elimination", options.elimination,
               "Compare elimination with enumeration of its own model");
  app.add_flag("--verbose", options.verbose, "Tell of every graph");
  CLI11_PARSE(app, argc, argv);
  return gshard::autoshard::Run(options);
}
