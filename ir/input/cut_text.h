// Texts that end too early or begin too late: a download or a copy that broke off.
#ifndef GSHARD_IR_INPUT_CUT_TEXT_H_
#define GSHARD_IR_INPUT_CUT_TEXT_H_

#include "ir/source_text.h"

namespace gshard {

// `error`, which a parser reports of `source`. Where it is on the last line and the text ends within
// something (a brace, a string), its hint says that the text is cut short; where HLO names what its
// header or an earlier computation should have said and there is no header, that these are lost.
Diagnostic NamedAsCut(Diagnostic error, const SourceText& source);

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_CUT_TEXT_H_
