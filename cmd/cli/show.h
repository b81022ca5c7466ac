// `gshard-opt show IN NAME`: a tensor's sharding as a grid of devices.
#ifndef GSHARD_CMD_CLI_SHOW_H_
#define GSHARD_CMD_CLI_SHOW_H_

#include <cstdint>
#include <string>

#include "core/pass.h"

namespace gshard {

struct ShowOptions {
  std::string input;
  std::string name;  // of an instruction, with or without '%'
  int64_t num_partitions = 0;
  bool full = false;  // all rows and columns
  bool json = false;
};

// Propagates and draws; programs of one device are refused.
int RunShow(const ShowOptions& options, PassContext& context);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_SHOW_H_
