// Where the values of a run's parameters came from: what users want to be told before they believe
// a result.
#ifndef GSHARD_BACKENDS_CPU_RUN_INPUT_SUMMARY_H_
#define GSHARD_BACKENDS_CPU_RUN_INPUT_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "backends/cpu/io/inputs.h"
#include "backends/cpu/plan/program.h"
#include "core/json.h"

namespace gshard::cpu {

struct InputSummary {
  uint64_t seed = 0;
  int64_t parameters = 0;  // leaves
  struct Random {
    std::string name, values;  // "normal, deviation 0.1"
    // Of integers that index something: what, in which range (of several the widest is told).
    std::vector<std::string> indexes;
    int64_t low = 0, high = 0;
    bool has_beyond = false;
    int64_t draws = 1;             // that it takes to reach all tiles and both ends
    std::optional<int64_t> value;  // of a scalar
  };
  std::vector<Random> random;  // not given
  struct Converted {
    std::string name, from, to;  // NumPy's type of the file, the parameter's
  };
  std::vector<Converted> converted;
  std::vector<std::string> unused;  // no result follows from them

  // Draws that it takes to reach all that random integers index (io/index_values.h).
  int64_t WantedDraws() const;
};

// `arrays`: as loaded, one a leaf. Of a program without dead operations.
InputSummary SummarizeInputs(std::span<const ParameterLeaf> leaves,
                             std::span<const GlobalArray> arrays, const Program& program,
                             uint64_t seed);

// Lines of a report, and the value of its key `inputs` (docs/json.md).
std::string ToText(const InputSummary& inputs);
Json ToJson(const InputSummary& inputs);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_RUN_INPUT_SUMMARY_H_
