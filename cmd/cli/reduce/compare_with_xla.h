// The program that compares gshard-run with XLA, in Python, as text.
#ifndef GSHARD_CMD_CLI_REDUCE_COMPARE_WITH_XLA_H_
#define GSHARD_CMD_CLI_REDUCE_COMPARE_WITH_XLA_H_

#include <string_view>

namespace gshard {

// compare_with_xla.py, whose first lines say how it is called. The build makes the source of this
// function of it.
std::string_view CompareWithXlaScript();

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_REDUCE_COMPARE_WITH_XLA_H_
