// The program that plans are put on: the user's, with the annotations that stay, calls written out,
// over the mesh.
#ifndef GSHARD_CORE_AUTOSHARD_PREPARED_PROGRAM_H_
#define GSHARD_CORE_AUTOSHARD_PREPARED_PROGRAM_H_

#include <memory>
#include <string>

#include "core/autoshard/auto_sharding.h"

namespace gshard::autoshard {

struct PreparedProgram {
  std::string text;     // with what stays, as HLO
  std::string written;  // with all annotations of the user; empty: nothing else, or another mesh
  std::string command;  // a shell pipeline from the user's file to `text`
  std::string written_command;   // the same to `written`; empty where that is moved to other axes
  int64_t kept_annotations = 0;  // of the user that `text` has as they were, without rules' own
};

// Errors: as ShardAutomatically.
Expected<PreparedProgram> Prepare(std::unique_ptr<Module> module, const std::string& input,
                                  const AutoOptions& options);

// The same for one device, with no annotation at all. Errors: annotations that are to stay
// (E-AUTO-003).
Expected<PreparedProgram> PrepareForOneDevice(std::unique_ptr<Module> module,
                                              const std::string& input, const AutoOptions& options);

// For a shell, in quotes.
std::string ShellWord(const std::string& text);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_PREPARED_PROGRAM_H_
