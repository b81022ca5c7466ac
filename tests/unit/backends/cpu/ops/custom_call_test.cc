// Vectors of docs/semantics.md, "Custom calls"; factorisations put back together.
#include "backends/cpu/ops/kernel_table.h"
#include "tests/unit/backends/cpu/ops/kernel_runner.h"

namespace gshard::cpu::testing {
namespace {

std::string Call(const std::string& result, const std::string& shape, const std::string& operands,
                 const std::string& target, const std::string& config = "") {
  return fmt::format(
      "  {} = {} custom-call({}), custom_call_target=\"lapack_{}_ffi\", "
      "api_version=API_VERSION_TYPED_FFI, backend_config={{{}}}\n",
      result, shape, operands, target, config);
}

Diagnostic ErrorOf(const std::string& call) {
  const auto module =
      Parse("HloModule m\nENTRY e {\n x = f32[2,2] parameter(0)\n ROOT r = " + call + "\n}\n");
  const auto made = KernelFactoryOf(Opcode::kCustomCall)(*module->entry()->root());
  REQUIRE(!made.has_value());
  return made.error();
}

}  // namespace

TEST_CASE("custom calls that are identities", "[kernels][custom_call]") {
  for (const std::string target :
       {"Sharding", "SPMDFullToShardShape", "SPMDShardToFullShape", "xla.sdy.FuncResultSharding",
        "annotate_device_placement", "MoveToHost", "MoveToDevice", "LayoutConstraint",
        "ShardBarrierFrom", "ShardBarrierTo"}) {
    CheckVectors("x = f32[2] constant({1,2})\n y = f32[2] custom-call(x), custom_call_target=\"" +
                 target + "\"\n ROOT r = tuple(y, x)");
  }
}

TEST_CASE("custom call to TopK", "[kernels][custom_call]") {
  CheckVectors(R"(
    x = f32[10] constant({3,nan,-inf,0,-0.0,-nan,1,inf,3,0})
    t = (f32[5], s32[5]) custom-call(x), custom_call_target="TopK"
    v = f32[5] constant({nan,inf,3,3,1})
    i = s32[5] constant({1,7,0,8,6})
    ROOT r = tuple(t, v, i))");
}

TEST_CASE("custom calls that nobody can run", "[kernels][custom_call]") {
  const Diagnostic unknown =
      ErrorOf("f32[2,2] custom-call(x), custom_call_target=\"xla_ffi_python_cpu_callback\"");
  CHECK(unknown.code == "E-RUN-007");
  CHECK(unknown.line == 4);
  CHECK(unknown.message.find("xla_ffi_python_cpu_callback") != std::string::npos);
  CHECK(!unknown.hint.empty());
  // Results, options and their dims are checked before anything is run.
  CHECK(ErrorOf("(f32[2,3], s32[]) custom-call(x), custom_call_target=\"lapack_spotrf_ffi\", "
                "backend_config={uplo = 76 : ui8}")
            .code == "E-RUN-006");
  CHECK(ErrorOf("(f32[2,2], s32[3,2], s32[]) custom-call(x), custom_call_target="
                "\"lapack_sgetrf_ffi\"")
            .code == "E-RUN-006");  // pivots of three matrices
  CHECK(ErrorOf("(f32[2,2], s32[]) custom-call(x), custom_call_target=\"lapack_spotrf_ffi\"")
            .message.find("uplo") != std::string::npos);
  CHECK(ErrorOf("(f32[2,2], s32[]) custom-call(x), custom_call_target=\"lapack_spotrf_ffi\", "
                "backend_config={uplo = 75 : ui8}")
            .message.find("75") != std::string::npos);
  CHECK(ErrorOf("f32[2,3] custom-call(x, x), custom_call_target=\"lapack_sorgqr_ffi\"").code ==
        "E-RUN-006");
  CHECK(
      ErrorOf("(f32[2,2], s32[]) custom-call(x), custom_call_target=\"lapack_xpotrf_ffi\"").code ==
      "E-RUN-007");
}

TEST_CASE("lapack vectors", "[kernels][custom_call]") {
  CheckVectors(
      "a = f32[2,2] constant({{4,99},{2,5}})\n b = f32[2,2] constant({{1,99},{2,1}})\n"
      " c = f32[2,2] constant({{1,2},{4,6}})\n" +
          Call("p", "(f32[2,2], s32[])", "a", "spotrf", "uplo = 76 : ui8") +
          Call("q", "(f32[2,2], s32[])", "b", "spotrf", "uplo = 76 : ui8") +
          Call("l", "(f32[2,2], s32[2], s32[])", "c", "sgetrf") +
          R"(
    p0 = f32[2,2] get-tuple-element(p), index=0
    p1 = s32[] get-tuple-element(p), index=1
    q1 = s32[] get-tuple-element(q), index=1
    ep = f32[2,2] constant({{2,99},{1,2}})
    zero = s32[] constant(0)
    two = s32[] constant(2)
    el = f32[2,2] constant({{4,6},{0.25,0.5}})
    pivots = s32[2] constant({2,2})
    ROOT r = tuple(p0, p1, q1, l, ep, zero, two, el, pivots, zero))",
      "", 2);
}

TEST_CASE("lapack solves", "[kernels][custom_call]") {
  // Lower triangle {{2,0},{1,4}}; tridiagonal {{2,1,0},{1,2,1},{0,1,2}}.
  CheckVectors(
      "a = f64[2,2] constant({{2,77},{1,4}})\n b = f64[2,3] constant({{2,4,6},{5,2,-1}})\n"
      " dl = f32[3] constant({77,1,1})\n d = f32[3] constant({2,2,2})\n"
      " du = f32[3] constant({1,1,77})\n c = f32[3,2] constant({{4,4},{8,2},{8,-2}})\n" +
          Call("x", "f64[2,3]", "a, b", "dtrsm",
               "diag = 78 : ui8, side = 76 : ui8, trans_x = 78 : ui8, uplo = 76 : ui8") +
          Call("t", "(f32[3], f32[3], f32[3], f32[3,2], s32[])", "dl, d, du, c", "sgtsv") +
          R"(
    y = f32[3,2] get-tuple-element(t), index=3
    ex = f64[2,3] constant({{1,2,3},{1,0,-1}})
    ey = f32[3,2] constant({{1,1.5},{2,1},{3,-1.5}})
    ROOT r = tuple(x, y, ex, ey))",
      "", 8);
}

TEST_CASE("lapack factorisations put back together", "[kernels][custom_call]") {
  // A = Q R; A v = v w; A = U s V^H: products by our own dots.
  CheckVectors(
      R"(
    a = f64[2,3,2] constant({{{1,2},{3,-4},{5,7}},{{2,6},{1,1},{5,3}}})
    h = c128[2,2] constant({{(2,0),(1,-3)},{(1,3),(-1,0)}})
    g = f64[2,2] constant({{0,-1},{1,0}})
)" + Call("qr", "(f64[2,3,2], f64[2,2])", "a", "dgeqrf") +
          "    vectors = f64[2,3,2] get-tuple-element(qr), index=0\n"
          "    tau = f64[2,2] get-tuple-element(qr), index=1\n" +
          Call("q", "f64[2,3,2]", "vectors, tau", "dorgqr") +
          Call("qa", "f64[2,3,2]", "vectors, tau, a", "dormqr", "left = true, transpose = true") +
          Call("e", "(c128[2,2], f64[2], s32[])", "h", "zheevd",
               "mode = 86 : ui8, uplo = 76 : ui8") +
          Call("s", "(f64[2,3,2], f64[2,2], f64[2,3,2], f64[2,2,2], s32[2])", "a", "dgesdd",
               "mode = 83 : ui8") +
          Call("eig", "(f64[2], f64[2], c128[2,2], c128[2,2], s32[])", "g", "dgeev",
               "compute_left = 78 : ui8, compute_right = 86 : ui8") +
          R"(
    r = f64[2,2,2] slice(qa), slice={[0:2], [0:2], [0:2]}
    qr_again = f64[2,3,2] dot(q, r), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
    v = c128[2,2] get-tuple-element(e), index=0
    w = f64[2] get-tuple-element(e), index=1
    wc = c128[2] convert(w)
    wb = c128[2,2] broadcast(wc), dimensions={1}
    vw = c128[2,2] multiply(v, wb)
    hv = c128[2,2] dot(h, v), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    sv = f64[2,2] get-tuple-element(s), index=1
    u = f64[2,3,2] get-tuple-element(s), index=2
    vt = f64[2,2,2] get-tuple-element(s), index=3
    sb = f64[2,3,2] broadcast(sv), dimensions={0,2}
    us = f64[2,3,2] multiply(u, sb)
    usv = f64[2,3,2] dot(us, vt), lhs_batch_dims={0}, rhs_batch_dims={0}, lhs_contracting_dims={2}, rhs_contracting_dims={1}
    wi = f64[2] get-tuple-element(eig), index=1
    x = c128[2,2] get-tuple-element(eig), index=3
    gc = c128[2,2] convert(g)
    gx = c128[2,2] dot(gc, x), lhs_contracting_dims={1}, rhs_contracting_dims={0}
    zeros = f64[2] constant({0,0})
    iw = c128[2] complex(zeros, wi)
    iwb = c128[2,2] broadcast(iw), dimensions={1}
    xw = c128[2,2] multiply(x, iwb)
    one = f64[2] constant({1,-1})
    ROOT t = tuple(qr_again, vw, usv, gx, wi, a, hv, a, xw, one))",
      "", 1000000);
}

// The same routine under the names that JAX has for it on CPUs, on GPUs and on TPUs.
TEST_CASE("linear algebra as GPUs and TPUs call it", "[kernels][custom_call]") {
  const auto other = [](const std::string& result, const std::string& shape,
                        const std::string& operands, const std::string& target,
                        const std::string& config = "") {
    return "  " + result + " = " + shape + " custom-call(" + operands + "), custom_call_target=\"" +
           target + "\"" + (config.empty() ? "" : ", backend_config=" + config) + "\n";
  };
  const std::string a =
      "    a = f64[2,3,2] constant({{{1,2},{3,-4},{5,7}},{{2,6},{1,1},{5,3}}})\n"
      "    h = c128[2,2] constant({{(2,0),(1,-3)},{(1,3),(-1,0)}})\n";
  const std::string lu = "(f64[2,3,2], s32[2,2], s32[2])", qr = "(f64[2,3,2], f64[2,2])";
  CheckVectors(a + Call("c", lu, "a", "dgetrf") + other("g", lu, "a", "cusolver_getrf_ffi") +
                   other("t", "(f64[2,3,2], s32[2,2], s32[2,3])", "a", "LuDecomposition") + R"(
    lu = f64[2,3,2] get-tuple-element(c), index=0
    lu_t = f64[2,3,2] get-tuple-element(t), index=0
    pivots = s32[2,2] get-tuple-element(t), index=1
    order = s32[2,3] get-tuple-element(t), index=2
)" + other("order_g", "s32[2,3]", "pivots", "cu_lu_pivots_to_permutation") +
                   R"(
    from_zero = s32[2,2] constant({{2,1},{2,2}})
    rows = s32[2,3] constant({{2,1,0},{2,0,1}})
    ROOT r = tuple(g, lu_t, pivots, order, order_g, c, lu, from_zero, rows, rows))",
               "", 1000000);
  CheckVectors(a + Call("c", qr, "a", "dgeqrf") + other("g", qr, "a", "hipsolver_geqrf_ffi") +
                   other("t", qr, "a", "Qr") + R"(
    v = f64[2,3,2] get-tuple-element(c), index=0
    tau = f64[2,2] get-tuple-element(c), index=1
)" + Call("qc", "f64[2,3,2]", "v, tau", "dorgqr") +
                   other("qg", "f64[2,3,2]", "v, tau", "cusolver_orgqr_ffi") +
                   other("qt", "f64[2,3,2]", "v, tau", "ProductOfElementaryHouseholderReflectors") +
                   "    ROOT r = tuple(g, t, qg, qt, c, c, qc, qc)",
               "", 1000000);
  const std::string spectrum = "(c128[2,2], f64[2], s32[])";
  for (const bool is_lower : {true, false}) {
    CheckVectors(a +
                     Call("c", spectrum, "h", "zheevd",
                          is_lower ? "mode = 86 : ui8, uplo = 76 : ui8"
                                   : "mode = 86 : ui8, uplo = 85 : ui8") +
                     other("g", spectrum, "h", "cusolver_syevd_ffi",
                           is_lower ? "{algorithm = 0 : ui8, lower = true}" : "{lower = false}") +
                     other("t", "(c128[2,2], f64[2])", "h", "Eigh",
                           is_lower ? "\"1,1,100,1e-6\"" : "\"0,1,100,1e-6\"") +
                     R"(
    v = c128[2,2] get-tuple-element(c), index=0
    w = f64[2] get-tuple-element(c), index=1
    ROOT r = tuple(g, t, c, v, w))",
                 "", 1000000);
  }
  CheckVectors(
      a +
          Call("c", "(f64[2,3,2], f64[2,2], f64[2,3,3], f64[2,2,2], s32[2])", "a", "dgesdd",
               "mode = 65 : ui8") +
          other("j", "(f64[2,3,2], f64[2,2], f64[2,3,3], f64[2,2,2], s32[2])", "a",
                "cusolver_gesvdj_ffi", "{compute_uv = true, full_matrices = true}") +
          other("d", "(f64[2,3,2], f64[2,2], f64[2,2,2], f64[2,3,3], s32[2])", "a",
                "cusolver_gesvd_ffi",
                "{compute_uv = true, full_matrices = true, transposed = true}") +
          other("n", "(f64[2,3,2], f64[2,2], f64[], f64[], s32[2])", "a", "cusolver_gesvd_ffi",
                "{compute_uv = false, full_matrices = true, transposed = false}") +
          R"(
    s = f64[2,2] get-tuple-element(c), index=1
    u = f64[2,3,3] get-tuple-element(c), index=2
    vt = f64[2,2,2] get-tuple-element(c), index=3
    v = f64[2,2,2] transpose(vt), dimensions={0,2,1}
    sj = f64[2,2] get-tuple-element(j), index=1
    uj = f64[2,3,3] get-tuple-element(j), index=2
    vj = f64[2,2,2] get-tuple-element(j), index=3
    vtd = f64[2,2,2] get-tuple-element(d), index=2
    ud = f64[2,3,3] get-tuple-element(d), index=3
    sn = f64[2,2] get-tuple-element(n), index=1
    ROOT r = tuple(sj, uj, vj, vtd, ud, sn, s, u, v, vt, u, s))",
      "", 1000000);
  CheckVectors(
      " dl = f32[3] constant({77,1,1})\n d = f32[3] constant({2,2,2})\n"
      " du = f32[3] constant({1,1,77})\n c = f32[3,2] constant({{4,4},{8,2},{8,-2}})\n" +
          other("y", "f32[3,2]", "dl, d, du, c", "cusparse_gtsv2_ffi") +
          " ey = f32[3,2] constant({{1,1.5},{2,1},{3,-1.5}})\n ROOT r = tuple(y, ey)",
      "", 8);
}

}  // namespace gshard::cpu::testing
