// Any bytes read as StableHLO are a module or a located error. What verifies is written as
// StableHLO that reads back and is written the same, or refused by name.
//
//   stablehlo_fuzz -dict=tests/fuzz/stablehlo.dict -rss_limit_mb=1024 -timeout=5 CORPUS
//       tests/fuzz/stablehlo_corpus
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ir/printer.h"
#include "ir/stablehlo/reader.h"
#include "ir/stablehlo/writer.h"
#include "ir/verify/verifier.h"

namespace {

using gshard::Diagnostic;

void Require(bool condition, const std::string& what, const std::string& text) {
  if (condition) return;
  std::fprintf(stderr, "%s\n%s\n", what.c_str(), text.c_str());
  std::abort();
}

auto Read(const std::string& text) {
  gshard::stablehlo::ReadOptions options;
  options.dims = {{"a", 4}, {"x:0", 3}, {"arg0:0", 2}};
  return gshard::stablehlo::ReadModule(gshard::SourceText::FromString("fuzz.mlir", text), nullptr,
                                       options);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto module = Read(text);
  if (!module.has_value()) {
    const Diagnostic& error = module.error();
    Require(!error.message.empty() && error.line > 0 && !Render(error).empty(), "no place", text);
    return 0;
  }
  if (!gshard::VerifyModule(**module).has_value()) return 0;
  gshard::PrintModule(**module);
  const auto written = gshard::stablehlo::WriteModule(**module);
  if (!written.has_value()) {
    Require(!written.error().message.empty(), "no message", text);
    return 0;
  }
  const auto again = Read(*written);
  Require(again.has_value(), again.has_value() ? "" : Render(again.error()), *written);
  const auto rewritten = gshard::stablehlo::WriteModule(**again);
  Require(rewritten.has_value() && *rewritten == *written, "the text is no fixpoint", *written);
  return 0;
}
