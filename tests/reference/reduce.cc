// reduce, scan, reduce-window and select-and-scatter: sequential folds (docs/semantics.md,
// section 7).
#include <algorithm>

#include "tests/reference/families.h"

namespace gshard::cpu {
namespace {

// Sums of narrow floats are rounded once, at the end.
bool AddsNarrowFloats(const Computation& f) {
  const Instruction* root = f.root();
  const DType dtype = root->shape()->IsArray() ? root->shape()->dtype() : DType::kPred;
  return root->opcode() == Opcode::kAdd && (dtype == DType::kBF16 || dtype == DType::kF16) &&
         root->operand(0) != root->operand(1) && root->operand(0)->opcode() == Opcode::kParameter &&
         root->operand(1)->opcode() == Opcode::kParameter;
}

// accumulated = f(accumulated, next).
void Fold(const Computation& f, std::vector<Number>& accumulated, std::vector<Number> next) {
  if (AddsNarrowFloats(f)) {
    accumulated[0].z += next[0].z;
    return;
  }
  std::vector<Number> arguments = accumulated;
  arguments.insert(arguments.end(), next.begin(), next.end());
  accumulated = CallScalars(f, arguments);
}

std::vector<Number> ElementsAt(ReferenceOperands operands, const Index& index) {
  std::vector<Number> elements;
  for (const ReferenceValue& operand : operands) elements.push_back(At(operand, index));
  return elements;
}

std::vector<Number> Inits(ReferenceOperands inits) { return ElementsAt(inits, {}); }

void StoreLeaves(ReferenceValue& result, const Index& index, const std::vector<Number>& leaves) {
  if (result.elements.empty()) {
    At(result, index) = leaves[0];
    return;
  }
  for (size_t k = 0; k < leaves.size(); ++k) At(result.elements[k], index) = leaves[k];
}

std::span<const int64_t> ResultDims(const Instruction& x) {
  return (x.shape()->IsTuple() ? x.shape()->element(0) : x.shape())->dims();
}

// visit(index in the operand) for the in-bounds elements of the window at `place`, in order.
template <typename Visit>
void ForEachInWindow(std::span<const WindowDim> window, std::span<const int64_t> dims,
                     const Index& place, Visit visit) {
  Index sizes;
  for (const WindowDim& w : window) sizes.push_back(w.size);
  ForEachIndex(sizes, [&](const Index& k) {
    Index source(dims.size());
    for (size_t d = 0; d < dims.size(); ++d) {
      const WindowDim& w = window[d];
      const int64_t p = place[d] * w.stride + k[d] * w.window_dilation - w.pad_low;
      if (p < 0 || p % w.base_dilation != 0) return;
      source[d] = p / w.base_dilation;
    }
    if (IsInside(dims, source)) visit(source);
  });
}

void RoundLeaves(ReferenceValue& value) {
  for (Number& number : value.data) number = RoundTo(value.shape->dtype(), number);
  for (ReferenceValue& element : value.elements) RoundLeaves(element);
}

ReferenceValue Reduce(const Instruction& x, ReferenceOperands operands) {
  const Dims reduced = x.attributes<DimensionsAttributes>().dimensions;
  const ReferenceOperands inputs = operands.first(operands.size() / 2);
  const std::span<const int64_t> dims = inputs[0].shape->dims();
  ReferenceValue result = Zeros(x.shape());
  const std::vector<Number> init = Inits(operands.subspan(inputs.size()));
  ForEachIndex(ResultDims(x), [&](const Index& index) { StoreLeaves(result, index, init); });
  ForEachIndex(dims, [&](const Index& index) {
    Index kept;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (std::find(reduced.begin(), reduced.end(), static_cast<int64_t>(d)) == reduced.end()) {
        kept.push_back(index[d]);
      }
    }
    std::vector<Number> accumulated = result.elements.empty()
                                          ? std::vector<Number>{At(result, kept)}
                                          : ElementsAt(result.elements, kept);
    Fold(*x.called(0), accumulated, ElementsAt(inputs, index));
    StoreLeaves(result, kept, accumulated);
  });
  RoundLeaves(result);
  return result;
}

Index Insert(const Index& index, size_t dim, int64_t position) {
  Index whole = index;
  whole.insert(whole.begin() + static_cast<std::ptrdiff_t>(dim), position);
  return whole;
}

// One call a step: (elements.., carries..) to (outputs.., carries..).
ReferenceValue Scan(const Instruction& x, ReferenceOperands operands) {
  const ScanAttributes& scan = x.attributes<ScanAttributes>();
  const Computation& body = *x.called(0);
  const size_t dim = static_cast<size_t>(scan.dimension);
  const size_t inputs = operands.size() - static_cast<size_t>(scan.num_carries);
  std::vector<ReferenceValue> arguments;
  for (size_t k = 0; k < operands.size(); ++k) {
    arguments.push_back(k < inputs ? Zeros(body.parameter(static_cast<int64_t>(k))->shape())
                                   : operands[k]);
  }
  ReferenceValue result = Zeros(x.shape());
  const auto leaf = [&](size_t k) -> ReferenceValue& {
    return result.elements.empty() ? result : result.elements[k];
  };
  const size_t leaves = std::max<size_t>(result.elements.size(), 1);
  const size_t outputs = leaves - static_cast<size_t>(scan.num_carries);
  for (size_t k = 0; k < leaves - outputs; ++k) leaf(outputs + k) = operands[inputs + k];
  const int64_t length = operands[0].shape->dims()[dim];
  for (int64_t step = 0; step < length; ++step) {
    const int64_t position = scan.is_reverse ? length - 1 - step : step;
    for (size_t k = 0; k < inputs; ++k) {
      ForEachIndex(arguments[k].shape->dims(), [&](const Index& index) {
        At(arguments[k], index) = At(operands[k], Insert(index, dim, position));
      });
    }
    const ReferenceValue returned = EvaluateReference(body, arguments);
    const auto part = [&](size_t k) -> const ReferenceValue& {
      return returned.elements.empty() ? returned : returned.elements[k];
    };
    for (size_t k = 0; k < outputs; ++k) {
      ForEachIndex(part(k).shape->dims(), [&](const Index& index) {
        At(leaf(k), Insert(index, dim, position)) = At(part(k), index);
      });
    }
    for (size_t k = 0; k + outputs < leaves; ++k) {
      arguments[inputs + k] = leaf(outputs + k) = part(outputs + k);
    }
  }
  return result;
}

ReferenceValue ReduceWindow(const Instruction& x, ReferenceOperands operands) {
  const ReferenceOperands inputs = operands.first(operands.size() / 2);
  const auto window = x.attributes<WindowAttributes>().window;
  ReferenceValue result = Zeros(x.shape());
  ForEachIndex(ResultDims(x), [&](const Index& place) {
    std::vector<Number> accumulated = Inits(operands.subspan(inputs.size()));
    ForEachInWindow(window, inputs[0].shape->dims(), place, [&](const Index& source) {
      Fold(*x.called(0), accumulated, ElementsAt(inputs, source));
    });
    StoreLeaves(result, place, accumulated);
  });
  RoundLeaves(result);
  return result;
}

ReferenceValue SelectAndScatter(const Instruction& x, ReferenceOperands operands) {
  const auto window = x.attributes<WindowAttributes>().window;
  ReferenceValue result = Zeros(x.shape());
  std::fill(result.data.begin(), result.data.end(), operands[2].data[0]);
  ForEachIndex(operands[1].shape->dims(), [&](const Index& place) {
    Index selected;
    bool any = false;
    ForEachInWindow(window, operands[0].shape->dims(), place, [&](const Index& source) {
      if (any) {
        const Number pair[] = {At(operands[0], selected), At(operands[0], source)};
        if (CallScalars(*x.called(0), pair)[0].i != 0) return;
      }
      selected = source;
      any = true;
    });
    if (!any) return;
    const Number pair[] = {At(result, selected), At(operands[1], place)};
    At(result, selected) = CallScalars(*x.called(1), pair)[0];
  });
  return result;
}

}  // namespace

ReferenceValue ReduceReference(const Instruction& x, ReferenceOperands operands) {
  return x.opcode() == Opcode::kScan ? Scan(x, operands) : Reduce(x, operands);
}

ReferenceValue WindowReference(const Instruction& x, ReferenceOperands operands) {
  return x.opcode() == Opcode::kReduceWindow ? ReduceWindow(x, operands)
                                             : SelectAndScatter(x, operands);
}

}  // namespace gshard::cpu
