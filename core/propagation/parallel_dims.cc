#include "core/propagation/parallel_dims.h"

#include <algorithm>
#include <optional>
#include <span>

#include "ir/attributes.h"
#include "ir/dims.h"
#include "ir/literal.h"

namespace gshard {
namespace {

// Dim along which the constant counts 0, 1, 2, ..; nothing if it does not.
std::optional<int64_t> CountingDim(const Literal& literal) {
  const Shape* shape = literal.shape;
  if (literal.elided || !shape->IsArray() || shape->dtype() != DType::kS32) return std::nullopt;
  if (shape->element_count() < 2) return std::nullopt;
  std::span<const int32_t> values = literal.values<int32_t>();
  int64_t stride = shape->element_count();
  for (int64_t d = 0; d < shape->rank(); ++d) {
    int64_t size = shape->dim(d);
    stride /= size;
    if (size < 2) continue;
    bool counts = true;
    for (size_t i = 0; counts && i < values.size(); ++i) {
      counts = values[i] == (static_cast<int64_t>(i) / stride) % size;
    }
    if (counts) return d;
  }
  return std::nullopt;
}

constexpr int kMaxDepth = 64;

// The dim along which `x` is an iota.
std::optional<int64_t> IotaDim(const Instruction* x, const ComputationMap& computations,
                               int depth = 0) {
  if (depth > kMaxDepth) return std::nullopt;
  switch (x->opcode()) {
    case Opcode::kIota:
      return x->attributes<IotaAttributes>().dimension;
    case Opcode::kConstant:
      return CountingDim(*x->attributes<ConstantAttributes>().literal);
    case Opcode::kBroadcast: {
      std::optional<int64_t> d = IotaDim(x->operand(0), computations, depth + 1);
      if (!d) return std::nullopt;
      return x->attributes<DimensionsAttributes>().dimensions[static_cast<size_t>(*d)];
    }
    case Opcode::kGetTupleElement: {
      const Instruction* parameter = x->operand(0);
      if (parameter->opcode() != Opcode::kParameter) return std::nullopt;
      int64_t index = x->attributes<GetTupleElementAttributes>().index;
      const Instruction* caller = computations.CallerOf(parameter->parent());
      if (caller == nullptr) return std::nullopt;
      const Instruction* incoming = nullptr;
      if (caller->opcode() == Opcode::kWhile) {
        const Instruction* root = caller->called(1)->root();
        if (parameter->parent() != caller->called(1) || root->opcode() != Opcode::kTuple) {
          return std::nullopt;
        }
        const Instruction* back = root->operand(index);
        if (back->opcode() != Opcode::kGetTupleElement || back->operand(0) != parameter ||
            back->attributes<GetTupleElementAttributes>().index != index) {
          return std::nullopt;
        }
        incoming = caller->operand(0);
      } else {
        incoming = computations.CallerOperandOf(parameter);
      }
      if (incoming == nullptr || incoming->opcode() != Opcode::kTuple) return std::nullopt;
      return IotaDim(incoming->operand(index), computations, depth + 1);
    }
    default:  // no iota
      return std::nullopt;
  }
}

// The attributes of a gather, or of a scatter under the gather's names.
struct Roles {
  const Shape* operand;
  const Instruction* indices;
  const Shape* result;
  Dims offset_dims, collapsed, start_index_map, operand_batching, indices_batching;
  int64_t index_vector_dim;
  std::vector<int64_t> slice_sizes;
};

Roles RolesOf(const Instruction& x) {
  Roles r;
  if (x.opcode() == Opcode::kGather) {
    const GatherAttributes& a = x.attributes<GatherAttributes>();
    r = {x.operand(0)->shape(),
         x.operand(1),
         x.shape(),
         a.offset_dims,
         a.collapsed_slice_dims,
         a.start_index_map,
         a.operand_batching_dims,
         a.start_indices_batching_dims,
         a.index_vector_dim,
         std::vector<int64_t>(a.slice_sizes.begin(), a.slice_sizes.end())};
    return r;
  }
  const ScatterAttributes& a = x.attributes<ScatterAttributes>();
  int64_t n = x.operand_count() / 2;  // and one operand more, the indices
  r = {x.operand(0)->shape(),     x.operand(n),
       x.operand(n + 1)->shape(), a.update_window_dims,
       a.inserted_window_dims,    a.scatter_dims_to_operand_dims,
       a.input_batching_dims,     a.scatter_indices_batching_dims,
       a.index_vector_dim,        {}};
  size_t window = 0;
  for (int64_t d = 0; d < r.operand->rank(); ++d) {
    bool is_window = !Contains(r.collapsed, d) && !Contains(r.operand_batching, d);
    r.slice_sizes.push_back(is_window ? r.result->dim(r.offset_dims[window++]) : 1);
  }
  return r;
}

std::vector<GatherDims::Parallel> ImplicitDims(const Roles& r, const GatherDims& dims,
                                               const ComputationMap& computations) {
  const Instruction* indices = r.indices;
  while (indices->opcode() == Opcode::kCopy) indices = indices->operand(0);
  // One entry per index component: the dim it is an iota along, or -1.
  std::vector<int64_t> component_dim;
  auto examine = [&](const Instruction* piece) {
    int64_t components =
        r.index_vector_dim < piece->shape()->rank() ? piece->shape()->dim(r.index_vector_dim) : 1;
    std::optional<int64_t> d = IotaDim(piece, computations);
    if (d && *d == r.index_vector_dim) d.reset();
    component_dim.insert(component_dim.end(), static_cast<size_t>(components), d.value_or(-1));
  };
  if (indices->opcode() == Opcode::kConcatenate &&
      indices->attributes<DimensionsAttributes>().dimensions[0] == r.index_vector_dim) {
    for (const Instruction* piece : indices->operands()) examine(piece);
  } else {
    examine(indices);
  }
  std::vector<GatherDims::Parallel> pairs;
  for (size_t k = 0; k < component_dim.size() && k < r.start_index_map.size(); ++k) {
    int64_t d = component_dim[k];
    if (d < 0) continue;
    for (const GatherDims::Parallel& p : pairs) {
      if (p.indices == d) return {};
    }
    int64_t operand_dim = r.start_index_map[k];
    if (r.slice_sizes[static_cast<size_t>(operand_dim)] != 1 || Contains(r.indices_batching, d)) {
      continue;
    }
    if (r.operand->dim(operand_dim) != r.indices->shape()->dim(d)) return {};
    size_t place =
        static_cast<size_t>(std::find(dims.indices_batch.begin(), dims.indices_batch.end(), d) -
                            dims.indices_batch.begin());
    pairs.push_back({operand_dim, d, dims.result_batch[place]});
  }
  return pairs;
}

std::vector<int64_t> Collect(const std::vector<GatherDims::Parallel>& dims,
                             int64_t GatherDims::Parallel::*side) {
  std::vector<int64_t> list;
  for (const GatherDims::Parallel& p : dims) list.push_back(p.*side);
  return list;
}

}  // namespace

std::vector<int64_t> GatherDims::Operand(bool implicit) const {
  return Collect(implicit ? implicit_dims : explicit_dims, &Parallel::operand);
}
std::vector<int64_t> GatherDims::Indices(bool implicit) const {
  return Collect(implicit ? implicit_dims : explicit_dims, &Parallel::indices);
}
std::vector<int64_t> GatherDims::Result(bool implicit) const {
  return Collect(implicit ? implicit_dims : explicit_dims, &Parallel::result);
}

const GatherDims& ParallelDimsCache::Of(const Instruction& x, const ComputationMap& computations) {
  auto [it, fresh] = cache_.try_emplace(&x);
  if (!fresh) return it->second;
  GatherDims& dims = it->second;
  Roles r = RolesOf(x);
  for (int64_t d = 0; d < r.indices->shape()->rank(); ++d) {
    if (d != r.index_vector_dim) dims.indices_batch.push_back(d);
  }
  for (int64_t d = 0; d < r.result->rank(); ++d) {
    if (!Contains(r.offset_dims, d)) dims.result_batch.push_back(d);
  }
  for (size_t i = 0; i < r.operand_batching.size(); ++i) {
    int64_t d = r.indices_batching[i];
    size_t place = static_cast<size_t>(d - (d > r.index_vector_dim ? 1 : 0));
    dims.explicit_dims.push_back({r.operand_batching[i], d, dims.result_batch[place]});
  }
  size_t offset = 0;
  for (int64_t d = 0; d < r.operand->rank(); ++d) {
    if (Contains(r.collapsed, d) || Contains(r.operand_batching, d)) continue;
    int64_t result_dim = r.offset_dims[offset++];
    if (r.slice_sizes[static_cast<size_t>(d)] == r.operand->dim(d)) {
      dims.operand_pass.push_back(d);
      dims.result_pass.push_back(result_dim);
    }
  }
  dims.implicit_dims = ImplicitDims(r, dims, computations);
  return dims;
}

}  // namespace gshard
