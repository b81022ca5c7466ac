// The instructions of the computation that is being read, by their ids in the proto.
#ifndef GSHARD_IR_PROTO_ID_TABLE_H_
#define GSHARD_IR_PROTO_ID_TABLE_H_

#include <bit>
#include <cstdint>
#include <vector>

#include "ir/instruction.h"

namespace gshard::proto {

// Open addressing by the ids themselves: XLA numbers the instructions of a computation one after
// the other (in the upper half, all have the computation's number), so that they lie in their
// order and nearly none is moved.
class IdTable {
 public:
  // Empty, with room for `count` instructions.
  void Reset(size_t count) {
    slots_.assign(std::bit_ceil(2 * count + 1), {});
    mask_ = slots_.size() - 1;
  }
  // False if there is one of that id. At most as many as Reset was told of.
  bool Add(int64_t id, Instruction* instruction) {
    Slot& slot = slots_[Place(id)];
    if (slot.instruction != nullptr) return false;
    slot = {id, instruction};
    return true;
  }
  Instruction* Find(int64_t id) const {
    return slots_.empty() ? nullptr : slots_[Place(id)].instruction;
  }

 private:
  struct Slot {
    int64_t id = 0;
    Instruction* instruction = nullptr;
  };
  // Where `id` is, or the free slot where it would be. After the first place, all bits count.
  size_t Place(int64_t id) const {
    auto rest = static_cast<uint64_t>(id);
    size_t place = (rest ^ (rest >> 32)) & mask_;
    while (slots_[place].instruction != nullptr && slots_[place].id != id) {
      rest >>= 5;
      place = (5 * place + 1 + rest) & mask_;
    }
    return place;
  }

  std::vector<Slot> slots_;
  size_t mask_ = 0;
};

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_ID_TABLE_H_
