// Copies: who needs whose instances. Reductions: trees with a rank for every node.
#include "backends/cpu/plan/ranks/wire_plan.h"

#include <algorithm>
#include <set>
#include <tuple>
#include <utility>

#include "backends/cpu/plan/collective_reads.h"
#include "backends/cpu/plan/views.h"
#include "core/analysis/collective_classes.h"

namespace gshard::cpu {
namespace {

// A range of a reduction is worth a root of its own if it is at least this long.
constexpr int64_t kMinRange = 1 << 10;
// A rank sends about so much at a time, to all others together; of copies no less to one. Small
// enough that what is packed is still in the cache when it is sent, and what has come when it is
// unpacked.
constexpr int64_t kRoundBytes = 1 << 20, kMinRoundBytes = 128 << 10;

// Appends `item` to the items of a message; to the last one if it goes on where that ends, since a
// collective of thousands of devices has millions of pieces.
void Append(WireItem item, std::vector<WireItem>& items) {
  if (items.empty() || item.kind != WireItem::Kind::kPiece || item.count != 1 ||
      items.back().kind != WireItem::Kind::kPiece ||
      items.back().offset + items.back().bytes != item.offset) {
    return items.push_back(std::move(item));
  }
  WireItem& last = items.back();
  WirePiece& piece = last.piece;
  const WirePiece& next = item.piece;
  const int64_t distance = next.offset - piece.offset;
  bool goes_on = false;
  if (next.rows == 1 && last.count == 1) {
    if (piece.rows == 1 && distance == piece.row_bytes) {
      piece.row_bytes += next.row_bytes;
      goes_on = true;
    } else if (piece.row_bytes == next.row_bytes &&
               (piece.rows == 1 || distance == piece.rows * piece.stride)) {
      if (piece.rows++ == 1) piece.stride = distance;
      goes_on = true;
    }
  } else if (piece.rows == next.rows && piece.row_bytes == next.row_bytes &&
             piece.stride == next.stride &&
             (last.count == 1 || distance == last.count * last.step)) {
    if (last.count++ == 1) last.step = distance;
    goes_on = true;
  }
  if (!goes_on) return items.push_back(std::move(item));
  last.bytes += item.bytes;
}

// Files items under the messages of their round, in the order in which they are added: sender and
// receiver must add the same.
class Messages {
 public:
  Messages(const RankCut& cut, WirePlan& plan) : cut_(cut), plan_(plan) {}

  void Add(uint32_t round, int from, int to, WireItem item) {
    if (item.bytes == 0) return;
    if (rounds_.size() <= round) rounds_.resize(round + 1);
    WireMessage& message = rounds_[round][{from, to}];
    message.from = from;
    message.to = to;
    item.offset = message.bytes;
    message.bytes += item.bytes;
    if (from == cut_.rank || to == cut_.rank) Append(std::move(item), message.items);
  }

  void Finish() {
    plan_.rounds.resize(rounds_.size());
    for (size_t round = 0; round < rounds_.size(); ++round) {
      for (auto& [pair, message] : rounds_[round]) {
        ++plan_.messages;
        plan_.bytes += message.bytes;
        if (!message.items.empty()) plan_.rounds[round].push_back(std::move(message));
      }
    }
  }

 private:
  const RankCut& cut_;
  WirePlan& plan_;
  std::vector<std::map<std::pair<int, int>, WireMessage>> rounds_;
};

// Pieces in rounds, so that what is on its way needs little memory.
class Pieces {
 public:
  explicit Pieces(const RankCut& cut)
      : round_bytes_(std::max(kRoundBytes / std::max(cut.size - 1, 1), kMinRoundBytes)) {}

  void Add(int from, int to, WireItem item, WirePlan& out, Messages& messages) {
    out.least_bytes += item.bytes;
    int64_t& before = added_[{from, to}];
    const auto round = static_cast<uint32_t>(before / round_bytes_);
    before += item.bytes;
    messages.Add(round, from, to, std::move(item));
  }

 private:
  const int64_t round_bytes_;
  std::map<std::pair<int, int>, int64_t> added_;
};

bool IsReduction(Opcode opcode) {
  return opcode == Opcode::kAllReduce || opcode == Opcode::kAllReduceStart ||
         opcode == Opcode::kReduceScatter;
}

// The instances that a collective copies to ranks that have them not.
class CopyPlanner {
 public:
  CopyPlanner(const Plan& plan, const CollectiveStep& step, RankHolders& holders)
      : plan_(plan),
        step_(step),
        op_(*step.op),
        program_(*plan.program),
        holders_(holders),
        pieces_(holders.cut()) {}

  void Run(WirePlan& out, Messages& messages) {
    for (int rank = 0; rank < holders_.cut().size; ++rank) {
      std::vector<Receiver> receivers;
      for (size_t k = 0; k < op_.results.size(); ++k) {
        if (k < step_.is_read.size() && !step_.is_read[k]) continue;
        ForEachReceiver(*program_.values[op_.results[k]].classes, rank, [&](uint32_t device) {
          receivers.push_back(
              {IsSplit(op_) ? op_.devices->groups.position_of[device] : 0, k, device});
        });
      }
      // Who may want the same come one after another: those who want the same block.
      std::ranges::stable_sort(receivers, {}, &Receiver::block);
      for (size_t i = 0; i < receivers.size(); ++i) {
        if (i == 0 || receivers[i].block != receivers[i - 1].block) ++pass_;
        Receive(rank, receivers[i], out, messages);
      }
    }
  }

  // An active device of each class that the rank has.
  template <typename Visit>
  void ForEachReceiver(const DeviceClasses& classes, int rank, Visit visit) {
    const RankCut& cut = holders_.cut();
    std::vector<uint8_t> seen(classes.count(), 0);
    for (uint32_t d = cut.Begin(rank); d < cut.Begin(rank + 1); ++d) {
      if (holders_.IsActive(d) && std::exchange(seen[classes.class_of(d)], 1) == 0) visit(d);
    }
  }

 private:
  struct Receiver {
    uint32_t block = 0;
    size_t k = 0;  // result
    uint32_t device = 0;
  };
  // What classes of an operand have: an instance, told apart by what all ranks know, not by where
  // it is here. kNoInstance: everybody has it.
  static constexpr uint32_t kNoInstance = UINT32_MAX;
  struct Instance {
    uint32_t number = kNoInstance;
    int64_t offset = 0;
  };
  // Of an instance: in which pass it was last sent, and where in this rank's results that block is.
  struct Sent {
    uint64_t pass = 0;
    int64_t offset = 0;
  };

  void Receive(int rank, const Receiver& receiver, WirePlan& out, Messages& messages) {
    int64_t member = -1;
    ForEachRead(op_, receiver.k, receiver.device,
                [&](ValueId operand, uint32_t source, int64_t block) {
                  ++member;
                  const Value& value = program_.values[operand];
                  const uint32_t c = value.classes->class_of(source);
                  if (value.bytes == 0 || holders_.Holds(value.classes, c, rank)) return;
                  const Instance instance = InstancesOf(operand)[c];
                  if (instance.number == kNoInstance) return;
                  WireItem item;
                  item.piece = {instance.offset, 1, value.bytes, 0};
                  if (block >= 0) item.piece = BlockOf(item.piece, block);
                  item.bytes = item.piece.bytes();
                  if (block >= 0 && rank == holders_.cut().rank) {
                    item.piece = PlaceOfBlock(receiver.k, receiver.device, member, item.piece);
                  }
                  Sent& sent = sent_[instance.number];
                  if (std::exchange(sent.pass, pass_) == pass_) {
                    if (block < 0 || rank != holders_.cut().rank) return;
                    const int64_t to = item.piece.offset;
                    item.piece.offset = sent.offset;
                    out.copies.push_back({item.piece, to});
                    return;
                  }
                  sent.offset = item.piece.offset;
                  pieces_.Add(holders_.cut().RankOf(source), rank, std::move(item), out, messages);
                });
  }

  // By class.
  const std::vector<Instance>& InstancesOf(ValueId operand) {
    std::vector<Instance>& instances = instances_[operand];
    if (!instances.empty()) return instances;
    const Value& value = program_.values[operand];
    instances.resize(value.classes->count());
    for (uint32_t c = 0; c < instances.size(); ++c) {
      const View::Entry at = Locate(program_, operand, c);
      if (at.base == kNoValue || program_.values[at.base].IsKnown()) continue;
      const int64_t begin = at.base_class * program_.values[at.base].bytes + at.offset;
      const auto number = static_cast<uint32_t>(numbers_.size());
      const auto found = numbers_.try_emplace({at.base, begin, value.bytes}, number).first;
      instances[c] = {found->second, plan_.OffsetOn(operand, value.classes->first_device(c))};
    }
    sent_.resize(numbers_.size());
    return instances;
  }

  // Of an all-to-all: where a member's block lies in a result.
  WirePiece PlaceOfBlock(size_t k, uint32_t device, int64_t member, const WirePiece& block) const {
    WirePiece place = block;
    place.stride = block.row_bytes * static_cast<int64_t>(op_.devices->groups.group(0).size());
    place.offset = plan_.OffsetOn(op_.results[k], device) + member * block.row_bytes;
    return place;
  }

  WirePiece BlockOf(WirePiece piece, int64_t block) const {
    const Instruction& x = *op_.instruction;
    const auto dimension = static_cast<size_t>(x.attributes<CollectiveAttributes>().dimension);
    int64_t outer = 1;
    for (int64_t size : x.operand(0)->shape()->dims().first(dimension)) outer *= size;
    const auto blocks = static_cast<int64_t>(op_.devices->groups.group(0).size());
    const int64_t row = piece.row_bytes / outer;
    piece.rows = outer;
    piece.row_bytes = row / blocks;
    piece.stride = row;
    piece.offset += block * piece.row_bytes;
    return piece;
  }

  const Plan& plan_;
  const CollectiveStep& step_;
  const Op& op_;
  const Program& program_;
  RankHolders& holders_;
  std::map<ValueId, std::vector<Instance>> instances_;
  std::map<std::tuple<ValueId, int64_t, int64_t>, uint32_t> numbers_;
  std::vector<Sent> sent_;  // by number
  uint64_t pass_ = 0;       // over receivers that may want the same
  Pieces pieces_;
};

// In which rounds the units of a reduction are folded and sent, so that what is on its way needs
// little memory.
class UnitRounds {
 public:
  explicit UnitRounds(const RankCut& cut) : sent_(static_cast<size_t>(cut.size), 0) {}

  // Puts a unit off until what its ranks have to send before it is on its way. `result_bytes`: what
  // its root sends to others.
  void PutOff(WireUnit& unit, int64_t partial_bytes, int64_t result_bytes) {
    std::map<int, int64_t> sends;
    for (const WireUnit::Node& node : unit.nodes) {
      const bool leaves = node.parent >= 0 && RankOf(unit, node.parent) != node.rank;
      if (leaves) sends[node.rank] += partial_bytes;
    }
    if (result_bytes > 0) sends[RankOf(unit, unit.root)] += result_bytes;
    int64_t most = 0;
    for (const auto& [rank, bytes] : sends) most = std::max(most, sent_[static_cast<size_t>(rank)]);
    for (const auto& [rank, bytes] : sends) sent_[static_cast<size_t>(rank)] += bytes;
    for (WireUnit::Node& node : unit.nodes) node.round += static_cast<uint32_t>(most / kRoundBytes);
  }

 private:
  static int RankOf(const WireUnit& unit, int32_t node) {
    return unit.nodes[static_cast<size_t>(node)].rank;
  }
  std::vector<int64_t> sent_;  // by rank
};

// The units of one part of a reduction.
class ReductionPlanner {
 public:
  ReductionPlanner(uint32_t index, const CollectivePart& part, const MemberHolder& holder,
                   RankHolders& holders, UnitRounds& rounds)
      : index_(index),
        part_(part),
        holder_(holder),
        holders_(holders),
        rounds_(rounds),
        results_(part, holders) {}

  void Run(WirePlan& out, Messages& messages) {
    for (uint32_t s = 0; s + 1 < part_.begin.size(); ++s) Sequence(s, out, messages);
  }

 private:
  const RankCut& cut() const { return holders_.cut(); }
  uint32_t MemberCount(uint32_t s) const { return part_.begin[s + 1] - part_.begin[s]; }

  void Sequence(uint32_t s, WirePlan& out, Messages& messages) {
    std::vector<int> wanting, complete, poor;
    for (int r = 0; r < cut().size; ++r) {
      if (results_.Wants(s, r)) wanting.push_back(r);
    }
    if (wanting.empty() || part_.operand_bytes == 0) return;
    for (int r = 0; r < cut().size; ++r) {
      bool all = true;
      for (uint32_t m = 0; m < MemberCount(s) && all; ++m) all = holder_(s, m, r);
      if (all) complete.push_back(r);
    }
    std::ranges::set_difference(wanting, complete, std::back_inserter(poor));
    const WirePiece whole{0, 1, part_.operand_bytes, 0};
    // Who has everything needs nobody.
    const bool here = std::ranges::count(complete, cut().rank) > 0;
    const int producer = complete.empty() ? -1 : complete[s % complete.size()];
    if (here && results_.Wants(s, cut().rank) && (poor.empty() || producer != cut().rank)) {
      WireUnit unit = MakeUnit(s, whole, std::vector<int>(MemberCount(s), cut().rank), -1);
      unit.is_private = true;
      out.units.push_back(std::move(unit));
    }
    if (poor.empty()) return;
    const std::vector<int> places =
        producer >= 0 ? std::vector<int>(MemberCount(s), producer) : PlacesOf(s);
    std::vector<int> taking_part = places;
    std::ranges::sort(taking_part);
    taking_part.erase(std::unique(taking_part.begin(), taking_part.end()), taking_part.end());
    for (const auto& [range, home] : RangesOf(s, taking_part, std::ssize(wanting))) {
      WireUnit unit = MakeUnit(s, range, places, home);
      out.least_bytes += static_cast<int64_t>(taking_part.size() - 1) * PartialBytes(range);
      AddMessages(unit, static_cast<uint32_t>(out.units.size()), wanting, complete, out, messages);
      out.units.push_back(std::move(unit));
    }
  }

  int64_t PartialBytes(const WirePiece& range) const {
    return range.bytes() / part_.element_bytes * part_.fold->partial_bytes();
  }

  // A rank for every member: where it is, and if possible where the one before is.
  std::vector<int> PlacesOf(uint32_t s) const {
    std::vector<int> places(MemberCount(s));
    int last = 0;
    for (uint32_t m = 0; m < places.size(); ++m) {
      if (!holder_(s, m, last)) {
        last = 0;
        while (last < cut().size && !holder_(s, m, last)) ++last;
        CheckInternal(last < cut().size, "a member that no rank has");
      }
      places[m] = last;
    }
    return places;
  }

  // The ranges with the ranks where their roots should be; results go to `receivers` ranks.
  std::vector<std::pair<WirePiece, int>> RangesOf(uint32_t s, const std::vector<int>& ranks,
                                                  int64_t receivers) {
    std::vector<std::pair<WirePiece, int>> ranges;
    if (part_.blocks > 1) {
      // Neighbouring blocks whose results one rank wants: their root is there.
      const auto blocks = static_cast<uint32_t>(part_.blocks);
      int64_t first = 0;
      for (uint32_t b = 1; b <= blocks; ++b) {
        const int home = HomeOf(s, b - 1);
        if (b < blocks && HomeOf(s, b) == home) continue;
        if (home < 0) {
          first = b;
          continue;
        }
        ranges.push_back({WirePiece{first * part_.inner, part_.outer, (b - first) * part_.inner,
                                    part_.blocks * part_.inner},
                          home});
        first = b;
      }
      return ranges;
    }
    const int64_t elements = part_.operand_bytes / part_.element_bytes;
    const auto roots = static_cast<int64_t>(ranks.size());
    const int64_t longest = std::max(kRoundBytes / receivers, kMinRange);
    const int64_t most = roots * (part_.operand_bytes / (roots * longest) + 1);
    const int64_t count = std::clamp<int64_t>(part_.operand_bytes / kMinRange, 1, most);
    for (int64_t i = 0; i < count; ++i) {
      const int64_t begin = elements * i / count * part_.element_bytes;
      const int64_t end = elements * (i + 1) / count * part_.element_bytes;
      if (begin == end) continue;
      ranges.push_back(
          {WirePiece{begin, 1, end - begin, 0}, ranks[static_cast<size_t>(i + s) % ranks.size()]});
    }
    return ranges;
  }

  // The first rank that wants a block.
  int HomeOf(uint32_t s, int64_t block) {
    const WirePiece range{block * part_.inner, 1, part_.inner, 0};
    for (int r = 0; r < cut().size; ++r) {
      if (results_.ForEach(s, range, r, [](uint32_t, int64_t, int64_t, int64_t) {}) > 0) return r;
    }
    return -1;
  }

  WireUnit MakeUnit(uint32_t s, const WirePiece& range, const std::vector<int>& places,
                    int home) const {
    WireUnit unit;
    unit.part = index_;
    unit.sequence = s;
    unit.range = range;
    std::vector<int32_t> level;
    const auto members = static_cast<uint32_t>(places.size());
    for (uint32_t first = 0; first < members;) {
      const uint32_t end = members - first < part_.fold_block ? members : first + part_.fold_block;
      int32_t run = -1;
      for (uint32_t m = first; m < end;) {
        uint32_t last = m + 1;
        while (last < end && places[last] == places[m]) ++last;
        WireUnit::Node node;
        node.rank = places[m];
        node.is_run = true;
        node.first = m;
        node.last = last;
        node.left = run;
        run = AddNode(unit, node);
        m = last;
      }
      level.push_back(run);
      first = end;
    }
    while (level.size() > 1) {
      std::vector<int32_t> next;
      for (size_t i = 0; i < level.size(); i += 2) {
        if (i + 1 == level.size()) {
          next.push_back(level[i]);
          continue;
        }
        WireUnit::Node node;
        node.left = level[i];
        node.right = level[i + 1];
        const int right = unit.nodes[static_cast<size_t>(node.right)].rank;
        node.rank = right == home ? right : unit.nodes[static_cast<size_t>(node.left)].rank;
        next.push_back(AddNode(unit, node));
      }
      level = std::move(next);
    }
    unit.root = level[0];
    return unit;
  }

  static int32_t AddNode(WireUnit& unit, WireUnit::Node node) {
    const auto id = static_cast<int32_t>(unit.nodes.size());
    for (int32_t input : {node.left, node.right}) {
      if (input < 0) continue;
      WireUnit::Node& from = unit.nodes[static_cast<size_t>(input)];
      from.parent = id;
      node.round = std::max(node.round, from.round + (from.rank != node.rank ? 1 : 0));
    }
    unit.nodes.push_back(node);
    return id;
  }

  void AddMessages(WireUnit& unit, uint32_t id, const std::vector<int>& wanting,
                   const std::vector<int>& complete, WirePlan& out, Messages& messages) {
    std::map<int, int64_t> results;  // bytes by rank
    int64_t result_bytes = 0;
    const int root_rank = unit.nodes[static_cast<size_t>(unit.root)].rank;
    for (int to : wanting) {
      const bool has_all = std::ranges::count(complete, to) > 0;
      if (has_all && to != root_rank) continue;
      results[to] = results_.ForEach(unit.sequence, unit.range, to,
                                     [](uint32_t, int64_t, int64_t, int64_t) {});
      if (to != root_rank) result_bytes += results[to];
    }
    rounds_.PutOff(unit, PartialBytes(unit.range), result_bytes);
    for (size_t n = 0; n < unit.nodes.size(); ++n) {
      const WireUnit::Node& node = unit.nodes[n];
      if (node.parent < 0) continue;
      const int to = unit.nodes[static_cast<size_t>(node.parent)].rank;
      if (to == node.rank) continue;
      WireItem item;
      item.kind = WireItem::Kind::kPartial;
      item.bytes = PartialBytes(unit.range);
      item.unit = id;
      item.node = static_cast<int32_t>(n);
      messages.Add(node.round, node.rank, to, std::move(item));
    }
    const WireUnit::Node& root = unit.nodes[static_cast<size_t>(unit.root)];
    bool at_least_one_has_it = false;
    int64_t least = 0;
    for (const auto& [to, bytes] : results) {
      WireItem item;
      item.kind = WireItem::Kind::kResult;
      item.bytes = bytes;
      item.unit = id;
      // The ranks that take part could make it where it is wanted.
      if (!at_least_one_has_it && bytes > 0 && complete.empty()) {
        at_least_one_has_it = true;
      } else if (std::ranges::count(complete, to) == 0) {
        least += bytes;
      }
      if (to != root.rank) messages.Add(root.round, root.rank, to, std::move(item));
    }
    out.least_bytes += least;
  }

  const uint32_t index_;
  const CollectivePart& part_;
  const MemberHolder& holder_;
  RankHolders& holders_;
  UnitRounds& rounds_;
  SequenceResults results_;
};

}  // namespace

SequenceResults::SequenceResults(const CollectivePart& part, RankHolders& holders)
    : part_(part),
      ranks_(static_cast<size_t>(holders.cut().size)),
      holders_(holders.HoldersOf(part.classes)),
      class_of_((part.begin.size() - 1) * static_cast<size_t>(part.blocks), kNoDevice) {
  for (uint32_t c = 0; c < part.classes->count(); ++c) {
    const int64_t position = part.blocks > 1 ? part.position_of[c] : 0;
    class_of_[static_cast<size_t>(part.sequence_of[c] * part.blocks + position)] = c;
  }
}

bool SequenceResults::Wants(uint32_t sequence, int rank) const {
  return std::ranges::any_of(ClassesOf(sequence), [&](uint32_t c) { return IsWanted(c, rank); });
}

int64_t SequenceResults::ForEach(
    uint32_t sequence, const WirePiece& range, int rank,
    const std::function<void(uint32_t, int64_t, int64_t, int64_t)>& visit) const {
  const std::span<const uint32_t> classes = ClassesOf(sequence);
  int64_t bytes = 0;
  for (int64_t row = 0; row < range.rows; ++row) {
    const int64_t begin = range.offset + row * range.stride;
    int64_t inside = begin % part_.inner;
    int64_t outer = begin / part_.inner / part_.blocks;
    int64_t block = begin / part_.inner % part_.blocks;
    for (int64_t done = 0; done < range.row_bytes;) {
      const int64_t length = std::min(part_.inner - inside, range.row_bytes - done);
      const uint32_t c = classes[static_cast<size_t>(block)];
      if (IsWanted(c, rank)) {
        visit(c, outer * part_.inner + inside, row * range.row_bytes + done, length);
        bytes += length;
      }
      done += length;
      inside = 0;
      if (++block == part_.blocks) {
        block = 0;
        ++outer;
      }
    }
  }
  return bytes;
}

WirePlan MakeWirePlan(const Plan& plan, const CollectiveStep& step, RankHolders& holders) {
  WirePlan out;
  Messages messages(holders.cut(), out);
  const Op& op = *step.op;
  if (!IsReduction(op.instruction->opcode())) {
    CopyPlanner(plan, step, holders).Run(out, messages);
  } else {
    UnitRounds rounds(holders.cut());
    for (uint32_t k = 0; k < step.parts.size(); ++k) {
      const CollectivePart& part = step.parts[k];
      const ResolvedGroups& groups = op.devices->groups;
      const DeviceClasses* classes = plan.program->values[op.operands[part.operand]].classes;
      const std::vector<uint32_t> first_group = SequencesOf(groups, *classes).first_group;
      const MemberHolder holder = [&](uint32_t s, uint32_t m, int rank) {
        return holders.Holds(classes, classes->class_of(groups.group(first_group[s])[m]), rank);
      };
      ReductionPlanner(k, part, holder, holders, rounds).Run(out, messages);
    }
  }
  messages.Finish();
  return out;
}

WirePlan MakeWirePlan(const RankCut& cut, std::span<const WireMove> moves) {
  WirePlan out;
  Messages messages(cut, out);
  Pieces pieces(cut);
  for (const WireMove& move : moves) {
    WireItem item;
    item.piece = move.piece;
    item.bytes = move.piece.bytes();
    pieces.Add(move.from, move.to, std::move(item), out, messages);
  }
  messages.Finish();
  return out;
}

WirePlan MakeWirePlan(const CollectiveStep& reduction, const MemberHolder& holder,
                      RankHolders& holders) {
  WirePlan out;
  Messages messages(holders.cut(), out);
  UnitRounds rounds(holders.cut());
  for (uint32_t k = 0; k < reduction.parts.size(); ++k) {
    ReductionPlanner(k, reduction.parts[k], holder, holders, rounds).Run(out, messages);
  }
  messages.Finish();
  return out;
}

WirePlan MakeRaggedRows(const Plan& plan, const CollectiveStep& step, RankHolders& holders,
                        const std::function<int64_t(int64_t, size_t, int64_t)>& read) {
  WirePlan out;
  Messages messages(holders.cut(), out);
  const Op& op = *step.op;
  const CollectivePart& part = step.parts[0];
  const ResolvedGroups& groups = op.devices->groups;
  const ValueId data = op.operands[0];
  const DeviceClasses* classes = plan.program->values[data].classes;
  const int64_t rows = part.inner > 0 ? part.operand_bytes / part.inner : 0;
  std::set<std::pair<int, WirePiece>> seen;
  CopyPlanner planner(plan, step, holders);
  for (int rank = 0; rank < holders.cut().size; ++rank) {
    planner.ForEachReceiver(*part.classes, rank, [&](uint32_t device) {
      const auto position = static_cast<int64_t>(groups.position_of[device]);
      for (uint32_t member : groups.group(groups.group_of[device])) {
        const int from = holders.cut().RankOf(member);
        if (holders.Holds(classes, classes->class_of(member), rank)) continue;
        // Others need not know how many.
        if (from != holders.cut().rank && rank != holders.cut().rank) continue;
        const int64_t first = read(plan.OffsetOn(op.operands[2], member), 2, position);
        const int64_t count = read(plan.OffsetOn(op.operands[3], member), 3, position);
        // What is out of range is told where it is received.
        if (first < 0 || count <= 0 || count > rows || first > rows - count) continue;
        const WirePiece piece{plan.OffsetOn(data, member) + first * part.inner, 1,
                              count * part.inner, 0};
        if (!seen.insert({rank, piece}).second) continue;
        WireItem item;
        item.bytes = piece.bytes();
        item.piece = piece;
        messages.Add(0, from, rank, std::move(item));
      }
    });
  }
  messages.Finish();
  // Ranks that neither send nor receive do not know that others do: all exchange once.
  if (out.rounds.empty()) out.rounds.emplace_back();
  out.least_bytes = out.bytes;
  return out;
}

}  // namespace gshard::cpu
