// Merging of neighbouring dims that are both kept or both reduced.
#include "backends/cpu/arrays/reduction.h"

#include <algorithm>

namespace gshard::cpu {

ReductionGeometry::ReductionGeometry(std::span<const int64_t> dims,
                                     std::span<const int64_t> reduced_dims) {
  const std::vector<int64_t> strides = RowMajorStrides(dims);
  bool last_kept = true, any = false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool is_reduced = std::find(reduced_dims.begin(), reduced_dims.end(),
                                      static_cast<int64_t>(i)) != reduced_dims.end();
    (is_reduced ? reduced_count : kept_count) *= dims[i];
    if (dims[i] == 1) continue;
    std::vector<Dim>& list = is_reduced ? reduced : kept;
    if (any && last_kept != is_reduced && !list.empty()) {
      list.back() = {list.back().size * dims[i], strides[i]};
    } else {
      list.push_back({dims[i], strides[i]});
    }
    last_kept = !is_reduced;
    any = true;
  }
  columns = last_kept;
}

}  // namespace gshard::cpu
