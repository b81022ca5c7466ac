// Files that are no program: what they are, and which file the user wants instead.
#ifndef GSHARD_IR_INPUT_FOREIGN_FILE_H_
#define GSHARD_IR_INPUT_FOREIGN_FILE_H_

#include <optional>

#include "ir/source_text.h"

namespace gshard {

// E-INPUT-003 with a hint; nothing if the file may be a program. By content only.
std::optional<Diagnostic> WhyNoProgram(const SourceText& source);

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_FOREIGN_FILE_H_
