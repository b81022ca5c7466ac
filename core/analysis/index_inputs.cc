// A forward walk from each parameter leaf. See index_inputs.h.
#include "core/analysis/index_inputs.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <unordered_map>
#include <utility>

#include "core/analysis/indexed_dims.h"
#include "core/analysis/integer_bounds.h"
#include "ir/constant_fill.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

constexpr int kMaxVisits = 6;       // of one instruction's leaf, with different arithmetic
constexpr int kMaxSteps = 24;       // of arithmetic on the way
constexpr size_t kMaxWalk = 50000;  // states of one leaf
constexpr int64_t kSmallCount = 3;  // the most of what ends a loop

// What arithmetic has made of the leaf's value, a step.
struct Step {
  enum class Kind : uint8_t {
    kAddEvery,  // plus a value of low..high, where all results are to be in range
    kAddAny,    // plus a value of low..high, where some result is to be in range
    kMultiply,  // times low
    kDivide,    // by low
    kNegate,
  };
  Kind kind;
  int64_t low = 0, high = 0;
  bool operator==(const Step&) const = default;
};

int64_t FloorDivide(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }

// The values that a step takes to those of `range`.
IndexRange Before(const Step& step, IndexRange range) {
  const auto [low, high, beyond, extent] = range;
  switch (step.kind) {
    case Step::Kind::kAddEvery:
      if (low - step.low <= high - step.high) {
        return {low - step.low, high - step.high, beyond, extent};
      }
      [[fallthrough]];
    case Step::Kind::kAddAny:
      return {low - step.high, high - step.low, beyond, 0};
    case Step::Kind::kMultiply:
      return {-FloorDivide(-low, step.low), std::max(FloorDivide(high, step.low), low), beyond,
              -FloorDivide(-extent, step.low)};
    case Step::Kind::kDivide:
      return {low * step.low, high * step.low + step.low - 1, beyond, extent * step.low};
    case Step::Kind::kNegate:
      return {-high, -low, beyond, extent};
  }
  return range;
}

// Where positions along a dim of the value that is followed come from.
struct DimOrigin {
  static constexpr int64_t kUnknown = -2;
  static constexpr int64_t kOne = -1;  // the leaf lies at position -shift alone
  int64_t leaf_dim = kUnknown;
  int64_t shift = 0;  // position p is the leaf's p + shift
  bool operator==(const DimOrigin&) const = default;
};

// A part of an instruction's value that follows from the leaf.
struct State {
  const Instruction* at = nullptr;
  int64_t leaf = 0;  // of `at`, in pre-order
  std::vector<Step> steps;
  std::vector<DimOrigin> dims;
};

std::vector<DimOrigin> Unknown(const Shape* shape) {
  return std::vector<DimOrigin>(At(shape->IsArray() ? shape->rank() : 0));
}

// Dims that a reshape leaves as they are keep their origin; new ones of size 1 are said to be so.
std::vector<DimOrigin> Reshaped(const std::vector<DimOrigin>& dims, const Shape* from,
                                const Shape* to) {
  std::vector<DimOrigin> result = Unknown(to);
  int64_t i = 0, k = 0;
  while (i < from->rank() || k < to->rank()) {
    if (i < from->rank() && k < to->rank() && from->dim(i) == to->dim(k)) {
      result[At(k++)] = dims[At(i++)];
    } else if (k < to->rank() && to->dim(k) == 1) {
      result[At(k++)] = {DimOrigin::kOne, 0};
    } else if (i < from->rank() && from->dim(i) == 1) {
      ++i;
    } else {
      // A group of dims that are merged or split.
      int64_t had = i < from->rank() ? from->dim(i++) : 1;
      int64_t has = k < to->rank() ? to->dim(k++) : 1;
      while (had != has) {
        if (had < has && i < from->rank()) {
          had *= from->dim(i++);
        } else if (has < had && k < to->rank()) {
          has *= to->dim(k++);
        } else {
          return result;
        }
      }
    }
  }
  return result;
}

bool IsNan(const Instruction* x) {
  const std::optional<double> number = FillingNumber(x);
  return number && std::isnan(*number);
}

class Walk {
 public:
  Walk(const Module& module, int64_t device_count) : users_(module), bounds_(module, device_count) {
    for (const Computation* computation : module.computations()) {
      for (const Instruction* x : computation->instructions()) {
        order_.emplace(x, order_.size());
        for (size_t i = 0; i < x->called().size(); ++i) {
          callers_[x->called()[i]].push_back(x);
          if (x->opcode() == Opcode::kWhile && i == 0) conditions_.push_back(x->called()[0]);
        }
      }
    }
  }

  // What `shape`, leaf `part` of the parameter, is used for; nothing if no index.
  std::optional<IndexInput> Run(const Instruction* parameter, int64_t part, const Shape* shape) {
    input_ = {};
    shape_ = shape;
    readers_.clear();
    visits_.clear();
    open_.clear();
    never_beyond_ = false;
    State first{parameter, part, {}, {}};
    for (int64_t d = 0; d < shape->rank(); ++d) first.dims.push_back({d, 0});
    Enter(std::move(first));
    for (size_t i = 0; i < open_.size() && i < kMaxWalk; ++i) {
      const State state = open_[i];
      for (const Instruction* user : users_.of(state.at)) Use(state, user);
      if (state.at == state.at->parent()->root()) Return(state);
    }
    if (input_.ranges.empty()) return std::nullopt;
    Finish();
    return std::move(input_);
  }

 private:
  void Finish() {
    for (IndexRange& range : input_.ranges) {
      if (input_.ends_loop) {
        range.low = std::clamp<int64_t>(range.low, -1, 0);
        range.high = std::clamp<int64_t>(range.high, 0, kSmallCount);
      }
      range.has_beyond &= !never_beyond_ && !input_.ends_loop;
    }
    std::ranges::sort(readers_, [&](const Instruction* a, const Instruction* b) {
      return order_.at(a) < order_.at(b);
    });
    for (const Instruction* reader : readers_) input_.readers.emplace_back(reader->name());
  }

  void Enter(State state) {
    std::vector<State>& seen = visits_[state.at];
    int visits = 0;
    for (const State& other : seen) {
      if (other.leaf != state.leaf) continue;
      if (other.steps == state.steps && other.dims == state.dims) return;
      ++visits;
    }
    if (visits >= kMaxVisits || state.steps.size() > kMaxSteps) return;
    seen.push_back(state);
    open_.push_back(std::move(state));
  }

  // The same part of another instruction, unchanged.
  void Pass(const State& state, const Instruction* to, int64_t leaf) {
    State next = state;
    next.at = to;
    next.leaf = leaf;
    Enter(std::move(next));
  }
  // Moved, to an array with dims of these origins.
  void Move(const State& state, const Instruction* to, std::vector<DimOrigin> dims) {
    Enter({to, 0, state.steps, std::move(dims)});
  }
  void Compute(const State& state, const Instruction* to, Step step) {
    State next{to, 0, state.steps, state.dims};
    // A sum of constants is one step, so that loops which count end.
    if (step.kind != Step::Kind::kAddEvery || step.low != 0 || step.high != 0) {
      next.steps.push_back(step);
    }
    Enter(std::move(next));
  }

  // A value of `range` is wanted of the state's elements at position `component` along the dim
  // `along`, -1: of all.
  void Want(const State& state, const Instruction* reader, IndexRange range, int64_t along = -1,
            int64_t component = 0) {
    int64_t leaf_dim = -1, position = 0;
    if (along >= 0) {
      const DimOrigin& origin = state.dims[At(along)];
      position = component + origin.shift;
      if (origin.leaf_dim == DimOrigin::kOne && position != 0) return;
      if (origin.leaf_dim >= 0) {
        if (position < 0 || position >= shape_->dim(origin.leaf_dim)) return;
        leaf_dim = origin.leaf_dim;
      }
    }
    for (size_t i = state.steps.size(); i-- > 0;) {
      if (range.low < -kMaxIndex || range.high > kMaxIndex) return;
      range = Before(state.steps[i], range);
    }
    if (range.low < -kMaxIndex || range.high > kMaxIndex || range.low > range.high) return;
    if (std::ranges::find(readers_, reader) == readers_.end()) readers_.push_back(reader);
    Merge(range, leaf_dim, position);
  }

  void Merge(IndexRange range, int64_t leaf_dim, int64_t position) {
    std::vector<IndexRange>& ranges = input_.ranges;
    const auto add = [&](std::optional<IndexRange> to) {
      if (!to) return range;
      return IndexRange{std::min(to->low, range.low), std::max(to->high, range.high),
                        to->has_beyond || range.has_beyond,
                        to->extent == range.extent ? range.extent : 0};
    };
    const bool is_first = ranges.empty();
    if (leaf_dim >= 0 && (is_first || input_.component_dim == leaf_dim)) {
      if (is_first) {
        input_.component_dim = leaf_dim;
        known_.assign(At(shape_->dim(leaf_dim)), false);
        ranges.assign(known_.size(), {});
      }
      IndexRange& to = ranges[At(position)];
      to = known_[At(position)] ? add(to) : range;
      known_[At(position)] = true;
      return;
    }
    if (leaf_dim < 0 && input_.component_dim >= 0) {
      for (size_t i = 0; i < ranges.size(); ++i) ranges[i] = known_[i] ? add(ranges[i]) : range;
      known_.assign(known_.size(), true);
      return;
    }
    // Components along two dims: one range for all.
    if (input_.component_dim >= 0) {
      std::optional<IndexRange> all;
      for (size_t i = 0; i < ranges.size(); ++i) {
        if (!known_[i]) continue;
        const IndexRange kept = range;
        range = ranges[i];
        all = add(all);
        range = kept;
      }
      input_.component_dim = -1;
      ranges = {add(all)};
      return;
    }
    ranges = {is_first ? range : add(ranges[0])};
  }

  void Use(const State& state, const Instruction* user);
  void UseOperand(const State& state, const Instruction* user, int64_t operand);
  void UseElements(const State& state, const Instruction* user, int64_t operand);
  void UseAsSize(const State& state, const Instruction* user, int64_t operand);
  void UseInCall(const State& state, const Instruction* user, int64_t operand);
  void UseInArithmetic(const State& state, const Instruction* user, int64_t operand);
  void UseInCompare(const State& state, const Instruction* user, int64_t operand);
  void UseAsIndex(const State& state, const Instruction* user, int64_t operand);
  void UseInMove(const State& state, const Instruction* user, int64_t operand);
  void Return(const State& state);
  const Instruction* ChosenBy(const Instruction* x) const;
  bool FillsWithNan(const Instruction* gather) const;

  const Users users_;
  IntegerBoundsFinder bounds_;
  std::unordered_map<const Instruction*, size_t> order_;
  std::unordered_map<const Computation*, std::vector<const Instruction*>> callers_;
  std::vector<const Computation*> conditions_;

  // Of the leaf that is followed.
  const Shape* shape_ = nullptr;
  IndexInput input_;
  std::vector<bool> known_;  // which components have a range
  bool never_beyond_ = false;
  std::vector<const Instruction*> readers_;
  std::unordered_map<const Instruction*, std::vector<State>> visits_;
  std::vector<State> open_;
};

// What a computation returns goes to those that call it.
void Walk::Return(const State& state) {
  const auto callers = callers_.find(state.at->parent());
  if (callers == callers_.end()) return;
  for (const Instruction* caller : callers->second) {
    switch (caller->opcode()) {
      case Opcode::kCall:
      case Opcode::kFusion:
      case Opcode::kConditional:
        Pass(state, caller, state.leaf);
        break;
      case Opcode::kWhile:
        if (state.at->parent() != caller->called(1)) break;
        for (const Computation* called : caller->called()) {
          Pass(state, called->parameter(0), state.leaf);
        }
        Pass(state, caller, state.leaf);
        break;
      default:  // a function of elements
        break;
    }
  }
}

void Walk::Use(const State& state, const Instruction* user) {
  for (int64_t k = 0; k < user->operand_count(); ++k) {
    if (user->operand(k) == state.at) UseOperand(state, user, k);
  }
}

void Walk::UseInCall(const State& state, const Instruction* user, int64_t operand) {
  if (user->opcode() == Opcode::kWhile) {
    for (const Computation* called : user->called()) {
      Pass(state, called->parameter(0), state.leaf);
    }
    Pass(state, user, state.leaf);
    return;
  }
  if (user->opcode() != Opcode::kConditional) {
    if (operand < user->called(0)->parameter_count()) {
      Pass(state, user->called(0)->parameter(operand), state.leaf);
    }
    return;
  }
  if (operand > 0) {
    Pass(state, user->called(operand - 1)->parameter(0), state.leaf);
    return;
  }
  if (state.at->shape()->dtype() == DType::kPred) {
    Want(state, user, {0, 1, false});
  } else {
    Want(state, user, {0, static_cast<int64_t>(user->called().size()) - 1, true});
  }
}

void Walk::UseInArithmetic(const State& state, const Instruction* user, int64_t operand) {
  if (!IsInteger(user->shape()->dtype())) return;
  const Instruction* other = user->operand(1 - operand);
  const auto bounds = other == state.at ? std::nullopt : bounds_.Find(other);
  switch (user->opcode()) {
    case Opcode::kAdd:
    case Opcode::kSubtract: {
      if (!bounds) {
        // The sum of two unknown integers: each is drawn as if the other were small.
        if (user->opcode() == Opcode::kAdd || operand == 0) Move(state, user, state.dims);
        return;
      }
      const auto kind = bounds->by_device ? Step::Kind::kAddAny : Step::Kind::kAddEvery;
      if (user->opcode() == Opcode::kAdd) {
        return Compute(state, user, {kind, bounds->low, bounds->high});
      }
      if (operand == 0) return Compute(state, user, {kind, -bounds->high, -bounds->low});
      State negated = state;
      negated.steps.push_back({Step::Kind::kNegate});
      return Compute(negated, user, {kind, bounds->low, bounds->high});
    }
    case Opcode::kMultiply:
      if (bounds && bounds->IsConstant() && bounds->low > 0) {
        Compute(state, user, {Step::Kind::kMultiply, bounds->low});
      }
      return;
    case Opcode::kShiftLeft:
      if (operand == 0 && bounds && bounds->IsConstant() && bounds->low >= 0 && bounds->low < 32) {
        Compute(state, user, {Step::Kind::kMultiply, int64_t{1} << bounds->low});
      }
      return;
    case Opcode::kDivide:
      if (operand == 0 && bounds && bounds->IsConstant() && bounds->low > 0) {
        Compute(state, user, {Step::Kind::kDivide, bounds->low});
      }
      return;
    case Opcode::kShiftRightArithmetic:
    case Opcode::kShiftRightLogical:
      if (operand == 0 && bounds && bounds->IsConstant() && bounds->low >= 0 && bounds->low < 32) {
        Compute(state, user, {Step::Kind::kDivide, int64_t{1} << bounds->low});
      }
      return;
    case Opcode::kRemainder:
      if (operand == 0) Move(state, user, state.dims);
      return;
    default:  // minimum and maximum
      Move(state, user, state.dims);
      return;
  }
}

void Walk::UseInCompare(const State& state, const Instruction* user, int64_t operand) {
  const bool is_scalar = user->shape()->element_count() == 1;
  if (is_scalar && std::ranges::find(conditions_, user->parent()) != conditions_.end()) {
    input_.ends_loop = true;
    return;
  }
  const Instruction* other = user->operand(1 - operand);
  const auto bounds = other == state.at ? std::nullopt : bounds_.Find(other);
  if (!bounds) return;
  if (!bounds->counts) {
    // On either side of the bound where another branch is taken.
    const Instruction* branches = is_scalar && bounds->IsConstant() ? ChosenBy(user) : nullptr;
    if (branches != nullptr) Want(state, branches, {bounds->low - 1, bounds->high + 1, false});
    return;
  }
  const auto direction = user->attributes<CompareAttributes>().direction;
  const bool is_class =
      direction == ComparisonDirection::kEq || direction == ComparisonDirection::kNe;
  Want(state, user,
       {bounds->low, bounds->high + (is_class ? 0 : 1), true, bounds->high - bounds->low + 1});
}

// The conditional whose branch `x`, a pred, chooses; null if there is none.
const Instruction* Walk::ChosenBy(const Instruction* x) const {
  for (int depth = 0; depth < 16; ++depth) {
    const Instruction* next = nullptr;
    for (const Instruction* user : users_.of(x)) {
      switch (user->opcode()) {
        case Opcode::kConditional:
          if (user->operand(0) == x) return user;
          break;
        case Opcode::kConvert:
        case Opcode::kCopy:
        case Opcode::kReshape:
        case Opcode::kBitcast:
        case Opcode::kClamp:
        case Opcode::kNot:
          next = user;
          break;
        default:  // not handed on as it is
          break;
      }
    }
    if (next == nullptr) return nullptr;
    x = next;
  }
  return nullptr;
}

// Is what was read out of range replaced by NaN? JAX's gathers in fill mode do so.
bool Walk::FillsWithNan(const Instruction* gather) const {
  std::vector<const Instruction*> open = {gather};
  for (size_t i = 0; i < open.size() && i < 16; ++i) {
    for (const Instruction* user : users_.of(open[i])) {
      switch (user->opcode()) {
        case Opcode::kReshape:
        case Opcode::kBitcast:
        case Opcode::kTranspose:
        case Opcode::kCopy:
        case Opcode::kConvert:
        case Opcode::kBroadcast:
        case Opcode::kCustomCall:
          open.push_back(user);
          break;
        case Opcode::kSelect:
          if (IsNan(user->operand(1)) || IsNan(user->operand(2))) return true;
          break;
        default:  // not handed on element for element
          break;
      }
    }
    const auto callers = callers_.find(open[i]->parent());
    if (open[i] != open[i]->parent()->root() || callers == callers_.end()) continue;
    open.insert(open.end(), callers->second.begin(), callers->second.end());
  }
  return false;
}

// Of what IndexedDimsOf knows.
void Walk::UseAsIndex(const State& state, const Instruction* user, int64_t operand) {
  const IndexedDims indexed = *IndexedDimsOf(*user);
  const int64_t component = operand - indexed.first_operand;
  if (component < 0 || (component > 0 && !indexed.are_scalars)) {
    // What is read, written or written to.
    if (user->shape()->IsArray()) UseInMove(state, user, operand);
    return;
  }
  const auto want = [&](size_t c, int64_t along) {
    const int64_t extent = user->operand(0)->shape()->dim(indexed.dims[c]);
    Want(state, user, {0, extent - indexed.sizes[c], true, extent}, along, static_cast<int64_t>(c));
  };
  if (indexed.are_scalars) {
    if (component < static_cast<int64_t>(indexed.dims.size())) want(At(component), -1);
    return;
  }
  if (user->opcode() == Opcode::kGather) {
    if (FillsWithNan(user)) never_beyond_ = true;
    input_.is_sorted |= user->attributes<GatherAttributes>().indices_are_sorted;
  } else if (user->opcode() == Opcode::kScatter) {
    input_.is_distinct |= user->attributes<ScatterAttributes>().unique_indices;
    input_.is_sorted |= user->attributes<ScatterAttributes>().indices_are_sorted;
  }
  const bool has_dim = indexed.vector_dim < state.at->shape()->rank();
  for (size_t c = 0; c < indexed.dims.size(); ++c) want(c, has_dim ? indexed.vector_dim : -1);
}

// Operations that move elements of one operand.
void Walk::UseInMove(const State& state, const Instruction* user, int64_t operand) {
  const Shape* to = user->shape();
  std::vector<DimOrigin> dims = Unknown(to);
  switch (user->opcode()) {
    case Opcode::kReshape:
    case Opcode::kBitcast:
      if (to->dtype() != state.at->shape()->dtype()) return;
      dims = Reshaped(state.dims, state.at->shape(), to);
      break;
    case Opcode::kTranspose: {
      const Dims order = user->attributes<DimensionsAttributes>().dimensions;
      for (size_t d = 0; d < order.size(); ++d) dims[d] = state.dims[At(order[d])];
      break;
    }
    case Opcode::kBroadcast: {
      const Dims kept = user->attributes<DimensionsAttributes>().dimensions;
      for (size_t d = 0; d < kept.size(); ++d) dims[At(kept[d])] = state.dims[d];
      for (int64_t d = 0; d < to->rank(); ++d) {
        if (to->dim(d) == 1 && !Contains(kept, d)) dims[At(d)] = {DimOrigin::kOne, 0};
      }
      break;
    }
    case Opcode::kSlice: {
      const auto& attributes = user->attributes<SliceAttributes>();
      dims = state.dims;
      for (size_t d = 0; d < dims.size(); ++d) {
        dims[d].shift += attributes.starts[d];
        if (attributes.strides[d] != 1) dims[d] = {};
      }
      break;
    }
    case Opcode::kConcatenate: {
      const int64_t dim = user->attributes<DimensionsAttributes>().dimensions[0];
      dims = state.dims;
      for (int64_t k = 0; k < operand; ++k) {
        dims[At(dim)].shift -= user->operand(k)->shape()->dim(dim);
      }
      break;
    }
    case Opcode::kDynamicSlice:
      dims = state.dims;
      for (int64_t d = 0; d < to->rank(); ++d) {
        if (to->dim(d) != state.at->shape()->dim(d)) dims[At(d)] = {};
      }
      break;
    default:  // where its elements lie is not followed
      break;
  }
  Move(state, user, std::move(dims));
}

// Of a dim, or of the groups of rows of a ragged product.
void Walk::UseAsSize(const State& state, const Instruction* user, int64_t operand) {
  if (user->opcode() == Opcode::kSetDimensionSize) {
    if (operand != 1) return UseInMove(state, user, operand);
    never_beyond_ = true;
    const int64_t dim = user->attributes<DimensionsAttributes>().dimensions[0];
    return Want(state, user, {0, user->operand(0)->shape()->dim(dim), false});
  }
  const auto& attributes = user->attributes<DotAttributes>();
  const Shape* sizes = state.at->shape();
  if (operand != 2 || attributes.lhs_ragged.empty() || sizes->rank() < 1) return;
  // As many rows in all as there are, at the most.
  never_beyond_ = true;
  const int64_t rows = user->operand(0)->shape()->dim(attributes.lhs_ragged[0]);
  Want(state, user, {0, rows / std::max<int64_t>(sizes->dim(sizes->rank() - 1), 1), false});
}

// What hands values on, whole tuples too.
void Walk::UseOperand(const State& state, const Instruction* user, int64_t operand) {
  switch (user->opcode()) {
    case Opcode::kTuple:
      return Pass(state, user, user->shape()->first_leaf(operand) + state.leaf);
    case Opcode::kGetTupleElement: {
      const int64_t leaf = state.leaf - FirstLeafRead(*user);
      if (leaf >= 0 && leaf < user->shape()->leaf_count()) Pass(state, user, leaf);
      return;
    }
    case Opcode::kOptBarrier:
    case Opcode::kDomain:
    case Opcode::kAddDependency:
      if (operand == 0) Pass(state, user, state.leaf);
      return;
    case Opcode::kCopy:
      return Pass(state, user, state.leaf);
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCall:
    case Opcode::kFusion:
      return UseInCall(state, user, operand);
    default:  // no whole values: arrays
      if (state.at->shape()->IsArray()) UseElements(state, user, operand);
      return;
  }
}

void Walk::UseElements(const State& state, const Instruction* user, int64_t operand) {
  switch (user->opcode()) {
    case Opcode::kCustomCall:
      if (operand == 0 && (IsIdentityCall(*user) || IsRegionMarker(*user)) &&
          user->shape()->IsArray() && user->shape()->rank() == state.at->shape()->rank()) {
        Move(state, user, state.dims);
      }
      return;
    case Opcode::kConvert:
      // To pred: whether it is 0, which is no index.
      if (IsInteger(user->shape()->dtype())) Move(state, user, state.dims);
      return;
    case Opcode::kAbs:
      return Move(state, user, state.dims);
    case Opcode::kNegate:
      return Compute(state, user, {Step::Kind::kNegate});
    case Opcode::kClamp:
      if (operand == 1) Move(state, user, state.dims);
      return;
    case Opcode::kSelect:
      if (operand > 0) Move(state, user, state.dims);
      return;
    case Opcode::kAdd:
    case Opcode::kSubtract:
    case Opcode::kMultiply:
    case Opcode::kDivide:
    case Opcode::kRemainder:
    case Opcode::kShiftLeft:
    case Opcode::kShiftRightArithmetic:
    case Opcode::kShiftRightLogical:
    case Opcode::kMinimum:
    case Opcode::kMaximum:
      return UseInArithmetic(state, user, operand);
    case Opcode::kCompare:
      return UseInCompare(state, user, operand);
    case Opcode::kGather:
    case Opcode::kScatter:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
      return UseAsIndex(state, user, operand);
    case Opcode::kSetDimensionSize:
    case Opcode::kRaggedDot:
      return UseAsSize(state, user, operand);
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kTranspose:
    case Opcode::kBroadcast:
    case Opcode::kSlice:
    case Opcode::kConcatenate:
    case Opcode::kReverse:
    case Opcode::kAllGather:
    case Opcode::kAllToAll:
    case Opcode::kCollectivePermute:
      if (user->shape()->IsArray()) UseInMove(state, user, operand);
      return;
    case Opcode::kPad:
      if (operand == 0) UseInMove(state, user, operand);
      return;
    default:  // not followed: its value is of no index
      return;
  }
}

}  // namespace

std::vector<IndexInput> FindIndexInputs(const Module& module, int64_t device_count) {
  std::vector<IndexInput> found;
  std::optional<Walk> walk;
  int64_t number = 0;
  for (const Instruction* parameter : module.entry()->parameters()) {
    const std::vector<const Shape*> leaves = LeafShapes(parameter->shape());
    for (size_t part = 0; part < leaves.size(); ++part, ++number) {
      const Shape* leaf = leaves[part];
      if (!leaf->IsArray() || leaf->element_count() == 0) continue;
      const bool chooses = leaf->dtype() == DType::kPred && leaf->element_count() == 1;
      if (!chooses && !IsInteger(leaf->dtype())) continue;
      if (!walk) walk.emplace(module, device_count);
      auto input = walk->Run(parameter, static_cast<int64_t>(part), leaf);
      if (!input) continue;
      input->leaf = number;
      found.push_back(std::move(*input));
    }
  }
  return found;
}

}  // namespace gshard
