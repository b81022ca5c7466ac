// rng-bit-generator (ThreeFry-2x32 and Philox-4x32, bit for bit as XLA) and rng.
//
// Both algorithms are those of Salmon et al., "Parallel random numbers: as easy as 1, 2, 3" (SC11);
// how blocks are laid out over the result is in docs/semantics.md, "Random". rng draws from Philox
// with the element's index as counter and a key made from the instruction's name: equal inputs give
// equal values in every run, for any split into ranges, and every time the instruction executes.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <numbers>
#include <vector>

#include "backends/cpu/ops/factories.h"

namespace gshard::cpu {
namespace {

constexpr uint32_t Low(uint64_t x) { return static_cast<uint32_t>(x); }
constexpr uint32_t High(uint64_t x) { return static_cast<uint32_t>(x >> 32); }
constexpr uint64_t Join(uint32_t low, uint32_t high) { return low | uint64_t{high} << 32; }

constexpr int64_t kBlocksAtOnce = 256;  // blocks computed side by side

// Blocks first, first + 1, .., first + count - 1 (at most kBlocksAtOnce) of ThreeFry-2x32 with 20
// rounds.
void ThreeFryBlocks(uint64_t key, uint64_t first, int64_t count, uint32_t* x0, uint32_t* x1) {
  constexpr int kRotations[2][4] = {{13, 15, 26, 6}, {17, 29, 16, 24}};
  const uint32_t k[3] = {Low(key), High(key), Low(key) ^ High(key) ^ 0x1BD11BDAu};
  for (int64_t i = 0; i < count; ++i) {
    const uint64_t counter = first + static_cast<uint64_t>(i);
    x0[i] = Low(counter) + k[0];
    x1[i] = High(counter) + k[1];
  }
  for (uint32_t group = 0; group < 5; ++group) {
    for (const int rotation : kRotations[group % 2]) {
      for (int64_t i = 0; i < count; ++i) {
        x0[i] += x1[i];
        x1[i] = (x1[i] << rotation | x1[i] >> (32 - rotation)) ^ x0[i];
      }
    }
    const uint32_t a = k[(group + 1) % 3], b = k[(group + 2) % 3] + group + 1;
    for (int64_t i = 0; i < count; ++i) {
      x0[i] += a;
      x1[i] += b;
    }
  }
}

struct Counter128 {
  uint64_t low = 0, high = 0;
  Counter128 Plus(uint64_t n) const { return {low + n, high + (low + n < low ? 1u : 0u)}; }
};

// One block of Philox-4x32 with 10 rounds.
std::array<uint32_t, 4> PhiloxBlock(uint64_t key, Counter128 counter) {
  uint32_t k0 = Low(key), k1 = High(key);
  std::array<uint32_t, 4> c = {Low(counter.low), High(counter.low), Low(counter.high),
                               High(counter.high)};
  for (int round = 0; round < 10; ++round) {
    const uint64_t p = uint64_t{c[0]} * 0xD2511F53u, q = uint64_t{c[2]} * 0xCD9E8D57u;
    c = {High(q) ^ c[1] ^ k0, Low(q), High(p) ^ c[3] ^ k1, Low(p)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Writes the low bits of words as elements of `bits` width at StorageBytes each.
class BitWriter {
 public:
  explicit BitWriter(DType dtype)
      : bytes_(StorageBytes(dtype)),
        bits_(DTypeBits(dtype)),
        is_signed_(ClassOf(dtype) == DTypeClass::kSigned) {}
  int64_t bytes() const { return bytes_; }
  bool IsWide() const { return bytes_ == 8; }
  void Put(std::byte* target, uint64_t word) const {
    if (bits_ < 8) {
      word &= (1u << bits_) - 1;
      if (is_signed_ && (word >> (bits_ - 1)) != 0) word |= ~uint64_t{0} << bits_;
    }
    std::memcpy(target, &word, static_cast<size_t>(bytes_));
  }

 private:
  int64_t bytes_;
  int bits_;
  bool is_signed_;
};

class ThreeFryKernel : public Kernel {
 public:
  explicit ThreeFryKernel(const Shape* bits)
      : writer_(bits->dtype()), count_(bits->element_count()) {
    // Narrow elements: the two words of a block go to adjacent indices of one dim, the first of
    // even size, else the first of the largest.
    size_t split = 0;
    const std::span<const int64_t> dims = bits->dims();
    for (size_t i = 0; i < dims.size(); ++i) {
      if (dims[i] % 2 == 0) {
        split = i;
        break;
      }
      if (dims[i] > dims[split]) split = i;
    }
    for (size_t i = 0; i < dims.size(); ++i) {
      (i < split ? outer_ : i == split ? size_ : inner_) *= dims[i];
    }
  }

  void Run(ConstBuffers operands, Buffers results, Scratch&) const override {
    uint64_t state[2];
    std::memcpy(state, operands[0], sizeof state);
    uint32_t x0[kBlocksAtOnce], x1[kBlocksAtOnce];
    const int64_t half = (size_ + 1) / 2;
    const int64_t blocks = writer_.IsWide() ? count_ : outer_ * half * inner_;
    int64_t o = 0, i = 0, k = 0;  // place of the next block: outer, half of the split dim, inner
    for (int64_t done = 0; done < blocks; done += kBlocksAtOnce) {
      const int64_t n = std::min(kBlocksAtOnce, blocks - done);
      ThreeFryBlocks(state[0], state[1] + static_cast<uint64_t>(done), n, x0, x1);
      if (writer_.IsWide()) {
        for (int64_t b = 0; b < n; ++b) {
          writer_.Put(results[1] + (done + b) * writer_.bytes(), Join(x0[b], x1[b]));
        }
        continue;
      }
      for (int64_t b = 0; b < n; ++b) {
        std::byte* target = results[1] + ((o * size_ + 2 * i) * inner_ + k) * writer_.bytes();
        writer_.Put(target, x0[b]);
        if (2 * i + 1 < size_) writer_.Put(target + inner_ * writer_.bytes(), x1[b]);
        if (++k < inner_) continue;
        k = 0;
        if (++i < half) continue;
        i = 0;
        ++o;
      }
    }
    state[1] += static_cast<uint64_t>(blocks);
    std::memcpy(results[0], state, sizeof state);
  }

 private:
  BitWriter writer_;
  int64_t count_;
  int64_t outer_ = 1, size_ = 1, inner_ = 1;
};

class PhiloxKernel : public Kernel {
 public:
  PhiloxKernel(const Shape* state, const Shape* bits)
      : writer_(bits->dtype()),
        count_(bits->element_count()),
        full_counter_(state->element_count() == 3) {}

  void Run(ConstBuffers operands, Buffers results, Scratch&) const override {
    uint64_t state[3];
    std::memcpy(state, operands[0], StateBytes());
    // A state of two words has the key as the high half of the counter.
    const Counter128 start{state[1], full_counter_ ? state[2] : state[0]};
    const int64_t per_block = writer_.IsWide() ? 2 : 4;
    const int64_t blocks = (count_ + per_block - 1) / per_block;
    for (int64_t b = 0; b < blocks; ++b) {
      const auto words = PhiloxBlock(state[0], start.Plus(static_cast<uint64_t>(b)));
      const int64_t first = b * per_block;
      for (int64_t e = 0; e < std::min(per_block, count_ - first); ++e) {
        const auto w = static_cast<size_t>(e);
        writer_.Put(results[1] + (first + e) * writer_.bytes(),
                    writer_.IsWide() ? Join(words[2 * w], words[2 * w + 1]) : words[w]);
      }
    }
    const Counter128 end = start.Plus(static_cast<uint64_t>(blocks));
    state[1] = end.low;
    state[2] = end.high;
    std::memcpy(results[0], state, StateBytes());
  }

 private:
  size_t StateBytes() const { return (full_counter_ ? 3 : 2) * sizeof(uint64_t); }

  BitWriter writer_;
  int64_t count_;
  bool full_counter_;
};

// FNV-1a: the key of an rng instruction.
uint64_t HashOf(std::string_view text) {
  uint64_t hash = 0xcbf29ce484222325u;
  for (const char c : text) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3u;
  return hash;
}

double LoadReal(DType dtype, const std::byte* data) {
  if (dtype == DType::kF64) {
    double value;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
  if (dtype == DType::kF32) {
    float value;
    std::memcpy(&value, data, sizeof value);
    return static_cast<double>(value);
  }
  uint16_t bits = 0;
  std::memcpy(&bits, data, StorageBytes(dtype) == 1 ? 1 : 2);
  return DecodeSmallFloat(dtype, bits);
}

// Stores the value rounded to the type; returns what it has become.
double StoreReal(DType dtype, double value, std::byte* data) {
  if (dtype == DType::kF64) {
    std::memcpy(data, &value, sizeof value);
    return value;
  }
  if (dtype == DType::kF32) {
    const float rounded = static_cast<float>(value);
    std::memcpy(data, &rounded, sizeof rounded);
    return static_cast<double>(rounded);
  }
  const uint16_t bits = EncodeSmallFloat(dtype, value);
  std::memcpy(data, &bits, StorageBytes(dtype) == 1 ? 1 : 2);
  return DecodeSmallFloat(dtype, bits);
}

// In [0, 1), of 53 random bits.
double Unit(uint64_t bits) { return std::ldexp(static_cast<double>(bits >> 11), -53); }

// Operands: those of the instruction, then partition-id and replica-id: every device has its own
// stream of random numbers. Without them it is that of the first device.
class RngKernel : public Kernel {
 public:
  RngKernel(const Instruction& instruction)
      : dtype_(instruction.shape()->dtype()),
        bytes_(StorageBytes(dtype_)),
        count_(instruction.shape()->element_count()),
        normal_(instruction.attributes<RngAttributes>().distribution == RngDistribution::kNormal),
        key_(HashOf(instruction.name())) {}

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, count_, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return 1; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch&) const override {
    const uint64_t device =
        operands.size() < 4 ? 0 : Join(LoadU32(operands[2]), LoadU32(operands[3]));
    for (int64_t i = 0; i < count; ++i) {
      const auto words = PhiloxBlock(key_, {static_cast<uint64_t>(first + i), device});
      const uint64_t a = Join(words[0], words[1]), b = Join(words[2], words[3]);
      std::byte* target = results[0] + i * bytes_;
      if (IsFloat(dtype_)) {
        Real(a, b, operands, target);
      } else {
        Whole(a, operands, target);
      }
    }
  }
  int64_t Flops() const override { return 40 * count_; }

 private:
  void Real(uint64_t a, uint64_t b, ConstBuffers operands, std::byte* target) const {
    const double first = LoadReal(dtype_, operands[0]), second = LoadReal(dtype_, operands[1]);
    if (normal_) {
      // Box and Muller, "A note on the generation of random normal deviates" (1958).
      const double radius = std::sqrt(-2 * std::log(1 - Unit(a)));
      StoreReal(dtype_, first + second * radius * std::cos(2 * std::numbers::pi * Unit(b)), target);
      return;
    }
    // What rounds up to the excluded bound becomes the included one.
    const double value = StoreReal(dtype_, first + (second - first) * Unit(a), target);
    if (value >= second) std::memcpy(target, operands[0], static_cast<size_t>(bytes_));
  }

  void Whole(uint64_t random, ConstBuffers operands, std::byte* target) const {
    const bool is_signed = ClassOf(dtype_) == DTypeClass::kSigned;
    const uint64_t low = LoadWhole(operands[0], is_signed),
                   high = LoadWhole(operands[1], is_signed);
    __extension__ typedef unsigned __int128 Wide;
    const uint64_t offset = static_cast<uint64_t>(Wide{random} * (high - low) >> 64);
    const uint64_t value = low + offset;
    std::memcpy(target, &value, static_cast<size_t>(bytes_));
  }
  static uint32_t LoadU32(const std::byte* data) {
    uint32_t value = 0;
    std::memcpy(&value, data, sizeof value);
    return value;
  }
  uint64_t LoadWhole(const std::byte* data, bool is_signed) const {
    uint64_t value = 0;
    std::memcpy(&value, data, static_cast<size_t>(bytes_));
    const int unused = 64 - 8 * static_cast<int>(bytes_);
    if (is_signed) value = static_cast<uint64_t>(static_cast<int64_t>(value << unused) >> unused);
    return value;
  }

  DType dtype_;
  int64_t bytes_, count_;
  bool normal_;
  uint64_t key_;
};

}  // namespace

KernelOrError MakeRng(const Instruction& instruction) {
  if (instruction.opcode() == Opcode::kRng) return std::make_unique<RngKernel>(instruction);
  CheckInternal(instruction.opcode() == Opcode::kRngBitGenerator, "not of the rng family");
  const Shape* state = instruction.operand(0)->shape();
  const Shape* bits = instruction.shape()->element(1);
  const bool three_fry =
      instruction.attributes<RngBitGeneratorAttributes>().algorithm == RngAlgorithm::kThreeFry;
  const int64_t words = state->element_count();
  if (state->dtype() != DType::kU64 || state->rank() != 1 ||
      !(words == 2 || (words == 3 && !three_fry))) {
    return Fail(instruction.parent()->module().ErrorAt(
        &instruction, "E-RUN-005",
        std::string(three_fry ? "ThreeFry keeps its state in u64[2]"
                              : "Philox keeps its state in u64[2] or u64[3]") +
            ", found " + ToString(state, false)));
  }
  if (three_fry) return std::make_unique<ThreeFryKernel>(bits);
  return std::make_unique<PhiloxKernel>(state, bits);
}

}  // namespace gshard::cpu
