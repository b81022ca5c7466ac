// OpenBLAS reads OPENBLAS_CORETYPE whenever it chooses a core, and can be made to choose again by
// two functions that it exports and no header names. So a program need not execute itself again
// with the variable set.
#include "backends/cpu/machine/blas_core.h"

#include <strings.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <chrono>
#include <cstdlib>
#include <vector>

#include "backends/cpu/kernels/gemm.h"

extern "C" {
char* openblas_get_config();
char* openblas_get_corename();
// Of libraries for several processors.
void gotoblas_dynamic_init() __attribute__((weak));
void gotoblas_dynamic_quit() __attribute__((weak));
}

namespace gshard::cpu {
namespace {

constexpr const char* kVariable = "OPENBLAS_CORETYPE";

struct Core {
  const char* name;
  InstructionSet instructions;
};
// Without mention: those of 32 bits, which OpenBLAS replaces by Prescott. The first of an
// instruction set is the one that is taken for it.
constexpr std::array kCores = {
    Core{"Prescott", InstructionSet::kBaseline},
    Core{"Core2", InstructionSet::kBaseline},
    Core{"Penryn", InstructionSet::kBaseline},
    Core{"Dunnington", InstructionSet::kBaseline},
    Core{"Atom", InstructionSet::kBaseline},
    Core{"Nehalem", InstructionSet::kBaseline},
    Core{"Opteron", InstructionSet::kBaseline},
    Core{"Opteron_SSE3", InstructionSet::kBaseline},
    Core{"Barcelona", InstructionSet::kBaseline},
    Core{"Bobcat", InstructionSet::kBaseline},
    Core{"Nano", InstructionSet::kBaseline},
    Core{"Sandybridge", InstructionSet::kAvx},
    Core{"Bulldozer", InstructionSet::kAvx},
    Core{"Piledriver", InstructionSet::kAvx},
    Core{"Steamroller", InstructionSet::kAvx},
    Core{"Haswell", InstructionSet::kAvx2},
    Core{"Zen", InstructionSet::kAvx2},
    Core{"Excavator", InstructionSet::kAvx2},
    Core{"SkylakeX", InstructionSet::kAvx512},
    Core{"Cooperlake", InstructionSet::kAvx512},
    Core{"SapphireRapids", InstructionSet::kAvx512},
};

bool IsSame(std::string_view a, std::string_view b) {
  return a.size() == b.size() && strncasecmp(a.data(), b.data(), a.size()) == 0;
}

const char* CoreFor(InstructionSet instructions) {
  return std::find_if(kCores.begin(), kCores.end(),
                      [&](const Core& core) { return core.instructions == instructions; })
      ->name;
}

bool IsBefore(const std::string& version, const std::array<int, 3>& other) {
  std::array<int, 3> numbers{};
  const char* at = version.data();
  const char* const end = at + version.size();
  for (int& number : numbers) {
    at = std::from_chars(at, end, number).ptr;
    if (at != end) ++at;
  }
  return numbers < other;
}

void SetVariable(const std::optional<std::string>& value) {
  if (value) {
    setenv(kVariable, value->c_str(), 1);
  } else {
    unsetenv(kVariable);
  }
}

constexpr int64_t kProductRows = 256;

double SecondsOfProduct(const std::vector<float>& a, std::vector<float>& c) {
  constexpr int64_t n = kProductRows;
  const auto start = std::chrono::steady_clock::now();
  BlasGemm(n, n, n, MatrixView<float>{a.data(), n, 1}, MatrixView<float>{a.data(), n, 1},
           {c.data(), n});
  const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
  return taken.count();
}

}  // namespace

BlasLibrary LoadedBlas() {
  // "OpenBLAS 0.3.21 NO_LAPACKE DYNAMIC_ARCH .."
  std::string_view config = openblas_get_config();
  BlasLibrary library{"", openblas_get_corename()};
  constexpr std::string_view kName = "OpenBLAS ";
  if (config.starts_with(kName)) {
    config.remove_prefix(kName.size());
    library.version = config.substr(0, config.find(' '));
  }
  return library;
}

std::optional<InstructionSet> InstructionsOf(std::string_view core) {
  for (const Core& known : kCores) {
    if (IsSame(known.name, core)) return known.instructions;
  }
  return std::nullopt;
}

BlasCoreChoice ChooseBlasCore(InstructionSet instructions, const BlasLibrary& library,
                              bool chosen_by_user) {
  const std::optional<InstructionSet> current = InstructionsOf(library.core);
  if (!current) return {};
  instructions = std::min(instructions, InstructionSet::kAvx512);
  if (IsBefore(library.version, {0, 3, 21})) {
    instructions = std::min(instructions, InstructionSet::kAvx2);
  }
  const bool is_right = chosen_by_user ? *current >= instructions : *current == instructions;
  if (is_right) return {};
  return {CoreFor(instructions), chosen_by_user};
}

bool SwitchBlasCore(const std::string& core) {
  if (gotoblas_dynamic_init == nullptr || gotoblas_dynamic_quit == nullptr) return false;
  LimitBlasThreads();
  const std::string before = LoadedBlas().core;
  const char* const set = std::getenv(kVariable);
  const auto kept = set != nullptr ? std::optional<std::string>(set) : std::nullopt;
  const auto choose = [](const std::string& name) {
    SetVariable(name);
    gotoblas_dynamic_quit();
    gotoblas_dynamic_init();
    return IsSame(LoadedBlas().core, name);
  };
  const bool done = choose(core);
  SetVariable(kept);
  if (done) return true;
  // As when it was loaded, which a core that OpenBLAS picks but does not take by name needs.
  gotoblas_dynamic_quit();
  gotoblas_dynamic_init();
  if (!IsSame(LoadedBlas().core, before)) choose(before);
  SetVariable(kept);
  return false;
}

double SlowdownAgainst(const std::string& other) {
  LimitBlasThreads();
  const std::string before = LoadedBlas().core;
  const std::vector<float> a(kProductRows * kProductRows, 1.0f);
  std::vector<float> c(a.size());
  double seconds = 1, with_other = 1;
  for (int round = 0; round < 4; ++round) {
    // By turns: what disturbs the machine for a moment meets both.
    seconds = std::min(seconds, SecondsOfProduct(a, c));
    if (!SwitchBlasCore(other)) return 1;
    with_other = std::min(with_other, SecondsOfProduct(a, c));
    SwitchBlasCore(before);
  }
  return seconds / with_other;
}

}  // namespace gshard::cpu
