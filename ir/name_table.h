// The names of one space (instructions or computations of a module), with dense ids.
//
// Interned names are views that must outlive the table. A name is interned once and may then be
// taken once; unique names are made as XLA makes them: `add.5` or `add` taken gives the first free
// of `add.1`, `add.2`, ... Not thread-safe.
#ifndef GSHARD_IR_NAME_TABLE_H_
#define GSHARD_IR_NAME_TABLE_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "ir/arena.h"

namespace gshard {

class NameTable {
 public:
  static constexpr uint32_t kNone = UINT32_MAX;

  // Id of `name`, interned if new.
  uint32_t Intern(std::string_view name);
  uint32_t Find(std::string_view name) const;
  std::string_view name(uint32_t id) const { return {symbols_[id].data, symbols_[id].size}; }
  uint32_t size() const { return static_cast<uint32_t>(symbols_.size()); }

  // Marks as used; false if it was.
  bool Take(uint32_t id) {
    if (symbols_[id].taken) return false;
    return symbols_[id].taken = true;
  }
  // `base` itself if free, else its root with the first free number; taken. New text is in `arena`.
  std::string_view TakeUnique(std::string_view base, Arena& arena);

 private:
  struct Symbol {
    const char* data;
    uint32_t size;
    uint32_t next_suffix;
    bool taken;
  };
  struct Slot {
    uint32_t hash = 0;
    uint32_t id = kNone;
  };
  void Rehash(size_t slots);

  std::vector<Symbol> symbols_;
  std::vector<Slot> slots_;  // power of two, at most half full
};

}  // namespace gshard

#endif  // GSHARD_IR_NAME_TABLE_H_
