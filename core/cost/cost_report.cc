// Sums op and collective costs over the call graph, callees once each. See cost_report.h.

#include "core/cost/cost_report.h"

#include <algorithm>
#include <map>

#include "core/analysis/fusion.h"
#include "core/analysis/meshes.h"
#include "core/analysis/trip_count.h"
#include "core/cost/collective_cost.h"
#include "core/cost/op_cost.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

struct Totals {
  double flops = 0, transcendentals = 0, bytes = 0, compute_time = 0, communication_time = 0;
  CostBreakdown breakdown;
  std::map<std::pair<std::string, std::vector<std::string>>, CollectiveRow> collectives;

  void Add(const Totals& other, double times) {
    flops += times * other.flops;
    transcendentals += times * other.transcendentals;
    bytes += times * other.bytes;
    compute_time += times * other.compute_time;
    communication_time += times * other.communication_time;
    breakdown.dot_s += times * other.breakdown.dot_s;
    breakdown.movement_s += times * other.breakdown.movement_s;
    breakdown.other_s += times * other.breakdown.other_s;
    for (const auto& [key, row] : other.collectives) {
      CollectiveRow scaled = row;
      scaled.count *= times;
      scaled.bytes_per_device *= times;
      scaled.time_s *= times;
      scaled.exposed_s *= times;
      scaled.cause_bytes *= times;
      AddRow(scaled);
    }
  }

  void AddRow(const CollectiveRow& row) {
    CollectiveRow& sum = collectives[{row.kind, row.axes}];
    if (sum.count == 0 || row.cause_bytes > sum.cause_bytes) {
      sum.cause = row.cause;
      sum.cause_bytes = row.cause_bytes;
    }
    sum.kind = row.kind;
    sum.axes = row.axes;
    sum.count += row.count;
    sum.bytes_per_device += row.bytes_per_device;
    sum.time_s += row.time_s;
    sum.exposed_s += row.exposed_s;
  }
};

class CostWalk {
 public:
  CostWalk(const Module& module, const Mesh* mesh, int64_t devices, const Chip& chip,
           const Network* network)
      : users_(module), mesh_(mesh), devices_(devices), chip_(chip), network_(network) {}

  const Totals& Of(const Computation& computation) {
    auto it = totals_.find(&computation);
    if (it == totals_.end()) it = totals_.emplace(&computation, Walk(computation)).first;
    return it->second;
  }

  int64_t unknown_trip_counts() const { return unknown_trip_counts_; }

 private:
  Totals Walk(const Computation& computation) {
    Totals totals;
    FusionModel fusion(computation, users_);
    for (const Instruction* instruction : computation.instructions()) {
      AddInstruction(*instruction, fusion, totals);
    }
    return totals;
  }

  void AddInstruction(const Instruction& instruction, const FusionModel& fusion, Totals& totals) {
    switch (instruction.opcode()) {
      case Opcode::kWhile: {
        std::optional<int64_t> trips = TripCount(instruction);
        if (!trips) ++unknown_trip_counts_;
        double times = static_cast<double>(trips.value_or(1));
        totals.Add(Of(*instruction.called(0)), times + 1);
        totals.Add(Of(*instruction.called(1)), times);
        return;
      }
      case Opcode::kConditional: {
        const Totals* worst = nullptr;
        for (const Computation* branch : instruction.called()) {
          const Totals& candidate = Of(*branch);
          if (worst == nullptr || Time(candidate) > Time(*worst)) worst = &candidate;
        }
        if (worst != nullptr) totals.Add(*worst, 1);
        return;
      }
      case Opcode::kCall:
      case Opcode::kAsyncStart:
        totals.Add(Of(*instruction.called(0)), 1);
        return;
      case Opcode::kFusion:
        AddFusion(instruction, totals);
        return;
      default:
        break;
    }
    OpCost cost = CostOf(instruction);
    double bytes = cost.has_bytes ? cost.bytes : TrafficOf(instruction, fusion);
    AddWork(instruction, cost.flops, cost.transcendentals, fusion.IsFused(&instruction) ? 0 : bytes,
            totals);
    if (IsCollective(instruction.opcode())) {
      CollectiveCost moved = CostOfCollective(instruction, devices_, mesh_, network_);
      totals.communication_time += moved.time_s;
      totals.AddRow({moved.kind, moved.axes, 1, moved.bytes_per_device, moved.time_s, moved.time_s,
                     moved.cause, moved.bytes_per_device});
    }
  }

  // A fusion computes its body and touches memory for its operands and results only.
  void AddFusion(const Instruction& fusion, Totals& totals) {
    const Totals& body = Of(*fusion.called(0));
    double bytes = static_cast<double>(fusion.shape()->byte_size());
    for (const Instruction* operand : fusion.operands())
      bytes += static_cast<double>(operand->shape()->byte_size());
    AddWork(fusion, body.flops, body.transcendentals, bytes, totals);
  }

  static double TrafficOf(const Instruction& instruction, const FusionModel& fusion) {
    double bytes = static_cast<double>(instruction.shape()->byte_size());
    for (const Instruction* input : fusion.Inputs(&instruction)) {
      bytes += static_cast<double>(input->shape()->byte_size());
    }
    return bytes;
  }

  void AddWork(const Instruction& instruction, double flops, double transcendentals, double bytes,
               Totals& totals) {
    DType dtype = DType::kF32;
    if (instruction.operand_count() > 0 && instruction.operand(0)->shape()->IsArray()) {
      dtype = instruction.operand(0)->shape()->dtype();
    }
    totals.flops += flops;
    totals.transcendentals += transcendentals;
    totals.bytes += bytes;
    double time = std::max(flops / chip_.PeakFlops(dtype), bytes / chip_.hbm_bytes_per_s);
    totals.compute_time += time;
    if (flops / chip_.PeakFlops(dtype) > bytes / chip_.hbm_bytes_per_s) {
      totals.breakdown.dot_s += time;
    } else {
      (flops == 0 ? totals.breakdown.movement_s : totals.breakdown.other_s) += time;
    }
  }

  static double Time(const Totals& totals) {
    return totals.compute_time + totals.communication_time;
  }

  Users users_;
  const Mesh* mesh_;
  int64_t devices_;
  const Chip& chip_;
  const Network* network_;
  std::map<const Computation*, Totals> totals_;
  int64_t unknown_trip_counts_ = 0;
};

}  // namespace

double TotalFlops(const Module& module) {
  Chip any;
  any.peak_flops = {{"f32", 1}};
  any.hbm_bytes_per_s = 1;
  return CostWalk(module, nullptr, 1, any, nullptr).Of(*module.entry()).flops;
}

Expected<CostReport> EstimateCost(Module& module, const Chip& chip, const CostOptions& options) {
  CostReport report;
  report.devices = module.DeviceCount();
  report.chip = chip.name;
  report.overlap = Overlap::kNone;
  const Mesh* mesh = MainMesh(module);
  Expected<Network> network = Network::Make(chip, report.devices, mesh, options.mesh_map);
  if (!network) return Fail(std::move(network.error()));
  CostWalk walk(module, mesh, report.devices, chip, &*network);
  const Totals& totals = walk.Of(*module.entry());
  report.flops_per_device = totals.flops;
  report.transcendentals_per_device = totals.transcendentals;
  report.useful_flops_per_device = options.useful_flops
                                       ? *options.useful_flops / static_cast<double>(report.devices)
                                       : totals.flops;
  report.hbm_bytes_per_device = totals.bytes;
  report.compute_time_s = totals.compute_time;
  report.exposed_communication_s = totals.communication_time;
  report.step_time_s = totals.compute_time + totals.communication_time;
  report.breakdown = totals.breakdown;
  report.breakdown.exposed_communication_s = totals.communication_time;
  report.mean_branch_step_time_s = report.step_time_s;
  double capacity = report.step_time_s * chip.PeakFlops(DType::kBF16);
  if (capacity > 0) {
    report.mfu = report.useful_flops_per_device / capacity;
    report.hfu = report.flops_per_device / capacity;
  }
  for (const auto& [key, row] : totals.collectives) report.collectives.push_back(row);
  std::stable_sort(
      report.collectives.begin(), report.collectives.end(),
      [](const auto& a, const auto& b) { return a.bytes_per_device > b.bytes_per_device; });
  report.memory = PeakMemory(module);
  report.unknown_trip_counts = walk.unknown_trip_counts();
  return report;
}

}  // namespace gshard
