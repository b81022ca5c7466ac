// Which way an operation is computed, where several give the same result: by what only one of them
// does, takes, or counts.
#include "backends/cpu/ops/kernel_table.h"
#include "backends/cpu/ops/reduce_kernels.h"
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {
namespace {

std::unique_ptr<Kernel> Make(const Instruction& instruction) {
  auto made = KernelFactoryOf(instruction.opcode())(instruction);
  if (!made) FAIL(Render(made.error()));
  return std::move(*made);
}

// Of the root of an entry whose operands are parameters: scratch that a run of it takes.
size_t ScratchOf(const Module& module) {
  const Instruction* root = module.entry()->root();
  Leaves operands, results = {Garbage(root->shape())};
  for (const Instruction* operand : root->operands()) operands.push_back(Garbage(operand->shape()));
  GarbageScratch scratch;
  Make(*root)->Run(Pointers(std::as_const(operands)), Pointers(results), scratch);
  return scratch.bytes();
}

const char* kAdd = "add { a = f32[] parameter(0) b = f32[] parameter(1) ROOT c = f32[] add(a, b) }";

}  // namespace

TEST_CASE("argmax and argmin have a kernel of their own", "[kernels][reduce]") {
  const auto largest_of = [](const std::string& direction, const std::string& index) {
    const auto module = Parse(
        "HloModule m\nbest {\n a = f32[] parameter(0)\n i = s32[] parameter(1)\n"
        " b = f32[] parameter(2)\n j = s32[] parameter(3)\n"
        " better = pred[] compare(a, b), direction=" +
        direction +
        "\n"
        " nan = pred[] compare(a, a), direction=NE\n"
        " keeps = pred[] or(better, nan)\n"
        " equal = pred[] compare(a, b), direction=EQ\n"
        " before = pred[] compare(i, j), direction=LT\n"
        " tie = pred[] and(equal, before)\n"
        " first = pred[] or(keeps, tie)\n"
        " value = f32[] select(keeps, a, b)\n"
        " index = s32[] select(" +
        index +
        ", i, j)\n"
        " ROOT r = (f32[], s32[]) tuple(value, index)\n}\n"
        "ENTRY e {\n x = f32[3,5] parameter(0)\n k = s32[3,5] iota(), iota_dimension=1\n"
        " low = f32[] constant(-inf)\n zero = s32[] constant(0)\n"
        " ROOT m = (f32[3], s32[3]) reduce(x, k, low, zero), dimensions={1}, to_apply=best\n}\n");
    return MakeArgReduceKernel(*module->entry()->root()) != nullptr;
  };
  CHECK(largest_of("GT", "first"));
  CHECK(largest_of("LT", "first"));
  CHECK(!largest_of("GE", "first"));
  CHECK(!largest_of("GT", "tie"));
}

TEST_CASE("few long columns are folded in chunks, side by side", "[kernels][reduce]") {
  // Ones that are added to 2^24 one by one are lost; sums of 64 are not.
  const auto module = Parse(R"(HloModule m
both { a = f32[] parameter(0) p = f32[] parameter(1) b = f32[] parameter(2) q = f32[] parameter(3)
  s = f32[] add(a, b) t = f32[] add(p, q) ROOT r = (f32[], f32[]) tuple(s, t) }
ENTRY e {
  one = f32[] constant(1)
  x = f32[4096,20] broadcast(one), dimensions={}
  start = f32[] constant(16777216)
  ROOT r = (f32[20], f32[20]) reduce(x, x, start, start), dimensions={0}, to_apply=both
})");
  for (const Array& sums : Evaluate(*module)) {
    for (int64_t i = 0; i < 20; ++i) CHECK(sums.at(i) == 16777216 + 4096);
  }
}

TEST_CASE("a cumulative sum beside another dim is one running fold", "[kernels][reduce_window]") {
  const auto module = Parse(std::string("HloModule m\n") + kAdd + R"(
ENTRY e {
  x = f32[64,3] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[64,3] reduce-window(x, z), window={size=64x1 pad=63_0x0_0}, to_apply=add
})");
  CHECK(Make(*module->entry()->root())->Flops() == 64 * 3);
}

TEST_CASE("scratch of windows", "[kernels][reduce_window]") {
  // 1,024 results at a time reach over 11,024 elements: these, as many folded, and the results.
  const auto far = Parse(std::string("HloModule m\n") + kAdd + R"(
ENTRY e {
  x = f32[40000] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[30000] reduce-window(x, z), window={size=2 rhs_dilate=10000}, to_apply=add
})");
  CHECK(ScratchOf(*far) == 4 * (11024 + 11024 + 1024));
  // Rows of 1,000: one at a time, which reaches over two.
  const auto rows = Parse(std::string("HloModule m\n") + kAdd + R"(
ENTRY e {
  x = f32[4096,1000] parameter(0)
  z = f32[] parameter(1)
  ROOT r = f32[4095,1000] reduce-window(x, z), window={size=2x1}, to_apply=add
})");
  CHECK(ScratchOf(*rows) == 4 * 1000 * (2 + 2 + 1));
}

// Not promised (docs/semantics.md, "sort"), but it tells which sort was taken: a comparator has no
// place for NaN among others, and a merge by it leaves them unsorted; keys have one.
TEST_CASE("comparators of one key are sorted by keys", "[kernels][sort]") {
  CheckVectors(R"(
    x = f32[5] constant({3,nan,1,4,2})
    up = f32[5] sort(x), dimensions={0}, to_apply=less
    down = f32[5] sort(x), dimensions={0}, to_apply=less_negated
    u = f32[4] slice(up), slice={[0:4]}
    d = f32[4] slice(down), slice={[1:5]}
    eu = f32[4] constant({1,2,3,4})
    ed = f32[4] constant({4,3,2,1})
    ROOT t = tuple(u, d, eu, ed))",
               R"(
less { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = pred[] compare(a, b), direction=LT }
less_negated {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  p = f32[] negate(a)
  q = f32[] negate(b)
  ROOT r = pred[] compare(p, q), direction=LT
}
)");
}

TEST_CASE("a comparator too long to look through is run as it is", "[kernels][sort]") {
  // Sums of 2^12 keys, which are all 0, and then of other values, by which the order is decided.
  std::string body =
      "before {\n a0 = f32[] parameter(0)\n b0 = f32[] parameter(1)\n"
      " v = f32[] parameter(2)\n w = f32[] parameter(3)\n";
  for (int i = 0; i < 12; ++i) {
    for (const char side : {'a', 'b'}) {
      body += fmt::format(" {0}{2} = f32[] add({0}{1}, {0}{1})\n", side, i, i + 1);
    }
  }
  body +=
      " a = f32[] add(a12, v)\n b = f32[] add(b12, w)\n"
      " ROOT r = pred[] compare(a, b), direction=LT\n}\n";
  CheckVectors(R"(
    k = f32[4] constant({0,0,0,0})
    x = f32[4] constant({3,1,4,2})
    s = (f32[4], f32[4]) sort(k, x), dimensions={0}, to_apply=before
    v = f32[4] get-tuple-element(s), index=1
    e = f32[4] constant({1,2,3,4})
    ROOT t = tuple(v, e))",
               body);
}

TEST_CASE("images that are not outermost are brought into order together",
          "[kernels][convolution]") {
  // The same images with the batch outermost; a kernel whose first dim is of size 1.
  CheckVectors(R"(
    i = f32[60] iota(), iota_dimension=0
    x = f32[3,4,5,1] reshape(i)
    h = f32[60] negate(i)
    y = f32[3,4,5,1] reshape(h)
    z = f32[3,4,5,2] concatenate(x, y), dimensions={3}
    t = f32[2,3,4,5] transpose(z), dimensions={3,0,1,2}
    j = f32[12] iota(), iota_dimension=0
    w = f32[1,2,2,3] reshape(j)
    c = f32[3,4,4,3] convolution(t, w), window={size=1x2}, dim_labels=fb01_01io->b01f
    e = f32[3,4,4,3] convolution(z, w), window={size=1x2}, dim_labels=b01f_01io->b01f
    ROOT r = tuple(c, e))");
}

}  // namespace gshard::cpu::testing
