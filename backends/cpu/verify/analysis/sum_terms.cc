#include "backends/cpu/verify/analysis/sum_terms.h"

#include <algorithm>

#include "core/analysis/combiner.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

int64_t TermsOfWindow(const Instruction& x) {
  int64_t terms = 1;
  for (const WindowDim& dim : x.attributes<WindowAttributes>().window) terms *= dim.size;
  return terms;
}

int64_t TermsOfReduce(const Instruction& x) {
  const Shape& shape = *x.operand(0)->shape();
  int64_t terms = 1;
  for (const int64_t dim : x.attributes<DimensionsAttributes>().dimensions) terms *= shape.dim(dim);
  return terms;
}

int64_t UpdatesOf(const Instruction& scatter) {
  const Shape& indices = *scatter.operand(scatter.operand_count() / 2)->shape();
  const int64_t vector_dim = scatter.attributes<ScatterAttributes>().index_vector_dim;
  const int64_t numbers = vector_dim < indices.rank() ? indices.dim(vector_dim) : 1;
  return numbers == 0 ? 0 : indices.element_count() / numbers;
}

}  // namespace

int64_t MostTermsOf(const Instruction& x, int64_t device_count) {
  const bool adds_up =
      std::ranges::any_of(x.called(), [](const Computation* c) { return Accumulates(*c); });
  if (!adds_up) return 1;
  switch (x.opcode()) {
    case Opcode::kReduce:
      return TermsOfReduce(x);
    case Opcode::kReduceWindow:
    case Opcode::kSelectAndScatter:
      return TermsOfWindow(x);
    case Opcode::kScatter:
      return UpdatesOf(x);
    case Opcode::kScan:
      return x.operand(0)->shape()->dim(x.attributes<ScanAttributes>().dimension);
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kReduceScatter: {
      const ReplicaGroups* groups = x.attributes<CollectiveAttributes>().replica_groups;
      return groups == nullptr ? device_count : groups->GroupSize(device_count);
    }
    default:  // adds up nothing
      return 1;
  }
}

}  // namespace gshard::cpu
