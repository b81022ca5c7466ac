// Running of chains.
#include "backends/cpu/run/chain_runner.h"

#include <algorithm>
#include <cstring>

#include "backends/cpu/run/collectives.h"

namespace gshard::cpu {
namespace {

// A piece of a split operation is worth at least this much, in bytes touched.
constexpr int64_t kPieceWork = 256 << 10;
constexpr int64_t kMaxPieces = 256;
// How much arithmetic costs as much as touching a byte.
constexpr int64_t kFlopsPerByte = 4;

int64_t WorkOf(int64_t bytes, int64_t flops) { return bytes + flops / kFlopsPerByte; }

// The few pointers of one call, without going to the heap.
template <typename T>
T* PointersIn(BumpScratch& scratch, size_t count) {
  return reinterpret_cast<T*>(scratch.Allocate(count * sizeof(T)));
}

}  // namespace

std::byte* ChainRunner::At(const BufferRef& ref, uint32_t c, uint32_t i, std::byte* slot) const {
  switch (ref.space) {
    case BufferSpace::kArena:
      return arena_ + ref.ArenaOffset(c);
    case BufferSpace::kSlot:
      return slot + ref.base + static_cast<int64_t>(i) * ref.stride +
             (ref.table != nullptr ? ref.table[c] : 0);
  }
  throw InternalError("place of a value");
}

bool ChainRunner::Run(const ChainStep& step, ActiveSet* active) {
  bad_value_.reset();
  const bool probes = observer_ != nullptr && !step.probes.empty();
  if (probes && active == nullptr && step.fused_accumulators.empty() && step.classes->IsUniform()) {
    return RunSplit(step, ClassBlock(), arena_ + step.slot_base);
  }
  if (probes && !observer_->Prepare(step.probes)) return false;
  if (!RunClasses(step, active)) return false;
  if (probes) observer_->Finish(step.probes);
  return true;
}

bool ChainRunner::RunClasses(const ChainStep& step, ActiveSet* active) {
  const uint32_t count = step.classes->count();
  const uint8_t* mask = active != nullptr ? active->OfClasses(step.classes).data() : nullptr;
  const uint8_t* owned = ranks_ != nullptr ? ranks_->OwnedClassesOf(step, active) : nullptr;
  if (owned != nullptr) mask = owned;
  if (!step.fused_accumulators.empty() && ranks_ != nullptr) {
    RunTasksOfRank(step, active);
    return true;
  }
  if (!step.fused_accumulators.empty()) {
    RunTasks(step, mask);
    for (const CollectiveStep& reduction : step.final_reductions) {
      RunCollective(reduction, arena_, active, workers_);
    }
    return true;
  }
  std::byte* slots = arena_ + step.slot_base;
  const int64_t work = WorkOf(step.bytes, step.flops);
  if (mask != nullptr) {
    std::vector<uint32_t> classes;
    for (uint32_t c = 0; c < count; ++c) {
      if (mask[c] != 0) classes.push_back(c);
    }
    RunSome(step, classes);
    if (owned != nullptr) ranks_->ShareOwned(step);
    return true;
  }
  const uint32_t blocks = (count + step.block - 1) / step.block;
  auto block_at = [&](uint32_t first) {
    return ClassBlock{nullptr, first, std::min(step.block, count - first), 0, false};
  };
  if (static_cast<int>(blocks) >= 2 * workers_.threads()) {
    workers_.For(blocks, work * count, [&](int64_t b, int worker) {
      RunBlock(step, block_at(static_cast<uint32_t>(b) * step.block),
               slots + worker * step.slot_bytes, workers_.scratch(worker));
    });
    return true;
  }
  if (count == 1 && step.probes.empty() && trace_ == nullptr && !check_nan_) {
    return RunSingleClass(step, slots);
  }
  for (uint32_t first = 0; first < count; first += step.block) {
    if (!RunSplit(step, block_at(first), slots)) return false;
  }
  return true;
}

const ChainRunner::SingleClass& ChainRunner::SingleClassOf(const ChainStep& step, std::byte* slot) {
  SingleClass& single = single_[step.number];
  if (single.pieces.empty()) {
    for (const BufferRef& ref : step.refs) single.places.push_back(At(ref, 0, 0, slot));
    for (const Call& call : step.calls) single.pieces.push_back(PiecesOf(call));
  }
  return single;
}

bool ChainRunner::RunSingleClass(const ChainStep& step, std::byte* slot) {
  const SingleClass& single = SingleClassOf(step, slot);
  std::byte* const* const places = single.places.data();
  BumpScratch& scratch = workers_.scratch(0);
  for (size_t i = 0; i < step.calls.size(); ++i) {
    const Call& call = step.calls[i];
    if (single.pieces[i] > 1) {
      RunCallSplit(step, call, 0, slot);
    } else {
      const BumpScratch::Mark mark = scratch.Position();
      call.kernel->Run({places + call.operands, call.operand_count},
                       {places + call.results, call.result_count}, scratch);
      scratch.Rewind(mark);
    }
    if (!AfterCall(call, 1)) return false;
  }
  return true;
}

bool ChainRunner::AfterCall(const Call& call, int64_t instances) {
  const int64_t work = WorkOf(call.bytes, call.flops) * instances;
  return !after_call_ || work < kPieceWork || after_call_(static_cast<double>(work));
}

// Blocks of a list of classes.
void ChainRunner::RunSome(const ChainStep& step, const std::vector<uint32_t>& classes) {
  std::byte* slots = arena_ + step.slot_base;
  const int64_t work = WorkOf(step.bytes, step.flops) * static_cast<int64_t>(classes.size());
  const auto count = static_cast<uint32_t>(classes.size());
  const int64_t blocks = (count + step.block - 1) / step.block;
  auto block_at = [&](int64_t index) {
    const auto first = static_cast<uint32_t>(index) * step.block;
    return ClassBlock{classes.data(), first, std::min(step.block, count - first), 0, false, false};
  };
  // There is a slot for every thread only if there are enough blocks for all.
  const bool spread = static_cast<int>(step.classes->count() / step.block) >= workers_.threads();
  if (ranks_ != nullptr && observer_ == nullptr && step.fused_accumulators.empty() &&
      blocks < 2 * workers_.threads()) {
    for (int64_t b = 0; b < blocks; ++b) RunSplit(step, block_at(b), slots);
    return;
  }
  workers_.For(blocks, spread ? work : 0, [&](int64_t b, int worker) {
    RunBlock(step, block_at(b), slots + worker * step.slot_bytes, workers_.scratch(worker));
  });
}

void ChainRunner::RunTasksOfRank(const ChainStep& step, ActiveSet* active) {
  const std::vector<uint8_t>& mask = active->OfClasses(step.classes);
  std::vector<uint8_t> folded(mask.size(), 0);
  const int64_t work = WorkOf(step.bytes, step.flops);
  ranks_->RunFusedAccumulators(step, active, [&](std::span<const FusedAccumulatorRun> runs) {
    int64_t classes = 0;
    for (const FusedAccumulatorRun& run : runs) {
      classes += run.last - run.first;
      for (uint32_t i = run.first; i < run.last; ++i) folded[step.order[i]] = 1;
    }
    workers_.For(static_cast<int64_t>(runs.size()), work * classes, [&](int64_t r, int worker) {
      const FusedAccumulatorRun& run = runs[static_cast<size_t>(r)];
      std::byte* slot = arena_ + step.slot_base + worker * step.slot_bytes;
      for (uint32_t first = run.first; first < run.last; first += step.block) {
        const uint32_t count = std::min(step.block, run.last - first);
        const bool starts = first == run.first && run.from < 0;
        const ClassBlock block{step.order.data(), first, count, run.task, starts};
        RunBlock(step, block, slot, workers_.scratch(worker));
      }
    });
  });
  // What others fold is computed here, too, where it is not for fused accumulators only.
  std::vector<uint32_t> rest;
  for (uint32_t c = 0; c < mask.size(); ++c) {
    if (mask[c] != 0 && folded[c] == 0) rest.push_back(c);
  }
  if (!rest.empty()) RunSome(step, rest);
}

void ChainRunner::RunTasks(const ChainStep& step, const uint8_t* mask) {
  const auto tasks = static_cast<int64_t>(step.tasks.size()) - 1;
  const int64_t work = WorkOf(step.bytes, step.flops) * step.classes->count();
  workers_.For(tasks, work, [&](int64_t task, int worker) {
    const auto t = static_cast<uint32_t>(task);
    // Groups take part as a whole or not at all; the collective itself reports others.
    if (mask != nullptr && mask[step.order[step.tasks[t]]] == 0) return;
    std::byte* slot = arena_ + step.slot_base + worker * step.slot_bytes;
    for (uint32_t first = step.tasks[t]; first < step.tasks[t + 1]; first += step.block) {
      const uint32_t count = std::min(step.block, step.tasks[t + 1] - first);
      const ClassBlock block{step.order.data(), first, count, t, first == step.tasks[t]};
      RunBlock(step, block, slot, workers_.scratch(worker));
    }
  });
}

void ChainRunner::RunBlock(const ChainStep& step, const ClassBlock& block, std::byte* slot,
                           BumpScratch& scratch) {
  const Trace::Clock::time_point begin =
      trace_ != nullptr ? Trace::Clock::now() : Trace::Clock::time_point();
  for (const Call& call : step.calls) {
    if (call.sums) {
      if (block.fused_accumulators) RunSum(step, call, block, slot, scratch);
      continue;
    }
    RunCall(step, call, block, slot, scratch);
    if (call.fused_accumulator_count > 0 && block.fused_accumulators)
      Accumulate(step, call, block, slot, scratch);
  }
  if (trace_ != nullptr) {
    const auto worker = &scratch - &workers_.scratch(0);
    trace_->Add(static_cast<int>(worker) + 1, step.calls.back().op->instruction->name(), begin,
                Trace::Clock::now());
  }
}

void ChainRunner::Accumulate(const ChainStep& step, const Call& call, const ClassBlock& block,
                             std::byte* slot, BumpScratch& scratch) {
  const BumpScratch::Mark mark = scratch.Position();
  for (uint32_t s = call.fused_accumulators;
       s < call.fused_accumulators + call.fused_accumulator_count; ++s) {
    const PlannedFusedAccumulator& fused_accumulator = step.fused_accumulators[s];
    std::byte* accumulator = arena_ + fused_accumulator.accumulators[block.task];
    auto** members = PointersIn<const std::byte*>(scratch, block.count + 1);
    size_t count = 0;
    if (!block.starts_task) members[count++] = accumulator;
    for (uint32_t i = 0; i < block.count; ++i)
      members[count++] = At(fused_accumulator.value, block[i], i, slot);
    fused_accumulator.fold->RunInOrder(fused_accumulator.bytes / fused_accumulator.element_bytes,
                                       {members, count}, accumulator, scratch);
  }
  scratch.Rewind(mark);
}

void ChainRunner::RunSum(const ChainStep& step, const Call& call, const ClassBlock& block,
                         std::byte* slot, BumpScratch& scratch) {
  const BumpScratch::Mark mark = scratch.Position();
  const BatchOperand* operands = OperandsOf(step, call, block, slot, scratch);
  call.kernel->RunSum(
      block.count, {operands, call.operand_count}, !block.starts_task,
      arena_ + step.fused_accumulators[call.fused_accumulators].accumulators[block.task], scratch);
  scratch.Rewind(mark);
}

const BatchOperand* ChainRunner::OperandsOf(const ChainStep& step, const Call& call,
                                            const ClassBlock& block, std::byte* slot,
                                            BumpScratch& scratch) const {
  auto* operands = PointersIn<BatchOperand>(scratch, call.operand_count);
  for (size_t k = 0; k < call.operand_count; ++k) {
    const BufferRef& ref = step.refs[call.operands + k];
    auto** items = PointersIn<const std::byte*>(scratch, block.count);
    for (uint32_t i = 0; i < block.count; ++i) items[i] = At(ref, block[i], i, slot);
    int64_t stride = block.count > 1 ? items[1] - items[0] : 0;
    for (uint32_t i = 2; i < block.count && stride >= 0; ++i) {
      if (items[i] - items[i - 1] != stride) stride = BatchOperand::kUneven;
    }
    operands[k] = {items, stride < 0 ? BatchOperand::kUneven : stride};
  }
  return operands;
}

void ChainRunner::FindBuffers(const ChainStep& step, const Call& call, uint32_t c, uint32_t i,
                              std::byte* slot, const std::byte** operands,
                              std::byte** results) const {
  for (size_t k = 0; k < call.operand_count; ++k) {
    operands[k] = At(step.refs[call.operands + k], c, i, slot);
  }
  for (size_t k = 0; k < call.result_count; ++k) {
    results[k] = At(step.refs[call.results + k], c, i, slot);
  }
}

void ChainRunner::RunCall(const ChainStep& step, const Call& call, const ClassBlock& block,
                          std::byte* slot, BumpScratch& scratch) {
  if (call.probe != kNoProbe) return ShowProbe(step, call, block, slot);
  const BumpScratch::Mark mark = scratch.Position();
  const size_t operand_count = call.operand_count, result_count = call.result_count;
  auto** one_operand = PointersIn<const std::byte*>(scratch, operand_count);
  auto** one_result = PointersIn<std::byte*>(scratch, result_count);
  auto run_one = [&](uint32_t i) {
    FindBuffers(step, call, block[i], i, slot, one_operand, one_result);
    call.kernel->Run({one_operand, operand_count}, {one_result, result_count}, scratch);
  };
  if (block.count == 1) {
    run_one(0);
  } else {
    auto* results = PointersIn<BatchResult>(scratch, result_count);
    bool even = true;
    for (size_t k = 0; k < result_count && even; ++k) {
      const BufferRef& ref = step.refs[call.results + k];
      std::byte* first = At(ref, block[0], 0, slot);
      const int64_t stride = At(ref, block[1], 1, slot) - first;
      for (uint32_t i = 2; i < block.count && even && ref.space == BufferSpace::kArena; ++i) {
        even = At(ref, block[i], i, slot) == first + i * stride;
      }
      results[k] = {first, stride};
    }
    if (!even) {
      // Classes that are no neighbours in a result's memory.
      for (uint32_t i = 0; i < block.count; ++i) run_one(i);
    } else {
      const BatchOperand* operands = OperandsOf(step, call, block, slot, scratch);
      call.kernel->RunBatch(block.count, {operands, operand_count}, {results, result_count},
                            scratch);
    }
  }
  scratch.Rewind(mark);
  if (check_nan_) {
    for (uint32_t i = 0; i < block.count; ++i) Check(step, call, block[i], i, slot);
  }
}

void ChainRunner::ShowProbe(const ChainStep& step, const Call& call, const ClassBlock& block,
                            std::byte* slot) {
  if (observer_ == nullptr) return;
  for (uint32_t i = 0; i < block.count; ++i) {
    observer_->Show(call.probe, block[i], At(step.refs[call.operands], block[i], i, slot), 0, 1);
  }
}

void ChainRunner::ShowProbeSplit(const ChainStep& step, const Call& call, uint32_t c,
                                 std::byte* slot) {
  if (observer_ == nullptr) return;
  const int64_t pieces = std::clamp<int64_t>(call.bytes / kPieceWork, 1, kMaxPieces);
  std::byte* data = At(step.refs[call.operands], c, 0, slot);
  workers_.For(pieces, call.bytes,
               [&](int64_t piece, int) { observer_->Show(call.probe, c, data, piece, pieces); });
}

// With a probe alone in front of its observer where all classes run in one piece.
bool ChainRunner::RunSplit(const ChainStep& step, const ClassBlock& block, std::byte* slot) {
  const bool one_by_one = observer_ != nullptr && step.classes->IsUniform();
  for (const Call& call : step.calls) {
    if (call.probe != kNoProbe && block.count == 1) {
      const std::span<const uint32_t> probe(&call.probe, 1);
      if (one_by_one && !observer_->Prepare(probe)) return false;
      ShowProbeSplit(step, call, block[0], slot);
      if (one_by_one) observer_->Finish(probe);
      continue;
    }
    const Trace::Clock::time_point begin =
        trace_ != nullptr ? Trace::Clock::now() : Trace::Clock::time_point();
    if (block.count == 1) {
      RunCallSplit(step, call, block[0], slot);
    } else {
      RunCall(step, call, block, slot, workers_.scratch(0));
    }
    if (trace_ != nullptr) {
      trace_->Add(1, call.op->instruction->name(), begin, Trace::Clock::now());
    }
    if (!AfterCall(call, block.count)) return false;
  }
  return true;
}

int64_t ChainRunner::PiecesOf(const Call& call) const {
  const int64_t shares = call.kernel->ShareCount(), granule = call.kernel->RangeGranule();
  if (call.kernel->RunsInSteps()) {
    return std::clamp<int64_t>(WorkOf(call.bytes, call.flops) / kPieceWork, 1, kMaxPieces);
  }
  if (shares > 1 || granule <= 0 || call.elements <= 0) return shares;
  const int64_t granules = (call.elements + granule - 1) / granule;
  return std::clamp<int64_t>(WorkOf(call.bytes, call.flops) / kPieceWork, 1,
                             std::min(granules, kMaxPieces));
}

void ChainRunner::RunCallSplit(const ChainStep& step, const Call& call, uint32_t c,
                               std::byte* slot) {
  const int64_t pieces = PiecesOf(call);
  if (pieces <= 1) {
    RunCall(step, call, ClassBlock{nullptr, c, 1, 0, false}, slot, workers_.scratch(0));
    return;
  }
  if (call.kernel->RunsInSteps()) return RunCallInSteps(step, call, c, slot, pieces);
  const bool shares = call.kernel->ShareCount() > 1;
  const int64_t work = WorkOf(call.bytes, call.flops);
  const int64_t granule = call.kernel->RangeGranule();
  const int64_t granules = shares ? 0 : (call.elements + granule - 1) / granule;
  workers_.For(pieces, work, [&](int64_t piece, int worker) {
    const int64_t first = shares ? 0 : granules * piece / pieces * granule;
    const int64_t end = std::min(granules * (piece + 1) / pieces * granule, call.elements);
    BumpScratch& scratch = workers_.scratch(worker);
    const BumpScratch::Mark mark = scratch.Position();
    auto** operands = PointersIn<const std::byte*>(scratch, call.operand_count);
    auto** results = PointersIn<std::byte*>(scratch, call.result_count);
    for (size_t k = 0; k < call.operand_count; ++k) {
      const BufferRef& ref = step.refs[call.operands + k];
      operands[k] = At(ref, c, 0, slot) + (ref.advances_with_range ? first * ref.element_bytes : 0);
    }
    for (size_t k = 0; k < call.result_count; ++k) {
      const BufferRef& ref = step.refs[call.results + k];
      results[k] = At(ref, c, 0, slot) + first * ref.element_bytes;
    }
    if (shares) {
      call.kernel->RunShare(piece, {operands, call.operand_count}, {results, call.result_count},
                            scratch);
    } else {
      call.kernel->RunRange(first, end - first, {operands, call.operand_count},
                            {results, call.result_count}, scratch);
    }
    scratch.Rewind(mark);
  });
  if (check_nan_) Check(step, call, c, 0, slot);
}

void ChainRunner::RunCallInSteps(const ChainStep& step, const Call& call, uint32_t c,
                                 std::byte* slot, int64_t most) {
  BumpScratch& scratch = workers_.scratch(0);
  const BumpScratch::Mark mark = scratch.Position();
  auto** operands = PointersIn<const std::byte*>(scratch, call.operand_count);
  auto** results = PointersIn<std::byte*>(scratch, call.result_count);
  FindBuffers(step, call, c, 0, slot, operands, results);
  const int64_t work = WorkOf(call.bytes, call.flops);
  const auto run = [&](int64_t count, int64_t granule,
                       const std::function<void(Range, Scratch&)>& body) {
    const int64_t granules = (count + granule - 1) / granule, pieces = std::min(granules, most);
    workers_.For(pieces, work, [&](int64_t piece, int worker) {
      BumpScratch& own = workers_.scratch(worker);
      const BumpScratch::Mark before = own.Position();
      body({granules * piece / pieces * granule,
            std::min(granules * (piece + 1) / pieces * granule, count)},
           own);
      own.Rewind(before);
    });
  };
  call.kernel->RunSteps(run, {operands, call.operand_count}, {results, call.result_count}, scratch);
  scratch.Rewind(mark);
  if (check_nan_) Check(step, call, c, 0, slot);
}

void ChainRunner::Check(const ChainStep& step, const Call& call, uint32_t c, uint32_t i,
                        std::byte* slot) {
  const Instruction& x = *call.op->instruction;
  for (uint32_t r = 0; r < call.result_count; ++r) {
    const Shape* shape = x.shape()->IsTuple() ? x.shape()->element(r) : x.shape();
    const CheckedArray result = {shape, At(step.refs[call.results + r], c, i, slot)};
    auto found = FindNotFinite(shape, result.data);
    if (!found) continue;
    std::vector<CheckedArray> operands;
    bool came_in = false;
    // (rng's operations have more than its instruction.)
    const auto operand_count = std::min<int64_t>(call.operand_count, x.operand_count());
    for (int64_t k = 0; k < operand_count; ++k) {
      const Shape* operand = x.operand(k)->shape();
      operands.push_back(
          {operand, At(step.refs[call.operands + static_cast<size_t>(k)], c, i, slot)});
      came_in |= FindNotFinite(operand, operands.back().data).has_value();
    }
    // What came in is no finding: a mask, the initial value of a maximum, a constant that fills
    // places which a select hides. NaN of parameters have been told.
    if (found->is_nan) {
      found = FindNewNan(result, operands, IsElementwise(x.opcode()));
      if (!found) continue;
    } else if (came_in) {
      continue;
    }
    const auto index = static_cast<uint32_t>(&call - step.calls.data());
    const BadValue bad{call.op, index, step.classes->first_device(c), r, *found};
    std::lock_guard<std::mutex> lock(mutex_);
    if (!bad_value_ || bad.Before(*bad_value_)) bad_value_ = bad;
  }
}

}  // namespace gshard::cpu
