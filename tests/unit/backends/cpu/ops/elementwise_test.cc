// Vectors of docs/semantics.md, "Elementwise float", "Integers and pred", "Converts", "Complex".
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {

TEST_CASE("maximum, minimum, clamp of NaN and signed zeros", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = f32[4] constant({0, -0.0, 1, nan})
    b = f32[4] constant({-0.0, 0, nan, 1})
    x = f32[4] maximum(a, b)
    y = f32[4] minimum(a, b)
    lo = f32[] constant(5)
    v = f32[3] constant({0, 7, 3})
    hi = f32[] constant(2)
    z = f32[3] clamp(lo, v, hi)
    n = f32[] constant(nan)
    w = f32[3] clamp(n, v, hi)
    ilo = s32[] constant(5)
    iv = s32[3] constant({0, 7, 3})
    ihi = s32[] constant(2)
    iz = s32[3] clamp(ilo, iv, ihi)
    ex = f32[4] constant({0, 0, nan, nan})
    ey = f32[4] constant({-0.0, -0.0, nan, nan})
    ez = f32[3] constant({2, 2, 2})
    ew = f32[3] constant({nan, nan, nan})
    eiz = s32[3] constant({2, 2, 2})
    ROOT t = tuple(x, y, z, w, iz, ex, ey, ez, ew, eiz))");
}

TEST_CASE("rounding keeps the sign of zero", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = f32[6] constant({-2.5, 0.5, 0.49999997, -0.5, 1.5, -0.0})
    x = f32[6] round-nearest-afz(a)
    y = f32[6] round-nearest-even(a)
    c = f32[6] ceil(a)
    f = f32[6] floor(a)
    s = f32[6] sign(a)
    ex = f32[6] constant({-3, 1, 0, -1, 2, -0.0})
    ey = f32[6] constant({-2, 0, 0, -0.0, 2, -0.0})
    ec = f32[6] constant({-2, 1, 1, -0.0, 2, -0.0})
    ef = f32[6] constant({-3, 0, 0, -1, 1, -0.0})
    es = f32[6] constant({-1, 1, 1, -1, 1, -0.0})
    ROOT t = tuple(x, y, c, f, s, ex, ey, ec, ef, es))");
}

TEST_CASE("remainder and power", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = f32[7] constant({5, -5, -3, 1, inf, 3, -0.0})
    b = f32[7] constant({-3, 3, 3, 0, 2, inf, 3})
    x = f32[7] remainder(a, b)
    p = f32[16] constant({0, 0, -0.0, -0.0, -0.0, -0.0, 1, nan, -1, -8, -inf, -inf, -inf, -inf, -2, 0.5})
    q = f32[16] constant({0, -1, -1, -2, 3, 0.5, nan, 0, inf, 0.33333334, 3, 2, -3, 0.5, 0.5, -inf})
    y = f32[16] power(p, q)
    ex = f32[7] constant({2, -2, -0.0, nan, nan, 3, -0.0})
    ey = f32[16] constant({1, inf, -inf, inf, -0.0, 0, 1, 1, 1, nan, -inf, inf, -0.0, inf, nan, inf})
    ROOT t = tuple(x, y, ex, ey))");
}

TEST_CASE("special values of functions", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = f32[4] constant({-0.0, 0, inf, -1})
    sq = f32[4] sqrt(a)
    rs = f32[4] rsqrt(a)
    b = f32[5] constant({-inf, inf, 89, -0.0, nan})
    ex = f32[5] exponential(b)
    e1 = f32[5] exponential-minus-one(b)
    th = f32[5] tanh(b)
    er = f32[5] erf(b)
    lo = f32[5] logistic(b)
    si = f32[5] sine(b)
    c = f32[5] constant({0, -0.0, -1, inf, 1})
    lg = f32[5] log(c)
    l1 = f32[5] log-plus-one(c)
    d = f32[4] constant({8.5, -17, 3e38, 4})
    dt = f32[4] tanh(d)
    de = f32[4] erf(d)
    esq = f32[4] constant({-0.0, 0, inf, nan})
    ers = f32[4] constant({-inf, inf, 0, nan})
    eex = f32[5] constant({0, inf, inf, 1, nan})
    ee1 = f32[5] constant({-1, inf, inf, -0.0, nan})
    eth = f32[5] constant({-1, 1, 1, -0.0, nan})
    elo = f32[5] constant({0, 1, 1, 0.5, nan})
    elg = f32[5] constant({-inf, -inf, nan, inf, 0})
    el1 = f32[5] constant({0, -0.0, -inf, inf, 0.693147182})
    edt = f32[4] constant({1, -1, 1, 0.999329299})
    ede = f32[4] constant({1, -1, 1, 1})
    ROOT t = tuple(sq, rs, ex, e1, th, er, lo, lg, l1, dt, de, esq, ers, eex, ee1, eth, eth, elo, elg, el1, edt, ede))",
               "", 1);
}

TEST_CASE("sine and cosine of large arguments", "[kernels][elementwise]") {
  // Expected: correctly rounded, by 128-bit arithmetic.
  CheckVectors(R"(
    a = f32[4] constant({-0.0, 1, 100000, inf})
    s = f32[4] sine(a)
    c = f32[4] cosine(a)
    es = f32[4] constant({-0.0, 0.841470985, 0.0357487984, nan})
    ec = f32[4] constant({1, 0.540302306, -0.999360807, nan})
    ROOT t = tuple(s, c, es, ec))",
               "", 1);
}

TEST_CASE("integer division, shifts, powers", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = s32[4] constant({-7, 7, -2147483648, 5})
    b = s32[4] constant({2, -2, -1, 0})
    q = s32[4] divide(a, b)
    r = s32[4] remainder(a, b)
    u = u32[2] constant({7, 0})
    z = u32[2] constant({0, 0})
    uq = u32[2] divide(u, z)
    m = s8[2] constant({-128, -128})
    n = s8[2] constant({0, -1})
    mq = s8[2] divide(m, n)
    mr = s8[2] remainder(m, n)
    x = s32[4] constant({1, -8, -8, -8})
    y = s32[4] constant({32, -1, 31, 33})
    sl = s32[4] shift-left(x, y)
    srl = s32[4] shift-right-logical(x, y)
    sra = s32[4] shift-right-arithmetic(x, y)
    v = u8[2] constant({128, 128})
    w = u8[2] constant({1, 9})
    vsra = u8[2] shift-right-arithmetic(v, w)
    p = s32[7] constant({0, 2, 2, 3, 0, -1, 46341})
    e = s32[7] constant({0, 31, 32, -1, -1, -3, 2})
    pw = s32[7] power(p, e)
    eq = s32[4] constant({-3, -3, -2147483648, -1})
    er = s32[4] constant({-1, 1, 0, 5})
    euq = u32[2] constant({4294967295, 4294967295})
    emq = s8[2] constant({-1, -128})
    emr = s8[2] constant({-128, 0})
    esl = s32[4] constant({0, 0, 0, 0})
    esrl = s32[4] constant({0, 0, 1, 0})
    esra = s32[4] constant({0, -1, -1, -1})
    ev = u8[2] constant({192, 255})
    epw = s32[7] constant({1, -2147483648, 0, 0, 0, -1, -2147479015})
    ROOT t = tuple(q, r, uq, mq, mr, sl, srl, sra, vsra, pw, eq, er, euq, emq, emr, esl, esrl, esra, ev, epw))");
}

TEST_CASE("bits of integers; four-bit arithmetic wraps", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = s32[3] constant({0, 1, -1})
    z = s32[3] count-leading-zeros(a)
    p = s32[3] popcnt(a)
    b = u8[1] constant({1})
    zb = u8[1] count-leading-zeros(b)
    s = s4[4] constant({7, -8, -8, 5})
    t = s4[4] constant({7, -8, -1, 0})
    su = s4[4] add(s, t)
    sq = s4[4] divide(s, t)
    c = u4[1] constant({0})
    d = u4[1] constant({1})
    cd = u4[1] subtract(c, d)
    q = pred[4] constant({0, 0, 1, 1})
    r = pred[4] constant({0, 1, 0, 1})
    qr = pred[4] add(q, r)
    qm = pred[4] multiply(q, r)
    lt = pred[4] compare(q, r), direction=LT
    ez = s32[3] constant({32, 31, 0})
    ep = s32[3] constant({0, 1, 32})
    ezb = u8[1] constant({7})
    esu = s4[4] constant({-2, 0, 7, 5})
    esq = s4[4] constant({1, 1, -8, -1})
    ecd = u4[1] constant({15})
    eqr = pred[4] constant({0, 1, 1, 1})
    eqm = pred[4] constant({0, 0, 0, 1})
    elt = pred[4] constant({0, 1, 0, 0})
    ROOT o = tuple(z, p, zb, su, sq, cd, qr, qm, lt, ez, ep, ezb, esu, esq, ecd, eqr, eqm, elt))");
}

TEST_CASE("conversions saturate, round once and keep low bits", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = f32[5] constant({inf, -1e10, -0.9, nan, 127.5})
    s = s32[5] convert(a)
    u = u8[5] convert(a)
    b = s8[5] convert(a)
    n = s4[5] convert(a)
    m = u4[5] convert(a)
    p = pred[5] convert(a)
    i = s32[4] constant({300, 128, -129, 16777219})
    ib = s8[4] convert(i)
    iu = u8[4] convert(i)
    in = u4[4] convert(i)
    if = f32[4] convert(i)
    h = s32[4] constant({65519, 65520, 257, 259})
    hf = f16[4] convert(h)
    hb = bf16[4] convert(h)
    d = f64[2] constant({1.0004882812509095, 1.0039062500009095})
    df = f16[2] convert(d)
    db = bf16[2] convert(d)
    l = s64[1] constant({36028797018963969})
    lb = bf16[1] convert(l)
    es = s32[5] constant({2147483647, -2147483648, 0, 0, 127})
    eu = u8[5] constant({255, 0, 0, 0, 127})
    eb = s8[5] constant({127, -128, 0, 0, 127})
    en = s4[5] constant({7, -8, 0, 0, 7})
    em = u4[5] constant({15, 0, 0, 0, 15})
    ep = pred[5] constant({1, 1, 1, 1, 1})
    eib = s8[4] constant({44, -128, 127, 3})
    eiu = u8[4] constant({44, 128, 127, 3})
    ein = u4[4] constant({12, 0, 15, 3})
    eif = f32[4] constant({300, 128, -129, 16777220})
    ehf = f16[4] constant({65504, inf, 257, 259})
    ehb = bf16[4] constant({65536, 65536, 256, 260})
    edf = f16[2] constant({1.0009765625, 1.00390625})
    edb = bf16[2] constant({1, 1.0078125})
    elb = bf16[1] constant({36028797018963968})
    ROOT t = tuple(s, u, b, n, m, p, ib, iu, in, if, hf, hb, df, db, lb, es, eu, eb, en, em, ep, eib, eiu, ein, eif, ehf, ehb, edf, edb, elb))");
}

TEST_CASE("overflow of the eight-bit floats", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = f32[4] constant({61439, 61440, inf, -0.0})
    x = f8e5m2[4] convert(a)
    b = f32[4] constant({464, 464.01, inf, -0.0})
    y = f8e4m3fn[4] convert(b)
    c = f32[4] constant({247.9, 248, inf, -0.0})
    z = f8e4m3[4] convert(c)
    d = f32[4] constant({6, 5, 7, 0})
    w = f8e8m0fnu[4] convert(d)
    e = f32[4] constant({61440, 30000, inf, -0.0})
    v = f8e5m2fnuz[4] convert(e)
    f = f32[4] constant({100, -inf, 2.5, -0.0})
    q = f4e2m1fn[4] convert(f)
    g = f8e4m3fn[1] constant({448})
    gg = f8e4m3fn[1] add(g, g)
    h = f8e5m2[1] constant({57344})
    hh = f8e5m2[1] add(h, h)
    ex = f8e5m2[4] constant({57344, inf, inf, -0.0})
    ey = f8e4m3fn[4] constant({448, nan, nan, -0.0})
    ez = f8e4m3[4] constant({240, inf, inf, -0.0})
    ew = f8e8m0fnu[4] constant({8, 4, 8, nan})
    ev = f8e5m2fnuz[4] constant({nan, 28672, nan, 0})
    eq = f4e2m1fn[4] constant({6, -6, 2, -0.0})
    egg = f8e4m3fn[1] constant({nan})
    ehh = f8e5m2[1] constant({inf})
    ROOT t = tuple(x, y, z, w, v, q, gg, hh, ex, ey, ez, ew, ev, eq, egg, ehh))");
}

TEST_CASE("total order is that of the bits", "[kernels][elementwise]") {
  // The one NaN of the fnuz types has the sign bit: it comes first. NaNs differ by their payload.
  CheckVectors(R"(
    a = f8e4m3fnuz[4] constant({-240, -0.5, 0, 240})
    n = f8e4m3fnuz[] constant(nan)
    b = f8e4m3fnuz[4] broadcast(n), dimensions={}
    x = pred[4] compare(b, a), direction=LT, type=TOTALORDER
    i = u8[4] constant({125, 126, 127, 253})
    j = u8[4] constant({127, 126, 125, 255})
    c = f8e5m2[4] bitcast-convert(i)
    d = f8e5m2[4] bitcast-convert(j)
    y = pred[4] compare(c, d), direction=LT, type=TOTALORDER
    z = pred[4] compare(c, d), direction=EQ, type=TOTALORDER
    ex = pred[4] constant({1, 1, 1, 1})
    ey = pred[4] constant({1, 0, 0, 0})
    ez = pred[4] constant({0, 1, 0, 0})
    ROOT t = tuple(x, y, z, ex, ey, ez))");
}

TEST_CASE("reduce-precision", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = f32[7] constant({65519, 65520, 6.2e-5, 3e-5, 6e-8, nan, -inf})
    x = f32[7] reduce-precision(a), exponent_bits=5, mantissa_bits=10
    b = f32[1] constant({3.3})
    y = f32[1] reduce-precision(b), exponent_bits=8, mantissa_bits=0
    c = f32[2] constant({65519, 3.3})
    z = f32[2] reduce-precision(c), exponent_bits=2, mantissa_bits=1
    ex = f32[7] constant({65504, inf, 6.19888306e-5, 0, 0, nan, -inf})
    ey = f32[1] constant({4})
    ez = f32[2] constant({inf, 3})
    ROOT t = tuple(x, y, z, ex, ey, ez))");
  // What XLA computes: without a mantissa ties go by the last bit of the exponent; types with at
  // most the wanted exponent bits keep their denormals.
  CheckVectors(R"(
    a = f32[5] constant({3, 0.75, 1.5, 6, -48})
    x = f32[5] reduce-precision(a), exponent_bits=8, mantissa_bits=0
    b = f16[4] constant({6e-8, 5e-6, 3e-5, 3.9e-6})
    y = f16[4] reduce-precision(b), exponent_bits=5, mantissa_bits=3
    z = f16[4] reduce-precision(b), exponent_bits=5, mantissa_bits=10
    c = f8e5m2[2] constant({1.52588e-05, 4.57764e-05})
    w = f8e5m2[2] reduce-precision(c), exponent_bits=5, mantissa_bits=1
    ex = f32[5] constant({2, 0.5, 2, 8, -32})
    ey = f16[4] constant({0, 7.6294e-6, 3.0518e-5, 7.6294e-6})
    ew = f8e5m2[2] constant({0, 6.1035e-05})
    ROOT t = tuple(x, y, z, w, ex, ey, b, ew))");
}

TEST_CASE("complex numbers", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = c64[3] constant({(1e30, 1e30), (3, -4), (0, 0)})
    m = f32[3] abs(a)
    s = c64[3] sign(a)
    b = c64[2] constant({(3, -4), (-4, 0)})
    q = c64[2] sqrt(b)
    l = c64[2] log(b)
    n = c64[2] constant({(nan, 0), (1, 2)})
    e = pred[2] compare(n, n), direction=EQ
    d = pred[2] compare(n, n), direction=NE
    em = f32[3] constant({1.41421354e30, 5, 0})
    es = c64[3] constant({(0.707106769, 0.707106769), (0.6, -0.8), (0, 0)})
    eq = c64[2] constant({(2, -1), (0, 2)})
    el = c64[2] constant({(1.60943794, -0.927295208), (1.38629436, 3.14159274)})
    ee = pred[2] constant({0, 1})
    ed = pred[2] constant({1, 0})
    ROOT t = tuple(m, s, q, l, e, d, em, es, eq, el, ee, ed))",
               "", 2);
}

TEST_CASE("bit patterns in the documented order", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = f32[1] constant({1})
    x = u8[1,4] bitcast-convert(a)
    b = u16[2,2] constant({{1, 2}, {3, 4}})
    y = u32[2] bitcast-convert(b)
    c = u8[1] constant({33})
    z = u4[1,2] bitcast-convert(c)
    ex = u8[1,4] constant({{0, 0, 128, 63}})
    ey = u32[2] constant({131073, 262147})
    ez = u4[1,2] constant({{1, 2}})
    ROOT t = tuple(x, y, z, ex, ey, ez))");
}

TEST_CASE("map; scalar bodies with branches and loops", "[kernels][elementwise]") {
  CheckVectors(R"(
    a = f32[4] constant({1, 2, 3, 4})
    b = f32[4] constant({10, 20, 30, 40})
    x = f32[4] map(a, b), dimensions={0}, to_apply=branches
    n = s32[5] constant({0, 1, 3, 10, 2})
    y = s32[5] map(n), dimensions={0}, to_apply=factorial
    ex = f32[4] constant({11, 22, -27, -36})
    ey = s32[5] constant({1, 1, 6, 3628800, 2})
    ROOT t = tuple(x, y, ex, ey))",
               R"(
    sum { p = (f32[], f32[]) parameter(0) u = f32[] get-tuple-element(p), index=0
          v = f32[] get-tuple-element(p), index=1 ROOT w = f32[] add(u, v) }
    difference { p = (f32[], f32[]) parameter(0) u = f32[] get-tuple-element(p), index=0
          v = f32[] get-tuple-element(p), index=1 ROOT w = f32[] subtract(u, v) }
    branches { u = f32[] parameter(0) v = f32[] parameter(1) t = (f32[], f32[]) tuple(u, v)
          limit = f32[] constant(2.5) low = pred[] compare(u, limit), direction=LT
          ROOT r = f32[] conditional(low, t, t), true_computation=sum, false_computation=difference }
    positive { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
          zero = s32[] constant(0) ROOT c = pred[] compare(i, zero), direction=GT }
    step { s = (s32[], s32[]) parameter(0) i = s32[] get-tuple-element(s), index=0
          f = s32[] get-tuple-element(s), index=1 one = s32[] constant(1) g = s32[] multiply(f, i)
          j = s32[] subtract(i, one) ROOT t = (s32[], s32[]) tuple(j, g) }
    factorial { n = s32[] parameter(0) one = s32[] constant(1) s = (s32[], s32[]) tuple(n, one)
          w = (s32[], s32[]) while(s), condition=positive, body=step
          ROOT f = s32[] get-tuple-element(w), index=1 })");
}

// The parts of f32 are divided in f64; infinities, zeros and NaN are those of the C library.
TEST_CASE("complex division has the library's bits", "[kernels][elementwise]") {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const float parts[] = {0,      -0.0F,  1,         -2.5F,      3e38F,
                         1e-38F, 1e-45F, kInfinity, -kInfinity, std::nanf("")};
  std::vector<std::complex<float>> values;
  for (const float real : parts) {
    for (const float imag : parts) values.emplace_back(real, imag);
  }
  const size_t count = values.size() * values.size();
  const auto module = Parse(fmt::format(
      "HloModule m\nENTRY e {{\n a = c64[{0}] parameter(0)\n b = c64[{0}] parameter(1)\n "
      "ROOT d = c64[{0}] divide(a, b)\n}}\n",
      count));
  Array a = Garbage(module->entry()->parameters()[0]->shape()), b = a;
  auto* dividends = reinterpret_cast<std::complex<float>*>(a.bytes.data());
  auto* divisors = reinterpret_cast<std::complex<float>*>(b.bytes.data());
  for (size_t i = 0; i < count; ++i) {
    dividends[i] = values[i / values.size()];
    divisors[i] = values[i % values.size()];
  }
  const Leaves results = Evaluate(*module, {{a}, {b}});
  const auto* quotients = reinterpret_cast<const std::complex<float>*>(results[0].bytes.data());
  const auto is_same = [](float x, float y) {
    return std::isnan(x) ? std::isnan(y) : x == y && std::signbit(x) == std::signbit(y);
  };
  for (size_t i = 0; i < count; ++i) {
    const std::complex<float> expected = dividends[i] / divisors[i];
    INFO(dividends[i] << " / " << divisors[i] << " = " << expected << ", not " << quotients[i]);
    REQUIRE(is_same(expected.real(), quotients[i].real()));
    REQUIRE(is_same(expected.imag(), quotients[i].imag()));
  }
}

TEST_CASE("stochastic-convert: to the neighbour as often as it is near", "[kernels][elementwise]") {
  // A quarter of the way from one value of the type to the next: random numbers below a quarter
  // of their range go on, others stay.
  CheckVectors(R"(
    r = u64[4] constant({0,2305843009213693952,4611686018427387904,9223372036854775808})
    s = u32[4] constant({0,1073741823,1073741824,2147483648})
    x = f64[4] constant({1.0000000298023224,-1.0000000298023224,1.0000000298023224,-1.0000000298023224})
    a = f32[4] stochastic-convert(x, r)
    ea = f32[4] constant({1.00000011920929,-1.00000011920929,1,-1})
    y = f64[4] constant({1.0000000894069672,-1.0000000894069672,1.0000000894069672,-1.0000000894069672})
    b = f32[4] stochastic-convert(y, r)
    eb = f32[4] constant({1,-1,1.00000011920929,-1.00000011920929})
    z = f32[4] constant({1.001953125,-1.001953125,1.001953125,-1.001953125})
    c = bf16[4] stochastic-convert(z, s)
    ec = bf16[4] constant({1.0078125,-1.0078125,1,-1})
    w = f32[4] constant({2.25,-2.25,2.25,-2.25})
    d = s8[4] stochastic-convert(w, s)
    ed = s8[4] constant({3,-3,2,-2})
    ROOT t = tuple(a, b, c, d, ea, eb, ec, ed))");
}

}  // namespace gshard::cpu::testing
