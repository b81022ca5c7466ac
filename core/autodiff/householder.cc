#include "core/autodiff/householder.h"

#include <algorithm>

#include "core/autodiff/emit.h"
#include "core/autodiff/expansion.h"
#include "core/autodiff/matrix.h"

namespace gshard {
namespace {

DType RealOf(DType dtype) {
  if (dtype == DType::kC64) return DType::kF32;
  return dtype == DType::kC128 ? DType::kF64 : dtype;
}

// Vectors [batch, n], matrices [batch, m, n], in one iteration of a loop.
class Step {
 public:
  explicit Step(Builder& builder) : b_(builder), e_(builder) {}

  // pred[batch, n]: position > i + offset, or equal to it.
  Instruction* IsAfter(const Instruction* vector, Instruction* i, int64_t offset = 0) const {
    return e_.Greater(Position(vector), At(vector, i, offset));
  }
  Instruction* IsAt(const Instruction* vector, Instruction* i, int64_t offset = 0) const {
    return e_.Equal(Position(vector), At(vector, i, offset));
  }
  Instruction* Column(Instruction* a, Instruction* i) const {
    Instruction* zero = b_.ScalarInt(DType::kS32, 0);
    Instruction* starts[] = {zero, zero, i};
    const int64_t sizes[] = {a->shape()->dim(0), a->shape()->dim(1), 1};
    return b_.Reshape(b_.DynamicSlice(a, starts, sizes), std::span(sizes).first(2));
  }
  Instruction* WithColumn(Instruction* a, Instruction* column, Instruction* i) const {
    Instruction* zero = b_.ScalarInt(DType::kS32, 0);
    Instruction* starts[] = {zero, zero, i};
    const int64_t sizes[] = {a->shape()->dim(0), a->shape()->dim(1), 1};
    return b_.DynamicUpdateSlice(a, b_.Reshape(column, sizes), starts);
  }
  // Element i + offset of each vector: [batch]. A sum of one, as i + offset may not be clamped.
  Instruction* Element(Instruction* vector, Instruction* i, int64_t offset = 0) const {
    const int64_t over[] = {1};
    return e_.Sum(e_.Where(IsAt(vector, i, offset), vector), over);
  }
  Instruction* WithElement(Instruction* vector, Instruction* value, Instruction* i) const {
    return b_.Select(IsAt(vector, i), Spread(value, vector), vector);
  }
  // [batch] over vectors.
  Instruction* Spread(Instruction* value, const Instruction* like) const {
    const int64_t over[] = {1};
    return e_.Spread(value, like->shape()->dims(), over);
  }
  // v^H a: [batch, columns].
  Instruction* Project(Instruction* v, Instruction* a) const {
    const int64_t rows[] = {1};
    const int64_t over[] = {2};
    return e_.Sum(e_.Mul(e_.Spread(e_.Conj(v), a->shape()->dims(), over), a), rows);
  }
  // a v: [batch, rows].
  Instruction* Apply(Instruction* a, Instruction* v) const {
    const int64_t columns[] = {2}, over[] = {1};
    return e_.Sum(e_.Mul(a, e_.Spread(v, a->shape()->dims(), over)), columns);
  }
  // a - tau x y^T.
  Instruction* Update(Instruction* a, Instruction* tau, Instruction* x, Instruction* y) const {
    const int64_t columns[] = {2}, rows[] = {1};
    Instruction* left = e_.Mul(x, Spread(tau, x));
    return e_.Sub(a, e_.Mul(e_.Spread(left, a->shape()->dims(), columns),
                            e_.Spread(y, a->shape()->dims(), rows)));
  }

  struct Reflector {
    Instruction *v, *tau, *beta;  // beta: of the matrix's type
  };
  // Of the elements of `column` from position i + offset to before `limit`.
  Reflector Reflect(Instruction* column, Instruction* i, int64_t offset, int64_t limit) const {
    const DType dtype = column->shape()->dtype();
    const DType real = RealOf(dtype);
    const int64_t over[] = {1};
    Instruction* position = Position(column);
    Instruction* below = b_.And(IsAfter(column, i, offset),
                                e_.Less(position, e_.Like(position, static_cast<double>(limit))));
    Instruction* x = e_.Where(below, column);
    Instruction* alpha = Element(column, i, offset);
    Instruction* rest = e_.Sum(Square(x), over);
    Instruction* alpha_re = IsComplex(dtype) ? e_.Real(alpha) : alpha;
    Instruction* is_zero = e_.Equal(rest, e_.Like(rest, 0));
    if (IsComplex(dtype)) {
      Instruction* im = e_.Imag(alpha);
      is_zero = b_.And(is_zero, e_.Equal(im, e_.Like(im, 0)));
    }
    Instruction* sum = e_.Add(Square(alpha), rest);
    Instruction* norm = e_.Unary(Opcode::kSqrt, b_.Select(is_zero, e_.Like(sum, 1), sum));
    Instruction* is_negative = e_.Less(alpha_re, e_.Like(alpha_re, 0));
    Instruction* beta = b_.Convert(b_.Select(is_negative, norm, e_.Neg(norm)), dtype);
    (void)real;
    Instruction* tau = e_.WhereNot(is_zero, e_.Div(e_.Sub(beta, alpha), beta));
    Instruction* scaled = e_.Div(x, Spread(e_.Sub(alpha, beta), x));
    Instruction* v = b_.Select(IsAt(column, i, offset), e_.Like(scaled, 1), scaled);
    return {v, tau, b_.Select(is_zero, alpha, beta)};
  }

  const Emit& emit() const { return e_; }

 private:
  Instruction* Position(const Instruction* vector) const {
    return b_.Iota(b_.context().Array(DType::kS32, vector->shape()->dims()), 1);
  }
  Instruction* At(const Instruction* vector, Instruction* i, int64_t offset) const {
    if (offset != 0) i = b_.Add(i, b_.ScalarInt(DType::kS32, offset));
    return b_.BroadcastScalar(i, vector->shape()->dims());
  }
  Instruction* Square(Instruction* x) const {
    if (!IsComplex(x->shape()->dtype())) return e_.Mul(x, x);
    Instruction* re = e_.Real(x);
    Instruction* im = e_.Imag(x);
    return e_.Add(e_.Mul(re, re), e_.Mul(im, im));
  }

  Builder& b_;
  Emit e_;
};

Instruction* Zeros(Builder& b, DType dtype, int64_t batch, int64_t n) {
  const int64_t dims[] = {batch, n};
  return b.Zero(b.context().Array(dtype, dims));
}

Instruction* Backwards(Builder& b, Instruction* i, int64_t count) {
  return b.Subtract(b.ScalarInt(DType::kS32, count - 1), i);
}

// Reflector j as orgqr reads it: 1 at j, the matrix below.
Instruction* Packed(const Step& s, Builder& b, Instruction* reflectors, Instruction* j) {
  Instruction* column = s.Column(reflectors, j);
  Instruction* below = s.emit().Where(s.IsAfter(column, j), column);
  return b.Select(s.IsAt(column, j), s.emit().Like(column, 1), below);
}

}  // namespace

ValuesOrError QrFactor(Builder& builder, Instruction* a) {
  const Shape* shape = a->shape();
  const int64_t rows = shape->dim(1), count = std::min(rows, shape->dim(2));
  Instruction* init[] = {a, Zeros(builder, shape->dtype(), shape->dim(0), count)};
  return BuildLoop(
      builder, count, init,
      [&](Builder& b, Instruction* i, std::span<Instruction* const> state) -> ValuesOrError {
        const Step s(b);
        Instruction* column = s.Column(state[0], i);
        const Step::Reflector h = s.Reflect(column, i, 0, rows);
        Instruction* w = s.Project(h.v, state[0]);
        w = s.emit().Where(s.IsAfter(w, i), w);
        Instruction* next = s.Update(state[0], s.emit().Conj(h.tau), h.v, w);
        // Above the diagonal the column stays.
        Instruction* below = b.Select(s.IsAfter(column, i), h.v, column);
        Instruction* packed = b.Select(s.IsAt(column, i), s.Spread(h.beta, column), below);
        return std::vector<Instruction*>{s.WithColumn(next, packed, i),
                                         s.WithElement(state[1], h.tau, i)};
      });
}

ValuesOrError FormQ(Builder& builder, Instruction* reflectors, Instruction* tau) {
  Instruction* identity = Matrix(builder).Identity(reflectors->shape()->bare());
  return MultiplyByQ(builder, reflectors, tau, identity, true, false);
}

ValuesOrError MultiplyByQ(Builder& builder, Instruction* reflectors, Instruction* tau,
                          Instruction* c, bool left, bool transpose) {
  const int64_t count = tau->shape()->dim(1);
  Instruction* init[] = {c, reflectors, tau};
  auto loop = BuildLoop(
      builder, count, init,
      [&](Builder& b, Instruction* i, std::span<Instruction* const> state) -> ValuesOrError {
        const Step s(b);
        Instruction* j = left != transpose ? Backwards(b, i, count) : i;
        Instruction* v = Packed(s, b, state[1], j);
        Instruction* factor = s.Element(state[2], j);
        if (transpose) factor = s.emit().Conj(factor);
        Instruction* next =
            left ? s.Update(state[0], factor, v, s.Project(v, state[0]))
                 : s.Update(state[0], factor, s.Apply(state[0], v), s.emit().Conj(v));
        return std::vector<Instruction*>{next, state[1], state[2]};
      });
  if (loop) loop->resize(1);
  return loop;
}

ValuesOrError HessenbergFactor(Builder& builder, Instruction* a, int64_t low, int64_t high) {
  const Shape* shape = a->shape();
  const int64_t n = shape->dim(1);
  Instruction* init[] = {
      a, Zeros(builder, shape->dtype(), shape->dim(0), std::max<int64_t>(n - 1, 0))};
  return BuildLoop(
      builder, std::max<int64_t>(high - low, 0), init,
      [&](Builder& b, Instruction* k, std::span<Instruction* const> state) -> ValuesOrError {
        const Step s(b);
        const Emit& e = s.emit();
        Instruction* i = low == 1 ? k : b.Add(k, b.ScalarInt(DType::kS32, low - 1));
        Instruction* column = s.Column(state[0], i);
        const Step::Reflector h = s.Reflect(column, i, 1, high);
        // Rows up to `high` times H from the right, columns behind i times H^H from the left.
        Instruction* rows = s.Apply(state[0], h.v);
        Instruction* position = b.Iota(b.context().Array(DType::kS32, rows->shape()->dims()), 1);
        rows = e.Where(e.Less(position, e.Like(position, static_cast<double>(high))), rows);
        Instruction* right = s.Update(state[0], h.tau, rows, e.Conj(h.v));
        Instruction* w = s.Project(h.v, right);
        w = e.Where(s.IsAfter(w, i), w);
        Instruction* next = s.Update(right, e.Conj(h.tau), h.v, w);
        Instruction* packed = b.Select(s.IsAfter(column, i, 1), h.v, column);
        packed = b.Select(s.IsAt(column, i, 1), s.Spread(h.beta, column), packed);
        // Rows behind `high` are not part of the reflector.
        packed =
            b.Select(e.Less(position, e.Like(position, static_cast<double>(high))), packed, column);
        return std::vector<Instruction*>{s.WithColumn(next, packed, i),
                                         s.WithElement(state[1], h.tau, i)};
      });
}

ValuesOrError TridiagonalFactor(Builder& builder, Instruction* a) {
  const Shape* shape = a->shape();
  const int64_t n = shape->dim(1), batch = shape->dim(0), count = std::max<int64_t>(n - 1, 0);
  const DType dtype = shape->dtype();
  const Matrix m(builder);
  const Emit outer(builder);
  // The matrix whose lower triangle is given; of the diagonal only the real part counts.
  Instruction* lower = m.Lower(a, 1);
  Instruction* diagonal = outer.Where(m.IsDiagonal(a), a);
  if (IsComplex(dtype)) diagonal = builder.Convert(outer.Real(diagonal), dtype);
  Instruction* whole = outer.Add(outer.Add(lower, m.Adjoint(lower)), diagonal);
  Instruction* init[] = {whole, a, Zeros(builder, dtype, batch, count),
                         Zeros(builder, dtype, batch, count)};
  auto loop = BuildLoop(
      builder, count, init,
      [&](Builder& b, Instruction* i, std::span<Instruction* const> state) -> ValuesOrError {
        const Step s(b);
        const Emit& e = s.emit();
        Instruction* column = s.Column(state[0], i);
        const Step::Reflector h = s.Reflect(column, i, 1, n);
        Instruction* left = s.Update(state[0], e.Conj(h.tau), h.v, s.Project(h.v, state[0]));
        Instruction* next = s.Update(left, h.tau, s.Apply(left, h.v), e.Conj(h.v));
        Instruction* before = s.Column(state[1], i);
        Instruction* packed = b.Select(s.IsAfter(before, i, 1), h.v, before);
        packed = b.Select(s.IsAt(before, i, 1), s.Spread(h.beta, before), packed);
        return std::vector<Instruction*>{next, s.WithColumn(state[1], packed, i),
                                         s.WithElement(state[2], h.beta, i),
                                         s.WithElement(state[3], h.tau, i)};
      });
  if (!loop) return loop;
  const int64_t over[] = {2};
  Instruction* d = outer.Sum(outer.Where(m.IsDiagonal((*loop)[0]), (*loop)[0]), over);
  Instruction* e = (*loop)[2];
  // The diagonal of the reflectors' matrix is d.
  Instruction* packed = builder.Select(m.IsDiagonal((*loop)[1]), (*loop)[0], (*loop)[1]);
  if (IsComplex(dtype)) {
    d = outer.Real(d);
    e = outer.Real(e);
  }
  return std::vector<Instruction*>{packed, d, e, (*loop)[3]};
}

}  // namespace gshard
