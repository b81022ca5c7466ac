#include "backends/cpu/given_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <unordered_map>

#include "backends/cpu/io/inputs.h"
#include "backends/cpu/verify/result_spread.h"
#include "core/analysis/partitioned.h"
#include "ir/metadata.h"

namespace gshard::cpu {
namespace {

// Shapes of two contexts.
bool SameArray(const Shape* a, const Shape* b) {
  return a->IsArray() && b->IsArray() && a->dtype() == b->dtype() &&
         std::ranges::equal(a->dims(), b->dims());
}

bool IsShardOf(const ParameterLeaf& leaf, const Shape* whole) {
  const Shape* local = leaf.shape;
  if (!local->IsArray() || !whole->IsArray()) return true;
  if (local->dtype() != whole->dtype() || local->rank() != whole->rank()) return false;
  for (int64_t d = 0; d < local->rank(); ++d) {
    const bool tiled = leaf.sharding != nullptr && leaf.sharding->IsTiled();
    const int64_t tiles = tiled ? leaf.sharding->TileCount(d) : 1;
    if (local->dim(d) != (whole->dim(d) + tiles - 1) / tiles) return false;
  }
  return true;
}

// core/pipeline/pipeline.h
constexpr std::string_view kPipelineAttribute = "gshard.pipeline";

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

Expected<void> CheckParameters(const Module& program, std::span<const Shape* const> whole) {
  const std::vector<ParameterLeaf> leaves = ParameterLeaves(*program.entry());
  if (leaves.size() != whole.size()) {
    return Fail(MakeError("E-RUN-VERIFY", fmt::format("the reference has {} parameters, this "
                                                      "program {}",
                                                      whole.size(), leaves.size())));
  }
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (IsShardOf(leaves[k], whole[k])) continue;
    return Fail(
        MakeError("E-RUN-VERIFY", fmt::format("parameter {} is no shard of the reference's", k)));
  }
  return {};
}

Expected<void> CheckResults(const MeshRun& run, const Module& program, size_t count,
                            std::span<const OutputArray> expected) {
  bool equal = count == expected.size();
  for (size_t k = 0; equal && k < expected.size(); ++k) {
    equal = run.AssemblesTo(k, expected[k].dims) ||
            (run.IsStacked(k) &&
             !SpreadsThatFit(program, run.grid().partitions, run.LocalDims(k), expected[k].dims)
                  .empty());
  }
  if (equal) return {};
  return Fail(MakeError("E-RUN-VERIFY",
                        "the results do not have the reference's shapes when put together",
                        "--output-shardings says how they are spread"));
}

}  // namespace gshard::cpu
