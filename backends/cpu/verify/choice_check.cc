// What decides a choice is shown right before the choice, so that nothing waits for it.
#include "backends/cpu/verify/choice_check.h"

#include <optional>
#include <utility>

#include "backends/cpu/verify/paired_run.h"
#include "backends/cpu/verify/pick_comparer.h"
#include "backends/cpu/verify/value_exchange.h"

namespace gshard::cpu {
namespace {

// The mesh, which runs beside.
class ExchangeSource final : public PickSource {
 public:
  explicit ExchangeSource(ValueExchange& exchange) : exchange_(exchange) {}

  std::vector<std::optional<WholeValue>> Take(std::span<const uint32_t> probes) override {
    exchange_.Await(probes);
    std::vector<std::optional<WholeValue>> values;
    for (uint32_t probe : probes) values.push_back(exchange_.Take(probe));
    return values;
  }
  void Return(std::span<std::byte> data) override { exchange_.Return(data); }

 private:
  ValueExchange& exchange_;
};

}  // namespace

Expected<ChoiceCheckResult> CheckChoices(const Module& whole, const Module& partitioned,
                                         std::span<const LocalForm> forms, const Inputs& inputs,
                                         const InstructionsOptions& options) {
  const ComparedArrays arrays =
      CollectArrays(whole, options.whole_grid, options.whole_forms, forms);
  const ShownChoices shown = FindShownChoices(whole, partitioned, arrays.candidates);
  PairedRun runs;
  runs.options = &options;
  runs.candidates = shown.candidates;
  Expected<void> done =
      runs.Prepare(whole, shown.whole_probes, partitioned, shown.local_probes, inputs);
  if (!done) return Fail(done.error());
  PickComparer::Spreads spreads;
  for (size_t t = 0; t < shown.candidates.size(); ++t) {
    spreads.push_back(runs.mesh->SpreadOfProbe(t, shown.candidates[t].form->sharding));
  }
  ExchangeSource source(*runs.exchange);
  PickComparer comparer(whole, shown, *runs.mesh, std::move(spreads), source);
  done = runs.Run(comparer, [] { return false; });
  if (!done) return Fail(done.error());
  ChoiceCheckResult result;
  result.near_ties = comparer.NearTies();
  result.peak_memory_bytes = runs.peak_memory_bytes();
  if (result.near_ties.empty()) return result;
  const VerifyResult compared = runs.CompareOutputs(whole, options.tolerance);
  result.outputs_agree = compared.ok && compared.discrete_differences == 0;
  return result;
}

}  // namespace gshard::cpu
