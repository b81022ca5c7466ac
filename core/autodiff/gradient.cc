#include "core/autodiff/gradient.h"

#include <fmt/format.h>
#include <re2/re2.h>

#include <algorithm>
#include <charconv>
#include <memory>

#include "core/analysis/gradient_results.h"
#include "core/autodiff/preparation.h"
#include "core/autodiff/reverse_scope.h"
#include "core/propagation/shardy_import.h"
#include "ir/metadata.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

Diagnostic UsageDiagnostic(std::string message, std::string hint) {
  return MakeError("E-GRAD-001", std::move(message), std::move(hint));
}

// --- back in order

// Redirects operands to what replaced them, and puts operands before users.
class Orderer {
 public:
  explicit Orderer(GradientState& state) : state_(state) {}

  void Run() {
    for (Computation* computation : state_.module.computations()) Order(computation);
  }

 private:
  void Order(Computation* computation) {
    const std::vector<Instruction*> list(computation->instructions().begin(),
                                         computation->instructions().end());
    for (Instruction* x : list) {
      for (int64_t i = 0; i < x->operand_count(); ++i) {
        x->set_operand(i, state_.Current(x->operand(i)));
      }
      RedirectControl(x);
    }
    Instruction* root = state_.Current(computation->root());
    std::vector<Instruction*> order;
    std::vector<uint8_t> seen(state_.module.instruction_limit(), 0);
    std::vector<std::pair<Instruction*, int64_t>> stack;
    auto visit = [&](Instruction* first) {
      if (seen[first->id()] != 0) return;
      seen[first->id()] = 1;
      stack.emplace_back(first, 0);
      while (!stack.empty()) {
        auto& [x, next] = stack.back();
        const auto control = x->control_predecessors();
        const int64_t count = x->operand_count() + static_cast<int64_t>(control.size());
        if (next == count) {
          order.push_back(x);
          stack.pop_back();
          continue;
        }
        Instruction* before =
            next < x->operand_count() ? x->operand(next) : control[At(next - x->operand_count())];
        ++next;
        if (seen[before->id()] == 0) {
          seen[before->id()] = 1;
          stack.emplace_back(before, 0);
        }
      }
    };
    // Parameters first, the rest where it stood.
    for (Instruction* x : list) {
      if (x->opcode() == Opcode::kParameter) visit(x);
    }
    for (Instruction* x : list) visit(x);
    computation->SetInstructions(std::move(order));
    computation->set_root(root);
  }

  void RedirectControl(Instruction* x) {
    if (x->control_predecessors().empty()) return;
    std::vector<Instruction*> before;
    for (Instruction* p : x->control_predecessors()) before.push_back(state_.Current(p));
    Instruction::Extras extras = *x->extras();
    extras.control_predecessors = state_.module.arena().Copy(before);
    x->set_extras(state_.module.arena().New<Instruction::Extras>(extras));
  }

  GradientState& state_;
};

// --- the entry

class EntryGradient {
 public:
  EntryGradient(Module& module, const GradientOptions& options) : module_(module) {
    if (!options.stop.empty()) {
      RE2::Options quiet;
      quiet.set_log_errors(false);
      stop_ = std::make_unique<RE2>(options.stop, quiet);
    }
  }

  Expected<void> Run(const GradientOptions& options) {
    Expected<std::vector<Instruction*>> parameters = Chosen(options);
    if (!parameters) return Fail(std::move(parameters.error()));
    if (auto checked = CheckLoss(); !checked) return checked;
    if (auto prepared = PrepareForDifferentiation(module_); !prepared) return prepared;
    GradientState state(module_, [this](const Instruction* x) { return IsStopped(x); });
    state.rematerialize = options.rematerialize;
    for (Instruction* parameter : *parameters) {
      state.activity.Mark(parameter, LeafMask(At(parameter->shape()->leaf_count()), true));
    }
    Computation* entry = module_.entry();
    state.activity.Propagate(entry->instructions());
    ReverseScope scope(state, entry);
    Instruction* root = entry->root();
    Builder& b = scope.builder();
    const std::vector<Instruction*> forward(entry->instructions().begin(),
                                            entry->instructions().end());
    if (scope.Wants(root, 0)) scope.Add(root, b.Scalar(LossShape()->dtype(), 1), 0);
    if (auto done = scope.Sweep(forward); !done) return done;
    SetResults(scope, *parameters);
    Orderer(state).Run();
    RemoveDeadCode(module_);
    module_.SetComputations(CallPostOrder(module_));
    return {};
  }

 private:
  bool IsStopped(const Instruction* x) const {
    if (stop_ == nullptr) return false;
    const std::string_view name = x->name();
    if (RE2::PartialMatch({name.data(), name.size()}, *stop_)) return true;
    return !x->metadata().empty() && RE2::PartialMatch(OpNameOf(*x), *stop_);
  }

  const Shape* LossShape() const {
    const Shape* shape = module_.entry()->root()->shape();
    while (shape->IsTuple() && !shape->elements().empty()) shape = shape->element(0);
    return shape;
  }

  Expected<void> CheckLoss() const {
    const Shape* loss = LossShape();
    if (loss->IsScalar() && IsFloat(loss->dtype())) return {};
    Diagnostic error = module_.ErrorAt(
        module_.entry()->root(), "E-GRAD-002",
        fmt::format("the first result is {}, a loss is a floating scalar", ToString(loss, false)));
    error.hint = "gradients are those of the entry's first result";
    return Fail(std::move(error));
  }

  static bool HasDifferentiableLeaf(const Instruction* parameter) {
    return std::ranges::any_of(LeafShapes(parameter->shape()), IsDifferentiable);
  }

  Expected<std::vector<Instruction*>> Chosen(const GradientOptions& options) const {
    std::vector<Instruction*> chosen;
    std::span<Instruction* const> all = module_.entry()->parameters();
    for (const std::string& word : options.with_respect_to) {
      Instruction* parameter = Find(word);
      if (parameter == nullptr) {
        return Fail(
            UsageDiagnostic(fmt::format("--wrt: no parameter is called '{}'", word),
                            fmt::format("p0 to p{} are parameters by number, other words are names",
                                        std::max<size_t>(all.size(), 1) - 1)));
      }
      if (!HasDifferentiableLeaf(parameter)) {
        return Fail(
            UsageDiagnostic(fmt::format("--wrt: parameter '{}' is {}, which has no derivatives",
                                        word, ToString(parameter->shape(), false)),
                            "floating and complex parameters have"));
      }
      chosen.push_back(parameter);
    }
    if (!options.with_respect_to.empty()) return chosen;
    for (Instruction* parameter : all) {
      if (HasDifferentiableLeaf(parameter)) chosen.push_back(parameter);
    }
    return chosen;
  }

  // By number first: pK is parameter K.
  Instruction* Find(std::string_view word) const {
    std::span<Instruction* const> all = module_.entry()->parameters();
    size_t number = 0;
    if (word.size() > 1 && word[0] == 'p') {
      const auto [end, error] = std::from_chars(word.data() + 1, word.data() + word.size(), number);
      if (error == std::errc() && end == word.data() + word.size()) {
        return number < all.size() ? all[number] : nullptr;
      }
    }
    for (Instruction* parameter : all) {
      if (parameter->name() == word) return parameter;
    }
    // A name that other computations have too was given a number when the text was read.
    Instruction* found = nullptr;
    for (Instruction* parameter : all) {
      const std::string_view name = parameter->name();
      const size_t dot = name.rfind('.');
      if (dot != std::string_view::npos && name.substr(0, dot) == word &&
          name.find_first_not_of("0123456789", dot + 1) == std::string_view::npos) {
        if (found != nullptr) return nullptr;
        found = parameter;
      }
    }
    return found;
  }

  void SetResults(ReverseScope& scope, std::span<Instruction* const> parameters) {
    Computation* entry = module_.entry();
    Instruction* root = scope.state().Current(entry->root());
    const bool was_tuple = root->shape()->IsTuple();
    Builder& b = scope.builder();
    b.set_origin(root);
    std::vector<Instruction*> results;
    if (was_tuple) {
      for (size_t i = 0; i < root->shape()->elements().size(); ++i) {
        results.push_back(b.GetTupleElement(root, static_cast<int64_t>(i)));
      }
    } else {
      results.push_back(root);
    }
    const size_t before = results.size();
    for (Instruction* parameter : parameters) {
      b.set_origin(parameter);
      std::vector<Instruction*> leaves;
      const std::vector<const Shape*> shapes = LeafShapes(parameter->shape());
      for (size_t leaf = 0; leaf < shapes.size(); ++leaf) {
        leaves.push_back(scope.AdjointOrZero(parameter, static_cast<int64_t>(leaf)));
      }
      results.push_back(FromLeaves(b, parameter->shape(), leaves));
    }
    b.set_origin(root);
    Instruction* tuple = b.Tuple(results);
    if (root->sharding() != nullptr) SetResultSharding(tuple, root, was_tuple);
    entry->set_root(tuple);
    SetHeader(before, parameters.size(), was_tuple);
    GradientResults gradients;
    for (size_t i = 0; i < parameters.size(); ++i) {
      gradients.emplace_back(static_cast<int64_t>(before + i),
                             parameters[i]->attributes<ParameterAttributes>().number);
    }
    SetGradientResults(module_, gradients);
  }

  // What was annotated stays so, the gradients are free.
  void SetResultSharding(Instruction* tuple, const Instruction* root, bool was_tuple) {
    std::vector<const Sharding*> leaves;
    if (!was_tuple) return;
    if (root->sharding()->IsTuple()) {
      leaves.assign(root->sharding()->elements.begin(), root->sharding()->elements.end());
    } else {
      leaves.assign(At(root->shape()->leaf_count()), root->sharding());
    }
    leaves.resize(At(tuple->shape()->leaf_count()), module_.context().Unknown());
    tuple->set_sharding(module_.context().TupleOf(std::move(leaves)));
  }

  void SetHeader(size_t before, size_t gradients, bool was_tuple) {
    ModuleHeader& header = module_.header();
    header.entry_result_layout = nullptr;
    if (!was_tuple) {
      for (ModuleHeader::Alias& alias : header.input_output_alias) {
        alias.output_index.insert(alias.output_index.begin(), 0);
      }
    }
    std::vector<bool>& output = header.propagation_to_output;
    if (output.size() == 1 && !output[0]) output.resize(before, false);
    if (output.size() > 1 || (output.size() == 1 && !output[0])) {
      output.resize(before + gradients, true);
    }
  }

  Module& module_;
  std::unique_ptr<RE2> stop_;
};

}  // namespace

Expected<void> CheckGradientOptions(const GradientOptions& options) {
  RE2::Options quiet;
  quiet.set_log_errors(false);
  const RE2 pattern(options.stop, quiet);
  if (pattern.ok()) return {};
  return Fail(UsageDiagnostic("--stop: bad regular expression: " + pattern.error(),
                              "for example --stop 'mask|stop_gradient'"));
}

Expected<void> Differentiate(Module& module, const GradientOptions& options) {
  if (auto checked = CheckGradientOptions(options); !checked) return checked;
  // Manual regions in Shardy's form are bodies of calls; their borders have rules.
  if (auto imported = ImportShardyShardings(module); !imported) {
    return Fail(std::move(imported.error()));
  }
  return EntryGradient(module, options).Run(options);
}

}  // namespace gshard
