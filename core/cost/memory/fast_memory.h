// Where values lie in a chip's fast memory (a TPU's VMEM, v4's CMEM), which is of a fixed size and
// takes them as whole pieces: each at one address for as long as it is there.
//
// XLA's compiler for TPUs places values so after it has scheduled them: those first whose kernels
// move most bytes, each at the lowest address that is free for its whole life. What is free in
// total may then be in pieces that are too small for the next.
#ifndef GSHARD_CORE_COST_MEMORY_FAST_MEMORY_H_
#define GSHARD_CORE_COST_MEMORY_FAST_MEMORY_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace gshard {

// Steps of a program, both included.
struct StepSpan {
  uint32_t first = 0, last = 0;
};

// A value that may be placed.
struct FastMemoryValue {
  // Steps in which it must be there, in order and disjoint. It is made in the first, but for a copy
  // of what lies in the other memory.
  std::vector<StepSpan> uses;
  int64_t bytes = 0;
  int64_t moved_bytes = 0;  // that kernels read and write of it, over its life
  bool is_copy = false;
  // All its uses or none, and its place is free for others in between.
  bool is_whole = false;
};

// Where a value is in one of its uses: in the other memory; in fast memory, having been fetched for
// this use; there since it was made or since the use before.
enum class FastUse : uint8_t { kElsewhere, kFetched, kStays };

class FastMemory {
 public:
  // Of a program of so many steps.
  FastMemory(size_t steps, int64_t capacity);

  // Gives a value the lowest address that is free; returns where it is, by use. It stays from one
  // use to the next where there is room, else it is given up and fetched again, a step before the
  // use: in between it is in the other memory.
  std::vector<FastUse> Place(const FastMemoryValue& value);
  // Takes the addresses below `bytes` for a step, whatever lies there.
  void Reserve(StepSpan steps, int64_t bytes);

  // The most bytes that are in use in a step, and the end of the highest piece.
  int64_t PeakBytes() const { return most_[1]; }
  int64_t EndAddress() const { return end_address_; }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;
  struct Piece {
    StepSpan steps;
    int64_t address = 0, bytes = 0;
  };
  // Of a list in the order of addresses, none of which touches the next.
  struct Addresses {
    int64_t begin = 0, end = 0;
    uint32_t next = kNone;
  };

  void Add(const Piece& piece);
  void AddTo(size_t node, StepSpan of_node, const Piece& piece);
  // Adds [begin, end) to the list that begins at `list`.
  void AddAddresses(uint32_t& list, int64_t begin, int64_t end);
  StepSpan AllSteps() const { return {0, static_cast<uint32_t>(size_ - 1)}; }
  // The first of these steps in which more than `most` bytes are in use, but for what the node's
  // parents add.
  uint32_t FirstAbove(int64_t most, size_t node, StepSpan of_node, StepSpan steps) const;
  // The first of these steps without room for so many bytes.
  uint32_t FirstFull(StepSpan steps, int64_t bytes) const;
  // Adds what is taken in these steps to beside_.
  void Collect(size_t node, StepSpan of_node, StepSpan steps) const;
  std::vector<FastUse> PlaceWhole(const FastMemoryValue& value);
  // The lowest address that is free in all these steps, each of which has room, or -1.
  int64_t FreeAddress(std::span<const StepSpan> steps, int64_t bytes) const;

  int64_t capacity_ = 0, end_address_ = 0;
  // A tree over the steps. Per node: the most bytes of its steps without what its parents add, and
  // what it adds to all its steps; the addresses that are taken in all its steps but for what its
  // parents have, and those that are taken in any (heads of lists in addresses_).
  size_t size_ = 1;
  std::vector<int64_t> most_, added_;
  std::vector<uint32_t> covered_, taken_;
  std::vector<Addresses> addresses_;
  mutable std::vector<std::pair<int64_t, int64_t>> beside_;  // FreeAddress's: first bytes, ends
};

// Where each value is, by use: those are placed first that move most bytes, then in the order
// given.
std::vector<std::vector<FastUse>> PlaceBestFirst(FastMemory& memory,
                                                 std::span<const FastMemoryValue> values);

}  // namespace gshard

#endif  // GSHARD_CORE_COST_MEMORY_FAST_MEMORY_H_
