// Which lines of the user's program instructions come from, with the calls that led there.
#ifndef GSHARD_IR_SOURCE_LINES_H_
#define GSHARD_IR_SOURCE_LINES_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "ir/module.h"

namespace gshard {

// A line of a file: "gpt.py:22".
struct SourceLine {
  std::string_view file;
  int64_t line = 0;
};

// "gpt.py:22" as what it says; line 0 if it is none.
SourceLine ParseSourceLine(std::string_view text);

// Is `file` what `asked` means: the same path, or one that ends with it ("models/gpt.py" of
// "/home/me/models/gpt.py")?
bool IsFile(std::string_view file, std::string_view asked);

// Is it a file of a library, not of the user's program: in site-packages, dist-packages, a virtual
// environment or Python's own folder?
bool IsLibraryFile(std::string_view file);

// Reads the module's tables of stack frames once. The module must stay; texts are views into it.
class SourceLines {
 public:
  explicit SourceLines(const Module& module);

  // Where x stands, and the lines that called it, innermost first; empty if nothing is known.
  // Without tables, source_file and source_line of its metadata.
  std::vector<SourceLine> Of(const Instruction& x) const;

  // "file.py:12": the innermost line of the user's program, else the innermost of all. Empty if
  // nothing is known.
  std::string TextOf(const Instruction& x) const;

  // The same, for people: the file's path from the folder that all files of the user's program are
  // in, a library's from the folder that libraries are in.
  std::string ShortTextOf(const Instruction& x) const;

 private:
  struct Frame {
    SourceLine line;
    int64_t parent = 0;  // its number; 0: none
  };
  const SourceLine* Innermost(int64_t number) const;

  std::unordered_map<int64_t, Frame> frames_;  // by number
  std::string_view root_;  // folder of the user's program, with its slash; empty if not known
};

// TextOf for one instruction; reads all of the module's tables.
std::string SourceLineOf(const Module& module, const Instruction& x);

}  // namespace gshard

#endif  // GSHARD_IR_SOURCE_LINES_H_
