#include "ir/compiled_text.h"

#include <algorithm>
#include <charconv>
#include <string_view>

#include "ir/computation.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

bool Has(const Computation& computation, Opcode opcode) {
  return std::ranges::any_of(computation.instructions(),
                             [&](const Instruction* x) { return x->opcode() == opcode; });
}

}  // namespace

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

std::optional<FusedCollective> FindFusedCollective(const Instruction& x) {
  if (x.opcode() != Opcode::kFusion || x.called().empty()) return std::nullopt;
  const Computation& fused = *x.called(0);
  const auto& list = fused.instructions();
  const auto found = std::ranges::find_if(
      list, [](const Instruction* inner) { return IsCollective(inner->opcode()); });
  if (found == list.end()) return std::nullopt;
  FusedCollective result{.collective = *found};
  if (IsCustomCallTo(*fused.root(), kAsyncCollectiveStartTarget)) {
    result.part = FusedPart::kStart;
  } else if (IsCustomCallTo(*fused.root(), kAsyncCollectiveDoneTarget)) {
    result.part = FusedPart::kDone;
  } else if (result.collective->opcode() == Opcode::kAllReduce &&
             Has(fused, Opcode::kPartitionId) && Has(fused, Opcode::kDynamicSlice)) {
    result.part = FusedPart::kScatter;
  }
  return result;
}

const Instruction* CollectiveOf(const Instruction* x) {
  if (x->opcode() == Opcode::kAsyncStart) return x->called(0)->root();
  const auto fused = FindFusedCollective(*x);
  return fused ? fused->collective : x;
}

}  // namespace gshard
