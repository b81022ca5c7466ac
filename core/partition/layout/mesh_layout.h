// A sharding in the partitioner's representation: for each data dim, the mesh sub-axes that cut it.
// It is no memory layout.
//
// What XLA calls partial replication and subgroups needs no cases here: sub-axes in no list are
// replicated, manual sub-axes are those nobody may touch, unreduced sub-axes hold partial values.
// All device numbers stay global, also inside manual subgroups. Layouts are interned by a
// MeshLayoutTable: equal iff the pointers are. Explicit device lists are axes over positions in a
// DeviceOrder.
#ifndef GSHARD_CORE_PARTITION_LAYOUT_MESH_LAYOUT_H_
#define GSHARD_CORE_PARTITION_LAYOUT_MESH_LAYOUT_H_

#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/partition/layout/device_axes.h"
#include "ir/context.h"
#include "ir/opcode.h"
#include "ir/replica_groups.h"
#include "ir/sharding.h"

namespace gshard {

// Position -> device, where an explicit device list has no axis form; and its inverse.
struct DeviceOrder {
  std::vector<int64_t> devices;
  std::vector<int64_t> positions;
};

struct MeshLayout {
  enum class Kind : uint8_t {
    kTiled,    // includes replicated: no axes anywhere
    kMaximal,  // only `device` has the value; all devices hold a buffer of the full shape
    kManual,   // the value is local by the user's doing
  };
  Kind kind = Kind::kTiled;
  int64_t device = 0;          // kMaximal
  std::vector<AxisList> dims;  // one per dim of the shape, major first, merged
  AxisList unreduced;          // the value is the `combiner` of the copies along these sub-axes
  Opcode combiner = Opcode::kAdd;
  AxisList manual;
  const DeviceOrder* order = nullptr;  // null: positions are device numbers

  bool IsManual() const { return kind == Kind::kManual; }
  bool IsMaximal() const { return kind == Kind::kMaximal; }
  int64_t rank() const { return static_cast<int64_t>(dims.size()); }
  const AxisList& axes(int64_t dim) const { return dims[static_cast<size_t>(dim)]; }
  // Number of tiles along a dim, over all dims.
  int64_t Count(int64_t dim) const { return AxesSize(axes(dim)); }
  int64_t TileCount() const;
  bool IsSharded(int64_t dim) const { return !axes(dim).empty(); }
  // Every device (of a manual group) holds the whole value.
  bool IsReplicated() const;
  bool operator==(const MeshLayout&) const = default;
};

// Makes, interns and converts the layouts of one module. Not thread-safe.
class MeshLayoutTable {
 public:
  // `mesh`: whose axes ToText speaks of; null: HLO's own spelling.
  MeshLayoutTable(Context& context, int64_t device_count, const Mesh* mesh = nullptr);
  ~MeshLayoutTable();

  int64_t device_count() const { return device_count_; }
  Context& context() const { return context_; }

  const MeshLayout* Intern(MeshLayout layout);
  // Leaf sharding of a value of `rank` dims; null and unknown mean replicated.
  const MeshLayout* FromSharding(const Sharding* sharding, int64_t rank);
  // Partial values with a combiner other than add, max and min have no sharding: shown as add.
  const Sharding* ToSharding(const MeshLayout* layout);
  // Text of ToSharding for causes (core/analysis/axis_text.h), cached.
  const std::string& ToText(const MeshLayout* layout);

  const MeshLayout* Replicated(int64_t rank);
  // Data dims whole, manual sub-axes and device order as in `like`.
  const MeshLayout* ReplicatedLike(const MeshLayout* like, int64_t rank);
  // `layout` with other lists per dim (same manual sub-axes and order, nothing unreduced).
  const MeshLayout* WithDims(const MeshLayout* layout, std::vector<AxisList> dims);
  // Same for merged lists that somebody else keeps: copies nothing if the layout is known.
  const MeshLayout* WithDims(const MeshLayout* layout, std::span<const AxisList* const> dims);
  // Dims permuted / made whole.
  const MeshLayout* Transposed(const MeshLayout* layout, std::span<const int64_t> permutation);
  const MeshLayout* WithDimsWhole(const MeshLayout* layout, std::span<const int64_t> dims);
  // Tiles of `dims` in the opposite order: where the tiles of a reversed value lie if every device
  // reverses its own. No manual sub-axes, nothing unreduced. Linear in the devices, remembered.
  const MeshLayout* Mirrored(const MeshLayout* layout, std::span<const int64_t> dims);
  // Returns `layout` without the minor sub-axes of dims that only make tiles empty: 8 elements cut
  // 32 ways have the tiles of a cut in 8, and then copies instead of empty tiles.
  const MeshLayout* WithoutEmptyTiles(const MeshLayout* layout, const Shape* shape);
  // Returns `layout` without partial values: their sub-axes become replicated.
  const MeshLayout* Reduced(const MeshLayout* layout);

  // Groups of the devices that differ only along `axes`; member k has the coordinates of k (major
  // first). `replica_count` > 1: for collectives that use global ids, groups repeat per replica.
  ReplicaGroups Groups(const MeshLayout* layout, AxisSpan axes, int64_t replica_count);

 private:
  struct Tables;
  Context& context_;
  int64_t device_count_;
  const Mesh* mesh_;
  std::unique_ptr<Tables> tables_;
};

// ceil(a / b) for a >= 0, b > 0.
inline int64_t CeilOfRatio(int64_t a, int64_t b) { return (a + b - 1) / b; }

// Shape of one device's buffer; other kinds of layouts keep the shape.
const Shape* LocalShape(Context& context, const Shape* base, const MeshLayout* layout);
// Returns the shape of one device's buffer for a shape of any kind whose leaves (pre-order) have
// the layouts given.
const Shape* LocalShapeByLeaf(Context& context, const Shape* base,
                              std::span<const MeshLayout* const> leaves);
// Local sizes of the dims.
std::vector<int64_t> LocalDims(const Shape* base, const MeshLayout* layout);
// No dim ends in padding.
bool DividesEvenly(const Shape* base, const MeshLayout* layout);
bool DividesEvenly(const Shape* base, const MeshLayout* layout, int64_t dim);
// Tile index along each dim of the device at `position` (see DeviceOrder).
std::vector<int64_t> TileAt(const MeshLayout* layout, int64_t position);

}  // namespace gshard

#endif  // GSHARD_CORE_PARTITION_LAYOUT_MESH_LAYOUT_H_
