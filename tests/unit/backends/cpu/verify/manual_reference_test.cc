// Graphs with manual regions: run as they stand, and verified.
#include "backends/cpu/verify/manual_reference.h"

#include "backends/cpu/emulate.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

// y[i] = x[i]^2 + (the sum over both tiles of x^2 at the same place), over `x`-axis tiles.
const char kRegion[] = R"(HloModule m, num_partitions=4
add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT r = f32[] add(a, b) }
ENTRY e {
  x = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  q = f32[8] multiply(x, x), sharding={devices=[4]<=[4]}
  m = f32[2] custom-call(q), custom_call_target="SPMDFullToShardShape", sharding={manual}
  s = f32[2] all-reduce(m), channel_id=1, replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=add, sharding={manual}
  f = f32[8] custom-call(s), custom_call_target="SPMDShardToFullShape", sharding={devices=[4]<=[4]}
  ROOT y = f32[8] add(q, f), sharding={devices=[4]<=[4]} }
)";

Emulation Run(const EmulateOptions& options) {
  auto module = ParseModule(SourceText::FromString("test.hlo", kRegion));
  REQUIRE(module);
  auto emulation = Emulate(std::move(*module), options);
  INFO((emulation ? "" : Render(emulation.error())));
  REQUIRE(emulation);
  return *emulation;
}

std::vector<float> Output(EmulateOptions options) {
  const TemporaryFolder folder;
  const std::string in = folder.File("in.npz"), out = folder.File("out.npz");
  NpzWriter writer(in);
  const std::vector<int64_t> dims = {8};
  REQUIRE(writer.Add("p0", FormatNpy(DType::kF32, dims, BytesOf<float>({1, 2, 3, 4, 5, 6, 7, 8}))));
  REQUIRE(writer.Finish());
  options.input = in;
  options.output = out;
  Run(options);
  auto reader = NpzReader::Open(out);
  REQUIRE(reader);
  auto npy = (*reader)->Read("o0");
  REQUIRE(npy);
  auto data = ConvertNpy(std::move(*npy), DType::kF32, "o0");
  REQUIRE(data);
  return ValuesOf<float>(*data);
}

TEST_CASE("a graph with a manual region is verified", "[cpu]") {
  EmulateOptions options;
  options.verify = true;
  const Emulation emulation = Run(options);
  REQUIRE(emulation.report.verify);
  CHECK(emulation.report.verify->ok);
  CHECK(emulation.report.verify->compared == 1);
  REQUIRE(emulation.report.verify->instructions);
  CHECK(emulation.report.verify->instructions->compared >= 2);  // q, y: x is given
  CHECK_FALSE(emulation.report.verify->instructions->first);
}

TEST_CASE("a graph with a manual region runs unpartitioned", "[cpu]") {
  // Tiles are {1,2}, {3,4}, {5,6}, {7,8}; groups {0,1} and {2,3}.
  const std::vector<float> expected = {11, 24, 19, 36, 99, 136, 123, 164};
  EmulateOptions options;
  CHECK(Output(options) == expected);
  options.unpartitioned = true;
  CHECK(Output(options) == expected);
}

}  // namespace
}  // namespace gshard::cpu
