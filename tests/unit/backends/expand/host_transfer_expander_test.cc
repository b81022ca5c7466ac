// Infeeds, outfeeds and host sends and receives: once in the entry, item after item in loops.
#include "core/transforms/expand/host_transfer_expander.h"

#include <fmt/format.h>

#include "backends/cpu/emulate.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;
using Arrays = std::vector<std::pair<std::string, TestInput>>;

// A run of gshard-run with files.
class HostRun {
 public:
  explicit HostRun(const std::string& text, const Arrays& inputs = {}) : text_(text) {
    if (inputs.empty()) return;
    options.input = folder_.File("in.npz");
    NpzWriter writer(options.input);
    for (const auto& [name, input] : inputs) {
      REQUIRE(writer.Add(name, FormatNpy(input.dtype, input.dims, input.data)));
    }
    REQUIRE(writer.Finish());
  }
  EmulateOptions options;

  Expected<Emulation> Run() {
    auto module = ParseModule(SourceText::FromString("test.hlo", text_));
    INFO((module ? "" : Render(module.error())));
    REQUIRE(module);
    return Emulate(std::move(*module), options);
  }
  // The outputs by name; requires success.
  NpyArray Output(const std::string& name) {
    if (options.output.empty()) {
      options.output = folder_.File("out.npz");
      auto emulation = Run();
      INFO((emulation ? "" : Render(emulation.error())));
      REQUIRE(emulation);
    }
    auto reader = NpzReader::Open(options.output);
    REQUIRE(reader);
    REQUIRE((*reader)->Has(name));
    return std::move(*(*reader)->Read(name));
  }
  Floats Values(const std::string& name) { return ValuesOf<float>(Output(name).data); }

 private:
  TemporaryFolder folder_;
  std::string text_;
};

// Adds infeeds to what it carries and feeds the sums to the host, `turns` times.
std::string AddingLoop(const std::string& header, const std::string& turns,
                       const std::string& sharding = "") {
  return "HloModule m" + header + R"(
cond {
  p = (s32[], f32[4], token[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] )" +
         turns + R"(
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[4], token[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  sum = f32[4] get-tuple-element(p), index=1
  t = token[] get-tuple-element(p), index=2
  feed = (f32[4], token[]) infeed(t)
  x = f32[4] get-tuple-element(feed), index=0
  t1 = token[] get-tuple-element(feed), index=1
  next = f32[4] add(sum, x)
  t2 = token[] outfeed(next, t1), outfeed_shape=f32[4]
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  ROOT r = (s32[], f32[4], token[]) tuple(i1, next, t2)
}
ENTRY e {
  x = f32[4] parameter(0))" +
         sharding + R"(
  k = token[] after-all()
  zero = s32[] constant(0)
  init = (s32[], f32[4], token[]) tuple(zero, x, k)
  w = (s32[], f32[4], token[]) while(init), condition=cond, body=body
  ROOT o = f32[4] get-tuple-element(w), index=1
}
)";
}

TEST_CASE("what the host feeds is a parameter, what it is fed a result", "[cpu]") {
  HostRun run(
      "HloModule m\nENTRY e { x = f32[2] parameter(0)\n k = token[] after-all()\n f = (f32[2], "
      "token[]) infeed(k)\n a = f32[2] get-tuple-element(f), index=0\n t = token[] "
      "get-tuple-element(f), index=1\n s = f32[2] add(a, x)\n q = token[] outfeed(a, t), "
      "outfeed_shape=f32[2]\n ROOT r = f32[2] negate(s) }\n",
      {{"p0", F32({2}, {1, 2})}, {"f", F32({2}, {10, 20})}});
  CHECK(run.Values("o0") == Floats{-11, -22});
  CHECK(run.Values("o1") == Floats{10, 20});
}

TEST_CASE("a feed in a loop gives item after item, on any number of devices", "[cpu]") {
  const Arrays inputs = {{"x", F32({4}, {1, 2, 3, 4})},
                         {"feed", F32({3, 4}, {10, 20, 30, 40, 1, 1, 1, 1, 0, 2, 0, 2})}};
  for (const std::string sharding : {"", ", sharding={devices=[2]0,1}"}) {
    HostRun run(AddingLoop(sharding.empty() ? "" : ", num_partitions=2", "constant(3)", sharding),
                inputs);
    run.options.verify = !sharding.empty();
    CHECK(run.Values("o0") == Floats{12, 25, 34, 47});
    const NpyArray fed = run.Output("o1");
    CHECK(fed.dims == std::vector<int64_t>{3, 4});
    CHECK(ValuesOf<float>(fed.data) == Floats{11, 22, 33, 44, 12, 23, 34, 45, 12, 25, 34, 47});
  }
}

TEST_CASE("random items agree with the unpartitioned graph for any number of threads", "[cpu]") {
  for (const int threads : {1, 2, 5}) {
    HostRun run(AddingLoop(", num_partitions=2", "constant(100)", ", sharding={devices=[2]0,1}"));
    run.options.threads = threads;
    run.options.verify = true;
    auto emulation = run.Run();
    REQUIRE(emulation);
    REQUIRE(emulation->report.verify);
    CHECK(emulation->report.verify->ok);
    CHECK(emulation->report.verify->max_abs_error == 0);
  }
}

TEST_CASE("a feed without enough items is a deadlock at its instruction", "[cpu]") {
  HostRun run(AddingLoop("", "constant(3)"), {{"feed", F32({2, 4}, Floats(8, 1))}});
  const auto emulation = run.Run();
  REQUIRE_FALSE(emulation);
  CHECK(emulation.error().code == "E-RUN-HOST");
  CHECK(emulation.error().message ==
        "deadlock: infeed feed waits for more items than the 2 of the file");
  CHECK(Render(emulation.error()).find("test.hlo:13:3") != std::string::npos);
}

// Counts to where the carried number is, which no analysis knows.
std::string CountingLoop(const std::string& limit) {
  return R"(HloModule m
cond {
  p = (f32[], token[]) parameter(0)
  x = f32[] get-tuple-element(p), index=0
  n = f32[] constant()" +
         limit + R"()
  ROOT go = pred[] compare(x, n), direction=LT
}
body {
  p = (f32[], token[]) parameter(0)
  x = f32[] get-tuple-element(p), index=0
  t = token[] get-tuple-element(p), index=1
  f = (f32[], token[]) infeed(t)
  d = f32[] get-tuple-element(f), index=0
  next = f32[] add(x, d)
  q = token[] outfeed(next, t), outfeed_shape=f32[]
  ROOT r = (f32[], token[]) tuple(next, q)
}
ENTRY e {
  x = f32[] parameter(0)
  k = token[] after-all()
  init = (f32[], token[]) tuple(x, k)
  w = (f32[], token[]) while(init), condition=cond, body=body
  ROOT o = f32[] get-tuple-element(w), index=0
}
)";
}

TEST_CASE("loops of unknown length feed the host all their items", "[cpu]") {
  HostRun run(CountingLoop("1000"), {{"x", F32({}, {0})}, {"f", F32({1200}, Floats(1200, 1))}});
  CHECK(run.Values("o0") == Floats{1000});
  const Floats fed = run.Values("o1");
  REQUIRE(fed.size() == 1000);
  for (size_t i = 0; i < fed.size(); ++i) CHECK(fed[i] == static_cast<float>(i + 1));
}

TEST_CASE("a loop of unknown length ends when its feed is empty", "[cpu]") {
  HostRun run(CountingLoop("1e30"), {{"x", F32({}, {0})}, {"f", F32({5}, Floats(5, 1))}});
  const auto emulation = run.Run();
  REQUIRE_FALSE(emulation);
  CHECK(emulation.error().code == "E-RUN-HOST");
}

TEST_CASE("each device takes the items of its own turns", "[cpu]") {
  // Device d turns d times, and takes an item in odd turns.
  const std::string text = R"(HloModule m, num_partitions=4
cond {
  p = (s32[], f32[], token[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  id = u32[] partition-id()
  n = s32[] convert(id)
  ROOT go = pred[] compare(i, n), direction=LT
}
take {
  p = (f32[], token[]) parameter(0)
  t = token[] get-tuple-element(p), index=1
  feed = (f32[], token[]) infeed(t)
  ROOT x = f32[] get-tuple-element(feed), index=0
}
keep {
  p = (f32[], token[]) parameter(0)
  ROOT x = f32[] get-tuple-element(p), index=0
}
body {
  p = (s32[], f32[], token[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  x = f32[] get-tuple-element(p), index=1
  t = token[] get-tuple-element(p), index=2
  one = s32[] constant(1)
  bit = s32[] and(i, one)
  odd = pred[] compare(bit, one), direction=EQ
  a = (f32[], token[]) tuple(x, t)
  y = f32[] conditional(odd, a, a), true_computation=take, false_computation=keep
  q = token[] outfeed(y, t), outfeed_shape=f32[]
  i1 = s32[] add(i, one)
  ROOT r = (s32[], f32[], token[]) tuple(i1, y, q)
}
ENTRY e {
  x = f32[] parameter(0)
  k = token[] after-all()
  zero = s32[] constant(0)
  init = (s32[], f32[], token[]) tuple(zero, x, k)
  w = (s32[], f32[], token[]) while(init), condition=cond, body=body
  ROOT o = f32[] get-tuple-element(w), index=1
}
)";
  // One feed for all, then one for each device.
  for (const bool own : {false, true}) {
    HostRun run(text,
                {{"x", F32({}, {7})},
                 {"feed", own ? F32({4, 2}, {0, 1, 10, 11, 20, 21, 30, 31}) : F32({2}, {5, 6})}});
    run.options.partitioned = true;
    CHECK(run.Values("o0") == (own ? Floats{7, 7, 20, 30} : Floats{7, 7, 5, 5}));
    const NpyArray fed = run.Output("o1");
    CHECK(fed.dims == std::vector<int64_t>{4, 3});
    CHECK(ValuesOf<float>(fed.data) == (own ? Floats{0, 0, 0, 7, 0, 0, 7, 20, 0, 7, 30, 30}
                                            : Floats{0, 0, 0, 7, 0, 0, 7, 5, 0, 7, 5, 5}));
  }
}

TEST_CASE("a condition may ask the host", "[cpu]") {
  HostRun run(
      R"(HloModule m
cond {
  p = (f32[], token[]) parameter(0)
  t = token[] get-tuple-element(p), index=1
  more = (pred[], token[]) infeed(t)
  ROOT go = pred[] get-tuple-element(more), index=0
}
body {
  p = (f32[], token[]) parameter(0)
  x = f32[] get-tuple-element(p), index=0
  t = token[] get-tuple-element(p), index=1
  y = f32[] add(x, x)
  ROOT r = (f32[], token[]) tuple(y, t)
}
ENTRY e {
  x = f32[] parameter(0)
  k = token[] after-all()
  init = (f32[], token[]) tuple(x, k)
  w = (f32[], token[]) while(init), condition=cond, body=body
  ROOT o = f32[] get-tuple-element(w), index=0
}
)",
      {{"x", F32({}, {1})}, {"more", {DType::kPred, {5}, BytesOf<uint8_t>({1, 1, 1, 0, 1})}}});
  CHECK(run.Values("o0") == Floats{8});
}

TEST_CASE("host sends and receives in calls and asynchronous computations", "[cpu]") {
  HostRun run(R"(HloModule m
get {
  k = token[] parameter(0)
  feed = ((f32[], f32[2]), token[]) infeed(k)
  ROOT both = (f32[], f32[2]) get-tuple-element(feed), index=0
}
cond {
  p = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(2)
  ROOT go = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[2]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  v = f32[2] get-tuple-element(p), index=1
  k = token[] after-all()
  start = ((token[]), (f32[], f32[2]), u32[]) async-start(k), calls=get
  update = ((token[]), (f32[], f32[2]), u32[]) async-update(start)
  both = (f32[], f32[2]) async-done(update)
  scale = f32[] get-tuple-element(both), index=0
  shift = f32[2] get-tuple-element(both), index=1
  r = (f32[2], u32[], token[]) recv(k), channel_id=3, is_host_transfer=true
  rd = (f32[2], token[]) recv-done(r), channel_id=3, is_host_transfer=true
  x = f32[2] get-tuple-element(rd), index=0
  scales = f32[2] broadcast(scale), dimensions={}
  product = f32[2] multiply(x, scales)
  moved = f32[2] add(product, shift)
  y = f32[2] add(v, moved)
  s = (f32[2], u32[], token[]) send(y, k), channel_id=4, is_host_transfer=true
  sd = token[] send-done(s), channel_id=4, is_host_transfer=true
  one = s32[] constant(1)
  i1 = s32[] add(i, one)
  ROOT o = (s32[], f32[2]) tuple(i1, y)
}
outer {
  x = f32[2] parameter(0)
  zero = s32[] constant(0)
  init = (s32[], f32[2]) tuple(zero, x)
  w = (s32[], f32[2]) while(init), condition=cond, body=body
  ROOT r = f32[2] get-tuple-element(w), index=1
}
ENTRY e {
  x = f32[2] parameter(0)
  ROOT a = f32[2] call(x), to_apply=outer
}
)",
              {{"p0", F32({2}, {100, 200})},
               {"p1", F32({2}, {2, 3})},                 // scale
               {"p2", F32({2, 2}, {1, 1, 0, 5})},        // shift
               {"p3", F32({2, 2}, {10, 20, 30, 40})}});  // received
  CHECK(run.Values("o1") == Floats{121, 241, 211, 366});
  CHECK(run.Values("o0") == Floats{211, 366});
}

TEST_CASE("devices of a manual region feed the host each its own", "[cpu]") {
  HostRun run(R"(HloModule m, num_partitions=2
cond { p = (s32[], f32[1,2], token[]) parameter(0), sharding={{manual},{manual},{manual}}
  i = s32[] get-tuple-element(p), index=0, sharding={manual}
  n = s32[] constant(2), sharding={manual}
  ROOT lt = pred[] compare(i, n), direction=LT, sharding={manual} }
body { p = (s32[], f32[1,2], token[]) parameter(0), sharding={{manual},{manual},{manual}}
  i = s32[] get-tuple-element(p), index=0, sharding={manual}
  acc = f32[1,2] get-tuple-element(p), index=1, sharding={manual}
  t = token[] get-tuple-element(p), index=2, sharding={manual}
  in = (f32[1,2], token[]) infeed(t), sharding={{manual},{manual}}
  x = f32[1,2] get-tuple-element(in), index=0, sharding={manual}
  t1 = token[] get-tuple-element(in), index=1, sharding={manual}
  acc2 = f32[1,2] add(acc, x), sharding={manual}
  t2 = token[] outfeed(acc2, t1), outfeed_shape=f32[1,2], sharding={manual}
  one = s32[] constant(1), sharding={manual}
  i1 = s32[] add(i, one), sharding={manual}
  ROOT r = (s32[], f32[1,2], token[]) tuple(i1, acc2, t2), sharding={{manual},{manual},{manual}} }
ENTRY e {
  x = f32[2,2] parameter(0), sharding={devices=[2,1]0,1}
  c = f32[2,2] custom-call(x), custom_call_target="Sharding", sharding={devices=[2,1]0,1}
  m = f32[1,2] custom-call(c), custom_call_target="SPMDFullToShardShape", sharding={manual}
  k = token[] after-all(), sharding={manual}
  z = s32[] constant(0), sharding={manual}
  init = (s32[], f32[1,2], token[]) tuple(z, m, k), sharding={{manual},{manual},{manual}}
  w = (s32[], f32[1,2], token[]) while(init), condition=cond, body=body, sharding={{manual},{manual},{manual}}
  o = f32[1,2] get-tuple-element(w), index=1, sharding={manual}
  oc = f32[1,2] custom-call(o), custom_call_target="Sharding", sharding={manual}
  ROOT q = f32[2,2] custom-call(oc), custom_call_target="SPMDShardToFullShape", sharding={devices=[2,1]0,1}
}
)",
              {{"x", F32({2, 2}, {1, 2, 3, 4})}, {"in", F32({2, 1, 2}, {10, 20, 100, 200})}});
  run.options.verify = true;
  CHECK(run.Values("o0") == Floats{111, 222, 113, 224});
  const NpyArray fed = run.Output("o1");
  CHECK(fed.dims == std::vector<int64_t>{2, 2, 1, 2});
  CHECK(ValuesOf<float>(fed.data) == Floats{11, 22, 111, 222, 13, 24, 113, 224});
}

}  // namespace
}  // namespace gshard::cpu
