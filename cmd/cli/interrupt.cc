#include "cmd/cli/interrupt.h"

#include <unistd.h>

#include <csignal>
#include <cstring>

#include "ir/output_file.h"

namespace gshard {
namespace {

constexpr unsigned kPatienceSeconds = 2;

const char* program_name = "gshard";
std::atomic<std::atomic<bool>*> work = nullptr;
static_assert(std::atomic<std::atomic<bool>*>::is_always_lock_free);

void Say(const char* text) {
  [[maybe_unused]] const ssize_t written = ::write(STDERR_FILENO, text, std::strlen(text));
}

[[noreturn]] void Leave() {
  RemoveUnfinishedFile();
  Say(program_name);
  Say(": interrupted\n");
  ::_exit(kExitInterrupted);
}

void OnInterrupt(int) {
  std::atomic<bool>* stop = work.load();
  if (stop == nullptr || stop->exchange(true)) Leave();
  ::alarm(kPatienceSeconds);
}

void OnAlarm(int) {
  if (work.load() != nullptr) Leave();
}

void Handle(int signal, void (*handler)(int)) {
  struct sigaction action = {};
  action.sa_handler = handler;
  action.sa_flags = SA_RESTART;
  sigemptyset(&action.sa_mask);
  ::sigaction(signal, &action, nullptr);
}

}  // namespace

void ExitOnInterrupt(const char* program) {
  program_name = program;
  // Who started us without Ctrl-C (nohup, a shell's background job) wants none.
  struct sigaction before = {};
  if (::sigaction(SIGINT, nullptr, &before) == 0 && before.sa_handler == SIG_IGN) return;
  Handle(SIGINT, OnInterrupt);
}

InterruptibleWork::InterruptibleWork(std::atomic<bool>* stop) {
  work = stop;
  Handle(SIGALRM, OnAlarm);
}

InterruptibleWork::~InterruptibleWork() {
  ::alarm(0);
  work = nullptr;
}

}  // namespace gshard
