// A Module as StableHLO text: the way back of ir/stablehlo/reader.h. What has no StableHLO is
// undone (fusions, asynchronous pairs, copies, layouts) or refused by name: docs/stablehlo.md,
// "Writing".
#ifndef GSHARD_IR_STABLEHLO_WRITER_H_
#define GSHARD_IR_STABLEHLO_WRITER_H_

#include <string>

#include "ir/diagnostic.h"
#include "ir/module.h"

namespace gshard::stablehlo {

struct WriteOptions {
  bool gspmd = false;     // shardings as mhlo.sharding strings instead of Shardy's
  bool locations = true;  // loc(..) from metadata
};

// Deterministic; what it writes reads back to a module that is written the same. The module must be
// verified. Errors: E-STABLEHLO-*, at the instruction.
Expected<std::string> WriteModule(const Module& module, const WriteOptions& options = {});

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_WRITER_H_
