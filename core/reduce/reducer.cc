// See reducer.h.

#include "core/reduce/reducer.h"

#include <algorithm>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/reduce/loop_steps.h"
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

// A program with its inputs.
struct Candidate {
  std::string text;
  std::shared_ptr<const ReduceInputs> inputs;  // null if there are none to keep
};

class Reducer {
 public:
  Reducer(std::string text, const ReduceOptions& options)
      : options_(options), best_{std::move(text), options.inputs} {}

  Expected<Reduction> Run() {
    Reduction result;
    std::unique_ptr<Module> module = Parse(best_.text);
    CheckInternal(module != nullptr, "a program to reduce parses");
    result.instructions_before = reduce::CountInstructions(*module);
    bounds_ = reduce::BoundsOf(*module);
    if (!IsInteresting(best_)) {
      return Fail(MakeError("E-REDUCE-001", "the test does not hold for the program itself",
                            "run its command by hand: it is to exit with 0"));
    }
    // Without any inputs all that follows is faster.
    if (const int64_t all = CountInputs(); all > 0) TryBatch(InputsAreDropped(), 0, all, all);
    // What one step leaves, another can use; until none finds anything. A step that does not make
    // the program smaller, though it says so, does not keep the search going forever.
    constexpr int kMostRounds = 30;
    bool changed = true;
    for (int round = 0; round < kMostRounds && changed && !Stopped(); ++round) {
      changed = false;
      for (const Step& step : reduce::AllSteps()) {
        if (!step.keeps_ends || CountInputs() > 0) changed |= Sweep(Taken(step));
      }
      changed |= Sweep(InputsAreDropped());
    }
    result.text = best_.text;
    result.inputs = best_.inputs;
    result.instructions = reduce::CountInstructions(*Parse(best_.text));
    result.tests = tests_;
    return result;
  }

 private:
  // A step on programs or on their inputs.
  struct Change {
    const char* name;
    std::function<int64_t()> count;  // of items of `best_`
    // Does it to items [begin, end); nothing if that makes no program, or the same.
    std::function<std::optional<Candidate>(int64_t begin, int64_t end)> make;
  };

  bool Stopped() const {
    return options_.stop != nullptr && options_.stop->load(std::memory_order_relaxed);
  }

  // Knows what it has seen: steps meet at the same programs again and again.
  bool IsInteresting(const Candidate& candidate) {
    size_t hash = std::hash<std::string>()(candidate.text);
    if (candidate.inputs != nullptr) hash ^= candidate.inputs->digest * 0x9E3779B97F4A7C15u;
    {
      const std::lock_guard<std::mutex> lock(mutex_);
      if (auto known = answers_.find(hash); known != answers_.end()) return known->second;
      ++tests_;
    }
    const bool answer = options_.is_interesting(candidate.text, candidate.inputs.get());
    const std::lock_guard<std::mutex> lock(mutex_);
    answers_[hash] = answer;
    return answer;
  }

  Change Taken(const Step& step) {
    return {step.name, [this, &step] { return step.count(*Parse(best_.text)); },
            [this, &step](int64_t begin, int64_t end) { return After(step, begin, end); }};
  }

  std::optional<Candidate> After(const Step& step, int64_t begin, int64_t end) const {
    std::unique_ptr<Module> module = Parse(best_.text);
    if (!step.apply(*module, begin, end)) return std::nullopt;
    reduce::CleanUp(*module);
    if (!VerifyModule(*module) || RunsLonger(*module)) return std::nullopt;
    std::string text = PrintModule(*module, {.named = true});
    std::unique_ptr<Module> read = Parse(text);
    if (read == nullptr || !VerifyModule(*read) || text == best_.text) return std::nullopt;
    return WithInputs(std::move(text), *read, step.keeps_ends);
  }

  // Has it a loop that may run forever, or longer than those of `best_` do?
  bool RunsLonger(const Module& module) const {
    const reduce::LoopBounds now = reduce::BoundsOf(module);
    return now.uncounted > bounds_.uncounted || now.most_trips > bounds_.most_trips;
  }

  // The program `module`, whose text it is, with what its inputs have become.
  std::optional<Candidate> WithInputs(std::string text, const Module& module,
                                      bool keeps_ends) const {
    if (best_.inputs == nullptr) return Candidate{std::move(text), nullptr};
    const std::vector<int64_t>& leaves = best_.inputs->leaves;
    reduce::InputRule rule{.from_end = keeps_ends, .may_compute = !leaves.empty()};
    for (;;) {
      const InputProgram program =
          reduce::MakeInputProgram(*Parse(best_.text), module, leaves, rule);
      if (program.same_places && program.leaves == leaves) {
        return Candidate{std::move(text), best_.inputs};
      }
      if (auto inputs = options_.compute_inputs(program, *best_.inputs)) {
        return Candidate{std::move(text), std::move(inputs)};
      }
      // What cannot be run, such as a custom-call, has no values: others have.
      if (program.moves_only) return std::nullopt;
      rule.may_compute = false;
    }
  }

  int64_t CountInputs() const {
    return best_.inputs == nullptr ? 0 : static_cast<int64_t>(best_.inputs->leaves.size());
  }

  // The same program, in which the inputs of these numbers are random.
  std::optional<Candidate> WithoutInputs(int64_t begin, int64_t end) const {
    std::vector<int64_t> leaves = best_.inputs->leaves;
    leaves.erase(leaves.begin() + begin, leaves.begin() + end);
    const std::unique_ptr<Module> same = Parse(best_.text);
    const InputProgram program =
        reduce::MakeInputProgram(*Parse(best_.text), *same, leaves, reduce::InputRule{});
    auto inputs = options_.compute_inputs(program, *best_.inputs);
    if (inputs == nullptr) return std::nullopt;
    return Candidate{best_.text, std::move(inputs)};
  }

  Change InputsAreDropped() {
    return {"inputs are dropped", [this] { return CountInputs(); },
            [this](int64_t begin, int64_t end) { return WithoutInputs(begin, end); }};
  }

  static std::optional<Candidate> Made(const Change& change, int64_t begin, int64_t end) {
    try {
      return change.make(begin, end);
    } catch (const InternalError&) {
      return std::nullopt;  // a builder that was asked for what does not fit
    }
  }

  // Tests the change on `threads` chunks from `begin` on, all at once; the first that holds is
  // taken. Returns its number.
  std::optional<int64_t> TryBatch(const Change& change, int64_t begin, int64_t chunk,
                                  int64_t count) {
    std::vector<std::optional<Candidate>> found(static_cast<size_t>(std::max(options_.threads, 1)));
    std::vector<std::thread> threads;
    for (size_t t = 0; t < found.size(); ++t) {
      const int64_t first = begin + static_cast<int64_t>(t) * chunk;
      if (first >= count) break;
      threads.emplace_back([&, t, first] {
        auto candidate = Made(change, first, std::min(first + chunk, count));
        if (candidate && IsInteresting(*candidate)) found[t] = std::move(candidate);
      });
    }
    for (std::thread& thread : threads) thread.join();
    for (size_t t = 0; t < found.size(); ++t) {
      if (!found[t]) continue;
      best_ = std::move(*found[t]);
      bounds_ = reduce::BoundsOf(*Parse(best_.text));
      return static_cast<int64_t>(t);
    }
    return std::nullopt;
  }

  // All items at once, then halves, quarters, .., single ones; true if anything could go.
  bool Sweep(const Change& change) {
    bool changed = false;
    int64_t count = change.count();
    for (int64_t chunk = count; chunk >= 1; chunk /= 2) {
      for (int64_t begin = 0; begin < count && !Stopped();) {
        const std::optional<int64_t> taken = TryBatch(change, begin, chunk, count);
        if (!taken) {
          begin += chunk * std::max(options_.threads, 1);
          continue;
        }
        changed = true;
        begin += *taken * chunk;
        // Items behind the chunk have moved to its place, unless it stays what it was in number.
        const int64_t now = change.count();
        if (now >= count) begin += chunk;
        count = now;
        if (options_.progress) {
          options_.progress(change.name, reduce::CountInstructions(*Parse(best_.text)));
        }
      }
    }
    return changed;
  }

  const ReduceOptions& options_;
  Candidate best_;
  reduce::LoopBounds bounds_;  // of `best_`
  std::mutex mutex_;
  std::unordered_map<size_t, bool> answers_;
  int64_t tests_ = 0;
};

}  // namespace

Expected<Reduction> Reduce(const std::string& text, const ReduceOptions& options) {
  return Reducer(text, options).Run();
}

}  // namespace gshard
