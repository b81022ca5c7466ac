#include "backends/cpu/transfers.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"
#include "ir/metadata.h"
#include "ir/sharding.h"
#include "ir/sharding_algebra.h"

namespace gshard::cpu {
namespace {

constexpr std::string_view kPairsAttribute = "_xla_send_recv_source_target_pairs";
constexpr std::string_view kOutputShardings = "gshard.output_shardings";

bool IsChannel(Opcode opcode) {
  return opcode == Opcode::kSend || opcode == Opcode::kSendDone || opcode == Opcode::kRecv ||
         opcode == Opcode::kRecvDone;
}
bool IsHostTransfer(const Instruction& x) {
  if (x.opcode() == Opcode::kInfeed || x.opcode() == Opcode::kOutfeed) return true;
  return IsChannel(x.opcode()) && x.attributes<ChannelAttributes>().is_host_transfer;
}

template <typename Predicate>
bool Any(const Module& module, Predicate predicate) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (predicate(*x)) return true;
    }
  }
  return false;
}

// Rebuilds the instruction list of a computation: old instructions are kept, or replaced by others.
class Rewriter {
 public:
  Rewriter(Module& module, Computation* computation)
      : builder_(module, computation), made_(computation->instructions().size()) {}

  Builder& builder() { return builder_; }
  // From now on `x` reads the replacements.
  void UseReplacements(Instruction* x) {
    for (int64_t k = 0; k < x->operand_count(); ++k) {
      auto found = replaced_.find(x->operand(k));
      if (found != replaced_.end()) x->set_operand(k, found->second);
    }
  }
  Instruction* Replacement(Instruction* x) const {
    auto found = replaced_.find(x);
    return found == replaced_.end() ? x : found->second;
  }
  void Keep(Instruction* x) { TakeNew(), list_.push_back(x); }
  // Null: nobody reads it any more.
  void Replace(Instruction* x, Instruction* by) {
    TakeNew();
    if (by != nullptr) replaced_[x] = by;
  }
  Instruction* Token() { return builder_.Add(Opcode::kAfterAll, {}); }
  Instruction* WithToken(Instruction* data) {
    Instruction* elements[] = {data, Token()};
    return builder_.Tuple(elements);
  }
  void Finish() {
    TakeNew();
    Computation* computation = builder_.computation();
    Instruction* root = Replacement(computation->root());
    computation->SetInstructions(std::move(list_));
    computation->set_root(root);
  }

 private:
  // Whatever the builder has made since.
  void TakeNew() {
    const auto all = builder_.computation()->instructions();
    for (; made_ < all.size(); ++made_) list_.push_back(all[made_]);
  }

  Builder builder_;
  size_t made_;
  std::vector<Instruction*> list_;
  std::unordered_map<const Instruction*, Instruction*> replaced_;
};

// Header entries that tell of the entry's results.
void ForgetResults(Module& module, const Instruction& old_root, size_t added) {
  ModuleHeader& header = module.header();
  header.entry_result_layout = nullptr;
  header.input_output_alias.clear();
  const std::string record = FrontendAttribute(header.frontend_attributes, kOutputShardings);
  if (record.empty()) return;
  std::string text =
      old_root.shape()->IsTuple() ? record.substr(0, record.rfind('}')) : "{" + record;
  for (size_t i = 0; i < added; ++i) {
    text += text.back() == '{' ? "{manual}" : ", {manual}";
  }
  header.frontend_attributes = WithFrontendAttribute(module.arena(), header.frontend_attributes,
                                                     std::string(kOutputShardings), text + "}");
}

// --- channels

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
  Instruction* recv_done = nullptr;
};

class ChannelPairing {
 public:
  ChannelPairing(Module& module, Computation* computation)
      : module_(module), computation_(computation) {}

  Expected<void> Run() {
    for (Instruction* x : computation_->instructions()) {
      if (!IsChannel(x->opcode())) continue;
      Channel& channel = channels_[x->attributes<ChannelAttributes>().channel_id];
      Instruction** place = x->opcode() == Opcode::kSend       ? &channel.send
                            : x->opcode() == Opcode::kRecv     ? &channel.recv
                            : x->opcode() == Opcode::kRecvDone ? &channel.recv_done
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
      if (channel.send == nullptr || channel.recv_done == nullptr) {
        const Instruction* alone = channel.send != nullptr ? channel.send : channel.recv;
        if (alone == nullptr) alone = channel.recv_done;
        if (alone == nullptr) continue;  // a send-done: the verifier knows its send
        return Error(*alone, "E-RUN-DEADLOCK",
                     fmt::format("deadlock: {} {} waits on channel {}, where nobody {} in this "
                                 "computation",
                                 OpcodeName(alone->opcode()), alone->name(), id,
                                 channel.send != nullptr ? "receives" : "sends"));
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
        if (x->opcode() == Opcode::kRecvDone) {
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
    Rewriter rewriter(module_, computation_);
    for (Instruction* x : order) {
      rewriter.UseReplacements(x);
      rewriter.builder().set_origin(x);
      switch (x->opcode()) {
        case Opcode::kSend:
        case Opcode::kRecv:
          rewriter.Replace(x, nullptr);
          break;
        case Opcode::kSendDone:
          rewriter.Replace(x, rewriter.Token());
          break;
        case Opcode::kRecvDone: {
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
          rewriter.Replace(x, rewriter.WithToken(moved));
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
    for (const Instruction* x : {channel.send, channel.recv, channel.recv_done}) {
      if (x == nullptr) continue;
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

Expected<void> ReplaceHostTransfers(Module& module) {
  if (!Any(module, IsHostTransfer)) return {};
  Computation* entry = module.entry();
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (computation == entry || !IsHostTransfer(*x)) continue;
      Diagnostic error = module.ErrorAt(x, "E-RUN-HOST",
                                        fmt::format("{} {} is in a computation that others call",
                                                    OpcodeName(x->opcode()), x->name()));
      error.hint = "the emulated host feeds and is fed once a step, in the entry computation";
      return Fail(std::move(error));
    }
  }
  Rewriter rewriter(module, entry);
  Builder& builder = rewriter.builder();
  std::vector<Instruction*> fed;  // to the host
  const std::vector<Instruction*> old(entry->instructions().begin(), entry->instructions().end());
  auto parameter = [&](const Instruction& x) {
    const Shape* shape = x.shape()->element(0);
    Instruction* made = builder.Parameter(entry->parameter_count(), shape, x.name());
    made->set_name(x.name());
    if (!module.header().entry_parameter_layouts.empty()) {
      module.header().entry_parameter_layouts.push_back(shape);
    }
    if (x.sharding() != nullptr && shape->IsArray()) {
      made->set_sharding(x.sharding()->IsTuple() ? LeafShardings(x.shape(), x.sharding())[0]
                                                 : x.sharding());
    }
    return made;
  };
  for (Instruction* x : old) {
    rewriter.UseReplacements(x);
    builder.set_origin(x);
    if (!IsHostTransfer(*x)) {
      rewriter.Keep(x);
      continue;
    }
    switch (x->opcode()) {
      case Opcode::kInfeed:
      case Opcode::kRecvDone:
        rewriter.Replace(x, rewriter.WithToken(parameter(*x)));
        break;
      case Opcode::kRecv:
        rewriter.Replace(x, nullptr);
        break;
      case Opcode::kSend:
        fed.push_back(x->operand(0));
        rewriter.Replace(x, nullptr);
        break;
      case Opcode::kOutfeed:
        fed.push_back(x->operand(0));
        rewriter.Replace(x, rewriter.Token());
        break;
      default:  // send-done
        rewriter.Replace(x, rewriter.Token());
    }
  }
  Instruction* root = rewriter.Replacement(entry->root());
  size_t leaves = 0;
  for (const Instruction* x : fed) leaves += static_cast<size_t>(x->shape()->leaf_count());
  if (!fed.empty()) {
    ForgetResults(module, *root, leaves);
    std::vector<Instruction*> results = {root};
    results.insert(results.end(), fed.begin(), fed.end());
    builder.set_origin(root);
    Instruction* both = builder.Tuple(results);
    rewriter.Finish();
    entry->set_root(both);
    return {};
  }
  rewriter.Finish();
  return {};
}

Expected<void> PairChannels(Module& module) {
  for (Computation* computation : module.computations()) {
    if (Expected<void> done = ChannelPairing(module, computation).Run(); !done) return done;
  }
  return {};
}

}  // namespace gshard::cpu
