// Products whose operands end where memory ends: nothing beyond them is read.
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <vector>

#include "backends/cpu/kernels/gemm.h"

namespace gshard::cpu {
namespace {

// Room whose end is followed by a page that nobody may touch.
class Guarded {
 public:
  Guarded() : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
    void* data = mmap(nullptr, kPages * page_ + page_, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    REQUIRE(data != MAP_FAILED);
    data_ = static_cast<std::byte*>(data);
    REQUIRE(mprotect(data_ + kPages * page_, page_, PROT_NONE) == 0);
  }
  ~Guarded() { munmap(data_, kPages * page_ + page_); }
  Guarded(const Guarded&) = delete;
  Guarded& operator=(const Guarded&) = delete;
  // The last `count` values there.
  template <typename T>
  T* Last(int64_t count) {
    return reinterpret_cast<T*>(data_ + kPages * page_) - count;
  }

 private:
  static constexpr size_t kPages = 8;
  size_t page_;
  std::byte* data_ = nullptr;
};

template <typename T>
void CheckProducts() {
  Guarded left, right, result;
  for (int64_t n = 1; n <= 70; ++n) {
    for (const int64_t m : {1, 2, 3, 7}) {
      for (const int64_t k : {1, 2, 9}) {
        T* a = left.Last<T>(m * k);
        T* b = right.Last<T>(k * n);
        T* c = result.Last<T>(m * n);
        for (int64_t i = 0; i < m * k; ++i) a[i] = static_cast<T>(i % 7 - 3);
        for (int64_t i = 0; i < k * n; ++i) b[i] = static_cast<T>(i % 5 - 2);
        std::fill_n(c, m * n, T{99});
        RowGemm(m, n, k, MatrixView<T>{a, k, 1}, MatrixView<T>{b, n, 1}, c, n);
        bool right_sums = true;
        for (int64_t i = 0; i < m; ++i) {
          for (int64_t j = 0; j < n; ++j) {
            T sum = 0;
            for (int64_t p = 0; p < k; ++p) sum += a[i * k + p] * b[p * n + j];
            right_sums = right_sums && c[i * n + j] == sum;
          }
        }
        CAPTURE(m, n, k);
        REQUIRE(right_sums);
      }
    }
  }
}

TEST_CASE("Products read nothing beyond their operands", "[kernels]") {
  CheckProducts<float>();
  CheckProducts<double>();
}

}  // namespace
}  // namespace gshard::cpu
