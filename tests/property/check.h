// What must hold for every program: it partitions, the result is well-formed, prints to a fixpoint
// and computes on every device what the whole program computes.
#ifndef GSHARD_TESTS_PROPERTY_CHECK_H_
#define GSHARD_TESTS_PROPERTY_CHECK_H_

#include <bitset>
#include <cstdint>
#include <string>
#include <vector>

#include "core/propagation/propagation.h"
#include "tests/property/magnitude.h"

namespace gshard::property {

using OpcodeSet = std::bitset<static_cast<size_t>(kOpcodeCount)>;

struct Verdict {
  enum class Kind : uint8_t { kPassed, kFailed, kSkipped };
  Kind kind = Kind::kPassed;
  std::string failure = {};  // the same for the same cause: "mismatch", "E-VERIFY-004"
  std::string detail = {};   // for people
  // The opcodes of which an operand or a result lay in several tiles or in a manual region.
  OpcodeSet tiled = {};
};

struct CheckOptions {
  uint64_t seed = 0;      // of the inputs, together with the parameters' names
  bool has_nan = false;   // some float inputs are NaN
  bool thorough = false;  // one device, unfused kernels, the reference evaluator
  bool propagate_twice = false;
  bool as_xla = false;    // partitioned as XLA decides
  bool optimize = false;  // what `gshard-opt optimize` does, after partitioning
  PropagationMode mode = PropagationMode::kByText;
  // Of the outputs' leaves. Empty: by type, as gshard-run --verify.
  std::vector<Magnitude> magnitudes;
};

// `text`: the program; `plain`: the same without shardings, which says what to expect (empty:
// `text` does, and nothing is thorough). Skipped: an opcode without a kernel (E-RUN-003).
Verdict CheckProgram(const std::string& text, const std::string& plain,
                     const CheckOptions& options);

// What gshard-run runs is, to the letter, what `gshard-opt partition` prints: the texts are
// compared. Skipped: the module is for one device, or is partitioned.
Verdict CheckOneWay(const std::string& text);

// Run on `ranks` ranks, as threads of this process, and on one, with one thread and with two: the
// same bits, and as many messages and bytes as predicted. Skipped: one device.
Verdict CheckRanks(const std::string& text, int ranks, const CheckOptions& options);

// The partitioned text, or the error: for people.
std::string PartitionedText(const std::string& text);

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_CHECK_H_
