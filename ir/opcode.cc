// Opcode tables, all generated from ir/opcodes.def.
#include "ir/opcode.h"

#include "ir/instruction.h"

namespace gshard {

constexpr std::array<OpcodeInfo, kOpcodeCount> kOpcodeInfos = {{
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, flags, motion, purity, callees, \
                      shape, types)                                                                \
  {text,                                                                                           \
   arity,                                                                                          \
   #family,                                                                                        \
   static_cast<uint32_t>(flags),                                                                   \
   static_cast<uint32_t>(types),                                                                   \
   Motion::motion,                                                                                 \
   Purity::purity,                                                                                 \
   Callees::callees},
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
}};

namespace {

constexpr std::array<AttributeTag, kOpcodeCount> kTags = {{
#define GSHARD_OPCODE(enumerator, text, arity, family, attributes, ...) \
  &AttributeType<attributes>::kTag,
#include "ir/opcodes.def"
#undef GSHARD_OPCODE
}};

// Names of opcodes in an open-addressing table filled at compile time.
constexpr size_t kOpcodeSlots = 1024;
constexpr uint8_t kEmpty = 255;
static_assert(kOpcodeCount < kEmpty);

// Length and four characters tell nearly all names apart.
constexpr uint32_t HashName(std::string_view text) {
  if (text.empty()) return 0;
  constexpr uint32_t kMultiplier = 509;  // of small odd ones, that with the fewest collisions
  const size_t size = text.size();
  uint32_t hash = static_cast<uint32_t>(size);
  for (size_t at : {size_t{0}, size / 4, size / 2, size - 1}) {
    hash = hash * kMultiplier + static_cast<unsigned char>(text[at]);
  }
  return (hash ^ (hash >> 10)) % kOpcodeSlots;
}

constexpr std::array<uint8_t, kOpcodeSlots> BuildSlots() {
  std::array<uint8_t, kOpcodeSlots> slots{};
  for (uint8_t& slot : slots) slot = kEmpty;
  for (size_t i = 0; i < kOpcodeInfos.size(); ++i) {
    size_t slot = HashName(kOpcodeInfos[i].text);
    while (slots[slot] != kEmpty) slot = (slot + 1) % kOpcodeSlots;
    slots[slot] = static_cast<uint8_t>(i);
  }
  return slots;
}
constexpr std::array<uint8_t, kOpcodeSlots> kNameSlots = BuildSlots();

}  // namespace

std::optional<Opcode> OpcodeFromName(std::string_view text) {
  for (size_t slot = HashName(text); kNameSlots[slot] != kEmpty; slot = (slot + 1) % kOpcodeSlots) {
    if (kOpcodeInfos[kNameSlots[slot]].text == text) return static_cast<Opcode>(kNameSlots[slot]);
  }
  return std::nullopt;
}

AttributeTag AttributeTagOf(Opcode opcode) { return kTags[static_cast<size_t>(opcode)]; }

}  // namespace gshard
