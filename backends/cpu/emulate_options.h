// What the user of Emulate wants; every stage reads it, none changes it.
#ifndef GSHARD_BACKENDS_CPU_EMULATE_OPTIONS_H_
#define GSHARD_BACKENDS_CPU_EMULATE_OPTIONS_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "backends/cpu/verify/verify.h"
#include "backends/mpi/ranks.h"
#include "core/pass.h"
#include "ir/module.h"

namespace gshard::cpu {

struct EmulateOptions {
  int64_t num_partitions = 0;       // 0: as the module says
  std::optional<bool> partitioned;  // whether the text is per-device already; default: look
  bool unpartitioned = false;       // run the whole graph on one device
  std::string input, output;        // .npz files; empty: none
  // Of the first results in `output`; the others are o0, o1, .. by their number.
  std::vector<std::string> output_names;
  // How the results of a program that is partitioned are spread: the text of a sharding, of a tuple
  // for several; empty: as its header says, or as fits a reference.
  std::string output_shardings;
  // Arguments of a snapshot, used where `input` is empty: one literal per parameter, owned by the
  // module.
  std::vector<const Literal*> arguments;
  uint64_t seed = 0;
  int64_t repeat = 0;  // steps to time by themselves; 0: one, which may be verified as it runs
  int threads = 0;     // 0: one per core; at most eight per core
  int64_t memory_limit = 0;  // bytes; 0: none
  bool verify = false;
  bool verify_instructions = true;  // with `verify`: not the outputs only
  OutputTolerance tolerance;        // with `verify`: of outputs
  bool check_nan = false;
  // --dump NAME=FILE or NAME@DEVICE=FILE.
  struct Dump {
    std::string name;
    std::optional<uint32_t> device;
    std::string file;
  };
  std::vector<Dump> dumps;
  std::string trace;               // file; empty: none
  PropagationOptions propagation;  // what parameters and results may take
  // Around each pass on the way to the program of one device (core/spmd/per_device_module.h).
  PassManagerOptions passes;
  const std::atomic<bool>* stop = nullptr;
  // Several processes, each with the same module and options; null: this one alone. Rank 0 has the
  // result; all return the same errors, but for those that one rank meets on its way: told here,
  // which does not return.
  mpi::Ranks* ranks = nullptr;
  std::function<void(const Diagnostic&)> fail_alone;
  // Phase ("plan", "run", "verify") and share done of it.
  std::function<void(const std::string&, double)> progress;
  std::function<void(const Diagnostic&)> warn;

  void Progress(const std::string& phase, double share) const {
    if (progress) progress(phase, share);
  }
  void Warn(const Diagnostic& warning) const {
    if (warn) warn(warning);
  }
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_EMULATE_OPTIONS_H_
