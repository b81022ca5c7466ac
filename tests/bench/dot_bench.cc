// Large dots against plain OpenBLAS, in turn in one process, and the bandwidth of memory.
//
//   dot_bench [PAIRS]    {"openblas_kernel", "copy_bytes_per_s", "dots": [{"name", "seconds",
//                         "blas_seconds", "ratio", "ratio_quartiles"}]}
//
// OpenBLAS picks its kernel for the processor at hand: variables of the environment that force
// another are removed first.
// Times are medians; the ratio is the median of those of pairs that ran one right after the other,
// since what else runs on the machine slows both down. Both sides use all cores, read the same
// memory, write memory of the same kind, and have run once just before they are timed. The
// bandwidth counts bytes read and bytes written.
#include <cblas.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "backends/cpu/io/inputs.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/run/workers.h"
#include "ir/parser.h"

namespace gshard {
namespace {

constexpr int kRepetitions = 9;
constexpr int kPairs = 15;
// Threads of either side wait for more work for a while before they sleep, and take the other's
// cores: OpenBLAS's for 2^28 cycles.
constexpr std::chrono::milliseconds kUntilAsleep(150);

template <typename F>
double Seconds(F&& f) {
  const auto begin = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

// The value that `share` of all are below.
double Quantile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  return values[static_cast<size_t>(share * static_cast<double>(values.size() - 1) + 0.5)];
}
double Median(const std::vector<double>& values) { return Quantile(values, 0.5); }

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
      "HloModule dot\n\nENTRY main {{\n  a = f32[{0},{2}] parameter(0)\n  b = f32[{3}] "
      "parameter(1)\n"
      "  ROOT c = f32[{0},{1}] dot(a, b), lhs_contracting_dims={{1}}, "
      "rhs_contracting_dims={{{4}}}\n}}\n",
      c.m, c.n, c.k, c.transposed ? fmt::format("{},{}", c.n, c.k) : fmt::format("{},{}", c.k, c.n),
      c.transposed ? 1 : 0);
}

// The second of two runs, when nobody else's threads wait for work any more.
template <typename F>
double WarmSeconds(const F& f) {
  std::this_thread::sleep_for(kUntilAsleep);
  f();
  return Seconds(f);
}

std::string Compare(const Case& c, int pairs) {
  const int cores = cpu::AvailableCores();
  const auto module = Must(ParseModule(SourceText::FromString("dot", TextOf(c))));
  const auto inputs = Must(cpu::Inputs::Open("", 1));
  cpu::MeshRunOptions options;
  options.threads = cores;
  const auto run = Must(cpu::MeshRun::Prepare(*module, *inputs, options));
  if (!run->Start()) std::exit(1);

  const auto parameter = [&](size_t k) {
    const cpu::ValueId value = run->plan().program->parameters[k];
    return reinterpret_cast<const float*>(run->executor().Result(value, 0));
  };
  const float *a = parameter(0), *b = parameter(1);
  const cpu::MappedRegion result(static_cast<size_t>(c.m) * static_cast<size_t>(c.n) *
                                 sizeof(float));
  auto* out = reinterpret_cast<float*>(result.data());
  const auto time_plain = [&] {
    openblas_set_num_threads(cores);
    const double seconds = WarmSeconds([&] {
      cblas_sgemm(CblasRowMajor, CblasNoTrans, c.transposed ? CblasTrans : CblasNoTrans, c.m, c.n,
                  c.k, 1.0f, a, c.k, b, c.transposed ? c.k : c.n, 0.0f, out, c.n);
    });
    openblas_set_num_threads(1);
    return seconds;
  };
  const auto time_ours = [&] {
    return WarmSeconds([&] {
      if (!run->Run({})) std::exit(1);
    });
  };

  std::vector<double> ours, plain, ratios;
  for (int i = 0; i < pairs; ++i) {
    double mine = 0, theirs = 0;
    if (i % 2 == 0) {
      mine = time_ours();
      theirs = time_plain();
    } else {
      theirs = time_plain();
      mine = time_ours();
    }
    ours.push_back(mine);
    plain.push_back(theirs);
    ratios.push_back(mine / theirs);
  }
  return fmt::format(
      R"({{"name": "{}x{}x{}{}", "seconds": {:.6f}, "blas_seconds": {:.6f}, "ratio": {:.4f}, )"
      R"("ratio_quartiles": [{:.4f}, {:.4f}]}})",
      c.m, c.k, c.n, c.transposed ? " transposed" : "", Median(ours), Median(plain), Median(ratios),
      Quantile(ratios, 0.25), Quantile(ratios, 0.75));
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

// OpenBLAS has read its environment before main begins, so the program starts anew without.
void PickOwnKernel(char** argv) {
  constexpr const char* kForced[] = {"OPENBLAS_CORETYPE", "OPENBLAS_L2_SIZE"};
  bool forced = false;
  for (const char* name : kForced) {
    forced = forced || std::getenv(name) != nullptr;
    unsetenv(name);
  }
  if (!forced) return;
  execv("/proc/self/exe", argv);
  std::fputs("dot_bench: cannot start anew\n", stderr);
  std::exit(1);
}

}  // namespace
}  // namespace gshard

int main(int argc, char** argv) {
  using gshard::Case;
  gshard::PickOwnKernel(argv);
  const int pairs = argc > 1 ? std::max(std::atoi(argv[1]), 1) : gshard::kPairs;
  fmt::print("{{\"openblas_kernel\": \"{}\", \"copy_bytes_per_s\": {:.0f}, \"dots\": [",
             openblas_get_corename(), gshard::CopyBandwidth());
  const char* separator = "\n  ";
  for (const Case& c : {Case{2048, 2048, 2048, false}, Case{2048, 2048, 2048, true},
                        Case{4096, 1024, 4096, false}, Case{512, 8192, 2048, false}}) {
    fmt::print("{}{}", separator, gshard::Compare(c, pairs));
    std::fflush(stdout);
    separator = ",\n  ";
  }
  fmt::print("]}}\n");
  return 0;
}
