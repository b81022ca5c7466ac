// Random well-formed programs: a seed gives one program, always the same.
#ifndef GSHARD_TESTS_PROPERTY_RANDOM_PROGRAM_H_
#define GSHARD_TESTS_PROPERTY_RANDOM_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/property/program.h"

namespace gshard::property {

struct ProgramOptions {
  std::string focus = {};  // a family (see FamilyNames) of which half the operations are
  int64_t devices = 0;     // 0: any number
  // No tuples among the entry's parameters, none of the operations that XLA does not implement.
  bool for_xla = false;
  // Annotations as Shardy's attributes: open dims, priorities, parts of axes, axes that stay
  // replicated, constraints, barriers, a sharding group, borders of manual regions.
  bool shardy = false;
};

// Of 3 to 15 operations.
Program MakeRandomProgram(uint64_t seed, const ProgramOptions& options = {});

std::vector<std::string> FamilyNames();

// The opcodes that programs are made of: all that can be run and compared.
std::vector<Opcode> GeneratedOpcodes();

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_RANDOM_PROGRAM_H_
