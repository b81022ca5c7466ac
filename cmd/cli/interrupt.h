// Ctrl-C: every program ends with exit code 130 and leaves no unfinished file.
#ifndef GSHARD_CMD_CLI_INTERRUPT_H_
#define GSHARD_CMD_CLI_INTERRUPT_H_

#include <atomic>

namespace gshard {

inline constexpr int kExitInterrupted = 130;

// Ctrl-C ends the process at once. CommandLine::Run calls it; `program` must live on.
void ExitOnInterrupt(const char* program);

// While this object lives, Ctrl-C sets `stop`; the worker must poll it. If the work has not ended two
// seconds later (a phase that does not poll), or at a second Ctrl-C, the process ends as above.
class InterruptibleWork {
 public:
  explicit InterruptibleWork(std::atomic<bool>* stop);
  ~InterruptibleWork();
  InterruptibleWork(const InterruptibleWork&) = delete;
  InterruptibleWork& operator=(const InterruptibleWork&) = delete;
};

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_INTERRUPT_H_
