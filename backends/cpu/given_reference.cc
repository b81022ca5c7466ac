#include "backends/cpu/given_reference.h"

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "backends/cpu/io/inputs.h"
#include "backends/cpu/verify/result_spread.h"
#include "core/analysis/partition_record.h"
#include "core/analysis/partitioned.h"
#include "core/pipeline/pipeline.h"
#include "ir/attribute_equality.h"
#include "ir/compiled_text.h"
#include "ir/dims.h"
#include "ir/op_traits.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"

namespace gshard::cpu {
namespace {

// Shapes of two contexts.
bool SameArray(const Shape* a, const Shape* b) {
  return a->IsArray() && b->IsArray() && a->dtype() == b->dtype() &&
         std::ranges::equal(a->dims(), b->dims());
}

// The same sharding where pointers of another module are not known.
const Sharding* InContext(Context& context, const Sharding* sharding) {
  if (sharding == nullptr) return nullptr;
  const auto parsed =
      ParseSharding(context, ToString(sharding->canonical, {.tiles = true, .metadata = false}));
  return parsed ? *parsed : nullptr;
}

// Of two contexts; null says the same as {replicated}.
bool SameSpread(const Sharding* a, const Sharding* b) {
  const auto text = [](const Sharding* s) {
    return s == nullptr || s->IsReplicated()
               ? std::string()
               : ToString(s->canonical, {.tiles = true, .metadata = false});
  };
  return text(a) == text(b);
}

bool SameArrays(const Shape* a, const Shape* b) {
  return std::ranges::equal(LeafShapes(a), LeafShapes(b), [](const Shape* x, const Shape* y) {
    return x->IsArray() ? SameArray(x, y) : !y->IsArray();
  });
}

using InstructionsByName = std::unordered_map<std::string_view, const Instruction*>;
InstructionsByName ByName(const Module& module) {
  InstructionsByName by_name;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) by_name.emplace(x->name(), x);
  }
  return by_name;
}

// The shardings that `x`, a parameter or a result of the reference, is to have by leaf in the
// program; those of its own where the program leaves it whole and it says nothing.
bool TakeLeaves(Instruction& x, std::span<const Sharding* const> wanted) {
  Context& context = x.parent()->module().context();
  std::vector<const Sharding*> shardings;
  bool differs = false;
  const std::vector<const Sharding*> own = x.sharding() == nullptr
                                               ? std::vector<const Sharding*>(wanted.size())
                                               : LeafShardings(x.shape(), x.sharding());
  for (size_t k = 0; k < wanted.size(); ++k) {
    differs = differs || !SameSpread(own[k], wanted[k]);
    const Sharding* taken = InContext(context, wanted[k]);
    shardings.push_back(taken == nullptr ? context.Replicated() : taken);
  }
  if (differs) x.set_sharding(x.shape()->IsTuple() ? context.TupleOf(shardings) : shardings[0]);
  return differs;
}

// Instructions of a computation of the partitioned reference, and of what it calls, with those of
// the program that compute the same, whatever their names: the same operations on the same values,
// if parameters are the same.
class SameValues {
 public:
  SameValues(const Computation& program, const Computation& reference) : reference_(reference) {
    for (const Instruction* y : program.instructions()) {
      candidates_[y->operands().empty() ? nullptr : y->operands()[0]].push_back(y);
    }
    for (const Instruction* x : reference.instructions()) FindPartner(*x);
  }

  const Instruction* Partner(const Instruction* x) const {
    const auto found = partners_.find(x);
    return found == partners_.end() ? nullptr : found->second;
  }

  // Has an instruction another name than its partner, though the program has that name as well? In
  // loops and branches that do not agree as a whole, too.
  bool AreRenamed(const InstructionsByName& program) const {
    const auto is_renamed = [&](const auto& pair) {
      return pair.first->name() != pair.second->name() && program.contains(pair.first->name());
    };
    const auto is_renamed_within = [&](const Instruction* x) {
      if (!IsControlFlow(x->opcode()) || partners_.contains(x)) return false;
      const auto found = program.find(x->name());
      if (found == program.end()) return false;
      const std::span<Computation* const> called = found->second->called();
      for (size_t i = 0; i < std::min(called.size(), x->called().size()); ++i) {
        if (SameValues(*called[i], *x->called()[i]).AreRenamed(program)) return true;
      }
      return false;
    };
    return std::ranges::any_of(partners_, is_renamed) ||
           std::ranges::any_of(reference_.instructions(), is_renamed_within);
  }

 private:
  using Partners = std::unordered_map<const Instruction*, const Instruction*>;

  void FindPartner(const Instruction& x) {
    const Instruction* first = x.operands().empty() ? nullptr : Partner(x.operands()[0]);
    if (first == nullptr && !x.operands().empty()) return;
    const Instruction* best = nullptr;
    for (const Instruction* y : candidates_[first]) {
      const bool is_better = best == nullptr || y->name() == x.name();
      if (is_better && Agree(x, *y, partners_)) best = y;
    }
    if (best != nullptr) Pair(x, *best, partners_);
  }

  static bool Agree(const Instruction& a, const Instruction& b, const Partners& partners) {
    if (!SameAttributes(a, b) || !SameArrays(a.shape(), b.shape())) return false;
    if (a.opcode() == Opcode::kParameter && !SameSpread(a.sharding(), b.sharding())) return false;
    const auto are_partners = [&](const Instruction* x, const Instruction* y) {
      const auto found = partners.find(x);
      return found != partners.end() && found->second == y;
    };
    Partners inner;
    return std::ranges::equal(a.operands(), b.operands(), are_partners) && PairCalled(a, b, inner);
  }

  static void Pair(const Instruction& a, const Instruction& b, Partners& partners) {
    PairCalled(a, b, partners);
    partners.emplace(&a, &b);
  }

  // The computations that they call agree as a whole or not at all: a loop's values depend on all
  // of its body.
  static bool PairCalled(const Instruction& a, const Instruction& b, Partners& partners) {
    const auto agree = [&](const Instruction* x, const Instruction* y) {
      if (partners.contains(x)) return true;
      if (!Agree(*x, *y, partners)) return false;
      Pair(*x, *y, partners);
      return true;
    };
    return std::ranges::equal(a.called(), b.called(), [&](const auto* x, const auto* y) {
      return std::ranges::equal(x->instructions(), y->instructions(), agree);
    });
  }

  const Computation& reference_;
  std::unordered_map<const Instruction*, std::vector<const Instruction*>> candidates_;
  Partners partners_;
};

bool HaveNamesOf(const InstructionsByName& program, const Module& reference) {
  return std::ranges::all_of(reference.computations(), [&](const Computation* computation) {
    return std::ranges::all_of(computation->instructions(),
                               [&](const Instruction* x) { return program.contains(x->name()); });
  });
}

// Is an instruction of the program what one of the partitioned reference is, down to what both name
// after the whole graph? Names that partitioning made up tell nothing: it counts them.
class MadeFromNamed {
 public:
  explicit MadeFromNamed(std::span<const LocalForm> forms) {
    for (const LocalForm& form : forms) named_.insert(form.name);
  }

  bool operator()(const Instruction& program, const Instruction& reference) {
    const auto [known, is_new] = known_.try_emplace(&reference, false);
    if (!is_new) return known->second;
    const auto is_same = [&](const Instruction* y, const Instruction* x) {
      return y->name() == x->name() && (named_.contains(x->name()) || (*this)(*y, *x));
    };
    const bool is_made_alike =
        program.opcode() == reference.opcode() &&
        std::ranges::equal(program.operands(), reference.operands(), is_same);
    return known_[&reference] = is_made_alike;
  }

 private:
  std::unordered_set<std::string_view> named_;
  std::unordered_map<const Instruction*, bool> known_;  // of the reference
};

}  // namespace

std::vector<LocalForm> FormsByName(const Module& program, std::vector<LocalForm> forms) {
  // Passes of stages compute a micro-batch's values, and partitioning gives new names to much of
  // them.
  if (IsCompiledByXla(program) || IsCompiled(program) || IsPipelined(program)) return {};
  if (forms.empty()) return forms;
  const auto by_name = ByName(program);
  const bool has_all_names = HaveNamesOf(by_name, forms.front().local->parent()->module());
  MadeFromNamed is_made_alike(forms);
  std::erase_if(forms, [&](LocalForm& form) {
    const auto found = by_name.find(form.local->name());
    if (found == by_name.end() || !SameArray(found->second->shape(), form.local->shape())) {
      return true;
    }
    const bool is_made_up = form.local->name() != form.name;
    if (is_made_up && !has_all_names && !is_made_alike(*found->second, *form.local)) return true;
    form.local = found->second;
    return false;
  });
  return forms;
}

bool TakeShardings(Module& reference, const Module& program, TakenShardings which) {
  if (which == TakenShardings::kNone || !HasPartitionRecord(program)) return false;
  const auto whole = RecordedWholeShapes(program);
  const auto results = RecordedOutputShardings(program);
  if (!whole || !results) return false;
  std::vector<const Shape*> shapes;
  for (const Instruction* x : reference.entry()->parameters()) AppendLeafShapes(x->shape(), shapes);
  Instruction* root = reference.entry()->root();
  if (!std::ranges::equal(whole->parameters, shapes, SameArrays) ||
      !std::ranges::equal(whole->results, LeafShapes(root->shape()), SameArrays)) {
    return false;
  }
  bool any = false;
  const std::vector<ParameterLeaf> leaves = ParameterLeaves(*program.entry());
  size_t k = 0;
  for (Instruction* x : reference.entry()->parameters()) {
    std::vector<const Sharding*> wanted;
    for (int64_t i = 0; i < x->shape()->leaf_count(); ++i) wanted.push_back(leaves[k++].sharding);
    any = TakeLeaves(*x, wanted) || any;
  }
  if (which == TakenShardings::kParametersAndResults) any = TakeLeaves(*root, *results) || any;
  return any;
}

bool HasNamesOf(const Module& program, const Module& reference) {
  return HaveNamesOf(ByName(program), reference);
}

bool IsNamedAlike(const Module& program, const Module& reference) {
  const auto of_program = RecordedOutputShardings(program);
  const auto of_reference = RecordedOutputShardings(reference);
  if (!of_program || !of_reference || !std::ranges::equal(*of_program, *of_reference, SameSpread) ||
      !std::ranges::equal(ParameterLeaves(*program.entry()), ParameterLeaves(*reference.entry()),
                          SameSpread, &ParameterLeaf::sharding, &ParameterLeaf::sharding)) {
    return false;
  }
  const auto by_name = ByName(program);
  for (const auto& [name, x] : ByName(reference)) {
    const auto found = by_name.find(name);
    if (found != by_name.end() && !SameArrays(x->shape(), found->second->shape())) return false;
  }
  return !SameValues(*program.entry(), *reference.entry()).AreRenamed(by_name);
}

std::vector<LocalForm> FormsMadeAlike(const Module& program, const Module& reference,
                                      std::vector<LocalForm> forms) {
  const SameValues same(*program.entry(), *reference.entry());
  std::erase_if(forms, [&](LocalForm& form) {
    form.local = same.Partner(form.local);
    return form.local == nullptr;
  });
  return forms;
}

std::vector<int64_t> TakeParameterShardings(Module& program, const Module& reference,
                                            std::span<const Shape* const> whole) {
  std::vector<int64_t> taken;
  if (HasPartitionRecord(program)) return taken;
  const std::vector<ParameterLeaf> leaves = ParameterLeaves(*program.entry());
  const std::vector<ParameterLeaf> of_reference = ParameterLeaves(*reference.entry());
  if (leaves.size() != of_reference.size() || leaves.size() != whole.size()) return taken;
  Context& context = program.context();
  size_t k = 0;
  for (Instruction* parameter : program.entry()->parameters()) {
    const size_t end = k + static_cast<size_t>(parameter->shape()->leaf_count());
    if (parameter->sharding() != nullptr) k = end;
    std::vector<const Sharding*> shardings;
    bool all_fit = true, any_cut = false;
    for (; k < end; ++k) {
      const Sharding* s = InContext(context, of_reference[k].sharding);
      // What the reference leaves open the compiler may have left whole.
      if (s == nullptr || !IsShardOf(leaves[k].shape, s, whole[k])) s = context.Replicated();
      all_fit = all_fit && IsShardOf(leaves[k].shape, s, whole[k]);
      any_cut = any_cut || !s->IsReplicated();
      shardings.push_back(s);
    }
    if (!all_fit || shardings.empty()) continue;
    // Of one that is whole, all devices have the reference's value.
    parameter->set_sharding(parameter->shape()->IsTuple() ? context.TupleOf(shardings)
                                                          : shardings[0]);
    if (any_cut) taken.push_back(parameter->attributes<ParameterAttributes>().number);
  }
  return taken;
}

Expected<std::vector<const Sharding*>> ResultShardings(const Module& program,
                                                       const Module& reference) {
  auto shardings = RecordedOutputShardings(reference);
  if (!shardings) return shardings;
  for (const Sharding*& s : *shardings) s = InContext(program.context(), s);
  return shardings;
}

Expected<void> CheckParameters(const Module& program, std::span<const Shape* const> whole) {
  const std::vector<ParameterLeaf> leaves = ParameterLeaves(*program.entry());
  if (leaves.size() != whole.size()) {
    return Fail(MakeError("E-RUN-VERIFY", fmt::format("the reference has {} parameters, this "
                                                      "program {}",
                                                      whole.size(), leaves.size())));
  }
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (IsShardOf(leaves[k].shape, leaves[k].sharding, whole[k])) continue;
    Diagnostic error =
        MakeError("E-RUN-VERIFY", fmt::format("parameter {} is no shard of the reference's", k));
    if (leaves[k].sharding == nullptr) {
      error.hint = fmt::format(
          "the text does not say how {} is spread (compiled text of JAX 0.12 does not), and the "
          "reference's does not make {} of {}: give the reference's parameter its sharding "
          "(gshard-opt annotate)",
          leaves[k].name, ToString(leaves[k].shape, false), ToString(whole[k], false));
    }
    return Fail(std::move(error));
  }
  return {};
}

Expected<void> CheckResults(const MeshRun& run, const Module& program, size_t count,
                            std::span<const OutputArray> expected,
                            std::span<const Sharding* const> reference) {
  bool equal = count == expected.size();
  for (size_t k = 0; equal && k < expected.size(); ++k) {
    equal = run.AssemblesTo(k, expected[k].dims) ||
            (run.IsStacked(k) &&
             !SpreadsThatFit(program, run.grid().partitions, run.LocalDims(k), expected[k].dims,
                             k < reference.size() ? reference[k] : nullptr)
                  .empty());
  }
  if (equal) return {};
  return Fail(MakeError("E-RUN-VERIFY",
                        "the results do not have the reference's shapes when put together",
                        "--output-shardings says how they are spread"));
}

}  // namespace gshard::cpu
