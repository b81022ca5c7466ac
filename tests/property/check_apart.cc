// The verdict comes back through a pipe: kind, failure, detail.
#include "tests/property/check_apart.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>

namespace gshard::property {
namespace {

constexpr rlim_t kMemoryLimit = rlim_t{4} << 30;

void WriteAll(int file, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(file, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

std::string ReadAll(int file) {
  std::string text;
  char buffer[4096];
  for (ssize_t count = 0; (count = read(file, buffer, sizeof buffer)) > 0;) {
    text.append(buffer, static_cast<size_t>(count));
  }
  return text;
}

}  // namespace

Verdict CheckApart(const std::string& text, const std::string& plain, const CheckOptions& options,
                   unsigned seconds) {
  int ends[2];
  if (pipe(ends) != 0) return {Verdict::Kind::kFailed, "no pipe", {}};
  const pid_t child = fork();
  if (child < 0) {
    close(ends[0]);
    close(ends[1]);
    return {Verdict::Kind::kFailed, "no process", {}};
  }
  if (child == 0) {
    close(ends[0]);
    std::signal(SIGALRM, SIG_DFL);
    alarm(seconds);
    const rlimit limit{kMemoryLimit, kMemoryLimit}, no_core{0, 0};
    setrlimit(RLIMIT_AS, &limit);
    setrlimit(RLIMIT_CORE, &no_core);
    const Verdict verdict = CheckProgram(text, plain, options);
    WriteAll(ends[1], fmt::format("{}{}\n{}", static_cast<int>(verdict.kind), verdict.failure,
                                  verdict.detail));
    _exit(0);
  }
  close(ends[1]);
  const std::string answer = ReadAll(ends[0]);
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  if (WIFSIGNALED(status)) {
    if (WTERMSIG(status) == SIGALRM) return {Verdict::Kind::kFailed, "hang", {}};
    return {Verdict::Kind::kFailed, fmt::format("crash: signal {}", WTERMSIG(status)), {}};
  }
  const size_t line = answer.find('\n');
  if (line == std::string::npos || line == 0) {
    return {Verdict::Kind::kFailed, fmt::format("exit {}", WEXITSTATUS(status)), {}};
  }
  return {static_cast<Verdict::Kind>(answer[0] - '0'), answer.substr(1, line - 1),
          answer.substr(line + 1)};
}

}  // namespace gshard::property
