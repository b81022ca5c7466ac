// See auto_sharding.h.

#include "core/autoshard/auto_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <tuple>

#include "core/autoshard/plan_rules.h"
#include "core/autoshard/prepared_program.h"
#include "core/autoshard/recomputation.h"
#include "core/autoshard/search.h"
#include "core/autoshard/told_plan.h"
#include "core/estimate/device_program.h"
#include "core/estimate/parallel_for.h"
#include "core/remat/fit_to_memory.h"
#include "core/report/quantity_text.h"
#include "core/transforms/annotations/strip_shardings.h"
#include "core/transforms/cse.h"
#include "core/transforms/rewriter.h"
#include "ir/printer.h"

namespace gshard::autoshard {
namespace {

// Plans over the limit that rematerialization is tried on: so many of the fastest and, where no
// plan fits, of the smallest.
constexpr size_t kMaxRemats = 3;
// Of plans that need twice the limit or more, which may be what layers save for the most part,
// those are tried whose time is the least when it is multiplied by such a power of their peak.
constexpr double kFarPowers[] = {0, 0.1, 0.25, 0.5};
// What a plan takes to price, by what IsWork counts, on a processor of 2026 of which two cores
// work.
constexpr double kSecondsPerInstruction = 2.7e-6;
// Where nobody says how many plans to price: as many as take so long, in steps that a few
// instructions more or less do not change, between the least and the most.
constexpr double kUsualSeconds = 3;
constexpr int64_t kStepOfEvaluations = 500, kLeastEvaluations = 1250, kMostEvaluations = 3000;

// Of the instructions of a program those that its HLO and its StableHLO have alike: arrays that are
// computed or moved, without scalars, constants and what only changes a shape or a type.
bool IsWork(const Instruction& x) {
  if (!x.shape()->IsArray() || x.shape()->rank() == 0) return false;
  switch (x.opcode()) {
    case Opcode::kBitcast:
    case Opcode::kBroadcast:
    case Opcode::kConstant:
    case Opcode::kConvert:
    case Opcode::kCopy:
    case Opcode::kGetTupleElement:
    case Opcode::kIota:
    case Opcode::kParameter:
    case Opcode::kReshape:
      return false;
    default:  // all else computes or moves
      return true;
  }
}

// Does a transpose move nothing where dims are cut into elements of their own? `devices`: how many
// there are; a dim whose size divides them may be cut so.
bool MayMoveNothing(const Instruction* x, int64_t devices) {
  if (x->opcode() != Opcode::kTranspose) return false;
  std::vector<int64_t> order;
  for (const int64_t dim : x->attributes<DimensionsAttributes>().dimensions) {
    const int64_t size = x->operand(0)->shape()->dim(dim);
    if (size == 0 || devices % size != 0) order.push_back(dim);
  }
  return std::ranges::is_sorted(order);
}

class AutoSharding {
 public:
  AutoSharding(const AutoOptions& options, PreparedProgram prepared)
      : options_(options), prepared_(std::move(prepared)) {}

  Expected<AutoResult> Run() {
    auto pricer =
        PlanPricer::Make(prepared_.text, prepared_.written, options_.mesh, options_.pricing);
    if (!pricer) return Fail(std::move(pricer.error()));
    pricer_ = std::move(*pricer);
    rules_.emplace(pricer_->module(), pricer_->space());
    if (auto bound = FindBound(); !bound) return Fail(std::move(bound.error()));
    SearchOptions search;
    search.limit_bytes = options_.limit_bytes;
    search.evaluations = EvaluationLimit(pricer_->module(), options_);
    search.zero = options_.zero;
    search.within = options_.within;
    search.perfect_s = result_.one_device_s;
    auto found = FindPlans(search);
    if (!found) return Fail(std::move(found.error()));
    result_.module = pricer_->module().name();
    result_.chip = options_.pricing.chip.name;
    result_.limit_bytes = options_.limit_bytes;
    result_.kept_annotations = prepared_.kept_annotations;
    result_.keeps = options_.keep;
    std::vector<Chosen> chosen;
    for (const PricedPlan* plan : Choose(*found)) chosen.push_back({plan, false});
    if (options_.remat) {
      for (const PricedPlan* plan : ToRecompute(found->plans)) chosen.push_back({plan, true});
    }
    if (auto added = AddPlans(chosen); !added) return Fail(std::move(added.error()));
    TellWritten();
    Finish(*found);
    return std::move(result_);
  }

 private:
  bool Fits(int64_t peak_bytes) const {
    return options_.limit_bytes == 0 || peak_bytes <= options_.limit_bytes;
  }

  // A search under a limit that ends with no plan that fits is followed by one that aims at the
  // least memory and does not depend on the limit, so that the peak told is found again where it is
  // the limit.
  Expected<SearchResult> FindPlans(const SearchOptions& search) {
    auto found = SearchPlans(*pricer_, search);
    if (!found || found->is_exhaustive || !options_.seeks_least_memory) return found;
    if (Fits(found->plans[0].figures.step.peak_bytes)) return found;
    SearchOptions least = search;
    least.limit_bytes = std::max<int64_t>(1, one_device_peak_ / result_.devices);
    Expected<SearchResult> smallest = SearchAgain(least);
    if (!smallest) return smallest;
    const int64_t peak = found->plans[0].figures.step.peak_bytes;
    if (smallest->plans[0].figures.step.peak_bytes <= peak) return smallest;
    // A smaller plan that only the limit led to counts if the search finds it for its own peak.
    least.limit_bytes = peak;
    Expected<SearchResult> again = SearchAgain(least);
    if (!again) return again;
    return again->plans[0].figures.step.peak_bytes <= peak ? again : smallest;
  }

  // As if nothing had been priced before. The plans are ranked by the limit of the user.
  Expected<SearchResult> SearchAgain(const SearchOptions& search) {
    evaluations_before_ += pricer_->evaluations();
    refused_before_ += pricer_->refused();
    pricer_->StartOver();
    auto found = SearchPlans(*pricer_, search);
    if (!found) return found;
    std::ranges::stable_sort(found->plans, {}, [&](const PricedPlan& plan) {
      const StepFigures& step = plan.figures.step;
      const bool fits = Fits(step.peak_bytes);
      return std::tuple(!plan.figures.returns_state_alike, !fits, fits ? step.step_time_s : 0,
                        step.peak_bytes);
    });
    return found;
  }

  // The whole step on one device that has all the memory it wants: no plan makes a kernel faster
  // than its share. Transposes that a plan may make move nothing are reshapes here.
  Expected<void> FindBound() {
    auto module = ParsePlan(prepared_.text);
    if (!module) return Fail(std::move(module.error()));
    StripShardings(**module, StrippedShardings::kAll);
    const int64_t devices = (*module)->DeviceCount();
    (*module)->header().num_partitions = 1;
    (*module)->header().frontend_attributes = {};
    Rewriter rewriter(**module);
    for (Computation* computation : (*module)->computations()) {
      rewriter.Run(computation, [&](Instruction* x, Rewriter& r) {
        if (!MayMoveNothing(x, devices)) return x;
        return r.builder().Reshape(x->operand(0), x->shape()->dims());
      });
    }
    MergeCommonSubexpressions(**module);
    const std::string text = PrintModule(**module);
    auto figures = PriceOnOneDevice(text);
    if (!figures) return Fail(std::move(figures.error()));
    result_.devices = devices;
    result_.one_device_s = figures->step_time_s / static_cast<double>(devices);
    result_.perfect_s = result_.one_device_s;
    one_device_peak_ = figures->peak_bytes;
    if (!options_.remat) return {};
    auto recomputed = BestRecomputed(
        text, *figures,
        {.chip = options_.pricing.chip,
         .cost = options_.pricing.cost,
         .price = [&](const std::string& again) { return PriceOnOneDevice(again); }});
    if (!recomputed) return Fail(std::move(recomputed.error()));
    if (*recomputed) {
      result_.perfect_s = (*recomputed)->figures.step_time_s / static_cast<double>(devices);
    }
    return {};
  }

  Expected<StepFigures> PriceOnOneDevice(const std::string& text) const {
    auto module = ParsePlan(text);
    if (!module) return Fail(std::move(module.error()));
    DeviceProgramOptions program;
    program.is_partitioned = true;  // by not being cut
    auto made = MakeDeviceProgram(std::move(*module), program);
    if (!made) return Fail(std::move(made.error()));
    CostOptions cost = options_.pricing.cost;
    cost.mesh_map.clear();
    return PriceProgram(*std::move(made), options_.pricing.chip, cost);
  }

  // The best, then the Pareto front of all that fit, then the next in time, of plans that differ;
  // where nothing fits, those that come nearest.
  std::vector<const PricedPlan*> Choose(const SearchResult& found) const {
    const std::vector<PricedPlan>& plans = found.plans;
    std::vector<const PricedPlan*> chosen = {&plans[0]};
    const auto differs = [&](const PricedPlan& plan) {
      return std::ranges::all_of(chosen, [&](const PricedPlan* other) {
        return AreApart(plan.figures.step, other->figures.step);
      });
    };
    for (const PricedPlan& plan : found.of_styles) {
      if (options_.tells_styles && differs(plan)) chosen.push_back(&plan);
    }
    int64_t least = INT64_MAX;
    for (const bool front : {true, false}) {
      for (const PricedPlan& plan : plans) {
        if (chosen.size() >= options_.top) break;
        const bool is_front = plan.figures.step.peak_bytes < least;
        least = std::min(least, plan.figures.step.peak_bytes);
        if (front && !is_front) continue;
        if (!plan.figures.returns_state_alike || !differs(plan)) continue;
        if (Fits(plan.figures.step.peak_bytes) != Fits(plans[0].figures.step.peak_bytes)) continue;
        chosen.push_back(&plan);
      }
    }
    return chosen;
  }

  // A plan's text and its figures, priced from the text as gshard-cost prices it.
  struct TextAndFigures {
    std::string text;
    int64_t remat_limit_bytes = 0;  // that it was fitted to; 0: as it is
    ToldFigures figures;
  };

  // `text`: of the plan before values are computed again, where they are to be; nothing if that
  // makes it no better. Reads nothing that changes: plans are told on several threads.
  Expected<std::optional<TextAndFigures>> Tell(std::string text, bool remat,
                                               const StepFigures& plain) const {
    TextAndFigures told;
    if (remat) {
      const auto price = [&](const std::string& again) -> Expected<StepFigures> {
        auto figures = FiguresOfText(again, options_);
        if (!figures) return Fail(std::move(figures.error()));
        StepFigures step = plain;
        step.step_time_s = figures->plan.step_time_s;
        step.peak_bytes = figures->plan.peak_bytes;
        return step;
      };
      auto made = BestRecomputed(text, plain,
                                 {.limit_bytes = options_.limit_bytes,
                                  .chip = options_.pricing.chip,
                                  .cost = options_.pricing.cost,
                                  .price = price});
      if (!made) return Fail(std::move(made.error()));
      if (!*made) return std::nullopt;
      text = std::move((*made)->text);
      told.remat_limit_bytes = (*made)->limit_bytes;
    }
    auto figures = FiguresOfText(text, options_);
    if (!figures) return Fail(std::move(figures.error()));
    told.text = std::move(text);
    told.figures = *std::move(figures);
    return told;
  }

  // A plan to be told: as it is, or with values computed again.
  struct Chosen {
    const PricedPlan* plan;
    bool remat;
  };

  Expected<void> AddPlans(const std::vector<Chosen>& chosen) {
    std::vector<std::string> texts;
    for (const Chosen& one : chosen) {
      auto module = pricer_->Apply(one.plan->plan);
      if (!module) return Fail(std::move(module.error()));
      texts.push_back(PrintModule(**module));
    }
    std::vector<std::optional<Expected<std::optional<TextAndFigures>>>> told(chosen.size());
    const auto tell = [&](size_t from_the_end, size_t) {  // what takes long first
      const size_t i = chosen.size() - 1 - from_the_end;
      told[i] = Tell(std::move(texts[i]), chosen[i].remat, chosen[i].plan->figures.step);
    };
    ParallelFor(chosen.size(), ThreadsOrCores(options_.pricing.threads), tell);
    for (size_t i = 0; i < chosen.size(); ++i) {
      if (!*told[i]) return Fail(std::move(told[i]->error()));
      if (**told[i]) AddPlan(*chosen[i].plan, **std::move(*told[i]));
    }
    return {};
  }

  void AddPlan(const PricedPlan& plan, TextAndFigures figures) {
    const int64_t remat_limit = figures.remat_limit_bytes;
    AutoPlan told = std::move(figures.figures.plan);
    told.mesh = options_.mesh;
    told.zero = plan.plan.cuts_weight_updates;
    told.remat = remat_limit > 0;
    told.annotations = plan.annotations;
    told.rules = rules_->Of(pricer_->written(), plan.plan);
    told.command = prepared_.command;
    for (const PlannedRule& rule : told.rules) {
      told.command += " --shard " + ShellWord(rule.pattern + "=" + rule.spec);
    }
    if (told.zero) told.command += " | gshard-opt optimize - --passes weight-update-sharding";
    if (told.remat) {
      told.command += " | " + RematCommand("-", std::to_string(remat_limit), options_.chip_flag,
                                           options_.pricing.cost);
    }
    result_.overlap = std::move(figures.figures.overlap);
    texts_.push_back(std::move(figures.text));
    result_.plans.push_back(std::move(told));
  }

  // The program with the annotations it came with. It is the best plan where it is better than what
  // was found: a plan annotates values, and the text's may be on copies of them.
  void TellWritten() {
    if (prepared_.written_command.empty()) return;
    auto figures = FiguresOfText(prepared_.written, options_);
    if (!figures) return;
    AutoPlan written = std::move(figures->plan);
    written.mesh = options_.mesh;
    written.is_written = true;
    written.command = prepared_.written_command;
    written.annotations = std::ranges::count_if(
        pricer_->written(), [](const Sharding* sharding) { return sharding != nullptr; });
    result_.written = written;
    texts_.push_back(prepared_.written);
    result_.plans.push_back(std::move(written));
  }

  // Plans that rematerialization is tried on, which may make them fit, or faster: the best if it
  // fits; of plans over the limit that are faster than the best that fits those of kFarPowers, and
  // of those that need less than twice the limit the fastest that differ in time; and where nothing
  // fits, the smallest whatever they need.
  std::vector<const PricedPlan*> ToRecompute(const std::vector<PricedPlan>& plans) const {
    std::vector<const PricedPlan*> near, far, chosen;
    const StepFigures& best = plans[0].figures.step;
    const bool best_fits = Fits(best.peak_bytes);
    if (best_fits) chosen.push_back(&plans[0]);
    for (const PricedPlan& plan : plans) {
      const StepFigures& step = plan.figures.step;
      const bool is_faster = !best_fits || step.step_time_s < best.step_time_s;
      if (Fits(step.peak_bytes) || !is_faster || !plan.figures.returns_state_alike) continue;
      (step.peak_bytes < 2 * options_.limit_bytes ? near : far).push_back(&plan);
    }
    AddFastest(std::move(near), kMaxRemats, chosen);
    for (const double power : kFarPowers) AddLeast(far, power, chosen);
    if (!best_fits) AddSmallest(plans, chosen);
    return chosen;
  }

  // Adds the plan of the least time times so high a power of its peak, if it is not there.
  static void AddLeast(const std::vector<const PricedPlan*>& plans, double power,
                       std::vector<const PricedPlan*>& chosen) {
    const auto price = [&](const PricedPlan* plan) {
      const StepFigures& step = plan->figures.step;
      return step.step_time_s * std::pow(static_cast<double>(step.peak_bytes), power);
    };
    const auto least = std::ranges::min_element(plans, {}, price);
    if (least == plans.end() || std::ranges::find(chosen, *least) != chosen.end()) return;
    chosen.push_back(*least);
  }

  // Adds the fastest of `plans` that differ in time, `most` of them at most.
  static void AddFastest(std::vector<const PricedPlan*> plans, size_t most,
                         std::vector<const PricedPlan*>& chosen) {
    std::ranges::stable_sort(plans, {},
                             [](const PricedPlan* plan) { return plan->figures.step.step_time_s; });
    double last = 0;
    for (const PricedPlan* plan : plans) {
      if (most == 0) break;
      if (plan->figures.step.step_time_s < last * (1 + kTellsApart)) continue;
      last = plan->figures.step.step_time_s;
      chosen.push_back(plan);
      --most;
    }
  }

  // Adds plans of the smallest peak that differ, `plans` being in the order of their peaks.
  static void AddSmallest(const std::vector<PricedPlan>& plans,
                          std::vector<const PricedPlan*>& chosen) {
    const size_t most = chosen.size() + kMaxRemats;
    for (const PricedPlan& plan : plans) {
      if (chosen.size() >= most) break;
      const bool is_new = std::ranges::all_of(chosen, [&](const PricedPlan* other) {
        return AreApart(plan.figures.step, other->figures.step);
      });
      if (is_new && plan.figures.returns_state_alike) chosen.push_back(&plan);
    }
  }

  void Finish(const SearchResult& found) {
    // The search's best goes before what is no better: it has fewer annotations.
    const AutoPlan& best = result_.plans[0];
    const auto beats_best = [&](size_t i) {
      const AutoPlan& plan = result_.plans[i];
      if (plan.fits != best.fits) return plan.fits;
      return plan.fits ? plan.step_time_s < best.step_time_s * (1 - 1e-3)
                       : plan.peak_bytes < best.peak_bytes;
    };
    std::vector<size_t> order(result_.plans.size() - 1);
    for (size_t i = 0; i < order.size(); ++i) order[i] = i + 1;
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const AutoPlan &x = result_.plans[a], &y = result_.plans[b];
      if (x.fits != y.fits) return x.fits;
      return x.fits ? x.step_time_s < y.step_time_s : x.peak_bytes < y.peak_bytes;
    });
    order.insert(std::ranges::find_if_not(order, beats_best), 0);
    // What was written has a line of its own unless it is the best.
    std::erase_if(order, [&](size_t i) { return result_.plans[i].is_written && i != order[0]; });
    if (order.size() > options_.top) order.resize(options_.top);
    std::vector<AutoPlan> plans;
    for (const size_t i : order) {
      plans.push_back(std::move(result_.plans[i]));
      result_.texts.push_back(std::move(texts_[i]));
    }
    MarkPareto(plans);
    result_.plans = std::move(plans);
    result_.evaluations = evaluations_before_ + pricer_->evaluations();
    result_.refused = refused_before_ + pricer_->refused();
    SetBound(result_);
    result_.searched = SearchedInWords(found);
  }

  std::string SearchedInWords(const SearchResult& found) const {
    const PlanSpace& space = pricer_->space();
    std::string text = fmt::format("{} names of dims, {} groups of tensors; ",
                                   space.cuttable_names().size(), space.groups().size());
    if (found.is_exhaustive) {
      text += "every plan that cuts each group by itself was priced: this is the best of them";
    } else if (found.names_exhausted) {
      text += fmt::format("all {} plans that cut at most two names an axis were priced",
                          found.name_plans);
    } else if (found.name_plans == 0) {
      text += "plans of known styles were priced";
    } else {
      text += fmt::format(
          "{} plans by names were priced, one name an axis and second names on "
          "the best of those",
          found.name_plans);
    }
    if (found.modelled) {
      text += fmt::format("; elimination's best plan takes {}, {} by its own model",
                          HumanSeconds(found.modelled->priced_s),
                          HumanSeconds(found.modelled->by_model_s));
    }
    if (found.is_settled) {
      text += fmt::format("; a plan within {:g} % of perfect scaling {}", 100 * options_.within,
                          result_.perfect_s < result_.one_device_s
                              ? "without values computed again ended the search"
                              : "ended the search: none is faster by more");
    }
    if (found.is_local_optimum && !found.is_exhaustive) {
      text += fmt::format("; none of the {} changes of one group makes the best plan better",
                          found.moves);
    } else if (found.is_cut_short && !found.is_settled) {
      text += "; the limit on evaluations ended the search: more may find better plans";
    }
    if (space.shortened_groups() > 0) {
      text += fmt::format("; of {} groups only the 64 cuts into most parts were tried",
                          space.shortened_groups());
    }
    return text;
  }

  const AutoOptions& options_;
  const PreparedProgram prepared_;
  std::unique_ptr<PlanPricer> pricer_;
  std::optional<PlanRules> rules_;
  int64_t one_device_peak_ = 0;
  int64_t evaluations_before_ = 0, refused_before_ = 0;  // of searches before the last one
  AutoResult result_;
  std::vector<std::string> texts_;  // of result_.plans
};

}  // namespace

int64_t EvaluationLimit(const Module& module, const AutoOptions& options) {
  int64_t instructions = 0;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) instructions += IsWork(*x) ? 1 : 0;
  }
  const double each =
      kSecondsPerInstruction * static_cast<double>(std::max<int64_t>(40, instructions));
  const auto in_seconds = [&](double seconds) { return static_cast<int64_t>(seconds / each); };
  const int64_t steps = in_seconds(kUsualSeconds) / kStepOfEvaluations;
  const int64_t most = options.evaluations > 0 ? options.evaluations
                                               : std::clamp(steps * kStepOfEvaluations,
                                                            kLeastEvaluations, kMostEvaluations);
  if (options.seconds <= 0) return most;
  return std::clamp<int64_t>(in_seconds(options.seconds), 16, most);
}

Expected<AutoResult> ShardAutomatically(std::unique_ptr<Module> module, const std::string& input,
                                        const AutoOptions& options) {
  auto prepared = Prepare(std::move(module), input, options);
  if (!prepared) return Fail(std::move(prepared.error()));
  return AutoSharding(options, std::move(*prepared)).Run();
}

}  // namespace gshard::autoshard
