// Arrays that attention kernels compute for themselves: masks and biases made of positions.
//
//   row = s32[S,S] iota(), iota_dimension=0       At(mask, {5, 7}) == 0
//   column = s32[S,S] iota(), iota_dimension=1
//   mask = pred[S,S] compare(row, column), direction=GE
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_POSITION_VALUES_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_POSITION_VALUES_H_

#include <array>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <span>
#include <vector>

#include "core/analysis/attention/carried_values.h"
#include "ir/instruction.h"

namespace gshard {

class PositionValues {
 public:
  static constexpr int64_t kMaxRank = 12;  // of arrays that are looked at
  // Of one element, in place: masks are asked at thousands.
  class Index {
   public:
    Index() = default;
    Index(std::initializer_list<int64_t> index) {
      for (const int64_t i : index) push_back(i);
    }
    explicit Index(size_t size) : size_(size) {}

    void push_back(int64_t i) { at_[size_++] = i; }
    size_t size() const { return size_; }
    int64_t& operator[](size_t dim) { return at_[dim]; }
    int64_t operator[](size_t dim) const { return at_[dim]; }
    operator std::span<const int64_t>() const { return {at_.data(), size_}; }

   private:
    std::array<int64_t, kMaxRank> at_;
    size_t size_ = 0;
  };

  // `carried` must live as long as this.
  explicit PositionValues(const CarriedValues& carried) : carried_(carried) {}

  // The element of `x` at `index` where it follows from constants and iotas, in this computation or
  // in those that loops carry it from; preds are 0 or 1. Nothing where it depends on data: an `and`
  // with a known false is false all the same. `x` has at most kMaxRank dims.
  std::optional<double> At(const Instruction* x, const Index& index);

  // If `x` is made elementwise of positions, constants and arrays of at most `most` elements (such
  // as one segment id a position): these arrays. Else nothing.
  std::optional<std::vector<const Instruction*>> Sources(const Instruction* x, int64_t most) const;

 private:
  // Operations that one element may take: masks take a few dozen.
  static constexpr int kMaxOperations = 400;
  static constexpr int kDeepest = 100;

  std::optional<double> Evaluate(const Instruction* x, const Index& index, int depth);
  std::optional<double> EvaluateMoved(const Instruction* x, const Index& index, int depth);
  std::optional<double> EvaluateElementwise(const Instruction* x, const Index& index, int depth);

  const CarriedValues& carried_;
  int operations_left_ = 0;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_POSITION_VALUES_H_
