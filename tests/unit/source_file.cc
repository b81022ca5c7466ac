// See source_file.h.

#include "tests/unit/source_file.h"

namespace gshard {

std::string SourceFile(std::string_view path) {
  std::string file = GSHARD_SOURCE_DIR;
  file += '/';
  file += path;
  return file;
}

}  // namespace gshard
