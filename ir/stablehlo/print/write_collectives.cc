// Collectives and transfers.
#include <fmt/format.h>

#include "ir/dims.h"
#include "ir/stablehlo/print/dense_text.h"
#include "ir/stablehlo/print/module_writer.h"

namespace gshard::stablehlo {
namespace {

// dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>; short rows are filled with -1.
std::string GroupsText(const std::vector<std::vector<int64_t>>& groups) {
  size_t width = 0;
  for (const auto& group : groups) width = std::max(width, group.size());
  std::string text;
  for (const auto& group : groups) {
    std::vector<int64_t> row = group;
    row.resize(width, -1);
    if (!text.empty()) text += ", ";
    text += ListText(row);
  }
  return fmt::format("dense<{}> : tensor<{}x{}xi64>",
                     text.empty() ? std::string() : fmt::format("[{}]", text), groups.size(),
                     width);
}

std::string ChannelText(int64_t channel, int64_t type) {
  return fmt::format("channel_handle = #stablehlo.channel_handle<handle = {}, type = {}>", channel,
                     type);
}

std::vector<std::string> CommonProps(ModuleWriter& w, const CollectiveAttributes& a) {
  std::vector<std::string> props;
  if (a.channel_id > 0) props.push_back(ChannelText(a.channel_id, 1));
  // Global ids want all devices by number.
  const bool all = a.replica_groups == nullptr || a.replica_groups->IsAll();
  std::string groups = "dense<> : tensor<0x0xi64>";
  if (!all || a.use_global_device_ids) {
    const int64_t devices = w.module().DeviceCount() *
                            (all ? std::max<int64_t>(1, w.module().header().replica_count) : 1);
    groups =
        GroupsText(all ? ReplicaGroups().ToLists(devices) : a.replica_groups->ToLists(devices));
  }
  props.push_back(fmt::format("replica_groups = {}", groups));
  return props;
}

constexpr std::string_view kGlobalIds = "use_global_device_ids";

void AddGlobalIds(const CollectiveAttributes& a, std::vector<std::string>& props) {
  if (a.use_global_device_ids) props.emplace_back(kGlobalIds);
}

// What a starting half gives back when it is done.
const Shape* DoneShape(const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kAllGatherStart:
    case Opcode::kCollectivePermuteStart:
      return x->shape()->element(1);
    default:
      return x->shape();
  }
}

bool WriteAllToAll(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<CollectiveAttributes>();
  if (a.dimension < 0) {
    return w.Fail(x, "StableHLO has no all-to-all of a tuple",
                  "it splits and concatenates tensors: all-to-all with dimensions={d}");
  }
  std::vector<std::string> props = CommonProps(w, a);
  int64_t count = a.replica_groups != nullptr
                      ? a.replica_groups->GroupSize(w.module().DeviceCount())
                      : w.module().DeviceCount();
  props.push_back(fmt::format("concat_dimension = {} : i64", a.dimension));
  props.push_back(fmt::format("split_count = {} : i64", count));
  props.push_back(fmt::format("split_dimension = {} : i64", a.dimension));
  w.Generic(x, "stablehlo.all_to_all", std::move(props));
  return true;
}

// A collective of one tensor for each operand of `x`: StableHLO's have no more.
bool WriteEach(ModuleWriter& w, const Instruction* x, std::string_view name,
               const std::vector<std::string>& props) {
  const std::vector<const Shape*> shapes = LeafShapes(DoneShape(x));
  const Leaves operands = w.OperandLeaves(x);
  std::vector<const Shape*> operand_shapes;
  for (const Instruction* operand : x->operands()) {
    AppendLeafShapes(operand->shape(), operand_shapes);
  }
  if (shapes.size() != operands.size()) {
    return w.Fail(x, fmt::format("{} of {} values makes {}", name, operands.size(), shapes.size()));
  }
  Leaves results;
  for (size_t i = 0; i < operands.size(); ++i) {
    ModuleWriter::Line line(x);
    line.head = fmt::format("\"{}\"({}) <{{{}}}>", name, operands[i], Joined(props));
    line.types = w.FunctionType({&operand_shapes[i], 1}, {&shapes[i], 1});
    if (operands.size() > 1) line.leaves = {i};
    w.Emit(line, shapes[i]);
    results.push_back(w.Of(x).front());
  }
  w.SetValue(x, std::move(results));
  return true;
}

bool WritePermute(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<CollectiveAttributes>();
  if (!a.slice_sizes.empty()) {
    return w.Fail(
        x, "StableHLO has no collective_permute of slices",
        "gshard-opt optimize --passes expand-sliced-permutes makes it one of whole tensors");
  }
  std::vector<std::string> props;
  if (a.channel_id > 0) props.push_back(ChannelText(a.channel_id, 1));
  std::string pairs;
  for (const DevicePair& pair : a.source_target_pairs) {
    pairs += fmt::format("{}[{}, {}]", pairs.empty() ? "" : ", ", pair.source, pair.target);
  }
  props.push_back(fmt::format("source_target_pairs = dense<{}> : tensor<{}x2xi64>",
                              pairs.empty() ? std::string() : fmt::format("[{}]", pairs),
                              a.source_target_pairs.size()));
  return WriteEach(w, x, "stablehlo.collective_permute", props);
}

bool WriteBroadcast(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<CollectiveAttributes>();
  if (a.has_dynamic_root == "true") {
    return w.Fail(x, "StableHLO has no collective_broadcast from a root known at run time",
                  "gshard-opt optimize --passes expand-dynamic-roots makes it an all-reduce");
  }
  return WriteEach(w, x, "stablehlo.collective_broadcast", CommonProps(w, a));
}

bool WriteTransfer(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<ChannelAttributes>();
  const bool send = x->opcode() == Opcode::kSend;
  const size_t token = LeafShapes(x->shape()).size() - 1;
  const int64_t type = a.is_host_transfer ? (send ? 2 : 3) : 1;
  std::vector<std::string> props = {ChannelText(a.channel_id, type),
                                    fmt::format("is_host_transfer = {}", a.is_host_transfer)};
  if (send) {
    w.Generic(x, "stablehlo.send", std::move(props), {}, x->shape()->element(2), {token});
    return true;
  }
  const Shape* parts[] = {x->shape()->element(0), x->shape()->element(2)};
  std::vector<size_t> leaves;
  for (size_t i = 0; i + 1 < token; ++i) leaves.push_back(i);
  leaves.push_back(token);
  w.Generic(x, "stablehlo.recv", std::move(props), {}, w.module().context().Tuple(parts),
            std::move(leaves));
  return true;
}

bool WriteRaggedAllToAll(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<CollectiveAttributes>();
  ModuleWriter::Line line(x);
  line.head = fmt::format("stablehlo.custom_call @ragged_all_to_all({})", w.Operands(x));
  std::string config;
  if (a.channel_id > 0) config += fmt::format("channel_id = {} : i64, ", a.channel_id);
  config += CommonProps(w, a).back();
  line.Add("api_version = 4 : i32");
  line.Add(fmt::format("backend_config = {{{}}}", config));
  line.types = w.FunctionType(x);
  w.Emit(line);
  return true;
}

}  // namespace

bool WriteCollective(ModuleWriter& w, const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kReduceScatter: {
      const auto& a = x->attributes<CollectiveAttributes>();
      std::vector<std::string> props = CommonProps(w, a);
      const bool scatter = x->opcode() == Opcode::kReduceScatter;
      if (scatter && x->operand_count() != 1) {
        return w.Fail(x, "StableHLO's reduce_scatter takes one tensor");
      }
      if (scatter) props.push_back(fmt::format("scatter_dimension = {} : i64", a.dimension));
      AddGlobalIds(a, props);
      w.Generic(x, scatter ? "stablehlo.reduce_scatter" : "stablehlo.all_reduce", std::move(props),
                w.Region(*x->called(0)));
      return true;
    }
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart: {
      const auto& a = x->attributes<CollectiveAttributes>();
      std::vector<std::string> props = CommonProps(w, a);
      props.insert(props.begin(), fmt::format("all_gather_dim = {} : i64", a.dimension));
      AddGlobalIds(a, props);
      w.Generic(x, "stablehlo.all_gather", std::move(props), {}, DoneShape(x));
      return true;
    }
    case Opcode::kAllToAll:
      return WriteAllToAll(w, x);
    case Opcode::kRaggedAllToAll:
      return WriteRaggedAllToAll(w, x);
    case Opcode::kCollectivePermute:
    case Opcode::kCollectivePermuteStart:
      return WritePermute(w, x);
    case Opcode::kCollectiveBroadcast:
      return WriteBroadcast(w, x);
    case Opcode::kAllReduceDone:
    case Opcode::kAllGatherDone:
    case Opcode::kCollectivePermuteDone:
    case Opcode::kSendDone:
    case Opcode::kRecvDone:
      w.SetValue(x, w.Of(x->operand(0)));
      return true;
    case Opcode::kSend:
    case Opcode::kRecv:
      return WriteTransfer(w, x);
    case Opcode::kInfeed:
      w.Generic(x, "stablehlo.infeed", {fmt::format("infeed_config = {}", QuotedMlir({}))});
      return true;
    case Opcode::kOutfeed:
      w.Generic(x, "stablehlo.outfeed", {fmt::format("outfeed_config = {}", QuotedMlir({}))});
      return true;
    default:
      return false;
  }
}

}  // namespace gshard::stablehlo
