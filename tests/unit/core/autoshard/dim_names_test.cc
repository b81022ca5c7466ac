#include "core/autoshard/dim_names.h"

#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "core/transforms/inline_calls.h"
#include "ir/parser.h"

namespace gshard::autoshard {
namespace {

std::unique_ptr<Module> Parse(const std::string& text) {
  auto module = *ParseModule(SourceText::FromString("t.hlo", text));
  REQUIRE(InlineCalls(*module));
  return module;
}

const Instruction* Find(const Module& module, std::string_view name) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->name() == name) return x;
    }
  }
  FAIL("no instruction " << name);
  return nullptr;
}

TEST_CASE("dims that a dot contracts or passes on have one name", "[autoshard]") {
  const auto module = Parse(R"(HloModule m
ENTRY e {
  x = f32[8,16] parameter(0)
  w = f32[16,32] parameter(1)
  ROOT y = f32[8,32] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  const DimNames names(*module);
  const Instruction *x = Find(*module, "x"), *w = Find(*module, "w"), *y = Find(*module, "y");
  CHECK(names.count() == 3);
  CHECK(names.Of(x, 0, 0) == names.Of(y, 0, 0));
  CHECK(names.Of(x, 0, 1) == names.Of(w, 0, 0));
  CHECK(names.Of(w, 0, 1) == names.Of(y, 0, 1));
  CHECK(names.Of(x, 0, 0) != names.Of(y, 0, 1));
}

TEST_CASE("names go through loops and tuples", "[autoshard]") {
  const auto module = Parse(R"(HloModule m
body {
  s = (s32[], f32[8,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  one = s32[] constant(1)
  next = s32[] add(i, one)
  a = f32[8,16] get-tuple-element(s), index=1
  w = f32[16,16] get-tuple-element(s), index=2
  d = f32[8,16] dot(a, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT t = (s32[], f32[8,16], f32[16,16]) tuple(next, d, w)
}
cond {
  s = (s32[], f32[8,16], f32[16,16]) parameter(0)
  i = s32[] get-tuple-element(s), index=0
  n = s32[] constant(4)
  ROOT c = pred[] compare(i, n), direction=LT
}
ENTRY e {
  x = f32[8,16] parameter(0)
  v = f32[16,16] parameter(1)
  zero = s32[] constant(0)
  init = (s32[], f32[8,16], f32[16,16]) tuple(zero, x, v)
  loop = (s32[], f32[8,16], f32[16,16]) while(init), condition=cond, body=body
  ROOT y = f32[8,16] get-tuple-element(loop), index=1
})");
  const DimNames names(*module);
  const Instruction *x = Find(*module, "x"), *v = Find(*module, "v"), *y = Find(*module, "y");
  CHECK(names.Of(x, 0, 0) == names.Of(y, 0, 0));
  // The loop carries d where it had a: the width goes round.
  CHECK(names.Of(v, 0, 0) == names.Of(v, 0, 1));
  CHECK(names.Of(x, 0, 1) == names.Of(v, 0, 0));
  CHECK(names.Of(x, 0, 0) != names.Of(x, 0, 1));
}

TEST_CASE("what is made of constants ties nothing", "[autoshard]") {
  const auto module = Parse(R"(HloModule m
ENTRY e {
  x = f32[8,16] parameter(0)
  y = f32[8,16] parameter(1)
  c = f32[] constant(0)
  z = f32[8,16] broadcast(c), dimensions={}
  a = f32[8,16] maximum(x, z)
  b = f32[8,16] maximum(y, z)
  ROOT t = (f32[8,16], f32[8,16]) tuple(a, b)
})");
  const DimNames names(*module);
  CHECK(names.Of(Find(*module, "x"), 0, 0) != names.Of(Find(*module, "y"), 0, 0));
}

TEST_CASE("layers that are written out are tied, tensors of one layer are not", "[autoshard]") {
  const auto module = Parse(R"(HloModule m
ENTRY e {
  a = f32[16,16] parameter(0), metadata={op_name="params['layers'][0]['wq']"}
  b = f32[16,16] parameter(1), metadata={op_name="params['layers'][1]['wq']"}
  c = f32[16,16] parameter(2), metadata={op_name="params['layers'][1]['wk']"}
  d = f32[16,16] parameter(3), metadata={op_name="w1"}
  f = f32[16,16] parameter(4), metadata={op_name="w2"}
  ROOT t = (f32[16,16], f32[16,16], f32[16,16], f32[16,16], f32[16,16]) tuple(a, b, c, d, f)
})");
  const DimNames names(*module);
  const auto name = [&](const char* of) { return names.Of(Find(*module, of), 0, 0); };
  CHECK(name("a") == name("b"));
  CHECK(name("b") != name("c"));
  CHECK(name("d") != name("f"));
}

TEST_CASE("products of layers that are written out are tied by what no parameter has",
          "[autoshard]") {
  const auto layer = [](const std::string& n, const std::string& x) {
    return "  q" + n + " = f32[8,4,16] reshape(" + x + ")\n  scores" + n + " = f32[8,4,4] dot(q" +
           n + ", q" + n +
           "), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
           "rhs_contracting_dims={2}, metadata={op_name=\"layers_" +
           n + "/scores\"}\n  o" + n + " = f32[8,4,16] dot(scores" + n + ", q" + n +
           "), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, "
           "rhs_contracting_dims={1}, metadata={op_name=\"layers_" +
           n + "/mix\"}\n  y" + n + " = f32[8,64] reshape(o" + n + ")\n";
  };
  const auto parsed = [&](int layers) {
    std::string text =
        "HloModule m\nENTRY e {\n  x = f32[8,64] parameter(0), metadata={op_name=\"x\"}\n";
    std::string last = "x";
    for (int i = 0; i < layers; ++i) {
      const std::string number = std::to_string(i);
      text += layer(number, last);
      last = "y" + number;
    }
    return Parse(text + "  ROOT r = f32[8,64] negate(" + last + ")\n}\n");
  };
  const auto module = parsed(8);
  const DimNames names(*module);
  const auto name = [&](const char* of, int64_t dim) {
    return names.Of(Find(*module, of), 0, dim);
  };
  CHECK(name("o0", 2) == name("o7", 2));  // the width of a head
  CHECK(name("o0", 2) != name("o0", 1));
  CHECK(name("scores0", 2) == name("o7", 1));  // heads: a parameter's
  // Few layers are told apart.
  const auto few = parsed(2);
  const DimNames names_of_few(*few);
  CHECK(names_of_few.Of(Find(*few, "o0"), 0, 2) != names_of_few.Of(Find(*few, "o1"), 0, 2));
}

// Layers [16,64], [64,16] around a residual stream, without names, and a last product.
std::string UnnamedLayers(int layers) {
  std::string text = "HloModule m\nENTRY e {\n  x = f32[8,16] parameter(0)\n";
  std::string last = "x";
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(R"(  a{0} = f32[16,64] parameter({1})
  b{0} = f32[64,16] parameter({2})
  hidden{0} = f32[8,64] dot({3}, a{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  active{0} = f32[8,64] tanh(hidden{0})
  out{0} = f32[8,16] dot(active{0}, b{0}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}
  y{0} = f32[8,16] add({3}, out{0})
)",
                        i, 2 * i + 1, 2 * i + 2, last);
    last = fmt::format("y{}", i);
  }
  return text + "  ROOT r = f32[8,16] negate(" + last + ")\n}\n";
}

TEST_CASE("weights without names are tied by what is made of them, where there are many",
          "[autoshard]") {
  const auto module = Parse(UnnamedLayers(6));
  const DimNames names(*module);
  const auto hidden = [&](const Module& of, const DimNames& in, const char* weight) {
    return in.Of(Find(of, weight), 0, 1);
  };
  CHECK(hidden(*module, names, "a0") == hidden(*module, names, "a3"));
  CHECK(hidden(*module, names, "a3") == hidden(*module, names, "a5"));  // the last layer, too
  CHECK(hidden(*module, names, "a3") != hidden(*module, names, "b3"));
  const auto few = Parse(UnnamedLayers(3));
  const DimNames names_of_few(*few);
  CHECK(hidden(*few, names_of_few, "a0") != hidden(*few, names_of_few, "a2"));
}

TEST_CASE("layers that follow each other without a stream keep the dims of a weight apart",
          "[autoshard]") {
  const auto module = Parse(R"(HloModule m
ENTRY e {
  x = f32[8,16] parameter(0)
  a = f32[16,16] parameter(1), metadata={op_name="params[0]['w']"}
  b = f32[16,16] parameter(2), metadata={op_name="params[1]['w']"}
  h = f32[8,16] dot(x, a), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  ROOT y = f32[8,16] dot(h, b), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})");
  const DimNames names(*module);
  const Instruction* b = Find(*module, "b");
  CHECK(names.Of(b, 0, 0) != names.Of(b, 0, 1));
}

}  // namespace
}  // namespace gshard::autoshard
