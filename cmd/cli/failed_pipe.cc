#include "cmd/cli/failed_pipe.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "cmd/cli/program.h"

namespace gshard {
namespace {

bool IsPipe(int descriptor) {
  struct stat status {};
  return fstat(descriptor, &status) == 0 && S_ISFIFO(status.st_mode);
}

int MarkedSize() { return static_cast<int>(sysconf(_SC_PAGESIZE)); }

}  // namespace

void MarkFailedPipe(int exit_code) {
#ifdef F_SETPIPE_SZ
  const bool has_result = exit_code == kExitOk || exit_code == kExitCheckFailed;
  if (!has_result && IsPipe(STDOUT_FILENO)) fcntl(STDOUT_FILENO, F_SETPIPE_SZ, MarkedSize());
#endif
}

bool ReadsFromFailedPipe() {
#ifdef F_GETPIPE_SZ
  return IsPipe(STDIN_FILENO) && fcntl(STDIN_FILENO, F_GETPIPE_SZ) == MarkedSize();
#else
  return false;
#endif
}

}  // namespace gshard
