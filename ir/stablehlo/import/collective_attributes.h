// Attributes that collectives and custom calls share.
#ifndef GSHARD_IR_STABLEHLO_IMPORT_COLLECTIVE_ATTRIBUTES_H_
#define GSHARD_IR_STABLEHLO_IMPORT_COLLECTIVE_ATTRIBUTES_H_

#include "ir/stablehlo/import/importer.h"

namespace gshard::stablehlo {

// `dense<[[0, 1], [2, 3]]> : tensor<2x2xi64>`. False after an error, as all converters.
bool ReadReplicaGroups(Importer& in, const Operation& op, std::string_view text,
                       const ReplicaGroups*& groups);

}  // namespace gshard::stablehlo

#endif  // GSHARD_IR_STABLEHLO_IMPORT_COLLECTIVE_ATTRIBUTES_H_
