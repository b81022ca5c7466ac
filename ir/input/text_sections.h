// The program within a text that holds more: log lines around it, a byte order mark, or several
// modules one after another.
#ifndef GSHARD_IR_INPUT_TEXT_SECTIONS_H_
#define GSHARD_IR_INPUT_TEXT_SECTIONS_H_

#include <memory>
#include <string>
#include <vector>

#include "ir/source_text.h"

namespace gshard {

// The text with everything that is not the module `name` ("" if there is one only; NAME, or #2 for
// the second) blanked out, so that lines and columns stay those of the user's file; `source` itself
// if there is nothing to blank. What was skipped is told in `notes`. Errors: E-INPUT-004, several
// modules and no name; E-INPUT-005, no module or several of that name.
Expected<std::shared_ptr<const SourceText>> SelectModuleText(
    std::shared_ptr<const SourceText> source, const std::string& name,
    std::vector<Diagnostic>& notes);

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_TEXT_SECTIONS_H_
