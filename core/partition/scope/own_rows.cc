#include "core/partition/scope/own_rows.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>

#include "core/op_dims/dim_relation.h"
#include "core/partition/scope/partial_values.h"
#include "core/partition/scope/range_cut.h"
#include "core/partition/scope/recompute.h"
#include "ir/constant_fill.h"
#include "ir/dims.h"
#include "ir/op_traits.h"

namespace gshard {

namespace {

// Operations on arrays whose dims the relation (core/op_dims) describes fully.
bool MayCarryRows(const Instruction& x) {
  if (!x.shape()->IsArray() || !CanMerge(x.shape()->dtype()) || HasSideEffect(x)) return false;
  switch (x.opcode()) {
    case Opcode::kCopy:
    case Opcode::kTranspose:
    case Opcode::kReshape:
    case Opcode::kReverse:
    case Opcode::kBroadcast:
    case Opcode::kSlice:
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kDot:
      return true;
    case Opcode::kReduce:
      return x.operand_count() == 2;
    default:  // what reads places that it computes, sorts or calls needs all rows
      return IsElementwise(x.opcode()) && x.operand_count() > 0;
  }
}

bool AddsUp(const Instruction& x) {
  if (x.opcode() == Opcode::kDot) return true;
  return x.opcode() == Opcode::kReduce && CombinerOf(x.called(0)) == Opcode::kAdd &&
         x.shape()->dtype() != DType::kPred && IsFilledWithZero(x.operand(1));
}

int64_t DimWith(const std::vector<FactorList>& dims, const FactorList& factors) {
  const auto found = std::ranges::find(dims, factors);
  return found == dims.end() ? -1 : found - dims.begin();
}

bool AreAll(const DimRelation& relation, const FactorList& factors, FactorKind kind) {
  return std::ranges::all_of(factors, [&](int f) { return relation.factors[At(f)].kind == kind; });
}

// The factors of the rows' dims, the same in all operands that have rows; nothing: not so.
std::optional<std::vector<FactorList>> FactorsOfRows(
    const DimRelation& relation, std::span<const std::vector<int64_t>* const> rows) {
  std::optional<std::vector<FactorList>> factors;
  for (size_t i = 0; i < rows.size(); ++i) {
    if (rows[i] == nullptr) continue;
    std::vector<FactorList> own;
    for (int64_t d : *rows[i]) own.push_back(relation.operands[i][At(d)]);
    if (factors.has_value() && *factors != own) return std::nullopt;
    factors = std::move(own);
  }
  return factors;
}

// The dims that a reshape makes of those that have these factors, in ascending order.
std::optional<std::vector<int64_t>> RegroupedDims(const DimRelation& relation,
                                                  const std::vector<int64_t>& rows,
                                                  const std::vector<FactorList>& factors) {
  std::vector<int> left;
  for (const FactorList& dim : factors) left.insert(left.end(), dim.begin(), dim.end());
  if (!std::ranges::is_sorted(rows)) return std::nullopt;
  std::vector<int64_t> dims;
  for (size_t d = 0; d < relation.results[0].size(); ++d) {
    const auto taken = std::erase_if(left, [&](int f) {
      return std::ranges::find(relation.results[0][d], f) != relation.results[0][d].end();
    });
    if (taken > 0) dims.push_back(static_cast<int64_t>(d));
  }
  if (!left.empty()) return std::nullopt;
  return dims;
}

}  // namespace

std::optional<RowFlow> FlowOfRows(const Instruction& x,
                                  std::span<const std::vector<int64_t>* const> rows) {
  if (!MayCarryRows(x)) return std::nullopt;
  const DimRelation relation = RelationOf(x);
  const std::optional<std::vector<FactorList>> factors = FactorsOfRows(relation, rows);
  if (!factors.has_value()) return std::nullopt;
  RowFlow flow;
  for (const FactorList& dim : *factors) {
    if (AreAll(relation, dim, FactorKind::kReduction)) {
      flow.sums = true;
      continue;
    }
    const int64_t to = DimWith(relation.results[0], dim);
    flow.regroups |= to < 0;
    if (!AreAll(relation, dim, FactorKind::kPassThrough)) return std::nullopt;
    flow.result.push_back(to);
  }
  if (flow.regroups) {
    if (x.opcode() != Opcode::kReshape) return std::nullopt;
    std::optional<std::vector<int64_t>> dims = RegroupedDims(relation, *rows[0], *factors);
    if (!dims.has_value()) return std::nullopt;
    flow.result = *std::move(dims);
  }
  if (flow.sums && !AddsUp(x)) return std::nullopt;
  if (flow.sums) flow.result.clear();
  for (size_t i = 0; i < rows.size(); ++i) {
    std::vector<int64_t>& dims = flow.operands.emplace_back();
    for (const FactorList& dim : *factors) {
      const int64_t from = DimWith(relation.operands[i], dim);
      if (from >= 0) dims.push_back(from);
    }
    if (dims.size() != factors->size()) dims.clear();
    // The other factor of a sum is to be zero where rows are: zero times infinity is no number.
    const bool is_factor = flow.sums && x.opcode() == Opcode::kDot && rows[i] == nullptr;
    if (is_factor && dims.empty()) return std::nullopt;
  }
  return flow;
}

namespace {

// A part of a row's place: a factor of the reshape, or a whole dim that it keeps.
struct PlacePart {
  int64_t size = 0;
  int64_t row = -1;  // the part's number among those of the rows before; -1: a part of a row
};

}  // namespace

PartitionedValue* RegroupedOwners(PartitionContext& rule, PartitionedValue* owners,
                                  std::span<const int64_t> rows, const RowFlow& flow) {
  const DimRelation relation = RelationOf(rule.source());
  const MeshLayout* has = owners->variants[0].layout;
  // Dims that stay as they are may be cut; the others are taken whole.
  std::vector<AxisList> lists(rows.size());
  std::vector<int> parts_before;  // factors, of kept dims the first
  for (size_t k = 0; k < rows.size(); ++k) {
    const FactorList& dim = relation.operands[0][At(rows[k])];
    const bool is_kept = DimWith(relation.results[0], dim) >= 0;
    if (is_kept) lists[k] = has->dims[k];
    parts_before.insert(parts_before.end(), dim.begin(), is_kept ? dim.begin() + 1 : dim.end());
  }
  const MeshLayout* before = rule.layouts().WithDims(has, lists);
  const std::vector<int64_t> local_before = LocalDims(owners->shape, before);
  std::vector<PlacePart> parts;
  std::vector<int64_t> dims, local_dims;
  std::vector<AxisList> lists_after;
  std::vector<int64_t> key = {reinterpret_cast<int64_t>(owners)};
  for (int64_t d : flow.result) {
    const FactorList& dim = relation.results[0][At(d)];
    const int64_t from = DimWith(relation.operands[0], dim);
    const auto row = std::ranges::find(rows, from);
    const bool is_kept = row != rows.end();
    const auto k = static_cast<size_t>(row - rows.begin());
    dims.push_back(rule.source().shape()->dim(d));
    lists_after.push_back(is_kept ? lists[k] : AxisList());
    local_dims.push_back(is_kept ? local_before[k] : dims.back());
    for (const int factor : dim) {
      const auto part = std::ranges::find(parts_before, factor);
      if (part != parts_before.end()) {
        parts.push_back({is_kept ? local_dims.back() : relation.factors[At(factor)].size,
                         part - parts_before.begin()});
      } else if (!is_kept) {
        parts.push_back({relation.factors[At(factor)].size});
      }
      key.insert(key.end(), {relation.factors[At(factor)].size,
                             part == parts_before.end() ? -1 : part - parts_before.begin()});
    }
    key.push_back(-2);
  }
  PartitionedValue*& known = rule.scope().RowOwners(key);
  if (known != nullptr) return known;
  std::vector<int64_t> sizes_before(parts_before.size()), sizes, targets(parts_before.size());
  for (const PlacePart& part : parts) {
    if (part.row >= 0) {
      sizes_before[At(part.row)] = part.size;
      targets[At(part.row)] = std::ssize(sizes);
    }
    sizes.push_back(part.size);
  }
  Builder& builder = rule.builder();
  Instruction* local = builder.Reshape(rule.Move(owners, before), sizes_before);
  local = builder.Reshape(builder.Broadcast(local, sizes, targets), local_dims);
  known = rule.scope().NewValue(rule.context().Array(DType::kPred, dims),
                                rule.layouts().WithDims(has, std::move(lists_after)), local);
  return known;
}

namespace {

// May a value wanted in this layout be partial in the region and the device order of `like`?
bool FitsBeside(const MeshLayout& wanted, const MeshLayout& like) {
  return wanted.kind == MeshLayout::Kind::kTiled && wanted.manual == like.manual &&
         (wanted.order == like.order || wanted.TileCount() == 1);
}

// `wanted`, which fits beside `like`, partial along `tiles`, and whole where they cut it.
const MeshLayout* PartialAlong(MeshLayoutTable& layouts, const MeshLayout& wanted,
                               const MeshLayout& like, const AxisList& tiles, Opcode combiner) {
  MeshLayout layout = *WithoutAxes(layouts, wanted, tiles);
  layout.order = like.order;
  layout.unreduced = tiles;
  layout.combiner = combiner;
  return layouts.Intern(std::move(layout));
}

// What a strategy receives until the result is in the layout `wanted`, as ReshardPlan::cost.
double TrafficOf(PartitionContext& rule, const Strategy& strategy, const MeshLayout* wanted) {
  PartitionScope& scope = rule.scope();
  const Shape* shape = rule.source().shape();
  double cost = scope.run().planner.Plan(shape, strategy.results[0], wanted).cost;
  for (size_t i = 0; i < strategy.operands.size(); ++i) {
    const PartitionedValue& operand = *rule.operands()[i];
    const double move = scope.ReshardCost(operand, strategy.operands[i]);
    if (!IsCheaperToRecompute(scope, operand, strategy.operands[i], move)) cost += move;
  }
  return cost;
}

double FlopsOfDot(const Instruction& x) {
  double flops = 2 * static_cast<double>(x.shape()->element_count());
  for (int64_t d : x.attributes<DotAttributes>().lhs_contracting) {
    flops *= static_cast<double>(x.operand(0)->shape()->dim(d));
  }
  return flops;
}

// Costs are added up in the same order in every run.
struct ById {
  bool operator()(const Instruction* a, const Instruction* b) const { return a->id() < b->id(); }
};
using InstructionSet = std::set<const Instruction*, ById>;

// The operations that go on with rows of `root`, up to values that are combined, and the price of
// that.
class RowRegion {
 public:
  // `like`: a partial layout of the root's rows.
  RowRegion(PartitionScope& scope, const Instruction& root, const GatheredRows& rows,
            const MeshLayout& like)
      : scope_(scope),
        users_(scope.run().UsersIn(*root.parent())),
        root_(root),
        gathered_(rows),
        like_(like) {}

  // False: there is none. `beyond_products`: products of rows are not combined at once.
  bool Find(bool beyond_products) {
    beyond_products_ = beyond_products;
    constexpr int kMaxRounds = 16;
    for (int round = 0; round < kMaxRounds; ++round) {
      const size_t known = combined_.size() + left_.size();
      if (!Grow()) return false;
      if (combined_.size() + left_.size() == known && !CombineEarlier()) {
        return !combined_.contains(&root_) && (rows_.size() > 1 || !sums_.empty() || is_known_);
      }
    }
    return false;
  }

  // In bytes received; infinity: not possible. `tiles`: how many the rows are made in usually.
  double Cost(int64_t tiles) {
    // Rows are read from the table and written, and read where they have come to be wanted.
    double cost = Repeated(root_, 2 * kBytesPerByte, tiles) +
                  Repeated(root_, kBytesPerByte, std::max(tiles, Tiles(root_)));
    for (const auto& [x, dims] : rows_) {
      if (combined_.contains(x)) cost += Combining(*x);
      if (x != &root_) cost += Repeated(*x, kBytesPerByte, Tiles(*x)) + Factors(*x);
    }
    for (const Instruction* x : sums_) {
      cost += Combining(*x) + Repeated(*x, kBytesPerByte, Tiles(*x)) + Factors(*x);
    }
    return cost;
  }

  // Decides that they do go on.
  void Keep() const {
    for (const auto& [x, dims] : rows_) {
      if (x != &root_) scope_.SetRowUse(*x, PartitionScope::RowUse::kGoesOn);
    }
    for (const Instruction* x : sums_) scope_.SetRowUse(*x, PartitionScope::RowUse::kAddsUp);
  }

 private:
  // Memory carries about eight bytes while a network carries one.
  static constexpr double kBytesPerByte = 1.0 / 8;

  // Does it go on with rows already? Of others, if not of the same owners.
  bool IsTaken(const Instruction& x) const {
    return scope_.RowUseOf(x) != PartitionScope::RowUse::kNone;
  }
  bool IsRows(const Instruction* x) const { return rows_.contains(x) && !combined_.contains(x); }

  // Finds what is reached from the root. False: too much.
  bool Grow() {
    constexpr size_t kMax = 256;
    rows_.clear();
    sums_.clear();
    is_known_ = false;
    rows_[&root_] = gathered_.dims;
    std::vector<const Instruction*> work = {&root_};
    for (size_t next = 0; next < work.size(); ++next) {
      const Instruction* x = work[next];
      if (x == x->parent()->root()) combined_.insert(x);
      if (combined_.contains(x)) continue;
      for (const Instruction* user : users_.of(x)) {
        if (IsKnownToTake(*user, *x)) {
          is_known_ = true;
          continue;
        }
        Take(*user);
        if (rows_.contains(user) && std::ranges::find(work, user) == work.end()) {
          work.push_back(user);
        }
      }
      if (work.size() > kMax) return false;
    }
    return true;
  }

  // Does the user go on with rows of the same owners already?
  bool IsKnownToTake(const Instruction& user, const Instruction& x) const {
    if (gathered_.owners == nullptr || !IsTaken(user)) return false;
    std::vector<std::vector<int64_t>> dims(At(user.operand_count()));
    std::vector<const std::vector<int64_t>*> rows(At(user.operand_count()), nullptr);
    bool has_other = false;
    for (size_t i = 0; i < dims.size(); ++i) {
      const Instruction* operand = user.operand(static_cast<int64_t>(i));
      const PartitionedValue* value = scope_.run().value_of[operand->id()];
      if (operand == &x) {
        dims[i] = rows_.at(&x);
      } else if (value != nullptr && value->own_rows == gathered_.owners) {
        dims[i].assign(value->row_dims.begin(), value->row_dims.end());
        has_other = true;
      } else {
        continue;
      }
      rows[i] = &dims[i];
    }
    return has_other && FlowOfRows(user, rows).has_value();
  }

  // Adds a user to the rows or the sums, or has its operands combined.
  void Take(const Instruction& user) {
    std::vector<const std::vector<int64_t>*> rows;
    for (const Instruction* operand : user.operands()) {
      rows.push_back(IsRows(operand) ? &rows_.at(operand) : nullptr);
    }
    std::optional<RowFlow> flow;
    if (!left_.contains(&user) && !IsTaken(user)) flow = FlowOfRows(user, rows);
    if (!flow.has_value()) {
      left_.insert(&user);
      for (const Instruction* operand : user.operands()) {
        if (IsRows(operand)) combined_.insert(operand);
      }
    } else if (flow->sums) {
      sums_.insert(&user);
    } else {
      rows_[&user] = std::move(flow->result);
      if (user.opcode() == Opcode::kDot && !beyond_products_) combined_.insert(&user);
    }
  }

  // Where what is to be combined is more than what it is made of, that is combined. True: done.
  bool CombineEarlier() {
    for (const Instruction* x : std::vector(combined_.begin(), combined_.end())) {
      if (!rows_.contains(x) || x == &root_) continue;
      int64_t bytes = 0;
      bool has_root = false;
      InstructionSet made_of;
      for (const Instruction* operand : x->operands()) {
        if (!IsRows(operand) || !made_of.insert(operand).second) continue;
        bytes += operand->shape()->byte_size();
        has_root |= operand == &root_;
      }
      if (has_root || made_of.empty() || x->shape()->byte_size() <= bytes) continue;
      combined_.insert(made_of.begin(), made_of.end());
      return true;
    }
    return false;
  }

  // Where its sharding wants `x`; null: elsewhere than such rows may be.
  const MeshLayout* Wanted(const Instruction& x) const {
    const MeshLayout* layout =
        scope_.layouts().FromSharding(scope_.run().demand.ShardingOf(x), x.shape()->rank());
    return layout->unreduced.empty() && FitsBeside(*layout, like_) ? layout : nullptr;
  }
  const MeshLayout* Partial(const Instruction& x, const MeshLayout& wanted) const {
    return PartialAlong(scope_.layouts(), wanted, like_, gathered_.tiles,
                        DisjointCombiner(x.shape()->dtype()));
  }

  double Combining(const Instruction& x) const {
    const MeshLayout* wanted = Wanted(x);
    if (wanted == nullptr) return std::numeric_limits<double>::infinity();
    return scope_.run().planner.Plan(x.shape(), Partial(x, *wanted), wanted).cost;
  }

  // What else an operation on rows reads is the same on all devices: the price of moving it.
  double Factors(const Instruction& x) {
    double cost = 0;
    for (const Instruction* operand : x.operands()) {
      if (IsRows(operand) || !operand->shape()->IsArray()) continue;
      const MeshLayout* wanted = Wanted(*operand);
      if (wanted == nullptr) return std::numeric_limits<double>::infinity();
      const MeshLayout* whole = WithoutAxes(scope_.layouts(), *wanted, gathered_.tiles);
      if (!factors_.insert(operand).second) continue;
      cost += scope_.run().planner.Plan(operand->shape(), wanted, whole).cost;
    }
    return cost;
  }

  int64_t Tiles(const Instruction& x) const {
    const MeshLayout* wanted = Wanted(x);
    return wanted == nullptr ? 1 : wanted->TileCount();
  }

  // The price of what a device computes here, and would not of one of so many tiles.
  double Repeated(const Instruction& x, double per_byte, int64_t tiles) const {
    const MeshLayout* wanted = Wanted(x);
    if (wanted == nullptr) return std::numeric_limits<double>::infinity();
    const double repeated = 1.0 / static_cast<double>(Partial(x, *wanted)->TileCount()) -
                            1.0 / static_cast<double>(tiles);
    const double flops = x.opcode() == Opcode::kDot ? FlopsOfDot(x) : 0;
    return std::max(0.0, repeated) * (per_byte * static_cast<double>(x.shape()->byte_size()) +
                                      scope_.run().options.bytes_per_repeated_flop * flops);
  }

  PartitionScope& scope_;
  const Users& users_;
  const Instruction& root_;
  const GatheredRows& gathered_;
  const MeshLayout& like_;
  bool beyond_products_ = false;
  bool is_known_ = false;  // has users that go on with such rows already
  std::map<const Instruction*, std::vector<int64_t>, ById> rows_;  // the dims that rows are
  InstructionSet sums_;                                            // that add up rows
  InstructionSet combined_;                                        // rows that are combined at once
  InstructionSet left_;                                            // users that need whole operands
  InstructionSet factors_;                                         // whose price is known
};

// Decides whether operations go on with the root's rows: where that costs less than `usual`.
bool KeepsRows(PartitionScope& scope, const Instruction& root, const GatheredRows& rows,
               const MeshLayout& like, double usual, int64_t tiles) {
  if (usual <= 0) return false;
  std::optional<RowRegion> best;
  for (bool beyond_products : {false, true}) {
    RowRegion region(scope, root, rows, like);
    if (beyond_products && rows.dims.empty()) break;
    if (!region.Find(beyond_products)) continue;
    const double cost = region.Cost(tiles);
    if (cost >= usual) continue;
    usual = cost;
    best.emplace(std::move(region));
  }
  if (best.has_value()) best->Keep();
  return best.has_value();
}

// The sub-axes that cut the rows of the table.
AxisList TilesOf(const PartitionedValue& value) {
  const AxisList& manual = value.own_rows->variants[0].layout->manual;
  const auto region = std::ssize(value.variants[0].layout->manual);
  return {manual.begin() + region, manual.end()};
}

// Users of an instruction that computes what an earlier one has computed were not looked at.
void DecideForDuplicate(PartitionContext& rule, int64_t i) {
  const Instruction& x = *rule.source().operand(i);
  const PartitionedValue& value = *rule.operand(i);
  const MeshLayout& has = *value.variants[0].layout;
  const MeshLayout* wanted =
      rule.layouts().FromSharding(rule.scope().run().demand.ShardingOf(x), x.shape()->rank());
  if (value.source == &x || wanted->kind != MeshLayout::Kind::kTiled || IsPartial({&wanted, 1}) ||
      wanted->manual != has.manual) {
    return;
  }
  const GatheredRows rows{
      {value.row_dims.begin(), value.row_dims.end()}, TilesOf(value), value.own_rows};
  const double usual = rule.scope().run().planner.Plan(x.shape(), &has, wanted).cost;
  KeepsRows(rule.scope(), x, rows, has, usual, has.TileCount());
}

}  // namespace

const Strategy* StrategyForOwnRows(PartitionContext& rule, const Labels& labels,
                                   const GatheredRows& rows, const Strategy& usual) {
  const Shape* shape = rule.source().shape();
  const PartitionedValue& operand = *rule.operand(0);
  const MeshLayout* wanted = rule.wanted();
  if (!rule.scope().run().options.policies.defer_sums || !CanMerge(shape->dtype()) ||
      operand.variants.empty() || rows.tiles.empty() || IsPartial(rule.wanted_leaves())) {
    return nullptr;
  }
  const MeshLayout* has = operand.variants[0].layout;
  if (!FitsBeside(*wanted, *has)) return nullptr;
  const MeshLayout* partial[] = {
      PartialAlong(rule.layouts(), *wanted, *has, rows.tiles, labels.combiner)};
  const Shape* const shapes[] = {shape};
  const Strategy& strategy = ChooseStrategy(rule.scope(), labels, rule.operands(), shapes, partial);
  if (strategy.results[0] != partial[0]) return nullptr;
  const double saved = TrafficOf(rule, usual, wanted) - TrafficOf(rule, strategy, partial[0]);
  const int64_t tiles = usual.results[0]->TileCount();
  return KeepsRows(rule.scope(), rule.source(), rows, *partial[0], saved, tiles) ? &strategy
                                                                                 : nullptr;
}

bool AreSummed(PartitionScope& scope, const Instruction& x) {
  return std::ranges::any_of(scope.run().UsersIn(*x.parent()).of(&x), [&](const Instruction* user) {
    return scope.RowUseOf(*user) == PartitionScope::RowUse::kAddsUp;
  });
}

const MeshLayout* LayoutFromOwnRows(PartitionContext& rule) {
  const Instruction& source = rule.source();
  for (int64_t i = 0; i < source.operand_count(); ++i) {
    const PartitionedValue& value = *rule.operand(i);
    if (value.own_rows == nullptr || value.maker != nullptr || value.required_layout != nullptr ||
        !IsPartial({&value.variants[0].layout, 1})) {
      continue;
    }
    const auto is_taken = [&] {
      return rule.scope().RowUseOf(source) != PartitionScope::RowUse::kNone;
    };
    if (!is_taken()) DecideForDuplicate(rule, i);
    const MeshLayout* has = value.variants[0].layout;
    const MeshLayout* wanted = rule.wanted();
    if (!is_taken() || !FitsBeside(*wanted, *has)) return nullptr;
    return PartialAlong(rule.layouts(), *wanted, *has, TilesOf(value),
                        DisjointCombiner(source.shape()->dtype()));
  }
  return nullptr;
}

}  // namespace gshard
