#include "cmd/cli/progress_line.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdio>

namespace gshard {
namespace {

constexpr auto kSilence = std::chrono::seconds(1);
constexpr auto kInterval = std::chrono::milliseconds(100);
constexpr int kPlaces = 30;
constexpr double kMinShare = 0.02;  // from which the rest can be told

}  // namespace

ProgressLine::ProgressLine(bool enabled) {
  if (enabled) drawer_ = std::thread([this] { DrawUntilEnd(); });
}

void ProgressLine::Show(const std::string& phase, double share) {
  const std::lock_guard lock(mutex_);
  told_ = Clock::now();
  const bool is_new = phase != phase_;
  if (is_new || share < share_) {
    pass_ = is_new ? 1 : pass_ + 1;
    phase_ = phase;
    phase_start_ = told_;
    start_share_ = share;
  }
  share_ = share;
}

void ProgressLine::Clear() {
  const std::lock_guard lock(mutex_);
  Erase();
}

void ProgressLine::End() {
  {
    const std::lock_guard lock(mutex_);
    has_ended_ = true;
    Erase();
  }
  changed_.notify_all();
  if (drawer_.joinable()) drawer_.join();
}

void ProgressLine::DrawUntilEnd() {
  std::unique_lock lock(mutex_);
  changed_.wait_until(lock, start_ + kSilence, [this] { return has_ended_; });
  while (!has_ended_) {
    if (!phase_.empty()) Draw(Clock::now());
    changed_.wait_for(lock, kInterval, [this] { return has_ended_; });
  }
}

void ProgressLine::Draw(Clock::time_point now) {
  const int filled = static_cast<int>(share_ * kPlaces);
  std::string line = fmt::format("\r{:<12} [{:#<{}}{:.<{}}] {:3.0f}%",
                                 pass_ == 1 ? phase_ : fmt::format("{} ({})", phase_, pass_), "",
                                 filled, "", kPlaces - filled, share_ * 100);
  const double done = share_ - start_share_;
  if (done > kMinShare) {
    const auto seconds = [&](Clock::time_point end) {
      return std::chrono::duration<double>(end - phase_start_).count();
    };
    const double whole = seconds(told_) * (1 - start_share_) / done;
    line += fmt::format(" {:.0f} s left", std::max(0.0, whole - seconds(now)));
  }
  fmt::print(stderr, "{}\x1b[K", line);
  std::fflush(stderr);
  is_visible_ = true;
}

void ProgressLine::Erase() {
  if (!is_visible_) return;
  fmt::print(stderr, "\r\x1b[K");
  std::fflush(stderr);
  is_visible_ = false;
}

}  // namespace gshard
