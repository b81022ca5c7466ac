// What stands in for the results of sends and receives once no data wait for them.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_TRANSFER_VALUES_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_TRANSFER_VALUES_H_

#include "ir/builder.h"

namespace gshard {

inline Instruction* Token(Builder& builder) { return builder.Add(Opcode::kAfterAll, {}); }
// Of an infeed or recv-done: (data, token).
inline Instruction* WithToken(Builder& builder, Instruction* data) {
  Instruction* elements[] = {data, Token(builder)};
  return builder.Tuple(elements);
}
// Of a send or recv: (data, u32, token).
inline Instruction* Started(Builder& builder, Instruction* data) {
  Instruction* elements[] = {data, builder.ScalarInt(DType::kU32, 0), Token(builder)};
  return builder.Tuple(elements);
}

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_TRANSFER_VALUES_H_
