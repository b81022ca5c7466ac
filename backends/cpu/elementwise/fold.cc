// Vectorised loops for single operations; any other computation runs as an ElementFunction.
#include "backends/cpu/elementwise/fold.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/elementwise/element_function.h"
#include "backends/cpu/elementwise/scalar_program.h"
#include "backends/cpu/kernels/tile_functions.h"
#include "ir/module.h"

namespace gshard::cpu {
namespace {

// Accumulators of one tile stay in the first-level cache while all members pass by.
constexpr int64_t kTile = 2048;
// Float sums: so many members are added up by themselves, against rounding errors.
constexpr size_t kBlock = 32;

class TileFold final : public Fold {
 public:
  TileFold(Opcode opcode, DType dtype)
      : dtype_(dtype),
        stored_bytes_(StorageBytes(dtype)),
        bytes_(StorageBytes(ComputeType(dtype))),
        combine_(ArithmeticFunction(opcode, ComputeType(dtype))),
        blocked_(opcode == Opcode::kAdd && IsFloat(dtype)) {
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

  void Run(int64_t count, std::span<const std::byte* const> members, std::byte* result,
           Scratch& scratch) const override {
    const Scratch::Mark mark = scratch.Position();
    const size_t block_size = blocked_ ? kBlock : members.size();
    const auto tile_bytes = static_cast<size_t>(kTile * bytes_);
    std::byte* sums = finish_ != nullptr ? scratch.Allocate(tile_bytes) : nullptr;
    std::byte* block = members.size() > block_size ? scratch.Allocate(tile_bytes) : nullptr;
    std::byte* loaded = load_ != nullptr ? scratch.Allocate(tile_bytes) : nullptr;
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      std::byte* out = result + begin * stored_bytes_;
      std::byte* total = sums != nullptr ? sums : out;
      for (size_t first = 0; first < members.size(); first += block_size) {
        std::byte* target = first == 0 ? total : block;
        const size_t last = std::min(first + block_size, members.size());
        for (size_t m = first; m < last; ++m) {
          const std::byte* next = members[m] + begin * stored_bytes_;
          if (load_ != nullptr) {
            load_(Tile{{next, nullptr, nullptr}, loaded, n, 0});
            next = loaded;
          }
          if (m > first) {
            Combine(target, next, n);
          } else if (target != next) {
            std::memcpy(target, next, static_cast<size_t>(n * bytes_));
          }
        }
        if (first > 0) Combine(total, block, n);
      }
      if (finish_ != nullptr) finish_(Tile{{sums, nullptr, nullptr}, out, n, 0});
    }
    scratch.Rewind(mark);
  }

 private:
  void Combine(std::byte* target, const std::byte* next, int64_t n) const {
    combine_(Tile{{target, next, nullptr}, target, n, DTypeBits(dtype_)});
    if (round_ != nullptr) round_(Tile{{target, nullptr, nullptr}, target, n, 0});
  }

  DType dtype_;
  int64_t stored_bytes_, bytes_;  // of an element, as stored and as computed
  TileFunction combine_;
  TileFunction load_ = nullptr, round_ = nullptr, finish_ = nullptr;
  bool blocked_;
};

class GeneralFold final : public Fold {
 public:
  GeneralFold(std::unique_ptr<ElementFunction> function, int64_t element_bytes)
      : function_(std::move(function)), element_bytes_(element_bytes) {}

  void Run(int64_t count, std::span<const std::byte* const> members, std::byte* result,
           Scratch& scratch) const override {
    for (int64_t begin = 0; begin < count; begin += kTile) {
      const int64_t n = std::min(kTile, count - begin);
      std::byte* out = result + begin * element_bytes_;
      const std::byte* first = members[0] + begin * element_bytes_;
      if (first != out) std::memcpy(out, first, static_cast<size_t>(n * element_bytes_));
      for (const std::byte* member : members.subspan(1)) {
        const std::byte* arguments[] = {out, member + begin * element_bytes_};
        std::byte* results[] = {out};
        function_->Run(n, arguments, results, scratch);
      }
    }
  }

 private:
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
  auto function = CompileElementFunction(to_apply);
  if (!function) return Fail(function.error());
  return std::make_unique<GeneralFold>(std::move(*function), StorageBytes(dtype));
}

}  // namespace gshard::cpu
