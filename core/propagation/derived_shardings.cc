#include "core/propagation/derived_shardings.h"

#include <vector>

#include "ir/sharding_algebra.h"
#include "tsl/robin_map.h"

namespace gshard {
namespace {

enum Operation : uint32_t {
  kReplicateOn,
  kKeepOnly,
  kRemove,
  kAdd,
  kTranspose,
  kReverse,
  kMap,
  kAlong,
  kReshape,
  kMerge,
  kSubTiling,
};

// Lists of up to 15 dims below 15 as one number; larger ones are not remembered.
constexpr uint64_t kTooLarge = ~uint64_t{0};
uint64_t Packed(std::span<const int64_t> dims) {
  if (dims.size() > 14) return kTooLarge;
  uint64_t packed = dims.size();
  for (int64_t d : dims) {
    if (d >= 15) return kTooLarge;
    packed = packed << 4 | static_cast<uint64_t>(d + 1);
  }
  return packed;
}

}  // namespace

struct DerivedShardings::Key {
  Operation operation;
  uint64_t sharding, first, second;
  bool operator==(const Key&) const = default;
};

struct DerivedShardings::Table {
  struct Hash {
    size_t operator()(const Key& k) const {
      uint64_t h = k.sharding * 0x9E3779B97F4A7C15u + k.first;
      h = (h ^ h >> 29) * 0xBF58476D1CE4E5B9u + k.second;
      h = (h ^ h >> 32) * 0x94D049BB133111EBu + k.operation;
      return h ^ h >> 31;
    }
  };
  tsl::robin_map<Key, const Sharding*, Hash> results;
};

namespace {
uint64_t Word(const void* pointer) { return reinterpret_cast<uintptr_t>(pointer); }
}  // namespace

DerivedShardings::DerivedShardings(Context& ctx) : ctx_(&ctx), table_(std::make_unique<Table>()) {}
DerivedShardings::~DerivedShardings() = default;

template <typename Compute>
const Sharding* DerivedShardings::Remember(const Key& key, Compute compute) {
  auto canonical = [&] {
    const Sharding* result = compute();
    return result == nullptr ? nullptr : result->canonical;
  };
  if (key.first == kTooLarge || key.second == kTooLarge) return canonical();
  auto found = table_->results.find(key);
  if (found != table_->results.end()) return found->second;
  const Sharding* result = canonical();
  table_->results.emplace(key, result);
  return result;
}

const Sharding* DerivedShardings::ReplicateOnDims(const Sharding* s,
                                                  std::span<const int64_t> dims) {
  if (!s->IsTiled() || dims.empty()) return s->canonical;
  return Remember({kReplicateOn, Word(s), Packed(dims), 0},
                  [&] { return gshard::ReplicateOnDims(*ctx_, s, dims); });
}

const Sharding* DerivedShardings::KeepOnlyDims(const Sharding* s, std::span<const int64_t> dims) {
  if (!s->IsTiled()) return s->canonical;
  return Remember({kKeepOnly, Word(s), Packed(dims), 0},
                  [&] { return gshard::KeepOnlyDims(*ctx_, s, dims); });
}

const Sharding* DerivedShardings::RemoveDims(const Sharding* s, std::span<const int64_t> dims) {
  if (!s->IsTiled() || dims.empty()) return s->canonical;
  return Remember({kRemove, Word(s), Packed(dims), 0},
                  [&] { return gshard::RemoveDims(*ctx_, s, dims); });
}

const Sharding* DerivedShardings::AddDims(const Sharding* s, std::span<const int64_t> dims) {
  if (!s->IsTiled() || dims.empty()) return s->canonical;
  return Remember({kAdd, Word(s), Packed(dims), 0},
                  [&] { return gshard::AddDims(*ctx_, s, dims); });
}

const Sharding* DerivedShardings::Transpose(const Sharding* s,
                                            std::span<const int64_t> permutation) {
  if (!s->IsTiled()) return s->canonical;
  return Remember({kTranspose, Word(s), Packed(permutation), 0},
                  [&] { return TransposeSharding(*ctx_, s, permutation); });
}

const Sharding* DerivedShardings::Reverse(const Sharding* s, std::span<const int64_t> dims) {
  if (!s->IsTiled()) return s->canonical;
  // Within a manual region of some axes tiles move between the region's devices when they must.
  if (s->HasManualSubgroup()) return s;
  return Remember({kReverse, Word(s), Packed(dims), 0},
                  [&] { return ReverseSharding(*ctx_, s, dims); });
}

const Sharding* DerivedShardings::MapDims(const Sharding* s,
                                          std::span<const int64_t> source_to_target,
                                          int64_t target_rank) {
  if (!s->IsTiled()) return s->canonical;
  auto compute = [&] {
    std::vector<int64_t> dropped;
    for (size_t i = 0; i < source_to_target.size(); ++i) {
      if (source_to_target[i] < 0) dropped.push_back(static_cast<int64_t>(i));
    }
    const Sharding* kept = dropped.empty() ? s : gshard::ReplicateOnDims(*ctx_, s, dropped);
    return kept->IsTiled() ? gshard::MapDims(*ctx_, kept, source_to_target, target_rank) : kept;
  };
  return Remember({kMap, Word(s), Packed(source_to_target), static_cast<uint64_t>(target_rank)},
                  compute);
}

const Sharding* DerivedShardings::AlongDims(const Sharding* s, std::span<const int64_t> from,
                                            std::span<const int64_t> to, int64_t target_rank) {
  if (!s->IsTiled()) return s->canonical;
  uint64_t packed_to = Packed(to);
  if (to.size() > 10) packed_to = kTooLarge;
  if (packed_to != kTooLarge) packed_to = packed_to << 8 | static_cast<uint64_t>(target_rank);
  return Remember({kAlong, Word(s), Packed(from), packed_to},
                  [&] { return gshard::AlongDims(*ctx_, s, from, to, target_rank); });
}

const Sharding* DerivedShardings::Reshape(const Sharding* s, const Shape* from, const Shape* to) {
  if (!s->IsTiled()) return s->canonical;
  return Remember({kReshape, Word(s), Word(from->bare()), Word(to->bare())},
                  [&] { return PropagateThroughReshape(*ctx_, s, from->dims(), to->dims()); });
}

const Sharding* DerivedShardings::Merge(const Sharding* a, const Sharding* b,
                                        int64_t minimum_tiles) {
  if (!a->IsTiled()) return MergeShardings(*ctx_, a, b, minimum_tiles);
  return Remember({kMerge, Word(a), Word(b), static_cast<uint64_t>(minimum_tiles)},
                  [&] { return MergeShardings(*ctx_, a, b, minimum_tiles); });
}

bool DerivedShardings::IsSubTiling(const Sharding* a, const Sharding* b, const Shape* shape) {
  if (!a->IsTiled() || !b->IsTiled()) return gshard::IsSubTiling(a, b, shape);
  // Any non-null pointer stands for true.
  return Remember({kSubTiling, Word(a), Word(b), Word(shape->bare())}, [&]() -> const Sharding* {
           return gshard::IsSubTiling(a, b, shape) ? a : nullptr;
         }) != nullptr;
}

}  // namespace gshard
