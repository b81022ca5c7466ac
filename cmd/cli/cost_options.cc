// See cost_options.h.

#include "cmd/cli/cost_options.h"

#include <algorithm>
#include <set>
#include <string_view>

namespace gshard {

void AddAttentionFlags(const Command& command, CostOptionFlags& flags) {
  command.Add(
      "--attention", flags.attention,
      "Attention is one kernel that makes its masks and keeps its scores to itself, or dots "
      "and a softmax that write them, in time and memory alike (default: flash)",
      {.type = "flash|materialized", .one_of = {"flash", "materialized"}});
  command.AddSwitch("--no-flash", flags.no_flash, "The old name of --attention materialized");
}

void AddTimeFlags(const Command& command, CostOptionFlags& flags) {
  command.Add("--overlap", flags.overlap,
              "Which collectives run beside compute: none, those XLA's scheduler makes async, all "
              "(default: as the chip's compiler does)",
              {.type = "none|xla|perfect", .one_of = {"none", "xla", "perfect"}});
  command.Add(
      "--cycles", flags.cycles,
      "Times of a compiled text's kernels: the cycles that its compiler wrote, where the chip's "
      "clock is known, or the model's; the report has both (default: text)",
      {.type = "text|model", .one_of = {"text", "model"}});
  command.Add("--mesh-map", flags.mesh_map,
              "Network dims under mesh axes, such as data=x+y,model=z (default: innermost axes on "
              "the nearest links)",
              {.type = "MAP"});
}

void AddGroupFlag(const Command& command, CostOptionFlags& flags) {
  command.Add("--group-by", flags.group_by,
              "Sum up by what this pattern captures in op_name, such as 'layer_(\\d+)' (default: "
              "no groups)",
              {.type = "REGEX"});
}

CostOptions ReadCostOptions(const CostOptionFlags& flags) {
  CostOptions options;
  options.overlap = flags.overlap == "none"      ? Overlap::kNone
                    : flags.overlap == "xla"     ? Overlap::kXla
                    : flags.overlap == "perfect" ? Overlap::kPerfect
                                                 : Overlap::kChipDefault;
  if (flags.no_flash && flags.attention == "flash")
    throw FlagError("--no-flash", "it says the contrary of --attention flash");
  options.fuse_attention = !flags.no_flash && flags.attention != "materialized";
  options.uses_text_cycles = flags.cycles != "model";
  options.group_by = flags.group_by;
  std::string_view rest = flags.mesh_map;
  while (!rest.empty()) {
    std::string_view entry = rest.substr(0, rest.find(','));
    rest.remove_prefix(std::min(entry.size() + 1, rest.size()));
    size_t equals = entry.find('=');
    if (equals == std::string_view::npos || equals == 0 || equals + 1 == entry.size()) {
      throw FlagError("--mesh-map", "'" + std::string(entry) + "' is not AXIS=DIM or AXIS=DIM+DIM");
    }
    const std::string axis(entry.substr(0, equals));
    if (!options.mesh_map.emplace(axis, entry.substr(equals + 1)).second) {
      throw FlagError("--mesh-map", "the axis '" + axis + "' is there twice");
    }
    std::set<std::string_view> dims;
    for (std::string_view left = entry.substr(equals + 1); !left.empty();) {
      const std::string_view dim = left.substr(0, left.find('+'));
      left.remove_prefix(std::min(dim.size() + 1, left.size()));
      if (!dims.insert(dim).second) {
        throw FlagError("--mesh-map", "'" + std::string(entry) + "' names the network dim '" +
                                          std::string(dim) + "' twice");
      }
    }
  }
  return options;
}

}  // namespace gshard
