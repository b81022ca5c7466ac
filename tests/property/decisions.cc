#include "tests/property/decisions.h"

#include <fmt/format.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <vector>

#include "core/report/collective_report.h"
#include "core/spmd/per_device_module.h"
#include "ir/parser.h"
#include "ir/sharding_text.h"
#include "ir/verify/verifier.h"

namespace gshard::property {
namespace {

// FNV-1a.
class Hash {
 public:
  void Add(std::string_view text) {
    for (const char c : text) {
      value_ = (value_ ^ static_cast<unsigned char>(c)) * 0x100000001b3u;
    }
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xcbf29ce484222325u;
};

std::string DecisionsOf(uint64_t seed, const std::string& text) {
  auto module = ParseModule(SourceText::FromString("program", text));
  if (!module) return fmt::format("{} error: {}", seed, module.error().code);
  Hash shardings;
  PassContext context;
  // As in the checks of the results: every other seed, rounds cost nothing.
  if (seed % 2 == 1) context.partition.bytes_per_round = 0;
  PerDeviceOptions way;
  way.after_propagation = [&](Module& propagated) {
    for (const Computation* computation : propagated.computations()) {
      for (const Instruction* x : computation->instructions()) {
        shardings.Add(x->sharding() == nullptr ? "-" : ToString(x->sharding()));
        shardings.Add(";");
      }
    }
    return VerifyModule(propagated);
  };
  if (auto made = MakePerDeviceModule(**module, context, way); !made) {
    return fmt::format("{} error: {}", seed, made.error().code);
  }
  const CollectiveReport report = MakeCollectiveReport(**module, nullptr);
  return fmt::format("{} {:016x} {} {:.0f}", seed, shardings.value(), report.collectives.size(),
                     report.bytes_per_device);
}

}  // namespace

int CheckDecisions(const std::string& path, uint64_t first, uint64_t end,
                   const std::function<std::string(uint64_t)>& make) {
  std::ifstream in(path);
  std::vector<std::string> found;
  int64_t passed = 0, failed = 0;
  for (std::string line; std::getline(in, line);) {
    const uint64_t seed = std::strtoull(line.c_str(), nullptr, 10);
    if (line.starts_with("#") || seed < first || seed >= end) {
      found.push_back(line);
      continue;
    }
    found.push_back(DecisionsOf(seed, make(seed)));
    if (found.back() == line) {
      ++passed;
      continue;
    }
    ++failed;
    fmt::print("{}, kept: {}\n", found.back(), line);
  }
  if (std::getenv("GSHARD_UPDATE") != nullptr) {
    std::ofstream out(path);
    for (const std::string& line : found) out << line << "\n";
  }
  fmt::print("{} passed, {} failed\n", passed, failed);
  return failed == 0 && passed > 0 ? 0 : 1;
}

}  // namespace gshard::property
