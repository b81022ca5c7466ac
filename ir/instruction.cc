// Creation and copying of attribute structs, by opcode.
#include "ir/instruction.h"

#include "ir/module.h"

namespace gshard {
namespace {

// Opcodes without attributes share one object.
NoAttributes no_attributes;

template <typename T>
void* New(Arena& arena) {
  if constexpr (std::is_same_v<T, NoAttributes>) {
    return &no_attributes;
  } else {
    return arena.New<T>();
  }
}

template <typename T>
void* Copy(Arena& arena, const void* attributes) {
  if constexpr (std::is_same_v<T, NoAttributes>) {
    return &no_attributes;
  } else {
    return arena.New<T>(*static_cast<const T*>(attributes));
  }
}

}  // namespace

void* NewAttributes(Arena& arena, Opcode opcode) {
  switch (opcode) {
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, ...) \
  case Opcode::enumerator:                                              \
    return New<attributes>(arena);
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
  }
  throw InternalError("opcode out of range");
}

void* CopyAttributes(Arena& arena, Opcode opcode, const void* source) {
  switch (opcode) {
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, ...) \
  case Opcode::enumerator:                                              \
    return Copy<attributes>(arena, source);
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
  }
  throw InternalError("opcode out of range");
}

}  // namespace gshard
