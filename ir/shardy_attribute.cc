#include "ir/shardy_attribute.h"

#include <algorithm>
#include <iterator>
#include <string>

#include "ir/custom_call.h"
#include "ir/metadata.h"

namespace gshard {

bool HasStaleShardyAttribute(const Instruction& x) {
  if (x.sharding() != nullptr || x.opcode() == Opcode::kParameter) return false;
  if (x.opcode() == Opcode::kCustomCall) {
    static constexpr std::string_view kReadByShardy[] = {
        kShardingTarget,           "xla.sdy.FuncResultSharding",
        "xla_python_cpu_callback", "xla_ffi_python_cpu_callback",
        "xla_python_gpu_callback", "xla_ffi_python_gpu_callback"};
    const std::string_view target = x.attributes<CustomCallAttributes>().target;
    if (std::ranges::find(kReadByShardy, target) != std::end(kReadByShardy)) return false;
  }
  return !FrontendAttribute(x.frontend_attributes(), "xla.sdy.sharding").empty();
}

std::string_view WithoutFrontendAttributes(Arena& arena, std::string_view text,
                                           bool (*goes)(std::string_view key)) {
  const auto attributes = ParseFrontendAttributes(text);
  const auto is_gone = [&](const auto& attribute) { return goes(attribute.first); };
  if (std::ranges::none_of(attributes, is_gone)) return text;
  std::string rest;
  for (const auto& [key, value] : attributes) {
    if (goes(key)) continue;
    rest += rest.empty() ? "" : ",";
    rest.append(key).append("=").append(value);
  }
  return rest.empty() ? std::string_view() : arena.Copy(std::string_view("{" + rest + "}"));
}

}  // namespace gshard
