#include "core/partition/scope/partition_scope.h"

#include <fmt/format.h>

#include <algorithm>

#include "core/analysis/partitioned.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"

namespace gshard {

PartitionedValue* PartitionScope::NewEmpty(const Shape* shape) {
  void* place = run_.memory.allocate(sizeof(PartitionedValue), alignof(PartitionedValue));
  auto* value = new (place) PartitionedValue(&run_.memory);
  value->shape = shape;
  return value;
}

PartitionedValue* PartitionScope::NewValue(const Shape* shape, const MeshLayout* layout,
                                           Instruction* local) {
  PartitionedValue* value = NewEmpty(shape);
  value->layout = layout;
  value->variants.push_back({layout, local});
  return value;
}

PartitionedValue* PartitionScope::NewRematerializable(const Shape* shape, const Instruction* source,
                                                      const PartitionedValue::Rematerializer* maker,
                                                      PartitionedValue* payload) {
  PartitionedValue* value = NewEmpty(shape);
  value->source = source;
  value->maker = maker;
  value->payload = payload;
  return value;
}

PartitionedValue* PartitionScope::NewWithoutElements(const Instruction* source) {
  static constexpr PartitionedValue::Rematerializer kMaker = {
      [](PartitionScope& scope, const PartitionedValue& value, const MeshLayout* layout) {
        Instruction* local = scope.WithoutElements(value, layout);
        scope.TakeName(local, value.source);
        return local;
      },
      nullptr, nullptr};
  return NewRematerializable(source->shape(), source, &kMaker);
}

Instruction* PartitionScope::WithoutElements(const PartitionedValue& value,
                                             const MeshLayout* layout) {
  const Shape* shape = LocalShape(context(), value.shape, layout);
  Instruction* zero = geometry_.Number(shape->dtype(), 0);
  Instruction* local = builder_.BroadcastScalar(zero, shape->dims());
  local->set_shape(shape);
  return local;
}

PartitionedValue* PartitionScope::NewCopy(const PartitionedValue& value) {
  PartitionedValue* copy =
      NewRematerializable(value.shape, value.source, value.maker, value.payload);
  copy->variants = value.variants;
  return copy;
}

std::vector<const MeshLayout*> PartitionScope::LeafLayouts(const PartitionedValue& value) {
  if (!value.IsTuple()) {
    return {LayoutOf(value)};
  }
  std::vector<const MeshLayout*> leaves;
  for (const PartitionedValue* element : value.elements) {
    std::vector<const MeshLayout*> part = LeafLayouts(*element);
    leaves.insert(leaves.end(), part.begin(), part.end());
  }
  return leaves;
}

std::string_view PartitionScope::NameOf(const Instruction* source) {
  uint8_t& taken = run_.name_taken[source->id()];
  if (taken != 0) return run_.module.UniqueName(source->name());
  taken = 1;
  return source->name();
}

void PartitionScope::TakeName(Instruction* local, const Instruction* source) {
  local->set_name(NameOf(source));
}

namespace {

// Those of `source`; the layouts that a custom call wants of its operands are those of the tiles.
void* LocalAttributes(Module& module, const Instruction* source,
                      std::span<Instruction* const> operands) {
  void* attributes = const_cast<void*>(source->raw_attributes());
  if (source->opcode() != Opcode::kCustomCall) return attributes;
  const auto wanted = source->attributes<CustomCallAttributes>().operand_layout_constraints;
  std::vector<const Shape*> fitted(wanted.begin(), wanted.end());
  for (size_t i = 0; i < std::min(fitted.size(), operands.size()); ++i) {
    const Shape* shape = operands[i]->shape();
    if (!shape->IsArray() || !fitted[i]->IsArray() || shape->rank() != fitted[i]->rank()) continue;
    fitted[i] = module.context().Array(fitted[i]->dtype(), shape->dims(), fitted[i]->layout(),
                                       shape->dynamic_flags());
  }
  if (std::ranges::equal(fitted, wanted)) return attributes;
  auto* local =
      module.arena().New<CustomCallAttributes>(source->attributes<CustomCallAttributes>());
  local->operand_layout_constraints = module.arena().Copy(fitted);
  return local;
}

}  // namespace

Instruction* PartitionScope::CloneLocal(const Instruction* source,
                                        std::span<Instruction* const> operands,
                                        const Shape* shape) {
  Instruction* local =
      run_.module.AddRaw(builder_.computation(), source->opcode(), NameOf(source), shape, operands,
                         LocalAttributes(run_.module, source, operands), source->called());
  local->set_source(source->source());
  local->set_metadata(source->metadata());
  local->set_frontend_attributes(source->frontend_attributes());
  local->set_backend_config(source->backend_config());
  return local;
}

PartitionedValue* PartitionScope::NewTuple(const Shape* shape,
                                           std::span<PartitionedValue* const> elements) {
  PartitionedValue* value = NewEmpty(shape);
  value->elements.assign(elements.begin(), elements.end());
  return value;
}

PartitionedValue* PartitionScope::NewFromLocal(const Shape* shape,
                                               std::span<const MeshLayout* const> leaves,
                                               Instruction* local) {
  if (!shape->IsTuple()) return NewValue(shape, leaves[0], local);
  std::vector<PartitionedValue*> elements;
  size_t leaf = 0;
  int64_t index = 0;
  for (const Shape* element : shape->elements()) {
    auto count = static_cast<size_t>(element->leaf_count());
    elements.push_back(NewFromLocal(element, leaves.subspan(leaf, count),
                                    builder_.GetTupleElement(local, index++)));
    leaf += count;
  }
  PartitionedValue* value = NewTuple(shape, elements);
  value->tuple = local;
  return value;
}

Instruction* PartitionScope::Materialize(PartitionedValue* value,
                                         std::span<const MeshLayout* const> leaves,
                                         const ReshardCause& cause) {
  if (!value->IsTuple()) return Reshard(value, leaves[0], cause);
  std::vector<Instruction*> locals;
  size_t leaf = 0;
  for (PartitionedValue* element : value->elements) {
    auto count = static_cast<size_t>(element->shape->leaf_count());
    locals.push_back(Materialize(element, leaves.subspan(leaf, count), cause));
    leaf += count;
  }
  if (value->tuple != nullptr) {
    bool unchanged = true;
    for (size_t i = 0; i < locals.size() && unchanged; ++i) {
      unchanged =
          locals[i]->opcode() == Opcode::kGetTupleElement &&
          locals[i]->operand(0) == value->tuple &&
          locals[i]->attributes<GetTupleElementAttributes>().index == static_cast<int64_t>(i);
    }
    if (unchanged) return value->tuple;
  }
  return builder_.Tuple(locals);
}

// --- collectives

Instruction* PartitionScope::Caused(Instruction* collective, const ReshardCause& cause,
                                    int64_t bytes) {
  std::string_view text = cause.note;
  if (text.empty() && cause.user != nullptr) text = cause.user->name();
  if (!text.empty() && run_.options.tells_causes) {
    collective->set_frontend_attributes(
        WithFrontendAttribute(run_.module.arena(), {}, kCauseAttribute, text));
  }
  if (ExplainRecorder* recorder = run_.options.recorder) {
    auto sharding = [&](const MeshLayout* layout) {
      return layout == nullptr ? nullptr : layouts().ToSharding(layout);
    };
    recorder->RecordCollective(collective, {cause.user, cause.value, sharding(cause.has),
                                            sharding(cause.wants), cause.full_rematerialization});
  }
  ++run_.stats.collectives;
  run_.stats.bytes_received += bytes;
  return collective;
}

Instruction* PartitionScope::AllReduce(Instruction* x, const MeshLayout* layout, AxisSpan axes,
                                       Computation* to_apply, const ReshardCause& cause) {
  int64_t group = AxesSize(axes);
  if (group == 1) return x;
  Instruction* result = builder_.AllReduce(
      x, layouts().Groups(layout, SortedAxes(axes), run_.module.header().replica_count), to_apply);
  return Caused(result, cause, 2 * x->shape()->byte_size() / group * (group - 1));
}

Instruction* PartitionScope::AllReduce(Instruction* x, const MeshLayout* layout, AxisSpan axes,
                                       Opcode combiner, const ReshardCause& cause) {
  return AllReduce(x, layout, axes, builder_.BinaryComputation(combiner, x->shape()->dtype()),
                   cause);
}

Instruction* PartitionScope::AllGather(Instruction* x, int64_t dim, const MeshLayout* layout,
                                       AxisSpan axes, const ReshardCause& cause) {
  int64_t group = AxesSize(axes);
  if (group == 1) return x;
  Instruction* result = builder_.AllGather(
      x, dim, layouts().Groups(layout, axes, run_.module.header().replica_count), group);
  return Caused(result, cause, x->shape()->byte_size() * (group - 1));
}

Instruction* PartitionScope::ReduceScatter(Instruction* x, int64_t dim, const MeshLayout* layout,
                                           AxisSpan axes, Opcode combiner,
                                           const ReshardCause& cause) {
  int64_t group = AxesSize(axes);
  if (group == 1) return x;
  Instruction* result = builder_.ReduceScatter(
      x, dim, layouts().Groups(layout, axes, run_.module.header().replica_count), group,
      builder_.BinaryComputation(combiner, x->shape()->dtype()));
  return Caused(result, cause, x->shape()->byte_size() / group * (group - 1));
}

Instruction* PartitionScope::AllToAll(Instruction* x, int64_t dim, const MeshLayout* layout,
                                      AxisSpan axes, const ReshardCause& cause) {
  int64_t group = AxesSize(axes);
  if (group == 1) return x;
  Instruction* result = builder_.AllToAll(x, dim, layouts().Groups(layout, axes, 1));
  return Caused(result, cause, x->shape()->byte_size() / group * (group - 1));
}

Instruction* PartitionScope::CollectivePermute(Instruction* x, std::span<const DevicePair> pairs,
                                               const ReshardCause& cause) {
  return Caused(builder_.CollectivePermute(x, pairs), cause, x->shape()->byte_size());
}

// --- local data movement

Instruction* PartitionScope::Resize(Instruction* x, int64_t dim, int64_t size) {
  int64_t now = x->shape()->dim(dim);
  if (now == size) return x;
  auto rank = static_cast<size_t>(x->shape()->rank());
  if (size < now) {
    std::vector<int64_t> starts(rank, 0);
    std::vector<int64_t> limits(x->shape()->dims().begin(), x->shape()->dims().end());
    limits[static_cast<size_t>(dim)] = size;
    return builder_.Slice(x, starts, limits);
  }
  std::vector<PadDim> padding(rank);
  padding[static_cast<size_t>(dim)].high = size - now;
  return builder_.Pad(x, geometry_.Number(x->shape()->dtype(), 0), padding);
}

}  // namespace gshard
