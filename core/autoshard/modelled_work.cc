// See modelled_work.h.

#include "core/autoshard/modelled_work.h"

#include <algorithm>
#include <numeric>
#include <unordered_map>
#include <utility>

#include "core/analysis/trip_count.h"
#include "core/cost/kernel_time.h"
#include "core/cost/op_cost.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/op_traits.h"

namespace gshard::autoshard {
namespace {

double BytesOf(const Shape* shape) { return static_cast<double>(shape->byte_size()); }

// The dim whose major factor is `factor`, or kNone.
int DimWith(const std::vector<FactorList>& dims, int factor) {
  const auto at = std::ranges::find_if(
      dims, [&](const FactorList& list) { return !list.empty() && list.front() == factor; });
  return at == dims.end() ? kNone : static_cast<int>(at - dims.begin());
}

// Collects what costs something.
class Walk {
 public:
  Walk(const Module& module, const PlanSpace& space, const Chip& chip) : chip_(chip) {
    work.product_bytes.resize(space.groups().size(), 0);
    for (size_t g = 0; g < space.groups().size(); ++g) {
      if (space.groups()[g].kind == GroupKind::kWritten) continue;
      for (const uint32_t id : space.groups()[g].members) group_of_[id] = static_cast<int>(g);
    }
    Take(*module.entry(), {}, 1);
  }

  ModelledWork work;

 private:
  using Leaves = std::vector<Source>;
  using Sources = std::unordered_map<const Instruction*, Leaves>;

  // `arguments`: of each parameter. Returns the sources of the result.
  Leaves Take(const Computation& computation, const std::vector<Leaves>& arguments, double times) {
    Sources sources;
    for (const Instruction* x : computation.instructions()) {
      Leaves& leaves = sources[x];
      leaves.resize(At(x->shape()->leaf_count()));
      if (x->opcode() == Opcode::kParameter && !arguments.empty()) {
        leaves = arguments[At(x->attributes<ParameterAttributes>().number)];
        continue;
      }
      const auto known = group_of_.find(x->id());
      if (known != group_of_.end()) {
        leaves[0].group = known->second;
        leaves[0].dims.resize(At(x->shape()->rank()));
        std::iota(leaves[0].dims.begin(), leaves[0].dims.end(), 0);
        if (x->operand_count() > 0) AddProduct(x, known->second, sources, times);
        continue;
      }
      leaves = ResultOf(x, sources, times);
    }
    return sources.at(computation.root());
  }

  Leaves ResultOf(const Instruction* x, const Sources& sources, double times) {
    Leaves leaves;
    switch (x->opcode()) {
      case Opcode::kTuple:
        for (const Instruction* operand : x->operands()) {
          const Leaves& more = sources.at(operand);
          leaves.insert(leaves.end(), more.begin(), more.end());
        }
        return leaves;
      case Opcode::kGetTupleElement: {
        const auto first = sources.at(x->operand(0)).begin() + FirstLeafRead(*x);
        return {first, first + x->shape()->leaf_count()};
      }
      case Opcode::kOptBarrier:
        return sources.at(x->operand(0));
      case Opcode::kWhile:
        return ResultOfLoop(x, sources.at(x->operand(0)), times);
      case Opcode::kConditional:
        for (size_t i = x->called().size(); i-- > 0;) {
          const Instruction* operand = x->operand(static_cast<int64_t>(i) + 1);
          leaves = Take(*x->called()[i], {sources.at(operand)}, times);
        }
        return leaves;
      default:  // by its relation, which is empty for what relates nothing
        return ResultByRelation(x, sources, times);
    }
  }

  Leaves ResultOfLoop(const Instruction* loop, const Leaves& initial, double times) {
    const double trips = static_cast<double>(TripCount(*loop).value_or(1));
    const Leaves next = Take(*loop->called(1), {initial}, times * trips);
    const std::vector<const Shape*> shapes = LeafShapes(loop->shape());
    for (size_t i = 0; i < shapes.size(); ++i) {
      if (shapes[i]->IsArray()) AddReshard(next[i], initial[i], BytesOf(shapes[i]), times * trips);
    }
    return initial;
  }

  Leaves ResultByRelation(const Instruction* x, const Sources& sources, double times) {
    Leaves leaves(At(x->shape()->leaf_count()));
    const DimRelation relation = RelationOf(*x);
    if (!relation.relates) return leaves;
    const std::vector<const Shape*> shapes = LeafShapes(x->shape());
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      if (!shapes[leaf]->IsArray()) continue;
      size_t main = 0;
      int64_t most = 0;
      double bytes = 0;
      for (size_t i = 0; i < relation.operands.size(); ++i) {
        const Instruction* operand = x->operand(static_cast<int64_t>(i));
        if (!operand->shape()->IsArray()) continue;
        Source source = Through(relation, i, sources.at(operand)[0], leaf);
        const int64_t known = std::ranges::count_if(source.dims, [](int dim) { return dim >= 0; });
        const double own = BytesOf(operand->shape());
        if (known < most || known == 0 || (known == most && own <= bytes)) continue;
        main = i;
        most = known;
        bytes = own;
        leaves[leaf] = std::move(source);
      }
      if (leaf == 0) AddReshardsTo(leaves[0], x, relation, main, sources, times);
    }
    return leaves;
  }

  // How leaf `leaf` of a result lies if operand `i` decides.
  static Source Through(const DimRelation& relation, size_t i, const Source& operand, size_t leaf) {
    Source source;
    if (operand.group == kNone) return source;
    source.group = operand.group;
    for (const FactorList& dim : relation.results[leaf]) {
      const int from = dim.empty() ? kNone : DimWith(relation.operands[i], dim.front());
      const bool passes =
          from >= 0 && relation.factors[At(dim.front())].kind != FactorKind::kNeedReplication;
      source.dims.push_back(passes ? operand.dims[At(from)] : kNone);
    }
    return source;
  }

  // Operands are brought to how the result lies; of operand `main`, which decides that, only dims
  // that must be whole are.
  void AddReshardsTo(const Source& result, const Instruction* x, const DimRelation& relation,
                     size_t main, const Sources& sources, double times) {
    const double result_bytes = BytesOf(LeafShapes(x->shape())[0]);
    for (size_t i = 0; i < relation.operands.size(); ++i) {
      const Instruction* operand = x->operand(static_cast<int64_t>(i));
      if (!operand->shape()->IsArray()) continue;
      const Source& from = sources.at(operand)[0];
      if (from.group == kNone || result.group == kNone) continue;
      Source to{result.group, std::vector<int>(from.dims.size(), kNone)};
      std::vector<int> summed;
      for (size_t d = 0; d < from.dims.size(); ++d) {
        if (relation.operands[i][d].empty()) continue;
        const int factor = relation.operands[i][d].front();
        const FactorKind kind = relation.factors[At(factor)].kind;
        const int target = DimWith(relation.results[0], factor);
        if (kind == FactorKind::kNeedReplication) continue;
        if (target >= 0) {
          to.dims[d] = result.dims[At(target)];
        } else if (i == main) {
          to.dims[d] = from.dims[d];
          if (from.dims[d] >= 0) summed.push_back(from.dims[d]);
        }
      }
      AddReshard(from, to, std::min(BytesOf(operand->shape()), result_bytes), times);
      if (!summed.empty())
        work.reductions.push_back({from.group, summed, result, result_bytes, times});
    }
  }

  void AddReshard(const Source& from, const Source& to, double bytes, double times) {
    if (from.group == kNone || to.group == kNone || from == to) return;
    const auto known = std::ranges::find_if(work.reshards, [&](const Reshard& reshard) {
      return reshard.from == from && reshard.to == to && reshard.bytes == bytes;
    });
    if (known != work.reshards.end()) {
      known->times += times;
    } else {
      work.reshards.push_back({from, to, bytes, times});
    }
  }

  void AddProduct(const Instruction* x, int group, const Sources& sources, double times) {
    work.product_bytes[At(group)] += times * BytesOf(x->shape());
    const DimRelation relation = RelationOf(*x);
    Product product;
    product.group = group;
    product.factors = relation.factors;
    const size_t operands = std::min<size_t>(2, relation.operands.size());
    for (size_t i = 0; i < 3; ++i) {
      if (i < 2 && i >= operands) continue;
      for (const FactorList& dim : i < 2 ? relation.operands[i] : relation.results[0]) {
        product.factors_of[i].push_back(dim.empty() ? kNone : dim.front());
      }
      const Instruction* value = i < 2 ? x->operand(static_cast<int64_t>(i)) : x;
      product.bytes[i] = BytesOf(value->shape());
      if (i < 2) product.operands[i] = sources.at(value)[0];
    }
    if (IsProduct(x->opcode())) {
      const double flops = CostOf(*x).flops;
      product.seconds = flops / (MatrixRate(MatrixOf(*x), chip_) * chip_.dot_efficiency.At(flops));
    }
    product.times = times;
    const auto known = std::ranges::find_if(
        work.products, [&](const Product& other) { return product.IsAlike(other); });
    if (known != work.products.end()) {
      known->times += times;
    } else {
      work.products.push_back(std::move(product));
    }
  }

  const Chip& chip_;
  std::unordered_map<uint32_t, int> group_of_;
};

}  // namespace

bool Product::IsAlike(const Product& other) const {
  return operands == other.operands && group == other.group && factors == other.factors &&
         factors_of == other.factors_of && bytes == other.bytes && seconds == other.seconds;
}

ModelledWork ModelledWorkOf(const Module& module, const PlanSpace& space, const Chip& chip) {
  return std::move(Walk(module, space, chip).work);
}

}  // namespace gshard::autoshard
