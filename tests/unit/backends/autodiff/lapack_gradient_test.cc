// LAPACK calls, real and complex, against finite differences.
#include <fmt/format.h>

#include <catch2/catch.hpp>

#include "tests/gradient/finite_differences.h"

namespace gshard {
namespace {

// A matrix X with a strong diagonal goes through the calls in `text`, which is told the types.
void Agrees(const char* name, std::string text, bool has_complex = true) {
  for (bool is_complex : {false, true}) {
    if (is_complex && !has_complex) continue;
    std::string program = text;
    const std::pair<const char*, const char*> words[] = {
        {"ELEM", is_complex ? "c128" : "f64"},
        {"@potrf", is_complex ? "lapack_zpotrf_ffi" : "lapack_dpotrf_ffi"},
        {"@trsm", is_complex ? "lapack_ztrsm_ffi" : "lapack_dtrsm_ffi"},
        {"@getrf", is_complex ? "lapack_zgetrf_ffi" : "lapack_dgetrf_ffi"},
        {"@geqrf", is_complex ? "lapack_zgeqrf_ffi" : "lapack_dgeqrf_ffi"},
        {"@geqp3", is_complex ? "lapack_zgeqp3_ffi" : "lapack_dgeqp3_ffi"},
        {"@orgqr", is_complex ? "lapack_zungqr_ffi" : "lapack_dorgqr_ffi"},
        {"@ormqr", is_complex ? "lapack_zunmqr_ffi" : "lapack_dormqr_ffi"},
        {"@gehrd", is_complex ? "lapack_zgehrd_ffi" : "lapack_dgehrd_ffi"},
        {"@sytrd", is_complex ? "lapack_zhetrd_ffi" : "lapack_dsytrd_ffi"},
        {"@syevd", is_complex ? "lapack_zheevd_ffi" : "lapack_dsyevd_ffi"},
        {"@gesdd", is_complex ? "lapack_zgesdd_ffi" : "lapack_dgesdd_ffi"},
        {"@geev", is_complex ? "lapack_zgeev_ffi" : "lapack_dgeev_ffi"},
        {"@gtsv", is_complex ? "lapack_zgtsv_ffi" : "lapack_dgtsv_ffi"},
    };
    for (const auto& [word, by] : words) {
      for (size_t at = program.find(word); at != std::string::npos; at = program.find(word, at)) {
        program.replace(at, std::string_view(word).size(), by);
      }
    }
    const GradientVerdict verdict = CheckGradient("HloModule m\nENTRY main {\n" + program + "\n}\n",
                                                  {.seed = 3, .low = -1, .high = 1});
    INFO(name << (is_complex ? ", complex: " : ": ") << verdict.why << "\n" << program);
    CHECK(verdict.kind == GradientVerdict::Kind::kAgrees);
  }
}

// a: [2,4,4] (or as told) with distinct large numbers on the diagonal.
std::string Strong(int64_t rows, int64_t columns) {
  return fmt::format(R"(  x = ELEM[2,{0},{1}] parameter(0)
  i = s32[{0},{1}] iota(), iota_dimension=0
  j = s32[{0},{1}] iota(), iota_dimension=1
  e = pred[{0},{1}] compare(i, j), direction=EQ
  three = s32[] constant(3)
  threes = s32[{0},{1}] broadcast(three), dimensions={{}}
  k = s32[{0},{1}] multiply(i, threes)
  kk = s32[{0},{1}] add(k, threes)
  zero = s32[] constant(0)
  zeros = s32[{0},{1}] broadcast(zero), dimensions={{}}
  d = s32[{0},{1}] select(e, kk, zeros)
  dd = ELEM[{0},{1}] convert(d)
  ddd = ELEM[2,{0},{1}] broadcast(dd), dimensions={{1,2}}
  a = ELEM[2,{0},{1}] add(x, ddd)
)",
                     rows, columns);
}

}  // namespace

TEST_CASE("factorisations by LAPACK", "[autodiff]") {
  Agrees("potrf", Strong(3, 3) + R"(
  l = (ELEM[2,3,3], s32[2]) custom-call(a), custom_call_target="@potrf", api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 76 : ui8}
  u = (ELEM[2,3,3], s32[2]) custom-call(a), custom_call_target="@potrf", api_version=API_VERSION_TYPED_FFI, backend_config={uplo = 85 : ui8}
  ll = ELEM[2,3,3] get-tuple-element(l), index=0
  uu = ELEM[2,3,3] get-tuple-element(u), index=0
  ROOT r = (ELEM[2,3,3], ELEM[2,3,3]) tuple(ll, uu))",
         false);
  Agrees("getrf", Strong(4, 3) + R"(
  f = (ELEM[2,4,3], s32[2,3], s32[2]) custom-call(x), custom_call_target="@getrf", api_version=API_VERSION_TYPED_FFI
  t = ELEM[2,3,4] transpose(x), dimensions={0,2,1}
  g = (ELEM[2,3,4], s32[2,3], s32[2]) custom-call(t), custom_call_target="@getrf", api_version=API_VERSION_TYPED_FFI
  ff = ELEM[2,4,3] get-tuple-element(f), index=0
  gg = ELEM[2,3,4] get-tuple-element(g), index=0
  ROOT r = (ELEM[2,4,3], ELEM[2,3,4]) tuple(ff, gg))");
  Agrees("geqrf, orgqr, ormqr", Strong(4, 3) + R"(
  f = (ELEM[2,4,3], ELEM[2,3]) custom-call(a), custom_call_target="@geqrf", api_version=API_VERSION_TYPED_FFI
  v = ELEM[2,4,3] get-tuple-element(f), index=0
  t = ELEM[2,3] get-tuple-element(f), index=1
  q = ELEM[2,4,3] custom-call(v, t), custom_call_target="@orgqr", api_version=API_VERSION_TYPED_FFI
  p = ELEM[2,4,3] custom-call(v, t, x), custom_call_target="@ormqr", api_version=API_VERSION_TYPED_FFI, backend_config={left = true, transpose = true}
  y = ELEM[2,3,4] transpose(x), dimensions={0,2,1}
  o = ELEM[2,3,4] custom-call(v, t, y), custom_call_target="@ormqr", api_version=API_VERSION_TYPED_FFI, backend_config={left = false, transpose = false}
  ROOT r = (ELEM[2,4,3], ELEM[2,3], ELEM[2,4,3], ELEM[2,4,3], ELEM[2,3,4]) tuple(v, t, q, p, o))");
  Agrees("geqp3", Strong(4, 3) + R"(
  free = s32[2,3] broadcast(zero), dimensions={}
  f = (ELEM[2,4,3], s32[2,3], ELEM[2,3]) custom-call(a, free), custom_call_target="@geqp3", api_version=API_VERSION_TYPED_FFI
  v = ELEM[2,4,3] get-tuple-element(f), index=0
  t = ELEM[2,3] get-tuple-element(f), index=2
  ROOT r = (ELEM[2,4,3], ELEM[2,3]) tuple(v, t))");
  Agrees("gehrd", Strong(4, 4) + R"(
  f = (ELEM[2,4,4], ELEM[2,3], s32[2]) custom-call(a), custom_call_target="@gehrd", api_version=API_VERSION_TYPED_FFI, backend_config={low = 1 : i32, high = 4 : i32}
  v = ELEM[2,4,4] get-tuple-element(f), index=0
  t = ELEM[2,3] get-tuple-element(f), index=1
  ROOT r = (ELEM[2,4,4], ELEM[2,3]) tuple(v, t))");
  for (const char* uplo : {"76", "85"}) {
    Agrees("sytrd", Strong(4, 4) + R"(
  f = (ELEM[2,4,4], f64[2,4], f64[2,3], ELEM[2,3], s32[2]) custom-call(a), custom_call_target="@sytrd", api_version=API_VERSION_TYPED_FFI, backend_config={uplo = )" +
                        uplo + R"( : ui8}
  d4 = f64[2,4] get-tuple-element(f), index=1
  e3 = f64[2,3] get-tuple-element(f), index=2
  t = ELEM[2,3] get-tuple-element(f), index=3
  ROOT r = (f64[2,4], f64[2,3], ELEM[2,3]) tuple(d4, e3, t))");
  }
}

TEST_CASE("the same as GPUs and TPUs call it", "[autodiff]") {
  for (const char* target : {"cusolver_getrf_ffi", "LuDecomposition"}) {
    const bool is_tpu = std::string_view(target) == "LuDecomposition";
    Agrees(target, Strong(4, 3) + "  f = (ELEM[2,4,3], s32[2,3], s32[2" + (is_tpu ? ",4" : "") +
                       R"(]) custom-call(x), custom_call_target=")" + target + R"("
  ROOT r = ELEM[2,4,3] get-tuple-element(f), index=0)");
  }
  Agrees("Qr", Strong(4, 3) + R"(
  f = (ELEM[2,4,3], ELEM[2,3]) custom-call(a), custom_call_target="Qr"
  v = ELEM[2,4,3] get-tuple-element(f), index=0
  t = ELEM[2,3] get-tuple-element(f), index=1
  q = ELEM[2,4,3] custom-call(v, t), custom_call_target="ProductOfElementaryHouseholderReflectors"
  ROOT r = (ELEM[2,4,3], ELEM[2,3], ELEM[2,4,3]) tuple(v, t, q))");
  for (const char* lower : {"1", "0"}) {
    Agrees("Eigh", Strong(4, 4) + R"(
  f = (ELEM[2,4,4], f64[2,4]) custom-call(a), custom_call_target="Eigh", backend_config=")" +
                       lower + R"(,1,100,1e-6"
  v = ELEM[2,4,4] get-tuple-element(f), index=0
  w = f64[2,4] get-tuple-element(f), index=1
  m = f64[2,4,4] abs(v)
  ROOT r = (f64[2,4,4], f64[2,4]) tuple(m, w))");
  }
  Agrees("potrf", Strong(3, 3) + R"(
  l = (ELEM[2,3,3], s32[2]) custom-call(a), custom_call_target="cusolver_potrf_ffi", backend_config={lower = true}
  u = (ELEM[2,3,3], s32[2]) custom-call(a), custom_call_target="cusolver_potrf_ffi", backend_config={lower = false}
  ll = ELEM[2,3,3] get-tuple-element(l), index=0
  uu = ELEM[2,3,3] get-tuple-element(u), index=0
  ROOT r = (ELEM[2,3,3], ELEM[2,3,3]) tuple(ll, uu))",
         false);
}

TEST_CASE("spectra by LAPACK", "[autodiff]") {
  // Vectors of a complex matrix have a phase that no derivative sees: their moduli have one.
  Agrees("syevd", Strong(4, 4) + R"(
  f = (ELEM[2,4,4], f64[2,4], s32[2]) custom-call(a), custom_call_target="@syevd", api_version=API_VERSION_TYPED_FFI, backend_config={mode = 86 : ui8, uplo = 76 : ui8}
  v = ELEM[2,4,4] get-tuple-element(f), index=0
  w = f64[2,4] get-tuple-element(f), index=1
  m = f64[2,4,4] abs(v)
  ROOT r = (f64[2,4,4], f64[2,4]) tuple(m, w))");
  Agrees("gesdd", Strong(4, 3) + R"(
  f = (ELEM[2,4,3], f64[2,3], ELEM[2,4,3], ELEM[2,3,3], s32[2]) custom-call(a), custom_call_target="@gesdd", api_version=API_VERSION_TYPED_FFI, backend_config={mode = 83 : ui8}
  s = f64[2,3] get-tuple-element(f), index=1
  u = ELEM[2,4,3] get-tuple-element(f), index=2
  v = ELEM[2,3,3] get-tuple-element(f), index=3
  mu = f64[2,4,3] abs(u)
  mv = f64[2,3,3] abs(v)
  ROOT r = (f64[2,3], f64[2,4,3], f64[2,3,3]) tuple(s, mu, mv))");
  Agrees("geev", Strong(4, 4) + R"(
  f = (f64[2,4], f64[2,4], c128[2,4,4], c128[2,4,4], s32[2]) custom-call(x), custom_call_target="@geev", api_version=API_VERSION_TYPED_FFI, backend_config={compute_left = 78 : ui8, compute_right = 78 : ui8}
  re = f64[2,4] get-tuple-element(f), index=0
  im = f64[2,4] get-tuple-element(f), index=1
  ROOT r = (f64[2,4], f64[2,4]) tuple(re, im))",
         false);
  // Real and imaginary parts of both sides' vectors: their length and phase are LAPACK's.
  Agrees("geev with vectors", Strong(4, 4) + R"(
  f = (f64[2,4], f64[2,4], c128[2,4,4], c128[2,4,4], s32[2]) custom-call(x), custom_call_target="@geev", api_version=API_VERSION_TYPED_FFI, backend_config={compute_left = 86 : ui8, compute_right = 86 : ui8}
  re = f64[2,4] get-tuple-element(f), index=0
  l = c128[2,4,4] get-tuple-element(f), index=2
  v = c128[2,4,4] get-tuple-element(f), index=3
  lr = f64[2,4,4] real(l)
  li = f64[2,4,4] imag(l)
  vr = f64[2,4,4] real(v)
  vi = f64[2,4,4] imag(v)
  ROOT r = (f64[2,4], f64[2,4,4], f64[2,4,4], f64[2,4,4], f64[2,4,4]) tuple(re, lr, li, vr, vi))",
         false);
  Agrees("geev of a complex matrix with vectors", R"(
  x = c128[2,4,4] parameter(0)
  f = (c128[2,4], c128[2,4,4], c128[2,4,4], s32[2]) custom-call(x), custom_call_target="lapack_zgeev_ffi", api_version=API_VERSION_TYPED_FFI, backend_config={compute_left = 86 : ui8, compute_right = 86 : ui8}
  w = c128[2,4] get-tuple-element(f), index=0
  l = c128[2,4,4] get-tuple-element(f), index=1
  v = c128[2,4,4] get-tuple-element(f), index=2
  ROOT r = (c128[2,4], c128[2,4,4], c128[2,4,4]) tuple(w, l, v))",
         false);
  // All vectors, seen by what does not depend on the basis of those beyond the thin ones: the
  // projection on them.
  for (auto [rows, columns] : {std::pair{4, 3}, std::pair{3, 4}}) {
    const std::string wide = fmt::format(R"(
  f = (ELEM[2,{0},{1}], f64[2,3], ELEM[2,{0},{0}], ELEM[2,{1},{1}], s32[2]) custom-call(a), custom_call_target="@gesdd", api_version=API_VERSION_TYPED_FFI, backend_config={{mode = 65 : ui8}}
  s = f64[2,3] get-tuple-element(f), index=1
  u = ELEM[2,{0},{0}] get-tuple-element(f), index=2
  v = ELEM[2,{1},{1}] get-tuple-element(f), index=3
  mu = f64[2,{0},{0}] abs(u)
  mv = f64[2,{1},{1}] abs(v)
  ROOT r = (f64[2,3], f64[2,{0},{0}], f64[2,{1},{1}]) tuple(s, mu, mv))",
                                         rows, columns);
    Agrees("gesdd, all vectors", Strong(rows, columns) + wide);
  }
}

TEST_CASE("solves by LAPACK", "[autodiff]") {
  Agrees("trsm", Strong(3, 3) + R"(
  b = ELEM[2,3,2] parameter(1)
  c = ELEM[2,2,3] parameter(2)
  p = ELEM[2,3,2] custom-call(a, b), custom_call_target="@trsm", api_version=API_VERSION_TYPED_FFI, backend_config={diag = 78 : ui8, side = 76 : ui8, trans_x = 67 : ui8, uplo = 76 : ui8}
  q = ELEM[2,2,3] custom-call(a, c), custom_call_target="@trsm", api_version=API_VERSION_TYPED_FFI, backend_config={diag = 85 : ui8, side = 82 : ui8, trans_x = 78 : ui8, uplo = 85 : ui8}
  ROOT r = (ELEM[2,3,2], ELEM[2,2,3]) tuple(p, q))");
  Agrees("gtsv", R"(
  dl = ELEM[2,4] parameter(0)
  d0 = ELEM[2,4] parameter(1)
  du = ELEM[2,4] parameter(2)
  b = ELEM[2,4,3] parameter(3)
  five = ELEM[] constant(5)
  fives = ELEM[2,4] broadcast(five), dimensions={}
  d = ELEM[2,4] add(d0, fives)
  f = (ELEM[2,4], ELEM[2,4], ELEM[2,4], ELEM[2,4,3], s32[2]) custom-call(dl, d, du, b), custom_call_target="@gtsv", api_version=API_VERSION_TYPED_FFI
  ROOT y = ELEM[2,4,3] get-tuple-element(f), index=3)",
         false);
}

}  // namespace gshard
