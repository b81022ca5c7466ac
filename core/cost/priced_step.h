// A step laid on a chip: the schedules of a program's computations with the chip's times, and the
// network that they run on. What reports and traces are made of.
#ifndef GSHARD_CORE_COST_PRICED_STEP_H_
#define GSHARD_CORE_COST_PRICED_STEP_H_

#include <cstdint>
#include <memory>
#include <optional>

#include "core/cost/chip.h"
#include "core/cost/cost_report.h"
#include "core/cost/network.h"
#include "core/cost/pipeline_report.h"
#include "core/cost/step_model.h"
#include "ir/module.h"

namespace gshard {

class PricedStep {
 public:
  // `module` is the program of one device, and must outlive the result, as must `chip`. Not const:
  // meshes are interned in its context. Errors: E-COST-003.
  static Expected<PricedStep> Make(Module& module, const Chip& chip, const CostOptions& options);

  std::unique_ptr<StepModel> MakeModel(const StepModelOptions& options) const;

  // Returns the useful FLOPs per device: `of_whole_program` (FLOPs of the unpartitioned program, if
  // known) divided by the devices, but at most done - repeated; less the share of them that a
  // causal mask cuts off, masked / (done - repeated), and what a pipeline computes on padding. Per
  // device, `done` are all FLOPs, `repeated` those of recomputation, `masked` those of the others
  // that a mask cuts off.
  double UsefulFlops(std::optional<double> of_whole_program, double done, double repeated,
                     double masked) const;

  int64_t devices;
  Overlap overlap;   // never kChipDefault
  const Mesh* mesh;  // null: one device, or groups that follow no mesh
  std::unique_ptr<Network> network;
  std::unique_ptr<ModuleKernels> kernels;
  std::unique_ptr<StepModel> model;
  const ComputationCost* entry = nullptr;
  std::optional<PipelineReport> pipeline;

 private:
  PricedStep(Module& module, const Chip& chip, const CostOptions& options);

  const Module& module_;
  const Chip& chip_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_PRICED_STEP_H_
