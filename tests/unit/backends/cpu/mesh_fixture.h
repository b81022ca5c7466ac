// Runs HLO text on an emulated mesh from inside a test, with whole arrays as vectors.
#ifndef GSHARD_TESTS_UNIT_BACKENDS_CPU_MESH_FIXTURE_H_
#define GSHARD_TESTS_UNIT_BACKENDS_CPU_MESH_FIXTURE_H_

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstring>
#include <memory>
#include <string>
#include <variant>
#include <vector>

#include "backends/cpu/io/npz.h"
#include "backends/cpu/run/mesh_run.h"
#include "ir/parser.h"
#include "ir/verify/verifier.h"
#include "tests/unit/temporary_folder.h"

namespace gshard::cpu {

template <typename T>
std::vector<std::byte> BytesOf(const std::vector<T>& values) {
  std::vector<std::byte> bytes(values.size() * sizeof(T));
  if (!bytes.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

template <typename T>
std::vector<T> ValuesOf(const std::vector<std::byte>& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  if (!bytes.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
  return values;
}

struct TestInput {
  DType dtype;
  std::vector<int64_t> dims;
  std::vector<std::byte> data;
};
inline TestInput F32(std::vector<int64_t> dims, const std::vector<float>& values) {
  return {DType::kF32, std::move(dims), BytesOf(values)};
}
inline TestInput S32(std::vector<int64_t> dims, const std::vector<int32_t>& values) {
  return {DType::kS32, std::move(dims), BytesOf(values)};
}

// A module with its inputs, to be run on some devices. The text is parsed and verified.
class TestMesh {
 public:
  explicit TestMesh(const std::string& text, std::vector<TestInput> inputs = {}) {
    auto module = ParseModule(SourceText::FromString("test.hlo", text));
    INFO((module ? "" : Render(module.error())));
    REQUIRE(module);
    module_ = std::move(*module);
    auto verified = VerifyModule(*module_);
    INFO((verified ? "" : Render(verified.error())));
    REQUIRE(verified);
    if (inputs.empty()) return;
    path_ = folder_.File("inputs.npz");
    NpzWriter writer(path_);
    for (size_t k = 0; k < inputs.size(); ++k) {
      REQUIRE(writer.Add("p" + std::to_string(k),
                         FormatNpy(inputs[k].dtype, inputs[k].dims, inputs[k].data)));
    }
    REQUIRE(writer.Finish());
  }
  MeshRunOptions options;

  Expected<std::unique_ptr<MeshRun>> Prepare(int64_t partitions = 0) {
    inputs_ = std::move(*Inputs::Open(path_, options.seed));
    options.grid = CountDevices(*module_, partitions);
    return MeshRun::Prepare(*module_, *inputs_, options);
  }
  // Prepares and runs; requires success.
  MeshRun& Run(int64_t partitions = 0, const RunOptions& run_options = {}) {
    auto prepared = Prepare(partitions);
    INFO((prepared ? "" : Render(prepared.error())));
    REQUIRE(prepared);
    run_ = std::move(*prepared);
    REQUIRE(run_->Start());
    auto done = run_->Run(run_options);
    INFO((done ? "" : Render(done.error())));
    REQUIRE(done);
    return *run_;
  }
  // The error of preparing or running; requires that there is one.
  Diagnostic Error(int64_t partitions = 0, const RunOptions& run_options = {}) {
    auto prepared = Prepare(partitions);
    if (!prepared) return prepared.error();
    run_ = std::move(*prepared);
    REQUIRE(run_->Start());
    auto done = run_->Run(run_options);
    REQUIRE_FALSE(done);
    return done.error();
  }
  template <typename T>
  std::vector<T> Result(size_t k = 0) {
    return ValuesOf<T>(run_->Output(k).data);
  }
  const Module& module() const { return *module_; }

  // What a plan of the module holds and calls, with fusion and without.
  struct Footprint {
    int64_t transient_bytes = 0;  // arena and slots, without parameters and constants
    size_t calls = 0;             // of kernels
    int64_t bytes = 0;            // that kernels read and write
    bool Stores(const std::string& name) const {
      return std::find(stored.begin(), stored.end(), name) != stored.end();
    }
    std::vector<std::string> stored;  // instructions with a value in the arena
  };
  Footprint PlanFootprint(bool fuse) {
    options.fuse = fuse;
    auto prepared = Prepare();
    INFO((prepared ? "" : Render(prepared.error())));
    REQUIRE(prepared);
    const Plan& plan = (*prepared)->plan();
    Footprint footprint{plan.memory.transient_bytes, plan.call_count, 0, {}};
    for (const PlanBlock& block : plan.blocks) {
      for (const Step& step : block.steps) {
        if (const auto* chain = std::get_if<ChainStep>(&step)) footprint.bytes += chain->bytes;
      }
    }
    for (ValueId value = 0; value < plan.program->values.size(); ++value) {
      const Instruction* source = plan.program->values[value].source;
      if (plan.places->IsPlaced(value) && source != nullptr) {
        footprint.stored.emplace_back(source->name());
      }
    }
    return footprint;
  }

 private:
  TemporaryFolder folder_;
  std::string path_;  // of the inputs; empty: random ones
  std::unique_ptr<Module> module_;
  std::unique_ptr<Inputs> inputs_;
  std::unique_ptr<MeshRun> run_;
};

}  // namespace gshard::cpu

#endif  // GSHARD_TESTS_UNIT_BACKENDS_CPU_MESH_FIXTURE_H_
