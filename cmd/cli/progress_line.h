// How far a long run is: one line on a terminal, drawn again ten times a second.
#ifndef GSHARD_CMD_CLI_PROGRESS_LINE_H_
#define GSHARD_CMD_CLI_PROGRESS_LINE_H_

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <string>
#include <thread>

namespace gshard {

// Nothing is drawn in the first second, so that short work leaves no trace; then the line is there
// also while a step takes long and tells nothing.
class ProgressLine {
 public:
  // Not `enabled`, it draws nothing.
  explicit ProgressLine(bool enabled);
  ~ProgressLine() { End(); }
  ProgressLine(const ProgressLine&) = delete;
  ProgressLine& operator=(const ProgressLine&) = delete;

  // `share` done of a phase. A phase that falls back is a pass of its own, "verify (2)", whose rest
  // is estimated from where it fell to.
  void Show(const std::string& phase, double share);
  // Makes room for other text.
  void Clear();
  void End();

 private:
  using Clock = std::chrono::steady_clock;

  void DrawUntilEnd();
  void Draw(Clock::time_point now);
  void Erase();

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_ended_ = false, is_visible_ = false;
  std::string phase_;
  int pass_ = 1;
  double share_ = 0, start_share_ = 0;
  const Clock::time_point start_ = Clock::now();
  Clock::time_point phase_start_ = start_, told_ = start_;
  std::thread drawer_;
};

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_PROGRESS_LINE_H_
