// Arg-max and arg-min: reductions of values with indices that are known by their computation.
#include <algorithm>
#include <cstring>
#include <optional>

#include "backends/cpu/arrays/reduction.h"
#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/kernels/arg_rows.h"
#include "backends/cpu/ops/reduce_kernels.h"
#include "ir/attributes.h"
#include "ir/module.h"

namespace gshard::cpu {
namespace {

// Recognises
//   keeps = a > b or a != a              (a < b for the smallest)
//   value = keeps ? a : b
//   index = keeps or (a == b and i < j) ? i : j
// where (a, i) is what has been found so far.
class ArgComputation {
 public:
  explicit ArgComputation(const Computation& computation) : computation_(computation) {}

  // Whether it looks for the largest; nothing if it is another computation.
  std::optional<bool> LooksForLargest() const {
    const Instruction* root = computation_.root();
    if (computation_.parameter_count() != 4 || root->opcode() != Opcode::kTuple ||
        root->operand_count() != 2) {
      return std::nullopt;
    }
    for (const auto direction : {ComparisonDirection::kGt, ComparisonDirection::kLt}) {
      if (IsValue(root->operand(0), direction) && IsIndex(root->operand(1), direction)) {
        return direction == ComparisonDirection::kGt;
      }
    }
    return std::nullopt;
  }

 private:
  static constexpr int64_t kBest = 0, kBestIndex = 1, kValue = 2, kIndex = 3;  // parameters

  bool IsComparison(const Instruction* x, int64_t lhs, int64_t rhs,
                    ComparisonDirection direction) const {
    if (x->opcode() != Opcode::kCompare) return false;
    const auto& compare = x->attributes<CompareAttributes>();
    return compare.direction == direction && compare.type != ComparisonType::kTotalOrder &&
           x->operand(0) == computation_.parameter(lhs) &&
           x->operand(1) == computation_.parameter(rhs);
  }
  bool IsSelect(const Instruction* x, int64_t on_true, int64_t on_false) const {
    return x->opcode() == Opcode::kSelect && x->operand(1) == computation_.parameter(on_true) &&
           x->operand(2) == computation_.parameter(on_false);
  }
  // x is the operation of two operands that satisfy f and g, in either order.
  template <typename F, typename G>
  static bool IsOf(const Instruction* x, Opcode opcode, const F& f, const G& g) {
    return x->opcode() == opcode &&
           ((f(x->operand(0)) && g(x->operand(1))) || (f(x->operand(1)) && g(x->operand(0))));
  }
  bool Keeps(const Instruction* x, ComparisonDirection direction) const {
    return IsOf(
        x, Opcode::kOr,
        [&](const Instruction* y) { return IsComparison(y, kBest, kValue, direction); },
        [&](const Instruction* y) {
          return IsComparison(y, kBest, kBest, ComparisonDirection::kNe);
        });
  }
  bool IsTie(const Instruction* x) const {
    return IsOf(
        x, Opcode::kAnd,
        [&](const Instruction* y) {
          return IsComparison(y, kBest, kValue, ComparisonDirection::kEq);
        },
        [&](const Instruction* y) {
          return IsComparison(y, kBestIndex, kIndex, ComparisonDirection::kLt);
        });
  }
  bool IsValue(const Instruction* x, ComparisonDirection direction) const {
    return IsSelect(x, kBest, kValue) && Keeps(x->operand(0), direction);
  }
  bool IsIndex(const Instruction* x, ComparisonDirection direction) const {
    return IsSelect(x, kBestIndex, kIndex) &&
           IsOf(
               x->operand(0), Opcode::kOr,
               [&](const Instruction* y) { return Keeps(y, direction); },
               [&](const Instruction* y) { return IsTie(y); });
  }

  const Computation& computation_;
};

class ArgReduceKernel : public Kernel {
 public:
  ArgReduceKernel(const ReductionGeometry& geometry, ArgRowsFunction rows, int64_t value_bytes,
                  int64_t index_bytes)
      : count_(geometry.kept_count),
        length_(geometry.reduced_count),
        rows_(rows),
        value_bytes_(value_bytes),
        index_bytes_(index_bytes) {}

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, count_, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return 1; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch&) const override {
    FillElements(results[0], operands[2], value_bytes_, count);
    FillElements(results[1], operands[3], index_bytes_, count);
    rows_(operands[0] + first * length_ * value_bytes_,
          operands[1] + first * length_ * index_bytes_, length_, count, results[0], results[1]);
  }
  int64_t Flops() const override {
    constexpr int64_t kOperations = 9;  // of the computation
    return count_ * length_ * kOperations;
  }

 private:
  int64_t count_, length_;
  ArgRowsFunction rows_;
  int64_t value_bytes_, index_bytes_;
};

}  // namespace

std::unique_ptr<Kernel> MakeArgReduceKernel(const Instruction& instruction) {
  if (instruction.operand_count() != 4 || !instruction.shape()->IsTuple()) return nullptr;
  const Shape* values = instruction.operand(0)->shape();
  const ReductionGeometry geometry(values->dims(),
                                   instruction.attributes<DimensionsAttributes>().dimensions);
  const bool dense_rows =
      !geometry.columns && geometry.kept.size() <= 1 && geometry.reduced.size() == 1;
  if (!dense_rows || geometry.reduced_count == 0) return nullptr;
  const std::optional<bool> largest = ArgComputation(*instruction.called(0)).LooksForLargest();
  if (!largest) return nullptr;
  const DType value = values->dtype(), index = instruction.operand(1)->shape()->dtype();
  const ArgRowsFunction rows = FindArgRows(value, index, *largest);
  if (rows == nullptr) return nullptr;
  return std::make_unique<ArgReduceKernel>(geometry, rows, StorageBytes(value),
                                           StorageBytes(index));
}

}  // namespace gshard::cpu
