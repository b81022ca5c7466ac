#include "backends/cpu/verify/widened_outputs.h"

#include <string>
#include <utility>
#include <vector>

#include "core/precision/float_widening.h"
#include "ir/printer.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Outcome = WidenedResult::Outcome;

std::string WidenedText(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  REQUIRE(module);
  WidenFloats(**module);
  return PrintModule(**module);
}

std::vector<OutputArray> Outputs(MeshRun& run) {
  std::vector<OutputArray> outputs;
  for (size_t k = 0; k < run.result_count(); ++k) outputs.push_back(run.Output(k));
  return outputs;
}

// What is said of two programs of one device, with these inputs.
WidenedResult StepChecker(const std::string& program, const std::string& reference,
                          const std::vector<TestInput>& inputs) {
  TestMesh mesh(program, inputs), whole(reference, inputs);
  const std::vector<OutputArray> expected = Outputs(whole.Run());
  const VerifyResult narrow = VerifyOutputs(mesh.Run(), expected, whole.module());
  TestMesh wide_mesh(WidenedText(program), inputs), wide_whole(WidenedText(reference), inputs);
  return JudgeWidened(narrow, expected, mesh.module(), whole.module(), wide_mesh.Run(),
                      Outputs(wide_whole.Run()));
}

// An entry of x f32[4] = {0.1, 0.2, 0.3, 0.4} and others by number.
std::string Entry(const std::string& body) {
  return "HloModule m\nENTRY e { x = f32[4] parameter(0)\n" + body + " }\n";
}
const std::vector<TestInput> kInputs = {F32({4}, {0.1f, 0.2f, 0.3f, 0.4f})};

// Zero in exact arithmetic, of quotients, which are rounded alike everywhere; `order` says which
// terms go first.
std::string Cancelled(const std::string& order) {
  std::string body;
  for (const auto& [name, divisor] :
       {std::pair("s", "7"), std::pair("c", "9"), std::pair("t", "13")}) {
    const std::string all = std::string(name) + "s";
    body += "n" + all + " = f32[] constant(" + divisor + ")\n " + all + " = f32[4] broadcast(n" +
            all + "), dimensions={}\n " + name + " = f32[4] divide(x, " + all + ")\n ";
  }
  return Entry(body + order);
}
const char* const kFirstAdded =
    " a = f32[4] add(s, c)\n b = f32[4] add(a, t)\n d = f32[4] subtract(b, s)\n"
    " f = f32[4] subtract(d, c)\n ROOT r = f32[4] subtract(f, t)\n";
const char* const kLastAdded =
    " a = f32[4] add(c, t)\n b = f32[4] add(a, s)\n d = f32[4] subtract(b, t)\n"
    " f = f32[4] subtract(d, s)\n ROOT r = f32[4] subtract(f, c)\n";

TEST_CASE("sums that cancel to nothing differ by rounding", "[widened]") {
  const WidenedResult result = StepChecker(Cancelled(kFirstAdded), Cancelled(kLastAdded), kInputs);
  CHECK(result.outcome == Outcome::kRounding);
  CHECK(result.was_run);
  REQUIRE(result.outputs.size() == 1);
  CHECK(result.outputs[0].mismatch.name == "o0");
  CHECK(result.outputs[0].rounding > 1e-9);
  CHECK(result.outputs[0].error < 1e-15);
  CHECK_FALSE(result.outputs[0].remains);
  CHECK(result.max_rel_error < 1e-7);
}

TEST_CASE("what stays in double precision is no rounding", "[widened]") {
  const WidenedResult result =
      StepChecker(Entry("ROOT r = f32[4] sine(x)"), Entry("ROOT r = f32[4] tanh(x)"), kInputs);
  CHECK(result.outcome == Outcome::kRemains);
  CHECK(result.worst == "o0");
  REQUIRE(result.outputs.size() == 1);
  CHECK(result.outputs[0].remains);
  CHECK(result.outputs[0].widened.index == std::vector<int64_t>{3});
  CHECK(result.outputs[0].widened.differences == 4);
}

// Two outputs: one cancels, the other is x times a factor.
std::string CancelledAnd(const std::string& order, const std::string& factor) {
  std::string text = Cancelled(order);
  text.replace(text.find("ROOT r"), 6, "r");
  text.erase(text.rfind('}'));
  return text + " k = f32[] constant(" + factor +
         ")\n ks = f32[4] broadcast(k), dimensions={}\n y = f32[4] multiply(x, ks)\n"
         " ROOT both = (f32[4], f32[4]) tuple(r, y) }\n";
}

TEST_CASE("rounding of one output hides no mistake in another, however small", "[widened]") {
  // Within the tolerance of f32, and well above the rounding of a product.
  WidenedResult result =
      StepChecker(CancelledAnd(kFirstAdded, "1.00002"), CancelledAnd(kLastAdded, "1"), kInputs);
  CHECK(result.outcome == Outcome::kRemains);
  CHECK(result.worst == "o1");
  // About as large as the rounding: nothing is known.
  std::string with_decay = CancelledAnd(kLastAdded, "1.5e-7");
  const std::string last = "y = f32[4] multiply(x, ks)\n";
  with_decay.replace(with_decay.find(last), last.size(),
                     "decay = f32[4] multiply(x, ks)\n y = f32[4] subtract(x, decay)\n");
  std::string without = CancelledAnd(kFirstAdded, "1.5e-7");
  without.replace(without.find(last), last.size(), "y = f32[4] copy(x)\n");
  result = StepChecker(without, with_decay, kInputs);
  CHECK(result.outcome == Outcome::kUndecided);
  CHECK(result.reason.find("o1 stays off by") == 0);
  result = StepChecker(CancelledAnd(kFirstAdded, "1"), CancelledAnd(kLastAdded, "1"), kInputs);
  CHECK(result.outcome == Outcome::kRounding);
}

TEST_CASE("a constant that was rounded to its type is off by that in double, too", "[widened]") {
  const std::string third = Entry(
      "k = f32[] constant(0.333333343)\n ks = f32[4] broadcast(k), dimensions={}\n"
      " y = f32[4] multiply(x, ks)\n");
  const std::string by_three = Entry(
      "k = f32[] constant(3)\n ks = f32[4] broadcast(k), dimensions={}\n"
      " y = f32[4] divide(x, ks)\n");
  const auto with = [](std::string text, const std::string& order) {
    std::string rest = Cancelled(order);
    rest = rest.substr(rest.find("nss = "));
    rest.replace(rest.find("ROOT r"), 6, "r");
    rest.erase(rest.rfind('}'));
    text.erase(text.rfind('}'));
    return text + rest + " ROOT both = (f32[4], f32[4]) tuple(r, y) }\n";
  };
  CHECK(StepChecker(with(third, kFirstAdded), with(by_three, kLastAdded), kInputs).outcome ==
        Outcome::kRounding);
  // Where the reference has it as well it is no new one: what differs has another cause.
  CHECK(StepChecker(with(third, kFirstAdded), with(third, kLastAdded), kInputs).outcome ==
        Outcome::kRounding);
}

TEST_CASE("coarser types, overflow and lost precision are not rounding of the program",
          "[widened]") {
  const std::string plain = Entry("s = f32[4] sine(x)\n ROOT r = f32[4] multiply(s, s)");
  WidenedResult result =
      StepChecker(Entry("s = f32[4] sine(x)\n b = bf16[4] convert(s)\n"
                        " w = f32[4] convert(b)\n ROOT r = f32[4] multiply(w, w)"),
                  plain, kInputs);
  CHECK(result.outcome == Outcome::kUndecided);
  CHECK(result.reason ==
        "both agree in f64, but the devices round o0 to 16 bits, the unpartitioned graph to 32 "
        "bits");
  result =
      StepChecker(Entry("s = f32[4] sine(x)\n q = f32[4] reduce-precision(s), exponent_bits=8, "
                        "mantissa_bits=7\n ROOT r = f32[4] multiply(q, q)"),
                  plain, kInputs);
  CHECK(result.reason.find("16 bits") != std::string::npos);

  const auto around = [](const char* there, const char* back, const char* big) {
    return Entry(std::string("s = f32[4] sine(x)\n k = f32[] constant(") + big +
                 ")\n ks = f32[4] broadcast(k), dimensions={}\n a = f32[4] " + there +
                 "(s, ks)\n b = f32[4] " + there + "(a, ks)\n c = f32[4] " + back +
                 "(b, ks)\n d = f32[4] " + back + "(c, ks)\n ROOT r = f32[4] multiply(d, d)\n");
  };
  result = StepChecker(around("multiply", "divide", "1e30"), plain, kInputs);
  CHECK(result.outcome == Outcome::kUndecided);
  CHECK(result.reason == "both agree in f64, but the devices make NaN or infinity of o0");
  result = StepChecker(around("add", "subtract", "65536"), plain, kInputs);
  CHECK(result.outcome == Outcome::kUndecided);
  CHECK(result.reason.find("the devices lose precision") != std::string::npos);
}

TEST_CASE("of results of f64 alone nothing is known", "[widened]") {
  const std::vector<TestInput> inputs = {
      {DType::kF64, {2}, BytesOf(std::vector<double>{0.25, 0.5})}};
  const auto text = [](const char* op) {
    return std::string("HloModule m\nENTRY e { x = f64[2] parameter(0)\n ROOT r = f64[2] ") + op +
           "(x) }\n";
  };
  const WidenedResult result = StepChecker(text("sine"), text("tanh"), inputs);
  CHECK(result.outcome == Outcome::kUndecided);
  CHECK(result.reason == "o0 follows from nothing narrower than f64");
}

// Integers too: picks that rounding decides agree in double precision, wrong ones do not.
TEST_CASE("picks are judged as they are in double precision", "[widened]") {
  const auto floors = [](const std::string& order) {
    std::string text = Cancelled(order);
    text.replace(text.find("ROOT r"), 6, "r");
    text.erase(text.rfind('}'));
    return text +
           " k = f32[] constant(1073741824)\n ks = f32[4] broadcast(k), dimensions={}\n"
           " y = f32[4] multiply(r, ks)\n ROOT n = s32[4] convert(y) }\n";
  };
  const WidenedResult result = StepChecker(floors(kFirstAdded), floors(kLastAdded), kInputs);
  CHECK(result.outcome == Outcome::kRounding);
  CHECK(StepChecker(Entry("ROOT n = s32[4] convert(x)"),
                    Entry("one = f32[] constant(1)\n ones = f32[4] broadcast(one), dimensions={}\n"
                          " y = f32[4] add(x, ones)\n ROOT n = s32[4] convert(y)"),
                    kInputs)
            .outcome == Outcome::kRemains);
}

TEST_CASE("the sign of rounding is undecided in any precision", "[widened]") {
  const auto signs = [](const std::string& order) {
    std::string text = Cancelled(order);
    text.replace(text.find("ROOT r"), 6, "r");
    text.erase(text.rfind('}'));
    return text + " ROOT n = f32[4] sign(r) }\n";
  };
  const WidenedResult result = StepChecker(signs(kFirstAdded), signs(kLastAdded), kInputs);
  CHECK(result.outcome == Outcome::kUndecided);
  CHECK(result.reason.find("that may be rounding") != std::string::npos);
}

// A widened program computes what it did, up to what its own type rounds.
TEST_CASE("a widened program's values are the program's", "[widened]") {
  const std::string uniform = R"(HloModule m
ENTRY e {
  bits = u32[4] parameter(0)
  n = u32[] constant(9)
  ns = u32[4] broadcast(n), dimensions={}
  mantissa = u32[4] shift-right-logical(bits, ns)
  one = u32[] constant(1065353216)
  ones = u32[4] broadcast(one), dimensions={}
  exponent = u32[4] or(mantissa, ones)
  number = f32[4] bitcast-convert(exponent)
  k = f32[] constant(1)
  ks = f32[4] broadcast(k), dimensions={}
  ROOT r = f32[4] subtract(number, ks)
})";
  const std::vector<TestInput> bits = {
      {DType::kU32, {4}, BytesOf(std::vector<uint32_t>{0, 1u << 31, 0xffffffff, 123456789})}};
  TestMesh narrow(uniform, bits), wide(WidenedText(uniform), bits);
  narrow.Run();
  wide.Run();
  const std::vector<float> values = narrow.Result<float>();
  CHECK(wide.Result<double>() == std::vector<double>(values.begin(), values.end()));

  const std::string rounds = Entry(
      "b = bf16[4] convert(x)\n q = f8e4m3fn[4] convert(b)\n w = f32[4] convert(q)\n"
      " t = f32[] constant(0.1)\n ts = f32[4] broadcast(t), dimensions={}\n"
      " ROOT r = f32[4] add(w, ts)");
  TestMesh rounding(WidenedText(rounds), kInputs);
  rounding.Run();
  const double tenth = 0.1f;
  CHECK(rounding.Result<double>() ==
        std::vector<double>{0.1015625 + tenth, 0.203125 + tenth, 0.3125 + tenth, 0.40625 + tenth});
}

}  // namespace
}  // namespace gshard::cpu
