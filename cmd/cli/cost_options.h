// The flags of gshard-cost that say how a step is estimated: overlap, attention, groups, mesh map.
#ifndef GSHARD_CMD_CLI_COST_OPTIONS_H_
#define GSHARD_CMD_CLI_COST_OPTIONS_H_

#include <string>

#include "cmd/cli/flags.h"
#include "core/cost/cost_report.h"

namespace gshard {

struct CostOptionFlags {
  std::string overlap;    // empty: as the chip's compiler does
  std::string attention;  // empty: flash
  bool no_flash = false;
  std::string group_by;
  std::string mesh_map;
  std::string cycles;  // empty: text
};

// --attention, which says what is in memory, and its old name.
void AddAttentionFlags(const Command& command, CostOptionFlags& flags);
// Those that say how long things take, but --group-by.
void AddTimeFlags(const Command& command, CostOptionFlags& flags);
// For commands that tell of groups.
void AddGroupFlag(const Command& command, CostOptionFlags& flags);

// Throws FlagError for an invalid mesh map.
CostOptions ReadCostOptions(const CostOptionFlags& flags);

}  // namespace gshard

#endif  // GSHARD_CMD_CLI_COST_OPTIONS_H_
