#include "ir/context.h"

#include <tsl/robin_map.h>
#include <tsl/robin_set.h>

#include <algorithm>
#include <array>
#include <deque>

#include "ir/diagnostic.h"
#include "ir/hash.h"
#include "ir/text_hash.h"

namespace gshard {
namespace {

int64_t SaturatingMultiply(int64_t a, int64_t b) {
  int64_t product = 0;
  return __builtin_mul_overflow(a, b, &product) ? INT64_MAX : product;
}

int64_t SaturatingAdd(int64_t a, int64_t b) {
  int64_t sum = 0;
  return __builtin_add_overflow(a, b, &sum) ? INT64_MAX : sum;
}

int64_t CountElements(std::span<const int64_t> dims) {
  if (std::ranges::find(dims, 0) != dims.end()) return 0;
  int64_t count = 1;
  for (int64_t dim : dims) {
    count = dim == Shape::kUnbounded ? INT64_MAX : SaturatingMultiply(count, dim);
  }
  return count;
}

int64_t DenseBytes(DType dtype, int64_t elements) {
  const int64_t bits = SaturatingMultiply(elements, DTypeBits(dtype));
  return bits == INT64_MAX ? INT64_MAX : bits / 8 + (bits % 8 != 0 ? 1 : 0);
}

struct LayoutHash {
  size_t operator()(const Layout* layout) const {
    return HashCombine(HashSpan(0, layout->minor_to_major), HashText(layout->tail));
  }
};
struct LayoutEqual {
  bool operator()(const Layout* a, const Layout* b) const {
    return a->tail == b->tail && std::ranges::equal(a->minor_to_major, b->minor_to_major);
  }
};

// Identity of a shape by its parts; elements and layout are interned already.
struct ShapeHash {
  size_t operator()(const Shape* shape) const {
    size_t seed =
        HashCombine(static_cast<size_t>(shape->kind()), static_cast<uint64_t>(shape->dtype()));
    seed = HashPointer(HashSpan(seed, shape->dims()), shape->layout());
    for (const Shape* element : shape->elements()) seed = HashPointer(seed, element);
    return seed;
  }
};
struct ShapeEqual {
  bool operator()(const Shape* a, const Shape* b) const {
    return a->kind() == b->kind() && a->dtype() == b->dtype() && a->layout() == b->layout() &&
           std::ranges::equal(a->dims(), b->dims()) &&
           std::ranges::equal(a->dynamic_flags(), b->dynamic_flags()) &&
           std::ranges::equal(a->elements(), b->elements());
  }
};

size_t HashAxes(size_t seed, std::span<const AxisRef> axes) {
  seed = HashCombine(seed, axes.size());
  for (const AxisRef& ref : axes) {
    seed = HashCombine(seed, static_cast<uint64_t>(ref.axis));
    seed = HashCombine(HashCombine(seed, static_cast<uint64_t>(ref.pre_size)),
                       static_cast<uint64_t>(ref.size));
  }
  return seed;
}

// Equality by value of interned objects that own memory, hence live in a deque, not in the arena.
struct ValueHash {
  size_t operator()(const Mesh* mesh) const {
    size_t seed = HashCombine(mesh->devices.Hash(), HashText(mesh->name));
    for (const MeshAxis& axis : mesh->axes) {
      seed = HashCombine(HashCombine(seed, HashText(axis.name)), static_cast<uint64_t>(axis.size));
    }
    return seed;
  }
  size_t operator()(const NamedSharding* named) const {
    size_t seed = HashPointer(static_cast<size_t>(named->form), named->mesh);
    for (const NamedSharding::Dim& dim : named->dims) {
      seed = HashCombine(HashAxes(seed, dim.axes), dim.open ? 1 : 0);
    }
    seed = HashAxes(HashAxes(seed, named->replicated), named->unreduced);
    return HashCombine(HashAxes(seed, named->manual), named->sugar ? 1 : 0);
  }
  size_t operator()(const Sharding* s) const {
    size_t seed = HashCombine(s->tiles.Hash(), static_cast<uint64_t>(s->kind));
    for (SubgroupType type : s->subgroups) seed = HashCombine(seed, static_cast<uint64_t>(type));
    for (const Sharding* element : s->elements) seed = HashPointer(seed, element);
    seed = HashCombine(seed, static_cast<uint64_t>(s->reduction));
    seed = HashCombine(seed, static_cast<uint64_t>(s->spelling));
    seed = HashCombine(seed, static_cast<uint64_t>(s->device));
    seed = HashPointer(HashCombine(seed, HashText(s->metadata)), s->named);
    return HashCombine(HashCombine(seed, static_cast<uint64_t>(s->group_kind)),
                       static_cast<uint64_t>(s->group_id));
  }
};
struct ValueEqual {
  bool operator()(const Mesh* a, const Mesh* b) const {
    return a->name == b->name && a->axes == b->axes && a->devices == b->devices &&
           a->device_ids_text == b->device_ids_text;
  }
  bool operator()(const NamedSharding* a, const NamedSharding* b) const { return *a == *b; }
  bool operator()(const Sharding* a, const Sharding* b) const {
    return a->kind == b->kind && a->subgroups == b->subgroups && a->reduction == b->reduction &&
           a->device == b->device && a->elements == b->elements && a->spelling == b->spelling &&
           a->named == b->named && a->group_kind == b->group_kind && a->group_id == b->group_id &&
           a->metadata == b->metadata && a->tiles == b->tiles;
  }
};

template <typename T>
class ValueTable {
 public:
  const T* Find(const T& value) const {
    const auto found = table_.find(&value);
    return found == table_.end() ? nullptr : *found;
  }
  T* Add(T value) {
    T* added = &values_.emplace_back(std::move(value));
    table_.insert(added);
    return added;
  }

 private:
  std::deque<T> values_;
  tsl::robin_set<const T*, ValueHash, ValueEqual, std::allocator<const T*>, true> table_;
};

}  // namespace

struct Context::Tables {
  tsl::robin_set<const Layout*, LayoutHash, LayoutEqual, std::allocator<const Layout*>, true>
      layouts;
  tsl::robin_set<const Shape*, ShapeHash, ShapeEqual, std::allocator<const Shape*>, true> shapes;
  ValueTable<Mesh> meshes;
  ValueTable<NamedSharding> named;
  ValueTable<Sharding> shardings;
  tsl::robin_map<std::string_view, const Sharding*, TextHash, std::equal_to<>,
                 std::allocator<std::pair<std::string_view, const Sharding*>>, true>
      sharding_texts;
};

Context::Context() : tables_(std::make_unique<Tables>()) {}
Context::~Context() = default;

// --- shapes

const Shape* Context::InternShape(const Shape& key) {
  const auto found = tables_->shapes.find(&key);
  if (found != tables_->shapes.end()) return *found;

  Shape* shape = arena_.New<Shape>(key);
  shape->dims_ = arena_.Copy(key.dims_);
  shape->dynamic_ = arena_.Copy(key.dynamic_);
  shape->elements_ = arena_.Copy(key.elements_);
  switch (key.kind_) {
    case ShapeKind::kArray:
      for (int64_t dim : key.dims_) {
        CheckInternal(dim >= 0 || dim == Shape::kUnbounded, "negative dimension in a shape");
      }
      shape->element_count_ = CountElements(key.dims_);
      shape->byte_size_ = DenseBytes(key.dtype_, shape->element_count_);
      break;
    case ShapeKind::kTuple: {
      std::vector<int64_t> first_leaves;
      shape->leaf_count_ = 0;
      for (const Shape* element : key.elements_) {
        first_leaves.push_back(shape->leaf_count_);
        shape->byte_size_ = SaturatingAdd(shape->byte_size_, element->byte_size_);
        shape->leaf_count_ = SaturatingAdd(shape->leaf_count_, element->leaf_count_);
      }
      shape->first_leaves_ = arena_.Copy(std::span<const int64_t>(first_leaves));
      break;
    }
    case ShapeKind::kBuffer:
      shape->byte_size_ = key.elements_[0]->byte_size_;
      break;
    case ShapeKind::kToken:
    case ShapeKind::kOpaque:
      break;
  }
  // The layout-free twin, before `shape` enters the table: interning it may grow the table.
  shape->bare_ = shape;
  const bool elements_bare = std::ranges::all_of(
      key.elements_, [](const Shape* element) { return element->bare_ == element; });
  if (key.layout_ != nullptr || !elements_bare) {
    Shape bare = key;
    bare.layout_ = nullptr;
    std::vector<const Shape*> elements;
    for (const Shape* element : key.elements_) elements.push_back(element->bare_);
    bare.elements_ = elements;
    shape->bare_ = InternShape(bare);
  }
  tables_->shapes.insert(shape);
  return shape;
}

const Shape* Context::Array(DType dtype, std::span<const int64_t> dims, const Layout* layout,
                            std::span<const uint8_t> dynamic) {
  CheckInternal(dynamic.empty() || dynamic.size() == dims.size(),
                "one dynamic flag per dim expected");
  Shape key;
  key.kind_ = ShapeKind::kArray;
  key.dtype_ = dtype;
  key.dims_ = dims;
  if (std::ranges::any_of(dynamic, [](uint8_t flag) { return flag != 0; })) key.dynamic_ = dynamic;
  key.layout_ = layout;
  return InternShape(key);
}

const Shape* Context::Tuple(std::span<const Shape* const> elements) {
  Shape key;
  key.kind_ = ShapeKind::kTuple;
  key.elements_ = elements;
  return InternShape(key);
}

const Shape* Context::Token() {
  Shape key;
  key.kind_ = ShapeKind::kToken;
  key.dtype_ = DType::kToken;
  return InternShape(key);
}

const Shape* Context::Opaque() {
  Shape key;
  key.kind_ = ShapeKind::kOpaque;
  key.dtype_ = DType::kOpaque;
  return InternShape(key);
}

const Shape* Context::Buffer(const Shape* element) {
  const std::array<const Shape*, 1> elements = {element};
  Shape key;
  key.kind_ = ShapeKind::kBuffer;
  key.dtype_ = element->dtype();
  key.elements_ = elements;
  return InternShape(key);
}

const Shape* Context::WithDims(const Shape* shape, std::span<const int64_t> dims) {
  const bool same_rank = shape->dims().size() == dims.size();
  return Array(shape->dtype(), dims, same_rank ? shape->layout() : nullptr,
               same_rank ? shape->dynamic_flags() : std::span<const uint8_t>());
}

const Shape* Context::WithDType(const Shape* shape, DType dtype) {
  return Array(dtype, shape->dims(), shape->layout(), shape->dynamic_flags());
}

const Layout* Context::InternLayout(std::span<const int64_t> minor_to_major,
                                    std::string_view tail) {
  Layout key{minor_to_major, tail};
  const auto found = tables_->layouts.find(&key);
  if (found != tables_->layouts.end()) return *found;
  const Layout* layout =
      arena_.New<Layout>(arena_.Copy(minor_to_major), tail.empty() ? tail : arena_.Copy(tail));
  tables_->layouts.insert(layout);
  return layout;
}

// --- meshes and shardings

const Mesh* Context::Intern(Mesh mesh) {
  const Mesh* found = tables_->meshes.Find(mesh);
  return found != nullptr ? found : tables_->meshes.Add(std::move(mesh));
}

const NamedSharding* Context::Intern(NamedSharding named) {
  const NamedSharding* found = tables_->named.Find(named);
  return found != nullptr ? found : tables_->named.Add(std::move(named));
}

const Sharding* Context::Intern(Sharding sharding) {
  Normalise(sharding);
  const Spelling plain = sharding.tiles.has_axes() ? Spelling::kIota : Spelling::kDeviceList;
  if (sharding.named != nullptr) {
    sharding.spelling = Spelling::kNamed;
  } else if (!sharding.IsTiled() || sharding.spelling == Spelling::kNamed ||
             plain == Spelling::kDeviceList) {
    sharding.spelling = plain;
  }
  sharding.canonical = nullptr;
  if (const Sharding* found = tables_->shardings.Find(sharding)) return found;

  Sharding canonical;
  canonical.kind = sharding.kind;
  canonical.tiles = sharding.tiles;
  canonical.subgroups = sharding.subgroups;
  canonical.reduction = sharding.reduction;
  canonical.device = sharding.device;
  canonical.spelling = plain;
  for (const Sharding* element : sharding.elements) {
    CheckInternal(!element->IsTuple(), "tuple sharding inside a tuple sharding");
    canonical.elements.push_back(element->canonical);
  }
  const bool is_canonical = ValueEqual()(&sharding, &canonical);
  Sharding* interned = tables_->shardings.Add(std::move(sharding));
  interned->canonical = is_canonical ? interned : Intern(std::move(canonical));
  return interned;
}

const Sharding* Context::OfKind(ShardingKind kind) {
  Sharding sharding;
  sharding.kind = kind;
  return Intern(std::move(sharding));
}

const Sharding* Context::Replicated() { return OfKind(ShardingKind::kReplicated); }
const Sharding* Context::Manual() { return OfKind(ShardingKind::kManual); }
const Sharding* Context::Unknown() { return OfKind(ShardingKind::kUnknown); }

const Sharding* Context::Unreduced(ReductionKind reduction) {
  Sharding sharding;
  sharding.kind = ShardingKind::kUnreduced;
  sharding.reduction = reduction;
  return Intern(std::move(sharding));
}

const Sharding* Context::Maximal(int64_t device) {
  Sharding sharding;
  sharding.kind = ShardingKind::kMaximal;
  sharding.device = device;
  return Intern(std::move(sharding));
}

const Sharding* Context::Tiled(TileAssignment tiles, std::vector<SubgroupType> subgroups) {
  Sharding sharding;
  sharding.kind = ShardingKind::kTiled;
  sharding.tiles = std::move(tiles);
  sharding.subgroups = std::move(subgroups);
  return Intern(std::move(sharding));
}

const Sharding* Context::TupleOf(std::vector<const Sharding*> leaves) {
  Sharding sharding;
  sharding.kind = ShardingKind::kTuple;
  sharding.elements = std::move(leaves);
  return Intern(std::move(sharding));
}

const Sharding* Context::FindShardingText(std::string_view text) const {
  const auto found = tables_->sharding_texts.find(text);
  return found == tables_->sharding_texts.end() ? nullptr : found->second;
}

void Context::RememberShardingText(std::string_view text, const Sharding* sharding) {
  tables_->sharding_texts.emplace(arena_.Copy(text), sharding);
}

}  // namespace gshard
