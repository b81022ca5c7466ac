// Batch normalisation by its definition: sums over all dims but the features', and arithmetic.

#include "core/autodiff/emit.h"
#include "core/autodiff/reverse_scope.h"

namespace gshard {
namespace {

// Vectors of features and the array they belong to.
class Features {
 public:
  Features(Builder& b, const Instruction* array, int64_t feature) : e_(b), array_(array) {
    for (int64_t d = 0; d < array->shape()->rank(); ++d) {
      if (d != feature) others_.push_back(d);
    }
    const int64_t features = array->shape()->dim(feature);
    count_ = features == 0 ? 1.0 : static_cast<double>(array->shape()->element_count() / features);
  }
  Instruction* Spread(Instruction* vector) const {
    return e_.Spread(vector, array_->shape()->dims(), others_);
  }
  Instruction* Sum(Instruction* x) const { return e_.Sum(x, others_); }
  Instruction* Mean(Instruction* x) const { return e_.Mul(Sum(x), 1 / count_); }

 private:
  Emit e_;
  const Instruction* array_;
  std::vector<int64_t> others_;
  double count_ = 1;
};

using Values = std::vector<Instruction*>;

}  // namespace

// out = (x - mean) / sqrt(variance + epsilon) * scale + offset, mean, variance.
Expected<void> GradBatchNormTraining(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const auto& norm = x->attributes<BatchNormAttributes>();
  return scope.DifferentiateExpansion(
      x, adjoints, [&](Builder& b, std::span<const Values> operands) -> Expected<Values> {
        const Emit e(b);
        Instruction* in = operands[0][0];
        const Features f(b, in, norm.feature_index);
        Instruction* mean = f.Mean(in);
        Instruction* centred = e.Sub(in, f.Spread(mean));
        Instruction* variance = f.Mean(e.Mul(centred, centred));
        Instruction* factor =
            e.Mul(e.Unary(Opcode::kRsqrt, e.Add(variance, norm.epsilon)), operands[1][0]);
        Instruction* out = e.Add(e.Mul(centred, f.Spread(factor)), f.Spread(operands[2][0]));
        return Values{out, mean, variance};
      });
}

Expected<void> GradBatchNormInference(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const auto& norm = x->attributes<BatchNormAttributes>();
  return scope.DifferentiateExpansion(
      x, adjoints, [&](Builder& b, std::span<const Values> operands) -> Expected<Values> {
        const Emit e(b);
        const Features f(b, operands[0][0], norm.feature_index);
        Instruction* factor =
            e.Mul(e.Unary(Opcode::kRsqrt, e.Add(operands[4][0], norm.epsilon)), operands[1][0]);
        Instruction* centred = e.Sub(operands[0][0], f.Spread(operands[3][0]));
        return Values{e.Add(e.Mul(centred, f.Spread(factor)), f.Spread(operands[2][0]))};
      });
}

// Operands: x, scale, mean, variance, gradient of out; results: of x, scale, offset.
Expected<void> GradBatchNormGrad(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const auto& norm = x->attributes<BatchNormAttributes>();
  return scope.DifferentiateExpansion(
      x, adjoints, [&](Builder& b, std::span<const Values> operands) -> Expected<Values> {
        const Emit e(b);
        Instruction* out = operands[4][0];
        const Features f(b, operands[0][0], norm.feature_index);
        Instruction* root = e.Unary(Opcode::kRsqrt, e.Add(operands[3][0], norm.epsilon));
        Instruction* centred = e.Sub(operands[0][0], f.Spread(operands[2][0]));
        Instruction* normal = e.Mul(centred, f.Spread(root));
        Instruction* along = e.Sub(e.Sub(out, f.Spread(f.Mean(out))),
                                   e.Mul(normal, f.Spread(f.Mean(e.Mul(out, normal)))));
        Instruction* in = e.Mul(along, f.Spread(e.Mul(root, operands[1][0])));
        return Values{in, f.Sum(e.Mul(out, normal)), f.Sum(out)};
      });
}

}  // namespace gshard
