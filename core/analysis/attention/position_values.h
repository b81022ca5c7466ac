// Arrays that attention kernels compute for themselves: masks and biases made of positions.
//
//   row = s32[S,S] iota(), iota_dimension=0       At(mask, {5, 7}) == 0
//   column = s32[S,S] iota(), iota_dimension=1
//   mask = pred[S,S] compare(row, column), direction=GE
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_POSITION_VALUES_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_POSITION_VALUES_H_

#include <array>
#include <cstdint>
#include <deque>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/analysis/attention/carried_values.h"
#include "ir/instruction.h"

namespace gshard {

class PositionValues {
 public:
  static constexpr int64_t kMaxRank = 12;  // of arrays that are looked at

  // Positions in an array, those of one dim beside each other: dims[d][i] is position i along d.
  // Who makes one keeps the memory.
  struct Positions {
    size_t count = 0;
    size_t rank = 0;
    std::array<const int64_t*, kMaxRank> dims = {};
  };

  // The elements at some positions; one for all of them where they are the same.
  struct Elements {
    std::vector<double> values;  // preds are 0 or 1
    std::vector<uint8_t> known;  // does it follow from constants and iotas?
    bool IsUniform() const { return values.size() == 1; }
    double ValueAt(size_t position) const { return values[IsUniform() ? 0 : position]; }
    bool IsKnownAt(size_t position) const { return known[IsUniform() ? 0 : position] != 0; }
  };

  // `carried` must live as long as this.
  explicit PositionValues(const CarriedValues& carried) : carried_(carried) {}

  // Which device partition-id is of from now on; 0 at first.
  void SetDevice(int64_t device) { device_ = device; }
  // Has partition-id been asked for since the last AskAnew()?
  bool AskedForDevice() const { return asked_for_device_; }
  void AskAnew() { asked_for_device_ = false; }

  // The elements of `x` where they follow from constants, iotas and the device, in this computation
  // or in those that loops carry it from. Not known where they depend on data, but an `and` with a
  // known false is false all the same. `x` has at most kMaxRank dims. All positions are evaluated
  // together, operation by operation: masks are asked at thousands.
  Elements At(const Instruction* x, const Positions& positions);

  // What arrays depend on, in words none of which is a place in memory.
  struct Key {
    std::vector<uint64_t> words;
    std::unordered_map<const Instruction*, size_t> numbers;  // of what `words` tell already
  };
  // Appends what At(x, ..) depends on: arrays whose keys have equal words have the same elements at
  // the same positions, those of two modules, too. False: too long to tell.
  bool AppendKey(const Instruction* x, Key& key) const { return AppendKey(x, 0, key); }

  // If `x` is made elementwise of positions, constants, random bits (whose generator's state counts
  // for them) and arrays of at most `most` elements (such as one segment id a position): these
  // arrays. Else nothing.
  std::optional<std::vector<const Instruction*>> Sources(const Instruction* x, int64_t most) const;

 private:
  // Operations that are evaluated for one array: masks take a few dozen.
  static constexpr int kMaxOperations = 800;
  static constexpr int kDeepest = 100;
  static constexpr size_t kLongestKey = 1 << 15;  // words: tables have a number for each device

  bool AppendKey(const Instruction* x, int depth, Key& key) const;
  static bool AppendLiteral(const Literal& literal, std::vector<uint64_t>& key);
  Elements Evaluate(const Instruction* x, const Positions& positions, int depth);
  Elements EvaluateDynamicSlice(const Instruction* x, const Positions& positions, int depth);
  Elements EvaluateMoved(const Instruction* x, const Positions& positions, int depth);
  Elements EvaluateElementwise(const Instruction* x, const Positions& positions, int depth);
  Elements EvaluateSelect(const Instruction* x, const Positions& positions, int depth);
  // Memory for positions along one dim, until At returns.
  std::vector<int64_t>& Column(size_t count) { return columns_.emplace_back(count); }

  const CarriedValues& carried_;
  int64_t device_ = 0;
  bool asked_for_device_ = false;
  int operations_left_ = 0;
  std::deque<std::vector<int64_t>> columns_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_POSITION_VALUES_H_
