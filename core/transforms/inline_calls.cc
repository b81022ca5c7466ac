#include "core/transforms/inline_calls.h"

#include <algorithm>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "core/propagation/annotation_checks.h"
#include "core/propagation/shardy_import.h"
#include "core/transforms/inlined_metadata.h"
#include "fmt/format.h"
#include "ir/free_memory.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

// What an instruction takes from reading to printing the partitioned program: 750 bytes were
// measured on unrolled training steps of 1.3 million instructions.
constexpr int64_t kBytesPerInstruction = 1024;

// Half of the free memory: a limit for programs whose nested calls double at each level.
int64_t MaxInstructions() { return FreeMemory() / 2 / kBytesPerInstruction; }

bool OwnsItsComputations(Opcode opcode) {
  return opcode == Opcode::kWhile || opcode == Opcode::kConditional;
}

// A computation's instructions and operands as they were before its first copy was moved away. Its
// values are numbered, parameters first: slots.
struct Template {
  struct Item {
    Instruction* instruction = nullptr;
    uint32_t first_operand = 0;
    std::string_view metadata, call_site;  // as they were, see Inliner::call_sites_
  };
  std::vector<Item> items;  // without parameters
  std::vector<uint32_t> operands;  // slots
  std::vector<Instruction*> parameters;
  Instruction* root = nullptr;
  uint32_t root_slot = 0;
  const Sharding* root_sharding = nullptr;
  bool moved = false;

  const Instruction* AtSlot(size_t slot) const {
    if (slot < parameters.size()) return parameters[slot];
    slot -= parameters.size();
    return slot < items.size() ? items[slot].instruction : nullptr;
  }
};

class Inliner {
 public:
  Inliner(Module& module, UserOrderOverride* order, std::vector<Diagnostic>* warnings)
      : module_(module), order_(order), warnings_(warnings), metadata_(module) {}

  Expected<bool> Run() {
    std::vector<Computation*> order = CallPostOrder(module_);
    bool needed = false;
    if (Expected<void> ok = CheckSize(order, needed); !ok) return Fail(ok.error());
    if (!needed) return false;
    uses_.resize(module_.instruction_limit());
    for (Computation* computation : order) InlineInto(computation);
    for (Computation* computation : order) {
      if (callees_.count(computation) == 0 || kept_.count(computation) != 0) {
        SeparateControlFlow(computation);
      }
    }
    PutCallSites();
    metadata_.WriteFrames();
    std::vector<Computation*> kept;
    for (Computation* computation : CallPostOrder(module_)) kept.push_back(computation);
    module_.SetComputations(std::move(kept));
    if (order_ != nullptr) ReportUses();
    return true;
  }

 private:
  Expected<void> CheckSize(const std::vector<Computation*>& order, bool& needed) {
    std::unordered_map<const Computation*, int> owners;
    for (const Computation* computation : order) {
      for (const Instruction* x : computation->instructions()) {
        const bool call = x->opcode() == Opcode::kCall;
        if (!call && !OwnsItsComputations(x->opcode())) continue;
        needed = needed || call;
        for (const Computation* called : x->called()) needed = needed || ++owners[called] > 1;
      }
    }
    if (!needed) return {};
    for (const Computation* computation : order) {
      for (const Instruction* x : computation->instructions()) {
        if (x->opcode() != Opcode::kCall) kept_.insert(x->called().begin(), x->called().end());
      }
    }
    Expected<void> ok = CheckInlinedSize(module_, MaxInstructions());
    if (!ok) ok.error().message += ", more than half of the free memory holds";
    return ok;
  }

  Template& TemplateOf(Computation* computation) {
    auto [it, fresh] = callees_.try_emplace(computation);
    Template& t = it->second;
    if (!fresh) return t;
    slot_of_.resize(module_.instruction_limit());
    uint32_t slots = 0;
    t.parameters.assign(computation->parameters().begin(), computation->parameters().end());
    for (const Instruction* parameter : t.parameters) slot_of_[parameter->id()] = slots++;
    for (Instruction* x : PostOrder(*computation)) {
      if (x->opcode() == Opcode::kParameter) continue;
      t.items.push_back(
          {x, static_cast<uint32_t>(t.operands.size()), x->metadata(), CallSiteOf(x)});
      for (const Instruction* operand : x->operands()) {
        t.operands.push_back(slot_of_[operand->id()]);
      }
      slot_of_[x->id()] = slots++;
    }
    t.root = computation->root();
    t.root_slot = slot_of_[t.root->id()];
    t.root_sharding = t.root->sharding();
    return t;
  }

  // Appends a copy of the callee's body to `list`; returns the value of its root.
  Instruction* Expand(Instruction* call, Computation* into, std::vector<Instruction*>& list) {
    Template& t = TemplateOf(call->called(0));
    std::vector<Instruction*> value;  // by slot
    value.reserve(t.items.size() + t.parameters.size());
    for (size_t k = 0; k < t.parameters.size(); ++k) {
      Instruction* operand = call->operand(static_cast<int64_t>(k));
      value.push_back(operand);
      WarnIfLost(t.parameters[k], operand);
    }
    bool move = !t.moved && kept_.count(call->called(0)) == 0;
    t.moved |= move;
    std::vector<Instruction*> operands;
    for (const Template::Item& item : t.items) {
      Instruction* x = item.instruction;
      operands.clear();
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        operands.push_back(value[t.operands[item.first_operand + static_cast<size_t>(i)]]);
      }
      Instruction* copy = x;
      if (move) {
        for (int64_t i = 0; i < x->operand_count(); ++i) {
          x->set_operand(i, operands[static_cast<size_t>(i)]);
        }
      } else {
        copy = module_.Clone(into, x, operands, module_.UniqueName(x->name()));
        // The first copy may have taken the sharding of its call.
        if (x == t.root) copy->set_sharding(t.root_sharding);
      }
      copy->set_metadata(metadata_.Of(call->metadata(), item.metadata));
      if (OwnsItsComputations(copy->opcode())) {
        call_sites_[copy] = metadata_.Of(call->metadata(), item.call_site);
      }
      UsesOf(copy).clear();
      for (Instruction* operand : operands) AddUse(operand, copy);
      value.push_back(copy);
      list.push_back(copy);
    }
    auto resolve = [&](Instruction* x) {
      const uint32_t slot = x->id() < slot_of_.size() ? slot_of_[x->id()] : 0;
      return t.AtSlot(slot) == x ? value[slot] : x;
    };
    for (size_t i = list.size() - t.items.size(); i < list.size(); ++i) {
      RedirectControl(list[i], resolve);
    }
    Instruction* result = value[t.root_slot];
    for (Instruction* user : std::vector<Instruction*>(UsesOf(call))) AddUse(result, user);
    UsesOf(call).clear();
    for (Instruction* operand : call->operands()) RemoveUse(operand, call);
    if (call->sharding() != nullptr && result->sharding() == nullptr) {
      result->set_sharding(call->sharding());
    }
    WarnIfLost(call, result);
    return result;
  }

  // `lost` goes away and `kept` is the same value from now on.
  void WarnIfLost(const Instruction* lost, const Instruction* kept) {
    const Sharding* a = lost->sharding();
    const Sharding* b = kept->sharding();
    if (warnings_ == nullptr || a == nullptr || b == nullptr || a->IsUnknown() || b->IsUnknown() ||
        SameSharding(a, b)) {
      return;
    }
    warnings_->push_back(WarningAbout(
        module_, lost, "W-INLINE-001",
        fmt::format("'{}' and '{}' are one value of a call but carry different shardings; the "
                    "latter's is used",
                    lost->name(), kept->name()),
        kept, fmt::format("'{}' has {}", kept->name(), ToString(b))));
  }

  // `resolve` says what an instruction has become.
  template <typename Resolve>
  void RedirectControl(Instruction* x, const Resolve& resolve) {
    std::span<Instruction* const> before = x->control_predecessors();
    if (before.empty()) return;
    std::vector<Instruction*> list;
    for (Instruction* p : before) list.push_back(resolve(p));
    Instruction::Extras extras = *x->extras();
    extras.control_predecessors = module_.arena().Copy(list);
    x->set_extras(module_.arena().New<Instruction::Extras>(extras));
  }

  void InlineInto(Computation* computation) {
    std::span<Instruction* const> before = computation->instructions();
    if (std::none_of(before.begin(), before.end(),
                     [](const Instruction* x) { return x->opcode() == Opcode::kCall; })) {
      return;
    }
    // Clones are appended to the computation as they are made, so walk a copy of the list.
    std::vector<Instruction*> old(before.begin(), before.end());
    for (Instruction* x : old) UsesOf(x).clear();
    for (Instruction* x : old) {
      for (Instruction* operand : x->operands()) AddUse(operand, x);
    }
    std::vector<Instruction*> list;
    std::unordered_map<const Instruction*, Instruction*> value;
    auto resolve = [&](Instruction* x) {
      auto it = value.find(x);
      return it == value.end() ? x : it->second;
    };
    for (Instruction* x : old) {
      for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, resolve(x->operand(i)));
      if (x->opcode() == Opcode::kCall) {
        value[x] = Expand(x, computation, list);
      } else {
        RedirectControl(x, resolve);
        list.push_back(x);
      }
    }
    Instruction* root = resolve(computation->root());
    computation->SetInstructions(std::move(list));
    computation->set_root(root);
  }

  // Gives the loops and branches of a computation bodies that nobody else runs.
  void SeparateControlFlow(Computation* computation) {
    std::vector<Computation*> work = {computation};
    while (!work.empty()) {
      Computation* current = work.back();
      work.pop_back();
      for (Instruction* x : current->instructions()) {
        if (!OwnsItsComputations(x->opcode())) continue;
        for (int64_t i = 0; i < static_cast<int64_t>(x->called().size()); ++i) {
          Computation* called = x->called(i);
          if (!owned_.try_emplace(called, true).second) {
            called = CloneComputation(called);
            owned_[called] = true;
            x->set_called(i, called);
            work.push_back(called);
          }
        }
      }
    }
  }

  Computation* CloneComputation(const Computation* original) {
    Computation* copy = module_.AddComputation(original->name());
    copy->set_source(original->source());
    std::unordered_map<const Instruction*, Instruction*> value;
    std::vector<Instruction*> operands;
    for (const Instruction* x : PostOrder(*original)) {
      operands.clear();
      for (const Instruction* operand : x->operands()) operands.push_back(value.at(operand));
      value[x] = module_.Clone(copy, x, operands, module_.UniqueName(x->name()));
      const std::string_view call_site = CallSiteOf(x);
      if (!call_site.empty()) call_sites_[value[x]] = call_site;
    }
    auto resolve = [&](Instruction* x) {
      auto it = value.find(x);
      return it == value.end() ? x : it->second;
    };
    for (Instruction* x : copy->instructions()) RedirectControl(x, resolve);
    copy->set_root(value.at(original->root()));
    return copy;
  }

  // --- where calls were
  std::string_view CallSiteOf(const Instruction* x) const {
    const auto found = call_sites_.find(x);
    return found == call_sites_.end() ? std::string_view() : found->second;
  }
  // What loops and branches of inlined computations run is inlined with them.
  void PutCallSites() {
    if (call_sites_.empty()) return;
    std::vector<Computation*> order = CallPostOrder(module_);
    std::unordered_map<const Computation*, std::string_view> inherited;
    for (auto it = order.rbegin(); it != order.rend(); ++it) {  // callers first
      const std::string_view outer = inherited[*it];
      for (Instruction* x : (*it)->instructions()) {
        if (OwnsItsComputations(x->opcode())) {
          const std::string_view all = metadata_.Of(outer, CallSiteOf(x));
          for (const Computation* called : x->called()) inherited[called] = all;
        }
        x->set_metadata(metadata_.Of(outer, x->metadata()));
      }
    }
  }

  // --- uses, distinct, in the order they were made
  std::vector<Instruction*>& UsesOf(const Instruction* x) {
    if (uses_.size() <= x->id()) uses_.resize(std::max<size_t>(x->id() + 1, 2 * uses_.size()));
    return uses_[x->id()];
  }
  void AddUse(Instruction* operand, Instruction* user) {
    std::vector<Instruction*>& uses = UsesOf(operand);
    // Uses by one instruction are made together.
    if (uses.empty() || uses.back() != user) uses.push_back(user);
  }
  void RemoveUse(Instruction* operand, Instruction* user) {
    std::vector<Instruction*>& uses = UsesOf(operand);
    auto it = std::find(uses.begin(), uses.end(), user);
    if (it == uses.end()) return;
    *it = uses.back();
    uses.pop_back();
  }
  void ReportUses() {
    Users text_order(module_);
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        if (x->id() >= uses_.size()) continue;
        const std::vector<Instruction*>& uses = uses_[x->id()];
        std::span<Instruction* const> text = text_order.of(x);
        if (uses.size() != text.size() || std::equal(uses.begin(), uses.end(), text.begin())) {
          continue;
        }
        (*order_)[x] = uses;
      }
    }
  }

  Module& module_;
  UserOrderOverride* order_;
  std::vector<Diagnostic>* warnings_;
  InlinedMetadata metadata_;
  std::vector<std::vector<Instruction*>> uses_;  // by id; of computations that had calls
  std::unordered_map<Computation*, Template> callees_;
  std::vector<uint32_t> slot_of_;  // by id; in the last template made that has the instruction
  std::unordered_set<const Computation*> kept_;  // for others than calls: never moved
  std::unordered_map<const Computation*, bool> owned_;
  // Metadata of the calls, the outer and the inner as one, that a loop or conditional was inlined
  // by: what it runs has to be told of it, once each computation has one caller.
  std::unordered_map<const Instruction*, std::string_view> call_sites_;
};

}  // namespace

Expected<bool> InlineCalls(Module& module, UserOrderOverride* order,
                           std::vector<Diagnostic>* warnings) {
  // Shardy's manual regions are bodies of calls: they must be read while the calls stand.
  Expected<bool> imported = ImportShardyShardings(module);
  if (!imported) return Fail(imported.error());
  Expected<bool> inlined = Inliner(module, order, warnings).Run();
  if (!inlined) return inlined;
  return *imported || *inlined;
}

// With everything inlined and loops and branches cloned.
Expected<void> CheckInlinedSize(const Module& module, int64_t most) {
  std::unordered_map<const Computation*, int64_t> size;
  for (const Computation* computation : CallPostOrder(module)) {
    int64_t total = static_cast<int64_t>(computation->instructions().size());
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kCall && !OwnsItsComputations(x->opcode())) continue;
      for (const Computation* called : x->called()) {
        total = std::min(most + 1, total + size[called]);
      }
      if (total <= most) continue;
      return Fail(
          module.ErrorAt(x, "E-INLINE-001",
                         fmt::format("inlining the calls of '{}' gives more than {} instructions",
                                     computation->name(), most)));
    }
    size[computation] = total;
  }
  return {};
}

}  // namespace gshard
