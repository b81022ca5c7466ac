// HLO text -> Module (docs/text-format.md). Reads all that XLA and JAX print, plus our mesh sugar.
// Does not verify: see ir/verify/verifier.h. Linear time; memory a few times the text.
#ifndef GSHARD_IR_PARSER_H_
#define GSHARD_IR_PARSER_H_

#include <memory>

#include "ir/module.h"

namespace gshard {

// The module keeps views into `source` and shares its ownership. Errors: E-PARSE-*, located.
// MLIR text and binary protos are recognised and the error says how to print HLO text instead.
Expected<std::unique_ptr<Module>> ParseModule(std::shared_ptr<const SourceText> source,
                                              std::shared_ptr<Context> context = nullptr);

// A shape alone, such as "(f32[10], s32[])", interned in `context`. Errors: E-PARSE-*.
Expected<const Shape*> ParseShape(std::shared_ptr<Context> context, std::string_view text);

}  // namespace gshard

#endif  // GSHARD_IR_PARSER_H_
