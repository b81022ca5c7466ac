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

// The elements [begin, begin + Lanes(d)) of one group.
template <class D, int64_t kRadix>
struct Butterfly {
  using V = hn::Vec<D>;
  D d;
  const FftPass& pass;
  SplitComplex in, out;
  int64_t group, begin;

  HWY_INLINE int64_t Row() const { return pass.stride * pass.lines; }
  HWY_INLINE Value<V> Root(int64_t k) const {
    return {hn::Set(d, pass.root_real[k]), hn::Set(d, pass.root_imag[k])};
  }
  HWY_INLINE Value<V> Load(int64_t r) const {
    const int64_t at = (r * pass.groups + group) * Row() + begin;
    return {hn::LoadU(d, in.real + at), hn::LoadU(d, in.imag + at)};
  }
  HWY_INLINE void Store(int64_t r, Value<V> value) const {
    const int64_t root = group * r * pass.stride;  // less than n
    if (root != 0) value = Times(value, Root(root));
    const int64_t at = (group * pass.radix + r) * Row() + begin;
    hn::StoreU(value.real, d, out.real + at);
    hn::StoreU(value.imag, d, out.imag + at);
  }

  HWY_INLINE void Run() const {
    if constexpr (kRadix == 2) {
      const Value<V> a = Load(0), b = Load(1);
      Store(0, Sum(a, b));
      Store(1, Difference(a, b));
    } else if constexpr (kRadix == 4) {
      const Value<V> x0 = Load(0), x1 = Load(1), x2 = Load(2), x3 = Load(3);
      const Value<V> a = Sum(x0, x2), b = Difference(x0, x2), c = Sum(x1, x3);
      const Value<V> e = Difference(x1, x3);
      const V sign = hn::Set(d, pass.sign);
      const Value<V> turned{hn::Neg(hn::Mul(sign, e.imag)), hn::Mul(sign, e.real)};
      Store(0, Sum(a, c));
      Store(1, Sum(b, turned));
      Store(2, Difference(a, c));
      Store(3, Difference(b, turned));
    } else {
      for (int64_t j = 0; j < pass.radix; ++j) {
        Value<V> sum = Load(0);
        for (int64_t r = 1; r < pass.radix; ++r) {
          sum = Sum(sum, Times(Load(r), Root(j * r % pass.radix * (pass.n / pass.radix))));
        }
        Store(j, sum);
      }
    }
  }
};

template <int64_t kRadix>
void RunRadix(const FftPass& pass, SplitComplex in, SplitComplex out) {
  const hn::ScalableTag<double> d;
  const hn::CappedTag<double, 1> one;
  const auto lanes = static_cast<int64_t>(hn::Lanes(d));
  const int64_t row = pass.stride * pass.lines;
  for (int64_t g = 0; g < pass.groups; ++g) {
    int64_t i = 0;
    for (; i + lanes <= row; i += lanes) {
      Butterfly<decltype(d), kRadix>{d, pass, in, out, g, i}.Run();
    }
    for (; i < row; ++i) Butterfly<decltype(one), kRadix>{one, pass, in, out, g, i}.Run();
  }
}

void RunPass(const FftPass& pass, SplitComplex in, SplitComplex out) {
  if (pass.radix == 2) return RunRadix<2>(pass, in, out);
  if (pass.radix == 4) return RunRadix<4>(pass, in, out);
  RunRadix<0>(pass, in, out);
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
