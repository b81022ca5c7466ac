// Peaks by hand, in arrays of 4 KiB.
#include "core/cost/memory/peak_memory.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <string>
#include <vector>

#include "core/cost/memory/minor_dims.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

int64_t SumOfRows(const MemoryReport& report) {
  return std::accumulate(report.at_peak.begin(), report.at_peak.end(), int64_t{0},
                         [](int64_t sum, const LiveBuffer& row) { return sum + row.bytes; });
}

// Of a program with 4 KiB arrays: the peak in such arrays. Checks that rows and curve agree with
// it.
int64_t PeakInArrays(const std::string& header, const std::string& body,
                     const std::string& computations = "") {
  auto module = Parsed("HloModule m" + header + "\n" + computations + "\nENTRY e {\n" + body + "}");
  MemoryReport report = PeakMemory(*module);
  CHECK(SumOfRows(report) == report.peak_bytes);
  int64_t highest = 0;
  for (const MemoryPoint& point : report.curve) {
    highest =
        std::max(highest, std::accumulate(point.bytes.begin(), point.bytes.end(), int64_t{0}));
    CHECK(*std::min_element(point.bytes.begin(), point.bytes.end()) >= 0);
  }
  CHECK(highest == report.peak_bytes);
  return report.peak_bytes / 4096;  // scalars and predicates do not count
}

TEST_CASE("Results take over operands that die where each element is read at its own place",
          "[cost][memory]") {
  // x, and the sorted array in which the root is computed.
  CHECK(PeakInArrays("", R"(
  x = f32[1024] parameter(0)
  y = f32[1024] reverse(x), dimensions={0}
  ROOT r = f32[1024] negate(y)
)") == 2);
  // A reversal reads other elements: it needs an array of its own.
  CHECK(PeakInArrays("", R"(
  x = f32[1024] parameter(0)
  y = f32[1024] reverse(x), dimensions={0}
  ROOT r = f32[1024] reverse(y), dimensions={0}
)") == 3);
}

TEST_CASE("Only donated arguments are overwritten", "[cost][memory]") {
  const char* const kNegate = R"(
  x = f32[1024] parameter(0)
  ROOT r = f32[1024] negate(x)
)";
  CHECK(PeakInArrays("", kNegate) == 2);
  CHECK(PeakInArrays(", input_output_alias={ {}: (0, {}, may-alias) }", kNegate) == 1);
  CHECK(PeakInArrays(", buffer_donor={ (0, {}) }", kNegate) == 1);
  // Donated, but read while the result is computed: the result is copied there at the end.
  const char* const kReverse = R"(
  x = f32[1024] parameter(0)
  ROOT r = f32[1024] reverse(x), dimensions={0}
)";
  CHECK(PeakInArrays(", input_output_alias={ {}: (0, {}, may-alias) }", kReverse) == 2);
}

TEST_CASE("Every result has memory of its own", "[cost][memory]") {
  CHECK(PeakInArrays("", R"(
  x = f32[1024] parameter(0)
  ROOT r = (f32[1024], f32[1024]) tuple(x, x)
)") == 3);
  CHECK(PeakInArrays("", R"(
  x = f32[1024] parameter(0)
  y = f32[1024] reverse(x), dimensions={0}
  ROOT r = (f32[1024], f32[1024]) tuple(y, y)
)") == 3);
}

TEST_CASE("The schedule runs what frees memory first and makes cheap values late",
          "[cost][memory]") {
  // Text order holds a, b, c and d at once; x and three arrays are enough.
  CHECK(PeakInArrays("", R"(
  x = f32[1024] parameter(0)
  a = f32[1024] reverse(x), dimensions={0}
  b = f32[1024] sine(a)
  s = f32[1024] reverse(b), dimensions={0}
  c = f32[1024] cosine(a)
  t = f32[1024] reverse(c), dimensions={0}
  ROOT r = f32[1024] add(s, t)
)") == 4);
  // A scheduled text is taken as it is.
  const char* const kEarly = R"(
  x = f32[1024] parameter(0)
  z = f32[1024] iota(), iota_dimension=0
  a = f32[1024] reverse(x), dimensions={0}
  b = f32[1024] reverse(a), dimensions={0}
  c = f32[1024] reverse(b), dimensions={0}
  ROOT r = (f32[1024], f32[1024]) tuple(c, z)
)";
  CHECK(PeakInArrays(", is_scheduled=true", kEarly) == 4);
  CHECK(PeakInArrays("", kEarly) == 3);
}

const char* const kLoop = R"(
condition {
  p = (s32[], f32[1024], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  n = s32[] constant(8)
  ROOT less = pred[] compare(i, n), direction=LT
}
body {
  p = (s32[], f32[1024], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  a = f32[1024] get-tuple-element(p), index=1
  w = f32[1024] get-tuple-element(p), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  b = f32[1024] reverse(a), dimensions={0}
  c = f32[1024] multiply(b, w)
  ROOT t = (s32[], f32[1024], f32[1024]) tuple(next, c, w)
}
)";

TEST_CASE("Loops carry what they change in memory of their own", "[cost][memory]") {
  // w stays where it is, x is copied to the carry (the result), b is a temporary of the body.
  CHECK(PeakInArrays("", R"(
  x = f32[1024] parameter(0)
  w = f32[1024] parameter(1)
  z = s32[] constant(0)
  t = (s32[], f32[1024], f32[1024]) tuple(z, x, w)
  l = (s32[], f32[1024], f32[1024]) while(t), condition=condition, body=body
  ROOT r = f32[1024] get-tuple-element(l), index=1
)",
                     kLoop) == 4);
  // An invariant and a carry that start from one argument: one copy.
  CHECK(PeakInArrays("", R"(
  x = f32[1024] parameter(0)
  z = s32[] constant(0)
  t = (s32[], f32[1024], f32[1024]) tuple(z, x, x)
  l = (s32[], f32[1024], f32[1024]) while(t), condition=condition, body=body
  ROOT r = f32[1024] get-tuple-element(l), index=1
)",
                     kLoop) == 3);
}

TEST_CASE("A conditional needs what its hungriest branch needs", "[cost][memory]") {
  CHECK(PeakInArrays("", R"(
  x = f32[1024] parameter(0)
  p = pred[] parameter(1)
  ROOT r = f32[1024] conditional(p, x, x), true_computation=small, false_computation=large
)",
                     R"(
small {
  x = f32[1024] parameter(0)
  ROOT y = f32[1024] negate(x)
}
large {
  x = f32[1024] parameter(0)
  a = f32[1024] reverse(x), dimensions={0}
  b = f32[1024] reverse(a), dimensions={0}
  ROOT y = f32[1024] reverse(b), dimensions={0}
}
)") == 3);
}

// A loop that carries `a` and reads `x`; `make` gives a new value of `a`, other branches pass it
// on.
std::string LoopWithBranches(const std::string& make) {
  return R"(
make {
  s = (f32[1024], f32[1024]) parameter(0)
  a = f32[1024] get-tuple-element(s), index=0
  x = f32[1024] get-tuple-element(s), index=1
)" + make +
         R"(}
keep { ROOT a = f32[1024] parameter(0) }
condition {
  t = (s32[], f32[1024], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  n = s32[] constant(9)
  ROOT c = pred[] compare(i, n), direction=LT
}
body {
  t = (s32[], f32[1024], f32[1024]) parameter(0)
  i = s32[] get-tuple-element(t), index=0
  a = f32[1024] get-tuple-element(t), index=1
  x = f32[1024] get-tuple-element(t), index=2
  one = s32[] constant(1)
  next = s32[] add(i, one)
  s = (f32[1024], f32[1024]) tuple(a, x)
  b = f32[1024] conditional(i, s, a, a), branch_computations={make, keep, keep}
  ROOT r = (s32[], f32[1024], f32[1024]) tuple(next, b, x)
}
)";
}

TEST_CASE("What a branch computes lies where the other branches leave it", "[cost][memory]") {
  const char* const kEntry = R"(
  x = f32[1024] parameter(0)
  zero = s32[] constant(0)
  start = f32[1024] reverse(x), dimensions={0}
  t = (s32[], f32[1024], f32[1024]) tuple(zero, start, x)
  l = (s32[], f32[1024], f32[1024]) while(t), condition=condition, body=body
  ROOT r = f32[1024] get-tuple-element(l), index=1
)";
  // x and a: TPU compilers need no third array, however many branches pass a on.
  CHECK(PeakInArrays("", kEntry,
                     LoopWithBranches("  ROOT b = f32[1024] reverse(x), dimensions={0}\n")) == 2);
  // The old value is read while the new one is computed.
  CHECK(PeakInArrays("", kEntry,
                     LoopWithBranches("  ROOT b = f32[1024] reverse(a), dimensions={0}\n")) == 3);
  // Here it is no longer read by then: x, a and y.
  CHECK(PeakInArrays("", kEntry, LoopWithBranches(R"(  y = f32[1024] reverse(a), dimensions={0}
  ROOT b = f32[1024] reverse(y), dimensions={0}
)")) == 3);
  // A branch that needs more than its result: x, a, and the sorted array on the way to b.
  CHECK(PeakInArrays("", kEntry, LoopWithBranches(R"(  y = f32[1024] reverse(x), dimensions={0}
  z = f32[1024] reverse(y), dimensions={0}
  ROOT b = f32[1024] reverse(z), dimensions={0}
)")) == 4);
}

TEST_CASE("A branch that two conditionals run has one place for its result", "[cost][memory]") {
  // The second result may not lie in the argument, which was not donated: so the branch has memory
  // of its own for its result, beside y.
  const std::string computations = R"(
make {
  x = f32[1024] parameter(0)
  y = f32[1024] reverse(x), dimensions={0}
  ROOT b = f32[1024] reverse(y), dimensions={0}
}
keep { ROOT a = f32[1024] parameter(0) }
)";
  CHECK(PeakInArrays(", input_output_alias={ {0}: (1, {}, may-alias) }", R"(
  x = f32[1024] parameter(0)
  a = f32[1024] parameter(1)
  c = f32[1024] parameter(2)
  i = s32[] parameter(3)
  b = f32[1024] conditional(i, x, a), branch_computations={make, keep}
  d = f32[1024] conditional(i, x, c), branch_computations={make, keep}
  ROOT r = (f32[1024], f32[1024]) tuple(b, d)
)",
                     computations) == 5);
}

TEST_CASE("Host memory is not the device's", "[cost][memory]") {
  auto module = Parsed(R"(HloModule m
ENTRY e {
  x = f32[64,16] parameter(0)
  there = f32[64,16] custom-call(x), custom_call_target="MoveToHost"
  here = f32[64,16] custom-call(there), custom_call_target="MoveToDevice"
  ROOT y = f32[64,16] negate(here)
})");
  const MemoryReport report = PeakMemory(*module);
  CHECK(report.host_peak_bytes == 4096);
  CHECK(report.peak_bytes == 2 * 4096);  // x, and what came back

  module = Parsed(R"(HloModule m
ENTRY e {
  x = f32[64,16] parameter(0)
  ROOT y = f32[64,16] negate(x)
})");
  CHECK(PeakMemory(*module).host_peak_bytes == 0);
}

TEST_CASE("Tiled layouts are padded", "[cost][memory]") {
  auto bytes = [](const std::string& type, Tiling tiling) {
    auto module = Parsed("HloModule m\nENTRY e {\n  ROOT x = " + type + " parameter(0)\n}");
    return BufferBytes(module->entry()->root()->shape(), tiling);
  };
  CHECK(bytes("f32[3,100]{1,0:T(8,128)}", Tiling::kLayout) == 8 * 128 * 4);
  CHECK(bytes("f32[3,100]{0,1:T(8,128)}", Tiling::kLayout) == 104 * 128 * 4);
  CHECK(bytes("bf16[5,3,100]{2,1,0:T(8,128)(2,1)}", Tiling::kLayout) == 5 * 8 * 128 * 2);
  CHECK(bytes("f32[3,100]{1,0:T(8,128)}", Tiling::kDense) == 1200);
  CHECK(bytes("f32[3,100]", Tiling::kLayout) == 1200);
  CHECK(bytes("f32[3,100]", Tiling::kTpu) == 4 * 128 * 4);
  CHECK(bytes("f32[128,2]", Tiling::kTpu) == 2 * 128 * 4);
  CHECK(bytes("f32[128,1]", Tiling::kTpu) == 1 * 128 * 4);
  CHECK(bytes("f32[128,1]", Tiling::kTpuV3) == 2 * 128 * 4);
  CHECK(bytes("bf16[128,1]", Tiling::kTpu) == 2 * 128 * 2);
  CHECK(bytes("bf16[128,2]", Tiling::kTpuV3) == 4 * 128 * 2);
  CHECK(bytes("pred[128,1]", Tiling::kTpu) == 4 * 128);
  CHECK(bytes("f32[64,16]", Tiling::kTpu) == 16 * 128 * 4);
  CHECK(bytes("f32[100]", Tiling::kTpu) == 128 * 4);
  CHECK(bytes("f32[]", Tiling::kTpu) == 4);
  CHECK(bytes("f32[64,16]{1,0:S(5)}", Tiling::kLayout) == 64 * 16 * 4);
}

// "v=BYTES" of what the entry makes, on a TPU, for values whose padding the order of dims decides.
std::string TpuBytes(const std::string& body, const std::vector<std::string>& names) {
  auto module = Parsed(
      "HloModule m\nadd { l0 = f32[] parameter(0) l1 = f32[] parameter(1) ROOT c = f32[] add(l0, "
      "l1) }\nENTRY e {\n" +
      body + "}");
  const Users users(*module);
  const ComputationMinorDims minor(*module->entry(), users);
  std::string text;
  for (const std::string& name : names) {
    for (const Instruction* x : module->entry()->instructions()) {
      if (x->name() != name) continue;
      const int64_t bytes = BufferBytes(x->shape(), Tiling::kTpu, minor.Of(x));
      text += (text.empty() ? "" : " ") + name + "=" + std::to_string(bytes);
    }
  }
  return text;
}

TEST_CASE("Rows that gathers and scatters address lie along the lanes", "[cost][memory]") {
  // 16 numbers a row take 128; the table, an argument, and what is added up elsewhere do not.
  CHECK(TpuBytes(R"(
  table = f32[1024,16] parameter(0)
  ids = s32[256,1] parameter(1)
  made = f32[1024,16] negate(table)
  rows = f32[256,16] gather(made, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,16}
  zero = f32[] constant(0)
  zeros = f32[1024,16] broadcast(zero), dimensions={}
  sums = f32[1024,16] scatter(zeros, ids, rows), to_apply=add, update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1
  ROOT next = f32[1024,16] add(table, sums))",
                 {"table", "made", "rows", "sums", "next"}) ==
        "table=65536 made=524288 rows=131072 sums=524288 next=65536");
  // Slices of two dims lie in either order: 16 of the sublanes pad nothing.
  CHECK(TpuBytes(R"(
  adapters = f32[8,512,16] parameter(0)
  ids = s32[64,1] parameter(1)
  ROOT taken = f32[64,512,16] gather(adapters, ids), offset_dims={1,2}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,512,16})",
                 {"taken"}) == "taken=2097152");
}

TEST_CASE("Batch dims of products and spatial dims of convolutions are major", "[cost][memory]") {
  // 27 of the lanes, 16 of the sublanes; a slice keeps the order, in which 1 takes 128.
  CHECK(TpuBytes(R"(
  x = f32[512,27,16] parameter(0)
  z = f32[512,27,16] negate(x)
  p = f32[512,27,27] dot(z, z), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  ROOT s = f32[512,1,16] slice(z), slice={[0:512], [3:4], [0:16]})",
                 {"x", "z", "p", "s"}) == "x=884736 z=4194304 p=8388608 s=4194304");
  // Examples and features are minor: 24 features on the sublanes, 64 examples on the lanes.
  CHECK(TpuBytes(R"(
  x = bf16[64,16,16,24] parameter(0)
  w = bf16[3,3,24,24] parameter(1)
  y = bf16[64,16,16,24] convolution(x, w), window={size=3x3 pad=1_1x1_1}, dim_labels=b01f_01io->b01f
  ROOT z = bf16[64,16,16,24] negate(y))",
                 {"y", "z"}) == "y=1572864 z=1572864");
}

}  // namespace
}  // namespace gshard
