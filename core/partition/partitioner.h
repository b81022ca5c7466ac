// The SPMD partitioner: one program that every device runs, from a sharded one (GSPMD paper,
// section 4; docs/partitioning.md).
#ifndef GSHARD_CORE_PARTITION_PARTITIONER_H_
#define GSHARD_CORE_PARTITION_PARTITIONER_H_

#include "core/partition/layout/partition_options.h"
#include "ir/module.h"

namespace gshard {

// Partitions `module` in place: every computation is rebuilt for one device, entry parameters keep
// name, number and sharding, the header records the number of devices and the output shardings.
// Shardings must have been propagated and calls with differing shardings inlined. Linear in the
// number of instructions, independent of the number of devices (printed pairs of collective-permute
// excepted). On failure (E-PARTITION-*) the module must not be used further.
Expected<PartitionStats> PartitionModule(Module& module, const PartitionOptions& options = {});

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_PARTITIONER_H_
