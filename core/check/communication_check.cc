#include "core/check/communication_check.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>
#include <tsl/robin_set.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "core/analysis/channels.h"
#include "core/analysis/device_groups.h"
#include "core/check/divergence.h"
#include "ir/async_sugar.h"
#include "ir/computation.h"

namespace gshard {
namespace {

void AddCalled(const Computation& computation, tsl::robin_set<const Computation*>& reached) {
  if (!reached.insert(&computation).second) return;
  for (const Instruction* x : computation.instructions()) {
    for (const Computation* called : x->called()) AddCalled(*called, reached);
  }
}

// What can be seen of single instructions and of pairs of them.
class StructureCheck {
 public:
  StructureCheck(const Module& module, const DeviceGrid& grid, CollectiveResolver& collectives,
                 CommunicationCheck& check)
      : module_(module), grid_(grid), collectives_(collectives), check_(check) {}

  void Run() {
    tsl::robin_set<const Computation*> reached;
    AddCalled(*module_.entry(), reached);
    for (const Computation* computation : module_.computations()) {
      if (!reached.contains(computation)) continue;
      Channels(*computation);
      for (const Instruction* x : computation->instructions()) Look(*x);
    }
    for (const auto& [start, dones] : dones_of_) {
      if (dones != 1) Unpaired(*start, dones);
    }
    for (const Instruction* transfer : transfers_) {
      if (!finished_.contains(KeyOf(*transfer))) Unpaired(*transfer, 0);
    }
  }

 private:
  void Add(const Instruction& x, Diagnostic diagnostic, std::vector<uint32_t> devices = {}) {
    check_.findings.push_back({std::move(diagnostic), &x, std::move(devices)});
  }

  void Channels(const Computation& computation) {
    ComputationChannels channels = PairChannels(module_, computation);
    for (ChannelProblem& problem : channels.problems) {
      if (problem.is_wrong) Add(*problem.instruction, std::move(problem.error));
    }
    for (const auto& [id, channel] : channels.by_id) {
      if (channel.send == nullptr || channel.recv == nullptr) continue;
      ++check_.collectives;
      auto sources = ResolvePairs(*channel.recv, channel.pairs, /*of_partitions=*/true, grid_);
      if (!sources) Add(*channel.recv, std::move(sources.error()));
    }
  }

  void Look(const Instruction& x) {
    if (IsCollective(x.opcode())) {
      ++check_.collectives;
      if (auto devices = collectives_.Of(x); !devices) {
        Add(x, std::move(devices.error()));
      }
    }
    switch (x.opcode()) {
      case Opcode::kAllReduceStart:
      case Opcode::kAllGatherStart:
      case Opcode::kCollectivePermuteStart:
      case Opcode::kAsyncStart:
        dones_of_.try_emplace(&x, 0);
        break;
      case Opcode::kAllReduceDone:
      case Opcode::kAllGatherDone:
      case Opcode::kCollectivePermuteDone:
        ++dones_of_[x.operand(0)];
        break;
      case Opcode::kAsyncDone:
        if (const Instruction* start = AsyncStartOf(&x)) ++dones_of_[start];
        break;
      case Opcode::kSend:
      case Opcode::kRecv:
        if (IsDeviceTransfer(x)) transfers_.push_back(&x);
        break;
      case Opcode::kSendDone:
      case Opcode::kRecvDone:
        finished_.insert(KeyOf(x));
        break;
      default:  // no start and no end
        break;
    }
  }

  // A channel and whether it is its sending end.
  static int64_t KeyOf(const Instruction& x) {
    const bool sends = x.opcode() == Opcode::kSend || x.opcode() == Opcode::kSendDone;
    return x.attributes<ChannelAttributes>().channel_id * 2 + (sends ? 1 : 0);
  }

  void Unpaired(const Instruction& start, int64_t dones) {
    Diagnostic error =
        module_.ErrorAt(&start, "E-CHECK-ASYNC",
                        dones == 0 ? fmt::format("{} {} is never finished: it has no -done",
                                                 OpcodeName(start.opcode()), start.name())
                                   : fmt::format("{} {} is finished {} times",
                                                 OpcodeName(start.opcode()), start.name(), dones));
    error.hint = "each start has one -done, which is where its result is first there";
    Add(start, std::move(error));
  }

  const Module& module_;
  const DeviceGrid grid_;
  CollectiveResolver& collectives_;
  CommunicationCheck& check_;
  tsl::robin_map<const Instruction*, int64_t> dones_of_;
  std::vector<const Instruction*> transfers_;
  tsl::robin_set<int64_t> finished_;
};

}  // namespace

CommunicationCheck CheckCommunication(const Module& module, const DeviceGrid& grid) {
  CommunicationCheck check;
  CollectiveResolver collectives(grid);
  StructureCheck(module, grid, collectives, check).Run();
  DivergenceReport divergence = FindDivergence(module, grid, collectives);
  check.is_complete = divergence.is_complete;
  std::ranges::move(divergence.findings, std::back_inserter(check.findings));
  std::ranges::stable_sort(check.findings, {}, [](const CommunicationFinding& finding) {
    return std::pair(!finding.IsError(), finding.instruction->source().begin);
  });
  return check;
}

}  // namespace gshard
