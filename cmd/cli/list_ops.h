// gshard-opt list-ops: which layer knows what of each opcode.
#ifndef GSHARD_CMD_CLI_LIST_OPS_H_
#define GSHARD_CMD_CLI_LIST_OPS_H_

namespace gshard {

// Prints the matrix opcode x layer, as a table or as JSON (gshard.list_ops/1).
int RunListOps(bool json);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_LIST_OPS_H_
