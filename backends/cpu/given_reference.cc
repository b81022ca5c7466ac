#include "backends/cpu/given_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "backends/cpu/io/inputs.h"
#include "backends/cpu/verify/result_spread.h"
#include "core/analysis/partition_record.h"
#include "core/analysis/partitioned.h"
#include "core/pipeline/pipeline.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/sharding_text.h"

namespace gshard::cpu {
namespace {

// Shapes of two contexts.
bool SameArray(const Shape* a, const Shape* b) {
  return a->IsArray() && b->IsArray() && a->dtype() == b->dtype() &&
         std::ranges::equal(a->dims(), b->dims());
}

// The same sharding where pointers of another module are not known.
const Sharding* InContext(Context& context, const Sharding* sharding) {
  if (sharding == nullptr) return nullptr;
  const auto parsed =
      ParseSharding(context, ToString(sharding->canonical, {.tiles = true, .metadata = false}));
  return parsed ? *parsed : nullptr;
}

}  // namespace

bool IsPipelined(const Module& program) {
  return !FrontendAttribute(program.header().frontend_attributes, kPipelineAttribute).empty();
}

std::vector<LocalForm> FormsByName(const Module& program, std::vector<LocalForm> forms) {
  // Passes of stages compute a micro-batch's values, and partitioning gives new names to much of
  // them.
  if (IsCompiledByXla(program) || IsPipelined(program)) return {};
  std::unordered_map<std::string_view, const Instruction*> by_name;
  for (const Computation* computation : program.computations()) {
    for (const Instruction* x : computation->instructions()) by_name.emplace(x->name(), x);
  }
  std::erase_if(forms, [&](LocalForm& form) {
    const auto found = by_name.find(form.local->name());
    if (found == by_name.end() || !SameArray(found->second->shape(), form.local->shape())) {
      return true;
    }
    form.local = found->second;
    return false;
  });
  return forms;
}

std::vector<int64_t> TakeParameterShardings(Module& program, const Module& reference,
                                            std::span<const Shape* const> whole) {
  std::vector<int64_t> taken;
  if (HasPartitionRecord(program)) return taken;
  const std::vector<ParameterLeaf> leaves = ParameterLeaves(*program.entry());
  const std::vector<ParameterLeaf> of_reference = ParameterLeaves(*reference.entry());
  if (leaves.size() != of_reference.size() || leaves.size() != whole.size()) return taken;
  Context& context = program.context();
  size_t k = 0;
  for (Instruction* parameter : program.entry()->parameters()) {
    const size_t end = k + static_cast<size_t>(parameter->shape()->leaf_count());
    if (parameter->sharding() != nullptr) k = end;
    std::vector<const Sharding*> shardings;
    bool all_fit = true, any_cut = false;
    for (; k < end; ++k) {
      const Sharding* s = InContext(context, of_reference[k].sharding);
      // What the reference leaves open the compiler may have left whole.
      if (!IsShardOf(leaves[k].shape, s, whole[k])) s = context.Replicated();
      all_fit = all_fit && IsShardOf(leaves[k].shape, s, whole[k]);
      any_cut = any_cut || !s->IsReplicated();
      shardings.push_back(s);
    }
    if (!all_fit || !any_cut) continue;
    parameter->set_sharding(parameter->shape()->IsTuple() ? context.TupleOf(shardings)
                                                          : shardings[0]);
    taken.push_back(parameter->attributes<ParameterAttributes>().number);
  }
  return taken;
}

Expected<std::vector<const Sharding*>> ResultShardings(const Module& program,
                                                       const Module& reference) {
  auto shardings = RecordedOutputShardings(reference);
  if (!shardings) return shardings;
  for (const Sharding*& s : *shardings) s = InContext(program.context(), s);
  return shardings;
}

Expected<void> CheckParameters(const Module& program, std::span<const Shape* const> whole) {
  const std::vector<ParameterLeaf> leaves = ParameterLeaves(*program.entry());
  if (leaves.size() != whole.size()) {
    return Fail(MakeError("E-RUN-VERIFY", fmt::format("the reference has {} parameters, this "
                                                      "program {}",
                                                      whole.size(), leaves.size())));
  }
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (IsShardOf(leaves[k].shape, leaves[k].sharding, whole[k])) continue;
    Diagnostic error =
        MakeError("E-RUN-VERIFY", fmt::format("parameter {} is no shard of the reference's", k));
    if (leaves[k].sharding == nullptr) {
      error.hint = fmt::format(
          "the text does not say how {} is spread (compiled text of JAX 0.12 does not), and the "
          "reference's does not make {} of {}: give the reference's parameter its sharding "
          "(gshard-opt annotate)",
          leaves[k].name, ToString(leaves[k].shape, false), ToString(whole[k], false));
    }
    return Fail(std::move(error));
  }
  return {};
}

Expected<void> CheckResults(const MeshRun& run, const Module& program, size_t count,
                            std::span<const OutputArray> expected,
                            std::span<const Sharding* const> reference) {
  bool equal = count == expected.size();
  for (size_t k = 0; equal && k < expected.size(); ++k) {
    equal = run.AssemblesTo(k, expected[k].dims) ||
            (run.IsStacked(k) &&
             !SpreadsThatFit(program, run.grid().partitions, run.LocalDims(k), expected[k].dims,
                             k < reference.size() ? reference[k] : nullptr)
                  .empty());
  }
  if (equal) return {};
  return Fail(MakeError("E-RUN-VERIFY",
                        "the results do not have the reference's shapes when put together",
                        "--output-shardings says how they are spread"));
}

}  // namespace gshard::cpu
