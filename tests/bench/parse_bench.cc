// Speed of reading, verifying and printing: MB of the file per second, one core.
//
//   parse_bench [--benchmark_filter=parse] [FILE...]   files of $GSHARD_CORPUS, or those given:
//                                                      HLO text, StableHLO or protos, by content
#include <benchmark/benchmark.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/proto/reader.h"
#include "ir/stablehlo/reader.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

using Source = std::shared_ptr<const SourceText>;

Expected<std::unique_ptr<Module>> Read(const Source& source) {
  if (proto::IsHloProto(source->text())) {
    auto read = proto::ReadModule(source);
    if (!read) return Fail(read.error());
    return std::move(read->module);
  }
  if (stablehlo::IsMlirText(source->text())) return stablehlo::ReadModule(source);
  return ParseModule(source);
}

std::unique_ptr<Module> MustParse(const Source& source) {
  auto module = Read(source);
  if (!module.has_value()) {
    std::fputs(Render(module.error()).c_str(), stderr);
    std::exit(1);
  }
  return std::move(*module);
}

void SetBytes(benchmark::State& state, const Source& source) {
  state.SetBytesProcessed(static_cast<int64_t>(state.iterations()) *
                          static_cast<int64_t>(source->text().size()));
}

void Parse(benchmark::State& state, const Source& source) {
  for (auto _ : state) benchmark::DoNotOptimize(MustParse(source));
  const auto module = MustParse(source);
  state.counters["arena_per_text"] =
      static_cast<double>(module->arena().bytes()) / static_cast<double>(source->text().size());
  SetBytes(state, source);
}

void Verify(benchmark::State& state, const Source& source) {
  const auto module = MustParse(source);
  for (auto _ : state) benchmark::DoNotOptimize(VerifyModule(*module));
  SetBytes(state, source);
}

void Print(benchmark::State& state, const Source& source) {
  const auto module = MustParse(source);
  for (auto _ : state) benchmark::DoNotOptimize(PrintModule(*module));
  SetBytes(state, source);
}

void Register(const std::filesystem::path& path) {
  auto source = SourceText::Open(path.string());
  if (!source.has_value()) {
    std::fputs(Render(source.error()).c_str(), stderr);
    std::exit(1);
  }
  const std::string name = path.stem().string();
  benchmark::RegisterBenchmark(("parse/" + name).c_str(), Parse, *source);
  benchmark::RegisterBenchmark(("verify/" + name).c_str(), Verify, *source);
  benchmark::RegisterBenchmark(("print/" + name).c_str(), Print, *source);
}

}  // namespace
}  // namespace gshard

int main(int argc, char** argv) {
  benchmark::Initialize(&argc, argv);
  for (int i = 1; i < argc; ++i) gshard::Register(argv[i]);
  const char* corpus = std::getenv("GSHARD_CORPUS");
  if (argc == 1 && corpus != nullptr) {
    std::vector<std::filesystem::path> files;
    for (const auto& entry : std::filesystem::directory_iterator(corpus)) {
      if (entry.path().extension() == ".hlo") files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    for (const auto& file : files) gshard::Register(file);
  }
  benchmark::RunSpecifiedBenchmarks();
}
