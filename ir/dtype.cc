#include "ir/dtype.h"

#include <array>

namespace gshard {
namespace {

struct DTypeRow {
  std::string_view text;
  int bits;
  DTypeClass klass;
};

constexpr std::array<DTypeRow, kDTypeCount> kDTypeRows = {{
#define GSHARD_X(enumerator, text, bits, klass) DTypeRow{text, bits, DTypeClass::klass},
    GSHARD_DTYPES(GSHARD_X)
#undef GSHARD_X
}};

// Open addressing over the names; type names are looked up once per shape of a module.
constexpr size_t kSlots = 128;
constexpr uint8_t kFree = 0xFF;

constexpr size_t Slot(std::string_view name) {
  size_t hash = name.size();
  for (char c : name) hash = hash * 31 + static_cast<unsigned char>(c);
  return (hash ^ (hash >> 7)) % kSlots;
}

constexpr std::array<uint8_t, kSlots> MakeSlots() {
  std::array<uint8_t, kSlots> slots{};
  for (uint8_t& slot : slots) slot = kFree;
  for (size_t i = 0; i < kDTypeRows.size(); ++i) {
    size_t at = Slot(kDTypeRows[i].text);
    while (slots[at] != kFree) at = (at + 1) % kSlots;
    slots[at] = static_cast<uint8_t>(i);
  }
  return slots;
}
constexpr std::array<uint8_t, kSlots> kSlotOf = MakeSlots();

const DTypeRow& RowOf(DType dtype) { return kDTypeRows[static_cast<size_t>(dtype)]; }

}  // namespace

std::string_view DTypeName(DType dtype) { return RowOf(dtype).text; }

std::optional<DType> DTypeFromName(std::string_view name) {
  if (name.size() < 2 || name.size() > 14) return std::nullopt;
  for (size_t at = Slot(name); kSlotOf[at] != kFree; at = (at + 1) % kSlots) {
    if (kDTypeRows[kSlotOf[at]].text == name) return static_cast<DType>(kSlotOf[at]);
  }
  return std::nullopt;
}

int DTypeBits(DType dtype) { return RowOf(dtype).bits; }
DTypeClass ClassOf(DType dtype) { return RowOf(dtype).klass; }

int StorageBytes(DType dtype) { return (DTypeBits(dtype) + 7) / 8; }

}  // namespace gshard
