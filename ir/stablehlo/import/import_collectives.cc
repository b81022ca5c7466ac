// Collectives and transfers.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "ir/sharding_text.h"
#include "ir/stablehlo/import/collective_attributes.h"
#include "ir/stablehlo/import/converters.h"

namespace gshard::stablehlo {
namespace {

// `{{0,1},{2,3}}` of a dense matrix of device numbers; -1 fills short rows.
std::string GroupsText(std::span<const int64_t> values, std::span<const int64_t> dims) {
  if (values.empty()) return "{}";
  const size_t width = dims.size() == 2 ? static_cast<size_t>(dims[1]) : values.size();
  std::string text = "{";
  for (size_t row = 0; row * width < values.size(); ++row) {
    text += row > 0 ? ",{" : "{";
    bool first = true;
    for (const int64_t device : values.subspan(row * width, width)) {
      if (device < 0) continue;
      if (!first) text += ',';
      first = false;
      text += std::to_string(device);
    }
    text += '}';
  }
  return text + "}";
}

}  // namespace

namespace {

// `"x"` as the mesh form of groups has it.
bool AppendAxisName(std::string_view quoted, std::string& text) {
  std::string name;
  if (!ReadString(quoted, name)) return false;
  text += fmt::format("'{}'", name);
  return true;
}

// `@mesh`, or `#stablehlo.mesh<axes = [<name = "x", size = 8>], device_ids = dense<..>>`, as
// "mesh['x'=8], device_ids=(..)".
bool AppendGroupMesh(Importer& in, std::string_view mesh, std::string& text) {
  if (mesh.starts_with('@')) {
    std::string name(mesh.substr(1));
    if (name.starts_with('"') && !ReadString(mesh.substr(1), name)) return false;
    const auto it = in.meshes().find(name);
    if (it != in.meshes().end()) text += it->second.text;
    return it != in.meshes().end();
  }
  std::vector<NamedAttribute> fields;
  std::vector<std::string_view> axes;
  if (!SplitFields(mesh, fields) || !SplitList(FieldOf(fields, "axes"), axes)) return false;
  text += "mesh[";
  for (const std::string_view axis : axes) {
    std::vector<NamedAttribute> parts;
    int64_t size = 0;
    if (text.back() != '[') text += ',';
    if (!SplitFields(axis, parts) || !AppendAxisName(FieldOf(parts, "name"), text) ||
        !ReadInteger(FieldOf(parts, "size"), size)) {
      return false;
    }
    text += fmt::format("={}", size);
  }
  text += ']';
  const std::string_view ids = FieldOf(fields, "device_ids");
  std::vector<int64_t> devices;
  if (!ids.empty() && !ReadIntegers(ids, devices)) return false;
  if (!devices.empty()) text += fmt::format(", device_ids=({})", fmt::join(devices, ","));
  return true;
}

// `#stablehlo.replica_group_mesh_axes<mesh = @m, axes = [#stablehlo.axis_ref<name = "x",
// sub_axis_info = (1)2>]>` as "mesh['x'=8] {'x':(1)2}".
bool MeshGroupsText(Importer& in, std::string_view attribute, std::string& text) {
  std::vector<NamedAttribute> fields;
  std::vector<std::string_view> axes;
  if (!SplitFields(attribute, fields) || !SplitList(FieldOf(fields, "axes"), axes) ||
      !AppendGroupMesh(in, in.Resolve(FieldOf(fields, "mesh")), text)) {
    return false;
  }
  text += " {";
  for (const std::string_view axis : axes) {
    std::vector<NamedAttribute> parts;
    if (text.back() != '{') text += ',';
    if (!SplitFields(axis, parts) || !AppendAxisName(FieldOf(parts, "name"), text)) return false;
    const std::string_view part = FieldOf(parts, "sub_axis_info");
    if (!part.empty()) text += fmt::format(":{}", part);
  }
  text += '}';
  return true;
}

}  // namespace

bool ReadReplicaGroups(Importer& in, const Operation& op, std::string_view text,
                       const ReplicaGroups*& groups) {
  std::string form;
  if (text.starts_with("#stablehlo.replica_group_mesh_axes")) {
    if (!MeshGroupsText(in, text, form)) return in.BadValue(op, "replica_groups", text);
  } else {
    std::vector<int64_t> values, dims;
    if (!ReadIntegers(text, values, &dims)) return in.BadValue(op, "replica_groups", text);
    form = GroupsText(values, dims);
  }
  auto parsed = ParseReplicaGroups(form);
  if (!parsed.has_value()) {
    return in.errors().Fail(ParseError::kAttributeValue, text, parsed.error().message);
  }
  groups = in.module().Own(*std::move(parsed));
  return true;
}

static bool ReadChannel(Importer& in, const Operation& op, int64_t& channel_id) {
  const auto handle = in.Find(op, {"channel_handle"});
  if (!handle.has_value()) return in.Int(op, {"channel_id"}, channel_id, false);
  std::vector<NamedAttribute> fields;
  if (!SplitFields(*handle, fields) || !ReadInteger(FieldOf(fields, "handle"), channel_id)) {
    return in.BadValue(op, "channel_handle", *handle);
  }
  return true;
}

static bool ReadCollective(Importer& in, const Operation& op, CollectiveAttributes& attributes) {
  const auto groups = in.Find(op, {"replica_groups"});
  if (groups.has_value() && !ReadReplicaGroups(in, op, *groups, attributes.replica_groups)) {
    return false;
  }
  return ReadChannel(in, op, attributes.channel_id) &&
         in.Bool(op, {"use_global_device_ids"}, attributes.use_global_device_ids);
}

bool ConvertAllReduce(Importer& in, const Operation& op) {
  CollectiveAttributes attributes;
  if (!ReadCollective(in, op, attributes) || !in.WantRegions(op, 1) ||
      !in.WantResults(op, op.operands.size())) {
    return false;
  }
  Computation* const called[] = {in.RegionComputation(op, *op.regions[0])};
  return called[0] != nullptr &&
         in.EmitResults(op, Opcode::kAllReduce, in.Operands(op), attributes, called);
}

bool ConvertAllGather(Importer& in, const Operation& op) {
  CollectiveAttributes attributes;
  return ReadCollective(in, op, attributes) &&
         in.Int(op, {"all_gather_dim"}, attributes.dimension) &&
         in.WantResults(op, op.operands.size()) &&
         in.EmitResults(op, Opcode::kAllGather, in.Operands(op), attributes);
}

bool ConvertReduceScatter(Importer& in, const Operation& op) {
  CollectiveAttributes attributes;
  if (!ReadCollective(in, op, attributes) || !in.WantRegions(op, 1) ||
      !in.Int(op, {"scatter_dimension"}, attributes.dimension)) {
    return false;
  }
  Computation* const called[] = {in.RegionComputation(op, *op.regions[0])};
  return called[0] != nullptr &&
         in.EmitResults(op, Opcode::kReduceScatter, in.Operands(op), attributes, called);
}

// HLO's all-to-all of an array splits and concatenates along one dim; the received pieces then
// move to the other one.
bool ConvertAllToAll(Importer& in, const Operation& op) {
  CollectiveAttributes attributes;
  int64_t split = 0, concat = 0, count = 0;
  if (!ReadCollective(in, op, attributes) || !in.WantResults(op, op.operands.size()) ||
      !in.Int(op, {"split_dimension"}, split) || !in.Int(op, {"concat_dimension"}, concat) ||
      !in.Int(op, {"split_count"}, count)) {
    return false;
  }
  attributes.use_global_device_ids = false;
  attributes.dimension = split;
  for (size_t k = 0; k < op.operands.size(); ++k) {
    Instruction* x = in.Operand(op, k);
    const Shape* shape = x->shape();
    if (!shape->IsArray() || split < 0 || concat < 0 || split >= shape->rank() ||
        concat >= shape->rank() || count < 1 || shape->dim(split) % count != 0) {
      return in.Fail(op, ParseError::kShape,
                     fmt::format("{} cannot be split {} times along dim {} and put together along "
                                 "dim {}",
                                 ToString(shape, /*layouts=*/false), count, split, concat));
    }
    Instruction* const operands[] = {x};
    Instruction* y = in.Emit(op, Opcode::kAllToAll, operands, attributes, shape->bare());
    if (y == nullptr) return false;
    if (split != concat) {
      std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
      dims[At(split)] /= count;
      dims.insert(dims.begin() + split, count);
      // The dim of the pieces goes before `concat`.
      std::vector<int64_t> order;
      for (int64_t d = 0; d < shape->rank(); ++d) {
        if (d == concat) order.push_back(split);
        order.push_back(d < split ? d : d + 1);
      }
      std::vector<int64_t> merged(shape->dims().begin(), shape->dims().end());
      merged[At(split)] /= count;
      merged[At(concat)] *= count;
      Builder builder = in.BuilderFor(op);
      y = builder.Reshape(builder.Transpose(builder.Reshape(y, dims), order), merged);
    }
    if (!in.Define(op, k, y)) return false;
  }
  return true;
}

bool ConvertCollectivePermute(Importer& in, const Operation& op) {
  CollectiveAttributes attributes;
  const auto text = in.Find(op, {"source_target_pairs"});
  std::vector<int64_t> values;
  if (!text.has_value() || !ReadIntegers(*text, values) || values.size() % 2 != 0) {
    return in.BadValue(op, "source_target_pairs", text.value_or(""));
  }
  std::vector<DevicePair> pairs;
  for (size_t i = 0; i < values.size(); i += 2) pairs.push_back({values[i], values[i + 1]});
  attributes.source_target_pairs = in.arena().Copy(pairs);
  return ReadChannel(in, op, attributes.channel_id) && in.WantResults(op, op.operands.size()) &&
         in.EmitResults(op, Opcode::kCollectivePermute, in.Operands(op), attributes);
}

// With a dynamic root the last operand says who of the group sends: its result is the others'.
bool ConvertCollectiveBroadcast(Importer& in, const Operation& op) {
  CollectiveAttributes attributes;
  bool dynamic = false;
  if (!ReadCollective(in, op, attributes) || !in.Bool(op, {"has_dynamic_root"}, dynamic)) {
    return false;
  }
  if (dynamic) attributes.has_dynamic_root = "true";
  if (dynamic && op.operands.empty()) return in.WantOperands(op, 2);
  return in.WantResults(op, op.operands.size() - (dynamic ? 1 : 0)) &&
         in.EmitResults(op, Opcode::kCollectiveBroadcast, in.Operands(op), attributes);
}

// --- transfers: HLO has them in two halves, data in one value

namespace {

bool ReadTransfer(Importer& in, const Operation& op, ChannelAttributes& attributes) {
  return ReadChannel(in, op, attributes.channel_id) &&
         in.Bool(op, {"is_host_transfer"}, attributes.is_host_transfer);
}

// The operands but the last, a token, as one value.
Instruction* PackData(Importer& in, const Operation& op) {
  std::vector<Instruction*> data = in.Operands(op);
  data.pop_back();
  if (data.size() == 1) return data[0];
  std::vector<const Shape*> shapes;
  for (const Instruction* x : data) shapes.push_back(x->shape());
  return in.Emit(op, Opcode::kTuple, data, NoAttributes{}, in.context().Tuple(shapes));
}

bool WantToken(Importer& in, const Operation& op) {
  if (!op.operands.empty() &&
      op.operands.back()->instruction->shape()->kind() == ShapeKind::kToken) {
    return true;
  }
  return in.Fail(op, ParseError::kShape, fmt::format("the last operand of {} is a token", op.name));
}

// Results: the elements of `data`, or itself, then the token.
bool DefineReceived(Importer& in, const Operation& op, Instruction* received, bool flat) {
  Instruction* data = in.EmitElement(op, received, 0);
  const size_t count = op.results.size() - 1;
  for (size_t i = 0; i < count; ++i) {
    Instruction* x = flat ? data : in.EmitElement(op, data, static_cast<int64_t>(i));
    if (!in.Define(op, i, x)) return false;
  }
  return in.Define(op, count, in.EmitElement(op, received, 1));
}

const Shape* ReceivedShape(Importer& in, const Operation& op, bool flat) {
  std::vector<const Shape*> shapes;
  for (size_t i = 0; i + 1 < op.results.size(); ++i) {
    shapes.push_back(in.ResultShape(op, i));
    if (shapes.back() == nullptr) return nullptr;
  }
  return flat ? shapes[0] : in.context().Tuple(shapes);
}

}  // namespace

bool ConvertSend(Importer& in, const Operation& op) {
  ChannelAttributes attributes;
  if (!WantToken(in, op) || !in.WantResults(op, 1) || !ReadTransfer(in, op, attributes)) {
    return false;
  }
  Instruction* const operands[] = {PackData(in, op), op.operands.back()->instruction};
  const Shape* parts[] = {operands[0]->shape()->bare(), in.context().Scalar(DType::kU32),
                          in.context().Token()};
  Instruction* send = in.Emit(op, Opcode::kSend, operands, attributes, in.context().Tuple(parts));
  Instruction* const sent[] = {send};
  return send != nullptr &&
         in.Define(op, 0, in.Emit(op, Opcode::kSendDone, sent, attributes, in.context().Token()));
}

bool ConvertRecv(Importer& in, const Operation& op) {
  ChannelAttributes attributes;
  if (!WantToken(in, op) || !in.WantOperands(op, 1, /*arrays=*/false)) return false;
  if (op.results.size() < 2) return in.WantResults(op, 2);
  if (!ReadTransfer(in, op, attributes)) return false;
  const bool flat = op.results.size() == 2;
  const Shape* data = ReceivedShape(in, op, flat);
  if (data == nullptr) return in.Fail(op, ParseError::kShape, "what is received has static types");
  const Shape* parts[] = {data, in.context().Scalar(DType::kU32), in.context().Token()};
  Instruction* recv =
      in.Emit(op, Opcode::kRecv, in.Operands(op), attributes, in.context().Tuple(parts));
  if (recv == nullptr) return false;
  const Shape* done_parts[] = {data, in.context().Token()};
  Instruction* const operands[] = {recv};
  Instruction* done =
      in.Emit(op, Opcode::kRecvDone, operands, attributes, in.context().Tuple(done_parts));
  return done != nullptr && DefineReceived(in, op, done, flat);
}

bool ConvertInfeed(Importer& in, const Operation& op) {
  InfeedAttributes attributes;
  if (!WantToken(in, op)) return false;
  if (op.results.size() < 2) return in.WantResults(op, 2);
  const auto config = in.Find(op, {"infeed_config"});
  if (config.has_value() && *config != "\"\"") attributes.config = *config;
  const Shape* data = ReceivedShape(in, op, /*flat=*/false);
  if (data == nullptr) return in.Fail(op, ParseError::kShape, "what is fed in has static types");
  const Shape* parts[] = {data, in.context().Token()};
  Instruction* infeed =
      in.Emit(op, Opcode::kInfeed, in.Operands(op), attributes, in.context().Tuple(parts));
  return infeed != nullptr && DefineReceived(in, op, infeed, /*flat=*/false);
}

bool ConvertOutfeed(Importer& in, const Operation& op) {
  OutfeedAttributes attributes;
  if (!WantToken(in, op) || !in.WantResults(op, 1)) return false;
  const auto config = in.Find(op, {"outfeed_config"});
  if (config.has_value() && *config != "\"\"") attributes.config = *config;
  Instruction* const operands[] = {PackData(in, op), op.operands.back()->instruction};
  attributes.shape = operands[0]->shape()->bare();
  return in.Define(op, 0,
                   in.Emit(op, Opcode::kOutfeed, operands, attributes, in.context().Token()));
}

}  // namespace gshard::stablehlo
