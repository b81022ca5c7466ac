// Decimal text of binary floats, as C's %.<precision>g writes it, for literals by the million.
#ifndef GSHARD_IR_DECIMAL_H_
#define GSHARD_IR_DECIMAL_H_

#include <string>

namespace gshard {

// Appends `value`, finite and not zero, with `precision` significant digits (1 to 17), correctly
// rounded, as %.<precision>g does.
void AppendGeneral(std::string& out, double value, int precision);

// The same with `few` digits if a parser that rounds to a type of `mantissa_bits` (hidden bit
// included) reads `value` back from them, else with `enough`. `value` must be of that type.
void AppendRoundTrip(std::string& out, double value, int mantissa_bits, int few, int enough);

}  // namespace gshard

#endif  // GSHARD_IR_DECIMAL_H_
