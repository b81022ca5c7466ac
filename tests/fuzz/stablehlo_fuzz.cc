// Any bytes read as StableHLO are a module or a located error. What verifies is written as
// StableHLO that reads back and is written the same, or refused by name. Once it may be written
// otherwise: reading takes what a loop does not change out of it before it folds, as XLA's export
// does, and so finds one more in a text that was folded (a loop that counts by zero).
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

std::string WrittenAgain(const std::string& text) {
  const auto module = Read(text);
  Require(module.has_value(), module.has_value() ? "" : Render(module.error()), text);
  const auto written = gshard::stablehlo::WriteModule(**module);
  Require(written.has_value(), "read, and not written", text);
  return *written;
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
  const std::string rewritten = WrittenAgain(*written);
  if (rewritten == *written) return 0;
  Require(WrittenAgain(rewritten) == rewritten, "the text is no fixpoint", *written);
  return 0;
}
