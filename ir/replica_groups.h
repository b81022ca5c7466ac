// Which devices a collective joins. Order inside a group matters (all-gather, reduce-scatter,
// all-to-all). Held as a tile assignment [groups, members] wherever the groups have one size, so
// nothing is listed; ragged lists (legal for all-reduce) are kept as lists. Immutable value.
#ifndef GSHARD_IR_REPLICA_GROUPS_H_
#define GSHARD_IR_REPLICA_GROUPS_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "ir/tile_assignment.h"

namespace gshard {

class ReplicaGroups {
 public:
  enum class Form : uint8_t { kAll, kLists, kIota, kMesh };

  ReplicaGroups() = default;  // {}: one group of all
  static ReplicaGroups FromTiles(TileAssignment groups, Form form = Form::kIota);
  static ReplicaGroups FromLists(std::vector<std::vector<int64_t>> lists);

  Form form() const { return form_; }
  bool IsAll() const { return form_ == Form::kAll; }
  // Dims [group_count, group_size]; null for kAll and for ragged lists.
  const TileAssignment* tiles() const { return tiles_.get(); }
  // Explicit groups; for kAll one group 0..device_count-1. O(devices).
  std::vector<std::vector<int64_t>> ToLists(int64_t device_count) const;
  // Number of groups / members of group g (kAll: 1 and device_count).
  int64_t GroupCount() const;
  int64_t GroupSize(int64_t device_count, int64_t group = 0) const;

  // The mesh spelling, as written: "mesh['x'=2,'y'=2] {'x'}".
  const std::string& mesh_text() const { return mesh_text_; }
  void set_mesh_text(std::string text) {
    form_ = Form::kMesh;
    mesh_text_ = std::move(text);
  }

  // Same ordered groups in the same order.
  bool operator==(const ReplicaGroups& other) const;

 private:
  Form form_ = Form::kAll;
  std::shared_ptr<const TileAssignment> tiles_;
  std::shared_ptr<const std::vector<std::vector<int64_t>>> lists_;  // ragged only
  std::string mesh_text_;
};

}  // namespace gshard

#endif  // GSHARD_IR_REPLICA_GROUPS_H_
