// Evaluates small modules instruction by instruction with the CPU kernels, for tests.
//
// Every kernel is run in all the ways it offers (whole, in ranges, in steps, in place, as a batch)
// and all must give the same bits. Buffers have their exact size, and results and scratch start as
// garbage.
#ifndef GSHARD_TESTS_UNIT_BACKENDS_CPU_OPS_KERNEL_RUNNER_H_
#define GSHARD_TESTS_UNIT_BACKENDS_CPU_OPS_KERNEL_RUNNER_H_

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "backends/cpu/elementwise/kernel.h"
#include "backends/cpu/ops/kernel_table.h"
#include "ir/literal.h"
#include "ir/module.h"
#include "ir/parser.h"
#include "ir/source_text.h"

namespace gshard::cpu::testing {

// Every block ends in a fence: who writes behind his memory fails the test when it is given up.
class GarbageScratch : public Scratch {
 public:
  ~GarbageScratch() override { Rewind({}); }
  std::byte* Allocate(size_t bytes) override {
    const size_t size = (bytes + 127) / 64 * 64;
    std::byte* data = static_cast<std::byte*>(std::aligned_alloc(64, size));
    std::memset(data, 0x7b, size);
    blocks_.push_back({std::unique_ptr<std::byte, Free>(data), bytes, size});
    bytes_ += bytes;
    return data;
  }
  Mark Position() const override { return {blocks_.size(), 0}; }
  void Rewind(Mark mark) override {
    for (; blocks_.size() > mark.block; blocks_.pop_back()) {
      const Block& block = blocks_.back();
      const bool whole = std::all_of(block.data.get() + block.bytes, block.data.get() + block.size,
                                     [](std::byte b) { return b == std::byte{0x7b}; });
      if (!whole) FAIL_CHECK("written behind " << block.bytes << " bytes of scratch");
    }
  }
  // All that was ever asked for.
  size_t bytes() const { return bytes_; }

 private:
  struct Free {
    void operator()(std::byte* p) const { std::free(p); }
  };
  struct Block {
    std::unique_ptr<std::byte, Free> data;
    size_t bytes, size;
  };
  std::vector<Block> blocks_;
  size_t bytes_ = 0;
};

// An array value; exact size, so that the address sanitiser sees every overrun.
struct Array {
  const Shape* shape = nullptr;
  std::vector<std::byte> bytes;

  double at(int64_t i) const { return ElementAsDouble(AsLiteral(), i); }
  Literal AsLiteral() const {
    Literal literal;
    literal.shape = shape;
    literal.data = bytes;
    return literal;
  }
};

inline Array Garbage(const Shape* shape) {
  return {shape, std::vector<std::byte>(
                     static_cast<size_t>(shape->element_count() * StorageBytes(shape->dtype())),
                     std::byte{0xa5})};
}

inline void AppendLeaves(const Shape* shape, std::vector<const Shape*>& leaves) {
  if (shape->IsArray()) leaves.push_back(shape);
  for (const Shape* element : shape->elements()) AppendLeaves(element, leaves);
}

using Leaves = std::vector<Array>;

inline std::vector<const std::byte*> Pointers(const Leaves& arrays) {
  std::vector<const std::byte*> pointers;
  for (const Array& array : arrays) pointers.push_back(array.bytes.data());
  return pointers;
}
inline std::vector<std::byte*> Pointers(Leaves& arrays) {
  std::vector<std::byte*> pointers;
  for (Array& array : arrays) pointers.push_back(array.bytes.data());
  return pointers;
}

inline bool SameBits(const Leaves& a, const Leaves& b) {
  for (size_t i = 0; i < a.size(); ++i) {
    if (a[i].bytes != b[i].bytes) return false;
  }
  return a.size() == b.size();
}

// One instruction in all ways its kernel offers.
inline Leaves RunKernel(const Instruction& instruction, const Leaves& operands) {
  INFO("instruction " << instruction.name());
  const KernelFactory factory = KernelFactoryOf(instruction.opcode());
  REQUIRE(factory != nullptr);
  auto made = factory(instruction);
  if (!made) FAIL(Render(made.error()));
  const Kernel& kernel = **made;
  GarbageScratch scratch;
  std::vector<const Shape*> shapes;
  AppendLeaves(instruction.shape(), shapes);
  const auto fresh = [&] {
    Leaves results;
    for (const Shape* shape : shapes) results.push_back(Garbage(shape));
    return results;
  };
  Leaves results = fresh();
  kernel.Run(Pointers(operands), Pointers(results), scratch);

  for (size_t k = 0; k < operands.size() && !shapes.empty(); ++k) {
    if (!kernel.InPlace(static_cast<int64_t>(k))) continue;
    REQUIRE(operands[k].bytes.size() == results[0].bytes.size());
    Leaves again = fresh();
    again[0].bytes = operands[k].bytes;
    std::vector<const std::byte*> inputs = Pointers(operands);
    // Equal operands share their buffer.
    for (size_t i = 0; i < inputs.size(); ++i) {
      if (instruction.operand_count() == static_cast<int64_t>(operands.size()) &&
          instruction.operand(static_cast<int64_t>(i)) ==
              instruction.operand(static_cast<int64_t>(k))) {
        inputs[i] = again[0].bytes.data();
      }
    }
    kernel.Run(inputs, Pointers(again), scratch);
    INFO("in place of operand " << k);
    REQUIRE(SameBits(results, again));
  }

  const int64_t granule = kernel.RangeGranule();
  const int64_t count = shapes.empty() ? 0 : shapes[0]->element_count();
  if (granule > 0 && count > 0) {
    for (int64_t granules : {int64_t{1}, int64_t{3}, int64_t{1000}}) {
      if (count / (granule * granules) > 300) continue;
      Leaves again = fresh();
      for (int64_t first = 0; first < count; first += granule * granules) {
        const int64_t n = std::min(granule * granules, count - first);
        std::vector<const std::byte*> inputs = Pointers(operands);
        std::vector<std::byte*> outputs = Pointers(again);
        for (size_t k = 0; k < inputs.size(); ++k) {
          if (kernel.IsElementwiseIn(static_cast<int64_t>(k))) {
            inputs[k] += first * StorageBytes(operands[k].shape->dtype());
          }
        }
        for (size_t k = 0; k < outputs.size(); ++k) {
          outputs[k] += first * StorageBytes(again[k].shape->dtype());
        }
        kernel.RunRange(first, n, inputs, outputs, scratch);
      }
      INFO("in ranges of " << granule * granules);
      REQUIRE(SameBits(results, again));
    }
  }

  if (kernel.RunsInSteps()) {
    // One granule a piece, the last one first.
    const auto run = [&](int64_t items, int64_t step,
                         const std::function<void(Range, Scratch&)>& body) {
      for (int64_t begin = (items - 1) / step * step; begin >= 0; begin -= step) {
        GarbageScratch own;
        body({begin, std::min(begin + step, items)}, own);
      }
    };
    Leaves again = fresh();
    kernel.RunSteps(run, Pointers(operands), Pointers(again), scratch);
    INFO("in steps");
    REQUIRE(SameBits(results, again));
  }

  // A batch of three equal instances: dense copies, and shared operands.
  for (bool shared : {false, true}) {
    constexpr int64_t kCount = 3;
    std::vector<std::vector<std::byte>> dense(operands.size());
    std::vector<std::vector<const std::byte*>> items(operands.size());
    std::vector<BatchOperand> inputs(operands.size());
    for (size_t k = 0; k < operands.size(); ++k) {
      const auto& bytes = operands[k].bytes;
      const bool share = shared && k > 0;
      for (int64_t i = 0; i < (share ? 1 : kCount); ++i) {
        dense[k].insert(dense[k].end(), bytes.begin(), bytes.end());
      }
      inputs[k].stride = share ? 0 : static_cast<int64_t>(bytes.size());
      for (int64_t i = 0; i < kCount; ++i) {
        items[k].push_back(dense[k].data() + i * inputs[k].stride);
      }
      inputs[k].items = items[k].data();
    }
    std::vector<std::vector<std::byte>> out;
    std::vector<BatchResult> outputs;
    for (const Array& result : results) {
      out.emplace_back(result.bytes.size() * kCount, std::byte{0x5a});
      outputs.push_back({nullptr, static_cast<int64_t>(result.bytes.size())});
    }
    for (size_t k = 0; k < out.size(); ++k) outputs[k].data = out[k].data();
    kernel.RunBatch(kCount, inputs, outputs, scratch);
    INFO("as a batch");
    for (size_t k = 0; k < out.size(); ++k) {
      for (size_t i = 0; i < kCount; ++i) {
        REQUIRE(
            std::equal(results[k].bytes.begin(), results[k].bytes.end(),
                       out[k].begin() + static_cast<std::ptrdiff_t>(i * results[k].bytes.size())));
      }
    }
  }
  return results;
}

inline std::unique_ptr<Module> Parse(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  if (!module) FAIL(Render(module.error()));
  return std::move(*module);
}

// The leaves of the entry's root, given those of its parameters in order. Entries hold array
// operations, constants, tuples and get-tuple-elements; called computations are the kernels'.
inline Leaves Evaluate(const Module& module, const std::vector<Leaves>& parameters = {}) {
  std::map<const Instruction*, Leaves> values;
  for (const Instruction* instruction : module.entry()->instructions()) {
    Leaves operands;
    for (const Instruction* operand : instruction->operands()) {
      const Leaves& leaves = values.at(operand);
      operands.insert(operands.end(), leaves.begin(), leaves.end());
    }
    Leaves result;
    switch (instruction->opcode()) {
      case Opcode::kParameter:
        result = parameters.at(
            static_cast<size_t>(instruction->attributes<ParameterAttributes>().number));
        break;
      case Opcode::kConstant: {
        const Literal& literal = *instruction->attributes<ConstantAttributes>().literal;
        result.push_back({instruction->shape(), {literal.data.begin(), literal.data.end()}});
        break;
      }
      case Opcode::kTuple:
        result = operands;
        break;
      case Opcode::kGetTupleElement: {
        const int64_t index = instruction->attributes<GetTupleElementAttributes>().index;
        const Shape* tuple = instruction->operand(0)->shape();
        std::vector<const Shape*> before, own;
        for (int64_t i = 0; i < index; ++i) AppendLeaves(tuple->element(i), before);
        AppendLeaves(tuple->element(index), own);
        const auto start = operands.begin() + static_cast<std::ptrdiff_t>(before.size());
        result.assign(start, start + static_cast<std::ptrdiff_t>(own.size()));
        break;
      }
      default:
        result = RunKernel(*instruction, operands);
    }
    values[instruction] = std::move(result);
  }
  return values.at(module.entry()->root());
}

// Distance in units of the last place of the type; 0 for equal bits or two NaNs.
inline double UlpDistance(const Array& a, const Array& b, int64_t i) {
  const DType dtype = a.shape->dtype();
  const size_t bytes = static_cast<size_t>(StorageBytes(dtype));
  const size_t at = static_cast<size_t>(i) * bytes;
  if (std::memcmp(a.bytes.data() + at, b.bytes.data() + at, bytes) == 0) return 0;
  if (!IsFloat(dtype)) return INFINITY;
  const double x = a.at(i), y = b.at(i);
  if (std::isnan(x) && std::isnan(y)) return 0;
  if (!std::isfinite(x) || !std::isfinite(y)) return INFINITY;
  if (x == 0 && y == 0) return INFINITY;  // signs of zero differ
  const double scale = std::max(std::abs(x), std::abs(y));
  const double unit =
      dtype == DType::kF64 ? std::nextafter(scale, INFINITY) - scale
      : dtype == DType::kF32
          ? std::nextafter(static_cast<float>(scale), INFINITY) - static_cast<float>(scale)
      : dtype == DType::kBF16 ? std::ldexp(1.0, std::ilogb(scale) - 7)
      : dtype == DType::kF16  ? std::ldexp(1.0, std::max(std::ilogb(scale), -14) - 10)
                              : scale / 8;
  return std::abs(x - y) / unit;
}

inline std::string Show(const Array& array, int64_t i) {
  if (IsComplex(array.shape->dtype())) {
    const auto z = ElementAsComplex(array.AsLiteral(), i);
    return fmt::format("({}, {})", z.real(), z.imag());
  }
  if (IsFloat(array.shape->dtype())) return fmt::format("{:.9g}", array.at(i));
  return fmt::format("{}", ElementAsInt64(array.AsLiteral(), i));
}

inline void CheckSame(const Array& actual, const Array& expected, double ulps = 0) {
  REQUIRE(Compatible(actual.shape, expected.shape));
  for (int64_t i = 0; i < actual.shape->element_count(); ++i) {
    double distance = UlpDistance(actual, expected, i);
    if (IsComplex(actual.shape->dtype())) {
      const auto x = ElementAsComplex(actual.AsLiteral(), i);
      const auto y = ElementAsComplex(expected.AsLiteral(), i);
      const double unit = actual.shape->dtype() == DType::kC64 ? 6e-8 : 1.2e-16;
      distance = x == y ? 0 : std::abs(x - y) / (unit * std::max(std::abs(x), std::abs(y)));
    }
    if (!(distance <= ulps)) {
      FAIL_CHECK(fmt::format("element {}: {} instead of {} ({} ulp)", i, Show(actual, i),
                             Show(expected, i), distance));
    }
  }
}

// `body`: instructions of an entry computation whose root is a tuple (results.., expected..), the
// second half being what the first must be. `computations` go before the entry.
inline void CheckVectors(const std::string& body, const std::string& computations = "",
                         double ulps = 0) {
  const std::unique_ptr<Module> module =
      Parse("HloModule test\n" + computations + "\nENTRY main {\n" + body + "\n}\n");
  const Leaves values = Evaluate(*module);
  REQUIRE(values.size() % 2 == 0);
  for (size_t i = 0; i < values.size() / 2; ++i) {
    INFO("result " << i);
    CheckSame(values[i], values[values.size() / 2 + i], ulps);
  }
}

}  // namespace gshard::cpu::testing

#endif  // GSHARD_TESTS_UNIT_BACKENDS_CPU_OPS_KERNEL_RUNNER_H_
