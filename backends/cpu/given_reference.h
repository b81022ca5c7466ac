// A program that is partitioned already beside the graph that the user says it was made of: what of
// it is the same array, and whether it can have been made of it.
#ifndef GSHARD_BACKENDS_CPU_GIVEN_REFERENCE_H_
#define GSHARD_BACKENDS_CPU_GIVEN_REFERENCE_H_

#include <cstdint>
#include <span>
#include <vector>

#include "backends/cpu/run/mesh_run.h"
#include "core/partition/partitioner.h"
#include "ir/module.h"

namespace gshard::cpu {

// `forms`, as our partitioner would have them of the reference, in `program`: where an array of the
// reference has the name and the shape there, it is taken for the same array, spread in the same
// way. A name that partitioning made up must also be made of the same, unless the program has all
// names of the reference: counted names of two programs meet by chance. None of compiled text, also
// of one device: there names are given anew while it is optimised, so that only the results are
// known to be the same; nor of a pipelined program.
std::vector<LocalForm> FormsByName(const Module& program, std::vector<LocalForm> forms);

// Which shardings the reference takes from the program's record before it is partitioned itself.
enum class TakenShardings : uint8_t { kNone, kParameters, kParametersAndResults };

// Gives `reference`, which is not partitioned yet, the shardings that `program` has of its
// parameters and results, where they are other ones. False: there is nothing to take, as the record
// is missing, is of arrays of other shapes, or says what the reference says.
bool TakeShardings(Module& reference, const Module& program, TakenShardings which);

// Is the partitioned `reference` the program that `program` is, or was before somebody changed a
// few lines of it? Parameters and results are spread alike, what has one name has one shape, and
// what computes the same has one name. If not, they were annotated differently, or names were given
// in another order, as after printing and reading.
bool IsNamedAlike(const Module& program, const Module& reference);

// Does `program` have every name that the partitioned `reference` has? Not after an optimisation.
bool HasNamesOf(const Module& program, const Module& reference);

// Where names do not tell that an array is the same (what is whole in one program may be a partial
// sum in the other): those of the `forms`, of the partitioned `reference`, that `program` makes by
// the same operations, all the way from parameters that are spread alike. They name the arrays as
// `program` does.
std::vector<LocalForm> FormsMadeAlike(const Module& program, const Module& reference,
                                      std::vector<LocalForm> forms);

// Gives the parameters of `program`, whose text has no record of ours and does not say how they are
// spread (XLA's since JAX 0.12), the shardings of those of the partitioned `reference`, where these
// make their shapes of the whole ones, and {replicated} where they are whole. Returns the numbers
// of the parameters that are cut so.
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
