// See reducer.h.

#include "core/reduce/reducer.h"

#include <algorithm>
#include <mutex>
#include <optional>
#include <thread>
#include <unordered_map>
#include <vector>

#include "core/reduce/steps.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

using reduce::Step;

std::unique_ptr<Module> Parse(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("candidate", text), std::make_shared<Context>());
  return module ? std::move(*module) : nullptr;
}

class Reducer {
 public:
  Reducer(std::string text, const ReduceOptions& options)
      : options_(options), best_(std::move(text)) {}

  Expected<Reduction> Run() {
    Reduction result;
    std::unique_ptr<Module> module = Parse(best_);
    CheckInternal(module != nullptr, "a program to reduce parses");
    result.instructions_before = reduce::CountInstructions(*module);
    if (!IsInteresting(best_)) {
      return Fail(MakeError("E-REDUCE-001", "the test does not hold for the program itself",
                            "run its command by hand: it is to exit with 0"));
    }
    // What one step leaves, another can use; until none finds anything.
    for (bool changed = true; changed && !Stopped();) {
      changed = false;
      for (const Step& step : reduce::AllSteps()) changed |= Sweep(step);
    }
    result.text = best_;
    result.instructions = reduce::CountInstructions(*Parse(best_));
    result.tests = tests_;
    return result;
  }

 private:
  bool Stopped() const {
    return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  }

  // Knows what it has seen: steps meet at the same programs again and again.
  bool IsInteresting(const std::string& text) {
    const size_t hash = std::hash<std::string>()(text);
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (auto known = answers_.find(hash); known != answers_.end()) return known->second;
      ++tests_;
    }
    const bool answer = options_.is_interesting(text);
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_[hash] = answer;
    return answer;
  }

  int64_t CountOf(const Step& step) const { return step.count(*Parse(best_)); }

  // The program after the step; nothing if it is none or the same.
  std::optional<std::string> Candidate(const Step& step, int64_t begin, int64_t end) const {
    std::unique_ptr<Module> module = Parse(best_);
    try {
      if (!step.apply(*module, begin, end)) return std::nullopt;
      reduce::CleanUp(*module);
      if (!VerifyModule(*module)) return std::nullopt;
      std::string text = PrintModule(*module, {.named = true});
      std::unique_ptr<Module> read = Parse(text);
      if (read == nullptr || !VerifyModule(*read) || text == best_) return std::nullopt;
      return text;
    } catch (const InternalError&) {
      return std::nullopt;  // a builder that was asked for what does not fit
    }
  }

  // Tests the step on `threads` chunks from `begin` on, all at once; the first that holds is taken.
  // Returns its number.
  std::optional<int64_t> TryBatch(const Step& step, int64_t begin, int64_t chunk, int64_t count) {
    std::vector<std::optional<std::string>> found(
        static_cast<size_t>(std::max(options_.threads, 1)));
    std::vector<std::thread> threads;
    for (size_t t = 0; t < found.size(); ++t) {
      const int64_t first = begin + static_cast<int64_t>(t) * chunk;
      if (first >= count) break;
      threads.emplace_back([&, t, first] {
        auto candidate = Candidate(step, first, std::min(first + chunk, count));
        if (candidate && IsInteresting(*candidate)) found[t] = std::move(candidate);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t t = 0; t < found.size(); ++t) {
      if (!found[t]) continue;
      best_ = std::move(*found[t]);
      return static_cast<int64_t>(t);
    }
    return std::nullopt;
  }

  // All items at once, then halves, quarters, .., single ones; true if anything could go.
  bool Sweep(const Step& step) {
    bool changed = false;
    int64_t count = CountOf(step);
    for (int64_t chunk = count; chunk >= 1; chunk /= 2) {
      for (int64_t begin = 0; begin < count && !Stopped();) {
        const std::optional<int64_t> taken = TryBatch(step, begin, chunk, count);
        if (!taken) {
          begin += chunk * std::max(options_.threads, 1);
          continue;
        }
        changed = true;
        begin += *taken * chunk;
        // Items behind the chunk have moved to its place, unless it stays what it was in number.
        const int64_t now = CountOf(step);
        if (now >= count) begin += chunk;
        count = now;
        if (options_.progress) {
          options_.progress(step.name, reduce::CountInstructions(*Parse(best_)));
        }
      }
    }
    return changed;
  }

  const ReduceOptions& options_;
  std::string best_;
  std::mutex mutex_;
  std::unordered_map<size_t, bool> answers_;
  int64_t tests_ = 0;
};

}  // namespace

Expected<Reduction> Reduce(const std::string& text, const ReduceOptions& options) {
  return Reducer(text, options).Run();
}

}  // namespace gshard
