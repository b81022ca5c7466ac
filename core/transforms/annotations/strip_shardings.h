// Takes annotations away, so that others can be tried in their place.
#ifndef GSHARD_CORE_TRANSFORMS_ANNOTATIONS_STRIP_SHARDINGS_H_
#define GSHARD_CORE_TRANSFORMS_ANNOTATIONS_STRIP_SHARDINGS_H_

#include "ir/module.h"

namespace gshard {

enum class StrippedShardings : uint8_t {
  kAll,    // the header's propagation flags and Shardy's meshes go, too
  kInner,  // all but those of the entry's parameters and results
};

// True if anything went. `Sharding` calls give way to their operands. Manual regions stay as they
// are: what is manual, and the calls at a region's borders, is part of the program, not advice; so
// is that device 0, which every mesh has, does what has a side effect.
// Shardy's attributes must have been imported (core/propagation/shardy_import.h).
bool StripShardings(Module& module, StrippedShardings which);

// Does device 0 do what x does besides computing?
bool IsDoneByFirstDevice(const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_ANNOTATIONS_STRIP_SHARDINGS_H_
