// See prepared_program.h.

#include "core/autoshard/prepared_program.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/analysis/axis_text.h"
#include "core/analysis/partitioned.h"
#include "core/propagation/shardy_import.h"
#include "core/transforms/annotations/remesh.h"
#include "core/transforms/annotations/strip_shardings.h"
#include "core/transforms/inline_calls.h"
#include "ir/printer.h"

namespace gshard::autoshard {
namespace {

Expected<void> CheckWhole(const Module& module) {
  if (!IsPartitioned(module)) return CheckInlinedSize(module);
  return Fail(MakeError("E-AUTO-002", "this is the program of one device already",
                        "give the text that was partitioned"));
}

// Takes the program's annotations to `mesh`; false, and it is to be thrown away, if they are for
// one with other axes.
Expected<bool> TakeToMesh(Module& module, const std::vector<MeshAxis>& mesh) {
  Expected<AnnotatedMesh> annotated = FindAnnotatedMesh(module);
  if (!annotated) return Fail(std::move(annotated.error()));
  if (annotated->mesh != nullptr && annotated->axes != mesh) {
    auto renamed = MeshAfterRenaming(annotated->axes, mesh);
    if (!renamed || *renamed != mesh || !Remesh(module, mesh, {})) return false;
    return true;
  }
  if (auto done = Annotate(module, {.mesh = mesh, .rules = {}}); !done) return Fail(done.error());
  return true;
}

// What the user annotated, and how.
std::vector<std::pair<const Instruction*, const Sharding*>> AnnotationsOf(const Module& module) {
  std::vector<std::pair<const Instruction*, const Sharding*>> annotations;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() == nullptr || IsDoneByFirstDevice(*x)) continue;
      annotations.emplace_back(x, x->sharding());
    }
  }
  return annotations;
}

Expected<std::string> TextOf(Module& module) {
  if (auto inlined = InlineCalls(module); !inlined) return Fail(std::move(inlined.error()));
  return PrintModule(module);
}

}  // namespace

std::string ShellWord(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

Expected<PreparedProgram> Prepare(std::unique_ptr<Module> module, const std::string& input,
                                  const AutoOptions& options) {
  if (auto imported = ImportShardyShardings(*module); !imported) return Fail(imported.error());
  if (auto whole = CheckWhole(*module); !whole) return Fail(std::move(whole.error()));
  PreparedProgram prepared;
  if (!AnnotationsOf(*module).empty()) {
    std::unique_ptr<Module> written = module->Clone();
    Expected<bool> done = TakeToMesh(*written, options.mesh);
    if (!done) return Fail(std::move(done.error()));
    if (*done) {
      auto text = TextOf(*written);
      if (!text) return Fail(std::move(text.error()));
      prepared.written = std::move(*text);
      Expected<AnnotatedMesh> own = FindAnnotatedMesh(*module);
      if (options.rules.empty() && own && own->mesh != nullptr && own->axes == options.mesh) {
        prepared.written_command =
            fmt::format("gshard-opt optimize {} --passes inline-calls", ShellWord(input));
      }
    }
  }
  std::string passes = "inline-calls";
  if (options.keep != Keep::kAll) {
    const bool all = options.keep == Keep::kNone;
    StripShardings(*module, all ? StrippedShardings::kAll : StrippedShardings::kInner);
    passes = all ? "strip-shardings,inline-calls" : "strip-inner-shardings,inline-calls";
  }
  Expected<AnnotatedMesh> own = FindAnnotatedMesh(*module);
  if (!own) return Fail(std::move(own.error()));
  const std::vector<MeshAxis> own_axes = own->axes;
  Expected<bool> done = TakeToMesh(*module, options.mesh);
  if (!done) return Fail(std::move(done.error()));
  if (!*done && options.keep == Keep::kNone) {
    return Fail(MakeError(
        "E-AUTO-003",
        fmt::format("the regions of shard_map are written for another mesh than {}, and stay",
                    MeshText(options.mesh)),
        "--mesh " + MeshText(own_axes) + " is theirs"));
  }
  if (!*done) {
    return Fail(MakeError(
        "E-AUTO-003",
        fmt::format("annotations that stay are for another mesh than {}", MeshText(options.mesh)),
        "--keep none takes them away, or name the mesh's own axes"));
  }
  if (auto inlined = InlineCalls(*module); !inlined) return Fail(std::move(inlined.error()));
  const auto kept = AnnotationsOf(*module);
  auto annotated = Annotate(*module, {.mesh = options.mesh, .rules = options.rules});
  if (!annotated) return Fail(std::move(annotated.error()));
  prepared.kept_annotations = std::ranges::count_if(
      kept, [](const auto& one) { return one.first->sharding() == one.second; });
  prepared.command =
      fmt::format("gshard-opt optimize {} --passes {} | gshard-opt annotate - --mesh {}",
                  ShellWord(input), passes, MeshText(options.mesh));
  for (const AnnotationRule& rule : options.rules) {
    prepared.command += " --shard " + ShellWord(rule.pattern + "=" + rule.spec);
  }
  prepared.text = PrintModule(*module);
  return prepared;
}

Expected<PreparedProgram> PrepareForOneDevice(std::unique_ptr<Module> module,
                                              const std::string& input,
                                              const AutoOptions& options) {
  if (auto imported = ImportShardyShardings(*module); !imported) return Fail(imported.error());
  if (auto whole = CheckWhole(*module); !whole) return Fail(std::move(whole.error()));
  std::string passes = "inline-calls";
  if (!AnnotationsOf(*module).empty()) {
    const bool all = options.keep == Keep::kNone;
    StripShardings(*module, all ? StrippedShardings::kAll : StrippedShardings::kInner);
    passes = all ? "strip-shardings,inline-calls" : "strip-inner-shardings,inline-calls";
    if (options.keep == Keep::kAll || !AnnotationsOf(*module).empty()) {
      return Fail(MakeError("E-AUTO-003", "annotations that stay are for more than one device",
                            "--keep none takes them away"));
    }
  }
  PreparedProgram prepared;
  auto text = TextOf(*module);
  if (!text) return Fail(std::move(text.error()));
  prepared.text = *std::move(text);
  prepared.command = fmt::format("gshard-opt optimize {} --passes {}", ShellWord(input), passes);
  return prepared;
}

}  // namespace gshard::autoshard
