// Numbers and literals in text, as XLA writes them (docs/text-format.md, "Literals").
#ifndef GSHARD_IR_LITERAL_TEXT_H_
#define GSHARD_IR_LITERAL_TEXT_H_

#include <string>

#include "ir/literal.h"

namespace gshard {

// All values, however many; "{...}" for an elided literal. Reads back bit for bit.
void AppendLiteral(std::string& out, const Literal& literal);

// The shortest of %.6g and %.9g (float), %.15g and %.17g (double) that reads back; nan with its
// payload unless it is the default one. Negative zero is "-0.0": XLA reads "-0" as positive.
void AppendFloat(std::string& out, float value);
void AppendDouble(std::string& out, double value);

}  // namespace gshard

#endif  // GSHARD_IR_LITERAL_TEXT_H_
