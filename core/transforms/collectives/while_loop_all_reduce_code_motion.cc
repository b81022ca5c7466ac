#include "core/transforms/collectives/while_loop_all_reduce_code_motion.h"

#include <algorithm>
#include <map>
#include <optional>
#include <span>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/analysis/device_function.h"
#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/collectives/loop_accumulations.h"
#include "core/transforms/loop_parts.h"
#include "core/transforms/rewriter.h"
#include "ir/constant_fill.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

class LoopShortener {
 public:
  LoopShortener(Module& module, PartNames names)
      : module_(module), names_(names), sites_(module), devices_(module.DeviceCount()) {}

  bool changed() const { return changed_; }

  Instruction* Visit(Instruction* x, Rewriter& rewriter) {
    if (x->opcode() == Opcode::kWhile) Shorten(x, rewriter.builder());
    if (x->opcode() != Opcode::kGetTupleElement) return x;
    auto moved = moved_.find({x->operand(0), x->attributes<GetTupleElementAttributes>().index});
    if (moved == moved_.end()) return x;
    // What each iteration used to do, once.
    Builder& builder = rewriter.builder();
    Instruction* mine = builder.Add(
        Opcode::kGetTupleElement, x->operands(), GetTupleElementAttributes{moved->first.second},
        x->operand(0)->shape()->elements()[static_cast<size_t>(moved->first.second)]);
    const auto& [collective, first, dimension] = moved->second;
    Instruction* sum = dimension < 0 ? SameCollectiveOn(builder, collective, mine)
                                     : SameCollectiveAlong(builder, collective, mine, dimension,
                                                           x->shape()->dims());
    return IsFilledWith(first, 0.0) ? sum : builder.Add(first, sum);
  }

 private:
  struct Moved {
    const Instruction* collective;
    Instruction* init;
    int64_t dimension = -1;  // of the collective, where it is another
  };

  void Shorten(Instruction* loop, Builder& builder) {
    std::optional<LoopParts> parts = PartsOf(loop, sites_);
    if (!parts || !UsedByElement(loop)) return;
    // Of a loop that itself is in a branch, not all of a group may come by.
    const bool may_branch = loop->parent() == module_.entry();
    DeviceFunctions* devices = module_.header().replica_count > 1 ? nullptr : &devices_;
    const std::vector<Accumulation> accumulations =
        FindAccumulations(*parts, sites_, devices, may_branch);
    if (accumulations.empty()) return;
    std::vector<Instruction*> inits;
    for (int64_t i = 0; i < parts->size(); ++i) inits.push_back(parts->Init(builder, i));
    std::unordered_map<const Instruction*, const LoopSum*> sum_of;
    std::unordered_map<const Instruction*, std::span<const int64_t>> reshaped;
    std::vector<Computation*> summing;
    std::vector<Instruction*> parts_made;
    for (const Accumulation& a : accumulations) {
      Instruction*& init = inits[static_cast<size_t>(a.element)];
      // What is there on entry is added at the end: where it was.
      if (!a.keeps_places && !IsFilledWith(init, 0.0)) continue;
      for (const LoopSum& sum : a.sums) {
        sum_of[sum.collective] = &sum;
        Computation* parent = sum.collective->parent();
        if (std::ranges::find(summing, parent) == summing.end()) summing.push_back(parent);
      }
      moved_[{loop, a.element}] = {a.sums[0].repeated, init, a.dimension};
      for (const auto& [x, dims] : a.reshaped) reshaped[x] = dims;
      parts_made.insert(parts_made.end(), a.parts.begin(), a.parts.end());
      init = builder.Zero(a.changes_shape()
                              ? module_.context().Array(init->shape()->dtype(), a.part_dims)
                              : init->shape());
    }
    if (sum_of.empty()) return;
    if (names_ == PartNames::kNew) Rename(std::move(parts_made));
    SetState(*parts, builder, inits);
    for (Computation* computation : summing) {
      Rewriter(module_).Run(computation, [&](Instruction* x, Rewriter& rewriter) {
        if (const auto sum = sum_of.find(x); sum != sum_of.end()) return PartOf(x, *sum->second);
        const auto dims = reshaped.find(x);
        return dims == reshaped.end() ? x : Reshaped(x, dims->second, rewriter.builder());
      });
    }
    changed_ = true;
    if (reshaped.empty()) return;
    Instruction* root = parts->body->root();
    std::vector<const Shape*> shapes;
    for (const Instruction* x : root->operands()) shapes.push_back(x->shape());
    root->set_shape(module_.context().Tuple(shapes));
  }

  // Each once, in an order that does not depend on where they lie in memory.
  void Rename(std::vector<Instruction*> parts) {
    std::ranges::sort(parts, {}, &Instruction::id);
    const auto repeated = std::ranges::unique(parts);
    parts.erase(repeated.begin(), repeated.end());
    for (Instruction* x : parts) x->set_name(module_.UniqueName(x->name()));
  }

  // What the device adds up itself. Operands are redirected already.
  static Instruction* PartOf(Instruction* x, const LoopSum& sum) {
    Instruction* part = x->operand(0);
    if (sum.collective != sum.repeated) part = part->operand(0)->operand(0);
    x->set_shape(part->shape()->bare());
    return part;
  }

  // The same operation on parts, which has these dims.
  Instruction* Reshaped(Instruction* x, std::span<const int64_t> dims, Builder& builder) {
    const Shape* shape = module_.context().Array(x->shape()->dtype(), dims);
    x->set_shape(shape);
    if (x->opcode() == Opcode::kTranspose) return builder.CloneWith(x, x->operands(), shape);
    if (x->opcode() == Opcode::kGetTupleElement) {
      return builder.Add(Opcode::kGetTupleElement, x->operands(),
                         x->attributes<GetTupleElementAttributes>(), shape);
    }
    std::vector<Instruction*> operands;
    for (Instruction* from : x->operands()) {
      const bool is_number = !SameDims(from->shape(), shape);
      operands.push_back(is_number ? builder.BroadcastScalar(NumberOf(from, builder), dims) : from);
    }
    return builder.CloneWith(x, operands, shape);
  }
  static Instruction* NumberOf(Instruction* filled, Builder& builder) {
    if (filled->opcode() == Opcode::kBroadcast) return filled->operand(0);
    return builder.Scalar(filled->shape()->dtype(), 0);  // what is filled with zeros
  }

  static bool UsedByElement(const Instruction* loop) {
    const Computation& computation = *loop->parent();
    if (computation.root() == loop) return false;
    for (const Instruction* x : computation.instructions()) {
      if (x->opcode() == Opcode::kGetTupleElement) continue;
      for (const Instruction* operand : x->operands()) {
        if (operand == loop) return false;
      }
    }
    return true;
  }

  Module& module_;
  PartNames names_;
  CallSites sites_;
  DeviceFunctions devices_;
  bool changed_ = false;
  std::map<std::pair<const Instruction*, int64_t>, Moved> moved_;
};

}  // namespace

bool MoveAllReducesOutOfLoops(Module& module, PartNames names) {
  const bool has_loops = std::ranges::any_of(module.computations(), [](const Computation* of) {
    return std::ranges::any_of(of->instructions(),
                               [](const Instruction* x) { return x->opcode() == Opcode::kWhile; });
  });
  if (!has_loops) return RemoveDeadCode(module);
  // An all-gather of all-reduces leaves first, then these.
  constexpr int kMaxInARow = 3;
  bool any = false;
  for (int i = 0; i < kMaxInARow; ++i) {
    LoopShortener sweep(module, names);
    any |= RewriteModule(
        module, [&](Instruction* x, Rewriter& rewriter) { return sweep.Visit(x, rewriter); });
    if (!sweep.changed()) break;
  }
  return any;
}

}  // namespace gshard
