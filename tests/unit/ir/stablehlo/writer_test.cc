// Each opcode has a row in ir/stablehlo/import/ops.def, by which it is read and written, or a
// reason to have none.
#include "ir/stablehlo/writer.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "ir/parser.h"
#include "ir/stablehlo/import/op_table.h"

namespace gshard {
namespace {

// Written as something else, or as what they stand for: StableHLO has no such operations.
const std::set<Opcode> kWrittenOtherwise = {Opcode::kParameter,
                                            Opcode::kBitcast,
                                            Opcode::kFusion,
                                            Opcode::kAddDependency,
                                            Opcode::kDomain,
                                            Opcode::kAsyncStart,
                                            Opcode::kAsyncUpdate,
                                            Opcode::kAsyncDone,
                                            Opcode::kCopyStart,
                                            Opcode::kCopyDone,
                                            Opcode::kRaggedAllToAll,
                                            Opcode::kAllReduceStart,
                                            Opcode::kAllReduceDone,
                                            Opcode::kAllGatherStart,
                                            Opcode::kAllGatherDone,
                                            Opcode::kSendDone,
                                            Opcode::kCollectivePermuteStart,
                                            Opcode::kRecvDone,
                                            Opcode::kCollectivePermuteDone};

// Refused where a module has them, with an error that names them.
const std::set<Opcode> kRefused = {Opcode::kStochasticConvert, Opcode::kDynamicReshape,
                                   Opcode::kScaledDot, Opcode::kRngGetAndUpdateState};

}  // namespace

TEST_CASE("every opcode has a row of StableHLO or a reason to have none", "[ir][stablehlo]") {
  for (int i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    INFO(OpcodeName(opcode) << " needs a row in ir/stablehlo/import/ops.def, or is refused here");
    const bool has_row = std::ranges::any_of(
        stablehlo::AllRows(), [&](const stablehlo::OpRow& row) { return row.opcode == opcode; });
    CHECK(has_row + kWrittenOtherwise.count(opcode) + kRefused.count(opcode) == 1);
  }
}

TEST_CASE("an elementwise opcode without a row is refused by its name", "[ir][stablehlo]") {
  const auto module = ParseModule(SourceText::FromString(
      "test.hlo",
      "HloModule m\nENTRY e {\n  x = f32[4] parameter(0)\n  r = u32[4] parameter(1)\n"
      "  ROOT y = bf16[4] stochastic-convert(x, r)\n}\n"));
  REQUIRE(module.has_value());
  const Expected<std::string> written = stablehlo::WriteModule(**module);
  REQUIRE_FALSE(written.has_value());
  CHECK(written.error().message == "StableHLO has no operation for stochastic-convert");
  CHECK(written.error().line == 5);
}

}  // namespace gshard
