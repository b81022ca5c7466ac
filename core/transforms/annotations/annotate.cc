// Rules over names -> shardings. See annotate.h.

#include "core/transforms/annotations/annotate.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <optional>

#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "core/analysis/near_names.h"
#include "core/transforms/annotations/instruction_names.h"
#include "core/transforms/annotations/resize_mesh.h"
#include "ir/attribute_names.h"
#include "ir/custom_call.h"
#include "ir/metadata.h"
#include "ir/parser_errors.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

std::string_view Trim(std::string_view text) {
  size_t begin = text.find_first_not_of(" \t\r\n");
  if (begin == std::string_view::npos) return {};
  return text.substr(begin, text.find_last_not_of(" \t\r\n") - begin + 1);
}

std::vector<std::string_view> Split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  for (size_t begin = 0;;) {
    size_t end = text.find(separator, begin);
    parts.push_back(Trim(text.substr(begin, end - begin)));
    if (end == std::string_view::npos) return parts;
    begin = end + 1;
  }
}

std::optional<int64_t> ParseInt(std::string_view text) {
  int64_t value = 0;
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// Says that it is about this line of a file of rules, all of it.
void PlaceAt(Diagnostic& diagnostic, const std::string& file, uint32_t line,
             std::string_view text) {
  constexpr size_t kMax = 160;
  diagnostic.file = file;
  diagnostic.line = line;
  diagnostic.column = 1;
  diagnostic.source_line.assign(text.substr(0, kMax));
  diagnostic.caret_length = static_cast<uint32_t>(diagnostic.source_line.size());
}

std::string RuleText(const AnnotationRule& rule) {
  return fmt::format("{}={}", rule.pattern, rule.spec);
}

// A rule's right-hand side, resolved as far as it can be without a shape.
struct Target {
  const Sharding* whole = nullptr;     // replicated, device:K, or sharding text
  std::vector<std::vector<int>> dims;  // mesh axes of each dim, major first
  std::vector<int64_t> open_dims;
  bool rest_is_whole = false;  // "..": of dims behind these, as a PartitionSpec leaves them out
};

class Annotator {
 public:
  Annotator(Module& module, const AnnotateOptions& options)
      : module_(module), ctx_(module.context()), options_(options) {
    if (options.mesh.empty()) {
      mesh_ = NamedMesh(module);
    } else {
      std::vector<int64_t> sizes;
      for (const MeshAxis& axis : options.mesh) sizes.push_back(axis.size);
      mesh_ = ctx_.Intern(Mesh{"mesh", options.mesh, TileAssignment::Iota(sizes), ""});
    }
    if (mesh_ != nullptr) devices_ = mesh_->device_count();
  }

  Expected<void> Run() {
    const bool changes_mesh = !options_.mesh.empty();
    if (changes_mesh) {
      if (Expected<void> resized = ResizeDeclaredMesh(); !resized) return resized;
    }
    for (const AnnotationRule& rule : options_.rules) {
      if (Expected<void> applied = Apply(rule); !applied) return applied;
    }
    if (changes_mesh) RecordMesh();
    return {};
  }

 private:
  static Diagnostic Note(std::string message) {
    Diagnostic note = MakeError("", std::move(message));
    note.severity = Severity::kNote;
    return note;
  }
  static tl::unexpected<Diagnostic> RuleError(const AnnotationRule& rule, std::string code,
                                              std::string message, std::string hint = "") {
    Diagnostic diagnostic = MakeError(std::move(code), std::move(message), std::move(hint));
    if (rule.line > 0) {
      PlaceAt(diagnostic, rule.where, rule.line, RuleText(rule));
    } else {
      diagnostic.notes.push_back(
          Note(fmt::format("in rule '{}' of {}", RuleText(rule), rule.where)));
    }
    return Fail(std::move(diagnostic));
  }

  Expected<Target> Resolve(const AnnotationRule& rule) {
    Target target;
    std::string_view spec = rule.spec;
    if (spec == "replicated") {
      target.whole = ctx_.Replicated();
      return target;
    }
    if (spec.substr(0, 7) == "device:") {
      std::optional<int64_t> device = ParseInt(spec.substr(7));
      if (!device || *device < 0) {
        return RuleError(rule, "E-ANNOTATE-003",
                         fmt::format("'{}' is no device number", spec.substr(7)));
      }
      target.whole = ctx_.Maximal(*device);
      return target;
    }
    if (!spec.empty() && spec[0] == '{') {
      std::vector<const Mesh*> meshes = module_.header().meshes;
      if (mesh_ != nullptr) meshes.push_back(mesh_);
      auto sharding = ParseSharding(ctx_, spec, meshes);
      if (!sharding) {
        return RuleError(
            rule, "E-ANNOTATE-004",
            fmt::format("{} (at '{}')", sharding.error().message,
                        spec.substr(std::min(sharding.error().offset, spec.size()), 20)));
      }
      target.whole = *sharding;
      return target;
    }
    std::vector<bool> used(mesh_ == nullptr ? 0 : mesh_->axes.size());
    for (std::string_view dim : Split(spec, ',')) {
      if (target.rest_is_whole) {
        return RuleError(rule, "E-ANNOTATE-003", "nothing follows '..', which is all other dims");
      }
      if (dim == "..") {
        target.rest_is_whole = true;
        continue;
      }
      target.dims.emplace_back();
      if (dim == "_") continue;
      if (dim == "*") {
        target.open_dims.push_back(static_cast<int64_t>(target.dims.size()) - 1);
        continue;
      }
      for (std::string_view name : Split(dim, '+')) {
        int axis = mesh_ == nullptr ? -1 : mesh_->FindAxis(name);
        if (axis < 0) {
          return RuleError(rule, "E-ANNOTATE-005", fmt::format("the mesh has no axis '{}'", name),
                           mesh_ == nullptr ? "name a mesh: --mesh data=4,model=2"
                                            : DidYouMean(name, mesh_->axes, &MeshAxis::name) +
                                                  "the mesh is " + MeshText(mesh_->axes));
        }
        if (used[static_cast<size_t>(axis)]) {
          return RuleError(rule, "E-ANNOTATE-006", fmt::format("axis '{}' is used twice", name));
        }
        used[static_cast<size_t>(axis)] = true;
        target.dims.back().push_back(axis);
      }
    }
    return target;
  }

  const Sharding* ShardingOf(const Target& target) {
    if (target.whole != nullptr) return target.whole;
    if (mesh_ == nullptr) return ctx_.Replicated();
    return ShardingByAxes(ctx_, *mesh_, target.dims);
  }

  tl::unexpected<Diagnostic> NothingMatches(const AnnotationRule& rule) const {
    return RuleError(
        rule, "E-ANNOTATE-001", "the pattern matches no instruction",
        WordMeantBy(module_, rule.pattern) +
            (HasOpNames()
                 ? "patterns match names, op_name paths and param:K; " + ParametersText() +
                       "`gshard-opt print` shows all names"
                 : "the text has no op_name paths, only names and param:K: print it from JAX "
                   "with as_text('hlo', debug_info=True)"));
  }

  Expected<void> Free(const AnnotationRule& rule, const std::vector<Instruction*>& matches) const {
    if (matches.empty()) return NothingMatches(rule);
    for (Instruction* x : matches) x->set_sharding(nullptr);
    return {};
  }

  Expected<void> Apply(const AnnotationRule& rule) {
    if (!names_) names_.emplace(module_);
    const Expected<std::vector<Instruction*>> found = names_->Matching(rule.pattern);
    if (!found) return RuleError(rule, found.error().code, found.error().message);
    const std::vector<Instruction*>& matches = *found;
    if (rule.spec == "free") return Free(rule, matches);
    Expected<Target> target = Resolve(rule);
    if (!target) return Fail(std::move(target.error()));
    const auto named = static_cast<int64_t>(target->dims.size());
    int64_t devices = mesh_ != nullptr ? devices_ : 0;

    if (matches.empty()) return NothingMatches(rule);
    for (Instruction* instruction : matches) {
      const Shape* shape = instruction->shape();
      if (target->rest_is_whole && shape->IsArray()) {
        target->dims.resize(static_cast<size_t>(std::max(named, shape->rank())));
      }
      const Sharding* sharding = ShardingOf(*target);
      std::string problem;
      if (target->whole == nullptr && !shape->IsArray()) {
        problem = fmt::format("{} has no dims to shard", ToString(shape, false));
      } else if (target->whole == nullptr &&
                 shape->rank() != static_cast<int64_t>(target->dims.size())) {
        problem = fmt::format("the rule names {} dims, {} has {}", named, ToString(shape, false),
                              shape->rank());
      } else if (!shape->IsTuple() || sharding->IsTuple()) {
        problem = WhyNotApplicable(sharding, shape, devices);
      }
      if (!problem.empty()) {
        Diagnostic diagnostic =
            module_.ErrorAt(instruction, "E-ANNOTATE-007",
                            fmt::format("'{}={}' does not fit {}: {}", rule.pattern, rule.spec,
                                        instruction->name(), problem));
        const bool is_short = target->whole == nullptr && shape->IsArray() && named < shape->rank();
        diagnostic.hint = is_short ? "'..' at the end stands for the other dims; or " : "";
        diagnostic.hint += fmt::format("narrow the pattern; it matches {} instruction{}",
                                       matches.size(), matches.size() == 1 ? "" : "s");
        if (rule.line > 0) {
          Diagnostic note = Note("the rule stands here");
          PlaceAt(note, rule.where, rule.line, RuleText(rule));
          diagnostic.notes.push_back(std::move(note));
        }
        return Fail(std::move(diagnostic));
      }
      instruction->set_sharding(shape->IsTuple() && !sharding->IsTuple()
                                    ? ctx_.TupleOf(LeafShardings(shape, sharding))
                                    : sharding);
      if (!target->open_dims.empty()) InsertOpenCall(instruction, sharding, target->open_dims);
    }
    return {};
  }

  // x -> Sharding(x) with the open dims listed, used by everything that used x.
  void InsertOpenCall(Instruction* x, const Sharding* sharding,
                      const std::vector<int64_t>& open_dims) {
    names_.reset();
    Computation* computation = x->parent();
    CustomCallAttributes attributes;
    attributes.target = kShardingTarget;
    Instruction* call = module_.Add(computation, Opcode::kCustomCall,
                                    module_.UniqueName(fmt::format("{}.open", x->name())),
                                    x->shape(), std::span<Instruction* const>(&x, 1), attributes);
    call->set_sharding(sharding);
    call->set_source(x->source());
    call->set_metadata(x->metadata());
    call->set_backend_config(module_.arena().Copy(
        std::string_view(fmt::format("\"unspecified_dims=[{}]\"", fmt::join(open_dims, ",")))));
    // The annotation itself lives on the call: the operand stays free to take more.
    x->set_sharding(nullptr);

    std::span<Instruction* const> old = computation->instructions();
    std::vector<Instruction*> list;
    for (Instruction* instruction : old.first(old.size() - 1)) {
      list.push_back(instruction);
      if (instruction == x) {
        list.push_back(call);
        continue;
      }
      for (int64_t i = 0; i < instruction->operand_count(); ++i) {
        if (instruction->operand(i) == x) instruction->set_operand(i, call);
      }
    }
    if (computation->root() == x) computation->set_root(call);
    computation->SetInstructions(std::move(list));
  }

  // A declared mesh with our axis names takes our sizes, and what was sharded over it follows.
  Expected<void> ResizeDeclaredMesh() {
    for (const Mesh* declared : std::vector(module_.header().meshes)) {
      if (declared->axes.size() != options_.mesh.size()) continue;
      bool same_names =
          std::equal(declared->axes.begin(), declared->axes.end(), options_.mesh.begin(),
                     [](const MeshAxis& a, const MeshAxis& b) { return a.name == b.name; });
      if (!same_names || declared->axes == options_.mesh) continue;
      if (!declared->device_ids_text.empty()) {
        return Fail(MakeError(
            "E-ANNOTATE-008",
            fmt::format("mesh '{}' fixes its device order and cannot be resized", declared->name),
            "drop device_ids from the module's meshes="));
      }
      const Mesh* resized = ctx_.Intern(
          Mesh{declared->name, options_.mesh, mesh_->devices, declared->device_ids_text});
      std::vector<int> axis_of(resized->axes.size());
      std::iota(axis_of.begin(), axis_of.end(), 0);
      auto done = ResizeMesh(module_, declared, resized, axis_of, {.only_named = true});
      if (!done) return done;
    }
    return {};
  }

  // "parameters are model.states[0][0], model.states[0][1], .., tokens; ": what JAX called them.
  std::string ParametersText() const {
    const std::span<Instruction* const> parameters = module_.entry()->parameters();
    std::vector<std::string> names;
    for (size_t i = 0; i < parameters.size(); ++i) {
      const std::string op_name = OpNameOf(*parameters[i]);
      if (i < 2 || i + 1 == parameters.size()) {
        names.push_back(op_name.empty() ? std::string(parameters[i]->name()) : op_name);
      } else if (i == 2) {
        names.emplace_back("..");
      }
    }
    return names.empty() ? "" : fmt::format("parameters are {}; ", fmt::join(names, ", "));
  }

  bool HasOpNames() const {
    return std::ranges::any_of(module_.computations(), [](const Computation* computation) {
      return std::ranges::any_of(computation->instructions(),
                                 [](const Instruction* x) { return !OpNameOf(*x).empty(); });
    });
  }

  void RecordMesh() {
    ModuleHeader& header = module_.header();
    header.num_partitions = devices_;
    std::string text = ToString(std::span<const Mesh* const>(&mesh_, 1));
    header.frontend_attributes =
        WithFrontendAttribute(module_.arena(), header.frontend_attributes, kMeshesAttribute, text);
  }

  Module& module_;
  std::optional<InstructionNames> names_;  // of the module as it is
  Context& ctx_;
  const AnnotateOptions& options_;
  const Mesh* mesh_ = nullptr;
  int64_t devices_ = 1;
};

}  // namespace

const Sharding* ShardingByAxes(Context& context, const Mesh& mesh,
                               std::span<const std::vector<int>> dims) {
  std::vector<int64_t> counts, order;
  int64_t used = 1;
  for (const std::vector<int>& axes : dims) {
    int64_t count = 1;
    for (int axis : axes) {
      count *= mesh.axes[static_cast<size_t>(axis)].size;
      order.push_back(axis);
    }
    counts.push_back(count);
    used *= count;
  }
  if (used == 1) return context.Replicated();
  for (size_t axis = 0; axis < mesh.axes.size(); ++axis) {
    if (std::find(order.begin(), order.end(), static_cast<int64_t>(axis)) == order.end()) {
      order.push_back(static_cast<int64_t>(axis));
    }
  }
  counts.push_back(mesh.device_count() / used);
  return context.Tiled(mesh.devices.Transpose(order).Reshape(counts), {SubgroupType::kReplicated});
}

Expected<std::vector<MeshAxis>> ParseMeshFlag(std::string_view text) {
  constexpr int64_t kMaxDevices = int64_t{1} << 20;
  std::vector<MeshAxis> axes;
  int64_t devices = 1;
  for (std::string_view part : Split(text, ',')) {
    size_t equals = part.find('=');
    std::optional<int64_t> size =
        equals == std::string_view::npos ? std::nullopt : ParseInt(Trim(part.substr(equals + 1)));
    std::string name(Trim(part.substr(0, equals)));
    if (!size || *size < 1 || name.empty()) {
      return Fail(MakeError("E-ANNOTATE-010", fmt::format("'{}' is no mesh axis", part),
                            "write axes as NAME=SIZE, major first: data=32,model=64"));
    }
    if (name.find_first_of("'\"{}[]()+*,:? ") != std::string::npos || name == "_") {
      return Fail(MakeError("E-ANNOTATE-010", fmt::format("'{}' cannot be an axis name", name)));
    }
    if (*size > kMaxDevices || devices > kMaxDevices / *size) {
      return Fail(
          MakeError("E-ANNOTATE-011", fmt::format("a mesh of over {} devices", kMaxDevices)));
    }
    devices *= *size;
    for (const MeshAxis& axis : axes) {
      if (axis.name == name) {
        return Fail(
            MakeError("E-ANNOTATE-010", fmt::format("mesh axis '{}' is named twice", name)));
      }
    }
    axes.push_back({std::move(name), *size});
  }
  return axes;
}

Expected<AnnotationRule> ParseAnnotationRule(std::string_view text, std::string where) {
  size_t equals = text.find("={");
  if (equals == std::string_view::npos) equals = text.rfind('=');
  if (equals == std::string_view::npos || equals == 0 || Trim(text.substr(equals + 1)).empty()) {
    return Fail(MakeError("E-ANNOTATE-012", fmt::format("'{}' is no annotation", text),
                          "write REGEX=SPEC, e.g. 'wi$=_,model'"));
  }
  return AnnotationRule{std::string(Trim(text.substr(0, equals))),
                        std::string(Trim(text.substr(equals + 1))), std::move(where), 0};
}

Expected<std::vector<AnnotationRule>> ParseRulesFile(std::string_view text,
                                                     const std::string& file_name) {
  std::vector<AnnotationRule> rules;
  uint32_t line_number = 0;
  for (std::string_view line : Split(text, '\n')) {
    ++line_number;
    if (line.empty() || line[0] == '#') continue;
    Expected<AnnotationRule> rule = ParseAnnotationRule(line, file_name);
    if (!rule) {
      PlaceAt(rule.error(), file_name, line_number, line);
      return Fail(std::move(rule.error()));
    }
    rule->line = line_number;
    rules.push_back(std::move(*rule));
  }
  return rules;
}

Expected<void> Annotate(Module& module, const AnnotateOptions& options) {
  return Annotator(module, options).Run();
}

}  // namespace gshard
