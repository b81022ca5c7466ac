#include "core/propagation/shardy/projection.h"

#include "ir/dims.h"

namespace gshard::shardy {
namespace {

using Slot = IndexedRelation::Slot;

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

// Do the axes cut evenly what is left of a factor, one after the other?
bool Divide(std::span<const AxisRef> axes, int64_t left) {
  for (const AxisRef& axis : axes) {
    if (left == 0 || left % axis.size != 0) return false;
    left /= axis.size;
  }
  return true;
}

// Of a dim of several factors, whose slots begin at `first`.
void ProjectDim(const IndexedRelation& relation, size_t first, Axes visible, AxisTable& table,
                Projection& projection) {
  const auto size_of = [&](size_t s) {
    return relation.factors[At(relation.slots[s].factor)].size;
  };
  AxisList axes;
  bool reachable = true;  // all factors before are full
  size_t s = first;
  if (Divide(visible, size_of(first))) {  // as nearly always: the major factor has them all
    projection.axes[s++] = visible;
  } else {
    axes.assign(visible.list().begin(), visible.list().end());
  }
  for (;; ++s) {
    const Slot& slot = relation.slots[s];
    projection.axes[s] = {};
    if (slot.is_minor_most) {
      if (reachable) {
        projection.axes[s] = table.Make(axes);
        axes.clear();
      }
      break;
    }
    if (!reachable || axes.empty()) continue;
    projection.axes[s] = table.Make(TakeFor(size_of(s), axes));
    reachable = projection.axes[s].shards() == size_of(s);
  }
  for (const AxisRef& axis : axes) {
    projection.leftovers.push_back({At(relation.slots[first].tensor), axis});
  }
}

// The axes of a dim of several factors, whose slots begin at `first`.
AxisList AxesOfDim(const IndexedRelation& relation, size_t first, const Projection& projection) {
  AxisList written;
  for (size_t s = first;; ++s) {
    const Slot& slot = relation.slots[s];
    int64_t left = relation.factors[At(slot.factor)].size;
    bool divides = true;
    for (const AxisRef& axis : projection.axes[s].list()) {
      if (!slot.is_minor_most && left % axis.size != 0) {
        divides = false;
        break;
      }
      left /= axis.size;
      Append(written, axis);
    }
    if (slot.is_minor_most || !divides || left != 1) return written;
  }
}

}  // namespace

void ProjectToFactors(const IndexedRelation& relation, std::span<const View> views,
                      std::span<const Tensor> tensors, int64_t priority, AxisTable& table,
                      Projection& projection) {
  projection.leftovers.clear();
  if (projection.axes.size() < relation.slots.size()) projection.axes.resize(relation.slots.size());
  for (size_t i = 0; i < views.size(); ++i) {
    const View& view = views[i];
    const Tensor& tensor = tensors[At(view.tensor)];
    size_t s = relation.first_slot[i];
    if (relation.is_plain && !view.inside) {
      for (const Dim& dim : tensor.dims) {
        projection.axes[s++] = dim.priority > priority ? Axes() : dim.axes;
      }
      continue;
    }
    for (const Dim& dim : tensor.dims) {
      const bool hides = view.inside && dim.manual > 0;
      const Axes visible = dim.priority > priority ? Axes()
                           : hides                 ? table.Make(VisibleAxes(dim, view))
                                                   : dim.axes;
      if (relation.slots[s].is_minor_most) {
        projection.axes[s++] = visible;
        continue;
      }
      ProjectDim(relation, s, visible, table, projection);
      while (!relation.slots[s++].is_minor_most) {
      }
    }
  }
}

bool WriteBack(const IndexedRelation& relation, size_t index, const Projection& projection,
               const View& view, AxisTable& table, Tensor& tensor) {
  bool grown = false;
  size_t next = relation.first_slot[index];
  for (Dim& dim : tensor.dims) {
    const size_t first = next;
    bool changed = false;
    do {
      changed = changed || projection.changed[next] != 0;
    } while (!relation.slots[next++].is_minor_most);
    if (!changed || !dim.open) continue;
    if (next == first + 1 && !(view.inside && dim.manual > 0)) {
      const Axes axes = projection.axes[first];
      if (axes == dim.axes || !IsPrefix(dim.axes, axes)) continue;
      dim.axes = axes;
      grown = true;
      continue;
    }
    const AxisList written = AxesOfDim(relation, first, projection);
    const std::span<const AxisRef> before = VisibleAxes(dim, view);
    if (!IsPrefix(before, written) || SizeOf(written) == SizeOf(before)) continue;
    const std::span<const AxisRef> all = dim.axes.list();
    AxisList axes(all.begin(), all.end() - static_cast<int64_t>(before.size()));
    axes.insert(axes.end(), written.begin(), written.end());
    dim.axes = table.Make(axes);
    grown = true;
  }
  return grown;
}

}  // namespace gshard::shardy
