// The text of Shardy's attributes, as JAX prints them into frontend attributes and StableHLO:
// meshes, shardings and manual axes. Axes are kept as our mesh form spells them: 'a', 'b':(2)4.
//
// Readers return false for text that is not of that form; what they have put out by then is of no
// use. `error`, where it is given, then says what is wrong and where in `text`.
#ifndef GSHARD_IR_SHARDY_TEXT_H_
#define GSHARD_IR_SHARDY_TEXT_H_

#include <cstdint>
#include <map>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/sharding_text.h"

namespace gshard {

// A mesh as the start of our mesh form: "mesh['a'=2,'b'=4], device_ids=(0,1)" and its device if it
// names just one.
struct ShardyMesh {
  std::string text;
  bool has_axes = false;
  int64_t single_device = -1;
};
using ShardyMeshes = std::map<std::string, ShardyMesh, std::less<>>;

struct ShardySharding {
  ShardyMesh mesh;
  std::vector<std::vector<std::string>> dims;  // axes of each dim, major first
  std::vector<int64_t> open_dims;              // dims with "?", ascending
  std::vector<int64_t> priorities;             // of each dim; 0 where none is given
  // Axes by "replicated", "unreduced", and "unreduced=max", "unreduced=min" for partial values that
  // are put together in another way than by adding.
  std::vector<std::pair<std::string, std::vector<std::string>>> other;
};

// {mesh = #sdy.mesh<["a"=2]>, ..}
bool ReadShardyMeshes(std::string_view text, ShardyMeshes& meshes, TextError* error = nullptr);
// #sdy.sharding<..> or #sdy.sharding_per_value<[..]>, one per value; elements of the list may have
// `#sdy.sharding` before them.
bool ReadShardyShardings(std::string_view text, const ShardyMeshes& meshes,
                         std::vector<ShardySharding>& out, TextError* error = nullptr);
// #sdy<manual_axes{"a", "b"}>
bool ReadShardyManualAxes(std::string_view text, std::vector<std::string>& axes);
// `#sdy.sharding_per_value<[#sdy.sharding<..>]>` as XLA writes it,
// `#sdy.sharding_per_value<[<..>]>`.
std::string WithoutInnerNames(std::string_view text);
// XLA's mesh form, with the axes `manual` taken from the dims and named as manual.
std::string MeshFormOf(const ShardySharding& sharding, std::span<const std::string> manual = {});

// A sharding that is spelled by mesh axes, as that of a value of so many dims; its manual axes
// apart.
ShardySharding ShardyShardingOf(const NamedSharding& named, int64_t rank);
// Those: "'a'", "'b':(2)4".
std::vector<std::string> ManualAxesOf(const NamedSharding& named);

}  // namespace gshard

#endif  // GSHARD_IR_SHARDY_TEXT_H_
