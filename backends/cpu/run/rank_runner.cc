// Packing, exchanging, unpacking.
#include "backends/cpu/run/rank_runner.h"

#include <algorithm>
#include <cstring>
#include <iterator>

#include "backends/cpu/arrays/index_value.h"
#include "backends/cpu/plan/collective_reads.h"
#include "backends/cpu/run/collectives.h"
#include "backends/cpu/run/rank_reduction.h"

namespace gshard::cpu {
namespace {

void Pack(const WireItem& item, const std::byte* arena, std::byte* message) {
  const WirePiece& piece = item.piece;
  const auto row_bytes = static_cast<size_t>(piece.row_bytes);
  for (int64_t i = 0; i < item.count; ++i) {
    const std::byte* from = arena + piece.offset + i * item.step;
    for (int64_t row = 0; row < piece.rows; ++row, message += row_bytes) {
      std::memcpy(message, from + row * piece.stride, row_bytes);
    }
  }
}

void Unpack(const WireItem& item, const std::byte* message, std::byte* arena) {
  const WirePiece& piece = item.piece;
  const auto row_bytes = static_cast<size_t>(piece.row_bytes);
  for (int64_t i = 0; i < item.count; ++i) {
    std::byte* to = arena + piece.offset + i * item.step;
    for (int64_t row = 0; row < piece.rows; ++row, message += row_bytes) {
      std::memcpy(to + row * piece.stride, message, row_bytes);
    }
  }
}

}  // namespace

RankRunner::RankRunner(const Plan& plan, std::byte* arena, Workers& workers, mpi::Ranks& ranks)
    : plan_(plan),
      arena_(arena),
      workers_(workers),
      ranks_(ranks),
      everyone_(std::vector<uint8_t>(plan.cut.devices, 1), plan.cut.Begin(plan.cut.rank),
                plan.cut.Begin(plan.cut.rank + 1)),
      all_(plan.cut, {}) {}

std::unique_ptr<ActiveSet> RankRunner::MakeActiveSet(std::vector<uint8_t> devices) const {
  return std::make_unique<ActiveSet>(std::move(devices), plan_.cut.Begin(plan_.cut.rank),
                                     plan_.cut.Begin(plan_.cut.rank + 1));
}

std::string_view RankRunner::NameOf(const CollectiveStep& step) const {
  return step.op->instruction->name();
}

void RankRunner::Note(const WirePlan& wire) {
  predicted_.messages += wire.messages;
  predicted_.bytes += wire.bytes;
  predicted_.least_bytes += wire.least_bytes;
}

void RankRunner::Note(const FusedAccumulatorPlan& plan) {
  predicted_.messages += plan.messages;
  predicted_.bytes += plan.bytes;
  predicted_.least_bytes += plan.bytes;
}

const WirePlan& RankRunner::PlanOf(const CollectiveStep& step, ActiveSet* active) {
  if (active == &everyone_) {
    const auto [found, inserted] = plans_.try_emplace(&step);
    if (inserted) found->second = MakeWirePlan(plan_, step, all_);
    return found->second;
  }
  RankHolders holders(plan_.cut, active->devices());
  WirePlan& plan = plans_[nullptr];
  plan = MakeWirePlan(plan_, step, holders);
  return plan;
}

mpi::Ranks::Begun RankRunner::Begin(const std::vector<WireMessage>& messages,
                                    RoundBuffers& buffers) {
  std::vector<mpi::Ranks::Packet> out;
  std::vector<mpi::Ranks::Awaited> in;
  for (const WireMessage& message : messages) {
    if (message.from == ranks_.rank()) {
      out.push_back({message.to, &buffers.out.at(message.to)});
    } else {
      in.push_back({message.from, static_cast<size_t>(message.bytes), &buffers.in[message.from]});
    }
  }
  return ranks_.Begin(out, in);
}

int64_t RankRunner::CopyBufferBytes() const {
  int64_t bytes = 0;
  for (const RoundBuffers& round : round_buffers_) bytes += round.bytes();
  return bytes;
}

void RankRunner::MoveRows(const CollectiveStep& step, ActiveSet* active) {
  RankHolders holders(plan_.cut, active->devices());
  const auto read = [&](int64_t address, size_t operand, int64_t index) {
    const Shape* shape = step.op->instruction->operand(static_cast<int64_t>(operand))->shape();
    return IndexValue(shape->dtype(), arena_ + address, index);
  };
  const WirePlan rows = MakeRaggedRows(plan_, step, holders, read);
  for (const std::vector<WireMessage>& round : rows.rounds) {
    for (const WireMessage& message : round) {
      if (message.from != ranks_.rank()) continue;
      ++sent_rows_.messages;
      sent_rows_.bytes += message.bytes;
      sent_rows_.least_bytes += message.bytes;
    }
  }
  SendPieces(rows, NameOf(step));
}

void RankRunner::MovePieces(const WirePlan& wire, std::string_view where) {
  Note(wire);
  SendPieces(wire, where);
}

void RankRunner::SendPieces(const WirePlan& wire, std::string_view where) {
  // The same memory again and again: it stays in the cache, and fresh pages cost as much as copies.
  std::array<mpi::Ranks::Begun, kRoundsBegun> begun;
  const size_t rounds = wire.rounds.size();
  for (size_t next = 0; next < rounds + kRoundsBegun; ++next) {
    RoundBuffers& buffers = round_buffers_[next % kRoundsBegun];
    if (next >= kRoundsBegun && next - kRoundsBegun < rounds) {
      ranks_.FinishIncoming(begun[next % kRoundsBegun], where);
      for (const WireMessage& message : wire.rounds[next - kRoundsBegun]) {
        if (message.to != ranks_.rank()) continue;
        mpi::Message& data = buffers.in.at(message.from);
        for (const WireItem& item : message.items) Unpack(item, data.data() + item.offset, arena_);
        ranks_.Release(data);
      }
      ranks_.Finish(begun[next % kRoundsBegun], where);
    }
    if (next >= rounds) continue;
    for (const WireMessage& message : wire.rounds[next]) {
      if (message.from != ranks_.rank()) continue;
      mpi::Message& data = buffers.out[message.to];
      ranks_.Prepare(message.to, static_cast<size_t>(message.bytes), data);
      for (const WireItem& item : message.items) Pack(item, arena_, data.data() + item.offset);
    }
    begun[next % kRoundsBegun] = Begin(wire.rounds[next], buffers);
    buffer_bytes_ = std::max(buffer_bytes_, CopyBufferBytes());
  }
  for (const LocalCopy& copy : wire.copies) {
    const WirePiece& piece = copy.from;
    for (int64_t row = 0; row < piece.rows; ++row) {
      std::memcpy(arena_ + copy.to + row * piece.stride, arena_ + piece.offset + row * piece.stride,
                  static_cast<size_t>(piece.row_bytes));
    }
  }
}

void RankRunner::RunReduction(const WirePlan& wire, const CollectiveStep& step,
                              RankHolders& holders) {
  Note(wire);
  RankReduction reduction(wire, step, arena_, workers_, holders, folded_, ranks_);
  std::vector<mpi::Ranks::Begun> begun(wire.rounds.size());
  uint32_t released = 0, finished = 0;
  const auto finish = [&](uint32_t last_use) {
    for (; finished < begun.size() && reduction.LastUse(finished) <= last_use; ++finished) {
      ranks_.Finish(begun[finished], NameOf(step));
      reduction.Recycle(finished);
    }
  };
  for (uint32_t round = 0; round < reduction.rounds(); ++round) {
    RoundBuffers& buffers = reduction.Fold(round);
    if (round < begun.size()) {
      begun[round] = Begin(wire.rounds[round], buffers);
      ranks_.FinishIncoming(begun[round], NameOf(step));
      buffer_bytes_ = std::max(buffer_bytes_, CopyBufferBytes() + reduction.buffer_bytes() +
                                                  static_cast<int64_t>(folded_.bytes()));
      reduction.Take(round);
    }
    for (; released <= round && reduction.LastUse(released) <= round; ++released) {
      reduction.Release(released);
    }
    // What others needed until two rounds before they have released, or will without waiting.
    if (round >= 2) finish(round - 2);
  }
  finish(reduction.rounds());
}

void RankRunner::RunCollective(const CollectiveStep& step, ActiveSet* active) {
  const WirePlan& wire = PlanOf(step, active);
  const bool reduces = !step.parts.empty() && step.parts[0].fold != nullptr;
  // Of an all-to-all what others have is written over what is not here.
  if (IsSplit(*step.op)) {
    if (step.moves_data) cpu::RunCollective(step, arena_, active, workers_);
    return MovePieces(wire, NameOf(step));
  }
  if (!reduces) {
    MovePieces(wire, NameOf(step));
    if (step.op->instruction->opcode() == Opcode::kRaggedAllToAll) MoveRows(step, active);
  }
  if (!step.moves_data) return;
  // Where every group is on one rank, or on each, nothing is to be put together.
  const bool apart = std::ranges::all_of(wire.units, &WireUnit::is_private);
  if (!reduces || (wire.rounds.empty() && apart)) {
    cpu::RunCollective(step, arena_, active, workers_);
  } else {
    RankHolders own(plan_.cut, active->devices());
    RunReduction(wire, step, active == &everyone_ ? all_ : own);
  }
}

const uint8_t* RankRunner::OwnedClassesOf(const ChainStep& step, ActiveSet* active) {
  if (active != &everyone_) return nullptr;
  const auto [found, inserted] = owned_classes_.try_emplace(&step);
  if (inserted) found->second = MakeOwnedClasses(plan_, step, all_);
  return found->second.runs_here.empty() ? nullptr : found->second.runs_here.data();
}

void RankRunner::ShareOwned(const ChainStep& step) {
  MovePieces(owned_classes_.at(&step).wire, step.calls.back().op->instruction->name());
}

void RankRunner::RunFusedAccumulators(
    const ChainStep& step, ActiveSet* active,
    const std::function<void(std::span<const FusedAccumulatorRun>)>& fold) {
  RankHolders some(plan_.cut, active->devices());
  RankHolders& holders = active == &everyone_ ? all_ : some;
  FusedAccumulatorPlan own;
  if (active != &everyone_) own = MakeFusedAccumulatorPlan(step, holders);
  const auto [found, inserted] = fused_accumulator_plans_.try_emplace(&step);
  if (inserted) found->second = MakeFusedAccumulatorPlan(step, all_);
  const FusedAccumulatorPlan& plan = active == &everyone_ ? found->second : own;
  Note(plan);
  const std::string_view where = step.calls.back().op->instruction->name();
  // Who begins need not wait for those who go on: sums are on their way while the next are folded.
  std::array<FusedAccumulatorSlot, kRoundsBegun> slots;
  std::span<const FusedAccumulatorRun> left = plan.runs;
  for (uint32_t s = 0; s < plan.slots; ++s) {
    const auto end =
        std::ranges::find_if(left, [s](const FusedAccumulatorRun& run) { return run.slot != s; });
    const std::span<const FusedAccumulatorRun> runs =
        left.first(static_cast<size_t>(end - left.begin()));
    left = left.subspan(runs.size());
    std::vector<FusedAccumulatorRun> mine;
    std::ranges::copy_if(runs, std::back_inserter(mine),
                         [&](const FusedAccumulatorRun& run) { return run.rank == ranks_.rank(); });
    fold(mine);
    FusedAccumulatorSlot& slot = slots[s % kRoundsBegun];
    ranks_.Finish(slot.begun, where);
    BeginSlot(step, plan, runs, slot);
    ranks_.FinishIncoming(slot.begun, where);
    TakeSlot(step, runs, slot);
  }
  for (FusedAccumulatorSlot& slot : slots) ranks_.Finish(slot.begun, where);
  ReduceFusedAccumulators(step, plan, active, holders);
}

void RankRunner::BeginSlot(const ChainStep& step, const FusedAccumulatorPlan& plan,
                           std::span<const FusedAccumulatorRun> runs, FusedAccumulatorSlot& slot) {
  if (plan.messages == 0) return;
  std::map<int, size_t> sent, received;  // bytes by peer
  for (const FusedAccumulatorRun& run : runs) {
    if (run.to < 0) continue;
    for (const PlannedFusedAccumulator& fused_accumulator : step.fused_accumulators) {
      if (run.rank == ranks_.rank()) sent[run.to] += static_cast<size_t>(fused_accumulator.bytes);
      if (run.to == ranks_.rank())
        received[run.rank] += static_cast<size_t>(fused_accumulator.bytes);
    }
  }
  std::vector<mpi::Ranks::Packet> out;
  std::vector<mpi::Ranks::Awaited> in;
  for (const auto& [peer, bytes] : sent) {
    mpi::Message& message = slot.buffers.out[peer];
    ranks_.Prepare(peer, bytes, message);
    out.push_back({peer, &message});
  }
  for (const auto& [peer, bytes] : received) in.push_back({peer, bytes, &slot.buffers.in[peer]});
  std::map<int, size_t> packed;
  for (const FusedAccumulatorRun& run : runs) {
    if (run.rank != ranks_.rank() || run.to < 0) continue;
    for (const PlannedFusedAccumulator& fused_accumulator : step.fused_accumulators) {
      size_t& at = packed[run.to];
      std::memcpy(slot.buffers.out[run.to].data() + at,
                  arena_ + fused_accumulator.accumulators[run.task],
                  static_cast<size_t>(fused_accumulator.bytes));
      at += static_cast<size_t>(fused_accumulator.bytes);
    }
  }
  slot.begun = ranks_.Begin(out, in);
}

void RankRunner::TakeSlot(const ChainStep& step, std::span<const FusedAccumulatorRun> runs,
                          FusedAccumulatorSlot& slot) {
  std::map<int, size_t> taken;
  for (const FusedAccumulatorRun& run : runs) {
    if (run.to != ranks_.rank()) continue;
    size_t& at = taken[run.rank];
    for (const PlannedFusedAccumulator& fused_accumulator : step.fused_accumulators) {
      std::memcpy(arena_ + fused_accumulator.accumulators[run.task],
                  slot.buffers.in.at(run.rank).data() + at,
                  static_cast<size_t>(fused_accumulator.bytes));
      at += static_cast<size_t>(fused_accumulator.bytes);
    }
  }
  for (auto& [peer, message] : slot.buffers.in) ranks_.Release(message);
}

void RankRunner::ReduceFusedAccumulators(const ChainStep& step, const FusedAccumulatorPlan& plan,
                                         ActiveSet* active, RankHolders& holders) {
  const auto size = static_cast<size_t>(plan_.cut.size);
  auto reduce = [&](const CollectiveStep& reduction, uint32_t per_group) {
    const MemberHolder holder = [&](uint32_t s, uint32_t m, int rank) {
      return plan.holds[(s * per_group + m) * size + static_cast<size_t>(rank)] != 0;
    };
    WirePlan own;
    const WirePlan* wire = &own;
    if (active == &everyone_) {
      const auto [found, inserted] = plans_.try_emplace(&reduction);
      if (inserted) found->second = MakeWirePlan(reduction, holder, holders);
      wire = &found->second;
    } else {
      own = MakeWirePlan(reduction, holder, holders);
    }
    RunReduction(*wire, reduction, holders);
  };
  for (const CollectiveStep& reduction : step.final_reductions) {
    reduce(reduction, step.tasks_per_group);
  }
  for (const CollectiveStep& reduction : step.direct_results) reduce(reduction, 1);
}

void RankRunner::ShareSelectors(const DeviceClasses* classes, ActiveSet* active,
                                std::vector<int64_t>& values, std::string_view where) {
  RankHolders own(plan_.cut, active->devices());
  RankHolders& holders = active == &everyone_ ? all_ : own;
  const std::vector<uint8_t>& anywhere = active->Everywhere(classes);
  bool known = true;
  for (uint32_t c = 0; c < classes->count() && known; ++c) {
    for (int r = 0; r < plan_.cut.size && known && anywhere[c] != 0; ++r) {
      known = holders.Holds(classes, c, r);
    }
  }
  if (known) return;
  // Small: of each class at most one number.
  std::vector<int64_t> mine;
  const std::vector<uint8_t>& here = active->OfClasses(classes);
  for (uint32_t c = 0; c < classes->count(); ++c) {
    if (here[c] != 0) mine.push_back(values[c]);
  }
  const auto all = ranks_.AllGather(std::as_bytes(std::span(mine)), where);
  const int64_t others = plan_.cut.size - 1;
  for (int r = 0; r < plan_.cut.size; ++r) {
    const std::vector<std::byte>& data = all[static_cast<size_t>(r)];
    size_t at = 0;
    for (uint32_t c = 0; c < classes->count(); ++c) {
      if (!holders.Holds(classes, c, r)) continue;
      std::memcpy(&values[c], data.data() + at, sizeof(int64_t));
      at += sizeof(int64_t);
    }
    // First how many, then, if any, which.
    predicted_.messages += others * (at > 0 ? 2 : 1);
    predicted_.bytes += others * static_cast<int64_t>(sizeof(int64_t) + at);
    predicted_.least_bytes += others * static_cast<int64_t>(at);
  }
}

void RankRunner::Gather(ValueId value, bool to_all, std::string_view where) {
  GatherSome(value, to_all, -1, where);
}

int RankRunner::GiverOf(ValueId value, uint32_t c) {
  const DeviceClasses* classes = plan_.program->values[value].classes;
  return all_.Holds(classes, c, 0) ? 0 : plan_.cut.RankOf(classes->first_device(c));
}

void RankRunner::GatherSome(ValueId value, bool to_all, int only, std::string_view where) {
  const Value& v = plan_.program->values[value];
  if (v.bytes == 0 || gathered_.contains(value)) return;
  GatheredValue& gathered = gathered_[value];
  std::map<int, std::vector<std::byte>> sent;
  std::map<int, std::vector<uint32_t>> classes;  // of what comes
  for (uint32_t c = 0; c < v.classes->count(); ++c) {
    const uint32_t device = v.classes->first_device(c);
    const int from = plan_.cut.RankOf(device);
    if (only >= 0 && from != only) continue;
    for (int to = 0; to < (to_all ? plan_.cut.size : 1); ++to) {
      if (all_.Holds(v.classes, c, to)) continue;
      if (from == ranks_.rank()) {
        const std::byte* data = arena_ + plan_.OffsetOn(value, device);
        sent[to].insert(sent[to].end(), data, data + v.bytes);
      } else if (to == ranks_.rank()) {
        classes[from].push_back(c);
      }
    }
  }
  std::vector<mpi::Ranks::Outgoing> out;
  std::vector<mpi::Ranks::Incoming> in;
  for (const auto& [to, data] : sent) out.push_back({to, data});
  for (const auto& [from, of_rank] : classes) {
    std::vector<std::byte>& data = gathered.messages[from];
    data.resize(of_rank.size() * static_cast<size_t>(v.bytes));
    gathered_bytes_ += static_cast<int64_t>(data.size());
    in.push_back({from, data});
    for (size_t i = 0; i < of_rank.size(); ++i) {
      gathered.instances[of_rank[i]] = data.data() + i * static_cast<size_t>(v.bytes);
    }
  }
  buffer_bytes_ = std::max(buffer_bytes_, gathered_bytes_ + CopyBufferBytes());
  ranks_.Exchange(out, in, where);
}

void RankRunner::ReleaseGathered(ValueId value) {
  const auto found = gathered_.find(value);
  if (found == gathered_.end()) return;
  for (const auto& [from, data] : found->second.messages) {
    gathered_bytes_ -= static_cast<int64_t>(data.size());
  }
  gathered_.erase(found);
}

void RankRunner::ReleaseGathered() {
  gathered_.clear();
  gathered_bytes_ = 0;
}

const std::byte* RankRunner::Gathered(ValueId value, uint32_t c) const {
  const auto found = gathered_.find(value);
  if (found == gathered_.end()) return nullptr;
  const auto instance = found->second.instances.find(c);
  return instance == found->second.instances.end() ? nullptr : instance->second;
}

}  // namespace gshard::cpu
