// Reverse-mode differentiation of a module: docs/autodiff.md.
//
// The entry returns a scalar loss, or a tuple whose first leaf is it. Afterwards it returns a
// tuple: the results it had, then the gradient of each named parameter. Forward values are computed
// once; only adjoints that reach a named parameter are. New instructions carry the frontend
// attribute gshard.adjoint_of (the instruction they differentiate) and its op_name in
// transpose(..).
#ifndef GSHARD_CORE_AUTODIFF_GRADIENT_H_
#define GSHARD_CORE_AUTODIFF_GRADIENT_H_

#include <string>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard {

struct GradientOptions {
  // "p2" is parameter 2, other words are names. Empty: all that have floating or complex elements.
  std::vector<std::string> with_respect_to;
  // Instructions whose name or op_name matches are constants. Empty: none.
  std::string stop;
  // Loops, branches and calls keep their inputs and compute the rest again.
  bool rematerialize = false;
};

// What can be said without a module: is `stop` a regular expression? E-GRAD-001.
Expected<void> CheckGradientOptions(const GradientOptions& options);

// Reverse-mode differentiation by the chain rule on the reversed instruction order (Griewank and
// Walther, Evaluating Derivatives, 2008, chapter 3). Errors: E-GRAD-*. Single-threaded per module;
// after an error the module is not to be used.
Expected<void> Differentiate(Module& module, const GradientOptions& options);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_GRADIENT_H_
