// Manual regions: a GlobalToLocalShape marker, the call of the body, a LocalToGlobalShape marker
// are one sdy.manual_computation.
#include <fmt/format.h>

#include <algorithm>

#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/stablehlo/print/module_writer.h"

namespace gshard::stablehlo {
namespace {

constexpr std::string_view kEnter = "xla.sdy.GlobalToLocalShape";
constexpr std::string_view kLeave = "xla.sdy.LocalToGlobalShape";

const Instruction* BehindElement(const Instruction* x) {
  return x->opcode() == Opcode::kGetTupleElement ? x->operand(0) : x;
}

// The users of a value and of its elements; nothing if it, or one of those, is the root.
std::vector<const Instruction*> UsersBehindElements(ModuleWriter& w, const Instruction* x) {
  const Users& users = w.users(*x->parent());
  const Instruction* root = x->parent()->root();
  std::vector<const Instruction*> found;
  if (x == root) return found;
  for (const Instruction* user : users.of(x)) {
    if (user->opcode() != Opcode::kGetTupleElement) {
      found.push_back(user);
      continue;
    }
    if (user == root) return {};
    found.insert(found.end(), users.of(user).begin(), users.of(user).end());
  }
  return found;
}

// The marker behind a body's call.
const Instruction* LeaveMarker(ModuleWriter& w, const Instruction* call) {
  for (const Instruction* user : UsersBehindElements(w, call)) {
    if (IsCustomCallTo(*user, kLeave)) return user;
  }
  return nullptr;
}

// Are the operands of `x` all values of `source`, in order?
bool TakesAll(const Instruction* x, const Instruction* source) {
  const Shape* shape = source->shape();
  if (!shape->IsTuple()) return x->operand_count() == 1 && x->operand(0) == source;
  if (x->operand_count() != static_cast<int64_t>(shape->elements().size())) return false;
  for (int64_t i = 0; i < x->operand_count(); ++i) {
    const Instruction* operand = x->operand(i);
    if (operand->opcode() != Opcode::kGetTupleElement || operand->operand(0) != source ||
        operand->attributes<GetTupleElementAttributes>().index != i ||
        !operand->shape()->IsArray()) {
      return false;
    }
  }
  return true;
}

bool OnlyUserIs(ModuleWriter& w, const Instruction* x, const Instruction* user) {
  const std::vector<const Instruction*> found = UsersBehindElements(w, x);
  return !found.empty() &&
         std::ranges::all_of(found, [user](const Instruction* other) { return other == user; });
}

bool FailRegion(ModuleWriter& w, const Instruction* x, std::string_view why) {
  return w.Fail(
      x, fmt::format("StableHLO has no manual region such as that of '{}': {}", x->name(), why));
}

// `#sdy.sharding_per_value<[..]>` as `[..]`, `#sdy<manual_axes{..}>` as `{..}`.
std::string Inner(const std::string& text, char open, char close) {
  const size_t begin = text.find(open);
  const size_t end = text.rfind(close);
  return begin == text.npos || end == text.npos ? std::string()
                                                : text.substr(begin, end - begin + 1);
}

// Of an operand, or of the tuple that it is an element of.
const Sharding* OperandSharding(const Instruction* x, int64_t k) {
  const Instruction* operand = x->operand(k);
  if (operand->sharding() != nullptr || operand->opcode() != Opcode::kGetTupleElement) {
    return operand->sharding();
  }
  return LeafSharding(operand->operand(0)->sharding(),
                      static_cast<size_t>(operand->attributes<GetTupleElementAttributes>().index));
}

// Newer text of XLA has no attributes at the markers: the values outside of the region have the
// shardings (core/propagation/shardy_regions.h).
std::optional<std::string> ShardingsByAxes(ModuleWriter& w, const Instruction* marker) {
  const bool enters = IsCustomCallTo(*marker, kEnter);
  std::string list = "[";
  for (int64_t k = 0; k < marker->operand_count(); ++k) {
    const Sharding* sharding = enters ? OperandSharding(marker, k)
                                      : LeafSharding(marker->sharding(), static_cast<size_t>(k));
    const Shape* shape = marker->operand(k)->shape();
    const std::string text = shape->IsArray()
                                 ? w.shardings().ShardyText(sharding, nullptr, shape->rank())
                                 : std::string();
    if (text.empty()) {
      FailRegion(w, marker, "it has neither attributes of Shardy nor shardings by mesh axes");
      return std::nullopt;
    }
    if (k > 0) list += ", ";
    list += text;
  }
  return list + "]";
}

// `#sdy<manual_axes{"x"}>`: those that the sharding of a value in the region names.
std::string AxesBySharding(const Instruction* leave) {
  const Sharding* inside = leave->operand_count() > 0 ? OperandSharding(leave, 0) : nullptr;
  if (inside == nullptr || inside->named == nullptr || inside->named->mesh == nullptr) return {};
  std::string text = "#sdy<manual_axes{";
  for (std::string axis : ManualAxesOf(*inside->named)) {
    std::ranges::replace(axis, '\'', '"');
    if (text.back() != '{') text += ", ";
    text += axis;
  }
  return text + "}>";
}

// The shardings of a marker's values as `[..]`; nothing if they cannot be read.
std::optional<std::string> ShardingsOf(ModuleWriter& w, const Instruction* marker,
                                       std::string_view key) {
  const std::string text = FrontendAttribute(marker->frontend_attributes(), key);
  if (text.empty()) return ShardingsByAxes(w, marker);
  if (!w.shardings().CanRead(text, marker->operand_count())) {
    FailRegion(w, marker, fmt::format("{} is {}", key, text.empty() ? "missing" : text));
    return std::nullopt;
  }
  return Inner(text, '[', ']');
}

bool WriteManualComputation(ModuleWriter& w, const Instruction* call, const Instruction* leave) {
  const Instruction* enter = nullptr;
  if (call->operand_count() > 0) {
    enter = BehindElement(call->operand(0));
    if (!IsCustomCallTo(*enter, kEnter) || !TakesAll(call, enter) || !OnlyUserIs(w, enter, call)) {
      return FailRegion(w, call, "its operands are not those of one GlobalToLocalShape, in order");
    }
  }
  if (!TakesAll(leave, call) || !OnlyUserIs(w, call, leave)) {
    return FailRegion(w, call, "its results do not all go into one LocalToGlobalShape, in order");
  }
  const auto in = enter != nullptr ? ShardingsOf(w, enter, "xla.sdy.in_shardings") : "[]";
  if (!in) return true;
  const auto out = ShardingsOf(w, leave, "xla.sdy.out_shardings");
  if (!out) return true;
  std::string manual = FrontendAttribute(leave->frontend_attributes(), "xla.sdy.manual_axes");
  if (manual.empty()) manual = AxesBySharding(leave);
  std::vector<std::string> names;
  if (!ReadShardyManualAxes(manual, names)) {
    return FailRegion(w, leave, "xla.sdy.manual_axes is " + (manual.empty() ? "missing" : manual));
  }
  const std::string axes = Inner(manual, '{', '}');
  Leaves arguments;
  std::string block;
  const Computation& body = *call->called(0);
  for (const Instruction* parameter : body.parameters()) {
    for (const Shape* leaf : LeafShapes(parameter->shape())) {
      if (!block.empty()) block += ", ";
      arguments.push_back(w.FreshArgument());
      block += arguments.back() + ": " + w.Type(leaf);
    }
  }
  std::vector<const Shape*> operand_shapes;
  Leaves operands;
  if (enter != nullptr) {
    operands = w.OperandLeaves(enter);
    for (const Instruction* operand : enter->operands()) operand_shapes.push_back(operand->shape());
  }
  ModuleWriter::Line line(leave);
  line.head = fmt::format(
      "sdy.manual_computation({}) in_shardings={} out_shardings={} manual_axes={} ({}) {{\n",
      Joined(operands), *in, *out, axes, block);
  line.head += w.Body(body, arguments, "sdy.return", 2);
  line.head += w.Spaces() + "}";
  line.types = w.FunctionType(operand_shapes, LeafShapes(leave->shape()));
  w.Emit(line);
  w.SetValue(call, Leaves(LeafShapes(call->shape()).size(), "%manual"));
  return true;
}

}  // namespace

bool WriteManualRegion(ModuleWriter& w, const Instruction* x) {
  if (x->opcode() == Opcode::kCall) {
    const Instruction* leave = LeaveMarker(w, x);
    return leave != nullptr && WriteManualComputation(w, x, leave);
  }
  if (IsCustomCallTo(*x, kEnter)) {
    // Written with the call behind it.
    for (const Instruction* user : UsersBehindElements(w, x)) {
      if (user->opcode() != Opcode::kCall || LeaveMarker(w, user) == nullptr) continue;
      w.SetValue(x, Leaves(LeafShapes(x->shape()).size(), "%local"));
      return true;
    }
    return FailRegion(w, x, "no call takes what enters it");
  }
  if (!IsCustomCallTo(*x, kLeave)) return false;
  // Written with the call before it.
  if (x->operand_count() > 0) {
    const Instruction* call = BehindElement(x->operand(0));
    if (call->opcode() == Opcode::kCall && LeaveMarker(w, call) == x) return true;
  }
  return FailRegion(w, x, "no call makes what leaves it");
}

}  // namespace gshard::stablehlo
