// The threads that run a plan: as many as cores (or --threads), each with its own scratch memory.
#ifndef GSHARD_BACKENDS_CPU_RUN_WORKERS_H_
#define GSHARD_BACKENDS_CPU_RUN_WORKERS_H_

#include <cstdint>
#include <memory>
#include <type_traits>

#include "backends/cpu/memory/memory.h"

namespace gshard::cpu {

class Workers {
 public:
  explicit Workers(int threads);
  ~Workers();

  int threads() const { return threads_; }
  // Scratch of a worker; of the calling thread outside For: worker 0.
  BumpScratch& scratch(int worker);
  // See Scratch::Stopped.
  void set_stop(const std::atomic<bool>* stop);

  // body(index, worker) for 0 <= index < count, in parallel; worker < threads(). Returns when all
  // are done. `work` in about bytes touched in all: what takes only microseconds stays on the
  // calling thread. Not reentrant. Exceptions of `body` are passed on.
  template <typename Body>
  void For(int64_t count, int64_t work, const Body& body) {
    ForImpl(count, work, &body, [](const void* b, int64_t index, int worker) {
      (*static_cast<const Body*>(b))(index, worker);
    });
  }

  int64_t scratch_bytes() const;

 private:
  struct State;
  void ForImpl(int64_t count, int64_t work, const void* body,
               void (*call)(const void*, int64_t, int));

  int threads_;
  std::unique_ptr<State> state_;
};

// Cores this process may use (affinity and cgroup quota considered), at least 1.
int AvailableCores();

// The threads of a run for which `asked` were asked (0: what is best). One a core is best; a few
// more let tests meet other orders; beyond eight a core they only cost time and memory.
int ThreadsFor(int asked);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_WORKERS_H_
