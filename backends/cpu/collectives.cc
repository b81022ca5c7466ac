// Execution of planned collectives. Work is cut into pieces of rows and bytes that do not depend on
// the number of threads.
#include "backends/cpu/collectives.h"

#include <algorithm>
#include <cstring>
#include <vector>

namespace gshard::cpu {
namespace {

// Bytes of one piece of a result.
constexpr int64_t kPieceBytes = 64 << 10;

class PartRunner {
 public:
  PartRunner(const CollectiveStep& step, const CollectivePart& part, std::byte* arena)
      : opcode_(step.op->instruction->opcode()), part_(part), arena_(arena) {
    // A result is rows of row_bytes_; a piece is some whole rows or a part of one.
    row_bytes_ = std::max<int64_t>(part.result_bytes / std::max<int64_t>(part.outer, 1), 1);
    if (opcode_ == Opcode::kRaggedAllToAll) {
      rows_per_piece_ = part.outer;
      pieces_per_row_ = 1;
    } else if (opcode_ == Opcode::kAllReduce || opcode_ == Opcode::kAllReduceStart ||
               opcode_ == Opcode::kReduceScatter) {
      rows_per_piece_ = std::max<int64_t>(kPieceBytes / row_bytes_, 1);
      pieces_per_row_ = (row_bytes_ + kPieceBytes - 1) / kPieceBytes;
    } else {
      rows_per_piece_ = std::max<int64_t>(kPieceBytes / row_bytes_, 1);
      pieces_per_row_ = 1;
    }
    row_groups_ = (part.outer + rows_per_piece_ - 1) / rows_per_piece_;
  }

  int64_t pieces() const { return row_groups_ * pieces_per_row_; }

  void Run(uint32_t c, int64_t piece, Scratch& scratch) const {
    const int64_t first_row = piece / pieces_per_row_ * rows_per_piece_;
    const int64_t rows = std::min(rows_per_piece_, part_.outer - first_row);
    const int64_t begin = piece % pieces_per_row_ * kPieceBytes;
    std::byte* result = arena_ + part_.result_base + c * part_.result_bytes;
    const uint32_t sequence = part_.sequence_of[c];
    const std::span<const int64_t> members =
        std::span<const int64_t>(part_.members)
            .subspan(part_.begin[sequence], part_.begin[sequence + 1] - part_.begin[sequence]);
    switch (opcode_) {
      case Opcode::kAllReduce:
      case Opcode::kAllReduceStart:
        Reduce(members, first_row, rows, begin, 1, 0, result, scratch);
        break;
      case Opcode::kReduceScatter:
        Reduce(members, first_row, rows, begin, part_.blocks, part_.position_of[c], result,
               scratch);
        break;
      case Opcode::kAllGather:
      case Opcode::kAllGatherStart:
        Gather(members, first_row, rows, 1, 0, result);
        break;
      case Opcode::kAllToAll:
        Gather(members, first_row, rows, part_.blocks, part_.position_of[c], result);
        break;
      case Opcode::kRaggedAllToAll:
        Ragged(members, part_.position_of[c], result);
        break;
      default:
        throw InternalError("a collective that only passes on");
    }
  }

 private:
  // Rows of the result: the fold over members of block `block` of `blocks` in their rows.
  void Reduce(std::span<const int64_t> members, int64_t first_row, int64_t rows, int64_t begin,
              int64_t blocks, int64_t block, std::byte* result, Scratch& scratch) const {
    auto** from = reinterpret_cast<const std::byte**>(
        scratch.Allocate(members.size() * sizeof(const std::byte*)));
    // Rows that are neighbours in members and result alike are one run.
    int64_t run_rows = blocks == 1 ? rows : 1;
    for (int64_t row = first_row; row < first_row + rows; row += run_rows) {
      const int64_t at = (row * blocks + block) * row_bytes_ + begin;
      for (size_t m = 0; m < members.size(); ++m) from[m] = arena_ + members[m] + at;
      const int64_t bytes =
          pieces_per_row_ > 1 ? std::min(kPieceBytes, row_bytes_ - begin) : run_rows * row_bytes_;
      part_.fold->Run(bytes / part_.element_bytes, {from, members.size()},
                      result + row * row_bytes_ + begin, scratch);
    }
  }

  // Rows of the result: block `block` of `blocks` of every member's row, one after another.
  void Gather(std::span<const int64_t> members, int64_t first_row, int64_t rows, int64_t blocks,
              int64_t block, std::byte* result) const {
    const auto inner = static_cast<size_t>(part_.inner);
    for (int64_t row = first_row; row < first_row + rows; ++row) {
      std::byte* to = result + row * row_bytes_;
      for (int64_t member : members) {
        std::memcpy(to, arena_ + member + (row * blocks + block) * part_.inner, inner);
        to += inner;
      }
    }
  }

  int64_t ReadIndex(int64_t array, int64_t index) const {
    const DType dtype = index_dtype_;
    const std::byte* at = arena_ + array + index * StorageBytes(dtype);
    if (StorageBytes(dtype) == 4) {
      int32_t value = 0;
      std::memcpy(&value, at, sizeof value);
      return dtype == DType::kU32 ? static_cast<int64_t>(static_cast<uint32_t>(value)) : value;
    }
    int64_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
  }

  // docs/semantics.md, "Collectives": every peer writes the slice meant for this device into it.
  void Ragged(std::span<const int64_t> members, int64_t position, std::byte* result) const {
    const int64_t row = part_.inner;
    const size_t group = members.size() / 6;
    std::memcpy(result, arena_ + members[static_cast<size_t>(position) * 6 + 1],
                static_cast<size_t>(part_.result_bytes));
    for (size_t peer = 0; peer < group; ++peer) {
      const std::span<const int64_t> of = members.subspan(peer * 6, 6);
      const int64_t from = ReadIndex(of[2], position), size = ReadIndex(of[3], position);
      const int64_t to = ReadIndex(of[4], position);
      if (size == 0) continue;
      if (from < 0 || size < 0 || to < 0 || (from + size) * row > part_.operand_bytes ||
          (to + size) * row > part_.result_bytes) {
        throw std::out_of_range("a ragged-all-to-all sends beyond its buffers");
      }
      std::memcpy(result + to * row, arena_ + of[0] + from * row, static_cast<size_t>(size * row));
    }
  }

 public:
  void set_index_dtype(DType dtype) { index_dtype_ = dtype; }

 private:
  Opcode opcode_;
  const CollectivePart& part_;
  std::byte* arena_;
  DType index_dtype_ = DType::kS32;
  int64_t row_bytes_ = 1;
  int64_t rows_per_piece_ = 1;
  int64_t pieces_per_row_ = 1;
  int64_t row_groups_ = 1;
};

}  // namespace

void RunCollective(const CollectiveStep& step, std::byte* arena, ActiveSet* active,
                   Workers& workers) {
  for (const CollectivePart& part : step.parts) {
    if (part.result_bytes == 0) continue;
    PartRunner runner(step, part, arena);
    if (step.op->instruction->opcode() == Opcode::kRaggedAllToAll) {
      runner.set_index_dtype(step.op->instruction->operand(2)->shape()->dtype());
    }
    const int64_t pieces = runner.pieces();
    const int64_t count = part.classes->count();
    const uint8_t* mask = active == nullptr ? nullptr : active->OfClasses(part.classes).data();
    const int64_t work = count * std::max(part.operand_bytes, part.result_bytes);
    workers.For(count * pieces, work, [&](int64_t index, int worker) {
      const auto c = static_cast<uint32_t>(index / pieces);
      if (mask != nullptr && mask[c] == 0) return;
      BumpScratch& scratch = workers.scratch(worker);
      const BumpScratch::Mark mark = scratch.Position();
      runner.Run(c, index % pieces, scratch);
      scratch.Rewind(mark);
    });
  }
}

}  // namespace gshard::cpu
