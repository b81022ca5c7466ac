#include "core/transforms/expand/channel_resolver.h"

#include "core/analysis/channels.h"
#include "core/transforms/expand/transfer_values.h"
#include "core/transforms/rewriter.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

void Rewrite(Module& module, Computation* computation, const ComputationChannels& channels) {
  Rewriter rewriter(module);
  rewriter.Begin(computation);
  for (Instruction* x : channels.order) {
    rewriter.RedirectOperands(x);
    rewriter.builder().set_origin(x);
    if (!IsDeviceTransfer(*x)) {
      rewriter.Keep(x);
      continue;
    }
    switch (x->opcode()) {
      case Opcode::kSend:
        rewriter.Replace(x, Started(rewriter.builder(), x->operand(0)));
        break;
      case Opcode::kSendDone:
        rewriter.Replace(x, Token(rewriter.builder()));
        break;
      case Opcode::kRecvDone:
        rewriter.Replace(
            x, WithToken(rewriter.builder(), rewriter.builder().GetTupleElement(x->operand(0), 0)));
        break;
      default: {
        const Channel& channel = channels.by_id.at(x->attributes<ChannelAttributes>().channel_id);
        Instruction* sent = rewriter.ValueOf(channel.send->operand(0));
        Instruction* moved = rewriter.builder().CollectivePermute(sent, channel.pairs);
        moved->set_name(x->name());  // reports name what the user wrote
        rewriter.Replace(x, Started(rewriter.builder(), moved));
        break;
      }
    }
  }
  rewriter.Finish();
}

// The permutes that take the channels' places must be well-formed.
Expected<void> CheckChannels(const Module& module, const ComputationChannels& channels) {
  const int64_t partitions = module.header().num_partitions;
  for (const auto& [id, channel] : channels.by_id) {
    if (channel.recv == nullptr) continue;  // only a -done, of a loop
    const auto problem = CheckDevicePairs(channel.pairs, partitions > 1 ? partitions : 0);
    if (problem) return Fail(module.ErrorAt(channel.recv, "E-RUN-GROUPS", *problem));
  }
  return {};
}

}  // namespace

Expected<bool> ResolveChannels(Module& module) {
  bool changed = false;
  for (Computation* computation : module.computations()) {
    const ComputationChannels channels = PairChannels(module, *computation);
    if (!channels.problems.empty()) return Fail(channels.problems[0].error);
    if (channels.by_id.empty()) continue;
    if (auto checked = CheckChannels(module, channels); !checked) return Fail(checked.error());
    Rewrite(module, computation, channels);
    changed = true;
  }
  return changed;
}

}  // namespace gshard
