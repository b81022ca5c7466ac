// Fortran declarations and the differences between real and complex routines.
//
// OpenBLAS' header has no LAPACK prototypes for C++, so what is used is declared here; lengths of
// CHARACTER arguments come last, as gfortran passes them.
#include "backends/cpu/kernels/lapack.h"

#include <cblas.h>

#include <algorithm>
#include <type_traits>

#include "backends/cpu/kernels/gemm.h"

namespace gshard::cpu {
namespace {

using Int = int;
using Length = size_t;
using C64 = std::complex<float>;
using C128 = std::complex<double>;

// X(letter, element, real, prefix of orthogonal or unitary, prefix of symmetric or Hermitian)
#define GSHARD_REAL_TYPES(X) X(s, float, float, sor, ssy) X(d, double, double, dor, dsy)
#define GSHARD_COMPLEX_TYPES(X) X(c, C64, float, cun, che) X(z, C128, double, zun, zhe)
#define GSHARD_LAPACK_TYPES(X) GSHARD_REAL_TYPES(X) GSHARD_COMPLEX_TYPES(X)

extern "C" {
#define GSHARD_X(p, T, R, q, h)                                                                    \
  void p##potrf_(const char*, const Int*, T*, const Int*, Int*, Length);                           \
  void p##trsm_(const char*, const char*, const char*, const char*, const Int*, const Int*,        \
                const T*, const T*, const Int*, T*, const Int*, Length, Length, Length, Length);   \
  void p##geqrf_(const Int*, const Int*, T*, const Int*, T*, T*, const Int*, Int*);                \
  void q##gqr_(const Int*, const Int*, const Int*, T*, const Int*, const T*, T*, const Int*,       \
               Int*);                                                                              \
  void q##mqr_(const char*, const char*, const Int*, const Int*, const Int*, const T*, const Int*, \
               const T*, T*, const Int*, T*, const Int*, Int*, Length, Length);                    \
  void p##getrf_(const Int*, const Int*, T*, const Int*, Int*, Int*);                              \
  void p##gehrd_(const Int*, const Int*, const Int*, T*, const Int*, T*, T*, const Int*, Int*);    \
  void h##trd_(const char*, const Int*, T*, const Int*, R*, R*, T*, T*, const Int*, Int*, Length); \
  void p##gtsv_(const Int*, const Int*, T*, T*, T*, T*, const Int*, Int*);
GSHARD_LAPACK_TYPES(GSHARD_X)
#undef GSHARD_X
#define GSHARD_X(p, T, R, q, h)                                                                   \
  void p##geqp3_(const Int*, const Int*, T*, const Int*, Int*, T*, T*, const Int*, Int*);         \
  void h##evd_(const char*, const char*, const Int*, T*, const Int*, R*, T*, const Int*, Int*,    \
               const Int*, Int*, Length, Length);                                                 \
  void p##gesdd_(const char*, const Int*, const Int*, T*, const Int*, R*, T*, const Int*, T*,     \
                 const Int*, T*, const Int*, Int*, Int*, Length);                                 \
  void p##geev_(const char*, const char*, const Int*, T*, const Int*, T*, T*, T*, const Int*, T*, \
                const Int*, T*, const Int*, Int*, Length, Length);                                \
  void p##gees_(const char*, const char*, const void*, const Int*, T*, const Int*, Int*, T*, T*,  \
                T*, const Int*, T*, const Int*, Int*, Int*, Length, Length);
GSHARD_REAL_TYPES(GSHARD_X)
#undef GSHARD_X
#define GSHARD_X(p, T, R, q, h)                                                                  \
  void p##geqp3_(const Int*, const Int*, T*, const Int*, Int*, T*, T*, const Int*, R*, Int*);    \
  void h##evd_(const char*, const char*, const Int*, T*, const Int*, R*, T*, const Int*, R*,     \
               const Int*, Int*, const Int*, Int*, Length, Length);                              \
  void p##gesdd_(const char*, const Int*, const Int*, T*, const Int*, R*, T*, const Int*, T*,    \
                 const Int*, T*, const Int*, R*, Int*, Int*, Length);                            \
  void p##geev_(const char*, const char*, const Int*, T*, const Int*, T*, T*, const Int*, T*,    \
                const Int*, T*, const Int*, R*, Int*, Length, Length);                           \
  void p##gees_(const char*, const char*, const void*, const Int*, T*, const Int*, Int*, T*, T*, \
                const Int*, T*, const Int*, R*, Int*, Int*, Length, Length);
GSHARD_COMPLEX_TYPES(GSHARD_X)
#undef GSHARD_X
}

// The same routines as overloads.
#define GSHARD_X(p, T, R, q, h)                  \
  constexpr auto potrf(T) { return &p##potrf_; } \
  constexpr auto trsm(T) { return &p##trsm_; }   \
  constexpr auto geqrf(T) { return &p##geqrf_; } \
  constexpr auto geqp3(T) { return &p##geqp3_; } \
  constexpr auto orgqr(T) { return &q##gqr_; }   \
  constexpr auto ormqr(T) { return &q##mqr_; }   \
  constexpr auto getrf(T) { return &p##getrf_; } \
  constexpr auto gehrd(T) { return &p##gehrd_; } \
  constexpr auto sytrd(T) { return &h##trd_; }   \
  constexpr auto gtsv(T) { return &p##gtsv_; }   \
  constexpr auto syevd(T) { return &h##evd_; }   \
  constexpr auto gesdd(T) { return &p##gesdd_; } \
  constexpr auto geev(T) { return &p##geev_; }   \
  constexpr auto gees(T) { return &p##gees_; }
GSHARD_LAPACK_TYPES(GSHARD_X)
#undef GSHARD_X

template <typename T>
constexpr bool kIsComplex = !std::is_floating_point_v<T>;

Int ToInt(int64_t n) {
  CheckInternal(n >= 0 && n <= INT32_MAX, "matrix dims beyond LAPACK's integers");
  return static_cast<Int>(n);
}

template <typename T>
T* Allocate(int64_t count, Scratch& scratch) {
  return reinterpret_cast<T*>(
      scratch.Allocate(static_cast<size_t>(std::max<int64_t>(count, 1)) * sizeof(T)));
}

// Runs `call(work, work_size)` twice: with size -1 to learn the best size, then in earnest.
template <typename T, typename Call>
void WithWorkspace(Scratch& scratch, Call call) {
  const Int query = -1;
  T best{};
  call(&best, &query);
  const Int size = std::max(1, static_cast<Int>(std::real(best)));
  call(Allocate<T>(size, scratch), &size);
}

}  // namespace

template <typename T>
int Lapack<T>::Potrf(char uplo, int64_t n, T* a) {
  LimitBlasThreads();
  const Int size = ToInt(n);
  Int info = 0;
  potrf(T{})(&uplo, &size, a, &size, &info, 1);
  return info;
}

template <typename T>
void Lapack<T>::Trsm(const TriangularProblem& problem, int64_t m, int64_t n, const T* a, T* b) {
  LimitBlasThreads();
  const Int rows = ToInt(m), columns = ToInt(n), size = problem.side == 'L' ? rows : columns;
  const T one{1};
  trsm(T{})(&problem.side, &problem.uplo, &problem.trans, &problem.diag, &rows, &columns, &one, a,
            &size, b, &rows, 1, 1, 1, 1);
}

template <typename T>
int Lapack<T>::Geqrf(int64_t m, int64_t n, T* a, T* tau, Scratch& scratch) {
  LimitBlasThreads();
  const Int rows = ToInt(m), columns = ToInt(n);
  Int info = 0;
  WithWorkspace<T>(scratch, [&](T* work, const Int* size) {
    geqrf(T{})(&rows, &columns, a, &rows, tau, work, size, &info);
  });
  return info;
}

template <typename T>
int Lapack<T>::Geqp3(int64_t m, int64_t n, T* a, int32_t* pivots, T* tau, Scratch& scratch) {
  LimitBlasThreads();
  const Int rows = ToInt(m), columns = ToInt(n);
  Int info = 0;
  [[maybe_unused]] Real* real_work = Allocate<Real>(2 * n, scratch);
  WithWorkspace<T>(scratch, [&](T* work, const Int* size) {
    if constexpr (kIsComplex<T>) {
      geqp3(T{})(&rows, &columns, a, &rows, pivots, tau, work, size, real_work, &info);
    } else {
      geqp3(T{})(&rows, &columns, a, &rows, pivots, tau, work, size, &info);
    }
  });
  return info;
}

template <typename T>
int Lapack<T>::Orgqr(int64_t m, int64_t n, int64_t k, T* a, const T* tau, Scratch& scratch) {
  LimitBlasThreads();
  const Int rows = ToInt(m), columns = ToInt(n), count = ToInt(k);
  Int info = 0;
  WithWorkspace<T>(scratch, [&](T* work, const Int* size) {
    orgqr(T{})(&rows, &columns, &count, a, &rows, tau, work, size, &info);
  });
  return info;
}

template <typename T>
int Lapack<T>::Ormqr(const QProduct& q, int64_t m, int64_t n, const T* a, const T* tau, T* c,
                     Scratch& scratch) {
  LimitBlasThreads();
  const char side = q.left ? 'L' : 'R';
  const char trans = !q.adjoint ? 'N' : kIsComplex<T> ? 'C' : 'T';
  const Int rows = ToInt(m), columns = ToInt(n), count = ToInt(q.reflectors);
  const Int leading = q.left ? rows : columns;
  Int info = 0;
  WithWorkspace<T>(scratch, [&](T* work, const Int* size) {
    ormqr(T{})(&side, &trans, &rows, &columns, &count, a, &leading, tau, c, &rows, work, size,
               &info, 1, 1);
  });
  return info;
}

template <typename T>
int Lapack<T>::Getrf(int64_t m, int64_t n, T* a, int32_t* pivots) {
  LimitBlasThreads();
  const Int rows = ToInt(m), columns = ToInt(n);
  Int info = 0;
  getrf(T{})(&rows, &columns, a, &rows, pivots, &info);
  return info;
}

template <typename T>
int Lapack<T>::Syevd(char job, char uplo, int64_t n, T* a, Real* w, Scratch& scratch) {
  LimitBlasThreads();
  const Int size = ToInt(n);
  Int info = 0;
  const Int integers = ToInt(3 + 5 * n);
  Int* integer_work = Allocate<Int>(integers, scratch);
  [[maybe_unused]] const Int reals = ToInt(1 + 5 * n + 2 * n * n);
  [[maybe_unused]] Real* real_work = kIsComplex<T> ? Allocate<Real>(reals, scratch) : nullptr;
  WithWorkspace<T>(scratch, [&](T* work, const Int* work_size) {
    if constexpr (kIsComplex<T>) {
      syevd(T{})(&job, &uplo, &size, a, &size, w, work, work_size, real_work, &reals, integer_work,
                 &integers, &info, 1, 1);
    } else {
      syevd(T{})(&job, &uplo, &size, a, &size, w, work, work_size, integer_work, &integers, &info,
                 1, 1);
    }
  });
  return info;
}

template <typename T>
int Lapack<T>::Gesdd(char job, int64_t m, int64_t n, T* a, const SingularValues& to,
                     Scratch& scratch) {
  LimitBlasThreads();
  const Int rows = ToInt(m), columns = ToInt(n), vt_leading = ToInt(to.vt_rows);
  const int64_t small = std::min(m, n), large = std::max(m, n);
  Int info = 0;
  Int* integer_work = Allocate<Int>(8 * small, scratch);
  [[maybe_unused]] Real* real_work = nullptr;
  if constexpr (kIsComplex<T>) {
    const int64_t reals = std::max(
        {7 * small, 5 * small * small + 5 * small, 2 * large * small + 2 * small * small + small});
    real_work = Allocate<Real>(reals, scratch);
  }
  WithWorkspace<T>(scratch, [&](T* work, const Int* size) {
    if constexpr (kIsComplex<T>) {
      gesdd(T{})(&job, &rows, &columns, a, &rows, to.s, to.u, &rows, to.vt, &vt_leading, work, size,
                 real_work, integer_work, &info, 1);
    } else {
      gesdd(T{})(&job, &rows, &columns, a, &rows, to.s, to.u, &rows, to.vt, &vt_leading, work, size,
                 integer_work, &info, 1);
    }
  });
  return info;
}

namespace {

// Real eigenvectors of a conjugate pair are stored as two columns, real and imaginary part.
template <typename R>
void JoinVectors(int64_t n, const R* imaginary, const R* packed, std::complex<R>* vectors) {
  for (int64_t j = 0; j < n; ++j) {
    const bool pair = imaginary[j] != 0 && j + 1 < n;
    for (int64_t i = 0; i < n; ++i) {
      const R re = packed[j * n + i];
      if (!pair) {
        vectors[j * n + i] = re;
        continue;
      }
      const R im = packed[(j + 1) * n + i];
      vectors[j * n + i] = {re, im};
      vectors[(j + 1) * n + i] = {re, -im};
    }
    if (pair) ++j;
  }
}

template <typename R>
void JoinValues(int64_t n, const R* re, const R* im, std::complex<R>* w) {
  for (int64_t i = 0; i < n; ++i) w[i] = {re[i], im[i]};
}

}  // namespace

template <typename T>
int Lapack<T>::Geev(const EigenvectorJobs& jobs, int64_t n, T* a, std::complex<Real>* w,
                    std::complex<Real>* vl, std::complex<Real>* vr, Scratch& scratch) {
  LimitBlasThreads();
  const char left = jobs.left, right = jobs.right;
  const Int size = ToInt(n);
  Int info = 0;
  if constexpr (kIsComplex<T>) {
    Real* real_work = Allocate<Real>(2 * n, scratch);
    WithWorkspace<T>(scratch, [&](T* work, const Int* work_size) {
      geev(T{})(&left, &right, &size, a, &size, w, vl, &size, vr, &size, work, work_size, real_work,
                &info, 1, 1);
    });
  } else {
    T* re = Allocate<T>(n, scratch);
    T* im = Allocate<T>(n, scratch);
    T* packed_left = Allocate<T>(n * n, scratch);
    T* packed_right = Allocate<T>(n * n, scratch);
    std::fill_n(re, n, T{0});
    std::fill_n(im, n, T{0});
    WithWorkspace<T>(scratch, [&](T* work, const Int* work_size) {
      geev(T{})(&left, &right, &size, a, &size, re, im, packed_left, &size, packed_right, &size,
                work, work_size, &info, 1, 1);
    });
    JoinValues(n, re, im, w);
    if (info == 0 && left == 'V') JoinVectors(n, im, packed_left, vl);
    if (info == 0 && right == 'V') JoinVectors(n, im, packed_right, vr);
  }
  return info;
}

template <typename T>
int Lapack<T>::Gehrd(int64_t n, int64_t low, int64_t high, T* a, T* tau, Scratch& scratch) {
  LimitBlasThreads();
  const Int size = ToInt(n), first = ToInt(low), last = ToInt(high);
  Int info = 0;
  WithWorkspace<T>(scratch, [&](T* work, const Int* work_size) {
    gehrd(T{})(&size, &first, &last, a, &size, tau, work, work_size, &info);
  });
  return info;
}

template <typename T>
int Lapack<T>::Sytrd(char uplo, int64_t n, T* a, Real* d, Real* e, T* tau, Scratch& scratch) {
  LimitBlasThreads();
  const Int size = ToInt(n);
  Int info = 0;
  WithWorkspace<T>(scratch, [&](T* work, const Int* work_size) {
    sytrd(T{})(&uplo, &size, a, &size, d, e, tau, work, work_size, &info, 1);
  });
  return info;
}

template <typename T>
int Lapack<T>::Gees(char job, int64_t n, T* a, std::complex<Real>* w, T* vs, Scratch& scratch) {
  LimitBlasThreads();
  const Int size = ToInt(n);
  const char sort = 'N';
  Int info = 0, selected = 0;
  Int* flags = Allocate<Int>(n, scratch);
  if constexpr (kIsComplex<T>) {
    Real* real_work = Allocate<Real>(n, scratch);
    WithWorkspace<T>(scratch, [&](T* work, const Int* work_size) {
      gees(T{})(&job, &sort, nullptr, &size, a, &size, &selected, w, vs, &size, work, work_size,
                real_work, flags, &info, 1, 1);
    });
  } else {
    T* re = Allocate<T>(n, scratch);
    T* im = Allocate<T>(n, scratch);
    std::fill_n(re, n, T{0});
    std::fill_n(im, n, T{0});
    WithWorkspace<T>(scratch, [&](T* work, const Int* work_size) {
      gees(T{})(&job, &sort, nullptr, &size, a, &size, &selected, re, im, vs, &size, work,
                work_size, flags, &info, 1, 1);
    });
    JoinValues(n, re, im, w);
  }
  return info;
}

template <typename T>
int Lapack<T>::Gtsv(int64_t n, int64_t columns, T* dl, T* d, T* du, T* b) {
  LimitBlasThreads();
  const Int size = ToInt(n), count = ToInt(columns);
  Int info = 0;
  gtsv(T{})(&size, &count, dl, d, du, b, &size, &info);
  return info;
}

template struct Lapack<float>;
template struct Lapack<double>;
template struct Lapack<std::complex<float>>;
template struct Lapack<std::complex<double>>;

}  // namespace gshard::cpu
