#include "ir/builder.h"

#include <algorithm>
#include <bit>
#include <string>

#include "ir/shape_inference.h"

namespace gshard {

namespace {

// 0, 1, 2, ..
bool IsIdentity(std::span<const int64_t> dims) {
  for (size_t i = 0; i < dims.size(); ++i) {
    if (dims[i] != static_cast<int64_t>(i)) return false;
  }
  return true;
}

}  // namespace

Instruction* Builder::AddOwned(Opcode opcode, std::span<Instruction* const> operands,
                               void* attributes, const Shape* shape,
                               std::span<Computation* const> called, std::string_view name,
                               const Shape* declared) {
  if (shape == nullptr) {
    const Shape* buffer[8];
    std::vector<const Shape*> heap;
    std::span<const Shape*> shapes(buffer, std::min(operands.size(), std::size(buffer)));
    if (operands.size() > std::size(buffer)) {
      heap.resize(operands.size());
      shapes = heap;
    }
    for (size_t i = 0; i < operands.size(); ++i) shapes[i] = operands[i]->shape();
    tl::expected<const Shape*, std::string> inferred =
        InferShape(context(), {opcode, shapes, attributes, called, declared});
    if (!inferred) throw InternalError("builder: " + inferred.error());
    shape = *inferred;
  }
  if (name.empty()) name = OpcodeName(opcode);
  Instruction* result = module_->AddRaw(computation_, opcode, module_->UniqueName(name), shape,
                                        operands, attributes, called);
  if (origin_ != nullptr) {
    result->set_source(origin_->source());
    result->set_metadata(origin_->metadata());
  }
  return result;
}

Instruction* Builder::CloneWith(const Instruction* original, std::span<Instruction* const> operands,
                                const Shape* shape) {
  const Shape* declared = original->shape();
  switch (original->opcode()) {
    case Opcode::kConvert:  // declared gives the type only
      if (shape == nullptr) shape = context().WithDType(operands[0]->shape(), declared->dtype());
      break;
    case Opcode::kAllGather:  // sizes follow from the groups
    case Opcode::kReduceScatter:
      declared = nullptr;
      break;
    default:
      break;
  }
  Instruction* result =
      AddOwned(original->opcode(), operands, const_cast<void*>(original->raw_attributes()), shape,
               original->called(), original->name(), declared);
  if (shape == nullptr && Compatible(result->shape(), original->shape())) {
    result->set_shape(original->shape());
  }
  if (origin_ == nullptr) {
    result->set_source(original->source());
    result->set_metadata(original->metadata());
  }
  result->set_frontend_attributes(original->frontend_attributes());
  result->set_backend_config(original->backend_config());
  return result;
}

Instruction* Builder::Parameter(int64_t number, const Shape* shape, std::string_view name) {
  return Add(Opcode::kParameter, {}, ParameterAttributes{number, {}}, shape, {}, name);
}

Instruction* Builder::Constant(const Literal* literal) {
  return Add(Opcode::kConstant, {}, ConstantAttributes{literal}, literal->shape);
}

size_t Builder::ScalarKeyHash::operator()(const ScalarKey& key) const {
  return std::hash<uint64_t>()(key.bits * 0x9E3779B97F4A7C15u + static_cast<uint64_t>(key.dtype));
}

Instruction* Builder::Scalar(DType dtype, double value) {
  Instruction*& cached = scalars_[{dtype, std::bit_cast<uint64_t>(value)}];
  if (cached == nullptr) {
    cached = Constant(SplatLiteral(module_->arena(), context().Scalar(dtype), value));
  }
  return cached;
}

Instruction* Builder::ScalarInt(DType dtype, int64_t value) {
  if (!IsInteger(dtype)) return Scalar(dtype, static_cast<double>(value));
  Instruction*& cached = integers_[{dtype, static_cast<uint64_t>(value)}];
  if (cached == nullptr) {
    cached = Constant(IntegerLiteral(module_->arena(), context().Scalar(dtype), {&value, 1}));
  }
  return cached;
}

Instruction* Builder::IntegerTable(DType dtype, std::span<const int64_t> values) {
  const int64_t dims[] = {static_cast<int64_t>(values.size())};
  return Constant(IntegerLiteral(module_->arena(), context().Array(dtype, dims), values));
}

Instruction* Builder::Filled(const Shape* shape, Instruction* scalar) {
  return BroadcastScalar(scalar, shape->dims());
}

Instruction* Builder::Zero(const Shape* shape) {
  return BroadcastScalar(Scalar(shape->dtype(), 0), shape->dims());
}

Instruction* Builder::Iota(const Shape* shape, int64_t dimension) {
  return Add(Opcode::kIota, {}, IotaAttributes{dimension}, shape);
}

Instruction* Builder::PartitionId() {
  if (partition_id_ == nullptr) {
    partition_id_ = Add(Opcode::kPartitionId, {}, context().Scalar(DType::kU32));
  }
  return partition_id_;
}

Instruction* Builder::Convert(Instruction* x, DType dtype) {
  if (x->shape()->dtype() == dtype) return x;
  return Add(Opcode::kConvert, {x}, context().WithDType(x->shape()->bare(), dtype));
}

Instruction* Builder::Compare(ComparisonDirection direction, Instruction* a, Instruction* b) {
  Instruction* operands[] = {a, b};
  return Add(Opcode::kCompare, operands, CompareAttributes{direction, ComparisonType::kDefault});
}

Instruction* Builder::Select(Instruction* pred, Instruction* on_true, Instruction* on_false) {
  if (on_true == on_false) return on_true;
  return Add(Opcode::kSelect, {pred, on_true, on_false});
}

Instruction* Builder::Binary(Opcode opcode, Instruction* a, Instruction* b) {
  return Add(opcode, {a, b}, nullptr);
}

Instruction* Builder::Clamp(Instruction* low, Instruction* x, Instruction* high) {
  return Add(Opcode::kClamp, {low, x, high});
}

Instruction* Builder::Broadcast(Instruction* x, std::span<const int64_t> result_dims,
                                std::span<const int64_t> dimensions) {
  if (IsIdentity(dimensions) && std::ranges::equal(x->shape()->dims(), result_dims)) return x;
  Instruction* operands[] = {x};
  const Shape* shape = context().Array(x->shape()->dtype(), result_dims);
  return Add(Opcode::kBroadcast, operands, DimensionsAttributes{Copy(dimensions)}, shape);
}

Instruction* Builder::BroadcastScalar(Instruction* scalar, std::span<const int64_t> result_dims) {
  return Broadcast(scalar, result_dims, {});
}

Instruction* Builder::Reshape(Instruction* x, std::span<const int64_t> dims) {
  while (x->opcode() == Opcode::kReshape && !std::ranges::equal(x->shape()->dims(), dims)) {
    x = x->operand(0);
  }
  if (std::ranges::equal(x->shape()->dims(), dims)) return x;
  const Shape* shape = context().Array(x->shape()->dtype(), dims);
  CheckInternal(shape->element_count() == x->shape()->element_count(),
                "builder: reshape changes the number of elements");
  Instruction* operands[] = {x};
  return Add(Opcode::kReshape, operands, ReshapeAttributes{}, shape);
}

Instruction* Builder::Transpose(Instruction* x, std::span<const int64_t> permutation) {
  if (IsIdentity(permutation)) return x;
  Instruction* operands[] = {x};
  return Add(Opcode::kTranspose, operands, DimensionsAttributes{Copy(permutation)});
}

Instruction* Builder::Slice(Instruction* x, std::span<const int64_t> starts,
                            std::span<const int64_t> limits, std::span<const int64_t> strides) {
  const bool unit =
      std::all_of(strides.begin(), strides.end(), [](int64_t stride) { return stride == 1; });
  if (unit && std::ranges::equal(x->shape()->dims(), limits) &&
      std::all_of(starts.begin(), starts.end(), [](int64_t start) { return start == 0; })) {
    return x;
  }
  SliceAttributes attributes{Copy(starts), Copy(limits), {}};
  if (strides.empty()) {
    std::span<int64_t> ones = module_->arena().NewSpan<int64_t>(starts.size());
    std::fill(ones.begin(), ones.end(), 1);
    attributes.strides = ones;
  } else {
    attributes.strides = Copy(strides);
  }
  Instruction* operands[] = {x};
  return Add(Opcode::kSlice, operands, attributes);
}

Instruction* Builder::SliceDim(Instruction* x, int64_t dimension, int64_t start, int64_t limit) {
  std::span<const int64_t> dims = x->shape()->dims();
  std::vector<int64_t> starts(dims.size(), 0);
  std::vector<int64_t> limits(dims.begin(), dims.end());
  starts[static_cast<size_t>(dimension)] = start;
  limits[static_cast<size_t>(dimension)] = limit;
  return Slice(x, starts, limits);
}

Instruction* Builder::DynamicSlice(Instruction* x, std::span<Instruction* const> starts,
                                   std::span<const int64_t> sizes) {
  if (std::ranges::equal(x->shape()->dims(), sizes)) return x;
  std::vector<Instruction*> operands = {x};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return Add(Opcode::kDynamicSlice, operands, DynamicSliceAttributes{Copy(sizes)});
}

Instruction* Builder::DynamicUpdateSlice(Instruction* x, Instruction* update,
                                         std::span<Instruction* const> starts) {
  if (Compatible(x->shape(), update->shape())) return update;
  std::vector<Instruction*> operands = {x, update};
  operands.insert(operands.end(), starts.begin(), starts.end());
  return Add(Opcode::kDynamicUpdateSlice, operands, NoAttributes{});
}

std::vector<Instruction*> Builder::StartsAt(const Instruction* x, int64_t dimension,
                                            Instruction* start) {
  std::vector<Instruction*> starts(static_cast<size_t>(x->shape()->rank()),
                                   ScalarInt(start->shape()->dtype(), 0));
  starts[static_cast<size_t>(dimension)] = start;
  return starts;
}

Instruction* Builder::DynamicSliceDim(Instruction* x, int64_t dimension, Instruction* start,
                                      int64_t size) {
  std::vector<int64_t> sizes(x->shape()->dims().begin(), x->shape()->dims().end());
  sizes[static_cast<size_t>(dimension)] = size;
  return DynamicSlice(x, StartsAt(x, dimension, start), sizes);
}

Instruction* Builder::DynamicUpdateDim(Instruction* x, Instruction* update, int64_t dimension,
                                       Instruction* start) {
  return DynamicUpdateSlice(x, update, StartsAt(x, dimension, start));
}

Instruction* Builder::Pad(Instruction* x, Instruction* value, std::span<const PadDim> padding) {
  const bool none = std::all_of(padding.begin(), padding.end(), [](const PadDim& pad) {
    return pad.low == 0 && pad.high == 0 && pad.interior == 0;
  });
  if (none) return x;
  Instruction* operands[] = {x, value};
  return Add(Opcode::kPad, operands, PadAttributes{module_->arena().Copy(padding)});
}

Instruction* Builder::PadDimension(Instruction* x, Instruction* value, int64_t dimension,
                                   int64_t low, int64_t high) {
  std::vector<PadDim> padding(x->shape()->dims().size());
  padding[static_cast<size_t>(dimension)] = {low, high, 0};
  return Pad(x, value, padding);
}

Instruction* Builder::Concatenate(std::span<Instruction* const> parts, int64_t dimension) {
  if (parts.size() == 1) return parts[0];
  return Add(Opcode::kConcatenate, parts, DimensionsAttributes{Copy({&dimension, 1})});
}

Instruction* Builder::MoveGroups(Instruction* x, int64_t from, int64_t to, int64_t groups) {
  if (groups == 1) return x;
  std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
  dims[static_cast<size_t>(from)] /= groups;
  std::vector<int64_t> result = dims, split = dims, permutation;
  result[static_cast<size_t>(to)] *= groups;
  split.insert(split.begin() + from, groups);
  for (int64_t d = 0; d < x->shape()->rank(); ++d) {
    if (d == to) permutation.push_back(from);
    permutation.push_back(d < from ? d : d + 1);
  }
  return Reshape(Transpose(Reshape(x, split), permutation), result);
}

Instruction* Builder::Reduce(Instruction* x, Instruction* init, std::span<const int64_t> dimensions,
                             Computation* to_apply) {
  Instruction* operands[] = {x, init};
  Computation* called[] = {to_apply};
  return Add(Opcode::kReduce, operands, DimensionsAttributes{Copy(dimensions)}, nullptr, called);
}

Instruction* Builder::Tuple(std::span<Instruction* const> elements) {
  return Add(Opcode::kTuple, elements, NoAttributes{});
}

Instruction* Builder::GetTupleElement(Instruction* tuple, int64_t index) {
  if (tuple->opcode() == Opcode::kTuple) return tuple->operand(index);
  Instruction* operands[] = {tuple};
  return Add(Opcode::kGetTupleElement, operands, GetTupleElementAttributes{index},
             tuple->shape()->element(index));
}

CollectiveAttributes Builder::FreshCollective(ReplicaGroups groups) {
  CollectiveAttributes attributes;
  attributes.channel_id = module_->NextChannelId();
  attributes.replica_groups = module_->Own(std::move(groups));
  return attributes;
}

Instruction* Builder::AllReduce(Instruction* x, ReplicaGroups groups, Computation* to_apply) {
  CollectiveAttributes attributes = FreshCollective(std::move(groups));
  attributes.use_global_device_ids = true;
  Instruction* operands[] = {x};
  Computation* called[] = {to_apply};
  return Add(Opcode::kAllReduce, operands, attributes, nullptr, called);
}

Instruction* Builder::AllGather(Instruction* x, int64_t dimension, ReplicaGroups groups,
                                int64_t group_size) {
  CollectiveAttributes attributes = FreshCollective(std::move(groups));
  attributes.use_global_device_ids = true;
  attributes.dimension = dimension;
  Instruction* operands[] = {x};
  std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
  dims[static_cast<size_t>(dimension)] *= group_size;
  return Add(Opcode::kAllGather, operands, attributes, context().Array(x->shape()->dtype(), dims));
}

Instruction* Builder::ReduceScatter(Instruction* x, int64_t dimension, ReplicaGroups groups,
                                    int64_t group_size, Computation* to_apply) {
  CollectiveAttributes attributes = FreshCollective(std::move(groups));
  attributes.use_global_device_ids = true;
  attributes.dimension = dimension;
  Instruction* operands[] = {x};
  Computation* called[] = {to_apply};
  std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
  int64_t& size = dims[static_cast<size_t>(dimension)];
  CheckInternal(size % group_size == 0, "builder: reduce-scatter does not divide");
  size /= group_size;
  return Add(Opcode::kReduceScatter, operands, attributes,
             context().Array(x->shape()->dtype(), dims), called);
}

Instruction* Builder::AllToAll(Instruction* x, int64_t dimension, ReplicaGroups groups) {
  CollectiveAttributes attributes = FreshCollective(std::move(groups));
  attributes.dimension = dimension;
  Instruction* operands[] = {x};
  return Add(Opcode::kAllToAll, operands, attributes);
}

Instruction* Builder::CollectivePermute(Instruction* x, std::span<const DevicePair> pairs) {
  CollectiveAttributes attributes;
  attributes.channel_id = module_->NextChannelId();
  attributes.source_target_pairs = module_->arena().Copy(pairs);
  Instruction* operands[] = {x};
  return Add(Opcode::kCollectivePermute, operands, attributes);
}

namespace {

bool IsBinaryOf(const Computation& computation, Opcode opcode, const Shape* scalar) {
  if (computation.parameter_count() != 2 || computation.instructions().size() != 3) return false;
  const Instruction* root = computation.root();
  return root != nullptr && root->opcode() == opcode && root->shape()->bare() == scalar &&
         root->operand(0) == computation.parameter(0) &&
         root->operand(1) == computation.parameter(1) &&
         root->operand(0)->shape()->bare() == scalar && root->operand(1)->shape()->bare() == scalar;
}

}  // namespace

Computation* Builder::BinaryComputation(Opcode opcode, DType dtype) {
  for (const Combiner& combiner : combiners_) {
    if (combiner.opcode == opcode && combiner.dtype == dtype) return combiner.computation;
  }
  const Shape* scalar = context().Scalar(dtype);
  Computation* found = nullptr;
  for (Computation* computation : module_->computations()) {
    if (IsBinaryOf(*computation, opcode, scalar)) {
      found = computation;
      break;
    }
  }
  if (found == nullptr) {
    std::string name(OpcodeName(opcode));
    name += '_';
    name += DTypeName(dtype);
    found = module_->AddComputation(name);
    Builder body(*module_, found);
    Instruction* operands[] = {body.Parameter(0, scalar, "a"), body.Parameter(1, scalar, "b")};
    found->set_root(body.Add(opcode, operands, NoAttributes{}));
    // Callees stand before their callers.
    std::span<Computation* const> all = module_->computations();
    std::vector<Computation*> order = {found};
    for (Computation* computation : all) {
      if (computation != found) order.push_back(computation);
    }
    module_->SetComputations(std::move(order));
  }
  combiners_.push_back({opcode, dtype, found});
  return found;
}

}  // namespace gshard
