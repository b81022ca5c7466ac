#include "backends/cpu/expand/channels.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "backends/cpu/expand/computation_rewriter.h"
#include "ir/metadata.h"
#include "ir/sharding.h"

namespace gshard::cpu {
namespace {

constexpr std::string_view kPairsAttribute = "_xla_send_recv_source_target_pairs";

bool IsChannel(Opcode opcode) {
  return opcode == Opcode::kSend || opcode == Opcode::kSendDone || opcode == Opcode::kRecv ||
         opcode == Opcode::kRecvDone;
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

// The instructions of one channel in one computation.
struct Channel {
  Instruction* send = nullptr;
  Instruction* recv = nullptr;
};

class ChannelPairing {
 public:
  ChannelPairing(Module& module, Computation* computation)
      : module_(module), computation_(computation) {}

  Expected<void> Run() {
    for (Instruction* x : computation_->instructions()) {
      if (!IsChannel(x->opcode())) continue;
      Channel& channel = channels_[x->attributes<ChannelAttributes>().channel_id];
      Instruction** place = x->opcode() == Opcode::kSend   ? &channel.send
                            : x->opcode() == Opcode::kRecv ? &channel.recv
                                                           : nullptr;
      if (place == nullptr) continue;
      if (*place != nullptr) {
        return Error(
            *x, "E-RUN-CHANNEL",
            fmt::format("channel {} has two of {}", ChannelOf(*x), OpcodeName(x->opcode())));
      }
      *place = x;
    }
    if (channels_.empty()) return {};
    for (const auto& [id, channel] : channels_) {
      if ((channel.send == nullptr) != (channel.recv == nullptr)) {
        return Alone(id, channel.send != nullptr ? *channel.send : *channel.recv);
      }
    }
    auto order = Order();
    if (!order) return Fail(order.error());
    return Rewrite(*order);
  }

 private:
  static int64_t ChannelOf(const Instruction& x) {
    return x.attributes<ChannelAttributes>().channel_id;
  }
  tl::unexpected<Diagnostic> Error(const Instruction& x, std::string code, std::string message) {
    return Fail(module_.ErrorAt(&x, std::move(code), std::move(message)));
  }

  // Half of a channel. The other half may be in another branch: there it is not run at the same
  // time.
  tl::unexpected<Diagnostic> Alone(int64_t id, const Instruction& x) {
    const bool sends = x.opcode() == Opcode::kSend;
    const Opcode wanted = sends ? Opcode::kRecv : Opcode::kSend;
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* other : computation->instructions()) {
        if (other->opcode() != wanted || ChannelOf(*other) != id) continue;
        Diagnostic error = module_.ErrorAt(
            &x, "E-RUN-CHANNEL",
            fmt::format("{} {} and {} {} of channel {} are in different computations",
                        OpcodeName(x.opcode()), x.name(), OpcodeName(wanted), other->name(), id));
        error.hint =
            "put both where all devices run them; the pairs tell which of them send and receive";
        return Fail(std::move(error));
      }
    }
    return Error(x, "E-RUN-DEADLOCK",
                 fmt::format("deadlock: {} {} waits on channel {}, where nobody {} in this "
                             "computation",
                             OpcodeName(x.opcode()), x.name(), id, sends ? "receives" : "sends"));
  }

  // What is sent stands before what receives it. Depth first, as text order asks otherwise.
  Expected<std::vector<Instruction*>> Order() {
    std::vector<Instruction*> order;
    std::unordered_map<const Instruction*, int> state;  // 1: open, 2: done
    for (Instruction* start : computation_->instructions()) {
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
          const auto found = state.find(before);
          if (found == state.end()) stack.push_back(before);
          return found == state.end() || found->second == 2;
        };
        bool acyclic = true;
        if (x->opcode() == Opcode::kRecv) {
          acyclic = need(channels_.at(ChannelOf(*x)).send->operand(0));
        }
        for (Instruction* operand : x->operands()) acyclic &= need(operand);
        if (!acyclic) return Cycle(stack, state);
      }
    }
    return order;
  }

  // A way that comes back to where it has been leads through a recv-done.
  tl::unexpected<Diagnostic> Cycle(const std::vector<Instruction*>& stack,
                                   const std::unordered_map<const Instruction*, int>& state) {
    for (auto x = stack.rbegin(); x != stack.rend(); ++x) {
      const auto mark = state.find(*x);
      if ((*x)->opcode() != Opcode::kRecvDone || mark == state.end() || mark->second != 1) continue;
      return Error(**x, "E-RUN-DEADLOCK",
                   fmt::format("deadlock: {} {} waits for data that follow from it",
                               OpcodeName((*x)->opcode()), (*x)->name()));
    }
    throw InternalError("a cycle of instructions");
  }

  Expected<void> Rewrite(const std::vector<Instruction*>& order) {
    ComputationRewriter rewriter(module_, computation_);
    for (Instruction* x : order) {
      rewriter.UseReplacements(x);
      rewriter.builder().set_origin(x);
      switch (x->opcode()) {
        case Opcode::kSend:
          rewriter.Replace(x, rewriter.Started(x->operand(0)));
          break;
        case Opcode::kSendDone:
          rewriter.Replace(x, rewriter.Token());
          break;
        case Opcode::kRecvDone:
          rewriter.Replace(
              x, rewriter.WithToken(rewriter.builder().GetTupleElement(x->operand(0), 0)));
          break;
        case Opcode::kRecv: {
          const Channel& channel = channels_.at(ChannelOf(*x));
          auto pairs = PairsOf(channel);
          if (!pairs) return Fail(pairs.error());
          Instruction* sent = rewriter.Replacement(channel.send->operand(0));
          if (!Compatible(sent->shape(), x->shape()->element(0))) {
            return Error(*x, "E-RUN-CHANNEL",
                         fmt::format("{} receives {} on channel {}, and {} sends {}", x->name(),
                                     ToString(x->shape()->element(0), false), ChannelOf(*x),
                                     channel.send->name(), ToString(sent->shape(), false)));
          }
          Instruction* moved = rewriter.builder().CollectivePermute(sent, *pairs);
          moved->set_name(x->name());  // reports name what the user wrote
          rewriter.Replace(x, rewriter.Started(moved));
          break;
        }
        default:
          rewriter.Keep(x);
      }
    }
    rewriter.Finish();
    return {};
  }

  Expected<std::vector<DevicePair>> PairsOf(const Channel& channel) {
    for (const Instruction* x : {channel.send, channel.recv}) {
      const std::string text =
          FrontendAttribute(x->frontend_attributes(), std::string(kPairsAttribute));
      if (text.empty()) continue;
      if (auto pairs = ParsePairs(text)) return *pairs;
      return Error(*x, "E-RUN-CHANNEL",
                   fmt::format("{}={} is not a list of pairs", kPairsAttribute, text));
    }
    const auto from = DeviceOf(channel.send), to = DeviceOf(channel.recv);
    if (from && to) return std::vector<DevicePair>{{*from, *to}};
    Diagnostic error = module_.ErrorAt(
        channel.send, "E-RUN-CHANNEL",
        fmt::format("{} does not tell which devices send to which", channel.send->name()));
    error.hint = fmt::format(
        "say frontend_attributes={{{}=\"{{{{0,1}},{{1,2}}}}\"}}, or "
        "sharding={{maximal device=..}} on send and recv",
        kPairsAttribute);
    return Fail(std::move(error));
  }
  static std::optional<int64_t> DeviceOf(const Instruction* x) {
    const Sharding* sharding = x == nullptr ? nullptr : x->sharding();
    if (sharding != nullptr && sharding->IsTuple()) sharding = sharding->elements[0];
    if (sharding == nullptr || !sharding->IsMaximal()) return std::nullopt;
    return sharding->device;
  }

  Module& module_;
  Computation* computation_;
  std::map<int64_t, Channel> channels_;
};

}  // namespace

Expected<void> PairChannels(Module& module) {
  for (Computation* computation : module.computations()) {
    if (Expected<void> done = ChannelPairing(module, computation).Run(); !done) return done;
  }
  return {};
}

}  // namespace gshard::cpu
