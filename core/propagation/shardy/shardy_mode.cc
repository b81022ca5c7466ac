#include "core/propagation/shardy/shardy_mode.h"

#include <algorithm>
#include <numeric>
#include <span>
#include <unordered_map>
#include <utility>

#include "core/analysis/meshes.h"
#include "core/propagation/shardy/engine.h"
#include "core/propagation/shardy/explanation.h"
#include "core/propagation/shardy/markers.h"
#include "ir/attribute_names.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/hash.h"

namespace gshard::shardy {
namespace {

void Close(Tensor& tensor, const Mesh* mesh) {
  tensor.mesh = mesh;
  for (Dim& dim : tensor.dims) dim.open = false;
}

// The longest prefix of each dim's axes that divides its size. `keep_sub_axes`: else only whole
// axes. True if any had more.
bool KeepWhatDivides(AxisTable& table, Tensor& tensor, const Mesh* mesh, bool keep_sub_axes) {
  bool changed = false;
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    if (tensor.dims[d].axes.empty()) continue;
    int64_t left = tensor.shape->dim(static_cast<int64_t>(d));
    AxisList kept;
    for (AxisRef axis : tensor.dims[d].axes.list()) {
      const int64_t size = std::gcd(left, axis.size);
      const bool divides = size == axis.size;
      axis.size = size;
      const bool whole = axis.size == mesh->axes[static_cast<size_t>(axis.axis)].size;
      if (size > 1 && (keep_sub_axes || whole)) Append(kept, axis);
      left /= size;
      if (!divides || (!keep_sub_axes && !whole)) break;
    }
    const Axes fitting = table.Make(kept);
    changed |= fitting != tensor.dims[d].axes;
    tensor.dims[d].axes = fitting;
  }
  return changed;
}

class Mode {
 public:
  Mode(Module& module, const ModeOptions& options, PropagationFindings* findings,
       ExplainRecorder* recorder, const Mesh* mesh)
      : module_(module), options_(options), findings_(findings), recorder_(recorder), mesh_(mesh) {}

  bool Run() {
    bool changed = FollowConstraintChains(module_);
    // Text that cannot be read has been refused when it was imported.
    ShardyMeshes meshes;
    if (!ReadShardyMeshes(ShardyMeshesText(module_), meshes)) meshes.clear();
    graph_ = MakeGraph(module_, mesh_, meshes, options_.free_results);
    CloseBoundary();
    std::vector<Growth> growths;
    Propagate(graph_, recorder_ != nullptr ? &growths : nullptr);
    if (findings_ != nullptr) FindConflicts(graph_, module_, mesh_, *findings_);
    FitParameters();
    FitResults();
    for (Computation* computation : module_.computations()) {
      for (Instruction* x : computation->instructions()) changed |= SetSharding(*x);
    }
    changed |= SetRootSharding();
    if (recorder_ != nullptr) RecordGrowths(graph_, growths, module_, *recorder_);
    changed |= ReplaceMarkers(module_, findings_);
    changed |= DropShardingAttributes(module_);
    return changed;
  }

 private:
  void CloseBoundary() {
    // Flags are of parameters, or of the elements of the only one.
    const std::span<Instruction* const> parameters = module_.entry()->parameters();
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::span<const View> leaves = graph_.LeavesOf(*parameters[i]);
      for (size_t k = 0; k < leaves.size(); ++k) {
        Tensor& tensor = graph_.tensors[At(leaves[k].tensor)];
        given_.push_back(tensor.HasSharding());
        const size_t flag = parameters.size() == 1 ? k : i;
        if (!IsFree(options_.free_parameters, flag) && !tensor.HasSharding()) {
          Close(tensor, mesh_);
        }
      }
    }
  }

  // Arrays at the program's boundary are cut evenly.
  void FitParameters() {
    size_t leaf = 0;
    for (const Instruction* parameter : module_.entry()->parameters()) {
      bool any = false;
      for (const View& view : graph_.LeavesOf(*parameter)) {
        Tensor& tensor = graph_.tensors[At(view.tensor)];
        boundary_refused_ |= KeepWhatDivides(*graph_.axes, tensor, mesh_, given_[leaf++]);
        any |= tensor.HasSharding();
      }
      // The sharding of a tuple says {replicated} of elements without one.
      for (const View& view : graph_.LeavesOf(*parameter)) {
        if (any) graph_.tensors[At(view.tensor)].mesh = mesh_;
      }
    }
  }

  void FitResults() {
    const Instruction& root = *module_.entry()->root();
    const std::span<const View> leaves = graph_.LeavesOf(root);
    std::vector<uint8_t> is_result(graph_.tensors.size());
    for (const Operation& op : graph_.operations) {  // results are the first
      if (!op.is_result) break;
      is_result[At(op.results()[0].tensor)] = 1;
    }
    auto own = graph_.result_tensors.begin();  // in the order of leaves
    for (size_t i = 0; i < leaves.size(); ++i) {
      const bool annotated = own != graph_.result_tensors.end() && own->first == i;
      const int tensor = annotated ? (own++)->second : leaves[i].tensor;
      Tensor result = graph_.tensors[At(tensor)];  // with dims of its own
      result.dims = graph_.arena->NewSpan<Dim>(result.dims.size());
      std::ranges::copy(graph_.tensors[At(tensor)].dims, result.dims.begin());
      const bool stays = annotated || is_result[At(tensor)] != 0;
      if (!stays && !IsFree(options_.free_results, i)) {
        for (Dim& dim : result.dims) dim.axes = {};
      }
      boundary_refused_ |= KeepWhatDivides(*graph_.axes, result, mesh_, stays);
      results_.push_back(result);
    }
  }

  const Sharding* ShardingOfView(const Instruction& x, const View& view) const {
    const Tensor& tensor = graph_.tensors[At(view.tensor)];
    const AxisList* region = graph_.region[x.id()];
    if (!tensor.HasSharding() && region == nullptr) {
      return boundary_refused_ && tensor.shape->IsArray() ? module_.context().Replicated()
                                                          : nullptr;
    }
    return Made(tensor, view.inside, region);
  }

  // Of an element of a tuple {replicated} also stands for no sharding; this does not.
  const Sharding* SaidWhole(size_t rank) const {
    NamedSharding named;
    named.mesh = mesh_;
    named.sugar = !mesh_->name.empty();
    named.dims.resize(rank);
    Sharding whole;
    whole.named = module_.context().Intern(std::move(named));
    return module_.context().Intern(std::move(whole));
  }

  // Its sharding, made once for all tensors that are cut alike.
  const Sharding* Made(const Tensor& tensor, bool inside, const AxisList* region) const {
    key_.clear();
    for (const Dim& dim : tensor.dims) {
      const bool hides = inside && dim.manual > 0;
      key_.push_back(hides ? graph_.axes->Make(VisibleAxes(dim, {-1, true})).id() : dim.axes.id());
    }
    key_.push_back(tensor.unreduced.id());
    key_.push_back(region);
    if (last_ != nullptr && last_->first == key_) return last_->second;
    size_t hash = key_.size();
    for (const void* part : key_) hash = HashPointer(hash, part);
    const auto [first, last] = made_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (it->second.first != key_) continue;
      last_ = &it->second;
      return last_->second;
    }
    const Sharding* made = ShardingOf(module_.context(), graph_.annotations, tensor, inside,
                                      region != nullptr ? *region : AxisList(), mesh_);
    last_ = &made_.emplace(hash, std::pair(key_, made))->second;
    return made;
  }

  bool SetSharding(Instruction& x) const {
    const std::span<const View> leaves = graph_.LeavesOf(x);
    if (leaves.empty()) return false;
    const Sharding* before = x.sharding();
    if (before != nullptr && (before->IsMaximal() || before->IsManual())) return false;
    const Sharding* after = nullptr;
    if (x.shape()->IsTuple()) {
      bool any = false;
      std::vector<const Sharding*> parts;
      for (const View& view : leaves) {
        parts.push_back(ShardingOfView(x, view));
        any |= parts.back() != nullptr;
        if (parts.back() == nullptr) parts.back() = module_.context().Replicated();
        const Tensor& tensor = graph_.tensors[At(view.tensor)];
        if (boundary_refused_ && !tensor.HasSharding() && !tensor.dims.empty() &&
            graph_.region[x.id()] == nullptr) {
          parts.back() = SaidWhole(tensor.dims.size());
        }
      }
      if (any) after = module_.context().TupleOf(std::move(parts));
    } else {
      after = ShardingOfView(x, leaves[0]);
    }
    const bool marked = before != nullptr && before->group_kind != ShardGroupKind::kNone;
    if (after == nullptr || (SameSharding(before, after) && !marked)) return false;
    x.set_sharding(after);
    return true;
  }

  // The root's sharding is that of the results, which need not be that of the values.
  bool SetRootSharding() {
    Computation* entry = module_.entry();
    Instruction* root = entry->root();
    std::vector<const Sharding*> parts;
    bool any = false;
    for (const Tensor& result : results_) {
      any |= result.HasSharding();
      parts.push_back(Made(result, false, nullptr));
    }
    // Whoever lets propagation choose a result's sharding gets what was found, be it none.
    if (!any && root->sharding() == nullptr) return false;
    const Sharding* wanted =
        root->shape()->IsTuple() ? module_.context().TupleOf(std::move(parts)) : parts[0];
    if (SameSharding(root->sharding(), wanted)) return false;
    if (root->opcode() != Opcode::kTuple && root->opcode() != Opcode::kCustomCall) {
      Instruction* const operands[] = {root};
      Instruction* copy = module_.Add(entry, Opcode::kCopy, module_.UniqueName("result"),
                                      root->shape(), operands, NoAttributes{});
      copy->set_source(root->source());
      copy->set_metadata(root->metadata());
      entry->set_root(copy);
      root = copy;
    }
    root->set_sharding(wanted);
    return true;
  }

  Module& module_;
  const ModeOptions& options_;
  PropagationFindings* findings_;
  ExplainRecorder* recorder_;
  const Mesh* mesh_;
  Graph graph_;
  std::vector<bool> given_;      // by leaf of the parameters: has an annotation
  std::vector<Tensor> results_;  // by leaf of the root
  // Parameters or results have lost axes that do not divide their dims. What such axes have kept
  // from other values is then said of these, so that propagating again changes nothing.
  bool boundary_refused_ = false;
  // Shardings made so far, by all that they depend on: programs have few different ones.
  using MadeSharding = std::pair<std::vector<const void*>, const Sharding*>;
  mutable std::unordered_multimap<size_t, MadeSharding> made_;  // by hash
  mutable const MadeSharding* last_ = nullptr;                  // often that of the next one, too
  mutable std::vector<const void*> key_;
};

}  // namespace

bool SpeaksShardy(const Module& module) {
  return module.header().frontend_attributes.find("xla.sdy.meshes") != std::string_view::npos;
}

bool HasDerivedRegions(const Module& module) {
  const std::string_view header = module.header().frontend_attributes;
  if (header.find(kGradientsAttribute) == std::string_view::npos &&
      header.find(kPipelineAttribute) == std::string_view::npos) {
    return false;
  }
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (IsRegionMarker(*x)) return true;
    }
  }
  return false;
}

bool PropagateAsShardy(Module& module, const ModeOptions& options, PropagationFindings* findings,
                       ExplainRecorder* recorder) {
  const Mesh* mesh = MainMesh(module);
  if (mesh == nullptr) return ReplaceMarkers(module, findings);
  return Mode(module, options, findings, recorder, mesh).Run();
}

}  // namespace gshard::shardy
