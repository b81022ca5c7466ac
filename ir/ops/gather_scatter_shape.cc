// Gather and scatter share their geometry: windows of an operand addressed by an index array whose
// dim `index_vector_dim` holds the coordinates (docs/semantics.md, "Data movement").
#include "ir/ops/shape_rules.h"

namespace gshard {

namespace {

// The roles of operand, index and window dims, whichever of the two operations they come from.
struct Windows {
  std::string_view window_name;     // of window_dims: positions in the gather result / the updates
  std::string_view collapsed_name;  // of collapsed
  std::string_view map_name;        // of index_map
  std::string_view batching_name;
  std::string_view indices_batching_name;
  Dims window_dims, collapsed, index_map, batching, indices_batching;
  int64_t index_vector_dim;
};

Problem CheckSortedList(std::string_view what, Dims dims, int64_t rank) {
  if (Problem problem = CheckDimList(what, dims, rank)) return problem;
  return CheckSorted(what, dims);
}

// `rank`: of the gather result or the updates.
Problem CheckWindows(const Windows& w, const Shape* x, const Shape* indices, int64_t rank) {
  if (!IsInteger(indices->dtype())) {
    return ProblemOf("indices must be integers, found {}", Text(indices));
  }
  if (w.index_vector_dim < 0 || w.index_vector_dim > indices->rank()) {
    return ProblemOf("index_vector_dim {} is out of range for indices {}", w.index_vector_dim,
                     Text(indices));
  }
  if (Problem problem = CheckSortedList(w.window_name, w.window_dims, rank)) return problem;
  if (Problem problem = CheckSortedList(w.collapsed_name, w.collapsed, x->rank())) return problem;
  if (Problem problem = CheckSortedList(w.batching_name, w.batching, x->rank())) return problem;
  if (Problem problem = CheckDimList(w.map_name, w.index_map, x->rank())) return problem;
  if (Problem problem =
          CheckDimList(w.indices_batching_name, w.indices_batching, indices->rank())) {
    return problem;
  }
  const bool trailing = w.index_vector_dim == indices->rank();
  const int64_t vector_size = trailing ? 1 : indices->dim(w.index_vector_dim);
  if (!SizesAgree(static_cast<int64_t>(w.index_map.size()), vector_size)) {
    return ProblemOf("{} must name one dim per index coordinate: indices {} hold {}, found {}",
                     w.map_name, Text(indices), vector_size, DimsText(w.index_map));
  }
  if (w.batching.size() != w.indices_batching.size()) {
    return ProblemOf("{} and {} must pair up, found {} and {}", w.batching_name,
                     w.indices_batching_name, DimsText(w.batching), DimsText(w.indices_batching));
  }
  for (size_t i = 0; i < w.batching.size(); ++i) {
    const int64_t dim = w.batching[i], other = w.indices_batching[i];
    if (Contains(w.collapsed, dim) || Contains(w.index_map, dim)) {
      return ProblemOf("{} names dim {}, which is in {} or {} too", w.batching_name, dim,
                       w.collapsed_name, w.map_name);
    }
    if (other == w.index_vector_dim) {
      return ProblemOf("{} must not name index_vector_dim {}", w.indices_batching_name, other);
    }
    if (!SizesAgree(x->dim(dim), indices->dim(other))) {
      return ProblemOf("batching dim {} of {} and dim {} of indices {} differ in size", dim,
                       Text(x), other, Text(indices));
    }
  }
  const size_t kept = static_cast<size_t>(x->rank()) - w.collapsed.size() - w.batching.size();
  if (w.collapsed.size() + w.batching.size() > static_cast<size_t>(x->rank()) ||
      w.window_dims.size() != kept) {
    return ProblemOf(
        "{} must have one entry per dim of {} that is neither in {} nor in {}, found "
        "{}",
        w.window_name, Text(x), w.collapsed_name, w.batching_name, DimsText(w.window_dims));
  }
  return std::nullopt;
}

// Number of dims of `indices` that are not the index vector.
int64_t IndexBatchRank(const Shape* indices, int64_t index_vector_dim) {
  return indices->rank() - (index_vector_dim < indices->rank() ? 1 : 0);
}

}  // namespace

ShapeResult InferGather(Context& ctx, const OpView& op) {
  const auto& gather = op.as<GatherAttributes>();
  const Shape* x = op.operands[0];
  const Shape* indices = op.operands[1];
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const Windows windows{"offset_dims",
                        "collapsed_slice_dims",
                        "start_index_map",
                        "operand_batching_dims",
                        "start_indices_batching_dims",
                        gather.offset_dims,
                        gather.collapsed_slice_dims,
                        gather.start_index_map,
                        gather.operand_batching_dims,
                        gather.start_indices_batching_dims,
                        gather.index_vector_dim};
  const int64_t rank = IndexBatchRank(indices, gather.index_vector_dim) +
                       static_cast<int64_t>(gather.offset_dims.size());
  if (Problem problem = CheckWindows(windows, x, indices, rank)) return Wrong(std::move(problem));
  if (gather.slice_sizes.size() != static_cast<size_t>(x->rank())) {
    return Wrong("slice_sizes must have one entry per dim of {}, found {}", Text(x),
                 DimsText(gather.slice_sizes));
  }
  for (int64_t i = 0; i < x->rank(); ++i) {
    const int64_t size = gather.slice_sizes[static_cast<size_t>(i)];
    if (size < 0 || (size > x->dim(i) && x->dim(i) != Shape::kUnbounded)) {
      return Wrong("slice_sizes={} does not fit dim {} of {}", DimsText(gather.slice_sizes), i,
                   Text(x));
    }
    const bool dropped =
        Contains(gather.collapsed_slice_dims, i) || Contains(gather.operand_batching_dims, i);
    if (dropped && size > 1) {
      return Wrong("gather drops dim {}, so its slice size must be 1, found {}", i, size);
    }
  }
  ResultDims dims;
  int64_t window = 0, batch = 0;
  for (int64_t i = 0; i < rank; ++i) {
    if (Contains(gather.offset_dims, i)) {
      while (Contains(gather.collapsed_slice_dims, window) ||
             Contains(gather.operand_batching_dims, window)) {
        ++window;
      }
      const int64_t size = gather.slice_sizes[static_cast<size_t>(window)];
      dims.Append(size, x->IsDynamic(window) && size == x->dim(window));
      ++window;
    } else {
      if (batch == gather.index_vector_dim) ++batch;
      dims.AppendDim(indices, batch++);
    }
  }
  return dims.Make(ctx, x->dtype());
}

ShapeResult InferScatter(Context& ctx, const OpView& op) {
  const auto& scatter = op.as<ScatterAttributes>();
  if (op.operands.size() < 3 || op.operands.size() % 2 == 0) {
    return Wrong("scatter takes n inputs, the indices and n updates, found {} operands",
                 op.operands.size());
  }
  if (Problem problem = CheckArrays(op)) return Wrong(std::move(problem));
  const size_t n = op.operands.size() / 2;
  const Shape* x = op.operands[0];
  const Shape* indices = op.operands[n];
  const Windows windows{"update_window_dims",
                        "inserted_window_dims",
                        "scatter_dims_to_operand_dims",
                        "input_batching_dims",
                        "scatter_indices_batching_dims",
                        scatter.update_window_dims,
                        scatter.inserted_window_dims,
                        scatter.scatter_dims_to_operand_dims,
                        scatter.input_batching_dims,
                        scatter.scatter_indices_batching_dims,
                        scatter.index_vector_dim};
  const int64_t rank = IndexBatchRank(indices, scatter.index_vector_dim) +
                       static_cast<int64_t>(scatter.update_window_dims.size());
  if (Problem problem = CheckWindows(windows, x, indices, rank)) return Wrong(std::move(problem));
  for (size_t k = 0; k < n; ++k) {
    const Shape* update = op.operands[n + 1 + k];
    if (!DimsAgree(x, op.operands[k]) || !DimsAgree(op.operands[n + 1], update)) {
      return Wrong("all inputs of scatter must have the same dims, and all updates");
    }
    if (!CommonType(op.operands[k]->dtype(), update->dtype())) {
      return Wrong("update {} of scatter must have the element type of its input {}, found {}", k,
                   Text(op.operands[k]), Text(update));
    }
  }
  const Shape* update = op.operands[n + 1];
  if (update->rank() != rank) {
    return Wrong(
        "updates of scatter must have {} dims here (those of indices {} without the index "
        "vector, and {} window dims), found {}",
        rank, Text(indices), scatter.update_window_dims.size(), Text(update));
  }
  int64_t window = 0, batch = 0;
  for (int64_t i = 0; i < rank; ++i) {
    if (Contains(scatter.update_window_dims, i)) {
      while (Contains(scatter.inserted_window_dims, window) ||
             Contains(scatter.input_batching_dims, window)) {
        ++window;
      }
      if (update->dim(i) > x->dim(window) && x->dim(window) != Shape::kUnbounded) {
        return Wrong("window dim {} of updates {} is larger than dim {} of {}", i, Text(update),
                     window, Text(x));
      }
      ++window;
    } else {
      if (batch == scatter.index_vector_dim) ++batch;
      if (!SizesAgree(update->dim(i), indices->dim(batch))) {
        return Wrong("dim {} of updates {} must have the size of dim {} of indices {}", i,
                     Text(update), batch, Text(indices));
      }
      ++batch;
    }
  }
  TypeList types;
  if (Problem problem =
          CheckReducer(op.called[0], "computation", op.operands.first(n), types.list)) {
    return Wrong(std::move(problem));
  }
  if (n == 1) return x->bare();
  return ctx.Tuple(op.operands.first(n))->bare();
}

}  // namespace gshard
