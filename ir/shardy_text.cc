#include "ir/shardy_text.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

#include "fmt/format.h"
#include "fmt/ranges.h"

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

// `{"a", "b":(2)4, ?}` after its brace: 'a' and 'b':(2)4, and whether it is open.
bool ReadAxes(Cursor& c, std::vector<std::string>& out, bool& open) {
  std::string_view name;
  while (!c.Eat("}")) {
    if (c.Eat("?")) {
      open = true;
      continue;
    }
    if (!c.QuotedName(name)) return false;
    std::string& axis = out.emplace_back(fmt::format("'{}'", name));
    if (c.Eat(":(")) {
      std::string_view pre = c.Word();
      if (!c.Eat(")")) return false;
      axis += fmt::format(":({}){}", pre, c.Word());
    }
    c.Eat(",");
  }
  return true;
}

// One `<@mesh, [{..}, {..}], replicated={..}>` without the angle bracket before it, up to `>`.
bool ReadSharding(Cursor& c, const ShardyMeshes& meshes, ShardySharding& out) {
  if (c.Eat("@")) {
    auto it = meshes.find(c.Word());
    if (it == meshes.end()) return false;
    out.mesh = it->second;
  } else if (!c.Eat("mesh<") || !ReadMesh(c, out.mesh)) {
    return false;
  }
  if (!c.Eat(",") || !c.Eat("[")) return false;
  while (!c.Eat("]")) {
    if (!c.Eat("{")) return false;
    bool open = false;
    if (!ReadAxes(c, out.dims.emplace_back(), open)) return false;
    if (open) out.open_dims.push_back(static_cast<int64_t>(out.dims.size()) - 1);
    c.Word();  // priority
    c.Eat(",");
  }
  while (c.Eat(",")) {
    auto& [key, axes] = out.other.emplace_back();
    key = c.Word();
    bool open = false;
    if (!c.Eat("=") || !c.Eat("{") || !ReadAxes(c, axes, open)) return false;
  }
  return c.Eat(">");
}

std::string Without(const std::vector<std::string>& axes, std::span<const std::string> dropped) {
  std::string text;
  for (const std::string& axis : axes) {
    if (std::find(dropped.begin(), dropped.end(), axis) != dropped.end()) continue;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", axis);
  }
  return text;
}

}  // namespace

bool ReadShardyMeshes(std::string_view text, ShardyMeshes& meshes) {
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

bool ReadShardyShardings(std::string_view text, const ShardyMeshes& meshes,
                         std::vector<ShardySharding>& out) {
  Cursor c(text);
  if (c.Eat("#sdy.sharding<")) return ReadSharding(c, meshes, out.emplace_back()) && c.AtEnd();
  if (!c.Eat("#sdy.sharding_per_value<[")) return false;
  while (!c.Eat("]")) {
    if (!c.Eat("<") || !ReadSharding(c, meshes, out.emplace_back())) return false;
    c.Eat(",");
  }
  return c.Eat(">") && c.AtEnd();
}

bool ReadShardyManualAxes(std::string_view text, std::vector<std::string>& axes) {
  Cursor c(text);
  bool open = false;
  return c.Eat("#sdy<manual_axes{") && ReadAxes(c, axes, open) && c.Eat(">") && c.AtEnd();
}

std::string MeshFormOf(const ShardySharding& sharding, std::span<const std::string> manual) {
  const ShardyMesh& mesh = sharding.mesh;
  if (mesh.single_device >= 0) return fmt::format("{{maximal device={}}}", mesh.single_device);
  if (!mesh.has_axes) return "{replicated}";
  std::string dims;
  for (const std::vector<std::string>& axes : sharding.dims) {
    dims += fmt::format("{}{{{}}}", dims.empty() ? "" : ", ", Without(axes, manual));
  }
  std::string text = fmt::format("{{{}, [{}]", mesh.text, dims);
  for (const auto& [key, axes] : sharding.other) {
    text += fmt::format(", {}={{{}}}", key, Without(axes, manual));
  }
  if (!manual.empty()) text += fmt::format(", manual={{{}}}", fmt::join(manual, ", "));
  return text + "}";
}

}  // namespace gshard
