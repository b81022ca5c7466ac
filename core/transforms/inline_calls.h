// Replaces every `call` by the body of its callee, as XLA does before propagation, and gives every
// while and conditional computations of its own, so that each computation has one caller.
//
// Shardings in Shardy's form are imported first (core/propagation/shardy_import.h).
//
// Names: the first copy of a body keeps them, later copies get .N. A call's sharding goes to the
// callee's root if that has none; shardings on callee parameters are dropped, like the parameters.
// Annotations that are lost because the other side of the call says something else: W-INLINE-001.
#ifndef GSHARD_CORE_TRANSFORMS_INLINE_CALLS_H_
#define GSHARD_CORE_TRANSFORMS_INLINE_CALLS_H_

#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/traversal.h"

namespace gshard {

// True if anything changed. Linear in the size of the result. Fails (E-INLINE-001) when nested
// calls would grow the module beyond what half of the free memory holds. `order`, if not null,
// receives the order of uses that XLA's inliner leaves: a body's uses are appended, then the last
// use takes the place of the call. `warnings` may be null.
Expected<bool> InlineCalls(Module& module, UserOrderOverride* order = nullptr,
                           std::vector<Diagnostic>* warnings = nullptr);

// With its calls inlined, what a program that is partitioned or priced may have.
inline constexpr int64_t kMaxInlinedInstructions = 1'000'000;

// Fails (E-INLINE-001, at a call) if the module would have more instructions with its calls
// inlined. Linear in the module as it is: a way to ask before the work is done.
Expected<void> CheckInlinedSize(const Module& module, int64_t most = kMaxInlinedInstructions);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_INLINE_CALLS_H_
