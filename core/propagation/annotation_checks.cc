#include "core/propagation/annotation_checks.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "fmt/format.h"
#include "ir/device_subsets.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/shardy_text.h"

namespace gshard {
namespace {

// Compares each mesh with the first that has an axis of the same name.
class MeshSurvey {
 public:
  MeshSurvey(const Module& module, std::vector<Diagnostic>& warnings)
      : module_(module), warnings_(warnings) {}

  void Add(const Instruction* x, const Mesh* mesh) {
    if (!seen_.insert(mesh).second) return;
    for (const MeshAxis& axis : mesh->axes) {
      auto [first, fresh] = first_.try_emplace(axis.name, Use{x, mesh});
      if (fresh) continue;
      std::string difference = Difference(axis, *mesh, *first->second.mesh);
      if (difference.empty() || AreDeclared(*mesh, *first->second.mesh)) continue;
      const Instruction* other = first->second.instruction;
      warnings_.push_back(
          WarningAbout(module_, x, "W-PROP-002",
                       fmt::format("the mesh of '{}' does not match that of '{}': {}", x->name(),
                                   other->name(), difference),
                       other, fmt::format("'{}' is here", other->name())));
      return;
    }
  }

 private:
  // Meshes that the module declares by name (xla.sdy.meshes) differ because the user means it.
  bool AreDeclared(const Mesh& a, const Mesh& b) {
    if (!declared_.has_value()) {
      declared_.emplace();
      ShardyMeshes meshes;
      const std::string text =
          FrontendAttribute(module_.header().frontend_attributes, "xla.sdy.meshes");
      if (!ReadShardyMeshes(text, meshes)) return false;
      for (const auto& [name, mesh] : meshes) {
        const auto form = ParseSharding(module_.context(), "{" + mesh.text + ", []}");
        if (form.has_value() && (*form)->named != nullptr)
          declared_->push_back((*form)->named->mesh);
      }
    }
    const auto is_declared = [&](const Mesh& mesh) {
      return std::ranges::any_of(*declared_, [&](const Mesh* other) {
        return other != nullptr && other->axes == mesh.axes && other->devices == mesh.devices;
      });
    };
    return is_declared(a) && is_declared(b);
  }

  struct Use {
    const Instruction* instruction;
    const Mesh* mesh;
  };

  static std::string Difference(const MeshAxis& axis, const Mesh& mesh, const Mesh& first) {
    int64_t size = first.axes[static_cast<size_t>(first.FindAxis(axis.name))].size;
    if (size != axis.size) {
      return fmt::format("axis '{}' has size {}, not {}", axis.name, axis.size, size);
    }
    bool same_axes = mesh.axes == first.axes;
    if (same_axes && !(mesh.devices == first.devices)) {
      return "the same axes have the devices in another order";
    }
    return "";
  }

  const Module& module_;
  std::vector<Diagnostic>& warnings_;
  std::set<const Mesh*> seen_;
  std::optional<std::vector<const Mesh*>> declared_;
  std::map<std::string, Use> first_;  // by axis name
};

}  // namespace

Diagnostic NoteAt(const Module& module, const Instruction* x, std::string message) {
  Diagnostic note = module.ErrorAt(x, "", std::move(message));
  note.severity = Severity::kNote;
  return note;
}

Diagnostic WarningAbout(const Module& module, const Instruction* x, std::string code,
                        std::string message, const Instruction* other, std::string note) {
  Diagnostic warning = module.ErrorAt(x, std::move(code), std::move(message));
  warning.severity = Severity::kWarning;
  warning.notes.push_back(NoteAt(module, other, std::move(note)));
  return warning;
}

Expected<void> CheckAnnotations(const Module& module) {
  int64_t devices = 0;
  bool subsets = false;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() == nullptr) continue;
      if (devices == 0) {
        devices = module.DeviceCount();
        subsets = HasDeviceSubsets(module);
      }
      std::string why = WhyNotApplicable(*x, devices, subsets);
      if (why.empty()) continue;
      Diagnostic error = module.ErrorAt(
          x, "E-PROP-001", fmt::format("sharding of '{}' is impossible: {}", x->name(), why));
      if (WhyNotApplicable(*x, 0).empty()) {
        error.notes.push_back(module.WhyDeviceCount());
      }
      return Fail(std::move(error));
    }
  }
  return {};
}

void WarnOfDifferingMeshes(const Module& module, std::vector<Diagnostic>& warnings) {
  MeshSurvey survey(module, warnings);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      const Sharding* s = x->sharding();
      if (s == nullptr) continue;
      std::span<const Sharding* const> leaves = s->elements;
      if (!s->IsTuple()) leaves = {&s, 1};
      for (const Sharding* leaf : leaves) {
        if (leaf->named != nullptr && leaf->named->mesh != nullptr) {
          survey.Add(x, leaf->named->mesh);
        }
      }
    }
  }
}

}  // namespace gshard
