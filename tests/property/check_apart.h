// A check in a process of its own, so that crashes and hangs are failures like others.
#ifndef GSHARD_TESTS_PROPERTY_CHECK_APART_H_
#define GSHARD_TESTS_PROPERTY_CHECK_APART_H_

#include "tests/property/check.h"

namespace gshard::property {

// As CheckProgram; also "crash: signal N", and "hang" after so many seconds. The calling process
// must not have started threads.
Verdict CheckApart(const std::string& text, const std::string& plain, const CheckOptions& options,
                   unsigned seconds);

}  // namespace gshard::property

#endif  // GSHARD_TESTS_PROPERTY_CHECK_APART_H_
