#include "core/report/cost_findings.h"

#include <catch2/catch.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

const char* const kProgram = R"(HloModule m, num_partitions=8, meshes={pod=['data'=2,'model'=4]}
ENTRY e {
  x = f32[64,64] parameter(0), sharding={@pod, [{'data'}, {}]}
  ROOT y = f32[64,64] negate(x)
})";

CostReport ReportOf(const Module& module) {
  CostReport report;
  report.devices = 8;
  report.mesh = {{"data", 2}, {"model", 4}};
  report.step_time_s = 1;
  report.compute_time_s = 0.5;
  report.flops_per_device = 100;
  const Instruction* x = Named(module, "x");
  report.memory.peak_bytes = 1000;
  report.memory.at_peak = {{x, 0, x->shape(), 800}};
  return report;
}

TEST_CASE("Copies along a free axis come with the annotation that cuts them", "[findings]") {
  auto module = Parsed(kProgram);
  CostReport report = ReportOf(*module);
  LiveBuffer& row = report.memory.at_peak[0];
  row.global_shape = Named(*module, "x")->shape();
  row.sharding_text = "[data, _]";
  row.free_axes = "model";
  const CollectiveReport none;
  auto findings = WorstFindings(*module, report, &none, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].title == "600 B at the peak are copies that an axis could cut");
  CHECK(findings[0].fix.empty());  // nothing was tried, nothing is advised
  CHECK(findings[0].name == "x");
  CHECK(findings[0].view == "memory");
  const std::vector<TriedAdvice> advice = {{AdviceKind::kShard, "`cut x`", "x", 0.5, 512}};
  CHECK(WorstFindings(*module, report, &none, advice)[0].fix ==
        "`cut x`: a step of 500.00 ms in place of 1.00 s, a peak of 512 B in place of 1000.0 B.");
}

TEST_CASE("Outputs beside arguments count where they are alive at the peak", "[findings]") {
  auto module = Parsed(kProgram);
  CostReport report = ReportOf(*module);
  report.memory.argument_bytes = report.memory.output_bytes = 500;
  CHECK(WorstFindings(*module, report, nullptr, {}).empty());  // made after the peak
  const Instruction* y = Named(*module, "y");
  report.memory.at_peak.push_back({y, 0, y->shape(), 200, BufferClass::kOutput});
  auto findings = WorstFindings(*module, report, nullptr, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].title == "No argument is donated: outputs take another 200 B");
  // Donation may make room for other values: so it was found where it was tried.
  const std::vector<TriedAdvice> advice = {{AdviceKind::kDonation, "donate x", "x", 1, 500}};
  CHECK(WorstFindings(*module, report, nullptr, advice)[0].title ==
        "No argument is donated: outputs take another 500 B");
}

TEST_CASE("What does not fit comes first", "[findings]") {
  auto module = Parsed(kProgram);
  CostReport report = ReportOf(*module);
  report.padding_flops_per_device = 90;
  report.memory.limit_bytes = 900;
  report.memory.temp_bytes = 800;
  auto findings = WorstFindings(*module, report, nullptr, {});
  REQUIRE(findings.size() == 2);
  CHECK(findings[0].title == "Over the limit by 100 B");
  CHECK(findings[1].title == "90 % of the arithmetic is on padding, or done twice");
}

TEST_CASE("Waiting is summed by cause, and only the worst are told", "[findings]") {
  auto module = Parsed(kProgram);
  CostReport report = ReportOf(*module);
  const Instruction* y = Named(*module, "y");
  auto call = [&](const char* kind, const char* cause, double exposed_s) {
    CollectiveCall made;
    made.instruction = y;
    made.cost.kind = kind;
    made.cost.cause = cause;
    made.exposed_s = exposed_s;
    made.count = 1;
    return made;
  };
  report.collective_calls = {call("all-gather", "a", 0.2), call("all-reduce", "b", 0.15),
                             call("all-reduce", "b", 0.15)};
  auto findings = WorstFindings(*module, report, nullptr, {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].title == "30 % of the step waits for all-reduce (y)");
  CHECK(findings[0].detail.find("2 executions; b") != std::string::npos);
  report.padding_flops_per_device = report.recompute_flops_per_device =
      report.masked_flops_per_device = 50;
  CHECK(WorstFindings(*module, report, nullptr, {}).size() == 3);
  CHECK(WorstFindings(*module, report, nullptr, {}, 1).size() == 1);
}

TEST_CASE("A program that wastes nothing has no findings", "[findings]") {
  auto module = Parsed(kProgram);
  CHECK(WorstFindings(*module, ReportOf(*module), nullptr, {}).empty());
}

}  // namespace
}  // namespace gshard
