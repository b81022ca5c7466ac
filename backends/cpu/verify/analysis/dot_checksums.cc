// Candidates that are products are replaced in a copy of the graph.
#include "backends/cpu/verify/analysis/dot_checksums.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "core/propagation/dot_dims.h"
#include "core/transforms/rewriter.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kLeastFlops = int64_t{1} << 24;
constexpr int64_t kLeastDepth = 32;  // of FLOPs for each element that is read or written
constexpr int64_t kMostColumns = 32, kLeastColumns = 8;  // of a block

// The dims of an operand, one after another in both, that are cut into blocks of columns together.
struct Blocks {
  int64_t operand = 0, dim = 0, output_dim = 0, count = 0, columns = 0;
};

int64_t SizeOf(const Shape& shape, int64_t dim, int64_t count) {
  int64_t size = 1;
  for (int64_t d = dim; d < dim + count; ++d) size *= shape.dim(d);
  return size;
}

int64_t ColumnsOf(int64_t size) {
  int64_t columns = std::min(size, kMostColumns);
  while (size % columns != 0) --columns;
  return columns;
}

// Rows stay together: of the second operand the innermost dims, which are those of the product,
// else the dim that is innermost in the product.
std::optional<Blocks> BlocksOf(const Instruction& x) {
  const DotDims dims = DotDimsOf(x);
  const Shape& rhs = *x.operand(1)->shape();
  const auto is_free = [&](int64_t dim) {
    return std::ranges::any_of(dims.rhs_free, [&](const auto& d) { return d.rhs == dim; });
  };
  int64_t count = 0;
  while (count < rhs.rank() && is_free(rhs.rank() - 1 - count)) ++count;
  Blocks blocks{1, rhs.rank() - count, x.shape()->rank() - count, count, 0};
  if (count > 0) blocks.columns = ColumnsOf(SizeOf(rhs, blocks.dim, count));
  if (blocks.columns >= kLeastColumns) return blocks;
  std::optional<Blocks> best;
  for (const auto* free : {&dims.lhs_free, &dims.rhs_free}) {
    for (const DotDims::Dim& d : *free) {
      const bool is_lhs = free == &dims.lhs_free;
      blocks = {is_lhs ? 0 : 1, is_lhs ? d.lhs : d.rhs, d.output, 1, 0};
      blocks.columns = ColumnsOf(x.shape()->dim(d.output));
      if (blocks.columns < kLeastColumns) continue;
      if (!best || blocks.output_dim > best->output_dim) best = blocks;
    }
  }
  return best;
}

int64_t FlopsOf(const Instruction& x) {
  int64_t depth = 1;
  for (const int64_t d : x.attributes<DotAttributes>().lhs_contracting) {
    depth *= x.operand(0)->shape()->dim(d);
  }
  return 2 * depth * x.shape()->element_count();
}

// That sums of such numbers are taken in; nothing: of no such ones.
std::optional<DType> TypeOfSums(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return DType::kF64;
    case DType::kF32:
    case DType::kF16:
    case DType::kBF16:
      return DType::kF32;
    default:
      return std::nullopt;
  }
}

bool IsLargeProduct(const Candidate& candidate) {
  const Instruction& x = *candidate.x;
  if (x.opcode() != Opcode::kDot || candidate.stride_in_iterations != 1) return false;
  const std::optional<DType> sums = TypeOfSums(x.shape()->dtype());
  int64_t elements = x.shape()->element_count();
  for (const Instruction* operand : x.operands()) {
    if (!sums || TypeOfSums(operand->shape()->dtype()) != sums) return false;
    elements += operand->shape()->element_count();
  }
  return FlopsOf(x) >= std::max(kLeastFlops, kLeastDepth * elements) && BlocksOf(x).has_value();
}

// Does every device sum over whole rows?
bool SumsAlike(const Candidate& candidate) {
  const Instruction &x = *candidate.x, &local = *candidate.form->local;
  return local.opcode() == Opcode::kDot &&
         FlopsOf(x) / x.shape()->element_count() ==
             FlopsOf(local) / std::max<int64_t>(1, local.shape()->element_count());
}

// Of magnitude one or so, no two alike and of either sign, so that elements that have changed
// places, or cancel each other, do not hide.
Instruction* Weights(Builder& builder, DType dtype, int64_t count) {
  std::vector<int64_t> weights;
  for (int64_t i = 0; i < count; ++i) {
    const int64_t magnitude = 48 + (i * 13) % 32;  // 13 and 32 have no common factor
    weights.push_back((i * i / 3 + i) % 2 == 0 ? magnitude : -magnitude);
  }
  Instruction* table = builder.Convert(builder.IntegerTable(DType::kS32, weights), dtype);
  const int64_t dims[] = {count};
  return builder.Multiply(table, builder.BroadcastScalar(builder.Scalar(dtype, 1.0 / 64), dims));
}

// The sums of x's elements by block of `count` dims together.
Instruction* SumsOfBlocks(Builder& builder, Instruction* x, int64_t dim, const Blocks& blocks,
                          Instruction* weights) {
  const Dims all = x->shape()->dims();
  std::vector<int64_t> dims(all.begin(), all.begin() + dim);
  dims.push_back(SizeOf(*x->shape(), dim, blocks.count) / blocks.columns);
  dims.push_back(blocks.columns);
  dims.insert(dims.end(), all.begin() + dim + blocks.count, all.end());
  const int64_t lhs[] = {dim + 1}, rhs[] = {0};
  DotAttributes attributes;
  attributes.lhs_contracting = builder.Copy(lhs);
  attributes.rhs_contracting = builder.Copy(rhs);
  Instruction* const operands[] = {builder.Reshape(x, dims), weights};
  return builder.Add(Opcode::kDot, operands, attributes);
}

// What stands where the mesh's product will: one of the terms that it sums.
Instruction* StandIn(Builder& builder, const Instruction& x) {
  const auto& attributes = x.attributes<DotAttributes>();
  const auto first = [&](Instruction* operand, Dims contracting) {
    for (const int64_t dim : contracting) operand = builder.SliceDim(operand, dim, 0, 1);
    return operand;
  };
  Instruction* const operands[] = {first(x.operand(0), attributes.lhs_contracting),
                                   first(x.operand(1), attributes.rhs_contracting)};
  return builder.CloneWith(&x, operands, x.shape());
}

class Checksummer {
 public:
  Checksummer(const Module& whole, std::span<const Candidate> candidates)
      : graph_{whole.Clone(), {}, {}}, stand_ins_(whole.instruction_limit(), nullptr) {
    for (size_t i = 0; i < candidates.size(); ++i) {
      if (IsLargeProduct(candidates[i])) candidate_of_.emplace(candidates[i].x->id(), i);
    }
  }

  ChecksummedGraph Run(std::span<const TapPoint> taps) {
    Rewriter rewriter(*graph_.module);
    std::vector<const Instruction*> same(stand_ins_.size(), nullptr);
    for (Computation* computation : graph_.module->computations()) {
      const std::vector<Instruction*> list(computation->instructions().begin(),
                                           computation->instructions().end());
      rewriter.Begin(computation);
      for (Instruction* x : list) {
        same[x->id()] = x;
        rewriter.RedirectOperands(x);
        const auto found = candidate_of_.find(x->id());
        if (found == candidate_of_.end()) {
          rewriter.Keep(x);
        } else {
          rewriter.Replace(x, Checked(rewriter.builder(), *x, found->second));
        }
      }
      rewriter.Finish();
    }
    const auto now = [&](const Instruction* x) {
      return stand_ins_[x->id()] != nullptr ? stand_ins_[x->id()] : same[x->id()];
    };
    for (const TapPoint& tap : taps) graph_.taps.push_back({now(tap.shown), now(tap.after)});
    return std::move(graph_);
  }

 private:
  Instruction* Checked(Builder& builder, const Instruction& x, size_t candidate) {
    builder.set_origin(&x);
    const Blocks blocks = *BlocksOf(x);
    Instruction* stand_in = StandIn(builder, x);
    const DType type = *TypeOfSums(x.shape()->dtype());
    Instruction* weights = Weights(builder, type, blocks.columns);
    Instruction* of_product = SumsOfBlocks(builder, stand_in, blocks.output_dim, blocks, weights);
    Instruction* operands[] = {x.operand(0), x.operand(1)};
    Instruction*& cut = operands[blocks.operand];
    cut = SumsOfBlocks(builder, cut, blocks.dim, blocks, weights);
    Instruction* of_operands = builder.Add(Opcode::kDot, operands, x.attributes<DotAttributes>());
    graph_.checksums.push_back({candidate,
                                {of_product, of_product},
                                {of_operands, of_operands},
                                std::sqrt(static_cast<double>(blocks.columns))});
    stand_ins_[x.id()] = stand_in;
    return stand_in;
  }

  ChecksummedGraph graph_;
  std::unordered_map<uint32_t, size_t> candidate_of_;  // by instruction id
  std::vector<const Instruction*> stand_ins_;          // by id of what they stand for
};

}  // namespace

std::optional<ChecksummedGraph> ChecksumDots(const Module& whole,
                                             std::span<const Candidate> candidates,
                                             std::span<const TapPoint> taps) {
  const bool is_worth_it = std::ranges::any_of(candidates, [](const Candidate& candidate) {
    return IsLargeProduct(candidate) && !SumsAlike(candidate);
  });
  if (!is_worth_it) return std::nullopt;
  return Checksummer(whole, candidates).Run(taps);
}

}  // namespace gshard::cpu
