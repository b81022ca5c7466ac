// The discrete choices over floats that both graphs show, each right after what decides it, so that
// nothing waits.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_SHOWN_CHOICES_H_
#define GSHARD_BACKENDS_CPU_VERIFY_SHOWN_CHOICES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/plan/tap.h"
#include "backends/cpu/verify/analysis/compared_arrays.h"
#include "ir/module.h"

namespace gshard::cpu {

// A choice, whose tap comes after those of what decides it.
struct Choice {
  const Instruction* x = nullptr;
  uint32_t tap = 0, first_deciding = 0;  // taps [first_deciding, tap) are the deciding arrays
  bool is_held = false;                  // do both graphs have all that decides?
};

// What is shown of both graphs: arrays by tap.
struct ShownChoices {
  std::vector<Candidate> candidates;
  std::vector<TapPoint> whole_taps, local_taps;
  std::vector<Choice> choices;
  std::vector<uint32_t> choice_of;  // by tap
};

// Of `arrays`, which both graphs have.
ShownChoices FindShownChoices(const Module& whole, const Module& partitioned,
                              std::span<const Candidate> arrays);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_SHOWN_CHOICES_H_
