// Calls that XLA's compiler for TPUs makes of collectives and copies that run beside compute.
#include <algorithm>
#include <numeric>
#include <optional>
#include <span>
#include <string_view>
#include <vector>

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

// The elements of an array in the order of memory: dims, each a piece of one of the array's, and
// where each of them is in that order.
struct MemoryOrder {
  std::vector<int64_t> pieces;  // sizes, in the array's order
  std::vector<int64_t> order;   // indices of pieces, the outermost in memory first
  bool IsSame() const { return std::ranges::is_sorted(order); }
  std::vector<int64_t> Sizes() const {
    std::vector<int64_t> sizes;
    for (const int64_t i : order) sizes.push_back(pieces[static_cast<size_t>(i)]);
    return sizes;
  }
};

std::string_view TilesOf(const Shape& shape) {
  if (shape.layout() == nullptr) return {};
  const std::string_view tail = shape.layout()->tail;
  return tail.starts_with('T') ? tail.substr(0, tail.find('S')) : std::string_view();
}

// With whole tiles of `tile`, rows and columns, or without tiles if it is empty; nothing: the array
// has parts of tiles.
std::optional<MemoryOrder> OrderOf(const Shape& shape, std::span<const int64_t> tile) {
  const auto rank = static_cast<size_t>(shape.rank());
  std::vector<size_t> minor_first;
  for (size_t k = 0; k < rank; ++k) {
    minor_first.push_back(shape.layout() == nullptr
                              ? rank - 1 - k
                              : static_cast<size_t>(shape.layout()->minor_to_major[k]));
  }
  if (!tile.empty() && rank < 2) return std::nullopt;
  MemoryOrder memory;
  std::vector<int64_t> outer(rank), inner(rank, -1);  // pieces of each dim
  for (size_t d = 0; d < rank; ++d) {
    const int64_t size = shape.dim(static_cast<int64_t>(d));
    const int64_t part = tile.empty()          ? 0
                         : d == minor_first[0] ? tile[1]
                         : d == minor_first[1] ? tile[0]
                                               : 0;
    if (part > 0 && size % part != 0) return std::nullopt;
    outer[d] = std::ssize(memory.pieces);
    memory.pieces.push_back(part > 0 ? size / part : size);
    if (part == 0) continue;
    inner[d] = std::ssize(memory.pieces);
    memory.pieces.push_back(part);
  }
  for (size_t k = rank; k-- > 0;) memory.order.push_back(outer[minor_first[k]]);
  if (!tile.empty()) {
    memory.order.push_back(inner[minor_first[1]]);
    memory.order.push_back(inner[minor_first[0]]);
  }
  return memory;
}

}  // namespace

// A bitcast has the bytes of its operand as they lie, in tiles where both have the same.
Instruction* PlainBitcast(const Instruction& x, Builder& builder) {
  const Shape &from = *x.operand(0)->shape(), &to = *x.shape();
  if (!from.IsArray() || !to.IsArray() || from.dtype() != to.dtype() ||
      from.element_count() != to.element_count()) {
    return nullptr;
  }
  std::optional<MemoryOrder> before, after;
  if (TilesOf(from) == TilesOf(to) && !TilesOf(from).empty()) {
    std::vector<int64_t> tile = FirstTile(TilesOf(from));
    if (tile.size() != 2) tile.clear();
    before = OrderOf(from, tile);
    after = OrderOf(to, tile);
  }
  if (!before || !after) {
    before = OrderOf(from, {});
    after = OrderOf(to, {});
  }
  if (before->IsSame() && after->IsSame()) return nullptr;
  const auto transposed = [&](Instruction* value, const std::vector<int64_t>& order) {
    return builder.Transpose(value, order);
  };
  Instruction* value = builder.Reshape(x.operand(0), before->pieces);
  value = builder.Reshape(transposed(value, before->order), after->Sizes());
  std::vector<int64_t> back(after->order.size());
  for (size_t i = 0; i < back.size(); ++i) {
    back[static_cast<size_t>(after->order[i])] = static_cast<int64_t>(i);
  }
  Instruction* made = builder.Reshape(transposed(value, back), to.dims());
  made->set_shape(x.shape());
  return made;
}

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
