#include "tests/gradient/finite_differences.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstring>
#include <memory>
#include <optional>

#include "backends/cpu/run/mesh_run.h"
#include "core/autodiff/gradient.h"
#include "ir/builder.h"
#include "ir/dims.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

using cpu::GlobalArray;
using cpu::OutputArray;
using Kind = GradientVerdict::Kind;

// Ends a check.
struct Ended {
  GradientVerdict verdict;
};

template <typename T>
T Need(const char* stage, Expected<T> value) {
  if (value) {
    if constexpr (!std::is_void_v<T>) {
      return std::move(*value);
    } else {
      return;
    }
  }
  const Diagnostic& error = value.error();
  // What the emulator or the derivative does not know is no difference, but it is counted.
  const bool is_known = error.code == "E-RUN-003" || error.code == "E-GRAD-003" ||
                        error.code == "E-GRAD-004" || error.code == "E-GRAD-007";
  throw Ended{{is_known ? Kind::kSkipped : Kind::kDiffers,
               is_known ? fmt::format("{}: {}", error.code, error.message.substr(0, 60))
                        : fmt::format("{}: {}", stage, Render(error))}};
}

std::unique_ptr<Module> Parse(const char* stage, const std::string& text) {
  auto module = Need(stage, ParseModule(SourceText::FromString(stage, text)));
  Need(stage, VerifyModule(*module));
  return module;
}

// Operations that look at bits do not survive another type.
std::unique_ptr<Module> ParseOrSkip(const std::string& text) {
  auto module = Need("program", ParseModule(SourceText::FromString("program", text)));
  Expected<void> verified = VerifyModule(*module);
  const bool of_bits = text.find("bitcast-convert(") != std::string::npos ||
                       text.find("stochastic-convert(") != std::string::npos;
  if (!verified && of_bits) throw Ended{{Kind::kSkipped, "bits of another type"}};
  Need("program", std::move(verified));
  return module;
}

class Random {
 public:
  explicit Random(uint64_t seed) : state_(seed * 0x9e3779b97f4a7c15u + 0x1234567u) {}
  uint64_t Next() {
    state_ += 0x9e3779b97f4a7c15u;
    uint64_t x = state_;
    x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
    x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
    return x ^ (x >> 31);
  }
  double Uniform(double low, double high) {
    return low + (high - low) * static_cast<double>(Next() >> 11) * 0x1p-53;
  }

 private:
  uint64_t state_;
};

bool IsDouble(DType dtype) { return dtype == DType::kF64 || dtype == DType::kC128; }

// Doubles of a leaf: one an element, two of a complex one.
std::span<double> Doubles(GlobalArray& array) {
  return {reinterpret_cast<double*>(array.data.data()), array.data.size() / sizeof(double)};
}
std::span<const double> Doubles(const OutputArray& array) {
  return {reinterpret_cast<const double*>(array.data.data()), array.data.size() / sizeof(double)};
}

std::vector<GlobalArray> MakePoint(const Module& module, const GradientCheckOptions& options,
                                   Random& random) {
  std::vector<GlobalArray> arrays;
  for (const cpu::ParameterLeaf& leaf : cpu::ParameterLeaves(*module.entry())) {
    GlobalArray array;
    array.dtype = leaf.shape->dtype();
    array.dims.assign(leaf.shape->dims().begin(), leaf.shape->dims().end());
    const int64_t count = leaf.shape->element_count();
    const int bytes = StorageBytes(array.dtype);
    array.data.resize(static_cast<size_t>(std::max<int64_t>(bytes, count * bytes)));
    if (IsDouble(array.dtype)) {
      for (double& x : Doubles(array)) x = random.Uniform(options.low, options.high);
    } else {
      const int64_t most = array.dtype == DType::kPred || bytes == 0 ? 1 : options.largest_integer;
      const int64_t limit = DTypeBits(array.dtype) < 4 ? std::min<int64_t>(most, 1) : most;
      for (int64_t i = 0; i < count; ++i) {
        const int64_t value =
            static_cast<int64_t>(random.Next() % static_cast<uint64_t>(limit + 1));
        std::memcpy(array.data.data() + i * bytes, &value, static_cast<size_t>(bytes));
      }
    }
    arrays.push_back(std::move(array));
  }
  return arrays;
}

std::vector<OutputArray> Run(const Module& module, const std::vector<GlobalArray>& point) {
  auto inputs = cpu::Inputs::FromArrays(point);
  auto run = Need("run", cpu::MeshRun::Prepare(module, *inputs, {}));
  Need("start", run->Start());
  Need("run", run->Run({}));
  std::vector<OutputArray> outputs;
  for (size_t k = 0; k < run->result_count(); ++k) outputs.push_back(run->Output(k));
  return outputs;
}

void AppendLeaves(Builder& b, Instruction* x, std::vector<Instruction*>& leaves) {
  if (!x->shape()->IsTuple()) {
    leaves.push_back(x);
    return;
  }
  for (size_t i = 0; i < x->shape()->elements().size(); ++i) {
    AppendLeaves(b, b.GetTupleElement(x, static_cast<int64_t>(i)), leaves);
  }
}

// Sum of leaf * weight over the floating results; weights are cosines, so that none is like
// another.
void MakeLoss(Module& module) {
  Builder b(module, module.entry());
  std::vector<Instruction*> leaves;
  AppendLeaves(b, module.entry()->root(), leaves);
  Instruction* loss = nullptr;
  double phase = 0.5;
  auto add = [&](Instruction* x) {
    const int64_t flat[] = {x->shape()->element_count()};
    const Shape* line = b.context().Array(DType::kF64, flat);
    Instruction* angle =
        b.Add(b.Iota(line, 0), b.BroadcastScalar(b.Scalar(DType::kF64, phase), flat));
    Instruction* operands[] = {angle};
    Instruction* weight = b.Add(Opcode::kCosine, operands, MathAttributes{});
    const int64_t dimensions[] = {0};
    Instruction* sum = b.Reduce(b.Multiply(b.Reshape(x, flat), weight), b.Scalar(DType::kF64, 0),
                                dimensions, b.BinaryComputation(Opcode::kAdd, DType::kF64));
    loss = loss == nullptr ? sum : b.Add(loss, sum);
    phase += 0.7;
  };
  for (Instruction* leaf : leaves) {
    if (!leaf->shape()->IsArray() || leaf->shape()->HasDynamicDims()) continue;
    if (leaf->shape()->dtype() == DType::kF64) add(leaf);
    if (leaf->shape()->dtype() == DType::kC128) {
      add(b.Add(Opcode::kReal, {leaf}));
      add(b.Add(Opcode::kImag, {leaf}));
    }
  }
  if (loss == nullptr) throw Ended{{Kind::kSkipped, "no floating result"}};
  module.entry()->set_root(loss);
  module.header().entry_result_layout = nullptr;
  module.header().input_output_alias.clear();
  module.header().propagation_to_output.clear();
}

class Check {
 public:
  Check(const std::string& text, const GradientCheckOptions& options) : options_(options) {
    auto program = ParseOrSkip(text);
    MakeLoss(*program);
    loss_ = Parse("loss", PrintModule(*program));
    auto gradient = loss_->Clone();
    GradientOptions grad;
    grad.rematerialize = options.rematerialize;
    Need("grad", Differentiate(*gradient, grad));
    Need("the gradient", VerifyModule(*gradient));
    gradient_ = Parse("the printed gradient", PrintModule(*gradient));
  }

  GradientVerdict Run() {
    for (int attempt = 0; attempt < options_.points; ++attempt) {
      Random random(options_.seed * 16 + static_cast<uint64_t>(attempt));
      if (std::optional<GradientVerdict> verdict = At(random)) return *verdict;
    }
    return {Kind::kSkipped, "not smooth where it was tried"};
  }

 private:
  std::optional<GradientVerdict> At(Random& random) {
    std::vector<GlobalArray> point = MakePoint(*loss_, options_, random);
    std::vector<std::vector<double>> direction;
    bool has_floats = false;
    for (GlobalArray& array : point) {
      std::vector<double>& v = direction.emplace_back();
      if (!IsDouble(array.dtype)) continue;
      v.resize(Doubles(array).size());
      for (double& x : v) x = random.Uniform(0.5, 1) * (random.Next() % 2 == 0 ? 1 : -1);
      has_floats |= !array.dims.empty() || !v.empty();
    }
    if (!has_floats) return GradientVerdict{Kind::kSkipped, "no floating parameter"};
    const std::vector<OutputArray> outputs = gshard::Run(*gradient_, point);
    const double loss = Doubles(outputs[0])[0];
    if (!std::isfinite(loss) || std::fabs(loss) > 1e12) return std::nullopt;
    const Slope coarse = Measure(point, direction, kStep);
    const Slope fine = Measure(point, direction, kStep / 4);
    double sum = 0, scale = 0;
    const std::vector<int64_t> places = GradientPlaces();
    for (size_t k = 0; k < point.size(); ++k) {
      if (!IsDouble(point[k].dtype)) continue;
      const std::span<const double> g = Doubles(outputs[static_cast<size_t>(places[k])]);
      const bool is_complex = point[k].dtype == DType::kC128;
      for (size_t i = 0; i < direction[k].size() && i < g.size(); ++i) {
        // dL/dx - i dL/dy.
        const double term = g[i] * direction[k][i] * (is_complex && i % 2 == 1 ? -1 : 1);
        sum += term;
        scale += std::fabs(term);
      }
    }
    // Rounding of the loss, over the step.
    const double noise = 1e-11 * std::fabs(loss);
    const double allowed =
        options_.tolerance * std::max(scale, std::fabs(fine.derivative)) + noise + 1e-9;
    // Second differences shrink with the square of the step; beside a kink, with the step.
    const double bend = (coarse.both_sides - 2 * loss - 16 * (fine.both_sides - 2 * loss)) / kStep;
    const bool is_smooth = std::isfinite(fine.derivative) &&
                           std::fabs(coarse.derivative - fine.derivative) <= allowed &&
                           std::fabs(bend) <= allowed;
    if (!is_smooth) return std::nullopt;
    const double error = std::fabs(sum - fine.derivative);
    if (error <= allowed) return GradientVerdict{Kind::kAgrees, "", error / std::max(scale, 1e-30)};
    return GradientVerdict{
        Kind::kDiffers,
        fmt::format("along a direction the loss {:g} grows by {:.12g}, by its gradient {:.12g}",
                    loss, fine.derivative, sum),
        error / std::max(scale, 1e-30)};
  }

  // The output that is the gradient of each leaf of the parameters. A tuple with one floating leaf
  // has a gradient of all its leaves.
  std::vector<int64_t> GradientPlaces() const {
    std::vector<int64_t> places;
    int64_t next = 1;
    for (const Instruction* parameter : loss_->entry()->parameters()) {
      const std::vector<const Shape*> leaves = LeafShapes(parameter->shape());
      const bool has_gradient = std::any_of(leaves.begin(), leaves.end(), [](const Shape* leaf) {
        return leaf->IsArray() && IsDouble(leaf->dtype());
      });
      for (size_t i = 0; i < leaves.size(); ++i) places.push_back(has_gradient ? next++ : 0);
    }
    return places;
  }

  double Loss(std::vector<GlobalArray> point, const std::vector<std::vector<double>>& direction,
              double step) const {
    for (size_t k = 0; k < point.size(); ++k) {
      for (size_t i = 0; i < direction[k].size(); ++i) {
        Doubles(point[k])[i] += step * direction[k][i];
      }
    }
    return Doubles(gshard::Run(*loss_, point)[0])[0];
  }
  struct Slope {
    double derivative = 0;
    double both_sides = 0;  // loss at +step plus that at -step
  };
  static constexpr double kStep = 1e-3;
  Slope Measure(const std::vector<GlobalArray>& point,
                const std::vector<std::vector<double>>& direction, double step) const {
    const double after = Loss(point, direction, step), before = Loss(point, direction, -step);
    const double far = Loss(point, direction, 2 * step) - Loss(point, direction, -2 * step);
    return {(8 * (after - before) - far) / (12 * step), after + before};
  }

  GradientCheckOptions options_;
  std::unique_ptr<Module> loss_, gradient_;
};

}  // namespace

GradientVerdict CheckGradient(const std::string& text, const GradientCheckOptions& options) {
  try {
    return Check(text, options).Run();
  } catch (const Ended& ended) {
    return ended.verdict;
  } catch (const InternalError& error) {
    return {Kind::kDiffers, fmt::format("internal error: {}", error.what())};
  }
}

std::string InDoublePrecision(const std::string& text) {
  std::string out;
  for (size_t i = 0; i < text.size();) {
    // Rounding to fewer bits has steps that no derivative sees.
    constexpr std::string_view kFewBits = "exponent_bits=5, mantissa_bits=3";
    if (text.compare(i, kFewBits.size(), kFewBits) == 0) {
      out += "exponent_bits=11, mantissa_bits=52";
      i += kFewBits.size();
      continue;
    }
    const bool starts_word =
        i == 0 || (std::isalnum(static_cast<unsigned char>(text[i - 1])) == 0 &&
                   text[i - 1] != '_' && text[i - 1] != '.');
    size_t end = i;
    while (end < text.size() && std::isalnum(static_cast<unsigned char>(text[end])) != 0) ++end;
    const std::string_view word = std::string_view(text).substr(i, end - i);
    if (starts_word && end < text.size() && text[end] == '[') {
      if (std::optional<DType> dtype = DTypeFromName(word)) {
        out += IsFloat(*dtype) ? "f64" : IsComplex(*dtype) ? "c128" : std::string(word);
        i = end;
        continue;
      }
    }
    out += text[i++];
  }
  return out;
}

}  // namespace gshard
