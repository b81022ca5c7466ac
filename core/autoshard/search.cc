// See search.h.

#include "core/autoshard/search.h"

#include <algorithm>
#include <cmath>
#include <deque>
#include <optional>
#include <ranges>

#include "core/autoshard/move_effects.h"
#include "core/autoshard/plan_model.h"
#include "core/autoshard/plan_moves.h"
#include "core/autoshard/seeds.h"
#include "ir/dims.h"

namespace gshard::autoshard {
namespace {

// Seeds of the same time and peaks so near are one.
constexpr double kSamePeak = 0.05;
// Plans by two names an axis are all tried up to so many; else one name an axis first, and second
// names on the best of those.
constexpr double kMaxExhaustive = 2000;
// Names with one an axis: more are left out by weight.
constexpr size_t kMaxNames = 16;
// The shares of the best plan's peak that plans of less memory are looked for in.
constexpr double kSmallerPeaks[] = {0.999, 0.75};

// Plans of known styles, beside the best of them, that single changes are tried on.
constexpr size_t kMoreStyles = 2;

// Quick passes are for plans that take less than so many times perfect scaling's time.
constexpr double kNearEnd = 1.05;
// Evaluations are scarce where they are not enough for so many passes that try every change.
constexpr int64_t kPlentyOfPasses = 8;

// One in so many evaluations goes to plans by names of each main kind at a time.
constexpr int64_t kShareForNames = 16;

// One in so many evaluations is left for what follows them.
constexpr int64_t kShareForLimit = 4;

// The power of Search::PenalizedTime that descents from the fastest plan begin with, what it grows
// by until a plan fits, and the greatest.
constexpr double kFirstPenalty = 1;
constexpr double kPenaltyGrowth = 1.5;
constexpr double kLastPenalty = 4096;
// So many of the most hopeful changes are priced at a time, beside sets of them.
constexpr size_t kMovesAtOnce = 4;
// So many seeds are brought down to the limit, those of the least PenalizedTime of this power,
// beside the best that elimination found.
constexpr size_t kSeedsAtLimit = 4;
constexpr double kSeedPenalty = 2;
// Where the fastest plan does not fit, passes also start from plans in this part of the limit.
constexpr int64_t kPartOfMemory = 3;
// A seed whose descent ends so many times slower than the best plan is left.
constexpr double kFarBehind = 1.3;

bool AreNear(double a, double b, double share) { return std::abs(a - b) <= share * std::max(a, b); }

// A plan by names.
struct NamedPrice {
  NamedTensors tensors = NamedTensors::kAll;
  NameChoice names;
  PricedPlan priced;
};

class Search {
 public:
  Search(PlanPricer& pricer, const SearchOptions& options)
      : pricer_(pricer),
        space_(pricer.space()),
        options_(options),
        move_count_(CountMoves(pricer.space())),
        limit_bytes_(options.limit_bytes),
        effects_(pricer.space()) {}

  Expected<SearchResult> Run() {
    const bool has_written = std::ranges::any_of(
        pricer_.written(), [](const Sharding* sharding) { return sharding != nullptr; });
    std::vector<Plan> styles, tensor_parallel, fsdp;
    for (const NamedPlan& style : StylePlans(space_, has_written, options_.zero)) {
      styles.push_back(style.plan);
      if (style.is_tensor_parallel) tensor_parallel.push_back(style.plan);
      if (style.is_fsdp) fsdp.push_back(style.plan);
    }
    const std::optional<PricedPlan> best_style = BestOf(styles, INT64_MAX, &styles_);
    if (!best_style) {
      return Fail(MakeError("E-AUTO-001", "no plan for this program can be partitioned",
                            "`gshard-opt partition` says why"));
    }
    limit_bytes_ = 0;
    for (std::vector<Plan>* plans : {&tensor_parallel, &fsdp}) {
      if (auto best = BestOf(std::move(*plans), 0)) result_.of_styles.push_back(*std::move(best));
    }
    limit_bytes_ = options_.limit_bytes;
    if (CountPlans(space_, options_.zero) <=
        std::min(options_.most_enumerated, static_cast<double>(Left()))) {
      result_.is_exhaustive = result_.is_local_optimum = true;
      // All these may be refused where the program as it is written is not.
      result_.plans =
          Ranked(BestOf(AllPlans(space_, options_.zero), INT64_MAX).value_or(*best_style));
      return std::move(result_);
    }
    reserved_ = move_count_;
    PricedPlan best = Explore();
    reserved_ = 0;
    if (SettlesIt(best)) {
      Pass(best);
    } else {
      best = Descend(best);
      reserved_ = move_count_;
      best = ImproveSets(best);
      best = StartAgain(best);
      reserved_ = 0;
    }
    result_.is_settled = SettlesIt(best);
    result_.is_local_optimum = CheckLocalOptimum(best);
    result_.plans = Ranked(DropAnnotations(best));
    return std::move(result_);
  }

  // One round around a group that keeps its choice in `plan`.
  std::optional<PricedPlan> RoundAround(const Plan& plan, size_t group) {
    std::optional<PricedPlan> current = BestOf({plan}, 1);
    if (!current) return current;
    Take(ZeroMove(current->plan), *current);
    for (const size_t g : GroupsByWeight(space_)) {
      if (g != group) Take(MovesOfGroup(space_, current->plan, g), *current);
    }
    return current;
  }

 private:
  // Evaluations that are left, without those that dropping annotations takes at the end.
  int64_t Left() const {
    const auto groups = static_cast<int64_t>(space_.groups().size());
    return std::max<int64_t>(0, options_.evaluations - groups - reserved_ - pricer_.evaluations());
  }

  bool Better(const PricedPlan& a, const PricedPlan& b) const {
    const bool by_penalty =
        penalty_ > 0 && a.figures.returns_state_alike == b.figures.returns_state_alike;
    return by_penalty ? PenalizedTime(a) < PenalizedTime(b) * (1 - kSameTime)
                      : IsBetter(a, b, limit_bytes_);
  }

  // The step time, times a power of how many times the limit the peak is, if it is more.
  double PenalizedTime(const PricedPlan& plan) const {
    const double over = FitsNow(plan) ? 1
                                      : static_cast<double>(plan.figures.step.peak_bytes) /
                                            static_cast<double>(limit_bytes_);
    return plan.figures.step.step_time_s * std::pow(over, penalty_);
  }

  // Is it so near the best time there can be that no more search is worth its time?
  bool SettlesIt(const PricedPlan& plan) const {
    return options_.within > 0 &&
           std::abs(plan.figures.step.step_time_s - options_.perfect_s) <=
               options_.within * options_.perfect_s &&
           plan.figures.returns_state_alike && Fits(plan, options_.limit_bytes);
  }

  // Prices plans, `left` new ones at most, and adds them to `all`; the best, if any could be
  // priced. `next`: what is likely to be asked for after that.
  std::optional<PricedPlan> BestOf(std::vector<Plan> plans, int64_t left,
                                   std::vector<PricedPlan>* all = nullptr,
                                   std::span<const Plan> next = {}) {
    std::vector<Plan> taken;
    for (Plan& plan : plans) {
      const bool is_known = pricer_.Knows(plan);
      if (!is_known && left <= 0) {
        result_.is_cut_short = true;
        continue;
      }
      left -= is_known ? 0 : 1;
      taken.push_back(std::move(plan));
    }
    const auto figures = pricer_.Price(taken, next);
    std::optional<PricedPlan> best;
    for (size_t i = 0; i < taken.size(); ++i) {
      if (!figures[i]) continue;
      PricedPlan priced{taken[i], *figures[i], space_.AnnotationsOf(taken[i])};
      if (!best || Better(priced, *best)) best = priced;
      if (all != nullptr) all->push_back(priced);
      Remember(std::move(priced));
    }
    return best;
  }

  void Remember(PricedPlan priced) {
    const auto known = std::ranges::find_if(
        seen_, [&](const PricedPlan& other) { return other.plan == priced.plan; });
    if (known == seen_.end()) seen_.push_back(std::move(priced));
  }

  // One in so many evaluations goes to the plans of so annotated tensors at a time.
  int64_t ShareOf(NamedTensors tensors) const {
    const bool is_main = tensors == NamedTensors::kAll || tensors == NamedTensors::kParameters;
    return is_main ? kShareForNames : 3 * kShareForNames;
  }

  // Prices plans by names, `left` new ones at most.
  void PriceNames(NamedTensors tensors, const std::vector<NameChoice>& choices, int64_t left) {
    std::vector<Plan> plans;
    for (const NameChoice& choice : choices) {
      plans.push_back(PlanByNames(space_, choice, tensors));
    }
    std::vector<PricedPlan> priced;
    BestOf(plans, left, &priced);
    result_.name_plans +=
        std::ranges::count_if(plans, [&](const Plan& plan) { return pricer_.Knows(plan); });
    size_t next = 0;  // `priced` has the plans in their order, without those that were not priced
    for (size_t i = 0; i < plans.size() && next < priced.size(); ++i) {
      if (priced[next].plan == plans[i]) named_.push_back({tensors, choices[i], priced[next++]});
    }
  }

  // Plans of one name an axis, or of two where there are few.
  void PriceFirstNames(NamedTensors tensors) {
    const size_t names = space_.cuttable_names().size();
    const int64_t most = std::min(Left(), options_.evaluations / ShareOf(tensors));
    const auto budget = static_cast<double>(most);
    const bool all = CountNameChoices(space_, 2, names) <= std::min(kMaxExhaustive, budget);
    if (!all) result_.names_exhausted = false;
    size_t heaviest = std::min(names, kMaxNames);
    while (!all && heaviest > 1 && CountNameChoices(space_, 1, heaviest) > budget) --heaviest;
    PriceNames(tensors, NameChoices(space_, all ? 2 : 1, all ? names : heaviest), most);
  }

  // Second names on the best plan by names, on one axis and on all, and on what that makes of it.
  void PriceSecondNames(NamedTensors tensors) {
    std::optional<NamedPrice> best = BestNamed(tensors);
    for (int round = 0; best && round < 4; ++round) {
      std::vector<NameChoice> longer;
      std::vector<size_t> open;  // axes that may have another name
      for (size_t axis = 0; axis < best->names.size(); ++axis) {
        if (space_.mesh()[axis].size > 1 && best->names[axis].size() < 2) open.push_back(axis);
      }
      const size_t count = std::min(space_.cuttable_names().size(), kMaxNames);
      const auto add = [&](const std::vector<size_t>& axes) {
        for (size_t i = 0; i < count; ++i) {
          longer.push_back(best->names);
          for (const size_t axis : axes) longer.back()[axis].push_back(space_.cuttable_names()[i]);
        }
      };
      for (const size_t axis : open) add({axis});
      if (open.size() > 1) add(open);  // the way there may be dear
      PriceNames(tensors, longer, Left() / ShareOf(tensors));
      std::optional<NamedPrice> reached = BestNamed(tensors);
      if (!Better(reached->priced, best->priced)) break;
      best = std::move(reached);
    }
  }

  // Prices the plans that elimination finds: all their annotations, and those that propagation
  // cannot find, without products.
  void PriceModelled() {
    const PricingOptions& pricing = pricer_.options();
    const Mesh mesh = MeshOf(space_.mesh());
    const auto network =
        Network::Make(pricing.chip, mesh.device_count(), &mesh, pricing.cost.mesh_map);
    if (!network) return;  // no plan could be priced
    const PlanModel model(pricer_.module(), space_, pricing.chip, *network);
    const std::vector<ModelledPlan> found = LeastPlans(model);
    std::vector<Plan> plans;
    for (const ModelledPlan& modelled : found) {
      plans.insert(plans.end(), 2, modelled.plan);
      for (size_t g = 0; g < space_.groups().size(); ++g) {
        const GroupKind kind = space_.groups()[g].kind;
        if (!IsParameter(kind) && kind != GroupKind::kResult) plans.back().choices[g] = 0;
      }
    }
    BestOf(plans, Left(), &modelled_);
    if (!modelled_.empty() && modelled_[0].plan == found[0].plan) {
      result_.modelled = {found[0].seconds, modelled_[0].figures.step.step_time_s};
    }
  }

  std::optional<NamedPrice> BestNamed(NamedTensors tensors) const {
    std::optional<NamedPrice> best;
    for (const NamedPrice& named : named_) {
      if (named.tensors != tensors) continue;
      if (!best || Better(named.priced, best->priced)) best = named;
    }
    return best;
  }

  std::vector<Plan> ZeroMove(const Plan& plan) const {
    if (!options_.zero) return {};
    Plan other = plan;
    other.cuts_weight_updates = !other.cuts_weight_updates;
    return {other};
  }

  // Changes of no single group: updates of weights cut or not, two axes in each other's place.
  std::vector<Plan> WholeMoves(const Plan& plan) const {
    std::vector<Plan> moves = ZeroMove(plan);
    const std::vector<Plan> swaps = AxisSwaps(space_, plan);
    moves.insert(moves.end(), swaps.begin(), swaps.end());
    return moves;
  }

  bool Take(std::vector<Plan> moves, PricedPlan& current, std::span<const Plan> next = {}) {
    const std::optional<PricedPlan> best = BestOf(std::move(moves), Left(), nullptr, next);
    if (!best || !Better(*best, current)) return false;
    current = *best;
    return true;
  }

  // Moves of a group. If `quick`, without those that never were any good where the end of the
  // search is near, and elsewhere without those that had no effect while evaluations are scarce:
  // those that made other plans slower are well spent there.
  std::vector<Plan> HopefulMoves(const PricedPlan& current, size_t g, bool quick) const {
    std::vector<Plan> moves = MovesOfGroup(space_, current.plan, g);
    if (!quick) return moves;
    const bool is_near =
        options_.within > 0 && current.figures.step.step_time_s < kNearEnd * options_.perfect_s;
    const bool is_scarce = Left() < kPlentyOfPasses * move_count_;
    const bool fits = FitsNow(current);
    std::erase_if(moves, [&](const Plan& move) {
      const int option = move.choices[g];
      return is_near ? fits && effects_.IsHopeless(g, option)
                     : is_scarce && effects_.IsWithoutEffect(g, option);
    });
    return moves;
  }

  // Notes what changes of group `g` made of the plan `before`.
  void NoteEffects(const PricedPlan& before, size_t g, const std::vector<Plan>& moves) {
    for (const Plan& move : moves) {
      if (!pricer_.Knows(move)) continue;
      effects_.Note(g, move.choices[g], before.figures, pricer_.Price({&move, 1})[0]);
    }
  }

  // The figures of `current` with one group changed, which makes `move`: as they are known, else by
  // what that change did to the last plan it was tried on. Nothing where neither is known.
  std::optional<PricedPlan> Expect(const PricedPlan& current, size_t g, const Plan& move) {
    const auto figures = pricer_.Knows(move) ? pricer_.Price({&move, 1})[0]
                                             : effects_.Expect(g, move.choices[g], current.figures);
    if (!figures) return std::nullopt;
    return PricedPlan{move, *figures, space_.AnnotationsOf(move)};
  }

  // The changes of one group that are expected to make `current` better, the best first.
  std::vector<GroupMove> ExpectedMoves(const PricedPlan& current) {
    std::vector<std::pair<size_t, PricedPlan>> better;
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      for (const Plan& move : MovesOfGroup(space_, current.plan, g)) {
        auto expected = Expect(current, g, move);
        if (expected && Better(*expected, current)) better.emplace_back(g, std::move(*expected));
      }
    }
    std::ranges::stable_sort(better, {}, [&](const auto& a) { return PenalizedTime(a.second); });
    std::vector<GroupMove> moves;
    for (auto& [g, expected] : better) moves.emplace_back(g, std::move(expected.plan));
    return moves;
  }

  // Changes of one group, and several of these at once, until none that was tried before is
  // expected to help: it takes a few evaluations where a pass takes hundreds.
  void DescendQuickly(PricedPlan& current) {
    while (Left() > 0) {
      std::vector<GroupMove> moves = ExpectedMoves(current);
      std::vector<Plan> plans = SetsOfMoves(current.plan, moves);
      moves.resize(std::min(moves.size(), kMovesAtOnce));
      for (const auto& [g, move] : moves) plans.push_back(move);
      const bool has_new =
          std::ranges::any_of(moves, [&](const auto& move) { return !pricer_.Knows(move.second); });
      const PricedPlan before = current;
      if (!Take(std::move(plans), current) && !has_new) return;
      for (const auto& [g, move] : moves) NoteEffects(before, g, {move});
    }
  }

  // What a quick descent makes of a plan. Where it does not fit, its memory is a price before the
  // limit is a wall (the exterior penalty method): the time is multiplied by a power of how many
  // times the limit the peak is, which grows until the plan fits.
  PricedPlan Approach(PricedPlan plan) {
    for (penalty_ = kFirstPenalty; !FitsNow(plan) && penalty_ <= kLastPenalty;
         penalty_ *= kPenaltyGrowth) {
      DescendQuickly(plan);
    }
    penalty_ = 0;
    DescendQuickly(plan);
    return plan;
  }

  // Of the groups in the queue, those that come first: if the one before them changes nothing.
  std::vector<Plan> FirstMoves(const PricedPlan& current, const std::deque<size_t>& queue,
                               bool quick) const {
    std::vector<Plan> first;
    for (size_t i = 0; i < queue.size() && first.size() < pricer_.MostAhead(); ++i) {
      for (Plan& move : HopefulMoves(current, queue[i], quick)) {
        if (!pricer_.Knows(move)) first.push_back(std::move(move));
      }
    }
    return first;
  }

  // Group after group, the heaviest first, and again those that touch one that changed. `quick`:
  // without changes that were tried before and made every plan much slower.
  bool Pass(PricedPlan& current, bool quick = true) {
    bool changed = Take(WholeMoves(current.plan), current);
    const std::vector<size_t> order = GroupsByWeight(space_);
    std::deque<size_t> queue(order.begin(), order.end());
    std::vector<bool> is_queued(order.size(), true);
    while (!queue.empty() && Left() > 0) {
      const size_t g = queue.front();
      queue.pop_front();
      is_queued[g] = false;
      const std::vector<Plan> moves = HopefulMoves(current, g, quick);
      const PricedPlan before = current;
      const bool is_better = Take(moves, current, FirstMoves(current, queue, quick));
      NoteEffects(before, g, moves);
      if (!is_better) continue;
      changed = true;
      for (const auto& [a, b] : space_.neighbours()) {
        const size_t other = a == g ? b : a;
        if ((a != g && b != g) || is_queued[other]) continue;
        is_queued[other] = true;
        queue.push_back(other);
      }
    }
    return changed;
  }

  // Until no change of one group is better; no hopeful one, where that settles it.
  PricedPlan Descend(PricedPlan current) {
    do {
      while (Left() > 0 && Pass(current)) {
      }
    } while (Left() > 0 && !SettlesIt(current) && Pass(current, false));
    return current;
  }

  PricedPlan ImproveSets(PricedPlan current) {
    const std::vector<std::vector<std::vector<size_t>>> lists = SetsOfGroups(space_);
    for (size_t i = 0; i < lists.size() && Left() > 0;) {
      bool changed = false;
      for (const std::vector<size_t>& set : lists[i]) {
        double count = 1;
        for (const size_t g : set) {
          count *= static_cast<double>(OptionsNear(space_, current.plan, g).size());
        }
        if (count > static_cast<double>(Left())) continue;
        changed |= Take(MovesOfSet(space_, current.plan, set), current);
      }
      if (changed) current = Descend(current);
      i = changed ? 0 : i + 1;
    }
    return current;
  }

  // 0: the text's annotations; 1: one that annotates products; 2: another.
  size_t KindOfStyle(const Plan& plan) const {
    if (std::ranges::find(plan.choices, Plan::kAsWritten) != plan.choices.end()) return 0;
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      if (plan.choices[g] != 0 && space_.groups()[g].kind == GroupKind::kProduct) return 1;
    }
    return 2;
  }

  // The best of the styles and of plans by names of each kind, the best first, with the next best
  // styles before those that do not fit. Of plans with about the same figures one.
  std::vector<PricedPlan> Seeds() const {
    std::vector<PricedPlan> seeds = styles_;
    for (const NamedTensors tensors : kNamedTensors) {
      if (auto named = BestNamed(tensors)) seeds.push_back(std::move(named->priced));
    }
    SortByQuality(seeds);
    // The user's annotations, the best of the styles that annotate products and of the others take
    // their places; where little fits, a few more come behind what does.
    bool has_style[] = {false, false, false};
    std::vector<PricedPlan> distinct, more;
    for (PricedPlan& seed : seeds) {
      const bool is_style = std::ranges::any_of(
          styles_, [&](const PricedPlan& style) { return style.plan == seed.plan; });
      const auto is_same = [&](const PricedPlan& other) {
        return AreNear(other.figures.step.step_time_s, seed.figures.step.step_time_s, kSameTime) &&
               AreNear(static_cast<double>(other.figures.step.peak_bytes),
                       static_cast<double>(seed.figures.step.peak_bytes), kSamePeak);
      };
      if (std::ranges::any_of(distinct, is_same) || std::ranges::any_of(more, is_same)) continue;
      if (!seed.figures.returns_state_alike) continue;
      bool& has_its_style = has_style[KindOfStyle(seed.plan)];
      (is_style && has_its_style ? more : distinct).push_back(std::move(seed));
      has_its_style |= is_style;
    }
    more.resize(std::min(more.size(), kMoreStyles));
    const auto first_over =
        std::ranges::find_if_not(distinct, [&](const PricedPlan& seed) { return FitsNow(seed); });
    if (first_over != distinct.end()) distinct.insert(first_over, more.begin(), more.end());
    return distinct;
  }

  // What is priced here does not depend on the limit, so that hardly a plan of a tight one is
  // faster than that of a wide one: plans by names and by elimination, and a pass from the fastest
  // of each and of the styles.
  void ExploreFreely() {
    limit_bytes_ = 0;
    result_.names_exhausted = true;
    for (const NamedTensors tensors : kNamedTensors) {
      if (IsSettled()) break;
      PriceFirstNames(tensors);
    }
    if (IsSettled()) result_.names_exhausted = false;
    if (!result_.names_exhausted) {
      for (const NamedTensors tensors : kNamedTensors) {
        if (!IsSettled()) PriceSecondNames(tensors);
      }
    }
    if (!IsSettled()) PriceModelled();
    std::vector<PricedPlan> seeds = Seeds();
    seeds.resize(std::min<size_t>(seeds.size(), 1));
    SortByQuality(modelled_);
    if (!modelled_.empty()) seeds.push_back(modelled_[0]);
    const int64_t for_limit = options_.evaluations / kShareForLimit;
    reserved_ += for_limit;
    for (PricedPlan& seed : seeds) {
      if (!IsSettled()) Pass(seed);
    }
    reserved_ -= for_limit;
    limit_bytes_ = options_.limit_bytes;
    passed_ = std::move(seeds);
  }

  // Brings the fastest plan in whatever memory down to the limit; what it becomes is among the
  // plans seen.
  void FitFastest() {
    const PricedPlan fastest = FastestSeen();
    if (!FitsNow(fastest)) Approach(fastest);
  }

  // Passes with memory as a price from the plan that is best so, until that fits: quick descents
  // may end a little above the limit.
  void PassDownToLimit() {
    for (penalty_ = kPenaltyGrowth; penalty_ <= kLastPenalty; penalty_ *= kPenaltyGrowth) {
      PricedPlan plan = *BestSeen();
      if (FitsNow(plan)) break;
      Pass(plan);
    }
    penalty_ = 0;
  }

  // So many of the plans that promise most where memory has a price.
  std::vector<PricedPlan> Promising(std::vector<PricedPlan> plans, size_t most) {
    penalty_ = kSeedPenalty;
    std::ranges::stable_sort(plans, {}, [&](const PricedPlan& x) { return PenalizedTime(x); });
    penalty_ = 0;
    plans.resize(std::min(plans.size(), most));
    return plans;
  }

  // What quick descents make of the fastest plan, of the seed that promises most and of the best of
  // elimination in a part of the memory: a plan close to the limit has no memory left to become
  // faster with.
  std::vector<PricedPlan> StartsInLessMemory(const std::vector<PricedPlan>& seeds) {
    limit_bytes_ = std::max<int64_t>(1, limit_bytes_ / kPartOfMemory);  // 0 would be none
    std::vector<PricedPlan> starts = {FastestSeen()};
    for (PricedPlan& seed : Promising(seeds, 1)) starts.push_back(std::move(seed));
    for (PricedPlan& seed : Promising(modelled_, 1)) starts.push_back(std::move(seed));
    for (PricedPlan& start : starts) start = Approach(start);
    limit_bytes_ = options_.limit_bytes;
    return starts;
  }

  // Where passes under the limit start, the best first: the best known plan, and what quick
  // descents make of the seeds that promise most where memory has a price; the seeds as they are,
  // if nothing fits yet.
  std::vector<PricedPlan> StartsAtLimit(const PricedPlan& best) {
    std::vector<PricedPlan> starts = Seeds();
    if (FitsNow(best)) {
      const std::vector<PricedPlan> seeds = starts;
      starts = Promising(seeds, kSeedsAtLimit);
      for (PricedPlan& seed : Promising(modelled_, 1)) starts.push_back(std::move(seed));
      for (PricedPlan& start : starts) start = Approach(start);
      if (!FitsNow(FastestSeen())) {
        for (PricedPlan& start : StartsInLessMemory(seeds)) starts.push_back(std::move(start));
      }
    }
    starts.push_back(best);
    SortByQuality(starts);
    return starts;
  }

  // May a pass from a plan that fits lead to a better one than `best`? Not where it is far behind,
  // or both slower and larger.
  bool IsPromising(const PricedPlan& start, const PricedPlan& best) const {
    if (!FitsNow(start)) return false;
    const double slowdown = start.figures.step.step_time_s / best.figures.step.step_time_s;
    const bool is_larger = start.figures.step.peak_bytes > best.figures.step.peak_bytes;
    return slowdown <= (is_larger ? 1 : kFarBehind);
  }

  // The best that passes lead to: from the best known plan, if nothing fits yet; from the fastest
  // brought down to the limit; from seeds brought down to it; and from the best of those to plans
  // of less memory and back. Time alone leads to where every single change is too dear.
  PricedPlan Explore() {
    ExploreFreely();
    if (IsSettled()) return *BestSeen();
    if (limit_bytes_ > 0 && !result_.names_exhausted) {
      for (const NamedTensors tensors : kNamedTensors) PriceSecondNames(tensors);
    }
    PricedPlan best = *BestSeen();
    if (!FitsNow(best)) best = PassFrom(best, best);
    FitFastest();
    const int64_t kept = reserved_;
    if (FitsNow(best)) reserved_ /= 2;  // the other half is for what fits
    PassDownToLimit();
    reserved_ = kept;
    best = *BestSeen();
    for (const PricedPlan& start : std::views::reverse(passed_)) {  // those cut short come last
      if (FitsNow(start)) best = PassFrom(start, best);
    }
    for (const PricedPlan& start : StartsAtLimit(best)) {
      if (SettlesIt(best)) return best;
      if (!FitsNow(best)) reserved_ = 0;  // a plan that fits comes first
      if (!FitsNow(best) || IsPromising(start, best)) best = PassFrom(start, best);
    }
    for (const double share : kSmallerPeaks) {
      limit_bytes_ =
          static_cast<int64_t>(share * static_cast<double>(best.figures.step.peak_bytes));
      PassDownToLimit();
      const PricedPlan smaller = *BestSeen();
      limit_bytes_ = options_.limit_bytes;
      best = PassFrom(smaller, best);
    }
    return best;
  }

  // Does the best of what was priced settle it?
  bool IsSettled() const {
    return std::ranges::any_of(seen_, [&](const PricedPlan& plan) { return SettlesIt(plan); });
  }

  // The fastest of what was priced, in whatever memory.
  PricedPlan FastestSeen() {
    const int64_t limit_bytes = limit_bytes_;
    limit_bytes_ = 0;
    PricedPlan fastest = *BestSeen();
    limit_bytes_ = limit_bytes;
    return fastest;
  }

  // The best of what was priced.
  std::optional<PricedPlan> BestSeen() const {
    std::optional<PricedPlan> best;
    for (const PricedPlan& plan : seen_) {
      if (!best || Better(plan, *best)) best = plan;
    }
    return best;
  }

  // The better one of `best` and what a pass makes of `start`.
  PricedPlan PassFrom(PricedPlan start, const PricedPlan& best) {
    Pass(start);
    return Better(start, best) ? start : best;
  }

  // The best that is reached from other plans by names, the best of them first.
  PricedPlan StartAgain(PricedPlan best) {
    std::vector<PricedPlan> starts;
    for (const NamedPrice& named : named_) starts.push_back(named.priced);
    SortByQuality(starts);
    for (const PricedPlan& start : starts) {
      if (Left() <= 0) break;
      PricedPlan reached = PassFrom(start, best);
      if (Better(reached, best)) best = ImproveSets(Descend(std::move(reached)));
    }
    return best;
  }

  bool FitsNow(const PricedPlan& plan) const { return Fits(plan, limit_bytes_); }

  // The best first: those that fit by time, then the others by peak.
  void SortByQuality(std::vector<PricedPlan>& plans) const {
    std::stable_sort(plans.begin(), plans.end(), [&](const PricedPlan& a, const PricedPlan& b) {
      if (FitsNow(a) != FitsNow(b)) return FitsNow(a);
      return FitsNow(a) ? a.figures.step.step_time_s < b.figures.step.step_time_s
                        : a.figures.step.peak_bytes < b.figures.step.peak_bytes;
    });
  }

  // Groups lose their annotation, the lightest first, where that changes hardly anything: the plan
  // stays within a thousandth of the time and of the peak that it had with all of them.
  PricedPlan DropAnnotations(PricedPlan current) {
    std::vector<size_t> order;
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      if (current.plan.choices[g] != 0) order.push_back(g);
    }
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return space_.groups()[a].bytes < space_.groups()[b].bytes;
    });
    const PricedPlan first = current;
    for (size_t i = 0; i < order.size(); ++i) {
      Plan fewer = current.plan;
      fewer.choices[order[i]] = 0;
      std::vector<Plan> next;  // whether this annotation goes or not
      if (i + 1 < order.size()) next = {fewer, current.plan};
      for (Plan& plan : next) plan.choices[order[i + 1]] = 0;
      const auto figures = pricer_.Price({&fewer, 1}, next)[0];
      if (!figures) continue;
      PricedPlan priced{fewer, *figures, space_.AnnotationsOf(fewer)};
      Remember(priced);
      if (!IsClearlyBetter(first, priced, limit_bytes_)) current = std::move(priced);
    }
    return current;
  }

  bool CheckLocalOptimum(const PricedPlan& best) {
    std::vector<Plan> moves = WholeMoves(best.plan);
    for (size_t g = 0; g < space_.groups().size(); ++g) {
      const std::vector<Plan> more = MovesOfGroup(space_, best.plan, g);
      moves.insert(moves.end(), more.begin(), more.end());
    }
    result_.moves = static_cast<int64_t>(moves.size());
    const bool all_known =
        std::ranges::all_of(moves, [&](const Plan& move) { return pricer_.Knows(move); });
    if (!all_known && (result_.is_settled || result_.moves > Left())) return false;
    const std::optional<PricedPlan> reached = BestOf(std::move(moves), Left());
    return !reached || !Better(*reached, best);
  }

  // All that was priced, `best` first.
  std::vector<PricedPlan> Ranked(const PricedPlan& best) const {
    std::vector<PricedPlan> plans = seen_;
    std::erase_if(plans, [&](const PricedPlan& plan) { return plan.plan == best.plan; });
    SortByQuality(plans);
    plans.insert(plans.begin(), best);
    return plans;
  }

  PlanPricer& pricer_;
  const PlanSpace& space_;
  const SearchOptions& options_;
  const int64_t move_count_;  // number of changes of one group
  int64_t limit_bytes_;       // of the moment: Explore sets a smaller one
  int64_t reserved_ = 0;      // evaluations, to find that no change of one group is better
  std::vector<PricedPlan> seen_;
  std::vector<PricedPlan> styles_;
  std::vector<PricedPlan> passed_;  // what passes without a limit came to
  std::vector<NamedPrice> named_;
  std::vector<PricedPlan> modelled_;  // that elimination found
  double penalty_ = 0;  // the power of PenalizedTime; 0: a plan that fits is better than any other
  MoveEffects effects_;
  SearchResult result_;
};

}  // namespace

Expected<SearchResult> SearchPlans(PlanPricer& pricer, const SearchOptions& options) {
  return Search(pricer, options).Run();
}

std::optional<PricedPlan> BestWithOption(PlanPricer& pricer, const SearchOptions& options,
                                         const Plan& from, size_t group, int option,
                                         int64_t evaluations) {
  SearchOptions budget = options;
  budget.evaluations =
      pricer.evaluations() + evaluations + static_cast<int64_t>(pricer.space().groups().size());
  Plan plan = from;
  plan.choices[group] = option;
  return Search(pricer, budget).RoundAround(plan, group);
}

}  // namespace gshard::autoshard
