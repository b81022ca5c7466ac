// Large dots against plain OpenBLAS, in turn in one process, and the bandwidth of memory.
//
//   dot_bench --json     {"copy_bytes_per_s", "dots": [{"name", "seconds", "blas_seconds", "ratio"}]}
//
// Medians; both sides use all cores. The bandwidth counts bytes read and bytes written.
#include <cblas.h>
#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/inputs.h"
#include "backends/cpu/mesh_run.h"
#include "backends/cpu/workers.h"
#include "ir/parser.h"

namespace gshard {
namespace {

constexpr int kRepetitions = 9;

template <typename F>
double Seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double Median(std::vector<double> values) {
  std::sort(values.begin(), values.end());
  return values[values.size() / 2];
}

template <typename T>
T Must(Expected<T> value) {
  if (value.has_value()) return std::move(*value);
  std::fputs(Render(value.error()).c_str(), stderr);
  std::exit(1);
}

struct Case {
  int m, n, k;
  bool transposed;  // the right-hand side is stored n x k
};

std::string TextOf(const Case& c) {
  return fmt::format(
      "HloModule dot\n\nENTRY main {{\n  a = f32[{0},{2}] parameter(0)\n  b = f32[{3}] parameter(1)\n"
      "  ROOT c = f32[{0},{1}] dot(a, b), lhs_contracting_dims={{1}}, rhs_contracting_dims={{{4}}}\n}}\n",
      c.m, c.n, c.k, c.transposed ? fmt::format("{},{}", c.n, c.k) : fmt::format("{},{}", c.k, c.n),
      c.transposed ? 1 : 0);
}

std::string Compare(const Case& c) {
  const int cores = cpu::AvailableCores();
  const auto module = Must(ParseModule(SourceText::FromString("dot", TextOf(c))));
  const auto inputs = Must(cpu::Inputs::Open("", 1));
  cpu::MeshRunOptions options;
  options.threads = cores;
  const auto run = Must(cpu::MeshRun::Prepare(*module, *inputs, options));
  if (!run->Start()) std::exit(1);

  const auto size = [](int rows, int columns) {
    return static_cast<size_t>(rows) * static_cast<size_t>(columns);
  };
  std::vector<float> a(size(c.m, c.k), 0.1f), b(size(c.k, c.n), 0.2f), out(size(c.m, c.n));
  std::vector<double> ours, plain;
  for (int i = 0; i <= kRepetitions; ++i) {
    openblas_set_num_threads(cores);
    const double theirs = Seconds([&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, c.transposed ? CblasTrans : CblasNoTrans, c.m, c.n,
                  c.k, 1.0f, a.data(), c.k, b.data(), c.transposed ? c.k : c.n, 0.0f, out.data(),
                  c.n);
    });
    openblas_set_num_threads(1);
    const double mine = Seconds([&] {
      if (!run->Run({})) std::exit(1);
    });
    if (i == 0) continue;
    ours.push_back(mine);
    plain.push_back(theirs);
  }
  return fmt::format(
      R"({{"name": "{}x{}x{}{}", "seconds": {:.6f}, "blas_seconds": {:.6f}, "ratio": {:.4f}}})",
      c.m, c.k, c.n, c.transposed ? " transposed" : "", Median(ours), Median(plain),
      Median(ours) / Median(plain));
}

// Every core copies its part of a buffer that no cache holds.
double CopyBandwidth() {
  constexpr size_t kPart = size_t{128} << 20;
  const auto cores = static_cast<size_t>(cpu::AvailableCores());
  std::vector<std::vector<char>> from(cores, std::vector<char>(kPart, 1)), to = from;
  std::vector<double> times;
  for (int i = 0; i < kRepetitions; ++i) {
    times.push_back(Seconds([&] {
      std::vector<std::thread> threads;
      for (size_t t = 0; t < cores; ++t) {
        threads.emplace_back([&, t] { std::memcpy(to[t].data(), from[t].data(), kPart); });
      }
      for (std::thread& thread : threads) thread.join();
    }));
  }
  return 2.0 * static_cast<double>(kPart * cores) / Median(times);
}

}  // namespace
}  // namespace gshard

int main() {
  using gshard::Case;
  std::string dots;
  for (const Case& c : {Case{2048, 2048, 2048, false}, Case{2048, 2048, 2048, true},
                        Case{4096, 1024, 4096, false}, Case{512, 8192, 2048, false}}) {
    dots += (dots.empty() ? "\n  " : ",\n  ") + gshard::Compare(c);
  }
  fmt::print("{{\"copy_bytes_per_s\": {:.0f}, \"dots\": [{}]}}\n", gshard::CopyBandwidth(), dots);
  return 0;
}
