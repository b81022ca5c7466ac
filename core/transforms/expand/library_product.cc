// Products of cuBLAS: d = epilogue(alpha * a b + beta * c + bias), scaled where they are f8.
#include <algorithm>
#include <cctype>
#include <string>

#include "core/transforms/expand/library_calls.h"
#include "ir/call_config.h"

namespace gshard {
namespace {

// 0.5 x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))), which is how cuBLAS approximates it.
Instruction* Gelu(Builder& builder, Instruction* x) {
  Instruction* cube = builder.Multiply(builder.Multiply(x, x), x);
  Instruction* inner =
      Scaled(builder, builder.Add(x, Scaled(builder, cube, 0.044715)), 0.7978845608028654);
  Instruction* tanh = builder.Add(Opcode::kTanh, std::vector{inner}, MathAttributes{});
  Instruction* one =
      builder.BroadcastScalar(builder.Scalar(x->shape()->dtype(), 1), x->shape()->dims());
  return builder.Multiply(Scaled(builder, x, 0.5), builder.Add(one, tanh));
}

class ProductExpansion {
 public:
  ProductExpansion(const Instruction& call, Builder& builder)
      : call_(call),
        builder_(builder),
        config_(call.backend_config()),
        epilogue_(ConfigWord(config_, "epilogue")) {}

  LibraryResults Run() {
    const Shape* shape = FirstResult(call_);
    const auto dims = ConfigDot(config_, "dot_dimension_numbers");
    if (!shape->IsArray() || call_.operand_count() < 2 || !dims) return std::nullopt;
    type_ = WorkingType(shape->dtype());
    if (ConfigNumber(config_, "alpha_imag").value_or(0) != 0 && !IsComplex(type_)) {
      return std::nullopt;
    }
    Instruction* value = AddIfFits(builder_, Opcode::kDot, {call_.operand(0), call_.operand(1)},
                                   Attributes(*dims), type_, call_.name());
    if (value == nullptr) return std::nullopt;
    value = Times(value, Alpha());
    std::optional<Instruction*> summand = Summand(value);
    if (call_.attributes<CustomCallAttributes>().target.ends_with("$f8")) {
      for (int factor = 0; factor < 2 && value != nullptr; ++factor) value = TimesOperand(value);
    }
    value = Add(value, summand);
    // Results of 8 bits are scaled as well.
    const bool is_scaled = DTypeBits(shape->dtype()) == 8 && IsScalarNext();
    Instruction* scale = is_scaled ? builder_.Convert(call_.operand(next_++), type_) : nullptr;
    if (value != nullptr && Has("BIAS")) value = Add(value, Bias(value));
    if (value == nullptr || next_ != call_.operand_count()) return std::nullopt;
    return Results(value, scale, shape->dtype());
  }

 private:
  bool Has(std::string_view part) const { return epilogue_.find(part) != epilogue_.npos; }

  DotAttributes Attributes(const ConfiguredDot& dims) const {
    DotAttributes attributes = DotAttributesOf(builder_, dims);
    constexpr std::string_view kPrefix = "ALG_";
    const std::string_view algorithm = ConfigWord(config_, "algorithm");
    if (algorithm.starts_with("ALG_DOT_")) {
      std::string name(algorithm.substr(kPrefix.size()));
      std::ranges::transform(name, name.begin(), [](unsigned char c) { return std::tolower(c); });
      attributes.algorithm = builder_.module().arena().Copy(std::string_view(name));
    }
    return attributes;
  }

  // The result, what it was before its activation, its largest magnitude before it was scaled.
  std::vector<Instruction*> Results(Instruction* value, Instruction* scale, DType type) const {
    Instruction* active = Activated(value);
    std::vector<Instruction*> results = {active};
    if (scale != nullptr) results[0] = Saturated(builder_, Times(active, scale), type);
    if (Has("AUX")) results.push_back(value);
    if (ConfigWord(config_, "damax_output") == "true") {
      results.push_back(LargestMagnitude(builder_, active));
    }
    return results;
  }

  bool IsScalarNext() const {
    return next_ < call_.operand_count() && call_.operand(next_)->shape()->IsScalar();
  }

  // Times the next operand, a scalar; null if it is none.
  Instruction* TimesOperand(Instruction* x) {
    return IsScalarNext() ? Times(x, builder_.Convert(call_.operand(next_++), type_)) : nullptr;
  }

  // A factor of the configuration, complex where the product is.
  Instruction* Alpha() const {
    const double real = ConfigNumber(config_, "alpha_real").value_or(1);
    const double imaginary = ConfigNumber(config_, "alpha_imag").value_or(0);
    if (imaginary == 0) return real == 1 ? nullptr : builder_.Scalar(type_, real);
    const DType part = type_ == DType::kC128 ? DType::kF64 : DType::kF32;
    return builder_.Add(Opcode::kComplex,
                        {builder_.Scalar(part, real), builder_.Scalar(part, imaginary)});
  }

  // `factor` null: 1.
  Instruction* Times(Instruction* x, Instruction* factor) const {
    if (factor == nullptr) return x;
    return builder_.Multiply(x, builder_.BroadcastScalar(factor, x->shape()->dims()));
  }

  // Null where one of them is.
  Instruction* Add(Instruction* a, const std::optional<Instruction*>& b) const {
    if (!b || a == nullptr) return a;
    return *b == nullptr ? nullptr : builder_.Add(a, *b);
  }

  // beta * c; nothing if there is no c, null if it does not fit.
  std::optional<Instruction*> Summand(const Instruction* product) {
    const double beta = ConfigNumber(config_, "beta").value_or(0);
    if (beta == 0) return std::nullopt;
    if (next_ >= call_.operand_count()) return nullptr;
    Instruction* c = call_.operand(next_++);
    if (!c->shape()->IsArray() ||
        !std::ranges::equal(c->shape()->dims(), product->shape()->dims())) {
      return nullptr;
    }
    return Scaled(builder_, builder_.Convert(c, type_), beta);
  }

  // A row for all rows; null if it does not fit.
  Instruction* Bias(const Instruction* product) {
    if (next_ >= call_.operand_count()) return nullptr;
    Instruction* bias = call_.operand(next_++);
    const Dims dims = product->shape()->dims();
    if (!bias->shape()->IsArray() || bias->shape()->rank() != 1 ||
        bias->shape()->dim(0) != dims.back()) {
      return nullptr;
    }
    const int64_t last[] = {static_cast<int64_t>(dims.size()) - 1};
    return builder_.Broadcast(builder_.Convert(bias, type_), dims, last);
  }

  Instruction* Activated(Instruction* x) const {
    if (Has("GELU")) return Gelu(builder_, x);
    if (Has("RELU")) return Relu(builder_, x);
    if (Has("SILU")) {
      return builder_.Multiply(x,
                               builder_.Add(Opcode::kLogistic, std::vector{x}, MathAttributes{}));
    }
    return x;
  }

  const Instruction& call_;
  Builder& builder_;
  const std::string_view config_, epilogue_;
  DType type_ = DType::kF32;
  int64_t next_ = 2;  // operand that has not been read
};

}  // namespace

LibraryResults ExpandProduct(const Instruction& call, Builder& builder) {
  return ProductExpansion(call, builder).Run();
}

}  // namespace gshard
