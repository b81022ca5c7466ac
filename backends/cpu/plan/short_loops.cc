#include "backends/cpu/plan/short_loops.h"

#include "core/analysis/trip_count.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

// Threefry, as JAX writes it, has 5 trips of 60 operations.
constexpr int64_t kMaxTrips = 16;
constexpr int64_t kMaxOperations = 1024;  // of all trips
// Of one result: operations on larger arrays outweigh the loop around them.
constexpr int64_t kMaxResultBytes = 256 << 10;

// How many operations a trip has, calls resolved; nothing if they are too many or not to be copied.
std::optional<int64_t> OperationsOf(const Computation& computation) {
  auto operations = static_cast<int64_t>(computation.instructions().size());
  for (const Instruction* x : computation.instructions()) {
    if (x->shape()->IsArray() && x->shape()->byte_size() > kMaxResultBytes) return std::nullopt;
    switch (x->opcode()) {
      case Opcode::kCall:
      case Opcode::kFusion: {
        const auto called = OperationsOf(*x->called(0));
        if (!called) return std::nullopt;
        operations += *called;
        break;
      }
      case Opcode::kWhile:
      case Opcode::kConditional:
      case Opcode::kScan:
      case Opcode::kAsyncStart:
      case Opcode::kRng:
      case Opcode::kRngGetAndUpdateState:
        return std::nullopt;
      default:  // copied, unless devices communicate
        if (IsCollective(x->opcode())) return std::nullopt;
    }
    if (operations > kMaxOperations) return std::nullopt;
  }
  return operations;
}

}  // namespace

std::optional<int64_t> TripsToUnroll(const Instruction& loop) {
  const std::optional<LoopCounter> counter = CounterOf(loop);
  if (!counter || counter->trips > kMaxTrips) return std::nullopt;
  const auto operations = OperationsOf(*loop.called(1));
  if (!operations || *operations * counter->trips > kMaxOperations) return std::nullopt;
  return counter->trips;
}

}  // namespace gshard::cpu
