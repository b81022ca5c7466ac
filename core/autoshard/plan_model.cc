// See plan_model.h.

#include "core/autoshard/plan_model.h"

#include <algorithm>
#include <array>
#include <functional>
#include <iterator>
#include <limits>
#include <numeric>
#include <set>
#include <utility>

#include "core/autoshard/modelled_work.h"
#include "ir/dims.h"

namespace gshard::autoshard {
namespace {

// A table of the elimination has so many cells at most, and all tables of the sum together take so
// many additions.
constexpr double kMostCells = 2e6, kMostAdditions = 1e7;
// How often the axes are taken one by one.
constexpr int kRounds = 2;
// Bytes by which a collective's time is split into what it takes at least and what a byte takes.
constexpr double kFewBytes = 1 << 10, kManyBytes = 1 << 26;
// An update reads a weight and its gradient, and writes the weight.
constexpr double kPassesOfUpdate = 3;
// What bytes cost in LeastPlans: shares of the seconds a byte of the fastest plan. The first only
// chooses among plans that are as fast.
constexpr double kMemoryPrices[] = {1e-3, 0.1, 1, 10};

enum Collective : uint8_t { kAllGather, kAllReduce, kReduceScatter, kAllToAll, kCollectives };

// How long collectives along one axis take: `launch_s` and so much a byte of their operand.
struct AxisRates {
  std::array<double, kCollectives> launch_s = {}, seconds_per_byte = {};
  double Of(Collective kind, double bytes) const {
    return launch_s[kind] + seconds_per_byte[kind] * bytes;
  }
};

AxisRates RatesOf(const Network& network, const MeshAxis& axis) {
  constexpr std::string_view kNames[] = {"all-gather", "all-reduce", "reduce-scatter",
                                         "all-to-all"};
  AxisRates rates;
  for (size_t kind = 0; kind < kCollectives; ++kind) {
    const auto seconds = [&](double bytes) {
      return network.TimeOf({kNames[kind], bytes, axis.size, network.SegmentsOf(axis.name)})
          .seconds;
    };
    const double few = seconds(kFewBytes), many = seconds(kManyBytes);
    rates.seconds_per_byte[kind] = (many - few) / (kManyBytes - kFewBytes);
    rates.launch_s[kind] = std::max(0.0, few - rates.seconds_per_byte[kind] * kFewBytes);
  }
  return rates;
}

}  // namespace

struct PlanModel::Parts {
  const PlanSpace& space;
  ModelledWork work;
  std::vector<AxisRates> rates;     // by mesh axis
  double memory_rate = 1;           // bytes a second
  bool updates = false;             // the step updates weights, so that products are kept for it
  OptionsOfGroups options;          // all but 0
  std::optional<SumOfCosts> times;  // of all options; nothing: too much to add

  const Cut& CutOf(size_t group, int option) const {
    return *space.groups()[group].options[At(option)];
  }
  double SizeOf(size_t axis) const { return static_cast<double>(space.mesh()[axis].size); }
  size_t axes() const { return space.mesh().size(); }

  // How a value lies where the tensors of its group are cut so.
  Cut CutOfValue(const Source& source, const Cut& of_group) const {
    Cut cut(axes(), kNone);
    for (size_t axis = 0; axis < axes(); ++axis) {
      if (of_group[axis] < 0) continue;
      const auto at = std::ranges::find(source.dims, of_group[axis]);
      if (at != source.dims.end()) cut[axis] = static_cast<int>(at - source.dims.begin());
    }
    return cut;
  }

  // Bytes that a group's tensors take on one device; of products where they are kept.
  double BytesOf(size_t g, int option) const {
    const Group& group = space.groups()[g];
    const bool is_parameter = IsParameter(group.kind);
    const double whole = is_parameter ? group.bytes : updates ? work.product_bytes[g] : 0;
    return option == 0 ? whole : whole / WaysOf(CutOf(g, option));
  }

  double WaysOf(const Cut& cut) const {
    double ways = 1;
    for (size_t axis = 0; axis < axes(); ++axis) ways *= cut[axis] >= 0 ? SizeOf(axis) : 1;
    return ways;
  }

  // `partial`: axes along which devices have parts of a sum. What `to` cuts is cut first, and
  // put together last.
  double ReshardSeconds(double bytes, const Cut& from, const Cut& to,
                        const std::vector<bool>& partial = {}) const {
    double ways = 1;
    for (size_t axis = 0; axis < axes(); ++axis) {
      ways *= from[axis] >= 0 || to[axis] >= 0 ? SizeOf(axis) : 1;
    }
    double seconds = 0;
    for (size_t axis = 0; axis < axes(); ++axis) {
      const double size = SizeOf(axis);
      const bool is_cut = from[axis] >= 0 || to[axis] >= 0;
      const double along = bytes / (is_cut ? ways / size : ways);  // whole along this axis
      if (!partial.empty() && partial[axis]) {
        seconds += rates[axis].Of(to[axis] < 0 ? kAllReduce : kReduceScatter, along);
      } else if (from[axis] >= 0 && to[axis] < 0) {
        seconds += rates[axis].Of(kAllGather, along / size);
      } else if (from[axis] >= 0 && to[axis] != from[axis]) {
        seconds += rates[axis].Of(kAllToAll, along / size);
      }
    }
    return seconds;
  }

  // A way of computing a product: the factor that each axis cuts, or kNone.
  struct Strategy {
    double seconds = 0;
    std::array<Cut, 3> cuts;  // of the operands and the result
    std::vector<bool> partial;
  };
  std::vector<std::vector<Strategy>> strategies;  // by product

  std::vector<Strategy> StrategiesOf(const Product& product) const;
  double Additions(const OptionsOfGroups& options) const;
  SumOfCosts SumOfTimes(const OptionsOfGroups& options) const;
  void AddProducts(const OptionsOfGroups& options, SumOfCosts& sum) const;
  void AddReshards(const OptionsOfGroups& options, SumOfCosts& sum) const;
  void AddUpdates(const OptionsOfGroups& options, SumOfCosts& sum) const;
  SumOfCosts WithMemory(SumOfCosts times, const OptionsOfGroups& options,
                        double seconds_per_byte) const;
};

std::vector<PlanModel::Parts::Strategy> PlanModel::Parts::StrategiesOf(
    const Product& product) const {
  std::vector<Cut> choices = {Cut(axes(), kNone)};  // factors by axis
  for (size_t axis = 0; axis < axes(); ++axis) {
    if (space.mesh()[axis].size == 1) continue;
    const size_t before = choices.size();
    for (size_t i = 0; i < before; ++i) {
      for (size_t f = 0; f < product.factors.size(); ++f) {
        if (product.factors[f].kind == FactorKind::kNeedReplication) continue;
        Cut choice = choices[i];
        choice[axis] = static_cast<int>(f);
        double parts = 1;
        for (size_t a = 0; a <= axis; ++a) {
          parts *= choice[a] == static_cast<int>(f) ? SizeOf(a) : 1;
        }
        if (parts <= static_cast<double>(product.factors[f].size)) choices.push_back(choice);
      }
    }
  }
  std::vector<Strategy> all;
  for (const Cut& choice : choices) {
    Strategy strategy;
    strategy.partial.resize(axes());
    double traffic = 0;
    for (size_t i = 0; i < 3; ++i) {
      strategy.cuts[i].assign(axes(), kNone);
      for (size_t axis = 0; axis < axes(); ++axis) {
        if (choice[axis] < 0) continue;
        const auto at = std::ranges::find(product.factors_of[i], choice[axis]);
        const bool has_it = at != product.factors_of[i].end();
        if (has_it) strategy.cuts[i][axis] = static_cast<int>(at - product.factors_of[i].begin());
        if (i == 2) strategy.partial[axis] = !has_it;
      }
      traffic += product.bytes[i] / WaysOf(strategy.cuts[i]);
    }
    strategy.seconds = std::max(product.seconds / WaysOf(choice), traffic / memory_rate);
    all.push_back(std::move(strategy));
  }
  return all;
}

namespace {

// A table over the groups of several roles, of which some may be the same.
CostTable TableOf(const std::vector<int>& groups, const OptionsOfGroups& options) {
  std::set<int> variables(groups.begin(), groups.end());
  variables.erase(kNone);
  CostTable table{{variables.begin(), variables.end()}, {}};
  size_t cells = 1;
  for (const int group : variables) cells *= options[At(group)].size();
  table.costs.resize(cells);
  return table;
}

// Tables of the same variables are one.
void Add(CostTable table, SumOfCosts& sum) {
  const auto known = std::ranges::find_if(
      sum.tables, [&](const CostTable& other) { return other.variables == table.variables; });
  if (known == sum.tables.end()) {
    sum.tables.push_back(std::move(table));
  } else {
    std::ranges::transform(known->costs, table.costs, known->costs.begin(), std::plus<>());
  }
}

// Calls `take(cell, positions)` for each cell, with the position of each role's option.
template <typename Take>
void ForEachCell(const CostTable& table, const std::vector<int>& groups,
                 const OptionsOfGroups& options, Take take) {
  std::vector<size_t> values(table.variables.size(), 0), positions(groups.size(), 0);
  for (size_t cell = 0; cell < table.costs.size(); ++cell) {
    size_t rest = cell;
    for (size_t i = table.variables.size(); i-- > 0;) {
      const size_t size = options[At(table.variables[i])].size();
      values[i] = rest % size;
      rest /= size;
    }
    for (size_t role = 0; role < groups.size(); ++role) {
      if (groups[role] == kNone) continue;
      const auto at = std::ranges::find(table.variables, groups[role]);
      positions[role] = values[static_cast<size_t>(at - table.variables.begin())];
    }
    take(cell, positions);
  }
}

}  // namespace

void PlanModel::Parts::AddProducts(const OptionsOfGroups& of_groups, SumOfCosts& sum) const {
  for (size_t p = 0; p < work.products.size(); ++p) {
    const Product& product = work.products[p];
    const std::vector<int> groups = {product.operands[0].group, product.operands[1].group,
                                     product.group};
    // By role and position of its option: what each strategy costs it.
    std::array<std::vector<std::vector<double>>, 3> costs;
    for (size_t role = 0; role < 3; ++role) {
      if (groups[role] == kNone) continue;
      for (const int option : of_groups[At(groups[role])]) {
        const Cut& cut = CutOf(At(groups[role]), option);
        const Cut own = role < 2 ? CutOfValue(product.operands[role], cut) : cut;
        std::vector<double>& by_strategy = costs[role].emplace_back();
        for (const Strategy& strategy : strategies[p]) {
          const Cut& computed = strategy.cuts[role];
          const double bytes = product.bytes[role];
          by_strategy.push_back(role < 2 ? ReshardSeconds(bytes, own, computed)
                                         : ReshardSeconds(bytes, computed, own, strategy.partial));
        }
      }
    }
    CostTable table = TableOf(groups, of_groups);
    ForEachCell(table, groups, of_groups, [&](size_t cell, const std::vector<size_t>& positions) {
      double least = std::numeric_limits<double>::infinity();
      for (size_t s = 0; s < strategies[p].size(); ++s) {
        double seconds = strategies[p][s].seconds;
        for (size_t role = 0; role < 3; ++role) {
          if (groups[role] != kNone) seconds += costs[role][positions[role]][s];
        }
        least = std::min(least, seconds);
      }
      table.costs[cell] = product.times * least;
    });
    Add(std::move(table), sum);
  }
}

void PlanModel::Parts::AddReshards(const OptionsOfGroups& of_groups, SumOfCosts& sum) const {
  for (const Reshard& reshard : work.reshards) {
    const std::vector<int> groups = {reshard.from.group, reshard.to.group};
    CostTable table = TableOf(groups, of_groups);
    ForEachCell(table, groups, of_groups, [&](size_t cell, const std::vector<size_t>& positions) {
      const Cut from =
          CutOfValue(reshard.from, CutOf(At(groups[0]), of_groups[At(groups[0])][positions[0]]));
      const Cut to =
          CutOfValue(reshard.to, CutOf(At(groups[1]), of_groups[At(groups[1])][positions[1]]));
      table.costs[cell] = reshard.times * ReshardSeconds(reshard.bytes, from, to);
    });
    Add(std::move(table), sum);
  }
  for (const Reduction& reduction : work.reductions) {
    const std::vector<int> groups = {reduction.group};
    CostTable table = TableOf(groups, of_groups);
    for (size_t i = 0; i < table.costs.size(); ++i) {
      const Cut& cut = CutOf(At(reduction.group), of_groups[At(reduction.group)][i]);
      std::vector<bool> partial;
      for (const int dim : cut) {
        partial.push_back(dim >= 0 &&
                          std::ranges::find(reduction.summed, dim) != reduction.summed.end());
      }
      const Cut result = CutOfValue(reduction.result, cut);
      table.costs[i] = reduction.times * ReshardSeconds(reduction.bytes, result, result, partial);
    }
    Add(std::move(table), sum);
  }
}

void PlanModel::Parts::AddUpdates(const OptionsOfGroups& of_groups, SumOfCosts& sum) const {
  for (size_t g = 0; g < of_groups.size(); ++g) {
    if (space.groups()[g].kind != GroupKind::kState) continue;
    CostTable table{{static_cast<int>(g)}, {}};
    for (const int option : of_groups[g]) {
      table.costs.push_back(kPassesOfUpdate * BytesOf(g, option) / memory_rate);
    }
    Add(std::move(table), sum);
  }
}

SumOfCosts PlanModel::Parts::SumOfTimes(const OptionsOfGroups& of_groups) const {
  SumOfCosts sum;
  for (const std::vector<int>& own : of_groups) sum.sizes.push_back(static_cast<int>(own.size()));
  AddProducts(of_groups, sum);
  AddReshards(of_groups, sum);
  AddUpdates(of_groups, sum);
  return sum;
}

SumOfCosts PlanModel::Parts::WithMemory(SumOfCosts sum, const OptionsOfGroups& of_groups,
                                        double seconds_per_byte) const {
  for (size_t g = 0; g < of_groups.size(); ++g) {
    CostTable table{{static_cast<int>(g)}, {}};
    for (const int option : of_groups[g]) {
      table.costs.push_back(seconds_per_byte * BytesOf(g, option));
    }
    Add(std::move(table), sum);
  }
  return sum;
}

// Additions that the sum takes: of products each option for each strategy.
double PlanModel::Parts::Additions(const OptionsOfGroups& of_groups) const {
  double additions = 0;
  for (size_t p = 0; p < work.products.size(); ++p) {
    const Product& product = work.products[p];
    double own = static_cast<double>(strategies[p].size());
    const std::set<int> groups = {product.operands[0].group, product.operands[1].group,
                                  product.group};
    for (const int group : groups) {
      own *= group == kNone ? 1 : static_cast<double>(of_groups[At(group)].size());
    }
    additions += own;
  }
  return additions;
}

PlanModel::PlanModel(const Module& module, const PlanSpace& space, const Chip& chip,
                     const Network& network)
    : parts_(new Parts{space, ModelledWorkOf(module, space, chip), {}, 1, false, {}, {}, {}}) {
  for (const MeshAxis& axis : space.mesh()) parts_->rates.push_back(RatesOf(network, axis));
  parts_->memory_rate = chip.hbm_bytes_per_s * chip.memory_efficiency.limit;
  parts_->updates = std::ranges::any_of(
      space.groups(), [](const Group& group) { return group.kind == GroupKind::kState; });
  for (const Product& product : parts_->work.products) {
    parts_->strategies.push_back(parts_->StrategiesOf(product));
  }
  for (const Group& group : space.groups()) {
    std::vector<int>& own = parts_->options.emplace_back();
    for (size_t i = 1; i < group.options.size(); ++i) own.push_back(static_cast<int>(i));
    if (own.empty()) own.push_back(0);  // no cut at all
  }
  if (parts_->Additions(parts_->options) <= kMostAdditions) {
    parts_->times = parts_->SumOfTimes(parts_->options);
  }
}

PlanModel::~PlanModel() = default;
PlanModel::PlanModel(PlanModel&&) noexcept = default;

const OptionsOfGroups& PlanModel::AllOptions() const { return parts_->options; }

SumOfCosts PlanModel::Sum(const OptionsOfGroups& options, double seconds_per_byte) const {
  return parts_->WithMemory(parts_->SumOfTimes(options), options, seconds_per_byte);
}

namespace {

// The least of these options, into `plan`; false: that takes too much.
bool ChooseLeast(const SumOfCosts& sum, const OptionsOfGroups& options, Plan& plan) {
  const auto least = LeastByElimination(sum, kMostCells);
  if (!least) return false;
  for (size_t g = 0; g < options.size(); ++g) plan.choices[g] = options[g][At(least->values[g])];
  return true;
}

}  // namespace

bool PlanModel::ChooseByAxis(double seconds_per_byte, Plan& plan) const {
  const PlanSpace& space = parts_->space;
  const Cut whole(space.mesh().size(), kNone);
  for (size_t g = 0; g < plan.choices.size(); ++g) {
    plan.choices[g] = space.OptionOf(g, whole).value_or(0);
  }
  std::vector<size_t> axes(space.mesh().size());
  std::iota(axes.begin(), axes.end(), 0);
  std::ranges::stable_sort(axes, std::greater<>(),
                           [&](size_t axis) { return parts_->SizeOf(axis); });
  for (int round = 0; round < kRounds; ++round) {
    for (const size_t axis : axes) {
      OptionsOfGroups options;
      for (size_t g = 0; g < plan.choices.size(); ++g) {
        std::vector<int>& own = options.emplace_back(1, plan.choices[g]);
        if (plan.choices[g] == 0) continue;
        Cut cut = parts_->CutOf(g, plan.choices[g]);
        const int now = cut[axis];
        for (cut[axis] = kNone; cut[axis] < space.groups()[g].shape->rank(); ++cut[axis]) {
          const std::optional<int> option = space.OptionOf(g, cut);
          if (option && cut[axis] != now) own.push_back(*option);
        }
      }
      if (parts_->Additions(options) > kMostAdditions ||
          !ChooseLeast(Sum(options, seconds_per_byte), options, plan)) {
        return false;
      }
    }
  }
  return true;
}

std::optional<ModelledPlan> PlanModel::LeastPlan(double seconds_per_byte) const {
  const OptionsOfGroups& all = parts_->options;
  ModelledPlan least{parts_->space.EmptyPlan(), 0, 0};
  const bool is_found =
      parts_->times &&
      ChooseLeast(parts_->WithMemory(*parts_->times, all, seconds_per_byte), all, least.plan);
  if (!is_found && !ChooseByAxis(seconds_per_byte, least.plan)) return std::nullopt;
  OptionsOfGroups chosen;
  for (size_t g = 0; g < all.size(); ++g) {
    chosen.push_back({least.plan.choices[g]});
    least.bytes += parts_->BytesOf(g, least.plan.choices[g]);
  }
  least.seconds = parts_->SumOfTimes(chosen).Of(std::vector<int>(chosen.size(), 0));
  return least;
}

std::vector<ModelledPlan> LeastPlans(const PlanModel& model) {
  std::vector<ModelledPlan> plans;
  const auto fastest = model.LeastPlan(0);
  if (!fastest || fastest->bytes == 0) return plans;
  for (const double price : kMemoryPrices) {
    auto least = model.LeastPlan(price * fastest->seconds / fastest->bytes);
    const auto is_same = [&](const ModelledPlan& other) { return other.plan == least->plan; };
    if (least && std::ranges::none_of(plans, is_same)) plans.push_back(*std::move(least));
  }
  return plans;
}

}  // namespace gshard::autoshard
