// Operations that move elements: what is where in the result was somewhere in an operand.
#include <numeric>

#include "core/op_dims/relation_rules.h"

namespace gshard::op_dims {

// Between types of different widths one of the shapes has one more dim, the minor-most.
void BitcastConvert(RelationBuilder& b) {
  const Shape* from = b.operand(0);
  const Shape* to = b.result(0);
  const int64_t shared = std::min(from->rank(), to->rank());
  for (int64_t d = 0; d < shared; ++d) b.Alike(1, d, b.Add(to->dim(d)));
  if (from->rank() > shared) {
    b.ToOperand(0, shared, b.Add(from->dim(shared), FactorKind::kNeedReplication));
  } else if (to->rank() > shared) {
    b.ToResult(0, shared, b.Add(to->dim(shared), FactorKind::kNeedReplication));
  }
}

void Broadcast(RelationBuilder& b) {
  const Dims dims = b.attributes<DimensionsAttributes>().dimensions;
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    const int factor = b.Add(b.result(0)->dim(d));
    b.ToResult(0, d, factor);
    const auto from = std::ranges::find(dims, d);
    if (from != dims.end()) b.ToOperand(0, from - dims.begin(), factor);
  }
}

namespace {

// A walk over the dims of one side of a reshape, from major to minor.
class ReshapeSide {
 public:
  explicit ReshapeSide(const Shape* shape) : shape_(shape) { SkipOnes(); }

  bool AtEnd() const { return dim_ == shape_->rank(); }
  int64_t dim() const { return dim_; }
  // What is left of the current dim, and the product of all that has been taken.
  int64_t left() const { return left_; }
  int64_t taken() const { return taken_; }
  void Take(int64_t size) {
    taken_ *= size;
    left_ /= size;
    if (left_ > 1) return;
    ++dim_;
    SkipOnes();
  }

 private:
  void SkipOnes() {
    while (dim_ < shape_->rank() && shape_->dim(dim_) == 1) ++dim_;
    left_ = AtEnd() ? 1 : shape_->dim(dim_);
  }

  const Shape* shape_;
  int64_t dim_ = 0, left_ = 1, taken_ = 1;
};

}  // namespace

// Where as much has been taken of one side as of the other, what the two current dims have in
// common is one factor of both. Where not, each side goes on by itself, up to the next place where
// they can meet: (4,15)->(6,10) is ([ij, ln])->([ik, mn]) {i=2, j=2, k=3, l=3, m=2, n=5}.
void Reshape(RelationBuilder& b) {
  for (const Shape* shape : {b.operand(0), b.result(0)}) {
    if (std::ranges::any_of(shape->dims(), [](int64_t size) { return size <= 0; })) return;
  }
  ReshapeSide from(b.operand(0)), to(b.result(0));
  const auto take_alone = [&](ReshapeSide& side, bool is_operand, int64_t meeting) {
    if (side.AtEnd() || side.taken() == meeting) return;
    const int64_t common = std::gcd(meeting / side.taken(), side.left());
    const int64_t size = common > 1 ? common : side.left();
    const int factor = b.Add(size);
    if (is_operand) {
      b.ToOperand(0, side.dim(), factor);
    } else {
      b.ToResult(0, side.dim(), factor);
    }
    side.Take(size);
  };
  while (!from.AtEnd() && !to.AtEnd()) {
    const int64_t common = std::gcd(from.left(), to.left());
    if (from.taken() == to.taken() && common > 1) {
      const int factor = b.Add(common);
      b.ToOperand(0, from.dim(), factor);
      b.ToResult(0, to.dim(), factor);
      from.Take(common);
      to.Take(common);
      continue;
    }
    const int64_t meeting = from.taken() == to.taken() ? from.taken() * from.left() * to.left()
                                                       : std::lcm(from.taken(), to.taken());
    take_alone(from, true, meeting);
    take_alone(to, false, meeting);
  }
  while (!from.AtEnd()) take_alone(from, true, from.taken() * from.left());
  while (!to.AtEnd()) take_alone(to, false, to.taken() * to.left());
}

void Transpose(RelationBuilder& b) {
  const Dims dims = b.attributes<DimensionsAttributes>().dimensions;
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    const int factor = b.Add(b.result(0)->dim(d));
    b.ToOperand(0, dims[At(d)], factor);
    b.ToResult(0, d, factor);
  }
}

void Reverse(RelationBuilder& b) {
  const Dims reversed = b.attributes<DimensionsAttributes>().dimensions;
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    b.Alike(1, d, b.Add(b.result(0)->dim(d), Contains(reversed, d) ? FactorKind::kPermutation
                                                                   : FactorKind::kPassThrough));
  }
}

// All operands share one factor of the result's size.
void Concatenate(RelationBuilder& b) {
  const int64_t along = b.attributes<DimensionsAttributes>().dimensions[0];
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    b.Alike(b.operand_count(), d,
            b.Add(b.result(0)->dim(d), d == along ? FactorKind::kNeedReplication
                                                  : FactorKind::kPassThrough));
  }
}

void Slice(RelationBuilder& b) {
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    const int64_t size = b.operand(0)->dim(d);
    b.Alike(1, d, b.Add(size, size != b.result(0)->dim(d) ? FactorKind::kPermutation
                                                          : FactorKind::kPassThrough));
  }
}

void Pad(RelationBuilder& b) {
  const auto padding = b.attributes<PadAttributes>().padding;
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    const int64_t size = b.operand(0)->dim(d);
    const bool moves = size != b.result(0)->dim(d) || padding[At(d)].interior > 0;
    b.Alike(1, d, b.Add(size, moves ? FactorKind::kPermutation : FactorKind::kPassThrough));
  }
}

void DynamicSlice(RelationBuilder& b) {
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    const int64_t size = b.operand(0)->dim(d);
    const bool cut = size != b.result(0)->dim(d);
    b.Alike(1, d,
            b.Add(size, cut ? FactorKind::kNeedReplication : FactorKind::kPassThrough, cut));
  }
}

void DynamicUpdateSlice(RelationBuilder& b) {
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    const int64_t size = b.result(0)->dim(d);
    const int64_t update = b.operand(1)->dim(d);
    b.Alike(update == size ? 2 : 1, d, b.Add(size));
    if (update != size) b.ToOperand(1, d, b.Add(update, FactorKind::kNeedReplication));
  }
}

}  // namespace gshard::op_dims
