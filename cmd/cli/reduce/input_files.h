// The inputs of a program that is reduced, as files. gshard-run reads and writes all of them: what
// a step makes of inputs is the result of a program (core/reduce/inputs.h), and gshard-opt needs
// no code for arrays.
#ifndef GSHARD_CMD_CLI_REDUCE_INPUT_FILES_H_
#define GSHARD_CMD_CLI_REDUCE_INPUT_FILES_H_

#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "cmd/cli/reduce/shell_command.h"
#include "core/reduce/inputs.h"
#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard {

// What it refers to must outlive it and the inputs that it returns, whose files go with them.
class InputFiles {
 public:
  InputFiles(WorkFolder& folder, int64_t timeout_s, const std::atomic<bool>& stop)
      : folder_(folder), timeout_s_(timeout_s), stop_(stop) {}

  // The arrays of a .npz file, as gshard-run takes them for this module. Errors: E-REDUCE-002,
  // what gshard-run says of them; E-REDUCE-003, arrays that no step could cut.
  Expected<std::shared_ptr<const ReduceInputs>> Read(const Module& module,
                                                     const std::string& path) const;
  // The arguments of a snapshot, one a parameter; those without elements are random. Errors:
  // E-REDUCE-002.
  Expected<std::shared_ptr<const ReduceInputs>> FromArguments(
      const Module& module, std::span<const Literal* const> arguments) const;
  // The program's results on inputs, null if it does not run. Thread-safe.
  std::shared_ptr<const ReduceInputs> Compute(const InputProgram& program,
                                              const ReduceInputs& inputs) const;

 private:
  // `from`: words of gshard-run. Null: it fails.
  std::shared_ptr<const ReduceInputs> Run(const InputProgram& program,
                                          const std::string& from) const;
  // Names of parameters that the file has nothing for, once for each of their leaves.
  Expected<std::vector<std::string>> NotGiven(const std::string& text,
                                              const std::string& path) const;

  WorkFolder& folder_;
  int64_t timeout_s_;
  const std::atomic<bool>& stop_;
};

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_REDUCE_INPUT_FILES_H_
