// Random well-formed programs: a seed gives one program, always the same.
#ifndef GSHARD_TESTS_PROPERTY_RANDOM_PROGRAM_H_
#define GSHARD_TESTS_PROPERTY_RANDOM_PROGRAM_H_

#include <cstdint>
#include <string>
#include <vector>

#include "tests/property/program.h"

namespace gshard::property {

// Of 3 to 15 operations. `focus`: a family (see FamilyNames) of which half the operations are;
// empty: any.
Program MakeRandomProgram(uint64_t seed, const std::string& focus = {});

std::vector<std::string> FamilyNames();

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_RANDOM_PROGRAM_H_
