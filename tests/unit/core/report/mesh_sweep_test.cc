#include "core/report/mesh_sweep.h"

#include <atomic>
#include <catch2/catch.hpp>
#include <stdexcept>

#include "core/json.h"

namespace gshard {
namespace {

std::vector<std::vector<int64_t>> Sizes(std::string_view text) {
  std::vector<std::vector<int64_t>> sizes;
  auto shapes = ParseMeshShapes(text);
  if (!shapes) return sizes;
  for (const MeshShape& shape : *shapes) {
    sizes.emplace_back();
    for (const MeshAxis& axis : shape) sizes.back().push_back(axis.size);
  }
  return sizes;
}

TEST_CASE("A range means the powers of two in it", "[sweep]") {
  CHECK(Sizes("data=2..16") == std::vector<std::vector<int64_t>>{{2}, {4}, {8}, {16}});
  CHECK(Sizes("data=3..9") == std::vector<std::vector<int64_t>>{{4}, {8}});
  CHECK(Sizes("data=1..2,model=3") == std::vector<std::vector<int64_t>>{{1, 3}, {2, 3}});
  CHECK(Sizes("a=1..2,b=1..2") ==
        std::vector<std::vector<int64_t>>{{1, 1}, {1, 2}, {2, 1}, {2, 2}});
}

TEST_CASE("No range, no shape, too many shapes", "[sweep]") {
  for (const char* text : {"", "data", "data=", "data=0..4", "data=4..2", "data=5..7", "data=2..x",
                           "data=2..4,data=2", "=2", "data=2,", "data=-4..4",
                           "a=1..1024,b=1..1024,c=1..1024,d=1..1024,e=1..1024,f=1..1024"}) {
    INFO(text);
    auto shapes = ParseMeshShapes(text);
    REQUIRE_FALSE(shapes);
    CHECK(shapes.error().code == "E-MESH-003");
  }
  // What no machine has is left out.
  CHECK(Sizes("a=524288..1048576,b=2..4") == std::vector<std::vector<int64_t>>{{524288, 2}});
}

TEST_CASE("Pareto-optimal points are those that no other beats", "[sweep]") {
  const auto shapes = ParseMeshShapes("a=1..32");
  // a:             1    2    4    8   16   32
  const double times[] = {1, 2, 2, 3, 4, 0};
  const int64_t bytes[] = {50, 40, 45, 40, 10, 0};
  for (const int threads : {1, 4}) {
    auto points = SweepPoints(
        PointsOf(*shapes),
        [&](SweepPoint& point) {
          const auto i =
              static_cast<size_t>(std::countr_zero(static_cast<uint64_t>(point.mesh[0].size)));
          point.step_time_s = times[i];
          point.peak_bytes = bytes[i];
          if (i == 5) point.error = MakeError("E", "no");
        },
        threads);
    std::vector<bool> pareto;
    for (const SweepPoint& point : points) pareto.push_back(point.pareto);
    CHECK(pareto == std::vector<bool>{true, true, false, false, true, false});
    const MeshSweep sweep{"m", "chip", 0, points};
    const Json json = Json::Parse(MeshSweepAsJson(sweep));
    CHECK(json.At("points").size() == 5);
    CHECK(json.At("failed").size() == 1);
    CHECK(json.At("points").At(size_t{3}).At("mesh").NumberAt("a") == 8);
  }
}

TEST_CASE("What does not fit is not optimal and beats nothing", "[sweep]") {
  auto points = SweepPoints(PointsOf(*ParseMeshShapes("a=1..2")), [](SweepPoint& point) {
    const bool is_first = point.mesh[0].size == 1;
    point.step_time_s = is_first ? 1 : 2;
    point.peak_bytes = 1;
    point.fits = !is_first;
  });
  CHECK_FALSE(points[0].pareto);
  CHECK(points[1].pareto);
}

TEST_CASE("Equal points are both optimal", "[sweep]") {
  auto points = SweepPoints(PointsOf(*ParseMeshShapes("a=1..2")), [](SweepPoint& point) {
    point.step_time_s = 1;
    point.peak_bytes = 1;
  });
  CHECK((points[0].pareto && points[1].pareto));
}

TEST_CASE("What an estimate throws comes out of the sweep", "[sweep]") {
  CHECK_THROWS_AS(SweepPoints(PointsOf(*ParseMeshShapes("a=1..256")),
                              [](SweepPoint& point) {
                                if (point.mesh[0].size == 4) throw std::runtime_error("no");
                              }),
                  std::runtime_error);
}

TEST_CASE("Sizes are numbers and ranges", "[sweep]") {
  CHECK(*ParseSizes("1..8") == std::vector<int64_t>{1, 2, 4, 8});
  CHECK(*ParseSizes("3,4..16,24") == std::vector<int64_t>{3, 4, 8, 16, 24});
  for (const char* text : {"", "x", "1..", "8..1", "0", "1,,2", "-4"}) {
    INFO(text);
    CHECK_FALSE(ParseSizes(text));
  }
}

TEST_CASE("Stages multiply meshes, and their axis the devices", "[sweep]") {
  const std::vector<SweepPipeline> pipelines = {{2, 4, "gpipe"}, {4, 8, "1f1b"}};
  auto points =
      SweepPoints(PointsOf(*ParseMeshShapes("data=1..2"), pipelines), [](SweepPoint& point) {
        point.step_time_s = static_cast<double>(DevicesOf(point));
        point.bubble_share = 0.25;
      });
  REQUIRE(points.size() == 4);
  CHECK(points[1].pipeline.schedule == "1f1b");
  CHECK(DevicesOf(points[1]) == 4);
  CHECK(DevicesOf(points[3]) == 8);
  points[2].error = MakeError("E", "no");
  const MeshSweep sweep{"m", "chip", 0, std::move(points)};
  const std::string text = MeshSweepAsText(sweep);
  CHECK(text.find("micro-batches") != std::string::npos);
  CHECK(text.find("data=2 stages=2 microbatches=4 gpipe: no") != std::string::npos);
  const Json first = Json::Parse(MeshSweepAsJson(sweep)).At("points").At(size_t{0});
  CHECK(first.NumberAt("stages") == 2);
  CHECK(first.NumberAt("bubble_share") == 0.25);
}

TEST_CASE("Batches are compared by the time of an example", "[sweep]") {
  auto points =
      SweepPoints(PointsOf(*ParseMeshShapes("data=2"), {{}}, {8, 32}), [](SweepPoint& point) {
        point.step_time_s = point.batch == 8 ? 1 : 2;  // an eighth, and a sixteenth
        point.peak_bytes = 1;
      });
  CHECK_FALSE(points[0].pareto);
  CHECK(points[1].pareto);
  const MeshSweep sweep{"m", "chip", 0, std::move(points)};
  const std::string text = MeshSweepAsText(sweep);
  CHECK(text.find("beats in both time per example and memory") != std::string::npos);
  const Json first = Json::Parse(MeshSweepAsJson(sweep)).At("points").At(size_t{0});
  CHECK(first.NumberAt("batch") == 8);
  CHECK(first.NumberAt("step_time_per_example_s") == 0.125);
}

}  // namespace
}  // namespace gshard
