#include "core/analysis/attention/carried_values.h"

namespace gshard {
namespace {

// Names of one value that are looked through, at most; texts have a handful.
constexpr int kMaxNames = 256;

const Instruction* SkipBarriers(const Instruction* x) {
  while (x->opcode() == Opcode::kOptBarrier) x = x->operand(0);
  return x;
}

const Instruction* SkipReshapes(const Instruction* x) {
  while (x->opcode() == Opcode::kReshape || x->opcode() == Opcode::kBitcast ||
         x->opcode() == Opcode::kCopy || x->opcode() == Opcode::kOptBarrier) {
    x = x->operand(0);
  }
  return x;
}

}  // namespace

CarriedValues::CarriedValues(const Module& module) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      for (const Computation* called : x->called()) {
        const Instruction* loop = x->opcode() == Opcode::kWhile ? x : nullptr;
        auto [it, is_new] = loop_of_.try_emplace(called, loop);
        if (!is_new) it->second = nullptr;
      }
    }
  }
}

const Instruction* CarriedValues::LoopOf(const Computation* computation) const {
  auto found = loop_of_.find(computation);
  return found == loop_of_.end() ? nullptr : found->second;
}

CarriedValues::Place CarriedValues::Initial(const Instruction* loop, int64_t index) const {
  const Computation* body = loop->called(1);
  const Instruction* root = SkipBarriers(body->root());
  if (root->opcode() != Opcode::kTuple || index >= root->operand_count()) return {};
  const Instruction* next = SkipBarriers(root->operand(index));
  const bool is_unchanged = next->opcode() == Opcode::kGetTupleElement &&
                            SkipBarriers(next->operand(0)) == body->parameter(0) &&
                            next->attributes<GetTupleElementAttributes>().index == index;
  return is_unchanged ? Place{loop->operand(0), index} : Place{};
}

CarriedValues::Place CarriedValues::Follow(const Instruction* x) const {
  Place place{x, -1};
  for (int step = 0; step < kMaxNames; ++step) {
    Place next;
    switch (place.x->opcode()) {
      case Opcode::kGetTupleElement:
        if (place.index < 0) {
          next = {place.x->operand(0), place.x->attributes<GetTupleElementAttributes>().index};
        }
        break;
      case Opcode::kTuple:
        if (place.index >= 0) next = {place.x->operand(place.index), -1};
        break;
      case Opcode::kCopy:
      case Opcode::kOptBarrier:
        next = {place.x->operand(0), place.index};
        break;
      case Opcode::kWhile:
        if (place.index >= 0) next = Initial(place.x, place.index);
        break;
      case Opcode::kParameter: {
        const Instruction* loop = LoopOf(place.x->parent());
        if (loop != nullptr && place.index >= 0) next = Initial(loop, place.index);
        break;
      }
      default:  // a value of its own
        break;
    }
    if (next.x == nullptr) break;
    place = next;
  }
  return place;
}

const Instruction* CarriedValues::Origin(const Instruction* x) const {
  const Place place = Follow(x);
  return place.index < 0 ? place.x : x;
}

const Instruction* CarriedValues::StoredSlice(const Instruction* slice) const {
  const Place place = Follow(SkipReshapes(slice->operand(0)));
  if (place.index < 0 || place.x->opcode() != Opcode::kWhile) return nullptr;
  const Instruction* root = SkipBarriers(place.x->called(1)->root());
  if (root->opcode() != Opcode::kTuple || place.index >= root->operand_count()) return nullptr;
  const Instruction* update = SkipReshapes(root->operand(place.index));
  if (update->opcode() != Opcode::kDynamicUpdateSlice) return nullptr;
  const Instruction* stored = update->operand(1);
  return Compatible(stored->shape(), slice->shape()) ? stored : nullptr;
}

}  // namespace gshard
