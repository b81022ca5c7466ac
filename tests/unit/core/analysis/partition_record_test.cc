// Whole shapes as the header of a per-device program tells them.
#include "core/analysis/partition_record.h"

#include <catch2/catch.hpp>

#include "ir/parser.h"

namespace gshard {
namespace {

std::unique_ptr<Module> Parsed(const std::string& attributes) {
  auto module = ParseModule(SourceText::FromString(
      "m.hlo", "HloModule m, num_partitions=4, frontend_attributes={gshard.num_partitions=\"4\"" +
                   attributes +
                   "}\nENTRY e {\n  p = f32[3] parameter(0), sharding={devices=[4]<=[4]}\n"
                   "  t = (f32[2], s32[]) parameter(1), sharding={{replicated}, {replicated}}\n"
                   "  q = f32[2] get-tuple-element(t), index=0\n"
                   "  ROOT r = (f32[3], f32[2]) tuple(p, q)\n}\n"));
  REQUIRE(module);
  return std::move(*module);
}

constexpr const char* kShardings =
    ",gshard.output_shardings=\"{{devices=[4]<=[4]}, {replicated}}\"";

std::vector<std::string> Texts(const std::vector<const Shape*>& shapes) {
  std::vector<std::string> texts;
  for (const Shape* shape : shapes) texts.push_back(ToString(shape));
  return texts;
}

using List = std::vector<std::string>;

std::string ErrorOf(const std::string& attributes) {
  const auto module = Parsed(attributes);
  const auto shapes = RecordedWholeShapes(*module);
  return shapes ? "" : shapes.error().message;
}

TEST_CASE("whole shapes are read by leaf", "[analysis]") {
  const auto module = Parsed(std::string(kShardings) +
                             ",gshard.output_shapes=\"(f32[10], f32[2])\","
                             "gshard.parameter_shapes=\"(f32[11], (f32[2], s32[]))\"");
  const auto shapes = RecordedWholeShapes(*module);
  REQUIRE(shapes);
  CHECK(Texts(shapes->parameters) == List{"f32[11]", "f32[2]", "s32[]"});
  CHECK(Texts(shapes->results) == List{"f32[10]", "f32[2]"});
}

TEST_CASE("a text without whole shapes, or with other results since, tells nothing", "[analysis]") {
  for (const char* attributes :
       {"", ",gshard.output_shapes=\"f32[10]\"", ",gshard.parameter_shapes=\"(f32[11])\""}) {
    const auto module = Parsed(std::string(kShardings) + attributes);
    const auto shapes = RecordedWholeShapes(*module);
    REQUIRE(shapes);
    CHECK(shapes->parameters.empty());
    CHECK(shapes->results.empty());
  }
}

TEST_CASE("a record that cannot be is an error", "[analysis]") {
  CHECK(ErrorOf(std::string(kShardings) + ",gshard.output_shapes=\"(f32[9\"")
            .find("the header's gshard.output_shapes is not a shape: ") == 0);
  CHECK(ErrorOf(std::string(kShardings) + ",gshard.output_shapes=\"f32[9] x\"") != "");
  CHECK(ErrorOf(",gshard.output_shardings=\"{devices\"") != "");
  // 13 in four tiles are tiles of 4.
  CHECK(ErrorOf(std::string(kShardings) + ",gshard.output_shapes=\"(f32[13], f32[2])\"") ==
        "the header's gshard.output_shapes says that result 0 is f32[13], of which f32[3] is no "
        "shard");
  CHECK(ErrorOf(",gshard.parameter_shapes=\"(f32[10], (f32[2], f32[]))\"") ==
        "the header's gshard.parameter_shapes says that parameter 2 is f32[], of which s32[] is no "
        "shard");
}

}  // namespace
}  // namespace gshard
