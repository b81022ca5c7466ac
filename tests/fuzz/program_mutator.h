// Programs that are damaged a little: words, numbers and lines of given ones, or their bytes.
#ifndef GSHARD_TESTS_FUZZ_PROGRAM_MUTATOR_H_
#define GSHARD_TESTS_FUZZ_PROGRAM_MUTATOR_H_

#include <cstdint>
#include <string>
#include <vector>

namespace gshard::fuzz {

// The program of this number: one of `cases` with one to three changes. The same on every machine.
std::string MutatedProgram(const std::vector<std::string>& cases, uint64_t seed, uint64_t number);

// The same for a reader, whose input may be any bytes: every other change is one of bytes.
std::string MutatedBytes(const std::vector<std::string>& cases, uint64_t seed, uint64_t number);

}  // namespace gshard::fuzz

#endif  // GSHARD_TESTS_FUZZ_PROGRAM_MUTATOR_H_
