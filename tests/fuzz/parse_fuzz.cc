// Any bytes either parse or give a located error. What parses and verifies prints to text that
// parses again and prints the same.
//
//   parse_fuzz -dict=tests/fuzz/hlo.dict -rss_limit_mb=1024 -timeout=5 CORPUS
//   tests/fuzz/parse_corpus
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"

namespace {

using gshard::Diagnostic;

void Require(bool condition, const char* what, const std::string& text) {
  if (condition) return;
  std::fprintf(stderr, "%s\n%s\n", what, text.c_str());
  std::abort();
}

auto Parse(const std::string& text) {
  return gshard::ParseModule(gshard::SourceText::FromString("fuzz.hlo", text));
}

void CheckPrints(const gshard::Module& module, const gshard::PrintOptions& options) {
  const std::string printed = PrintModule(module, options);
  const auto again = Parse(printed);
  Require(again.has_value(), again.has_value() ? "" : Render(again.error()).c_str(), printed);
  Require(PrintModule(**again, options) == printed, "the print is no fixpoint", printed);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const std::string text(reinterpret_cast<const char*>(data), size);
  const auto module = Parse(text);
  if (!module.has_value()) {
    const Diagnostic& error = module.error();
    Require(!error.message.empty() && error.line > 0 && !Render(error).empty(), "no place", text);
    return 0;
  }
  if (const auto verified = gshard::VerifyModule(**module); !verified.has_value()) {
    Require(!verified.error().message.empty(), "no message", text);
    return 0;
  }
  CheckPrints(**module, {});
  CheckPrints(**module, {.named = true});
  return 0;
}
