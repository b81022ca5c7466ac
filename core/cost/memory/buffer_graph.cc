// Buffers of a computation. See buffer_graph.h.

#include "core/cost/memory/buffer_graph.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <set>

#include "core/analysis/kernels/aliases.h"
#include "core/analysis/kernels/moved_values.h"
#include "core/cost/memory/in_place.h"
#include "core/cost/memory/minor_dims.h"
#include "ir/async_sugar.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/op_traits.h"
#include "ir/sharding.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

constexpr uint32_t kNone = UINT32_MAX;

bool RunsConditionally(Opcode opcode) {
  return opcode == Opcode::kCall || opcode == Opcode::kConditional;
}

class GraphBuilder {
 public:
  GraphBuilder(const Computation& computation, ModuleKernels& kernels,
               const BufferGraphOptions& options, const FactsOfCallees& facts)
      : computation_(computation),
        users_(kernels.users()),
        host_(kernels.host()),
        options_(options),
        facts_(facts),
        fusion_(options.is_scheduled ? nullptr : &kernels.Of(computation)) {
    if (!options.is_scheduled && IsOfTpu(options.tiling)) {
      minor_dims_.emplace(computation, users_);
    }
    for (const Instruction* x : computation.instructions()) {
      first_id_ = std::min(first_id_, x->id());
      last_id_ = std::max(last_id_, x->id());
    }
    places_.resize(computation.instructions().empty() ? 0 : last_id_ - first_id_ + 1);
    if (computation.root()->opcode() == Opcode::kTuple) {
      for (const Instruction* x : computation.root()->operands()) Place(x).is_result = true;
    }
  }

  BufferGraph Build() {
    graph_.computation = &computation_;
    for (const Instruction* x : computation_.instructions()) {
      if (IsFused(x)) continue;
      Place(x).node = static_cast<uint32_t>(graph_.nodes.size());
      graph_.nodes.push_back(x);
      AssignLeaves(x);
      graph_.allocates.EndList();
      for (uint32_t buffer : LeavesOf(x)) graph_.leaves.Append(buffer);
      graph_.leaves.EndList();
      AddReads(x);
    }
    for (const Instruction* parameter : computation_.parameters()) {
      std::span<const uint32_t> leaves = LeavesOf(parameter);
      graph_.parameter_leaves.insert(graph_.parameter_leaves.end(), leaves.begin(), leaves.end());
    }
    std::span<const uint32_t> root = LeavesOf(computation_.root());
    graph_.root_leaves.assign(root.begin(), root.end());
    for (uint32_t buffer = 0; buffer < graph_.buffers.size(); ++buffer) AddOverwrites(buffer);
    FindParts();
    if (options_.fusion.for_tpu) FindEarlyCopies();
    if (options_.runs_kernels_whole && fusion_ != nullptr) JoinResults();
    return std::move(graph_);
  }

 private:
  struct PlaceOf {
    uint32_t node = kNone;
    uint32_t first_leaf = 0, leaf_count = 0;  // in leaves_
    uint32_t stamp = kNone;                   // the node that saw it last
    bool is_result = false;                   // an element of a root tuple
  };

  PlaceOf& Place(const Instruction* x) { return places_[x->id() - first_id_]; }
  const PlaceOf& Place(const Instruction* x) const { return places_[x->id() - first_id_]; }
  bool IsFused(const Instruction* x) const { return fusion_ != nullptr && fusion_->IsFused(x); }
  bool IsOnHost(const Instruction* x, int64_t leaf, const Shape* shape) const {
    if (shape->IsArray() && IsHostLayout(shape)) return true;
    return !host_.IsEmpty() && HasFlatElements(x) && host_.Has(x, leaf);
  }
  static bool HasFlatElements(const Instruction* x) {
    return !x->shape()->IsTuple() ||
           x->shape()->leaf_count() == static_cast<int64_t>(x->shape()->elements().size());
  }
  bool IsTransfer(const Instruction* x) const { return host_.IsTransfer(x); }
  // Nested tuples are told apart by their elements only: their leaves are none's.
  bool IsSpared(const Instruction* x, int64_t leaf) const {
    return fusion_ != nullptr && HasFlatElements(x) && fusion_->IsSpared(x, leaf);
  }
  // Of a value that is no part of another kernel.
  std::span<const uint32_t> LeavesOf(const Instruction* x) {
    const PlaceOf& place = Place(x);
    return std::span<const uint32_t>(leaves_).subspan(place.first_leaf, place.leaf_count);
  }

  // --- leaves

  void AddNew(const Instruction* x, int64_t leaf, const Shape* shape) {
    auto buffer = static_cast<uint32_t>(graph_.buffers.size());
    const bool is_whole = shape == x->shape();
    if (minor_dims_ && is_whole) shape = ShapeInMemory(x, users_);
    const bool is_constrained = minor_dims_ && shape == x->shape();
    const MinorDims minor = is_constrained ? minor_dims_->Of(x) : MinorDims();
    int64_t bytes = BufferBytes(shape, options_.tiling, minor);
    if (IsOfTpu(options_.tiling) && is_whole && IsFlattened(x)) {
      bytes = x->shape()->byte_size();
    }
    if (IsImmediate(x) || IsInFastMemory(shape)) bytes = 0;
    if (IsSpared(x, leaf) || IsOnHost(x, leaf, shape) != options_.counts_host) bytes = 0;
    if (options_.by_sharding) bytes = TileBytes(bytes, x->sharding(), static_cast<size_t>(leaf));
    graph_.buffers.push_back({x, static_cast<uint32_t>(leaf), bytes, false});
    graph_.allocates.Append(buffer);
    leaves_.push_back(buffer);
  }

  // A scalar that is constant or the device's number, and no result: kernels have it in a register.
  bool IsImmediate(const Instruction* x) const {
    const bool is_known = x->opcode() == Opcode::kConstant || x->opcode() == Opcode::kPartitionId ||
                          x->opcode() == Opcode::kReplicaId;
    return is_known && x->shape()->IsArray() && x->shape()->rank() == 0 &&
           x != computation_.root() && !Place(x).is_result;
  }

  // Is it a row that is only given other dims? A TPU's compiler makes it without the dims of one.
  bool IsFlattened(const Instruction* x) const {
    const auto is_reshape = [](const Instruction* user) {
      return user->opcode() == Opcode::kReshape;
    };
    return !options_.is_scheduled && x->shape()->IsArray() && x->shape()->rank() > 1 &&
           std::ranges::count_if(x->shape()->dims(), [](int64_t dim) { return dim != 1; }) == 1 &&
           !users_.of(x).empty() && std::ranges::all_of(users_.of(x), is_reshape);
  }

  static int64_t TileBytes(int64_t bytes, const Sharding* sharding, size_t leaf) {
    sharding = LeafSharding(sharding, leaf);
    int64_t tiles = sharding != nullptr ? sharding->TileCount() : 1;
    return bytes / tiles + (bytes % tiles != 0);
  }

  // Leaves first..first+count of `operand`, which become the next of the instruction's.
  void AddSame(const Instruction* operand, int64_t first, int64_t count) {
    CheckInternal(!IsFused(operand), "a value without memory of its own is renamed");
    const PlaceOf place = Place(operand);
    for (int64_t i = first; i < first + count; ++i)
      leaves_.push_back(leaves_[place.first_leaf + static_cast<size_t>(i)]);
  }
  void AddSame(const Instruction* operand) { AddSame(operand, 0, operand->shape()->leaf_count()); }

  void AddNewFrom(const Instruction* x, int64_t first) {
    if (first == 0 && !x->shape()->IsTuple()) return AddNew(x, 0, x->shape());
    const std::vector<const Shape*> shapes = LeafShapes(x->shape());
    for (size_t i = static_cast<size_t>(first); i < shapes.size(); ++i)
      AddNew(x, static_cast<int64_t>(i), shapes[i]);
  }

  void AssignLeaves(const Instruction* x) {
    auto first = static_cast<uint32_t>(leaves_.size());
    AppendLeaves(x);
    PlaceOf& place = Place(x);
    place.first_leaf = first;
    place.leaf_count = static_cast<uint32_t>(leaves_.size()) - first;
  }

  void AppendLeaves(const Instruction* x) {
    int64_t count = x->shape()->leaf_count();
    switch (x->opcode()) {
      case Opcode::kTuple:
        for (const Instruction* operand : x->operands()) AddSame(operand);
        return;
      case Opcode::kGetTupleElement:
        AddSame(x->operand(0), FirstLeafRead(*x), count);
        return;
      case Opcode::kWhile:
        return AppendWhile(x);
      case Opcode::kCall:
      case Opcode::kConditional:
        return AppendCall(x);
      case Opcode::kFusion:
        return AppendFusion(x);
      case Opcode::kAllGatherStart:
      case Opcode::kCollectivePermuteStart:
      case Opcode::kAsyncStart:
      case Opcode::kSend:
        return AppendStart(x);
      case Opcode::kAsyncUpdate:
        return BringsOperands(*x) ? AppendBroughtOperands(x) : AddSame(x->operand(0));
      case Opcode::kCopyStart: {  // (destination, source, context)
        const std::vector<const Shape*> shapes = LeafShapes(x->shape());
        AddNew(x, 0, shapes[0]);
        AddSame(x->operand(0));
        for (size_t i = 2; i < shapes.size(); ++i) AddNew(x, static_cast<int64_t>(i), shapes[i]);
        return;
      }
      case Opcode::kAllGatherDone:
      case Opcode::kCollectivePermuteDone:
      case Opcode::kAsyncDone:
        return AppendDone(x);
      case Opcode::kCopyDone:
      case Opcode::kRecvDone:
        AddSame(x->operand(0), 0, 1);
        return AddNewFrom(x, 1);
      default:  // a name or new buffers, below
        break;
    }
    if (IsRename(x)) return AddSame(x->operand(0));
    AddNewFrom(x, 0);
  }

  bool IsRename(const Instruction* x) const {
    if (x->operand_count() == 0 ||
        x->operand(0)->shape()->leaf_count() != x->shape()->leaf_count() ||
        IsFused(x->operand(0))) {
      return false;
    }
    // A compiler turns reshapes that move nothing into bitcasts, and drops copies that it did not
    // make.
    if (x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kCopy || MovesNothing(*x)) {
      return !options_.is_scheduled;
    }
    if (x->opcode() == Opcode::kCustomCall) {
      return IsIdentityCall(*x) && !IsTransfer(x) && Compatible(x->shape(), x->operand(0)->shape());
    }
    return KeepsOrder(x->opcode());
  }

  const CalleeFacts* FactsOf(const Computation* callee) const {
    auto found = facts_.find(callee);
    return found == facts_.end() ? nullptr : &found->second;
  }

  // What every iteration passes on unchanged stays where it is.
  void AppendWhile(const Instruction* x) {
    const CalleeFacts* body = FactsOf(x->called(1));
    const std::vector<const Shape*> shapes = LeafShapes(x->shape());
    for (size_t i = 0; i < shapes.size(); ++i) {
      auto leaf = static_cast<int64_t>(i);
      if (body != nullptr && body->unchanged[i] == static_cast<int32_t>(i)) {
        AddSame(x->operand(0), leaf, 1);
        graph_.buffers[leaves_.back()].is_loop_invariant = true;
      } else {
        AddNew(x, leaf, shapes[i]);
      }
    }
  }

  // What a callee gives back unchanged is the operand.
  void AppendCall(const Instruction* x) {
    const std::vector<const Shape*> shapes = LeafShapes(x->shape());
    for (size_t i = 0; i < shapes.size(); ++i) {
      uint32_t same = CommonSource(x, i, /*unchanged=*/true);
      if (same != kNone) {
        leaves_.push_back(same);
      } else {
        AddNew(x, static_cast<int64_t>(i), shapes[i]);
      }
    }
  }

  // Results that a compiler has in the memory of one operand are one.
  void AppendFusion(const Instruction* x) {
    const auto& aliasing = x->attributes<FusionAttributes>().output_to_operand_aliasing;
    if (aliasing.empty()) return AddNewFrom(x, 0);
    const size_t first = leaves_.size();
    const std::vector<const Shape*> shapes = LeafShapes(x->shape());
    std::vector<const Instruction*> operands;
    for (size_t i = 0; i < shapes.size(); ++i) {
      operands.push_back(AliasedOperand(x, aliasing, static_cast<int64_t>(i)));
      const auto same = std::ranges::find(operands, operands.back());
      const auto leaf = static_cast<size_t>(same - operands.begin());
      if (operands.back() != nullptr && leaf < i) {
        leaves_.push_back(leaves_[first + leaf]);
      } else {
        AddNew(x, static_cast<int64_t>(i), shapes[i]);
      }
    }
  }

  // The one buffer that result leaf i is in all callees (or that all update in place), or kNone.
  uint32_t CommonSource(const Instruction* x, size_t i, bool unchanged) {
    uint32_t common = kNone;
    bool conditional = x->opcode() == Opcode::kConditional;
    for (size_t callee = 0; callee < x->called().size(); ++callee) {
      const CalleeFacts* facts = FactsOf(x->called()[callee]);
      if (facts == nullptr) return kNone;
      int32_t parameter = unchanged ? facts->unchanged[i] : facts->in_place[i];
      if (parameter < 0) return kNone;
      uint32_t source = ArgumentLeaf(x, conditional ? callee + 1 : 0, conditional, parameter);
      if (source == kNone || (common != kNone && common != source)) return kNone;
      common = source;
    }
    return common;
  }

  // The buffer of parameter leaf `leaf` of a callee: of operand `first`, or counted from there on.
  uint32_t ArgumentLeaf(const Instruction* x, size_t first, bool only_first, int32_t leaf) {
    for (size_t k = first; k < static_cast<size_t>(x->operand_count()); ++k) {
      const Instruction* operand = x->operands()[k];
      auto count = static_cast<int32_t>(operand->shape()->leaf_count());
      if (leaf < count)
        return IsFused(operand) ? kNone : LeavesOf(operand)[static_cast<size_t>(leaf)];
      if (only_first) break;
      leaf -= count;
    }
    return kNone;
  }

  // (operands, results, contexts): the operands stay where they are until -done.
  void AppendStart(const Instruction* x) {
    int64_t before = static_cast<int64_t>(leaves_.size()), count = x->shape()->leaf_count();
    int64_t given = x->opcode() == Opcode::kSend ? 1 : x->operand_count();
    for (int64_t k = 0; k < given; ++k) {
      const Instruction* operand = x->operand(k);
      if (static_cast<int64_t>(leaves_.size()) - before + operand->shape()->leaf_count() > count)
        break;
      AddSame(operand);
    }
    AddNewFrom(x, static_cast<int64_t>(leaves_.size()) - before);
  }

  // (operands, result, state) of an async-update with operands: they and the state of the start,
  // which is all that the start has, stay where they are.
  void AppendBroughtOperands(const Instruction* x) {
    const Instruction* start = x->operand(0);
    int64_t before = static_cast<int64_t>(leaves_.size());
    for (const Instruction* operand : x->operands().subspan(1)) AddSame(operand);
    const std::vector<const Shape*> shapes = LeafShapes(x->shape());
    const auto first = static_cast<size_t>(static_cast<int64_t>(leaves_.size()) - before);
    const auto result = static_cast<size_t>(x->shape()->element(1)->leaf_count());
    for (size_t i = first; i < shapes.size(); ++i) {
      const auto state = static_cast<int64_t>(i) - static_cast<int64_t>(first + result);
      if (state >= 0 && state < start->shape()->leaf_count()) {
        AddSame(start, state, 1);
      } else {
        AddNew(x, static_cast<int64_t>(i), shapes[i]);
      }
    }
  }

  void AppendDone(const Instruction* x) {
    const Instruction* start = x->operand(0);
    int64_t count = x->shape()->leaf_count();
    int64_t first = start->shape()->IsTuple() ? start->shape()->element(0)->leaf_count() : count;
    if (first + count <= start->shape()->leaf_count()) {
      AddSame(start, first, count);
    } else {
      AddNewFrom(x, 0);
    }
  }

  // --- edges

  // What must be done before `node` though it reads nothing of it: memory need not wait for it.
  void AwaitAll(uint32_t node) {
    while (!awaited_.empty()) {
      const Instruction* value = awaited_.back();
      awaited_.pop_back();
      PlaceOf& place = Place(value);
      if (place.stamp == node) continue;
      place.stamp = node;
      if (!IsFused(value)) {
        graph_.predecessors.Append(place.node);
        continue;
      }
      awaited_.insert(awaited_.end(), value->operands().begin(), value->operands().end());
      awaited_.insert(awaited_.end(), value->control_predecessors().begin(),
                      value->control_predecessors().end());
    }
  }

  void AddReads(const Instruction* x) {
    uint32_t node = Place(x).node;
    std::vector<const Instruction*>& pending = pending_;
    auto push = [&](std::span<Instruction* const> operands) {
      pending.insert(pending.end(), operands.begin(), operands.end());
    };
    push(x->operands());
    std::vector<const Instruction*>& awaited = awaited_;
    const auto wait = [&](std::span<Instruction* const> predecessors) {
      awaited.insert(awaited.end(), predecessors.begin(), predecessors.end());
    };
    wait(x->control_predecessors());
    std::vector<uint32_t>& reads = reads_;
    reads.clear();
    while (!pending.empty()) {
      const Instruction* value = pending.back();
      pending.pop_back();
      PlaceOf& place = Place(value);
      if (place.stamp == node) continue;
      place.stamp = node;
      if (IsFused(value)) {
        push(value->operands());
        wait(value->control_predecessors());
        continue;
      }
      graph_.predecessors.Append(place.node);
      // Never computed, it reads nothing.
      if (x->shape()->IsArray() && IsSpared(x, 0)) continue;
      // A renaming of one element of a tuple keeps that element only.
      if (x->opcode() == Opcode::kGetTupleElement) continue;
      std::span<const uint32_t> leaves = LeavesOf(value);
      reads.insert(reads.end(), leaves.begin(), leaves.end());
    }
    if (x->opcode() == Opcode::kGetTupleElement) {
      std::span<const uint32_t> leaves = LeavesOf(x);
      reads.insert(reads.end(), leaves.begin(), leaves.end());
    }
    AwaitAll(node);
    std::sort(reads.begin(), reads.end());
    reads.erase(std::unique(reads.begin(), reads.end()), reads.end());
    for (uint32_t buffer : reads) graph_.reads.Append(buffer);
    graph_.reads.EndList();
    graph_.predecessors.EndList();
  }

  // What a kernel writes beside its own result waits for all that the kernel reads.
  void JoinResults() {
    std::vector<std::vector<uint32_t>> waits(graph_.nodes.size());
    bool is_joined = false;
    for (const FusionKernel& kernel : fusion_->kernels()) {
      std::vector<uint32_t> results, inputs;
      for (const Instruction* member : kernel.members) {
        if (!IsFused(member)) results.push_back(Place(member).node);
      }
      if (results.size() < 2) continue;
      for (const uint32_t result : results) {
        for (const uint32_t before : graph_.predecessors[result]) {
          if (std::ranges::find(results, before) == results.end()) inputs.push_back(before);
        }
      }
      for (const uint32_t result : results) waits[result] = inputs;
      is_joined = true;
    }
    if (!is_joined) return;
    AdjacencyLists joined;
    std::vector<uint32_t> seen_by(graph_.nodes.size(), kNone);
    for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
      std::vector<uint32_t> all(graph_.predecessors[node].begin(), graph_.predecessors[node].end());
      all.insert(all.end(), waits[node].begin(), waits[node].end());
      for (const uint32_t before : all) {
        if (seen_by[before] == node) continue;
        seen_by[before] = node;
        joined.Append(before);
      }
      joined.EndList();
    }
    if (HasOrder(joined)) graph_.predecessors = std::move(joined);
  }

  // Can all nodes run, each after those before it?
  static bool HasOrder(const AdjacencyLists& predecessors) {
    const size_t count = predecessors.size();
    const AdjacencyLists successors = Reversed(predecessors);
    std::vector<uint32_t> open;
    std::vector<size_t> waits_for(count);
    for (uint32_t node = 0; node < count; ++node) {
      waits_for[node] = predecessors[node].size();
      if (waits_for[node] == 0) open.push_back(node);
    }
    size_t done = 0;
    for (; !open.empty(); ++done) {
      const uint32_t node = open.back();
      open.pop_back();
      for (const uint32_t next : successors[node]) {
        if (--waits_for[next] == 0) open.push_back(next);
      }
    }
    return done == count;
  }

  void FindParts() {
    for (const Instruction* x : computation_.instructions()) {
      const Motion motion = MotionOf(x->opcode());
      const bool is_part = motion == Motion::kTakes || motion == Motion::kGathers ||
                           motion == Motion::kUpdates || x->opcode() == Opcode::kScatter;
      if (!is_part) continue;
      const Instruction* of = x->operand(0);
      while (of->opcode() == Opcode::kReshape || of->opcode() == Opcode::kCopy) of = of->operand(0);
      const int64_t bytes = BufferBytes(PartOf(x)->shape(), options_.tiling);
      if (of->shape()->IsArray() && !IsFused(of)) AddPart(LeavesOf(of)[0], bytes);
      if (motion == Motion::kUpdates && !IsFused(x)) AddPart(LeavesOf(x)[0], bytes);
    }
  }

  void AddPart(uint32_t buffer, int64_t bytes) {
    int64_t& part = graph_.buffers[buffer].part_bytes;
    part = std::max(part, bytes);
  }

  // What is taken of an array or put into it.
  static const Instruction* PartOf(const Instruction* x) {
    if (MotionOf(x->opcode()) == Motion::kUpdates) return x->operand(1);
    return x->opcode() == Opcode::kScatter ? x->operand(x->operand_count() - 1) : x;
  }

  // A compiler that overlaps copies with kernels starts those from the host as soon as it can: what
  // needs only arguments, or slices of what lies on the host, at the start.
  void FindEarlyCopies() {
    if (host_.IsEmpty()) return;
    constexpr int64_t kAddressBytes = 4096;  // counters and offsets
    graph_.starts_early.assign(graph_.nodes.size(), false);
    std::vector<bool> is_ready(graph_.nodes.size(), false);
    for (uint32_t node = 0; node < graph_.nodes.size(); ++node) {
      const Instruction* x = graph_.nodes[node];
      const auto before = graph_.predecessors[node];
      const bool can_start = std::ranges::all_of(before, [&](uint32_t i) { return is_ready[i]; });
      if (!can_start || IsControlFlow(x->opcode())) continue;
      int64_t bytes = 0;
      for (uint32_t buffer : graph_.allocates[node]) bytes += graph_.buffers[buffer].bytes;
      is_ready[node] = x->opcode() == Opcode::kParameter || bytes <= kAddressBytes;
      graph_.starts_early[node] = x->shape()->IsArray() && IsTransfer(x) && !host_.Has(x);
    }
    for (uint32_t node = static_cast<uint32_t>(graph_.nodes.size()); node-- > 0;) {
      if (!graph_.starts_early[node]) continue;
      for (uint32_t before : graph_.predecessors[node]) graph_.starts_early[before] = true;
    }
  }

  void AddOverwrites(uint32_t number) {
    const Buffer buffer = graph_.buffers[number];
    if (buffer.bytes > 0) {
      auto offer = [&](uint32_t candidate) {
        if (graph_.buffers[candidate].bytes == buffer.bytes) graph_.overwrites.Append(candidate);
      };
      const Instruction* x = buffer.owner;
      if (x->opcode() == Opcode::kWhile) {
        offer(LeavesOf(x->operand(0))[buffer.leaf]);
      } else if (RunsConditionally(x->opcode())) {
        uint32_t source = CommonSource(x, buffer.leaf, /*unchanged=*/false);
        if (source == kNone) source = AddBranchHome(x, number);
        if (source != kNone) offer(source);
      } else {
        OfferInputs(x, buffer.leaf, [&](uint32_t candidate) {
          const Buffer& offered = graph_.buffers[candidate];
          const bool may = !IsOneOfSeveral(offered.owner) && !IsLaidOutAnew(buffer, offered);
          if (may || IsToldInPlace(x, buffer.leaf)) offer(candidate);
        });
      }
    }
    graph_.overwrites.EndList();
  }

  // The operand that some branches give back as result `number` of a conditional, or kNone.
  uint32_t AddBranchHome(const Instruction* x, uint32_t number) {
    if (x->opcode() != Opcode::kConditional) return kNone;
    const Buffer& result = graph_.buffers[number];
    uint32_t home = kNone;
    for (size_t callee = 0; callee < x->called().size(); ++callee) {
      const CalleeFacts* facts = FactsOf(x->called()[callee]);
      if (facts == nullptr) return kNone;
      const int32_t parameter = facts->in_place[result.leaf];
      if (parameter < 0) continue;
      const uint32_t source = ArgumentLeaf(x, callee + 1, /*only_first=*/true, parameter);
      if (source == kNone || (home != kNone && home != source)) return kNone;
      home = source;
    }
    if (home == kNone || graph_.buffers[home].bytes != result.bytes) return kNone;
    if (!homes_.insert({Place(x).node, home}).second) return kNone;
    BranchHome& added = graph_.branch_homes.emplace_back();
    added = {Place(x).node, result.leaf, home, {}};
    for (size_t callee = 0; callee < x->called().size(); ++callee) {
      const Instruction* operand = x->operand(static_cast<int64_t>(callee) + 1);
      int32_t place = -1;
      if (!IsFused(operand)) {
        std::span<const uint32_t> leaves = LeavesOf(operand);
        auto found = std::find(leaves.begin(), leaves.end(), home);
        if (found != leaves.end()) place = static_cast<int32_t>(found - leaves.begin());
      }
      added.parameter_leaves.push_back(place);
    }
    return home;
  }

  // Does a compiler's text say in whose memory the result is?
  static bool IsToldInPlace(const Instruction* x, uint32_t leaf) {
    if (x->opcode() != Opcode::kFusion) return false;
    const auto& aliasing = x->attributes<FusionAttributes>().output_to_operand_aliasing;
    return !aliasing.empty() && AliasedOperand(x, aliasing, leaf) != nullptr;
  }

  // In a compiled text, does a kernel write an array's elements in another order than it reads
  // them?
  bool IsLaidOutAnew(const Buffer& made, const Buffer& read) const {
    if (!options_.is_scheduled) return false;
    const Shape* to = LeafShapes(made.owner->shape())[made.leaf];
    const Shape* from = LeafShapes(read.owner->shape())[read.leaf];
    if (to->bare() != from->bare() || to->layout() == nullptr || from->layout() == nullptr) {
      return false;
    }
    return !std::ranges::equal(to->layout()->minor_to_major, from->layout()->minor_to_major);
  }

  // On TPUs, is x one of the results of a kernel that has several? Nothing is computed in place of
  // these.
  bool IsOneOfSeveral(const Instruction* x) const {
    if (!options_.fusion.for_tpu) return false;
    if (x->opcode() == Opcode::kFusion) return x->shape()->leaf_count() > 1;
    const FusionKernel* kernel = fusion_ != nullptr ? fusion_->KernelOf(x) : nullptr;
    return kernel != nullptr &&
           std::ranges::any_of(kernel->members, [&](const Instruction* member) {
             return member != x && !fusion_->IsFused(member);
           });
  }

  // On TPUs, is x a second result of another value's kernel? Such are in place only where they are
  // given back in a donated argument's memory.
  bool IsWrittenBeside(const Instruction* x) const {
    if (fusion_ == nullptr || !options_.fusion.for_tpu || Place(x).is_result) return false;
    const FusionKernel* kernel = fusion_->KernelOf(x);
    return kernel != nullptr && kernel->root != x;
  }

  // The same of a result of a compiled text's fusion that gives several.
  bool IsWrittenBeside(const Instruction* fusion, uint32_t leaf) const {
    if (!options_.fusion.for_tpu || leaf == 0) return false;
    return std::ranges::none_of(users_.of(fusion), [&](const Instruction* user) {
      return user->opcode() == Opcode::kGetTupleElement && Place(user).is_result &&
             user->attributes<GetTupleElementAttributes>().index == leaf;
    });
  }

  template <typename Offer>
  void OfferInputs(const Instruction* x, uint32_t leaf, const Offer& offer) {
    if (x->opcode() == Opcode::kFusion) return OfferFusionInputs(x, leaf, offer);
    if (x->opcode() == Opcode::kCustomCall) {
      const auto& attributes = x->attributes<CustomCallAttributes>();
      const Instruction* operand = AliasedOperand(x, attributes.output_to_operand_aliasing, leaf);
      if (operand != nullptr && !IsFused(operand)) offer(LeavesOf(operand)[0]);
      return;
    }
    // A GPU's compiler copies several operands into one array, which the model does not have: it
    // counts each of their sums.
    if ((x->opcode() == Opcode::kAllReduce || x->opcode() == Opcode::kAllReduceStart) &&
        (options_.fusion.for_tpu || x->operand_count() == 1)) {
      const Instruction* operand = x->operand(leaf);
      if (!IsFused(operand)) offer(LeavesOf(operand)[0]);
      return;
    }
    if (IsWrittenBeside(x)) return;
    const auto is_input = [this](const Instruction* value) { return !IsFused(value); };
    for (const OperandLeaf& input : InPlaceInputs(x, leaf, is_input)) {
      if (IsFused(input.operand)) continue;
      if (options_.fusion.for_gpu && ReadsReductionOf(input.operand, x, is_input)) continue;
      offer(LeavesOf(input.operand)[static_cast<size_t>(input.leaf)]);
    }
  }

  template <typename Offer>
  void OfferFusionInputs(const Instruction* x, uint32_t leaf, const Offer& offer) {
    const auto& aliasing = x->attributes<FusionAttributes>().output_to_operand_aliasing;
    if (const Instruction* operand = AliasedOperand(x, aliasing, leaf))
      return offer(LeavesOf(operand)[0]);
    const Instruction* root = x->called(0)->root();
    if (root->opcode() == Opcode::kTuple) {
      if (leaf >= root->operand_count()) return;
      root = root->operand(leaf);
      if (IsElementwise(root->opcode()) && IsWrittenBeside(x, leaf)) return;
    }
    std::vector<OperandLeaf> inputs = InPlaceInputs(
        root, 0, [](const Instruction* value) { return value->opcode() == Opcode::kParameter; });
    for (const OperandLeaf& input : inputs) {
      if (input.operand->opcode() != Opcode::kParameter) continue;
      int64_t number = input.operand->attributes<ParameterAttributes>().number;
      if (number < x->operand_count() && x->operand(number)->shape()->leaf_count() == 1)
        offer(LeavesOf(x->operand(number))[0]);
    }
  }

  const Computation& computation_;
  const Users& users_;
  const HostMemory& host_;
  const BufferGraphOptions& options_;
  const FactsOfCallees& facts_;
  const FusionModel* fusion_;                       // null: of compiled text
  std::optional<ComputationMinorDims> minor_dims_;  // of a TPU's program
  uint32_t first_id_ = UINT32_MAX, last_id_ = 0;
  std::vector<PlaceOf> places_;  // by instruction id
  std::vector<uint32_t> leaves_;
  std::vector<const Instruction*> pending_, awaited_;  // of AddReads, as the next
  std::vector<uint32_t> reads_;
  std::set<std::pair<uint32_t, uint32_t>> homes_;  // of conditionals: node, operand's buffer
  BufferGraph graph_;
};

}  // namespace

AdjacencyLists Reversed(const AdjacencyLists& lists) {
  std::vector<uint32_t> begin(lists.size() + 1, 0);
  for (uint32_t node = 0; node < lists.size(); ++node) {
    for (const uint32_t other : lists[node]) ++begin[other + 1];
  }
  std::partial_sum(begin.begin(), begin.end(), begin.begin());
  std::vector<uint32_t> next = begin, items(begin.back());
  for (uint32_t node = 0; node < lists.size(); ++node) {
    for (const uint32_t other : lists[node]) items[next[other]++] = node;
  }
  AdjacencyLists reversed;
  for (uint32_t node = 0; node < lists.size(); ++node) {
    for (uint32_t i = begin[node]; i < begin[node + 1]; ++i) reversed.Append(items[i]);
    reversed.EndList();
  }
  return reversed;
}

BufferGraph MakeBufferGraph(const Computation& computation, ModuleKernels& kernels,
                            const BufferGraphOptions& options, const FactsOfCallees& facts) {
  return GraphBuilder(computation, kernels, options, facts).Build();
}

}  // namespace gshard
