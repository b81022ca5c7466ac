// Vectorised loops for single operations; any other computation runs as an ElementFunction.
#include "backends/cpu/elementwise/fold.h"

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/elementwise/element_function.h"
#include "backends/cpu/elementwise/scalar_program.h"
#include "backends/cpu/kernels/tile_functions.h"
#include "core/analysis/combiner.h"
#include "ir/module.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// Accumulators of one tile stay in the first-level cache while all members pass by.
constexpr int64_t kTile = 2048;
// Of a tree over less than 2^32 blocks.
constexpr size_t kMaxLevels = 33;

// Goes through the tree of a tile's blocks: `make_block(first, last, level)` folds members [first,
// last) into the accumulator of that number, `merge(level)` folds level + 1 into level. Accumulator
// i holds the i-th of the subtrees that wait for their neighbours, like the digits of a binary
// counter.
template <typename MakeBlock, typename Merge>
void WalkTree(size_t members, size_t block, MakeBlock make_block, Merge merge) {
  size_t waiting = 0, blocks = 0;
  for (size_t first = 0; first < members; first = std::min(members, first + block)) {
    make_block(first, members - first < block ? members : first + block, waiting);
    ++blocks;
    for (size_t n = blocks; n % 2 == 0; n /= 2) merge(--waiting);
    ++waiting;
  }
  while (waiting > 1) merge(--waiting - 1);
}

class TileFold final : public Fold {
 public:
  TileFold(Opcode opcode, DType dtype)
      : dtype_(dtype),
        stored_bytes_(StorageBytes(dtype)),
        bytes_(StorageBytes(ComputeType(dtype))),
        combine_(ArithmeticFunction(opcode, ComputeType(dtype))) {
    if (IsSmallFloat(dtype)) {
      load_ = LoadFunction(dtype);
      finish_ = StoreFunction(dtype);
      if (dtype == DType::kF16) round_ = RoundFunction(dtype);
    } else if (IsSubByteInteger(dtype)) {
      finish_ = WrapFunction(dtype);
    }
  }

  static bool Supports(Opcode opcode, DType dtype) {
    return ArithmeticFunction(opcode, ComputeType(dtype)) != nullptr;
  }

  void Run(int64_t count, std::span<const std::byte* const> members, uint32_t block,
           std::byte* result, Scratch& scratch) const override {
    const Scratch::Mark mark = scratch.Position();
    const auto tile_bytes = static_cast<size_t>(kTile * bytes_);
    std::byte* waiting[kMaxLevels];
    const size_t blocks = (members.size() - 1) / block + 1;
    const auto levels = static_cast<size_t>(std::bit_width(blocks - 1)) + 1;
    for (size_t i = finish_ != nullptr ? 0 : 1; i < levels; ++i) {
      waiting[i] = scratch.Allocate(tile_bytes);
    }
    std::byte* loaded = load_ != nullptr ? scratch.Allocate(tile_bytes) : nullptr;
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      std::byte* out = result + begin * stored_bytes_;
      if (finish_ == nullptr) waiting[0] = out;
      WalkTree(
          members.size(), block,
          [&](size_t first, size_t last, size_t level) {
            FoldTile(members.subspan(first, last - first), begin, n, false, waiting[level], loaded);
          },
          [&](size_t level) { Combine(waiting[level], waiting[level + 1], n); });
      if (finish_ != nullptr) finish_(Tile{{waiting[0], nullptr, nullptr}, out, n, 0});
    }
    scratch.Rewind(mark);
  }

  int64_t partial_bytes() const override { return bytes_; }

  void RunPart(int64_t count, const std::byte* begun, std::span<const std::byte* const> members,
               std::byte* partial, Scratch& scratch) const override {
    const Scratch::Mark mark = scratch.Position();
    std::byte* loaded =
        load_ != nullptr ? scratch.Allocate(static_cast<size_t>(kTile * bytes_)) : nullptr;
    if (begun != nullptr && begun != partial) {
      std::memcpy(partial, begun, static_cast<size_t>(count * bytes_));
    }
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      FoldTile(members, begin, n, begun != nullptr, partial + begin * bytes_, loaded);
    }
    scratch.Rewind(mark);
  }

  void Merge(int64_t count, std::byte* left, const std::byte* right, Scratch&) const override {
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      Combine(left + begin * bytes_, right + begin * bytes_, n);
    }
  }

  void Finish(int64_t count, const std::byte* partial, std::byte* result) const override {
    if (finish_ == nullptr) {
      if (partial != result) std::memcpy(result, partial, static_cast<size_t>(count * bytes_));
      return;
    }
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      finish_(
          Tile{{partial + begin * bytes_, nullptr, nullptr}, result + begin * stored_bytes_, n, 0});
    }
  }

 private:
  // Elements [begin, begin + n) of the members, one after another, into `target`.
  void FoldTile(std::span<const std::byte* const> members, int64_t begin, int64_t n, bool begun,
                std::byte* target, std::byte* loaded) const {
    for (const std::byte* member : members) {
      const std::byte* next = member + begin * stored_bytes_;
      if (load_ != nullptr) {
        std::byte* to = begun ? loaded : target;
        load_(Tile{{next, nullptr, nullptr}, to, n, 0});
        next = to;
      }
      if (begun) {
        Combine(target, next, n);
      } else if (target != next) {
        std::memcpy(target, next, static_cast<size_t>(n * bytes_));
      }
      begun = true;
    }
  }

  void Combine(std::byte* target, const std::byte* next, int64_t n) const {
    combine_(Tile{{target, next, nullptr}, target, n, DTypeBits(dtype_)});
    if (round_ != nullptr) round_(Tile{{target, nullptr, nullptr}, target, n, 0});
  }

  DType dtype_;
  int64_t stored_bytes_, bytes_;  // of an element, as stored and as computed
  TileFunction combine_;
  TileFunction load_ = nullptr, round_ = nullptr, finish_ = nullptr;
};

class GeneralFold final : public Fold {
 public:
  GeneralFold(std::unique_ptr<ElementFunction> function, int64_t element_bytes)
      : function_(std::move(function)), element_bytes_(element_bytes) {}

  void Run(int64_t count, std::span<const std::byte* const> members, uint32_t block,
           std::byte* result, Scratch& scratch) const override {
    const Scratch::Mark mark = scratch.Position();
    std::byte* waiting[kMaxLevels];
    const size_t blocks = (members.size() - 1) / block + 1;
    const auto levels = static_cast<size_t>(std::bit_width(blocks - 1)) + 1;
    for (size_t i = 1; i < levels; ++i) {
      waiting[i] = scratch.Allocate(static_cast<size_t>(kTile * element_bytes_));
    }
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      waiting[0] = result + begin * element_bytes_;
      WalkTree(
          members.size(), block,
          [&](size_t first, size_t last, size_t level) {
            FoldTile(members.subspan(first, last - first), begin, n, false, waiting[level],
                     scratch);
          },
          [&](size_t level) { Combine(waiting[level], waiting[level + 1], n, scratch); });
    }
    scratch.Rewind(mark);
  }

  int64_t partial_bytes() const override { return element_bytes_; }

  void RunPart(int64_t count, const std::byte* begun, std::span<const std::byte* const> members,
               std::byte* partial, Scratch& scratch) const override {
    if (begun != nullptr && begun != partial) {
      std::memcpy(partial, begun, static_cast<size_t>(count * element_bytes_));
    }
    for (int64_t begin = 0; begin < count; begin += kTile) {
      FoldTile(members, begin, std::min(kTile, count - begin), begun != nullptr,
               partial + begin * element_bytes_, scratch);
    }
  }

  void Merge(int64_t count, std::byte* left, const std::byte* right,
             Scratch& scratch) const override {
    for (int64_t begin = 0; begin < count; begin += kTile) {
      Combine(left + begin * element_bytes_, right + begin * element_bytes_,
              std::min(kTile, count - begin), scratch);
    }
  }

  void Finish(int64_t count, const std::byte* partial, std::byte* result) const override {
    if (partial != result)
      std::memcpy(result, partial, static_cast<size_t>(count * element_bytes_));
  }

 private:
  void FoldTile(std::span<const std::byte* const> members, int64_t begin, int64_t n, bool begun,
                std::byte* target, Scratch& scratch) const {
    for (const std::byte* member : members) {
      const std::byte* next = member + begin * element_bytes_;
      if (begun) {
        Combine(target, next, n, scratch);
      } else if (target != next) {
        std::memcpy(target, next, static_cast<size_t>(n * element_bytes_));
      }
      begun = true;
    }
  }

  void Combine(std::byte* target, const std::byte* next, int64_t n, Scratch& scratch) const {
    const std::byte* arguments[] = {target, next};
    std::byte* results[] = {target};
    function_->Run(n, arguments, results, scratch);
  }

  std::unique_ptr<ElementFunction> function_;
  int64_t element_bytes_;
};

}  // namespace

bool AccumulatesInPlace(DType dtype) { return !IsSmallFloat(dtype) || dtype == DType::kF16; }

Expected<std::unique_ptr<Fold>> MakeFold(const Computation& to_apply, DType dtype) {
  const auto opcode = SingleBinaryOperation(to_apply);
  if (opcode && TileFold::Supports(*opcode, dtype)) {
    return std::make_unique<TileFold>(*opcode, dtype);
  }
  if (to_apply.parameter_count() != 2 || to_apply.parameter(0)->shape()->dtype() != dtype) {
    return Fail(to_apply.module().ErrorAt(to_apply.root(), "E-RUN-REDUCTION",
                                          "a reduction over another type than its operand's"));
  }
  auto function = GSHARD_TRY(CompileElementFunction(to_apply));
  return std::make_unique<GeneralFold>(std::move(function), StorageBytes(dtype));
}

}  // namespace gshard::cpu
