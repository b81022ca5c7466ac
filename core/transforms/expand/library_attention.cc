// Attention of cuDNN and its gradients, with all scores: softmax(scale * q k' + bias) v.
#include <algorithm>
#include <limits>

#include "core/transforms/expand/library_calls.h"
#include "ir/call_config.h"

namespace gshard {
namespace {

bool HasRank(const Instruction* x, int64_t rank) {
  return x->shape()->IsArray() && x->shape()->rank() == rank;
}

class AttentionExpansion {
 public:
  AttentionExpansion(const Instruction& call, Builder& builder)
      : call_(call),
        builder_(builder),
        config_(call.backend_config()),
        target_(call.attributes<CustomCallAttributes>().target),
        mask_(ConfigWord(config_, "mask_type")) {}

  LibraryResults Run() {
    if (!IsPlain()) return std::nullopt;
    const bool is_backward = target_.ends_with("Backward");
    // q, k, v and, backward, the logarithms of the softmaxes' sums and the output's gradient.
    int64_t next = is_backward ? 5 : 3;
    const bool has_bias = target_.find("Bias") != target_.npos;
    if (has_bias) bias_ = Operand(next++);
    if (is_backward) output_ = Operand(next++);
    if (mask_.starts_with("PADDING")) {
      rows_ = Operand(next++);
      columns_ = Operand(next++);
    }
    if (next != call_.operand_count()) return std::nullopt;
    for (int64_t i = 0; i < 3; ++i) {
      if (!HasRank(call_.operand(i), 4)) return std::nullopt;
    }
    return is_backward ? Backward() : Forward();
  }

 private:
  Instruction* Operand(int64_t i) const {
    return i < call_.operand_count() ? call_.operand(i) : nullptr;
  }

  // Neither dropout, whose bits are the library's, nor pages, packed sequences and other masks.
  bool IsPlain() const {
    const bool knows_mask =
        mask_ == "NO_MASK" || mask_ == "CAUSAL" || mask_ == "PADDING" || mask_ == "PADDING_CAUSAL";
    return knows_mask && target_.find("F8") == target_.npos && call_.operand_count() >= 3 &&
           ConfigNumber(config_, "dropout_rate").value_or(0) == 0 &&
           ConfigNumber(config_, "max_seg_per_batch").value_or(1) <= 1 &&
           ConfigWord(config_, "is_paged_attention") != "true";
  }

  // The product that a section of the configuration describes, in f32; null if it does not fit.
  Instruction* Product(Instruction* a, Instruction* b, std::string_view section,
                       std::string_view name = {}) const {
    const auto dims = ConfigDot(config_, section);
    if (!dims) return nullptr;
    return AddIfFits(builder_, Opcode::kDot, {a, b}, DotAttributesOf(builder_, *dims), DType::kF32,
                     name);
  }

  // k or v with each head as often as heads of q share it.
  Instruction* Repeated(Instruction* x, int64_t heads_dim, int64_t heads) const {
    std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
    const int64_t own = dims[static_cast<size_t>(heads_dim)];
    if (own == heads || own == 0 || heads % own != 0) return x;
    std::vector<int64_t> from, wide = dims;
    for (int64_t d = 0; d < x->shape()->rank(); ++d) from.push_back(d <= heads_dim ? d : d + 1);
    wide.insert(wide.begin() + heads_dim + 1, heads / own);
    dims[static_cast<size_t>(heads_dim)] = heads;
    return builder_.Reshape(builder_.Broadcast(x, wide, from), dims);
  }

  // Of the gradient of a repeated k or v, [.., heads, .., ..]: the sum over who shares a head.
  Instruction* Summed(Instruction* x, int64_t heads_dim, int64_t own) const {
    std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
    const int64_t heads = dims[static_cast<size_t>(heads_dim)];
    if (own == heads) return x;
    dims[static_cast<size_t>(heads_dim)] = own;
    dims.insert(dims.begin() + heads_dim + 1, heads / own);
    return Sum(builder_.Reshape(x, dims), {heads_dim + 1});
  }

  Instruction* Sum(Instruction* x, std::vector<int64_t> dims) const {
    return builder_.Reduce(x, builder_.Scalar(DType::kF32, 0), dims,
                           builder_.BinaryComputation(Opcode::kAdd, DType::kF32));
  }

  // A value for each row of scores, in every column.
  Instruction* InColumns(Instruction* rows) const {
    constexpr int64_t kRows[] = {0, 1, 2};
    return builder_.Broadcast(rows, Scores(), kRows);
  }

  Dims Scores() const { return scores_->shape()->dims(); }

  // Dims of 1 are repeated; null if others differ.
  Instruction* BroadcastBias() const {
    if (bias_ == nullptr || !HasRank(bias_, 4)) return nullptr;
    std::vector<int64_t> kept, places;
    for (int64_t d = 0; d < 4; ++d) {
      const int64_t size = bias_->shape()->dim(d);
      if (size == 1) continue;
      if (size != Scores()[static_cast<size_t>(d)]) return nullptr;
      kept.push_back(size);
      places.push_back(d);
    }
    return builder_.Broadcast(builder_.Reshape(builder_.Convert(bias_, DType::kF32), kept),
                              Scores(), places);
  }

  Instruction* Index(int64_t dim) const {
    return builder_.Iota(builder_.context().Array(DType::kS32, Scores()), dim);
  }

  // Whether a position is below its example's length; null if the lengths do not fit.
  Instruction* IsWithin(Instruction* lengths, int64_t dim) const {
    if (lengths == nullptr || !lengths->shape()->IsArray() ||
        lengths->shape()->element_count() != Scores()[0]) {
      return nullptr;
    }
    constexpr int64_t kExamples[] = {0};
    Instruction* limits = builder_.Broadcast(
        builder_.Convert(builder_.Reshape(lengths, {Scores().data(), 1}), DType::kS32), Scores(),
        kExamples);
    return builder_.Compare(ComparisonDirection::kLt, Index(dim), limits);
  }

  // Which scores count: all if it is null. False if operands do not fit.
  bool MakeMask() {
    const auto also = [&](Instruction* which) {
      keep_ = keep_ == nullptr ? which : builder_.And(keep_, which);
    };
    if (mask_.ends_with("CAUSAL")) {
      also(builder_.Compare(ComparisonDirection::kLe, Index(3), Index(2)));
    }
    const double window = ConfigNumber(config_, "sliding_window_length").value_or(0);
    if (window > 0) {
      Instruction* size = builder_.ScalarInt(DType::kS32, static_cast<int64_t>(window));
      also(builder_.Compare(ComparisonDirection::kLt, builder_.Subtract(Index(2), Index(3)),
                            builder_.BroadcastScalar(size, Scores())));
    }
    if (!mask_.starts_with("PADDING")) return true;
    Instruction* rows = IsWithin(rows_, 2);
    Instruction* columns = IsWithin(columns_, 3);
    if (rows == nullptr || columns == nullptr) return false;
    also(rows);
    also(columns);
    return true;
  }

  Instruction* Kept(Instruction* x, double otherwise) const {
    if (keep_ == nullptr) return x;
    return builder_.Select(
        keep_, x, builder_.BroadcastScalar(builder_.Scalar(DType::kF32, otherwise), Scores()));
  }

  // Sets scores_, [examples, heads, rows, columns], k_ and v_; false if something does not fit.
  bool MakeScores(const ConfiguredDot& dims) {
    Instruction* q = call_.operand(0);
    if (dims.lhs_batch.size() != 2 || dims.rhs_batch.size() != 2 || dims.lhs_batch[1] > 3 ||
        dims.rhs_batch[1] > 3) {
      return false;
    }
    heads_dim_ = dims.rhs_batch[1];
    const int64_t heads = q->shape()->dim(dims.lhs_batch[1]);
    k_ = Repeated(call_.operand(1), heads_dim_, heads);
    v_ = Repeated(call_.operand(2), heads_dim_, heads);
    scores_ = AddIfFits(builder_, Opcode::kDot, {q, k_}, DotAttributesOf(builder_, dims),
                        DType::kF32, call_.name());
    if (scores_ == nullptr || !HasRank(scores_, 4)) return false;
    scores_ = Scaled(builder_, scores_, Scale());
    if (target_.find("Bias") != target_.npos) {
      Instruction* bias = BroadcastBias();
      if (bias == nullptr) return false;
      scores_ = builder_.Add(scores_, bias);
    }
    return MakeMask();
  }

  double Scale() const { return ConfigNumber(config_, "fmha_scale").value_or(1); }

  Instruction* Exponential(Instruction* x) const {
    return builder_.Add(Opcode::kExponential, std::vector{x}, MathAttributes{});
  }

  // The output and the logarithms of the sums of exponentials.
  LibraryResults Forward() {
    const auto dims = ConfigDot(config_, "bmm1_dot_dimension_numbers");
    if (!dims || !MakeScores(*dims)) return std::nullopt;
    scores_ = Kept(scores_, std::numeric_limits<float>::lowest());
    constexpr int64_t kColumns[] = {3};
    Instruction* largest = builder_.Reduce(
        scores_, builder_.Scalar(DType::kF32, -std::numeric_limits<double>::infinity()), kColumns,
        builder_.BinaryComputation(Opcode::kMaximum, DType::kF32));
    Instruction* weights = Kept(Exponential(builder_.Subtract(scores_, InColumns(largest))), 0);
    Instruction* sums = Sum(weights, {3});
    Instruction* shares = Kept(builder_.Binary(Opcode::kDivide, weights, InColumns(sums)), 0);
    Instruction* output =
        Product(builder_.Convert(shares, v_->shape()->dtype()), v_, "bmm2_dot_dimension_numbers");
    if (output == nullptr) return std::nullopt;
    std::vector<Instruction*> results = {output};
    if (call_.shape()->IsTuple() && call_.shape()->elements().size() > 2) {
      results.push_back(
          builder_.Add(largest, builder_.Add(Opcode::kLog, std::vector{sums}, MathAttributes{})));
    }
    return results;
  }

  // The gradients of q, k, v and, where it is asked for, of the bias.
  LibraryResults Backward() {
    Instruction* q = call_.operand(0);
    Instruction* sums = call_.operand(3);
    Instruction* gradient = call_.operand(4);
    // The scores are those of the product whose transpose gives the shares' gradient.
    const auto dims = ConfigDot(config_, "bmm2_grad_gemm2_dot_dimension_numbers");
    if (!dims || !MakeScores(*dims) || output_ == nullptr ||
        !std::ranges::equal(output_->shape()->dims(), gradient->shape()->dims()) ||
        !HasRank(sums, 3) || !std::ranges::equal(sums->shape()->dims(), Scores().first(3))) {
      return std::nullopt;
    }
    Instruction* shares = Kept(Exponential(builder_.Subtract(scores_, InColumns(sums))), 0);
    const DType type = gradient->shape()->dtype();
    Instruction* of_v =
        Product(builder_.Convert(shares, type), gradient, "bmm2_grad_gemm1_dot_dimension_numbers");
    Instruction* of_shares = Product(gradient, v_, "bmm2_grad_gemm2_dot_dimension_numbers");
    if (of_v == nullptr || of_shares == nullptr) return std::nullopt;
    // What all columns of a row have in common: its output times the output's gradient.
    const auto whole = [&](Instruction* x) { return builder_.Convert(x, DType::kF32); };
    Instruction* common =
        Sum(builder_.Multiply(whole(output_), whole(gradient)), dims->lhs_contracting);
    std::vector<int64_t> places = {dims->lhs_batch[0], dims->lhs_batch[1]};
    if (places[0] > places[1]) return std::nullopt;
    if (places[1] == 2) common = builder_.Transpose(common, std::vector<int64_t>{0, 2, 1});
    Instruction* of_scores =
        builder_.Multiply(shares, builder_.Subtract(of_shares, InColumns(common)));
    Instruction* scaled = builder_.Convert(Scaled(builder_, of_scores, Scale()), type);
    Instruction* of_q = Product(scaled, k_, "bmm1_grad_gemm2_dot_dimension_numbers");
    Instruction* of_k = Product(scaled, q, "bmm1_grad_gemm1_dot_dimension_numbers");
    if (of_q == nullptr || of_k == nullptr) return std::nullopt;
    const auto own = [&](int64_t i) { return call_.operand(i)->shape()->dim(heads_dim_); };
    std::vector<Instruction*> results = {of_q, Summed(of_k, 1, own(1)), Summed(of_v, 1, own(2))};
    if (bias_ != nullptr && call_.shape()->elements().size() > 4) {
      results.push_back(OfBias(of_scores));
    }
    return results;
  }

  // The sum over the dims that the bias is repeated along.
  Instruction* OfBias(Instruction* of_scores) const {
    std::vector<int64_t> repeated;
    for (int64_t d = 0; d < 4; ++d) {
      if (bias_->shape()->dim(d) != Scores()[static_cast<size_t>(d)]) repeated.push_back(d);
    }
    if (repeated.empty()) return of_scores;
    return builder_.Reshape(Sum(of_scores, repeated), bias_->shape()->dims());
  }

  const Instruction& call_;
  Builder& builder_;
  const std::string_view config_, target_, mask_;
  Instruction *bias_ = nullptr, *output_ = nullptr, *rows_ = nullptr, *columns_ = nullptr;
  Instruction *k_ = nullptr, *v_ = nullptr;
  Instruction* scores_ = nullptr;
  Instruction* keep_ = nullptr;
  int64_t heads_dim_ = 0;  // of k and v
};

}  // namespace

LibraryResults ExpandAttention(const Instruction& call, Builder& builder) {
  return AttentionExpansion(call, builder).Run();
}

}  // namespace gshard
