#include "core/pipeline/part_values.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "core/pipeline/plan/clone.h"
#include "core/transforms/rewriter.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/op_traits.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

// What numbers of rows are used for: their values, or to address rows of all parts.
class RowNumberUses {
 public:
  explicit RowNumberUses(const Module& module) : module_(module), users_(module) {
    for (const Computation* computation : module.computations()) {
      for (const Instruction* x : computation->instructions()) {
        for (const Computation* called : x->called()) callers_[called].push_back(x);
      }
    }
  }

  bool as_values = false, as_addresses = false;

  // `grew`: is a dim of the instruction longer than in one part?
  template <typename Grew>
  void Follow(const Instruction* iota, const Grew& grew) {
    as_values = as_addresses = false;
    seen_.clear();
    std::vector<const Instruction*> open = {iota};
    while (!open.empty()) {
      const Instruction* x = open.back();
      open.pop_back();
      if (!seen_.insert(x).second) continue;
      for (const Instruction* user : users_.of(x)) {
        if (AddressesRows(user, x, grew)) {
          as_addresses = true;
        } else {
          open.push_back(user);
          for (const Computation* called : user->called()) {
            if (called->parameter_count() == 1) open.push_back(called->parameter(0));
          }
        }
      }
      if (x != x->parent()->root()) continue;
      for (const Instruction* caller : callers_[x->parent()]) open.push_back(caller);
    }
    as_values = std::ranges::any_of(seen_, [&](const Instruction* x) { return TakesValue(x); });
  }

 private:
  template <typename Grew>
  static bool AddressesRows(const Instruction* user, const Instruction* x, const Grew& grew) {
    const int64_t inputs = user->opcode() == Opcode::kScatter ? (user->operand_count() - 1) / 2 : 1;
    const bool is_indexed = user->opcode() == Opcode::kGather || user->opcode() == Opcode::kScatter;
    return is_indexed && user->operand(inputs) == x && grew(user->operand(0));
  }

  // Does it join numbers with what is neither a number of these nor a constant?
  bool TakesValue(const Instruction* x) {
    if (x == module_.entry()->root()) return true;
    switch (x->opcode()) {  // those that hand numbers on
      case Opcode::kIota:
      case Opcode::kParameter:
      case Opcode::kConcatenate:
      case Opcode::kReshape:
      case Opcode::kBroadcast:
      case Opcode::kTranspose:
      case Opcode::kSlice:
      case Opcode::kTuple:
      case Opcode::kGetTupleElement:
      case Opcode::kWhile:
        return false;
      default:  // elementwise operations of numbers and constants are numbers
        return !IsElementwise(x->opcode()) ||
               std::ranges::any_of(x->operands(), [&](const Instruction* operand) {
                 return !seen_.contains(operand) && !IsConstant(operand);
               });
    }
  }

  static bool IsConstant(const Instruction* x) {
    return x->opcode() == Opcode::kConstant ||
           (x->opcode() == Opcode::kBroadcast && IsConstant(x->operand(0)));
  }

  const Module& module_;
  Users users_;
  std::unordered_map<const Computation*, std::vector<const Instruction*>> callers_;
  std::unordered_set<const Instruction*> seen_;
};

Instruction* With(Builder& b, Opcode opcode, Instruction* x, int64_t value) {
  const Dims dims = x->shape()->dims();
  return b.Binary(opcode, x, b.BroadcastScalar(b.ScalarInt(x->shape()->dtype(), value), dims));
}

// A tuple of `shape`, whose elements have a dim in front where those of `tuple` have none.
Instruction* Widened(Builder& b, Instruction* tuple, const Shape* shape) {
  if (tuple->opcode() != Opcode::kTuple) return tuple;
  std::vector<Instruction*> elements(tuple->operands().begin(), tuple->operands().end());
  for (size_t i = 0; i < elements.size(); ++i) {
    const Shape* element = shape->element(static_cast<int64_t>(i));
    if (!element->IsArray() || element->rank() == elements[i]->shape()->rank()) continue;
    std::vector<int64_t> to(At(elements[i]->shape()->rank()));
    std::iota(to.begin(), to.end(), 1);
    elements[i] = b.Broadcast(elements[i], element->dims(), to);
  }
  return b.Tuple(elements);
}

}  // namespace

PartValues::PartValues(Module& module, const ExampleDims& examples,
                       const std::vector<const Shape*>& before, const PartRows& rows)
    : module_(module), examples_(examples), before_(before), rows_(rows) {}

bool PartValues::Grew(const Instruction* x) const {
  return x->id() < before_.size() && x->shape() != before_[x->id()];
}

int64_t PartValues::GrownDim(const Instruction* x) const {
  int64_t found = -1;
  for (int64_t d = 0; d < x->shape()->rank(); ++d) {
    if (x->shape()->dim(d) == before_[x->id()]->dim(d)) continue;
    if (found >= 0) return -1;
    found = d;
  }
  return found;
}

const Instruction* PartValues::NumberRows() {
  RowNumberUses uses(module_);
  std::unordered_set<const Instruction*> local;
  for (const Computation* computation : module_.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kIota || !Grew(x)) continue;
      const int64_t along = x->attributes<IotaAttributes>().dimension;
      if (x->shape()->dim(along) == before_[x->id()]->dim(along)) continue;
      uses.Follow(x, [&](const Instruction* y) { return Grew(y); });
      if (uses.as_values && uses.as_addresses) return x;
      if (!uses.as_addresses) local.insert(x);
    }
  }
  for (Computation* computation : module_.computations()) {
    InsertAfterEach(module_, computation, [&](Instruction* x, Builder& b) -> Instruction* {
      return local.contains(x) ? LocalNumbers(b, x) : x;
    });
  }
  return nullptr;
}

// Along a dim of major x all rows x minor elements, with the rows of one part in place of all.
Instruction* PartValues::LocalNumbers(Builder& b, const Instruction* iota) const {
  const int64_t along = iota->attributes<IotaAttributes>().dimension;
  const int64_t minor = examples_.Of(*iota, 0, along).minor, all = rows_.parts * rows_.rows;
  Instruction* place = b.Iota(b.context().Array(DType::kS64, iota->shape()->dims()), along);
  Instruction* within = With(b, Opcode::kRemainder, place, minor);
  Instruction* row = With(b, Opcode::kDivide, place, minor);
  Instruction* major = With(b, Opcode::kDivide, row, all);
  Instruction* of_all = With(b, Opcode::kRemainder, row, all);
  Instruction* own = rows_.is_minor ? With(b, Opcode::kDivide, of_all, rows_.parts)
                                    : With(b, Opcode::kRemainder, of_all, rows_.rows);
  Instruction* sum = b.Add(With(b, Opcode::kMultiply, major, rows_.rows), own);
  sum = b.Add(With(b, Opcode::kMultiply, sum, minor), within);
  return b.Convert(sum, iota->shape()->dtype());
}

const Instruction* PartValues::Find(const std::unordered_set<const Instruction*>& own) {
  given_ = own;
  return Visit(*module_.entry());
}

std::vector<bool> PartValues::Of(const Instruction* x) const {
  const auto found = own_.find(x);
  return found != own_.end() ? found->second
                             : std::vector<bool>(At(x->shape()->leaf_count()), false);
}

bool PartValues::HasAny(const Instruction* x) const {
  const auto found = own_.find(x);
  return found != own_.end() && std::ranges::find(found->second, true) != found->second.end();
}

const Instruction* PartValues::Visit(const Computation& computation) {
  for (const Instruction* x : computation.instructions()) {
    if (x->opcode() == Opcode::kParameter) {
      if (given_.contains(x)) own_[x] = {true};
      continue;
    }
    const bool any = std::ranges::any_of(x->operands(), [&](const auto* y) { return HasAny(y); });
    if (!any) continue;
    std::vector<bool> own;
    switch (x->opcode()) {  // those with tuples
      case Opcode::kTuple:
        for (const Instruction* operand : x->operands()) {
          const std::vector<bool> of = Of(operand);
          own.insert(own.end(), of.begin(), of.end());
        }
        break;
      case Opcode::kGetTupleElement: {
        const std::vector<bool> all = Of(x->operand(0));
        const auto first = all.begin() + FirstLeafRead(*x);
        own.assign(first, first + x->shape()->leaf_count());
        break;
      }
      case Opcode::kWhile:
        own = Of(x->operand(0));
        if (const Instruction* unknown = VisitLoop(x, own); unknown != nullptr) return unknown;
        break;
      default:  // arrays
        if (!IsKnown(x)) return x;
        own = {!Grew(x)};
    }
    own_[x] = std::move(own);
  }
  return nullptr;
}

// `state`: what the loop begins with, and what it ends with afterwards.
const Instruction* PartValues::VisitLoop(const Instruction* loop, std::vector<bool>& state) {
  const bool has_tuples = loop->operand(0)->opcode() == Opcode::kTuple &&
                          loop->called(1)->root()->opcode() == Opcode::kTuple;
  if (!has_tuples) return loop;
  for (bool changes = true; changes;) {
    own_[loop->called(0)->parameter(0)] = own_[loop->called(1)->parameter(0)] = state;
    if (const Instruction* unknown = Visit(*loop->called(1)); unknown != nullptr) return unknown;
    const std::vector<bool> next = Of(loop->called(1)->root());
    changes = false;
    for (size_t i = 0; i < state.size(); ++i) {
      changes = changes || (next[i] && !state[i]);
      state[i] = state[i] || next[i];
    }
  }
  if (const Instruction* unknown = Visit(*loop->called(0)); unknown != nullptr) return unknown;
  return HasAny(loop->called(0)->root()) ? loop : nullptr;
}

// Of an operation that reads what a part has of its own.
bool PartValues::IsKnown(const Instruction* x) const {
  if (!x->shape()->IsArray() || !x->operand(0)->shape()->IsArray()) return false;
  const auto only = [&](int64_t last) {
    for (int64_t i = last + 1; i < x->operand_count(); ++i) {
      if (HasAny(x->operand(i))) return false;
    }
    return true;
  };
  if (Grew(x)) return x->opcode() == Opcode::kBroadcast && GrownDim(x) >= 0;
  switch (x->opcode()) {  // those that take a dim in front
    case Opcode::kBroadcast:
    case Opcode::kReshape:
    case Opcode::kTranspose:
    case Opcode::kReverse:
    case Opcode::kSlice:
    case Opcode::kConcatenate:
      return true;
    case Opcode::kDynamicSlice:
      return only(0);
    case Opcode::kDynamicUpdateSlice:
      return only(1);
    case Opcode::kReduce:
      return x->operand_count() == 2 && only(0);
    case Opcode::kBitcastConvert:
      return x->shape()->rank() == x->operand(0)->shape()->rank();
    default:  // elementwise
      return IsElementwise(x->opcode());
  }
}

Instruction* PartValues::Copy(Instruction* x, const std::vector<Instruction*>& operands,
                              Builder& b) {
  const bool any = std::ranges::any_of(x->operands(), [&](const auto* y) { return HasAny(y); });
  if (!any) return CloneInto(module_, b.computation(), x, operands, /*take_name=*/true);
  b.set_origin(x);
  Instruction* made = nullptr;
  if (x->opcode() == Opcode::kTuple) {
    made = b.Tuple(operands);
  } else if (x->opcode() == Opcode::kGetTupleElement) {
    made = b.GetTupleElement(operands[0], x->attributes<GetTupleElementAttributes>().index);
  } else if (x->opcode() == Opcode::kWhile) {
    made = CopyLoop(b, x, operands[0]);
  } else {
    made = Grew(x) ? AllRows(b, x, operands[0]) : OfAllParts(b, x, operands);
  }
  b.set_origin(nullptr);
  return made;
}

// What a part has, for each of its rows: looked up by the row's number, which knows how the batch
// is cut (plan/shard_rows.h).
Instruction* PartValues::AllRows(Builder& b, const Instruction* broadcast,
                                 Instruction* operand) const {
  const int64_t along = GrownDim(broadcast);
  const Shape* shape = broadcast->shape();
  const int64_t minor = examples_.Of(*broadcast, 0, along).minor;
  const int64_t numbers[] = {shape->dim(along)};
  Instruction* place = b.Iota(b.context().Array(DType::kS64, numbers), 0);
  Instruction* row =
      With(b, Opcode::kRemainder, With(b, Opcode::kDivide, place, minor), rows_.parts * rows_.rows);
  Instruction* part = rows_.is_minor ? With(b, Opcode::kRemainder, row, rows_.parts)
                                     : With(b, Opcode::kDivide, row, rows_.rows);
  GatherAttributes gather;
  std::vector<int64_t> offset_dims(At(operand->shape()->rank() - 1));
  std::iota(offset_dims.begin(), offset_dims.end(), 1);
  const int64_t first[] = {0};
  gather.offset_dims = b.Copy(offset_dims);
  gather.collapsed_slice_dims = gather.start_index_map = b.Copy(first);
  gather.index_vector_dim = 1;
  gather.slice_sizes = b.Copy(Prepended(1, operand->shape()->dims().subspan(1)));
  Instruction* const operands[] = {operand, part};
  Instruction* of_rows = b.Add(Opcode::kGather, operands, gather);
  // Dims in the order of the result's.
  std::vector<std::pair<int64_t, int64_t>> places = {{along, 0}};
  const Dims dims = broadcast->attributes<DimensionsAttributes>().dimensions;
  for (size_t d = 0; d < dims.size(); ++d) {
    places.emplace_back(dims[d], static_cast<int64_t>(d) + 1);
  }
  std::ranges::sort(places);
  std::vector<int64_t> order, to;
  for (const auto& [at, dim] : places) order.push_back(dim), to.push_back(at);
  return b.Broadcast(b.Transpose(of_rows, order), shape->dims(), to);
}

// The operation with a dim in front that counts parts.
Instruction* PartValues::OfAllParts(Builder& b, const Instruction* x,
                                    std::vector<Instruction*> operands) {
  const auto all_parts = [&](int64_t i, const Shape* shape) {
    const Instruction* old = x->operand(i);
    Instruction*& operand = operands[At(i)];
    const std::vector<int64_t> dims = Prepended(rows_.parts, shape->dims());
    std::vector<int64_t> to(At(operand->shape()->rank()));
    std::iota(to.begin(), to.end(), HasAny(old) ? 0 : 1);
    if (!SameDims(operand->shape(), b.context().Array(operand->shape()->dtype(), dims))) {
      operand = b.Broadcast(operand, dims, to);
    }
  };
  const std::vector<int64_t> dims = Prepended(rows_.parts, x->shape()->dims());
  Instruction* zero = nullptr;
  std::vector<Instruction*> starts;
  const auto take_starts = [&](int64_t from) {
    zero = b.ScalarInt(x->operand(from)->shape()->dtype(), 0);
    starts = {zero};
    starts.insert(starts.end(), operands.begin() + from, operands.end());
  };
  switch (x->opcode()) {  // those that IsKnown lists
    case Opcode::kBroadcast: {
      const auto to = OneLater(x->attributes<DimensionsAttributes>().dimensions);
      return b.Broadcast(operands[0], dims, Prepended(0, to));
    }
    case Opcode::kReshape:
      return b.Reshape(operands[0], dims);
    case Opcode::kTranspose:
      return b.Transpose(operands[0],
                         Prepended(0, OneLater(x->attributes<DimensionsAttributes>().dimensions)));
    case Opcode::kReverse: {
      const auto along = OneLater(x->attributes<DimensionsAttributes>().dimensions);
      return b.Add(Opcode::kReverse, operands, DimensionsAttributes{b.Copy(along)});
    }
    case Opcode::kSlice: {
      const auto& slice = x->attributes<SliceAttributes>();
      return b.Slice(operands[0], Prepended(0, slice.starts), Prepended(rows_.parts, slice.limits),
                     Prepended(1, slice.strides));
    }
    case Opcode::kConcatenate:
      for (int64_t i = 0; i < x->operand_count(); ++i) all_parts(i, x->operand(i)->shape());
      return b.Concatenate(operands, x->attributes<DimensionsAttributes>().dimensions[0] + 1);
    case Opcode::kDynamicSlice:
      take_starts(1);
      return b.DynamicSlice(
          operands[0], starts,
          Prepended(rows_.parts, x->attributes<DynamicSliceAttributes>().slice_sizes));
    case Opcode::kDynamicUpdateSlice:
      all_parts(0, x->shape());
      all_parts(1, x->operand(1)->shape());
      take_starts(2);
      return b.DynamicUpdateSlice(operands[0], operands[1], starts);
    case Opcode::kReduce:
      return b.Reduce(operands[0], operands[1],
                      OneLater(x->attributes<DimensionsAttributes>().dimensions), x->called(0));
    default:  // elementwise
      for (int64_t i = 0; i < x->operand_count(); ++i) all_parts(i, x->shape());
      return b.CloneWith(x, operands, module_.context().Array(x->shape()->dtype(), dims));
  }
}

const Shape* PartValues::ShapeOf(const Shape* shape, const std::vector<bool>& own,
                                 size_t& leaf) const {
  if (shape->IsTuple()) {
    std::vector<const Shape*> elements;
    for (const Shape* element : shape->elements()) elements.push_back(ShapeOf(element, own, leaf));
    return module_.context().Tuple(elements);
  }
  if (!own[leaf++]) return shape;
  return module_.context().Array(shape->dtype(), Prepended(rows_.parts, shape->dims()));
}

Instruction* PartValues::CopyLoop(Builder& b, const Instruction* loop, Instruction* init) {
  size_t leaf = 0;
  const Shape* shape = ShapeOf(loop->shape(), Of(loop), leaf);
  init = Widened(b, init, shape);
  std::vector<Computation*> called;
  for (const Computation* old : loop->called()) {
    Computation* made = module_.AddComputation(old->name());
    Builder inner(module_, made);
    std::unordered_map<const Instruction*, Instruction*> value;
    for (Instruction* x : old->instructions()) {
      std::vector<Instruction*> operands;
      for (const Instruction* operand : x->operands()) operands.push_back(value.at(operand));
      value[x] = x->opcode() == Opcode::kParameter ? inner.Parameter(0, shape, x->name())
                                                   : Copy(x, operands, inner);
    }
    Instruction* root = value.at(old->root());
    made->set_root(old == loop->called(1) ? Widened(inner, root, shape) : root);
    called.push_back(made);
  }
  return b.Add(Opcode::kWhile, {&init, 1}, NoAttributes{}, shape, called, loop->name());
}

}  // namespace gshard::pipeline
