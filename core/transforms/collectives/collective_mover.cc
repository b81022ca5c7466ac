#include "core/transforms/collectives/collective_mover.h"

#include <algorithm>

#include "core/transforms/algebraic_simplifier.h"
#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/rewriter.h"
#include "ir/dims.h"

namespace gshard {
namespace {

int64_t GatheredDim(const Instruction* gather) {
  return gather->attributes<CollectiveAttributes>().dimension;
}
// How many parts are gathered.
int64_t Parts(const Instruction* gather) {
  const int64_t part = gather->operand(0)->shape()->dim(GatheredDim(gather));
  return part == 0 ? 0 : gather->shape()->dim(GatheredDim(gather)) / part;
}

// The constant that fills x; else null. Other scalars may differ between devices: a part is worked
// on by its owner, the gathered value by everybody.
Instruction* FillingConstant(Instruction* x) {
  Instruction* scalar = FillingScalar(x);
  return scalar != nullptr && scalar->opcode() == Opcode::kConstant ? scalar : nullptr;
}

// Copies are there for a reason; a bitcast to a type of another width changes dims.
bool IsPlainElementwise(const Instruction* x) {
  return IsElementwise(x->opcode()) && x->opcode() != Opcode::kCopy &&
         x->opcode() != Opcode::kBitcastConvert;
}

class Mover {
 public:
  explicit Mover(Rewriter& rewriter) : rewriter_(rewriter), builder_(rewriter.builder()) {}

  Instruction* Visit(Instruction* x) {
    if (IsPlainCollective(x, Opcode::kAllGather) || IsPlainCollective(x, Opcode::kAllToAll) ||
        IsPlainCollective(x, Opcode::kCollectivePermute)) {
      return WidenBehind(x);
    }
    if (x->operand_count() == 0 || !x->shape()->IsArray()) return x;
    if (Instruction* by = NarrowBefore(x)) return by;
    if (IsPlainElementwise(x)) return ElementwiseOnParts(x);
    Instruction* gather = Movable(x->operand(0), Opcode::kAllGather);
    if (gather == nullptr) return x;
    switch (x->opcode()) {
      case Opcode::kTranspose:
        return TransposeOnParts(x, gather);
      case Opcode::kReshape:
        return ReshapeOnParts(x, gather);
      case Opcode::kSlice:
        return SliceOnParts(x, gather);
      case Opcode::kReduce:
        return ReduceOnParts(x, gather);
      default:  // not moved past a gather
        return x;
    }
  }

 private:
  // x as a collective that may be moved behind its only user; else null.
  Instruction* Movable(Instruction* x, Opcode opcode) const {
    return IsPlainCollective(x, opcode) && rewriter_.IsOnlyUse(x) ? x : nullptr;
  }

  // collective(widen(x)) moves more than widen(collective(x)).
  Instruction* WidenBehind(Instruction* x) {
    Instruction* convert = x->operand(0);
    if (convert->opcode() != Opcode::kConvert || !rewriter_.IsOnlyUse(convert)) return x;
    Instruction* narrow = convert->operand(0);
    if (narrow->shape()->byte_size() >= convert->shape()->byte_size()) return x;
    return builder_.Convert(SameCollectiveOn(builder_, x, narrow), x->shape()->dtype());
  }

  // Narrowing and slicing what an all-to-all or a permute brought.
  Instruction* NarrowBefore(Instruction* x) {
    Instruction* permute = Movable(x->operand(0), Opcode::kCollectivePermute);
    if (permute != nullptr && x->opcode() == Opcode::kSlice) {
      Instruction* source = permute->operand(0);
      return SameCollectiveOn(builder_, permute, builder_.CloneWith(x, {&source, 1}, x->shape()));
    }
    if (x->opcode() != Opcode::kConvert) return nullptr;
    if (x->shape()->byte_size() >= x->operand(0)->shape()->byte_size()) return nullptr;
    Instruction* move = permute != nullptr ? permute : Movable(x->operand(0), Opcode::kAllToAll);
    if (move == nullptr) return nullptr;
    return SameCollectiveOn(builder_, move,
                            builder_.Convert(move->operand(0), x->shape()->dtype()));
  }

  // All operands gathered alike or filled with a constant.
  Instruction* ElementwiseOnParts(Instruction* x) {
    Instruction* gather = nullptr;
    int64_t gathered_bytes = 0;
    for (Instruction* operand : x->operands()) {
      if (FillingConstant(operand) != nullptr) continue;
      if (!IsPlainCollective(operand, Opcode::kAllGather)) return x;
      if (gather == nullptr) gather = operand;
      if (!SameCommunication(gather, operand)) return x;
      const int64_t uses = std::ranges::count(x->operands(), operand);
      if (rewriter_.UseCount(operand) != uses) return x;
      gathered_bytes += operand->shape()->byte_size() / uses;
    }
    if (gather == nullptr || x->shape()->byte_size() > gathered_bytes) return x;
    const Shape* part = gather->operand(0)->shape();
    std::vector<Instruction*> operands;
    for (Instruction* operand : x->operands()) {
      if (Instruction* scalar = FillingConstant(operand)) {
        // The scalar operands of clamp and select stay scalars.
        operands.push_back(operand == scalar ? scalar
                                             : builder_.BroadcastScalar(scalar, part->dims()));
      } else {
        operands.push_back(operand->operand(0));
      }
    }
    const Shape* shape = builder_.context().Array(x->shape()->dtype(), part->dims());
    return SameCollectiveOn(builder_, gather, builder_.CloneWith(x, operands, shape));
  }

  // The gather of `part` along `dim`.
  Instruction* Gathered(const Instruction* gather, Instruction* part, int64_t dim) {
    Instruction* made = builder_.AllGather(
        part, dim, *gather->attributes<CollectiveAttributes>().replica_groups, Parts(gather));
    KeepCause(made, gather);
    return made;
  }

  Instruction* TransposeOnParts(Instruction* x, Instruction* gather) {
    Dims permutation = x->attributes<DimensionsAttributes>().dimensions;
    auto place = std::ranges::find(permutation, GatheredDim(gather));
    return Gathered(gather, builder_.Transpose(gather->operand(0), permutation),
                    place - permutation.begin());
  }

  // The parts stay together where a dim of the result starts at the same place and can be cut into
  // as many: what is before it is untouched, what is behind it belongs to one part.
  Instruction* ReshapeOnParts(Instruction* x, Instruction* gather) {
    const int64_t parts = Parts(gather);
    if (parts == 0) return x;
    int64_t before = 1;
    for (int64_t d = 0; d < GatheredDim(gather); ++d) before *= gather->shape()->dim(d);
    int64_t passed = 1;
    std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
    for (size_t d = 0; d < dims.size(); ++d) {
      if (passed == before && dims[d] % parts == 0 && dims[d] > 0) {
        dims[d] /= parts;
        return Gathered(gather, builder_.Reshape(gather->operand(0), dims),
                        static_cast<int64_t>(d));
      }
      passed *= dims[d];
    }
    return x;
  }

  Instruction* SliceOnParts(Instruction* x, Instruction* gather) {
    const auto& slice = x->attributes<SliceAttributes>();
    const int64_t dim = GatheredDim(gather);
    if (x->shape()->dim(dim) != gather->shape()->dim(dim)) return x;
    std::vector<int64_t> limits(slice.limits.begin(), slice.limits.end());
    limits[At(dim)] = gather->operand(0)->shape()->dim(dim);
    Instruction* part = builder_.Slice(gather->operand(0), slice.starts, limits, slice.strides);
    return Gathered(gather, part, dim);
  }

  Instruction* ReduceOnParts(Instruction* x, Instruction* gather) {
    Dims dimensions = x->attributes<DimensionsAttributes>().dimensions;
    const int64_t dim = GatheredDim(gather);
    if (x->operand_count() != 2 || FillingConstant(x->operand(1)) == nullptr) return x;
    if (std::ranges::find(dimensions, dim) != dimensions.end()) return x;
    const auto gone = std::ranges::count_if(dimensions, [&](int64_t d) { return d < dim; });
    Instruction* part =
        builder_.Reduce(gather->operand(0), x->operand(1), dimensions, x->called(0));
    return Gathered(gather, part, dim - gone);
  }

  Rewriter& rewriter_;
  Builder& builder_;
};

}  // namespace

bool MoveCollectives(Module& module) {
  return RewriteModule(module,
                       [](Instruction* x, Rewriter& rewriter) { return Mover(rewriter).Visit(x); });
}

}  // namespace gshard
