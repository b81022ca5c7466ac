// The inputs of a program while it is reduced. They are arrays of a file that only the caller
// reads; what a step makes of them is said as a program, which the caller runs. For example, after
// a step that made `w = f32[8] sine(p)` a parameter and then shrank it to f32[4]:
//
//   p = f32[8] parameter(0)
//   w = f32[8] sine(p)
//   w.1 = f32[4] slice(w), slice={[0:4]}
//   ROOT t = (f32[4]) tuple(w.1)
#ifndef GSHARD_CORE_REDUCE_INPUTS_H_
#define GSHARD_CORE_REDUCE_INPUTS_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/module.h"

namespace gshard {

// Values of some leaves of a program's parameters. The others are random.
struct ReduceInputs {
  std::vector<int64_t> leaves;  // by number, ascending
  std::string file;             // the caller's
  size_t digest = 0;            // of the values: equal ones have equal digests
};

// A program whose results are inputs of another one.
struct InputProgram {
  std::string text;             // empty if there are no results
  std::vector<int64_t> leaves;  // of the other program: one a result, ascending
  bool moves_only = true;       // every result is an input, or a part of one
  bool same_places = true;      // every result is an input whole, and keeps its number
};

namespace reduce {

struct InputRule {
  bool from_end = false;    // of a dim that shrank the last elements are kept, not the first
  bool may_compute = true;  // parameters that were instructions get the values of these
};

// The program that computes the inputs of `candidate` from those of the program `best` that it was
// made of, which have `leaves`. Parameters of `candidate` are known by their names: those of
// parameters of `best`, or of instructions of its entry that became parameters. Where shapes do not
// fit or nothing is given, a leaf has no input. Changes `best`.
InputProgram MakeInputProgram(Module& best, const Module& candidate,
                              std::span<const int64_t> leaves, const InputRule& rule);

// The program whose results are these values of the parameters of `module`, without tuples; those
// whose elements were left out, or whose shape is another one, are no inputs. Changes `module`,
// which must own them.
InputProgram MakeArgumentProgram(Module& module, std::span<const Literal* const> arguments);

}  // namespace reduce
}  // namespace gshard

#endif  // GSHARD_CORE_REDUCE_INPUTS_H_
