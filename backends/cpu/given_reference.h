// A program that is partitioned already beside the graph that the user says it was made of: what of
// it is the same array, and whether it can have been made of it.
#ifndef GSHARD_BACKENDS_CPU_GIVEN_REFERENCE_H_
#define GSHARD_BACKENDS_CPU_GIVEN_REFERENCE_H_

#include <span>
#include <vector>

#include "backends/cpu/run/mesh_run.h"
#include "core/partition/partitioner.h"
#include "ir/module.h"

namespace gshard::cpu {

// Did gshard-opt pipeline make the program? Its mesh has one axis more than the graph's.
bool IsPipelined(const Module& program);

// `forms`, as our partitioner would have them of the reference, in `program`: where an array of the
// reference has the name and the shape there, it is taken for the same array, spread in the same
// way. None of XLA's compiled text: there names are given anew while it is optimised, so that only
// the results are known to be the same; nor of a pipelined program.
std::vector<LocalForm> FormsByName(const Module& program, std::vector<LocalForm> forms);

// Gives the parameters of `program`, whose text has no record of ours and does not say how they are
// spread (XLA's since JAX 0.12), the shardings of those of the partitioned `reference`, where these
// make their shapes of the whole ones. Returns the numbers of the parameters that took one.
std::vector<int64_t> TakeParameterShardings(Module& program, const Module& reference,
                                            std::span<const Shape* const> whole);

// How the results of the partitioned `reference` are spread, by leaf, in the context of `program`.
Expected<std::vector<const Sharding*>> ResultShardings(const Module& program,
                                                       const Module& reference);

// Are the program's parameters shards of the reference's, whose leaves have the shapes `whole`?
// Errors: E-RUN-VERIFY.
Expected<void> CheckParameters(const Module& program, std::span<const Shape* const> whole);

// Do the first `count` results of `run`, which runs `program`, form those of the reference, which
// are spread as `reference` says? Errors: E-RUN-VERIFY.
Expected<void> CheckResults(const MeshRun& run, const Module& program, size_t count,
                            std::span<const OutputArray> expected,
                            std::span<const Sharding* const> reference);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_GIVEN_REFERENCE_H_
