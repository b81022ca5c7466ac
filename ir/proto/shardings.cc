#include "ir/proto/shardings.h"

#include <fmt/format.h>

#include "ir/metadata.h"
#include "ir/proto/texts.h"
#include "ir/proto/wire.h"
#include "ir/sharding_text.h"

namespace gshard::proto {
namespace {

// OpSharding.Type.
enum Type : int64_t { kReplicated, kMaximal, kTuple, kOther = 3, kManual, kUnknown, kUnreduced };

std::string Integers(const std::vector<int64_t>& values) {
  return fmt::format("{}", fmt::join(values, ","));
}

// The fields of one OpSharding.
struct ShardingProto {
  int64_t type = 0, group_id = 0, group_kind = 0;
  bool is_group = false, replicate_last = false, has_named = false;
  std::vector<int64_t> tiles, devices, last_dims, iota, permutation;
  std::vector<std::string_view> elements, metadata;
  std::string_view named;

  bool Read(std::string_view bytes) {
    FieldReader field(bytes);
    bool ok = true;
    while (ok && field.Next()) {
      switch (field.number()) {
        case 1:
          type = field.integer();
          break;
        case 3:
          ok = field.AppendTo(tiles);
          break;
        case 4:
          ok = field.AppendTo(devices);
          break;
        case 5:
          elements.push_back(field.bytes());
          break;
        case 6:
          replicate_last = field.boolean();
          break;
        case 7:
          metadata.push_back(field.bytes());
          break;
        case 8:
          ok = field.AppendTo(last_dims);
          break;
        case 9:
          ok = field.AppendTo(iota);
          break;
        case 10:
          ok = field.AppendTo(permutation);
          break;
        case 11:
          is_group = field.boolean();
          break;
        case 12:
          group_id = field.integer();
          break;
        case 13:
          group_kind = field.integer();
          break;
        case 14:
          named = field.bytes();
          has_named = true;
          break;
        default:
          break;
      }
    }
    return ok && field.ok();
  }
};

// Axis names of a mesh, and its text from the bracket on.
struct MeshText {
  std::vector<std::string> axes;
  std::vector<int64_t> device_ids;
  std::string text;
};

class ShardingPrinter {
 public:
  explicit ShardingPrinter(Errors& errors) : errors_(errors) {}

  bool Print(std::string_view bytes, int depth) {
    ShardingProto proto;
    if (!proto.Read(bytes)) return errors_.Damaged("a sharding");
    out_ += '{';
    if (proto.has_named) {
      if (!PrintNamed(proto.named)) return false;
    } else if (proto.type == kTuple) {
      if (depth > 0) return errors_.Fail(Error::kValue, "a tuple sharding within another");
      for (size_t i = 0; i < proto.elements.size(); ++i) {
        if (i > 0) out_ += ", ";
        if (!Print(proto.elements[i], depth + 1)) return false;
      }
    } else if (proto.type == kOther) {
      out_ += fmt::format("devices=[{}]", Integers(proto.tiles));
      if (!proto.iota.empty()) {
        out_ += fmt::format("<=[{}]", Integers(proto.iota));
        if (proto.iota.size() > 1) out_ += fmt::format("T({})", Integers(proto.permutation));
      } else {
        out_ += Integers(proto.devices);
      }
      if (proto.replicate_last) out_ += " last_tile_dim_replicate";
      if (!proto.last_dims.empty() && !AppendLastDims(proto.last_dims)) return false;
    } else if (!PrintPlain(proto.type, proto.devices)) {
      return false;
    }
    if (proto.is_group)
      out_ +=
          fmt::format(" {} {}", proto.group_kind == 1 ? "shard_like" : "shard_as", proto.group_id);
    if (!proto.metadata.empty() && !PrintMetadata(proto.metadata)) return false;
    out_ += '}';
    return true;
  }

  // "mesh['x'=2]" and "mesh['x'=2,'y'=2], device_ids=([2,2]T(1,0))".
  bool ReadMesh(std::string_view bytes, MeshText& mesh) {
    std::vector<int64_t> iota, permutation;
    mesh.text = "mesh[";
    FieldReader field(bytes);
    bool ok = true;
    while (ok && field.Next()) {
      if (field.number() == 1) {
        std::string name;
        int64_t size = 0;
        FieldReader axis(field.bytes());
        while (axis.Next()) {
          if (axis.number() == 1) name = axis.bytes();
          if (axis.number() == 2) size = axis.integer();
        }
        ok = axis.ok();
        const std::string quoted = Quoted(name);
        mesh.text += fmt::format("{}'{}'={}", mesh.axes.empty() ? "" : ",",
                                 quoted.substr(1, quoted.size() - 2), size);
        mesh.axes.push_back(std::move(name));
      } else if (field.number() == 2) {
        ok = field.AppendTo(mesh.device_ids);
      } else if (field.number() == 3) {
        FieldReader order(field.bytes());
        while (order.Next()) {
          if (order.number() == 1) ok = ok && order.AppendTo(iota);
          if (order.number() == 2) ok = ok && order.AppendTo(permutation);
        }
        ok = ok && order.ok();
      }
    }
    if (!ok || !field.ok()) return errors_.Damaged("a mesh");
    mesh.text += ']';
    if (!iota.empty()) {
      mesh.text += fmt::format(", device_ids=([{}]", Integers(iota));
      mesh.text += permutation.empty() ? ")" : fmt::format("T({}))", Integers(permutation));
    } else if (!mesh.device_ids.empty() && !mesh.axes.empty()) {
      mesh.text += fmt::format(", device_ids=({})", Integers(mesh.device_ids));
    }
    return true;
  }

  // "'x'" or "'y':(2)4".
  bool PrintAxis(std::string_view bytes, const MeshText& mesh) {
    int64_t index = 0, before = 1, size = 1;
    bool is_part = false;
    FieldReader field(bytes);
    bool ok = true;
    while (field.Next()) {
      if (field.number() == 1) index = field.integer();
      if (field.number() != 2) continue;
      is_part = true;
      FieldReader part(field.bytes());
      while (part.Next()) {
        if (part.number() == 1) before = part.integer();
        if (part.number() == 2) size = part.integer();
      }
      ok = ok && part.ok();
    }
    if (!ok || !field.ok()) return errors_.Damaged("an axis of a sharding");
    if (index < 0 || index >= static_cast<int64_t>(mesh.axes.size())) {
      return errors_.Fail(Error::kValue, fmt::format("a sharding names axis {} of a mesh of {}",
                                                     index, mesh.axes.size()));
    }
    const std::string quoted = Quoted(mesh.axes[static_cast<size_t>(index)]);
    out_ += fmt::format("'{}'", quoted.substr(1, quoted.size() - 2));
    if (is_part) out_ += fmt::format(":({}){}", before, size);
    return true;
  }

  std::string Take() { return std::move(out_); }
  std::string& out() { return out_; }

 private:
  bool AppendLastDims(const std::vector<int64_t>& types) {
    out_ += " last_tile_dims={";
    for (size_t i = 0; i < types.size(); ++i) {
      if (i > 0) out_ += ", ";
      switch (types[i]) {
        case kReplicated:
          out_ += "replicated";
          break;
        case kMaximal:
          out_ += "maximal";
          break;
        case kManual:
          out_ += "manual";
          break;
        case kUnreduced:
          out_ += "unreduced";
          break;
        default:
          return errors_.Fail(Error::kValue,
                              fmt::format("a subgroup of type {} in a sharding", types[i]));
      }
    }
    out_ += '}';
    return true;
  }

  bool PrintPlain(int64_t type, const std::vector<int64_t>& devices) {
    switch (type) {
      case kReplicated:
        out_ += "replicated";
        return true;
      case kMaximal:
        out_ += fmt::format("maximal device={}", devices.empty() ? 0 : devices[0]);
        return true;
      case kManual:
        out_ += "manual";
        return true;
      case kUnknown:
        out_ += "unknown";
        return true;
      case kUnreduced:
        out_ += "unreduced";
        return true;
      default:
        return errors_.Fail(Error::kValue, fmt::format("a sharding of type {}", type));
    }
  }

  bool PrintMetadata(const std::vector<std::string_view>& metadata) {
    out_ += metadata.size() > 1 ? " metadata={" : " metadata=";
    for (size_t i = 0; i < metadata.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (!AppendMetadata(metadata[i], out_)) return errors_.Damaged("the metadata of a sharding");
    }
    if (metadata.size() > 1) out_ += '}';
    return true;
  }

  bool PrintAxes(const char* name, const std::vector<std::string_view>& axes,
                 const MeshText& mesh) {
    if (axes.empty()) return true;
    out_ += fmt::format(", {}={{", name);
    for (size_t i = 0; i < axes.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (!PrintAxis(axes[i], mesh)) return false;
    }
    out_ += '}';
    return true;
  }

  bool PrintDim(std::string_view bytes, const MeshText& mesh) {
    bool closed = false;
    bool first = true;
    out_ += '{';
    FieldReader field(bytes);
    while (field.Next()) {
      if (field.number() == 2) closed = field.boolean();
      if (field.number() != 1) continue;
      if (!first) out_ += ", ";
      first = false;
      if (!PrintAxis(field.bytes(), mesh)) return false;
    }
    if (!field.ok()) return errors_.Damaged("a dimension of a sharding");
    if (!closed) out_ += first ? "?" : ", ?";
    out_ += '}';
    return true;
  }

  bool PrintNamed(std::string_view bytes) {
    MeshText mesh;
    std::vector<std::string_view> dims, replicated, unreduced, manual;
    FieldReader field(bytes);
    bool has_mesh = false;
    while (field.Next()) {
      switch (field.number()) {
        case 2:
          has_mesh = true;
          if (!ReadMesh(field.bytes(), mesh)) return false;
          break;
        case 3:
          dims.push_back(field.bytes());
          break;
        case 4:
          replicated.push_back(field.bytes());
          break;
        case 5:
          unreduced.push_back(field.bytes());
          break;
        case 7:
          manual.push_back(field.bytes());
          break;
        default:
          break;
      }
    }
    if (!field.ok()) return errors_.Damaged("a named sharding");
    if (!has_mesh || mesh.axes.empty()) {
      out_ += mesh.device_ids.empty()
                  ? "replicated"
                  : fmt::format("maximal_mesh[device_id={}]", mesh.device_ids[0]);
      return true;
    }
    out_ += mesh.text + ", ";
    if (dims.empty() && replicated.empty()) {
      // Of any rank: all axes alike.
      if (manual.size() == mesh.axes.size()) return Append("manual");
      if (unreduced.size() == mesh.axes.size()) return Append("unreduced");
      if (manual.empty() && unreduced.empty()) return Append("replicated");
    }
    out_ += '[';
    for (size_t i = 0; i < dims.size(); ++i) {
      if (i > 0) out_ += ", ";
      if (!PrintDim(dims[i], mesh)) return false;
    }
    out_ += ']';
    return PrintAxes("replicated", replicated, mesh) && PrintAxes("unreduced", unreduced, mesh) &&
           PrintAxes("manual", manual, mesh);
  }

  bool Append(std::string_view text) {
    out_ += text;
    return true;
  }

  Errors& errors_;
  std::string out_;
};

}  // namespace

std::optional<std::string> ShardingText(std::string_view bytes, Errors& errors) {
  ShardingPrinter printer(errors);
  if (!printer.Print(bytes, 0)) return std::nullopt;
  return printer.Take();
}

std::optional<std::string> MeshGroupsText(std::string_view bytes, Errors& errors) {
  ShardingPrinter printer(errors);
  MeshText mesh;
  std::vector<std::string_view> axes;
  FieldReader field(bytes);
  while (field.Next()) {
    if (field.number() == 1 && !printer.ReadMesh(field.bytes(), mesh)) return std::nullopt;
    if (field.number() == 2) axes.push_back(field.bytes());
  }
  if (!field.ok()) {
    errors.Damaged("replica groups");
    return std::nullopt;
  }
  printer.out() = mesh.text + " {";
  for (size_t i = 0; i < axes.size(); ++i) {
    if (i > 0) printer.out() += ", ";
    if (!printer.PrintAxis(axes[i], mesh)) return std::nullopt;
  }
  return printer.Take() + "}";
}

const Sharding* ShardingReader::Read(std::string_view bytes) {
  if (const auto it = known_.find(bytes); it != known_.end()) return it->second;
  const std::optional<std::string> text = ShardingText(bytes, *errors_);
  if (!text.has_value()) return nullptr;
  const auto sharding = ParseSharding(*context_, *text);
  if (!sharding.has_value()) {
    errors_->Fail(Error::kValue,
                  fmt::format("its sharding {}: {}", *text, sharding.error().message));
    return nullptr;
  }
  known_.emplace(bytes, *sharding);
  return *sharding;
}

}  // namespace gshard::proto
