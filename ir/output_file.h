// Writing a whole file: who reads it meanwhile, or after a crash, a full disk or Ctrl-C, has the
// old file or the new one, never a part.
#ifndef GSHARD_IR_OUTPUT_FILE_H_
#define GSHARD_IR_OUTPUT_FILE_H_

#include <string>
#include <string_view>

#include "ir/diagnostic.h"

namespace gshard {

// Writes `data` beside `path` and renames it. A symlink's target is replaced, not the link; the
// mode of a file that is there is kept. What is no regular file (/dev/stdout, a pipe), or lies in a
// folder that takes no new files, is written in place. Errors: E-IO-003, and nothing is left
// behind. Not thread safe.
Expected<void> WriteWholeFile(const std::string& path, std::string_view data);

// Where the bytes go: behind symlinks, also those that lead nowhere yet.
std::string OutputTarget(const std::string& path);

// Would WriteWholeFile find a place for `path`? Writes nothing and leaves nothing behind.
Expected<void> CheckWritable(const std::string& path);

// Do both name one file, or would they once it is there? Of what is no regular file: no.
bool IsSameOutput(const std::string& a, const std::string& b);

// Removes what WriteWholeFile has not renamed yet. For signal handlers (async-signal-safe).
void RemoveUnfinishedFile();

}  // namespace gshard

#endif  // GSHARD_IR_OUTPUT_FILE_H_
