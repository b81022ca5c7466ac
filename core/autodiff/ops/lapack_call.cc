// LAPACK's routines as JAX calls them on CPUs, and the same ones as it does on GPUs and TPUs
// (cusolver_getrf_ffi, LuDecomposition; ir/linalg_call.h): closed forms where there are, loops over
// Householder reflectors for the orthogonal factorisations.
//
//   getrf   A += P^T L^-H (strict lower (L^H c) + upper (c U^H)) U^-H
//   syevd   A += V (diag(dw) + F * (V^H dV)) V^H,  F_ij = 1 / (w_j - w_i)
//   gesdd   the same of A^H A and A A^H, and what leaves the ranges of U and V
//           vectors beyond the thin ones turn as little as they can: dU2 = -U1 dU1^H U2. That is
//           the derivative of every loss that does not depend on which basis they are
//   geev    A += X^-H (diag(dw) + conj(F) * (X^H dX)) X^H, where X^-H has columns y / conj(y^H x);
//           left vectors are the right ones of A^H. Vectors have length 1 and a real largest
//           component
// Sources: M. Giles, "Collected matrix derivative results" (2008); J. Townsend, "Differentiating
// the singular value decomposition" (2016). Complex adjoints are conjugates of the gradients there.

#include <fmt/format.h>

#include "core/autodiff/householder.h"
#include "core/autodiff/linalg_adjoints.h"
#include "core/autodiff/matrix.h"
#include "core/autodiff/reverse_scope.h"
#include "ir/linalg_call.h"

namespace gshard {
namespace {

using Values = std::vector<Instruction*>;

std::optional<int64_t> Option(const Instruction* x, std::string_view key) {
  const LinalgOptions options = LinalgOptionsOf(*x);
  const auto found = options.find(key);
  return found == options.end() ? std::nullopt : std::optional(found->second);
}

bool IsLower(const Instruction* x) { return Option(x, "uplo").value_or('L') == 'L'; }

// `text` with the value of `key` replaced, if it has one.
std::string WithOption(std::string_view text, std::string_view key, std::string_view value) {
  std::string result(text);
  const size_t at = result.find(key);
  size_t begin = result.find('=', at);
  if (at == std::string::npos || begin == std::string::npos) return result;
  begin = result.find_first_not_of(' ', begin + 1);
  const size_t end = std::min(result.find_first_of(" ,}", begin), result.size());
  return result.replace(begin, end - begin, value);
}

// LAPACK's letter for "compute vectors", as backend_configs write it.
const std::string kVectors = std::to_string('V');

// A call being differentiated, its results on the way back.
class Call {
 public:
  Call(Instruction* x, Adjoints adjoints, ReverseScope& scope)
      : x_(x),
        adjoints_(adjoints),
        scope_(scope),
        b_(scope.builder()),
        e_(scope.builder()),
        m_(scope.builder()) {}

  Instruction* Result(int64_t leaf) {
    Instruction* instance = scope_.Editable(x_);
    Builder forward(scope_.module(), instance->parent());
    forward.set_origin(instance);
    return scope_.Available(LeafValue(forward, scope_.state().Current(instance), leaf));
  }
  Instruction* AdjointOrZero(int64_t leaf) {
    if (adjoints_[At(leaf)] != nullptr) return adjoints_[At(leaf)];
    return b_.Zero(LeafShapes(x_->shape())[At(leaf)]->bare());
  }
  bool Has(int64_t leaf) const { return adjoints_[At(leaf)] != nullptr; }

  // The forward call with vectors computed.
  void SetOptions(std::initializer_list<std::string_view> keys, std::string_view value) {
    Instruction* instance = scope_.Editable(x_);
    std::string text(instance->backend_config());
    for (std::string_view key : keys) text = WithOption(text, key, value);
    instance->set_backend_config(scope_.module().arena().Copy(std::string_view(text)));
  }

  // diag(1 / (v_j - v_i)), zero on the diagonal, in the type of `like`.
  Instruction* InverseGaps(Instruction* v, const Instruction* like) {
    std::vector<int64_t> dims(v->shape()->dims().begin(), v->shape()->dims().end());
    dims.push_back(dims.back());
    const Instruction* square = b_.Zero(b_.context().Array(v->shape()->dtype(), dims));
    Instruction* gap = e_.Sub(m_.AlongRows(v, square), m_.AlongColumns(v, square));
    Instruction* diagonal = m_.IsDiagonal(gap);
    Instruction* safe = b_.Select(diagonal, e_.Like(gap, 1), gap);
    return b_.Convert(e_.WhereNot(diagonal, e_.Div(e_.Like(gap, 1), safe)), like->shape()->dtype());
  }
  // [.., n] -> the same with the largest modulus of each column marked, the first of equal ones.
  Instruction* IsLargest(Instruction* x) {
    const int64_t rank = x->shape()->rank();
    const int64_t rows[] = {rank - 2};
    Instruction* square = e_.Real(e_.Mul(e_.Conj(x), x));
    const DType real = square->shape()->dtype();
    Instruction* most =
        b_.Reduce(square, b_.Scalar(real, 0), rows, b_.BinaryComputation(Opcode::kMaximum, real));
    Instruction* is_most = e_.Equal(square, m_.AlongRows(most, square));
    const Shape* index = b_.context().Array(DType::kS32, square->shape()->dims());
    Instruction* row = b_.Iota(index, rank - 2);
    Instruction* at = b_.Select(is_most, row, e_.Like(row, static_cast<double>(Matrix::Rows(x))));
    Instruction* first = b_.Reduce(at, b_.ScalarInt(DType::kS32, Matrix::Rows(x)), rows,
                                   b_.BinaryComputation(Opcode::kMinimum, DType::kS32));
    return e_.Equal(row, m_.AlongRows(first, row));
  }
  // The gradient of eigenvectors x from `c`, without what would change their length, or their phase
  // against the largest component.
  Instruction* WithoutScale(Instruction* x, Instruction* c) {
    const int64_t rows[] = {x->shape()->rank() - 2};
    Instruction* g = e_.Conj(c);
    Instruction* along = e_.Sum(e_.Mul(e_.Conj(g), x), rows);  // g^H x
    const DType complex = x->shape()->dtype();
    Instruction* length = m_.AlongRows(b_.Convert(e_.Real(along), complex), x);
    Instruction* largest = IsLargest(x);
    Instruction* phase = m_.AlongRows(e_.Imag(along), e_.Real(x));
    Instruction* safe = b_.Select(largest, e_.Real(x), e_.Like(e_.Real(x), 1));
    Instruction* turn = e_.Where(largest, e_.Div(phase, safe));
    return e_.Add(e_.Sub(g, e_.Mul(x, length)), e_.Complex(e_.Like(turn, 0), turn));
  }
  // Gradients of full orthonormal vectors (columns) as if of the first k alone.
  Instruction* ThinGradient(Instruction* all, Instruction* g, int64_t k) {
    const int64_t last = all->shape()->rank() - 1, n = all->shape()->dim(last);
    if (n == k) return g;
    Instruction* thin = b_.SliceDim(all, last, 0, k);
    Instruction* rest = b_.SliceDim(all, last, k, n);
    Instruction* turned = m_.Product(m_.Adjoint(b_.SliceDim(g, last, k, n)), thin);
    return e_.Sub(b_.SliceDim(g, last, 0, k), m_.Product(rest, turned));
  }
  Expected<void> None(std::string_view what) {
    Diagnostic error = scope_.ErrorAt(x_, "E-GRAD-003",
                                      fmt::format("{} of '{}' have no derivative", what,
                                                  x_->attributes<CustomCallAttributes>().target));
    error.hint = "--stop REGEX makes instructions constants";
    return Fail(std::move(error));
  }

  Expected<void> Potrf();
  Expected<void> Trsm();
  Expected<void> Getrf();
  Expected<void> Syevd();
  Expected<void> Svd(int64_t u_leaf, int64_t v_leaf, bool v_is_adjoint);
  Expected<void> Geev();
  Expected<void> Gtsv();
  Expected<void> Expanded(std::string_view routine);

 private:
  Instruction* Permutation(Instruction* pivots, int64_t rows);
  bool IsFromOne() const {
    return TpuLinalgRoutine(x_->attributes<CustomCallAttributes>().target).empty();
  }

  Instruction* x_;
  Adjoints adjoints_;
  ReverseScope& scope_;
  Builder& b_;
  Emit e_;
  Matrix m_;
};

// The factor's triangle by the formula; the other one is that of the matrix.
Expected<void> Call::Potrf() {
  const bool is_lower = IsLower(x_);
  if (!Has(0)) return {};
  Instruction* c = adjoints_[0];
  Instruction* a = CholeskyAdjoint(b_, Result(0), c, is_lower);
  scope_.Add(x_->operand(0), e_.Add(a, is_lower ? m_.Upper(c, 0) : m_.Lower(c, 1)));
  return {};
}

Expected<void> Call::Trsm() {
  TriangularSolveAttributes solve;
  solve.left_side = Option(x_, "side") == 'L';
  solve.lower = Option(x_, "uplo") == 'L';
  solve.unit_diagonal = Option(x_, "diag") == 'U';
  const int64_t transpose = Option(x_, "trans_x").value_or('N');
  solve.transpose_a = transpose == 'N'   ? TransposeKind::kNoTranspose
                      : transpose == 'T' ? TransposeKind::kTranspose
                                         : TransposeKind::kAdjoint;
  if (!Has(0)) return {};
  AddTriangularSolveAdjoints(x_, scope_.Value(x_), adjoints_[0], solve, scope_);
  return {};
}

// one-hot [.., i, r]: row r of the matrix is row i of the factors. Pivot k exchanges rows k and
// pivots[k] (from 1; XLA's own from 0).
Instruction* Call::Permutation(Instruction* pivots, int64_t rows) {
  std::vector<int64_t> dims(pivots->shape()->dims().begin(), pivots->shape()->dims().end());
  const int64_t count = dims.back();
  const int64_t last = static_cast<int64_t>(dims.size()) - 1;
  dims.back() = rows;
  const Shape* shape = b_.context().Array(DType::kS32, dims);
  Instruction* permutation = b_.Iota(shape, last);
  const int64_t over[] = {last};
  for (int64_t k = 0; k < count; ++k) {
    std::vector<int64_t> one(dims.begin(), dims.end() - 1);
    Instruction* target = b_.Reshape(b_.SliceDim(pivots, last, k, k + 1), one);
    if (IsFromOne())
      target = b_.Subtract(target, b_.BroadcastScalar(b_.ScalarInt(DType::kS32, 1), one));
    Instruction* position = b_.Iota(shape, last);
    Instruction* is_target = e_.Equal(position, e_.Spread(target, dims, over));
    Instruction* is_k = e_.Equal(position, e_.Like(position, static_cast<double>(k)));
    Instruction* of_target = e_.Sum(e_.Where(is_target, permutation), over);
    Instruction* of_k = e_.Sum(e_.Where(is_k, permutation), over);
    permutation = b_.Select(is_target, e_.Spread(of_k, dims, over), permutation);
    permutation = b_.Select(is_k, e_.Spread(of_target, dims, over), permutation);
  }
  dims.push_back(rows);
  const int64_t rows_of[] = {last + 1};
  Instruction* row = b_.Iota(b_.context().Array(DType::kS32, dims), last + 1);
  return e_.Equal(row, e_.Spread(permutation, dims, rows_of));
}

Expected<void> Call::Getrf() {
  if (!Has(0)) return {};
  Instruction* lu = Result(0);
  const DType dtype = lu->shape()->dtype();
  const int64_t rank = lu->shape()->rank();
  const int64_t rows = Matrix::Rows(lu), columns = Matrix::Columns(lu);
  const int64_t k = std::min(rows, columns);
  Instruction* zero = b_.Scalar(dtype, 0);
  // L [m, m] and U [n, n], completed by ones.
  Instruction* l = m_.Lower(b_.SliceDim(lu, rank - 1, 0, k), 1);
  l = b_.PadDimension(l, zero, rank - 1, 0, rows - k);
  l = e_.Add(l, m_.Identity(l->shape()));
  Instruction* u = m_.Upper(b_.SliceDim(lu, rank - 2, 0, k), 1);
  u = b_.PadDimension(u, zero, rank - 2, 0, columns - k);
  Instruction* position = b_.Iota(b_.context().Array(DType::kS32, u->shape()->dims()), rank - 2);
  Instruction* ones = b_.And(
      m_.IsDiagonal(u),
      b_.Compare(ComparisonDirection::kGe, position, e_.Like(position, static_cast<double>(k))));
  u = b_.Select(ones, e_.Like(u, 1), u);
  Instruction* c = adjoints_[0];
  Instruction* lower = m_.Lower(m_.Product(m_.Transpose(l), c), 1);
  Instruction* product = m_.Product(c, m_.Transpose(u));
  Instruction* upper = e_.WhereNot(m_.IsBelow(product, 1), product);
  Instruction* g = e_.Add(lower, upper);
  g = m_.Solve(u, g, {false, false, false, TransposeKind::kTranspose});
  g = m_.Solve(l, g, {true, true, true, TransposeKind::kTranspose});
  Instruction* moves = b_.Convert(Permutation(Result(1), rows), dtype);
  scope_.Add(x_->operand(0), m_.Product(m_.Transpose(moves), g));
  return {};
}

Expected<void> Call::Syevd() {
  SetOptions({"mode"}, kVectors);
  Instruction* v = Result(0);
  Instruction* inner = nullptr;
  if (Has(0)) {
    Instruction* along = m_.Product(m_.Adjoint(v), e_.Conj(adjoints_[0]));
    inner = e_.Mul(InverseGaps(Result(1), v), along);
  }
  if (Has(1)) {
    Instruction* w = b_.Convert(adjoints_[1], v->shape()->dtype());
    Instruction* diagonal = e_.Where(m_.IsDiagonal(v), m_.AlongColumns(w, v));
    inner = inner == nullptr ? diagonal : e_.Add(inner, diagonal);
  }
  if (inner == nullptr) return {};
  Instruction* a = m_.Product(m_.Product(v, inner), m_.Adjoint(v));
  scope_.Add(x_->operand(0), e_.Conj(m_.ToTriangle(a, IsLower(x_))));
  return {};
}

// `u` and `v`: the results that have the vectors.
Expected<void> Call::Svd(int64_t u_leaf, int64_t v_leaf, bool v_is_adjoint) {
  if (Has(0)) return None("the contents left in the matrix");
  Instruction* operand = x_->operand(0);
  const int64_t rank = operand->shape()->rank();
  const int64_t k = std::min(Matrix::Rows(operand), Matrix::Columns(operand));
  if (Option(x_, "mode") == 'N' || Option(x_, "compute_uv") == 0) {
    return None("singular values computed without vectors");
  }
  Instruction* s = Result(1);
  Instruction* all_v = v_is_adjoint ? m_.Adjoint(Result(v_leaf)) : Result(v_leaf);
  Instruction* u = b_.SliceDim(Result(u_leaf), rank - 1, 0, k);
  Instruction* v = b_.SliceDim(all_v, rank - 1, 0, k);
  Instruction* vh = m_.Adjoint(v);
  const DType dtype = u->shape()->dtype();
  // [k, k] matrices.
  std::vector<int64_t> dims(s->shape()->dims().begin(), s->shape()->dims().end());
  dims.push_back(k);
  Instruction* square = b_.Zero(b_.context().Array(dtype, dims));
  Instruction* along_rows = m_.AlongRows(b_.Convert(s, dtype), square);        // s_j
  Instruction* along_columns = m_.AlongColumns(b_.Convert(s, dtype), square);  // s_i
  Instruction* inner = nullptr;
  auto add = [&](Instruction* part) { inner = inner == nullptr ? part : e_.Add(inner, part); };
  if (Has(1)) {
    Instruction* ds = b_.Convert(adjoints_[1], dtype);
    add(e_.Where(m_.IsDiagonal(square), m_.AlongColumns(ds, square)));
  }
  Instruction* gaps = Has(u_leaf) || Has(v_leaf) ? InverseGaps(e_.Mul(s, s), square) : nullptr;
  Instruction* outside = nullptr;
  if (Has(u_leaf)) {
    Instruction* du = ThinGradient(Result(u_leaf), e_.Conj(adjoints_[At(u_leaf)]), k);
    Instruction* p = m_.Product(m_.Adjoint(u), du);
    add(e_.Mul(e_.Mul(gaps, e_.Sub(p, m_.Adjoint(p))), along_rows));
    // What leaves the range of U, divided by s.
    Instruction* rest = e_.Sub(du, m_.Product(u, p));
    rest = e_.Div(rest, m_.AlongRows(b_.Convert(s, dtype), rest));
    outside = m_.Product(rest, vh);
  }
  if (Has(v_leaf)) {
    Instruction* dv = e_.Conj(adjoints_[At(v_leaf)]);
    dv = ThinGradient(all_v, v_is_adjoint ? m_.Adjoint(dv) : dv, k);
    Instruction* p = m_.Product(vh, dv);
    add(e_.Mul(e_.Mul(gaps, e_.Sub(p, m_.Adjoint(p))), along_columns));
    Instruction* rest = e_.Sub(dv, m_.Product(v, p));
    rest = e_.Div(rest, m_.AlongRows(b_.Convert(s, dtype), rest));
    Instruction* part = m_.Product(u, m_.Adjoint(rest));
    outside = outside == nullptr ? part : e_.Add(outside, part);
  }
  if (inner == nullptr) return {};
  Instruction* a = m_.Product(m_.Product(u, inner), vh);
  if (outside != nullptr) a = e_.Add(a, outside);
  scope_.Add(operand, e_.Conj(a));
  return {};
}

Expected<void> Call::Geev() {
  const bool is_complex = IsComplex(x_->operand(0)->shape()->dtype());
  const int64_t vectors = is_complex ? 1 : 2;
  if (Option(x_, "left").has_value()) {  // as GPUs have it
    SetOptions({"left", "right"}, "true");
  } else {
    SetOptions({"compute_left", "compute_right"}, kVectors);
  }
  Instruction* y = Result(vectors);
  Instruction* x = Result(vectors + 1);
  const int64_t rows[] = {y->shape()->rank() - 2};
  Instruction* overlap = e_.Sum(e_.Mul(e_.Conj(y), x), rows);  // y^H x
  Instruction* w = is_complex ? Result(0) : e_.Complex(Result(0), Result(1));
  Instruction* gaps = Has(vectors) || Has(vectors + 1) ? InverseGaps(w, x) : nullptr;
  Instruction* a = nullptr;
  auto add = [&](Instruction* part) { a = a == nullptr ? part : e_.Add(a, part); };
  const bool has_values = Has(0) || (!is_complex && Has(1));
  if (has_values || Has(vectors + 1)) {
    Instruction* inner = nullptr;
    if (has_values) {
      Instruction* dw =
          is_complex ? e_.Conj(adjoints_[0]) : e_.Complex(AdjointOrZero(0), AdjointOrZero(1));
      inner = e_.Where(m_.IsDiagonal(x), m_.AlongColumns(dw, x));
    }
    if (Has(vectors + 1)) {
      Instruction* along = m_.Product(m_.Adjoint(x), WithoutScale(x, adjoints_[At(vectors + 1)]));
      Instruction* turns = e_.Mul(e_.Conj(gaps), along);
      inner = inner == nullptr ? turns : e_.Add(inner, turns);
    }
    Instruction* inverse = e_.Div(y, m_.AlongRows(e_.Conj(overlap), y));
    add(m_.Product(m_.Product(inverse, inner), m_.Adjoint(x)));
  }
  if (Has(vectors)) {
    Instruction* along = m_.Product(m_.Adjoint(y), WithoutScale(y, adjoints_[At(vectors)]));
    Instruction* inverse = e_.Div(x, m_.AlongRows(overlap, x));
    Instruction* inner = m_.Product(inverse, e_.Mul(gaps, along));
    add(m_.Adjoint(m_.Product(inner, m_.Adjoint(y))));
  }
  if (a != nullptr) scope_.Add(x_->operand(0), is_complex ? e_.Conj(a) : e_.Real(a));
  return {};
}

// Tridiagonal T x = b: T^T db = c; the diagonals get -db x^T along them.
Expected<void> Call::Gtsv() {
  if (Has(0) || Has(1) || Has(2)) return None("the diagonals left behind");
  if (!Has(3)) return {};
  Instruction* lower = scope_.Value(x_->operand(0));
  Instruction* upper = scope_.Value(x_->operand(2));
  const int64_t last = lower->shape()->rank() - 1;
  Instruction* zero = b_.Scalar(lower->shape()->dtype(), 0);
  Instruction* operands[] = {b_.PadDimension(upper, zero, last, 1, -1),
                             scope_.Value(x_->operand(1)),
                             b_.PadDimension(lower, zero, last, -1, 1), adjoints_[3]};
  Instruction* solved = b_.CloneWith(x_, operands, x_->shape());
  Instruction* db = b_.GetTupleElement(solved, 3);
  scope_.Add(x_->operand(3), db);
  Instruction* x = Result(3);
  const int64_t over[] = {last + 1};
  auto along = [&](int64_t shift) {
    Instruction* moved = b_.PadDimension(x, zero, last, -shift, shift);
    return e_.Neg(e_.Sum(e_.Mul(db, moved), over));
  };
  scope_.Add(x_->operand(0), along(-1));
  scope_.Add(x_->operand(1), along(0));
  scope_.Add(x_->operand(2), along(1));
  return {};
}

// Dims before the last `kept` ones become one.
Instruction* Flatten(Builder& b, Instruction* x, int64_t kept) {
  Dims dims = x->shape()->dims();
  int64_t batch = 1;
  for (size_t d = 0; d + At(kept) < dims.size(); ++d) batch *= dims[d];
  std::vector<int64_t> flat = {batch};
  flat.insert(flat.end(), dims.end() - kept, dims.end());
  return b.Reshape(x, flat);
}

ValuesOrError Expand(Builder& b, const Instruction* x, std::string_view routine,
                     std::span<const Values> operands) {
  auto matrix = [&](size_t i) { return Flatten(b, operands[i][0], 2); };
  auto vector = [&](size_t i) { return Flatten(b, operands[i][0], 1); };
  if (routine == "geqrf") return QrFactor(b, matrix(0));
  if (routine == "orgqr") return FormQ(b, matrix(0), vector(1));
  if (routine == "ormqr") {
    return MultiplyByQ(b, matrix(0), vector(1), matrix(2), Option(x, "left") == 1,
                       Option(x, "transpose") == 1);
  }
  if (routine == "gehrd") {
    const int64_t n = x->operand(0)->shape()->dims().back();
    return HessenbergFactor(b, matrix(0), Option(x, "low").value_or(1),
                            Option(x, "high").value_or(n));
  }
  // sytrd of the upper triangle is that of the lower one with all indices reversed.
  Instruction* a = matrix(0);
  auto reversed = [&](Instruction* of, std::initializer_list<int64_t> dims) {
    Instruction* array[] = {of};
    return b.Add(Opcode::kReverse, array,
                 DimensionsAttributes{b.Copy(std::span(dims.begin(), dims.size()))});
  };
  const bool is_lower = IsLower(x);
  if (!is_lower) a = reversed(a, {1, 2});
  ValuesOrError parts = TridiagonalFactor(b, a);
  if (!parts || is_lower) return parts;
  (*parts)[0] = reversed((*parts)[0], {1, 2});
  for (size_t i = 1; i < 4; ++i) (*parts)[i] = reversed((*parts)[i], {1});
  return parts;
}

Expected<void> Call::Expanded(std::string_view routine) {
  const std::vector<const Shape*> shapes = LeafShapes(x_->shape());
  return scope_.DifferentiateExpansion(
      x_, adjoints_, [&](Builder& b, std::span<const Values> operands) -> ValuesOrError {
        std::vector<Values> inputs(operands.begin(), operands.end());
        if (routine == "geqp3") {
          // The columns in the order that the forward call has found.
          Instruction* order = Result(1);
          Instruction* a = inputs[0][0];
          std::vector<int64_t> dims(order->shape()->dims().begin(), order->shape()->dims().end());
          dims.push_back(dims.back());
          const int64_t last = static_cast<int64_t>(dims.size()) - 1;
          const int64_t over[] = {last - 1};
          Instruction* column = b.Iota(b.context().Array(DType::kS32, dims), last - 1);
          Instruction* from_one = e_.Add(column, 1);
          Instruction* moves =
              b.Convert(e_.Equal(from_one, e_.Spread(order, dims, over)), a->shape()->dtype());
          inputs[0][0] = m_.Product(a, moves);
        }
        ValuesOrError results = routine == "geqp3" ? QrFactor(b, Flatten(b, inputs[0][0], 2))
                                                   : Expand(b, x_, routine, inputs);
        if (!results) return results;
        if (routine == "geqp3") results->insert(results->begin() + 1, nullptr);
        for (size_t i = 0; i < results->size(); ++i) {
          if ((*results)[i] != nullptr) {
            (*results)[i] = b.Reshape((*results)[i], shapes[i]->dims());
          }
        }
        results->resize(shapes.size(), nullptr);  // info
        return results;
      });
}

}  // namespace

Expected<void> GradLapackCall(Instruction* x, Adjoints adjoints, ReverseScope& scope) {
  const std::string_view routine = LinalgRoutine(x->attributes<CustomCallAttributes>().target);
  Call call(x, adjoints, scope);
  if (routine == "potrf") return call.Potrf();
  if (routine == "trsm") return call.Trsm();
  if (routine == "getrf") return call.Getrf();
  if (routine == "syevd") return call.Syevd();
  if (routine == "gesdd") return call.Svd(2, 3, /*v_is_adjoint=*/true);
  if (routine == "gesvdj") return call.Svd(2, 3, /*v_is_adjoint=*/false);
  if (routine == "gesvd") {
    const bool is_transposed = Option(x, "transposed") == 1;
    return call.Svd(is_transposed ? 3 : 2, is_transposed ? 2 : 3, /*v_is_adjoint=*/true);
  }
  if (routine == "geev" || routine == "eig") return call.Geev();
  if (routine == "gtsv") return call.Gtsv();
  for (std::string_view name : {"geqrf", "geqp3", "orgqr", "ormqr", "gehrd", "sytrd"}) {
    if (routine == name) return call.Expanded(routine);
  }
  if (routine == "gees") {
    return call.None("Schur factors, whose vectors have free phases and an order that jumps,");
  }
  return call.None("the results");
}

}  // namespace gshard
