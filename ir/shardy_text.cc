#include "ir/shardy_text.h"

#include <algorithm>
#include <charconv>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "ir/device_text.h"
#include "ir/lexer.h"

namespace gshard {
namespace {

// Walks MLIR attribute text and keeps the first error.
class Cursor {
 public:
  explicit Cursor(std::string_view text) : whole_(text), text_(text) {}
  void SkipSpace() {
    while (!text_.empty() && (text_[0] == ' ' || text_[0] == '\n' || text_[0] == '\t')) {
      text_.remove_prefix(1);
    }
  }
  bool Eat(std::string_view token) {
    SkipSpace();
    if (!text_.starts_with(token)) return false;
    text_.remove_prefix(token.size());
    return true;
  }
  bool Expect(std::string_view token) {
    return Eat(token) || FailHere(fmt::format("'{}' is expected here", token));
  }
  bool AtEnd() {
    SkipSpace();
    return text_.empty() || FailHere("there is more than a sharding");
  }
  std::string_view Word() {
    SkipSpace();
    size_t n = 0;
    while (n < text_.size() && HasClass(text_[n], kNameContinue)) ++n;
    return Take(n);
  }
  std::string_view Number() {
    SkipSpace();
    size_t n = 0;
    while (n < text_.size() && HasClass(text_[n], kDigit)) ++n;
    if (n == 0) FailHere("a number is expected here");
    return Take(n);
  }
  // "name" with its quotes taken off.
  bool QuotedName(std::string_view& name) {
    if (!Eat("\"")) return FailHere("the name of an axis in quotes is expected here");
    const size_t end = text_.find('"');
    if (end == std::string_view::npos) return FailHere("this name is not closed");
    name = Take(end);
    text_.remove_prefix(1);
    return true;
  }
  // Up to `close`, which is eaten.
  bool Until(char close, std::string_view& inner) {
    const size_t end = text_.find(close);
    if (end == std::string_view::npos) return FailHere(fmt::format("no '{}' follows", close));
    inner = Take(end);
    text_.remove_prefix(1);
    return true;
  }

  bool FailHere(std::string message) {
    SkipSpace();
    return Fail(text_.substr(0, 1), std::move(message));
  }
  // `part` is a view into the text. Always false.
  bool Fail(std::string_view part, std::string message) {
    if (!error_.message.empty()) return false;
    error_ = {static_cast<size_t>(part.data() - whole_.data()), part.size(), std::move(message)};
    return false;
  }
  const TextError& error() const { return error_; }

 private:
  std::string_view Take(size_t n) {
    const std::string_view taken = text_.substr(0, n);
    text_.remove_prefix(n);
    return taken;
  }

  std::string_view whole_, text_;
  TextError error_;
};

bool Finished(const Cursor& c, bool ok, TextError* error) {
  if (!ok && error != nullptr) *error = c.error();
  return ok;
}

// After "mesh<": `["a"=2, "b"=4], device_ids=[..]>`.
bool ReadMesh(Cursor& c, ShardyMesh& mesh) {
  if (!c.Expect("[")) return false;
  std::string axes;
  std::string_view name;
  while (!c.Eat("]")) {
    if (!c.QuotedName(name) || !c.Expect("=")) return false;
    const std::string_view size = c.Number();
    if (size.empty()) return false;
    axes += fmt::format("{}'{}'={}", axes.empty() ? "" : ",", name, size);
    c.Eat(",");
  }
  mesh.has_axes = !axes.empty();
  mesh.text = fmt::format("mesh[{}]", axes);
  if (c.Eat(",")) {
    std::string_view ids;
    if (!c.Expect("device_ids") || !c.Expect("=") || !c.Expect("[") || !c.Until(']', ids)) {
      return false;
    }
    mesh.text += fmt::format(", device_ids=({})", ids);
    if (!mesh.has_axes) {
      mesh.single_device = 0;
      std::from_chars(ids.data(), ids.data() + ids.size(), mesh.single_device);
    }
  }
  return c.Expect(">");
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
      const std::string_view before = c.Number();
      if (before.empty() || !c.Expect(")")) return false;
      const std::string_view size = c.Number();
      if (size.empty()) return false;
      axis += fmt::format(":({}){}", before, size);
    }
    c.Eat(",");
  }
  return true;
}

bool ReadMeshReference(Cursor& c, const ShardyMeshes& meshes, ShardyMesh& mesh) {
  if (c.Eat("mesh<")) return ReadMesh(c, mesh);
  if (!c.Expect("@")) return false;
  std::string_view name;
  if (!c.Eat("\"")) {
    name = c.Word();
  } else if (!c.Until('"', name)) {
    return false;
  }
  const auto it = meshes.find(name);
  if (it != meshes.end()) {
    mesh = it->second;
    return true;
  }
  std::string known;
  for (const auto& [other, unused] : meshes) {
    known += fmt::format("{}@{}", known.empty() ? "" : ", ", other);
  }
  return c.Fail(name,
                known.empty()
                    ? fmt::format("no mesh is called @{}: the module declares none", name)
                    : fmt::format("no mesh is called @{}; the module declares {}", name, known));
}

// `replicated={..}`, `unreduced=max{..}`
bool ReadAxisSet(Cursor& c, ShardySharding& out) {
  auto& [key, axes] = out.other.emplace_back();
  const std::string_view word = c.Word();
  key = word;
  if (word != "replicated" && word != "unreduced") {
    if (word.empty()) return c.FailHere("replicated= or unreduced= is expected here");
    return c.Fail(word, fmt::format("'{}' is neither replicated= nor unreduced=", word));
  }
  if (!c.Expect("=")) return false;
  if (word == "unreduced" && !c.Eat("{")) {
    const std::string_view reduction = c.Word();
    if (reduction == "max" || reduction == "min") {
      key += fmt::format("={}", reduction);
    } else if (reduction != "sum") {
      return reduction.empty()
                 ? c.FailHere("'{', max or min is expected here")
                 : c.Fail(reduction, fmt::format("partial values are combined by sum, max or min, "
                                                 "not by '{}'",
                                                 reduction));
    }
    if (!c.Expect("{")) return false;
  } else if (word != "unreduced" && !c.Expect("{")) {
    return false;
  }
  bool open = false;
  return ReadAxes(c, axes, open);
}

// One `<@mesh, [{..}, {..}], replicated={..}>` without the angle bracket before it, up to `>`.
bool ReadSharding(Cursor& c, const ShardyMeshes& meshes, ShardySharding& out) {
  if (!ReadMeshReference(c, meshes, out.mesh) || !c.Expect(",") || !c.Expect("[")) return false;
  while (!c.Eat("]")) {
    if (!c.Expect("{")) return false;
    bool open = false;
    if (!ReadAxes(c, out.dims.emplace_back(), open)) return false;
    if (open) out.open_dims.push_back(static_cast<int64_t>(out.dims.size()) - 1);
    const std::string_view priority = c.Word();  // "p1"
    out.priorities.push_back(priority.empty() ? 0 : std::atoll(std::string(priority.substr(1)).c_str()));
    c.Eat(",");
  }
  while (c.Eat(",")) {
    if (!ReadAxisSet(c, out)) return false;
  }
  return c.Expect(">");
}

bool ReadMeshes(Cursor& c, ShardyMeshes& meshes) {
  if (!c.Expect("{")) return false;
  while (!c.Eat("}")) {
    const std::string name(c.Word());
    if (name.empty()) return c.FailHere("the name of a mesh is expected here");
    if (!c.Expect("=") || !c.Expect("#sdy.mesh<") || !ReadMesh(c, meshes[name])) return false;
    c.Eat(",");
  }
  return true;
}

bool ReadShardings(Cursor& c, const ShardyMeshes& meshes, std::vector<ShardySharding>& out) {
  if (c.Eat("#sdy.sharding<")) return ReadSharding(c, meshes, out.emplace_back()) && c.AtEnd();
  if (!c.Expect("#sdy.sharding_per_value<[")) return false;
  while (!c.Eat("]")) {
    c.Eat("#sdy.sharding");
    if (!c.Expect("<") || !ReadSharding(c, meshes, out.emplace_back())) return false;
    c.Eat(",");
  }
  return c.Expect(">") && c.AtEnd();
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

bool ReadShardyMeshes(std::string_view text, ShardyMeshes& meshes, TextError* error) {
  Cursor c(text);
  return Finished(c, ReadMeshes(c, meshes), error);
}

bool ReadShardyShardings(std::string_view text, const ShardyMeshes& meshes,
                         std::vector<ShardySharding>& out, TextError* error) {
  Cursor c(text);
  return Finished(c, ReadShardings(c, meshes, out), error);
}

bool ReadShardyManualAxes(std::string_view text, std::vector<std::string>& axes) {
  Cursor c(text);
  bool open = false;
  return c.Eat("#sdy<manual_axes{") && ReadAxes(c, axes, open) && c.Eat(">") && c.AtEnd();
}

std::string WithoutInnerNames(std::string_view text) {
  constexpr std::string_view kName = "#sdy.sharding";
  std::string result(text);
  for (size_t at = 1; (at = result.find("#sdy.sharding<", at)) != result.npos;) {
    result.erase(at, kName.size());
  }
  return result;
}

namespace {

std::vector<std::string> TextsOf(const Mesh& mesh, std::span<const AxisRef> refs) {
  std::vector<std::string> texts;
  for (const AxisRef& ref : refs) texts.push_back(ToString(mesh, ref));
  return texts;
}

}  // namespace

ShardySharding ShardyShardingOf(const NamedSharding& named, int64_t rank) {
  ShardySharding sharding;
  sharding.mesh.text = "mesh";
  AppendMeshBody(sharding.mesh.text, *named.mesh);
  sharding.mesh.has_axes = !named.mesh->axes.empty();
  sharding.dims.resize(static_cast<size_t>(rank));
  for (size_t d = 0; d < std::min(named.dims.size(), sharding.dims.size()); ++d) {
    sharding.dims[d] = TextsOf(*named.mesh, named.dims[d].axes);
    if (named.dims[d].open) sharding.open_dims.push_back(static_cast<int64_t>(d));
  }
  if (!named.replicated.empty()) {
    sharding.other.emplace_back("replicated", TextsOf(*named.mesh, named.replicated));
  }
  if (!named.unreduced.empty()) {
    const std::string_view key = named.reduction == ReductionKind::kMax   ? "unreduced=max"
                                 : named.reduction == ReductionKind::kMin ? "unreduced=min"
                                                                          : "unreduced";
    sharding.other.emplace_back(key, TextsOf(*named.mesh, named.unreduced));
  }
  return sharding;
}

std::vector<std::string> ManualAxesOf(const NamedSharding& named) {
  if (named.form != NamedSharding::Form::kManual) return TextsOf(*named.mesh, named.manual);
  std::vector<AxisRef> all;
  for (size_t i = 0; i < named.mesh->axes.size(); ++i) {
    all.push_back({static_cast<int>(i), 1, named.mesh->axes[i].size});
  }
  return TextsOf(*named.mesh, all);
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
    const std::string kept = Without(axes, manual);
    text += fmt::format(", {}{}{{{}}}", key, key.find('=') == key.npos ? "=" : "", kept);
  }
  if (!manual.empty()) text += fmt::format(", manual={{{}}}", fmt::join(manual, ", "));
  return text + "}";
}

}  // namespace gshard
