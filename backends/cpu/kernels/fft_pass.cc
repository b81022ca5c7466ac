// Butterflies of radix 2 and 4, and of any other small radix by its definition. Neighbouring
// elements have the same twiddle factors; what does not fill a vector goes one by one.
#include "backends/cpu/kernels/fft_pass.h"

#include <cstddef>

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backends/cpu/kernels/fft_pass.cc"
#include "backends/cpu/kernels/targets.h"
// clang-format off
#include <hwy/foreach_target.h>
#include <hwy/highway.h>
// clang-format on

HWY_BEFORE_NAMESPACE();
namespace gshard::cpu {
namespace HWY_NAMESPACE {
namespace {

namespace hn = hwy::HWY_NAMESPACE;

template <typename V>
struct Value {
  V real, imag;
};
template <typename V>
HWY_INLINE Value<V> Sum(Value<V> a, Value<V> b) {
  return {hn::Add(a.real, b.real), hn::Add(a.imag, b.imag)};
}
template <typename V>
HWY_INLINE Value<V> Difference(Value<V> a, Value<V> b) {
  return {hn::Sub(a.real, b.real), hn::Sub(a.imag, b.imag)};
}
// Without fused multiply-adds: all instruction sets agree.
template <typename V>
HWY_INLINE Value<V> Times(Value<V> a, Value<V> b) {
  return {hn::Sub(hn::Mul(a.real, b.real), hn::Mul(a.imag, b.imag)),
          hn::Add(hn::Mul(a.real, b.imag), hn::Mul(a.imag, b.real))};
}

// Elements of one group. What its elements have in common is looked up once: stores of vectors may
// change anything, as far as the compiler knows.
template <class D, int64_t kRadix>
class Group {
 public:
  HWY_INLINE Group(D d, const FftPass& pass, SplitComplex in, SplitComplex out, int64_t group)
      : d_(d), sign_(hn::Set(d, pass.sign)) {
    for (int64_t r = 0; r < kRadix; ++r) {
      const auto i = static_cast<size_t>(r);
      const int64_t from = (r * pass.groups + group) * pass.stride * pass.in_distance;
      const int64_t to = (group * kRadix + r) * pass.stride * pass.out_distance;
      in_[i] = {in.real + from, in.imag + from};
      out_[i] = {out.real + to, out.imag + to};
      const int64_t root = group * r * pass.stride;  // less than n
      roots_[i] = {hn::Set(d, pass.root_real[root]), hn::Set(d, pass.root_imag[root])};
    }
  }

  // `count` numbers from place `from` on to place `to` on, as long as they fill vectors. Returns
  // how many.
  template <bool kTurns>
  HWY_INLINE int64_t Run(int64_t from, int64_t to, int64_t count) const {
    const auto lanes = static_cast<int64_t>(hn::Lanes(d_));
    int64_t i = 0;
    for (; i + lanes <= count; i += lanes) {
      const Value<V> x0 = Load(0, from + i), x1 = Load(1, from + i);
      if constexpr (kRadix == 2) {
        Store<false>(0, to + i, Sum(x0, x1));
        Store<kTurns>(1, to + i, Difference(x0, x1));
      } else {
        const Value<V> x2 = Load(2, from + i), x3 = Load(3, from + i);
        const Value<V> a = Sum(x0, x2), b = Difference(x0, x2), c = Sum(x1, x3);
        const Value<V> e = Difference(x1, x3);
        const Value<V> turned{hn::Neg(hn::Mul(sign_, e.imag)), hn::Mul(sign_, e.real)};
        Store<false>(0, to + i, Sum(a, c));
        Store<kTurns>(1, to + i, Sum(b, turned));
        Store<kTurns>(2, to + i, Difference(a, c));
        Store<kTurns>(3, to + i, Difference(b, turned));
      }
    }
    return i;
  }

 private:
  using V = hn::Vec<D>;
  static_assert(kRadix == 2 || kRadix == 4);
  static constexpr auto kCount = static_cast<size_t>(kRadix);

  HWY_INLINE Value<V> Load(size_t r, int64_t at) const {
    return {hn::LoadU(d_, in_[r].real + at), hn::LoadU(d_, in_[r].imag + at)};
  }
  template <bool kTurns>
  HWY_INLINE void Store(size_t r, int64_t at, Value<V> value) const {
    if constexpr (kTurns) value = Times(value, roots_[r]);
    hn::StoreU(value.real, d_, out_[r].real + at);
    hn::StoreU(value.imag, d_, out_[r].imag + at);
  }

  D d_;
  V sign_;
  SplitComplex in_[kCount], out_[kCount];
  Value<V> roots_[kCount];
};

template <int64_t kRadix, bool kTurns>
HWY_INLINE void RunGroup(const FftPass& pass, SplitComplex in, SplitComplex out, int64_t g) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> one;
  // Elements that lie beside each other are taken as more lines of one.
  const bool is_dense = pass.in_distance == pass.lines && pass.out_distance == pass.lines;
  const int64_t elements = is_dense ? 1 : pass.stride;
  const int64_t count = is_dense ? pass.stride * pass.lines : pass.lines;
  const Group<decltype(d), kRadix> vectors(d, pass, in, out, g);
  int64_t done = 0;  // of each element
  for (int64_t e = 0; e < elements; ++e) {
    done = vectors.template Run<kTurns>(e * pass.in_distance, e * pass.out_distance, count);
  }
  if (done == count) return;
  const Group<decltype(one), kRadix> single(one, pass, in, out, g);
  for (int64_t e = 0; e < elements; ++e) {
    single.template Run<kTurns>(e * pass.in_distance + done, e * pass.out_distance + done,
                                count - done);
  }
}

template <int64_t kRadix>
void RunRadix(const FftPass& pass, SplitComplex in, SplitComplex out) {
  // The first group's roots are 1: multiplied by them infinities would be none.
  RunGroup<kRadix, false>(pass, in, out, 0);
  for (int64_t g = 1; g < pass.groups; ++g) RunGroup<kRadix, true>(pass, in, out, g);
}

// Any radix, by its definition: an element of one group, of the lines [line, line + Lanes(d)).
template <class D>
struct SmallTransform {
  using V = hn::Vec<D>;
  D d;
  const FftPass& pass;
  SplitComplex in, out;
  int64_t group, element, line;

  HWY_INLINE Value<V> Root(int64_t k) const {
    return {hn::Set(d, pass.root_real[k]), hn::Set(d, pass.root_imag[k])};
  }
  HWY_INLINE Value<V> Load(int64_t r) const {
    const int64_t from = (r * pass.groups + group) * pass.stride + element;
    const int64_t at = from * pass.in_distance + line;
    return {hn::LoadU(d, in.real + at), hn::LoadU(d, in.imag + at)};
  }
  HWY_INLINE void Store(int64_t r, Value<V> value) const {
    const int64_t root = group * r * pass.stride;  // less than n
    if (root != 0) value = Times(value, Root(root));
    const int64_t to = (group * pass.radix + r) * pass.stride + element;
    const int64_t at = to * pass.out_distance + line;
    hn::StoreU(value.real, d, out.real + at);
    hn::StoreU(value.imag, d, out.imag + at);
  }

  HWY_INLINE void Run() const {
    for (int64_t j = 0; j < pass.radix; ++j) {
      Value<V> sum = Load(0);
      for (int64_t r = 1; r < pass.radix; ++r) {
        sum = Sum(sum, Times(Load(r), Root(j * r % pass.radix * (pass.n / pass.radix))));
      }
      Store(j, sum);
    }
  }
};

void RunAnyRadix(const FftPass& pass, SplitComplex in, SplitComplex out) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  for (int64_t g = 0; g < pass.groups; ++g) {
    for (int64_t e = 0; e < pass.stride; ++e) {
      int64_t l = 0;
      for (; l + lanes <= pass.lines; l += lanes) {
        SmallTransform<decltype(d)>{d, pass, in, out, g, e, l}.Run();
      }
      for (; l < pass.lines; ++l) SmallTransform<decltype(one)>{one, pass, in, out, g, e, l}.Run();
    }
  }
}

void RunPass(const FftPass& pass, SplitComplex in, SplitComplex out) {
  if (pass.radix == 2) return RunRadix<2>(pass, in, out);
  if (pass.radix == 4) return RunRadix<4>(pass, in, out);
  RunAnyRadix(pass, in, out);
}

}  // namespace
}  // namespace HWY_NAMESPACE
}  // namespace gshard::cpu
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace gshard::cpu {
HWY_EXPORT(RunPass);

void RunFftPass(const FftPass& pass, SplitComplex in, SplitComplex out) {
  HWY_DYNAMIC_DISPATCH(RunPass)(pass, in, out);
}
}  // namespace gshard::cpu
#endif
