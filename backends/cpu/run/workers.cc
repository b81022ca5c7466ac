// oneTBB task arena; BLAS is kept from starting threads of its own.
#include "backends/cpu/run/workers.h"

#include <sched.h>
#include <tbb/blocked_range.h>
#include <tbb/global_control.h>
#include <tbb/parallel_for.h>
#include <tbb/task_arena.h>

#include <algorithm>
#include <cstddef>
#include <fstream>
#include <string>
#include <vector>

#include "backends/cpu/kernels/gemm.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kSerialWork = 64 << 10;

// oneTBB comes compiled without ThreadSanitizer, which therefore does not see that pieces begin
// after For was called and end before it returns, nor that a worker's number passes from thread to
// thread. Nothing is said about pieces of different workers.
#if defined(__SANITIZE_THREAD__)
extern "C" void __tsan_acquire(void* address);
extern "C" void __tsan_release(void* address);
void HappensBefore(const void* point) { __tsan_release(const_cast<void*>(point)); }
void HappensAfter(const void* point) { __tsan_acquire(const_cast<void*>(point)); }
#define GSHARD_UNSEEN_BY_TSAN __attribute__((no_sanitize_thread))
#else
void HappensBefore(const void*) {}
void HappensAfter(const void*) {}
#define GSHARD_UNSEEN_BY_TSAN
#endif

// One call of For.
struct Loop {
  Workers& workers;
  const void* body;
  void (*call)(const void*, int64_t, int);
  char begin, end;  // points in time, by their addresses
};

void RunPiece(const Loop& loop, int64_t begin, int64_t end) {
  HappensAfter(&loop.begin);
  const int worker = tbb::this_task_arena::current_thread_index();
  BumpScratch& scratch = loop.workers.scratch(worker);
  HappensAfter(&scratch);
  for (int64_t i = begin; i != end; ++i) loop.call(loop.body, i, worker);
  HappensBefore(&scratch);
  HappensBefore(&loop.end);
}

// What TBB copies from task to task.
class Piece {
 public:
  explicit Piece(const Loop& loop) : loop_(&loop) {}
  GSHARD_UNSEEN_BY_TSAN void operator()(const tbb::blocked_range<int64_t>& range) const {
    RunPiece(*loop_, range.begin(), range.end());
  }

 private:
  const Loop* loop_;
};

}  // namespace

struct Workers::State {
  explicit State(int threads)
      : control(tbb::global_control::max_allowed_parallelism, static_cast<size_t>(threads)),
        arena(threads),
        scratch(static_cast<size_t>(threads)) {}
  tbb::global_control control;
  tbb::task_arena arena;
  std::vector<BumpScratch> scratch;
};

Workers::Workers(int threads)
    : threads_(std::max(threads, 1)), state_(std::make_unique<State>(threads_)) {
  LimitBlasThreads();
}

Workers::~Workers() = default;

BumpScratch& Workers::scratch(int worker) { return state_->scratch[static_cast<size_t>(worker)]; }

void Workers::set_stop(const std::atomic<bool>* stop) {
  for (BumpScratch& scratch : state_->scratch) scratch.set_stop(stop);
}

int64_t Workers::scratch_bytes() const {
  size_t bytes = 0;
  for (const BumpScratch& scratch : state_->scratch) bytes += scratch.bytes_reserved();
  return static_cast<int64_t>(bytes);
}

void Workers::ForImpl(int64_t count, int64_t work, const void* body,
                      void (*call)(const void*, int64_t, int)) {
  if (count <= 0) return;
  if (threads_ == 1 || count == 1 || work < kSerialWork) {
    for (int64_t i = 0; i < count; ++i) call(body, i, 0);
    return;
  }
  // Enough pieces for balance, few enough that handing them out costs nothing.
  const auto grain = static_cast<size_t>(std::max<int64_t>(count / (threads_ * 16), 1));
  const Loop loop{*this, body, call, {}, {}};
  HappensBefore(&loop.begin);
  state_->arena.execute([&] {
    tbb::parallel_for(tbb::blocked_range<int64_t>(0, count, grain), Piece(loop),
                      tbb::simple_partitioner());
  });
  HappensAfter(&loop.end);
}

int ThreadsFor(int asked) {
  constexpr int kMaxPerCore = 8;
  const int cores = AvailableCores();
  return asked > 0 ? std::min(asked, kMaxPerCore * cores) : cores;
}

int AvailableCores() {
  cpu_set_t set;
  int cores = 1;
  if (sched_getaffinity(0, sizeof set, &set) == 0) cores = std::max(CPU_COUNT(&set), 1);
  std::ifstream quota("/sys/fs/cgroup/cpu.max");
  std::string limit;
  double period = 0;
  if (quota >> limit >> period && limit != "max" && period > 0) {
    const int allowed = static_cast<int>(std::stod(limit) / period + 0.5);
    cores = std::clamp(allowed, 1, cores);
  }
  return cores;
}

}  // namespace gshard::cpu
