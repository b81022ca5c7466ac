// The samples, partitioned and run as gshard-run does.
#include "backends/cpu/emulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "backends/cpu/io/npz.h"
#include "ir/parser.h"
#include "tests/ranks_in_process.h"
#include "tests/unit/source_file.h"
#include "tests/unit/temporary_folder.h"

namespace gshard::cpu {
namespace {

const std::vector<std::string> kSamples = {"mlp", "moe_layer", "pipeline", "spatial_conv"};

// Ranks call it side by side, and Catch's assertions are not for several threads.
std::unique_ptr<Module> MustParse(const std::shared_ptr<const SourceText>& text) {
  auto module = ParseModule(text);
  if (!module) throw std::runtime_error(Render(module.error()));
  return std::move(*module);
}

std::unique_ptr<Module> Sample(const std::string& name) {
  auto text = SourceText::Open(SourceFile(fmt::format("samples/{}.hlo", name)));
  if (!text) throw std::runtime_error(Render(text.error()));
  return MustParse(*text);
}

std::string Contents(const std::string& path) {
  std::ifstream in(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(in), {}};
}

TEST_CASE("results are the same bits for any number of threads", "[cpu]") {
  for (const std::string& sample : kSamples) {
    INFO(sample);
    std::string first;
    for (const int threads : {1, 2, 3, 7}) {
      EmulateOptions options;
      options.threads = threads;
      const TemporaryFolder folder;
      options.output = folder.File("out.npz");
      REQUIRE(Emulate(Sample(sample), options));
      const std::string result = Contents(options.output);
      REQUIRE_FALSE(result.empty());
      if (first.empty()) first = result;
      CHECK((result == first));
    }
  }
}

// `text`, or a sample, on so many ranks: the report of the first.
RunReport EmulateOnRanks(int count, const std::function<std::unique_ptr<Module>()>& make,
                         const EmulateOptions& options) {
  RunReport first;
  RunOnRanks(count, [&](mpi::Ranks& ranks) {
    EmulateOptions own = options;
    own.ranks = &ranks;
    auto emulation = Emulate(make(), own);
    if (!emulation) throw std::runtime_error(Render(emulation.error()));
    if (ranks.rank() == 0) first = std::move(emulation->report);
  });
  return first;
}

TEST_CASE("ranks write the file of one process, piece by piece", "[cpu][ranks]") {
  for (const std::string& sample : kSamples) {
    const TemporaryFolder folder;
    EmulateOptions options;
    options.threads = 1;
    options.output = folder.File("one.npz");
    REQUIRE(Emulate(Sample(sample), options));
    const std::string one = Contents(options.output);
    for (const int ranks : {2, 3, 5}) {
      INFO(sample << " on " << ranks);
      options.output = folder.File("several.npz");
      EmulateOnRanks(
          ranks, [&] { return Sample(sample); }, options);
      CHECK((Contents(options.output) == one));
    }
  }
  // A result of 8 MiB: of the others' parts rank 0 never has two at a time.
  const std::string text =
      "HloModule m, num_partitions=8\nENTRY e { p = f32[2048,1024] parameter(0), "
      "sharding={devices=[8,1]<=[8]}\n ROOT n = f32[2048,1024] negate(p), "
      "sharding={devices=[8,1]<=[8]} }\n";
  const auto make = [&] {
    return std::move(*ParseModule(SourceText::FromString("test.hlo", text)));
  };
  const TemporaryFolder folder;
  EmulateOptions options;
  options.threads = 1;
  const int64_t without = EmulateOnRanks(4, make, options).ranks.at(0).memory_bytes;
  options.output = folder.File("out.npz");
  const int64_t with = EmulateOnRanks(4, make, options).ranks.at(0).memory_bytes;
  CHECK(with - without <= (int64_t{2} << 20));
  CHECK(Contents(options.output).size() > (size_t{8} << 20));
}

TEST_CASE("over ranks an error is found where one process finds it", "[cpu][ranks]") {
  EmulateOptions options;
  options.verify = true;
  options.threads = 1;
  const auto alone = Emulate(Sample("moe_layer"), options);
  REQUIRE(alone);
  const RunReport report = EmulateOnRanks(
      3, [] { return Sample("moe_layer"); }, options);
  REQUIRE(report.verify);
  REQUIRE(report.verify->instructions);
  CHECK(report.verify->ok);
  CHECK(report.verify->instructions->compared == alone->report.verify->instructions->compared);
  CHECK(report.verify->instructions->max_rel_error ==
        alone->report.verify->instructions->max_rel_error);
}

TEST_CASE("one step of the mesh serves its verification", "[cpu]") {
  for (const std::string& sample : kSamples) {
    INFO(sample);
    EmulateOptions options;
    options.verify = true;
    const TemporaryFolder folder;
    options.output = folder.File("out.npz");
    std::vector<std::string> phases;
    options.progress = [&](const std::string& phase, double) { phases.push_back(phase); };
    const auto once = Emulate(Sample(sample), options);
    REQUIRE(once);
    const std::string results = Contents(options.output);
    const RunReport& report = once->report;
    CHECK(report.step_was_verified);
    CHECK(report.step_times_s.size() == 1);
    CHECK(std::ranges::count(phases, "run") == 0);
    // The unpartitioned graph runs once more on its own way only where that is another one.
    const bool is_equal = report.verify->instructions->max_rel_error == 0;
    CHECK((std::ranges::count(phases, "reference") > 0 || is_equal));
    options.repeat = 1;
    const auto alone = Emulate(Sample(sample), options);
    REQUIRE(alone);
    CHECK_FALSE(alone->report.step_was_verified);
    CHECK(std::ranges::count(phases, "run") > 0);
    CHECK((Contents(options.output) == results));
    CHECK(report.verify->Status() == alone->report.verify->Status());
    CHECK(report.verify->max_abs_error == alone->report.verify->max_abs_error);
    CHECK(report.verify->instructions->compared == alone->report.verify->instructions->compared);
    CHECK(report.device_peak_bytes == alone->report.device_peak_bytes);
    CHECK(report.device_flops == alone->report.device_flops);
    CHECK(report.flops == alone->report.flops);
  }
}

TEST_CASE("arrays of equal bits are the outputs' proof, too", "[cpu]") {
  const auto phases_of = [](const std::string& operation) {
    const std::string text =
        "HloModule m, num_partitions=4\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s "
        "= f32[] add(a, b) }\nENTRY e { p = f32[64,64] parameter(0), "
        "sharding={devices=[1,4]<=[4]}\n z = f32[] constant(0)\n ROOT r = " +
        operation + " }\n";
    EmulateOptions options;
    options.verify = true;
    std::vector<std::string> phases;
    options.progress = [&](const std::string& phase, double) { phases.push_back(phase); };
    auto module = ParseModule(SourceText::FromString("test.hlo", text));
    REQUIRE(module);
    const auto emulation = Emulate(std::move(*module), options);
    REQUIRE(emulation);
    CHECK(emulation->report.verify->Status() == VerifyStatus::kOk);
    CHECK(emulation->report.step_was_verified);
    return phases;
  };
  const auto moves = phases_of("f32[64,64] transpose(p), dimensions={1,0}");
  CHECK(std::ranges::count(moves, "reference") == 0);
  const auto sums = phases_of("f32[64] reduce(p, z), dimensions={1}, to_apply=add");
  CHECK(std::ranges::count(sums, "reference") > 0);
}

// Sums that cancel, of what replicas have: steps are not judged, outputs differ by rounding.
std::unique_ptr<Module> Cancelled() {
  return MustParse(SourceText::FromString("cancelled.hlo", R"(
HloModule cancelled, replica_count=2, num_partitions=8
add { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
ENTRY e {
  p = f32[64,4096] parameter(0), sharding={devices=[8,1]<=[8]}
  x = f32[64,4096] sine(p)
  zero = f32[] constant(0)
  sum = f32[4096] reduce(x, zero), dimensions={0}, to_apply=add
  c = f32[] constant(0.015625)
  cb = f32[4096] broadcast(c), dimensions={}
  mean = f32[4096] multiply(sum, cb)
  meanb = f32[64,4096] broadcast(mean), dimensions={1}
  y = f32[64,4096] subtract(x, meanb)
  ROOT out = f32[4096] reduce(y, zero), dimensions={0}, to_apply=add
})"));
}

TEST_CASE("outputs that no step explains are run in double precision", "[cpu][ranks][widened]") {
  EmulateOptions options;
  options.verify = true;
  options.threads = 1;
  std::vector<std::string> phases;
  options.progress = [&](const std::string& phase, double) { phases.push_back(phase); };
  const auto alone = Emulate(Cancelled(), options);
  REQUIRE(alone);
  const VerifyResult& verify = *alone->report.verify;
  CHECK(verify.Status() == VerifyStatus::kIllConditioned);
  REQUIRE(verify.widened);
  CHECK(verify.widened->outcome == WidenedResult::Outcome::kRounding);
  CHECK(std::count(phases.begin(), phases.end(), "widened") > 1);
  options.progress = nullptr;
  const RunReport report = EmulateOnRanks(3, Cancelled, options);
  REQUIRE(report.verify->widened);
  CHECK(report.verify->widened->outcome == WidenedResult::Outcome::kRounding);
  CHECK(report.verify->widened->max_rel_error == verify.widened->max_rel_error);
}

// A gradient of an embedding: each of its rows is a sum of about 128 updates, rounded to bf16 one
// by one.
std::unique_ptr<Module> ScatteredSums() {
  return MustParse(SourceText::FromString("scattered.hlo", R"(HloModule scattered, num_partitions=8
add { a = bf16[] parameter(0) b = bf16[] parameter(1) ROOT s = bf16[] add(a, b) }
ENTRY e {
  rows = s32[2048,1] parameter(0), sharding={devices=[8,1]<=[8]}
  y = bf16[2048,8] parameter(1), sharding={devices=[8,1]<=[8]}
  zero = bf16[] constant(0)
  zeros = bf16[16,8] broadcast(zero), dimensions={}
  ROOT g = bf16[16,8] scatter(zeros, rows, y), update_window_dims={1}, inserted_window_dims={0},
    scatter_dims_to_operand_dims={0}, index_vector_dim=1, to_apply=add, sharding={replicated}
})"));
}

TEST_CASE("sums of bf16 that round otherwise are right in double precision", "[cpu][ranks]") {
  EmulateOptions options;
  options.verify = true;
  options.threads = 1;
  double largest = 0;
  for (options.seed = 0; options.seed < 8; ++options.seed) {
    INFO(options.seed);
    const auto alone = Emulate(ScatteredSums(), options);
    REQUIRE(alone);
    CHECK(alone->report.verify->Status() == VerifyStatus::kOk);
    largest = std::max(largest, alone->report.verify->max_rel_error);
  }
  CHECK(largest > ToleranceOf(DType::kBF16));
  options.seed = 0;
  const RunReport report = EmulateOnRanks(3, ScatteredSums, options);
  CHECK(report.verify->Status() == VerifyStatus::kOk);
}

TEST_CASE("without room for double precision sums of bf16 are judged by tolerances", "[cpu]") {
  EmulateOptions options;
  options.verify = true;
  options.threads = 1;
  options.seed = 1;
  bool any = false, is_right = false;
  for (options.memory_limit = 16 << 20; options.memory_limit < (20 << 20);
       options.memory_limit += 128 << 10) {
    const auto emulation = Emulate(ScatteredSums(), options);
    REQUIRE(emulation);
    const VerifyResult& verify = *emulation->report.verify;
    is_right = verify.ok;
    if (is_right) continue;
    // Whatever there was no room for, the verdict says that double precision was not asked.
    const bool by_step = verify.finding && verify.finding->diagnosis.find("not run in f64") !=
                                               std::string::npos;
    const bool by_output = verify.widened && !verify.widened->was_run;
    CHECK((by_step || by_output));
    any = true;
  }
  CHECK(any);
  CHECK(is_right);
}

TEST_CASE("double precision needs room", "[cpu][widened]") {
  EmulateOptions options;
  options.verify = true;
  options.threads = 1;
  bool any = false;
  for (options.memory_limit = 64 << 10; options.memory_limit < (64 << 20);
       options.memory_limit += options.memory_limit / 8) {
    const auto emulation = Emulate(Cancelled(), options);
    if (!emulation) {
      REQUIRE(emulation.error().code == "E-RUN-MEMORY");
      continue;
    }
    const VerifyResult& verify = *emulation->report.verify;
    REQUIRE(verify.widened);
    if (verify.widened->was_run) break;
    any = true;
    CHECK_FALSE(verify.ok);
    CHECK(verify.widened->outcome == WidenedResult::Outcome::kUndecided);
    CHECK(verify.widened->reason.find("not run in f64") == 0);
    CHECK(verify.widened->reason.find("more than the limit") != std::string::npos);
  }
  CHECK(any);
}

TEST_CASE("samples agree with the unpartitioned graph, instruction by instruction", "[cpu]") {
  for (const std::string& sample : kSamples) {
    INFO(sample);
    EmulateOptions options;
    options.verify = true;
    const auto emulation = Emulate(Sample(sample), options);
    REQUIRE(emulation);
    REQUIRE(emulation->report.verify);
    CHECK(emulation->report.verify->ok);
    REQUIRE(emulation->report.verify->instructions);
    CHECK(emulation->report.verify->instructions->compared >= 3);
    CHECK_FALSE(emulation->report.verify->instructions->first);
    const auto json = nlohmann::json::parse(ToJson(emulation->report));
    CHECK(json["verify"]["instructions"]["compared"] ==
          emulation->report.verify->instructions->compared);
  }
}

TEST_CASE("replicas of a partitioned graph keep what differs between them", "[cpu]") {
  // Replica r adds r to its values; then the replicas' values are summed.
  const char* text = R"(HloModule m, replica_count=2, num_partitions=2
sum { x = f32[] parameter(0)  y = f32[] parameter(1)  ROOT z = f32[] add(x, y) }
ENTRY e {
  p = f32[4] parameter(0), sharding={devices=[2]<=[2]}
  id = u32[] replica-id()
  r = f32[] convert(id)
  rs = f32[4] broadcast(r), dimensions={}
  q = f32[4] add(p, rs)
  a = f32[4] all-reduce(q), replica_groups={{0,1}}, to_apply=sum
  ROOT t = (f32[4], f32[4]) tuple(q, a)
})";
  using Floats = std::vector<float>;
  const Floats whole{0, 10, 20, 30}, two{0, 10, 20, 30, 100, 110, 120, 130};
  const auto run = [&](const Floats& input, const std::vector<int64_t>& dims, bool unpartitioned) {
    auto module = ParseModule(SourceText::FromString("test.hlo", text));
    REQUIRE(module);
    EmulateOptions options;
    const TemporaryFolder folder;
    options.input = folder.File("in.npz");
    NpzWriter writer(options.input);
    REQUIRE(writer.Add("p0", FormatNpy(DType::kF32, dims, std::as_bytes(std::span(input)))));
    REQUIRE(writer.Finish());
    options.output = folder.File("out.npz");
    options.unpartitioned = unpartitioned;
    options.verify = !unpartitioned;
    const auto emulation = Emulate(std::move(*module), options);
    INFO((emulation ? "" : Render(emulation.error())));
    REQUIRE(emulation);
    CHECK(emulation->report.devices == (unpartitioned ? 2 : 4));
    if (!unpartitioned) CHECK(emulation->report.verify->ok);
    std::vector<Floats> outputs;
    const auto reader = NpzReader::Open(options.output);
    REQUIRE(reader);
    for (const std::string name : {"o0", "o1"}) {
      const auto array = (*reader)->Read(name);
      REQUIRE(array);
      CHECK(array->dims == std::vector<int64_t>{2, 4});
      Floats values(8);
      std::memcpy(values.data(), array->data.data(), array->data.size());
      outputs.push_back(values);
    }
    return outputs;
  };
  for (const bool unpartitioned : {false, true}) {
    const auto same = run(whole, {4}, unpartitioned);
    CHECK(same[0] == Floats{0, 10, 20, 30, 1, 11, 21, 31});
    CHECK(same[1] == Floats{1, 21, 41, 61, 1, 21, 41, 61});
    const auto own = run(two, {2, 4}, unpartitioned);
    CHECK(own[0] == Floats{0, 10, 20, 30, 101, 111, 121, 131});
    CHECK(own[1] == Floats{101, 121, 141, 161, 101, 121, 141, 161});
  }
}

TEST_CASE("a trace has a named row of steps and one per thread", "[cpu]") {
  EmulateOptions options;
  options.threads = 2;
  const TemporaryFolder folder;
  options.trace = folder.File("trace.json");
  REQUIRE(Emulate(Sample("mlp"), options));
  const auto trace = nlohmann::json::parse(Contents(options.trace));
  int named = 0, steps = 0, work = 0;
  bool all_reduce = false;
  for (const auto& event : trace["traceEvents"]) {
    if (event["ph"] == "M") {
      if (event["name"] == "thread_name") ++named;
      continue;
    }
    REQUIRE(event["ph"] == "X");
    CHECK(event["dur"] >= 0);
    CHECK(event["ts"] >= 0);
    (event["tid"] == 0 ? steps : work) += 1;
    const std::string name = event["name"];
    all_reduce |= name.find("all-reduce") != std::string::npos;
  }
  CHECK(named == 3);
  CHECK(steps > 0);
  CHECK(work > 0);
  CHECK(all_reduce);
}

TEST_CASE("what is interrupted says so", "[cpu]") {
  std::atomic<bool> stop{true};
  EmulateOptions options;
  options.stop = &stop;
  const auto emulation = Emulate(Sample("mlp"), options);
  REQUIRE(emulation);
  CHECK(emulation->interrupted);
  const auto json = nlohmann::json::parse(ToJson(emulation->report));
  CHECK(json["interrupted"] == true);
  CHECK(json["step_times_s"].empty());
}

TEST_CASE("more memory than allowed is refused before the run", "[cpu]") {
  EmulateOptions options;
  options.memory_limit = 1000;
  const auto emulation = Emulate(Sample("mlp"), options);
  REQUIRE_FALSE(emulation);
  CHECK(emulation.error().code == "E-RUN-MEMORY");
}

}  // namespace
}  // namespace gshard::cpu
