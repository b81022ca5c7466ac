// Contractions: the adjoint of one factor is the adjoint of the product contracted with the other.
//
//   y[m,n] = dot(a[m,k], b[k,n])
//     adjoint of a: dot(c[m,n], b[k,n]) over n
//     adjoint of b: dot(c[m,n], a[m,k]) over m

#include "core/autodiff/emit.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {
namespace {

bool IsWider(DType a, DType b) { return DTypeBits(a) > DTypeBits(b); }

// The adjoint of operand `side`, from the adjoint c of the result (batch, lhs free, rhs free dims).
Instruction* DotAdjoint(Instruction* x, int64_t side, Instruction* c, ReverseScope& scope) {
  Builder& b = scope.builder();
  const auto& dot = x->attributes<DotAttributes>();
  Dims batch = side == 0 ? dot.lhs_batch : dot.rhs_batch;
  Dims contracting = side == 0 ? dot.lhs_contracting : dot.rhs_contracting;
  Dims other_batch = side == 0 ? dot.rhs_batch : dot.lhs_batch;
  Dims other_contracting = side == 0 ? dot.rhs_contracting : dot.lhs_contracting;
  const Shape* shape = x->operand(side)->shape();
  const Shape* other_shape = x->operand(1 - side)->shape();
  const std::vector<int64_t> free = FreeDims(shape->rank(), batch, contracting);
  const std::vector<int64_t> other_free =
      FreeDims(other_shape->rank(), other_batch, other_contracting);

  std::vector<int64_t> c_batch, c_contracting;
  for (size_t i = 0; i < batch.size(); ++i) c_batch.push_back(static_cast<int64_t>(i));
  const size_t first = batch.size() + (side == 0 ? free.size() : 0);
  for (size_t i = 0; i < other_free.size(); ++i) {
    c_contracting.push_back(static_cast<int64_t>(first + i));
  }
  DotAttributes attributes;
  attributes.lhs_batch = b.Copy(c_batch);
  attributes.lhs_contracting = b.Copy(c_contracting);
  attributes.rhs_batch = other_batch;
  attributes.rhs_contracting = b.Copy(other_free);
  if (dot.precision.size() == 2) {
    const Precision precision[] = {dot.precision[At(side)], dot.precision[At(1 - side)]};
    attributes.precision = scope.module().arena().Copy(std::span<const Precision>(precision));
  }
  attributes.algorithm = dot.algorithm;

  // Both factors in the wider type; the result is rounded once.
  Instruction* other = scope.Value(x->operand(1 - side));
  const DType wide = IsWider(other->shape()->dtype(), c->shape()->dtype()) ? other->shape()->dtype()
                                                                           : c->shape()->dtype();
  other = b.Convert(other, wide);
  c = b.Convert(c, wide);
  // Result dims: batch, free, then the contracting dims in the order the other factor has them.
  std::vector<int64_t> order(batch.begin(), batch.end());
  order.insert(order.end(), free.begin(), free.end());
  for (int64_t d : FreeDims(other_shape->rank(), other_batch, other_free)) {
    order.push_back(
        contracting[At(std::ranges::find(other_contracting, d) - other_contracting.begin())]);
  }
  std::vector<int64_t> sizes, permutation(order.size());
  for (size_t i = 0; i < order.size(); ++i) {
    sizes.push_back(shape->dim(order[i]));
    permutation[At(order[i])] = static_cast<int64_t>(i);
  }
  Instruction* operands[] = {c, other};
  Instruction* result = b.Add(Opcode::kDot, operands, attributes, b.context().Array(wide, sizes));
  return b.Convert(b.Transpose(result, permutation), shape->dtype());
}

// Dims of the result of a dot by what they are: kinds of dims follow one another.
std::vector<int64_t> Numbered(size_t first, size_t count) {
  std::vector<int64_t> dims;
  for (size_t i = 0; i < count; ++i) dims.push_back(static_cast<int64_t>(first + i));
  return dims;
}

// ragged-dot of c and another array, or the other way round, laid out like `shape`: dims `order` of
// it are those of the product.
struct RaggedProduct {
  Instruction *lhs, *rhs, *sizes;
  DotAttributes dims;
  std::vector<int64_t> order;
};

Instruction* MakeRagged(Builder& b, RaggedProduct product, const Shape* shape) {
  const DType wide = IsWider(product.lhs->shape()->dtype(), product.rhs->shape()->dtype())
                         ? product.lhs->shape()->dtype()
                         : product.rhs->shape()->dtype();
  std::vector<int64_t> sizes, permutation(product.order.size());
  for (size_t i = 0; i < product.order.size(); ++i) {
    sizes.push_back(shape->dim(product.order[i]));
    permutation[At(product.order[i])] = static_cast<int64_t>(i);
  }
  DotAttributes& dims = product.dims;
  for (Dims* list : {&dims.lhs_batch, &dims.rhs_batch, &dims.lhs_contracting, &dims.rhs_contracting,
                     &dims.lhs_ragged, &dims.rhs_group}) {
    *list = b.Copy(*list);
  }
  Instruction* operands[] = {b.Convert(product.lhs, wide), b.Convert(product.rhs, wide),
                             product.sizes};
  Instruction* result = b.Add(Opcode::kRaggedDot, operands, dims, b.context().Array(wide, sizes));
  return b.Convert(b.Transpose(result, permutation), shape->dtype());
}

void Append(std::vector<int64_t>& to, std::span<const int64_t> dims) {
  to.insert(to.end(), dims.begin(), dims.end());
}

// The dims of one factor paired with those of the other, in ascending order of the latter.
std::vector<int64_t> PairedInOrder(Dims of, Dims other) {
  std::vector<std::pair<int64_t, int64_t>> pairs;
  for (size_t i = 0; i < of.size(); ++i) pairs.emplace_back(other[i], of[i]);
  std::ranges::sort(pairs);
  std::vector<int64_t> dims;
  for (const auto& [unused, dim] : pairs) dims.push_back(dim);
  return dims;
}

// Ragged free dim: y[m,n] = a[m,k] b[g(m),k,n]. a += ragged(c[m,n], b) over n;
// b[g,k,n] += ragged(a, c) over the rows m of group g.
void GradRaggedFree(Instruction* x, Instruction* c, ReverseScope& scope) {
  const auto& dot = x->attributes<DotAttributes>();
  Instruction* lhs = x->operand(0);
  Instruction* rhs = x->operand(1);
  Instruction* sizes = scope.Value(x->operand(2));
  const size_t batch = dot.lhs_batch.size();
  const std::vector<int64_t> lhs_free =
      FreeDims(lhs->shape()->rank(), dot.lhs_batch, dot.lhs_contracting);
  std::vector<int64_t> rhs_batch_and_group(dot.rhs_batch.begin(), dot.rhs_batch.end());
  Append(rhs_batch_and_group, dot.rhs_group);
  const std::vector<int64_t> rhs_free =
      FreeDims(rhs->shape()->rank(), rhs_batch_and_group, dot.rhs_contracting);
  const std::vector<int64_t> c_batch = Numbered(0, batch);
  const std::vector<int64_t> c_lhs = Numbered(batch, lhs_free.size());
  const std::vector<int64_t> c_rhs = Numbered(batch + lhs_free.size(), rhs_free.size());
  const int64_t ragged[] = {
      c_lhs[At(std::ranges::find(lhs_free, dot.lhs_ragged[0]) - lhs_free.begin())]};
  if (scope.Wants(lhs)) {
    DotAttributes dims;
    dims.lhs_batch = c_batch, dims.rhs_batch = dot.rhs_batch;
    dims.lhs_contracting = c_rhs, dims.rhs_contracting = rhs_free;
    dims.lhs_ragged = ragged, dims.rhs_group = dot.rhs_group;
    std::vector<int64_t> order(dot.lhs_batch.begin(), dot.lhs_batch.end());
    Append(order, lhs_free);
    Append(order, PairedInOrder(dot.lhs_contracting, dot.rhs_contracting));
    scope.Add(lhs,
              MakeRagged(scope.builder(), {c, scope.Value(rhs), sizes, dims, order}, lhs->shape()));
  }
  if (scope.Wants(rhs)) {
    DotAttributes dims;
    dims.lhs_batch = dot.lhs_batch, dims.rhs_batch = c_batch;
    dims.lhs_contracting = lhs_free, dims.rhs_contracting = c_lhs;
    dims.lhs_ragged = dot.lhs_ragged;
    std::vector<int64_t> order(dot.rhs_group.begin(), dot.rhs_group.end());
    Append(order, dot.rhs_batch);
    Append(order, PairedInOrder(dot.rhs_contracting, dot.lhs_contracting));
    Append(order, rhs_free);
    scope.Add(rhs,
              MakeRagged(scope.builder(), {scope.Value(lhs), c, sizes, dims, order}, rhs->shape()));
  }
}

// Ragged contracting dim: y[g,k,n] = a[m,k] b[m,n] over the rows m of group g.
// a += ragged(b, c[g(m),k,n]) over n; b += ragged(a, c) over k.
void GradRaggedContracting(Instruction* x, Instruction* c, ReverseScope& scope) {
  const auto& dot = x->attributes<DotAttributes>();
  const size_t batch = dot.lhs_batch.size();
  const std::vector<int64_t> lhs_free =
      FreeDims(x->operand(0)->shape()->rank(), dot.lhs_batch, dot.lhs_contracting);
  const std::vector<int64_t> rhs_free =
      FreeDims(x->operand(1)->shape()->rank(), dot.rhs_batch, dot.rhs_contracting);
  const std::vector<int64_t> c_lhs = Numbered(batch + 1, lhs_free.size());
  const std::vector<int64_t> c_rhs = Numbered(batch + 1 + lhs_free.size(), rhs_free.size());
  const std::vector<int64_t> c_batch = Numbered(1, batch);
  const int64_t group[] = {0};
  const size_t at =
      At(std::ranges::find(dot.lhs_contracting, dot.lhs_ragged[0]) - dot.lhs_contracting.begin());
  const int64_t lhs_ragged[] = {dot.lhs_contracting[at]};
  const int64_t rhs_ragged[] = {dot.rhs_contracting[at]};
  for (int64_t side : {0, 1}) {
    if (!scope.Wants(x->operand(side))) continue;
    const bool left = side == 0;
    Dims own = left ? dot.lhs_contracting : dot.rhs_contracting;
    Dims other = left ? dot.rhs_contracting : dot.lhs_contracting;
    DotAttributes dims;
    dims.lhs_batch = left ? dot.rhs_batch : dot.lhs_batch;
    dims.rhs_batch = c_batch;
    dims.lhs_contracting = left ? rhs_free : lhs_free;
    dims.rhs_contracting = left ? c_rhs : c_lhs;
    dims.lhs_ragged = left ? rhs_ragged : lhs_ragged;
    dims.rhs_group = group;
    Dims own_batch = left ? dot.lhs_batch : dot.rhs_batch;
    std::vector<int64_t> order(own_batch.begin(), own_batch.end());
    Append(order, PairedInOrder(own, other));
    Append(order, left ? lhs_free : rhs_free);
    Instruction* factor = scope.Value(x->operand(1 - side));
    scope.Add(x->operand(side),
              MakeRagged(scope.builder(), {factor, c, scope.Value(x->operand(2)), dims, order},
                         x->operand(side)->shape()));
  }
}

// Every scale over its block, times the array.
Instruction* Scaled(Builder& b, Instruction* x, Instruction* scale, DType dtype) {
  const Shape* shape = x->shape();
  const Shape* blocks = scale->shape();
  Instruction* factor = b.Convert(scale, dtype);
  if (blocks->rank() == 0) {
    factor = b.BroadcastScalar(factor, shape->dims());
  } else {
    std::vector<int64_t> dims, places;
    for (int64_t d = 0; d < shape->rank(); ++d) {
      places.push_back(static_cast<int64_t>(dims.size()));
      dims.push_back(blocks->dim(d));
      dims.push_back(blocks->dim(d) == 0 ? 1 : shape->dim(d) / blocks->dim(d));
    }
    factor = b.Reshape(b.Broadcast(factor, dims, places), shape->dims());
  }
  return b.Multiply(b.Convert(x, dtype), factor);
}

}  // namespace

Expected<void> GradDot(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  for (int64_t side : {0, 1}) {
    if (scope.Wants(x->operand(side))) {
      scope.Add(x->operand(side), DotAdjoint(x, side, adjoints[0], scope));
    }
  }
  return {};
}

// Rows by group; a ragged batch dim makes no difference.
Expected<void> GradRaggedDot(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const auto& dot = x->attributes<DotAttributes>();
  if (Contains(dot.lhs_batch, dot.lhs_ragged[0])) return GradDot(x, adjoints, scope);
  if (Contains(dot.lhs_contracting, dot.lhs_ragged[0])) {
    GradRaggedContracting(x, adjoints[0], scope);
  } else {
    GradRaggedFree(x, adjoints[0], scope);
  }
  return {};
}

// dot(a * scale_a, b * scale_b).
Expected<void> GradScaledDot(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  return scope.DifferentiateExpansion(
      x, adjoints,
      [&](Builder& b, std::span<const std::vector<Instruction*>> operands)
          -> Expected<std::vector<Instruction*>> {
        const DType result = x->shape()->dtype();
        const DType wide = IsWider(DType::kF32, result) ? DType::kF32 : result;
        Instruction* factors[] = {Scaled(b, operands[0][0], operands[2][0], wide),
                                  Scaled(b, operands[1][0], operands[3][0], wide)};
        Instruction* product = b.Add(Opcode::kDot, factors, x->attributes<DotAttributes>(),
                                     b.context().Array(wide, x->shape()->dims()));
        return std::vector<Instruction*>{b.Convert(product, result)};
      });
}

}  // namespace gshard
