// What the patterns of annotation rules are matched against.
#ifndef GSHARD_CORE_TRANSFORMS_ANNOTATIONS_INSTRUCTION_NAMES_H_
#define GSHARD_CORE_TRANSFORMS_ANNOTATIONS_INSTRUCTION_NAMES_H_

#include <cstdint>
#include <string>
#include <vector>

#include "ir/module.h"

namespace gshard {

// Names, op_name paths and, of the entry's parameters, "param:K". Read once: rules may be many. A
// snapshot: invalid after the module changes.
class InstructionNames {
 public:
  explicit InstructionNames(const Module& module);

  // What `pattern` (RE2, partial match, of param:K as ParameterPattern) finds, in text order.
  // Errors: E-ANNOTATE-002.
  Expected<std::vector<Instruction*>> Matching(const std::string& pattern) const;

 private:
  struct Entry {
    Instruction* instruction = nullptr;
    int32_t op_name = -1;    // index; -1: it has no metadata
    int64_t parameter = -1;  // its number; -1: it is none of the entry's
  };
  std::vector<Entry> entries_;
  std::vector<std::string> op_names_;  // of instructions with the same metadata once
};

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_ANNOTATIONS_INSTRUCTION_NAMES_H_
