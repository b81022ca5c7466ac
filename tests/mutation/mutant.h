// Which mutant of our own rules a run is about: see mutants.py. Included only in the trees that it makes.
#pragma once
#include <cstdlib>

namespace gshard {
// True where GSHARD_MUTANT is `number`. Thread-safe.
inline bool IsMutant(int number) {
  static const int chosen = [] {
    const char* text = std::getenv("GSHARD_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  return chosen == number;
}
}  // namespace gshard
