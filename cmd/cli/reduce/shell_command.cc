// See shell_command.h.

#include "cmd/cli/reduce/shell_command.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "cmd/cli/program.h"

namespace gshard {

WorkFolder::WorkFolder() {
  std::error_code error;
  std::string pattern =
      (std::filesystem::temp_directory_path(error) / "gshard-reduce-XXXXXX").string();
  if (mkdtemp(pattern.data()) != nullptr) path_ = pattern;
}

WorkFolder::~WorkFolder() {
  std::error_code ignored;
  if (!path_.empty()) std::filesystem::remove_all(path_, ignored);
}

std::string WorkFolder::NewFile(const std::string& extension) {
  return fmt::format("{}/{}{}", path_, ++count_, extension);
}

WorkFile::~WorkFile() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
}

bool WorkFile::Write(std::string_view text) const {
  std::ofstream file(path_, std::ios::binary);
  file.write(text.data(), static_cast<std::streamsize>(text.size()));
  file.close();
  return file.good();
}

Ending RunShellCommand(const std::string& command, int64_t timeout_s,
                       const std::atomic<bool>& stop) {
  const pid_t child = fork();
  if (child == 0) {
    setpgid(0, 0);
    signal(SIGINT, SIG_DFL);
    const int nothing = open("/dev/null", O_RDWR);
    for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
      dup2(nothing, descriptor);
    }
    execl("/bin/sh", "sh", "-c", command.c_str(), static_cast<char*>(nullptr));
    _exit(127);
  }
  Ending ending;
  if (child < 0) {
    ending.code = 127;
    return ending;
  }
  const auto deadline = std::chrono::steady_clock::now() + std::chrono::seconds(timeout_s);
  auto pause = std::chrono::microseconds(200);
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > deadline || stop) {
      kill(-child, SIGKILL);
      kill(child, SIGKILL);  // before it had its group
      waitpid(child, &status, 0);
      ending.timed_out = true;
      return ending;
    }
    std::this_thread::sleep_for(pause);
    pause = std::min(pause * 2, std::chrono::microseconds(10000));
  }
  ending.signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
  ending.code = WIFEXITED(status) ? WEXITSTATUS(status) : 0;
  return ending;
}

Ending RunShellCommand(const std::string& command, int64_t timeout_s, const std::atomic<bool>& stop,
                       WorkFolder& folder, std::string* output) {
  const WorkFile printed(folder, ".txt");
  const Ending ending =
      RunShellCommand(command + " >" + ShellQuoted(printed.path()), timeout_s, stop);
  output->clear();
  if (auto text = ReadFile(printed.path())) *output = std::move(*text);
  return ending;
}

std::string ShellQuoted(const std::string& text) {
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? std::string("'\\''") : std::string(1, c);
  return quoted + "'";
}

std::string ProgramBeside(const std::string& name) {
  std::error_code error;
  const auto self = std::filesystem::read_symlink("/proc/self/exe", error);
  const std::filesystem::path beside = self.parent_path() / name;
  return !error && std::filesystem::exists(beside, error) ? ShellQuoted(beside.string()) : name;
}

std::string WithFile(std::string command, const std::string& placeholder, const std::string& file) {
  const std::string quoted = ShellQuoted(file);
  for (size_t at = command.find(placeholder); at != command.npos;
       at = command.find(placeholder, at + quoted.size())) {
    command.replace(at, placeholder.size(), quoted);
  }
  return command;
}

}  // namespace gshard
