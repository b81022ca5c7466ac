// The discrete choices over floats that both graphs show, each right after what decides it, so that
// nothing waits.
#ifndef GSHARD_BACKENDS_CPU_VERIFY_SHOWN_CHOICES_H_
#define GSHARD_BACKENDS_CPU_VERIFY_SHOWN_CHOICES_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/plan/probe.h"
#include "backends/cpu/verify/analysis/compared_arrays.h"
#include "ir/module.h"

namespace gshard::cpu {

// A choice, whose probe comes after those of what decides it.
struct Choice {
  const Instruction* x = nullptr;
  uint32_t probe = 0, first_deciding = 0;  // probes [first_deciding, probe) are the deciding arrays
  bool is_held = false;                    // do both graphs have all that decides?
};

// What is shown of both graphs: arrays by probe.
struct ShownChoices {
  std::vector<Candidate> candidates;
  std::vector<ProbePoint> whole_probes, local_probes;
  std::vector<Choice> choices;
  std::vector<uint32_t> choice_of;  // by probe
};

// Of `arrays`, which both graphs have.
ShownChoices FindShownChoices(const Module& whole, const Module& partitioned,
                              std::span<const Candidate> arrays);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_VERIFY_SHOWN_CHOICES_H_
