// The page of rules, tests/golden/propagate/every_op.hlo, shows every op that has one.
#include <catch2/catch.hpp>
#include <fstream>
#include <sstream>
#include <string>

#include "core/propagation/rules.h"
#include "ir/opcode.h"
#include "tests/unit/source_file.h"

namespace gshard {
namespace {

TEST_CASE("Every op with a rule of its own is on the page of rules", "[propagation]") {
  std::stringstream page;
  // Batch norms are apart: of XLA's compilers only that for TPUs gives them anything.
  for (const char* name : {"every_op", "batch_norm"}) {
    std::ifstream file(SourceFile("tests/golden/propagate/" + std::string(name) + ".hlo"));
    page << file.rdbuf();
  }
  for (size_t i = 0; i < kOpcodeCount; ++i) {
    const auto opcode = static_cast<Opcode>(i);
    // Elementwise ops share one rule; calls are inlined before.
    if (IsElementwise(opcode) || RuleOf(opcode).supported == Never || opcode == Opcode::kCall) {
      continue;
    }
    INFO(OpcodeName(opcode));
    CHECK(page.str().find(" " + std::string(OpcodeName(opcode)) + "(") != std::string::npos);
  }
}

}  // namespace
}  // namespace gshard
