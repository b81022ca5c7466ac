#include "core/propagation/annotations.h"

#include <algorithm>
#include <set>
#include <utility>

#include "core/propagation/annotation_checks.h"
#include "core/propagation/computation_map.h"
#include "core/propagation/open_dims.h"
#include "core/propagation/rules.h"
#include "fmt/format.h"
#include "ir/custom_call.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/traversal.h"
#include "ir/unspecified_dims.h"

namespace gshard {
namespace {

bool HasUnknown(const Sharding* s) {
  if (!s->IsTuple()) return s->IsUnknown();
  return std::any_of(s->elements.begin(), s->elements.end(),
                     [](const Sharding* e) { return e->IsUnknown(); });
}
bool IsUnknown(const Sharding* s) {
  if (!s->IsTuple()) return s->IsUnknown();
  return !s->elements.empty() && std::all_of(s->elements.begin(), s->elements.end(),
                                             [](const Sharding* e) { return e->IsUnknown(); });
}

// The first tiled leaf; null if none.
const Sharding* TiledLeaf(const Sharding* s) {
  if (s->IsTiled()) return s;
  for (const Sharding* e : s->elements) {
    if (e->IsTiled()) return e;
  }
  return nullptr;
}

class AnnotationNormalizer {
 public:
  AnnotationNormalizer(Module& module, const AnnotationOptions& options,
                       std::vector<Diagnostic>* warnings, ExplainRecorder* recorder)
      : module_(module),
        ctx_(module.context()),
        options_(options),
        warnings_(warnings),
        recorder_(recorder),
        first_new_id_(module.instruction_limit()) {}

  Expected<Annotations> Run() {
    if (Expected<void> ok = CheckAnnotations(module_); !ok) return Fail(ok.error());
    if (warnings_ != nullptr) WarnOfDifferingMeshes(module_, *warnings_);
    if (Expected<void> ok = ReadShardingCalls(); !ok) return Fail(ok.error());
    SaveBoundary();
    const Sharding* output = module_.entry()->root()->sharding();
    if (Expected<void> ok = UnifyControlFlow(); !ok) return Fail(ok.error());
    FixProvided(output);
    return std::move(result_);
  }

 private:
  const Sharding* WithoutMark(const Sharding* s) {
    if (s->group_kind == ShardGroupKind::kNone && s->metadata.empty()) return s;
    Sharding plain = *s;
    plain.group_kind = ShardGroupKind::kNone;
    plain.group_id = 0;
    plain.metadata.clear();
    return ctx_.Intern(std::move(plain));
  }

  void Join(Instruction* member, const Sharding* marked) {
    if (marked->group_kind == ShardGroupKind::kNone) return;
    auto& groups =
        marked->group_kind == ShardGroupKind::kShardAs ? result_.shard_as : result_.shard_like;
    ShardGroup& group = groups[marked->group_id];
    if (joined_.insert({&group, member}).second) group.members.push_back(member);
  }

  Expected<void> ReadShardingCalls() {
    result_.orders.reserve(module_.computations().size());
    for (const Computation* computation : module_.computations()) {
      result_.orders.push_back(PostOrder(*computation));
    }
    for (const std::vector<Instruction*>& order : result_.orders) {
      for (auto it = order.rbegin(); it != order.rend(); ++it) {
        Instruction* x = *it;
        if (IsCustomCallTo(*x, kShardingTarget) && x->operand_count() == 1) {
          if (Expected<void> ok = ReadShardingCall(x); !ok) return ok;
        }
        if (Instruction* replacement = ReplacementOf(x)) {
          // A mark that moved to the operand is read there.
          if (replacement == x->operand(0)) continue;
          x = replacement;
        }
        if (x->sharding() == nullptr) continue;
        Join(x, x->sharding());
        x->set_sharding(WithoutMark(x->sharding()));
      }
    }
    ApplyReplacements();
    TranslateUserOrder();
    for (auto* groups : {&result_.shard_as, &result_.shard_like}) {
      for (auto& [id, group] : *groups) {
        for (Instruction*& member : group.members) member = Resolve(member);
        for (const Instruction* member : group.members) {
          const Instruction* first = group.members.front();
          if (member->shape()->IsArray() && first->shape()->IsArray() &&
              SameDims(member->shape(), first->shape())) {
            continue;
          }
          Diagnostic error =
              module_.ErrorAt(member, "E-PROP-003",
                              fmt::format("'{}' and '{}' are in shard group {} but differ in shape",
                                          member->name(), first->name(), id));
          error.notes.push_back(NoteAt(module_, first, "the group's first member is here"));
          return Fail(std::move(error));
        }
      }
    }
    return {};
  }

  Expected<void> ReadShardingCall(Instruction* x) {
    const Sharding* s = x->sharding();
    if (s == nullptr) {
      return Fail(module_.ErrorAt(x, "E-PROP-002",
                                  fmt::format("Sharding call '{}' has no sharding", x->name())));
    }
    Instruction* operand = x->operand(0);
    std::vector<int64_t> open = UnspecifiedDims(*x);
    bool placeholder = s->IsUnknown() && operand->opcode() != Opcode::kParameter;
    if (placeholder && s->group_kind != ShardGroupKind::kNone) {
      // The mark moves to the operand.
      if (operand->sharding() == nullptr) {
        operand->set_sharding(s);
      } else if (operand->sharding()->group_kind == ShardGroupKind::kNone &&
                 !operand->sharding()->IsTuple()) {
        Sharding marked = *operand->sharding();
        marked.group_kind = s->group_kind;
        marked.group_id = s->group_id;
        operand->set_sharding(ctx_.Intern(std::move(marked)));
      }
      Replace(x, operand);
      return {};
    }
    Instruction* const operands[] = {operand};
    Instruction* copy =
        module_.Add(x->parent(), Opcode::kCopy, x->name(), x->shape(), operands, NoAttributes{});
    copy->set_metadata(x->metadata());
    copy->set_frontend_attributes(x->frontend_attributes());
    copy->set_extras(x->extras());
    copy->set_source(x->source());
    copy->set_sharding(s);
    Replace(x, copy);
    Record({copy, nullptr, ShardingEdge::kAnnotation, -1, s, nullptr, s});
    if (placeholder) return {};  // says nothing of the operand
    if (!open.empty()) {
      open.erase(std::remove_if(open.begin(), open.end(),
                                [&](int64_t d) { return d >= x->shape()->rank(); }),
                 open.end());
      result_.open_dims[copy] = std::move(open);
    } else if (operand->sharding() == nullptr) {
      operand->set_sharding(WithoutMark(s));
      Record({operand, copy, ShardingEdge::kSharding, -1, s, nullptr, operand->sharding()});
    }
    return {};
  }

  void Record(const ShardingChange& change) {
    if (recorder_ != nullptr) recorder_->Record(change);
  }

  // By the copy that takes its place, or by its operand.
  void Replace(Instruction* call, Instruction* by) {
    if (replacement_.empty()) replacement_.resize(first_new_id_, nullptr);
    replacement_[call->id()] = by;
  }
  Instruction* ReplacementOf(const Instruction* x) const {
    return x->id() < replacement_.size() ? replacement_[x->id()] : nullptr;
  }
  Instruction* Resolve(Instruction* x) const {
    while (Instruction* replacement = ReplacementOf(x)) x = replacement;
    return x;
  }

  void TranslateUserOrder() {
    if (options_.use_order == nullptr) return;
    for (const auto& [value, users] : *options_.use_order) {
      std::vector<Instruction*> now = users;
      for (Instruction*& user : now) user = Resolve(user);
      result_.use_order[Resolve(const_cast<Instruction*>(value))] = std::move(now);
    }
  }

  // Points every operand, root and control edge at the replacements, and puts copies where the
  // calls stood.
  void ApplyReplacements() {
    if (replacement_.empty()) return;
    for (size_t i = 0; i < module_.computations().size(); ++i) {
      Computation* computation = module_.computations()[i];
      bool touched = false, removed = false;
      std::vector<Instruction*> list;
      list.reserve(computation->instructions().size());
      for (Instruction* x : computation->instructions()) {
        if (x->id() >= first_new_id_) continue;  // a copy: stands for its call
        Instruction* replacement = ReplacementOf(x);
        bool in_place = replacement != nullptr && replacement != x->operand(0);
        touched = touched || replacement != nullptr;
        removed = removed || (replacement != nullptr && !in_place);
        if (replacement == nullptr || in_place) list.push_back(in_place ? replacement : x);
      }
      if (!touched) continue;
      for (Instruction* x : list) {
        for (int64_t k = 0; k < x->operand_count(); ++k) {
          if (ReplacementOf(x->operand(k)) != nullptr) x->set_operand(k, Resolve(x->operand(k)));
        }
        RedirectControl(x);
      }
      Instruction* root = Resolve(computation->root());
      computation->SetInstructions(std::move(list));
      computation->set_root(root);
      if (removed) {
        result_.orders[i] = PostOrder(*computation);
      } else {
        for (Instruction*& x : result_.orders[i]) x = Resolve(x);
      }
    }
  }

  void RedirectControl(Instruction* x) {
    std::span<Instruction* const> before = x->control_predecessors();
    if (before.empty()) return;
    std::vector<Instruction*> list;
    for (Instruction* p : before) list.push_back(Resolve(p));
    Instruction::Extras extras = *x->extras();
    extras.control_predecessors = module_.arena().Copy(list);
    x->set_extras(module_.arena().New<Instruction::Extras>(extras));
  }

  void SaveBoundary() {
    const Computation* entry = module_.entry();
    if (options_.output_allowed && entry->root()->sharding() != nullptr) {
      const Sharding* s = entry->root()->sharding();
      result_.root_shardings = s->IsTuple() ? s->elements : std::vector<const Sharding*>{s};
    }
    if (!options_.parameters_allowed) return;
    if (entry->parameter_count() == 1 && entry->parameter(0)->shape()->IsTuple()) {
      const Sharding* s = entry->parameter(0)->sharding();
      if (s != nullptr) {
        result_.parameter_shardings = s->elements;
      } else {
        result_.parameter_shardings.assign(
            static_cast<size_t>(entry->parameter(0)->shape()->leaf_count()), nullptr);
      }
      return;
    }
    for (const Instruction* p : entry->parameters()) {
      result_.parameter_shardings.push_back(p->sharding());
    }
  }

  static bool HasRelatedSet(const Instruction* x) {
    return x->opcode() == Opcode::kWhile || x->opcode() == Opcode::kConditional ||
           x->opcode() == Opcode::kCall;
  }

  Expected<void> UnifyControlFlow() {
    for (const std::vector<Instruction*>& order : result_.orders) {
      for (Instruction* x : order) {
        if (!HasRelatedSet(x)) continue;
        if (x->opcode() == Opcode::kWhile) {
          if (Expected<void> ok = FollowChannelDevice(x); !ok) return ok;
        }
        UnifyFrom(x);
      }
    }
    return {};
  }

  // Also the sets of loops and branches that end a computation called by `caller`.
  void UnifyFrom(Instruction* caller) {
    std::vector<Instruction*> callers = {caller};
    while (!callers.empty()) {
      const std::vector<Instruction*> set = ComputationMap::RelatedSetOf(callers.back());
      callers.pop_back();
      for (Instruction* changed : UnifySet(set)) {
        if (changed != set[0] && HasRelatedSet(changed)) callers.push_back(changed);
      }
    }
  }

  // Those that got another sharding.
  std::vector<Instruction*> UnifySet(const std::vector<Instruction*>& set) {
    const Instruction* first = nullptr;
    for (Instruction* member : set) {
      if (member->sharding() == nullptr) continue;
      if (first == nullptr) {
        first = member;
      } else if (!SameSharding(member->sharding(), first->sharding()) && warnings_ != nullptr) {
        warnings_->push_back(WarningAbout(
            module_, member, "W-PROP-001",
            fmt::format("'{}' and '{}' are one value of a loop or branch but carry different "
                        "shardings; the latter's is used",
                        member->name(), first->name()),
            first, fmt::format("'{}' has {}", first->name(), ToString(first->sharding()))));
      }
    }
    std::vector<Instruction*> changed;
    if (first == nullptr) return changed;
    const Sharding* s = first->sharding();
    for (Instruction* member : set) {
      if (member == first || SameSharding(member->sharding(), s)) continue;
      Record({member, first, ShardingEdge::kControlFlow, -1, s->canonical, member->sharding(),
              s->canonical});
      member->set_sharding(s);
      changed.push_back(member);
    }
    return changed;
  }

  // A loop body that talks to one device over a channel runs there.
  Expected<void> FollowChannelDevice(Instruction* loop) {
    Computation* body = loop->called(1);
    const Instruction* channel = nullptr;
    const Instruction* placed = nullptr;
    for (const Instruction* x : body->instructions()) {
      const Sharding* s = x->sharding();
      if (s == nullptr || TiledLeaf(s) != nullptr) continue;
      const Sharding* leaf = s->IsTuple() && !s->elements.empty() ? s->elements.front() : s;
      if (!leaf->IsMaximal()) continue;
      bool is_channel = x->opcode() == Opcode::kSend || x->opcode() == Opcode::kRecv ||
                        (x->opcode() == Opcode::kAllReduce &&
                         x->attributes<CollectiveAttributes>().channel_id != 0);
      if (is_channel && channel == nullptr) channel = x;
      if (!is_channel && placed == nullptr) placed = x;
    }
    if (channel == nullptr) return {};
    const Sharding* s = channel->sharding()->canonical;
    if (s->IsTuple()) s = s->elements.front();
    for (const Instruction* x : body->instructions()) {
      const Sharding* other = x->sharding();
      if (other == nullptr || !other->IsMaximal() || other->device == s->device) continue;
      Diagnostic error =
          module_.ErrorAt(x, "E-PROP-004",
                          fmt::format("'{}' is on device {} but its loop communicates on device {}",
                                      x->name(), other->device, s->device));
      error.notes.push_back(NoteAt(module_, channel, "the channel is here"));
      return Fail(std::move(error));
    }
    Instruction* root = body->root();
    if (root->shape()->IsTuple()) {
      s = ctx_.TupleOf(
          std::vector<const Sharding*>(static_cast<size_t>(root->shape()->leaf_count()), s));
    }
    root->set_sharding(s);
    return {};
  }

  // Whether propagation may refine a root that the user left open although the output is fixed:
  // then the output is a copy of it. XLA appends one to loops and sees branches as tuples with a
  // get-tuple-element at the root, whatever their own roots say.
  static bool IsRefinedBehindOutput(const Instruction* root, const Sharding* output) {
    switch (root->opcode()) {
      case Opcode::kWhile:
        return root->sharding() == nullptr;
      case Opcode::kConditional:
      case Opcode::kCall:
        return output == nullptr;
      default:  // GSPMD refines these only
        return false;
    }
  }

  Instruction* AppendCopyAsRoot() {
    Computation* entry = module_.entry();
    Instruction* root = entry->root();
    Instruction* const operands[] = {root};
    Instruction* copy = module_.Add(entry, Opcode::kCopy, module_.UniqueName("copy"), root->shape(),
                                    operands, NoAttributes{});
    copy->set_source(root->source());
    entry->set_root(copy);
    for (size_t i = 0; i < result_.orders.size(); ++i) {
      if (module_.computations()[i] == entry) result_.orders[i].push_back(copy);
    }
    return copy;
  }

  // `output`: what the user says of the entry's root.
  void FixProvided(const Sharding* output) {
    Computation* entry = module_.entry();
    Instruction* root = entry->root();
    const bool fix_root =
        !options_.output_allowed && (root->sharding() == nullptr || !IsUnknown(root->sharding()));
    if (fix_root && IsRefinedBehindOutput(root, output)) {
      root = AppendCopyAsRoot();
      result_.output_copy = root;
    }
    result_.provided.assign(module_.instruction_limit(), 0);
    for (const Computation* computation : module_.computations()) {
      for (Instruction* x : computation->instructions()) {
        const Sharding* s = x->sharding();
        if (s == nullptr) continue;
        if (HasUnknown(s)) {
          x->set_sharding(Replaced(s));
          if (IsUnknown(s)) continue;
        }
        // Of a loop or branch at the root the rest of its set is fixed as well.
        if ((x == root && !HasRelatedSet(x)) || x->opcode() == Opcode::kParameter) continue;
        result_.provided[x->id()] = 1;
      }
    }
    if (fix_root) result_.provided[root->id()] = 1;
    if (options_.parameters_allowed) return;
    for (const Instruction* p : entry->parameters()) {
      if (p->sharding() != nullptr) result_.provided[p->id()] = 1;
    }
  }

  // Placeholders count as replicated.
  const Sharding* Replaced(const Sharding* s) {
    if (s->IsUnknown()) return ctx_.Replicated();
    std::vector<const Sharding*> leaves = s->elements;
    for (const Sharding*& leaf : leaves) {
      if (leaf->IsUnknown()) leaf = ctx_.Replicated();
    }
    return ctx_.TupleOf(std::move(leaves));
  }

  Module& module_;
  Context& ctx_;
  const AnnotationOptions& options_;
  std::vector<Diagnostic>* warnings_;
  ExplainRecorder* recorder_;
  Annotations result_;
  std::vector<Instruction*> replacement_;  // by id; null: none
  uint32_t first_new_id_;
  std::set<std::pair<const ShardGroup*, const Instruction*>> joined_;
};

}  // namespace

Expected<Annotations> PrepareAnnotations(Module& module, const AnnotationOptions& options,
                                         std::vector<Diagnostic>* warnings,
                                         ExplainRecorder* recorder) {
  return AnnotationNormalizer(module, options, warnings, recorder).Run();
}

}  // namespace gshard
