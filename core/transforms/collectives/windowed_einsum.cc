#include "core/transforms/collectives/windowed_einsum.h"

#include <algorithm>
#include <functional>

#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/device_scalar.h"
#include "core/transforms/rewriter.h"
#include "ir/dims.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

int64_t IndexOf(Dims dims, int64_t dim) {
  auto found = std::ranges::find(dims, dim);
  return found == dims.end() ? -1 : found - dims.begin();
}

// The dims that stand for one label of a dot; -1 where an operand or the result does not have it.
struct LabelDims {
  int64_t operand[2] = {-1, -1};
  int64_t result = -1;
};

class DotDims {
 public:
  explicit DotDims(const Instruction* dot) : dot_(dot) {
    const auto& attributes = dot->attributes<DotAttributes>();
    batch_[0] = attributes.lhs_batch, batch_[1] = attributes.rhs_batch;
    contracting_[0] = attributes.lhs_contracting, contracting_[1] = attributes.rhs_contracting;
  }

  LabelDims OfOperand(int64_t side, int64_t dim) const {
    LabelDims label;
    label.operand[side] = dim;
    if (int64_t k = IndexOf(batch_[side], dim); k >= 0) {
      label.operand[1 - side] = batch_[1 - side][At(k)];
      label.result = k;
    } else if (k = IndexOf(contracting_[side], dim); k >= 0) {
      label.operand[1 - side] = contracting_[1 - side][At(k)];
    } else {
      label.result = static_cast<int64_t>(batch_[0].size());
      if (side == 1) label.result += CountFree(0, dot_->operand(0)->shape()->rank());
      label.result += CountFree(side, dim);
    }
    return label;
  }

  LabelDims OfResult(int64_t dim) const {
    for (int64_t side = 0; side < 2; ++side) {
      for (int64_t d = 0; d < dot_->operand(side)->shape()->rank(); ++d) {
        LabelDims label = OfOperand(side, d);
        if (label.result == dim) return label;
      }
    }
    throw InternalError("windowed einsum: a dim of a dot without label");
  }

 private:
  // Free dims of an operand before `end`.
  int64_t CountFree(int64_t side, int64_t end) const {
    int64_t count = 0;
    for (int64_t d = 0; d < end; ++d) {
      count += IndexOf(batch_[side], d) < 0 && IndexOf(contracting_[side], d) < 0 ? 1 : 0;
    }
    return count;
  }

  const Instruction* dot_;
  Dims batch_[2], contracting_[2];
};

// Everybody sends to the member before.
std::vector<DevicePair> RingPairs(const Instruction* collective, int64_t device_count) {
  const ReplicaGroups& groups = *collective->attributes<CollectiveAttributes>().replica_groups;
  std::vector<DevicePair> pairs;
  for (const std::vector<int64_t>& group : groups.ToLists(device_count)) {
    for (size_t k = 0; k < group.size(); ++k) {
      pairs.push_back({group[k], group[(k + group.size() - 1) % group.size()]});
    }
  }
  std::ranges::sort(pairs, {}, &DevicePair::source);
  return pairs;
}

class WindowedEinsum {
 public:
  WindowedEinsum(Module& module, Builder& builder, const Instruction* collective,
                 const Instruction* dot, const DeviceFunction& place, int64_t members,
                 int64_t device_count)
      : module_(module),
        builder_(builder),
        collective_(collective),
        dot_(dot),
        place_(place),
        members_(members),
        device_count_(device_count),
        pairs_(RingPairs(collective, device_count)) {}

  // dot(all-gather(x), w): side 0 or 1 is gathered.
  Instruction* OfGather(int64_t side) {
    Instruction* gather = dot_->operand(side);
    Instruction* block = gather->operand(0);
    Instruction* other = dot_->operand(1 - side);
    const LabelDims label =
        DotDims(dot_).OfOperand(side, gather->attributes<CollectiveAttributes>().dimension);
    const int64_t size = block->shape()->dim(label.operand[side]);
    // state: block, other, result
    auto step = [&](Builder& b, Instruction* i, std::span<Instruction* const> state) {
      Instruction* offset = Offset(b, i, 0, size);
      Instruction* operands[2];
      operands[side] = state[0];
      operands[1 - side] = Block(b, state[1], label.operand[1 - side], offset, size);
      Instruction* piece = Piece(b, operands, label.result, size);
      if (label.result < 0) return b.Add(state[2], piece);
      return b.DynamicUpdateDim(state[2], piece, label.result, offset);
    };
    Instruction* state[] = {block, other, builder_.Zero(dot_->shape())};
    Instruction* loop =
        Loop(state, [&](Builder& b, Instruction* i, std::span<Instruction* const> now) {
          Instruction* next[] = {Sent(b, now[0]), now[1], step(b, i, now)};
          return std::vector<Instruction*>(next, next + 3);
        });
    Instruction* last[3];
    for (int64_t k = 0; k < 3; ++k) last[k] = builder_.GetTupleElement(loop, k + 1);
    return step(builder_, builder_.ScalarInt(DType::kU32, members_ - 1), last);
  }

  // reduce-scatter(dot(x, w))
  Instruction* OfScatter() {
    const LabelDims label =
        DotDims(dot_).OfResult(collective_->attributes<CollectiveAttributes>().dimension);
    const int64_t size = collective_->shape()->dim(label.result);
    // state: sum, the operands. `ahead`: the block is that many behind the device's own.
    auto piece = [&](Builder& b, Instruction* i, int64_t ahead,
                     std::span<Instruction* const> operands) {
      Instruction* offset = Offset(b, i, ahead, size);
      Instruction* blocks[2];
      for (int64_t side = 0; side < 2; ++side) {
        blocks[side] = Block(b, operands[At(side)], label.operand[side], offset, size);
      }
      return Piece(b, blocks, label.result, size);
    };
    Instruction* zero = builder_.ScalarInt(DType::kU32, 0);
    Instruction* state[] = {piece(builder_, zero, 1, dot_->operands()), dot_->operand(0),
                            dot_->operand(1)};
    Instruction* loop =
        Loop(state, [&](Builder& b, Instruction* i, std::span<Instruction* const> now) {
          Instruction* mine = piece(b, i, 2, now.subspan(1));
          Instruction* next[] = {b.Add(Sent(b, now[0]), mine), now[1], now[2]};
          return std::vector<Instruction*>(next, next + 3);
        });
    return builder_.GetTupleElement(loop, 1);
  }

 private:
  using Turn = std::function<std::vector<Instruction*>(Builder&, Instruction* i,
                                                       std::span<Instruction* const> state)>;

  Instruction* Sent(Builder& b, Instruction* x) const {
    Instruction* sent = b.CollectivePermute(x, pairs_);
    KeepCause(sent, collective_);
    return sent;
  }

  // Where block (place + i + ahead) mod n starts.
  Instruction* Offset(Builder& b, Instruction* i, int64_t ahead, int64_t size) const {
    Instruction* place = DeviceScalar(b, place_, DType::kU32, device_count_);
    Instruction* sum = b.Add(place, i);
    if (ahead > 0) sum = b.Add(sum, b.ScalarInt(DType::kU32, ahead));
    Instruction* q = b.Binary(Opcode::kRemainder, sum, b.ScalarInt(DType::kU32, members_));
    return b.Multiply(b.Convert(q, DType::kS32), b.ScalarInt(DType::kS32, size));
  }

  // A block of x along a dim; x if it has no such dim.
  static Instruction* Block(Builder& b, Instruction* x, int64_t dim, Instruction* offset,
                            int64_t size) {
    return dim < 0 ? x : b.DynamicSliceDim(x, dim, offset, size);
  }

  // The dot on blocks; the result has `size` along the dim given, if that is one.
  Instruction* Piece(Builder& b, std::span<Instruction* const> operands, int64_t dim,
                     int64_t size) const {
    std::vector<int64_t> sizes(dot_->shape()->dims().begin(), dot_->shape()->dims().end());
    if (dim >= 0) sizes[At(dim)] = size;
    const Shape* shape = b.context().Array(dot_->shape()->dtype(), sizes);
    return b.CloneWith(dot_, operands, shape);
  }

  // n - 1 iterations; the state of the loop is (i, state..).
  Instruction* Loop(std::span<Instruction* const> state, const Turn& turn) {
    std::vector<Instruction*> inits = {builder_.ScalarInt(DType::kU32, 0)};
    inits.insert(inits.end(), state.begin(), state.end());
    Instruction* init = builder_.Tuple(inits);

    Computation* body = module_.AddComputation("windowed_einsum_body");
    Builder b(module_, body);
    b.set_origin(dot_);
    Instruction* parameter = b.Parameter(0, init->shape(), "state");
    std::vector<Instruction*> now;
    for (int64_t k = 0; k < static_cast<int64_t>(inits.size()); ++k) {
      now.push_back(b.GetTupleElement(parameter, k));
    }
    std::vector<Instruction*> next = turn(b, now[0], std::span(now).subspan(1));
    next.insert(next.begin(), b.Add(now[0], b.ScalarInt(DType::kU32, 1)));
    body->set_root(b.Tuple(next));

    Computation* condition = module_.AddComputation("windowed_einsum_condition");
    Builder c(module_, condition);
    Instruction* tested = c.Parameter(0, init->shape(), "state");
    condition->set_root(c.Compare(ComparisonDirection::kLt, c.GetTupleElement(tested, 0),
                                  c.ScalarInt(DType::kU32, members_ - 1)));
    Computation* called[] = {condition, body};
    Instruction* operands[] = {init};
    return builder_.Add(Opcode::kWhile, operands, NoAttributes{}, init->shape(), called);
  }

  Module& module_;
  Builder& builder_;
  const Instruction* collective_;
  const Instruction* dot_;
  const DeviceFunction& place_;
  int64_t members_;
  int64_t device_count_;
  std::vector<DevicePair> pairs_;
};

class Sweep {
 public:
  Sweep(Module& module, const WindowedEinsumOptions& options)
      : module_(module), options_(options), device_count_(module.DeviceCount()) {}

  Instruction* Visit(Instruction* x, Rewriter& rewriter) {
    if (x->opcode() == Opcode::kDot) {
      for (int64_t side = 0; side < 2; ++side) {
        Instruction* gather = x->operand(side);
        if (!IsPlainCollective(gather, Opcode::kAllGather) || !rewriter.IsOnlyUse(gather)) continue;
        if (auto place = PlaceIfLarge(gather, gather->shape())) {
          return Make(rewriter, gather, x, *place).OfGather(side);
        }
      }
    }
    if (IsPlainCollective(x, Opcode::kReduceScatter) && ReductionOf(x) == Opcode::kAdd) {
      Instruction* dot = x->operand(0);
      if (dot->opcode() != Opcode::kDot || !rewriter.IsOnlyUse(dot)) return x;
      if (auto place = PlaceIfLarge(x, dot->shape())) {
        return Make(rewriter, x, dot, *place).OfScatter();
      }
    }
    return x;
  }

 private:
  // The place of a device in its group, where the collective is worth a loop.
  std::optional<DeviceFunction> PlaceIfLarge(const Instruction* collective, const Shape* whole) {
    if (whole->byte_size() < options_.min_bytes) return std::nullopt;
    const ReplicaGroups& groups = *collective->attributes<CollectiveAttributes>().replica_groups;
    members_ = groups.GroupSize(device_count_);
    if (members_ < 2 || members_ > options_.max_steps) return std::nullopt;
    return PlaceInGroup(groups, device_count_);
  }

  WindowedEinsum Make(Rewriter& rewriter, const Instruction* collective, const Instruction* dot,
                      const DeviceFunction& place) {
    return {module_, rewriter.builder(), collective, dot, place, members_, device_count_};
  }

  Module& module_;
  const WindowedEinsumOptions& options_;
  int64_t device_count_;
  int64_t members_ = 0;
};

}  // namespace

bool MakeWindowedEinsums(Module& module, const WindowedEinsumOptions& options) {
  if (module.header().replica_count > 1) return false;
  Sweep sweep(module, options);
  const bool changed = RewriteModule(
      module, [&](Instruction* x, Rewriter& rewriter) { return sweep.Visit(x, rewriter); });
  if (changed) module.SetComputations(CallPostOrder(module));
  return changed;
}

}  // namespace gshard
