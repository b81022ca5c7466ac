// See resize_batch.h.

#include "core/resize/resize_batch.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "core/resize/example_dims.h"
#include "ir/dims.h"
#include "ir/literal.h"
#include "ir/verify/verifier.h"

namespace gshard {
namespace {

class BatchResizer {
 public:
  BatchResizer(Module& module, const ExampleDims& examples, const BatchSize& batch)
      : module_(module), examples_(examples), batch_(batch) {}

  Expected<void> Run() {
    std::vector<const Shape*> shapes(module_.instruction_limit());
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        if (auto whole = CheckWhole(*x); !whole) return whole;
        shapes[x->id()] = Resized(x->shape(), *x);
      }
    }
    ResizeHeader();
    // Attributes first, which are told by the old sizes.
    for (Computation* computation : module_.computations()) {
      for (Instruction* x : computation->instructions()) {
        if (auto done = ResizeAttributes(x, shapes[x->id()]); !done) return done;
      }
    }
    for (Computation* computation : module_.computations()) {
      for (Instruction* x : computation->instructions()) x->set_shape(shapes[x->id()]);
    }
    return {};
  }

 private:
  int64_t Grown(int64_t size, const Examples& examples) const {
    return examples.count == 0 ? size
                               : size / examples.count * (examples.count * batch_.to / batch_.from);
  }

  // Is each of x's counts of examples a whole number of them at the new batch?
  Expected<void> CheckWhole(const Instruction& x) const {
    const std::vector<const Shape*> leaves = LeafShapes(x.shape());
    for (size_t leaf = 0; leaf < leaves.size(); ++leaf) {
      for (int64_t d = 0; leaves[leaf]->IsArray() && d < leaves[leaf]->rank(); ++d) {
        const int64_t count = examples_.Of(x, static_cast<int64_t>(leaf), d).count;
        if (count * batch_.to % batch_.from == 0) continue;
        return Fail(module_.ErrorAt(
            &x, "E-BATCH-003",
            fmt::format("of a batch of {} '{}' would have no whole number of examples: it has {} "
                        "of {}",
                        batch_.to, x.name(), count, batch_.from)));
      }
    }
    return {};
  }

  const Shape* Resized(const Shape* shape, const Instruction& x) const {
    int64_t leaf = 0;
    return Resized(shape, x, leaf);
  }

  // `shape` has the leaves of x's; `leaf` is the first of them, and one behind the last afterwards.
  const Shape* Resized(const Shape* shape, const Instruction& x, int64_t& leaf) const {
    if (shape->IsTuple()) {
      std::vector<const Shape*> elements;
      for (const Shape* element : shape->elements()) elements.push_back(Resized(element, x, leaf));
      return module_.context().Tuple(elements);
    }
    const int64_t own = leaf++;
    if (!shape->IsArray()) return shape;
    std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
    for (size_t d = 0; d < dims.size(); ++d) {
      dims[d] = Grown(dims[d], examples_.Of(x, own, static_cast<int64_t>(d)));
    }
    return module_.context().WithDims(shape, dims);
  }

  void ResizeHeader() {
    ModuleHeader& header = module_.header();
    const Computation& entry = *module_.entry();
    for (size_t i = 0; i < header.entry_parameter_layouts.size(); ++i) {
      const Shape*& layout = header.entry_parameter_layouts[i];
      layout = Resized(layout, *entry.parameter(static_cast<int64_t>(i)));
    }
    if (header.entry_result_layout != nullptr) {
      header.entry_result_layout = Resized(header.entry_result_layout, *entry.root());
    }
  }

  // Sizes that an attribute says again, of dims of x: those that are whole.
  Dims ResizedSizes(Dims sizes, const Instruction& x) const {
    std::vector<int64_t> values(sizes.begin(), sizes.end());
    for (size_t d = 0; d < values.size(); ++d) {
      const bool is_whole = values[d] == x.shape()->dims()[d];
      if (is_whole) values[d] = Grown(values[d], examples_.Of(x, 0, static_cast<int64_t>(d)));
    }
    return module_.arena().Copy(std::span<const int64_t>(values));
  }

  // Where slices of x begin and end: at whole batches, where the dim counts examples.
  Dims ResizedPlaces(Dims places, const Instruction& x) const {
    std::vector<int64_t> values(places.begin(), places.end());
    for (size_t d = 0; d < values.size(); ++d) {
      values[d] = Grown(values[d], examples_.Of(x, 0, static_cast<int64_t>(d)));
    }
    return module_.arena().Copy(std::span<const int64_t>(values));
  }

  Expected<void> ResizeAttributes(Instruction* x, const Shape* shape) {
    switch (x->opcode()) {  // those with sizes in their attributes
      case Opcode::kSlice: {
        auto& slice = x->mutable_attributes<SliceAttributes>();
        slice.starts = ResizedPlaces(slice.starts, *x->operand(0));
        slice.limits = ResizedPlaces(slice.limits, *x->operand(0));
        return {};
      }
      case Opcode::kPad: {
        auto& pad = x->mutable_attributes<PadAttributes>();
        std::vector<PadDim> padding(pad.padding.begin(), pad.padding.end());
        for (size_t d = 0; d < padding.size(); ++d) {
          const Examples examples = examples_.Of(*x->operand(0), 0, static_cast<int64_t>(d));
          padding[d].low = Grown(padding[d].low, examples);
          padding[d].high = Grown(padding[d].high, examples);
        }
        pad.padding = module_.arena().Copy(std::span<const PadDim>(padding));
        return {};
      }
      case Opcode::kDynamicSlice: {
        auto& slice = x->mutable_attributes<DynamicSliceAttributes>();
        slice.slice_sizes = ResizedSizes(slice.slice_sizes, *x->operand(0));
        return {};
      }
      case Opcode::kGather: {
        auto& gather = x->mutable_attributes<GatherAttributes>();
        gather.slice_sizes = ResizedSizes(gather.slice_sizes, *x->operand(0));
        return {};
      }
      case Opcode::kConstant:
        return ResizeConstant(x, shape);
      case Opcode::kCustomCall: {
        auto& call = x->mutable_attributes<CustomCallAttributes>();
        std::vector<const Shape*> layouts(call.operand_layout_constraints.begin(),
                                          call.operand_layout_constraints.end());
        for (size_t i = 0; i < layouts.size(); ++i) {
          layouts[i] = Resized(layouts[i], *x->operand(static_cast<int64_t>(i)));
        }
        call.operand_layout_constraints =
            module_.arena().Copy(std::span<const Shape* const>(layouts));
        return {};
      }
      default:  // its shape says all
        return {};
    }
  }

  Expected<void> ResizeConstant(Instruction* x, const Shape* shape) {
    if (shape == x->shape()) return {};
    auto& constant = x->mutable_attributes<ConstantAttributes>();
    const Literal& literal = *constant.literal;
    if (literal.elided || !shape->IsArray() || !IsSplat(literal)) {
      Diagnostic error = module_.ErrorAt(
          x, "E-BATCH-002",
          fmt::format(
              "'{}' is a constant with values for each example, {}: those of other examples "
              "are not known",
              x->name(), ToString(x->shape(), false)));
      error.hint = "make it an argument, or compute it in the program";
      return Fail(std::move(error));
    }
    const size_t width = literal.data.size() / At(x->shape()->element_count());
    std::vector<std::byte> data(width * At(shape->element_count()));
    for (size_t i = 0; i < data.size(); ++i) data[i] = literal.data[i % width];
    constant.literal = RawLiteral(module_.arena(), shape, data);
    return {};
  }

  Module& module_;
  const ExampleDims& examples_;
  const BatchSize& batch_;
};

}  // namespace

Expected<void> ResizeBatch(Module& module, const BatchSize& batch) {
  if (batch.from == batch.to) return {};
  const Expected<ExampleDims> examples = ExampleDims::Find(module, batch.dimension);
  if (!examples) return Fail(examples.error());
  if (auto done = BatchResizer(module, *examples, batch).Run(); !done) return done;
  if (auto verified = VerifyModule(module); !verified) {
    Diagnostic error = verified.error();
    error.code = "E-BATCH-002";
    error.message = fmt::format("not of a batch of {}: {}", batch.to, error.message);
    return Fail(std::move(error));
  }
  return {};
}

}  // namespace gshard
