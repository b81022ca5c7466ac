#include "core/propagation/shardy_import.h"

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "core/propagation/rules.h"
#include "fmt/format.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

// Walks MLIR attribute text.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : text_(text) {}
  void SkipSpace() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n')) text_.remove_prefix(1);
  }
  bool Eat(std::string_view token) {
    SkipSpace();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  bool AtEnd() {
    SkipSpace();
    return text_.empty();
  }
  std::string_view Word() {
    SkipSpace();
    size_t n = 0;
    while (n < text_.size() && (std::isalnum(static_cast<unsigned char>(text_[n])) != 0 ||
                                text_[n] == '_' || text_[n] == '.' || text_[n] == '-')) {
      ++n;
    }
    std::string_view word = text_.substr(0, n);
    text_.remove_prefix(n);
    return word;
  }
  // "name" with its quotes taken off.
  bool QuotedName(std::string_view& name) {
    if (!Eat("\"")) return false;
    size_t end = text_.find('"');
    if (end == std::string_view::npos) return false;
    name = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return true;
  }
  // Up to `close`, which is eaten.
  bool Until(char close, std::string_view& inner) {
    size_t end = text_.find(close);
    if (end == std::string_view::npos) return false;
    inner = text_.substr(0, end);
    text_.remove_prefix(end + 1);
    return true;
  }

 private:
  std::string_view text_;
};

// A mesh as the start of our mesh form: "mesh['a'=2,'b'=4], device_ids=(0,1)" and its device if it
// names just one.
struct ShardyMesh {
  std::string text;
  bool has_axes = false;
  int64_t single_device = -1;
};

// After "mesh<": `["a"=2, "b"=4], device_ids=[..]>`.
bool ReadMesh(Cursor& c, ShardyMesh& mesh) {
  if (!c.Eat("[")) return false;
  std::string axes;
  std::string_view name;
  while (!c.Eat("]")) {
    if (!c.QuotedName(name) || !c.Eat("=")) return false;
    axes += fmt::format("{}'{}'={}", axes.empty() ? "" : ",", name, c.Word());
    c.Eat(",");
  }
  mesh.has_axes = !axes.empty();
  mesh.text = fmt::format("mesh[{}]", axes);
  if (c.Eat(",")) {
    std::string_view ids;
    if (!c.Eat("device_ids") || !c.Eat("=") || !c.Eat("[") || !c.Until(']', ids)) return false;
    mesh.text += fmt::format(", device_ids=({})", ids);
    if (!mesh.has_axes) mesh.single_device = std::atoll(std::string(ids).c_str());
  }
  return c.Eat(">");
}

using Meshes = std::map<std::string, ShardyMesh, std::less<>>;

bool ReadMeshes(std::string_view text, Meshes& meshes) {
  Cursor c(text);
  if (!c.Eat("{")) return false;
  while (!c.Eat("}")) {
    std::string name(c.Word());
    if (name.empty() || !c.Eat("=") || !c.Eat("#sdy.mesh<")) return false;
    if (!ReadMesh(c, meshes[name])) return false;
    c.Eat(",");
  }
  return true;
}

// `{"a", "b":(2)4, ?}` after its brace, as `'a', 'b':(2)4`.
bool ReadAxes(Cursor& c, std::string& out) {
  std::string_view name;
  bool first = true;
  while (!c.Eat("}")) {
    if (c.Eat("?")) continue;
    if (!c.QuotedName(name)) return false;
    out += fmt::format("{}'{}'", first ? "" : ", ", name);
    first = false;
    if (c.Eat(":(")) {
      std::string_view pre = c.Word();
      if (!c.Eat(")")) return false;
      out += fmt::format(":({}){}", pre, c.Word());
    }
    c.Eat(",");
  }
  return true;
}

// One `<@mesh, [{..}, {..}], replicated={..}>` without the angle brackets around it, up to `>`.
bool ReadSharding(Cursor& c, const Meshes& meshes, std::string& out) {
  ShardyMesh inline_mesh;
  const ShardyMesh* mesh = &inline_mesh;
  if (c.Eat("@")) {
    auto it = meshes.find(c.Word());
    if (it == meshes.end()) return false;
    mesh = &it->second;
  } else if (!c.Eat("mesh<") || !ReadMesh(c, inline_mesh)) {
    return false;
  }
  if (!c.Eat(",") || !c.Eat("[")) return false;
  std::string dims;
  while (!c.Eat("]")) {
    if (!c.Eat("{")) return false;
    dims += dims.empty() ? "{" : ", {";
    if (!ReadAxes(c, dims)) return false;
    dims += "}";
    c.Word();  // priority
    c.Eat(",");
  }
  std::string rest;
  while (c.Eat(",")) {
    std::string_view key = c.Word();
    if (!c.Eat("=") || !c.Eat("{")) return false;
    rest += fmt::format(", {}={{", key);
    if (!ReadAxes(c, rest)) return false;
    rest += "}";
  }
  if (!c.Eat(">")) return false;
  if (mesh->single_device >= 0) {
    out = fmt::format("{{maximal device={}}}", mesh->single_device);
  } else if (!mesh->has_axes) {
    out = "{replicated}";
  } else {
    out = fmt::format("{{{}, [{}]{}}}", mesh->text, dims, rest);
  }
  return true;
}

// All shardings of an attribute, in our text form.
bool ReadAttribute(std::string_view text, const Meshes& meshes, std::vector<std::string>& out) {
  Cursor c(text);
  if (c.Eat("#sdy.sharding<")) {
    out.emplace_back();
    return ReadSharding(c, meshes, out.back()) && c.AtEnd();
  }
  if (!c.Eat("#sdy.sharding_per_value<[")) return false;
  while (!c.Eat("]")) {
    out.emplace_back();
    if (!c.Eat("<") || !ReadSharding(c, meshes, out.back())) return false;
    c.Eat(",");
  }
  return c.Eat(">") && c.AtEnd();
}

Expected<void> ImportInto(Module& module, Instruction* x, const Meshes& meshes) {
  std::string attribute = FrontendAttribute(x->frontend_attributes(), "xla.sdy.sharding");
  if (attribute.empty()) return {};
  std::vector<std::string> texts;
  auto fail = [&](const std::string& why) {
    return Fail(module.ErrorAt(x, "E-SDY-001",
                               fmt::format("cannot read the xla.sdy.sharding of '{}': {}",
                                           x->name(), why)));
  };
  if (!ReadAttribute(attribute, meshes, texts)) return fail(attribute);
  std::vector<const Sharding*> leaves;
  for (const std::string& text : texts) {
    tl::expected<const Sharding*, TextError> s = ParseSharding(module.context(), text);
    if (!s) return fail(s.error().message);
    leaves.push_back(*s);
  }
  if (leaves.empty()) return {};
  if (!x->shape()->IsTuple()) {
    x->set_sharding(leaves[0]);
  } else if (leaves.size() == 1) {
    x->set_sharding(module.context().TupleOf(LeafShardings(x->shape(), leaves[0])));
  } else if (static_cast<int64_t>(leaves.size()) == x->shape()->leaf_count()) {
    x->set_sharding(module.context().TupleOf(std::move(leaves)));
  } else {
    return fail(fmt::format("{} shardings for {} leaves", leaves.size(), x->shape()->leaf_count()));
  }
  return {};
}

}  // namespace

Expected<bool> ImportShardyShardings(Module& module) {
  Meshes meshes;
  std::string_view header = module.header().frontend_attributes;
  if (header.find("xla.sdy.meshes") != std::string_view::npos) {
    for (const auto& [key, value] : ParseFrontendAttributes(header)) {
      if (key != "xla.sdy.meshes") continue;
      std::string text = value.starts_with('"') ? Unquoted(value) : std::string(value);
      if (!ReadMeshes(text, meshes)) {
        return Fail(MakeError("E-SDY-002", "cannot read the module's xla.sdy.meshes: " + text));
      }
    }
  }
  bool changed = false;
  for (Computation* computation : module.computations()) {
    for (Instruction* x : computation->instructions()) {
      bool result = IsCustomCallTo(*x, "xla.sdy.FuncResultSharding");
      if (!result && x->frontend_attributes().find("xla.sdy.sharding") == std::string_view::npos) {
        continue;
      }
      if (x->sharding() == nullptr || result) {
        const Sharding* before = x->sharding();
        if (Expected<void> ok = ImportInto(module, x, meshes); !ok) return Fail(ok.error());
        changed = changed || x->sharding() != before;
      }
      if (!result) continue;
      CustomCallAttributes& attributes = x->mutable_attributes<CustomCallAttributes>();
      attributes.target = "Sharding";
      attributes.has_side_effect = false;
      if (x->sharding() == nullptr) x->set_sharding(module.context().Unknown());
      changed = true;
    }
  }
  return changed;
}

}  // namespace gshard
