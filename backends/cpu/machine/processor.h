// The processor that this runs on, as far as loops over arrays are chosen by it.
#ifndef GSHARD_BACKENDS_CPU_MACHINE_PROCESSOR_H_
#define GSHARD_BACKENDS_CPU_MACHINE_PROCESSOR_H_

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace gshard::cpu {

// What x86-64 processors multiply with, each with all that those before it have. kAvx2: with FMA;
// kAvx512: F, CD, BW, DQ and VL; kVnni: AVX-512's products of 8-bit integers, and of bf16 where the
// processor has them; kAmx: tiles, of both. Other architectures have kBaseline: there is one choice
// for them.
enum class InstructionSet : uint8_t { kBaseline, kAvx, kAvx2, kAvx512, kVnni, kAmx };

// "baseline", "avx", "avx2", "avx512", "avx512_vnni", "amx".
const char* NameOf(InstructionSet set);
std::optional<InstructionSet> InstructionSetOf(std::string_view name);

struct Processor {
  std::string name;  // as it names itself, or the architecture's name
  InstructionSet offers = InstructionSet::kBaseline;  // and the operating system saves
};

// Asked once; thread-safe.
const Processor& ThisProcessor();

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_MACHINE_PROCESSOR_H_
