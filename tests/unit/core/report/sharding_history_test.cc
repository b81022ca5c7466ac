#include "core/report/sharding_history.h"

#include <array>
#include <nlohmann/json.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

const char* const kMerge = R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  b = f32[8,16] parameter(1), sharding={devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}
  s = f32[8,16] sine(a)
  t = (f32[8,16], f32[8,16]) tuple(s, b)
  g = f32[8,16] get-tuple-element(t), index=1
  m = f32[8,16] add(s, g)
  ROOT r = f32[8,16] negate(m)
})";

TEST_CASE("The chain of causes ends at the annotations", "[explain]") {
  auto module = Parsed(kMerge);
  ExplainRecorder recorder;
  Propagate(*module, {}, &recorder);
  std::vector<ExplainStep> steps = ExplainSharding(recorder, Named(*module, "m"));
  REQUIRE(steps.size() >= 4);
  CHECK(ToString(steps[0].sharding) == "{devices=[2,4]<=[8]}");
  CHECK(steps[0].causes.size() == 2);  // merged
  std::string annotated;
  for (const ExplainStep& step : steps) {
    if (step.causes.empty()) annotated += std::string(step.instruction->name()) + " ";
    for (size_t cause : step.causes) CHECK(cause < steps.size());
  }
  CHECK(annotated.find('a') != std::string::npos);
  CHECK(annotated.find('b') != std::string::npos);
}

const char* const kTuple = R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  b = f32[8,16] parameter(1), sharding={devices=[1,8]<=[8]}
  t = (f32[8,16], f32[8,16]) tuple(a, b)
  ROOT g = f32[8,16] get-tuple-element(t), index=1
})";

TEST_CASE("The element of a tuple is followed, not the tuple", "[explain]") {
  auto module = Parsed(kTuple);
  ExplainRecorder recorder;
  PropagationOptions options;
  options.allow_to_output = {true};
  Propagate(*module, options, &recorder);
  std::vector<ExplainStep> steps = ExplainSharding(recorder, Named(*module, "g"));
  REQUIRE(steps.size() == 3);
  CHECK(steps[1].instruction == Named(*module, "t"));
  CHECK(steps[1].leaf == 1);
  CHECK(steps[2].instruction == Named(*module, "b"));
}

TEST_CASE("What a Sharding call says is told of its operand too", "[explain]") {
  auto module = Parsed(R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8,16] parameter(0)
  s = f32[8,16] sine(a)
  k = f32[8,16] custom-call(s), custom_call_target="Sharding", sharding={devices=[8,1]<=[8]}
  ROOT r = c64[8,9] fft(k), fft_type=RFFT, fft_length={16}
})");
  ExplainRecorder recorder;
  Propagate(*module, {}, &recorder);
  std::vector<ExplainStep> steps = ExplainSharding(recorder, Named(*module, "s"));
  REQUIRE(steps.size() == 2);
  CHECK(steps[0].change->edge == ShardingEdge::kSharding);
  CHECK(steps[1].instruction == Named(*module, "k"));
  CHECK(steps[1].change->edge == ShardingEdge::kAnnotation);
}

TEST_CASE("Text and JSON say the same", "[explain]") {
  auto module = Parsed(kTuple);
  ExplainRecorder recorder;
  PropagationOptions options;
  options.allow_to_output = {true};
  Propagate(*module, options, &recorder);
  const Instruction* g = Named(*module, "g");
  CHECK(ShardingHistoryText(recorder, *module, std::array{g}, nullptr) ==
        "g = f32[8,16] get-tuple-element, sharded {devices=[1,8]<=[8]}\n"
        "  g = {devices=[1,8]<=[8]}: from operand 't' through get-tuple-element, level 0\n"
        "  t{leaf 1} = {devices=[1,8]<=[8]}: from operand 'b' through tuple, level 0\n"
        "  b = {devices=[1,8]<=[8]}: written by the user at test.hlo:4\n");
  const Instruction* both[] = {Named(*module, "b"), g};
  CHECK(ShardingHistoryText(recorder, *module, both, nullptr) ==
        "b = f32[8,16] parameter, sharded {devices=[1,8]<=[8]}\n"
        "  b = {devices=[1,8]<=[8]}: written by the user at test.hlo:4\n"
        "g = f32[8,16] get-tuple-element, sharded {devices=[1,8]<=[8]}\n"
        "  g = {devices=[1,8]<=[8]}: from operand 't' through get-tuple-element, level 0\n"
        "  t{leaf 1} = {devices=[1,8]<=[8]}: from operand 'b' through tuple, level 0\n"
        "  b (see above)\n");
  Json object;
  AddShardingHistory(object, recorder, *module, g);
  const auto json = nlohmann::json::parse(object.Text());
  CHECK(json["instruction"] == "g");
  CHECK(json["leaves"][0]["steps"][0]["from"] == "t");
  CHECK(json["leaves"][0]["steps"][0]["edge"] == "operand");
  CHECK(json["leaves"][0]["steps"][2]["edge"] == "annotation");
}

}  // namespace
}  // namespace gshard
