#include "backends/cpu/machine/machine.h"

#include <fmt/format.h>
#include <hwy/targets.h>

#include <algorithm>
#include <cstdlib>
#include <string_view>

#include "backends/cpu/machine/blas_core.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr const char* kCode = "W-RUN-BLAS";
// Far from every ratio that was measured, so that two runs on one machine say the same: kernels of
// AVX2 take 1.0 of the time of AVX-512's on a Zen 4, 1.9 to 2.1 on a Zen 5 and a Xeon of 2024;
// Prescott takes 4.5 to 5.6.
constexpr double kSlowdownToTell = 1.5;

// What SetUpMachine has found.
struct Setup {
  std::optional<InstructionSet> instructions;  // what GSHARD_CPU leaves of the processor
  bool told = false;                           // that OpenBLAS's kernel is an old one
};
Setup& TheSetup() {
  static Setup setup;
  return setup;
}
InstructionSet InstructionsInUse() {
  return TheSetup().instructions.value_or(ThisProcessor().offers);
}

Expected<InstructionSet> InstructionsToUse() {
  const InstructionSet offered = ThisProcessor().offers;
  const char* const limit = std::getenv("GSHARD_CPU");
  if (limit == nullptr || *limit == '\0') return offered;
  const std::optional<InstructionSet> named = InstructionSetOf(limit);
  if (!named) {
    return Fail(MakeError("E-RUN-CPU", fmt::format("'{}' is no instruction set", limit),
                          "it is one of baseline, avx, avx2, avx512, avx512_vnni and amx"));
  }
  if (*named > offered) {
    return Fail(MakeError("E-RUN-CPU", fmt::format("this processor does not offer {}", limit),
                          fmt::format("it offers {}", NameOf(offered))));
  }
  return *named;
}

// Our loops: Highway's targets of x86, of which a lower bit is one with more instructions. They
// have none between the baseline and AVX2, and none above AVX-512 (kernels/targets.h). oneDNN
// (kernels/onednn.h) is loaded later, and reads then what it may use.
void LimitLoops(InstructionSet instructions) {
  int64_t best = HWY_STATIC_TARGET;
  if (instructions >= InstructionSet::kAvx2) best = HWY_AVX2;
  if (instructions >= InstructionSet::kAvx512) best = HWY_AVX3;
  if (instructions <= InstructionSet::kAvx512) hwy::DisableTargets(best - 1);
  constexpr const char* kOneDnn[] = {"SSE41", "AVX", "AVX2", "AVX512_CORE", "AVX512_CORE_BF16",
                                     "ALL"};
  setenv("ONEDNN_MAX_CPU_ISA", kOneDnn[static_cast<size_t>(instructions)], /*overwrite=*/0);
}

// Empty: he leaves the choice to OpenBLAS.
std::string_view CoreOfUser() {
  const char* const core = std::getenv("OPENBLAS_CORETYPE");
  return core != nullptr ? core : "";
}

Diagnostic Warning(std::string message, std::string hint) {
  Diagnostic warning = MakeError(kCode, std::move(message), std::move(hint));
  warning.severity = Severity::kWarning;
  return warning;
}

Diagnostic NotSwitched(const BlasLibrary& library, const std::string& wanted) {
  return Warning(fmt::format("OpenBLAS {} multiplies with its kernel {} and has no {} to change to",
                             library.version, library.core, wanted),
                 "take a build of it for several processors (DYNAMIC_ARCH)");
}

std::optional<Diagnostic> SetUpBlas(InstructionSet instructions) {
  const BlasLibrary library = LoadedBlas();
  const BlasCoreChoice choice = ChooseBlasCore(instructions, library, !CoreOfUser().empty());
  if (choice.core.empty()) return std::nullopt;
  if (!choice.is_advice) {
    if (SwitchBlasCore(choice.core)) return std::nullopt;
    TheSetup().told = true;
    return NotSwitched(library, choice.core);
  }
  const double slowdown = SlowdownAgainst(choice.core);
  if (slowdown < kSlowdownToTell) return std::nullopt;
  return Warning(fmt::format("OPENBLAS_CORETYPE={}: products take {:.1f} times as long as with {}",
                             CoreOfUser(), slowdown, choice.core),
                 "unset it, unless an old kernel is what you want");
}

}  // namespace

Machine ThisMachine() {
  const BlasLibrary library = LoadedBlas();
  return {ThisProcessor().name, InstructionsInUse(), "OpenBLAS " + library.version, library.core};
}

std::string ToText(const Machine& machine) {
  return fmt::format("{}, {}; {}, kernel {}", machine.processor, NameOf(machine.instructions),
                     machine.blas, machine.blas_kernel);
}

Expected<std::vector<Diagnostic>> SetUpMachine() {
  const auto instructions = GSHARD_TRY(InstructionsToUse());
  TheSetup().instructions = instructions;
  if (instructions < ThisProcessor().offers) LimitLoops(instructions);
  std::vector<Diagnostic> warnings;
  if (auto warning = SetUpBlas(instructions)) warnings.push_back(std::move(*warning));
  return warnings;
}

std::optional<Diagnostic> WarningOfOldKernel() {
  if (TheSetup().told) return std::nullopt;
  const BlasLibrary library = LoadedBlas();
  const BlasCoreChoice choice = ChooseBlasCore(InstructionsInUse(), library, !CoreOfUser().empty());
  if (choice.core.empty() || choice.is_advice) return std::nullopt;
  return Warning(fmt::format("OpenBLAS {} multiplies with its kernel {}, where {} is right",
                             library.version, library.core, choice.core),
                 fmt::format("call gshard::cpu::SetUpMachine() at the start of main, or set "
                             "OPENBLAS_CORETYPE={}",
                             choice.core));
}

}  // namespace gshard::cpu
