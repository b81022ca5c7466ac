#include "core/propagation/shardy/graph.h"

#include <algorithm>
#include <map>
#include <span>
#include <unordered_map>
#include <unordered_set>

#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/traversal.h"

namespace gshard::shardy {
namespace {

OpClass ClassOf(const Instruction& x) {
  switch (x.opcode()) {  // the operations that do not wait for their turn; all others do
    case Opcode::kReshape:
    case Opcode::kTranspose:
    case Opcode::kBitcastConvert:
      return OpClass::kPassThrough;
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
      return OpClass::kDynamicSlice;
    case Opcode::kBroadcast:
      return OpClass::kBroadcast;
    default:
      return HasFlag(x.opcode(), kElementwise) ? OpClass::kPassThrough : OpClass::kOther;
  }
}

// Shardy has no rule for these; what is known of their dims is not for it (docs/propagation.md).
bool IsUnknownToShardy(const Instruction& x) {
  switch (x.opcode()) {  // a list of exceptions
    case Opcode::kErf:
    case Opcode::kMap:
    case Opcode::kBatchNormTraining:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormGrad:
    case Opcode::kScaledDot:
    case Opcode::kScan:
    case Opcode::kSetDimensionSize:
      return true;
    default:
      return false;
  }
}

class GraphMaker {
 public:
  GraphMaker(Module& module, const Mesh* mesh, const ShardyMeshes& meshes,
             const std::vector<bool>& free_results)
      : module_(module),
        reader_(module.context(), *graph_.axes, mesh, meshes),
        free_results_(free_results) {
    graph_.mesh = mesh;
    graph_.tensors.reserve(module.instruction_limit());
    graph_.operations.reserve(module.instruction_limit());
    graph_.leaves.reserve(module.instruction_limit());
    graph_.first_leaf.assign(module.instruction_limit(), kNoLeaves);
    graph_.region.assign(module.instruction_limit(), nullptr);
  }

  Graph Make() {
    FindRegions();
    Computation* entry = module_.entry();
    for (Instruction* parameter : entry->parameters()) {
      MakeLeaves(*parameter);
      Annotate(*parameter);
    }
    FindFunctionResults(entry->root());
    Visit(entry);
    AddResults(entry->root());
    graph_.operations.insert(graph_.operations.begin(), results_.begin(), results_.end());
    for (auto& [id, members] : groups_) graph_.groups.push_back(std::move(members));
    CountUses();
    LeaveOutSingleDevices();
    graph_.annotations = std::move(reader_.by_spelling);
    return std::move(graph_);
  }

 private:
  static constexpr uint32_t kNoLeaves = Graph::kNoLeaves;

  // Shardy skips operations with tensors of different meshes, and one device is a mesh of its own.
  void LeaveOutSingleDevices() {
    if (!has_single_devices_) return;
    std::erase_if(graph_.operations, [&](const Operation& op) {
      return std::ranges::any_of(op.views, [&](const View& view) {
        return graph_.tensors[At(view.tensor)].is_on_one_device;
      });
    });
  }

  // --- tensors

  int NewTensor(const Shape* shape) {
    Tensor& tensor = graph_.tensors.emplace_back();
    tensor.shape = shape;
    if (shape->IsArray()) {
      tensor.dims = graph_.arena->NewSpan<Dim>(At(shape->rank()));
      std::ranges::fill(tensor.dims, Dim());
    }
    return static_cast<int>(graph_.tensors.size()) - 1;
  }
  void AppendNewTensors(const Shape* shape) {
    if (shape->IsTuple()) {
      for (const Shape* element : shape->elements()) AppendNewTensors(element);
    } else {
      graph_.leaves.push_back({NewTensor(shape), false});
    }
  }
  // Tensors of its own for each leaf of x.
  void MakeLeaves(const Instruction& x) {
    graph_.first_leaf[x.id()] = static_cast<uint32_t>(graph_.leaves.size());
    AppendNewTensors(x.shape());
  }
  void SetLeaf(const Instruction& x, View view) {
    graph_.first_leaf[x.id()] = static_cast<uint32_t>(graph_.leaves.size());
    graph_.leaves.push_back(view);
  }
  // The leaves of x are those of `from`, from its leaf `first` on.
  void ShareLeaves(const Instruction& x, const Instruction& from, size_t first = 0) {
    const uint32_t start = graph_.first_leaf[from.id()];
    graph_.first_leaf[x.id()] =
        start == kNoLeaves ? kNoLeaves : start + static_cast<uint32_t>(first);
  }
  View LeafOf(const Instruction& x, size_t i) const { return graph_.LeavesOf(x)[i]; }

  void Annotate(const Instruction& x) {
    if (x.sharding() == nullptr) return;
    const std::span<const View> leaves = graph_.LeavesOf(x);
    if (x.sharding()->group_kind == ShardGroupKind::kShardAs && leaves.size() == 1) {
      groups_[x.sharding()->group_id].push_back(leaves[0].tensor);
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].inside) continue;
      const Sharding* leaf = x.sharding()->IsTuple() ? x.sharding()->elements[i] : x.sharding();
      // In the sharding of a tuple, {replicated} also stands for elements that have none.
      const bool is_argument = x.opcode() == Opcode::kParameter && x.parent() == module_.entry();
      const bool is_said =
          leaf->named != nullptr && leaf->named->form == NamedSharding::Form::kDims;
      if (!is_argument && x.sharding()->IsTuple() && leaf->IsReplicated() && !is_said) continue;
      if (leaf->IsMaximal()) {
        graph_.tensors[At(leaves[i].tensor)].is_on_one_device = true;
        has_single_devices_ = true;
      }
      ReadAnnotation(reader_, x, static_cast<int64_t>(i), graph_.tensors[At(leaves[i].tensor)]);
    }
  }

  // --- regions: what is manual where

  const AxisList* RegionOf(AxisList manual) {
    if (manual.empty()) return nullptr;
    for (const auto& region : graph_.regions) {
      if (*region == manual) return region.get();
    }
    graph_.regions.push_back(std::make_unique<AxisList>(std::move(manual)));
    return graph_.regions.back().get();
  }
  static bool Enters(const Instruction& x) { return IsCustomCallTo(x, kEnterManualTarget); }
  static bool Leaves(const Instruction& x) { return IsCustomCallTo(x, kLeaveManualTarget); }

  void FindRegions() {
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        has_regions_ = has_regions_ || IsRegionMarker(*x);
      }
    }
    if (!has_regions_) return;
    known_.assign(module_.instruction_limit(), false);
    FindRegionsIn(module_.entry(), nullptr);
  }

  // Values are in the region of their operands; those without operands in that of their users, of
  // which what leaves a region says with its own sharding what is manual inside. Where neither
  // tells, as of values that nothing uses, they are where the computation is.
  void FindRegionsIn(Computation* computation, const AxisList* outer) {
    std::vector<const AxisList*>& region = graph_.region;
    const std::vector<Instruction*> order = PostOrder(*computation);
    const auto set = [&](const Instruction& x, const AxisList* where) {
      region[x.id()] = where;
      known_[x.id()] = true;
    };
    for (const Instruction* x : order) {
      if (IsRegionMarker(*x)) {
        set(*x, RegionOf(ManualAxesOf(reader_, *x)));
      } else if (x->opcode() == Opcode::kParameter) {
        set(*x, outer);
      } else {
        for (const Instruction* operand : x->operands()) {
          if (known_[operand->id()]) set(*x, region[operand->id()]);
        }
      }
    }
    for (auto it = order.rbegin(); it != order.rend(); ++it) {
      const Instruction* user = *it;
      if (!known_[user->id()] || Enters(*user)) continue;
      for (const Instruction* operand : user->operands()) {
        if (known_[operand->id()]) continue;
        set(*operand,
            Leaves(*user) ? RegionOf(ManualAxesOf(reader_, *operand)) : region[user->id()]);
      }
    }
    for (const Instruction* x : order) {
      if (!known_[x->id()]) set(*x, outer);
    }
    for (const Instruction* x : order) {
      if (!RunsComputations(*x)) continue;
      for (Computation* called : x->called()) FindRegionsIn(called, region[x->id()]);
    }
  }

  static bool RunsComputations(const Instruction& x) {
    return x.opcode() == Opcode::kWhile || x.opcode() == Opcode::kConditional ||
           x.opcode() == Opcode::kCall;
  }

  // --- operations

  // Appends an operation of views_, operands first; leaves views_ empty.
  Operation& Append(std::vector<Operation>& list, const Instruction& x, size_t operands) {
    Operation& op = list.emplace_back();
    op.instruction = &x;
    op.operand_count = operands;
    op.views = graph_.arena->Copy(views_);
    views_.clear();
    return op;
  }

  // Of the operands in views_.
  void AddIdentity(const Instruction& x, View result, bool is_result = false) {
    const size_t operands = views_.size();
    views_.push_back(result);
    Operation& op = Append(is_result ? results_ : graph_.operations, x, operands);
    op.op_class = OpClass::kPassThrough;
    op.relation =
        graph_.relations->Identity(graph_.tensors[At(result.tensor)].shape->bare(), operands);
    op.is_constraint = IsCustomCallTo(x, kShardingTarget);
    op.is_result = is_result;
  }
  void AddIdentity(const Instruction& x, View operand, View result, bool is_result = false) {
    views_.push_back(operand);
    AddIdentity(x, result, is_result);
  }

  // The same of a loop, a branch, a barrier or the border of a region.
  void AddEdge(const Instruction& x, View result) {
    AddIdentity(x, result);
    graph_.operations.back().is_edge = true;
  }
  void AddEdge(const Instruction& x, View operand, View result) {
    views_.push_back(operand);
    AddEdge(x, result);
  }

  void Visit(Computation* computation) {
    if (!visited_.insert(computation).second) return;
    bool in_order = true;
    if (seen_.empty()) seen_.resize(module_.instruction_limit());
    for (const Instruction* x : computation->instructions()) {
      for (const Instruction* operand : x->operands()) in_order &= seen_[operand->id()] != 0;
      seen_[x->id()] = 1;
    }
    if (in_order) {
      for (Instruction* x : computation->instructions()) Add(*x);
    } else {
      for (Instruction* x : PostOrder(*computation)) Add(*x);
    }
  }

  void Add(Instruction& x) {
    switch (x.opcode()) {  // what hands tensors on; all others make new ones
      case Opcode::kParameter:
        if (graph_.first_leaf[x.id()] == kNoLeaves) MakeLeaves(x);
        return;
      case Opcode::kTuple:
        return AddTuple(x);
      case Opcode::kGetTupleElement:
        return AddElement(x);
      case Opcode::kWhile:
        return AddWhile(x);
      case Opcode::kConditional:
        return AddConditional(x);
      case Opcode::kCall:
        return AddCall(x);
      case Opcode::kOptBarrier:
      case Opcode::kDomain:
        return AddEdges(x);
      case Opcode::kCustomCall:
        if (AddCustomCall(x)) return;
        break;
      default:
        break;
    }
    AddOperation(x);
  }

  void AddOperation(const Instruction& x) {
    MakeLeaves(x);
    Annotate(x);
    if (x.operand_count() == 0) return;
    for (const Instruction* operand : x.operands()) AppendViews(*operand);
    const IndexedRelation* relation = HasPartners(x) ? RelationFor(x) : nullptr;
    if (relation == nullptr || !relation->relates || relation->operand_count != views_.size()) {
      for (const View& view : views_) ++graph_.tensors[At(view.tensor)].uses;
      views_.clear();
      return;
    }
    const size_t operands = views_.size();
    AppendViews(x);
    Operation& op = Append(graph_.operations, x, operands);
    op.op_class = ClassOf(x);
    op.relation = relation;
  }

  // Have two of the tensors of x dims, its operands' being in views_? Else no axis can move.
  bool HasPartners(const Instruction& x) const {
    int with_dims = 0;
    for (const std::span<const View> list : {std::span<const View>(views_), graph_.LeavesOf(x)}) {
      for (const View& view : list) {
        if (!graph_.tensors[At(view.tensor)].dims.empty() && ++with_dims == 2) return true;
      }
    }
    return false;
  }

  // Null: none that Shardy knows.
  const IndexedRelation* RelationFor(const Instruction& x) {
    if (IsUnknownToShardy(x)) return nullptr;
    if (HasFlag(x.opcode(), kElementwise) && x.opcode() != Opcode::kBitcastConvert &&
        x.shape()->IsArray() && AllOperandsLike(x)) {
      return graph_.relations->Identity(x.shape()->bare(), At(x.operand_count()));
    }
    return graph_.relations->Of(x);
  }

  void AppendViews(const Instruction& x) {
    for (const View& view : graph_.LeavesOf(x)) views_.push_back(view);
  }

  static bool AllOperandsLike(const Instruction& x) {
    return std::ranges::all_of(x.operands(), [&](const Instruction* operand) {
      return operand->shape()->IsArray() && operand->shape()->rank() == x.shape()->rank();
    });
  }

  void AddTuple(const Instruction& x) {
    graph_.first_leaf[x.id()] = static_cast<uint32_t>(graph_.leaves.size());
    for (const Instruction* operand : x.operands()) {
      for (size_t i = 0; i < graph_.LeavesOf(*operand).size(); ++i) {
        graph_.leaves.push_back(LeafOf(*operand, i));
      }
    }
  }

  void AddElement(const Instruction& x) {
    const Instruction* tuple = x.operand(0);
    ShareLeaves(x, *tuple, At(FirstLeafRead(x)));
    // Of an element {replicated} is said; of a tuple's it also stands for no sharding.
    const bool is_new = x.shape()->IsArray() && x.sharding() != nullptr &&
                        graph_.first_leaf[x.id()] != kNoLeaves &&
                        !graph_.tensors[At(LeafOf(x, 0).tensor)].HasSharding();
    if (is_new) Annotate(x);
  }

  // One tensor a leaf, which the operand's flows into.
  void AddEdges(const Instruction& x) {
    MakeLeaves(x);
    Annotate(x);
    for (size_t i = 0; i < graph_.LeavesOf(x).size(); ++i) {
      AddIdentity(x, LeafOf(*x.operand(0), i), LeafOf(x, i));
      graph_.operations.back().is_edge = x.opcode() != Opcode::kCustomCall;
    }
  }

  void MarkAsTargets(const Instruction& x) {
    for (const View& view : graph_.LeavesOf(x)) {
      graph_.tensors[At(view.tensor)].is_edge_target = true;
    }
  }

  void AddWhile(const Instruction& x) {
    MakeLeaves(x);
    MarkAsTargets(x);
    Annotate(x);
    for (Computation* called : x.called()) {
      ShareLeaves(*called->parameter(0), x);
      Annotate(*called->parameter(0));
      Visit(called);
    }
    const Instruction& returned = *x.called(1)->root();
    for (size_t i = 0; i < graph_.LeavesOf(x).size(); ++i) {
      views_ = {LeafOf(*x.operand(0), i), LeafOf(returned, i)};
      AddEdge(x, LeafOf(x, i));
    }
  }

  // Branches see the operands themselves; each result is what any of them returns.
  void AddConditional(const Instruction& x) {
    MakeLeaves(x);
    MarkAsTargets(x);
    Annotate(x);
    for (size_t i = 0; i < x.called().size(); ++i) {
      Computation* branch = x.called(static_cast<int64_t>(i));
      if (visited_.count(branch) == 0) {
        ShareLeaves(*branch->parameter(0), *x.operand(static_cast<int64_t>(i) + 1));
      }
      Visit(branch);
    }
    for (size_t leaf = 0; leaf < graph_.LeavesOf(x).size(); ++leaf) {
      for (const Computation* branch : x.called()) {
        views_.push_back(LeafOf(*branch->root(), leaf));
      }
      AddEdge(x, LeafOf(x, leaf));
    }
  }

  // As if the callee stood here. One that is called again shares the tensors of the first call.
  void AddCall(const Instruction& x) {
    Computation* callee = x.called(0);
    const bool first = visited_.count(callee) == 0;
    for (int64_t i = 0; i < x.operand_count(); ++i) {
      if (first) {
        ShareLeaves(*callee->parameter(i), *x.operand(i));
        continue;
      }
      for (size_t k = 0; k < graph_.LeavesOf(*x.operand(i)).size(); ++k) {
        AddIdentity(x, LeafOf(*x.operand(i), k), LeafOf(*callee->parameter(i), k));
      }
    }
    Visit(callee);
    ShareLeaves(x, *callee->root());
    Annotate(x);
  }

  // --- custom calls

  // False: it is an operation like others.
  bool AddCustomCall(Instruction& x) {
    if (Enters(x)) {
      AddEntry(x);
    } else if (Leaves(x)) {
      AddExit(x);
    } else if (IsCustomCallTo(x, kShardingTarget)) {
      AddConstraint(x);
    } else if (IsCustomCallTo(x, kShardBarrierFrom) || IsCustomCallTo(x, kShardBarrierTo)) {
      AddEdges(
          x);  // what stops at the former on its way forward, at the latter on its way backward
      graph_.operations.back().allowed = IsCustomCallTo(x, kShardBarrierFrom) ? 2 : 1;
    } else {
      return false;
    }
    return true;
  }

  void AddConstraint(const Instruction& x) {
    const View from = LeafOf(*x.operand(0), 0);
    if (const Instruction* border = ExitOf(x)) {
      // The last value of a region: one tensor with what leaves it.
      const View outside{NewTensor(border->shape()), false};
      SetLeaf(*border, outside);
      Annotate(*border);
      HideManual(*border, x, outside.tensor);
      const View inside{outside.tensor, true};
      SetLeaf(x, inside);
      AddEdge(x, from, inside);
      return;
    }
    MakeLeaves(x);
    Annotate(x);
    AddIdentity(x, from, LeafOf(x, 0), function_results_.count(&x) != 0);
  }

  // The call that leaves a region with this constraint's value, of which it is the border.
  const Instruction* ExitOf(const Instruction& x) {
    if (!has_regions_) return nullptr;
    if (exits_.empty()) {
      for (const Computation* computation : module_.computations()) {
        for (const Instruction* y : computation->instructions()) {
          if (Leaves(*y)) exits_[y->operand(0)] = y;
        }
      }
    }
    const auto it = exits_.find(&x);
    return it == exits_.end() ? nullptr : it->second;
  }

  void AddEntry(const Instruction& x) {
    const View from = LeafOf(*x.operand(0), 0);
    View outside = from;
    if (!IsCustomCallTo(*x.operand(0), kShardingTarget)) {
      // Where a propagation has been before, what was the border's constraint is a copy.
      outside = {NewTensor(x.operand(0)->shape()), false};
      ReadAnnotation(reader_, *x.operand(0), 0, graph_.tensors[At(outside.tensor)]);
      AddEdge(x, from, outside);
    } else {
      const auto is_its = [&](const Operation& op) { return op.instruction == x.operand(0); };
      const auto end = graph_.operations.rend();
      const auto border = std::find_if(graph_.operations.rbegin(), end, is_its);
      if (border != end) border->is_edge = true;
    }
    HideManual(*x.operand(0), x, outside.tensor);
    SetLeaf(x, {outside.tensor, true});
  }

  void AddExit(const Instruction& x) {
    if (graph_.first_leaf[x.id()] != kNoLeaves) return;  // with its constraint
    const View outside{NewTensor(x.shape()), false};
    SetLeaf(x, outside);
    Annotate(x);
    HideManual(x, *x.operand(0), outside.tensor);
    AddEdge(x, LeafOf(*x.operand(0), 0), {outside.tensor, true});
  }

  // Of the axes that cut the border, those that are manual inside only are not seen there. A manual
  // axis that does not cut it is no free axis either.
  void HideManual(const Instruction& outside, const Instruction& inside, int tensor) {
    const AxisList outer = ManualAxesOf(reader_, outside);
    const AxisList inner = ManualAxesOf(reader_, inside);
    Tensor& border = graph_.tensors[At(tensor)];
    border.is_edge_target = true;
    AxisList hidden;
    for (const AxisRef& axis : inner) {
      if (std::ranges::find(outer, axis) == outer.end()) hidden.push_back(axis);
    }
    for (Dim& dim : border.dims) {
      dim.manual = 0;
      for (const AxisRef& axis : dim.axes.list()) {
        const auto it = std::ranges::find(hidden, axis);
        if (it == hidden.end()) break;
        ++dim.manual;
        hidden.erase(it);
      }
    }
    const std::span<const AxisRef> replicated = border.replicated;
    hidden.insert(hidden.begin(), replicated.begin(), replicated.end());
    border.replicated = graph_.axes->Make(hidden);
    if (border.mesh == nullptr) border.mesh = reader_.mesh;
  }

  // --- the program's results

  // Constraints at the root that came from annotations of results: those whose sharding propagation
  // may not choose.
  void FindFunctionResults(const Instruction* root) {
    if (root->opcode() == Opcode::kGetTupleElement) root = root->operand(0);
    if (root->opcode() != Opcode::kTuple) {
      if (!IsFree(free_results_, 0)) function_results_.insert(root);
      return;
    }
    for (size_t i = 0; i < root->operands().size(); ++i) {
      if (!IsFree(free_results_, i)) function_results_.insert(root->operands()[i]);
    }
  }

  // What the root's sharding says of a leaf is a tensor of its own, which the leaf flows into, but
  // for leaves that propagation may lay out.
  void AddResults(const Instruction* root) {
    const std::span<const View> leaves = graph_.LeavesOf(*root);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (IsFree(free_results_, i) || root->sharding() == nullptr) continue;
      if (IsResultTensor(leaves[i].tensor)) continue;
      const int tensor = NewTensor(graph_.tensors[At(leaves[i].tensor)].shape);
      if (!ReadAnnotation(reader_, *root, static_cast<int64_t>(i), graph_.tensors[At(tensor)])) {
        graph_.tensors.pop_back();
        continue;
      }
      AddIdentity(*root, leaves[i], {tensor, false}, /*is_result=*/true);
      graph_.result_tensors.push_back({i, tensor});
    }
  }
  bool IsResultTensor(int tensor) const {
    return std::ranges::any_of(
        results_, [&](const Operation& op) { return op.results()[0].tensor == tensor; });
  }

  // Each operand slot is a use, and each leaf of the program's result. (Those of operations without
  // a relation have been counted.)
  void CountUses() {
    for (const Operation& op : graph_.operations) {
      for (const View& view : op.operands()) ++graph_.tensors[At(view.tensor)].uses;
    }
    for (const View& view : graph_.LeavesOf(*module_.entry()->root())) {
      ++graph_.tensors[At(view.tensor)].uses;
    }
  }

  Module& module_;
  Graph graph_;
  AnnotationReader reader_;
  const std::vector<bool>& free_results_;
  std::vector<Operation> results_;
  std::vector<View> views_;  // of the operation that is being added
  bool has_regions_ = false, has_single_devices_ = false;
  std::vector<bool> known_;  // by instruction id: its region has been found
  std::unordered_set<const Instruction*> function_results_;
  std::map<int64_t, std::vector<int>> groups_;
  std::vector<uint8_t> seen_;  // by instruction id
  std::unordered_set<const Computation*> visited_;
  std::unordered_map<const Instruction*, const Instruction*> exits_;
};

}  // namespace

std::vector<const Instruction*> MakersOf(const Graph& graph, const Module& module) {
  std::vector<const Instruction*> makers(graph.tensors.size(), nullptr);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const View& view : graph.LeavesOf(*x)) {
        if (makers[At(view.tensor)] == nullptr) makers[At(view.tensor)] = x;
      }
    }
  }
  return makers;
}

Graph MakeGraph(Module& module, const Mesh* mesh, const ShardyMeshes& meshes,
                const std::vector<bool>& free_results) {
  return GraphMaker(module, mesh, meshes, free_results).Make();
}

}  // namespace gshard::shardy
