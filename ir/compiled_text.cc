#include "ir/compiled_text.h"

#include <algorithm>
#include <charconv>
#include <string_view>

namespace gshard {

bool IsCompiled(const Module& module) {
  if (module.header().is_scheduled) return true;
  return std::ranges::any_of(module.computations(), [](const Computation* computation) {
    return std::ranges::any_of(computation->instructions(),
                               [](const Instruction* x) { return x->opcode() == Opcode::kFusion; });
  });
}

std::optional<int64_t> EstimatedCycles(const Instruction& kernel) {
  constexpr std::string_view kKey = "\"estimated_cycles\":\"";
  constexpr int64_t kUnknown = int64_t{1} << 62;
  const std::string_view text = kernel.backend_config();
  const size_t at = text.find(kKey);
  if (at == text.npos) return std::nullopt;
  const char* const end = text.data() + text.size();
  int64_t cycles = 0;
  const auto [stop, error] = std::from_chars(text.data() + at + kKey.size(), end, cycles);
  if (error != std::errc() || stop == end || *stop != '"' || cycles < 0 || cycles >= kUnknown) {
    return std::nullopt;
  }
  return cycles;
}

}  // namespace gshard
