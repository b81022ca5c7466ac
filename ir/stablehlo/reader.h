// StableHLO text (with CHLO and Shardy) as a Module: the front door of ir/stablehlo. The forms that
// are read, and what each operation becomes: docs/stablehlo.md.
#ifndef GSHARD_IR_STABLEHLO_READER_H_
#define GSHARD_IR_STABLEHLO_READER_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>

#include "ir/context.h"
#include "ir/diagnostic.h"
#include "ir/module.h"
#include "ir/source_text.h"

namespace gshard::stablehlo {

// Does `text` look like an MLIR module, and not like HLO? Looks at its first words only.
bool IsMlirText(std::string_view text);

struct ReadOptions {
  // Sizes of the dimension variables of a shape-polymorphic export: {"batch", 16}; also by place,
  // {"arg0:0", 16}.
  std::map<std::string, int64_t, std::less<>> dims;
};

// Errors are located in the MLIR text, and so are the module's instructions. The module shares
// `source`. Not verified: VerifyModule.
Expected<std::unique_ptr<Module>> ReadModule(std::shared_ptr<const SourceText> source,
                                             std::shared_ptr<Context> context = nullptr,
                                             const ReadOptions& options = {});

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_READER_H_
