// The table family -> cost rule.

#include "core/cost/op_cost.h"

#include <array>
#include <string_view>

#include "core/cost/rules.h"
#include "ir/diagnostic.h"

namespace gshard {
namespace {

using CostRule = OpCost (*)(const Instruction&);

constexpr CostRule RuleOfFamily(std::string_view family) {
  if (family == "elementwise") return ElementwiseCost;
  if (family == "broadcast" || family == "reshape" || family == "transpose" ||
      family == "iota_constant" || family == "tuple") {
    return MovementCost;
  }
  if (family == "custom_call") return CustomCallCost;
  if (family == "slice") return SliceCost;
  if (family == "dot") return DotCost;
  if (family == "convolution") return ConvolutionCost;
  if (family == "reduce") return ReduceCost;
  if (family == "reduce_window") return ReduceWindowCost;
  if (family == "gather_scatter") return GatherScatterCost;
  if (family == "sort") return SortCost;
  if (family == "rng") return RngCost;
  if (family == "linalg") return LinalgCost;
  if (family == "fft") return FftCost;
  if (family == "collectives") return CollectiveLocalCost;
  if (family == "control_flow") return NoCost;
  // Ends compilation: the table is constant.
  throw InternalError("an opcode of ir/opcodes.def has no cost rule");
}

constexpr std::array<CostRule, kOpcodeCount> kRules = {
#define GSHARD_OPCODE(enumerator, text, arity, family, ...) RuleOfFamily(#family),
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
};

}  // namespace

std::string_view CostKindOf(Opcode opcode) {
  const CostRule rule = kRules[static_cast<size_t>(opcode)];
  if (rule == MovementCost || rule == SliceCost) return "bytes";
  if (rule == CollectiveLocalCost) return "combiner";
  return rule == NoCost ? "callees" : "flops";
}

OpCost CostOf(const Instruction& instruction) {
  return kRules[static_cast<size_t>(instruction.opcode())](instruction);
}

}  // namespace gshard
