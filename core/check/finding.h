// What is wrong with the communication of a program of one device.
#ifndef GSHARD_CORE_CHECK_FINDING_H_
#define GSHARD_CORE_CHECK_FINDING_H_

#include <cstdint>
#include <vector>

#include "ir/diagnostic.h"
#include "ir/instruction.h"

namespace gshard {

struct CommunicationFinding {
  Diagnostic diagnostic;  // an error; a warning where it depends on data
  const Instruction* instruction = nullptr;
  std::vector<uint32_t> devices;  // that it is about: who waits, for whom

  bool IsError() const { return diagnostic.severity == Severity::kError; }
};

using CommunicationFindings = std::vector<CommunicationFinding>;

}  // namespace gshard

#endif  // GSHARD_CORE_CHECK_FINDING_H_
