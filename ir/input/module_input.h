// A program in any of the formats that are read, told apart by content: HLO text, StableHLO text,
// HLO protos, gzip of each; log lines around a text are skipped.
// The one way from a user's file to a Module; the parsers of single formats are below it.
#ifndef GSHARD_IR_INPUT_MODULE_INPUT_H_
#define GSHARD_IR_INPUT_MODULE_INPUT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "ir/context.h"
#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/source_text.h"

namespace gshard {

struct InputOptions {
  // Sizes of dims that a shape-polymorphic program leaves open (docs/stablehlo.md): {"batch", 16}.
  std::map<std::string, int64_t, std::less<>> dims;
  // Which of several modules in one text: its name, or "#2"; empty: there must be one only.
  std::string module_name;
};

// What reading found besides the module.
struct InputReport {
  std::vector<Diagnostic> notes;          // such as lines that were skipped
  std::vector<const Literal*> arguments;  // of a snapshot, by parameter; owned by the module
};

// The module shares `source`; without a context it makes its own. Errors are located in the user's
// text. Not verified: VerifyModule.
Expected<std::unique_ptr<Module>> ReadModuleInput(std::shared_ptr<const SourceText> source,
                                                  const InputOptions& options = {},
                                                  std::shared_ptr<Context> context = nullptr,
                                                  InputReport* report = nullptr);

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_MODULE_INPUT_H_
