#include "core/analysis/host_memory.h"

#include <algorithm>
#include <optional>
#include <string>

#include "ir/custom_call.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

int64_t ElementsOf(const Instruction* x) {
  return x->shape()->IsTuple() ? static_cast<int64_t>(x->shape()->elements().size()) : 1;
}

// Where a call puts its value: true for the host; nothing if it does not say.
std::optional<bool> PutsOnHost(const Instruction* x) {
  if (x->opcode() != Opcode::kCustomCall) return std::nullopt;
  if (IsCustomCallTo(*x, "MoveToHost")) return true;
  if (IsCustomCallTo(*x, "MoveToDevice")) return false;
  if (!IsCustomCallTo(*x, "annotate_device_placement")) return std::nullopt;
  const std::string place = FrontendAttribute(x->frontend_attributes(), "_xla_buffer_placement");
  if (place.empty()) return std::nullopt;
  return place.find("host") != std::string::npos;
}

// Is the result a part or another form of operand 0, where that lies?
bool StaysWithOperand(const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kReshape:
    case Opcode::kBitcast:
    case Opcode::kTranspose:
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
    case Opcode::kCopy:
      return true;
    case Opcode::kCustomCall:
      return IsIdentityCall(*x) && !PutsOnHost(x);
    default:  // a value of its own, on the device
      return false;
  }
}

}  // namespace

bool IsHostLayout(const Shape* array) {
  return array->layout() != nullptr && array->layout()->tail.find("S(5)") != std::string_view::npos;
}

HostMemory::HostMemory(const Module& module, const Users& users) {
  begin_.resize(module.instruction_limit());
  size_t count = 0;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      begin_[x->id()] = count;
      count += static_cast<size_t>(ElementsOf(x));
      if (x->opcode() == Opcode::kWhile) loops_of_.emplace(x->called(1), x);
    }
  }
  on_host_.resize(count);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      const Shape* shape = x->shape();
      if (PutsOnHost(x).value_or(false)) Put(x, 0);
      for (int64_t i = 0; i < ElementsOf(x); ++i) {
        const Shape* element = shape->IsTuple() ? shape->element(i) : shape;
        if (element->IsArray() && IsHostLayout(element)) Put(x, i);
      }
    }
  }
  const std::vector<const Shape*>& layouts = module.header().entry_parameter_layouts;
  for (const Instruction* parameter : module.entry()->parameters()) {
    const auto number = static_cast<size_t>(parameter->attributes<ParameterAttributes>().number);
    if (number < layouts.size() && layouts[number]->IsArray() && IsHostLayout(layouts[number])) {
      Put(parameter, 0);
    }
  }
  if (pending_.empty()) {
    on_host_.clear();
    return;
  }
  while (!pending_.empty()) {
    auto [x, element] = pending_.back();
    pending_.pop_back();
    Follow(x, element, users);
  }
}

void HostMemory::Put(const Instruction* x, int64_t element) {
  const size_t at = begin_[x->id()] + static_cast<size_t>(element);
  if (on_host_[at]) return;
  on_host_[at] = true;
  pending_.emplace_back(x, element);
}

// A loop carries an element in one memory: its initial value, an array to be filled, is there, too.
void HostMemory::FollowLoop(const Instruction* loop, int64_t element) {
  Put(loop, element);
  for (const Computation* called : loop->called()) {
    if (element < ElementsOf(called->parameter(0))) Put(called->parameter(0), element);
  }
  const Instruction* init = loop->operand(0);
  if (init->opcode() != Opcode::kTuple) return;
  const Instruction* value = init->operand(element);
  if (value->opcode() == Opcode::kBroadcast) Put(value, 0);
}

void HostMemory::Follow(const Instruction* x, int64_t element, const Users& users) {
  if (x == x->parent()->root() && x->shape()->IsTuple()) {
    auto [from, to] = loops_of_.equal_range(x->parent());
    for (auto it = from; it != to; ++it) FollowLoop(it->second, element);
  }
  for (const Instruction* user : users.of(x)) {
    switch (user->opcode()) {
      case Opcode::kTuple:
        for (int64_t i = 0; i < user->operand_count(); ++i) {
          if (user->operand(i) == x) Put(user, i);
        }
        break;
      case Opcode::kGetTupleElement:
        if (user->attributes<GetTupleElementAttributes>().index == element &&
            user->shape()->IsArray()) {
          Put(user, 0);
        }
        break;
      case Opcode::kOptBarrier:
        Put(user, element);
        break;
      case Opcode::kWhile:
        FollowLoop(user, element);
        break;
      case Opcode::kDynamicUpdateSlice:
        if (user->operand(0) == x || user->operand(1) == x) Put(user, 0);
        break;
      default:  // it reads the value and makes another
        if (StaysWithOperand(user) && user->operand(0) == x) Put(user, 0);
        break;
    }
  }
}

bool HostMemory::IsTransfer(const Instruction* x) const {
  if (IsEmpty() || x->operand_count() != 1 || !x->shape()->IsArray()) return false;
  const std::optional<bool> to_host = PutsOnHost(x);
  return to_host && *to_host != Has(x->operand(0));
}

}  // namespace gshard
