// The kept inputs of the fuzz target (tests/fuzz/proto_fuzz.cc) and damaged copies of them: every
// one is a module or an error, and what verifies prints to text that reads back.
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <sstream>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/proto/reader.h"
#include "ir/verify/verifier.h"
#include "tests/unit/random.h"
#include "tests/unit/source_file.h"

namespace gshard {
namespace {

Expected<proto::ReadResult> Read(const std::string& bytes) {
  return proto::ReadModule(SourceText::FromString("damaged.pb", bytes));
}

// Empty, or what is wrong.
std::string ProblemOf(const std::string& bytes) {
  const auto read = Read(bytes);
  if (!read.has_value()) return read.error().message.empty() ? "no message" : "";
  if (!VerifyModule(*read->module).has_value()) return "";
  const std::string printed = PrintModule(*read->module);
  const auto again = ParseModule(SourceText::FromString("print.hlo", printed));
  if (!again.has_value()) return Render(again.error()) + printed;
  return PrintModule(**again) == printed ? "" : "no fixpoint: " + printed;
}

// Most damage keeps the lengths of messages, so that it reaches what is within.
void Damage(std::string& bytes, const std::string& other, Random& random) {
  for (size_t n = 1 + random.Below(4); n > 0 && !bytes.empty(); --n) {
    const size_t at = random.Below(bytes.size());
    const size_t length = std::min(1 + random.Below(8), bytes.size() - at);
    const size_t from = random.Below(other.size());
    switch (random.Below(6)) {
      case 0:
        bytes.resize(at);
        break;
      case 1:
        bytes.replace(at, length, other.substr(from, length));
        break;
      case 2:
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Below(8)));
        break;
      case 3:
        bytes[at] = static_cast<char>(random.Below(256));
        break;
      default:
        bytes[at] = static_cast<char>(bytes[at] + static_cast<int>(random.Below(3)) - 1);
    }
  }
}

std::vector<std::string> Corpus() {
  std::vector<std::string> corpus;
  for (const auto& entry :
       std::filesystem::directory_iterator(SourceFile("tests/fuzz/proto_corpus"))) {
    std::ifstream in(entry.path(), std::ios::binary);
    std::stringstream bytes;
    bytes << in.rdbuf();
    corpus.push_back(bytes.str());
  }
  std::sort(corpus.begin(), corpus.end());
  return corpus;
}

TEST_CASE("kept protos are modules that verify", "[ir][proto]") {
  const std::vector<std::string> corpus = Corpus();
  REQUIRE(corpus.size() > 10);
  for (const std::string& bytes : corpus) {
    CHECK(proto::IsHloProto(bytes));
    const auto read = Read(bytes);
    INFO((read.has_value() ? "" : Render(read.error())));
    REQUIRE(read.has_value());
    const auto verified = VerifyModule(*read->module);
    INFO((verified.has_value() ? "" : Render(verified.error())));
    CHECK(verified.has_value());
    CHECK(ProblemOf(bytes) == "");
  }
}

TEST_CASE("damaged protos are modules or errors", "[ir][proto]") {
  const std::vector<std::string> corpus = Corpus();
  const char* wanted = std::getenv("GSHARD_DAMAGED_PROTOS");
  const size_t rounds = wanted != nullptr ? std::strtoul(wanted, nullptr, 10) : 3000;
  for (size_t round = 0; round < rounds; ++round) {
    Random random(round);
    std::string bytes = corpus[random.Below(corpus.size())];
    Damage(bytes, corpus[random.Below(corpus.size())], random);
    const std::string problem = ProblemOf(bytes);
    INFO("seed " << round);
    if (!problem.empty()) CHECK(problem == "");
  }
}

TEST_CASE("a proto that is cut anywhere is an error", "[ir][proto]") {
  const std::string whole = Corpus().front();
  size_t modules = 0;
  for (size_t size = 0; size < whole.size(); ++size) {
    CHECK(ProblemOf(whole.substr(0, size)) == "");
    if (Read(whole.substr(0, size)).has_value()) ++modules;
  }
  CHECK(modules < 10);  // cut between fields behind the computations
}

}  // namespace
}  // namespace gshard
