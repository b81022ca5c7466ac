// See shape_steps.h.

#include "core/reduce/shape_steps.h"

#include <algorithm>
#include <map>
#include <set>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/analysis/meshes.h"
#include "core/resize/resize_batch.h"
#include "core/transforms/annotations/annotate.h"
#include "ir/builder.h"
#include "ir/dims.h"

namespace gshard::reduce {
namespace {

void CollectSizes(const Shape* shape, std::set<int64_t>& sizes) {
  if (shape->IsTuple()) {
    for (const Shape* element : shape->elements()) CollectSizes(element, sizes);
  } else if (shape->IsArray()) {
    for (const int64_t size : shape->dims()) {
      if (size > 1) sizes.insert(size);
    }
  }
}

std::vector<int64_t> SizesOf(const Module& module) {
  std::set<int64_t> sizes;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) CollectSizes(x->shape(), sizes);
  }
  return {sizes.rbegin(), sizes.rend()};  // largest first
}

// Replaces one size by another wherever it is written.
class Resizer {
 public:
  Resizer(Module& module, int64_t from, int64_t to) : module_(module), from_(from), to_(to) {}

  void Run() {
    for (Computation* computation : module_.computations()) {
      ReplaceConstants(*computation);
      for (Instruction* x : computation->instructions()) {
        x->set_shape(Resized(x->shape()));
        ResizeAttributes(x);
      }
    }
  }

 private:
  int64_t Resized(int64_t size) const { return size == from_ ? to_ : size; }

  const Shape* Resized(const Shape* shape) {
    Context& context = module_.context();
    if (shape->IsTuple()) {
      std::vector<const Shape*> elements;
      for (const Shape* element : shape->elements()) elements.push_back(Resized(element));
      return context.Tuple(elements);
    }
    if (!shape->IsArray()) return shape;
    std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
    for (int64_t& size : dims) size = Resized(size);
    return context.WithDims(shape, dims);
  }

  Dims Resized(Dims sizes) {
    std::vector<int64_t> values(sizes.begin(), sizes.end());
    for (int64_t& size : values) size = Resized(size);
    return module_.arena().Copy(std::span<const int64_t>(values));
  }

  void ResizeAttributes(Instruction* x) {
    if (x->opcode() == Opcode::kSlice) {
      auto& slice = x->mutable_attributes<SliceAttributes>();
      slice.limits = Resized(slice.limits);
    } else if (x->opcode() == Opcode::kDynamicSlice) {
      auto& slice = x->mutable_attributes<DynamicSliceAttributes>();
      slice.slice_sizes = Resized(slice.slice_sizes);
    } else if (x->opcode() == Opcode::kGather) {
      auto& gather = x->mutable_attributes<GatherAttributes>();
      gather.slice_sizes = Resized(gather.slice_sizes);
    }
  }

  // Their values are of the old size: zeros of the same shape stand in, which has still to change.
  void ReplaceConstants(Computation& computation) {
    std::unordered_map<const Instruction*, Instruction*> by;
    Builder builder(module_, &computation);
    const std::vector<Instruction*> old(computation.instructions().begin(),
                                        computation.instructions().end());
    for (Instruction* x : old) {
      if (x->opcode() == Opcode::kConstant && x->shape()->IsArray() &&
          Resized(x->shape()) != x->shape()) {
        by[x] = builder.Zero(x->shape());
      }
    }
    if (by.empty()) return;
    std::vector<Instruction*> list(
        computation.instructions().begin() + static_cast<std::ptrdiff_t>(old.size()),
        computation.instructions().end());
    list.insert(list.end(), old.begin(), old.end());
    computation.SetInstructions(std::move(list));
    auto value = [&](Instruction* x) {
      auto it = by.find(x);
      return it == by.end() ? x : it->second;
    };
    for (Instruction* x : computation.instructions()) {
      for (int64_t i = 0; i < x->operand_count(); ++i) x->set_operand(i, value(x->operand(i)));
    }
    computation.set_root(value(computation.root()));
  }

  Module& module_;
  int64_t from_, to_;
};

// (parameter of the entry, dim of it): of each size a few, of parameters that differ in shape, as
// dims of the same size may be tied to different ones.
std::vector<std::pair<int64_t, int64_t>> TiedDims(const Module& module) {
  constexpr int kOfEachSize = 4;
  std::vector<std::pair<int64_t, int64_t>> dims;
  std::map<int64_t, int> of_size;
  std::set<std::pair<const Shape*, int64_t>> seen;
  const auto parameters = module.entry()->parameters();
  for (size_t k = 0; k < parameters.size(); ++k) {
    const Shape* shape = parameters[k]->shape();
    if (!shape->IsArray()) continue;
    for (int64_t d = 0; d < static_cast<int64_t>(shape->dims().size()); ++d) {
      if (shape->dim(d) <= 2 || !seen.insert({shape->bare(), d}).second) continue;
      if (of_size[shape->dim(d)]++ < kOfEachSize) dims.emplace_back(static_cast<int64_t>(k), d);
    }
  }
  return dims;
}

}  // namespace

int64_t CountDimSizes(Module& module) { return 3 * static_cast<int64_t>(SizesOf(module).size()); }

bool ShrinkDims(Module& module, int64_t begin, int64_t end) {
  if (end != begin + 1) return false;  // one size at a time
  const std::vector<int64_t> sizes = SizesOf(module);
  const int64_t from = sizes[static_cast<size_t>(begin / 3)];
  const int64_t to = begin % 3 == 0 ? 1 : begin % 3 == 1 ? 2 : from / 2;
  if (to >= from) return false;
  Resizer(module, from, to).Run();
  return true;
}

int64_t CountTiedDims(Module& module) { return 3 * static_cast<int64_t>(TiedDims(module).size()); }

bool ShrinkTiedDims(Module& module, int64_t begin, int64_t end) {
  if (end != begin + 1) return false;  // one dim at a time
  const auto [parameter, dim] = TiedDims(module)[At(begin / 3)];
  const int64_t from = module.entry()->parameters()[At(parameter)]->shape()->dim(dim);
  const int64_t to = begin % 3 == 0 ? 2 : begin % 3 == 1 ? from / 8 : from / 2;
  if (to < 2 || (to == 2 && begin % 3 > 0)) return false;
  return ResizeBatch(module, {.dimension = {{parameter, dim}}, .from = from, .to = to}).has_value();
}

int64_t CountMeshAxes(Module& module) {
  const Mesh* mesh = NamedMesh(module);
  return mesh == nullptr ? 0 : 2 * static_cast<int64_t>(mesh->axes.size());
}

bool ShrinkMesh(Module& module, int64_t begin, int64_t end) {
  if (end != begin + 1) return false;
  DeclareMainMesh(module);
  const Mesh* mesh = NamedMesh(module);
  if (mesh == nullptr) return false;
  AnnotateOptions options;
  options.mesh = mesh->axes;
  int64_t& size = options.mesh[static_cast<size_t>(begin / 2)].size;
  const int64_t to = begin % 2 == 0 ? 1 : size / 2;
  if (to >= size || to < 1) return false;
  size = to;
  const int64_t before = mesh->device_count();
  if (!Annotate(module, options)) return false;
  // Where a sharding that has no mesh's name keeps the devices, it would shrink again and again.
  const Mesh* now = NamedMesh(module);
  return now != nullptr && now->device_count() < before;
}

}  // namespace gshard::reduce
