// Built-in chips and descriptions in JSON.

#include "core/cost/chip.h"

#include <catch2/catch.hpp>

#include "core/cost/kernel_time.h"

namespace gshard {
namespace {

TEST_CASE("Every built-in chip can be read and has what estimates need", "[chip]") {
  for (const std::string& name : BuiltInChipNames()) {
    INFO(name);
    Chip chip = *BuiltInChip(name);
    CHECK(chip.name == name);
    CHECK(chip.NominalFlops() > 1e13);
    CHECK(chip.hbm_bytes > 7e9);
    CHECK(chip.vector_flops > 0);
    CHECK_FALSE(chip.network.empty());
  }
  auto missing = BuiltInChip("tpu-v9");
  REQUIRE_FALSE(missing);
  CHECK(missing.error().code == "E-COST-001");
}

TEST_CASE("GPUs have stacks, TPUs have XLA", "[chip]") {
  Chip chip = *BuiltInChip("h100");
  CHECK(NameOf(chip.stack) == "jax");
  for (const std::string_view name : {"pytorch", "megatron", "jax"}) {
    REQUIRE(SetStack(chip, name));
    CHECK(NameOf(chip.stack) == name);
  }
  CHECK_FALSE(SetStack(chip, "mxnet"));
  Chip tpu = *BuiltInChip("tpu-v5e");
  CHECK(SetStack(tpu, "jax"));
  auto refused = SetStack(tpu, "megatron");
  REQUIRE_FALSE(refused);
  CHECK(refused.error().message == "'megatron' runs on GPUs, tpu-v5e is none");
}

TEST_CASE("A stack has rates of its own", "[chip]") {
  Chip chip = *BuiltInChip("h100");
  CHECK(chip.OfStack().attention_efficiency.limit == 0.5);
  REQUIRE(SetStack(chip, "pytorch"));
  CHECK(chip.OfStack().attention_efficiency.limit == 0.32);
  // What a file says of the chip holds for all stacks that it does not name.
  Chip mine = *ParseChip(R"({"base": "h100", "name": "mine", "attention_efficiency": {"limit": 0.6},
      "stacks": {"megatron": {"sustained": 0.5}}})",
                         "mine.json");
  REQUIRE(SetStack(mine, "pytorch"));
  CHECK(mine.OfStack().attention_efficiency.limit == 0.6);
  REQUIRE(SetStack(mine, "megatron"));
  CHECK(mine.OfStack().attention_efficiency.limit == 0.6);
  CHECK(mine.OfStack().sustained == 0.5);
}

TEST_CASE("What steps sustain slows kernels down", "[chip]") {
  Chip chip = *BuiltInChip("tpu-v5e");
  KernelWork work;
  work.bytes = 1e9;
  for (Chip::StackRates& rates : chip.stacks) rates.sustained = 0.5;
  CHECK(KernelSeconds(work, chip) == Approx(2 * RatedSeconds(work, chip)));
}

TEST_CASE("Devices are as programs count them", "[chip]") {
  CHECK(BuiltInChip("tpu-v3")->NominalFlops() == Approx(61.5e12));
  CHECK(BuiltInChip("tpu-v4")->NominalFlops() == Approx(275e12));
  CHECK(BuiltInChip("tpu-v5p")->hbm_bytes == Approx(95.73 * (1 << 30)));
  CHECK(BuiltInChip("h100")->PeakFlops(DType::kF8E4M3FN) == Approx(1979e12));
  CHECK(BuiltInChip("h100")->all_reduce_combine_bytes == 30 << 20);
  CHECK(BuiltInChip("tpu-v4")->all_reduce_combine_bytes == 0);
}

TEST_CASE("The short form of a chip file, and one that starts from a chip", "[chip]") {
  Chip mine =
      *ParseChip(R"({"name": "mine", "peak_flops": {"bf16": 1e14, "f32": 3e13}, "hbm_bytes": 1.7e10,
      "hbm_bytes_per_s": 8e11, "link_bytes_per_s": 5e10, "link_latency_s": 2e-6})",
                 "mine.json");
  CHECK(mine.PeakFlops(DType::kF32) == 3e13);
  REQUIRE(mine.network.size() == 1);
  CHECK(mine.network[0].latency_s == 2e-6);
  Chip faster =
      *ParseChip(R"({"base": "h100", "name": "faster", "hbm_bytes_per_s": 5e12})", "f.json");
  CHECK(faster.hbm_bytes_per_s == 5e12);
  CHECK(faster.network.size() == 2);
}

TEST_CASE("Descriptions that are wrong say what is", "[chip]") {
  auto message = [](const char* json) {
    auto chip = ParseChip(json, "x.json");
    REQUIRE_FALSE(chip);
    CHECK(chip.error().code == "E-COST-002");
    return chip.error().message;
  };
  CHECK(message("{").find("x.json: ") == 0);
  CHECK(message(R"({"base": "h100", "name": "x", "stacks": {"mxnet": {"sustained": 1}}})") ==
        "x.json: no stack 'mxnet': jax, pytorch or megatron");
  CHECK(message(R"({"base": "h100", "name": "x", "stacks": {"jax": {"half": 1}}})") ==
        "x.json: a stack has no field 'half'");
  CHECK(message(R"({"base": "h100", "name": "x", "sustained": 0})").find("'sustained'") !=
        std::string::npos);
  CHECK(message(R"({"base": "h100", "name": "x", "hbm_byte": 1})") ==
        "x.json: a chip has no field 'hbm_byte'");
  CHECK(message(R"({"base": "tpu-v9", "name": "x"})") == "x.json: no chip is called 'tpu-v9'");
  CHECK(message(R"({"base": "h100", "name": "x", "hbm_bytes": -1})").find("positive") !=
        std::string::npos);
  CHECK(
      message(R"({"base": "h100", "name": "x", "dot_efficiency": {"limit": 1.5}})").find("limit") !=
      std::string::npos);
  CHECK(message(R"({"base": "h100", "name": "x", "network": [{"kind": "mesh", "name": "n"}]})") ==
        "x.json: a network's kind is torus or switch, not 'mesh'");
}

MatrixWork Product(double m, double n, double k, DType dtype) {
  MatrixWork work;
  work.m = m;
  work.n = n;
  work.k = k;
  work.flops = 2 * m * n * k;
  work.dtype = dtype;
  return work;
}

double SecondsOf(const MatrixWork& product, const Chip& chip) {
  KernelWork work;
  work.work_class = WorkClass::kDot;
  work.flops = product.flops;
  work.matrix = {product};
  return KernelSeconds(work, chip);
}

TEST_CASE("Products pay for the tiles that they do not fill", "[chip][kernel]") {
  Chip chip = *BuiltInChip("tpu-v3");
  chip.launch_s = 0;
  const double full = SecondsOf(Product(1024, 1024, 1024, DType::kBF16), chip);
  CHECK(full == Approx(2.0 * 1024 * 1024 * 1024 / (0.87 * 61.5e12)));
  // A depth of 1,100 takes 9 tiles of 128; so do columns, but rows go by eights.
  CHECK(SecondsOf(Product(1024, 1024, 1100, DType::kBF16), chip) == Approx(full * 9 / 8));
  CHECK(SecondsOf(Product(1024, 1100, 1024, DType::kBF16), chip) == Approx(full * 1104 / 1024));
  Chip gpu = *BuiltInChip("h100");
  gpu.launch_s = 0;
  // 133 tiles on 132 units take two waves.
  const double wave = SecondsOf(Product(132 * 128, 128, 4096, DType::kBF16), gpu);
  CHECK(SecondsOf(Product(133 * 128, 128, 4096, DType::kBF16), gpu) == Approx(2 * wave));
}

TEST_CASE("Rates follow precision and algorithm", "[chip][kernel]") {
  Chip tpu = *BuiltInChip("tpu-v5e");
  Chip gpu = *BuiltInChip("a100-80");
  MatrixWork product = Product(512, 512, 512, DType::kF32);
  CHECK(MatrixRate(product, tpu) == Approx(197e12));
  CHECK(MatrixRate(product, gpu) == Approx(156e12));
  product.precision = Precision::kHigh;
  CHECK(MatrixRate(product, tpu) == Approx(197e12 / 3));
  product.precision = Precision::kHighest;
  CHECK(MatrixRate(product, tpu) == Approx(197e12 / 6));
  CHECK(MatrixRate(product, gpu) == Approx(19.5e12));
  product.algorithm = "dot_bf16_bf16_f32_x3";
  CHECK(MatrixRate(product, gpu) == Approx(104e12));
}

}  // namespace
}  // namespace gshard
