// What single kernels take: tiles of matrix units, vector operations of TPUs.

#include "core/cost/kernel_time.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/cost/cost_report.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// At the rates of single kernels.
double SecondsOf(const std::string& root, const std::string& parameters,
                 std::string_view name = "tpu-v5e") {
  auto module =
      Parsed(fmt::format("HloModule m\nENTRY e {{\n{}  ROOT r = {}\n}}", parameters, root));
  Chip chip = *BuiltInChip(name);
  for (Chip::StackRates& stack : chip.stacks) stack.sustained = 1;
  return EstimateCost(*module, chip, {})->step_time_s;
}

// 32 images of 56 x 56 positions, a window of `size` x `size`.
double ConvolutionSeconds(int64_t from, int64_t to, int64_t size, int64_t groups) {
  const std::string parameters =
      fmt::format("  x = bf16[32,56,56,{}] parameter(0)\n  w = bf16[{},{},{},{}] parameter(1)\n",
                  from, size, size, from / groups, to);
  const std::string root = fmt::format(
      "bf16[32,56,56,{}] convolution(x, w), window={{size={}x{} pad={}_{}x{}_{}}}, "
      "dim_labels=b01f_01io->b01f, feature_group_count={}",
      to, size, size, size / 2, size / 2, size / 2, size / 2, groups);
  return SecondsOf(root, parameters);
}

}  // namespace

// XLA's compiler for v5e estimates 109 us for 64 features to 64, 163 us for 96 to 96 and for 128
// to 128, 159 us for 128 to 32.
TEST_CASE("Features of a TPU's convolution take whole tiles, row of the window by row", "[cost]") {
  const double whole = ConvolutionSeconds(128, 128, 3, 1);
  CHECK(whole == Approx(163e-6).epsilon(0.1));
  CHECK(ConvolutionSeconds(128, 32, 3, 1) == Approx(whole));
  CHECK(ConvolutionSeconds(96, 96, 3, 1) == Approx(whole));
  CHECK(ConvolutionSeconds(64, 64, 3, 1) == Approx(whole * 2 / 3).epsilon(0.01));
}

// The compiler estimates 430 us for 5 x 5 positions of 128 features, and half of that in a network.
TEST_CASE("A multiply-add of a TPU's depthwise convolution takes one to two cycles", "[cost]") {
  const double narrow = ConvolutionSeconds(64, 64, 5, 64),
               whole = ConvolutionSeconds(128, 128, 5, 128);
  CHECK(whole > 215e-6);
  CHECK(whole < 430e-6);
  CHECK(narrow == Approx(whole));
  CHECK(ConvolutionSeconds(128, 128, 7, 128) > 1.8 * whole);
}

// Four of 16,777,216 elements take a v5e 1.69 ms by its compiler, as many exponentials 0.2 ms.
TEST_CASE("A TPU brings arguments of sines into one period", "[cost]") {
  const auto four = [](std::string_view op, std::string_view chip) {
    return SecondsOf(fmt::format("f32[8192,2048] {}(c)", op),
                     fmt::format("  x = f32[8192,2048] parameter(0)\n"
                                 "  a = f32[8192,2048] {0}(x)\n  b = f32[8192,2048] {0}(a)\n"
                                 "  c = f32[8192,2048] {0}(b)\n",
                                 op),
                     chip);
  };
  CHECK(four("sine", "tpu-v5e") == Approx(1.69e-3).epsilon(0.1));
  CHECK(four("cosine", "tpu-v5e") == Approx(four("sine", "tpu-v5e")));
  CHECK(four("exponential", "tpu-v5e") < 0.25e-3);
  CHECK(four("sine", "h100") == Approx(four("exponential", "h100")));
}

TEST_CASE("A top-k takes as long as a call as it does as an operation", "[cost]") {
  const std::string x = "  x = f32[1024,32768] parameter(0)\n";
  const std::string shape = "(f32[1024,40], s32[1024,40]) ";
  const double operation = SecondsOf(shape + "topk(x), k=40, largest=true", x);
  CHECK(SecondsOf(shape + "custom-call(x), custom_call_target=\"TopK\"", x) ==
        Approx(operation).epsilon(0.01));
  CHECK(operation > 5e-3);
  // Rows of another rank are no rows of it: read and written, as any call.
  CHECK(SecondsOf("(f32[40], s32[40]) custom-call(x), custom_call_target=\"TopK\"", x) < 1e-3);
}

}  // namespace gshard
