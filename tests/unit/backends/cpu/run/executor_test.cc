#include "backends/cpu/run/executor.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <limits>
#include <set>
#include <thread>

#include "backends/cpu/run/workers.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

constexpr const char* kSum =
    "sum { x = f32[] parameter(0)\n y = f32[] parameter(1)\n ROOT z = f32[] add(x, y) }\n";

std::string Header(int partitions, const std::string& output_shardings = "") {
  std::string text = "HloModule m, num_partitions=" + std::to_string(partitions);
  if (!output_shardings.empty()) {
    text += ", frontend_attributes={gshard.output_shardings=\"" + output_shardings + "\"}";
  }
  return text + "\n";
}

Floats Counting(int count) {
  Floats values(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) values[static_cast<size_t>(i)] = static_cast<float>(i);
  return values;
}

TEST_CASE("more threads than help are not started", "[cpu]") {
  const int cores = AvailableCores();
  CHECK(ThreadsFor(0) == cores);
  CHECK(ThreadsFor(1) == 1);
  CHECK(ThreadsFor(8 * cores) == 8 * cores);
  CHECK(ThreadsFor(8 * cores + 1) == 8 * cores);
  CHECK(ThreadsFor(4096) == std::min(4096, 8 * cores));
}

// The per-device programs of docs/partitioning.md, "Checked examples"; expected: the whole graph.

TEST_CASE("a contracted dot reduced into rows", "[cpu]") {
  TestMesh mesh(Header(4, "{devices=[4,1]<=[4]}") + kSum +
                    "ENTRY e {\n a = f32[8,3] parameter(0), sharding={devices=[1,4]<=[4]}\n"
                    " b = f32[3,5] parameter(1), sharding={devices=[4,1]<=[4]}\n"
                    " d = f32[8,5] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
                    " ROOT r = f32[2,5] reduce-scatter(d), channel_id=1, "
                    "replica_groups={{0,1,2,3}}, use_global_device_ids=true, dimensions={0}, "
                    "to_apply=sum\n}\n",
                {F32({8, 12}, Counting(96)), F32({12, 5}, Counting(60))});
  mesh.Run();
  Floats expected(40, 0);
  for (size_t i = 0; i < 8; ++i) {
    for (size_t j = 0; j < 5; ++j) {
      for (size_t k = 0; k < 12; ++k) {
        expected[i * 5 + j] += static_cast<float>((i * 12 + k) * (k * 5 + j));
      }
    }
  }
  CHECK(mesh.Result<float>() == expected);
}

TEST_CASE("two reductions of one chain go through the devices in one order, in other groups",
          "[cpu]") {
  const std::string groups = ", use_global_device_ids=true, to_apply=sum\n";
  TestMesh mesh(Header(64, "{{replicated}, {devices=[64]<=[64]}}") + kSum +
                    "ENTRY e {\n x = f32[1] parameter(0), sharding={devices=[64]<=[64]}\n"
                    " a = f32[1] add(x, x)\n b = f32[1] multiply(x, x)\n"
                    " all = f32[1] all-reduce(a), channel_id=1, replica_groups=[1,64]<=[64]" +
                    groups +
                    " pairs = f32[1] all-reduce(b), channel_id=2, replica_groups=[32,2]<=[64]" +
                    groups + " ROOT t = (f32[1], f32[1]) tuple(all, pairs)\n}\n",
                {F32({64}, Counting(64))});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{64 * 63});
  Floats pairs;
  for (int i = 0; i < 64; ++i) pairs.push_back(static_cast<float>(i * i + (i ^ 1) * (i ^ 1)));
  CHECK(mesh.Result<float>(1) == pairs);
}

TEST_CASE("what a chain has reduced lives until the collective behind it has read it", "[cpu]") {
  TestMesh mesh(Header(64, "{devices=[64,1]<=[64]}") + kSum +
                    "ENTRY e {\n x = f32[2,2] parameter(0), sharding={devices=[64,1]<=[64]}\n"
                    " a = f32[2,2] add(x, x)\n"
                    " r = f32[2,2] all-reduce(a), channel_id=1, "
                    "replica_groups=[32,2]<=[16,2,2]T(0,2,1), use_global_device_ids=true, "
                    "to_apply=sum\n"
                    " g = f32[2,4] all-gather(r), channel_id=2, replica_groups=[32,2]<=[64], "
                    "dimensions={1}, use_global_device_ids=true\n"
                    " ROOT n = f32[2,4] negate(g)\n}\n",
                {F32({128, 2}, Counting(256))});
  mesh.Run();
  Floats expected;
  for (int device = 0; device < 64; ++device) {
    for (int row = 0; row < 2; ++row) {
      for (int column = 0; column < 4; ++column) {
        const int from = (device & ~1) + column / 2;  // of the pair; its sum is with from ^ 2
        const auto x = [&](int d) { return static_cast<float>(4 * d + 2 * row + column % 2); };
        expected.push_back(-2 * (x(from) + x(from ^ 2)));
      }
    }
  }
  CHECK(mesh.Result<float>() == expected);
}

TEST_CASE("an all-to-all over uneven tiles", "[cpu]") {
  TestMesh mesh(Header(4, "{devices=[1,4]<=[4]}") +
                    "ENTRY e {\n x = f32[2,10] parameter(0), sharding={devices=[4,1]<=[4]}\n"
                    " z = f32[] constant(0)\n p = f32[2,12] pad(x, z), padding=0_0x0_2\n"
                    " q = f32[2,4,3] reshape(p)\n t = f32[2,4,3] all-to-all(q), channel_id=1, "
                    "replica_groups={{0,1,2,3}}, dimensions={1}\n"
                    " u = f32[4,2,3] transpose(t), dimensions={1,0,2}\n v = f32[8,3] reshape(u)\n"
                    " ROOT y = f32[6,3] slice(v), slice={[0:6], [0:3]}\n}\n",
                {F32({6, 10}, Counting(60))});
  mesh.Run();
  const Floats result = mesh.Result<float>();
  for (size_t i = 0; i < 6; ++i) {
    for (size_t j = 0; j < 12; ++j) {
      CHECK(result[i * 12 + j] == (j < 10 ? static_cast<float>(i * 10 + j) : 0.0f));
    }
  }
}

TEST_CASE("elementwise operations read a bitcast-convert in its own type", "[cpu]") {
  TestMesh mesh(
      "HloModule m\nENTRY e {\n x = f32[4] parameter(0)\n b = s32[4] bitcast-convert(x)\n"
      " r = s32[] constant(23)\n s = s32[4] broadcast(r), dimensions={}\n"
      " y = s32[4] shift-right-logical(b, s)\n n = f32[4] negate(x)\n"
      " m = s32[4] bitcast-convert(n)\n w = s32[2,4] broadcast(m), dimensions={1}\n"
      " z = s32[2,4] broadcast(b), dimensions={1}\n d = s32[2,4] xor(w, z)\n"
      " ROOT t = (s32[4], s32[2,4]) tuple(y, d)\n}\n",
      {F32({4}, {1, 2, 4, 0.5})});
  mesh.Run();
  CHECK(mesh.Result<int32_t>(0) == std::vector<int32_t>{127, 128, 129, 126});
  CHECK(mesh.Result<int32_t>(1) == std::vector<int32_t>(8, std::numeric_limits<int32_t>::min()));
}

TEST_CASE("a known index may be another type's bits", "[cpu]") {
  // 2.8e-45 is the f32 with the bits of 2.
  TestMesh mesh(Header(1) +
                    "ENTRY e {\n x = f32[6] parameter(0)\n c = f32[] constant(2.8e-45)\n"
                    " i = s32[] bitcast-convert(c)\n"
                    " ROOT y = f32[4] dynamic-slice(x, i), dynamic_slice_sizes={4}\n}\n",
                {F32({6}, Counting(6))});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{2, 3, 4, 5});
}

TEST_CASE("a slice by halo exchange with an offset table", "[cpu]") {
  TestMesh mesh(
      Header(4, "{devices=[4]<=[4]}") +
          "ENTRY e {\n x = f32[8] parameter(0), sharding={devices=[4]<=[4]}\n"
          " h = f32[2] slice(x), slice={[0:2]}\n n = f32[2] collective-permute(h), "
          "channel_id=1, source_target_pairs={{1,0},{2,1},{3,2}}\n"
          " c = f32[10] concatenate(x, n), dimensions={0}\n w = s32[4] constant({3,2,1,0})\n"
          " p = u32[] partition-id()\n"
          " o = s32[1] dynamic-slice(w, p), dynamic_slice_sizes={1}\n"
          " s = s32[] reshape(o)\n"
          " ROOT y = f32[7] dynamic-slice(c, s), dynamic_slice_sizes={7}\n}\n",
      {F32({32}, Counting(32))});
  mesh.Run();
  Floats expected = Counting(31);
  expected.erase(expected.begin(), expected.begin() + 3);
  CHECK(mesh.Result<float>() == expected);
}

// Stacks x, shifted one device further in every turn, into the rows of o.
std::string ShiftingLoop(int turns) {
  return "cond { p = (s32[], f32[3], f32[" + std::to_string(turns) +
         ",3]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n n = s32[] constant(" +
         std::to_string(turns) +
         ")\n ROOT c = pred[] compare(i, n), direction=LT }\n"
         "body { p = (s32[], f32[3], f32[" +
         std::to_string(turns) +
         ",3]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
         " x = f32[3] get-tuple-element(p), index=1\n o = f32[" +
         std::to_string(turns) +
         ",3] get-tuple-element(p), index=2\n one = s32[] constant(1)\n z = s32[] constant(0)\n"
         " i1 = s32[] add(i, one)\n y = f32[3] collective-permute(x), channel_id=1, "
         "source_target_pairs={{0,1},{1,2},{2,3},{3,0}}\n y1 = f32[1,3] reshape(y)\n"
         " u = f32[" +
         std::to_string(turns) +
         ",3] dynamic-update-slice(o, y1, i, z)\n ROOT r = (s32[], f32[3], f32[" +
         std::to_string(turns) + ",3]) tuple(i1, y, u) }\n";
}

TEST_CASE("a loop with a ring of permutes updates its stack in place", "[cpu]") {
  const int turns = 400;
  const std::string stack = "f32[" + std::to_string(turns) + ",3]";
  TestMesh mesh(Header(4) + ShiftingLoop(turns) +
                    "ENTRY e {\n x = f32[3] parameter(0), sharding={devices=[4]<=[4]}\n"
                    " z = f32[] constant(-1)\n o = " +
                    stack +
                    " broadcast(z), dimensions={}\n"
                    " k = s32[] constant(0)\n t = (s32[], f32[3], " +
                    stack +
                    ") tuple(k, x, o)\n"
                    " ROOT w = (s32[], f32[3], " +
                    stack + ") while(t), condition=cond, body=body\n}\n",
                {F32({12}, Counting(12))});
  MeshRun& run = mesh.Run();
  CHECK(mesh.Result<int32_t>(0) == std::vector<int32_t>(4, turns));
  CHECK(mesh.Result<float>(1) == Counting(12));
  const Floats stacked = mesh.Result<float>(2);
  for (int device = 0; device < 4; ++device) {
    for (int turn : {0, 1, 2, 399}) {
      const int from = (device - turn - 1 + 4 * turns) % 4;
      CHECK(stacked[static_cast<size_t>((device * turns + turn) * 3)] ==
            static_cast<float>(3 * from));
    }
  }
  // One stack a device and a little more: nothing is copied from turn to turn.
  CHECK(run.plan().memory.transient_bytes < 4 * turns * 3 * 4 + 4096 + turns * 3 * 4);
}

TEST_CASE("carried values may trade places", "[cpu]") {
  TestMesh mesh(
      "HloModule m\ncond { p = (s32[], f32[2], f32[2], f32[2]) parameter(0)\n"
      " i = s32[] get-tuple-element(p), index=0\n n = s32[] constant(5)\n"
      " ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { p = (s32[], f32[2], f32[2], f32[2]) parameter(0)\n"
      " i = s32[] get-tuple-element(p), index=0\n a = f32[2] get-tuple-element(p), index=1\n"
      " b = f32[2] get-tuple-element(p), index=2\n c = f32[2] get-tuple-element(p), index=3\n"
      " one = s32[] constant(1)\n i1 = s32[] add(i, one)\n d = f32[2] add(a, c)\n"
      " ROOT r = (s32[], f32[2], f32[2], f32[2]) tuple(i1, b, a, d) }\n"
      "ENTRY e {\n x = f32[2] parameter(0)\n y = f32[2] parameter(1)\n q = f32[2] negate(y)\n"
      " z = s32[] constant(0)\n t = (s32[], f32[2], f32[2], f32[2]) tuple(z, x, y, q)\n"
      " ROOT w = (s32[], f32[2], f32[2], f32[2]) while(t), condition=cond, body=body\n}\n",
      {F32({2}, {1, 2}), F32({2}, {10, 20})});
  mesh.Run();
  CHECK(mesh.Result<float>(1) == Floats{10, 20});
  CHECK(mesh.Result<float>(2) == Floats{1, 2});
  CHECK(mesh.Result<float>(3) == Floats{-10 + 3 * 1 + 2 * 10, -20 + 3 * 2 + 2 * 20});
}

TEST_CASE("loops with different numbers of turns split the devices", "[cpu]") {
  // Device d doubles its value d times.
  const std::string loop =
      "cond { p = (u32[], f32[1]) parameter(0)\n i = u32[] get-tuple-element(p), index=0\n"
      " n = u32[] partition-id()\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { p = (u32[], f32[1]) parameter(0)\n i = u32[] get-tuple-element(p), index=0\n"
      " x = f32[1] get-tuple-element(p), index=1\n one = u32[] constant(1)\n"
      " i1 = u32[] add(i, one)\n y = f32[1] add(x, x)\n ROOT r = (u32[], f32[1]) tuple(i1, y) }\n"
      "ENTRY e {\n x = f32[1] parameter(0)\n z = u32[] constant(0)\n"
      " t = (u32[], f32[1]) tuple(z, x)\n"
      " ROOT w = (u32[], f32[1]) while(t), condition=cond, body=body\n}\n";
  TestMesh mesh(Header(5) + loop, {F32({1}, {3})});
  mesh.Run();
  CHECK(mesh.Result<float>(1) == Floats{3, 6, 12, 24, 48});
  CHECK(mesh.Result<uint32_t>(0) == std::vector<uint32_t>{0, 1, 2, 3, 4});
}

std::string Branches(const std::string& condition) {
  return Header(4) + kSum +
         "t { p = f32[2] parameter(0)\n ROOT r = f32[2] all-reduce(p), channel_id=1, "
         "replica_groups={{0,1},{2,3}}, use_global_device_ids=true, to_apply=sum }\n"
         "f { p = f32[2] parameter(0)\n ROOT r = f32[2] negate(p) }\n"
         "ENTRY e {\n x = f32[2] parameter(0), sharding={devices=[4]<=[4]}\n"
         " p = u32[] partition-id()\n" +
         condition +
         " ROOT w = f32[2] conditional(c, x, x), true_computation=t, false_computation=f\n}\n";
}

TEST_CASE("a collective in a branch runs if whole groups take it", "[cpu]") {
  TestMesh mesh(Branches(" k = u32[] constant(2)\n c = pred[] compare(p, k), direction=LT\n"),
                {F32({8}, Counting(8))});
  mesh.Run();
  CHECK(mesh.Result<float>() == Floats{2, 4, 2, 4, -4, -5, -6, -7});
}

TEST_CASE("a collective that not all members reach is a deadlock", "[cpu]") {
  TestMesh mesh(Branches(" k = u32[] constant(3)\n c = pred[] compare(p, k), direction=LT\n"),
                {F32({8}, Counting(8))});
  const Diagnostic error = mesh.Error();
  CHECK(error.code == "E-RUN-DEADLOCK");
  CHECK(error.message ==
        "deadlock: device 2 waits in all-reduce r for device 3, which did not take this branch");
  CHECK(error.line > 0);
}

TEST_CASE("a branch index out of range takes the last branch", "[cpu]") {
  const std::string text =
      "HloModule m\na { p = f32[] parameter(0)\n ROOT r = f32[] negate(p) }\n"
      "b { p = f32[] parameter(0)\n ROOT r = f32[] add(p, p) }\n"
      "ENTRY e { i = s32[] parameter(0)\n x = f32[] parameter(1)\n"
      " ROOT c = f32[] conditional(i, x, x), branch_computations={a, b} }\n";
  for (auto [index, expected] :
       {std::pair<int32_t, float>{0, -3.0f}, {1, 6.0f}, {7, 6.0f}, {-1, 6.0f}}) {
    TestMesh mesh(text, {S32({}, {index}), F32({}, {3})});
    mesh.Run();
    CHECK(mesh.Result<float>() == Floats{expected});
  }
}

TEST_CASE("equal values are stored and computed once", "[cpu]") {
  // 2048 devices, everything replicated: as much memory and arithmetic as one device needs.
  const std::string body =
      "ENTRY e { x = f32[64,64] parameter(0)\n d = f32[64,64] dot(x, x), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}\n ROOT r = f32[64,64] tanh(d) }\n";
  TestMesh one("HloModule m\n" + body), many(Header(2048, "{replicated}") + body);
  MeshRun& a = one.Run();
  const int64_t bytes = a.plan().memory.arena_bytes(), flops = a.executor().counts().flops;
  const Floats expected = one.Result<float>();
  MeshRun& b = many.Run();
  CHECK(b.plan().memory.arena_bytes() == bytes);
  CHECK(b.executor().counts().flops == flops);
  CHECK(many.Result<float>() == expected);
}

TEST_CASE("scalars from partition-id are compared by value", "[cpu]") {
  // Rows of a [4,2] mesh: an offset table by row gives 4 classes, their maximum with 2 gives 3.
  TestMesh mesh(Header(8) +
                "ENTRY e { t = s32[8] constant({0,0,1,1,2,2,3,3})\n p = u32[] partition-id()\n"
                " o = s32[1] dynamic-slice(t, p), dynamic_slice_sizes={1}\n r = s32[] reshape(o)\n"
                " k = s32[] constant(1)\n m = s32[] maximum(r, k)\n"
                " x = f32[4096] parameter(0)\n f = f32[] convert(m)\n"
                " b = f32[4096] broadcast(f), dimensions={}\n"
                " ROOT y = f32[4096] multiply(x, b) }\n");
  MeshRun& run = mesh.Run();
  const Program& program = *run.plan().program;
  CHECK(program.values[program.results[0]].classes->count() == 3);
}

TEST_CASE("a select by device hands whole operands on", "[cpu]") {
  // Zeros everywhere but on device 2: two classes, though x has eight.
  TestMesh mesh(Header(8) +
                    "ENTRY e { x = f32[2] parameter(0), sharding={devices=[8]<=[8]}\n"
                    " p = u32[] partition-id()\n k = u32[] constant(2)\n"
                    " c = pred[] compare(p, k), direction=EQ\n"
                    " b = pred[2] broadcast(c), dimensions={}\n z = f32[] constant(0)\n"
                    " zs = f32[2] broadcast(z), dimensions={}\n"
                    " ROOT s = f32[2] select(b, x, zs) }\n",
                {F32({16}, Counting(16))});
  MeshRun& run = mesh.Run();
  const Program& program = *run.plan().program;
  CHECK(program.values[program.results[0]].classes->count() == 2);
  CHECK(mesh.Result<float>() == Floats{0, 0, 0, 0, 4, 5, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0});
}

TEST_CASE("shards of a replicated value and gathered shards are views", "[cpu]") {
  TestMesh mesh(
      Header(8, "{replicated}") +
          "ENTRY e { x = f32[16,4] parameter(0)\n t = s32[8] constant({0,2,4,6,8,10,12,14})\n"
          " p = u32[] partition-id()\n"
          " o = s32[1] dynamic-slice(t, p), dynamic_slice_sizes={1}\n s = s32[] reshape(o)\n"
          " z = s32[] constant(0)\n"
          " y = f32[2,4] dynamic-slice(x, s, z), dynamic_slice_sizes={2,4}\n"
          " ROOT g = f32[16,4] all-gather(y), channel_id=1, replica_groups=[1,8]<=[8], "
          "dimensions={0}, use_global_device_ids=true }\n",
      {F32({16, 4}, Counting(64))});
  MeshRun& run = mesh.Run();
  CHECK(run.plan().memory.transient_bytes == 0);
  CHECK(mesh.Result<float>() == Counting(64));
}

// Something of everything: dots, reductions, elementwise chains, a loop, collectives.
std::string Mixed() {
  return Header(8, "{devices=[8,1]<=[8]}") + kSum +
         "cond { p = (s32[], f32[32,64]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
         " n = s32[] constant(3)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
         "body { p = (s32[], f32[32,64]) parameter(0)\n i = s32[] get-tuple-element(p), index=0\n"
         " x = f32[32,64] get-tuple-element(p), index=1\n one = s32[] constant(1)\n"
         " i1 = s32[] add(i, one)\n z = f32[] constant(0)\n"
         " s = f32[32] reduce(x, z), dimensions={1}, to_apply=sum\n"
         " a = f32[32] all-reduce(s), channel_id=1, replica_groups=[2,4]<=[8], "
         "use_global_device_ids=true, to_apply=sum\n"
         " b = f32[32,64] broadcast(a), dimensions={0}\n c = f32[32,64] add(x, b)\n"
         " next = f32[32,64] tanh(c)\n ROOT r = (s32[], f32[32,64]) tuple(i1, next) }\n"
         "ENTRY e {\n x = f32[32,64] parameter(0), sharding={devices=[8,1]<=[8]}\n"
         " w = f32[64,64] parameter(1)\n"
         " d = f32[32,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
         " k = s32[] constant(0)\n t = (s32[], f32[32,64]) tuple(k, d)\n"
         " l = (s32[], f32[32,64]) while(t), condition=cond, body=body\n"
         " v = f32[32,64] get-tuple-element(l), index=1\n"
         " q = f32[32,64] collective-permute(v), channel_id=2, "
         "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7}}\n"
         " ROOT r = f32[32,64] subtract(v, q)\n}\n";
}

TEST_CASE("results do not depend on the number of threads", "[cpu]") {
  std::vector<std::byte> expected;
  for (int threads : {1, 2, 3, 8, 16}) {
    TestMesh mesh(Mixed());
    mesh.options.threads = threads;
    MeshRun& run = mesh.Run();
    const OutputArray result = run.Output(0);
    if (expected.empty()) expected = result.data;
    CHECK(result.data == expected);
  }
}

// 64 devices, each with a row of x and of y: the sum over a group of their outer products.
std::string PartialSums(const std::string& collective) {
  return Header(64) + kSum +
         "ENTRY e {\n x = f32[1,32] parameter(0), sharding={devices=[64,1]<=[64]}\n"
         " y = f32[1,128] parameter(1), sharding={devices=[64,1]<=[64]}\n"
         " d = f32[32,128] dot(x, y), lhs_contracting_dims={0}, rhs_contracting_dims={0}\n"
         " ROOT r = " +
         collective + "\n}\n";
}

TEST_CASE("partial sums are folded as they are made", "[cpu]") {
  Floats x(64 * 32), y(64 * 128);
  for (size_t i = 0; i < x.size(); ++i) x[i] = static_cast<float>(i % 7) - 3;
  for (size_t i = 0; i < y.size(); ++i) y[i] = static_cast<float>(i % 5) - 2;
  auto sum = [&](size_t from, size_t step, size_t count, size_t i, size_t j) {
    float total = 0;
    for (size_t m = 0; m < count; ++m) {
      const size_t d = from + m * step;
      total += x[d * 32 + i] * y[d * 128 + j];
    }
    return total;
  };
  const std::vector<TestInput> inputs{F32({64, 32}, x), F32({64, 128}, y)};
  const std::string common = ", use_global_device_ids=true, to_apply=sum";
  const int64_t partial = 32 * 128 * 4;
  for (int threads : {1, 3}) {
    TestMesh all(
        PartialSums("f32[32,128] all-reduce(d), channel_id=1, replica_groups=[1,64]<=[64]" +
                    common),
        inputs);
    all.options.threads = threads;
    MeshRun& run = all.Run();
    // Accumulators, not 64 partial sums.
    CHECK(run.plan().memory.transient_bytes < 40 * partial);
    Floats result = all.Result<float>();
    for (size_t d : {0u, 63u}) {
      for (size_t i : {0u, 31u}) {
        for (size_t j : {0u, 127u}) {
          CHECK(result[(d * 32 + i) * 128 + j] == sum(0, 1, 64, i, j));
        }
      }
    }
    // Groups of 8 that are 8 apart.
    TestMesh groups(PartialSums("f32[32,128] all-reduce(d), channel_id=1, "
                                "replica_groups=[8,8]<=[8,8]T(1,0)" +
                                common),
                    inputs);
    groups.options.threads = threads;
    groups.Run();
    result = groups.Result<float>();
    for (size_t d : {0u, 9u, 63u}) {
      CHECK(result[(d * 32 + 5) * 128 + 77] == sum(d % 8, 8, 8, 5, 77));
    }
    // Member k of a group of 16 neighbours gets columns [8k, 8k + 8).
    TestMesh scatter(PartialSums("f32[32,8] reduce-scatter(d), channel_id=1, "
                                 "replica_groups=[4,16]<=[64], dimensions={1}" +
                                 common),
                     inputs);
    scatter.options.threads = threads;
    scatter.Run();
    result = scatter.Result<float>();
    // And rows.
    TestMesh rows(PartialSums("f32[2,128] reduce-scatter(d), channel_id=1, "
                              "replica_groups=[4,16]<=[64], dimensions={0}" +
                              common),
                  inputs);
    rows.options.threads = threads;
    MeshRun& rows_run = rows.Run();
    CHECK(rows_run.plan().memory.transient_bytes < 60 * partial);
    const Floats row_result = rows.Result<float>();
    for (size_t d : {0u, 17u, 63u}) {
      for (size_t e = 0; e < 8; ++e) {
        CHECK(result[(d * 32 + 11) * 8 + e] == sum(d / 16 * 16, 1, 16, 11, d % 16 * 8 + e));
        CHECK(row_result[(d * 2 + 1) * 128 + e] == sum(d / 16 * 16, 1, 16, d % 16 * 2 + 1, e));
      }
    }
  }
}

TEST_CASE("running again gives the same", "[cpu]") {
  TestMesh mesh(Mixed());
  MeshRun& run = mesh.Run();
  const OutputArray first = run.Output(0);
  REQUIRE(run.Run({}));
  CHECK(run.Output(0).data == first.data);
}

TEST_CASE("counts are those of one device and of the emulator", "[cpu]") {
  TestMesh mesh(Mixed());
  const RunCounts counts = mesh.Run().executor().counts();
  // The loop runs three times; ring all-reduce of 32 floats over 4: 2 * 128 * 3 / 4.
  CHECK(counts.collectives.at("all-reduce").count == 3);
  CHECK(counts.collectives.at("all-reduce").bytes_per_device == 3 * 192);
  CHECK(counts.collectives.at("collective-permute").bytes_per_device == 32 * 64 * 4);
  for (const DeviceWork& device : counts.devices) {
    CHECK(device.flops >= 2 * 32 * 64 * 64);
    CHECK(counts.flops > 7 * device.flops);
  }
}

TEST_CASE("a device computes and holds what its branches do, the others' not", "[cpu]") {
  // Device 0 idles; device 1 multiplies 5 times, device 2 in 3 trips, device 3 holds 40 kB more.
  TestMesh mesh(Header(4) + R"(
idle { a = f32[16,16] parameter(0)
  ROOT r = f32[16,16] copy(a) }
multiply { b = f32[16,16] parameter(0)
  ROOT d = f32[16,16] dot(b, b), lhs_contracting_dims={1}, rhs_contracting_dims={0} }
add { l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT s = f32[] add(l, r) }
less { l = f32[] parameter(0)
  r = f32[] parameter(1)
  ROOT s = pred[] compare(l, r), direction=LT }
hold { c = f32[16,16] parameter(0)
  wide = f32[40,16,16] broadcast(c), dimensions={1,2}
  t = f32[40,16,16] sort(wide), dimensions={0}, to_apply=less
  zero = f32[] constant(0)
  ROOT h = f32[16,16] reduce(t, zero), dimensions={0}, to_apply=add }
condition { p = (s32[], s32[], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  ROOT lt = pred[] compare(i, n), direction=LT }
body { p = (s32[], s32[], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] get-tuple-element(p), index=1
  x = f32[16,16] get-tuple-element(p), index=2
  one = s32[] constant(1)
  j = s32[] add(i, one)
  y = f32[16,16] dot(x, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], s32[], f32[16,16]) tuple(j, n, y) }
ENTRY e { x = f32[16,16] parameter(0)
  id = u32[] partition-id()
  k = s32[] convert(id)
  branches = s32[4] constant({0,1,0,2})
  found = s32[1] dynamic-slice(branches, k), dynamic_slice_sizes={1}
  branch = s32[] reshape(found)
  y = f32[16,16] conditional(branch, x, x, x), branch_computations={idle, multiply, hold}
  trips = s32[4] constant({0,4,3,0})
  own = s32[1] dynamic-slice(trips, k), dynamic_slice_sizes={1}
  n = s32[] reshape(own)
  zero = s32[] constant(0)
  init = (s32[], s32[], f32[16,16]) tuple(zero, n, y)
  loop = (s32[], s32[], f32[16,16]) while(init), condition=condition, body=body
  ROOT r = f32[16,16] get-tuple-element(loop), index=2 }
)");
  const std::vector<DeviceWork> devices = mesh.Run().executor().counts().devices;
  REQUIRE(devices.size() == 4);
  const int64_t dot = 2 * 16 * 16 * 16;
  CHECK(devices[0].flops / dot == 0);
  CHECK(devices[1].flops / dot == 5);
  CHECK(devices[2].flops / dot == 3);
  CHECK(devices[3].peak_bytes >= devices[0].peak_bytes + 40 * 16 * 16 * 4);
  CHECK(devices[1].peak_bytes <= devices[0].peak_bytes + 3 * 16 * 16 * 4);
}

TEST_CASE("a run that needs more than the limit is refused before it starts", "[cpu]") {
  TestMesh mesh(
      "HloModule m\nENTRY e { x = f32[1000,1000] parameter(0)\n"
      " ROOT y = f32[1000,1000] tanh(x) }\n");
  mesh.options.memory_limit = 4 << 20;
  CHECK(mesh.Error().code == "E-RUN-MEMORY");
  mesh.options.memory_limit = 9 << 20;
  mesh.Run();
}

TEST_CASE("the first NaN is found, masks of infinity are not", "[cpu]") {
  const std::string text =
      Header(2) +
      "ENTRY e { x = f32[3] parameter(0), sharding={devices=[2]<=[2]}\n l = f32[3] log(x)\n"
      " i = f32[] constant(inf)\n b = f32[3] broadcast(i), dimensions={}\n"
      " m = f32[3] minimum(l, b)\n ROOT r = f32[3] add(m, m) }\n";
  RunOptions check;
  check.check_nan = true;
  TestMesh bad(text, {F32({6}, {1, 2, 3, 4, -5, 6})});
  bad.options.fuse = false;
  const Diagnostic error = bad.Error(0, check);
  CHECK(error.code == "E-RUN-NAN");
  CHECK(error.message == "l is NaN at [1] on device 1");
  TestMesh good(text, {F32({6}, {1, 2, 3, 4, 5, 6})});
  good.options.fuse = false;
  good.Run(0, check);
}

TEST_CASE("NaN of constants are no finding where a select hides them, and one in a result",
          "[cpu]") {
  auto text = [](const std::string& rest) {
    return Header(2) +
           "ENTRY e { x = f32[3] parameter(0), sharding={devices=[2]<=[2]}\n"
           " n = f32[] constant(nan)\n fill = f32[3] broadcast(n), dimensions={}\n"
           " z = f32[] constant(0)\n zeros = f32[3] broadcast(z), dimensions={}\n"
           " p = pred[3] compare(x, zeros), direction=GT\n"
           " s = f32[3] select(p, x, fill)\n t = f32[3] add(s, s)\n" +
           rest + "}\n";
  };
  const std::string hidden = " ROOT r = f32[3] select(p, t, zeros)\n";
  RunOptions check;
  check.check_nan = true;
  const std::vector<TestInput> input = {F32({6}, {1, 2, 3, 4, -5, 6})};
  TestMesh good(text(hidden), input);
  good.options.fuse = false;
  good.Run(0, check);
  TestMesh shown(text(" ROOT r = f32[3] negate(t)\n"), input);
  shown.options.fuse = false;
  const Diagnostic error = shown.Error(0, check);
  CHECK(error.code == "E-RUN-NAN");
  CHECK(error.message == "r is NaN at [1] on device 1, and so is result o0");
  CHECK(error.hint == "no step made it: n is NaN, a constant");
  // What a step makes is found beside it: log(-5) at [1], where the constant is not.
  TestMesh made(text(" l = f32[3] log(x)\n ROOT r = f32[3] "
                     "select(p, l, zeros)\n"),
                input);
  made.options.fuse = false;
  CHECK(made.Error(0, check).message == "l is NaN at [1] on device 1");
}

TEST_CASE("NaN that come with the inputs are told at the parameter", "[cpu]") {
  RunOptions check;
  check.check_nan = true;
  TestMesh mesh(Header(2) +
                    "ENTRY e { x = f32[2] parameter(0), sharding={devices=[2]<=[2]}\n"
                    " ROOT y = f32[2] negate(x) }\n",
                {F32({4}, {1, 2, std::nanf(""), 4})});
  mesh.options.fuse = false;
  const Diagnostic error = mesh.Error(0, check);
  CHECK(error.message == "x is NaN at [0] on device 1");
  CHECK(error.hint == "it came with the inputs");
}

TEST_CASE("sums that overflow between devices, and parts of tuples, are found too", "[cpu]") {
  RunOptions check;
  check.check_nan = true;
  TestMesh sum(Header(2) +
                   "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) "
                   "}\nENTRY e { x = f32[2] parameter(0), sharding={devices=[2]<=[2]}\n ROOT r = "
                   "f32[2] all-reduce(x), channel_id=1, replica_groups={{0,1}}, "
                   "use_global_device_ids=true, to_apply=add }\n",
               {F32({4}, {1, 3e38f, 1, 3e38f})});
  sum.options.fuse = false;
  CHECK(sum.Error(0, check).message == "r is infinite at [1] on device 0");
  TestMesh tuple(
      "HloModule m\nENTRY e { x = f32[4,1] parameter(0)\n s = f32[1] parameter(1)\n ROOT r = "
      "(f32[4,1], f32[1], f32[1]) batch-norm-training(x, s, s), epsilon=0, feature_index=1 }\n",
      {F32({4, 1}, {1, 1, 1, 1}), F32({1}, {1})});
  tuple.options.fuse = false;
  CHECK(tuple.Error(0, check).message == "r{0} is NaN at [0,0] on device 0");
}

TEST_CASE("values can be kept by name, inside loops too", "[cpu]") {
  TestMesh mesh(Mixed());
  mesh.options.keep = {"d", "next"};
  MeshRun& run = mesh.Run();
  REQUIRE(run.KeptLeaves(0).size() == 1);
  CHECK(run.Kept(run.KeptLeaves(0)[0], std::nullopt).dims == std::vector<int64_t>{8, 32, 64});
  const OutputArray last = run.Kept(run.KeptLeaves(1)[0], 3);
  CHECK(last.dims == std::vector<int64_t>{32, 64});
  TestMesh unknown(Mixed());
  unknown.options.keep = {"nothing"};
  CHECK(unknown.Error().code == "E-RUN-NAME");
}

TEST_CASE("elided constants are filled and reported", "[cpu]") {
  TestMesh mesh(
      "HloModule m\nENTRY e { c = f32[16] constant({...})\n"
      " ROOT r = f32[16] add(c, c) }\n");
  MeshRun& run = mesh.Run();
  REQUIRE(run.warnings().size() == 1);
  CHECK(run.warnings()[0].code == "W-RUN-ELIDED");
  CHECK(run.warnings()[0].line == 2);
  for (float value : mesh.Result<float>()) CHECK(value >= 1.0f);  // rank 1: |x| + 0.5, doubled
}

TEST_CASE("elided scalars are filled, but for integers beside a loop", "[cpu]") {
  const auto text = [](const std::string& type, const std::string& root) {
    return "HloModule m\nc { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
           "    n = s32[] constant(3) ROOT l = pred[] compare(i, n), direction=LT }\n"
           "b { p = (s32[]) parameter(0) i = s32[] get-tuple-element(p), index=0\n"
           "    o = s32[] constant(1) j = s32[] add(i, o) ROOT t = (s32[]) tuple(j) }\n"
           "ENTRY e { k = " +
           type + "[] constant({...})\n z = s32[] constant(0) t = (s32[]) tuple(z)\n ROOT r = " +
           root + "\n}\n";
  };
  const std::string loop = "(s32[]) while(t), condition=c, body=b";
  TestMesh counted(text("s32", loop));
  CHECK(counted.Error().code == "E-RUN-ELIDED");
  TestMesh other(text("f32", loop));
  CHECK(other.Run().warnings().size() <= 1);  // nothing reads it
  TestMesh straight(text("s32", "s32[] add(k, k)"));
  CHECK(straight.Run().warnings().size() == 1);
}

TEST_CASE("a stop request ends the run", "[cpu]") {
  TestMesh mesh(Mixed());
  std::atomic<bool> stop{true};
  RunOptions options;
  options.stop = &stop;
  CHECK(mesh.Error(0, options).code == "E-RUN-STOPPED");
}

TEST_CASE("loops without an end stop on request", "[cpu]") {
  // One in the plan, one inside a kernel.
  const std::string in_plan =
      "HloModule m\ncond { t = s32[] parameter(0)\n z = s32[] constant(0)\n"
      " ROOT c = pred[] compare(t, z), direction=GE }\n"
      "body { t = s32[] parameter(0)\n z = s32[] constant(0)\n ROOT s = s32[] multiply(t, z) }\n"
      "ENTRY e { x = s32[] parameter(0)\n ROOT w = s32[] while(x), condition=cond, body=body }\n";
  const std::string in_fold =
      "HloModule m\ncond { t = f32[] parameter(0)\n ROOT c = pred[] constant(true) }\n"
      "body { t = f32[] parameter(0)\n ROOT s = f32[] negate(t) }\n"
      "fold { a = f32[] parameter(0)\n b = f32[] parameter(1)\n"
      " w = f32[] while(a), condition=cond, body=body\n ROOT s = f32[] add(w, b) }\n"
      "ENTRY e { x = f32[8] parameter(0)\n z = f32[] constant(0)\n"
      " ROOT r = f32[] reduce(x, z), dimensions={0}, to_apply=fold }\n";
  for (const std::string& text : {in_plan, in_fold}) {
    TestMesh mesh(text);
    std::atomic<bool> stop{false};
    std::thread user([&] {
      std::this_thread::sleep_for(std::chrono::milliseconds(50));
      stop = true;
    });
    RunOptions options;
    options.stop = &stop;
    CHECK(mesh.Error(0, options).code == "E-RUN-STOPPED");
    user.join();
  }
}

TEST_CASE("a value kept from inside a loop is that of the last turn", "[cpu]") {
  TestMesh mesh(
      "HloModule m\ncond { t = (s32[]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n "
      "n = s32[] constant(4)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { t = (s32[]) parameter(0)\n i = s32[] get-tuple-element(t), index=0\n "
      "one = s32[] constant(1)\n k = s32[] add(i, one)\n ROOT r = (s32[]) tuple(k) }\n"
      "ENTRY e { z = s32[] constant(0)\n t = (s32[]) tuple(z)\n w = (s32[]) while(t), "
      "condition=cond, body=body\n ROOT o = s32[] get-tuple-element(w), index=0 }\n");
  mesh.options.keep = {"k"};
  MeshRun& run = mesh.Run();
  CHECK(ValuesOf<int32_t>(run.Kept(run.KeptLeaves(0).front(), 0).data) == std::vector<int32_t>{4});
}

TEST_CASE("every device draws random numbers of its own", "[cpu]") {
  TestMesh mesh(
      "HloModule m, replica_count=2, num_partitions=2\nENTRY e {\n a = f32[] constant(0)\n"
      " b = f32[] constant(1)\n i = u32[] partition-id()\n"
      " r = f32[100] rng(a, b), distribution=rng_uniform\n"
      " ROOT t = (f32[100], u32[]) tuple(r, i)\n}\n");
  mesh.Run();
  const std::vector<float> drawn = mesh.Result<float>(0);
  REQUIRE(drawn.size() == 400);
  CHECK(std::set<float>(drawn.begin(), drawn.end()).size() > 390);
  CHECK(*std::min_element(drawn.begin(), drawn.end()) >= 0);
  CHECK(*std::max_element(drawn.begin(), drawn.end()) < 1);
}

}  // namespace
}  // namespace gshard::cpu
