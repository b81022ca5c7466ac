// Builds the nodes of a computation's schedule. See step_model.h.

#include "core/cost/step_model.h"

#include <algorithm>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <span>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "core/analysis/trip_count.h"
#include "core/cost/blocking_collectives.h"
#include "core/cost/kernel_time.h"
#include "core/cost/memory/buffer_size.h"
#include "core/cost/op_cost.h"
#include "core/cost/recomputation.h"
#include "ir/compiled_text.h"

namespace gshard {
namespace {

constexpr uint32_t kAllLinks = ~uint32_t{0};
// To or from the host, one way, PCIe of a TPU.
constexpr double kHostBytesPerSecond = 1.5e10;

bool IsStart(Opcode opcode) {
  return opcode == Opcode::kAllReduceStart || opcode == Opcode::kAllGatherStart ||
         opcode == Opcode::kCollectivePermuteStart;
}

// Operands read and results written, network apart; a start's tuple repeats its operands.
double LocalBytes(const Instruction& collective) {
  double read = 0;
  for (const Instruction* operand : collective.operands()) {
    read += static_cast<double>(operand->shape()->byte_size());
  }
  const Shape* result = collective.shape();
  const bool is_pair = collective.opcode() == Opcode::kAllGatherStart ||
                       collective.opcode() == Opcode::kCollectivePermuteStart;
  if (is_pair && result->IsTuple() && result->elements().size() >= 2) result = result->element(1);
  return read + static_cast<double>(result->byte_size());
}

// The collective that an async-start wraps, or null.
const Instruction* WrappedCollective(const Instruction* start) {
  const Instruction* root = start->called().empty() ? nullptr : start->called(0)->root();
  return root != nullptr && IsCollective(root->opcode()) ? root : nullptr;
}

// The slice, or update of one, that an async-start has the copy engines do, or null.
const Instruction* WrappedPiece(const Instruction* start) {
  if (start->called().empty() || start->operand_count() == 0) return nullptr;
  const Instruction* root = start->called(0)->root();
  const bool moves = root->opcode() == Opcode::kSlice || root->opcode() == Opcode::kDynamicSlice ||
                     (root->opcode() == Opcode::kDynamicUpdateSlice && start->operand_count() > 1);
  const bool is_all =
      std::all_of(root->operands().begin(), root->operands().end(),
                  [](const Instruction* x) { return x->opcode() == Opcode::kParameter; });
  return moves && is_all ? root : nullptr;
}

}  // namespace

// Nodes are numbered in text order first; Sort puts them in an order that respects what each waits
// for, which kernels of several results may violate.
class StepBuilder {
 public:
  // `mixes`: of the computation's conditionals, where known; may be null.
  StepBuilder(StepModel& model, const Computation& computation, const BranchMixes* mixes,
              ComputationCost& cost)
      : model_(model), computation_(computation), mixes_(mixes), cost_(cost) {}

  void Run() {
    const FusionModel& fusion = model_.kernels_.Of(computation_);
    uint32_t last_id = 0;
    first_id_ = UINT32_MAX;
    for (const Instruction* x : computation_.instructions()) {
      first_id_ = std::min(first_id_, x->id());
      last_id = std::max(last_id, x->id());
    }
    if (first_id_ <= last_id) needs_.resize(last_id - first_id_ + 1);
    node_of_.resize(needs_.size(), -1);
    if (model_.chip_.stack == Chip::Stack::kPytorch) blocking_ = BlockingCollectives(computation_);
    cost_.steps.reserve(fusion.kernels().size());
    cost_.nodes.reserve(fusion.kernels().size());
    need_lists_.reserve(2 * needs_.size());
    AddKernels(fusion);
    for (const Instruction* x : computation_.instructions()) Visit(fusion, x);
    ShareBandwidth();
    if (cost_.trips > 1) ConnectTrips();
    Sort();
  }

 private:
  // A node, or -1 - i for what the loop carries as element i.
  using Needs = std::vector<int32_t>;
  struct Range {
    size_t begin = 0, size = 0;
  };

  // Valid until the next SetNeeds.
  std::span<const int32_t> NeedsOf(const Instruction* x) const {
    const Range& range = needs_[x->id() - first_id_];
    return {need_lists_.data() + range.begin, range.size};
  }
  // `needs`: not of need_lists_.
  void SetNeeds(const Instruction* x, std::span<const int32_t> needs) {
    needs_[x->id() - first_id_] = {need_lists_.size(), needs.size()};
    need_lists_.insert(need_lists_.end(), needs.begin(), needs.end());
  }
  void SetNeeds(const Instruction* x, int32_t node) { SetNeeds(x, {&node, 1}); }

  int32_t& NodeOf(const Instruction* x) { return node_of_[x->id() - first_id_]; }

  int32_t AddNode(const Instruction* instruction, StepNode::Kind kind) {
    StepNode step;
    step.kind = kind;
    step.instruction = instruction;
    cost_.steps.push_back(std::move(step));
    cost_.nodes.emplace_back();
    return static_cast<int32_t>(cost_.nodes.size()) - 1;
  }

  // What a fusion does with a collective that is its only work.
  std::optional<FusedCollective> NetworkOf(const Instruction& x) const {
    if (!model_.kernels_.is_compiled()) return std::nullopt;
    const auto fused = FindFusedCollective(x);
    return fused && fused->part != FusedPart::kStep ? fused : std::nullopt;
  }

  void AddKernels(const FusionModel& fusion) {
    for (const FusionKernel& kernel : fusion.kernels()) {
      if (NetworkOf(*kernel.root)) continue;
      int32_t number = AddNode(kernel.root, StepNode::Kind::kKernel);
      StepNode& step = cost_.steps.back();
      step.work = WorkOf(fusion, kernel);
      for (const Instruction* member : kernel.members) {
        if (IsRecomputed(*member)) step.recompute_flops += FlopsOf(*member);
      }
      step.model_s = RatedSeconds(step.work, model_.chip_);
      const std::optional<int64_t> cycles = EstimatedCycles(*kernel.root);
      if (cycles && model_.chip_.clock_hz > 0) {
        step.text_s = static_cast<double>(*cycles) / model_.chip_.clock_hz;
      }
      cost_.nodes.back().seconds =
          (model_.options_.uses_text_cycles ? step.text_s.value_or(step.model_s) : step.model_s) /
          model_.chip_.OfStack().sustained;
      for (const Instruction* member : kernel.members) NodeOf(member) = number;
    }
  }

  static double FlopsOf(const Instruction& x) {
    return x.opcode() == Opcode::kFusion ? WorkOfFusion(x).flops : CostOf(x).flops;
  }

  static void Merge(Needs& into, std::span<const int32_t> from) {
    for (int32_t need : from) {
      if (std::find(into.begin(), into.end(), need) == into.end()) into.push_back(need);
    }
  }

  // Valid until the next call.
  const Needs& NeedsOfOperands(const Instruction* x) {
    Needs& needs = of_operands_;
    needs.clear();
    for (const Instruction* operand : x->operands()) Merge(needs, NeedsOf(operand));
    for (const Instruction* before : x->control_predecessors()) Merge(needs, NeedsOf(before));
    if (needs.size() > 64) {
      std::sort(needs.begin(), needs.end());
      needs.erase(std::unique(needs.begin(), needs.end()), needs.end());
    }
    return needs;
  }

  void WaitFor(int32_t node, const Needs& needs) {
    if (!needs.empty()) {
      std::vector<int32_t>& after = cost_.nodes[static_cast<size_t>(node)].after;
      if (after.capacity() == 0) after.reserve(std::max<size_t>(4, needs.size()));
    }
    for (int32_t need : needs) {
      if (need == node) continue;
      if (need >= 0) {
        cost_.nodes[static_cast<size_t>(node)].after.push_back(need);
      } else {
        carried_uses_.push_back({node, -1 - need});
      }
    }
  }

  void Visit(const FusionModel& fusion, const Instruction* x) {
    if (const auto fused = NetworkOf(*x)) return AddFusedCollective(x, *fused);
    if (fusion.KernelOf(x) != nullptr) {
      const int32_t node = NodeOf(x);
      last_compute_ = node;
      const Needs& needs = NeedsOfOperands(x);
      WaitFor(node, needs);
      // Kernels that compute a fused value for themselves wait for its operands.
      return fusion.IsFused(x) ? SetNeeds(x, needs) : SetNeeds(x, node);
    }
    if (model_.kernels_.host().IsTransfer(x)) return AddHostTransfer(x);
    switch (x->opcode()) {
      case Opcode::kParameter:
        return;
      case Opcode::kGetTupleElement:
        SetNeedsOfElement(x);
        return;
      case Opcode::kWhile:
        AddLoop(x);
        return;
      case Opcode::kConditional:
        AddConditional(x);
        return;
      case Opcode::kCall:
        AddCallee(x, *x->called(0));
        return;
      case Opcode::kAsyncStart:
        if (const Instruction* collective = WrappedCollective(x)) {
          AddCollective(x, *collective, true);
        } else if (const Instruction* piece = WrappedPiece(x)) {
          AddCopyOfPiece(x, *piece);
        } else if (!x->called().empty()) {
          AddCallee(x, *x->called(0));
        }
        return;
      case Opcode::kCopyStart:
        AddCopy(x, x->operand(0)->shape(), x->shape()->element(0), x->operand(0)->shape());
        return;
      default:  // by family, below
        break;
    }
    if (IsCollective(x->opcode())) {
      AddCollective(x, *x, IsStart(x->opcode()));
    } else {
      SetNeeds(x, NeedsOfOperands(x));  // free, or the end of what a start began
    }
  }

  void SetNeedsOfElement(const Instruction* x) {
    const Instruction* tuple = x->operand(0);
    const int64_t index = x->attributes<GetTupleElementAttributes>().index;
    while (tuple->opcode() == Opcode::kOptBarrier) tuple = tuple->operand(0);
    if (tuple->opcode() == Opcode::kParameter) {
      return SetNeeds(x, static_cast<int32_t>(-1 - index));
    }
    const Instruction* same = tuple->opcode() == Opcode::kTuple ? tuple->operand(index) : tuple;
    needs_[x->id() - first_id_] = needs_[same->id() - first_id_];
  }

  static int64_t CarriedElement(const Instruction* x) {
    if (x->opcode() != Opcode::kGetTupleElement) return -1;
    if (x->operand(0)->opcode() != Opcode::kParameter) return -1;
    return x->attributes<GetTupleElementAttributes>().index;
  }

  // An array that a loop fills slice by slice and does not read needs no initial value: compilers
  // allocate it only.
  void DropInitialValues(const Instruction* loop) {
    const Instruction* init = loop->operand(0);
    const Instruction* root = loop->called(1)->root();
    if (init->opcode() != Opcode::kTuple || root->opcode() != Opcode::kTuple) return;
    for (int64_t i = 0; i < std::min(init->operand_count(), root->operand_count()); ++i) {
      const Instruction* value = init->operand(i);
      const Instruction* update = root->operand(i);
      if (value->opcode() != Opcode::kBroadcast || model_.kernels_.users().of(value).size() != 1 ||
          update->opcode() != Opcode::kDynamicUpdateSlice ||
          CarriedElement(update->operand(0)) != i ||
          model_.kernels_.users().of(update->operand(0)).size() != 1) {
        continue;
      }
      const int32_t node = NodeOf(value);
      if (node < 0) continue;
      cost_.nodes[static_cast<size_t>(node)].seconds = 0;
      cost_.steps[static_cast<size_t>(node)].work.bytes = 0;
    }
  }

  // Arguments that the caller keeps are copied before a loop that changes them.
  Needs CopiesOfKeptArguments(const Instruction* loop) {
    double bytes = 0;
    const Instruction* init = loop->operand(0);
    const Instruction* root = loop->called(1)->root();
    if (init->opcode() != Opcode::kTuple || root->opcode() != Opcode::kTuple) return {};
    for (int64_t i = 0; i < std::min(init->operand_count(), root->operand_count()); ++i) {
      if (CarriedElement(root->operand(i)) != i) bytes += KeptArgumentBytes(init->operand(i));
    }
    return AddCopies(loop, bytes);
  }

  // A kernel that copies `bytes` beside the loop; compilers write theirs themselves.
  Needs AddCopies(const Instruction* loop, double bytes) {
    Needs copies;
    if (model_.kernels_.is_compiled() || bytes == 0) return copies;
    KernelWork work;
    work.work_class = WorkClass::kMovement;
    work.main = loop;
    work.bytes = 2 * bytes;
    copies.push_back(AddNode(loop, StepNode::Kind::kKernel));
    StepNode& step = cost_.steps.back();
    step.work = work;
    step.model_s = RatedSeconds(work, model_.chip_);
    cost_.nodes.back().seconds = step.model_s / model_.chip_.OfStack().sustained;
    return copies;
  }

  void AddLoop(const Instruction* x) {
    DropInitialValues(x);
    const Needs copies = CopiesOfKeptArguments(x);
    std::optional<int64_t> known = TripCount(*x);
    const double trips = static_cast<double>(known.value_or(1));
    const ComputationCost& condition = model_.Of(*x->called(0));
    const BranchedLoop* branched = model_.BranchesOf(*x);
    const int32_t node = AddNode(x, StepNode::Kind::kLoop);
    auto& callees = cost_.steps.back().callees;
    callees = {{&condition, trips + 1}};
    if (branched == nullptr) {
      callees.push_back({&model_.Of(*x->called(1), trips), 1});
    } else {
      for (const ComputationCost* body : branched->bodies) callees.push_back({body, 1});
    }
    for (const auto& [callee, times] : callees) {
      cost_.nodes.back().seconds += times * callee->schedule.seconds;
    }
    if (!known && model_.are_counted_once_.insert(x).second) {
      // The condition has run once more.
      const double trip_s = cost_.nodes.back().seconds - condition.schedule.seconds;
      model_.loops_counted_once_.push_back({std::string(x->name()), trip_s, MostTrips(*x)});
    }
    cost_.nodes.back().links = kAllLinks;
    WaitFor(node, NeedsOfOperands(x));
    WaitFor(node, copies);
    SetNeeds(x, node);
    for (const int32_t copy : AddCopies(x, CopiedResultBytes(x))) WaitFor(copy, {node});
  }

  void AddConditional(const Instruction* x) {
    model_.has_conditionals_ = true;
    std::vector<const ComputationCost*> branches;
    for (const Computation* branch : x->called()) branches.push_back(&model_.Of(*branch));
    const int32_t node = AddNode(x, StepNode::Kind::kCallee);
    StepNode& step = cost_.steps.back();
    if (mixes_ != nullptr && mixes_->contains(x)) {
      const BranchMix& mix = mixes_->at(x);
      step.slowest = branches[mix.slowest];
      step.mix_s = step.idle_s = mix.seconds;
      for (size_t i = 0; i < branches.size(); ++i) {
        if (mix.shares[i] > 0) step.callees.push_back({branches[i], mix.shares[i]});
        step.idle_s -= mix.shares[i] * branches[i]->schedule.seconds;
      }
    } else if (model_.options_.mean_branches) {
      for (const ComputationCost* branch : branches) {
        step.callees.push_back({branch, 1.0 / static_cast<double>(branches.size())});
      }
    } else if (!branches.empty()) {
      step.callees.push_back(
          {*std::max_element(branches.begin(), branches.end(),
                             [](const ComputationCost* a, const ComputationCost* b) {
                               return a->schedule.seconds < b->schedule.seconds;
                             }),
           1});
    }
    FinishCallee(x, node);
    if (step.slowest != nullptr) cost_.nodes.back().links = BusyLinks(step);
  }

  // The links that the branches use for more than half of their time. What another pass has handed
  // on travels over the others meanwhile.
  static uint32_t BusyLinks(const StepNode& conditional) {
    uint32_t links = 0;
    for (uint32_t link = 1; link != 0; link <<= 1) {
      double used = 0, seconds = 0;
      for (const auto& [branch, times] : conditional.callees) {
        seconds += times * branch->schedule.seconds;
        for (const ScheduleNode& inner : branch->nodes) {
          if ((inner.links & link) != 0) used += times * inner.seconds;
        }
      }
      if (used > seconds / 2) links |= link;
    }
    return links;
  }

  void AddCallee(const Instruction* x, const Computation& callee) {
    const ComputationCost& cost = model_.Of(callee);
    const int32_t node = AddNode(x, StepNode::Kind::kCallee);
    cost_.steps.back().callees = {{&cost, 1}};
    FinishCallee(x, node);
  }

  void FinishCallee(const Instruction* x, int32_t node) {
    const StepNode& step = cost_.steps.back();
    if (step.slowest != nullptr) {
      cost_.nodes.back().seconds = step.mix_s;
    } else {
      for (const auto& [callee, times] : step.callees) {
        cost_.nodes.back().seconds += times * callee->schedule.seconds;
      }
    }
    cost_.nodes.back().links = kAllLinks;
    last_compute_ = node;
    WaitFor(node, NeedsOfOperands(x));
    SetNeeds(x, node);
  }

  void AddCopyOfPiece(const Instruction* start, const Instruction& piece) {
    const Shape* const result = start->shape()->element(1);
    const bool writes = piece.opcode() == Opcode::kDynamicUpdateSlice;
    const Shape* const from = start->operand(writes ? 1 : 0)->shape();
    AddCopy(start, from, result, writes ? from : result);
  }

  // A copy within device memory by the copy engines: one after another, beside compute. What lies
  // in fast memory is neither read nor written there; engines read and write at once.
  void AddCopy(const Instruction* x, const Shape* from, const Shape* to, const Shape* moved) {
    model_.has_copies_ = true;
    const double bytes = static_cast<double>(moved->byte_size());
    const int sides = (IsInFastMemory(from) ? 0 : 1) + (IsInFastMemory(to) ? 0 : 1);
    const int32_t node = AddTransfer(x, sides > 0 ? BandwidthSeconds(bytes) : 0, sides * bytes, 1);
    copies_.push_back(node);
    // A program that is scheduled starts it where it stands.
    if (model_.kernels_.is_compiled() && last_compute_ >= 0) WaitFor(node, Needs{last_compute_});
  }

  double BandwidthSeconds(double bytes) const {
    const Chip& chip = model_.chip_;
    return bytes /
           (chip.hbm_bytes_per_s * chip.memory_efficiency.At(bytes) * chip.OfStack().sustained);
  }

  // Copies have the bandwidth that kernels leave, on an average: where those take T seconds, and
  // could read and write what they do in M, copies of C seconds by themselves take max(T, M + C)
  // beside them if they run all the time, of which they have the bandwidth for max(T - M, C).
  void ShareBandwidth() {
    double copies = 0, kernels = 0, kernels_in_memory = 0;
    for (const int32_t copy : copies_) copies += cost_.nodes[static_cast<size_t>(copy)].seconds;
    if (copies <= 0) return;
    for (size_t i = 0; i < cost_.nodes.size(); ++i) {
      if (cost_.steps[i].kind != StepNode::Kind::kKernel) continue;
      const double seconds = cost_.nodes[i].seconds, bytes = cost_.steps[i].work.bytes;
      kernels += seconds;
      if (bytes > 0) kernels_in_memory += std::min(seconds, BandwidthSeconds(bytes));
    }
    const double longer = std::max(kernels, kernels_in_memory + copies) /
                          std::max(kernels - kernels_in_memory, copies);
    for (const int32_t copy : copies_) cost_.nodes[static_cast<size_t>(copy)].seconds *= longer;
  }

  void AddHostTransfer(const Instruction* x) {
    model_.has_host_transfers_ = true;
    const double bytes = static_cast<double>(x->shape()->byte_size());
    AddTransfer(x, bytes / kHostBytesPerSecond, bytes, 0);
  }

  // Beside compute, one after the other on a stream of their own: `stream`, behind the network's.
  int32_t AddTransfer(const Instruction* x, double seconds, double memory_bytes, size_t stream) {
    const int32_t node = AddNode(x, StepNode::Kind::kCopy);
    ScheduleNode& transfer = cost_.nodes.back();
    transfer.seconds = seconds;
    transfer.on_compute = false;
    if (model_.network_ != nullptr) stream += model_.network_->dims().size();
    transfer.links = uint32_t{1} << std::min<size_t>(stream, 31);
    KernelWork& work = cost_.steps.back().work;
    work.work_class = WorkClass::kMovement;
    work.main = x;
    work.bytes = memory_bytes;
    WaitFor(node, NeedsOfOperands(x));
    SetNeeds(x, node);
    return node;
  }

  bool IsAsync(const Instruction& collective, bool is_start) const {
    switch (model_.options_.overlap) {
      case Overlap::kPerfect:
        return true;
      case Overlap::kXla:
        return is_start || (!model_.kernels_.is_compiled() && model_.chip_.overlaps_collectives &&
                            !blocking_.contains(&collective));
      default:
        return false;
    }
  }

  // The fusions between a start and its done have its buffers, but do not wait for it.
  void AddFusedCollective(const Instruction* x, const FusedCollective& fused) {
    const int64_t channel = fused.collective->attributes<CollectiveAttributes>().channel_id;
    const Needs needs = NeedsOfOperands(x);
    switch (fused.part) {
      case FusedPart::kStart:
        started_[channel] = AddCollective(x, *fused.collective, true);
        return SetNeeds(x, needs);
      case FusedPart::kDone: {
        Needs ends = needs;
        if (const auto start = started_.find(channel); start != started_.end()) {
          Merge(ends, {&start->second, 1});
        }
        return SetNeeds(x, ends);
      }
      case FusedPart::kScatter:
        AddCollective(x, *fused.collective, false, "reduce-scatter");
        return;
      case FusedPart::kStep:
        return;
    }
  }

  // Returns its node.
  int32_t AddCollective(const Instruction* x, const Instruction& collective, bool is_start,
                        std::string_view kind = {}) {
    const int32_t node = AddNode(x, StepNode::Kind::kCollective);
    StepNode& step = cost_.steps.back();
    step.collective = model_.collectives_.Of(collective, kind);
    step.work.flops = CostOf(collective).flops;
    step.work.bytes = LocalBytes(collective);
    ScheduleNode& schedule = cost_.nodes.back();
    schedule.seconds = step.collective.time_s;
    for (const NetworkSegment& segment : step.collective.segments) {
      if (segment.extent > 1) schedule.links |= uint32_t{1} << std::min<size_t>(segment.dim, 31);
    }
    schedule.on_compute = schedule.seconds > 0 && !IsAsync(collective, is_start);
    schedule.is_stall = schedule.on_compute;
    WaitFor(node, NeedsOfOperands(x));
    SetNeeds(x, node);
    return node;
  }

  // What a trip carries over, the next one waits for.
  void ConnectTrips() {
    const Instruction* root = computation_.root();
    while (root->opcode() == Opcode::kOptBarrier) root = root->operand(0);
    for (const auto& [node, element] : carried_uses_) {
      const Instruction* next = root->opcode() == Opcode::kTuple && element < root->operand_count()
                                    ? root->operand(element)
                                    : root;
      for (int32_t need : NeedsOf(next)) {
        if (need >= 0) cost_.nodes[static_cast<size_t>(node)].after_previous.push_back(need);
      }
    }
  }

  // Of the nodes that are left, all of which wait: one that waits for itself, through others. It
  // has several results, so that not all of it is needed for what it waits for.
  static size_t OneOnACycle(const std::vector<ScheduleNode>& nodes,
                            const std::vector<int32_t>& number, const std::vector<StepNode>& steps,
                            size_t start) {
    std::vector<size_t> path;
    std::vector<bool> on_path(nodes.size());
    for (size_t at = start; !on_path[at];) {
      on_path[at] = true;
      path.push_back(at);
      at = static_cast<size_t>(*std::ranges::find_if(nodes[at].after, [&](int32_t before) {
        return number[static_cast<size_t>(before)] < 0;
      }));
      start = at;
    }
    const auto cycle = std::ranges::find(path, start);
    return *std::find_if(cycle, path.end() - 1,
                         [&](size_t i) { return steps[i].kind == StepNode::Kind::kKernel; });
  }

  // Kahn's algorithm, the earliest in the text first. A kernel that waits for its own results
  // through others (attention of several steps) waits for their operands only.
  void Sort() {
    const size_t count = cost_.nodes.size();
    for (ScheduleNode& node : cost_.nodes) {
      for (std::vector<int32_t>* list : {&node.after, &node.after_previous}) {
        std::sort(list->begin(), list->end());
        list->erase(std::unique(list->begin(), list->end()), list->end());
      }
    }
    std::vector<size_t> position(needs_.size()), order;
    std::span<Instruction* const> list = computation_.instructions();
    for (size_t i = 0; i < list.size(); ++i) position[list[i]->id() - first_id_] = i;
    const WaitingNodes users(cost_.nodes, &ScheduleNode::after);
    std::vector<size_t> waits(count);
    for (size_t i = 0; i < count; ++i) waits[i] = cost_.nodes[i].after.size();
    std::vector<uint32_t> by_text(count), place(count);
    std::iota(by_text.begin(), by_text.end(), uint32_t{0});
    std::sort(by_text.begin(), by_text.end(), [&](uint32_t a, uint32_t b) {
      const size_t at_a = position[cost_.steps[a].instruction->id() - first_id_];
      const size_t at_b = position[cost_.steps[b].instruction->id() - first_id_];
      return at_a != at_b ? at_a < at_b : a < b;
    });
    for (uint32_t i = 0; i < count; ++i) place[by_text[i]] = i;
    std::priority_queue<uint32_t, std::vector<uint32_t>, std::greater<>> ready;  // places
    for (size_t i = 0; i < count; ++i) {
      if (waits[i] == 0) ready.push(place[i]);
    }
    std::vector<int32_t> number(count, -1);
    while (order.size() < count) {
      size_t i = 0;
      if (ready.empty()) {  // stuck
        const uint32_t first =
            *std::ranges::find_if(by_text, [&](uint32_t n) { return number[n] < 0; });
        i = OneOnACycle(cost_.nodes, number, cost_.steps, first);
      } else {
        i = by_text[ready.top()];
        ready.pop();
      }
      number[i] = static_cast<int32_t>(order.size());
      order.push_back(i);
      for (int32_t user : users.For(i)) {
        const size_t u = static_cast<size_t>(user);
        if (number[u] < 0 && --waits[u] == 0) ready.push(place[u]);
      }
    }
    std::vector<StepNode> steps;
    std::vector<ScheduleNode> nodes;
    steps.reserve(count);
    nodes.reserve(count);
    for (size_t i : order) {
      steps.push_back(std::move(cost_.steps[i]));
      nodes.push_back(std::move(cost_.nodes[i]));
      const int32_t mine = static_cast<int32_t>(nodes.size()) - 1;
      for (int32_t& need : nodes.back().after) need = number[static_cast<size_t>(need)];
      for (int32_t& need : nodes.back().after_previous) need = number[static_cast<size_t>(need)];
      std::erase_if(nodes.back().after, [&](int32_t need) { return need >= mine; });
    }
    cost_.steps = std::move(steps);
    cost_.nodes = std::move(nodes);
  }

  StepModel& model_;
  const Computation& computation_;
  const BranchMixes* mixes_;
  ComputationCost& cost_;
  std::vector<Range> needs_;         // by instruction id - first_id_: in need_lists_
  std::vector<int32_t> need_lists_;  // of all instructions, one after the other
  std::vector<int32_t> copies_;      // nodes of copies within device memory
  int32_t last_compute_ = -1;        // the node of the last kernel or callee that was visited
  Needs of_operands_;                // memory of NeedsOfOperands
  uint32_t first_id_ = 0;
  std::unordered_map<int64_t, int32_t>
      started_;  // nodes of collectives that fusions begin, by channel
  std::unordered_set<const Instruction*> blocking_;  // of a program that runs call by call
  std::vector<int32_t> node_of_;  // of members of kernels, by instruction id - first_id_; else -1
  std::vector<std::pair<int32_t, int64_t>> carried_uses_;  // node, element of the carried tuple
};

StepModel::StepModel(const Module& module, const Chip& chip, const Mesh* mesh,
                     const Network* network, ModuleKernels& kernels,
                     const StepModelOptions& options)
    : module_(module),
      chip_(chip),
      network_(network),
      kernels_(kernels),
      options_(options),
      collectives_(module.DeviceCount(), mesh, network) {}

StepModel::~StepModel() = default;

std::unique_ptr<ComputationCost> StepModel::Build(const Computation& computation, double trips,
                                                  const BranchMixes* mixes) {
  auto cost = std::make_unique<ComputationCost>();
  cost->computation = &computation;
  cost->trips = trips;
  StepBuilder(*this, computation, mixes, *cost).Run();
  cost->schedule =
      Simulate(cost->nodes, trips, kernels_.is_compiled(), chip_.collective_compute_share);
  return cost;
}

const ComputationCost& StepModel::Of(const Computation& computation, double trips) {
  const std::pair key(&computation, trips);
  auto known = costs_.find(key);
  if (known == costs_.end()) {
    known = costs_.emplace(key, Build(computation, trips, nullptr)).first;
  }
  return *known->second;
}

const BranchedLoop* StepModel::BranchesOf(const Instruction& loop) {
  BranchedLoop branched;
  branched.loop = &loop;
  auto cost_of = [&](const Computation& branch) { return &Of(branch); };
  const std::vector<TripMix> mixes = MixesOf(branched, module_.DeviceCount(), cost_of);
  if (mixes.empty()) return nullptr;
  for (const TripMix& mix : mixes) {
    mixed_bodies_.push_back(Build(*loop.called(1), mix.trips, &mix.branches));
    branched.bodies.push_back(mixed_bodies_.back().get());
  }
  branched_loops_.push_back(std::make_unique<BranchedLoop>(std::move(branched)));
  return branched_loops_.back().get();
}

}  // namespace gshard
