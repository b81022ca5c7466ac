#include "core/propagation/shardy/projection.h"

#include "ir/dims.h"

namespace gshard::shardy {
namespace {

std::span<const AxisRef> VisibleAxes(const Dim& dim, const View& view) {
  return std::span(dim.axes).subspan(view.inside ? At(dim.manual) : 0);
}

// The part of a dim's axes that a factor of size `left` takes; removes it from `axes`.
AxisList TakeFor(int64_t left, AxisList& axes) {
  AxisList taken;
  while (!axes.empty() && left > 1) {
    AxisRef& next = axes.front();
    if (left % next.size == 0) {
      Append(taken, next);
      left /= next.size;
      axes.erase(axes.begin());
    } else if (next.size % left == 0) {
      Append(taken, {next.axis, next.pre_size, left});
      next = {next.axis, next.pre_size * left, next.size / left};
      left = 1;
    } else {
      break;
    }
  }
  return taken;
}

}  // namespace

Projection::Entry* Projection::Find(int factor) {
  for (Entry& entry : entries) {
    if (entry.factor == factor) return &entry;
  }
  return nullptr;
}

const Projection::Entry* Projection::Find(int factor) const {
  return const_cast<Projection*>(this)->Find(factor);
}

Projection ProjectToFactors(const Tensor& tensor, const View& view, std::span<const FactorList> dims,
                            std::span<const Factor> factors, int64_t priority) {
  Projection projection;
  projection.taken = tensor.replicated;
  projection.taken.insert(projection.taken.end(), tensor.unreduced.begin(), tensor.unreduced.end());
  projection.entries.reserve(dims.size());
  for (size_t d = 0; d < dims.size(); ++d) {
    const Dim& dim = tensor.dims[d];
    const bool later = dim.priority > priority;
    AxisList axes;
    for (const AxisRef& axis : dim.axes) {
      const bool manual = view.inside && &axis - dim.axes.data() < dim.manual;
      if (manual || later) projection.taken.push_back(axis);
    }
    if (!later) {
      const std::span<const AxisRef> visible = VisibleAxes(dim, view);
      axes.assign(visible.begin(), visible.end());
    }
    bool reachable = true;  // all factors before are full
    for (size_t k = 0; k < dims[d].size(); ++k) {
      const int factor = dims[d][k];
      Projection::Entry entry{factor, static_cast<int64_t>(d), {}, !dim.open || later, false};
      if (k + 1 == dims[d].size()) {
        if (reachable) entry.axes = std::move(axes);
        axes = reachable ? AxisList() : axes;
      } else if (reachable) {
        entry.axes = TakeFor(factors[At(factor)].size, axes);
        reachable = SizeOf(entry.axes) == factors[At(factor)].size;
      }
      projection.entries.push_back(std::move(entry));
    }
    projection.taken.insert(projection.taken.end(), axes.begin(), axes.end());
  }
  return projection;
}

bool WriteBack(const Projection& projection, const View& view, std::span<const FactorList> dims,
               std::span<const Factor> factors, Tensor& tensor) {
  bool grown = false;
  size_t e = 0;
  for (size_t d = 0; d < dims.size(); ++d) {
    const size_t first = e;
    e += dims[d].size();
    bool changed = false;
    for (size_t k = first; k < e; ++k) changed |= projection.entries[k].changed;
    Dim& dim = tensor.dims[d];
    if (!changed || !dim.open) continue;
    AxisList axes(dim.axes.begin(), dim.axes.begin() + (view.inside ? dim.manual : 0));
    const size_t visible_from = axes.size();
    AxisList written;
    for (size_t k = first; k < e; ++k) {
      const Projection::Entry& entry = projection.entries[k];
      const bool last = k + 1 == e;
      int64_t left = factors[At(entry.factor)].size;
      bool divides = true;
      for (const AxisRef& axis : entry.axes) {
        if (!last && left % axis.size != 0) {
          divides = false;
          break;
        }
        left /= axis.size;
        Append(written, axis);
      }
      if (!last && (!divides || left != 1)) break;
    }
    const AxisList before(dim.axes.begin() + static_cast<int64_t>(visible_from), dim.axes.end());
    if (!IsPrefix(before, written) || SizeOf(written) == SizeOf(before)) continue;
    axes.insert(axes.end(), written.begin(), written.end());
    dim.axes = std::move(axes);
    grown = true;
  }
  return grown;
}

}  // namespace gshard::shardy
