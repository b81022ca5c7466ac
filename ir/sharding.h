// How a value is laid out over the devices: kinds, tile assignment, subgroups, tuples, names.
//
// Immutable and interned by a Context. `canonical` drops spelling, metadata and the shard-group
// mark: two shardings mean the same iff their canonical pointers are equal. Terms: GSPMD paper
// section 3.1 and docs/sharding.md. Derived operations are in ir/sharding_algebra.h, text in
// ir/sharding_text.h.
#ifndef GSHARD_IR_SHARDING_H_
#define GSHARD_IR_SHARDING_H_

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "ir/mesh.h"
#include "ir/tile_assignment.h"

namespace gshard {

class Shape;

enum class ShardingKind : uint8_t {
  kReplicated,
  kMaximal,  // one device
  kManual,
  kUnknown,
  kUnreduced,  // partial values, summed over all devices
  kTiled,      // includes partially replicated and subgrouped
  kTuple,
};

// In the order of the normal form. kMaximal parses and prints but has no meaning of its own.
enum class SubgroupType : uint8_t { kMaximal, kManual, kUnreduced, kReplicated };
enum class ReductionKind : uint8_t { kSum, kMax, kMin };
enum class ShardGroupKind : uint8_t { kNone, kShardAs, kShardLike };

// The named spelling of a sharding: {mesh[..], [{'a'}, {'b', ?}], replicated={'c'}}.
struct NamedSharding {
  struct Dim {
    std::vector<AxisRef> axes;  // major first
    bool open = false;          // "?"
    bool operator==(const Dim&) const = default;
  };
  enum class Form : uint8_t { kDims, kReplicated, kManual, kUnreduced, kMaximal };
  const Mesh* mesh = nullptr;  // null for {maximal_mesh[device_id=3]}
  Form form = Form::kDims;
  std::vector<Dim> dims;
  std::vector<AxisRef> replicated, unreduced, manual;  // in mesh order
  ReductionKind reduction = ReductionKind::kSum;       // of `unreduced`
  bool sugar = false;                                  // written {@pod, ...}
  bool operator==(const NamedSharding&) const = default;
};

enum class Spelling : uint8_t { kIota, kDeviceList, kNamed };

struct Sharding {
  ShardingKind kind = ShardingKind::kReplicated;

  // kTiled: the leading dims are data dims, one per dim of the shape; then one dim per subgroup, in
  // normal form (at most one of each type, order manual, unreduced, replicated; no size 1).
  TileAssignment tiles;
  std::vector<SubgroupType> subgroups;
  ReductionKind reduction = ReductionKind::kSum;  // of an unreduced subgroup or kUnreduced

  int64_t device = 0;                     // kMaximal
  std::vector<const Sharding*> elements;  // kTuple: one per leaf of the shape, flattened

  // Spelling and marks; not part of canonical.
  Spelling spelling = Spelling::kIota;
  std::vector<int64_t> device_list;      // kDeviceList: as written (row-major), before normalising
  std::vector<int64_t> written_dims;     // kDeviceList/kIota where normal form changed the dims
  const NamedSharding* named = nullptr;  // kNamed
  ShardGroupKind group_kind = ShardGroupKind::kNone;
  int64_t group_id = 0;
  std::string metadata;  // "{op_name=\"x\"}" verbatim, with braces; empty: none

  const Sharding* canonical = nullptr;  // set by Context::Intern; never null afterwards

  bool IsReplicated() const { return kind == ShardingKind::kReplicated; }
  bool IsMaximal() const { return kind == ShardingKind::kMaximal; }
  bool IsManual() const { return kind == ShardingKind::kManual; }
  bool IsUnknown() const { return kind == ShardingKind::kUnknown; }
  bool IsUnreduced() const { return kind == ShardingKind::kUnreduced; }
  bool IsTiled() const { return kind == ShardingKind::kTiled; }
  bool IsTuple() const { return kind == ShardingKind::kTuple; }

  // kTiled only below. Rank of the data = rank of the shape.
  int64_t data_rank() const { return tiles.rank() - static_cast<int64_t>(subgroups.size()); }
  std::span<const int64_t> data_dims() const {
    return tiles.dims().first(static_cast<size_t>(data_rank()));
  }
  // Size of the subgroup dim of a type, 1 if there is none; and its dim index or -1.
  int64_t SubgroupSize(SubgroupType type) const;
  int64_t SubgroupDim(SubgroupType type) const;
  bool HasManualSubgroup() const { return SubgroupDim(SubgroupType::kManual) >= 0; }
  bool IsPartiallyReplicated() const { return SubgroupDim(SubgroupType::kReplicated) >= 0; }
  // Product of the data dims' tile counts; 1 for everything that is not tiled.
  int64_t TileCount() const;
  // Tile count of data dim i; 1 for everything that is not tiled.
  int64_t TileCount(int64_t i) const { return IsTiled() ? tiles.dim(i) : 1; }
  // Number of devices named; 0 where the sharding names none (replicated, manual, ..).
  int64_t device_count() const { return IsTiled() ? tiles.device_count() : 0; }
};

// Same meaning (kinds, arrays, subgroups, reduction), whatever the spelling. Null equals only null.
inline bool SameSharding(const Sharding* a, const Sharding* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->canonical == b->canonical;
}

// Brings kind, tiles and subgroups to normal form (docs/sharding.md, "Normal form");
// Context::Intern does this to everything it takes.
void Normalise(Sharding& sharding);

}  // namespace gshard

#endif  // GSHARD_IR_SHARDING_H_
