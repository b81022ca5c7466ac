// gather, scatter, sort, topk and TopK (docs/semantics.md, sections 6 and 9).
#include <algorithm>
#include <bit>
#include <numeric>

#include "tests/reference/families.h"

namespace gshard::cpu {
namespace {

bool Contains(Dims dims, size_t d) {
  return std::find(dims.begin(), dims.end(), static_cast<int64_t>(d)) != dims.end();
}

// The index vector for one position in the dims of `indices` other than the vector's.
std::vector<int64_t> IndexVector(const ReferenceValue& indices, int64_t vector_dim,
                                 const Index& position, size_t length) {
  const bool is_unsigned = ClassOf(indices.shape->dtype()) == DTypeClass::kUnsigned;
  std::vector<int64_t> vector;
  for (size_t k = 0; k < length; ++k) {
    Index at = position;
    if (vector_dim < indices.shape->rank()) {
      at.insert(at.begin() + vector_dim, static_cast<int64_t>(k));
    }
    const int64_t value = At(indices, at).i;
    vector.push_back(is_unsigned && value < 0 ? INT64_MAX : value);
  }
  return vector;
}

// Position k of `position` without the vector's dim, for dim `d` of the indices.
int64_t BatchIndex(const Index& position, int64_t d, int64_t vector_dim) {
  return position[static_cast<size_t>(d > vector_dim ? d - 1 : d)];
}

// Splits an index of the result (or update) into window and batch parts.
void Split(const Index& index, Dims window_dims, Index& window, Index& batch) {
  window.clear();
  batch.clear();
  for (size_t d = 0; d < index.size(); ++d) {
    (Contains(window_dims, d) ? window : batch).push_back(index[d]);
  }
}

ReferenceValue Gather(const Instruction& x, ReferenceOperands operands) {
  const GatherAttributes& gather = x.attributes<GatherAttributes>();
  const std::span<const int64_t> dims = operands[0].shape->dims();
  ReferenceValue result = Zeros(x.shape());
  Index window, batch;
  ForEachIndex(x.shape()->dims(), [&](const Index& index) {
    Split(index, gather.offset_dims, window, batch);
    const std::vector<int64_t> vector =
        IndexVector(operands[1], gather.index_vector_dim, batch, gather.start_index_map.size());
    Index source(dims.size(), 0);
    for (size_t k = 0; k < vector.size(); ++k) {
      const size_t d = static_cast<size_t>(gather.start_index_map[k]);
      source[d] = std::clamp<int64_t>(vector[k], 0, dims[d] - gather.slice_sizes[d]);
    }
    for (size_t k = 0; k < gather.operand_batching_dims.size(); ++k) {
      source[static_cast<size_t>(gather.operand_batching_dims[k])] =
          BatchIndex(batch, gather.start_indices_batching_dims[k], gather.index_vector_dim);
    }
    size_t next = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!Contains(gather.collapsed_slice_dims, d) && !Contains(gather.operand_batching_dims, d)) {
        source[d] += window[next++];
      }
    }
    At(result, index) = At(operands[0], source);
  });
  return result;
}

ReferenceValue Scatter(const Instruction& x, ReferenceOperands operands) {
  const ScatterAttributes& scatter = x.attributes<ScatterAttributes>();
  const size_t count = operands.size() / 2;
  const ReferenceValue& indices = operands[count];
  const ReferenceOperands updates = operands.subspan(count + 1);
  std::vector<ReferenceValue> results(operands.begin(),
                                      operands.begin() + static_cast<std::ptrdiff_t>(count));
  const std::span<const int64_t> dims = results[0].shape->dims();
  const std::span<const int64_t> update_dims = updates[0].shape->dims();
  Index window, batch, last;
  // Where the window of `batch` starts, and the place of `window` in it.
  const auto place = [&](const Index& offset) {
    Index target(dims.size(), 0);
    const std::vector<int64_t> vector = IndexVector(indices, scatter.index_vector_dim, batch,
                                                    scatter.scatter_dims_to_operand_dims.size());
    for (size_t k = 0; k < vector.size(); ++k) {
      target[static_cast<size_t>(scatter.scatter_dims_to_operand_dims[k])] = vector[k];
    }
    for (size_t k = 0; k < scatter.input_batching_dims.size(); ++k) {
      target[static_cast<size_t>(scatter.input_batching_dims[k])] =
          BatchIndex(batch, scatter.scatter_indices_batching_dims[k], scatter.index_vector_dim);
    }
    size_t next = 0;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (!Contains(scatter.inserted_window_dims, d) && !Contains(scatter.input_batching_dims, d)) {
        // Far out stays out, without overflow.
        target[d] = target[d] > dims[d] ? dims[d] : target[d] + offset[next];
        ++next;
      }
    }
    return target;
  };
  last.clear();
  for (size_t d = 0; d < update_dims.size(); ++d) {
    if (Contains(scatter.update_window_dims, d)) last.push_back(update_dims[d] - 1);
  }
  ForEachIndex(update_dims, [&](const Index& index) {
    Split(index, scatter.update_window_dims, window, batch);
    // A window that sticks out is left out as a whole.
    if (!IsInside(dims, place(Index(last.size(), 0))) || !IsInside(dims, place(last))) return;
    const Index target = place(window);
    std::vector<Number> arguments;
    for (const ReferenceValue& result : results) arguments.push_back(At(result, target));
    for (const ReferenceValue& update : updates) arguments.push_back(At(update, index));
    const std::vector<Number> leaves = CallScalars(*x.called(0), arguments);
    for (size_t k = 0; k < count; ++k) At(results[k], target) = leaves[k];
  });
  if (!x.shape()->IsTuple()) return results[0];
  ReferenceValue tuple = Zeros(x.shape());
  tuple.elements = std::move(results);
  return tuple;
}

// Slices along `dim`: visit(indices of its elements).
template <typename Visit>
void ForEachSlice(std::span<const int64_t> dims, size_t dim, Visit visit) {
  Index outer(dims.begin(), dims.end());
  const int64_t length = outer[dim];
  outer[dim] = length > 0 ? 1 : 0;
  ForEachIndex(outer, [&](const Index& start) {
    std::vector<Index> slice;
    for (int64_t i = 0; i < length; ++i) {
      slice.push_back(start);
      slice.back()[dim] = i;
    }
    visit(slice);
  });
}

ReferenceValue Sort(const Instruction& x, ReferenceOperands operands) {
  const size_t dim = static_cast<size_t>(x.attributes<SortAttributes>().dimension);
  std::vector<ReferenceValue> results(operands.begin(), operands.end());
  ForEachSlice(operands[0].shape->dims(), dim, [&](const std::vector<Index>& slice) {
    std::vector<size_t> order(slice.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      std::vector<Number> arguments;
      for (const ReferenceValue& operand : operands) {
        arguments.push_back(At(operand, slice[a]));
        arguments.push_back(At(operand, slice[b]));
      }
      return CallScalars(*x.called(0), arguments)[0].i != 0;
    });
    for (size_t k = 0; k < operands.size(); ++k) {
      for (size_t i = 0; i < slice.size(); ++i) {
        At(results[k], slice[i]) = At(operands[k], slice[order[i]]);
      }
    }
  });
  if (!x.shape()->IsTuple()) return results[0];
  ReferenceValue tuple = Zeros(x.shape());
  tuple.elements = std::move(results);
  return tuple;
}

// Total order; lower index first among equals.
bool ComesBefore(DType dtype, const Number& a, const Number& b) {
  if (!IsFloat(dtype)) {
    if (ClassOf(dtype) == DTypeClass::kSigned) return a.i < b.i;
    return static_cast<uint64_t>(a.i) < static_cast<uint64_t>(b.i);
  }
  const auto key = [](double value) {
    const int64_t bits = std::bit_cast<int64_t>(value);
    return bits < 0 ? INT64_MIN - bits - 1 : bits;
  };
  return key(a.z.real()) < key(b.z.real());
}

ReferenceValue TopK(const Instruction& x, const ReferenceValue& operand, bool largest) {
  ReferenceValue result = Zeros(x.shape());
  const size_t dim = static_cast<size_t>(operand.shape->rank() - 1);
  const size_t k = static_cast<size_t>(x.shape()->element(0)->dims()[dim]);
  const DType dtype = operand.shape->dtype();
  ForEachSlice(operand.shape->dims(), dim, [&](const std::vector<Index>& slice) {
    std::vector<size_t> order(slice.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      const Number &p = At(operand, slice[a]), &q = At(operand, slice[b]);
      return largest ? ComesBefore(dtype, q, p) : ComesBefore(dtype, p, q);
    });
    for (size_t i = 0; i < k; ++i) {
      At(result.elements[0], slice[i]) = At(operand, slice[order[i]]);
      At(result.elements[1], slice[i]).i = static_cast<int64_t>(order[i]);
    }
  });
  return result;
}

}  // namespace

ReferenceValue IndexingReference(const Instruction& x, ReferenceOperands operands) {
  return x.opcode() == Opcode::kGather ? Gather(x, operands) : Scatter(x, operands);
}

ReferenceValue SortReference(const Instruction& x, ReferenceOperands operands) {
  if (x.opcode() == Opcode::kSort) return Sort(x, operands);
  const bool largest = x.opcode() != Opcode::kTopK || x.attributes<TopKAttributes>().largest;
  return TopK(x, operands[0], largest);
}

}  // namespace gshard::cpu
