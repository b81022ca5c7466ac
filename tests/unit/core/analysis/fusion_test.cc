// Which values share a kernel, and attention among them.

#include "core/analysis/kernels/fusion.h"

#include <catch2/catch.hpp>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

constexpr FusionOptions kTpu{
    .for_tpu = true, .fuses_row_statistics = true, .fuses_movement = true, .copies_values = true};
constexpr FusionOptions kGpu{.fuses_movement = true, .copies_values = true};

// "a+b, c": members of each kernel, roots last.
std::string KernelsOf(const std::string& body, const FusionOptions& options) {
  auto module = Parsed(
      "HloModule m\nadd { l0 = f32[] parameter(0) l1 = f32[] parameter(1) ROOT c = f32[] add(l0, "
      "l1) "
      "}\n"
      "ENTRY e {\n" +
      body + "}");
  Users users(*module);
  FusionModel model(*module->entry(), users, options);
  std::string text;
  for (const FusionKernel& kernel : model.kernels()) {
    if (!text.empty()) text += ", ";
    for (size_t i = 0; i < kernel.members.size(); ++i) {
      if (i > 0) text += "+";
      text += kernel.members[i]->name();
    }
  }
  return text;
}

TEST_CASE("Copies are their operands until a compiler writes them", "[fusion]") {
  const char* body = R"(
  x = f32[64,64] parameter(0)
  n = f32[64,64] negate(x)
  k = f32[64,64] copy(n)
  ROOT s = f32[64,64] sine(k))";
  CHECK(KernelsOf(body, kGpu) == "n+s");
  FusionOptions compiled = kGpu;
  compiled.is_compiled = true;
  CHECK(KernelsOf(body, compiled) == "n, k, s");
}

TEST_CASE("PyTorch launches call by call, but for norms, casts and the update of weights",
          "[fusion]") {
  FusionOptions eager = kGpu;
  eager.fuses_calls = false;
  // silu is one call of two operations, the product with it another.
  const char* gated = R"(
  x = bf16[64,64] parameter(0)
  y = bf16[64,64] parameter(1)
  s = bf16[64,64] logistic(x), metadata={op_name="jit(f)/jvp(jit(silu))/logistic"}
  m = bf16[64,64] multiply(x, s), metadata={op_name="jit(f)/jvp(jit(silu))/mul"}
  g = bf16[64,64] multiply(m, y), metadata={op_name="jit(f)/jvp()/mul"}
  ROOT a = bf16[64,64] add(g, x), metadata={op_name="jit(f)/jvp()/add"})";
  CHECK(KernelsOf(gated, kGpu) == "s+m+g+a");
  CHECK(KernelsOf(gated, eager) == "s+m, g, a");
  const char* norm = R"(
  x = bf16[64,64] parameter(0)
  w = f32[64] parameter(1)
  zero = f32[] constant(0)
  c = f32[64,64] convert(x), metadata={op_name="jit(f)/jvp()/convert"}
  q = f32[64,64] multiply(c, c), metadata={op_name="jit(f)/jvp()/mul"}
  t = f32[64] reduce(q, zero), dimensions={1}, to_apply=add, metadata={op_name="jit(f)/jvp()/sum"}
  r = f32[64] rsqrt(t), metadata={op_name="jit(f)/jvp()/rsqrt"}
  rb = f32[64,64] broadcast(r), dimensions={0}
  n = f32[64,64] multiply(c, rb), metadata={op_name="jit(f)/jvp()/mul"}
  wb = f32[64,64] broadcast(w), dimensions={1}
  k = f32[64,64] multiply(n, wb), metadata={op_name="jit(f)/jvp()/mul"}
  ROOT o = bf16[64,64] convert(k), metadata={op_name="jit(f)/jvp()/convert"})";
  CHECK(KernelsOf(norm, eager) == KernelsOf(norm, kGpu));
  const char* update = R"(
  w = f32[64] parameter(0)
  g = f32[64] parameter(1)
  m = f32[64] multiply(g, g), metadata={op_name="jit(f)/mul"}
  ROOT n = f32[64] subtract(w, m), metadata={op_name="jit(f)/sub"})";
  CHECK(KernelsOf(update, eager) == "m+n");
}

// Names of kernels that take no time.
std::string FreeKernelsOf(const std::string& text, const FusionOptions& options) {
  auto module = Parsed(text);
  Users users(*module);
  std::string names;
  for (const Computation* computation : module->computations()) {
    const FusionModel model(*computation, users, options);
    for (const FusionKernel& kernel : model.kernels()) {
      if (kernel.is_free) names += std::string(kernel.root->name()) + " ";
    }
  }
  return names;
}

TEST_CASE("What loops stack stays where it is made; 8-bit casts are their producers'", "[fusion]") {
  FusionOptions megatron = kGpu;
  megatron.copies_into_stacks = false, megatron.casts_in_producers = true;
  const char* loop = R"(
HloModule m
max { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT c = bf16[] maximum(a, b) }
ENTRY body {
  p = (s32[], bf16[8,64,64], bf16[8,4,64], bf16[]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  kept = bf16[8,64,64] get-tuple-element(p), index=1
  cache = bf16[8,4,64] get-tuple-element(p), index=2
  scale = bf16[] get-tuple-element(p), index=3
  zero = s32[] constant(0)
  x = bf16[64,64] parameter(1)
  y = bf16[64,64] exponential(x)
  row = bf16[1,64,64] reshape(y)
  stack = bf16[8,64,64] dynamic-update-slice(kept, row, i, zero, zero)
  written = bf16[1,1,64] parameter(2)
  append = bf16[8,4,64] dynamic-update-slice(cache, written, i, i, zero)
  size = bf16[64,64] abs(y)
  least = bf16[] constant(0)
  amax = bf16[] reduce(size, least), dimensions={0,1}, to_apply=max
  sb = bf16[64,64] broadcast(scale), dimensions={}
  delayed = bf16[64,64] multiply(y, sb)
  d8 = f8e4m3fn[64,64] convert(delayed)
  ab = bf16[64,64] broadcast(amax), dimensions={}
  current = bf16[64,64] divide(y, ab)
  c8 = f8e4m3fn[64,64] convert(current)
  ROOT r = (bf16[8,64,64], bf16[8,4,64], bf16[], f8e4m3fn[64,64], f8e4m3fn[64,64]) tuple(stack, append, amax, d8, c8)
})";
  CHECK(FreeKernelsOf(loop, kGpu).empty());
  CHECK(FreeKernelsOf(loop, megatron) == "stack amax d8 ");
}

TEST_CASE("Products add what they make to sums over micro-batches", "[fusion]") {
  FusionOptions megatron = kGpu;
  megatron.sums_in_products = true;
  const char* loop = R"(
HloModule m
layer {
  q = (s32[], bf16[8,64,64]) parameter(0)
  i = s32[] get-tuple-element(q), index=0
  stack = bf16[8,64,64] get-tuple-element(q), index=1
  one = bf16[] constant(1)
  dy = bf16[4,64] broadcast(one), dimensions={}
  g = bf16[64,64] dot(dy, dy), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  row = bf16[1,64,64] reshape(g)
  zero = s32[] constant(0)
  rows = bf16[8,64,64] dynamic-update-slice(stack, row, i, zero, zero)
  ROOT t = (s32[], bf16[8,64,64]) tuple(i, rows)
}
more { q = (s32[], bf16[8,64,64]) parameter(0) ROOT no = pred[] constant(false) }
ENTRY body {
  p = (s32[], f32[8,64,64], f32[8,64,64], bf16[8,64,64]) parameter(0)
  i = s32[] get-tuple-element(p), index=0
  sum = f32[8,64,64] get-tuple-element(p), index=1
  sums = f32[8,64,64] get-tuple-element(p), index=2
  empty = bf16[8,64,64] get-tuple-element(p), index=3
  x = bf16[4,64] parameter(1)
  w = bf16[64,64] dot(x, x), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  wide = f32[64,64] convert(w)
  zero = s32[] constant(0)
  old = f32[1,64,64] dynamic-slice(sum, i, zero, zero), dynamic_slice_sizes={1,64,64}
  flat = f32[64,64] reshape(old)
  more_of_w = f32[64,64] add(flat, wide)
  back = f32[1,64,64] reshape(more_of_w)
  written = f32[8,64,64] dynamic-update-slice(sum, back, i, zero, zero)
  init = (s32[], bf16[8,64,64]) tuple(i, empty)
  layers = (s32[], bf16[8,64,64]) while(init), condition=more, body=layer
  made = bf16[8,64,64] get-tuple-element(layers), index=1
  wider = f32[8,64,64] convert(made)
  added = f32[8,64,64] add(sums, wider)
  doubled = f32[8,64,64] add(sums, sums)
  ROOT r = (f32[8,64,64], f32[8,64,64], f32[8,64,64]) tuple(written, added, doubled)
})";
  CHECK(FreeKernelsOf(loop, kGpu).empty());
  CHECK(FreeKernelsOf(loop, megatron) == "more_of_w written added ");
}

TEST_CASE("Elementwise chains and what moves data run in their consumer", "[fusion]") {
  CHECK(KernelsOf(R"(
  x = f32[64,64] parameter(0)
  s = f32[32,64] slice(x), slice={[0:32], [0:64]}
  n = f32[32,64] negate(s)
  t = f32[64,32] transpose(n), dimensions={1,0}
  ROOT r = f32[64,32] tanh(t)
)",
                  kGpu) == "s+n+t+r");
}

// Four levels of what an associative scan does: each reads neighbours of the level before.
std::string SumsOfNeighbours(int levels) {
  std::string body = "  x = f32[64,64] parameter(0)\n  n0 = f32[64,64] sine(x)\n";
  for (int i = 1; i <= levels; ++i) {
    const std::string of = "n" + std::to_string(i - 1), to = std::to_string(i);
    const std::string from = std::to_string(65 - i), rows = std::to_string(64 - i);
    body += "  a" + to + " = f32[" + rows + ",64] slice(" + of + "), slice={[0:" + rows +
            "], [0:64]}\n  b" + to + " = f32[" + rows + ",64] slice(" + of +
            "), slice={[1:" + from + "], [0:64]}\n  " + (i == levels ? "ROOT n" : "n") + to +
            " = f32[" + rows + ",64] add(a" + to + ", b" + to + ")\n";
  }
  return body;
}

TEST_CASE("A GPU's kernel computes a value for up to fifteen positions of each result",
          "[fusion]") {
  CHECK(KernelsOf(SumsOfNeighbours(2), kGpu) == "n0+a1+b1+n1+a2+b2+n2");
  CHECK(KernelsOf(SumsOfNeighbours(4), kGpu) ==
        "n0, a1+b1+n1+a2+b2+n2+a3+b3+n3+a4+b4+n4");  // 16 sines
  // Reshapes and elementwise operations need their operands at the same positions.
  CHECK(KernelsOf(R"(
  x = f32[64] parameter(0)
  e = f32[64] exponential(x)
  a = f32[32] slice(e), slice={[0:32]}
  r = f32[4,8] reshape(a)
  n = f32[4,8] negate(r)
  m = f32[4,8] multiply(n, r)
  ROOT s = f32[4,8] add(m, r))",
                  kGpu) == "e+a+n+m+s");
}

TEST_CASE("Values of several kernels are copied if they are cheap, else written", "[fusion]") {
  const std::string body = R"(
  x = f32[64,64] parameter(0)
  zero = f32[] constant(0)
  m = f32[64,64] OP(x)
  a = f32[64] reduce(m, zero), dimensions={0}, to_apply=add
  b = f32[64] reduce(m, zero), dimensions={1}, to_apply=add
  ROOT t = (f32[64], f32[64]) tuple(a, b)
)";
  auto with = [&](const std::string& opcode) {
    std::string text = body;
    return text.replace(text.find("OP"), 2, opcode);
  };
  CHECK(KernelsOf(with("negate"), kGpu) == "a, m+b");
  CHECK(KernelsOf(with("exponential"), kGpu) == "a, m+b");
  // Of two arrays: the first reduction writes it, the second reads it.
  const std::string sum = R"(
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  zero = f32[] constant(0)
  m = f32[64,64] add(x, y)
  a = f32[64] reduce(m, zero), dimensions={0}, to_apply=add
  b = f32[64] reduce(m, zero), dimensions={1}, to_apply=add
  ROOT t = (f32[64], f32[64]) tuple(a, b)
)";
  CHECK(KernelsOf(sum, kGpu) == "m+a, b");
}

TEST_CASE("Reductions of one array over the same dims are one kernel", "[fusion]") {
  const std::string body = R"(
  x = bf16[64,64] parameter(0)
  zero = f32[] constant(0)
  w = f32[64,64] convert(x)
  a = f32[64] reduce(w, zero), dimensions={0}, to_apply=add
  q = f32[64,64] multiply(w, w)
  b = f32[64] reduce(q, zero), dimensions={DIM}, to_apply=add
  ROOT t = (f32[64], f32[64]) tuple(a, b)
)";
  auto over = [&](const std::string& dim) {
    std::string text = body;
    return text.replace(text.find("DIM"), 3, dim);
  };
  CHECK(KernelsOf(over("0"), kGpu) == "w+a+q+b");
  CHECK(KernelsOf(over("1"), kGpu) == "a, w+q+b");
}

TEST_CASE("A reduction that needs another one reads its array again", "[fusion]") {
  CHECK(KernelsOf(R"(
  x = f32[64,64] parameter(0)
  zero = f32[] constant(0)
  top = f32[64] reduce(x, zero), dimensions={1}, to_apply=add
  tops = f32[64,64] broadcast(top), dimensions={0}
  s = f32[64,64] subtract(x, tops)
  e = f32[64,64] exponential(s)
  sum = f32[64] reduce(e, zero), dimensions={1}, to_apply=add
  sums = f32[64,64] broadcast(sum), dimensions={0}
  ROOT y = f32[64,64] divide(e, sums)
)",
                  kGpu) == "top, sum, tops+s+e+sums+y");
}

TEST_CASE("No kernel waits for itself through another one", "[fusion]") {
  // Of either array a sum, and a second one that needs the other array's sum: only one pair can be
  // one kernel.
  const char* body = R"(
  x = f32[64,64] parameter(0)
  y = f32[64,64] parameter(1)
  zero = f32[] constant(0)
  a = f32[64] reduce(x, zero), dimensions={1}, to_apply=add
  b = f32[64] reduce(y, zero), dimensions={1}, to_apply=add
  a.all = f32[64] all-reduce(a), to_apply=add
  b.all = f32[64] all-reduce(b), to_apply=add
  b.rows = f32[64,64] broadcast(b.all), dimensions={0}
  a.rows = f32[64,64] broadcast(a.all), dimensions={0}
  xb = f32[64,64] multiply(x, b.rows)
  ya = f32[64,64] multiply(y, a.rows)
  bx.sum = f32[64] reduce(xb, zero), dimensions={1}, to_apply=add
  ay.sum = f32[64] reduce(ya, zero), dimensions={1}, to_apply=add
  ROOT t = (f32[64], f32[64]) tuple(bx.sum, ay.sum))";
  CHECK(KernelsOf(body, kTpu) == "b.rows+xb+bx.sum+a, b, a.rows+ya+ay.sum");
}

TEST_CASE("Dots take layouts everywhere, elementwise work on TPUs", "[fusion]") {
  const std::string body = R"(
  x = bf16[64,64] parameter(0)
  w = bf16[64,64] parameter(1)
  n = bf16[64,64] negate(x)
  t = bf16[64,64] transpose(w), dimensions={1,0}
  d = bf16[64,64] dot(n, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT r = bf16[64,64] tanh(d)
)";
  CHECK(KernelsOf(body, kTpu) == "n+t+d+r");
  CHECK(KernelsOf(body, kGpu) == "n, t+d, r");
}

TEST_CASE("An array that is updated in place is memory, its update is not", "[fusion]") {
  CHECK(KernelsOf(R"(
  x = f32[64,64] parameter(0)
  u = f32[1,64] parameter(1)
  i = s32[] parameter(2)
  z = s32[] constant(0)
  a = f32[64,64] negate(x)
  v = f32[1,64] negate(u)
  ROOT d = f32[64,64] dynamic-update-slice(a, v, i, z)
)",
                  kGpu) == "a, v+d");
}

constexpr std::string_view kSoftmax = R"(
  low = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[2,4,64] reduce(s, low), dimensions={3}, to_apply=add
  tops = f32[2,4,64,64] broadcast(top), dimensions={0,1,2}
  shifted = f32[2,4,64,64] subtract(s, tops)
  p = f32[2,4,64,64] exponential(shifted)
  sum = f32[2,4,64] reduce(p, zero), dimensions={3}, to_apply=add
  sums = f32[2,4,64,64] broadcast(sum), dimensions={0,1,2}
  y = f32[2,4,64,64] divide(p, sums)
)";

TEST_CASE("dot, softmax, dot is attention; a classifier's loss is not", "[fusion][attention]") {
  auto module = Parsed(R"(HloModule m
add { l = f32[] parameter(0) m1 = f32[] parameter(1) ROOT c = f32[] add(l, m1) }
ENTRY e {
  q = f32[2,4,64,16] parameter(0)
  k = f32[2,4,64,16] parameter(1)
  v = f32[2,4,64,16] parameter(2)
  s = f32[2,4,64,64] dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
)" + std::string(kSoftmax) +
                       R"(
  ROOT o = f32[2,4,64,16] dot(y, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
})");
  Users users(*module);
  std::vector<AttentionKernel> kernels = FindAttention(*module->entry(), users);
  REQUIRE(kernels.size() == 1);
  CHECK_FALSE(kernels[0].is_backward);
  CHECK(kernels[0].recomputed_flops == 0);
  CHECK(kernels[0].members.back()->name() == "o");
  const ModuleAttention attention(*module, users, MaskedOn::kBusiest);
  FusionOptions options = kGpu;
  options.attention = &attention;
  FusionModel model(*module->entry(), users, options);
  CHECK(model.kernels().size() == 1);

  module = Parsed(R"(HloModule m
add { l = f32[] parameter(0) m1 = f32[] parameter(1) ROOT c = f32[] add(l, m1) }
ENTRY e {
  x = f32[512,16] parameter(0)
  w = f32[16,64] parameter(1)
  logits = f32[512,64] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  s = f32[2,4,64,64] reshape(logits)
)" + std::string(kSoftmax) +
                  R"(
  g = f32[512,64] reshape(y)
  ROOT dx = f32[512,16] dot(g, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}
})");
  Users other(*module);
  CHECK(FindAttention(*module->entry(), other).empty());
}

TEST_CASE("Forward and backward attention are two kernels; scores are computed again",
          "[attention]") {
  auto module = Parsed(R"(HloModule m
add { l = f32[] parameter(0) m1 = f32[] parameter(1) ROOT c = f32[] add(l, m1) }
ENTRY e {
  q = f32[2,4,64,16] parameter(0)
  k = f32[2,4,64,16] parameter(1)
  v = f32[2,4,64,16] parameter(2)
  s = f32[2,4,64,64] dot(q, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
)" + std::string(kSoftmax) +
                       R"(
  o = f32[2,4,64,16] dot(y, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
  do = f32[2,4,64,16] tanh(o)
  dv = f32[2,4,64,16] dot(y, do), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  dp = f32[2,4,64,64] dot(do, v), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={3}
  pdp = f32[2,4,64,64] multiply(y, dp)
  row = f32[2,4,64] reduce(pdp, zero), dimensions={3}, to_apply=add
  rows = f32[2,4,64,64] broadcast(row), dimensions={0,1,2}
  centred = f32[2,4,64,64] subtract(dp, rows)
  ds = f32[2,4,64,64] multiply(y, centred)
  dq = f32[2,4,64,16] dot(ds, k), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={3}, rhs_contracting_dims={2}
  dk = f32[2,4,64,16] dot(ds, q), lhs_batch_dims={0,1}, rhs_batch_dims={0,1}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  ROOT t = (f32[2,4,64,16], f32[2,4,64,16], f32[2,4,64,16], f32[2,4,64,16]) tuple(o, dq, dk, dv)
})");
  Users users(*module);
  std::vector<AttentionKernel> kernels = FindAttention(*module->entry(), users);
  REQUIRE(kernels.size() == 2);
  CHECK_FALSE(kernels[0].is_backward);
  CHECK(kernels[1].is_backward);
  CHECK(kernels[1].recomputed_flops == 2.0 * 2 * 4 * 64 * 64 * 16);
  const ModuleAttention attention(*module, users, MaskedOn::kBusiest);
  FusionOptions options = kGpu;
  options.attention = &attention;
  FusionModel model(*module->entry(), users, options);
  CHECK(model.kernels().size() == 3);  // with the tanh between them
  // The backward kernel computes the forward one's probabilities again.
  for (const Instruction* x : module->entry()->instructions()) {
    if (x->name() == "y" || x->name() == "p") CHECK(model.IsFused(x));
  }
}

TEST_CASE("The compiler for TPUs gives gathers and scatters kernels of their own", "[fusion]") {
  const char* body = R"(
  x = f32[64,64] parameter(0)
  ids = s32[32,1] parameter(1)
  rows = f32[32,64] gather(x, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}
  n = f32[32,64] negate(rows)
  zero = f32[] constant(0)
  zeros = f32[64,64] broadcast(zero), dimensions={}
  ROOT sums = f32[64,64] scatter(zeros, ids, n), to_apply=add, update_window_dims={1}, inserted_window_dims={0}, scatter_dims_to_operand_dims={0}, index_vector_dim=1)";
  CHECK(KernelsOf(body, kGpu) == "zeros, rows+n+sums");
  CHECK(KernelsOf(body, kTpu) == "rows, n, zeros, sums");
}

TEST_CASE("One element added to each row of zeros is a comparison of positions on TPUs",
          "[fusion]") {
  const char* body = R"(
  p = f32[8,1000] parameter(0)
  labels = s32[8,1] parameter(1)
  one = f32[8] parameter(2)
  zero = f32[] constant(0)
  zeros = f32[8,1000] broadcast(zero), dimensions={}
  picked = f32[8,1000] scatter(zeros, labels, one), to_apply=add, update_window_dims={}, inserted_window_dims={1}, input_batching_dims={0}, scatter_indices_batching_dims={0}, scatter_dims_to_operand_dims={1}, index_vector_dim=1
  ROOT g = f32[8,1000] subtract(p, picked))";
  CHECK(KernelsOf(body, kGpu) == "zeros, picked, g");
  CHECK(KernelsOf(body, kTpu) == "zeros+picked+g");
}

// Of a program for a TPU, the values that are in memory beside parameters and constants.
std::string KeptOf(const std::string& body, const FusionOptions& options) {
  auto module = Parsed(
      "HloModule m\nadd { l0 = f32[] parameter(0) l1 = f32[] parameter(1) ROOT ll = f32[] add(l0, "
      "l1) }\nmax { m0 = f32[] parameter(0) m1 = f32[] parameter(1) ROOT mm = f32[] maximum(m0, "
      "m1) "
      "}\nENTRY e {\n" +
      body + "}");
  Users users(*module);
  FusionModel model(*module->entry(), users, options);
  std::string text;
  for (const Instruction* x : module->entry()->instructions()) {
    const bool is_given = x->opcode() == Opcode::kParameter || x->opcode() == Opcode::kConstant ||
                          x->opcode() == Opcode::kTuple;
    if (!is_given && !model.IsFused(x)) text += std::string(x->name()) + " ";
  }
  return text;
}

// Products of `value` by as many weights of [64,64]; `head` makes it of parameters 0 and 1.
std::string Products(const std::string& head, const std::string& value, int count) {
  std::string text = head, names;
  for (int i = 0; i < count; ++i) {
    const std::string n = std::to_string(i);
    text += "  w" + n + " = bf16[64,64] parameter(" + std::to_string(2 + i) + ")\n  d" + n +
            " = bf16[64,64] dot(" + value + ", w" + n +
            "), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
    names += (i > 0 ? ", d" : "d") + n;
  }
  std::string types;
  for (int i = 0; i < count; ++i) types += i > 0 ? ", bf16[64,64]" : "bf16[64,64]";
  return text + "  ROOT t = (" + types + ") tuple(" + names + ")\n";
}

TEST_CASE("Kernels of a TPU compute a value again while all of them move no more bytes",
          "[fusion]") {
  const std::string sum =
      "  a = bf16[64,64] parameter(0)\n  b = bf16[64,64] parameter(1)\n  s = bf16[64,64] add(a, "
      "b)\n";
  CHECK(KeptOf(Products(sum, "s", 2), kTpu) == "d0 d1 ");
  CHECK(KeptOf(Products(sum, "s", 3), kTpu) == "d0 d1 d2 ");
  CHECK(KeptOf(Products(sum, "s", 4), kTpu) == "s d0 d1 d2 d3 ");
  // Twice the bytes of what they make.
  const std::string wide =
      "  a = f32[64,64] parameter(0)\n  b = f32[64,64] parameter(1)\n  s = f32[64,64] add(a, b)\n"
      "  c = bf16[64,64] convert(s)\n";
  CHECK(KeptOf(Products(wide, "c", 1), kTpu) == "d0 ");
  CHECK(KeptOf(Products(wide, "c", 2), kTpu) == "c d0 d1 ");
}

TEST_CASE("Divisions take a TPU's vector units longer than bytes take its memory", "[fusion]") {
  const std::string rows =
      "  a = f32[4096,64] parameter(0)\n  r = f32[4096] parameter(1)\n"
      "  rb = f32[4096,64] broadcast(r), dimensions={0}\n  q = f32[4096,64] OP(a, rb)\n"
      "  c = bf16[4096,64] convert(q)\n";
  const auto kept = [&](const char* opcode, double operations_per_byte) {
    std::string text = rows;
    text.replace(text.find("OP"), 2, opcode);
    text += R"(
  w0 = bf16[64,16] parameter(2)
  w1 = bf16[64,16] parameter(3)
  d0 = bf16[4096,16] dot(c, w0), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  d1 = bf16[4096,16] dot(c, w1), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (bf16[4096,16], bf16[4096,16]) tuple(d0, d1)
)";
    FusionOptions options = kTpu;
    options.vector_operations_per_byte = operations_per_byte;
    return KeptOf(text, options);
  };
  CHECK(kept("divide", 2) == "c d0 d1 ");
  CHECK(kept("divide", 5.9) == "d0 d1 ");
  CHECK(kept("multiply", 2) == "d0 d1 ");
}

TEST_CASE("A TPU's product writes the end of its chain where that is no wider than itself",
          "[fusion]") {
  const std::string body = R"(
  a = bf16[64,64] parameter(0)
  b = bf16[64,64] parameter(1)
  c = TYPE[64,64] parameter(2)
  p = bf16[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = TYPE[64,64] convert(p)
  n = TYPE[64,64] negate(z)
  x = TYPE[64,64] multiply(n, c)
  y = TYPE[64,64] subtract(n, c)
  ROOT t = (TYPE[64,64], TYPE[64,64]) tuple(x, y)
)";
  const auto with = [&](const std::string& type) {
    std::string text = body;
    for (size_t at; (at = text.find("TYPE")) != std::string::npos;) text.replace(at, 4, type);
    return text;
  };
  CHECK(KeptOf(with("f32"), kTpu) == "p x y ");
  CHECK(KeptOf(with("bf16"), kTpu) == "n x y ");
}

TEST_CASE("A row's largest is computed where it is taken off, on TPUs since v4", "[fusion]") {
  const std::string softmax = R"(
  q = bf16[4,DIM,64] parameter(0)
  k = bf16[4,DIM,64] parameter(1)
  p = bf16[4,DIM,DIM] dot(q, k), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={2}
  w = f32[4,DIM,DIM] convert(p)
  z = f32[4,DIM,DIM] negate(w)
  least = f32[] constant(-inf)
  zero = f32[] constant(0)
  top = f32[4,DIM] reduce(z, least), dimensions={2}, to_apply=max
  tops = f32[4,DIM,DIM] broadcast(top), dimensions={0,1}
  s = f32[4,DIM,DIM] subtract(z, tops)
  e = f32[4,DIM,DIM] exponential(s)
  sum = f32[4,DIM] reduce(e, zero), dimensions={2}, to_apply=add
  twice = f32[4,DIM,DIM] add(e, e)
  ROOT t = (f32[4,DIM], f32[4,DIM,DIM]) tuple(sum, twice)
)";
  const auto of = [&](const std::string& dim) {
    std::string text = softmax;
    for (size_t at; (at = text.find("DIM")) != std::string::npos;) text.replace(at, 3, dim);
    return text;
  };
  // exp(z - max) is not computed twice then.
  CHECK(KeptOf(of("64"), kTpu) == "p e sum twice ");
  FusionOptions v6e = kTpu;
  v6e.products_have_row_statistics = true;
  CHECK(KeptOf(of("64"), v6e) == "e sum twice ");
  FusionOptions v3 = kTpu;
  v3.fuses_row_statistics = false;
  CHECK(KeptOf(of("64"), v3) == "p top sum twice ");
  // Rows too large for the kernel: the product writes what they are made of.
  CHECK(KeptOf(of("4096"), kTpu) == "z e sum twice ");
  CHECK(KeptOf(of("16384"), kTpu) == "p top sum twice ");
  // The largest of what is cast is taken before the cast.
  std::string casts = of("64");
  casts.replace(casts.find("reduce(z"), 8, "reduce(w");
  CHECK(KeptOf(casts, kTpu) == "p top sum twice ");
}

TEST_CASE("A TPU's product makes sums of its elements, too", "[fusion]") {
  const std::string body = R"(
  a = bf16[64,64] parameter(0)
  b = bf16[64,64] parameter(1)
  c = f32[64,64] parameter(2)
  zero = f32[] constant(0)
  p = bf16[64,64] dot(a, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  z = f32[64,64] convert(p)
  m = f32[64,64] multiply(z, c)
  s = f32[64] reduce(m, zero), dimensions={1}, to_apply=add
  n = bf16[64,64] negate(p)
  ROOT t = (f32[64], bf16[64,64]) tuple(s, n)
)";
  CHECK(KernelsOf(body, kTpu) == "p+z+m+s, n");
  CHECK(KernelsOf(body, kGpu) == "p, z+m+s, n");
}

TEST_CASE("A TPU's product is added in the order of dims in which it is used", "[fusion]") {
  // As JAX has the gradient of a weight.
  const std::string body = R"(
  a = bf16[64,32] parameter(0)
  b = bf16[64,16] parameter(1)
  sum = f32[16,32] parameter(2)
  p = bf16[32,16] dot(a, b), lhs_contracting_dims={0}, rhs_contracting_dims={0}
  t = bf16[16,32] transpose(p), dimensions={1,0}
  w = f32[16,32] convert(t)
  ROOT n = f32[16,32] add(sum, w)
)";
  CHECK(KernelsOf(body, kTpu) == "p+t+w+n");
  CHECK(KernelsOf(body, kGpu) == "p, t+w+n");
}

TEST_CASE("A TPU writes the sum with an all-reduce's result that the next sum reads", "[fusion]") {
  const auto kept = [](const std::string& opcode) {
    const auto given = [&](const std::string& name, const std::string& of) {
      return "  " + name + " = f32[64,64] " + opcode + "(" + of +
             (opcode == "all-reduce" ? "), to_apply=add\n" : "), dimensions={0}\n");
    };
    return KeptOf("  x = f32[64,64] parameter(0)\n  w = f32[64,64] parameter(1)\n" +
                      given("a", "x") + "  s = f32[64,64] add(x, a)\n" +
                      "  d = f32[64,64] dot(s, w), lhs_contracting_dims={1}, "
                      "rhs_contracting_dims={0}\n" +
                      given("b", "d") + "  ROOT n = f32[64,64] add(s, b)\n",
                  kTpu);
  };
  CHECK(kept("all-reduce") == "a s d b n ");
  CHECK(kept("reverse") == "a d b n ");
}

TEST_CASE("SparseCores gather from memory", "[fusion]") {
  const char* body = R"(
  x = f32[64,64] parameter(0)
  ids = s32[32,1] parameter(1)
  e = f32[64,64] exponential(x)
  rows = f32[32,64] gather(e, ids), offset_dims={1}, collapsed_slice_dims={0}, start_index_map={0}, index_vector_dim=1, slice_sizes={1,64}
  ROOT n = f32[32,64] negate(rows))";
  FusionOptions options = kTpu;
  CHECK(KeptOf(body, options) == "rows n ");
  options.gathers_from_memory = true;
  CHECK(KeptOf(body, options) == "e rows n ");
}

TEST_CASE("A product of a vector and a matrix each is a sum of its operands' kernel on GPUs",
          "[fusion]") {
  const auto kernels = [](const std::string& vector, const std::string& result) {
    FusionOptions options = kGpu;
    options.for_gpu = true;
    return KernelsOf(
        "  t = f32[64,8,16] parameter(0)\n  i = s32[4] parameter(1)\n  v = f32[4," + vector +
            "8] parameter(2)\n"
            "  rows = f32[4,8,16] gather(t, i), offset_dims={1,2}, collapsed_slice_dims={0}, "
            "start_index_map={0}, index_vector_dim=1, slice_sizes={1,8,16}\n"
            "  ROOT p = f32[4," +
            result +
            "16] dot(v, rows), lhs_batch_dims={0}, rhs_batch_dims={0}, "
            "lhs_contracting_dims={" +
            (vector.empty() ? "1" : "2") + "}, rhs_contracting_dims={1}",
        options);
  };
  CHECK(kernels("", "") == "rows+p");
  CHECK(kernels("1,", "1,") == "rows+p");
  CHECK(kernels("2,", "2,") == "rows, p");
}

TEST_CASE("Moments and parameters are results of one kernel", "[fusion]") {
  const char* body = R"(
  p = f32[64,64] parameter(0)
  m = f32[64,64] parameter(1)
  g = f32[64,64] parameter(2)
  moment = f32[64,64] add(m, g)
  updated = f32[64,64] subtract(p, moment)
  ROOT all = (f32[64,64], f32[64,64]) tuple(moment, updated))";
  CHECK(KernelsOf(body, kGpu) == "moment+updated");
  CHECK(KernelsOf(body, kTpu) == "moment+updated");
  FusionOptions eager = kGpu;
  eager.fuses_calls = false;
  CHECK(KernelsOf(body, eager) == "moment, updated");
}

TEST_CASE("A product on a GPU widens its operands as it reads them", "[fusion]") {
  const auto kernels = [](const std::string& from, const std::string& to) {
    return KernelsOf("  a = " + from + "[64,64] parameter(0)\n  n = " + from +
                         "[64,64] negate(a)\n  b = " + to + "[64,64] parameter(1)\n  t = " + to +
                         "[64,64] convert(n)\n  ROOT p = " + to +
                         "[64,64] dot(t, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}",
                     kGpu);
  };
  CHECK(kernels("f8e4m3fn", "bf16") == "n, t+p");
  // Narrower operands are written by what makes them.
  CHECK(kernels("f32", "bf16") == "n+t, p");
}

TEST_CASE("A product on a TPU scales groups of its weight's rows as it reads them", "[fusion]") {
  const std::string body = R"(
  x = bf16[16,64] parameter(0)
  w = s4[64,32] parameter(1)
  scales = bf16[8,32] parameter(2)
  cast = bf16[64,32] convert(w)
  groups = bf16[8,8,32] reshape(cast)
  each = bf16[8,8,32] broadcast(scales), dimensions={0,2}
  scaled = bf16[8,8,32] multiply(groups, OTHER)
  all = bf16[64,32] reshape(scaled)
  ROOT p = bf16[16,32] dot(x, all), lhs_contracting_dims={1}, rhs_contracting_dims={0})";
  const auto kernels = [&](std::string text, std::string_view other) {
    text.replace(text.find("OTHER"), 5, other);
    return KernelsOf(text, kTpu);
  };
  CHECK(kernels(body, "each") == "cast+each+scaled+p");
  // An array of the groups' dims lies in memory under them.
  const std::string given = "  y = bf16[8,8,32] parameter(3)" + body;
  CHECK(kernels(given, "y") == "cast, each, scaled, p");
}

TEST_CASE("Rows merged for a product on a TPU are not written if it gives them back", "[fusion]") {
  const auto kernels = [](const std::string& product) {
    return KernelsOf(R"(
  x = bf16[2,16,64] parameter(0)
  odd = bf16[8,4,64] parameter(1)
  w = bf16[64,32] parameter(2)
  dy = bf16[2,16,32] parameter(3)
)" + product,
                     kTpu);
  };
  const std::string n = "  n = bf16[2,16,64] exponential(x)\n  m = bf16[32,64] reshape(n)\n";
  const std::string p =
      "p = bf16[32,32] dot(m, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n";
  CHECK(kernels(n + p + "  ROOT y = bf16[2,16,32] reshape(p)") == "n+p");
  // A sum over rows that both operands have.
  CHECK(kernels(n + "g = bf16[32,32] reshape(dy)\n  ROOT dw = bf16[64,32] dot(m, g), "
                    "lhs_contracting_dims={0}, rhs_contracting_dims={0}") == "n+dw");
  // The matrix is what is wanted, or other rows are; tiles of eight rows would be broken.
  CHECK(kernels(n + "ROOT " + p) == "n, p");
  CHECK(kernels(n + p + "  ROOT y = bf16[4,8,32] reshape(p)") == "n, p");
  CHECK(kernels("  n = bf16[8,4,64] exponential(odd)\n  m = bf16[32,64] reshape(n)\n" + p +
                "  ROOT y = bf16[8,4,32] reshape(p)") == "n, p");
}

TEST_CASE("What moves data takes no other work along on TPUs", "[fusion]") {
  const auto kept = [](const std::string& move) {
    return KeptOf(
        "  x = f32[64,64] parameter(0)\n  zero = f32[] constant(0)\n"
        "  n = f32[64,64] exponential(x)\n" +
            move + "  ROOT r = f32[64,64] tanh(m)\n",
        kTpu);
  };
  CHECK(kept("  m = f32[64,64] copy(n)\n") == "r ");
  CHECK(kept("  m = f32[64,64] transpose(n), dimensions={1,0}\n") == "r ");
  CHECK(kept("  s = f32[63,64] slice(n), slice={[0:63], [0:64]}\n"
             "  m = f32[64,64] pad(s, zero), padding=0_1x0_0\n") == "s r ");
  CHECK(kept("  s = f32[32,64] slice(n), slice={[0:64:2], [0:64]}\n"
             "  m = f32[64,64] concatenate(s, s), dimensions={0}\n") == "n s r ");
  CHECK(kept("  m = f32[64,64] reverse(n), dimensions={0}\n") == "n m r ");
  const std::string reshaped =
      "  h = f32[64,8,8] reshape(n)\n  y = f32[64,8,8] OTHER\n  o = f32[64,8,8] add(h, y)\n"
      "  m = f32[64,64] reshape(o)\n";
  const auto with = [&](const std::string& other) {
    std::string text = reshaped;
    return text.replace(text.find("OTHER"), 5, other);
  };
  CHECK(kept(with("parameter(1)")) == "n h r ");
  CHECK(kept(with("broadcast(zero), dimensions={}")) == "r ");
  CHECK(kept("  p = f32[64,64] parameter(1)\n  k = f32[64,8,8] reshape(p)\n"
             "  OTHER = f32[64,8,8] negate(k)\n" +
             with("negate(OTHER)")) == "k r ");
  CHECK(kept("  h = f32[64,1,64] reshape(n)\n  o = f32[64,1,64] negate(h)\n"
             "  m = f32[64,64] reshape(o)\n") == "r ");
}

TEST_CASE("A compiler's output is fused already", "[fusion]") {
  FusionOptions options = kTpu;
  options.is_compiled = true;
  CHECK(KernelsOf(R"(
  x = f32[64] parameter(0)
  n = f32[64] negate(x)
  ROOT r = f32[64] tanh(n)
)",
                  options) == "n, r");
}

}  // namespace
}  // namespace gshard
