// The name and what it can do are asked of the processor itself (CPUID).
#include "backends/cpu/machine/processor.h"

#include <sys/utsname.h>

#include <array>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace gshard::cpu {
namespace {

constexpr std::array kNames = {"baseline", "avx", "avx2", "avx512", "avx512_vnni", "amx"};

#if defined(__x86_64__)
// The brand string: 48 bytes in three leaves, with a zero and spaces around.
std::string NameItSays() {
  std::array<uint32_t, 12> registers{};
  for (uint32_t i = 0; i < 3; ++i) {
    uint32_t* const at = registers.data() + size_t{4} * i;
    if (__get_cpuid(0x80000002u + i, at, at + 1, at + 2, at + 3) == 0) return "";
  }
  std::string name;
  for (const uint32_t word : registers) {
    for (int byte = 0; byte < 4; ++byte) {
      const char letter = static_cast<char>(word >> (8 * byte) & 0xff);
      if (letter == '\0') continue;
      if (letter == ' ' && (name.empty() || name.back() == ' ')) continue;
      name += letter;
    }
  }
  while (!name.empty() && name.back() == ' ') name.pop_back();
  return name;
}

// Tiles, which the operating system saves, and their products.
bool HasAmx() {
  uint32_t a = 0, b = 0, c = 0, d = 0;
  if (__get_cpuid_count(7, 0, &a, &b, &c, &d) == 0) return false;
  constexpr uint32_t kBf16 = 1u << 22, kTile = 1u << 24, kInt8 = 1u << 25,
                     kAll = kBf16 | kTile | kInt8;
  if ((d & kAll) != kAll) return false;
  uint32_t low = 0, high = 0;
  __asm__("xgetbv" : "=a"(low), "=d"(high) : "c"(0));
  constexpr uint32_t kTilesSaved = 3u << 17;
  return (low & kTilesSaved) == kTilesSaved;
}

// The builtins heed what the operating system saves of the registers.
InstructionSet Offered() {
  __builtin_cpu_init();
  if (!__builtin_cpu_supports("avx")) return InstructionSet::kBaseline;
  if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
    return InstructionSet::kAvx;
  }
  const bool avx512 = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512cd") &&
                      __builtin_cpu_supports("avx512bw") && __builtin_cpu_supports("avx512dq") &&
                      __builtin_cpu_supports("avx512vl");
  if (!avx512) return InstructionSet::kAvx2;
  if (!__builtin_cpu_supports("avx512vnni")) return InstructionSet::kAvx512;
  return HasAmx() ? InstructionSet::kAmx : InstructionSet::kVnni;
}
#else
std::string NameItSays() { return ""; }
InstructionSet Offered() { return InstructionSet::kBaseline; }
#endif

}  // namespace

const char* NameOf(InstructionSet set) { return kNames[static_cast<size_t>(set)]; }

std::optional<InstructionSet> InstructionSetOf(std::string_view name) {
  for (size_t i = 0; i < kNames.size(); ++i) {
    if (name == kNames[i]) return static_cast<InstructionSet>(i);
  }
  return std::nullopt;
}

const Processor& ThisProcessor() {
  static const Processor processor = [] {
    Processor asked{NameItSays(), Offered()};
    if (utsname system{}; asked.name.empty() && uname(&system) == 0) asked.name = system.machine;
    return asked;
  }();
  return processor;
}

}  // namespace gshard::cpu
