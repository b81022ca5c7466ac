// The LAPACK and BLAS routines that linear algebra needs, one name for all element types.
//
// As in LAPACK: column-major, matrices dense (leading dimension = rows), overwritten in place,
// letters for options, and info as the return value: 0, or what went wrong where. Dims are positive
// and fit an int. Thread-safe; OpenBLAS is held to one thread.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_LAPACK_H_
#define GSHARD_BACKENDS_CPU_KERNELS_LAPACK_H_

#include <complex>
#include <cstdint>

#include "backends/cpu/memory/scratch.h"

namespace gshard::cpu {

struct TriangularProblem {
  char side, uplo, trans, diag;
};
// Q or its adjoint, from the left or the right, of `reflectors` Householder reflectors.
struct QProduct {
  bool left, adjoint;
  int64_t reflectors;
};
// 'V': the eigenvectors of that side are wanted; 'N': they are not.
struct EigenvectorJobs {
  char left, right;
};

// T: float, double and their complex types.
template <typename T>
struct Lapack {
  using Real = decltype(std::abs(T{}));

  static int Potrf(char uplo, int64_t n, T* a);
  // op(a) x = b or x op(a) = b; b (m x n) becomes x.
  static void Trsm(const TriangularProblem& problem, int64_t m, int64_t n, const T* a, T* b);
  static int Geqrf(int64_t m, int64_t n, T* a, T* tau, Scratch& scratch);
  static int Geqp3(int64_t m, int64_t n, T* a, int32_t* pivots, T* tau, Scratch& scratch);
  // orgqr, ungqr; ormqr, unmqr.
  static int Orgqr(int64_t m, int64_t n, int64_t k, T* a, const T* tau, Scratch& scratch);
  static int Ormqr(const QProduct& q, int64_t m, int64_t n, const T* a, const T* tau, T* c,
                   Scratch& scratch);
  static int Getrf(int64_t m, int64_t n, T* a, int32_t* pivots);
  // syevd, heevd.
  static int Syevd(char job, char uplo, int64_t n, T* a, Real* w, Scratch& scratch);
  // What gesdd makes: u of m rows, vt of vt_rows rows of n.
  struct SingularValues {
    Real* s;
    T *u, *vt;
    int64_t vt_rows;
  };
  static int Gesdd(char job, int64_t m, int64_t n, T* a, const SingularValues& to,
                   Scratch& scratch);
  // `w` and the vectors are complex for all T.
  static int Geev(const EigenvectorJobs& jobs, int64_t n, T* a, std::complex<Real>* w,
                  std::complex<Real>* vl, std::complex<Real>* vr, Scratch& scratch);
  static int Gehrd(int64_t n, int64_t low, int64_t high, T* a, T* tau, Scratch& scratch);
  // sytrd, hetrd.
  static int Sytrd(char uplo, int64_t n, T* a, Real* d, Real* e, T* tau, Scratch& scratch);
  static int Gees(char job, int64_t n, T* a, std::complex<Real>* w, T* vs, Scratch& scratch);
  static int Gtsv(int64_t n, int64_t columns, T* dl, T* d, T* du, T* b);
};

extern template struct Lapack<float>;
extern template struct Lapack<double>;
extern template struct Lapack<std::complex<float>>;
extern template struct Lapack<std::complex<double>>;

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_LAPACK_H_
