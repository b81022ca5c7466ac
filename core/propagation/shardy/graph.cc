#include "core/propagation/shardy/graph.h"

#include <algorithm>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "ir/custom_call.h"
#include "ir/dims.h"
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
      return (InfoOf(x.opcode()).flags & kElementwise) != 0 ? OpClass::kPassThrough
                                                             : OpClass::kOther;
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
    case Opcode::kRaggedDot:
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
      : module_(module), reader_{module.context(), mesh, meshes}, free_results_(free_results) {
    graph_.mesh = mesh;
    graph_.first_leaf.assign(module.instruction_limit(), kNoLeaves);
    graph_.region.assign(module.instruction_limit(), nullptr);
  }

  Graph Make() {
    FindRegions();
    Computation* entry = module_.entry();
    for (Instruction* parameter : entry->parameters()) {
      SetLeaves(*parameter, NewTensors(*parameter));
      Annotate(*parameter);
    }
    FindFunctionResults(entry->root());
    Visit(entry);
    AddResults(entry->root());
    graph_.operations.insert(graph_.operations.begin(), results_.begin(), results_.end());
    for (auto& [id, members] : groups_) graph_.groups.push_back(std::move(members));
    CountUses();
    return std::move(graph_);
  }

 private:
  static constexpr uint32_t kNoLeaves = UINT32_MAX;

  // --- tensors

  int NewTensor(const Shape* shape) {
    Tensor& tensor = graph_.tensors.emplace_back();
    tensor.shape = shape;
    if (shape->IsArray()) tensor.dims.resize(At(shape->rank()));
    return static_cast<int>(graph_.tensors.size()) - 1;
  }
  std::vector<View> NewTensors(const Instruction& x) {
    const std::vector<const Shape*> shapes = LeafShapes(x.shape());
    std::vector<View> views;
    for (const Shape* shape : shapes) views.push_back({NewTensor(shape), false});
    return views;
  }
  void SetLeaves(const Instruction& x, std::span<const View> leaves) {
    graph_.first_leaf[x.id()] = static_cast<uint32_t>(graph_.leaves.size());
    graph_.leaves.insert(graph_.leaves.end(), leaves.begin(), leaves.end());
  }
  std::vector<View> LeavesOf(const Instruction& x) const {
    const std::span<const View> leaves = graph_.LeavesOf(x);
    return {leaves.begin(), leaves.end()};
  }
  void Annotate(const Instruction& x) {
    if (x.sharding() == nullptr) return;
    const std::vector<View> leaves = LeavesOf(x);
    if (x.sharding()->group_kind == ShardGroupKind::kShardAs && leaves.size() == 1) {
      groups_[x.sharding()->group_id].push_back(leaves[0].tensor);
    }
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (leaves[i].inside) continue;
      // In the sharding of a tuple, {replicated} also stands for elements that have none.
      const bool is_argument =
          x.opcode() == Opcode::kParameter && x.parent() == module_.entry();
      const bool may_have_none = !is_argument && x.sharding()->IsTuple() &&
                                 x.sharding()->elements[i]->IsReplicated();
      if (may_have_none) continue;
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

  // Values are in the region of their operands; those without operands in that of their users.
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
      if (!known_[user->id()]) set(*user, outer);
      const AxisList* from = region[user->id()];
      if (IsRegionMarker(*user)) continue;
      for (const Instruction* operand : user->operands()) {
        if (!known_[operand->id()]) set(*operand, from);
      }
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

  void AddIdentity(const Instruction& x, std::vector<View> operands, View result,
                   bool is_result = false) {
    Operation op;
    op.instruction = &x;
    op.op_class = OpClass::kPassThrough;
    const Shape* shape = graph_.tensors[At(result.tensor)].shape;
    op.relation = IdentityRelation(shape, operands.size());
    op.operands = std::move(operands);
    op.results = {result};
    op.is_constraint = IsCustomCallTo(x, kShardingTarget);
    op.is_result = is_result;
    (is_result ? results_ : graph_.operations).push_back(std::move(op));
  }

  std::shared_ptr<const DimRelation> IdentityRelation(const Shape* shape, size_t operands) {
    auto& relation = identities_[{shape, operands}];
    if (relation == nullptr) {
      auto made = std::make_shared<DimRelation>();
      std::vector<FactorList> dims;
      for (int64_t d = 0; shape->IsArray() && d < shape->rank(); ++d) {
        made->factors.push_back({shape->dim(d)});
        dims.push_back({static_cast<int>(d)});
      }
      made->operands.assign(operands, dims);
      made->results.assign(1, dims);
      relation = std::move(made);
    }
    return relation;
  }

  void Visit(Computation* computation) {
    if (!visited_.insert(computation).second) return;
    bool in_order = true;
    std::unordered_set<const Instruction*> seen;
    for (const Instruction* x : computation->instructions()) {
      for (const Instruction* operand : x->operands()) in_order &= seen.count(operand) != 0;
      seen.insert(x);
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
        if (graph_.first_leaf[x.id()] == kNoLeaves) SetLeaves(x, NewTensors(x));
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
    SetLeaves(x, NewTensors(x));
    Annotate(x);
    Operation op;
    op.instruction = &x;
    op.op_class = ClassOf(x);
    if ((InfoOf(x.opcode()).flags & kElementwise) != 0 && x.opcode() != Opcode::kBitcastConvert &&
        x.shape()->IsArray() && AllOperandsLike(x)) {
      op.relation = IdentityRelation(x.shape()->bare(), At(x.operand_count()));
    } else if (!IsUnknownToShardy(x)) {
      op.relation = std::make_shared<DimRelation>(RelationOf(x));
    }
    for (const Instruction* operand : x.operands()) {
      const std::span<const View> leaves = graph_.LeavesOf(*operand);
      op.operands.insert(op.operands.end(), leaves.begin(), leaves.end());
    }
    if (op.relation == nullptr || !op.relation->relates ||
        op.relation->operands.size() != op.operands.size()) {
      for (const View& view : op.operands) ++graph_.tensors[At(view.tensor)].uses;
      return;
    }
    op.results = LeavesOf(x);
    graph_.operations.push_back(std::move(op));
  }

  static bool AllOperandsLike(const Instruction& x) {
    return std::ranges::all_of(x.operands(), [&](const Instruction* operand) {
      return operand->shape()->IsArray() && operand->shape()->rank() == x.shape()->rank();
    });
  }

  void AddTuple(const Instruction& x) {
    std::vector<View> leaves;
    for (const Instruction* operand : x.operands()) {
      const std::span<const View> part = graph_.LeavesOf(*operand);
      leaves.insert(leaves.end(), part.begin(), part.end());
    }
    SetLeaves(x, leaves);
  }

  void AddElement(const Instruction& x) {
    const Instruction* tuple = x.operand(0);
    const int64_t index = x.attributes<GetTupleElementAttributes>().index;
    size_t first = 0;
    for (int64_t i = 0; i < index; ++i) first += At(tuple->shape()->element(i)->leaf_count());
    const std::span<const View> all = graph_.LeavesOf(*tuple);
    const std::span<const View> part = all.subspan(first, At(x.shape()->leaf_count()));
    SetLeaves(x, std::vector<View>(part.begin(), part.end()));
  }

  // One tensor a leaf, which the operand's flows into.
  void AddEdges(const Instruction& x) {
    const std::vector<View> from = LeavesOf(*x.operand(0));
    const std::vector<View> to = NewTensors(x);
    SetLeaves(x, to);
    Annotate(x);
    for (size_t i = 0; i < to.size(); ++i) AddIdentity(x, {from[i]}, to[i]);
  }

  void MarkAsTargets(std::span<const View> targets) {
    for (const View& view : targets) graph_.tensors[At(view.tensor)].is_edge_target = true;
  }

  void AddWhile(const Instruction& x) {
    const std::vector<View> initial = LeavesOf(*x.operand(0));
    const std::vector<View> carried = NewTensors(x);
    MarkAsTargets(carried);
    SetLeaves(x, carried);
    Annotate(x);
    for (Computation* called : x.called()) {
      SetLeaves(*called->parameter(0), carried);
      Annotate(*called->parameter(0));
      Visit(called);
    }
    const std::vector<View> returned = LeavesOf(*x.called(1)->root());
    for (size_t i = 0; i < carried.size(); ++i) {
      AddIdentity(x, {initial[i], returned[i]}, carried[i]);
    }
  }

  // Branches see the operands themselves; each result is what any of them returns.
  void AddConditional(const Instruction& x) {
    const std::vector<View> results = NewTensors(x);
    MarkAsTargets(results);
    SetLeaves(x, results);
    Annotate(x);
    std::vector<std::vector<View>> returned;
    for (size_t i = 0; i < x.called().size(); ++i) {
      Computation* branch = x.called(static_cast<int64_t>(i));
      if (visited_.count(branch) == 0) {
        SetLeaves(*branch->parameter(0), LeavesOf(*x.operand(static_cast<int64_t>(i) + 1)));
      }
      Visit(branch);
      returned.push_back(LeavesOf(*branch->root()));
    }
    for (size_t leaf = 0; leaf < results.size(); ++leaf) {
      std::vector<View> sources;
      for (const std::vector<View>& branch : returned) sources.push_back(branch[leaf]);
      AddIdentity(x, std::move(sources), results[leaf]);
    }
  }

  // As if the callee stood here. One that is called again shares the tensors of the first call.
  void AddCall(const Instruction& x) {
    Computation* callee = x.called(0);
    const bool first = visited_.count(callee) == 0;
    for (int64_t i = 0; i < x.operand_count(); ++i) {
      const std::vector<View> from = LeavesOf(*x.operand(i));
      if (first) {
        SetLeaves(*callee->parameter(i), from);
        continue;
      }
      const std::vector<View> to = LeavesOf(*callee->parameter(i));
      for (size_t k = 0; k < to.size(); ++k) AddIdentity(x, {from[k]}, to[k]);
    }
    Visit(callee);
    SetLeaves(x, LeavesOf(*callee->root()));
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
      AddEdges(x);  // what stops at the former on its way forward, at the latter on its way backward
      graph_.operations.back().allowed = IsCustomCallTo(x, kShardBarrierFrom) ? 2 : 1;
    } else {
      return false;
    }
    return true;
  }

  void AddConstraint(const Instruction& x) {
    const View from = graph_.LeavesOf(*x.operand(0))[0];
    if (const Instruction* border = ExitOf(x)) {
      // The last value of a region: one tensor with what leaves it.
      View outside{NewTensor(border->shape()), false};
      SetLeaves(*border, std::span(&outside, 1));
      Annotate(*border);
      HideManual(*border, x, outside.tensor);
      const View inside{outside.tensor, true};
      SetLeaves(x, std::span(&inside, 1));
      AddIdentity(x, {from}, inside);
      return;
    }
    const std::vector<View> to = NewTensors(x);
    SetLeaves(x, to);
    Annotate(x);
    AddIdentity(x, {from}, to[0], function_results_.count(&x) != 0);
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
    const View from = graph_.LeavesOf(*x.operand(0))[0];
    View outside = from;
    if (!IsCustomCallTo(*x.operand(0), kShardingTarget)) {
      outside = {NewTensor(x.operand(0)->shape()), false};
      AddIdentity(x, {from}, outside);
    }
    HideManual(*x.operand(0), x, outside.tensor);
    const View inside{outside.tensor, true};
    SetLeaves(x, std::span(&inside, 1));
  }

  void AddExit(const Instruction& x) {
    if (graph_.first_leaf[x.id()] != kNoLeaves) return;  // with its constraint
    const View outside{NewTensor(x.shape()), false};
    SetLeaves(x, std::span(&outside, 1));
    Annotate(x);
    HideManual(x, *x.operand(0), outside.tensor);
    AddIdentity(x, {graph_.LeavesOf(*x.operand(0))[0]}, {outside.tensor, true});
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
      for (const AxisRef& axis : dim.axes) {
        const auto it = std::ranges::find(hidden, axis);
        if (it == hidden.end()) break;
        ++dim.manual;
        hidden.erase(it);
      }
    }
    for (const AxisRef& axis : hidden) border.replicated.push_back(axis);
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
    const std::vector<View> leaves = LeavesOf(*root);
    for (size_t i = 0; i < leaves.size(); ++i) {
      if (IsFree(free_results_, i) || root->sharding() == nullptr) continue;
      if (IsResultTensor(leaves[i].tensor)) continue;
      const int tensor = NewTensor(graph_.tensors[At(leaves[i].tensor)].shape);
      if (!ReadAnnotation(reader_, *root, static_cast<int64_t>(i), graph_.tensors[At(tensor)])) {
        graph_.tensors.pop_back();
        continue;
      }
      AddIdentity(*root, {leaves[i]}, {tensor, false}, /*is_result=*/true);
      graph_.result_tensors.push_back({i, tensor});
    }
  }
  bool IsResultTensor(int tensor) const {
    return std::ranges::any_of(results_, [&](const Operation& op) {
      return op.results[0].tensor == tensor;
    });
  }

  // Each operand slot is a use, and each leaf of the program's result. (Those of operations without a
  // relation have been counted.)
  void CountUses() {
    for (const Operation& op : graph_.operations) {
      for (const View& view : op.operands) ++graph_.tensors[At(view.tensor)].uses;
    }
    for (const View& view : LeavesOf(*module_.entry()->root())) {
      ++graph_.tensors[At(view.tensor)].uses;
    }
  }

  Module& module_;
  AnnotationReader reader_;
  const std::vector<bool>& free_results_;
  Graph graph_;
  std::vector<Operation> results_;
  bool has_regions_ = false;
  std::vector<bool> known_;  // by instruction id: its region has been found
  std::unordered_set<const Instruction*> function_results_;
  std::map<int64_t, std::vector<int>> groups_;
  std::map<std::pair<const Shape*, size_t>, std::shared_ptr<const DimRelation>> identities_;
  std::unordered_set<const Computation*> visited_;
  std::unordered_map<const Instruction*, const Instruction*> exits_;
};

}  // namespace

std::span<const View> Graph::LeavesOf(const Instruction& x) const {
  const uint32_t first = first_leaf[x.id()];
  if (first == UINT32_MAX) return {};
  return std::span(leaves).subspan(first, x.shape()->IsTuple() ? At(x.shape()->leaf_count()) : 1);
}

Graph MakeGraph(Module& module, const Mesh* mesh, const ShardyMeshes& meshes,
                const std::vector<bool>& free_results) {
  return GraphMaker(module, mesh, meshes, free_results).Make();
}

}  // namespace gshard::shardy
