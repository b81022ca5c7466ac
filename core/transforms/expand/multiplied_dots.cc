#include "core/transforms/expand/multiplied_dots.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/dims.h"

namespace gshard {
namespace {

// An operand in every element of `product` that it is a factor of: the dims `first` come first
// there, its other dims from `next` on.
Instruction* Spread(Builder& builder, Instruction* operand, std::span<const int64_t> first,
                    int64_t next, const Shape* product) {
  std::vector<int64_t> order(first.begin(), first.end()), places(first.size());
  std::iota(places.begin(), places.end(), 0);
  for (int64_t dim = 0; dim < operand->shape()->rank(); ++dim) {
    if (Contains(first, dim)) continue;
    order.push_back(dim);
    places.push_back(next++);
  }
  operand = builder.Transpose(builder.Convert(operand, product->dtype()), order);
  return builder.Broadcast(operand, product->dims(), places);
}

// Batch dims, then what is summed over.
std::vector<int64_t> Joined(std::span<const int64_t> batch, std::span<const int64_t> contracting) {
  std::vector<int64_t> joined(batch.begin(), batch.end());
  joined.insert(joined.end(), contracting.begin(), contracting.end());
  return joined;
}

Instruction* Multiplied(Instruction* x, Rewriter& rewriter) {
  if (x->opcode() != Opcode::kDot) return x;
  const auto& dims = x->attributes<DotAttributes>();
  Builder& builder = rewriter.builder();
  Instruction *lhs = x->operand(0), *rhs = x->operand(1);
  const auto batch_size = static_cast<int64_t>(dims.lhs_batch.size());
  if (dims.lhs_contracting.empty()) {
    return builder.Binary(Opcode::kMultiply,
                          Spread(builder, lhs, dims.lhs_batch, batch_size, x->shape()),
                          Spread(builder, rhs, dims.rhs_batch, lhs->shape()->rank(), x->shape()));
  }
  const std::vector<int64_t> left = Joined(dims.lhs_batch, dims.lhs_contracting);
  const std::vector<int64_t> right = Joined(dims.rhs_batch, dims.rhs_contracting);
  const int64_t rank = lhs->shape()->rank();
  if (std::ssize(left) != rank || std::ssize(right) != rhs->shape()->rank()) return x;
  const DType type = x->shape()->dtype() == DType::kBF16 ? DType::kF32 : x->shape()->dtype();
  std::vector<int64_t> sizes;
  for (const int64_t dim : left) sizes.push_back(lhs->shape()->dim(dim));
  const Shape* product = builder.context().Array(type, sizes);
  Instruction* terms = builder.Binary(Opcode::kMultiply, Spread(builder, lhs, left, rank, product),
                                      Spread(builder, rhs, right, rank, product));
  std::vector<int64_t> summed(dims.lhs_contracting.size());
  std::iota(summed.begin(), summed.end(), batch_size);
  Instruction* sum = builder.Reduce(terms, builder.Zero(builder.context().Array(type, {})), summed,
                                    builder.BinaryComputation(Opcode::kAdd, type));
  return builder.Convert(sum, x->shape()->dtype());
}

}  // namespace

bool MultiplyDots(Module& module) { return RewriteModule(module, Multiplied); }

}  // namespace gshard
