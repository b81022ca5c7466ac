// Where XLA's partitioner sends something else than ours, by kind of collective and mesh axes, and
// the values that it has whole on every device for want of a better way.
#ifndef GSHARD_CORE_REPORT_XLA_AS_XLA_H_
#define GSHARD_CORE_REPORT_XLA_AS_XLA_H_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/json.h"
#include "core/report/collective_report.h"
#include "core/spmd/per_device_module.h"
#include "ir/mesh.h"
#include "ir/module.h"

namespace gshard {

// Collectives of one kind along the same axes.
struct AsXlaRow {
  std::string kind;
  std::vector<std::string> axes;
  double bytes_per_device = 0;      // sent in one step, by the program as it is
  double xla_bytes_per_device = 0;  // partitioned as XLA decides
};

// A value that XLA's partitioner gathers whole on every device and cuts again: it warns of an
// "involuntary full rematerialization".
struct AsXlaRematerialization {
  std::string value, user;  // instructions; the user may be the value itself
  std::string op_name;      // of the value
  std::string source;       // "model.py:12" of the value; empty if unknown
  std::string user_source;
  std::string has, wants;       // by mesh axes
  int64_t whole_bytes = 0;      // that every device then holds
  double bytes_per_device = 0;  // sent to bring it together; 0: another one did
  double program_bytes = 0;     // what a device sends in the whole step
  // The annotation that avoids it, and what a device sends in the step with it.
  std::optional<CollectiveReport::Rematerialization::Advice> advice;
};

struct AsXla {
  std::vector<AsXlaRow> rows;
  std::vector<AsXlaRematerialization> rematerializations;
};

// Where annotations that avoid rematerialisations are tried: on the program as its user wrote it.
struct AsXlaTrials {
  const Module* written = nullptr;  // null: none are tried
  PropagationOptions propagation;
  PerDeviceOptions way;
  size_t limit = 0;  // of rematerialisations
};

// Partitions a program as XLA decides (PartitionPolicies::AsXla) and compares what it sends with
// what `partitioned` does, which was made of it. `propagated`: its shardings are taken as they are;
// it is used up. Rows of both, most bytes on either side first; none if no row differs by a
// hundredth. Errors: those of the partitioner.
Expected<AsXla> CompareAsXla(Module& propagated, Module& partitioned, const AsXlaTrials& trials);

// Of a module that was partitioned as XLA decides, and its report: the recorder's ones.
std::vector<AsXlaRematerialization> RematerializationsOf(Module& as_xla,
                                                         const CollectiveReport& report);

// Rows that differ, under a line with the sums, and what is rematerialised; empty if there is
// neither.
std::string AsXlaText(const AsXla& as_xla, const std::vector<MeshAxis>& mesh);
Json AsXlaRows(const AsXla& as_xla);
Json AsXlaRematerializations(const AsXla& as_xla);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_XLA_AS_XLA_H_
