#include "ir/verify/verifier.h"

#include <tsl/robin_map.h>
#include <tsl/robin_set.h>

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "ir/compiled_text.h"
#include "ir/device_subsets.h"
#include "ir/op_traits.h"
#include "ir/ops/shape_rules.h"
#include "ir/shape_inference.h"
#include "ir/sharding_algebra.h"
#include "ir/verify/checks.h"

namespace gshard {

namespace {

// Passes follow calls by recursion. Programs are nested tens deep.
constexpr int kMaxCallDepth = 500;

class Verifier {
 public:
  Verifier(const Module& module, const VerifyOptions& options)
      : module_(module),
        options_(options),
        device_count_(options.shardings ? module.DeviceCount() : 0),
        device_subsets_(options.shardings && HasDeviceSubsets(module)),
        defined_(module.instruction_limit(), 0) {}

  Expected<void> Run() {
    if (module_.entry() == nullptr) {
      return At(SourceRange{}, "E-VERIFY-001", "the module has no entry computation");
    }
    for (const Computation* computation : module_.computations()) {
      if (Expected<void> ok = CheckComputation(*computation); !ok) return ok;
      known_.emplace(computation, depth_);
    }
    if (!known_.count(module_.entry())) {
      return At(module_.entry()->source(), "E-VERIFY-001",
                "the entry computation is not among the module's computations");
    }
    if (auto problem = CheckHeader(module_)) {
      return At(module_.entry()->source(), "E-VERIFY-009", *std::move(problem));
    }
    if (auto problem = CheckFrontendAttributesText(module_.header().frontend_attributes)) {
      return At(SourceRange{}, "E-VERIFY-010", *std::move(problem));
    }
    return {};
  }

  Expected<void> CheckShardings() const {
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* instruction : computation->instructions()) {
        if (Expected<void> ok = CheckSharding(instruction); !ok) return ok;
      }
    }
    return {};
  }

 private:
  tl::unexpected<Diagnostic> At(SourceRange range, std::string code, std::string message) const {
    return Fail(module_.ErrorAt(range, std::move(code), std::move(message)));
  }
  tl::unexpected<Diagnostic> At(const Instruction* instruction, std::string code,
                                std::string message) const {
    return Fail(module_.ErrorAt(instruction, std::move(code), std::move(message)));
  }
  static std::string Named(std::string_view what, std::string_view name, std::string_view problem) {
    std::string text(what);
    text += ' ';
    text += name;
    text += ' ';
    text += problem;
    return text;
  }

  Expected<void> CheckComputation(const Computation& computation) {
    if (known_.count(&computation)) {
      return At(computation.source(), "E-VERIFY-001",
                Named("computation", computation.name(), "is listed twice"));
    }
    if (computation.root() == nullptr) {
      return At(computation.source(), "E-VERIFY-001",
                Named("computation", computation.name(), "has no root"));
    }
    depth_ = 0;
    for (const Instruction* instruction : computation.instructions()) {
      if (Expected<void> ok = CheckInstruction(computation, instruction); !ok) return ok;
      defined_[instruction->id()] = 1;
    }
    if (!IsDefinedIn(computation, computation.root())) {
      return At(computation.source(), "E-VERIFY-001",
                Named("the root of computation", computation.name(), "is not in it"));
    }
    for (int64_t k = 0; k < computation.parameter_count(); ++k) {
      if (computation.parameter(k) == nullptr) {
        return At(computation.source(), "E-VERIFY-001",
                  Named("computation", computation.name(),
                        "has no parameter(" + std::to_string(k) + "), but a higher one"));
      }
    }
    return {};
  }

  bool IsDefinedIn(const Computation& computation, const Instruction* instruction) const {
    return instruction->parent() == &computation && instruction->id() < defined_.size() &&
           defined_[instruction->id()] != 0;
  }

  Expected<void> CheckInstruction(const Computation& computation, const Instruction* instruction) {
    if (instruction->parent() != &computation || instruction->id() >= defined_.size() ||
        defined_[instruction->id()] != 0) {
      return At(instruction, "E-VERIFY-001",
                Named("instruction", instruction->name(), "is listed twice or elsewhere too"));
    }
    if (Expected<void> ok = CheckOperands(computation, instruction); !ok) return ok;
    if (!instruction->called().empty()) {
      if (Expected<void> ok = CheckCalls(instruction); !ok) return ok;
    }
    if (Expected<void> ok = CheckShape(instruction); !ok) return ok;
    if (Expected<void> ok = CheckByOpcode(computation, instruction); !ok) return ok;
    if (Expected<void> ok = CheckSharding(instruction); !ok) return ok;
    return CheckTexts(instruction);
  }

  Expected<void> CheckSharding(const Instruction* instruction) const {
    if (instruction->sharding() == nullptr || !options_.shardings) return {};
    std::string problem = WhyNotApplicable(*instruction, device_count_, device_subsets_);
    if (!problem.empty()) return ImpossibleSharding(instruction, std::move(problem));
    return {};
  }

  // A wrong device count contradicts another place, which is told too.
  tl::unexpected<Diagnostic> ImpossibleSharding(const Instruction* instruction,
                                                std::string problem) const {
    Diagnostic error = module_.ErrorAt(instruction, "E-VERIFY-008", std::move(problem));
    if (WhyNotApplicable(*instruction, 0).empty()) {
      error.notes.push_back(module_.WhyDeviceCount());
    }
    return Fail(std::move(error));
  }

  Expected<void> CheckOperands(const Computation& computation, const Instruction* instruction) {
    for (const Instruction* operand : instruction->operands()) {
      if (operand == nullptr || operand->shape() == nullptr) {
        return At(instruction, "E-VERIFY-002",
                  Named("instruction", instruction->name(), "has an operand without a value"));
      }
      if (IsDefinedIn(computation, operand)) continue;
      return At(instruction, "E-VERIFY-002",
                Named("operand", operand->name(),
                      operand->parent() == &computation ? "is used before it is defined"
                                                        : "belongs to another computation"));
    }
    if (instruction->extras() == nullptr) return {};
    for (const Instruction* before : instruction->control_predecessors()) {
      if (before != nullptr && IsDefinedIn(computation, before)) continue;
      return At(instruction, "E-VERIFY-002",
                before == nullptr
                    ? std::string("a control predecessor is missing")
                    : Named("control predecessor", before->name(),
                            before->parent() == &computation ? "must stand before its successor"
                                                             : "belongs to another computation"));
    }
    return {};
  }

  // Callees stand before callers, so no call graph of a verified module has a cycle.
  Expected<void> CheckCalls(const Instruction* instruction) {
    for (const Computation* called : instruction->called()) {
      if (called == nullptr) {
        return At(instruction, "E-VERIFY-005", "a called computation is missing");
      }
      if (called == module_.entry()) {
        return At(instruction, "E-VERIFY-005",
                  Named("the entry computation", called->name(), "cannot be called"));
      }
      if (!known_.count(called)) {
        return At(instruction, "E-VERIFY-005",
                  Named("computation", called->name(),
                        called == instruction->parent()
                            ? "calls itself; recursion is not allowed"
                            : "must stand before the instruction that calls it; recursion is not "
                              "allowed"));
      }
      depth_ = std::max(depth_, known_.at(called) + 1);
      if (depth_ > kMaxCallDepth) {
        return At(instruction, "E-VERIFY-005",
                  "calls nest more than " + std::to_string(kMaxCallDepth) + " deep here");
      }
    }
    return {};
  }

  Expected<void> CheckShape(const Instruction* instruction) {
    const Shape* declared = instruction->shape();
    if (declared == nullptr) {
      return At(instruction, "E-VERIFY-004",
                Named("instruction", instruction->name(), "has no shape"));
    }
    operand_shapes_.clear();
    for (const Instruction* operand : instruction->operands()) {
      operand_shapes_.push_back(operand->shape());
    }
    if (RoundsReshape(*instruction)) {
      operand_shapes_[0] = module_.context().WithDType(operand_shapes_[0], declared->dtype());
    }
    if (OrdersArrays(*instruction)) {
      std::ranges::fill(operand_shapes_, module_.context().Token());
    }
    tl::expected<const Shape*, std::string> inferred = InferShape(
        module_.context(), {instruction->opcode(), operand_shapes_, instruction->raw_attributes(),
                            instruction->called(), declared});
    if (!inferred) return At(instruction, "E-VERIFY-003", std::move(inferred).error());
    if (declared->bare() != (*inferred)->bare() && !SameUpToDynamic(declared, *inferred) &&
        !RoundsResult(*instruction, *inferred)) {
      std::string message = "the shape of this ";
      message += OpcodeName(instruction->opcode());
      message += " must be " + ToString(*inferred, false) + ", found " + ToString(declared, false);
      return At(instruction, "E-VERIFY-004", std::move(message));
    }
    return {};
  }

  // Asked only where types differ.
  bool IsCompilersText() {
    if (!is_compiled_) is_compiled_ = IsCompiled(module_);
    return *is_compiled_;
  }

  // Compilers for accelerators write f32 results as bf16, and the other way round, without a
  // convert of its own: in their own text only.
  bool RoundsResult(const Instruction& x, const Shape* inferred) {
    const bool may_round = IsElementwise(x.opcode()) || MovesElements(x.opcode()) ||
                           x.opcode() == Opcode::kAllReduce || x.opcode() == Opcode::kReduce ||
                           x.opcode() == Opcode::kReduceWindow ||
                           x.opcode() == Opcode::kSelectAndScatter;
    if (!may_round) return false;
    const std::vector<const Shape*> declared = LeafShapes(x.shape());
    const std::vector<const Shape*> expected = LeafShapes(inferred);
    const auto is_rounded = [](const Shape* a, const Shape* b) {
      if (!a->IsArray() || !b->IsArray() || !DimsAgree(a, b)) return false;
      return a->dtype() == b->dtype() || (IsFloat(a->dtype()) && IsFloat(b->dtype()));
    };
    return std::ranges::equal(declared, expected, is_rounded) && IsCompilersText();
  }

  // So is a reshape of theirs that copies.
  bool RoundsReshape(const Instruction& x) {
    if (x.opcode() != Opcode::kReshape || x.operand_count() != 1) return false;
    const Shape *from = x.operand(0)->shape(), *to = x.shape();
    return from->IsArray() && to->IsArray() && from->dtype() != to->dtype() &&
           IsFloat(from->dtype()) && IsFloat(to->dtype()) && IsCompilersText();
  }

  // Their after-all may wait for arrays, which are no tokens.
  bool OrdersArrays(const Instruction& x) {
    if (x.opcode() != Opcode::kAfterAll) return false;
    const auto is_token = [](const Shape* shape) { return shape->IsToken(); };
    return !std::ranges::all_of(operand_shapes_, is_token) && IsCompilersText();
  }

  Expected<void> CheckByOpcode(const Computation& computation, const Instruction* instruction) {
    switch (instruction->opcode()) {
      case Opcode::kParameter: {
        const auto& parameter = instruction->attributes<ParameterAttributes>();
        if (parameter.number >= computation.parameter_count() ||
            computation.parameter(parameter.number) != instruction) {
          return At(instruction, "E-VERIFY-001",
                    "parameter(" + std::to_string(parameter.number) + ") is defined twice");
        }
        return CheckReplication(instruction, parameter.replication);
      }
      case Opcode::kFusion:
        return CheckAliasingText(
            instruction, instruction->attributes<FusionAttributes>().output_to_operand_aliasing);
      case Opcode::kAsyncStart:
        return CheckAsyncStart(instruction);
      case Opcode::kCustomCall:
        return CheckAliasingText(
            instruction,
            instruction->attributes<CustomCallAttributes>().output_to_operand_aliasing);
      case Opcode::kAsyncUpdate:
      case Opcode::kAsyncDone:
      case Opcode::kCopyDone:
      case Opcode::kAllReduceDone:
      case Opcode::kAllGatherDone:
      case Opcode::kCollectivePermuteDone:
      case Opcode::kSend:
      case Opcode::kRecv:
      case Opcode::kSendDone:
      case Opcode::kRecvDone:
        if (auto problem = CheckAsyncPair(*instruction)) {
          return At(instruction, "E-VERIFY-007", *std::move(problem));
        }
        return {};
      default:
        if (IsCollective(instruction->opcode())) {
          if (auto problem = CheckCollective(module_, *instruction)) {
            return At(instruction, "E-VERIFY-006", *std::move(problem));
          }
        }
        return {};
    }
  }

  // Each start runs a computation of its own, on the thread it names.
  Expected<void> CheckAsyncStart(const Instruction* instruction) {
    const auto& async = instruction->attributes<AsyncAttributes>();
    const Computation* wrapped = instruction->called(0);
    if (!started_.insert(wrapped).second) {
      return At(instruction, "E-VERIFY-007",
                Named("computation", wrapped->name(), "is started by another async-start already"));
    }
    if (!async.execution_thread.empty() && async.execution_thread != wrapped->execution_thread()) {
      return At(instruction, "E-VERIFY-007",
                Named("async_execution_thread must be that of computation", wrapped->name(),
                      std::string("(\"") + std::string(wrapped->execution_thread()) +
                          "\"), found \"" + std::string(async.execution_thread) + "\""));
    }
    return CheckAliasingText(instruction, async.output_to_operand_aliasing);
  }

  Expected<void> CheckAliasingText(const Instruction* instruction, std::string_view text) {
    if (text.empty()) return {};
    if (auto problem = CheckAliasing(*instruction, text)) {
      return At(instruction, "E-VERIFY-003", *std::move(problem));
    }
    return {};
  }

  // parameter_replication={true,false}: one per leaf.
  Expected<void> CheckReplication(const Instruction* instruction, std::string_view text) {
    if (text.empty()) return {};
    const int64_t flags = text.find_first_not_of("{} ") == std::string_view::npos
                              ? 0
                              : 1 + std::count(text.begin(), text.end(), ',');
    const int64_t leaves = instruction->shape()->leaf_count();
    if (flags == leaves) return {};
    return At(instruction, "E-VERIFY-003",
              "parameter_replication must have one flag per leaf of the shape: expected " +
                  std::to_string(leaves) + ", found " + std::to_string(flags));
  }

  Expected<void> CheckTexts(const Instruction* instruction) {
    // Instructions made by passes share the text of their origin.
    const std::string_view metadata = instruction->metadata();
    if (!metadata.empty() && metadata.data() != checked_metadata_) {
      if (auto problem = CheckMetadataText(metadata)) {
        return At(instruction, "E-VERIFY-010", *std::move(problem));
      }
      checked_metadata_ = metadata.data();
    }
    const std::string_view frontend = instruction->frontend_attributes();
    if (!frontend.empty() && frontend.data() != checked_frontend_) {
      if (auto problem = CheckFrontendAttributesText(frontend)) {
        return At(instruction, "E-VERIFY-010", *std::move(problem));
      }
      checked_frontend_ = frontend.data();
    }
    return {};
  }

  const Module& module_;
  const VerifyOptions& options_;
  const int64_t device_count_;
  const bool device_subsets_;
  std::vector<uint8_t> defined_;                   // by instruction id: stands above
  tsl::robin_map<const Computation*, int> known_;  // stand above; how deep their calls nest
  int depth_ = 0;                                  // of the computation being checked
  tsl::robin_set<const Computation*> started_;     // by an async-start
  std::vector<const Shape*> operand_shapes_;
  const char* checked_metadata_ = nullptr;
  const char* checked_frontend_ = nullptr;
  std::optional<bool> is_compiled_;  // nothing: not yet asked for
};

}  // namespace

Expected<void> VerifyModule(const Module& module, const VerifyOptions& options) {
  return Verifier(module, options).Run();
}

Expected<void> VerifyShardings(const Module& module) {
  return Verifier(module, {}).CheckShardings();
}

}  // namespace gshard
