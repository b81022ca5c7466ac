#include "core/transforms/collectives/collective_combiner.h"

#include <algorithm>
#include <map>

#include "core/analysis/partitioned.h"
#include "core/transforms/collectives/collective_groups.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

// Kinds beyond this are left alone: each costs a walk over the computation.
constexpr size_t kMaxKinds = 32;

struct Kind {
  std::vector<Instruction*> members;  // in list order
};

class Combiner {
 public:
  Combiner(Module& module, Opcode opcode, const CombineOptions& options)
      : module_(module), opcode_(opcode), options_(options) {
    Grow();
  }

  bool Run(Computation* computation) {
    computation_ = computation;
    std::vector<Kind> kinds = FindKinds();
    bool changed = false;
    for (const Kind& kind : kinds) {
      if (kind.members.size() > 1) changed |= Combine(kind);
    }
    return changed;
  }

 private:
  bool MayCombine(const Instruction* x) const {
    if (!IsPlainCollective(x, opcode_)) return false;
    return opcode_ == Opcode::kAllGather || ReductionOf(x).has_value();
  }

  std::vector<Kind> FindKinds() const {
    std::vector<Kind> kinds;
    for (Instruction* x : computation_->instructions()) {
      if (!MayCombine(x)) continue;
      auto kind = std::find_if(kinds.begin(), kinds.end(), [&](const Kind& k) {
        return k.members[0]->shape()->dtype() == x->shape()->dtype() &&
               SameCommunication(k.members[0], x);
      });
      if (kind != kinds.end()) {
        kind->members.push_back(x);
      } else if (kinds.size() < kMaxKinds) {
        kinds.push_back({{x}});
      }
    }
    return kinds;
  }

  // For each member the most members on a way from the computation's inputs to it. Members with the
  // same number do not depend on one another.
  std::map<int64_t, std::vector<Instruction*>> MembersByDepth(const Kind& kind) {
    for (const Instruction* member : kind.members) is_member_[member->id()] = true;
    std::map<int64_t, std::vector<Instruction*>> by_depth;
    for (Instruction* x : computation_->instructions()) {
      int32_t deepest = 0;
      for (const Instruction* operand : x->operands()) {
        deepest = std::max(deepest, depth_[operand->id()]);
      }
      for (const Instruction* predecessor : x->control_predecessors()) {
        deepest = std::max(deepest, depth_[predecessor->id()]);
      }
      if (is_member_[x->id()]) {
        by_depth[deepest].push_back(x);
        ++deepest;
      }
      depth_[x->id()] = deepest;
    }
    for (const Instruction* member : kind.members) is_member_[member->id()] = false;
    return by_depth;
  }

  int64_t BytesOf(const Instruction* x) const {
    return opcode_ == Opcode::kAllGather ? x->shape()->byte_size()
                                         : x->operand(0)->shape()->byte_size();
  }

  bool Combine(const Kind& kind) {
    std::vector<std::vector<Instruction*>> batches;
    for (const auto& [depth, members] : MembersByDepth(kind)) {
      int64_t bytes = 0;
      std::vector<Instruction*> batch;
      auto close = [&] {
        if (batch.size() > 1) batches.push_back(batch);
        batch.clear();
        bytes = 0;
      };
      for (Instruction* member : members) {
        const bool is_full = bytes + BytesOf(member) > options_.max_bytes ||
                             static_cast<int64_t>(batch.size()) >= options_.max_operands;
        if (is_full) close();
        batch.push_back(member);
        bytes += BytesOf(member);
      }
      close();
    }
    if (batches.empty()) return false;
    for (const std::vector<Instruction*>& batch : batches) Merge(batch);
    ReplaceAndSort();
    return true;
  }

  void Merge(const std::vector<Instruction*>& batch) {
    Builder builder(module_, computation_);
    builder.set_origin(batch[0]);
    std::vector<Instruction*> operands;
    std::vector<const Shape*> shapes;
    const Instruction* largest = batch[0];
    for (const Instruction* member : batch) {
      operands.push_back(member->operand(0));
      shapes.push_back(member->shape());
      if (BytesOf(member) > BytesOf(largest)) largest = member;
    }
    CollectiveAttributes attributes = batch[0]->attributes<CollectiveAttributes>();
    attributes.channel_id = module_.NextChannelId();
    std::vector<Computation*> called(batch[0]->called().begin(), batch[0]->called().end());
    Instruction* combined =
        builder.Add(opcode_, operands, attributes, module_.context().Tuple(shapes), called);
    std::string cause = FrontendAttribute(largest->frontend_attributes(), kCauseAttribute);
    if (!cause.empty()) {
      cause += "; and " + std::to_string(batch.size() - 1) + " more";
      combined->set_frontend_attributes(
          WithFrontendAttribute(module_.arena(), {}, kCauseAttribute, cause));
    }
    Grow();
    for (size_t i = 0; i < batch.size(); ++i) {
      Instruction* part = builder.GetTupleElement(combined, static_cast<int64_t>(i));
      Grow();
      part->set_sharding(batch[i]->sharding());
      value_[batch[i]->id()] = part;
    }
  }

  // Redirects uses, and puts every instruction behind its operands, otherwise in the old order.
  void ReplaceAndSort() {
    std::vector<Instruction*> old(computation_->instructions().begin(),
                                  computation_->instructions().end());
    for (Instruction* x : old) {
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        if (Instruction* value = value_[x->operand(i)->id()]) x->set_operand(i, value);
      }
    }
    if (Instruction* value = value_[computation_->root()->id()]) computation_->set_root(value);
    std::vector<Instruction*> list;
    list.reserve(old.size());
    for (const Instruction* x : old) is_listed_[x->id()] = false;
    struct Frame {
      Instruction* x;
      int64_t next;
    };
    std::vector<Frame> stack;
    for (Instruction* start : old) {
      if (value_[start->id()] != nullptr) continue;  // combined
      stack.push_back({start, 0});
      while (!stack.empty()) {
        Frame& frame = stack.back();
        Instruction* x = frame.x;
        const auto controls = x->control_predecessors();
        const auto control_count = static_cast<int64_t>(controls.size());
        if (is_listed_[x->id()]) {
          stack.pop_back();
        } else if (frame.next < x->operand_count() + control_count) {
          const int64_t i = frame.next++;
          Instruction* before =
              i < control_count ? controls[static_cast<size_t>(i)] : x->operand(i - control_count);
          if (!is_listed_[before->id()]) stack.push_back({before, 0});
        } else {
          is_listed_[x->id()] = true;
          list.push_back(x);
          stack.pop_back();
        }
      }
    }
    computation_->SetInstructions(std::move(list));
    for (const Instruction* x : old) value_[x->id()] = nullptr;
  }

  void Grow() {
    const size_t limit = module_.instruction_limit();
    if (value_.size() >= limit) return;
    value_.resize(2 * limit);
    depth_.resize(2 * limit);
    is_member_.resize(2 * limit);
    is_listed_.resize(2 * limit);
  }

  Module& module_;
  Computation* computation_ = nullptr;
  Opcode opcode_;
  CombineOptions options_;
  // By instruction id.
  std::vector<Instruction*> value_;  // what stands in
  std::vector<int32_t> depth_;
  std::vector<uint8_t> is_member_, is_listed_;
};

bool HasSeveral(const Computation& computation, Opcode opcode) {
  return std::ranges::count_if(computation.instructions(),
                               [&](const Instruction* x) { return x->opcode() == opcode; }) > 1;
}

}  // namespace

bool CombineCollectives(Module& module, Opcode opcode, const CombineOptions& options) {
  bool changed = false;
  std::vector<Computation*> computations(module.computations().begin(),
                                         module.computations().end());
  Combiner combiner(module, opcode, options);
  for (Computation* computation : computations) {
    if (HasSeveral(*computation, opcode)) changed |= combiner.Run(computation);
  }
  return changed;
}

}  // namespace gshard
