// Calls of cuBLAS and cuDNN against what they stand for.
#include "core/transforms/expand/library_call_expander.h"

#include <fmt/format.h>

#include <cmath>

#include "ir/printer.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

using Floats = std::vector<float>;

// Whole numbers from -2 to 2, unlike for each seed.
Floats Numbers(int64_t count, int64_t seed) {
  Floats values;
  for (int64_t i = 0; i < count; ++i) {
    values.push_back(static_cast<float>((i * i + seed * i + i / 7) % 5 - 2));
  }
  return values;
}

std::unique_ptr<Module> Expanded(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  INFO((module ? "" : Render(module.error())));
  REQUIRE(module);
  REQUIRE(VerifyModule(**module));
  REQUIRE(ExpandLibraryCalls(**module));
  REQUIRE(VerifyModule(**module));
  return std::move(*module);
}

// The results of an entry of this body, after its library calls have been expanded.
std::vector<Floats> Results(const std::string& body, const std::vector<TestInput>& inputs,
                            int64_t results) {
  const std::string text =
      PrintModule(*Expanded("HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) "
                            "ROOT r = f32[] add(a, b) }\nENTRY e {\n" +
                            body + "}\n"));
  INFO(text);
  CHECK(text.find("custom-call") == std::string::npos);
  TestMesh mesh(text, inputs);
  mesh.Run();
  std::vector<Floats> values;
  for (int64_t i = 0; i < results; ++i) {
    values.push_back(mesh.Result<float>(static_cast<size_t>(i)));
  }
  return values;
}

struct ConvolutionCase {
  int64_t in, out, groups;
  std::string window;
  int64_t height, width;  // of the output
};

// <dy, conv(x, w)> = <x, gradient of x> = <w, gradient of w>: whole numbers, so exactly.
TEST_CASE("gradients of cuDNN's convolutions are its adjoints", "[cpu]") {
  const ConvolutionCase cases[] = {
      {4, 6, 1, "size=3x2 pad=1_1x0_0", 7, 5},
      {4, 6, 1, "size=3x2 stride=2x3 pad=0_2x1_0", 4, 2},
      {4, 6, 2, "size=3x2 pad=1_1x0_1 rhs_dilate=2x1", 5, 6},
      {4, 8, 4, "size=3x2 stride=2x1 pad=1_1x0_0", 4, 5},
      {4, 6, 1, "size=3x2 stride=2x1 pad=2_1x1_1 rhs_reversal=1x1", 4, 7},
  };
  for (const ConvolutionCase& c : cases) {
    INFO(c.window);
    const std::string x = fmt::format("f32[2,7,6,{}]", c.in);
    const std::string w = fmt::format("f32[{},3,2,{}]", c.out, c.in / c.groups);
    const std::string y = fmt::format("f32[2,{},{},{}]", c.height, c.width, c.out);
    const auto call = [&](const std::string& shape, const std::string& operands,
                          const std::string& target) {
      return fmt::format(
          "({}, u8[16]) custom-call({}), window={{{}}}, dim_labels=b01f_o01i->b01f, "
          "feature_group_count={}, custom_call_target=\"__cudnn$conv{}\", "
          "backend_config={{\"cudnn_conv_backend_config\":{{\"conv_result_scale\":1}}}}\n",
          shape, operands, c.window, c.groups, target);
    };
    const auto product = [&](const std::string& shape, const std::string& a, const std::string& b) {
      return fmt::format(
          "{0}.g = {1} get-tuple-element({0}), index=0\n{0}.p = {1} multiply({0}.g, {2})\n"
          "{0}.s = f32[] reduce({0}.p, zero), dimensions={{0,1,2,3}}, to_apply=add\n",
          a, shape, b);
    };
    const auto sums =
        Results("x = " + x + " parameter(0)\nw = " + w + " parameter(1)\ndy = " + y +
                    " parameter(2)\nzero = f32[] constant(0)\ny = " + call(y, "x, w", "Forward") +
                    "dx = " + call(x, "dy, w", "BackwardInput") +
                    "dw = " + call(w, "x, dy", "BackwardFilter") + product(y, "y", "dy") +
                    product(x, "dx", "x") + product(w, "dw", "w") +
                    "ROOT r = (f32[], f32[], f32[]) tuple(y.s, dx.s, dw.s)\n",
                {F32({2, 7, 6, c.in}, Numbers(84 * c.in, 1)),
                 F32({c.out, 3, 2, c.in / c.groups}, Numbers(6 * c.out * c.in / c.groups, 2)),
                 F32({2, c.height, c.width, c.out}, Numbers(2 * c.height * c.width * c.out, 3))},
                3);
    CHECK(sums[0][0] != 0);
    CHECK(sums[1] == sums[0]);
    CHECK(sums[2] == sums[0]);
  }
}

TEST_CASE("cuDNN's convolution is scaled before bias, side input and activation", "[cpu]") {
  // One place of the kernel: 0.5 * 3 x + 0.25 side + bias.
  const auto activated = [](const std::string& mode) {
    return Results(
        "x = f32[1,4,1] parameter(0)\nw = f32[1,1,1] constant({{{3}}})\nb = f32[1] constant({1})\n"
        "s = f32[1,4,1] constant({{{4}, {8}, {4}, {8}}})\n"
        "c = (f32[1,4,1], u8[0]) custom-call(x, w, b, s), window={size=1}, "
        "dim_labels=b0f_o0i->b0f, custom_call_target=\"__cudnn$convBiasActivationForward\", "
        "backend_config={\"cudnn_conv_backend_config\":{\"activation_mode\":\"" +
            mode +
            "\",\"conv_result_scale\":0.5,\"side_input_scale\":0.25,\"leakyrelu_alpha\":0.125}}\n"
            "ROOT r = f32[1,4,1] get-tuple-element(c), index=0\n",
        {F32({1, 4, 1}, {2, -4, 8, -2})}, 1)[0];
  };
  CHECK(activated("kNone") == Floats{5, -3, 14, 0});
  CHECK(activated("kRelu") == Floats{5, 0, 14, 0});
  CHECK(activated("kRelu6") == Floats{5, 0, 6, 0});
  CHECK(activated("kLeakyRelu") == Floats{5, -0.375F, 14, 0});
  CHECK(activated("kElu")[1] == Approx(std::expm1(-3.0)));
}

TEST_CASE("cuDNN's graph of a convolution is computed node by node", "[cpu]") {
  // 3 x, times 2, relu: 12, 0; over 4 and saturated: 3, 0; the largest before that: 12.
  const auto results = Results(
      "x = f32[1,2,1] parameter(0)\nw = f32[1,1,1] constant({{{3}}})\na = f32[] constant(2)\n"
      "b = f32[] constant(4)\nc = (f8e4m3fn[1,2,1], f32[], u8[0]) custom-call(x, w, a, b), "
      "window={size=1}, dim_labels=b0f_o0i->b0f, custom_call_target=\"__cudnn$convForwardGraph\", "
      "backend_config={\"cudnn_conv_backend_config\":{\"conv_result_scale\":1,"
      "\"serialized_graph\":\"7:[f32]conv();9:[f32]scale(7);11:[f32]relu(9);"
      "12:[f8e4m3fn]invscale(11);15:[f32]amax(11);\"}}\n"
      "y = f8e4m3fn[1,2,1] get-tuple-element(c), index=0\nz = f32[1,2,1] convert(y)\n"
      "m = f32[] get-tuple-element(c), index=1\nROOT r = (f32[1,2,1], f32[]) tuple(z, m)\n",
      {F32({1, 2, 1}, {2, -4})}, 2);
  CHECK(results[0] == Floats{3, 0});
  CHECK(results[1] == Floats{12});
}

// Each element moved up and down a little, against its gradient.
TEST_CASE("cuDNN's normalisation has the gradients of what it computes", "[cpu]") {
  const std::string given =
      "x = f32[2,3,1,1] parameter(0)\ns = f32[1,3,1,1] parameter(1)\nb = f32[1,3,1,1] "
      "parameter(2)\nw = f32[2,3,1,1] parameter(3)\nzero = f32[] constant(0)\n"
      "c = (f32[2,3,1,1], f32[2,1,1,1], f32[2,1,1,1], u8[4]) custom-call(x, s, b), "
      "custom_call_target=\"__cudnn$norm\", backend_config={\"cudnn_norm_backend_config\":"
      "{\"epsilon\":0.5,\"kind\":\"LAYER_FWD_TRAIN\"}}\n"
      "y = f32[2,3,1,1] get-tuple-element(c), index=0\nm = f32[2,1,1,1] get-tuple-element(c), "
      "index=1\nf = f32[2,1,1,1] get-tuple-element(c), index=2\n";
  const std::string loss = given +
                           "t = f32[2,3,1,1] multiply(y, w)\n"
                           "ROOT r = f32[] reduce(t, zero), dimensions={0,1,2,3}, to_apply=add\n";
  const std::string backward =
      given +
      "g = (f32[2,3,1,1], f32[1,3,1,1], f32[1,3,1,1], u8[4]) custom-call(x, s, w, m, f), "
      "custom_call_target=\"__cudnn$norm\", backend_config={\"cudnn_norm_backend_config\":"
      "{\"epsilon\":0,\"kind\":\"LAYER_BWD\"}}\n"
      "dx = f32[2,3,1,1] get-tuple-element(g), index=0\nds = f32[1,3,1,1] get-tuple-element(g), "
      "index=1\ndb = f32[1,3,1,1] get-tuple-element(g), index=2\n"
      "ROOT r = (f32[2,3,1,1], f32[1,3,1,1], f32[1,3,1,1]) tuple(dx, ds, db)\n";
  std::vector<Floats> values = {{1, -2, 0, 3, 5, 4}, {2, 1, -1}, {0, 1, 2}, {1, 2, -1, 0, 3, 1}};
  const auto inputs = [&] {
    return std::vector<TestInput>{F32({2, 3, 1, 1}, values[0]), F32({1, 3, 1, 1}, values[1]),
                                  F32({1, 3, 1, 1}, values[2]), F32({2, 3, 1, 1}, values[3])};
  };
  CHECK(Results(given + "ROOT r = (f32[2,1,1,1], f32[2,1,1,1]) tuple(m, f)\n", inputs(), 2)[0][1] ==
        Approx(4));
  const std::vector<Floats> gradients = Results(backward, inputs(), 3);
  for (size_t i = 0; i < 3; ++i) {
    INFO("operand " << i);
    for (size_t j = 0; j < values[i].size(); ++j) {
      const float at = values[i][j];
      constexpr float kStep = 1e-2F;
      values[i][j] = at + kStep;
      const float above = Results(loss, inputs(), 1)[0][0];
      values[i][j] = at - kStep;
      const float below = Results(loss, inputs(), 1)[0][0];
      values[i][j] = at;
      CHECK((above - below) / (2 * kStep) == Approx(gradients[i][j]).epsilon(0.01).margin(0.002));
    }
  }
}

std::string Gemm(const std::string& shape, const std::string& operands, const std::string& target,
                 const std::string& options) {
  return fmt::format(
      "c = {} custom-call({}), custom_call_target=\"__cublas${}\", "
      "backend_config={{\"gemm_backend_config\":{{\"dot_dimension_numbers\":"
      "{{\"lhs_contracting_dimensions\":[\"1\"],\"rhs_contracting_dimensions\":[\"0\"],"
      "\"lhs_batch_dimensions\":[],\"rhs_batch_dimensions\":[]}},{}}}}}\n",
      shape, operands, target, options);
}

TEST_CASE("cuBLAS adds its third operand and the bias, and keeps what it activates", "[cpu]") {
  const std::string given =
      "a = f32[1,2] constant({{1, 2}})\nb = f32[2,2] constant({{1, -1}, {2, -3}})\n"
      "d = f32[1,2] constant({{1, 2}})\ne = f32[2] constant({1, 2})\n";
  const auto both = Results(
      given +
          Gemm("(f32[1,2], f32[1,2], s8[32])", "a, b, d, e", "lt$matmul",
               R"("alpha_real":-1,"alpha_imag":0,"beta":0.5,"epilogue":"BIAS_RELU_AUX")") +
          "y = f32[1,2] get-tuple-element(c), index=0\nz = f32[1,2] get-tuple-element(c), index=1\n"
          "ROOT r = (f32[1,2], f32[1,2]) tuple(y, z)\n",
      {}, 2);
  CHECK(both[0] == Floats{0, 10});
  CHECK(both[1] == Floats{-3.5F, 10});
  const auto gelu =
      Results(given + Gemm("f32[1,2]", "a, b", "gemm", R"("alpha_real":0.1,"epilogue":"GELU")") +
                  "ROOT r = f32[1,2] copy(c)\n",
              {}, 1);
  CHECK(gelu[0][0] == Approx(0.345714));
  CHECK(gelu[0][1] == Approx(-0.16943).epsilon(1e-4));
}

TEST_CASE("cuBLAS scales products of f8, and results of f8 again, in their range", "[cpu]") {
  const auto scaled = Results(
      "x = f32[1,2] constant({{1, 2}})\na = f8e4m3fn[1,2] convert(x)\n"
      "y = f32[2,2] constant({{1, -1}, {2, -3}})\nb = f8e4m3fn[2,2] convert(y)\n"
      "sa = f32[] constant(2)\nsb = f32[] constant(0.5)\nsc = f32[] constant(100)\n" +
          Gemm("(f8e4m3fn[1,2], f32[], s8[32])", "a, b, sa, sb, sc", "lt$matmul$f8",
               R"("alpha_real":1,"beta":0,"epilogue":"DEFAULT","damax_output":true)") +
          "d = f8e4m3fn[1,2] get-tuple-element(c), index=0\nw = f32[1,2] convert(d)\n"
          "m = f32[] get-tuple-element(c), index=1\nROOT r = (f32[1,2], f32[]) tuple(w, m)\n",
      {}, 2);
  CHECK(scaled[0] == Floats{448, -448});
  CHECK(scaled[1] == Floats{7});
}

// Two examples of 3 queries and 4 keys, 4 heads of which two share a head of keys; the second
// example is shorter. The gradients' shares along a direction against differences.
std::string AttentionLoss(bool with_gradients) {
  const std::string dims =
      R"({"lhs_contracting_dimensions":["3"],"rhs_contracting_dimensions":["3"],)"
      R"("lhs_batch_dimensions":["0","2"],"rhs_batch_dimensions":["0","2"]})";
  const auto onto = [](int contracted) {
    return fmt::format(
        R"({{"lhs_contracting_dimensions":["{}"],"rhs_contracting_dimensions":["1"],)"
        R"("lhs_batch_dimensions":["0","1"],"rhs_batch_dimensions":["0","2"]}})",
        contracted);
  };
  const std::string config =
      R"(backend_config={"cudnn_fmha_backend_config":{"fmha_scale":0.5,"mask_type":)"
      R"("PADDING_CAUSAL","dropout_rate":0.0,"sliding_window_length":2,)";
  std::string text =
      "q = f32[2,3,4,5] parameter(0)\nk = f32[2,4,2,5] parameter(1)\nv = f32[2,4,2,5] "
      "parameter(2)\n"
      "b = f32[1,4,3,4] parameter(3)\nw = f32[2,4,3,5] parameter(4)\nzero = f32[] constant(0)\n"
      "rows = s32[2] constant({3, 2})\ncolumns = s32[2] constant({4, 3})\n"
      "f = (f32[2,4,3,5], f32[2,4,3], u8[0]) custom-call(q, k, v, b, rows, columns), "
      "custom_call_target=\"__cudnn$fmhaScaleBiasSoftmax\", " +
      config + "\"bmm1_dot_dimension_numbers\":" + dims +
      ",\"bmm2_dot_dimension_numbers\":" + onto(3) +
      "}}\no = f32[2,4,3,5] get-tuple-element(f), index=0\nl = f32[2,4,3] get-tuple-element(f), "
      "index=1\nt = f32[2,4,3,5] multiply(o, w)\ny = f32[] reduce(t, zero), dimensions={0,1,2,3}, "
      "to_apply=add\n";
  if (!with_gradients) return text + "ROOT r = f32[] copy(y)\n";
  text +=
      "u = f32[2,3,4,5] transpose(o), dimensions={0,2,1,3}\n"
      "dy = f32[2,3,4,5] transpose(w), dimensions={0,2,1,3}\n"
      "g = (f32[2,4,3,5], f32[2,2,4,5], f32[2,2,4,5], f32[1,4,3,4], u8[0]) "
      "custom-call(q, k, v, l, dy, b, u, rows, columns), "
      "custom_call_target=\"__cudnn$fmhaScaleBiasSoftmaxBackward\", " +
      config + "\"bmm1_grad_gemm1_dot_dimension_numbers\":" + onto(2) +
      ",\"bmm1_grad_gemm2_dot_dimension_numbers\":" + onto(3) +
      ",\"bmm2_grad_gemm1_dot_dimension_numbers\":" + onto(2) +
      ",\"bmm2_grad_gemm2_dot_dimension_numbers\":" + dims +
      "}}\ndq = f32[2,4,3,5] get-tuple-element(g), index=0\ndk = f32[2,2,4,5] "
      "get-tuple-element(g), "
      "index=1\ndv = f32[2,2,4,5] get-tuple-element(g), index=2\ndb = f32[1,4,3,4] "
      "get-tuple-element(g), index=3\nmq = f32[2,3,4,5] transpose(dq), dimensions={0,2,1,3}\n"
      "mk = f32[2,4,2,5] transpose(dk), dimensions={0,2,1,3}\n"
      "mv = f32[2,4,2,5] transpose(dv), dimensions={0,2,1,3}\n"
      "ROOT r = (f32[2,3,4,5], f32[2,4,2,5], f32[2,4,2,5], f32[1,4,3,4]) tuple(mq, mk, mv, db)\n";
  return text;
}

TEST_CASE("cuDNN's attention has the gradients of what it computes", "[cpu]") {
  std::vector<Floats> values = {Numbers(120, 1), Numbers(80, 2), Numbers(80, 3), Numbers(48, 4),
                                Numbers(120, 6)};
  const auto inputs = [&] {
    return std::vector<TestInput>{F32({2, 3, 4, 5}, values[0]), F32({2, 4, 2, 5}, values[1]),
                                  F32({2, 4, 2, 5}, values[2]), F32({1, 4, 3, 4}, values[3]),
                                  F32({2, 4, 3, 5}, values[4])};
  };
  const std::vector<Floats> gradients = Results(AttentionLoss(true), inputs(), 4);
  constexpr float kStep = 1e-2F;
  for (size_t i = 0; i < 4; ++i) {
    INFO("operand " << i);
    const Floats at = values[i];
    const Floats direction = Numbers(static_cast<int64_t>(at.size()), 9);
    double expected = 0;
    for (size_t j = 0; j < at.size(); ++j) expected += gradients[i][j] * direction[j];
    const auto loss = [&](float step) {
      for (size_t j = 0; j < at.size(); ++j) values[i][j] = at[j] + step * direction[j];
      return Results(AttentionLoss(false), inputs(), 1)[0][0];
    };
    const double difference = (loss(kStep) - loss(-kStep)) / (2 * kStep);
    values[i] = at;
    CHECK(std::abs(expected) > 0.5);
    CHECK(difference == Approx(expected).epsilon(0.01));
  }
}

TEST_CASE("a call with dropout stays as it is", "[cpu]") {
  std::string text =
      "HloModule m\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT r = "
      "f32[] add(a, b) }\nENTRY e {\n" +
      AttentionLoss(false) + "}\n";
  const std::string none = "\"dropout_rate\":0.0";
  text.replace(text.find(none), none.size(), "\"dropout_rate\":0.5");
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  REQUIRE(module);
  CHECK_FALSE(ExpandLibraryCalls(**module));
}

}  // namespace
}  // namespace gshard::cpu
