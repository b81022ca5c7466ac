// What a module keeps as text, from its protos, spelled as XLA prints it: metadata, frontend
// attributes, the tables of stack frames, windows' and aliases' braces.
#ifndef GSHARD_IR_PROTO_TEXTS_H_
#define GSHARD_IR_PROTO_TEXTS_H_

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ir/arena.h"
#include "ir/name_table.h"

namespace gshard::proto {

// Each appends to `out`; false where the bytes are no message.

// OpMetadata: {op_name="a/b" source_file="f.py" source_line=3}; nothing if all fields are absent.
bool AppendMetadata(std::string_view bytes, std::string& out);
// FrontendAttributes: {a={"x":1},b="1"}, keys sorted; nothing if there are none. JSON dicts are
// bare.
bool AppendFrontendAttributes(std::string_view bytes, std::string& out);
// StackFrameIndex: the tables FileNames, FunctionNames, FileLocations and StackFrames.
bool AppendStackFrames(std::string_view bytes, std::string& out);
// OriginalValue: {{"a" {1}}}, {({"a"}, {"b" {0}})}.
bool AppendOrigin(std::string_view bytes, std::string& out);
// StatisticsViz: {visualizing_index=1,count_nan=1.5}.
bool AppendStatistics(std::string_view bytes, std::string& out);
// ResultAccuracy: {tolerance={atol=1e-06,rtol=0,ulps=2}}, {mode=highest}.
bool AppendResultAccuracy(std::string_view bytes, std::string& out);
// OutputOperandAliasing: {0}: (1, {})
bool AppendOperandAliasing(std::string_view bytes, std::string& out);

// `text` as the value of an attribute: bare where it is a JSON dict, else quoted; nothing if empty.
bool AppendBareOrQuoted(std::string_view text, std::string& out);

// `text` as it stands between the quotes of an attribute: itself or a copy in `arena`.
std::string_view Escaped(std::string_view text, Arena& arena);

// One of these texts of every instruction. Every distinct byte string is read once: instructions
// of the same metadata share its text, which is in `arena`.
class TextReader {
 public:
  using Append = bool (*)(std::string_view bytes, std::string& out);
  TextReader(Arena& arena, Append append) : arena_(&arena), append_(append) {}

  // Nothing where the bytes are no message. They must outlive the reader.
  std::optional<std::string_view> Read(std::string_view bytes) {
    return bytes.empty() ? bytes : ReadNonempty(bytes);
  }

 private:
  std::optional<std::string_view> ReadNonempty(std::string_view bytes);

  Arena* arena_;
  Append append_;
  NameTable known_;                      // the bytes
  std::vector<std::string_view> texts_;  // by their ids
  std::string text_;
};

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_TEXTS_H_
