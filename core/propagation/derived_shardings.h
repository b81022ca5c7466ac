// Memoized forms of functions of ir/sharding_algebra.h: layers of a model ask the same few
// questions thousands of times.
//
// Each means the same as the function of the same name, but MapDims (see there); Transpose,
// Reverse, Reshape and Merge stand for TransposeSharding, ReverseSharding, PropagateThroughReshape
// and MergeShardings. Results are canonical. One object serves one propagation, or all in one
// context; not thread-safe.
#ifndef GSHARD_CORE_PROPAGATION_DERIVED_SHARDINGS_H_
#define GSHARD_CORE_PROPAGATION_DERIVED_SHARDINGS_H_

#include <cstdint>
#include <memory>
#include <span>

#include "ir/context.h"

namespace gshard {

class DerivedShardings {
 public:
  explicit DerivedShardings(Context& ctx);
  ~DerivedShardings();
  DerivedShardings(const DerivedShardings&) = delete;
  DerivedShardings& operator=(const DerivedShardings&) = delete;

  Context& context() const { return *ctx_; }

  const Sharding* ReplicateOnDims(const Sharding* s, std::span<const int64_t> dims);
  const Sharding* KeepOnlyDims(const Sharding* s, std::span<const int64_t> dims);
  const Sharding* RemoveDims(const Sharding* s, std::span<const int64_t> dims);
  const Sharding* AddDims(const Sharding* s, std::span<const int64_t> dims);
  const Sharding* Transpose(const Sharding* s, std::span<const int64_t> permutation);
  const Sharding* Reverse(const Sharding* s, std::span<const int64_t> dims);
  // Differs from the function of that name: source dims that map to -1 are replicated first, so
  // their counts need not be 1.
  const Sharding* MapDims(const Sharding* s, std::span<const int64_t> source_to_target,
                          int64_t target_rank);
  const Sharding* AlongDims(const Sharding* s, std::span<const int64_t> from,
                            std::span<const int64_t> to, int64_t target_rank);
  const Sharding* Reshape(const Sharding* s, const Shape* from, const Shape* to);
  const Sharding* Merge(const Sharding* a, const Sharding* b, int64_t minimum_tiles = 0);
  bool IsSubTiling(const Sharding* a, const Sharding* b, const Shape* shape);

 private:
  struct Key;
  struct Table;
  template <typename Compute>
  const Sharding* Remember(const Key& key, Compute compute);

  Context* ctx_;
  std::unique_ptr<Table> table_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_PROPAGATION_DERIVED_SHARDINGS_H_
