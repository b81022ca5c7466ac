#include "core/propagation/shardy/shardy_mode.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <span>

#include "core/analysis/meshes.h"
#include "core/propagation/shardy/engine.h"
#include "core/propagation/shardy/explanation.h"
#include "core/propagation/shardy/markers.h"
#include "ir/attribute_names.h"
#include "ir/custom_call.h"
#include "ir/dims.h"

namespace gshard::shardy {
namespace {

void Close(Tensor& tensor, const Mesh* mesh) {
  tensor.mesh = mesh;
  for (Dim& dim : tensor.dims) dim.open = false;
}

// The longest prefix of each dim's axes that divides its size. `keep_sub_axes`: else only whole
// axes.
void KeepWhatDivides(Tensor& tensor, const Mesh* mesh, bool keep_sub_axes) {
  for (size_t d = 0; d < tensor.dims.size(); ++d) {
    int64_t left = tensor.shape->dim(static_cast<int64_t>(d));
    AxisList kept;
    for (AxisRef axis : tensor.dims[d].axes) {
      const int64_t size = std::gcd(left, axis.size);
      const bool divides = size == axis.size;
      axis.size = size;
      const bool whole = axis.size == mesh->axes[static_cast<size_t>(axis.axis)].size;
      if (size > 1 && (keep_sub_axes || whole)) Append(kept, axis);
      left /= size;
      if (!divides || (!keep_sub_axes && !whole)) break;
    }
    tensor.dims[d].axes = std::move(kept);
  }
}

class Mode {
 public:
  Mode(Module& module, const ModeOptions& options, ExplainRecorder* recorder, const Mesh* mesh)
      : module_(module), options_(options), recorder_(recorder), mesh_(mesh) {}

  bool Run() {
    bool changed = FollowConstraintChains(module_);
    // Text that cannot be read has been refused when it was imported.
    ShardyMeshes meshes;
    if (!ReadShardyMeshes(ShardyMeshesText(module_), meshes)) meshes.clear();
    graph_ = MakeGraph(module_, mesh_, meshes, options_.free_results);
    CloseBoundary();
    std::vector<Growth> growths;
    Propagate(graph_, recorder_ != nullptr ? &growths : nullptr);
    FitBoundary();
    for (Computation* computation : module_.computations()) {
      for (Instruction* x : computation->instructions()) changed |= SetSharding(*x);
    }
    changed |= SetRootSharding();
    if (recorder_ != nullptr) RecordGrowths(graph_, growths, module_, *recorder_);
    changed |= ReplaceMarkers(module_);
    return changed;
  }

 private:
  void CloseBoundary() {
    size_t leaf = 0;
    for (const Instruction* parameter : module_.entry()->parameters()) {
      for (const View& view : graph_.LeavesOf(*parameter)) {
        Tensor& tensor = graph_.tensors[At(view.tensor)];
        given_.push_back(tensor.HasSharding());
        if (!IsFree(options_.free_parameters, leaf++) && !tensor.HasSharding()) {
          Close(tensor, mesh_);
        }
      }
    }
  }

  // Arrays at the program's boundary are cut evenly.
  void FitBoundary() {
    size_t leaf = 0;
    for (const Instruction* parameter : module_.entry()->parameters()) {
      for (const View& view : graph_.LeavesOf(*parameter)) {
        KeepWhatDivides(graph_.tensors[At(view.tensor)], mesh_, given_[leaf++]);
      }
    }
    const Instruction& root = *module_.entry()->root();
    const std::span<const View> leaves = graph_.LeavesOf(root);
    for (size_t i = 0; i < leaves.size(); ++i) {
      const auto own = std::ranges::find(graph_.result_tensors, i, &std::pair<size_t, int>::first);
      const bool annotated = own != graph_.result_tensors.end();
      Tensor result = graph_.tensors[At(annotated ? own->second : leaves[i].tensor)];
      if (!annotated && !IsFree(options_.free_results, i) && !IsResult(leaves[i])) {
        for (Dim& dim : result.dims) dim.axes.clear();
      }
      KeepWhatDivides(result, mesh_, annotated || IsResult(leaves[i]));
      results_.push_back(std::move(result));
    }
  }
  bool IsResult(const View& view) const {
    for (const Operation& op : graph_.operations) {  // results are the first
      if (!op.is_result) return false;
      if (op.results[0].tensor == view.tensor) return true;
    }
    return false;
  }

  const Sharding* ShardingOfView(const Instruction& x, const View& view) const {
    const Tensor& tensor = graph_.tensors[At(view.tensor)];
    const AxisList* region = graph_.region[x.id()];
    if (!tensor.HasSharding() && region == nullptr) return nullptr;
    const Sharding*& made = made_[KeyOf(tensor, view.inside, region)];
    if (made == nullptr) {
      made = ShardingOf(module_.context(), tensor, view.inside,
                        region != nullptr ? *region : AxisList(), mesh_);
    }
    return made;
  }

  // All that a sharding depends on: programs have few different ones.
  static std::vector<int64_t> KeyOf(const Tensor& tensor, bool inside, const AxisList* region) {
    std::vector<int64_t> key;
    const auto add = [&](std::span<const AxisRef> axes) {
      key.push_back(-1);
      for (const AxisRef& axis : axes) {
        key.insert(key.end(), {axis.axis, axis.pre_size, axis.size});
      }
    };
    for (const Dim& dim : tensor.dims) add(std::span(dim.axes).subspan(inside ? At(dim.manual) : 0));
    key.push_back(-2);
    add(tensor.unreduced);
    if (region != nullptr) add(*region);
    return key;
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
      parts.push_back(ShardingOf(module_.context(), result, false, {}, mesh_));
    }
    if (!any) return false;
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
  ExplainRecorder* recorder_;
  const Mesh* mesh_;
  Graph graph_;
  std::vector<bool> given_;      // by leaf of the parameters: has an annotation
  std::vector<Tensor> results_;  // by leaf of the root
  mutable std::map<std::vector<int64_t>, const Sharding*> made_;
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

bool PropagateAsShardy(Module& module, const ModeOptions& options, ExplainRecorder* recorder) {
  const Mesh* mesh = MainMesh(module);
  if (mesh == nullptr) return ReplaceMarkers(module);
  return Mode(module, options, recorder, mesh).Run();
}

}  // namespace gshard::shardy
