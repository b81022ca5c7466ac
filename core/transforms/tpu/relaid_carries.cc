#include "core/transforms/tpu/relaid_carries.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <unordered_set>
#include <vector>

#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "ir/dims.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// By dim of a value: the dim of the carried array that it is; -1: none.
using DimMap = std::vector<int64_t>;
// Dims of the carried array, the outermost in memory first.
using Order = std::vector<int64_t>;

DimMap Identity(const Shape* shape) {
  DimMap map(At(shape->rank()));
  std::iota(map.begin(), map.end(), 0);
  return map;
}

// Dims of size 1 that come or go; nothing if a reshape splits or merges others.
std::optional<DimMap> ThroughReshape(const Shape* from, const Shape* to, const DimMap& map) {
  DimMap result(At(to->rank()), -1);
  int64_t d = 0;
  for (int64_t e = 0; e < to->rank(); ++e) {
    if (to->dim(e) == 1) continue;
    while (d < from->rank() && from->dim(d) == 1) ++d;
    if (d == from->rank() || from->dim(d) != to->dim(e)) return std::nullopt;
    result[At(e)] = map[At(d++)];
  }
  return result;
}

// The dims that `order` does not have, in their order, then those that it has.
Order Completed(Order order, int64_t rank) {
  Order missing;
  for (int64_t d = 0; d < rank; ++d) {
    if (std::ranges::find(order, d) == order.end()) missing.push_back(d);
  }
  order.insert(order.begin(), missing.begin(), missing.end());
  return order;
}

// A dot that reads the array, and how.
struct DotRead {
  const Instruction* dot = nullptr;
  int64_t operand = 0;
  DimMap map;
  bool is_sliced = false;   // a part that changes with the iterations
  bool is_updated = false;  // after a part of the array was written
};

// What a loop does with one element of its state.
struct Uses {
  std::vector<DotRead> dots;
  const Instruction* update = nullptr;  // a dynamic-update-slice of the array
  std::optional<Order> of_scatter;      // that a scatter into the array wants
};

class UseFinder {
 public:
  UseFinder(const Users& users, const CallSites& sites) : users_(users), sites_(sites) {}

  Uses Find(const LoopParts& parts, int64_t element) {
    AddElement(parts, element, {.map = Identity(parts.loop->shape()->element(element))});
    while (!open_.empty()) {
      const Value value = std::move(open_.back());
      open_.pop_back();
      for (Instruction* user : users_.of(value.x)) Visit(value, user);
    }
    return std::move(uses_);
  }

 private:
  struct Value {
    const Instruction* x = nullptr;
    DimMap map;
    bool is_sliced = false, is_updated = false;
  };

  void Add(Value value) {
    if (seen_.insert(value.x).second) open_.push_back(std::move(value));
  }

  void AddElement(const LoopParts& parts, int64_t element, Value value) {
    for (const Instruction* user : users_.of(parts.body_state)) {
      if (ElementOf(user, parts.body_state) != element) continue;
      value.x = user;
      Add(value);
    }
  }

  void Visit(const Value& value, Instruction* user) {
    Value next = value;
    next.x = user;
    const bool is_array = user->operand(0) == value.x;
    switch (user->opcode()) {
      case Opcode::kDot:
        for (int64_t i = 0; i < 2; ++i) {
          if (user->operand(i) != value.x) continue;
          uses_.dots.push_back({user, i, value.map, value.is_sliced, value.is_updated});
        }
        return;
      case Opcode::kScatter:
        if (!is_array || !user->shape()->IsArray()) return;
        if (auto order = ScatterOrder(user, value)) uses_.of_scatter = std::move(order);
        next.is_updated = true;
        return Add(std::move(next));
      case Opcode::kDynamicUpdateSlice:
        if (!is_array) return;
        if (!value.is_sliced) uses_.update = user;
        next.is_updated = true;
        return Add(std::move(next));
      case Opcode::kDynamicSlice:
        next.is_sliced = true;
        [[fallthrough]];
      case Opcode::kSlice:
        if (is_array) Add(std::move(next));
        return;
      case Opcode::kReshape:
      case Opcode::kBitcast:
        if (auto map = ThroughReshape(value.x->shape(), user->shape(), value.map)) {
          next.map = std::move(*map);
          Add(std::move(next));
        }
        return;
      case Opcode::kTranspose: {
        const Dims permutation = user->attributes<DimensionsAttributes>().dimensions;
        for (size_t d = 0; d < permutation.size(); ++d) next.map[d] = value.map[At(permutation[d])];
        return Add(std::move(next));
      }
      case Opcode::kTuple:
        return EnterLoops(value, user);
      case Opcode::kSelect:
      case Opcode::kConvert:
      case Opcode::kCopy:
        return Add(std::move(next));
      default:  // computes with elements, or does something else
        return;
    }
  }

  // Scattered dims before those of the windows; nothing where the compiler writes the scatter out
  // as a loop of updates, as it does for batching dims.
  static std::optional<Order> ScatterOrder(const Instruction* scatter, const Value& value) {
    const auto& attributes = scatter->attributes<ScatterAttributes>();
    if (!attributes.input_batching_dims.empty() || value.is_sliced) return std::nullopt;
    Order order, windows;
    for (int64_t d = 0; d < std::ssize(value.map); ++d) {
      if (value.map[At(d)] < 0) continue;
      const bool is_scattered = Contains(attributes.inserted_window_dims, d);
      (is_scattered ? order : windows).push_back(value.map[At(d)]);
    }
    order.insert(order.end(), windows.begin(), windows.end());
    return Completed(std::move(order), scatter->shape()->rank());
  }

  // Loops within, of which `state` is the start.
  void EnterLoops(const Value& value, const Instruction* state) {
    for (Instruction* loop : users_.of(state)) {
      if (loop->opcode() != Opcode::kWhile) continue;
      const std::optional<LoopParts> parts = PartsOf(loop, sites_);
      for (int64_t i = 0; parts && i < state->operand_count(); ++i) {
        if (state->operand(i) != value.x) continue;
        AddElement(*parts, i, value);
        for (const Instruction* user : users_.of(loop)) {
          if (ElementOf(user, loop) != i) continue;
          Value after = value;
          after.x = user;
          Add(std::move(after));
        }
      }
    }
  }

  const Users& users_;
  const CallSites& sites_;
  std::vector<Value> open_;
  std::unordered_set<const Instruction*> seen_;
  Uses uses_;
};

// Batch dims as the product has them, what it sums over or keeps besides the last of each, and
// these two in the order that they have. What the product does not see comes first.
Order DotOrder(const DotRead& read, int64_t rank) {
  const auto& dot = read.dot->attributes<DotAttributes>();
  const Dims batch = read.operand == 0 ? dot.lhs_batch : dot.rhs_batch;
  const Dims contracted = read.operand == 0 ? dot.lhs_contracting : dot.rhs_contracting;
  Order seen;
  const auto add = [&](int64_t dim) {
    if (read.map[At(dim)] >= 0) seen.push_back(read.map[At(dim)]);
  };
  for (const int64_t dim : batch) add(dim);
  std::vector<int64_t> surplus, last;
  for (int64_t dim = 0; dim < std::ssize(read.map); ++dim) {
    if (Contains(batch, dim) || read.map[At(dim)] < 0) continue;
    surplus.push_back(dim);
  }
  for (const bool is_contracted : {true, false}) {
    const auto found = std::find_if(surplus.rbegin(), surplus.rend(), [&](int64_t dim) {
      return Contains(contracted, dim) == is_contracted;
    });
    if (found == surplus.rend()) continue;
    last.push_back(*found);
    surplus.erase(std::next(found).base());
  }
  std::ranges::sort(last, {}, [&](int64_t dim) { return read.map[At(dim)]; });
  for (const int64_t dim : surplus) add(dim);
  for (const int64_t dim : last) add(dim);
  return Completed(std::move(seen), rank);
}

// The dot that an update comes from element by element, and the dims of its result in the array.
struct MadeByDot {
  const Instruction* dot = nullptr;
  DimMap map;
};
std::optional<MadeByDot> FindDot(const Instruction* x, DimMap map) {
  for (int depth = 0; depth < 64; ++depth) {
    if (x->opcode() == Opcode::kDot) return MadeByDot{x, std::move(map)};
    if (x->operand_count() == 0) return std::nullopt;
    const Instruction* operand = x->operand(0);
    if (x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kBitcast) {
      auto through = ThroughReshape(x->shape(), operand->shape(), map);
      if (!through) return std::nullopt;
      map = std::move(*through);
    } else if (x->opcode() == Opcode::kTranspose || x->opcode() == Opcode::kBroadcast) {
      if (operand->shape()->element_count() != x->shape()->element_count()) return std::nullopt;
      const Dims dims = x->attributes<DimensionsAttributes>().dimensions;
      DimMap before(At(operand->shape()->rank()), -1);
      for (size_t d = 0; d < dims.size(); ++d) {
        const bool repeats = x->opcode() == Opcode::kBroadcast;
        before[repeats ? d : At(dims[d])] = map[repeats ? At(dims[d]) : d];
      }
      map = std::move(before);
    } else if (!IsElementwise(x->opcode()) && x->opcode() != Opcode::kConcatenate &&
               x->opcode() != Opcode::kSlice && x->opcode() != Opcode::kCopy) {
      return std::nullopt;
    }
    x = operand;
  }
  return std::nullopt;
}

// Rows of 16 bits or fewer that a product makes are written as it makes them: the dims of which one
// element is written first, then those of the product, its rows before the last dim. Nothing if
// the update is no such row.
std::optional<Order> UpdateOrder(const Instruction* update) {
  const Shape* array = update->shape();
  const Shape* part = update->operand(1)->shape();
  if (DTypeBits(array->dtype()) >= 32) return std::nullopt;
  const std::optional<MadeByDot> made = FindDot(update->operand(1), Identity(part));
  if (!made) return std::nullopt;
  Order order;
  for (int64_t d = 0; d < array->rank(); ++d) {
    if (part->dim(d) == array->dim(d)) continue;
    if (part->dim(d) != 1) return std::nullopt;
    order.push_back(d);
  }
  const auto& dot = made->dot->attributes<DotAttributes>();
  const int64_t batch = std::ssize(dot.lhs_batch);
  const int64_t lhs_free =
      made->dot->operand(0)->shape()->rank() - batch - std::ssize(dot.lhs_contracting);
  const int64_t rank = made->dot->shape()->rank();
  const auto add = [&](int64_t begin, int64_t end) {
    for (int64_t d = begin; d < end; ++d) {
      if (made->map[At(d)] >= 0) order.push_back(made->map[At(d)]);
    }
  };
  add(0, batch);
  add(batch + lhs_free, rank - 1);
  add(batch, batch + lhs_free);
  add(std::max(rank - 1, batch + lhs_free), rank);
  return Completed(std::move(order), array->rank());
}

// In which order the compiler lays out the array in the loop; nothing: as outside.
std::optional<Order> WantedOrder(const Uses& uses, const Shape* array) {
  if (uses.of_scatter) return uses.of_scatter;
  for (const DotRead& read : uses.dots) {
    if (!read.is_sliced) return DotOrder(read, array->rank());
  }
  for (const DotRead& read : uses.dots) {
    if (!read.is_updated || uses.update == nullptr) continue;
    if (auto order = UpdateOrder(uses.update)) return order;
    return DotOrder(read, array->rank());
  }
  return std::nullopt;
}

// Is it an array of which a loop may want another order? Its own fills the lanes of tiles.
bool HasOrders(const Shape* x) {
  constexpr int64_t kLanes = 128;
  return x->IsArray() && x->rank() >= 3 && x->dims().back() % kLanes == 0;
}

bool CarriesOrders(const Instruction* x) {
  return x->opcode() == Opcode::kWhile && x->shape()->IsTuple() &&
         std::ranges::any_of(x->shape()->elements(), HasOrders);
}

class CarryRelayer {
 public:
  explicit CarryRelayer(Module& module) : module_(module), users_(module), sites_(module) {}

  bool changed() const { return changed_; }

  Instruction* Visit(Instruction* x, Rewriter& rewriter) {
    if (x->parent() != module_.entry()) return x;
    if (CarriesOrders(x)) Relay(x, rewriter.builder());
    if (x == module_.entry()->root() && x->opcode() == Opcode::kTuple) {
      CopyResults(x, rewriter.builder());
    }
    return x;
  }

 private:
  void Relay(Instruction* loop, Builder& builder) {
    const std::optional<LoopParts> parts = PartsOf(loop, sites_);
    if (!parts) return;
    std::vector<Instruction*> inits;
    bool any = false;
    for (int64_t i = 0; i < parts->size(); ++i) {
      Instruction* init = parts->Init(builder, i);
      inits.push_back(init);
      const Shape* array = init->shape();
      if (!HasOrders(array)) continue;
      const std::optional<Order> order =
          WantedOrder(UseFinder(users_, sites_).Find(*parts, i), array);
      if (!order || IsOrderOf(array, *order)) continue;
      if (IsArgument(init)) {
        inits.back() = Copied(builder, init, *order);
        any = true;
      }
      if (ElementOf(parts->Next(i), parts->body_state) != i) written_[loop][i] = *order;
    }
    if (!any) return;
    SetState(*parts, builder, inits);
    changed_ = true;
  }

  // Apart from dims of size 1, is it the order that the array has?
  static bool IsOrderOf(const Shape* array, const Order& order) {
    int64_t last = -1;
    for (const int64_t dim : order) {
      if (array->dim(dim) == 1) continue;
      if (dim < last) return false;
      last = dim;
    }
    return true;
  }

  static bool IsArgument(const Instruction* x) {
    while (KeepsOrder(x->opcode()) && x->operand_count() > 0) x = x->operand(0);
    return x->opcode() == Opcode::kParameter;
  }

  void CopyResults(Instruction* results, Builder& builder) {
    for (int64_t i = 0; i < results->operand_count(); ++i) {
      const Instruction* x = results->operand(i);
      while (KeepsOrder(x->opcode()) && x->operand_count() > 0) x = x->operand(0);
      if (x->opcode() != Opcode::kGetTupleElement) continue;
      const auto of_loop = written_.find(x->operand(0));
      if (of_loop == written_.end()) continue;
      const auto order = of_loop->second.find(x->attributes<GetTupleElementAttributes>().index);
      if (order == of_loop->second.end()) continue;
      results->set_operand(i, Copied(builder, results->operand(i), order->second));
      changed_ = true;
    }
  }

  static Instruction* Copied(Builder& builder, Instruction* x, const Order& order) {
    builder.set_origin(x);
    Instruction* operands[] = {x};
    const DimensionsAttributes permutation{builder.Copy(order)};
    Instruction* moved = builder.Add(Opcode::kTranspose, operands, permutation, nullptr, {},
                                     "copy_of_" + std::string(x->name()));
    Instruction* copy = builder.Add(Opcode::kBitcast, {moved}, x->shape());
    builder.set_origin(nullptr);
    return copy;
  }

  Module& module_;
  const Users users_;  // before anything changes
  const CallSites sites_;
  // By loop and element of its state: what it leaves in another order.
  std::map<const Instruction*, std::map<int64_t, Order>> written_;
  bool changed_ = false;
};

}  // namespace

bool RelayCarries(Module& module) {
  if (std::ranges::none_of(module.entry()->instructions(), CarriesOrders)) return false;
  CarryRelayer relayer(module);
  RewriteLoopCallers(
      module, [&](Instruction* x, Rewriter& rewriter) { return relayer.Visit(x, rewriter); });
  return relayer.changed();
}

}  // namespace gshard
