// No cell of the matrix opcode x layer is empty, and its column for the emulator tells the truth.
#include "backends/cpu/opcode_support.h"

#include <catch2/catch.hpp>
#include <string>

#include "backends/cpu/elementwise/kernel.h"
#include "backends/cpu/ops/kernel_table.h"
#include "core/propagation/rule_summary.h"

namespace gshard::cpu {

TEST_CASE("every opcode has a cell in every layer", "[cpu]") {
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    INFO(OpcodeName(opcode));
    CHECK(std::string(InfoOf(opcode).family) != "");
    CHECK(std::string(PropagationSummary(opcode)) != "");
    CHECK(std::string(TextOf(SupportOf(opcode))) != "");
    CHECK((SupportOf(opcode) == OpcodeSupport::kKernel) == (KernelFactoryOf(opcode) != nullptr));
  }
}

}  // namespace gshard::cpu
