// The smallest program that still does something: delta debugging (Zeller and Hildebrandt,
// "Simplifying and Isolating Failure-Inducing Input", 2002) with steps that know HLO (steps.h).
// `gshard-opt reduce`, docs/reduce.md.
#ifndef GSHARD_CORE_REDUCE_REDUCER_H_
#define GSHARD_CORE_REDUCE_REDUCER_H_

#include <atomic>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "core/reduce/inputs.h"
#include "ir/diagnostic.h"

namespace gshard {

struct ReduceOptions {
  int threads = 1;  // candidates that are tested at once
  // Values that the program's parameters are given; null: it is tested without any.
  std::shared_ptr<const ReduceInputs> inputs;
  // Runs a program on inputs and returns its results as inputs; null: it does not run. Called by
  // `threads` threads at once, and only with `inputs`. Equal programs and inputs must have equal
  // results.
  std::function<std::shared_ptr<const ReduceInputs>(const InputProgram& program,
                                                    const ReduceInputs& inputs)>
      compute_inputs;
  // Does a program, as text, still do it with these inputs (null without `inputs`)? Called by
  // `threads` threads at once. Equal texts and inputs must have the same answer.
  std::function<bool(const std::string& text, const ReduceInputs* inputs)> is_interesting;
  // Told after each step that was taken, by one thread at a time; may be empty.
  std::function<void(const std::string& step, int64_t instructions)> progress;
  const std::atomic<bool>* stop = nullptr;  // set by others: end with what there is; may be null
};

struct Reduction {
  std::string text;                            // the program; parses and verifies
  std::shared_ptr<const ReduceInputs> inputs;  // of the program; null without ReduceOptions::inputs
  int64_t instructions_before = 0, instructions = 0;
  int64_t tests = 0;  // programs that were tested
};

// `text` is a module that parses and verifies. The result is one from which no single step can be
// taken, whatever the number of threads; where `stop` was set, the smallest so far. Errors
// (E-REDUCE-001): the program itself is not interesting.
Expected<Reduction> Reduce(const std::string& text, const ReduceOptions& options);

}  // namespace gshard

#endif  // GSHARD_CORE_REDUCE_REDUCER_H_
