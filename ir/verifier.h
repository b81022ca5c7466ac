// Checks that a module is well-formed: shapes as inferred, attributes in range, shardings that fit,
// called computations of the right signature, metadata well-formed.
#ifndef GSHARD_IR_VERIFIER_H_
#define GSHARD_IR_VERIFIER_H_

#include "ir/module.h"

namespace gshard {

struct VerifyOptions {
  bool shardings = true;  // rank, device count
};

// The first problem in text order (E-VERIFY-*): expected, found, where. Linear time.
Expected<void> VerifyModule(const Module& module, const VerifyOptions& options = {});

}  // namespace gshard

#endif  // GSHARD_IR_VERIFIER_H_
