#include "core/report/sharding_history.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>

#include "core/analysis/axis_text.h"
#include "core/analysis/partitioned.h"
#include "core/propagation/rules.h"
#include "core/report/pipeline_place.h"
#include "fmt/format.h"
#include "ir/leaves.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

const Sharding* LeafOf(const Sharding* s, int64_t leaf) {
  return s == nullptr ? nullptr : LeafSharding(s, static_cast<size_t>(leaf));
}

// The leaf of `change.from` that gave `leaf` of `change.instruction`.
int64_t LeafAtSource(const ShardingChange& change, int64_t leaf) {
  const Instruction* x = change.instruction;
  const Instruction* from = change.from;
  if (from->shape()->leaf_count() == x->shape()->leaf_count()) return leaf;
  if (change.edge == ShardingEdge::kOperand) {
    if (x->opcode() == Opcode::kGetTupleElement) return FirstLeafRead(*x) + leaf;
    if (x->opcode() == Opcode::kTuple) {
      return leaf - x->shape()->first_leaf(OperandIndex(*x, *from));
    }
  }
  if (change.edge == ShardingEdge::kUser) {
    if (from->opcode() == Opcode::kGetTupleElement) return leaf - FirstLeafRead(*from);
    if (from->opcode() == Opcode::kTuple) {
      return from->shape()->first_leaf(OperandIndex(*from, *x)) + leaf;
    }
    if (from->shape()->IsTuple()) {
      return std::min(OperandIndex(*from, *x), from->shape()->leaf_count() - 1);
    }
  }
  return 0;
}

// A tuple is put together from several operands or users in one change; the one that speaks for
// this leaf.
const Instruction* SourceOfLeaf(const ShardingChange& change, int64_t leaf) {
  const Instruction* x = change.instruction;
  if (change.edge == ShardingEdge::kOperand && x->opcode() == Opcode::kTuple) {
    int64_t first = 0;
    for (const Instruction* operand : x->operands()) {
      int64_t count = operand->shape()->leaf_count();
      if (leaf < first + count) return operand;
      first += count;
    }
  }
  return change.from;
}

class Walk {
 public:
  Walk(const ExplainRecorder& recorder, size_t limit) : recorder_(recorder), limit_(limit) {}

  // Index of the step for the sharding that `leaf` of `x` had before change number `before`.
  bool Visit(const Instruction* x, int64_t leaf, uint32_t before, size_t& step) {
    const ShardingChange* change = nullptr;
    uint32_t number = 0;
    const std::vector<uint32_t>& list = recorder_.changes_of(x);
    for (auto it = list.rbegin(); it != list.rend(); ++it) {
      if (*it >= before) continue;
      const ShardingChange& c = recorder_.changes()[*it];
      if (LeafOf(c.before, leaf) == LeafOf(c.after, leaf)) continue;
      change = &c;
      number = *it;
      break;
    }
    if (change == nullptr) return false;
    auto [known, fresh] = seen_.try_emplace({number, leaf}, steps.size());
    step = known->second;
    if (!fresh) return true;
    if (steps.size() >= limit_) return false;
    steps.push_back({x, leaf, LeafOf(change->after, leaf), change, {}});
    pending_.push_back({step, number});
    return true;
  }

  void Run() {
    for (size_t i = 0; i < pending_.size(); ++i) {
      auto [step, number] = pending_[i];
      const ShardingChange& change = *steps[step].change;
      int64_t leaf = steps[step].leaf;
      std::vector<size_t> causes;
      size_t cause = 0;
      if (change.from != nullptr) {
        ShardingChange at = change;
        at.from = SourceOfLeaf(change, leaf);
        if (Visit(at.from, LeafAtSource(at, leaf), number, cause)) causes.push_back(cause);
      }
      // Merged: what it had before is a cause too.
      const Sharding* before = LeafOf(change.before, leaf);
      bool merged = before != nullptr && !before->IsReplicated() &&
                    LeafOf(change.offered, leaf) != LeafOf(change.after, leaf);
      if (merged && Visit(change.instruction, leaf, number, cause)) causes.push_back(cause);
      steps[step].causes = std::move(causes);
    }
  }

  std::vector<ExplainStep> steps;

 private:
  const ExplainRecorder& recorder_;
  size_t limit_;
  std::map<std::pair<uint32_t, int64_t>, size_t> seen_;
  std::vector<std::pair<size_t, uint32_t>> pending_;
};

std::string SourceOf(const SourceLines& lines, const Instruction* x) {
  std::string text = lines.TextOf(*x);
  std::string op_name = OpNameOf(*x);
  if (!op_name.empty()) text += text.empty() ? op_name : " (" + op_name + ")";
  return text;
}

// "FILE:LINE" of the instruction in the user's HLO text; empty if it has no place there.
std::string HloPlaceOf(const Module& module, const Instruction* x) {
  if (x->source().empty()) return "";
  Diagnostic place = module.ErrorAt(x, "", "");
  return place.line == 0 ? "" : fmt::format("{}:{}", place.file, place.line);
}

// Why nothing reached an instruction without sharding.
std::string WhyNone(const Module& module, const Instruction* x) {
  const bool entry = x->parent() == module.entry();
  // Propagation leaves a refusal where it has taken effect.
  if (entry && x->opcode() == Opcode::kParameter &&
      !module.header().propagation_to_parameters.empty()) {
    return "the header or --allow-spmd-sharding-propagation-to-parameters refuses it one";
  }
  if (entry && x == x->parent()->root() && !module.header().propagation_to_output.empty()) {
    return "the header or --allow-spmd-sharding-propagation-to-output refuses it one";
  }
  if (RuleOf(x->opcode()).supported == Never) {
    return fmt::format("{} takes none from its neighbours; annotate it", OpcodeName(x->opcode()));
  }
  return "no neighbour has one that fits";
}

// By which rule and when: GSPMD's level, or Shardy's factor and tier.
std::string WhenOf(const ShardingChange& change) {
  return change.rule.empty() ? fmt::format("level {}", change.level)
                             : fmt::format("{}, P{}", change.rule, change.level);
}

std::string Reason(const Module& module, const ExplainStep& step) {
  const ShardingChange& c = *step.change;
  const Instruction* from = c.from == nullptr ? nullptr : SourceOfLeaf(c, step.leaf);
  bool merged = c.before != nullptr && LeafOf(c.offered, step.leaf) != step.sharding &&
                LeafOf(c.offered, step.leaf) != nullptr;
  std::string how = merged ? "merged with " : "from ";
  switch (c.edge) {
    case ShardingEdge::kAnnotation: {
      std::string place = HloPlaceOf(module, step.instruction);
      if (step.sharding != nullptr && step.sharding->IsManual() && IsPipelined(module)) {
        return "of a stage by itself, as gshard-opt pipeline wrote" +
               (place.empty() ? "" : " at " + place);
      }
      return place.empty() ? "written by the user" : "written by the user at " + place;
    }
    case ShardingEdge::kSharding:
      return fmt::format("operand of the Sharding call '{}'", from->name());
    case ShardingEdge::kOperand:
      return fmt::format("{}operand '{}' through {}, {}", how, from->name(),
                         OpcodeName(step.instruction->opcode()), WhenOf(c));
    case ShardingEdge::kUser:
      return fmt::format("{}user '{}' through {}, {}", how, from->name(),
                         OpcodeName(from->opcode()), WhenOf(c));
    case ShardingEdge::kControlFlow:
      return fmt::format("same value as '{}'", from->name());
    case ShardingEdge::kShardGroup:
      return fmt::format("shard group with '{}'", from->name());
    case ShardingEdge::kBarrier:
      return fmt::format("relayed by barrier '{}'", from->name());
    case ShardingEdge::kBoundary:
      return step.sharding != nullptr && step.sharding->IsReplicated()
                 ? "program boundary: fixed, or a dim does not divide"
                 : "program boundary: fixed";
    case ShardingEdge::kNotInferred:
      return "placeholder";
  }
  return "";
}

// Steps that were printed: a change, and the leaf it is about.
using PrintedSteps = std::set<std::pair<const ShardingChange*, int64_t>>;

void AppendSteps(std::string& out, Module& module, const std::vector<ExplainStep>& steps,
                 const Mesh* mesh, PrintedSteps& printed) {
  // Chains are printed flat; only where two causes meet the second is indented.
  struct Frame {
    size_t step;
    int depth;
  };
  const SourceLines lines(module);
  std::vector<Frame> stack = {{0, 1}};
  while (!stack.empty()) {
    Frame f = stack.back();
    stack.pop_back();
    const ExplainStep& s = steps[f.step];
    std::string name(s.instruction->name());
    if (s.instruction->shape()->IsTuple()) name += fmt::format("{{leaf {}}}", s.leaf);
    out.append(static_cast<size_t>(2 * f.depth), ' ');
    if (!printed.insert({s.change, s.leaf}).second) {
      out += fmt::format("{} (see above)\n", name);
      continue;
    }
    std::string sharding =
        s.sharding == nullptr ? "none" : AxisText(module.context(), s.sharding, mesh);
    out += fmt::format("{} = {}: {}", name, sharding, Reason(module, s));
    std::string source = SourceOf(lines, s.instruction);
    if (!source.empty()) out += "  [" + source + "]";
    out += '\n';
    for (size_t i = s.causes.size(); i > 0; --i) {
      stack.push_back({s.causes[i - 1], f.depth + (i > 1 ? 1 : 0)});
    }
  }
}

// The history of all leaves of one value.
void AppendHistory(std::string& out, const ExplainRecorder& recorder, Module& module,
                   const Instruction* x, const Mesh* mesh, PrintedSteps& printed) {
  out += fmt::format("{} = {} {}", x->name(), ToString(x->shape(), false), OpcodeName(x->opcode()));
  if (x->sharding() == nullptr) {
    out += fmt::format(": no sharding was inferred; it counts as replicated\n  {}\n",
                       WhyNone(module, x));
    return;
  }
  out += fmt::format(", sharded {}\n", AxisText(module.context(), x->sharding(), mesh));
  for (int64_t leaf = 0; leaf < x->shape()->leaf_count(); ++leaf) {
    std::vector<ExplainStep> steps = ExplainSharding(recorder, x, leaf);
    if (!steps.empty()) AppendSteps(out, module, steps, mesh, printed);
  }
}

}  // namespace

const char* EdgeName(ShardingEdge edge) {
  switch (edge) {
    case ShardingEdge::kAnnotation:
      return "annotation";
    case ShardingEdge::kSharding:
      return "sharding_call";
    case ShardingEdge::kOperand:
      return "operand";
    case ShardingEdge::kUser:
      return "user";
    case ShardingEdge::kControlFlow:
      return "control_flow";
    case ShardingEdge::kShardGroup:
      return "shard_group";
    case ShardingEdge::kBarrier:
      return "barrier";
    case ShardingEdge::kBoundary:
      return "boundary";
    case ShardingEdge::kNotInferred:
      return "not_inferred";
  }
  return "";
}

std::vector<ExplainStep> ExplainSharding(const ExplainRecorder& recorder, const Instruction* x,
                                         int64_t leaf, size_t limit) {
  Walk walk(recorder, limit);
  size_t step = 0;
  if (walk.Visit(x, leaf, UINT32_MAX, step)) walk.Run();
  return std::move(walk.steps);
}

std::string ShardingHistoryText(const ExplainRecorder& recorder, Module& module,
                                std::span<const Instruction* const> values, const Mesh* mesh) {
  std::string out;
  PrintedSteps printed;
  for (const Instruction* x : values) AppendHistory(out, recorder, module, x, mesh, printed);
  return out;
}

void AddShardingHistory(Json& object, const ExplainRecorder& recorder, const Module& module,
                        const Instruction* x) {
  const SourceLines lines(module);
  Json leaves = Json::Array();
  for (int64_t leaf = 0; leaf < x->shape()->leaf_count(); ++leaf) {
    Json steps = Json::Array();
    for (const ExplainStep& s : ExplainSharding(recorder, x, leaf)) {
      Json step = {{"instruction", s.instruction->name()},
                   {"opcode", OpcodeName(s.instruction->opcode())},
                   {"leaf", s.leaf},
                   {"edge", EdgeName(s.change->edge)},
                   {"reason", Reason(module, s)},
                   {"causes", s.causes}};
      if (s.sharding != nullptr) step.Set("sharding", ToString(s.sharding));
      if (s.change->from != nullptr) {
        step.Set("from", SourceOfLeaf(*s.change, s.leaf)->name());
      }
      if (s.change->level >= 0) step.Set("level", s.change->level);
      std::string source = SourceOf(lines, s.instruction);
      if (!source.empty()) step.Set("source", std::move(source));
      std::string place = HloPlaceOf(module, s.instruction);
      if (!place.empty()) step.Set("place", std::move(place));
      steps.Append(std::move(step));
    }
    leaves.Append({{"leaf", leaf}, {"steps", std::move(steps)}});
  }
  object.Set("instruction", x->name());
  object.Set("opcode", OpcodeName(x->opcode()));
  object.Set("leaves", std::move(leaves));
  if (x->sharding() != nullptr) {
    object.Set("sharding", ToString(x->sharding()));
  } else {
    object.Set("reason", WhyNone(module, x));
  }
}

}  // namespace gshard
