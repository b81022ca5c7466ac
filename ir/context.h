// Owns and interns what modules share: shapes, layouts, meshes, shardings.
//
// Pointers handed out live as long as the Context; equal values get equal pointers. Modules hold
// the Context by shared_ptr, so a clone or a partitioned copy can share it. Not thread-safe:
// interning happens in the front end and in passes, which are single-threaded per Context.
#ifndef GSHARD_IR_CONTEXT_H_
#define GSHARD_IR_CONTEXT_H_

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "ir/arena.h"
#include "ir/shape.h"
#include "ir/sharding.h"

namespace gshard {

class Context {
 public:
  Context();
  ~Context();
  Context(const Context&) = delete;
  Context& operator=(const Context&) = delete;

  Arena& arena() { return arena_; }

  // --- shapes
  const Shape* Array(DType dtype, std::span<const int64_t> dims, const Layout* layout = nullptr,
                     std::span<const uint8_t> dynamic = {});
  const Shape* Scalar(DType dtype) { return Array(dtype, {}); }
  const Shape* Tuple(std::span<const Shape* const> elements);
  const Shape* Token();
  const Shape* Opaque();
  const Shape* Buffer(const Shape* element);
  // Array `shape` with other dims (layout and dynamic flags kept if the rank is equal) or another
  // element type.
  const Shape* WithDims(const Shape* shape, std::span<const int64_t> dims);
  const Shape* WithDType(const Shape* shape, DType dtype);
  const Layout* InternLayout(std::span<const int64_t> minor_to_major, std::string_view tail);

  // --- meshes and shardings
  const Mesh* Intern(Mesh mesh);
  const NamedSharding* Intern(NamedSharding named);
  // Normalises (docs/sharding.md, "Normal form"), sets canonical, interns.
  const Sharding* Intern(Sharding sharding);

  const Sharding* Replicated();
  const Sharding* Manual();
  const Sharding* Unknown();
  const Sharding* Unreduced(ReductionKind reduction = ReductionKind::kSum);
  const Sharding* Maximal(int64_t device);
  // Data dims first, then one dim per entry of `subgroups`. Normalised: may come out replicated.
  const Sharding* Tiled(TileAssignment tiles, std::vector<SubgroupType> subgroups = {});
  const Sharding* TupleOf(std::vector<const Sharding*> leaves);

  // Shardings by their text: modules repeat a few spellings thousands of times. Used by
  // ParseSharding, for texts whose meaning does not depend on the module's meshes.
  const Sharding* FindShardingText(std::string_view text) const;
  void RememberShardingText(std::string_view text, const Sharding* sharding);

 private:
  struct Tables;
  const Shape* InternShape(const Shape& key);
  const Sharding* OfKind(ShardingKind kind);

  Arena arena_;
  std::unique_ptr<Tables> tables_;
};

}  // namespace gshard

#endif  // GSHARD_IR_CONTEXT_H_
