// Commands of the shell, and the files that they work on: a reducer asks other programs.
#ifndef GSHARD_CMD_CLI_REDUCE_SHELL_COMMAND_H_
#define GSHARD_CMD_CLI_REDUCE_SHELL_COMMAND_H_

#include <atomic>
#include <cstdint>
#include <string>
#include <string_view>

namespace gshard {

// A folder of its own for files, removed at the end. Thread-safe.
class WorkFolder {
 public:
  WorkFolder();
  ~WorkFolder();
  WorkFolder(const WorkFolder&) = delete;
  WorkFolder& operator=(const WorkFolder&) = delete;

  bool IsThere() const { return !path_.empty(); }
  // A name that no other file has; it is not there yet.
  std::string NewFile(const std::string& extension);

 private:
  std::string path_;
  std::atomic<int64_t> count_{0};
};

// A file of the folder that goes with this object.
class WorkFile {
 public:
  WorkFile(WorkFolder& folder, const std::string& extension) : path_(folder.NewFile(extension)) {}
  ~WorkFile();
  WorkFile(const WorkFile&) = delete;
  WorkFile& operator=(const WorkFile&) = delete;
  const std::string& path() const { return path_; }
  bool Write(std::string_view text) const;

 private:
  std::string path_;
};

// How a command ended.
struct Ending {
  bool timed_out = false;
  int signal = 0;  // that ended it; 0: it exited
  int code = 0;    // if it exited

  bool Succeeded() const { return !timed_out && signal == 0 && code == 0; }
};

// Runs `command` by the shell, in a process group of its own, without its output. `stop` ends it
// as the time-out does.
Ending RunShellCommand(const std::string& command, int64_t timeout_s,
                       const std::atomic<bool>& stop);
// The same; *output is what it prints, without standard error.
Ending RunShellCommand(const std::string& command, int64_t timeout_s, const std::atomic<bool>& stop,
                       WorkFolder& folder, std::string* output);

// As one word of the shell.
std::string ShellQuoted(const std::string& text);
// The program beside this one, as a word of the shell; where it is not, the one on PATH.
std::string ProgramBeside(const std::string& name);
// `command` with the file, as a word of the shell, wherever it says `placeholder`.
std::string WithFile(std::string command, const std::string& placeholder, const std::string& file);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_REDUCE_SHELL_COMMAND_H_
