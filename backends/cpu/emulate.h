// What gshard-run does: partition if needed, plan, run, verify, write.
#ifndef GSHARD_BACKENDS_CPU_EMULATE_H_
#define GSHARD_BACKENDS_CPU_EMULATE_H_

#include <atomic>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/run_report.h"
#include "core/pass.h"
#include "ir/module.h"

namespace gshard::cpu {

struct EmulateOptions {
  int64_t num_partitions = 0;       // 0: as the module says
  std::optional<bool> partitioned;  // whether the text is per-device already; default: look
  bool unpartitioned = false;       // run the whole graph on one device
  std::string input, output;        // .npz files; empty: none
  uint64_t seed = 0;
  int64_t repeat = 1;
  int threads = 0;           // 0: all cores
  int64_t memory_limit = 0;  // bytes; 0: none
  bool verify = false;
  bool verify_instructions = true;  // with `verify`: not the outputs only
  bool check_nan = false;
  // --dump NAME=FILE or NAME@DEVICE=FILE.
  struct Dump {
    std::string name;
    std::optional<uint32_t> device;
    std::string file;
  };
  std::vector<Dump> dumps;
  std::string trace;  // file; empty: none
  PropagationOptions propagation;  // what parameters and results may take
  // Around each pass on the way to the program of one device (core/spmd/per_device_module.h).
  PassManagerOptions passes;
  const std::atomic<bool>* stop = nullptr;
  // Phase ("plan", "run", "verify") and share done of it.
  std::function<void(const std::string&, double)> progress;
  std::function<void(const Diagnostic&)> warn;
};

struct Emulation {
  RunReport report;
  bool interrupted = false;  // the report holds what was measured until then
};

// The module is consumed. `reference`: the graph before partitioning, to verify a module with that
// is partitioned already; instructions are compared where both shard alike. Errors: of
// partitioning, planning (E-RUN-MEMORY among them) and running.
Expected<Emulation> Emulate(std::unique_ptr<Module> module, const EmulateOptions& options,
                            std::unique_ptr<Module> reference = nullptr);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EMULATE_H_
