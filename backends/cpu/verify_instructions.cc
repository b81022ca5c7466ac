// Batches of kept values, scales of errors, the way of an error through the graph.
#include "backends/cpu/verify_instructions.h"

#include <algorithm>
#include <cmath>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "backends/cpu/element_error.h"
#include "backends/cpu/taint.h"
#include "core/analysis/trip_count.h"
#include "ir/computation.h"

namespace gshard::cpu {
namespace {

constexpr double kSmallest = 1e-30;  // allowed where all values are zero
constexpr size_t kMaxGrowth = 16;    // steps reported

// How the scale of a result follows from those of its operands.
enum class ScaleRule : uint8_t { kSum, kReduction, kProduct, kContraction };

ScaleRule ScaleRuleOf(Opcode opcode) {
  switch (opcode) {
    case Opcode::kDot:
    case Opcode::kRaggedDot:
    case Opcode::kScaledDot:
    case Opcode::kConvolution:
      return ScaleRule::kContraction;
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
    case Opcode::kScatter:
    case Opcode::kScan:
      return ScaleRule::kReduction;
    case Opcode::kMultiply:
    case Opcode::kDivide:
    case Opcode::kPower:
    case Opcode::kExponential:
    case Opcode::kLog:
    case Opcode::kSqrt:
    case Opcode::kRsqrt:
    case Opcode::kCbrt:
    case Opcode::kBatchNormTraining:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormGrad:
    case Opcode::kCustomCall:
      return ScaleRule::kProduct;
    default:
      return ScaleRule::kSum;
  }
}

// The same on every device whatever the sharding.
bool IsPlain(const Instruction& x) {
  return x.opcode() == Opcode::kConstant ||
         (x.opcode() == Opcode::kBroadcast && x.operand(0)->shape()->IsScalar());
}

class InstructionVerifier {
 public:
  InstructionVerifier(const Module& whole, const Module& partitioned,
                      std::span<const LocalForm> forms, const Inputs& inputs,
                      const InstructionsOptions& options)
      : whole_(whole),
        partitioned_(partitioned),
        inputs_(inputs),
        options_(options),
        random_(whole, IsRandomSource),
        discrete_(whole, IsDiscreteChoice),
        states_(whole.instruction_limit()) {
    for (const LocalForm& form : forms) forms_.emplace(form.name, &form);
    for (const Computation* computation : whole.computations()) {
      for (const Instruction* x : computation->instructions()) {
        for (const Computation* called : x->called()) ++calls_[called];
      }
    }
    Collect(*whole.entry());
  }

  Expected<InstructionsResult> Run() {
    size_t at = 0;
    while (at < candidates_.size() && !result_.first) {
      if (options_.progress) {
        options_.progress(static_cast<double>(at) / static_cast<double>(candidates_.size()));
      }
      size_t end = at;
      int64_t bytes = 0;
      // Whole and in shards.
      while (end < candidates_.size()) {
        bytes += 2 * BufferBytes(candidates_[end].x->shape());
        if (end > at && bytes > options_.budget_bytes) break;
        ++end;
      }
      if (Expected<void> done = RunBatch(at, end); !done) return Fail(done.error());
      at = end;
    }
    const Instruction* from = first_ != nullptr ? first_ : worst_;
    if (from != nullptr) FollowBack(from);
    return std::move(result_);
  }

 private:
  struct Candidate {
    const Instruction* x = nullptr;
    const LocalForm* form = nullptr;
  };
  // By instruction id of the whole graph.
  struct State {
    bool compared = false;
    double magnitude = 0;
    double scale = 0;  // >= magnitude
    double rel_error = 0;
    double ulps = 0;
  };

  State& StateOf(const Instruction& x) { return states_[x.id()]; }

  // In the order of execution.
  void Collect(const Computation& computation) {
    for (const Instruction* x : computation.instructions()) {
      switch (x->opcode()) {
        case Opcode::kWhile:
          if (TripCount(*x).value_or(0) > 0 && calls_[x->called(1)] == 1) Collect(*x->called(1));
          break;
        case Opcode::kCall:
        case Opcode::kFusion:
        case Opcode::kAsyncStart:
          if (calls_[x->called(0)] == 1) Collect(*x->called(0));
          break;
        default:
          break;
      }
      if (!x->shape()->IsArray() || x->shape()->element_count() == 0) continue;
      if (IsPlain(*x)) continue;
      const auto form = forms_.find(x->name());
      if (form == forms_.end() || x->shape()->dtype() != form->second->local->shape()->dtype() ||
          x->shape()->rank() != form->second->local->shape()->rank()) {
        continue;
      }
      if (random_.Of(*x)) {
        ++result_.skipped;
        continue;
      }
      candidates_.push_back({x, form->second});
    }
  }

  // Runs both graphs and compares the candidates. Halves that fit are run where memory is refused.
  Expected<void> RunBatch(size_t begin, size_t end) {
    std::vector<OutputArray> expected;
    Expected<void> done = RunWhole(begin, end, expected);
    if (done) done = RunMesh(begin, end, expected);
    if (done || done.error().code != "E-RUN-MEMORY") return done;
    if (end - begin == 1) {
      ++result_.skipped;
      return {};
    }
    const size_t middle = begin + (end - begin) / 2;
    done = RunBatch(begin, middle);
    return done && !result_.first ? RunBatch(middle, end) : done;
  }

  Expected<void> RunWhole(size_t begin, size_t end, std::vector<OutputArray>& expected) {
    MeshRunOptions options = options_.mesh;
    options.grid = {};
    options.global_parameters.clear();
    options.global_results.clear();
    options.keep.clear();
    for (size_t i = begin; i < end; ++i) options.keep.emplace_back(candidates_[i].x->name());
    auto run = RunOnce(whole_, options);
    if (!run) return Fail(run.error());
    for (size_t i = begin; i < end; ++i) {
      expected.push_back((*run)->Kept((*run)->KeptLeaves(i - begin).front(), 0));
    }
    return {};
  }

  Expected<void> RunMesh(size_t begin, size_t end, const std::vector<OutputArray>& expected) {
    MeshRunOptions options = options_.mesh;
    options.keep.clear();
    for (size_t i = begin; i < end; ++i) {
      options.keep.emplace_back(candidates_[i].form->local->name());
    }
    auto run = RunOnce(partitioned_, options);
    if (!run) return Fail(run.error());
    for (size_t i = begin; i < end; ++i) {
      const size_t leaf = (*run)->KeptLeaves(i - begin).front();
      CompareOne(*candidates_[i].x, (*run)->KeptInstances(leaf, candidates_[i].form->sharding),
                 expected[i - begin]);
    }
    return {};
  }

  Expected<std::unique_ptr<MeshRun>> RunOnce(const Module& module, const MeshRunOptions& options) {
    auto run = MeshRun::Prepare(module, inputs_, options);
    if (!run) return run;
    if (Expected<void> done = (*run)->Start(); !done) return Fail(done.error());
    if (Expected<void> done = (*run)->Run(options_.run); !done) return Fail(done.error());
    return run;
  }

  void CompareOne(const Instruction& x, std::span<const MeshRun::Instance> instances,
                  const OutputArray& want) {
    State& state = StateOf(x);
    state.compared = true;
    state.magnitude = LargestMagnitude(want.dtype, want.data);
    state.scale = ScaleOf(x);
    const double allowed = ToleranceOf(want.dtype) * state.scale + kSmallest;
    ArrayError error = CompareInstances(instances, want, allowed);
    ++result_.compared;
    // Near ties that flip change few elements, and how much says nothing.
    if (discrete_.Of(x) &&
        static_cast<double>(error.beyond) <= kDiscreteShare * static_cast<double>(error.elements)) {
      return;
    }
    state.rel_error = state.magnitude > 0 ? error.largest / state.magnitude : error.largest;
    state.ulps = error.mismatch.ulps;
    if (state.rel_error > result_.max_rel_error) {
      result_.max_rel_error = state.rel_error;
      result_.worst = x.name();
      worst_ = &x;
    }
    if (error.beyond == 0 || first_ != nullptr) return;
    first_ = &x;
    result_.first = std::move(error.mismatch);
    result_.first->name = x.name();
  }

  // The magnitude that errors of x are relative to: what terms had before they cancelled.
  double ScaleOf(const Instruction& x) {
    const double magnitude = StateOf(x).magnitude;
    double largest = 0, product = 1, ratio = 1;
    for (const Instruction* operand : x.operands()) {
      const double scale = OperandScale(*operand);
      largest = std::max(largest, scale);
      product *= scale;
      const State& state = StateOf(*operand);
      if (state.magnitude > 0) ratio = std::max(ratio, scale / state.magnitude);
    }
    double scale = largest;
    const ScaleRule rule = ScaleRuleOf(x.opcode());
    if (rule == ScaleRule::kProduct) scale = magnitude * ratio;
    if (rule == ScaleRule::kContraction) scale = product * GrowthOfSum(x);
    if (rule == ScaleRule::kReduction) scale = largest * GrowthOfSum(x);
    return std::isfinite(scale) ? std::max(scale, magnitude) : magnitude;
  }
  // Sums of n random signs grow as the root of n.
  static double GrowthOfSum(const Instruction& x) {
    double operands = 1;
    for (const Instruction* operand : x.operands()) {
      operands *= static_cast<double>(std::max<int64_t>(operand->shape()->element_count(), 1));
    }
    const double terms = operands / static_cast<double>(x.shape()->element_count());
    // Of a contraction the terms count in both operands.
    const bool both = ScaleRuleOf(x.opcode()) == ScaleRule::kContraction;
    return std::max(1.0, both ? std::sqrt(std::sqrt(terms)) : std::sqrt(terms));
  }
  // Values that were not compared pass on what they are made of.
  double OperandScale(const Instruction& x) {
    State& state = StateOf(x);
    if (state.compared || state.scale > 0 || !x.shape()->IsArray()) return state.scale;
    for (const Instruction* operand : x.operands()) {
      state.scale = std::max(state.scale, StateOf(*operand).scale);
    }
    return state.scale;
  }

  // From `end` to the operand with the largest error, and on.
  void FollowBack(const Instruction* end) {
    std::vector<ErrorStep> steps;
    std::vector<uint8_t> seen(states_.size(), 0);
    for (const Instruction* x = end; x != nullptr; x = LargestBehind(*x, seen)) {
      const State& state = StateOf(*x);
      // Only where the error grows.
      if (!steps.empty() && state.rel_error > steps.back().rel_error / 1.5) {
        if (steps.size() > 1) steps.back() = {std::string(x->name()), state.rel_error, state.ulps};
        continue;
      }
      steps.push_back({std::string(x->name()), state.rel_error, state.ulps});
      if (steps.size() == kMaxGrowth) break;
    }
    result_.growth.assign(steps.rbegin(), steps.rend());
  }

  // The compared instruction with the largest error among the nearest that x follows from.
  const Instruction* LargestBehind(const Instruction& x, std::vector<uint8_t>& seen) {
    const Instruction* best = nullptr;
    std::vector<const Instruction*> stack = {&x};
    while (!stack.empty()) {
      const Instruction* at = stack.back();
      stack.pop_back();
      auto visit = [&](const Instruction* behind) {
        if (seen[behind->id()] != 0) return;
        seen[behind->id()] = 1;
        const State& state = StateOf(*behind);
        if (!state.compared) {
          stack.push_back(behind);
        } else if (state.rel_error > 0 &&
                   (best == nullptr || state.rel_error > StateOf(*best).rel_error)) {
          best = behind;
        }
      };
      for (const Instruction* operand : at->operands()) visit(operand);
      if (at->opcode() == Opcode::kWhile) visit(at->called(1)->root());
      if (at->opcode() == Opcode::kCall) visit(at->called(0)->root());
    }
    return best;
  }

  const Module& whole_;
  const Module& partitioned_;
  const Inputs& inputs_;
  const InstructionsOptions& options_;
  const Taint random_, discrete_;
  std::unordered_map<std::string_view, const LocalForm*> forms_;
  std::unordered_map<const Computation*, int64_t> calls_;
  std::vector<Candidate> candidates_;
  std::vector<State> states_;
  const Instruction* first_ = nullptr;
  const Instruction* worst_ = nullptr;
  InstructionsResult result_;
};

}  // namespace

Expected<InstructionsResult> VerifyInstructions(const Module& whole, const Module& partitioned,
                                                std::span<const LocalForm> forms,
                                                const Inputs& inputs,
                                                const InstructionsOptions& options) {
  return InstructionVerifier(whole, partitioned, forms, inputs, options).Run();
}

}  // namespace gshard::cpu
