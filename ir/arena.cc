#include "ir/arena.h"

#include <algorithm>

namespace gshard {

void Arena::Grow(size_t at_least) {
  // Doubling keeps the number of blocks logarithmic; the floor keeps small modules small.
  capacity_ = std::max<size_t>({at_least, size_t{4096}, std::min<size_t>(total_, size_t{1} << 22)});
  blocks_.emplace_back(new char[capacity_]);
  block_ = blocks_.back().get();
  used_ = 0;
  total_ += capacity_;
}

}  // namespace gshard
