// Normalisation of layers by cuDNN, [examples, elements..], and its gradients.
#include <algorithm>

#include "core/transforms/expand/library_calls.h"
#include "ir/call_config.h"

namespace gshard {
namespace {

class NormExpansion {
 public:
  NormExpansion(const Instruction& call, Builder& builder)
      : call_(call), builder_(builder), config_(call.backend_config()) {}

  LibraryResults Run() {
    const std::string_view kind = ConfigWord(config_, "kind");
    const bool is_backward = kind == "LAYER_BWD";
    if (!is_backward && !kind.starts_with("LAYER_FWD")) return std::nullopt;
    if (call_.operand_count() != (is_backward ? 5 : 3)) return std::nullopt;
    const Shape* shape = call_.operand(0)->shape();
    if (!shape->IsArray() || shape->rank() < 2) return std::nullopt;
    dims_ = shape->dims();
    row_.assign(dims_.begin(), dims_.end());
    row_[0] = 1;
    column_.assign(dims_.size(), 1);
    column_[0] = dims_[0];
    for (int64_t d = 1; d < shape->rank(); ++d) elements_.push_back(d);
    const auto has_dims = [&](int64_t i, const std::vector<int64_t>& dims) {
      return call_.operand(i)->shape()->IsArray() &&
             std::ranges::equal(call_.operand(i)->shape()->dims(), dims);
    };
    if (!has_dims(1, row_)) return std::nullopt;
    if (is_backward) {
      const bool fits = std::ranges::equal(call_.operand(2)->shape()->dims(), dims_) &&
                        has_dims(3, column_) && has_dims(4, column_);
      return fits ? Backward() : std::nullopt;
    }
    return has_dims(2, row_) ? Forward() : std::nullopt;
  }

 private:
  Instruction* Operand(int64_t i) const { return builder_.Convert(call_.operand(i), DType::kF32); }

  // The sum over `dims`, which stay as 1.
  Instruction* Sum(Instruction* x, const std::vector<int64_t>& dims,
                   const std::vector<int64_t>& result) const {
    return builder_.Reshape(builder_.Reduce(x, builder_.Scalar(DType::kF32, 0), dims,
                                            builder_.BinaryComputation(Opcode::kAdd, DType::kF32)),
                            result);
  }

  Instruction* Mean(Instruction* x) const {
    double count = 1;
    for (const int64_t d : elements_) count *= static_cast<double>(dims_[static_cast<size_t>(d)]);
    return Scaled(builder_, Sum(x, elements_, column_), 1 / count);
  }

  // Dims of 1 repeated.
  Instruction* Whole(Instruction* x) const {
    std::vector<int64_t> kept, places;
    for (size_t d = 0; d < dims_.size(); ++d) {
      if (x->shape()->dim(static_cast<int64_t>(d)) == 1) continue;
      kept.push_back(dims_[d]);
      places.push_back(static_cast<int64_t>(d));
    }
    return builder_.Broadcast(builder_.Reshape(x, kept), dims_, places);
  }

  // The output and, for training, mean and reciprocal deviation of each example.
  LibraryResults Forward() const {
    Instruction* x = Operand(0);
    Instruction* mean = Mean(x);
    Instruction* centred = builder_.Subtract(x, Whole(mean));
    Instruction* variance = Mean(builder_.Multiply(centred, centred));
    Instruction* epsilon = builder_.BroadcastScalar(
        builder_.Scalar(DType::kF32, ConfigNumber(config_, "epsilon").value_or(0)), column_);
    Instruction* factor = builder_.Add(Opcode::kRsqrt, std::vector{builder_.Add(variance, epsilon)},
                                       MathAttributes{});
    Instruction* unit = builder_.Multiply(centred, Whole(factor));
    Instruction* output =
        builder_.Add(builder_.Multiply(unit, Whole(Operand(1))), Whole(Operand(2)));
    if (ConfigWord(config_, "kind") == "LAYER_FWD_INFER") return std::vector{output};
    return std::vector{output, mean, factor};
  }

  // Of the input, the scale and the bias.
  LibraryResults Backward() const {
    Instruction* gradient = Operand(2);
    Instruction* factor = Whole(Operand(4));
    Instruction* unit = builder_.Multiply(builder_.Subtract(Operand(0), Whole(Operand(3))), factor);
    Instruction* of_unit = builder_.Multiply(gradient, Whole(Operand(1)));
    Instruction* along = builder_.Multiply(unit, Whole(Mean(builder_.Multiply(of_unit, unit))));
    Instruction* rest = builder_.Subtract(builder_.Subtract(of_unit, Whole(Mean(of_unit))), along);
    const std::vector<int64_t> examples = {0};
    return std::vector{builder_.Multiply(rest, factor),
                       Sum(builder_.Multiply(gradient, unit), examples, row_),
                       Sum(gradient, examples, row_)};
  }

  const Instruction& call_;
  Builder& builder_;
  const std::string_view config_;
  Dims dims_;
  std::vector<int64_t> row_, column_, elements_;
};

}  // namespace

LibraryResults ExpandNorm(const Instruction& call, Builder& builder) {
  return NormExpansion(call, builder).Run();
}

}  // namespace gshard
