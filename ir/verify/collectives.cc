// Collectives: device ids of groups and pairs, group sizes against shapes, channels; async pairs.
//
// Which ids groups list (docs/text-format.md, "Collectives"): replica ids without a channel; with
// one, partition ids (all-to-all, permute, broadcast) or replica ids standing for all their
// partitions (all-reduce, all-gather, reduce-scatter); flattened ids with use_global_device_ids.
#include <algorithm>
#include <vector>

#include "ir/async_sugar.h"
#include "ir/verify/checks.h"
#include "ir/verify/verifier.h"

namespace gshard {

namespace {

using Problem = std::optional<std::string>;

std::string Number(int64_t value) { return std::to_string(value); }

struct IdSpace {
  int64_t count = 0;    // ids 0..count-1; 0: the module does not say
  int64_t devices = 1;  // that one id stands for
};

IdSpace IdsOf(const ModuleHeader& header, Opcode opcode, const CollectiveAttributes& attributes) {
  const int64_t replicas = header.replica_count;
  const int64_t partitions = header.num_partitions;
  auto known = [](int64_t count) { return count > 1 ? count : 0; };
  if (attributes.channel_id == 0) return {known(replicas), 1};
  if (attributes.use_global_device_ids) {
    int64_t all = 0;
    if (__builtin_mul_overflow(replicas, partitions, &all)) all = 0;
    return {known(all), 1};
  }
  switch (opcode) {
    case Opcode::kAllReduce:
    case Opcode::kAllReduceStart:
    case Opcode::kAllGather:
    case Opcode::kAllGatherStart:
    case Opcode::kReduceScatter:
      return {known(replicas), partitions};
    default:
      return {known(partitions), 1};
  }
}

// Each id once, in range; all of them where the module says how many there are.
Problem CheckIds(const std::vector<std::vector<int64_t>>& groups, int64_t count, bool must_cover) {
  size_t total = 0;
  int64_t largest = -1;
  for (const std::vector<int64_t>& group : groups) {
    if (group.empty()) return "replica_groups has an empty group";
    total += group.size();
    largest = std::max(largest, *std::max_element(group.begin(), group.end()));
  }
  if (count > 0 && largest >= count) {
    return "replica_groups names device " + Number(largest) + ", expected ids below " +
           Number(count);
  }
  std::vector<int64_t> ids;
  ids.reserve(total);
  for (const std::vector<int64_t>& group : groups)
    ids.insert(ids.end(), group.begin(), group.end());
  std::sort(ids.begin(), ids.end());
  if (!ids.empty() && ids.front() < 0) {
    return "replica_groups names device " + Number(ids.front());
  }
  auto twice = std::adjacent_find(ids.begin(), ids.end());
  if (twice != ids.end()) return "replica_groups names device " + Number(*twice) + " twice";
  if (must_cover && count > 0 && static_cast<int64_t>(total) != count) {
    return "replica_groups must name all " + Number(count) + " devices, found " +
           Number(static_cast<int64_t>(total));
  }
  return std::nullopt;
}

struct GroupSizes {
  int64_t size = 0;  // devices joined; 0: the module does not say
  bool uniform = true;
};

Problem CheckGroups(const CollectiveAttributes& attributes, const IdSpace& ids, bool must_cover,
                    GroupSizes& sizes) {
  const ReplicaGroups* groups = attributes.replica_groups;
  if (groups == nullptr || groups->IsAll()) {
    sizes.size = ids.count * ids.devices;
    return std::nullopt;
  }
  if (groups->tiles() != nullptr) {  // every device once by construction
    const int64_t named = groups->tiles()->device_count();
    if (ids.count > 0 && named != ids.count) {
      return "replica_groups must name all " + Number(ids.count) + " devices, found " +
             Number(named);
    }
    sizes.size = groups->tiles()->dim(1) * ids.devices;
    return std::nullopt;
  }
  const std::vector<std::vector<int64_t>> lists = groups->ToLists(0);
  if (Problem problem = CheckIds(lists, ids.count, must_cover)) return problem;
  for (const std::vector<int64_t>& list : lists) {
    sizes.uniform = sizes.uniform && list.size() == lists[0].size();
  }
  if (!lists.empty()) sizes.size = static_cast<int64_t>(lists[0].size()) * ids.devices;
  return std::nullopt;
}

// The result's dim is the operand's times (or over) the group size.
Problem CheckFactor(const Instruction& instruction, int64_t dim, const Shape* operand,
                    const Shape* result, int64_t group, bool grow) {
  if (result->IsTuple()) result = result->element(0);
  const int64_t small = grow ? operand->dim(dim) : result->dim(dim);
  const int64_t large = grow ? result->dim(dim) : operand->dim(dim);
  if (small == Shape::kUnbounded || large == Shape::kUnbounded) return std::nullopt;
  if (small == 0 || (large % group == 0 && large / group == small)) return std::nullopt;
  return std::string(OpcodeName(instruction.opcode())) + " of groups of " + Number(group) +
         " must make dim " + Number(dim) + " of " + ToString(operand, false) + " " + Number(group) +
         (grow ? " times as large" : " times smaller") + ", found " + ToString(result, false);
}

Problem CheckSizes(const Instruction& instruction, const CollectiveAttributes& attributes,
                   const GroupSizes& sizes) {
  const Opcode opcode = instruction.opcode();
  if (opcode == Opcode::kAllReduce || opcode == Opcode::kAllReduceStart ||
      opcode == Opcode::kCollectiveBroadcast) {
    return std::nullopt;
  }
  if (!sizes.uniform) {
    return "groups of " + std::string(OpcodeName(opcode)) + " must have one size";
  }
  if (sizes.size == 0) return std::nullopt;
  const Shape* operand = instruction.operand(0)->shape();
  switch (opcode) {
    case Opcode::kAllGather:
      return CheckFactor(instruction, attributes.dimension, operand, instruction.shape(),
                         sizes.size, /*grow=*/true);
    case Opcode::kAllGatherStart:
      return CheckFactor(instruction, attributes.dimension, operand,
                         instruction.shape()->element(1), sizes.size, /*grow=*/true);
    case Opcode::kReduceScatter:
      return CheckFactor(instruction, attributes.dimension, operand, instruction.shape(),
                         sizes.size, /*grow=*/false);
    case Opcode::kAllToAll:
      if (attributes.dimension == -1 && instruction.operand_count() != sizes.size) {
        return "all-to-all among groups of " + Number(sizes.size) +
               " takes one operand per member, found " + Number(instruction.operand_count());
      }
      if (attributes.dimension != -1 && operand->dim(attributes.dimension) % sizes.size != 0 &&
          operand->dim(attributes.dimension) != Shape::kUnbounded) {
        return "all-to-all cuts dim " + Number(attributes.dimension) + " of " +
               ToString(operand, false) + " into " + Number(sizes.size) +
               " blocks, which does not divide";
      }
      return std::nullopt;
    default:
      return std::nullopt;
  }
}

}  // namespace

std::optional<std::string> CheckDevicePairs(std::span<const DevicePair> pairs, int64_t count) {
  auto check = [count](std::vector<int64_t>& ids, std::string_view role) -> Problem {
    std::sort(ids.begin(), ids.end());
    if (!ids.empty() && (ids.front() < 0 || (count > 0 && ids.back() >= count))) {
      return "source_target_pairs names device " +
             Number(ids.front() < 0 ? ids.front() : ids.back()) +
             (count > 0 ? ", expected ids below " + Number(count) : std::string());
    }
    auto twice = std::adjacent_find(ids.begin(), ids.end());
    if (twice == ids.end()) return std::nullopt;
    return "source_target_pairs has device " + Number(*twice) + " twice as a " + std::string(role);
  };
  std::vector<int64_t> sources, targets;
  sources.reserve(pairs.size());
  targets.reserve(pairs.size());
  for (const DevicePair& pair : pairs) {
    sources.push_back(pair.source);
    targets.push_back(pair.target);
  }
  if (Problem problem = check(sources, "source")) return problem;
  return check(targets, "target");
}

std::optional<std::string> CheckCollective(const Module& module, const Instruction& instruction) {
  const auto& attributes = instruction.attributes<CollectiveAttributes>();
  if (attributes.channel_id < 0) {
    return "channel_id must be positive, found " + Number(attributes.channel_id);
  }
  if (attributes.use_global_device_ids && attributes.channel_id == 0) {
    return "use_global_device_ids needs a channel_id";
  }
  const Opcode opcode = instruction.opcode();
  const IdSpace ids = IdsOf(module.header(), opcode, attributes);
  if (opcode == Opcode::kCollectivePermute || opcode == Opcode::kCollectivePermuteStart) {
    return CheckDevicePairs(attributes.source_target_pairs, ids.count);
  }
  GroupSizes sizes;
  const bool must_cover = opcode != Opcode::kCollectiveBroadcast;
  if (Problem problem = CheckGroups(attributes, ids, must_cover, sizes)) return problem;
  return CheckSizes(instruction, attributes, sizes);
}

std::optional<std::string> CheckGroupSize(const Instruction& instruction, int64_t size) {
  return CheckSizes(instruction, instruction.attributes<CollectiveAttributes>(), {size, true});
}

namespace {

Problem ExpectStart(const Instruction& done, std::initializer_list<Opcode> starts) {
  const Instruction* operand = done.operand(0);
  for (Opcode start : starts) {
    if (operand->opcode() == start) return std::nullopt;
  }
  return std::string(OpcodeName(done.opcode())) + " must take the result of " +
         std::string(OpcodeName(*starts.begin())) + ", found " +
         std::string(OpcodeName(operand->opcode()));
}

// Operands that an async-update brings are those of the computation that its start calls, and the
// result is that computation's.
Problem CheckLateOperands(const Instruction& update) {
  const Instruction* start = AsyncStartOf(&update);
  if (start == nullptr) return std::nullopt;  // ExpectStart finds that further up
  const Computation& called = *start->called(0);
  const auto late = update.operands().subspan(1);
  if (late.size() != called.parameters().size()) {
    return "async-update brings " + Number(static_cast<int64_t>(late.size())) +
           " operands to a computation of " +
           Number(static_cast<int64_t>(called.parameters().size())) + " parameters";
  }
  for (size_t i = 0; i < late.size(); ++i) {
    const Shape* parameter = called.parameters()[i]->shape();
    if (Compatible(late[i]->shape(), parameter)) continue;
    return "operand " + Number(static_cast<int64_t>(i) + 1) + " of async-update must be " +
           ToString(parameter, false) + ", found " + ToString(late[i]->shape(), false);
  }
  const Shape* result = update.shape()->element(1);
  if (Compatible(result, called.root()->shape())) return std::nullopt;
  return "the result of async-update must be " + ToString(called.root()->shape(), false) +
         ", found " + ToString(result, false);
}

// A transfer may be in flight over a loop's back edge, so the start need not be the operand itself.
Problem CheckTransferDone(const Instruction& done, Opcode start) {
  const Instruction* operand = done.operand(0);
  if (operand->opcode() != start) {
    switch (operand->opcode()) {
      case Opcode::kParameter:
      case Opcode::kGetTupleElement:
      case Opcode::kTuple:
      case Opcode::kWhile:
      case Opcode::kOptBarrier:
      case Opcode::kCopy:
        return std::nullopt;
      default:
        return ExpectStart(done, {start});
    }
  }
  const auto& ours = done.attributes<ChannelAttributes>();
  const auto& theirs = operand->attributes<ChannelAttributes>();
  if (ours.channel_id != theirs.channel_id) {
    return "channel_id must be that of the start, " + Number(theirs.channel_id) + ", found " +
           Number(ours.channel_id);
  }
  if (ours.is_host_transfer != theirs.is_host_transfer) {
    return "is_host_transfer must be that of the start";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckAsyncPair(const Instruction& instruction) {
  switch (instruction.opcode()) {
    case Opcode::kAsyncUpdate:
      if (Problem problem = ExpectStart(instruction, {Opcode::kAsyncStart, Opcode::kAsyncUpdate})) {
        return problem;
      }
      return instruction.operand_count() > 1 ? CheckLateOperands(instruction) : std::nullopt;
    case Opcode::kAsyncDone:
      return ExpectStart(instruction, {Opcode::kAsyncStart, Opcode::kAsyncUpdate});
    case Opcode::kCopyDone:
      return ExpectStart(instruction, {Opcode::kCopyStart});
    case Opcode::kAllReduceDone:
      return ExpectStart(instruction, {Opcode::kAllReduceStart});
    case Opcode::kAllGatherDone:
      return ExpectStart(instruction, {Opcode::kAllGatherStart});
    case Opcode::kCollectivePermuteDone:
      return ExpectStart(instruction, {Opcode::kCollectivePermuteStart});
    case Opcode::kSendDone:
      return CheckTransferDone(instruction, Opcode::kSend);
    case Opcode::kRecvDone:
      return CheckTransferDone(instruction, Opcode::kRecv);
    default:
      if (instruction.attributes<ChannelAttributes>().channel_id < 0) {
        return "channel_id must be positive, found " +
               Number(instruction.attributes<ChannelAttributes>().channel_id);
      }
      return std::nullopt;
  }
}

}  // namespace gshard
