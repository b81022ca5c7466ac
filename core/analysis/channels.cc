#include "core/analysis/channels.h"

#include <fmt/format.h>

#include <charconv>
#include <optional>
#include <string>
#include <unordered_map>

#include "ir/computation.h"
#include "ir/metadata.h"
#include "ir/sharding.h"

namespace gshard {
namespace {

constexpr std::string_view kPairsAttribute = "_xla_send_recv_source_target_pairs";

int64_t ChannelIdOf(const Instruction& x) {
  return x.attributes<ChannelAttributes>().channel_id;
}

std::optional<std::vector<DevicePair>> ParsePairs(std::string_view text) {
  std::vector<int64_t> numbers;
  for (size_t at = 0; at < text.size();) {
    const char c = text[at];
    if (c == '{' || c == '}' || c == ',' || c == ' ') {
      ++at;
      continue;
    }
    int64_t number = 0;
    const auto [end, error] = std::from_chars(text.data() + at, text.data() + text.size(), number);
    if (error != std::errc() || number < 0) return std::nullopt;
    numbers.push_back(number);
    at = static_cast<size_t>(end - text.data());
  }
  if (numbers.size() % 2 != 0) return std::nullopt;
  std::vector<DevicePair> pairs;
  for (size_t i = 0; i < numbers.size(); i += 2) pairs.push_back({numbers[i], numbers[i + 1]});
  return pairs;
}

std::optional<int64_t> DeviceOf(const Instruction* x) {
  const Sharding* sharding = x->sharding();
  if (sharding != nullptr && sharding->IsTuple()) sharding = sharding->elements[0];
  if (sharding == nullptr || !sharding->IsMaximal()) return std::nullopt;
  return sharding->device;
}

// Does a way along the pairs, from source to target, come back to where it began?
bool HasCycle(const std::vector<DevicePair>& pairs) {
  std::unordered_map<int64_t, int64_t> target_of;
  for (const DevicePair& pair : pairs) target_of[pair.source] = pair.target;
  for (const DevicePair& start : pairs) {
    int64_t at = start.target;
    for (size_t step = 0; step < pairs.size() && at != start.source; ++step) {
      const auto next = target_of.find(at);
      if (next == target_of.end()) break;
      at = next->second;
    }
    if (at == start.source) return true;
  }
  return false;
}

class ChannelPairing {
 public:
  ChannelPairing(const Module& module, const Computation& computation)
      : module_(module), computation_(computation) {}

  ComputationChannels Run() {
    for (Instruction* x : computation_.instructions()) {
      if (!IsDeviceTransfer(*x)) continue;
      Channel& channel = found_.by_id[ChannelIdOf(*x)];
      Instruction** place = x->opcode() == Opcode::kSend   ? &channel.send
                            : x->opcode() == Opcode::kRecv ? &channel.recv
                                                           : nullptr;
      if (place == nullptr) continue;
      if (*place != nullptr) {
        Add(*x, "E-RUN-CHANNEL",
            fmt::format("channel {} has two of {}", ChannelIdOf(*x), OpcodeName(x->opcode())),
            fmt::format("give {} and {} channels of their own", (*place)->name(), x->name()));
        continue;
      }
      *place = x;
    }
    if (found_.by_id.empty()) return std::move(found_);
    for (auto& [id, channel] : found_.by_id) {
      if (channel.send == nullptr && channel.recv == nullptr) continue;  // only a -done, of a loop
      if (channel.send == nullptr || channel.recv == nullptr) {
        Alone(channel.send != nullptr ? *channel.send : *channel.recv);
        continue;
      }
      FindPairs(channel);
      CompareShapes(channel);
    }
    if (found_.problems.empty()) SetOrder();
    return std::move(found_);
  }

 private:
  void Add(const Instruction& x, std::string code, std::string message, std::string hint = "",
           bool is_wrong = true) {
    Diagnostic error = module_.ErrorAt(&x, std::move(code), std::move(message));
    if (!hint.empty()) error.hint = std::move(hint);
    found_.problems.push_back({std::move(error), &x, is_wrong});
  }

  // Half of a channel. The other half may be in another branch: there it is not run at the same
  // time.
  void Alone(const Instruction& x) {
    const bool sends = x.opcode() == Opcode::kSend;
    const Opcode wanted = sends ? Opcode::kRecv : Opcode::kSend;
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* other : computation->instructions()) {
        if (other->opcode() != wanted || ChannelIdOf(*other) != ChannelIdOf(x)) continue;
        return Add(x, "E-RUN-CHANNEL",
                   fmt::format("{} {} and {} {} of channel {} are in different computations",
                               OpcodeName(x.opcode()), x.name(), OpcodeName(wanted), other->name(),
                               ChannelIdOf(x)),
                   "put both where all devices run them; the pairs tell which of them send and "
                   "receive");
      }
    }
    Add(x, "E-RUN-DEADLOCK",
        fmt::format("deadlock: {} {} waits on channel {}, where nobody {} in this computation",
                    OpcodeName(x.opcode()), x.name(), ChannelIdOf(x),
                    sends ? "receives" : "sends"));
  }

  void FindPairs(Channel& channel) {
    for (const Instruction* x : {channel.send, channel.recv}) {
      const std::string text =
          FrontendAttribute(x->frontend_attributes(), std::string(kPairsAttribute));
      if (text.empty()) continue;
      if (auto pairs = ParsePairs(text)) {
        channel.pairs = std::move(*pairs);
      } else {
        Add(*x, "E-RUN-CHANNEL",
            fmt::format("{}={} is not a list of pairs", kPairsAttribute, text));
      }
      return;
    }
    const auto from = DeviceOf(channel.send), to = DeviceOf(channel.recv);
    if (from && to) {
      channel.pairs = {{*from, *to}};
      return;
    }
    Add(*channel.send, "E-RUN-CHANNEL",
        fmt::format("{} does not tell which devices send to which", channel.send->name()),
        fmt::format("say frontend_attributes={{{}=\"{{{{0,1}},{{1,2}}}}\"}}, or "
                    "sharding={{maximal device=..}} on send and recv",
                    kPairsAttribute));
  }

  void CompareShapes(const Channel& channel) {
    const Shape* sent = channel.send->operand(0)->shape();
    const Shape* received = channel.recv->shape()->element(0);
    if (Compatible(sent, received)) return;
    Add(*channel.recv, "E-RUN-CHANNEL",
        fmt::format("{} receives {} on channel {}, and {} sends {}", channel.recv->name(),
                    ToString(received, false), ChannelIdOf(*channel.recv), channel.send->name(),
                    ToString(sent, false)));
  }

  // Depth first, as text order asks otherwise.
  void SetOrder() {
    std::vector<Instruction*>& order = found_.order;
    std::unordered_map<const Instruction*, int> state;  // 1: open, 2: done
    for (Instruction* start : computation_.instructions()) {
      std::vector<Instruction*> stack = {start};
      while (!stack.empty()) {
        Instruction* x = stack.back();
        int& mark = state[x];
        if (mark != 0) {
          if (mark == 1) order.push_back(x);
          mark = 2;
          stack.pop_back();
          continue;
        }
        mark = 1;
        auto need = [&](Instruction* before) {
          const auto known = state.find(before);
          if (known == state.end()) stack.push_back(before);
          return known == state.end() || known->second == 2;
        };
        bool acyclic = true;
        if (x->opcode() == Opcode::kRecv && IsDeviceTransfer(*x)) {
          acyclic = need(found_.by_id.at(ChannelIdOf(*x)).send->operand(0));
        }
        for (Instruction* operand : x->operands()) acyclic &= need(operand);
        if (!acyclic) return Cycle(stack, state);
      }
    }
  }

  // A way that comes back to where it has been leads through a recv-done. Where the pairs lead in a
  // circle too, all its devices wait; else the first of them gets nothing, and goes on.
  void Cycle(const std::vector<Instruction*>& stack,
             const std::unordered_map<const Instruction*, int>& state) {
    for (auto x = stack.rbegin(); x != stack.rend(); ++x) {
      const auto mark = state.find(*x);
      if ((*x)->opcode() != Opcode::kRecvDone || mark == state.end() || mark->second != 1) continue;
      if (HasCycle(found_.by_id.at(ChannelIdOf(**x)).pairs)) {
        return Add(**x, "E-RUN-DEADLOCK",
                   fmt::format("deadlock: {} {} waits for data that follow from it",
                               OpcodeName((*x)->opcode()), (*x)->name()));
      }
      return Add(**x, "E-RUN-CHANNEL",
                 fmt::format("what {} receives goes into what is sent on channel {}: devices "
                             "would have to take turns, and those of the emulated mesh do not",
                             (*x)->name(), ChannelIdOf(**x)),
                 "", /*is_wrong=*/false);
    }
    throw InternalError("a cycle of instructions");
  }

  const Module& module_;
  const Computation& computation_;
  ComputationChannels found_;
};

}  // namespace

bool IsDeviceTransfer(const Instruction& x) {
  switch (x.opcode()) {
    case Opcode::kSend:
    case Opcode::kSendDone:
    case Opcode::kRecv:
    case Opcode::kRecvDone:
      return !x.attributes<ChannelAttributes>().is_host_transfer;
    default:  // no transfer
      return false;
  }
}

ComputationChannels PairChannels(const Module& module, const Computation& computation) {
  return ChannelPairing(module, computation).Run();
}

}  // namespace gshard
