// Which stacks between two loops can be computed again, and what is left of them.
#include "core/remat/loop_residuals.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/verify/verifier.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

// A scan that saves x_i, a_i = sin(x_i) and b_i = cos(a_i), 1 KiB a row, with x_{i+1} = b_i +
// shift; the loop behind it reads all three in reverse. `store` is where row i goes, `a` how a_i is
// made.
std::string Scan(const std::string& store = "i", const std::string& a = "sine(x)") {
  const std::string stack = "f32[4,256]", state = "(s32[], f32[256], f32[256], " + stack + ", " +
                                                  stack + ", " + stack + ")";
  std::string text = "HloModule m\n";
  auto element = [&](const std::string& name, const std::string& type, int index) {
    return "  " + name + " = " + type + " get-tuple-element(p), index=" + std::to_string(index) +
           "\n";
  };
  for (const char* name : {"more", "left"}) {
    text += std::string(name) + " {\n  p = " + state + " parameter(0)\n" +
            element("i", "s32[]", 0) +
            "  n = s32[] constant(4)\n  ROOT c = pred[] compare(i, n), direction=LT\n}\n";
  }
  const std::string head = "  p = " + state + " parameter(0)\n" + element("i", "s32[]", 0) +
                           element("x", "f32[256]", 1) + element("shift", "f32[256]", 2) +
                           element("xs", stack, 3) + element("as", stack, 4) +
                           element("bs", stack, 5) +
                           "  zero = s32[] constant(0)\n  one = s32[] constant(1)\n"
                           "  three = s32[] constant(3)\n  next = s32[] add(i, one)\n";
  text += "forward {\n" + head + "  a = f32[256] " + a + "\n  b = f32[256] cosine(a)\n" +
          "  y = f32[256] add(b, shift)\n  late = s32[] subtract(three, i)\n";
  for (const char* name : {"x", "a", "b"}) {
    const std::string v = name;
    text += "  " + v + "row = f32[1,256] reshape(" + v + ")\n  new" + v + "s = " + stack +
            " dynamic-update-slice(" + v + "s, " + v + "row, " + store + ", zero)\n";
  }
  text += "  ROOT r = " + state + " tuple(next, y, shift, newxs, newas, newbs)\n}\nbackward {\n" +
          head + "  late = s32[] subtract(three, i)\n";
  for (const char* name : {"xs", "as", "bs"}) {
    const std::string v = name;
    text += "  " + v + "row = f32[1,256] dynamic-slice(" + v +
            ", late, zero), dynamic_slice_sizes={1,256}\n  " + v + "v = f32[256] reshape(" + v +
            "row)\n";
  }
  text +=
      "  ab = f32[256] multiply(asv, bsv)\n  abx = f32[256] multiply(ab, xsv)\n"
      "  y = f32[256] add(x, abx)\n  ROOT r = " +
      state + " tuple(next, y, shift, xs, as, bs)\n}\n";
  text +=
      "ENTRY e {\n  x = f32[256] parameter(0)\n  shift = f32[256] parameter(1)\n"
      "  zero = s32[] constant(0)\n  f = f32[] constant(0)\n  s = " +
      stack + " broadcast(f), dimensions={}\n  init = " + state +
      " tuple(zero, x, shift, s, s, s)\n" + "  one = " + state +
      " while(init), condition=more, body=forward\n"
      "  y = f32[256] get-tuple-element(one), index=1\n" +
      "  xs = " + stack + " get-tuple-element(one), index=3\n  as = " + stack +
      " get-tuple-element(one), index=4\n  bs = " + stack + " get-tuple-element(one), index=5\n" +
      "  start = " + state + " tuple(zero, y, shift, xs, as, bs)\n  two = " + state +
      " while(start), condition=left, body=backward\n"
      "  ROOT r = f32[256] get-tuple-element(two), index=1\n}\n";
  return text;
}

int64_t Stacks(const Module& module, std::string_view body) {
  for (const Computation* computation : module.computations()) {
    if (computation->name() != body) continue;
    int64_t count = 0;
    for (const Shape* shape : computation->parameter(0)->shape()->elements()) {
      count += shape->rank() == 2;
    }
    return count;
  }
  return -1;
}

TEST_CASE("Rows that follow from other rows need no stack", "[remat]") {
  auto module = Parsed(Scan());
  // x_i is what the loop carries: it cannot be computed again.
  CHECK(CountLoopResiduals(*module) == 2);
  const DroppedResiduals dropped = DropLoopResiduals(*module, 2);
  CHECK(dropped.stacks == 2);
  CHECK(dropped.instructions == 4);  // a sine, a cosine, a reshape of each
  CHECK(VerifyModule(*module).has_value());
  CHECK(Stacks(*module, "forward") == 1);
  CHECK(Stacks(*module, "backward") == 1);
  CHECK(CountLoopResiduals(*module) == 0);
}

TEST_CASE("As few stacks go as are asked for", "[remat]") {
  auto module = Parsed(Scan());
  CHECK(DropLoopResiduals(*module, 1).stacks == 1);
  CHECK(VerifyModule(*module).has_value());
  CHECK(Stacks(*module, "forward") == 2);
  CHECK(DropLoopResiduals(*module, 0).stacks == 0);
}

TEST_CASE("Rows that are not those of the trip, or not computable twice, keep their stack",
          "[remat]") {
  // Row 3 - i holds what trip i made.
  CHECK(CountLoopResiduals(*Parsed(Scan("late"))) == 0);
  // Of a, which a library computes, nobody knows whether it may be computed twice; b follows from
  // it.
  auto module = Parsed(Scan("i", "custom-call(x), custom_call_target=\"library\""));
  CHECK(CountLoopResiduals(*module) == 1);
  CHECK(DropLoopResiduals(*module, 5).stacks == 1);
  CHECK(Stacks(*module, "forward") == 2);
}

TEST_CASE("Annotations do not keep a stack", "[remat]") {
  auto module =
      Parsed(Scan("i", "custom-call(x), custom_call_target=\"Sharding\", sharding={replicated}"));
  CHECK(CountLoopResiduals(*module) == 2);
}

}  // namespace
}  // namespace gshard
