// Elementwise operations and map, as programs of one instruction; bitcast-convert between widths.
#include <cstring>

#include "backends/cpu/elementwise/element_function.h"
#include "backends/cpu/elementwise/program_kernel.h"
#include "backends/cpu/ops/factories.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// bitcast-convert to another width. Bytes stay as they are, except that types below 8 bits are
// unpacked to (packed from) a byte each, the lowest bits first.
class BitcastWidthKernel : public Kernel {
 public:
  BitcastWidthKernel(const Shape* from, const Shape* to)
      : from_(from->dtype()), to_(to->dtype()), bytes_(from->element_count()) {
    from_bits_ = DTypeBits(from_);
    to_bits_ = DTypeBits(to_);
    from_count_ = from->element_count();
    to_count_ = to->element_count();
    bytes_ = from_count_ * StorageBytes(from_);
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    (void)scratch;
    if (from_bits_ >= 8 && to_bits_ >= 8) {
      std::memcpy(results[0], operands[0], static_cast<size_t>(bytes_));
      return;
    }
    // Both sides as streams of bits; widths divide each other.
    const int narrow = from_bits_ < to_bits_ ? from_bits_ : to_bits_;
    std::memset(results[0], 0, static_cast<size_t>(to_count_ * StorageBytes(to_)));
    const int64_t pieces = from_count_ * from_bits_ / narrow;
    const unsigned mask = (1u << narrow) - 1;
    for (int64_t i = 0; i < pieces; ++i) {
      const int64_t in = ByteOf(i * narrow, from_bits_), out = ByteOf(i * narrow, to_bits_);
      const int in_shift = ShiftOf(i * narrow, from_bits_);
      const int out_shift = ShiftOf(i * narrow, to_bits_);
      const unsigned piece = (std::to_integer<unsigned>(operands[0][in]) >> in_shift) & mask;
      results[0][out] |= static_cast<std::byte>(piece << out_shift);
    }
    if (to_bits_ < 8 && ClassOf(to_) == DTypeClass::kSigned) {
      for (int64_t i = 0; i < to_count_; ++i) {
        const unsigned value = std::to_integer<unsigned>(results[0][i]);
        results[0][i] = static_cast<std::byte>(value - ((value & (1u << (to_bits_ - 1))) << 1));
      }
    }
  }

 private:
  // Where bit `bit` of a packed array lies in our storage, which pads narrow elements to bytes.
  static int64_t ByteOf(int64_t bit, int bits) { return bits < 8 ? bit / bits : bit / 8; }
  static int ShiftOf(int64_t bit, int bits) {
    return static_cast<int>(bits < 8 ? bit % bits : bit % 8);
  }

  DType from_, to_;
  int64_t bytes_, from_count_, to_count_;
  int from_bits_, to_bits_;
};

// map over a computation with a tuple result or over no operands has no fused form.
class MapKernel : public Kernel {
 public:
  MapKernel(std::unique_ptr<ElementFunction> function, int64_t count)
      : function_(std::move(function)), count_(count) {}
  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    function_->Run(count_, operands, results, scratch);
  }

 private:
  std::unique_ptr<ElementFunction> function_;
  int64_t count_;
};

}  // namespace

KernelOrError MakeElementwise(const Instruction& instruction) {
  if (instruction.opcode() == Opcode::kBitcastConvert) {
    const Shape* from = instruction.operand(0)->shape();
    if (DTypeBits(from->dtype()) != DTypeBits(instruction.shape()->dtype())) {
      return std::make_unique<BitcastWidthKernel>(from, instruction.shape());
    }
  }
  if (instruction.opcode() == Opcode::kMap &&
      (instruction.shape()->IsTuple() || instruction.operand_count() == 0)) {
    auto function = GSHARD_TRY(CompileElementFunction(*instruction.called(0)));
    const Shape* shape = instruction.shape();
    const int64_t count =
        shape->IsTuple() ? shape->element(0)->element_count() : shape->element_count();
    return std::make_unique<MapKernel>(std::move(function), count);
  }
  return MakeSingleElementwise(instruction);
}

}  // namespace gshard::cpu
