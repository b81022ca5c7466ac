#include "core/partition/plan/demand.h"

#include <algorithm>

#include "ir/sharding.h"

namespace gshard {

namespace {

// Tiles or copies of an array, in no region.
bool IsPlain(const Sharding* sharding) {
  if (sharding == nullptr) return false;
  if (sharding->kind == ShardingKind::kReplicated) return true;
  return sharding->kind == ShardingKind::kTiled &&
         std::all_of(sharding->subgroups.begin(), sharding->subgroups.end(),
                     [](SubgroupType type) { return type == SubgroupType::kReplicated; });
}

// Operations that are done on tiles wherever those are wanted.
bool IsDoneAnywhere(Opcode opcode) {
  switch (opcode) {
    case Opcode::kBroadcast:
    case Opcode::kCholesky:
    case Opcode::kConcatenate:
    case Opcode::kConditional:
    case Opcode::kConvolution:
    case Opcode::kDot:
    case Opcode::kDynamicSlice:
    case Opcode::kDynamicUpdateSlice:
    case Opcode::kFft:
    case Opcode::kGather:
    case Opcode::kPad:
    case Opcode::kReduce:
    case Opcode::kReduceWindow:
    case Opcode::kReshape:
    case Opcode::kReverse:
    case Opcode::kScatter:
    case Opcode::kSlice:
    case Opcode::kSort:
    case Opcode::kTranspose:
    case Opcode::kTriangularSolve:
      return true;
    default:  // else its rule does not ask for a layout
      return IsElementwise(opcode);
  }
}

int64_t TileCount(const Sharding* sharding) {
  int64_t count = 1;
  for (int64_t d = 0; d < sharding->data_rank(); ++d) count *= sharding->tiles.dim(d);
  return count;
}

}  // namespace

void Demand::Ask(Asked& asked, const Sharding* sharding) {
  bool is_other = asked.sharding != nullptr && asked.sharding != sharding;
  if (sharding == nullptr || is_other) asked.conflict = true;
  asked.sharding = sharding;
}

void Demand::Collect(const Computation& computation, std::span<const Sharding* const> outputs) {
  std::span<Instruction* const> instructions = computation.instructions();
  const Instruction& root = *computation.root();
  bool is_first_time = !asked_[root.id()].conflict;
  if (!is_first_time) {
    for (const Instruction* x : instructions) asked_[x->id()] = {};
  }
  asked_[root.id()].conflict = true;
  for (auto at = instructions.rbegin(); at != instructions.rend(); ++at) {
    const Instruction& user = **at;
    if (&user == &root && root.opcode() == Opcode::kTuple) {
      AskForOutputs(root, outputs);
      continue;
    }
    bool is_elementwise = IsElementwise(user.opcode()) && user.shape()->IsArray();
    const bool is_output = &user == &root && !outputs.empty();
    const Sharding* sharding = nullptr;
    if (is_elementwise) sharding = is_output ? outputs[0] : ShardingOf(user);
    for (const Instruction* operand : user.operands()) {
      Asked& asked = asked_[operand->id()];
      asked.has_other_users = true;
      if (asked.conflict) continue;
      bool is_asked = sharding != nullptr && (operand->shape() == user.shape() ||
                                              SameDims(operand->shape(), user.shape()));
      Ask(asked, is_asked ? sharding : nullptr);
    }
  }
}

void Demand::AskForOutputs(const Instruction& root, std::span<const Sharding* const> outputs) {
  int64_t leaf = 0;
  for (size_t k = 0; k < outputs.size(); ++k) {
    const Instruction& operand = *root.operand(static_cast<int64_t>(k));
    Asked& asked = asked_[operand.id()];
    Ask(asked, outputs[k]);
    if (operand.shape()->IsArray()) {
      asked.has_other_users |= asked.output_leaf >= 0;
      asked.output_leaf = static_cast<int32_t>(leaf);
    }
    leaf += operand.shape()->leaf_count();
  }
}

const Sharding* Demand::Better(const Instruction& instruction, const Sharding* asked) {
  const Sharding* own = instruction.sharding();
  if (!IsPlain(asked) || !IsDoneAnywhere(instruction.opcode())) return own;
  if (own == nullptr || own->kind == ShardingKind::kMaximal) return asked;
  return IsPlain(own) && TileCount(asked) > TileCount(own) ? asked : own;
}

}  // namespace gshard
