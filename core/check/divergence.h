// Collectives that not all members of a group come to.
//
// The program of one device is followed from its entry with what its values are on each device
// (device_value.h). Where a condition is known to differ, the devices part as they do in a run;
// where it may differ, as data have it, a collective whose members it may part is told as such. A
// loop is followed to a fixpoint first, and trip by trip only where that leaves a doubt.
#ifndef GSHARD_CORE_CHECK_DIVERGENCE_H_
#define GSHARD_CORE_CHECK_DIVERGENCE_H_

#include "core/analysis/device_grid.h"
#include "core/analysis/device_groups.h"
#include "core/check/finding.h"
#include "ir/module.h"

namespace gshard {

struct DivergenceReport {
  CommunicationFindings findings;  // one an instruction, in the order in which devices come to them
  // False: the program is too large to follow all of it; what was found holds.
  bool is_complete = true;
};

DivergenceReport FindDivergence(const Module& module, const DeviceGrid& grid,
                                CollectiveResolver& collectives);

}  // namespace gshard

#endif  // GSHARD_CORE_CHECK_DIVERGENCE_H_
