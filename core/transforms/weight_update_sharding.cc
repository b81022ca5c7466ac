#include "core/transforms/weight_update_sharding.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>
#include <unordered_set>

#include "core/analysis/meshes.h"
#include "core/partition/layout/mesh_layout.h"
#include "core/transforms/rewriter.h"
#include "ir/custom_call.h"
#include "ir/device_subsets.h"
#include "ir/mesh.h"
#include "ir/parser_errors.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

struct Update {
  size_t output = 0;               // leaf of the root
  Instruction* value = nullptr;    // the new value
  std::vector<Instruction*> from;  // entry parameters it is the update of
  const Sharding* before = nullptr;
  const Sharding* cut = nullptr;
};

// Inlined calls leave tuples behind that are taken apart at once.
Instruction* BehindTuples(Instruction* x) {
  while (x->opcode() == Opcode::kGetTupleElement && x->operand(0)->opcode() == Opcode::kTuple) {
    x = x->operand(0)->operand(x->attributes<GetTupleElementAttributes>().index);
  }
  return x;
}

// A result of a loop, perhaps in another type or order.
bool IsFromLoop(const Instruction* x) {
  while (true) {
    switch (x->opcode()) {
      case Opcode::kWhile:
        return true;
      case Opcode::kGetTupleElement:
      case Opcode::kReshape:
      case Opcode::kTranspose:
      case Opcode::kConvert:
      case Opcode::kCopy:
      case Opcode::kOptBarrier:
        x = x->operand(0);
        continue;
      default:  // computed, or moved in parts
        return false;
    }
  }
}

class WeightUpdate {
 public:
  WeightUpdate(Module& module, const WeightUpdateOptions& options)
      : module_(module),
        options_(options),
        root_(module.entry()->root()),
        layouts_(module.context(), module.DeviceCount()) {}

  Expected<bool> Run() {
    FindUpdates();
    if (updates_.empty()) return false;
    Expected<AxisList> axes = options_.axes.empty() ? Expected<AxisList>(BatchAxes()) : NamedAxes();
    if (!axes) return Fail(std::move(axes.error()));
    std::erase_if(updates_, [&](Update& update) { return !ChooseCut(update, *axes); });
    if (updates_.empty()) return false;
    Annotate();
    return true;
  }

 private:
  std::vector<Instruction*> Outputs() const {
    if (root_->opcode() != Opcode::kTuple) return {root_};
    return {root_->operands().begin(), root_->operands().end()};
  }

  void FindUpdates() {
    std::vector<Instruction*> outputs = Outputs();
    for (size_t i = 0; i < outputs.size(); ++i) {
      Instruction* value = BehindTuples(outputs[i]);
      if (!value->shape()->IsArray() || !IsElementwise(value->opcode())) continue;
      if (value->shape()->byte_size() < options_.min_bytes || !IsFree(value, i)) continue;
      Update update{i, value, ParametersOf(value), nullptr, nullptr};
      if (update.from.empty()) continue;
      for (Instruction* parameter : update.from) updated_.insert(parameter);
      updates_.push_back(std::move(update));
    }
  }

  // Not annotated by the user, neither itself nor as an output.
  bool IsFree(const Instruction* value, size_t output) const {
    if (value->sharding() != nullptr) return false;
    if (root_->sharding() == nullptr || !root_->sharding()->IsTuple()) {
      return root_->sharding() == nullptr;
    }
    if (root_->shape()->leaf_count() != static_cast<int64_t>(root_->shape()->elements().size())) {
      return false;
    }
    return root_->sharding()->elements[output]->IsUnknown();
  }

  // Entry parameters of the value's dims that elementwise operations on those dims lead to.
  std::vector<Instruction*> ParametersOf(Instruction* value) {
    std::vector<Instruction*> found, stack = {value};
    std::unordered_set<const Instruction*> seen = {value};
    while (!stack.empty()) {
      Instruction* x = stack.back();
      stack.pop_back();
      if (x->opcode() == Opcode::kParameter) {
        found.push_back(x);
        continue;
      }
      if (!IsElementwise(x->opcode())) continue;
      in_updates_.insert(x);
      for (Instruction* behind : x->operands()) {
        Instruction* operand = BehindTuples(behind);
        if (SameDims(operand->shape(), value->shape()) && seen.insert(operand).second) {
          stack.push_back(operand);
        }
      }
    }
    return found;
  }

  // Axes that cut parameters which nobody updates.
  AxisList BatchAxes() {
    AxisList all;
    for (const Instruction* parameter : module_.entry()->parameters()) {
      if (updated_.contains(parameter) || !parameter->shape()->IsArray()) continue;
      const MeshLayout* layout =
          layouts_.FromSharding(parameter->sharding(), parameter->shape()->rank());
      if (layout->order != nullptr) continue;
      for (const AxisList& axes : layout->dims) all.insert(all.end(), axes.begin(), axes.end());
    }
    return Without(all, {});
  }

  Expected<AxisList> NamedAxes() {
    const Mesh* mesh = NamedMesh(module_);
    AxisList axes;
    std::string_view rest = options_.axes;
    while (!rest.empty()) {
      std::string_view name = rest.substr(0, rest.find('+'));
      rest.remove_prefix(std::min(rest.size(), name.size() + 1));
      const int index = mesh == nullptr ? -1 : mesh->FindAxis(name);
      auto of_axis = index < 0 ? std::nullopt : mesh->devices.AxesOfDim(index);
      if (!of_axis) {
        return Fail(MakeError("E-ANNOTATE-005", fmt::format("the mesh has no axis '{}'", name),
                              mesh == nullptr
                                  ? "name axes of the mesh that `annotate` declared"
                                  : DidYouMean(name, mesh->axes, &MeshAxis::name) +
                                        "name axes of the mesh that `annotate` declared"));
      }
      axes.insert(axes.end(), of_axis->begin(), of_axis->end());
    }
    return Without(axes, {});
  }

  // The sub-axes of `axes` that are in none of `used`, major first; empty if they share no
  // sub-axes.
  AxisList Without(const AxisList& axes, const AxisList& used) const {
    AxisList all = axes;
    all.insert(all.end(), used.begin(), used.end());
    std::optional<AxisList> sub_axes = CommonSubAxes(all, layouts_.device_count());
    if (!sub_axes) return {};
    std::vector<bool> in(sub_axes->size(), false);
    auto mark = [&](const AxisList& list, bool value) {
      for (const DeviceAxis& axis : list) {
        for (int sub_axis : SubAxesOf(*sub_axes, axis)) in[static_cast<size_t>(sub_axis)] = value;
      }
    };
    mark(axes, true);
    mark(used, false);
    AxisList rest;
    for (size_t i = 0; i < sub_axes->size(); ++i) {
      if (in[i]) rest.push_back((*sub_axes)[i]);
    }
    return rest;
  }

  // The largest dim that further cuts divide; -1 if there is none.
  static int64_t DimToCut(const Shape* shape, const MeshLayout* layout, int64_t ways) {
    int64_t best = -1;
    for (int64_t d = 0; d < shape->rank(); ++d) {
      if (shape->dim(d) == 0 || shape->dim(d) % (layout->Count(d) * ways) != 0) continue;
      if (best < 0 || shape->dim(d) > shape->dim(best)) best = d;
    }
    return best;
  }

  bool ChooseCut(Update& update, const AxisList& axes) {
    const Shape* shape = update.value->shape();
    const MeshLayout* layout = nullptr;
    for (const Instruction* parameter : update.from) {
      const MeshLayout* other = layouts_.FromSharding(parameter->sharding(), shape->rank());
      if (layout != nullptr && other != layout) return false;
      layout = other;
    }
    if (layout->kind != MeshLayout::Kind::kTiled || layout->order != nullptr ||
        !layout->manual.empty() || !layout->unreduced.empty()) {
      return false;
    }
    AxisList used;
    for (const AxisList& list : layout->dims) used.insert(used.end(), list.begin(), list.end());
    AxisList rest = Without(axes, used);
    int64_t dim = -1;
    while (!rest.empty() && (dim = DimToCut(shape, layout, AxesSize(rest))) < 0) {
      rest.erase(rest.begin());
    }
    if (dim < 0) return false;
    std::vector<AxisList> dims = layout->dims;
    AxisList& list = dims[static_cast<size_t>(dim)];
    list = JoinedAxes(list, rest);
    update.before = layouts_.ToSharding(layout);
    update.cut = layouts_.ToSharding(layouts_.WithDims(layout, std::move(dims)));
    return true;
  }

  // Do updates alone read this parameter?
  bool IsState(const Instruction* parameter, const Users& users) const {
    return std::ranges::all_of(users.of(parameter), [&](const Instruction* user) {
      return user == root_ || in_updates_.contains(user);
    });
  }

  void Annotate() {
    Users users(*module_.entry());
    std::unordered_map<size_t, const Update*> gathered;  // outputs that come back whole
    // Read by the update through a barrier: how the update is cut is not to spread into the model.
    // So are gradients that a loop over layers stacks, in whose body the cut would compete with
    // the batch's.
    std::unordered_map<const Instruction*, Instruction*> barriers;
    for (Update& update : updates_) {
      update.value->set_sharding(update.cut);
      for (Instruction* parameter : update.from) {
        if (IsState(parameter, users)) {
          parameter->set_sharding(update.cut);
        } else {
          Pin(parameter, update.before);
          barriers.emplace(parameter, nullptr);
        }
      }
      const Instruction* own = OwnParameter(update);
      if (own == nullptr || !IsState(own, users)) {
        gathered[update.output] = &update;
      } else if (root_->sharding() == nullptr) {
        // The new state comes out as it went in.
        std::vector<bool>& may_change = module_.header().propagation_to_output;
        Spread(may_change, Outputs().size(), true);
        may_change[update.output] = true;
      }
    }
    auto whole = [&](Builder& builder, const Update& update) {
      Instruction* copy = builder.Add(Opcode::kCopy, {update.value});
      copy->set_sharding(update.before);
      return copy;
    };
    Rewriter(module_).Run(module_.entry(), [&](Instruction* x, Rewriter& rewriter) {
      if (in_updates_.contains(x)) {
        for (int64_t i = 0; i < x->operand_count(); ++i) {
          Instruction* operand = x->operand(i);
          const bool is_gradient = !in_updates_.contains(operand) && IsFromLoop(operand);
          if (!is_gradient && !barriers.contains(operand)) continue;
          Instruction*& barrier = barriers[operand];
          if (barrier == nullptr) barrier = Barrier(rewriter.builder(), operand);
          x->set_operand(i, barrier);
        }
      }
      if (x != root_ || x->opcode() != Opcode::kTuple || gathered.empty()) return x;
      std::vector<Instruction*> outputs(x->operands().begin(), x->operands().end());
      for (size_t i = 0; i < outputs.size(); ++i) {
        if (auto found = gathered.find(i); found != gathered.end()) {
          outputs[i] = whole(rewriter.builder(), *found->second);
        }
      }
      return rewriter.builder().Tuple(outputs);
    });
    if (root_->opcode() == Opcode::kTuple || gathered.empty()) return;
    // The only output: the copy reads it, and stands behind it.
    Builder builder(module_, module_.entry());
    builder.set_origin(root_);
    module_.entry()->set_root(whole(builder, *gathered.begin()->second));
  }

  static Instruction* Barrier(Builder& builder, Instruction* x) {
    CustomCallAttributes barrier;
    barrier.target = kShardBarrierTo;
    Instruction* operands[] = {x};
    return builder.Add(Opcode::kCustomCall, operands, barrier, x->shape());
  }

  // Keeps propagation from cutting the weight, too: it would be gathered at every use.
  void Pin(Instruction* parameter, const Sharding* sharding) {
    if (parameter->sharding() == nullptr) parameter->set_sharding(sharding);
    std::vector<bool>& may_change = module_.header().propagation_to_parameters;
    if (may_change.empty()) return;
    Spread(may_change, module_.entry()->parameters().size(), false);
    may_change[static_cast<size_t>(parameter->attributes<ParameterAttributes>().number)] = false;
  }

  // One flag for all becomes one each.
  static void Spread(std::vector<bool>& flags, size_t count, bool if_absent) {
    if (flags.size() == count) return;
    const bool value = flags.empty() ? if_absent : flags[0];
    flags.assign(count, value);
  }

  // The parameter that an output is the new value of: by aliasing, else the only one it is made
  // from; null if that is not known.
  const Instruction* OwnParameter(const Update& update) const {
    for (const ModuleHeader::Alias& alias : module_.header().input_output_alias) {
      const bool is_output = root_->opcode() == Opcode::kTuple
                                 ? alias.output_index.size() == 1 &&
                                       alias.output_index[0] == static_cast<int64_t>(update.output)
                                 : alias.output_index.empty();
      if (is_output && alias.parameter_index.empty()) {
        return module_.entry()->parameter(alias.parameter);
      }
    }
    return update.from.size() == 1 ? update.from[0] : nullptr;
  }

  Module& module_;
  const WeightUpdateOptions& options_;
  Instruction* root_;
  MeshLayoutTable layouts_;
  std::vector<Update> updates_;
  std::unordered_set<const Instruction*> updated_;     // parameters
  std::unordered_set<const Instruction*> in_updates_;  // elementwise operations of updates
};

}  // namespace

Expected<bool> ShardWeightUpdate(Module& module, const WeightUpdateOptions& options) {
  const int64_t devices = module.DeviceCount();
  if (devices == 1) return false;
  if (Expected<void> ok = RefuseDeviceSubsets(module, devices); !ok) return Fail(ok.error());
  return WeightUpdate(module, options).Run();
}

}  // namespace gshard
