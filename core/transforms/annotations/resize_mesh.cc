// See resize_mesh.h.

#include "core/transforms/annotations/resize_mesh.h"

#include <fmt/format.h>

#include "ir/named_sharding.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

class MeshResizer {
 public:
  MeshResizer(Module& module, const Mesh* from, const Mesh* to, std::span<const int> axis_of,
              const ResizeMeshOptions& options)
      : module_(module),
        ctx_(module.context()),
        from_(from),
        to_(to),
        axis_of_(axis_of),
        options_(options) {}

  Expected<void> Run() {
    for (Computation* computation : module_.computations()) {
      for (Instruction* instruction : computation->instructions()) {
        if (instruction->sharding() == nullptr) continue;
        auto moved = Moved(instruction, instruction->sharding());
        if (!moved) return Fail(std::move(moved.error()));
        instruction->set_sharding(*moved);
      }
    }
    for (const Mesh*& declared : module_.header().meshes) {
      if (declared == from_) declared = to_;
    }
    module_.header().num_partitions = to_->device_count();
    return {};
  }

 private:
  Expected<const Sharding*> Moved(const Instruction* instruction, const Sharding* sharding) {
    if (sharding->IsTuple()) {
      std::vector<const Sharding*> leaves;
      for (const Sharding* leaf : sharding->elements) {
        Expected<const Sharding*> moved = Moved(instruction, leaf);
        if (!moved) return moved;
        leaves.push_back(*moved);
      }
      return ctx_.TupleOf(std::move(leaves));
    }
    const Sharding* spelled = sharding;
    if (!IsNamedBy(sharding)) {
      if (options_.only_named) return sharding;
      if (sharding->IsManual() || sharding->HasManualSubgroup()) return ManualError(instruction);
      if (!sharding->IsTiled()) return sharding;
      spelled = SpelledByMesh(ctx_, sharding, from_, /*sugar=*/false);
      if (spelled->named == nullptr) {
        return Fail(module_.ErrorAt(
            instruction, "E-ANNOTATE-013",
            fmt::format("{} follows no axes of the mesh {}", ToString(sharding), AxesOf(from_))));
      }
    }
    if (spelled->IsManual() || spelled->HasManualSubgroup()) return ManualError(instruction);
    return Renamed(instruction, spelled);
  }

  bool IsNamedBy(const Sharding* sharding) const {
    const Mesh* mesh = sharding->named == nullptr ? nullptr : sharding->named->mesh;
    return mesh != nullptr &&
           (mesh == from_ || (mesh->axes == from_->axes && mesh->devices == from_->devices));
  }

  Expected<const Sharding*> Renamed(const Instruction* instruction, const Sharding* spelled) {
    NamedSharding named = *spelled->named;
    named.mesh = to_;
    auto rename = [&](std::vector<AxisRef>& refs) {
      std::erase_if(
          refs, [&](const AxisRef& ref) { return axis_of_[static_cast<size_t>(ref.axis)] < 0; });
      for (AxisRef& ref : refs) {
        const auto index = static_cast<size_t>(ref.axis);
        if (ref.pre_size != 1 || ref.size != from_->axes[index].size) return false;
        ref.axis = axis_of_[index];
        ref.size = to_->axes[static_cast<size_t>(ref.axis)].size;
      }
      return true;
    };
    bool whole = rename(named.replicated) && rename(named.unreduced) && rename(named.manual);
    for (NamedSharding::Dim& dim : named.dims) whole = whole && rename(dim.axes);
    if (!whole) {
      return Fail(module_.ErrorAt(
          instruction, "E-ANNOTATE-009",
          fmt::format("{} is along a part of an axis of {}: it says nothing of other sizes",
                      ToString(spelled), AxesOf(from_))));
    }
    // Axes of `to` may come in another order.
    Canonicalise(named);
    Sharding moved = ShardingOf(named, spelled->device);
    moved.named = ctx_.Intern(std::move(named));
    moved.group_kind = spelled->group_kind;
    moved.group_id = spelled->group_id;
    moved.metadata = spelled->metadata;
    return ctx_.Intern(std::move(moved));
  }

  tl::unexpected<Diagnostic> ManualError(const Instruction* instruction) {
    Diagnostic error = module_.ErrorAt(
        instruction, "E-ANNOTATE-014",
        fmt::format("'{}' belongs to a manual region: its shapes are those of the mesh {}",
                    instruction->name(), AxesOf(from_)));
    error.hint = "print the program again for each mesh";
    return Fail(std::move(error));
  }

  static std::string AxesOf(const Mesh* mesh) {
    std::string text;
    for (const MeshAxis& axis : mesh->axes) {
      text += fmt::format("{}{}={}", text.empty() ? "" : ",", axis.name, axis.size);
    }
    return text;
  }

  Module& module_;
  Context& ctx_;
  const Mesh* from_;
  const Mesh* to_;
  std::span<const int> axis_of_;
  ResizeMeshOptions options_;
};

}  // namespace

Expected<void> ResizeMesh(Module& module, const Mesh* from, const Mesh* to,
                          std::span<const int> axis_of, const ResizeMeshOptions& options) {
  return MeshResizer(module, from, to, axis_of, options).Run();
}

}  // namespace gshard
