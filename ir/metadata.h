// Reads on demand what the parser keeps verbatim: metadata, frontend attributes, stack-frame
// tables.
#ifndef GSHARD_IR_METADATA_H_
#define GSHARD_IR_METADATA_H_

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/module.h"

namespace gshard {

struct OpMetadata {
  std::string op_type, op_name, source_file;
  int64_t source_line = 0;
  int64_t stack_frame_id = 0;
};
// From "{op_type=\"x\" op_name=\"y\" ..}". Missing or malformed parts stay empty.
OpMetadata ParseMetadata(std::string_view text);
// op_name only, unescaped; empty if there is none.
std::string OpNameOf(const Instruction& instruction);
// "file.py:12" by source_file and source_line alone; empty if there is none.
std::string WrittenSourceLine(const OpMetadata& metadata);

// Calls `visit(number, row)` for the rows of a debug table (Module::debug_tables) as written, until
// it says false or a row is malformed. Rows are numbered from 1.
void ForEachTableRow(std::string_view tables, std::string_view table,
                     const std::function<bool(int64_t, std::string_view)>& visit);
// The integer field `name` of "{name=1 ..}"; 0 if absent.
int64_t IntegerField(std::string_view text, std::string_view name);
// Two of them at once.
std::pair<int64_t, int64_t> IntegerFields(std::string_view text, std::string_view first,
                                          std::string_view second);

// key -> value as written (with its quotes or braces), in written order.
std::vector<std::pair<std::string_view, std::string_view>> ParseFrontendAttributes(
    std::string_view text);
// The unquoted value of `key`; empty if absent.
std::string FrontendAttribute(std::string_view text, std::string_view key);
// `text` with key set to the string `value` (quoted and escaped), keys sorted; in `arena`.
std::string_view WithFrontendAttribute(Arena& arena, std::string_view text, std::string_view key,
                                       std::string_view value);

std::string Quoted(std::string_view text);    // "\"..\"" with C escapes
std::string Unquoted(std::string_view text);  // inverse, quotes optional

}  // namespace gshard

#endif  // GSHARD_IR_METADATA_H_
