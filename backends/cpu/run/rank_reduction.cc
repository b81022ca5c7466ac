#include "backends/cpu/run/rank_reduction.h"

#include <algorithm>
#include <cstring>

namespace gshard::cpu {
namespace {

// Bytes of members that are folded at a time.
constexpr int64_t kFoldedBytes = 16 << 10;

void GatherRows(const WirePiece& range, const std::byte* member, int64_t begin, int64_t end,
                std::byte* to) {
  for (int64_t at = begin; at < end;) {
    const int64_t row = at / range.row_bytes, inside = at % range.row_bytes;
    const int64_t length = std::min(range.row_bytes - inside, end - at);
    std::memcpy(to, member + range.offset + row * range.stride + inside,
                static_cast<size_t>(length));
    to += length;
    at += length;
  }
}

}  // namespace

RankReduction::RankReduction(const WirePlan& wire, const CollectiveStep& step, std::byte* arena,
                             Workers& workers, RankHolders& holders, mpi::GrowableBuffer& room,
                             mpi::Ranks& ranks)
    : wire_(wire),
      step_(step),
      arena_(arena),
      workers_(workers),
      room_(room),
      ranks_(ranks),
      rank_(holders.cut().rank),
      rounds_(static_cast<uint32_t>(wire.rounds.size())) {
  for (const CollectivePart& part : step.parts) results_.emplace_back(part, holders);
  for (const WireUnit& unit : wire.units) {
    rounds_ = std::max(rounds_, unit.nodes[static_cast<size_t>(unit.root)].round + 1);
  }
  nodes_.resize(rounds_);
  last_use_.resize(rounds_);
  buffers_.resize(rounds_);
  for (uint32_t round = 0; round < rounds_; ++round) last_use_[round] = round;
  for (uint32_t id = 0; id < wire.units.size(); ++id) {
    const WireUnit& unit = wire.units[id];
    const uint32_t end = unit.nodes[static_cast<size_t>(unit.root)].round;
    for (int32_t n = 0; n < std::ssize(unit.nodes); ++n) {
      const WireUnit::Node& node = unit.nodes[static_cast<size_t>(n)];
      if (node.rank == rank_) nodes_[node.round].push_back({id, n});
      last_use_[node.round] = std::max(last_use_[node.round], end);
    }
  }
  for (uint32_t round = 1; round < rounds_; ++round) {
    last_use_[round] = std::max(last_use_[round], last_use_[round - 1]);
  }
}

int64_t RoundBuffers::bytes() const {
  size_t bytes = 0;
  for (const auto* messages : {&out, &in}) {
    for (const auto& [peer, data] : *messages) bytes += data.capacity();
  }
  return static_cast<int64_t>(bytes);
}

std::span<const WireMessage> RankReduction::MessagesOf(uint32_t round) const {
  if (round >= wire_.rounds.size()) return {};
  return wire_.rounds[round];
}

RoundBuffers& RankReduction::Fold(uint32_t round) {
  if (spare_.empty()) spare_.push_back(std::make_unique<RoundBuffers>());
  buffers_[round] = std::move(spare_.back());
  spare_.pop_back();
  RoundBuffers& buffers = *buffers_[round];
  const int64_t work = FindTargets(round, buffers);
  workers_.For(static_cast<int64_t>(tasks_.size()), work, [&](int64_t t, int worker) {
    BumpScratch& scratch = workers_.scratch(worker);
    const BumpScratch::Mark mark = scratch.Position();
    RunTask(tasks_[static_cast<size_t>(t)], scratch);
    scratch.Rewind(mark);
  });
  for (const Target& target : targets_) {
    if (target.to == nullptr) PlaceResult(wire_.units[target.unit], nullptr, target.folded);
  }
  PackResults(round, buffers);
  return buffers;
}

int64_t RankReduction::FindTargets(uint32_t round, RoundBuffers& buffers) {
  targets_.clear();
  tasks_.clear();
  std::map<std::pair<uint32_t, int32_t>, std::byte*> outgoing;
  for (const WireMessage& message : MessagesOf(round)) {
    if (message.from != rank_) continue;
    mpi::Message& data = buffers.out[message.to];
    ranks_.Prepare(message.to, static_cast<size_t>(message.bytes), data);
    for (const WireItem& item : message.items) {
      if (item.kind != WireItem::Kind::kPartial) continue;
      outgoing[{item.unit, item.node}] = data.data() + item.offset;
    }
  }
  int64_t work = 0, folded_bytes = 0;
  for (const auto& [id, n] : nodes_[round]) {
    const WireUnit& unit = wire_.units[id];
    const CollectivePart& part = PartOf(unit);
    const auto found = outgoing.find({id, n});
    const bool root = n == unit.root;
    if (!root && found == outgoing.end()) continue;
    const Target target{id, n, root ? nullptr : found->second, nullptr};
    const int64_t bytes = unit.range.bytes();
    if (root) folded_bytes += bytes;
    const int64_t piece =
        std::max<int64_t>(kFoldedBytes / part.element_bytes, 1) * part.element_bytes;
    for (int64_t begin = 0; begin < bytes; begin += piece) {
      tasks_.push_back({targets_.size(), begin, std::min(begin + piece, bytes)});
    }
    work += bytes * std::ssize(part.MembersOf(unit.sequence));
    targets_.push_back(target);
  }
  std::byte* folded = room_.Take(static_cast<size_t>(folded_bytes));
  for (Target& target : targets_) {
    if (target.to != nullptr) continue;
    target.folded = folded;
    folded += wire_.units[target.unit].range.bytes();
  }
  return work;
}

void RankReduction::RunTask(const Task& task, Scratch& scratch) {
  Target& target = targets_[task.target];
  const CollectivePart& part = PartOf(wire_.units[target.unit]);
  const int64_t partial_bytes = part.fold->partial_bytes();
  const int64_t count = (task.end - task.begin) / part.element_bytes;
  if (target.to != nullptr) {
    Evaluate(target.unit, target.node, task.begin, task.end,
             target.to + task.begin / part.element_bytes * partial_bytes, scratch);
    return;
  }
  std::byte* partial = scratch.Allocate(static_cast<size_t>(count * partial_bytes));
  Evaluate(target.unit, target.node, task.begin, task.end, partial, scratch);
  part.fold->Finish(count, partial, target.folded + task.begin);
}

// What this rank wants of a unit: from a message, one after another, or from the whole range.
void RankReduction::PlaceResult(const WireUnit& unit, const std::byte* packed,
                                const std::byte* whole) {
  const CollectivePart& part = PartOf(unit);
  results_[unit.part].ForEach(
      unit.sequence, unit.range, rank_, [&](uint32_t c, int64_t to, int64_t at, int64_t bytes) {
        std::memcpy(arena_ + part.results[c] + to, whole != nullptr ? whole + at : packed,
                    static_cast<size_t>(bytes));
        if (whole == nullptr) packed += bytes;
      });
}

void RankReduction::PackResults(uint32_t round, RoundBuffers& buffers) {
  std::map<uint32_t, const std::byte*> folded;
  for (const Target& target : targets_) {
    if (target.to == nullptr) folded[target.unit] = target.folded;
  }
  for (const WireMessage& message : MessagesOf(round)) {
    if (message.from != rank_) continue;
    for (const WireItem& item : message.items) {
      if (item.kind != WireItem::Kind::kResult) continue;
      const WireUnit& unit = wire_.units[item.unit];
      std::byte* to = buffers.out[message.to].data() + item.offset;
      const std::byte* from = folded.at(item.unit);
      results_[unit.part].ForEach(unit.sequence, unit.range, message.to,
                                  [&](uint32_t, int64_t, int64_t at, int64_t bytes) {
                                    std::memcpy(to, from + at, static_cast<size_t>(bytes));
                                    to += bytes;
                                  });
    }
  }
}

void RankReduction::Take(uint32_t round) {
  for (const WireMessage& message : MessagesOf(round)) {
    if (message.to != rank_) continue;
    for (const WireItem& item : message.items) {
      const std::byte* from = buffers_[round]->in.at(message.from).data() + item.offset;
      if (item.kind == WireItem::Kind::kPartial) {
        received_[{item.unit, item.node}] = {round, from};
      } else {
        PlaceResult(wire_.units[item.unit], from, nullptr);
      }
    }
  }
}

void RankReduction::Release(uint32_t round) {
  std::erase_if(received_, [&](const auto& partial) { return partial.second.round <= round; });
  for (auto& [peer, message] : buffers_[round]->in) ranks_.Release(message);
}

void RankReduction::Recycle(uint32_t round) { spare_.push_back(std::move(buffers_[round])); }

int64_t RankReduction::buffer_bytes() const {
  int64_t bytes = 0;
  for (const auto* all : {&buffers_, &spare_}) {
    for (const auto& buffers : *all) bytes += buffers != nullptr ? buffers->bytes() : 0;
  }
  return bytes;
}

const std::byte* RankReduction::Received(uint32_t id, int32_t node, int64_t begin) const {
  const CollectivePart& part = PartOf(wire_.units[id]);
  return received_.at({id, node}).data + begin / part.element_bytes * part.fold->partial_bytes();
}

void RankReduction::Evaluate(uint32_t id, int32_t n, int64_t begin, int64_t end, std::byte* result,
                             Scratch& scratch) const {
  const WireUnit& unit = wire_.units[id];
  const CollectivePart& part = PartOf(unit);
  const WireUnit::Node& node = unit.nodes[static_cast<size_t>(n)];
  const int64_t count = (end - begin) / part.element_bytes;
  const auto bytes = static_cast<size_t>(count * part.fold->partial_bytes());
  if (node.rank != rank_) {
    std::memcpy(result, Received(id, n, begin), bytes);
    return;
  }
  if (node.is_run) return EvaluateRun(id, node, begin, end, result, scratch);
  Evaluate(id, node.left, begin, end, result, scratch);
  const Scratch::Mark mark = scratch.Position();
  const std::byte* right = nullptr;
  if (unit.nodes[static_cast<size_t>(node.right)].rank != rank_) {
    right = Received(id, node.right, begin);
  } else {
    std::byte* own = scratch.Allocate(bytes);
    Evaluate(id, node.right, begin, end, own, scratch);
    right = own;
  }
  part.fold->Merge(count, result, right, scratch);
  scratch.Rewind(mark);
}

void RankReduction::EvaluateRun(uint32_t id, const WireUnit::Node& node, int64_t begin, int64_t end,
                                std::byte* result, Scratch& scratch) const {
  const WireUnit& unit = wire_.units[id];
  const CollectivePart& part = PartOf(unit);
  const Scratch::Mark mark = scratch.Position();
  const int64_t count = (end - begin) / part.element_bytes;
  const std::byte* begun = node.left >= 0 ? Received(id, node.left, begin) : nullptr;
  const std::span<const int64_t> members =
      part.MembersOf(unit.sequence).subspan(node.first, node.last - node.first);
  if (unit.range.rows == 1) {
    auto** from = reinterpret_cast<const std::byte**>(
        scratch.Allocate(members.size() * sizeof(const std::byte*)));
    std::ranges::transform(members, from,
                           [&](int64_t at) { return arena_ + at + unit.range.offset + begin; });
    part.fold->RunPart(count, begun, {from, members.size()}, result, scratch);
  } else {
    std::byte* rows = scratch.Allocate(static_cast<size_t>(end - begin));
    const std::byte* const from[] = {rows};
    for (const int64_t member : members) {
      GatherRows(unit.range, arena_ + member, begin, end, rows);
      part.fold->RunPart(count, begun, from, result, scratch);
      begun = result;
    }
  }
  scratch.Rewind(mark);
}

}  // namespace gshard::cpu
