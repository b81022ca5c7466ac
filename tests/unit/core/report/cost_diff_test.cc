#include "core/report/cost_diff.h"

#include <catch2/catch.hpp>

#include "core/json.h"

namespace gshard {
namespace {

constexpr const char* kBefore = R"({"schema":"gshard.cost/1","module":"m","devices":8,
  "chip":"tpu-v3","step_time_s":0.01,"compute_time_s":0.008,"exposed_communication_s":0.002,
  "flops_per_device":1e9,"useful_flops_per_device":1e9,"mfu":0.4,"hfu":0.4,
  "hbm_bytes_per_device":1e6,
  "memory":{"peak_bytes":300,"argument_bytes":100,"output_bytes":100,"temp_bytes":100,"at_peak":[
    {"name":"dot.7","bytes":100,"op_name":"","source":""},
    {"name":"dot.9","bytes":50,"op_name":"","source":""},
    {"name":"p.1","bytes":150,"op_name":"params['wi']","source":"a.py:3"}]},
  "collectives":[{"kind":"all-reduce","axes":["data","model"],"count":5,"bytes_per_device":80,
    "time_s":0.001,"cause":"why"}],
  "collective_calls":[{"name":"ar","kind":"all-reduce","axes":["data","model"],"count":3,
    "bytes_per_device":60,"time_s":0.0005,"cause":"why"}],
  "by_opcode":[{"key":"dot","count":2,"flops":1e9,"bytes":1,"time_s":0.008}]})";

TEST_CASE("Tensors are known by op_name, or by name without its number", "[diff]") {
  auto figures = ReadCostFigures(kBefore, "a.json");
  REQUIRE(figures);
  REQUIRE(figures->tensors.size() == 2);
  CHECK(figures->tensors["dot"].bytes == 150);
  CHECK(figures->tensors["params['wi']"].source == "a.py:3");
  CHECK(figures->bytes_by_axes == std::map<std::string, double>{{"data+model", 80}});
}

TEST_CASE("Calls that the report does not list are a row of their own", "[diff]") {
  auto figures = ReadCostFigures(kBefore, "a.json");
  REQUIRE(figures->collectives.size() == 2);
  CHECK(figures->collectives[{"all-reduce", "data+model", "why"}].count == 3);
  CHECK(figures->collectives[{"all-reduce", "data+model", "(others)"}].bytes_per_device == 20);
}

TEST_CASE("Only what changed is listed, the largest change first", "[diff]") {
  auto before = ReadCostFigures(kBefore, "a.json");
  CostDiff same = DiffCosts("a", *before, "b", *before);
  CHECK(same.collectives.empty());
  CHECK(same.tensors.empty());
  CHECK(same.opcodes.empty());
  CHECK(same.totals.size() == 10);
  CostFigures after = *before;
  after.tensors["dot"].bytes += 10;
  after.tensors["new"].bytes = 1000;
  after.opcodes.erase("dot");
  after.step_time_s *= 2;
  CostDiff diff = DiffCosts("a", *before, "b", after);
  REQUIRE(diff.tensors.size() == 2);
  CHECK(diff.tensors[0].name == "new");
  CHECK(diff.tensors[0].bytes.before == 0);
  CHECK(diff.opcodes.at(0).time_s.after == 0);
  const std::string text = CostDiffAsText(diff, 1);
  CHECK(text.find("+100.0%") != std::string::npos);
  CHECK(text.find("gone") != std::string::npos);
  CHECK(text.find("and 1 more") != std::string::npos);
  const Json json = Json::Parse(CostDiffAsJson(diff));
  CHECK(json.StringAt("schema") == "gshard.diff/1");
  CHECK(json.At("tensors").size() == 2);
  CHECK(json.At("step_time_s").NumberAt("after") == 0.02);
}

TEST_CASE("What markdown would read is escaped", "[diff]") {
  auto before = ReadCostFigures(kBefore, "a.json");
  CostFigures after = *before;
  after.tensors["a|b*c"].bytes = 1;
  CHECK(CostDiffAsMarkdown(DiffCosts("a", *before, "b", after)).find("a\\|b\\*c") !=
        std::string::npos);
}

TEST_CASE("What is no report is refused with its file", "[diff]") {
  for (const char* text :
       {"{", "{}", R"({"schema":"gshard.run/1"})", R"({"schema":"gshard.cost/1"})",
        R"({"schema":"gshard.cost/1","error":{"message":"no"}})"}) {
    INFO(text);
    auto figures = ReadCostFigures(text, "a.json");
    REQUIRE_FALSE(figures);
    CHECK(figures.error().code == "E-COST-020");
    CHECK(figures.error().file == "a.json");
  }
}

}  // namespace
}  // namespace gshard
