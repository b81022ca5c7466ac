#include "ir/sharding_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>

#include "ir/device_text.h"
#include "ir/named_sharding.h"

namespace gshard {
namespace {

constexpr std::array<std::pair<std::string_view, ShardingKind>, 5> kKindNames = {{
    {"replicated", ShardingKind::kReplicated},
    {"maximal", ShardingKind::kMaximal},
    {"manual", ShardingKind::kManual},
    {"unknown", ShardingKind::kUnknown},
    {"unreduced", ShardingKind::kUnreduced},
}};
constexpr std::array<std::pair<std::string_view, SubgroupType>, 4> kSubgroupNames = {{
    {"maximal", SubgroupType::kMaximal},
    {"manual", SubgroupType::kManual},
    {"unreduced", SubgroupType::kUnreduced},
    {"replicated", SubgroupType::kReplicated},
}};

template <typename T, size_t n>
std::optional<T> Find(const std::array<std::pair<std::string_view, T>, n>& names,
                      std::string_view name) {
  for (const auto& [text, value] : names) {
    if (text == name) return value;
  }
  return std::nullopt;
}

template <typename T, size_t n>
std::string_view NameOf(const std::array<std::pair<std::string_view, T>, n>& names, T value) {
  for (const auto& [text, candidate] : names) {
    if (candidate == value) return text;
  }
  return "";
}

class ShardingParser {
 public:
  ShardingParser(Context& ctx, std::string_view text, std::span<const Mesh* const> meshes)
      : ctx_(ctx), in_(text), meshes_(meshes) {}

  // Null on failure.
  const Sharding* Parse() {
    if (!in_.Expect('{', "'{'")) return nullptr;
    const char next = in_.lex.Peek();
    const Sharding* result = next == '{' || next == '}' ? ParseTuple() : ParseSingle();
    return result != nullptr && in_.ExpectEnd() ? result : nullptr;
  }
  const TextError& error() const { return in_.error(); }
  bool used_sugar() const { return used_sugar_; }

 private:
  // Both begin behind the opening brace and take the closing one.
  const Sharding* ParseTuple() {
    std::vector<const Sharding*> elements;
    if (!in_.lex.Consume('}')) {
      do {
        if (!in_.Expect('{', "'{' and the sharding of a tuple element")) return nullptr;
        if (const char next = in_.lex.Peek(); next == '{' || next == '}') {
          in_.FailHere("shardings of tuples do not nest: one entry per leaf is expected");
          return nullptr;
        }
        elements.push_back(ParseSingle());
        if (elements.back() == nullptr) return nullptr;
      } while (in_.lex.Consume(','));
      if (!in_.Expect('}', "',' or '}'")) return nullptr;
    }
    return ctx_.TupleOf(std::move(elements));
  }

  const Sharding* ParseSingle() {
    Sharding s;
    bool ok = false;
    if (in_.lex.Peek() == '@') {
      ok = ParseSugar(s);
    } else if (const char* start = in_.lex.position(); in_.lex.ConsumeWord("mesh")) {
      ok = ParseMesh(s);
    } else if (in_.lex.set_position(start); in_.lex.ConsumeWord("maximal_mesh")) {
      ok = ParseMaximalMesh(s);
    } else if (in_.lex.set_position(start); in_.lex.ConsumeWord("single_device")) {
      ok = ParseMaximalMesh(s);
    } else {
      in_.lex.set_position(start);
      ok = ParsePlain(s);
    }
    return ok ? ctx_.Intern(std::move(s)) : nullptr;
  }

  // --- {devices=.. last_tile_dims={..} shard_as 1 metadata={..}}

  struct PlainItems {
    bool has_kind = false;
    bool has_devices = false;
    bool has_subgroups = false;
    std::string_view device;  // text of "device=3"
    const char* tiles_begin = nullptr;
    const char* tiles_end = nullptr;
  };

  bool ParsePlain(Sharding& s) {
    in_.lex.SkipSpace();
    const char* start = in_.lex.position();
    PlainItems items;
    while (!in_.lex.Consume('}')) {
      if (!ParsePlainItem(s, items)) return false;
    }
    if (items.has_devices) return FinishTiled(s, items);
    if (!items.has_kind) {
      return in_.Fail(
          start, start,
          "expected replicated, maximal, manual, unknown, unreduced, devices= or mesh[");
    }
    if (items.has_subgroups) {
      return in_.Fail(start, start, "last_tile_dims and last_tile_dim_replicate need devices=");
    }
    if (s.IsMaximal() && items.device.empty())
      return in_.Fail(start, start, "maximal needs device=");
    if (!s.IsMaximal() && !items.device.empty()) {
      return in_.Fail(items.device, "device= is for maximal only");
    }
    return true;
  }

  bool ParsePlainItem(Sharding& s, PlainItems& items) {
    const std::string_view word = in_.lex.Identifier();
    if (word.empty()) {
      return in_.FailHere(in_.lex.AtEnd() ? "the sharding is not closed: expected '}'"
                                          : "expected an item of a sharding or '}'");
    }
    const auto once = [&](bool& seen) {
      return std::exchange(seen, true) ? in_.Fail(word, fmt::format("{} is given twice", word))
                                       : true;
    };
    if (const auto kind = Find(kKindNames, word)) {
      if (items.has_kind || items.has_devices) {
        return in_.Fail(word, "a sharding has one kind only");
      }
      items.has_kind = true;
      s.kind = *kind;
      return *kind != ShardingKind::kUnreduced || ParseReduction(s);
    }
    if (word == "devices") {
      if (items.has_kind) return in_.Fail(word, "a sharding has one kind only");
      return once(items.has_devices) && ParseDevices(s, items);
    }
    if (word == "device") {
      if (!items.device.empty()) return in_.Fail(word, "device is given twice");
      items.device = word;
      return in_.Expect('=', "'='") &&
             in_.Integer(s.device, 0, TileAssignment::kMaxDevices - 1, "a device number");
    }
    if (word == "last_tile_dim_replicate") {
      s.subgroups = {SubgroupType::kReplicated};
      return once(items.has_subgroups);
    }
    if (word == "last_tile_dims") return once(items.has_subgroups) && ParseSubgroups(s);
    if (word == "shard_as" || word == "shard_like") {
      if (s.group_kind != ShardGroupKind::kNone) return in_.Fail(word, "two shard groups");
      s.group_kind = word == "shard_as" ? ShardGroupKind::kShardAs : ShardGroupKind::kShardLike;
      return in_.Integer(s.group_id, 0, INT64_MAX, "the number of the shard group");
    }
    if (word == "metadata") {
      if (!s.metadata.empty()) return in_.Fail(word, "metadata is given twice");
      return ParseMetadata(s);
    }
    return in_.Fail(word, fmt::format("unknown item '{}' in a sharding", word));
  }

  bool ParseDevices(Sharding& s, PlainItems& items) {
    if (!in_.Expect('=', "'='")) return false;
    in_.lex.SkipSpace();
    items.tiles_begin = in_.lex.position();
    std::vector<int64_t> dims;
    if (!in_.Dims(dims, "the tile dims")) return false;
    int64_t devices = 1;
    for (int64_t dim : dims) devices *= dim;
    s.kind = ShardingKind::kTiled;
    if (in_.lex.Consume("<=")) {
      std::vector<int64_t> reshape_dims, permutation;
      if (!in_.IotaOrder(devices, reshape_dims, permutation)) return false;
      s.tiles = TileAssignment::Iota(dims, reshape_dims, permutation);
    } else {
      std::vector<int64_t> list;
      if (!HasClass(in_.lex.Peek(), kDigit) && in_.lex.Peek() != '-') {
        return in_.FailHere("expected '<=' or a list of devices");
      }
      if (!in_.DeviceList(devices, /*all=*/false, list)) return false;
      if (devices == 1) {
        return in_.Fail(items.tiles_begin, in_.lex.position(),
                        "one device is not tiled: write {replicated} or {maximal device=0}");
      }
      s.tiles = TileAssignment::List(dims, std::move(list));
      s.spelling = Spelling::kDeviceList;
    }
    items.tiles_end = in_.lex.position();
    return true;
  }

  bool FinishTiled(Sharding& s, const PlainItems& items) {
    if (!items.device.empty()) return in_.Fail(items.device, "device= is for maximal only");
    if (s.data_rank() < 0) {
      return in_.Fail(items.tiles_begin, items.tiles_end,
                      fmt::format("{} types of last tile dims for {} tile dims", s.subgroups.size(),
                                  s.tiles.rank()));
    }
    return true;
  }

  bool ParseSubgroups(Sharding& s) {
    if (!in_.Expect('=', "'='") || !in_.Expect('{', "'{'")) return false;
    if (in_.lex.Consume('}')) return true;
    do {
      const std::string_view word = in_.lex.Identifier();
      const auto type = Find(kSubgroupNames, word);
      if (!type) {
        return word.empty() ? in_.FailHere("expected manual, unreduced or replicated")
                            : in_.Fail(word, fmt::format("unknown type '{}' of a tile dim", word));
      }
      s.subgroups.push_back(*type);
      if (*type == SubgroupType::kUnreduced && !ParseReduction(s)) return false;
    } while (in_.lex.Consume(','));
    return in_.Expect('}', "',' or '}'");
  }

  // "=max", "=min" or nothing. Mesh forms have the braces of the axes behind it.
  bool ParseReduction(Sharding& s) {
    if (!in_.lex.Consume('=')) return true;
    if (auto reduction = ReductionWord()) {
      s.reduction = *reduction;
      return true;
    }
    return in_.FailHere("expected max or min");
  }
  std::optional<ReductionKind> ReductionWord() {
    if (in_.lex.ConsumeWord("max")) return ReductionKind::kMax;
    if (in_.lex.ConsumeWord("min")) return ReductionKind::kMin;
    return std::nullopt;
  }

  bool ParseMetadata(Sharding& s) {
    if (!in_.Expect('=', "'='")) return false;
    const std::string_view body = in_.lex.Balanced();
    if (body.empty() || body.front() != '{') return in_.FailHere("expected the metadata in braces");
    s.metadata = body;
    return true;
  }

  // --- {mesh['a'=2], [{'a'}, {}], manual={..}, metadata={..}} and {@pod, ..}

  bool ParseMesh(Sharding& s) {
    Mesh mesh;
    if (!in_.MeshBody(mesh)) return false;
    NamedSharding named;
    named.mesh = ctx_.Intern(std::move(mesh));
    return ParseNamed(s, std::move(named));
  }

  bool ParseSugar(Sharding& s) {
    used_sugar_ = true;
    in_.lex.Advance();
    const std::string_view name = in_.lex.Identifier();
    if (name.empty()) return in_.FailHere("expected the name of a mesh");
    NamedSharding named;
    named.sugar = true;
    std::string known;
    for (const Mesh* mesh : meshes_) {
      if (mesh->name == name) named.mesh = mesh;
      known += fmt::format("{}{}", known.empty() ? "" : ", ", mesh->name);
    }
    if (named.mesh == nullptr) {
      return in_.Fail(
          name, known.empty()
                    ? fmt::format("no mesh '{}': the module declares none (meshes={{..}})", name)
                    : fmt::format("no mesh '{}'; the module declares {}", name, known));
    }
    return ParseNamed(s, std::move(named));
  }

  // {maximal_mesh[device_id=3]}; newer text has single_device for the first word.
  bool ParseMaximalMesh(Sharding& s) {
    NamedSharding named;
    named.form = NamedSharding::Form::kMaximal;
    int64_t device = 0;
    if (!in_.Expect('[', "'['")) return false;
    if (!in_.lex.ConsumeWord("device_id")) return in_.FailHere("expected device_id=");
    if (!in_.Expect('=', "'='") ||
        !in_.Integer(device, 0, TileAssignment::kMaxDevices - 1, "a device number") ||
        !in_.Expect(']', "']'")) {
      return false;
    }
    std::vector<AxisRef> used;
    return ParseNamedItems(s, named, used) && FinishNamed(s, std::move(named), device);
  }

  bool ParseNamed(Sharding& s, NamedSharding named) {
    // XLA also takes the dims, and the word that stands for them, without a comma before.
    const char next = in_.lex.Peek();
    if (next != '[' && !HasClass(next, kNameStart) &&
        !in_.Expect(',', "',' and the axes of each dim in [..], or replicated")) {
      return false;
    }
    std::vector<AxisRef> used;
    int64_t device = 0;
    if (in_.lex.Consume('[')) {
      if (!in_.lex.Consume(']')) {
        do {
          NamedSharding::Dim& dim = named.dims.emplace_back();
          if (!in_.AxisList(*named.mesh, dim.axes, used, &dim.open)) return false;
        } while (in_.lex.Consume(','));
        if (!in_.Expect(']', "',' or ']'")) return false;
      }
    } else {
      const std::string_view word = in_.lex.Identifier();
      const auto kind = Find(kKindNames, word);
      if (kind == ShardingKind::kReplicated) {
        named.form = NamedSharding::Form::kReplicated;
      } else if (kind == ShardingKind::kManual) {
        named.form = NamedSharding::Form::kManual;
      } else if (kind == ShardingKind::kUnreduced) {
        named.form = NamedSharding::Form::kUnreduced;
      } else if (kind == ShardingKind::kMaximal && named.sugar) {
        named.form = NamedSharding::Form::kMaximal;
        if (!in_.lex.ConsumeWord("device")) return in_.FailHere("expected device=");
        if (!in_.Expect('=', "'='") ||
            !in_.Integer(device, 0, TileAssignment::kMaxDevices - 1, "a device number")) {
          return false;
        }
      } else {
        const std::string expected =
            "expected [ and the axes of each dim, replicated, manual or unreduced";
        return word.empty() ? in_.FailHere(expected) : in_.Fail(word, expected);
      }
    }
    return ParseNamedItems(s, named, used) && FinishNamed(s, std::move(named), device);
  }

  // ", replicated={..}, metadata={..}}"
  bool ParseNamedItems(Sharding& s, NamedSharding& named, std::vector<AxisRef>& used) {
    bool has_replicated = false, has_unreduced = false, has_manual = false;
    while (!in_.lex.Consume('}')) {
      if (!in_.Expect(',', "',' or '}'")) return false;
      const std::string_view word = in_.lex.Identifier();
      if (word.empty())
        return in_.FailHere("expected replicated=, unreduced=, manual= or metadata=");
      if (word == "metadata") {
        if (!s.metadata.empty()) return in_.Fail(word, "metadata is given twice");
        if (!ParseMetadata(s)) return false;
        continue;
      }
      std::vector<AxisRef>* refs = nullptr;
      bool* seen = nullptr;
      if (word == "replicated") {
        refs = &named.replicated;
        seen = &has_replicated;
      } else if (word == "unreduced") {
        refs = &named.unreduced;
        seen = &has_unreduced;
      } else if (word == "manual") {
        refs = &named.manual;
        seen = &has_manual;
      } else {
        return in_.Fail(word, fmt::format("unknown item '{}' in a mesh sharding", word));
      }
      if (named.form != NamedSharding::Form::kDims) {
        return in_.Fail(word, fmt::format("{}= needs the axes of each dim in [..]", word));
      }
      if (std::exchange(*seen, true)) return in_.Fail(word, fmt::format("{} is given twice", word));
      if (!in_.Expect('=', "'='")) return false;
      if (word == "unreduced") {
        if (const auto reduction = ReductionWord()) named.reduction = *reduction;
      }
      if (!in_.AxisList(*named.mesh, *refs, used, nullptr)) return false;
    }
    return true;
  }

  bool FinishNamed(Sharding& s, NamedSharding named, int64_t device) {
    Canonicalise(named);
    std::string metadata = std::move(s.metadata);
    s = ShardingOf(named, device);
    s.metadata = std::move(metadata);
    s.named = ctx_.Intern(std::move(named));
    return true;
  }

  Context& ctx_;
  DeviceTextReader in_;
  std::span<const Mesh* const> meshes_;
  bool used_sugar_ = false;
};

// --- printing

void AppendReduction(std::string& out, ReductionKind reduction, bool equals) {
  if (reduction == ReductionKind::kSum) return;
  if (equals) out += '=';
  out += reduction == ReductionKind::kMax ? "max" : "min";
}

void AppendNamed(std::string& out, const Sharding* s, const ShardingPrintOptions& options) {
  const NamedSharding& named = *s->named;
  if (named.mesh == nullptr) {
    out += fmt::format("maximal_mesh[device_id={}]", s->device);
  } else {
    if (named.sugar && options.keep_sugar) {
      out += '@';
      out += named.mesh->name;
    } else {
      out += "mesh";
      AppendMeshBody(out, *named.mesh);
    }
    out += ", ";
    switch (named.form) {
      case NamedSharding::Form::kReplicated:
        out += "replicated";
        break;
      case NamedSharding::Form::kManual:
        out += "manual";
        break;
      case NamedSharding::Form::kUnreduced:
        out += "unreduced";
        break;
      case NamedSharding::Form::kMaximal:
        out += fmt::format("maximal device={}", s->device);
        break;
      case NamedSharding::Form::kDims: {
        out += '[';
        for (size_t i = 0; i < named.dims.size(); ++i) {
          if (i > 0) out += ", ";
          AppendAxes(out, *named.mesh, named.dims[i].axes, ", ", named.dims[i].open);
        }
        out += ']';
        const auto append_set = [&](std::string_view name, const std::vector<AxisRef>& refs) {
          if (refs.empty()) return;
          out += name;
          if (&refs == &named.unreduced) AppendReduction(out, named.reduction, false);
          AppendAxes(out, *named.mesh, refs, ", ");
        };
        append_set(", replicated=", named.replicated);
        append_set(", unreduced=", named.unreduced);
        append_set(", manual=", named.manual);
        break;
      }
    }
  }
  if (options.metadata && !s->metadata.empty()) {
    out += ", metadata=";
    out += s->metadata;
  }
}

void AppendPlain(std::string& out, const Sharding* s, const ShardingPrintOptions& options) {
  if (s->IsTiled()) {
    out += "devices=";
    out += s->tiles.ToString(s->spelling == Spelling::kDeviceList);
    if (s->subgroups.size() == 1 && s->IsPartiallyReplicated()) {
      out += " last_tile_dim_replicate";
    } else if (!s->subgroups.empty()) {
      out += " last_tile_dims={";
      for (size_t i = 0; i < s->subgroups.size(); ++i) {
        if (i > 0) out += ", ";
        out += NameOf(kSubgroupNames, s->subgroups[i]);
        if (s->subgroups[i] == SubgroupType::kUnreduced) AppendReduction(out, s->reduction, true);
      }
      out += '}';
    }
  } else {
    out += NameOf(kKindNames, s->kind);
    if (s->IsUnreduced()) AppendReduction(out, s->reduction, true);
    if (s->IsMaximal()) out += fmt::format(" device={}", s->device);
  }
  if (s->group_kind != ShardGroupKind::kNone) {
    out += s->group_kind == ShardGroupKind::kShardAs ? " shard_as " : " shard_like ";
    AppendInteger(out, s->group_id);
  }
  if (options.metadata && !s->metadata.empty()) {
    out += " metadata=";
    out += s->metadata;
  }
}

// Sugar for what needs no mesh ({@pod, replicated}) expands to the plain form, and the mesh form
// cannot carry a shard group.
bool PrintsNamed(const Sharding* s, const ShardingPrintOptions& options) {
  if (options.tiles || s->named == nullptr || s->group_kind != ShardGroupKind::kNone) return false;
  return !s->named->sugar || options.keep_sugar || s->named->form == NamedSharding::Form::kDims;
}

}  // namespace

tl::expected<const Sharding*, TextError> ParseSharding(Context& ctx, std::string_view text,
                                                       std::span<const Mesh* const> meshes) {
  if (const Sharding* known = ctx.FindShardingText(text)) return known;
  ShardingParser parser(ctx, text, meshes);
  const Sharding* sharding = parser.Parse();
  if (sharding == nullptr) return tl::unexpected<TextError>(parser.error());
  if (!parser.used_sugar()) ctx.RememberShardingText(text, sharding);
  return sharding;
}

tl::expected<std::vector<const Mesh*>, TextError> ParseMeshes(Context& ctx, std::string_view text) {
  DeviceTextReader in(text);
  std::vector<Mesh> meshes;
  const auto parse = [&] {
    if (!in.Expect('{', "'{'")) return false;
    if (in.lex.Consume('}')) return in.ExpectEnd();
    do {
      const std::string_view name = in.lex.Identifier();
      if (name.empty()) return in.FailHere("expected the name of a mesh");
      const auto same_name = [name](const Mesh& mesh) { return mesh.name == name; };
      if (std::ranges::any_of(meshes, same_name)) {
        return in.Fail(name, fmt::format("two meshes '{}'", name));
      }
      if (!in.Expect('=', "'='")) return false;
      Mesh& mesh = meshes.emplace_back();
      mesh.name = name;
      if (!in.MeshBody(mesh)) return false;
    } while (in.lex.Consume(','));
    return in.Expect('}', "',' or '}'") && in.ExpectEnd();
  };
  if (!parse()) return tl::unexpected<TextError>(in.error());
  std::vector<const Mesh*> interned;
  for (Mesh& mesh : meshes) interned.push_back(ctx.Intern(std::move(mesh)));
  return interned;
}

std::string ToString(std::span<const Mesh* const> meshes) {
  std::string out = "{";
  for (size_t i = 0; i < meshes.size(); ++i) {
    if (i > 0) out += ", ";
    out += meshes[i]->name;
    out += '=';
    AppendMeshBody(out, *meshes[i]);
  }
  out += '}';
  return out;
}

void AppendSharding(std::string& out, const Sharding* s, const ShardingPrintOptions& options) {
  out += '{';
  if (s->IsTuple()) {
    for (size_t i = 0; i < s->elements.size(); ++i) {
      if (i > 0) out += ", ";
      if (i > 0 && i % 5 == 0) out += fmt::format("/*index={}*/", i);
      AppendSharding(out, s->elements[i], options);
    }
  } else if (PrintsNamed(s, options)) {
    AppendNamed(out, s, options);
  } else {
    AppendPlain(out, s, options);
  }
  out += '}';
}

std::string ToString(const Sharding* s, const ShardingPrintOptions& options) {
  std::string out;
  AppendSharding(out, s, options);
  return out;
}

}  // namespace gshard
