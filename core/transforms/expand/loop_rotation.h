// While loops whose condition is computed at the end of the body.
#ifndef GSHARD_CORE_TRANSFORMS_EXPAND_LOOP_ROTATION_H_
#define GSHARD_CORE_TRANSFORMS_EXPAND_LOOP_ROTATION_H_

#include "ir/module.h"

namespace gshard {

// Makes each loop whose condition has host transfers one over (carried, continues, first
// iteration). The first iteration leaves out the body, so the condition is computed as often as
// before, but where it may change what is carried: the condition itself only reads `continues`.
// Calls the old condition; each computation must have one caller. True if there were some.
bool RotateLoops(Module& module);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_EXPAND_LOOP_ROTATION_H_
