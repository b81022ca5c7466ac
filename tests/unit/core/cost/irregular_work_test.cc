// Sorts, top-k, gathers, scatters and copies behind loops: what they take beyond their bytes.

#include "core/cost/irregular_work.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/analysis/indexed_dims.h"
#include "core/cost/cost_report.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// A sort of `operands` arrays of f32[rows,n] by the first; positions are the last operand if
// wanted.
std::string Sort(int64_t rows, int64_t n, bool is_stable, bool has_positions) {
  const std::string keys = fmt::format("f32[{},{}]", rows, n);
  const std::string positions = fmt::format("s32[{},{}]", rows, n);
  const std::string parameters =
      has_positions ? "  c = s32[] parameter(2)\n  d = s32[] parameter(3)\n" : "";
  const std::string shape = has_positions ? "(" + keys + ", " + positions + ")" : keys;
  return "HloModule m\nless {\n  a = f32[] parameter(0)\n  b = f32[] parameter(1)\n" + parameters +
         "  ROOT r = pred[] compare(a, b), direction=LT\n}\nENTRY e {\n  x = " + keys +
         " parameter(0)\n" +
         (has_positions ? "  i = " + positions + " iota(), iota_dimension=1\n" : "") +
         "  ROOT s = " + shape + " sort(x" + (has_positions ? ", i" : "") +
         "), dimensions={1}, to_apply=less" + (is_stable ? ", is_stable=true" : "") + "\n}\n";
}

SortWork WorkOfRoot(const std::string& text) {
  auto module = Parsed(text);
  return SortWorkOf(*module->entry()->root());
}

double StepOf(const std::string& text, std::string_view chip) {
  auto module = Parsed(text);
  return EstimateCost(*module, *BuiltInChip(chip), {})->step_time_s;
}

TEST_CASE("A stable sort compares positions last, once", "[cost]") {
  CHECK(WorkOfRoot(Sort(8, 1024, false, false)).operands == 1);
  CHECK(WorkOfRoot(Sort(8, 1024, true, false)).operands == 2);
  CHECK(WorkOfRoot(Sort(8, 1024, true, true)).operands == 2);
  CHECK(WorkOfRoot(Sort(8, 1024, true, true)).key_bytes == 4);
  CHECK(WorkOfRoot(Sort(8, 1024, true, true)).element_bytes == 8);
}

TEST_CASE("A network has log2 (log2 + 1) / 2 stages over a power of two", "[cost]") {
  const double one = SortOperations({.elements = 2, .length = 2});
  CHECK(SortOperations({.elements = 1024, .length = 1024}) == Approx(one / 2 * 1024 * 55));
  CHECK(SortOperations({.elements = 600, .length = 600}) == Approx(one / 2 * 1024 * 55));
  CHECK(SortOperations({.elements = 64, .length = 1}) == 0);
}

TEST_CASE("A top-k of long rows is never dearer than sorting them", "[cost]") {
  const SortWork sort{.elements = 1 << 20, .length = 1 << 17, .operands = 2};
  SortWork few = sort, many = sort;
  few.largest = 8;
  many.largest = 10000;
  CHECK(SortOperations(few) < SortOperations(sort) / 10);
  CHECK(SortOperations(many) == SortOperations(sort));
  CHECK(RadixPasses(few) == 0);
}

TEST_CASE("Radix passes read and write everything for each byte of the key", "[cost]") {
  const SortWork sort{
      .elements = 1 << 20, .length = 1 << 20, .operands = 1, .key_bytes = 4, .element_bytes = 4};
  CHECK(RadixBytes(sort) + 2 * 4 * sort.elements == Approx((4 + 4 * 8) * sort.elements));
  SortWork rows = sort;
  rows.length = 1024;
  CHECK(RadixBytes(rows) == 0);
}

TEST_CASE("Sorts take longer than their bytes on TPUs and GPUs", "[cost]") {
  const std::string text = Sort(4096, 4096, true, false);
  // XLA's instructions for v5e: 5.07 ms; the bytes alone 0.2 ms.
  CHECK(StepOf(text, "tpu-v5e") > 3.4e-3);
  CHECK(StepOf(text, "tpu-v5e") < 7.6e-3);
  const std::string line = Sort(1, 1 << 24, false, false);
  const double once = 2 * 4 * (1 << 24) / BuiltInChip("h100")->hbm_bytes_per_s;
  CHECK(StepOf(line, "h100") > 4 * once);
  CHECK(StepOf(Sort(1 << 14, 1 << 10, false, false), "h100") > 4 * once);
}

TEST_CASE("A TPU's transforms are products by factors of 128", "[cost]") {
  auto factors = [](int64_t length) {
    auto module = Parsed(fmt::format(
        "HloModule m\nENTRY e {{\n  x = c64[64,{0}] parameter(0)\n  ROOT f = c64[64,{0}] fft(x), "
        "fft_type=FFT, fft_length={{{0}}}\n}}\n",
        length));
    return FftWorkOf(*module->entry()->root()).factors;
  };
  CHECK(factors(4096) == std::vector<double>{128, 32});
  CHECK(factors(128) == std::vector<double>{128});
  CHECK(factors(16384) == std::vector<double>{128, 128});
  CHECK(factors(1000) == std::vector<double>{1000});
  CHECK(factors(1).empty());
}

TEST_CASE("Columns of a factorisation follow one another on a TPU", "[cost]") {
  auto text = [](const char* call, int64_t batch, int64_t n) {
    const std::string matrix = fmt::format("f32[{0},{1},{1}]", batch, n);
    return "HloModule m\nENTRY e {\n  x = " + matrix + " parameter(0)\n  ROOT r = " + matrix + " " +
           call + "\n}\n";
  };
  const std::string cholesky = "cholesky(x), lower=true";
  // XLA's instructions for v5e: 1.24 ms for 256 of 128 x 128.
  const double many = StepOf(text(cholesky.c_str(), 256, 128), "tpu-v5e");
  CHECK(many > 1.0e-3);
  CHECK(many < 1.6e-3);
  // A sweep of 64 of 32 x 32 takes 0.23 ms there, one of 256 x 256 0.12 ms.
  const char* eigh = "custom-call(x), custom_call_target=\"Eigh\"";
  CHECK(StepOf(text(eigh, 64, 32), "tpu-v5e") > 3 * 0.226e-3);
  CHECK(StepOf(text(eigh, 1, 256), "tpu-v5e") > 3 * 0.116e-3);
  CHECK(StepOf(text(eigh, 1, 256), "tpu-v5e") < 12 * 0.116e-3);
}

TEST_CASE("A TPU's gathers take time for each slice, whatever its bytes", "[cost]") {
  const std::string text = R"(HloModule m
ENTRY e {
  table = f32[1000000] parameter(0)
  i = s32[262144,1] parameter(1)
  ROOT g = f32[262144] gather(table, i), offset_dims={}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1}
})";
  auto module = Parsed(text);
  CHECK(IndexedSlices(*module->entry()->root()) == 262144);
  const Chip chip = *BuiltInChip("tpu-v5e");
  CHECK(StepOf(text, "tpu-v5e") >= 262144 * chip.indexed_slice_s);
  // Rows that take longer to read than to address cost what they did.
  const std::string rows = R"(HloModule m
ENTRY e {
  table = f32[100000,8192] parameter(0)
  i = s32[4096,1] parameter(1)
  ROOT g = f32[4096,8192] gather(table, i), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,8192}
})";
  CHECK(StepOf(rows, "tpu-v5e") < 2 * 4096 * 8192 * 8 / chip.hbm_bytes_per_s);
}

// A loop over layers that reads f32[4,256] of caches, `header` saying what is donated. The new ones
// are stacked beside them, or written in place of them.
double CopiedBehindScan(std::string_view header, bool in_place) {
  auto module = Parsed(fmt::format(R"(HloModule m{}
condition {{
  s = (s32[], f32[4,256], f32[4,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT less = pred[] compare(i, n), direction=LT
}}
body {{
  s = (s32[], f32[4,256], f32[4,256]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  zero = s32[] constant(0)
  next = s32[] add(i, one)
  old = f32[4,256] get-tuple-element(s), index=1
  made = f32[4,256] get-tuple-element(s), index=2
  row = f32[1,256] dynamic-slice(old, i, zero), dynamic_slice_sizes={{1,256}}
  twice = f32[1,256] add(row, row)
  stack = f32[4,256] dynamic-update-slice({}, twice, i, zero)
  ROOT r = (s32[], f32[4,256], f32[4,256]) tuple(next, {})
}}
ENTRY e {{
  caches = f32[4,256] parameter(0)
  start = s32[] constant(0)
  none = f32[] constant(0)
  empty = f32[4,256] broadcast(none), dimensions={{}}
  init = (s32[], f32[4,256], f32[4,256]) tuple(start, caches, empty)
  loop = (s32[], f32[4,256], f32[4,256]) while(init), condition=condition, body=body
  ROOT result = f32[4,256] get-tuple-element(loop), index={}
}}
)",
                                   header, in_place ? "old" : "made",
                                   in_place ? "stack, made" : "old, stack", in_place ? 1 : 2));
  return CopiedResultBytes(module->entry()->root()->operand(0));
}

TEST_CASE("What a loop stacks for the memory of a donated argument that it reads is copied there",
          "[cost]") {
  const std::string_view donors[] = {", input_output_alias={ {}: (0, {}) }",
                                     ", buffer_donor={ (0, {}) }"};
  for (const std::string_view donor : donors) {
    CHECK(CopiedBehindScan(donor, false) == 4 * 256 * 4);
    CHECK(CopiedBehindScan(donor, true) == 0);
  }
  CHECK(CopiedBehindScan("", false) == 0);
}

}  // namespace
}  // namespace gshard
