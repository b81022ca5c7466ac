#include "core/report/cost_page.h"

#include <catch2/catch.hpp>

#include "core/json.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

Json DataOf(const std::string& page) {
  const std::string begin = "id=\"gshard-data\">\n";
  const size_t from = page.find(begin) + begin.size();
  return Json::Parse(page.substr(from, page.find("</script>", from) - from));
}

std::string PageOf(const char* text, CostReport* report_out = nullptr) {
  auto module = Parsed(text);
  const Chip chip = *BuiltInChip("tpu-v3");
  CostReport report = *EstimateCost(*module, chip);
  const std::string page = CostPage(*module, report, chip, nullptr, {});
  if (report_out != nullptr) *report_out = report;
  return page;
}

TEST_CASE("No text of the program ends the script that holds it", "[page]") {
  const std::string page = PageOf(R"(HloModule m
ENTRY e {
  ROOT x = f32[4] parameter(0), metadata={op_name="</script>@{style}<b>"}
})");
  const Json data = DataOf(page);
  CHECK(data.StringAt("schema") == "gshard.page/1");
  const Json row = data.At("report").At("memory").At("at_peak").At(size_t{0});
  CHECK(row.StringAt("op_name") == "</script>@{style}<b>");
  // The page's two scripts and no more.
  size_t ends = 0;
  for (size_t at = page.find("</script>"); at != page.npos; at = page.find("</script>", at + 1))
    ++ends;
  CHECK(ends == 2);
}

TEST_CASE("A long program's curve keeps its peak, its timeline the longest events", "[page]") {
  std::string text = "HloModule m\nENTRY e {\n  x0 = f32[1024] parameter(0)\n";
  constexpr int kOps = 6000;
  for (int i = 1; i <= kOps; ++i) {
    text += "  x" + std::to_string(i) + " = f32[1024] sort(x" + std::to_string(i - 1) +
            "), dimensions={0}, to_apply=less\n";
  }
  text += "  ROOT y = f32[1024] negate(x" + std::to_string(kOps) + ")\n}\n";
  text.insert(text.find("ENTRY"),
              "less {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n  ROOT c = pred[] "
              "compare(a, b), direction=LT\n}\n");
  CostReport report;
  const std::string page = PageOf(text.c_str(), &report);
  const Json data = DataOf(page), memory = data.At("memory");
  CHECK(page.size() < 1'500'000);
  CHECK(memory.At("names").size() <= 1500);
  CHECK(memory.NumberAt("points") == static_cast<double>(report.memory.curve.size()));
  double highest = 0;
  const Json rows = memory.At("bytes");
  std::vector<std::vector<double>> bytes;
  for (size_t kind = 0; kind < rows.size(); ++kind) {
    bytes.emplace_back();
    const Json row = rows.At(kind);
    for (size_t i = 0; i < row.size(); ++i) bytes.back().push_back(row.At(i).AsNumber());
  }
  for (size_t i = 0; i < bytes[0].size(); ++i) {
    double sum = 0;
    for (const auto& row : bytes) sum += row[i];
    highest = std::max(highest, sum);
  }
  CHECK(highest == static_cast<double>(report.memory.peak_bytes));
  const size_t events = data.At("timeline").At("events").size();
  CHECK(events <= 4000);
  CHECK(static_cast<double>(events) + data.At("timeline").NumberAt("dropped") ==
        static_cast<double>(report.timeline.events.size()));
}

TEST_CASE("A sweep's page holds the sweep's document", "[page]") {
  MeshSweep sweep{"m", "chip", 0, {}};
  sweep.points.emplace_back();
  sweep.points[0].mesh = {{"data", 4}};
  const Json data = DataOf(MeshSweepPage(sweep));
  CHECK(data.StringAt("schema") == "gshard.sweep/1");
  CHECK(data.At("points").At(size_t{0}).At("mesh").NumberAt("data") == 4);
}

}  // namespace
}  // namespace gshard
