// A program in any of the formats that are read, told apart by content: HLO text, StableHLO text.
// The one way from a user's file to a Module; the parsers of single formats are below it.
#ifndef GSHARD_IR_INPUT_MODULE_INPUT_H_
#define GSHARD_IR_INPUT_MODULE_INPUT_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "ir/context.h"
#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/source_text.h"

namespace gshard {

struct InputOptions {
  // Sizes of dims that a shape-polymorphic program leaves open (docs/stablehlo.md): {"batch", 16}.
  std::map<std::string, int64_t, std::less<>> dims;
};

// The module shares `source`; without a context it makes its own. Errors are located in the user's
// text. Not verified: VerifyModule.
Expected<std::unique_ptr<Module>> ReadModuleInput(std::shared_ptr<const SourceText> source,
                                                  const InputOptions& options = {},
                                                  std::shared_ptr<Context> context = nullptr);

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_MODULE_INPUT_H_
