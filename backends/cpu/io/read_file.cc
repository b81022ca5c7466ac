#include "backends/cpu/io/read_file.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace gshard::cpu {
namespace {

constexpr size_t kShortRun = 512, kNear = 4096, kWindow = 64 << 10;  // bytes

}  // namespace

std::shared_ptr<const ReadFile> ReadFile::Open(const std::string& path) {
  const int fd = open(path.c_str(), O_RDONLY | O_CLOEXEC);
  if (fd < 0) return nullptr;
  struct stat status {};
  if (fstat(fd, &status) != 0 || !S_ISREG(status.st_mode)) {
    close(fd);
    return nullptr;
  }
  return std::shared_ptr<const ReadFile>(
      new ReadFile(path, fd, static_cast<size_t>(status.st_size)));
}

ReadFile::~ReadFile() { close(fd_); }

bool ReadFile::Read(size_t begin, std::span<std::byte> out) const {
  while (!out.empty()) {
    const ssize_t got = pread(fd_, out.data(), out.size(), static_cast<off_t>(begin));
    if (got < 0 && errno == EINTR) continue;
    if (got <= 0) return false;
    out = out.subspan(static_cast<size_t>(got));
    begin += static_cast<size_t>(got);
  }
  return true;
}

bool RunReader::Read(size_t begin, std::span<std::byte> out) {
  const bool is_near = last_begin_ <= begin && begin - last_begin_ <= kNear;
  last_begin_ = begin;
  const auto is_there = [&] {
    return begin >= window_begin_ && begin + out.size() <= window_begin_ + window_.size();
  };
  if (!is_there()) {
    if (!is_near || out.size() > kShortRun || begin >= file_.size()) return file_.Read(begin, out);
    window_begin_ = begin;
    window_.resize(std::min(kWindow, file_.size() - begin));
    if (!is_there() || !file_.Read(begin, window_)) {
      window_.clear();
      return false;
    }
  }
  std::memcpy(out.data(), window_.data() + (begin - window_begin_), out.size());
  return true;
}

}  // namespace gshard::cpu
