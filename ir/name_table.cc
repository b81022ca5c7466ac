#include "ir/name_table.h"

#include <charconv>
#include <string>

#include "ir/text_hash.h"

namespace gshard {

uint32_t NameTable::Intern(std::string_view name) {
  if (symbols_.size() * 2 >= slots_.size()) Rehash(slots_.empty() ? 256 : slots_.size() * 2);
  const size_t mask = slots_.size() - 1;
  const uint64_t full_hash = HashText(name);
  const uint32_t hash = static_cast<uint32_t>(full_hash >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    Slot& slot = slots_[i];
    if (slot.id == kNone) {
      slot = {hash, static_cast<uint32_t>(symbols_.size())};
      symbols_.push_back({name.data(), static_cast<uint32_t>(name.size()), 1, false});
      return slot.id;
    }
    if (slot.hash == hash && this->name(slot.id) == name) return slot.id;
  }
}

uint32_t NameTable::Find(std::string_view name) const {
  if (slots_.empty()) return kNone;
  const size_t mask = slots_.size() - 1;
  const uint32_t hash = static_cast<uint32_t>(HashText(name) >> 32);
  for (size_t i = hash & mask;; i = (i + 1) & mask) {
    const Slot& slot = slots_[i];
    if (slot.id == kNone || (slot.hash == hash && this->name(slot.id) == name)) return slot.id;
  }
}

void NameTable::Rehash(size_t slots) {
  std::vector<Slot> old = std::move(slots_);
  slots_.assign(slots, Slot{});
  const size_t mask = slots - 1;
  for (const Slot& slot : old) {
    if (slot.id == kNone) continue;
    size_t i = slot.hash & mask;
    while (slots_[i].id != kNone) i = (i + 1) & mask;
    slots_[i] = slot;
  }
}

std::string_view NameTable::TakeUnique(std::string_view base, Arena& arena) {
  uint32_t id = Find(base);
  if (id == kNone) id = Intern(arena.Copy(base));
  if (Take(id)) return name(id);

  std::string_view root = base;
  const size_t dot = base.rfind('.');
  if (dot != std::string_view::npos && dot > 0 && dot + 1 < base.size() &&
      base.find_first_not_of("0123456789", dot + 1) == std::string_view::npos) {
    root = base.substr(0, dot);
  }
  uint32_t root_id = Find(root);
  if (root_id == kNone) root_id = Intern(arena.Copy(root));
  std::string candidate(root);
  candidate += '.';
  while (true) {
    char digits[16];
    const uint32_t suffix = symbols_[root_id].next_suffix;
    symbols_[root_id].next_suffix = suffix + 1;
    const char* end = std::to_chars(digits, digits + sizeof(digits), suffix).ptr;
    candidate.resize(root.size() + 1);
    candidate.append(digits, static_cast<size_t>(end - digits));
    id = Intern(arena.Copy(std::string_view(candidate)));  // nearly always new
    if (Take(id)) return name(id);
  }
}

}  // namespace gshard
