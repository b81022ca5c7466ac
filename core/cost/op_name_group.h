// Groups instructions by what a pattern finds in their op_name: gshard-cost --group-by.
#ifndef GSHARD_CORE_COST_OP_NAME_GROUP_H_
#define GSHARD_CORE_COST_OP_NAME_GROUP_H_

#include <memory>
#include <string>

#include "ir/diagnostic.h"
#include "ir/instruction.h"

namespace gshard {

class OpNameGroup {
 public:
  // An RE2 pattern. Errors: E-COST-004.
  static Expected<OpNameGroup> Parse(const std::string& pattern);
  OpNameGroup(OpNameGroup&& other) noexcept;
  ~OpNameGroup();

  // The first capture, or the whole match of a pattern without any; empty where nothing matches.
  std::string Of(const Instruction& instruction) const;

 private:
  struct Pattern;
  explicit OpNameGroup(std::unique_ptr<Pattern> pattern);
  std::unique_ptr<Pattern> pattern_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_COST_OP_NAME_GROUP_H_
