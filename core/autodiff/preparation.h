// Brings a module into the form that reverse-mode rules expect.
#ifndef GSHARD_CORE_AUTODIFF_PREPARATION_H_
#define GSHARD_CORE_AUTODIFF_PREPARATION_H_

#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard {

// Every computation of control flow gets one caller, the state of every loop is a tuple, and calls
// are inlined in loops and where the callee takes a part of an operand (so that its adjoint is
// added in place). What nothing needs is removed. E-GRAD-008 where nested calls would grow beyond
// bounds.
Expected<void> PrepareForDifferentiation(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_PREPARATION_H_
