// Any program goes through every pass alone, and through the whole way to the program of one device
// and its optimization. What comes out of each verifies, and prints to text that parses again and
// prints the same; the last is run on the emulated mesh. So do its derivative and what fits into
// less memory; it is priced and checked, and what is written of it as StableHLO reads back.
//
//   pipeline_fuzz -dict=tests/fuzz/hlo.dict -timeout=20 CORPUS tests/fuzz/pipeline_corpus
//
// Without libFuzzer, replay_main.cc is its main: gshard_pipeline_fuzz.
#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <thread>

#include "backends/cpu/emulate.h"
#include "core/analysis/meshes.h"
#include "core/autodiff/gradient.h"
#include "core/check/communication_check.h"
#include "core/cost/chip.h"
#include "core/cost/cost_report.h"
#include "core/estimate/device_program.h"
#include "core/pass.h"
#include "core/remat/fit_to_memory.h"
#include "core/spmd/expansion.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/tpu/rounded_operands.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/stablehlo/reader.h"
#include "ir/stablehlo/writer.h"
#include "ir/verify/verifier.h"

namespace {

using gshard::Diagnostic;
using gshard::Expected;
using gshard::Instruction;
using gshard::Module;

// Larger programs show nothing more and take longer.
constexpr size_t kMaxBytes = 1 << 16, kMaxInstructions = 400;
constexpr int64_t kMaxArrayBytes = 1 << 16, kMaxDevices = 16;

void Require(bool condition, std::string_view what, const std::string& detail,
             const std::string& text) {
  if (condition) return;
  std::fprintf(stderr, "FAULT after %.*s: %s\n%s\n", static_cast<int>(what.size()), what.data(),
               detail.c_str(), text.c_str());
  std::abort();
}

std::unique_ptr<Module> Read(const std::string& text) {
  auto module = gshard::ParseModule(gshard::SourceText::FromString("fuzz.hlo", text));
  if (!module || !gshard::VerifyModule(**module)) return nullptr;
  return std::move(*module);
}

bool IsSmall(const Module& module) {
  size_t instructions = 0;
  for (const gshard::Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (++instructions > kMaxInstructions) return false;
      if (x->shape()->byte_size() < 0 || x->shape()->byte_size() > kMaxArrayBytes) return false;
    }
  }
  const gshard::DeviceGrid devices = gshard::CountDevices(module);
  return devices.partitions <= kMaxDevices && devices.replicas <= kMaxDevices;
}

// Verifies, and prints to what reads back and then prints the same. (The first time names may get
// numbers: what a pass copies keeps its names in another computation.)
void CheckReadable(const Module& module, std::string_view stage, const std::string& input) {
  const Expected<void> verified = gshard::VerifyModule(module);
  Require(verified.has_value(), stage, verified ? "" : Render(verified.error()), input);
  const std::string printed = PrintModule(module, {});
  const auto again = gshard::ParseModule(gshard::SourceText::FromString("printed.hlo", printed));
  Require(again.has_value(), stage, again ? "" : Render(again.error()) + printed, input);
  const Expected<void> holds = gshard::VerifyModule(**again);
  Require(holds.has_value(), stage, holds ? "" : Render(holds.error()) + printed, input);
  const std::string second = PrintModule(**again, {});
  const auto last = gshard::ParseModule(gshard::SourceText::FromString("second.hlo", second));
  Require(last.has_value(), stage, last ? "" : Render(last.error()) + second, input);
  Require(PrintModule(**last, {}) == second, stage, "the print is no fixpoint: " + second, input);
}

void CheckError(const Diagnostic& error, std::string_view stage, const std::string& input) {
  Require(!error.code.empty() && !error.message.empty(), stage, "an error without words", input);
}

// Sets `stop` when a run takes too long, and calls it a fault if that is not heard.
class Watch {
 public:
  explicit Watch(const std::string& input)
      : thread_([this, &input] {
          for (int tick = 0; !done_; ++tick) {
            std::this_thread::sleep_for(std::chrono::milliseconds(5));
            if (tick == 400) stop_ = true;
            Require(tick < 6000, "Ctrl-C", "the run goes on", input);
          }
        }) {}
  ~Watch() {
    done_ = true;
    thread_.join();
  }
  const std::atomic<bool>* stop() const { return &stop_; }

 private:
  std::atomic<bool> stop_ = false, done_ = false;
  std::thread thread_;
};

void RunOnMesh(std::unique_ptr<Module> module, bool partitioned, const std::string& input) {
  const Watch watch(input);
  gshard::cpu::EmulateOptions options;
  options.partitioned = partitioned;
  options.threads = 1;
  options.memory_limit = int64_t{256} << 20;
  options.stop = watch.stop();
  const auto done = gshard::cpu::Emulate(std::move(module), options);
  if (!done) CheckError(done.error(), "the run", input);
}

void CheckEachPass(const std::string& input) {
  for (const gshard::Pass& pass : gshard::AllPasses()) {
    const std::unique_ptr<Module> module = Read(input);
    gshard::PassContext context;
    const auto changed = pass.run(*module, context);
    if (!changed) {
      CheckError(changed.error(), pass.name, input);
    } else {
      CheckReadable(*module, pass.name, input);
    }
  }
}

void CheckWholeWay(const std::string& input) {
  std::unique_ptr<Module> module = Read(input);
  const bool shards = gshard::CountDevices(*module).partitions > 1;
  gshard::PassContext context;
  gshard::PerDeviceOptions way;
  way.after_propagation = [&](Module& propagated) {
    CheckReadable(propagated, "propagation on the way", input);
    return Expected<void>();
  };
  if (const auto made = MakePerDeviceModule(*module, context, way); !made) {
    return CheckError(made.error(), "the way to one device", input);
  }
  CheckReadable(*module, "the way to one device", input);
  for (const std::string_view name : gshard::DefaultOptimization()) {
    const auto changed = gshard::FindPass(name)->run(*module, context);
    if (!changed) return CheckError(changed.error(), name, input);
    CheckReadable(*module, name, input);
  }
  RunOnMesh(std::move(module), shards, input);
}

// Derivatives, values computed again, fewer optimizer states on each device.
void CheckOtherPrograms(const std::string& input) {
  std::unique_ptr<Module> module = Read(input);
  if (const auto done = gshard::Differentiate(*module, {}); !done) {
    CheckError(done.error(), "grad", input);
  } else {
    CheckReadable(*module, "grad", input);
  }
  module = Read(input);
  gshard::PassContext context;
  gshard::FitOptions small;
  small.limit_bytes = 1024;
  if (const auto fit = gshard::FitToMemory(*module, context, small); !fit) {
    CheckError(fit.error(), "remat", input);
  } else {
    CheckReadable(*module, "remat", input);
  }
  module = Read(input);
  gshard::PassContext other;
  gshard::PerDeviceOptions way;
  way.weight_update_sharding = way.windowed_einsum = true;
  if (const auto made = MakePerDeviceModule(*module, other, way); !made) {
    CheckError(made.error(), "weight updates and einsums", input);
  } else {
    CheckReadable(*module, "weight updates and einsums", input);
  }
}

// As StableHLO, or refused by name; what is written reads back and verifies.
void CheckStableHlo(const std::string& input) {
  const std::unique_ptr<Module> module = Read(input);
  DeclareMainMesh(*module);
  gshard::PassContext context;
  if (const auto done = ExpandForStableHlo(*module, context); !done) {
    return CheckError(done.error(), "the way to StableHLO", input);
  }
  const auto written = gshard::stablehlo::WriteModule(*module);
  if (!written) return CheckError(written.error(), "print as StableHLO", input);
  const auto again =
      gshard::stablehlo::ReadModule(gshard::SourceText::FromString("written.mlir", *written));
  Require(again.has_value(), "print as StableHLO",
          again ? "" : Render(again.error()) + "\n" + *written, input);
  const Expected<void> holds = gshard::VerifyModule(**again);
  Require(holds.has_value(), "print as StableHLO",
          holds ? "" : Render(holds.error()) + "\n" + *written, input);
}

void CheckReports(const std::string& input) {
  std::unique_ptr<Module> module = Read(input);
  gshard::PassContext context;
  if (!MakePerDeviceModule(*module, context)) return;
  for (const auto& finding : CheckCommunication(*module, gshard::CountDevices(*module)).findings) {
    CheckError(finding.diagnostic, "check", input);
  }
  const auto chip = gshard::BuiltInChip("tpu-v4");
  if (!chip || !gshard::CleanForCost(*module, gshard::CleanupOf(*chip))) return;
  const auto report = gshard::EstimateCost(*module, *chip);
  if (!report) return CheckError(report.error(), "cost", input);
  Require(report->memory.peak_bytes >= 0, "cost", "a negative peak", input);
  CheckReadable(*module, "what a TPU's compiler makes of it", input);
  Require(!gshard::RoundOperands(*module), "cost", "rounded operands change again", input);
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size > kMaxBytes) return 0;
  const std::string input(reinterpret_cast<const char*>(data), size);
  const std::unique_ptr<Module> module = Read(input);
  if (module == nullptr || !IsSmall(*module)) return 0;
  try {
    CheckEachPass(input);
    CheckWholeWay(input);
    CheckOtherPrograms(input);
    CheckStableHlo(input);
    CheckReports(input);
  } catch (const std::exception& fault) {
    Require(false, "something", std::string("exception: ") + fault.what(), input);
  }
  return 1;  // libFuzzer takes 0 only; replay_main.cc counts what went all the way
}
