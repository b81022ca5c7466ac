// The samples, partitioned and run as gshard-run does.
#include "backends/cpu/emulate.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "ir/parser.h"
#include "tests/unit/source_file.h"

namespace gshard::cpu {
namespace {

const std::vector<std::string> kSamples = {"mlp", "moe_layer", "pipeline", "spatial_conv"};

std::unique_ptr<Module> Sample(const std::string& name) {
  auto text = SourceText::Open(SourceFile(fmt::format("samples/{}.hlo", name)));
  REQUIRE(text);
  auto module = ParseModule(*text);
  REQUIRE(module);
  return std::move(*module);
}

std::string TemporaryFile(const std::string& name) {
  return (std::filesystem::temp_directory_path() / ("gshard_emulate_" + name)).string();
}

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("results are the same bits for any number of threads", "[cpu]") {
  for (const std::string& sample : kSamples) {
    INFO(sample);
    std::string first;
    for (const int threads : {1, 2, 3, 7}) {
      EmulateOptions options;
      options.threads = threads;
      options.output = TemporaryFile(sample + ".npz");
      REQUIRE(Emulate(Sample(sample), options));
      const std::string result = Contents(options.output);
      std::filesystem::remove(options.output);
      REQUIRE_FALSE(result.empty());
      if (first.empty()) first = result;
      CHECK((result == first));
    }
  }
}

TEST_CASE("samples agree with the unpartitioned graph, instruction by instruction", "[cpu]") {
  for (const std::string& sample : kSamples) {
    INFO(sample);
    EmulateOptions options;
    options.verify = true;
    const auto emulation = Emulate(Sample(sample), options);
    REQUIRE(emulation);
    REQUIRE(emulation->report.verify);
    CHECK(emulation->report.verify->ok);
    REQUIRE(emulation->report.verify->instructions);
    CHECK(emulation->report.verify->instructions->compared > 5);
    CHECK_FALSE(emulation->report.verify->instructions->first);
    const auto json = nlohmann::json::parse(ToJson(emulation->report));
    CHECK(json["verify"]["instructions"]["compared"] ==
          emulation->report.verify->instructions->compared);
  }
}

TEST_CASE("a trace has a named row of steps and one per thread", "[cpu]") {
  EmulateOptions options;
  options.threads = 2;
  options.trace = TemporaryFile("trace.json");
  REQUIRE(Emulate(Sample("mlp"), options));
  const auto trace = nlohmann::json::parse(Contents(options.trace));
  std::filesystem::remove(options.trace);
  int named = 0, steps = 0, work = 0;
  bool all_reduce = false;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      if (event["name"] == "thread_name") ++named;
      continue;
    }
    REQUIRE(event["ph"] == "X");
    CHECK(event["dur"] >= 0);
    CHECK(event["ts"] >= 0);
    (event["tid"] == 0 ? steps : work) += 1;
    const std::string name = event["name"];
    all_reduce |= name.find("all-reduce") != std::string::npos;
  }
  CHECK(named == 3);
  CHECK(steps > 0);
  CHECK(work > 0);
  CHECK(all_reduce);
}

TEST_CASE("what is interrupted says so", "[cpu]") {
  std::atomic<bool> stop{true};
  EmulateOptions options;
  options.stop = &stop;
  const auto emulation = Emulate(Sample("mlp"), options);
  REQUIRE(emulation);
  CHECK(emulation->interrupted);
  const auto json = nlohmann::json::parse(ToJson(emulation->report));
  CHECK(json["interrupted"] == true);
  CHECK(json["step_times_s"].empty());
}

TEST_CASE("more memory than allowed is refused before the run", "[cpu]") {
  EmulateOptions options;
  options.memory_limit = 1000;
  const auto emulation = Emulate(Sample("mlp"), options);
  REQUIRE_FALSE(emulation);
  CHECK(emulation.error().code == "E-RUN-MEMORY");
}

}  // namespace
}  // namespace gshard::cpu
