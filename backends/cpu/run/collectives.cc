// Execution of planned collectives. Work is cut into pieces of rows and bytes that do not depend on
// the number of threads.
#include "backends/cpu/run/collectives.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "backends/cpu/arrays/index_value.h"

namespace gshard::cpu {
namespace {

// Bytes of one piece of a result.
constexpr int64_t kPieceBytes = 64 << 10;

// All-reduce and reduce-scatter: the members of a sequence are folded piece by piece in the layout
// of the operand, and the pieces then go to the results they belong to.
class ReductionRunner {
 public:
  ReductionRunner(const CollectivePart& part, std::byte* arena) : part_(part), arena_(arena) {
    const size_t sequences = part.begin.size() - 1;
    class_of_.assign(sequences * static_cast<size_t>(part.blocks), kNoDevice);
    for (uint32_t c = 0; c < part.classes->count(); ++c) {
      const int64_t block = part.blocks > 1 ? part.position_of[c] : 0;
      class_of_[static_cast<size_t>(part.sequence_of[c] * part.blocks + block)] = c;
    }
    pieces_ = (part.operand_bytes + kPieceBytes - 1) / kPieceBytes;
  }

  int64_t tasks() const { return static_cast<int64_t>(part_.begin.size() - 1) * pieces_; }

  void Run(int64_t task, const uint8_t* mask, Scratch& scratch) const {
    const auto sequence = static_cast<uint32_t>(task / pieces_);
    const int64_t begin = task % pieces_ * kPieceBytes;
    const int64_t end = std::min(begin + kPieceBytes, part_.operand_bytes);
    const uint32_t* classes = &class_of_[static_cast<size_t>(sequence * part_.blocks)];
    // Groups take part as a whole; a sequence may belong to groups of which some do not. (A rank
    // may want some of the blocks only.)
    if (!std::any_of(classes, classes + part_.blocks, [mask](uint32_t c) {
          return c != kNoDevice && (mask == nullptr || mask[c] != 0);
        })) {
      return;
    }
    const std::span<const int64_t> members = part_.MembersOf(sequence);
    const size_t count = members.size();
    auto** from =
        reinterpret_cast<const std::byte**>(scratch.Allocate(count * sizeof(const std::byte*)));
    std::ranges::transform(members, from, [&](int64_t at) { return arena_ + at + begin; });
    // A piece inside one block goes straight to its result.
    const int64_t block = begin / part_.inner;
    if ((end - 1) / part_.inner == block) {
      if (std::byte* result = ResultAt(classes, begin); result != nullptr) {
        Fold({from, count}, end - begin, result, scratch);
      }
      return;
    }
    std::byte* folded = scratch.Allocate(static_cast<size_t>(end - begin));
    Fold({from, count}, end - begin, folded, scratch);
    for (int64_t at = begin; at < end;) {
      const int64_t length = std::min(part_.inner - at % part_.inner, end - at);
      if (std::byte* result = ResultAt(classes, at); result != nullptr) {
        std::memcpy(result, folded + (at - begin), static_cast<size_t>(length));
      }
      at += length;
    }
  }

 private:
  void Fold(std::span<const std::byte* const> members, int64_t bytes, std::byte* result,
            Scratch& scratch) const {
    part_.fold->Run(bytes / part_.element_bytes, members, part_.fold_block, result, scratch);
  }
  // Null: another rank's.
  std::byte* ResultAt(const uint32_t* classes, int64_t at) const {
    const int64_t block = at / part_.inner;
    const int64_t row = block / part_.blocks;
    const int64_t result = part_.results[classes[block % part_.blocks]];
    if (result == kNotHere) return nullptr;
    return arena_ + result + row * part_.inner + at % part_.inner;
  }

  const CollectivePart& part_;
  std::byte* arena_;
  std::vector<uint32_t> class_of_;  // by sequence and block
  int64_t pieces_ = 1;
};

template <size_t kBytes>
void CopyStrided(std::byte* to, size_t to_stride, const std::byte* from, size_t from_stride,
                 int64_t rows) {
  for (int64_t row = 0; row < rows; ++row) {
    std::memcpy(to, from, kBytes);
    to += to_stride;
    from += from_stride;
  }
}

// All-gather, all-to-all and ragged-all-to-all: every result class copies from its members.
class CopyRunner {
 public:
  CopyRunner(const CollectiveStep& step, const CollectivePart& part, std::byte* arena)
      : part_(part), arena_(arena) {
    const Instruction& x = *step.op->instruction;
    ragged_ = x.opcode() == Opcode::kRaggedAllToAll;
    if (ragged_) {
      for (const size_t k : {kFrom, kSize, kTo, kWanted}) {
        index_dtype_[k] = x.operand(static_cast<int64_t>(k))->shape()->dtype();
      }
    }
    split_ = x.opcode() == Opcode::kAllToAll;
    row_bytes_ = std::max<int64_t>(part.result_bytes / std::max<int64_t>(part.outer, 1), 1);
    rows_per_piece_ = ragged_ ? part.outer : std::max<int64_t>(kPieceBytes / row_bytes_, 1);
    pieces_ = (part.outer + rows_per_piece_ - 1) / rows_per_piece_;
  }

  int64_t tasks() const { return part_.classes->count() * pieces_; }

  void Run(int64_t task, const uint8_t* mask) const {
    const auto c = static_cast<uint32_t>(task / pieces_);
    if (mask != nullptr && mask[c] == 0) return;
    const int64_t first_row = task % pieces_ * rows_per_piece_;
    const int64_t rows = std::min(rows_per_piece_, part_.outer - first_row);
    std::byte* result = arena_ + part_.results[c];
    const uint32_t sequence = part_.sequence_of[c];
    const std::span<const int64_t> members = part_.MembersOf(sequence);
    if (ragged_) {
      Ragged(members, c, result);
    } else {
      Gather(members, first_row, rows, split_ ? part_.position_of[c] : 0, result);
    }
  }

 private:
  // Rows of the result: block `block` of every member's row, one member after another.
  void Gather(std::span<const int64_t> members, int64_t first_row, int64_t rows, int64_t block,
              std::byte* result) const {
    const auto inner = static_cast<size_t>(part_.inner);
    const auto from_stride = static_cast<size_t>(part_.blocks * part_.inner);
    const auto to_stride = static_cast<size_t>(row_bytes_);
    std::byte* to = result + first_row * row_bytes_;
    for (int64_t member : members) {
      if (member == kNotHere) {  // comes from another rank
        to += inner;
        continue;
      }
      const std::byte* from = arena_ + member + (first_row * part_.blocks + block) * part_.inner;
      switch (inner) {
        case 1:
          CopyStrided<1>(to, to_stride, from, from_stride, rows);
          break;
        case 2:
          CopyStrided<2>(to, to_stride, from, from_stride, rows);
          break;
        case 4:
          CopyStrided<4>(to, to_stride, from, from_stride, rows);
          break;
        case 8:
          CopyStrided<8>(to, to_stride, from, from_stride, rows);
          break;
        case 16:
          CopyStrided<16>(to, to_stride, from, from_stride, rows);
          break;
        default:
          for (int64_t row = 0; row < rows; ++row) {
            std::memcpy(to + static_cast<size_t>(row) * to_stride,
                        from + static_cast<size_t>(row) * from_stride, inner);
          }
      }
      to += inner;
    }
  }

  // Element `index` of one of the operands that tell rows, of the member with these addresses.
  int64_t ReadIndex(std::span<const int64_t> of, size_t operand, int64_t index) const {
    return IndexValue(index_dtype_[operand], arena_ + of[operand], index);
  }

  // docs/semantics.md, "Collectives": every peer writes the slice meant for this device into it.
  void Ragged(std::span<const int64_t> members, uint32_t c, std::byte* result) const {
    const int64_t row = part_.inner;
    const int64_t position = part_.position_of[c];
    const size_t group = members.size() / 6;
    const std::span<const int64_t> own = members.subspan(static_cast<size_t>(position) * 6, 6);
    std::memcpy(result, arena_ + own[1], static_cast<size_t>(part_.result_bytes));
    if (row == 0) return;
    const int64_t rows_there = part_.operand_bytes / row, rows_here = part_.result_bytes / row;
    for (size_t peer = 0; peer < group; ++peer) {
      const std::span<const int64_t> of = members.subspan(peer * 6, 6);
      const int64_t from = ReadIndex(of, kFrom, position), size = ReadIndex(of, kSize, position);
      const int64_t to = ReadIndex(of, kTo, position);
      const int64_t wanted = ReadIndex(own, kWanted, static_cast<int64_t>(peer));
      if (wanted != size) {
        throw std::out_of_range(
            fmt::format("a ragged-all-to-all sends {} rows from member {} of the group to device "
                        "{}, which expects {}",
                        size, peer, part_.classes->first_device(c), wanted));
      }
      if (size == 0) continue;
      if (from < 0 || size < 0 || to < 0 || size > rows_there || size > rows_here ||
          from > rows_there - size || to > rows_here - size) {
        throw std::out_of_range("a ragged-all-to-all sends beyond its buffers");
      }
      std::memcpy(result + to * row, arena_ + of[0] + from * row, static_cast<size_t>(size * row));
    }
  }

  // Operands of ragged-all-to-all that tell rows: where they are, how many, where they go, and how
  // many are expected.
  static constexpr size_t kFrom = 2, kSize = 3, kTo = 4, kWanted = 5;

  const CollectivePart& part_;
  std::byte* arena_;
  bool ragged_ = false, split_ = false;
  std::array<DType, 6> index_dtype_{};
  int64_t row_bytes_ = 1;
  int64_t rows_per_piece_ = 1;
  int64_t pieces_ = 1;
};

}  // namespace

void RunCollective(const CollectiveStep& step, std::byte* arena, ActiveSet* active,
                   Workers& workers) {
  for (const CollectivePart& part : step.parts) {
    if (part.result_bytes == 0) continue;
    const uint8_t* mask = active == nullptr ? nullptr : active->OfClasses(part.classes).data();
    const auto members = static_cast<int64_t>(part.members.size());
    const int64_t work = part.operand_bytes * members + part.result_bytes * part.classes->count();
    if (part.fold != nullptr) {
      const ReductionRunner runner(part, arena);
      workers.For(runner.tasks(), work, [&](int64_t task, int worker) {
        BumpScratch& scratch = workers.scratch(worker);
        const BumpScratch::Mark mark = scratch.Position();
        runner.Run(task, mask, scratch);
        scratch.Rewind(mark);
      });
    } else {
      const CopyRunner runner(step, part, arena);
      workers.For(runner.tasks(), work, [&](int64_t task, int) { runner.Run(task, mask); });
    }
  }
}

}  // namespace gshard::cpu
