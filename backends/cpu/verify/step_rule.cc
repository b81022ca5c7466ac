// Walks from arrays to what they are made of, in both graphs.
#include "backends/cpu/verify/step_rule.h"

#include <algorithm>

#include "backends/cpu/verify/analysis/graph_walk.h"
#include "backends/cpu/verify/analysis/sum_terms.h"
#include "backends/cpu/verify/verify.h"
#include "ir/computation.h"
#include "ir/op_traits.h"
#include "ir/opcode.h"

namespace gshard::cpu {
namespace {

constexpr size_t kMaxWalked = 4096;  // instructions behind one
constexpr int64_t kMinSpanned = 2;   // steps without an array that is compared in between

// A list of what was seen: walks are short.
bool SeeFirst(const Instruction* x, std::vector<const Instruction*>& seen) {
  if (std::find(seen.begin(), seen.end(), x) != seen.end()) return false;
  seen.push_back(x);
  return true;
}

// An element of what is computed as a tuple (a scan, a reduction of several arrays): walks go from
// it to the operands at once.
bool IsComputedAsTuple(const Instruction& x) {
  if (x.opcode() != Opcode::kGetTupleElement) return false;
  return !OnlyMoves(*x.operand(0));
}

// Roundings to f16 and bf16 between an array and the compared ones behind it.
struct ShortRoundings {
  double roundoff = 0;  // the coarsest; 0: there are none
  // Of the sums among them, with the number of their terms.
  double roundings = 0, terms = 1;

  void See(const Instruction& x, int64_t device_count) {
    if (!x.shape()->IsArray() || OnlyMoves(x)) return;
    const double of_type = ShortRoundoff(x.shape()->dtype());
    roundoff = std::max(roundoff, of_type);
    if (of_type == 0) return;
    const auto count = static_cast<double>(MostTermsOf(x, device_count));
    if (count == 1) return;
    roundings += count;
    terms *= count;
  }
};

// On the mesh, from the array back to compared ones.
ShortRoundings ShortRoundingsOnMesh(const Instruction& local, const GraphWalk& walk,
                                    const std::vector<uint8_t>& compared, int64_t device_count) {
  ShortRoundings found;
  std::vector<const Instruction*> stack = {&local}, seen;
  while (!stack.empty() && seen.size() < kMaxWalked) {
    const Instruction* at = stack.back();
    stack.pop_back();
    if (!SeeFirst(at, seen) || (at != &local && compared[at->id()] != 0)) continue;
    found.See(*at, device_count);
    const std::vector<const Instruction*> behind = walk.Behind(*at);
    stack.insert(stack.end(), behind.begin(), behind.end());
  }
  return found;
}

// The terms that both graphs add up are the same ones, on the mesh in parts.
void SetShortSums(const ShortRoundings& of_whole, const ShortRoundings& of_mesh, StepRule& rule) {
  rule.short_roundoff = std::max(of_whole.roundoff, of_mesh.roundoff);
  // What only the mesh rounds to such a type is its mistake.
  if (of_mesh.roundoff > of_whole.roundoff) {
    rule.spans_steps = false;
    return;
  }
  rule.short_sums = of_whole.roundoff * (of_whole.roundings + of_mesh.roundings) *
                    std::max(of_whole.terms, of_mesh.terms);
}

StepRule RuleInWhole(const Instruction& x, const GraphWalk& walk,
                     const std::vector<uint8_t>& compared, ShortRoundings& roundings) {
  StepRule rule;
  bool computes = false;  // floats, without being compared itself
  int64_t steps = 0;      // that compute floats and are not compared themselves
  bool is_computed = IsComputedAsTuple(x);
  double coarsest = 0;
  roundings.See(x, 1);
  std::vector<const Instruction*> stack = walk.Behind(x), seen = {&x};
  while (!stack.empty() && seen.size() < kMaxWalked) {
    const Instruction* at = stack.back();
    stack.pop_back();
    if (!SeeFirst(at, seen)) continue;
    if (compared[at->id()] != 0) {
      rule.anchors.push_back(at);
      continue;
    }
    is_computed = is_computed || IsComputedAsTuple(*at);
    roundings.See(*at, 1);
    if (at->shape()->IsArray() && !OnlyMoves(*at) && ToleranceOf(at->shape()->dtype()) > 0) {
      computes = true;
      if (at->opcode() != Opcode::kConvert) ++steps;
      coarsest = std::max(coarsest, ToleranceOf(at->shape()->dtype()));
    }
    const std::vector<const Instruction*> behind = walk.Behind(*at);
    stack.insert(stack.end(), behind.begin(), behind.end());
  }
  if (!stack.empty()) computes = true;
  rule.tolerance = StepToleranceOf(x.shape()->dtype());
  if (rule.tolerance > 0) rule.tolerance = std::max(rule.tolerance, coarsest);
  rule.spans_steps = steps >= kMinSpanned;
  rule.may_flip = rule.tolerance == 0 && computes;
  rule.is_one_operation = !computes && !is_computed && (IsElementwise(x.opcode()) || OnlyMoves(x));
  return rule;
}

bool OnlyMovesOnMesh(const Instruction& x) {
  return MotionOf(x.opcode()) == Motion::kExchanges || (OnlyMoves(x) && !IsComputedAsTuple(x));
}

// Does the mesh make x by x's operation, once, from compared arrays that are only moved around it?
// A sum that is taken over devices later, say, has other roundings.
bool MeshDoesTheSame(const Instruction& x, const Instruction& local, const GraphWalk& walk,
                     const std::vector<uint8_t>& compared) {
  struct Place {
    const Instruction* at = nullptr;
    bool is_behind = false;  // the operation
  };
  std::vector<Place> stack = {{&local, OnlyMoves(x)}};
  std::vector<const Instruction*> seen;
  while (!stack.empty()) {
    const auto [at, is_behind] = stack.back();
    stack.pop_back();
    if (!SeeFirst(at, seen)) continue;
    if (seen.size() == kMaxWalked) return false;
    if (at != &local && compared[at->id()] != 0) {
      if (!is_behind) return false;
      continue;
    }
    const bool is_float = at->shape()->IsArray() && ToleranceOf(at->shape()->dtype()) > 0;
    if (at->shape()->IsArray() && !is_float && at != &local) continue;  // indices, masks
    const bool is_it = !is_behind && at->opcode() == x.opcode();
    if (!is_it && !OnlyMovesOnMesh(*at)) return false;
    if (!is_behind && at->opcode() == Opcode::kParameter) return false;
    for (const Instruction* behind : walk.Behind(*at)) {
      stack.push_back({behind, is_behind || is_it});
    }
  }
  return true;
}

}  // namespace

std::vector<StepRule> StepRulesOf(const Module& whole, const Module& partitioned,
                                  std::span<const Candidate> candidates) {
  const GraphWalk walk(whole), mesh_walk(partitioned);
  std::vector<uint8_t> compared(whole.instruction_limit(), 0);
  std::vector<uint8_t> compared_on_mesh(partitioned.instruction_limit(), 0);
  for (const Candidate& candidate : candidates) {
    compared[candidate.x->id()] = 1;
    compared_on_mesh[candidate.form->local->id()] = 1;
  }
  std::vector<StepRule> rules;
  const int64_t device_count = partitioned.DeviceCount();
  for (const Candidate& candidate : candidates) {
    ShortRoundings roundings;
    StepRule rule = RuleInWhole(*candidate.x, walk, compared, roundings);
    if (ToleranceOf(candidate.x->shape()->dtype()) > 0) {
      SetShortSums(
          roundings,
          ShortRoundingsOnMesh(*candidate.form->local, mesh_walk, compared_on_mesh, device_count),
          rule);
    }
    const DType dtype = candidate.x->shape()->dtype();
    // Units in the last place say little of 8 bits, and nothing of a complex number's parts.
    rule.is_one_operation =
        rule.is_one_operation && IsFloat(dtype) && StorageBytes(dtype) >= 2 &&
        MeshDoesTheSame(*candidate.x, *candidate.form->local, mesh_walk, compared_on_mesh);
    rules.push_back(std::move(rule));
  }
  return rules;
}

double ShortRoundoff(DType dtype) {
  if (dtype == DType::kF16) return 0x1p-11;
  return dtype == DType::kBF16 ? 0x1p-8 : 0;
}

double StepToleranceOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
    case DType::kC128:
      return 1e-12;
    case DType::kF32:
    case DType::kC64:
      return 1e-5;
    case DType::kF16:
      return 5e-3;
    default:
      return ToleranceOf(dtype);
  }
}

}  // namespace gshard::cpu
