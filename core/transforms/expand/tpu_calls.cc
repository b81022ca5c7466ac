// Calls that XLA's compiler for TPUs makes of collectives and copies that run beside compute.
#include <algorithm>
#include <numeric>
#include <optional>

#include "core/transforms/expand/library_calls.h"
#include "ir/compiled_text.h"
#include "ir/custom_call.h"
#include "ir/dims.h"

namespace gshard {
namespace {

struct Piece {
  const Instruction* array = nullptr;
  Dims begin;
};

// What a slice, or one by the copy engines, is a piece of.
std::optional<Piece> PieceOf(const Instruction* x) {
  const Instruction* start = nullptr;
  if (x->opcode() == Opcode::kAsyncDone) {
    start = x->operand(0);
    while (start->opcode() == Opcode::kAsyncUpdate) start = start->operand(0);
    if (start->opcode() != Opcode::kAsyncStart || start->called().empty()) return std::nullopt;
    x = start->called(0)->root();
  }
  if (x->opcode() != Opcode::kSlice) return std::nullopt;
  const Instruction* array = x->operand(0);
  if (start != nullptr) {
    if (array->opcode() != Opcode::kParameter) return std::nullopt;
    array = start->operand(array->attributes<ParameterAttributes>().number);
  }
  return Piece{array, x->attributes<SliceAttributes>().starts};
}

}  // namespace

// The pieces lie where the array has them, in whichever order they are named.
LibraryResults ExpandPieces(const Instruction& call, Builder& builder) {
  std::vector<Piece> pieces;
  for (const Instruction* operand : call.operands()) {
    const auto piece = PieceOf(operand);
    if (!piece || (!pieces.empty() && piece->array != pieces[0].array)) return std::nullopt;
    pieces.push_back(*piece);
  }
  if (pieces.size() < 2 || !call.shape()->IsArray()) return std::nullopt;
  const auto [at, other] = std::ranges::mismatch(pieces[0].begin, pieces[1].begin);
  if (at == pieces[0].begin.end()) return std::nullopt;
  const auto dim = static_cast<size_t>(at - pieces[0].begin.begin());
  std::vector<size_t> order(pieces.size());
  std::iota(order.begin(), order.end(), size_t{0});
  std::ranges::sort(order, {}, [&](size_t i) { return pieces[i].begin[dim]; });
  std::vector<Instruction*> operands;
  for (const size_t i : order) operands.push_back(call.operand(static_cast<int64_t>(i)));
  const int64_t along[] = {static_cast<int64_t>(dim)};
  Instruction* all =
      builder.Add(Opcode::kConcatenate, operands, DimensionsAttributes{builder.Copy(Dims(along))},
                  nullptr, {}, call.name());
  return std::vector{all};
}

// A start does all of the collective: its results are what it sends, the buffer, and flags.
LibraryResults ExpandCollectiveStart(const Instruction& call, Builder& builder) {
  if (call.operand_count() != 1 || !IsCollective(call.operand(0)->opcode()) ||
      call.operand(0)->operand_count() != 1) {
    return std::nullopt;
  }
  const auto copy = [&](Instruction* x) { return builder.Add(Opcode::kCopy, {x}); };
  return std::vector{copy(call.operand(0)->operand(0)), copy(call.operand(0))};
}

// Its operands are what was sent, the buffer, ..
LibraryResults ExpandCollectiveDone(const Instruction& call, Builder& builder) {
  if (call.operand_count() < 2) return std::nullopt;
  return std::vector{builder.Add(Opcode::kCopy, {call.operand(1)})};
}

Instruction* BufferOfStep(const Instruction& collective) {
  const Computation& fused = *collective.parent();
  if (collective.operand_count() != 1 ||
      IsCustomCallTo(*fused.root(), kAsyncCollectiveStartTarget)) {
    return nullptr;
  }
  const Instruction* sent = collective.operand(0);
  if (sent->opcode() != Opcode::kParameter) return nullptr;
  const size_t next = static_cast<size_t>(sent->attributes<ParameterAttributes>().number) + 1;
  if (next >= fused.parameters().size()) return nullptr;
  Instruction* buffer = fused.parameters()[next];
  return Compatible(buffer->shape(), collective.shape()) ? buffer : nullptr;
}

}  // namespace gshard
