// Nodes of Chakra's schema. See chakra.h.

#include "core/report/trace/chakra.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/analysis/device_groups.h"
#include "core/report/trace/astra_sim.h"
#include "core/report/trace/unrolled_step.h"
#include "ir/proto/wire_writer.h"

namespace gshard {
namespace {

using proto::WireWriter;

constexpr std::string_view kSchemaVersion = "0.0.4";

// Values of the schema's enums.
enum NodeType : uint64_t { kComp = 4, kSend = 5, kReceive = 6, kCollective = 7 };
enum CollectiveType : int64_t {
  kAllReduce = 0,
  kAllGather = 2,
  kBroadcast = 5,
  kAllToAll = 6,
  kReduceScatter = 7
};
// Fields of AttributeProto by the type of the value.
enum ValueField : uint32_t { kInt32 = 7, kInt64 = 9, kUint64 = 13, kBool = 27, kString = 29 };

CollectiveType TypeOf(std::string_view kind) {
  if (kind == "all-gather") return kAllGather;
  if (kind == "reduce-scatter") return kReduceScatter;
  if (kind == "collective-broadcast") return kBroadcast;
  return kind == "all-reduce" ? kAllReduce : kAllToAll;
}

// Of the operands on one device; of a ragged all-to-all, of what it sends.
double LocalBytes(const Instruction& collective, std::string_view kind) {
  const auto operands =
      collective.operands().first(kind == "ragged-all-to-all" ? 1 : collective.operands().size());
  double bytes = 0;
  for (const Instruction* operand : operands) {
    bytes += static_cast<double>(operand->shape()->byte_size());
  }
  return bytes;
}

void AppendSized(const WireWriter& message, std::string& out) {
  proto::AppendVarint(message.bytes().size(), out);
  out += message.bytes();
}

// One Node that is being written.
class NodeWriter {
 public:
  NodeWriter(uint64_t id, std::string_view name, NodeType type) {
    node_.Varint(1, id);
    node_.Bytes(2, name);
    node_.Varint(3, type);
  }
  void AddControl(std::span<const uint64_t> nodes) { node_.Packed(4, nodes); }
  void AddData(std::span<const uint64_t> nodes) { node_.Packed(5, nodes); }
  void AddDuration(int64_t microseconds) { node_.Integer(7, microseconds); }
  void AddInteger(std::string_view name, ValueField field, int64_t value) {
    WireWriter attribute;
    attribute.Bytes(1, name);
    attribute.Integer(field, value);
    node_.Message(10, attribute);
  }
  void AddText(std::string_view name, std::string_view value) {
    WireWriter attribute;
    attribute.Bytes(1, name);
    attribute.Bytes(kString, value);
    node_.Message(10, attribute);
  }
  // What every node has.
  void AddWork(int64_t flops, int64_t bytes) {
    AddInteger("is_cpu_op", kBool, 0);
    AddInteger("num_ops", kInt64, flops);
    AddInteger("tensor_size", kUint64, bytes);
  }
  void AppendTo(std::string& out) const { AppendSized(node_, out); }

 private:
  WireWriter node_;
};

// Rounds numbers so that their sum is the rounded sum: many a kernel takes less than a microsecond,
// and parts of bytes occur, too.
class RoundedSum {
 public:
  int64_t Add(double value) {
    const int64_t before = std::llround(sum_);
    sum_ += value;
    return std::llround(sum_) - before;
  }

 private:
  double sum_ = 0;
};

// Numbers of the groups of all collectives; equal ones have one number. From 1 on.
class GroupNumbers {
 public:
  int64_t Of(std::span<const uint32_t> members) {
    auto [known, is_new] = numbers_.try_emplace(
        std::vector<uint32_t>(members.begin(), members.end()), numbers_.size() + 1);
    return static_cast<int64_t>(known->second);
  }
  std::string AsJson() const {
    std::vector<const std::vector<uint32_t>*> by_number(numbers_.size());
    for (const auto& [members, number] : numbers_) by_number[number - 1] = &members;
    std::string out = "{";
    for (size_t i = 0; i < by_number.size(); ++i) {
      out += fmt::format("{}\n  \"{}\": [", i > 0 ? "," : "", i + 1);
      for (size_t k = 0; k < by_number[i]->size(); ++k) {
        out += fmt::format("{}{}", k > 0 ? ", " : "", (*by_number[i])[k]);
      }
      out += "]";
    }
    return out + "\n}\n";
  }

 private:
  std::map<std::vector<uint32_t>, size_t> numbers_;
};

// Who takes part in one collective instruction.
struct Partners {
  const CollectiveDevices* devices = nullptr;
  std::vector<uint32_t> targets;     // of a permute, by device: where its data goes, or kNoDevice
  std::vector<int64_t> group_names;  // by group
  int64_t ordinal = 0;               // of permutes, in the order of the text
};

class PartnerTable {
 public:
  explicit PartnerTable(const Module& module)
      : count_(CountDevices(module).device_count()), resolver_(CountDevices(module)) {}

  Expected<void> Add(const Instruction& collective) {
    auto [entry, is_new] = partners_.try_emplace(&collective);
    if (!is_new) return {};
    Expected<const CollectiveDevices*> devices = resolver_.Of(collective);
    if (!devices) return Fail(std::move(devices.error()));
    Partners& partners = entry->second;
    partners.devices = *devices;
    if (IsCollectivePermute(collective)) {
      partners.ordinal = permutes_++;
      partners.targets.assign(count_, kNoDevice);
      for (uint32_t target = 0; target < count_; ++target) {
        const uint32_t source = partners.devices->sources[target];
        if (source != kNoDevice && source != target) partners.targets[source] = target;
      }
      return {};
    }
    const ResolvedGroups& groups = partners.devices->groups;
    for (size_t g = 0; g < groups.group_count(); ++g) {
      partners.group_names.push_back(numbers_.Of(groups.group(g)));
    }
    return {};
  }
  const Partners& Of(const Instruction& collective) const { return partners_.at(&collective); }
  int64_t permutes() const { return permutes_; }
  const GroupNumbers& numbers() const { return numbers_; }

 private:
  uint32_t count_;
  CollectiveResolver resolver_;
  GroupNumbers numbers_;
  std::map<const Instruction*, Partners> partners_;
  int64_t permutes_ = 0;
};

// The trace of devices that run the same nodes. What they have in common is written once.
//
// Node i has the number 2i; a permute's receive has 2i + 1 and its send 2i. Where a device takes no
// part in a collective, a node without communication is in its place.
class TraceOfClass {
 public:
  TraceOfClass(const UnrolledStep& step, const PartnerTable& table) : step_(step), table_(table) {
    WireWriter metadata;
    metadata.Bytes(1, kSchemaVersion);
    AppendSized(metadata, common_);
    is_own_.resize(step.nodes.size());
    waits_for_own_.resize(step.nodes.size());
    of_groups_.resize(step.nodes.size());
    RoundedSum microseconds, flops, bytes;
    for (size_t i = 0; i < step.nodes.size(); ++i) {
      const UnrolledNode& node = step.nodes[i];
      const bool has_work = node.step != nullptr;
      durations_.push_back(microseconds.Add(node.seconds * 1e6));
      flops_.push_back(flops.Add(has_work ? node.step->work.flops : 0));
      bytes_.push_back(
          bytes.Add(has_work && !node.step->work.is_scalar ? node.step->work.bytes : 0));
      for (uint32_t need : node.after) {
        waits_for_own_[i] = waits_for_own_[i] || IsPartialPermute(need);
      }
      is_own_[i] = waits_for_own_[i] || node.Collective() != nullptr;
      if (is_own_[i]) continue;
      WriteComputation(i, common_, step.devices.front());
    }
  }

  int64_t node_count() const { return nodes_; }  // of what was written last, all of its file

  // Valid until the next call: files of hundreds of KiB would each be a new mapping.
  const std::string& Of(uint32_t device) {
    std::string& out = file_;
    out.assign(common_);
    nodes_ = common_nodes_;
    uint64_t last = kNone;  // the communication before this one
    for (size_t i = 0; i < step_.nodes.size(); ++i) {
      if (!is_own_[i]) continue;
      const Instruction* collective = step_.nodes[i].Collective();
      if (collective == nullptr) {
        WriteComputation(i, out, device);
      } else if (IsCollectivePermute(*collective)) {
        WritePermute(i, table_.Of(*collective), device, last, out);
      } else {
        WriteCollective(i, table_.Of(*collective), device, last, out);
      }
    }
    return out;
  }

 private:
  static constexpr uint64_t kNone = UINT64_MAX;

  uint32_t SourceOf(const Partners& partners, uint32_t device) const {
    const uint32_t source = partners.devices->sources[device];
    return source == device ? kNoDevice : source;
  }
  // Do some of the devices receive nothing from others?
  bool IsPartialPermute(uint32_t i) const {
    const Instruction* collective = step_.nodes[i].Collective();
    if (collective == nullptr || !IsCollectivePermute(*collective)) return false;
    const Partners& partners = table_.Of(*collective);
    for (uint32_t device : step_.devices) {
      if (SourceOf(partners, device) == kNoDevice) return true;
    }
    return false;
  }
  // The node after which `device` has what node i makes.
  uint64_t EndOf(uint32_t i, uint32_t device) const {
    const Instruction* collective = step_.nodes[i].Collective();
    const bool receives = collective != nullptr && IsCollectivePermute(*collective) &&
                          SourceOf(table_.Of(*collective), device) != kNoDevice;
    return 2 * uint64_t{i} + (receives ? 1 : 0);
  }

  NodeWriter Begin(size_t i, uint64_t id, NodeType type, uint32_t device) const {
    const UnrolledNode& node = step_.nodes[i];
    NodeWriter writer(id, node.step == nullptr ? "join" : node.step->instruction->name(), type);
    std::vector<uint64_t> needs;
    for (uint32_t need : node.after) needs.push_back(EndOf(need, device));
    writer.AddData(needs);
    writer.AddDuration(durations_[i]);
    return writer;
  }
  void AddWork(size_t i, NodeWriter& writer) const { writer.AddWork(flops_[i], bytes_[i]); }
  void Finish(const NodeWriter& writer, std::string& out) {
    writer.AppendTo(out);
    ++(&out == &common_ ? common_nodes_ : nodes_);
  }

  void WriteComputation(size_t i, std::string& out, uint32_t device) {
    NodeWriter writer = Begin(i, 2 * i, kComp, device);
    AddWork(i, writer);
    Finish(writer, out);
  }

  // All devices communicate in the order of the text: who waits for whom never is a circle.
  static void AddOrder(uint64_t& last, uint64_t id, NodeWriter& writer) {
    if (last != kNone) writer.AddControl(std::span(&last, 1));
    last = id;
  }

  void WriteCollective(size_t i, const Partners& partners, uint32_t device, uint64_t& last,
                       std::string& out) {
    const CollectiveCost& cost = step_.nodes[i].step->collective;
    const uint32_t group = partners.devices->groups.group_of[device];
    if (cost.group_size < 2 || group == kNoDevice) return WriteComputation(i, out, device);
    // The members of a group have the same node, unless it waits for something of their own.
    if (waits_for_own_[i]) {
      WriteCollective(i, partners, group, device, last, out);
    } else {
      auto [written, is_new] =
          of_groups_[i].try_emplace(uint64_t{group} << 32 | (last & UINT32_MAX));
      if (is_new) {
        uint64_t before = last;
        WriteCollective(i, partners, group, device, before, written->second);
        --nodes_;
      }
      out += written->second;
      last = 2 * i;
      ++nodes_;
    }
  }
  void WriteCollective(size_t i, const Partners& partners, uint32_t group, uint32_t device,
                       uint64_t& last, std::string& out) {
    const CollectiveCost& cost = step_.nodes[i].step->collective;
    NodeWriter writer = Begin(i, 2 * i, kCollective, device);
    AddOrder(last, 2 * i, writer);
    AddWork(i, writer);
    const CollectiveType type = TypeOf(cost.kind);
    const double gathered = type == kAllGather ? static_cast<double>(cost.group_size) : 1;
    const double local = LocalBytes(*step_.nodes[i].Collective(), cost.kind);
    writer.AddInteger("comm_type", kInt64, type);
    writer.AddInteger("comm_size", kInt64, std::llround(local * gathered));
    writer.AddText("pg_name", fmt::format("{}", partners.group_names[group]));
    Finish(writer, out);
  }

  void WritePermute(size_t i, const Partners& partners, uint32_t device, uint64_t& last,
                    std::string& out) {
    const uint32_t source = SourceOf(partners, device), target = partners.targets[device];
    if (source == kNoDevice && target == kNoDevice) return WriteComputation(i, out, device);
    const UnrolledNode& node = step_.nodes[i];
    const int64_t tag = node.execution * table_.permutes() + partners.ordinal;
    const int64_t size = std::llround(LocalBytes(*node.Collective(), "collective-permute"));
    const auto write = [&](uint64_t id, NodeType type, uint32_t from, uint32_t to, bool has_work) {
      NodeWriter writer = Begin(i, id, type, device);
      AddOrder(last, id, writer);
      if (has_work) {
        AddWork(i, writer);
      } else {
        writer.AddWork(0, 0);
      }
      writer.AddInteger("comm_size", kInt64, size);
      writer.AddInteger("comm_src", kInt32, from);
      writer.AddInteger("comm_dst", kInt32, to);
      writer.AddInteger("comm_tag", kInt32, tag);
      Finish(writer, out);
    };
    if (target != kNoDevice) write(2 * i, kSend, device, target, true);
    if (source != kNoDevice) write(2 * i + 1, kReceive, source, device, target == kNoDevice);
  }

  const UnrolledStep& step_;
  const PartnerTable& table_;
  // By node: it differs from device to device; it waits for what another device may not have.
  std::vector<bool> is_own_, waits_for_own_;
  // By node, what was written for the members of a group (above), after which communication (below:
  // the numbers of nodes have 32 bits).
  std::vector<std::unordered_map<uint64_t, std::string>> of_groups_;
  std::vector<int64_t> durations_, flops_, bytes_;  // by node
  std::string common_, file_;
  int64_t common_nodes_ = 0, nodes_ = 0;
};

}  // namespace

Expected<ChakraSummary> WriteChakra(const Module& module, const PricedStep& priced,
                                    const Chip& chip, std::span<const int64_t> devices,
                                    const FileSink& sink) {
  Expected<std::vector<UnrolledStep>> steps = UnrollStep(priced);
  if (!steps) return Fail(std::move(steps.error()));
  PartnerTable table(module);
  for (const UnrolledStep& step : *steps) {
    for (const UnrolledNode& node : step.nodes) {
      const Instruction* collective = node.Collective();
      if (collective == nullptr) continue;
      if (auto done = table.Add(*collective); !done) return Fail(std::move(done.error()));
    }
  }
  ChakraSummary summary;
  for (const UnrolledStep& step : *steps) {
    TraceOfClass trace(step, table);
    for (uint32_t device : step.devices) {
      if (!devices.empty() && std::ranges::find(devices, int64_t{device}) == devices.end()) {
        continue;
      }
      const std::string& bytes = trace.Of(device);
      ++summary.traces;
      summary.nodes += trace.node_count();
      summary.bytes += static_cast<int64_t>(bytes.size());
      auto done = sink(fmt::format("step.{}.et", device), bytes);
      if (!done) return Fail(std::move(done.error()));
    }
  }
  const std::pair<const char*, std::string> files[] = {
      {"comm_group.json", table.numbers().AsJson()},
      {"network.yml", AstraSimNetwork(priced, chip)},
      {"system.json", AstraSimSystem(priced, chip)},
      {"memory.json", AstraSimMemory()}};
  for (const auto& [name, text] : files) {
    if (auto done = sink(name, text); !done) return Fail(std::move(done.error()));
  }
  return summary;
}

}  // namespace gshard
