// The choice of OpenBLAS's kernel, of processors that are not here; and what comes of it here.
#include "backends/cpu/machine/machine.h"

#include <catch2/catch.hpp>
#include <complex>
#include <cstdlib>
#include <vector>

#include "backends/cpu/kernels/gemm.h"
#include "backends/cpu/machine/blas_core.h"

namespace gshard::cpu {
namespace {

constexpr auto kBaseline = InstructionSet::kBaseline, kAvx = InstructionSet::kAvx,
               kAvx2 = InstructionSet::kAvx2, kAvx512 = InstructionSet::kAvx512,
               kVnni = InstructionSet::kVnni, kAmx = InstructionSet::kAmx;

TEST_CASE("OpenBLAS's kernel is the best of what the processor offers", "[machine]") {
  struct Case {
    const char* machine;
    InstructionSet instructions;
    const char *version, *core;  // what OpenBLAS has chosen
    const char* wanted;          // empty: that is right
  };
  const Case cases[] = {
      {"Xeon of 2024, Debian 12, which does not know it", kAmx, "0.3.21", "Prescott", "SkylakeX"},
      {"Xeon of 2024, Debian 13", kAmx, "0.3.29", "SapphireRapids", ""},
      {"Xeon of 2017", kAvx512, "0.3.21", "SkylakeX", ""},
      {"Xeon of 2019", kVnni, "0.3.21", "SkylakeX", ""},
      {"Xeon of 2020 with bf16", kVnni, "0.3.21", "Cooperlake", ""},
      {"Core i7 of 2023, no AVX-512", kAvx2, "0.3.24", "Prescott", "Haswell"},
      {"Core i7 of 2013", kAvx2, "0.3.21", "Haswell", ""},
      {"EPYC with AVX-512, taken for an older one", kVnni, "0.3.21", "Zen", "SkylakeX"},
      {"EPYC with AVX-512", kVnni, "0.3.29", "Cooperlake", ""},
      {"EPYC of 2019", kAvx2, "0.3.21", "Zen", ""},
      {"A10 of 2015", kAvx2, "0.3.21", "Excavator", ""},
      {"a virtual machine that hides AVX2", kAvx, "0.3.21", "Prescott", "Sandybridge"},
      {"FX of 2012", kAvx, "0.3.21", "Piledriver", ""},
      {"Celeron without AVX", kBaseline, "0.3.21", "Nehalem", ""},
      {"AVX-512 is wrong in libraries before 0.3.21", kAvx512, "0.3.20", "SkylakeX", "Haswell"},
      {"and not taken there", kAvx512, "0.3.20", "Prescott", "Haswell"},
      {"nor of those that do not tell their version", kAvx512, "", "Prescott", "Haswell"},
      {"a version of the future", kAvx512, "1.0", "Prescott", "SkylakeX"},
      {"GSHARD_CPU=avx2 on a Xeon of 2024", kAvx2, "0.3.29", "SapphireRapids", "Haswell"},
      {"GSHARD_CPU=baseline on it", kBaseline, "0.3.29", "SapphireRapids", "Prescott"},
      {"a library for one processor", kAvx2, "0.3.21", "HASWELL", ""},
      {"arm64", kBaseline, "0.3.21", "neoversen1", ""},
      {"a core that is newer than we are", kAvx512, "0.4.0", "DiamondRapids", ""},
  };
  for (const Case& c : cases) {
    INFO(c.machine);
    const BlasCoreChoice choice = ChooseBlasCore(c.instructions, {c.version, c.core}, false);
    CHECK(choice.core == c.wanted);
    CHECK(!choice.is_advice);
  }
}

TEST_CASE("what the user has chosen stays, with advice where a better kernel is there",
          "[machine]") {
  struct Case {
    InstructionSet instructions;
    const char *version, *core, *advice;
  };
  const Case cases[] = {
      {kAvx512, "0.3.21", "Prescott", "SkylakeX"},
      {kAvx512, "0.3.21", "Haswell", "SkylakeX"},
      {kAvx512, "0.3.21", "SkylakeX", ""},
      {kAvx2, "0.3.21", "Prescott", "Haswell"},
      {kAvx2, "0.3.21", "Zen", ""},
      {kAvx512, "0.3.20", "Haswell", ""},
      {kAvx512, "0.3.20", "SkylakeX", ""},
      {kBaseline, "0.3.21", "Prescott", ""},
      {kAvx2, "0.3.21", "SkylakeX", ""},
  };
  for (const Case& c : cases) {
    INFO(c.version << " " << c.core);
    const BlasCoreChoice choice = ChooseBlasCore(c.instructions, {c.version, c.core}, true);
    CHECK(choice.core == c.advice);
    CHECK(choice.is_advice == (choice.core != ""));
  }
}

TEST_CASE("names of instruction sets are read back", "[machine]") {
  for (const InstructionSet set : {kBaseline, kAvx, kAvx2, kAvx512, kVnni, kAmx}) {
    CHECK(InstructionSetOf(NameOf(set)) == set);
  }
  CHECK(!InstructionSetOf("AVX2"));
  CHECK(!InstructionSetOf(""));
}

// Small integers: sums are exact in any order.
template <typename T>
T Entry(int64_t i, int64_t j) {
  const auto value = static_cast<float>((7 * i + 3 * j) % 11 - 5);
  if constexpr (std::is_floating_point_v<T>) {
    return static_cast<T>(value);
  } else {
    return T(value, static_cast<float>((i + 5 * j) % 7 - 3));
  }
}

template <typename T>
void CheckProduct(int64_t m, int64_t n, int64_t k, bool transposed) {
  std::vector<T> a, b(static_cast<size_t>(k * n)), c(static_cast<size_t>(m * n));
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t p = 0; p < k; ++p) a.push_back(Entry<T>(i, p));
  }
  const MatrixView<T> right = {b.data(), transposed ? 1 : n, transposed ? k : 1};
  for (int64_t p = 0; p < k; ++p) {
    for (int64_t j = 0; j < n; ++j) {
      b[static_cast<size_t>(p * right.row + j * right.column)] = Entry<T>(p + 1, j);
    }
  }
  BlasGemm(m, n, k, MatrixView<T>{a.data(), k, 1}, right, {c.data(), n});
  int64_t wrong = 0;
  for (int64_t i = 0; i < m; ++i) {
    for (int64_t j = 0; j < n; ++j) {
      T sum{};
      for (int64_t p = 0; p < k; ++p) sum += Entry<T>(i, p) * Entry<T>(p + 1, j);
      wrong += c[static_cast<size_t>(i * n + j)] != sum;
    }
  }
  INFO(m << " x " << k << " times " << k << " x " << n << ", transposed " << transposed);
  CHECK(wrong == 0);
}

TEST_CASE("every kernel that is switched to computes products right", "[machine]") {
  const std::string before = LoadedBlas().core;
  int switched = 0;
  for (const std::string core : {"Prescott", "Sandybridge", "Haswell", "SkylakeX"}) {
    if (*InstructionsOf(core) > ThisProcessor().offers) continue;
    INFO(core);
    if (!SwitchBlasCore(core)) continue;  // a library for one processor
    ++switched;
    CHECK(LoadedBlas().core == core);
    for (const bool transposed : {false, true}) {
      for (const auto& [m, n, k] : {std::array<int64_t, 3>{1, 1, 1},
                                    {5, 3, 2},
                                    {17, 33, 9},
                                    {64, 48, 130},
                                    {100, 97, 401},
                                    {129, 257, 65}}) {
        CheckProduct<float>(m, n, k, transposed);
        CheckProduct<double>(m, n, k, transposed);
        CheckProduct<std::complex<float>>(m, n, k, transposed);
        CheckProduct<std::complex<double>>(m, n, k, transposed);
      }
    }
  }
  if (switched == 0) return;
  CHECK(!SwitchBlasCore("NoSuchCore"));
  CHECK(InstructionsOf(LoadedBlas().core).has_value());
  SwitchBlasCore(before);
  CHECK(LoadedBlas().core == before);
}

// An environment variable as it was, when this is done.
class Variable {
 public:
  explicit Variable(const char* name) : name_(name) {
    if (const char* value = std::getenv(name)) before_ = value;
    unsetenv(name);
  }
  ~Variable() {
    if (before_) {
      setenv(name_, before_->c_str(), 1);
    } else {
      unsetenv(name_);
    }
  }
  void Set(const char* value) { setenv(name_, value, 1); }

 private:
  const char* name_;
  std::optional<std::string> before_;
};

TEST_CASE("where OpenBLAS does not know the processor, its kernel is changed at the start",
          "[machine]") {
  Variable core("OPENBLAS_CORETYPE"), limit("GSHARD_CPU");
  REQUIRE(SetUpMachine());  // without the limits that the tests may run under
  const std::string before = LoadedBlas().core;
  // As if it had chosen this.
  if (ThisProcessor().offers == kBaseline || !SwitchBlasCore("Prescott")) return;
  const auto old = WarningOfOldKernel();
  REQUIRE(old.has_value());
  CHECK(old->code == "W-RUN-BLAS");
  CHECK_THAT(old->message, Catch::Contains("Prescott"));

  // The user's own choice stays, and is told to be slow.
  core.Set("Prescott");
  CHECK(!WarningOfOldKernel());
  auto told = SetUpMachine();
  REQUIRE(told.has_value());
  REQUIRE(told->size() == 1);
  CHECK((*told)[0].severity == Severity::kWarning);
  CHECK_THAT((*told)[0].message, Catch::Contains("OPENBLAS_CORETYPE=Prescott: products take"));
  CHECK(ThisMachine().blas_kernel == "Prescott");

  unsetenv("OPENBLAS_CORETYPE");
  auto silent = SetUpMachine();
  REQUIRE(silent.has_value());
  CHECK(silent->empty());
  CHECK(ChooseBlasCore(ThisProcessor().offers, LoadedBlas(), false).core.empty());
  CHECK(std::getenv("OPENBLAS_CORETYPE") == nullptr);
  CHECK(!WarningOfOldKernel());

  limit.Set("mmx");
  auto refused = SetUpMachine();
  REQUIRE(!refused.has_value());
  CHECK(refused.error().message == "'mmx' is no instruction set");
  SwitchBlasCore(before);
}

}  // namespace
}  // namespace gshard::cpu
