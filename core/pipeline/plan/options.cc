#include "core/pipeline/plan/options.h"

#include <charconv>

#include "fmt/format.h"

namespace gshard::pipeline {
namespace {

template <typename T>
struct Word {
  std::string_view text;
  T value;
};

constexpr Word<ScheduleKind> kSchedules[] = {{"gpipe", ScheduleKind::kGPipe},
                                             {"1f1b", ScheduleKind::k1F1B},
                                             {"interleaved", ScheduleKind::kInterleaved},
                                             {"zero-bubble", ScheduleKind::kZeroBubble},
                                             {"shift", ScheduleKind::kShift}};
constexpr Word<Remat> kRemats[] = {
    {"stage", Remat::kStage},
    {"none", Remat::kNone},
    {"program", Remat::kProgram},
    {"all", Remat::kAll}};
constexpr Word<WeightPlacement> kPlacements[] = {{"sharded", WeightPlacement::kSharded},
                                                 {"replicated", WeightPlacement::kReplicated}};

template <typename T, size_t n>
Expected<T> Find(const Word<T> (&words)[n], std::string_view text, std::string_view flag) {
  std::string choices;
  for (const Word<T>& word : words) {
    if (word.text == text) return word.value;
    choices += choices.empty() ? "" : ", ";
    choices += word.text;
  }
  return Fail(MakeError("E-USAGE-004", fmt::format("{}: '{}' is none of its words", flag, text),
                        "one of " + choices));
}

template <typename T, size_t n>
std::string_view TextOf(const Word<T> (&words)[n], T value) {
  for (const Word<T>& word : words) {
    if (word.value == value) return word.text;
  }
  return "";
}

}  // namespace

int64_t StagesOfDevice(const PipelineOptions& options) {
  switch (options.schedule) {
    case ScheduleKind::kInterleaved:
      return options.repeats == 0 ? 2 : options.repeats;
    case ScheduleKind::kShift:
      return options.repeats == 0 ? 1 : options.repeats;
    default:
      return 1;
  }
}

double ForwardsInBackward(Remat remat, bool is_last_of_stage) {
  if (KeepsValues(remat)) return 0;
  return remat == Remat::kStage || is_last_of_stage ? 1 : 2;
}

Expected<ScheduleKind> ParseSchedule(std::string_view text) {
  return Find(kSchedules, text, "--schedule");
}

Expected<Remat> ParseRemat(std::string_view text) { return Find(kRemats, text, "--remat"); }

Expected<WeightPlacement> ParseWeights(std::string_view text) {
  return Find(kPlacements, text, "--weights");
}

Expected<BatchRule> ParseBatchRule(std::string_view text) {
  size_t equals = text.rfind('=');
  BatchRule rule;
  rule.text = text;
  if (equals != std::string_view::npos && equals > 0) {
    rule.pattern = text.substr(0, equals);
    std::string_view number = text.substr(equals + 1);
    auto [end, error] =
        std::from_chars(number.data(), number.data() + number.size(), rule.dimension);
    if (error == std::errc() && end == number.data() + number.size() && rule.dimension >= 0) {
      return rule;
    }
  }
  return Fail(MakeError("E-USAGE-004", fmt::format("--batch: '{}' is not REGEX=DIM", text),
                        "for example --batch 'param:3=0'"));
}

std::string_view NameOf(ScheduleKind kind) { return TextOf(kSchedules, kind); }
std::string_view NameOf(Remat remat) { return TextOf(kRemats, remat); }
std::string_view NameOf(WeightPlacement weights) { return TextOf(kPlacements, weights); }

}  // namespace gshard::pipeline
