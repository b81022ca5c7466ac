// Vectors of docs/semantics.md, "Collectives": four devices, device d holds {10d+1, 10d+2} or
// 10d + {0..3}; results are stacked, one row a device.
#include <functional>

#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;
using Numbers = const std::vector<int32_t>&;

constexpr const char* kSum =
    "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n";

// A module of one collective over parameters `shapes` that differ from device to device.
std::string OneCollective(const std::string& header, const std::string& shape,
                          const std::string& collective) {
  return "HloModule m, " + header + "\n" + kSum + "ENTRY e {\n p = " + shape +
         " parameter(0)\n ROOT r = " + collective + "\n}\n";
}

TestInput Pairs() { return F32({4, 2}, {1, 2, 11, 12, 21, 22, 31, 32}); }
TestInput Fours() {
  return F32({4, 4}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33});
}

TEST_CASE("all-reduce folds in the order of the group", "[cpu]") {
  const TestInput input = F32({4, 1}, {1, 1e8f, 1, -1e8f});
  for (const auto& [groups, expected] :
       {std::pair<std::string, float>{"{{0,1,2,3}}", 0.0f}, {"{{3,2,1,0}}", 1.0f}}) {
    TestMesh mesh(
        OneCollective("replica_count=4", "f32[1]",
                      "f32[1] all-reduce(p), replica_groups=" + groups + ", to_apply=sum"),
        {input});
    mesh.Run();
    CHECK(mesh.Result<float>() == Floats(4, expected));
  }
}

TEST_CASE("groups of an all-reduce may differ in size", "[cpu]") {
  TestMesh mesh(OneCollective("num_partitions=4", "f32[2]",
                              "f32[2] all-reduce(p), channel_id=1, replica_groups={{0},{1,2,3}}, "
                              "use_global_device_ids=true, to_apply=sum"),
                {Pairs()});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{1, 2, 63, 66, 63, 66, 63, 66});
}

TEST_CASE("all-gather takes blocks in the order of the group", "[cpu]") {
  TestMesh mesh(OneCollective("num_partitions=4", "f32[2]",
                              "f32[4] all-gather(p), channel_id=1, replica_groups={{3,1},{0,2}}, "
                              "dimensions={0}, use_global_device_ids=true"),
                {Pairs()});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{1, 2, 21, 22, 31, 32, 11, 12, 1, 2, 21, 22, 31, 32, 11, 12});
}

TEST_CASE("all-gather of an inner dim interleaves rows", "[cpu]") {
  TestMesh mesh(OneCollective("num_partitions=4", "f32[2,2]",
                              "f32[2,4] all-gather(p), channel_id=1, replica_groups={{1,0},{2,3}}, "
                              "dimensions={1}, use_global_device_ids=true"),
                {F32({4, 2, 2}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33})});
  mesh.Run();
  const Floats a{10, 11, 0, 1, 12, 13, 2, 3}, b{20, 21, 30, 31, 22, 23, 32, 33};
  Floats expected;
  for (const Floats* part : {&a, &a, &b, &b}) {
    expected.insert(expected.end(), part->begin(), part->end());
  }
  CHECK(mesh.Result<float>() == expected);
}

TEST_CASE("reduce-scatter gives member k block k", "[cpu]") {
  TestMesh mesh(
      OneCollective("num_partitions=4", "f32[4]",
                    "f32[2] reduce-scatter(p), channel_id=1, replica_groups={{3,1},{0,2}}, "
                    "dimensions={0}, use_global_device_ids=true, to_apply=sum"),
      {Fours()});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{20, 22, 44, 46, 24, 26, 40, 42});
}

TEST_CASE("reduce-scatter of an inner dim", "[cpu]") {
  // Rows {0,1},{2,3} plus 10 d; groups {0,1},{2,3}: sums {10,12},{14,16} and {50,52},{54,56}.
  TestMesh mesh(OneCollective("num_partitions=4", "f32[2,2]",
                              "f32[2,1] reduce-scatter(p), channel_id=1, "
                              "replica_groups=[2,2]<=[4], dimensions={1}, "
                              "use_global_device_ids=true, to_apply=sum"),
                {F32({4, 2, 2}, {0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23, 30, 31, 32, 33})});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{10, 14, 12, 16, 50, 54, 52, 56});
}

TEST_CASE("all-to-all of an array", "[cpu]") {
  TestMesh mesh(OneCollective("num_partitions=4", "f32[4]",
                              "f32[4] all-to-all(p), channel_id=1, replica_groups={{3,1},{0,2}}, "
                              "dimensions={0}"),
                {Fours()});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{0, 1, 20, 21, 32, 33, 12, 13, 2, 3, 22, 23, 30, 31, 10, 11});
}

TEST_CASE("all-to-all of a tuple", "[cpu]") {
  // Operand j goes to member j; result j came from member j. Groups {3,1},{0,2}.
  TestMesh mesh(
      "HloModule m, num_partitions=4\nENTRY e {\n p = f32[2] parameter(0)\n q = f32[2] negate(p)\n"
      " ROOT r = (f32[2], f32[2]) all-to-all(p, q), channel_id=1, "
      "replica_groups={{3,1},{0,2}}\n}\n",
      {Pairs()});
  mesh.Run();
  CHECK(mesh.Result<float>(0) == Floats{1, 2, -31, -32, -1, -2, 31, 32});
  CHECK(mesh.Result<float>(1) == Floats{21, 22, -11, -12, -21, -22, 11, 12});
}

TEST_CASE("collective-permute: zeros where nothing comes from", "[cpu]") {
  TestMesh mesh(OneCollective("num_partitions=4", "f32[2]",
                              "f32[2] collective-permute(p), channel_id=1, "
                              "source_target_pairs={{0,1},{1,2},{2,3}}"),
                {Pairs()});
  MeshRun& run = mesh.Run();
  CHECK(mesh.Result<float>() == Floats{0, 0, 1, 2, 11, 12, 21, 22});
  // Nothing was copied for it.
  CHECK(run.plan().memory.transient_bytes == 0);
}

TEST_CASE("collective-broadcast: the first member's value, zeros outside", "[cpu]") {
  TestMesh mesh(OneCollective("num_partitions=4", "f32[2]",
                              "f32[2] collective-broadcast(p), channel_id=1, "
                              "replica_groups={{2,0},{1}}"),
                {Pairs()});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{21, 22, 11, 12, 21, 22, 0, 0});
}

TEST_CASE("ragged-all-to-all writes slices at the receiver's offsets", "[cpu]") {
  const auto run = [](const std::string& type, const std::function<TestInput(Numbers)>& indices) {
    const std::string index = type + "[2] parameter";
    TestMesh mesh(
        "HloModule m, num_partitions=2\nENTRY e {\n x = f32[3] parameter(0)\n"
        " o = f32[4] parameter(1)\n io = " +
            index + "(2)\n ss = " + index + "(3)\n oo = " + index + "(4)\n rs = " + index +
            "(5)\n ROOT r = f32[4] ragged-all-to-all(x, o, io, ss, oo, rs), "
            "channel_id=1, replica_groups={{0,1}}\n}\n",
        {F32({2, 3}, {10, 11, 12, 20, 21, 22}), F32({2, 4}, Floats(8, 0)), indices({0, 1, 0, 2}),
         indices({1, 2, 2, 1}), indices({0, 0, 1, 2}), indices({1, 2, 2, 1})});
    mesh.Run();
    return mesh.Result<float>();
  };
  const Floats expected{10, 20, 21, 0, 11, 12, 22, 0};
  CHECK(run("s32", [](Numbers v) { return S32({2, 2}, v); }) == expected);
  CHECK(run("u8", [](Numbers v) {
          return TestInput{DType::kU8, {2, 2}, BytesOf(std::vector<uint8_t>(v.begin(), v.end()))};
        }) == expected);
  CHECK(run("s64", [](Numbers v) {
          return TestInput{DType::kS64, {2, 2}, BytesOf(std::vector<int64_t>(v.begin(), v.end()))};
        }) == expected);
}

TEST_CASE("several operands are reduced one by one; async pairs give the same", "[cpu]") {
  TestMesh mesh(std::string("HloModule m, num_partitions=4\n") + kSum +
                    "ENTRY e {\n p = f32[2] parameter(0)\n q = f32[2] negate(p)\n"
                    " a = (f32[2], f32[2]) all-reduce(p, q), channel_id=1, "
                    "replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=sum\n"
                    " x = f32[2] get-tuple-element(a), index=0\n"
                    " y = f32[2] get-tuple-element(a), index=1\n"
                    " s = (f32[2], f32[4]) all-gather-start(p), channel_id=2, "
                    "replica_groups={{0,1},{2,3}}, dimensions={0}, use_global_device_ids=true\n"
                    " d = f32[4] all-gather-done(s)\n"
                    " ps = (f32[2], f32[2], u32[], u32[]) collective-permute-start(p), "
                    "channel_id=3, source_target_pairs={{0,3},{3,0}}\n"
                    " pd = f32[2] collective-permute-done(ps)\n"
                    " ROOT r = (f32[2], f32[2], f32[4], f32[2]) tuple(x, y, d, pd)\n}\n",
                {Pairs()});
  mesh.Run();
  CHECK(mesh.Result<float>(0) == Floats{12, 14, 12, 14, 52, 54, 52, 54});
  CHECK(mesh.Result<float>(1) == Floats{-12, -14, -12, -14, -52, -54, -52, -54});
  CHECK(mesh.Result<float>(2) ==
        Floats{1, 2, 11, 12, 1, 2, 11, 12, 21, 22, 31, 32, 21, 22, 31, 32});
  CHECK(mesh.Result<float>(3) == Floats{31, 32, 0, 0, 0, 0, 1, 2});
}

TEST_CASE("replicas times partitions: what the ids mean", "[cpu]") {
  // Two replicas of two partitions; device = 2 * replica + partition.
  const std::string header = "replica_count=2, num_partitions=2";
  TestMesh replicas(
      OneCollective(header, "f32[2]", "f32[2] all-reduce(p), replica_groups={{0,1}}, to_apply=sum"),
      {Pairs()});
  replicas.Run();
  CHECK(replicas.Result<float>() == Floats{22, 24, 42, 44, 22, 24, 42, 44});
  TestMesh all(OneCollective(header, "f32[2]",
                             "f32[2] all-reduce(p), channel_id=1, replica_groups={{0},{1}}, "
                             "to_apply=sum"),
               {Pairs()});
  all.Run();
  CHECK(all.Result<float>() == Floats{12, 14, 12, 14, 52, 54, 52, 54});
  TestMesh flat(OneCollective(header, "f32[2]",
                              "f32[2] all-reduce(p), channel_id=1, replica_groups={{0,3},{1,2}}, "
                              "use_global_device_ids=true, to_apply=sum"),
                {Pairs()});
  flat.Run();
  CHECK(flat.Result<float>() == Floats{32, 34, 32, 34, 32, 34, 32, 34});
  TestMesh permute(OneCollective(header, "f32[2]",
                                 "f32[2] collective-permute(p), channel_id=1, "
                                 "source_target_pairs={{0,1}}"),
                   {Pairs()});
  permute.Run();
  CHECK(permute.Result<float>() == Floats{0, 0, 1, 2, 0, 0, 21, 22});
}

TEST_CASE("small types: bf16 accumulates in f32, f16 rounds each step, integers wrap", "[cpu]") {
  auto text = [](const std::string& type) {
    return "HloModule m, num_partitions=4\nsum { x = " + type + "[] parameter(0)\n y = " + type +
           "[] parameter(1)\n ROOT z = " + type + "[] add(x, y) }\nENTRY e { p = " + type +
           "[1] parameter(0)\n ROOT r = " + type +
           "[1] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3}}, "
           "use_global_device_ids=true, to_apply=sum }\n";
  };
  // bf16: 256, 1, 1, 1 -> 260 (259 rounded); f16: 2048, 1, 1, 1 -> 2048.
  TestMesh bf16(text("bf16"),
                {{DType::kBF16, {4, 1}, BytesOf<uint16_t>({0x4380, 0x3f80, 0x3f80, 0x3f80})}});
  bf16.Run();
  CHECK(bf16.Result<uint16_t>() == std::vector<uint16_t>(4, 0x4382));
  TestMesh f16(text("f16"),
               {{DType::kF16, {4, 1}, BytesOf<uint16_t>({0x6800, 0x3c00, 0x3c00, 0x3c00})}});
  f16.Run();
  CHECK(f16.Result<uint16_t>() == std::vector<uint16_t>(4, 0x6800));
  TestMesh u8(text("u8"), {{DType::kU8, {4, 1}, BytesOf<uint8_t>({100, 100, 100, 100})}});
  u8.Run();
  CHECK(u8.Result<uint8_t>() == std::vector<uint8_t>(4, 144));
}

TEST_CASE("any reduction computation is folded, NaN propagates through maximum", "[cpu]") {
  const std::string fold =
      "f { a = f32[] parameter(0)\n b = f32[] parameter(1)\n t = f32[] constant(10)\n"
      " m = f32[] multiply(a, t)\n ROOT r = f32[] add(m, b) }\n";
  TestMesh mesh("HloModule m, num_partitions=4\n" + fold +
                    "ENTRY e { p = f32[1] parameter(0)\n ROOT r = f32[1] all-reduce(p), "
                    "channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, "
                    "to_apply=f }\n",
                {F32({4, 1}, {1, 2, 3, 4})});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats(4, 1234));
  TestMesh max(
      "HloModule m, num_partitions=2\nmx { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " ROOT r = f32[] maximum(a, b) }\nENTRY e { p = f32[2] parameter(0)\n"
      " ROOT r = f32[2] all-reduce(p), channel_id=1, replica_groups={{0,1}}, "
      "use_global_device_ids=true, to_apply=mx }\n",
      {F32({2, 2}, {1, std::nanf(""), 5, 2})});
  max.Run();
  CHECK(max.Result<float>()[0] == 5);
  CHECK(std::isnan(max.Result<float>()[1]));
}

TEST_CASE("groups that do not fit the devices are errors", "[cpu]") {
  // The text does not say how many devices there are, so that only the run can find out.
  auto error = [](const std::string& collective) {
    const std::string text = std::string("HloModule m\n") + kSum +
                             "ENTRY e {\n p = f32[2] parameter(0)\n ROOT r = " + collective +
                             "\n}\n";
    return TestMesh(text).Error(4);
  };
  const std::string tail = ", use_global_device_ids=true, to_apply=sum";
  const Diagnostic range =
      error("f32[2] all-reduce(p), channel_id=1, replica_groups={{0,1,2,3},{4,5,6,7}}" + tail);
  CHECK(range.code == "E-RUN-GROUPS");
  CHECK(range.message == "replica_groups name 4 but there are 4 devices");
  CHECK(range.line == 7);
  CHECK(error("f32[2] all-reduce(p), channel_id=1, replica_groups={{0,1},{2}}" + tail).message ==
        "device 3 is in none of the replica_groups");
}

}  // namespace
}  // namespace gshard::cpu
