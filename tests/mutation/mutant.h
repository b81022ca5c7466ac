// Which mutant of our own rules a run is about: see mutants.py. Included only in the trees that it
// makes.
#pragma once
#include <atomic>
#include <cstdio>
#include <cstdlib>

// What a mutant leaves unused or converts is no reason not to compile it.
#pragma GCC diagnostic ignored "-Wunused-variable"
#pragma GCC diagnostic ignored "-Wunused-parameter"
#pragma GCC diagnostic ignored "-Wunused-but-set-variable"
#pragma GCC diagnostic ignored "-Wunused-function"
#pragma GCC diagnostic ignored "-Wconversion"
#pragma GCC diagnostic ignored "-Wsign-conversion"
#pragma GCC diagnostic ignored "-Wparentheses"
#pragma GCC diagnostic ignored "-Wshadow"
#pragma GCC diagnostic ignored "-Wsequence-point"
#pragma GCC diagnostic ignored "-Wtype-limits"
#pragma GCC diagnostic ignored "-Wduplicated-cond"
#pragma GCC diagnostic ignored "-Wlogical-op"
#pragma GCC diagnostic ignored "-Wextra"
#pragma GCC diagnostic ignored "-Wall"
#pragma GCC diagnostic ignored "-Wpedantic"

namespace gshard {
inline constexpr int kMaxMutants = 1 << 14;

// Adds `number` to the file that GSHARD_MUTANTS_REACHED names, once a process.
[[gnu::noinline, gnu::cold]] inline void TellReached(const char* path, int number) {
  static std::atomic<bool> told[kMaxMutants];
  if (told[number].load(std::memory_order_relaxed) || told[number].exchange(true)) return;
  std::FILE* file = std::fopen(path, "a");
  if (file == nullptr) return;
  std::fprintf(file, "%d\n", number);
  std::fclose(file);
}

// True where GSHARD_MUTANT is `number`. Thread-safe.
inline bool IsMutant(int number) {
  static const int chosen = [] {
    const char* text = std::getenv("GSHARD_MUTANT");
    return text == nullptr ? 0 : std::atoi(text);
  }();
  static const char* const reached = std::getenv("GSHARD_MUTANTS_REACHED");
  if (__builtin_expect(reached != nullptr, 0)) TellReached(reached, number);
  return chosen == number;
}
}  // namespace gshard
