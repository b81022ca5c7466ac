// Matrices in the last two dims, a batch before them, as rules of linear algebra write them.
#ifndef GSHARD_CORE_AUTODIFF_MATRIX_H_
#define GSHARD_CORE_AUTODIFF_MATRIX_H_

#include "core/autodiff/emit.h"

namespace gshard {

class Matrix {
 public:
  explicit Matrix(Builder& builder) : b_(builder), e_(builder) {}

  static int64_t Rows(const Instruction* x) { return x->shape()->dim(x->shape()->rank() - 2); }
  static int64_t Columns(const Instruction* x) { return x->shape()->dim(x->shape()->rank() - 1); }

  Instruction* Transpose(Instruction* x) const {
    std::vector<int64_t> permutation(At(x->shape()->rank()));
    for (size_t i = 0; i < permutation.size(); ++i) permutation[i] = static_cast<int64_t>(i);
    std::swap(permutation[permutation.size() - 1], permutation[permutation.size() - 2]);
    return b_.Transpose(x, permutation);
  }
  Instruction* Adjoint(Instruction* x) const { return e_.Conj(Transpose(x)); }
  Instruction* Product(Instruction* x, Instruction* y) const {
    DotAttributes dims;
    std::vector<int64_t> batch;
    for (int64_t d = 0; d < x->shape()->rank() - 2; ++d) batch.push_back(d);
    const int64_t last[] = {x->shape()->rank() - 1}, first[] = {x->shape()->rank() - 2};
    dims.lhs_batch = dims.rhs_batch = b_.Copy(batch);
    dims.lhs_contracting = b_.Copy(last);
    dims.rhs_contracting = b_.Copy(first);
    Instruction* operands[] = {x, y};
    return b_.Add(Opcode::kDot, operands, dims);
  }
  // op(a) x = y, or x op(a) = y.
  Instruction* Solve(Instruction* a, Instruction* y, TriangularSolveAttributes attributes) const {
    Instruction* operands[] = {a, y};
    return b_.Add(Opcode::kTriangularSolve, operands, attributes);
  }
  // pred in the shape of x: row - column >= offset.
  Instruction* IsBelow(const Instruction* x, int64_t offset) const {
    const Shape* index = b_.context().Array(DType::kS32, x->shape()->dims());
    const int64_t rank = index->rank();
    Instruction* row = b_.Iota(index, rank - 2);
    Instruction* column = b_.Iota(index, rank - 1);
    return b_.Compare(ComparisonDirection::kGe, row,
                      b_.Add(column, e_.Like(column, static_cast<double>(offset))));
  }
  Instruction* Lower(Instruction* x, int64_t offset = 0) const {
    return e_.Where(IsBelow(x, offset), x);
  }
  // The elements that Lower(x, offset) leaves out.
  Instruction* Upper(Instruction* x, int64_t offset = 1) const {
    return e_.WhereNot(IsBelow(x, offset), x);
  }
  Instruction* IsDiagonal(const Instruction* x) const {
    const Shape* index = b_.context().Array(DType::kS32, x->shape()->dims());
    return e_.Equal(b_.Iota(index, index->rank() - 2), b_.Iota(index, index->rank() - 1));
  }
  Instruction* Identity(const Shape* shape) const {
    const Shape* index = b_.context().Array(DType::kS32, shape->dims());
    return b_.Convert(
        e_.Equal(b_.Iota(index, index->rank() - 2), b_.Iota(index, index->rank() - 1)),
        shape->dtype());
  }
  // Vectors [.., n] over the rows (each row is the vector) or the columns of matrices like `x`.
  Instruction* AlongRows(Instruction* vector, const Instruction* x) const {
    const int64_t last[] = {x->shape()->rank() - 2};
    return e_.Spread(vector, x->shape()->dims(), last);
  }
  Instruction* AlongColumns(Instruction* vector, const Instruction* x) const {
    const int64_t last[] = {x->shape()->rank() - 1};
    return e_.Spread(vector, x->shape()->dims(), last);
  }
  // Lower triangle with half the diagonal.
  Instruction* HalfLower(Instruction* x) const {
    Instruction* lower = Lower(x);
    return b_.Select(IsDiagonal(x), e_.Mul(lower, 0.5), lower);
  }
  // The gradient of a function of one triangle of a Hermitian matrix, from that of the matrix.
  Instruction* ToTriangle(Instruction* m, bool is_lower) const {
    Instruction* sum = b_.Add(m, Adjoint(m));
    Instruction* strict = is_lower ? Lower(sum, 1) : Upper(sum, 0);
    return b_.Select(IsDiagonal(m), e_.Mul(sum, 0.5), strict);
  }

 private:
  Builder& b_;
  Emit e_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_AUTODIFF_MATRIX_H_
