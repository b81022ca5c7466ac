// Forms of older XLA text and protos that say less than today's: rewritten as today's on reading,
// so that nothing else knows of them.
#ifndef GSHARD_IR_INPUT_OLDER_FORMS_H_
#define GSHARD_IR_INPUT_OLDER_FORMS_H_

#include "ir/module.h"

namespace gshard {

// An rng-bit-generator that returns its bits only, without the new state, becomes one that returns
// both, and a get-tuple-element of that name.
// A scan of one result and its body both return it in a tuple, or both do not.
void RewriteOlderForms(Module& module);

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_OLDER_FORMS_H_
