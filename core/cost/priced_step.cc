// See priced_step.h.

#include "core/cost/priced_step.h"

#include <algorithm>
#include <utility>

#include "core/analysis/meshes.h"
#include "core/cost/kernel_time.h"
#include "ir/compiled_text.h"

namespace gshard {

PricedStep::PricedStep(Module& module, const Chip& chip, const CostOptions& options)
    : devices(module.DeviceCount()),
      overlap(options.overlap),
      mesh(MainMesh(module)),
      module_(module),
      chip_(chip) {
  if (overlap != Overlap::kChipDefault) return;
  overlap = chip.overlaps_collectives || IsCompiled(module) ? Overlap::kXla : Overlap::kNone;
}

Expected<PricedStep> PricedStep::Make(Module& module, const Chip& chip,
                                      const CostOptions& options) {
  PricedStep priced(module, chip, options);
  Expected<Network> network = Network::Make(chip, priced.devices, priced.mesh, options.mesh_map);
  if (!network) return Fail(std::move(network.error()));
  priced.network = std::make_unique<Network>(*std::move(network));
  priced.kernels = std::make_unique<ModuleKernels>(
      module, FusionOptionsOf(chip),
      ModuleKernels::AttentionOptions{options.fuse_attention, MaskedOnOf(chip),
                                      options.masked_shares});
  priced.model = priced.MakeModel({priced.overlap, false, options.uses_text_cycles});
  priced.entry = &priced.model->Of(*module.entry());
  priced.pipeline = DescribePipeline(module, priced.mesh, *priced.model);
  return priced;
}

std::unique_ptr<StepModel> PricedStep::MakeModel(const StepModelOptions& options) const {
  return std::make_unique<StepModel>(module_, chip_, mesh, network.get(), *kernels, options);
}

double PricedStep::UsefulFlops(std::optional<double> of_whole_program, double done, double repeated,
                               double masked) const {
  // Of a pipeline before it is partitioned it is not known who works when. In a shifting buffer
  // everybody does, at times on padding.
  const bool has_branches = pipeline && !pipeline->is_shift;
  const double done_once = done - repeated;
  double useful = of_whole_program && !has_branches
                      ? std::min(*of_whole_program / static_cast<double>(devices), done_once)
                      : done_once;
  // Of what several devices do alike each has its part, and of the masked FLOPs among it.
  if (done_once > 0) useful -= masked * useful / done_once;
  if (pipeline) useful -= pipeline->PaddingFlopsPerDevice() - pipeline->padding_recompute_flops;
  return useful;
}

}  // namespace gshard
