// Candidates that are products are replaced in a copy of the graph.
#include "backends/cpu/verify/analysis/dot_checksums.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>
#include <utility>

#include "core/propagation/dot_dims.h"
#include "core/transforms/rewriter.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kMinFlops = int64_t{1} << 24;
constexpr int64_t kMinDepth = 32;  // of FLOPs for each element that is read or written
constexpr int64_t kMaxColumns = 32, kMinColumns = 8;  // of a block

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
  int64_t columns = std::min(size, kMaxColumns);
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
  if (blocks.columns >= kMinColumns) return blocks;
  std::optional<Blocks> best;
  for (const auto* free : {&dims.lhs_free, &dims.rhs_free}) {
    for (const DotDims::Dim& d : *free) {
      const bool is_lhs = free == &dims.lhs_free;
      blocks = {is_lhs ? 0 : 1, is_lhs ? d.lhs : d.rhs, d.output, 1, 0};
      blocks.columns = ColumnsOf(x.shape()->dim(d.output));
      if (blocks.columns < kMinColumns) continue;
      if (!best || blocks.output_dim > best->output_dim) best = blocks;
    }
  }
  return best;
}

// Terms of each element's sum.
int64_t DepthOf(const Instruction& dot) {
  int64_t depth = 1;
  for (const int64_t d : dot.attributes<DotAttributes>().lhs_contracting) {
    depth *= dot.operand(0)->shape()->dim(d);
  }
  return depth;
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

// Of a large product; nothing: it is computed.
std::optional<Blocks> BlocksOfLarge(const Candidate& candidate) {
  const Instruction& x = *candidate.x;
  if (x.opcode() != Opcode::kDot || candidate.stride_in_iterations != 1) return std::nullopt;
  const std::optional<DType> sums = TypeOfSums(x.shape()->dtype());
  int64_t elements = x.shape()->element_count();
  for (const Instruction* operand : x.operands()) {
    if (!sums || TypeOfSums(operand->shape()->dtype()) != sums) return std::nullopt;
    elements += operand->shape()->element_count();
  }
  const int64_t flops = 2 * DepthOf(x) * x.shape()->element_count();
  if (flops < std::max(kMinFlops, kMinDepth * elements)) return std::nullopt;
  return BlocksOf(x);
}

// Does every device sum over whole rows?
bool SumsAlike(const Candidate& candidate) {
  const Instruction& local = *candidate.form->local;
  return local.opcode() == Opcode::kDot && DepthOf(local) == DepthOf(*candidate.x);
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

struct Product {
  size_t candidate = 0;
  Blocks blocks;
};

class Checksummer {
 public:
  Checksummer(const Module& whole, std::unordered_map<uint32_t, Product> products)
      : graph_{whole.Clone(), {}, {}},
        products_(std::move(products)),
        shown_(whole.instruction_limit(), nullptr) {}

  ChecksummedGraph Run(std::span<const ProbePoint> probes) {
    Rewriter rewriter(*graph_.module);
    for (Computation* computation : graph_.module->computations()) {
      const std::vector<Instruction*> list(computation->instructions().begin(),
                                           computation->instructions().end());
      rewriter.Begin(computation);
      for (Instruction* x : list) {
        rewriter.RedirectOperands(x);
        const auto found = products_.find(x->id());
        if (found == products_.end()) {
          rewriter.Keep(x);
          shown_[x->id()] = x;
        } else {
          Instruction* stand_in = Checked(rewriter.builder(), *x, found->second);
          rewriter.Replace(x, stand_in);
          shown_[x->id()] = stand_in;
        }
      }
      rewriter.Finish();
    }
    for (const ProbePoint& probe : probes) {
      graph_.probes.push_back({shown_[probe.shown->id()], shown_[probe.after->id()]});
    }
    return std::move(graph_);
  }

 private:
  Instruction* Checked(Builder& builder, const Instruction& x, const Product& product) {
    builder.set_origin(&x);
    const Blocks& blocks = product.blocks;
    const DType type = *TypeOfSums(x.shape()->dtype());
    Instruction* stand_in = StandIn(builder, x);
    Instruction* weights = Weights(builder, type, blocks.columns);
    Instruction* of_product =
        SumsOfBlocks(builder, builder.Convert(stand_in, type), blocks.output_dim, blocks, weights);
    Instruction* operands[] = {builder.Convert(x.operand(0), type),
                               builder.Convert(x.operand(1), type)};
    Instruction*& cut = operands[blocks.operand];
    cut = SumsOfBlocks(builder, cut, blocks.dim, blocks, weights);
    Instruction* of_operands = builder.Add(Opcode::kDot, operands, x.attributes<DotAttributes>());
    graph_.checksums.push_back({product.candidate,
                                {of_product, of_product},
                                {of_operands, of_operands},
                                std::sqrt(static_cast<double>(blocks.columns))});
    return stand_in;
  }

  ChecksummedGraph graph_;
  const std::unordered_map<uint32_t, Product> products_;  // by instruction id
  std::vector<const Instruction*> shown_;                 // of the copy, by id in the original
};

}  // namespace

std::optional<ChecksummedGraph> ChecksumDots(const Module& whole,
                                             std::span<const Candidate> candidates,
                                             std::span<const ProbePoint> probes) {
  std::unordered_map<uint32_t, Product> products;
  bool is_worth_it = false;
  for (size_t i = 0; i < candidates.size(); ++i) {
    const std::optional<Blocks> blocks = BlocksOfLarge(candidates[i]);
    if (!blocks) continue;
    products.emplace(candidates[i].x->id(), Product{i, *blocks});
    is_worth_it = is_worth_it || !SumsAlike(candidates[i]);
  }
  if (!is_worth_it) return std::nullopt;
  return Checksummer(whole, std::move(products)).Run(probes);
}

}  // namespace gshard::cpu
