// Linux tells free memory in /proc/meminfo, a control group's limit under /sys/fs/cgroup, and how
// much address space the process has in /proc/self/statm.
#include "ir/free_memory.h"

#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <optional>
#include <sstream>
#include <string>

namespace gshard {
namespace {

// The number a file holds; none if it says something else ("max") or is not there.
std::optional<int64_t> NumberIn(const char* path) {
  std::ifstream file(path);
  int64_t number = 0;
  if (file >> number) return number;
  return std::nullopt;
}

// The bytes of some lines of /proc/meminfo.
std::optional<int64_t> FreeOnMachine() {
  std::ifstream file("/proc/meminfo");
  std::string line, key;
  int64_t kibibytes = 0, bytes = 0;
  bool found = false;
  while (std::getline(file, line)) {
    std::istringstream words(line);
    if (!(words >> key >> kibibytes)) continue;
    if (key == "MemAvailable:" || key == "SwapFree:") bytes += kibibytes * 1024;
    found |= key == "MemAvailable:";
  }
  if (!found) return std::nullopt;
  return bytes;
}

// What `ulimit -v` leaves of the address space, but for an eighth, which goes to stacks and what
// the allocator has in pieces.
std::optional<int64_t> FreeAddresses() {
  rlimit limit{};
  const std::optional<int64_t> pages = NumberIn("/proc/self/statm");
  if (getrlimit(RLIMIT_AS, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY || !pages) {
    return std::nullopt;
  }
  const int64_t left = static_cast<int64_t>(limit.rlim_cur) - *pages * sysconf(_SC_PAGESIZE);
  return std::max<int64_t>(0, left - left / 8);
}

}  // namespace

int64_t FreeMemory(int64_t held) {
  const std::optional<int64_t> free = FreeOnMachine();
  int64_t bytes = free ? *free + held : INT64_MAX;
  for (const char* limit :
       {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"}) {
    bytes = std::min(bytes, NumberIn(limit).value_or(INT64_MAX));
  }
  return std::min(bytes, FreeAddresses().value_or(INT64_MAX));
}

}  // namespace gshard
