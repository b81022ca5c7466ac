// Any bytes read as an HLO proto are a module or an error with a message. What verifies prints to
// text that parses again and prints the same.
//
//   proto_fuzz -rss_limit_mb=1024 -timeout=5 CORPUS tests/fuzz/proto_corpus
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/proto/reader.h"
#include "ir/verify/verifier.h"

namespace {

void Require(bool condition, const std::string& what, const std::string& text) {
  if (condition) return;
  std::fprintf(stderr, "%s\n%s\n", what.c_str(), text.c_str());
  std::abort();
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  const auto read = gshard::proto::ReadModule(gshard::SourceText::FromString(
      "fuzz.pb", std::string(reinterpret_cast<const char*>(data), size)));
  if (!read.has_value()) {
    Require(!read.error().message.empty() && !Render(read.error()).empty(), "no message", "");
    return 0;
  }
  if (!gshard::VerifyModule(*read->module).has_value()) return 0;
  const std::string printed = PrintModule(*read->module);
  const auto again = gshard::ParseModule(gshard::SourceText::FromString("print.hlo", printed));
  Require(again.has_value(), again.has_value() ? "" : Render(again.error()), printed);
  Require(PrintModule(**again) == printed, "the print is no fixpoint", printed);
  return 0;
}
