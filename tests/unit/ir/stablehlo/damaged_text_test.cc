// The kept inputs of the fuzz target (tests/fuzz/stablehlo_fuzz.cc) and damaged copies of them:
// every text is a module or a located error, and what is written reads back.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/stablehlo/reader.h"
#include "ir/stablehlo/writer.h"
#include "ir/verify/verifier.h"
#include "tests/unit/random.h"
#include "tests/unit/source_file.h"

namespace gshard {
namespace {

Expected<std::unique_ptr<Module>> ReadText(const std::string& text) {
  stablehlo::ReadOptions options;
  options.dims = {{"b", 4}, {"x:0", 3}, {"arg0:0", 2}};
  return stablehlo::ReadModule(SourceText::FromString("damaged.mlir", text), nullptr, options);
}

// Empty, or what is wrong.
std::string ProblemOf(const std::string& text) {
  const auto module = ReadText(text);
  if (!module.has_value()) {
    return module.error().message.empty() || module.error().line == 0 ? "no place" : "";
  }
  if (!VerifyModule(**module).has_value()) return "";
  const auto written = stablehlo::WriteModule(**module);
  if (!written.has_value()) return "";
  const auto again = ReadText(*written);
  if (!again.has_value()) return Render(again.error()) + *written;
  const auto rewritten = stablehlo::WriteModule(**again);
  return rewritten.has_value() && *rewritten == *written ? "" : "no fixpoint: " + *written;
}

void Damage(std::string& text, const std::vector<std::string>& others, Random& random) {
  for (size_t n = 1 + random.Below(3); n > 0 && !text.empty(); --n) {
    const size_t at = random.Below(text.size());
    const size_t length = std::min(1 + random.Below(12), text.size() - at);
    const std::string& other = others[random.Below(others.size())];
    const size_t from = random.Below(other.size());
    switch (random.Below(6)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, text.substr(at, length));
        break;
      case 2:
        text.insert(at, other.substr(from, 1 + random.Below(30)));
        break;
      case 3:
        text[at] = "0123456789%@#\"{}[]()<>,:=-x?\n"[random.Below(29)];
        break;
      case 4:
        text.replace(at, length, other.substr(from, length));
        break;
      default:
        text.resize(at);
    }
  }
}

TEST_CASE("kept and damaged texts are modules or located errors", "[ir][stablehlo]") {
  std::vector<std::string> corpus;
  for (const auto& entry :
       std::filesystem::directory_iterator(SourceFile("tests/fuzz/stablehlo_corpus"))) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::stringstream text;
    text << in.rdbuf();
    corpus.push_back(text.str());
  }
  std::sort(corpus.begin(), corpus.end());
  REQUIRE(corpus.size() > 10);
  for (const std::string& text : corpus) {
    INFO(text);
    CHECK(ProblemOf(text) == "");
  }
  const char* wanted = std::getenv("GSHARD_DAMAGED_TEXTS");
  const size_t rounds = wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 2000;
  const char* first = std::getenv("GSHARD_DAMAGED_FIRST");
  const size_t begin = first != nullptr ? std::strtoul(first, nullptr, 10) : 0;
  for (size_t round = begin; round < begin + rounds; ++round) {
    Random random(round);
    std::string text = corpus[random.Below(corpus.size())];
    Damage(text, corpus, random);
    const std::string problem = ProblemOf(text);
    INFO("seed " << round << "\n" << text);
    if (!problem.empty()) CHECK(problem == "");
  }
}

}  // namespace
}  // namespace gshard
