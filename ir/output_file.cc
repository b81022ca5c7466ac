#include "ir/output_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <climits>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"

namespace gshard {
namespace {

namespace fs = std::filesystem;

char unfinished_path[PATH_MAX];
std::atomic<bool> is_unfinished = false;

tl::unexpected<Diagnostic> CannotWrite(const std::string& path, int error) {
  return Fail(
      MakeError("E-IO-003", fmt::format("cannot write '{}': {}", path, std::strerror(error))));
}

bool WriteAll(int file, std::string_view data) {
  while (!data.empty()) {
    const ssize_t count = ::write(file, data.data(), data.size());
    if (count < 0 && errno == EINTR) continue;
    if (count <= 0) return false;
    data.remove_prefix(static_cast<size_t>(count));
  }
  return true;
}

// Closes in any case; errno is that of the first failure.
bool WriteAndClose(int file, std::string_view data) {
  const bool written = WriteAll(file, data);
  const int error = errno;
  const bool closed = ::close(file) == 0;
  if (!written) errno = error;
  return written && closed;
}

Expected<void> WriteInPlace(const std::string& path, std::string_view data) {
  const int file = ::open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
  if (file < 0 || !WriteAndClose(file, data)) return CannotWrite(path, errno);
  return {};
}

mode_t ModeOfNewFiles() {
  const mode_t mask = ::umask(0);
  ::umask(mask);
  return 0666 & ~mask;
}

}  // namespace

std::string OutputTarget(const std::string& path) {
  constexpr int kMaxLinks = 40;  // as Linux follows
  fs::path target = path;
  std::error_code error;
  for (int i = 0; i < kMaxLinks && fs::is_symlink(target, error); ++i) {
    const fs::path next = fs::read_symlink(target, error);
    if (error) break;
    target = next.is_absolute() ? next : target.parent_path() / next;
  }
  return target.string();
}

Expected<void> WriteWholeFile(const std::string& path, std::string_view data) {
  const std::string target = OutputTarget(path);
  struct stat there = {};
  const bool exists = ::stat(target.c_str(), &there) == 0;
  if (exists && !S_ISREG(there.st_mode)) return WriteInPlace(target, data);
  // A file that may not be written is not replaced either, although its folder would allow it.
  if (exists && ::access(target.c_str(), W_OK) != 0) return CannotWrite(path, errno);
  // The name is known before there is such a file, so that a signal finds it whenever it comes.
  const std::string beside = fmt::format("{}.{}.part", target, ::getpid());
  if (beside.size() >= sizeof unfinished_path) return CannotWrite(path, ENAMETOOLONG);
  std::memcpy(unfinished_path, beside.c_str(), beside.size() + 1);
  is_unfinished = true;
  constexpr int kNew = O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC;
  int file = ::open(beside.c_str(), kNew, 0600);
  if (file < 0 && errno == EEXIST &&
      ::unlink(beside.c_str()) == 0) {  // of a process that was killed
    file = ::open(beside.c_str(), kNew, 0600);
  }
  if (file < 0) {
    is_unfinished = false;
    return exists || errno == ENAMETOOLONG ? WriteInPlace(target, data) : CannotWrite(path, errno);
  }
  const bool has_mode = ::fchmod(file, exists ? there.st_mode & 07777 : ModeOfNewFiles()) == 0;
  const int mode_error = errno;
  if (!WriteAndClose(file, data) || !has_mode || std::rename(beside.c_str(), target.c_str()) != 0) {
    const int error = has_mode ? errno : mode_error;
    RemoveUnfinishedFile();
    return CannotWrite(path, error);
  }
  is_unfinished = false;
  return {};
}

Expected<void> CheckWritable(const std::string& path) {
  const std::string target = OutputTarget(path);
  struct stat there = {};
  if (::stat(target.c_str(), &there) == 0) {
    if (S_ISDIR(there.st_mode)) return CannotWrite(path, EISDIR);
    if (::access(target.c_str(), W_OK) != 0) return CannotWrite(path, errno);
    return {};
  }
  if (errno != ENOENT) return CannotWrite(path, errno);
  const fs::path folder = fs::path(target).parent_path();
  if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
    return CannotWrite(path, errno);
  }
  return {};
}

bool IsSameOutput(const std::string& a, const std::string& b) {
  std::error_code error;
  const fs::path first = fs::weakly_canonical(fs::absolute(OutputTarget(a)), error);
  if (error) return false;
  const fs::path second = fs::weakly_canonical(fs::absolute(OutputTarget(b)), error);
  if (error) return false;
  if (fs::exists(first, error) && !fs::is_regular_file(first, error)) return false;
  return first == second || fs::equivalent(first, second, error);
}

void RemoveUnfinishedFile() {
  if (is_unfinished.exchange(false)) ::unlink(unfinished_path);
}

}  // namespace gshard
