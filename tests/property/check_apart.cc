// Verdicts come back through pipes: a Header, then the texts it counts.
#include "tests/property/check_apart.h"

#include <fmt/format.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstring>
#include <deque>
#include <vector>

#include "ir/diagnostic.h"

namespace gshard::property {
namespace {

struct Header {
  uint64_t number = 0;
  Verdict::Kind kind = Verdict::Kind::kPassed;
  uint32_t failure_bytes = 0, detail_bytes = 0;
  OpcodeSet tiled = {};
};

void WriteAll(int file, const std::string& text) {
  for (size_t at = 0; at < text.size();) {
    const ssize_t written = write(file, text.data() + at, text.size() - at);
    if (written <= 0) return;
    at += static_cast<size_t>(written);
  }
}

std::string Packed(uint64_t number, const Verdict& verdict) {
  const Header header{number, verdict.kind, static_cast<uint32_t>(verdict.failure.size()),
                      static_cast<uint32_t>(verdict.detail.size()), verdict.tiled};
  std::string bytes(sizeof header, '\0');
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes + verdict.failure + verdict.detail;
}

// One process and the cases it has not reported yet.
struct Worker {
  pid_t process = 0;
  int file = -1;
  std::deque<uint64_t> numbers;
  std::string received;
};

class Pool {
 public:
  Pool(const ApartOptions& options, const std::function<std::optional<uint64_t>()>& next,
       const std::function<Verdict(uint64_t)>& check,
       const std::function<bool(uint64_t, const Verdict&)>& report)
      : options_(options), next_(next), check_(check), report_(report) {}

  void Run() {
    while (true) {
      while (!stopped_ && workers_.size() < static_cast<size_t>(options_.jobs) && Start()) {
      }
      if (workers_.empty()) return;
      std::vector<pollfd> files;
      for (const Worker& worker : workers_) files.push_back({worker.file, POLLIN, 0});
      poll(files.data(), files.size(), -1);
      for (size_t i = files.size(); i-- > 0;) {
        if (files[i].revents != 0) Receive(i);
      }
    }
  }

 private:
  // A process for the next batch; false: there is nothing left to do.
  bool Start() {
    Worker worker;
    while (worker.numbers.size() < options_.batch) {
      if (!again_.empty()) {
        worker.numbers.push_back(again_.front());
        again_.pop_front();
      } else if (std::optional<uint64_t> number = next_()) {
        worker.numbers.push_back(*number);
      } else {
        break;
      }
    }
    if (worker.numbers.empty()) return false;
    int ends[2];
    if (pipe(ends) != 0) throw InternalError("no pipe");
    worker.process = fork();
    if (worker.process < 0) throw InternalError("no process");
    if (worker.process == 0) {
      close(ends[0]);
      Work(worker.numbers, ends[1]);
    }
    close(ends[1]);
    worker.file = ends[0];
    workers_.push_back(std::move(worker));
    return true;
  }

  // So many seconds of processor time, which a busy machine does not shorten; and of a process that
  // waits for ever, ten times as many.
  static void LimitTime(unsigned seconds) {
    const itimerval limit{{0, 0}, {static_cast<time_t>(seconds), 0}};
    setitimer(ITIMER_PROF, &limit, nullptr);
    alarm(10 * seconds);
  }

  [[noreturn]] void Work(const std::deque<uint64_t>& numbers, int file) const {
    std::signal(SIGALRM, SIG_DFL);
    std::signal(SIGPROF, SIG_DFL);
    const rlim_t bytes = rlim_t{options_.memory_gib} << 30;
    const rlimit limit{bytes, bytes}, no_core{0, 0};
    if (bytes != 0) setrlimit(RLIMIT_AS, &limit);
    setrlimit(RLIMIT_CORE, &no_core);
    for (uint64_t number : numbers) {
      LimitTime(options_.seconds);
      WriteAll(file, Packed(number, check_(number)));
    }
    _exit(0);
  }

  void Receive(size_t i) {
    char buffer[65536];
    const ssize_t count = read(workers_[i].file, buffer, sizeof buffer);
    if (count <= 0) {
      Finish(i);
      return;
    }
    std::string& received = workers_[i].received;
    received.append(buffer, static_cast<size_t>(count));
    size_t at = 0;
    while (received.size() - at >= sizeof(Header)) {
      Header header;
      std::memcpy(&header, received.data() + at, sizeof header);
      const size_t texts = header.failure_bytes + header.detail_bytes;
      if (received.size() - at < sizeof header + texts) break;
      at += sizeof header;
      const Verdict verdict{header.kind, received.substr(at, header.failure_bytes),
                            received.substr(at + header.failure_bytes, header.detail_bytes),
                            header.tiled};
      at += texts;
      workers_[i].numbers.pop_front();
      Report(header.number, verdict);
    }
    received.erase(0, at);
  }

  // The process is gone. What it was at is to blame; what it had not begun is for another.
  void Finish(size_t i) {
    const Worker worker = std::move(workers_[i]);
    workers_.erase(workers_.begin() + static_cast<std::ptrdiff_t>(i));
    close(worker.file);
    int status = 0;
    waitpid(worker.process, &status, 0);
    if (stopped_ || worker.numbers.empty()) return;
    again_.insert(again_.end(), worker.numbers.begin() + 1, worker.numbers.end());
    std::string failure = fmt::format("exit {}", WEXITSTATUS(status));
    if (WIFSIGNALED(status)) {
      const int signal = WTERMSIG(status);
      const bool is_hang = signal == SIGPROF || signal == SIGALRM;
      failure = is_hang ? "hang" : fmt::format("crash: signal {}", signal);
    }
    Report(worker.numbers.front(), {Verdict::Kind::kFailed, failure});
  }

  void Report(uint64_t number, const Verdict& verdict) {
    if (stopped_ || report_(number, verdict)) return;
    stopped_ = true;
    for (const Worker& worker : workers_) kill(worker.process, SIGKILL);
  }

  const ApartOptions& options_;
  const std::function<std::optional<uint64_t>()>& next_;
  const std::function<Verdict(uint64_t)>& check_;
  const std::function<bool(uint64_t, const Verdict&)>& report_;
  std::vector<Worker> workers_;
  std::deque<uint64_t> again_;
  bool stopped_ = false;
};

}  // namespace

void CheckApart(const ApartOptions& options, const std::function<std::optional<uint64_t>()>& next,
                const std::function<Verdict(uint64_t)>& check,
                const std::function<bool(uint64_t, const Verdict&)>& report) {
  Pool(options, next, check, report).Run();
}

}  // namespace gshard::property
