// Is the communication of a program of one device sound? Found from its text, without a run.
//
// What a run would stop at (docs/emulator.md) is an error here with the same words; what depends on
// data is a warning. docs/check.md lists what is found.
#ifndef GSHARD_CORE_CHECK_COMMUNICATION_CHECK_H_
#define GSHARD_CORE_CHECK_COMMUNICATION_CHECK_H_

#include <cstdint>

#include "core/analysis/device_grid.h"
#include "core/check/finding.h"
#include "ir/module.h"

namespace gshard {

struct CommunicationCheck {
  CommunicationFindings findings;  // errors first, else in the order of the text
  int64_t collectives = 0;         // that were looked at; a send and its recv are one
  bool is_complete = true;         // false: the program is too large to follow every loop in it

  bool HasErrors() const { return !findings.empty() && findings[0].IsError(); }
};

// Of the program of one device for `grid`. Linear in the program's size but for loops that need to
// be followed trip by trip, which has a limit.
CommunicationCheck CheckCommunication(const Module& module, const DeviceGrid& grid);

}  // namespace gshard

#endif  // GSHARD_CORE_CHECK_COMMUNICATION_CHECK_H_
