#include "core/pipeline/plan/shard_rows.h"

#include <algorithm>
#include <numeric>
#include <unordered_set>
#include <utility>
#include <vector>

#include "core/op_dims/dim_relation.h"
#include "core/transforms/rewriter.h"
#include "ir/dims.h"

namespace gshard::pipeline {
namespace {

// The dim that `sharding` cuts into `count` tiles; -1: none.
int64_t CutDim(const Shape* shape, const Sharding* sharding, int64_t count) {
  if (sharding == nullptr || !shape->IsArray() || !sharding->IsTiled()) return -1;
  for (int64_t d = 0; d < shape->rank(); ++d) {
    if (sharding->TileCount(d) == count) return d;
  }
  return -1;
}

// The same number in each row?
bool IsUniform(const Instruction* x) {
  return x->shape()->IsArray() &&
         (x->shape()->rank() == 0 ||
          (x->opcode() == Opcode::kBroadcast && x->operand(0)->shape()->rank() == 0));
}

bool KnowsRows(const Instruction& x, int64_t dimension) {
  switch (x.opcode()) {
    case Opcode::kPad:
    case Opcode::kConcatenate:
    case Opcode::kDynamicUpdateSlice:  // such as the cotangent of a slice
      return std::ranges::all_of(x.operands(), IsUniform);
    case Opcode::kIota:
      return x.attributes<IotaAttributes>().dimension == dimension;
    case Opcode::kConstant:
    case Opcode::kRng:
    case Opcode::kRngBitGenerator:
      return true;
    case Opcode::kGetTupleElement:
      return x.operand(0)->opcode() == Opcode::kRngBitGenerator;
    default:  // made of operands
      return false;
  }
}

class ShardRows {
 public:
  ShardRows(Module& module, int64_t microbatches, const std::unordered_set<const Instruction*>& own)
      : module_(module), microbatches_(microbatches), own_(own) {}

  // What knows the rows of `shards` shards: those of `own`, or all others.
  void Run(Computation* computation, int64_t shards, bool is_own) {
    shards_ = shards;
    if (shards == 1) return;
    InsertAfterEach(module_, computation, [&](Instruction* x, Builder& builder) -> Instruction* {
      if (own_.contains(x) != is_own) return x;
      const int64_t dimension = CutDim(x->shape(), x->sharding(), microbatches_);
      if (dimension < 0 || !KnowsRows(*x, dimension)) return x;
      if (x->shape()->dim(dimension) % (microbatches_ * shards_) != 0) return x;
      const Sharding* cut = x->sharding();
      if (x->opcode() == Opcode::kIota) return OrderIota(builder, x, OrderAlong(dimension), cut);
      // The whole of it on every micro-batch, of which each takes its rows.
      x->set_sharding(builder.context().Replicated());
      if (x->opcode() == Opcode::kGetTupleElement) {
        Instruction* generator = x->operand(0);
        generator->set_sharding(builder.context().TupleOf(std::vector<const Sharding*>(
            generator->shape()->elements().size(), builder.context().Replicated())));
      }
      return Ordered(builder, x, dimension, cut);
    });
    OrderWholeOperands(computation, is_own);
  }

 private:
  // A whole array, such as a weight, of which an operation reads the rows of a micro-batch beside
  // those of examples: `x + table` where the table has a row for each example.
  void OrderWholeOperands(Computation* computation, bool is_own) {
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    Rewriter rewriter(module_);
    rewriter.Begin(computation);
    for (Instruction* x : old) {
      rewriter.RedirectOperands(x);
      rewriter.builder().set_origin(x);
      const bool is_looked_at = own_.contains(x) == is_own && !ordered_.contains(x);
      for (int64_t i = 0; is_looked_at && i < x->operand_count(); ++i) {
        Instruction* operand = x->operand(i);
        const int64_t dimension = RowsOfWhole(*x, i);
        if (dimension < 0) continue;
        std::vector<int64_t> tiles(operand->shape()->dims().size(), 1);
        tiles[At(dimension)] = microbatches_;
        const Sharding* cut = module_.context().Tiled(TileAssignment::Iota(tiles));
        x->set_operand(i, Ordered(rewriter.builder(), operand, dimension, cut));
      }
      rewriter.Keep(x);
    }
    rewriter.Finish();
  }

  // The dim of operand i of x that counts the rows of x's examples although the operand is whole;
  // -1: none.
  int64_t RowsOfWhole(const Instruction& x, int64_t i) const {
    const Instruction* operand = x.operand(i);
    const Shape* shape = operand->shape();
    if (!shape->IsArray() || shape->rank() == 0) return -1;
    if (operand->sharding() != nullptr && !operand->sharding()->IsReplicated()) return -1;
    int64_t found = -1;
    if (x.opcode() == Opcode::kTuple) {
      const Sharding* s = x.sharding();
      const bool is_tuple = s != nullptr && s->IsTuple() && At(i) < s->elements.size();
      found = is_tuple ? CutDim(shape, s->elements[At(i)], microbatches_) : -1;
    } else if (const DimRelation relation = RelationOf(x); relation.relates) {
      const auto find = [&](const Instruction* value, const std::vector<FactorList>& dims) {
        const int64_t cut = CutDim(value->shape(), value->sharding(), microbatches_);
        if (cut < 0) return;
        const auto alike = std::ranges::find_if(
            relation.operands[At(i)],
            [&](const FactorList& own) { return own.front() == dims[At(cut)].front(); });
        if (alike != relation.operands[At(i)].end()) {
          found = alike - relation.operands[At(i)].begin();
        }
      };
      if (x.shape()->IsArray()) find(&x, relation.results[0]);
      for (int64_t k = 0; k < x.operand_count(); ++k) find(x.operand(k), relation.operands[At(k)]);
    }
    return found >= 0 && shape->dim(found) % (microbatches_ * shards_) == 0 ? found : -1;
  }

  RowOrder OrderAlong(int64_t dimension) const { return {dimension, microbatches_, shards_}; }

  // The rows of a whole array in the order of the split batch, cut as micro-batches are.
  Instruction* Ordered(Builder& b, Instruction* x, int64_t dimension, const Sharding* cut) {
    Instruction* whole = OrderRows(b, x, OrderAlong(dimension), b.context().Replicated());
    Instruction* result = b.Add(Opcode::kCopy, {whole}, whole->shape());
    result->set_sharding(cut);
    ordered_.insert(result);
    return result;
  }

  Module& module_;
  int64_t microbatches_, shards_ = 1;
  const std::unordered_set<const Instruction*>& own_;
  std::unordered_set<const Instruction*> ordered_;  // what Ordered has made
};

void AddCalled(const Instruction& x, std::unordered_set<const Instruction*>& found) {
  for (const Computation* called : x.called()) {
    for (const Instruction* y : called->instructions()) {
      found.insert(y);
      AddCalled(*y, found);
    }
  }
}

// What manual regions read and nothing else does, although it is made of nothing.
std::unordered_set<const Instruction*> ReadByRegions(const Module& module,
                                                     const ManualRegions& regions) {
  std::unordered_set<const Instruction*> found, outside;
  std::span<Instruction* const> list = module.entry()->instructions();
  for (size_t i = list.size(); i-- > 0;) {
    const Instruction* x = list[i];
    const bool is_inside = regions.IsInside(x) || (found.contains(x) && !outside.contains(x));
    if (is_inside) found.insert(x);
    for (const Instruction* operand : x->operands()) {
      (is_inside && !regions.Enters(x) ? found : outside).insert(operand);
    }
  }
  std::erase_if(found,
                [&](const Instruction* x) { return outside.contains(x) && !regions.IsInside(x); });
  for (const Instruction* x : list) {
    if (found.contains(x)) AddCalled(*x, found);
  }
  return found;
}

}  // namespace

Instruction* OrderRows(Builder& b, Instruction* x, const RowOrder& order, const Sharding* each) {
  const size_t at = At(order.dimension);
  const Dims dims = x->shape()->dims();
  std::vector<int64_t> split(dims.begin(), dims.end());
  const int64_t rows = split[at] / (order.microbatches * order.parts);
  split[at] = order.parts;
  split.insert(split.begin() + order.dimension + 1, {order.microbatches, rows});
  std::vector<int64_t> permutation(split.size());
  std::iota(permutation.begin(), permutation.end(), 0);
  std::swap(permutation[at], permutation[at + 1]);
  Instruction* parts = b.Reshape(x, split);
  Instruction* moved = b.Transpose(parts, permutation);
  Instruction* whole = b.Reshape(moved, dims);
  if (each != nullptr) {
    for (Instruction* made : {parts, moved, whole}) made->set_sharding(each);
  }
  return whole;
}

Instruction* OrderIota(Builder& b, const Instruction* iota, const RowOrder& order,
                       const Sharding* each) {
  const Shape* index = b.context().Array(DType::kS64, iota->shape()->dims());
  const int64_t tile = index->dim(order.dimension) / order.microbatches, rows = tile / order.parts;
  const auto keep = [&](Instruction* made) {
    if (each != nullptr) made->set_sharding(each);
    return made;
  };
  const auto number = [&](int64_t value) {
    return keep(b.BroadcastScalar(b.ScalarInt(DType::kS64, value), index->dims()));
  };
  Instruction* place = keep(b.Iota(index, order.dimension));
  Instruction* microbatch = keep(b.Binary(Opcode::kDivide, place, number(tile)));
  Instruction* within = keep(b.Binary(Opcode::kRemainder, place, number(tile)));
  Instruction* part = keep(b.Binary(Opcode::kDivide, within, number(rows)));
  Instruction* row = keep(b.Binary(Opcode::kRemainder, within, number(rows)));
  Instruction* of_part = keep(b.Multiply(part, number(rows * order.microbatches)));
  Instruction* of_microbatch = keep(b.Multiply(microbatch, number(rows)));
  Instruction* sum = keep(b.Add(keep(b.Add(of_part, of_microbatch)), row));
  return keep(b.Convert(sum, iota->shape()->dtype()));
}

void FollowShards(Module& module, int64_t microbatches, int64_t shards,
                  const ManualRegions& regions, int64_t parts) {
  if (microbatches == 1 || shards == 1) return;
  const auto own = ReadByRegions(module, regions);
  ShardRows order(module, microbatches, own);
  for (Computation* computation : module.computations()) {
    order.Run(computation, shards, /*is_own=*/false);
    order.Run(computation, shards / parts, /*is_own=*/true);
  }
}

}  // namespace gshard::pipeline
