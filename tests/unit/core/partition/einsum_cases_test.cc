// Einsums whose cheapest plan is known: collectives and bytes received per device, worked out by
// hand (docs/partitioning.md, "Choosing a strategy"). bf16 on 8 devices, MB = 2^20 bytes.
#include <fmt/format.h>

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "core/partition/partitioner.h"
#include "ir/parser.h"

namespace gshard {
namespace {

// Collectives in order ("AG AR RS A2A CP") and the bytes they bring to a device.
struct Moved {
  std::string collectives;
  int64_t bytes = 0;
  // Of the only dot.
  std::vector<int64_t> dot_dims;
};

std::string ShortName(Opcode opcode) {
  switch (opcode) {
    case Opcode::kAllGather:
      return "AG";
    case Opcode::kAllReduce:
      return "AR";
    case Opcode::kReduceScatter:
      return "RS";
    case Opcode::kAllToAll:
      return "A2A";
    case Opcode::kCollectivePermute:
      return "CP";
    default:
      return "";
  }
}

Moved MovedBy(const std::string& lines) {
  auto module = ParseModule(
      SourceText::FromString("test", "HloModule m, num_partitions=8\nENTRY e {\n" + lines + "}\n"));
  REQUIRE(module.has_value());
  auto stats = PartitionModule(**module);
  REQUIRE(stats.has_value());
  CHECK(stats->full_rematerializations == 0);
  Moved moved;
  moved.bytes = stats->bytes_received;
  for (const Instruction* x : (*module)->entry()->instructions()) {
    if (x->opcode() == Opcode::kDot) {
      moved.dot_dims.assign(x->shape()->dims().begin(), x->shape()->dims().end());
    }
    std::string name = ShortName(x->opcode());
    if (name.empty()) continue;
    if (!moved.collectives.empty()) moved.collectives += " ";
    moved.collectives += name;
  }
  return moved;
}

struct Matrix {
  const char* shape;
  const char* sharding;
};

Moved MatrixProduct(const Matrix& lhs, const Matrix& rhs, const Matrix& out) {
  return MovedBy(fmt::format(
      "  a = {} parameter(0), sharding={{{}}}\n  b = {} parameter(1), sharding={{{}}}\n"
      "  ROOT c = {} dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}, "
      "sharding={{{}}}\n",
      lhs.shape, lhs.sharding, rhs.shape, rhs.sharding, out.shape, out.sharding));
}

constexpr int64_t kMiB = int64_t{1} << 20;
constexpr const char* kRows = "devices=[8,1]<=[8]";
constexpr const char* kColumns = "devices=[1,8]<=[8]";

TEST_CASE("Small activations move, not large weights", "[partition]") {
  // Activations are gathered (7/8 of 512 KiB), columns of the result go back to rows (7/8 of 256
  // KiB).
  Moved moved = MatrixProduct({"bf16[64,4096]", kRows}, {"bf16[4096,16384]", kColumns},
                              {"bf16[64,16384]", kRows});
  CHECK(moved.collectives == "AG A2A");
  CHECK(moved.bytes == 7 * (64 * 4096 * 2) / 8 + 7 * (64 * 2048 * 2) / 8);
}

TEST_CASE("A whole result is put together from products of an eighth", "[partition]") {
  Moved moved = MatrixProduct({"bf16[1024,1024]", kRows}, {"bf16[1024,1024]", kColumns},
                              {"bf16[1024,1024]", "replicated"});
  CHECK(moved.collectives == "AG AG");
  CHECK(moved.bytes == 2 * 7 * 2 * kMiB / 8);
  CHECK(moved.dot_dims == std::vector<int64_t>{128, 1024});
}

TEST_CASE("Contracted dims cut alike end in a reduce-scatter", "[partition]") {
  Moved moved = MatrixProduct({"bf16[1024,4096]", kColumns}, {"bf16[4096,1024]", kRows},
                              {"bf16[1024,1024]", kRows});
  CHECK(moved.collectives == "RS");
  CHECK(moved.bytes == 7 * 2 * kMiB / 8);
}

TEST_CASE("One contracted dim cut: the other operand is cut like it", "[partition]") {
  // 7/8 of an eighth of 8 MiB to exchange, 7/8 of 2 MiB to sum; gathering the first takes 7 MiB.
  Moved moved = MatrixProduct({"bf16[1024,4096]", kColumns}, {"bf16[4096,1024]", kColumns},
                              {"bf16[1024,1024]", kColumns});
  CHECK(moved.collectives == "A2A RS");
  CHECK(moved.bytes == 7 * kMiB / 8 + 7 * 2 * kMiB / 8);
}

// Activations [M x, K y], weights [K x, N y], result [M x, N y] on x = 2, y = 4.
Moved TwoDims(int64_t rows) {
  std::string act = fmt::format("bf16[{},4096]", rows);
  std::string out = fmt::format("bf16[{},16384]", rows);
  constexpr const char* kBoth = "devices=[2,4]<=[8]";
  return MatrixProduct({act.c_str(), kBoth}, {"bf16[4096,16384]", kBoth}, {out.c_str(), kBoth});
}

TEST_CASE("Weights cut in two dims: many tokens gather them, few go to them", "[partition]") {
  // 3/4 of 32 MiB of activations, half of the 32 MiB of a quarter of the weights.
  Moved many = TwoDims(8192);
  CHECK(many.collectives == "AG AG");
  CHECK(many.bytes == 24 * kMiB + 16 * kMiB);
  // The weights stay (their gather takes 16 MiB): a tile of activations (64 KiB) changes place, so
  // that gathers (64 and 128 KiB) end in all rows of the half of the contracted dim that x has;
  // half of 512 KiB of products is summed.
  Moved few = TwoDims(64);
  CHECK(few.collectives == "CP AG AG RS");
  CHECK(few.bytes == (64 + 64 + 128 + 256) * 1024);
}

TEST_CASE("Expert dispatch is computed by group and exchanged", "[partition]") {
  // 7/8 of an eighth of [16,8,64,1024] bf16.
  Moved moved = MovedBy(
      "  mask = bf16[8,512,16,64] parameter(0), sharding={devices=[8,1,1,1]<=[8]}\n"
      "  x = bf16[8,512,1024] parameter(1), sharding={devices=[8,1,1]<=[8]}\n"
      "  d = bf16[8,16,64,1024] dot(mask, x), lhs_batch_dims={0}, rhs_batch_dims={0}, "
      "lhs_contracting_dims={1}, rhs_contracting_dims={1}, sharding={devices=[1,8,1,1]<=[8]}\n"
      "  ROOT t = bf16[16,8,64,1024] transpose(d), dimensions={1,0,2,3}, "
      "sharding={devices=[8,1,1,1]<=[8]}\n");
  CHECK(moved.collectives == "A2A");
  CHECK(moved.bytes == 7 * 2 * kMiB / 8);
}

TEST_CASE("Einsums on a 2 x 2 x 2 mesh", "[partition]") {
  auto product = [](const char* b, const char* out) {
    return MovedBy(
        fmt::format("  a = f32[4,6,8] parameter(0), sharding={{devices=[2,2,2]<=[8]}}\n"
                    "  b = f32[4,8,10] parameter(1), sharding={{{}}}\n"
                    "  ROOT c = f32[4,6,10] dot(a, b), lhs_batch_dims={{0}}, rhs_batch_dims={{0}}, "
                    "lhs_contracting_dims={{2}}, rhs_contracting_dims={{1}}, sharding={{{}}}\n",
                    b, out));
  };
  // Rows and columns on other axes than the contracted dim: the columns are gathered (160 bytes),
  // partial sums scattered (120).
  Moved moved = product("devices=[2,2,2]<=[2,2,2]T(0,2,1)", "devices=[2,2,2]<=[8]");
  CHECK(moved.collectives == "AG RS");
  CHECK(moved.bytes == 160 + 120);
  // The copies of b are what the rows need.
  moved = product("devices=[2,2,1,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate",
                  "devices=[2,2,1,2]<=[8] last_tile_dim_replicate");
  CHECK(moved.collectives == "AR");
  CHECK(moved.bytes == 2 * (2 * 3 * 10 * 4) / 2);
}

}  // namespace
}  // namespace gshard
