// The families of the reference evaluator: reference/<family>.cc. Operands are whole values.
#ifndef GSHARD_TESTS_REFERENCE_FAMILIES_H_
#define GSHARD_TESTS_REFERENCE_FAMILIES_H_

#include <span>

#include "tests/reference/reference.h"

namespace gshard::cpu {

using ReferenceOperands = std::span<const ReferenceValue>;

// One element of an elementwise instruction from those of its operands.
Number ElementReference(const Instruction& instruction, std::span<const Number> operands);
// One element converted as `convert` does.
Number ConvertReference(DType from, DType to, Number number);

ReferenceValue ElementwiseReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue MovementReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue DotReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue ConvolutionReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue ReduceReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue WindowReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue IndexingReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue SortReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue BatchNormReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue LinalgReference(const Instruction& x, ReferenceOperands operands);
ReferenceValue FftReference(const Instruction& x, ReferenceOperands operands);

// A scalar computation on scalars: the leaves of its root.
std::vector<Number> CallScalars(const Computation& computation, std::span<const Number> arguments);
// Sums of products as dots and convolutions make them: floats in f64, integers wrapping, pred as
// or of ands.
void AddProduct(DType result, DType lhs, DType rhs, const Number& a, const Number& b, Number& sum);

}  // namespace gshard::cpu

#endif  // GSHARD_TESTS_REFERENCE_FAMILIES_H_
