// What logs, mails and terminals put before every line of a program that is copied out of them.
#ifndef GSHARD_IR_INPUT_LINE_PREFIX_H_
#define GSHARD_IR_INPUT_LINE_PREFIX_H_

#include <cstddef>
#include <string_view>

namespace gshard {

// "[0]: ", "2026-11-22 17:07:08,573 INFO ", "> ", "+", "  12  ": the same on every line but for
// digits and the blanks before them. Views into the text.
class LinePrefix {
 public:
  // Of what stands before the first header of a module, if the lines after it begin alike; else
  // empty.
  static LinePrefix Find(std::string_view text);

  // Bytes of the prefix that `line` begins with; 0 if it begins otherwise.
  size_t LengthIn(std::string_view line) const;

 private:
  std::string_view prefix_;
};

}  // namespace gshard

#endif  // GSHARD_IR_INPUT_LINE_PREFIX_H_
