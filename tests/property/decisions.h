// What propagation and partitioning decide for random programs, kept in a file: results alone do
// not tell a good choice from a bad one.
#ifndef GSHARD_TESTS_PROPERTY_DECISIONS_H_
#define GSHARD_TESTS_PROPERTY_DECISIONS_H_

#include <cstdint>
#include <functional>
#include <string>

namespace gshard::property {

// Compares the decisions for the program texts that `make` returns for the seeds [first, end) with
// the lines of `path`, one a seed:
//
//   SEED SHARDINGS COLLECTIVES BYTES
//
// SHARDINGS: a hash of the sharding of every instruction after propagation; COLLECTIVES: how many
// the partitioned program has; BYTES: what a device sends in one step. With GSHARD_UPDATE=1 writes
// these lines anew. Prints what differs and "N passed, N failed"; returns
// the exit code.
int CheckDecisions(const std::string& path, uint64_t first, uint64_t end,
                   const std::function<std::string(uint64_t)>& make);

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_DECISIONS_H_
