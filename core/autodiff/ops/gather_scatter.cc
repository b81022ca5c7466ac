// gather: the adjoint is scattered to where elements came from. scatter: the adjoint of an update
// is gathered from where it went.
//
//   y = gather(x, i)                 x += scatter-add(c at clamp(i))
//   y = scatter(x, i, u), add        x += c,  u += gather(c, i) where the window is inside
//   y = scatter(x, i, u), replace    x += c but at i,  u += the same of the updates that won
//   multiply, maximum, minimum       by counting zeros and equals
//   other combiners                  a loop over the updates, differentiated as such

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "core/autodiff/combiners.h"
#include "core/autodiff/emit.h"
#include "core/autodiff/expansion.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {
namespace {

int64_t LargestOf(DType dtype) {
  const int bits = DTypeBits(dtype) - (ClassOf(dtype) == DTypeClass::kSigned ? 1 : 0);
  return bits >= 63 ? std::numeric_limits<int64_t>::max() : (int64_t{1} << bits) - 1;
}

// limits[k] for component k of the index vectors, in the shape of `indices` or as a scalar.
Instruction* Limits(Builder& b, const Shape* indices, int64_t vector_dim,
                    std::vector<int64_t> limits) {
  const DType dtype = indices->dtype();
  for (int64_t& limit : limits) limit = std::min(limit, LargestOf(dtype));
  if (std::ranges::all_of(limits, [&](int64_t limit) { return limit == limits[0]; })) {
    return b.ScalarInt(dtype, limits.empty() ? 0 : limits[0]);
  }
  const int64_t dimensions[] = {vector_dim};
  return b.Broadcast(b.IntegerTable(dtype, limits), indices->dims(), dimensions);
}

Instruction* Whole(Builder& b, Instruction* x, Dims dims) {
  return x->shape()->rank() == 0 ? b.BroadcastScalar(x, dims) : x;
}

// The starts that gather uses.
Instruction* ClampedStarts(Instruction* x, ReverseScope& scope) {
  Builder& b = scope.builder();
  const auto& gather = x->attributes<GatherAttributes>();
  Instruction* indices = scope.Value(x->operand(1));
  std::vector<int64_t> limits;
  for (int64_t d : gather.start_index_map) {
    limits.push_back(x->operand(0)->shape()->dim(d) - gather.slice_sizes[At(d)]);
  }
  if (limits.empty()) return indices;
  Instruction* high = Limits(b, indices->shape(), gather.index_vector_dim, std::move(limits));
  Instruction* low = b.ScalarInt(indices->shape()->dtype(), 0);
  if (high->shape()->rank() != 0) low = Whole(b, low, indices->shape()->dims());
  return b.Clamp(low, indices, high);
}

// --- scatter

// How one of a scatter's arrays is combined.
enum class Update : uint8_t { kAdd, kReplace, kMultiply, kMaximum, kMinimum, kOther };

Update UpdateOf(const Instruction* x, size_t k, size_t count) {
  const Computation& combiner = *x->called(0);
  if (count == 1) {
    const Instruction* root = combiner.root();
    while (root->opcode() == Opcode::kConvert || root->opcode() == Opcode::kCopy) {
      root = root->operand(0);
    }
    if (root == combiner.parameter(1)) return Update::kReplace;
    const std::optional<Opcode> opcode = ReductionOf(combiner);
    if (opcode == Opcode::kAdd) return Update::kAdd;
    if (opcode == Opcode::kMultiply) return Update::kMultiply;
    if (opcode == Opcode::kMaximum) return Update::kMaximum;
    if (opcode == Opcode::kMinimum) return Update::kMinimum;
    return Update::kOther;
  }
  const Instruction* root = combiner.root();
  if (root->opcode() != Opcode::kTuple) return Update::kOther;
  const Instruction* element = root->operand(static_cast<int64_t>(k));
  const Instruction* old = combiner.parameter(static_cast<int64_t>(k));
  const Instruction* update = combiner.parameter(static_cast<int64_t>(count + k));
  if (element == update) return Update::kReplace;
  const bool both = element->operand_count() == 2 &&
                    ((element->operand(0) == old && element->operand(1) == update) ||
                     (element->operand(0) == update && element->operand(1) == old));
  if (both && element->opcode() == Opcode::kAdd) return Update::kAdd;
  return Update::kOther;
}

class ScatterReversal {
 public:
  ScatterReversal(Instruction* x, ReverseScope& scope)
      : scope_(scope),
        b_(scope.builder()),
        e_(scope.builder()),
        scatter_(x->attributes<ScatterAttributes>()),
        count_(At(x->operand_count() / 2)),
        indices_(scope.Value(x->operand(static_cast<int64_t>(count_)))),
        operand_dims_(x->operand(0)->shape()->dims()),
        update_dims_(x->operand(static_cast<int64_t>(count_) + 1)->shape()->dims()) {
    size_t window = 0;
    for (int64_t d = 0; d < static_cast<int64_t>(operand_dims_.size()); ++d) {
      const bool is_one =
          Contains(scatter_.inserted_window_dims, d) || Contains(scatter_.input_batching_dims, d);
      slice_sizes_.push_back(is_one ? 1 : update_dims_[At(scatter_.update_window_dims[window++])]);
    }
  }

  // x at the places of the updates; zero where a window is not inside.
  Instruction* Gather(Instruction* x) { return e_.Where(Inside(), RawGather(x)); }

  Instruction* Scatter(Instruction* x, Instruction* updates, Opcode opcode) {
    return Scatter(x, updates, b_.BinaryComputation(opcode, x->shape()->dtype()));
  }
  Instruction* Scatter(Instruction* x, Instruction* updates, Computation* combiner) {
    Instruction* operands[] = {x, indices_, updates};
    Computation* called[] = {combiner};
    return b_.Add(Opcode::kScatter, operands, scatter_, x->shape()->bare(), called);
  }
  Instruction* Replace(Instruction* x, Instruction* updates) {
    const DType dtype = x->shape()->dtype();
    std::string name = "replace_";
    name += DTypeName(dtype);
    Computation* second = scope_.module().AddComputation(name);
    Builder body(scope_.module(), second);
    const Shape* scalar = b_.context().Scalar(dtype);
    body.Parameter(0, scalar, "a");
    second->set_root(body.Parameter(1, scalar, "b"));
    return Scatter(x, updates, second);
  }

  bool has_unique_indices() const { return scatter_.unique_indices; }
  Dims update_dims() const { return update_dims_; }
  Dims operand_dims() const { return operand_dims_; }

 private:
  Instruction* RawGather(Instruction* x) {
    GatherAttributes gather;
    gather.offset_dims = scatter_.update_window_dims;
    gather.collapsed_slice_dims = scatter_.inserted_window_dims;
    gather.start_index_map = scatter_.scatter_dims_to_operand_dims;
    gather.operand_batching_dims = scatter_.input_batching_dims;
    gather.start_indices_batching_dims = scatter_.scatter_indices_batching_dims;
    gather.index_vector_dim = scatter_.index_vector_dim;
    gather.slice_sizes = b_.Copy(slice_sizes_);
    gather.indices_are_sorted = scatter_.indices_are_sorted;
    Instruction* operands[] = {x, indices_};
    return b_.Add(Opcode::kGather, operands, gather);
  }

  // Is the window of an update inside the operand? pred in the dims of the updates.
  Instruction* Inside() {
    if (inside_ != nullptr) return inside_;
    const Shape* shape = indices_->shape();
    std::vector<int64_t> limits;
    for (int64_t d : scatter_.scatter_dims_to_operand_dims) {
      limits.push_back(operand_dims_[At(d)] - slice_sizes_[At(d)]);
    }
    Instruction* ok = nullptr;
    if (limits.empty()) {
      ok = b_.Scalar(DType::kPred, 1);
      return inside_ = b_.BroadcastScalar(ok, update_dims_);
    }
    Instruction* high =
        Whole(b_, Limits(b_, shape, scatter_.index_vector_dim, limits), shape->dims());
    ok = b_.Compare(ComparisonDirection::kLe, indices_, high);
    if (ClassOf(shape->dtype()) == DTypeClass::kSigned) {
      Instruction* zero = b_.Zero(shape->bare());
      ok = b_.And(ok, b_.Compare(ComparisonDirection::kGe, indices_, zero));
    }
    if (scatter_.index_vector_dim < shape->rank()) {
      const int64_t over[] = {scatter_.index_vector_dim};
      ok = b_.Reduce(ok, b_.Scalar(DType::kPred, 1), over,
                     b_.BinaryComputation(Opcode::kAnd, DType::kPred));
    }
    std::vector<int64_t> places;
    for (int64_t d = 0; d < static_cast<int64_t>(update_dims_.size()); ++d) {
      if (!Contains(scatter_.update_window_dims, d)) places.push_back(d);
    }
    return inside_ = b_.Broadcast(ok, update_dims_, places);
  }

  ReverseScope& scope_;
  Builder& b_;
  Emit e_;
  const ScatterAttributes& scatter_;
  size_t count_;
  Instruction* indices_;
  Dims operand_dims_, update_dims_;
  std::vector<int64_t> slice_sizes_;
  Instruction* inside_ = nullptr;
};

void GradReplace(Instruction* operand, Instruction* update, Instruction* c, ReverseScope& scope,
                 ScatterReversal& r) {
  Builder& b = scope.builder();
  const Emit e(b);
  if (scope.Wants(operand)) {
    Instruction* zeros = b.Zero(b.context().Array(c->shape()->dtype(), r.update_dims()));
    scope.Add(operand, r.Replace(c, zeros));
  }
  if (!scope.Wants(update)) return;
  Instruction* gathered = r.Gather(c);
  if (!r.has_unique_indices()) {
    // Several updates of one place: the one whose number is found there won.
    const Shape* shape = b.context().Array(DType::kS32, r.update_dims());
    const int64_t flat[] = {shape->element_count()};
    Instruction* number = b.Reshape(b.Iota(b.context().Array(DType::kS32, flat), 0), shape->dims());
    Instruction* none = b.BroadcastScalar(b.ScalarInt(DType::kS32, -1), r.operand_dims());
    Instruction* winner = r.Gather(r.Replace(none, number));
    gathered = e.Where(e.Equal(winner, number), gathered);
  }
  scope.Add(update, gathered);
}

void GradScatterProduct(Instruction* operand, Instruction* update, Instruction* c,
                        ReverseScope& scope, ScatterReversal& r) {
  Builder& b = scope.builder();
  const Emit e(b);
  Instruction* x = scope.Value(operand);
  Instruction* u = scope.Value(update);
  Instruction* ones = e.Like(x, 1);
  if (scope.Wants(operand)) {
    scope.Add(operand, e.Mul(c, r.Scatter(ones, u, Opcode::kMultiply)));
  }
  if (!scope.Wants(update)) return;
  if (r.has_unique_indices()) {
    scope.Add(update, r.Gather(e.Mul(c, x)));
    return;
  }
  Instruction* is_zero = e.Equal(u, e.Like(u, 0));
  Instruction* nonzero = b.Select(is_zero, e.Like(u, 1), u);
  const DType dtype = u->shape()->dtype();
  Instruction* zeros =
      r.Scatter(b.Zero(x->shape()->bare()), b.Convert(is_zero, dtype), Opcode::kAdd);
  Instruction* product = e.Mul(e.Mul(c, x), r.Scatter(ones, nonzero, Opcode::kMultiply));
  Instruction* none = r.Gather(e.Where(e.Equal(zeros, e.Like(zeros, 0)), product));
  Instruction* one = r.Gather(e.Where(e.Equal(zeros, e.Like(zeros, 1)), product));
  scope.Add(update, b.Select(is_zero, one, e.Div(none, nonzero)));
}

void GradScatterExtremum(Instruction* x, Instruction* operand, Instruction* update, Instruction* c,
                         ReverseScope& scope, ScatterReversal& r) {
  Builder& b = scope.builder();
  const Emit e(b);
  Instruction* y = scope.Value(x);
  const DType dtype = y->shape()->dtype();
  Instruction* old_best = b.Convert(e.Equal(scope.Value(operand), y), dtype);
  Instruction* best = b.Convert(e.Equal(scope.Value(update), r.Gather(y)), dtype);
  Instruction* share = e.Div(c, r.Scatter(old_best, best, Opcode::kAdd));
  if (scope.Wants(operand)) scope.Add(operand, e.Mul(old_best, share));
  if (scope.Wants(update)) scope.Add(update, e.Mul(best, r.Gather(share)));
}

// for every update, row-major: old elements = f(old elements, the update). Places are numbered by a
// scatter of the identity, so that windows of any form become single elements.
Expected<void> GradScatterFold(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const size_t count = At(x->operand_count() / 2);
  const int64_t n = x->operand(0)->shape()->element_count();
  const Shape* updates = x->operand(static_cast<int64_t>(count) + 1)->shape();
  ScatterReversal r(x, scope);
  Builder& outer = scope.builder();
  // Where each update goes in the flat operand, counted from 1; 0 where it goes nowhere.
  const int64_t flat[] = {n};
  Instruction* number =
      outer.Reshape(outer.Add(outer.Iota(outer.context().Array(DType::kS32, flat), 0),
                              outer.BroadcastScalar(outer.ScalarInt(DType::kS32, 1), flat)),
                    x->operand(0)->shape()->dims());
  const int64_t line[] = {updates->element_count()};
  Instruction* target = outer.Reshape(r.Gather(number), line);
  return scope.DifferentiateExpansion(
      x, adjoints,
      [&](Builder& b, std::span<const std::vector<Instruction*>> operands)
          -> Expected<std::vector<Instruction*>> {
        std::vector<Instruction*> state;
        // Element 0 takes what goes nowhere.
        for (size_t k = 0; k < count; ++k) {
          Instruction* old = b.Reshape(operands[k][0], flat);
          state.push_back(b.PadDimension(old, b.Scalar(old->shape()->dtype(), 0), 0, 1, 0));
        }
        for (size_t k = 0; k < count; ++k) {
          state.push_back(b.Reshape(operands[count + 1 + k][0], line));
        }
        state.push_back(target);
        auto body = [&](Builder& inside, Instruction* i,
                        std::span<Instruction* const> s) -> Expected<std::vector<Instruction*>> {
          Instruction* at = ElementAt(inside, s[2 * count], i);
          std::vector<Instruction*> arguments;
          for (size_t k = 0; k < count; ++k) arguments.push_back(ElementAt(inside, s[k], at));
          for (size_t k = 0; k < count; ++k) {
            arguments.push_back(ElementAt(inside, s[count + k], i));
          }
          auto next = LiftComputation(inside, *x->called(0), arguments);
          if (!next) return next;
          for (size_t k = 0; k < count; ++k) {
            (*next)[k] = WithElementAt(inside, s[k], (*next)[k], at);
          }
          next->insert(next->end(), s.begin() + static_cast<std::ptrdiff_t>(count), s.end());
          return next;
        };
        auto results = BuildLoop(b, updates->element_count(), state, body);
        if (!results) return results;
        results->resize(count);
        for (Instruction*& result : *results) {
          result = b.Reshape(b.SliceDim(result, 0, 1, n + 1), x->operand(0)->shape()->dims());
        }
        return results;
      });
}

}  // namespace

Expected<void> GradGather(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  if (x->shape()->element_count() == 0) return {};
  Builder& b = scope.builder();
  const auto& gather = x->attributes<GatherAttributes>();
  Instruction* operand = x->operand(0);
  ScatterAttributes scatter;
  scatter.update_window_dims = gather.offset_dims;
  scatter.inserted_window_dims = gather.collapsed_slice_dims;
  scatter.scatter_dims_to_operand_dims = gather.start_index_map;
  scatter.input_batching_dims = gather.operand_batching_dims;
  scatter.scatter_indices_batching_dims = gather.start_indices_batching_dims;
  scatter.index_vector_dim = gather.index_vector_dim;
  scatter.indices_are_sorted = gather.indices_are_sorted && gather.start_index_map.size() == 1;
  Instruction* operands[] = {scope.AdjointOrZero(operand), ClampedStarts(x, scope), adjoints[0]};
  Computation* add[] = {b.BinaryComputation(Opcode::kAdd, x->shape()->dtype())};
  scope.SetAdjoint(operand,
                   b.Add(Opcode::kScatter, operands, scatter, operand->shape()->bare(), add));
  return {};
}

Expected<void> GradScatter(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const size_t count = At(x->operand_count() / 2);
  const bool is_empty = x->operand(0)->shape()->element_count() == 0;
  if (is_empty || x->operand(static_cast<int64_t>(count) + 1)->shape()->element_count() == 0) {
    // Nothing goes anywhere.
    for (size_t k = 0; k < count; ++k) scope.Add(x->operand(static_cast<int64_t>(k)), adjoints[k]);
    return {};
  }
  std::vector<Update> updates;
  for (size_t k = 0; k < count; ++k) updates.push_back(UpdateOf(x, k, count));
  if (std::ranges::find(updates, Update::kOther) != updates.end()) {
    return GradScatterFold(x, adjoints, scope);
  }
  ScatterReversal r(x, scope);
  for (size_t k = 0; k < count; ++k) {
    Instruction* c = adjoints[k];
    if (c == nullptr) continue;
    Instruction* operand = x->operand(static_cast<int64_t>(k));
    Instruction* update = x->operand(static_cast<int64_t>(count + 1 + k));
    switch (updates[k]) {
      case Update::kAdd:
        scope.Add(operand, c);
        if (scope.Wants(update)) scope.Add(update, r.Gather(c));
        break;
      case Update::kReplace:
        GradReplace(operand, update, c, scope, r);
        break;
      case Update::kMultiply:
        GradScatterProduct(operand, update, c, scope, r);
        break;
      default:
        GradScatterExtremum(x, operand, update, c, scope, r);
        break;
    }
  }
  return {};
}

}  // namespace gshard
