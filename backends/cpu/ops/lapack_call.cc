// Custom calls to LAPACK, and to what stands for it on GPUs and TPUs: tables of routines, each with
// the shapes it takes and gives.
//
// Leading dims are a batch; the last two (one for vectors, none for info) are a matrix. Ours are
// row-major, LAPACK's column-major, so matrices are transposed on the way in and out. What the
// routines leave unset is zero.
#include "backends/cpu/ops/lapack_call.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <string>
#include <vector>

#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/kernels/lapack.h"
#include "ir/linalg_call.h"

namespace gshard::cpu {
namespace {

// The dims that letters of a pattern stand for.
class DimTable {
 public:
  // Binds a letter at its first use; afterwards it must be the same.
  bool Bind(char letter, int64_t size) {
    if (letter == 'k') return size == std::min(Get('m'), Get('n'));
    if (letter == 'h') return size == std::max<int64_t>(Get('n') - 1, 0);
    const auto [entry, is_new] = sizes_.emplace(letter, size);
    return is_new || entry->second == size;
  }
  int64_t Get(char letter) const {
    if (letter == 'k') return std::min(Get('m'), Get('n'));
    const auto entry = sizes_.find(letter);
    return entry == sizes_.end() ? 0 : entry->second;
  }

 private:
  std::map<char, int64_t> sizes_;
};

// One operand or result of the call.
struct Leaf {
  int64_t rows = 1, columns = 1;
  int64_t element_bytes = 0;
  bool is_shared = false;  // by all of the batch: nobody reads it
  int64_t bytes() const { return rows * columns * element_bytes; }
  int64_t stride() const { return is_shared ? 0 : bytes(); }
};

// What a routine sees: column-major matrices. Results that LAPACK makes in place of an operand come
// filled with it, the others with zeros.
struct Frame {
  const DimTable& dims;
  const LinalgOptions& options;
  std::span<std::byte*const> operands, results;
  Scratch& scratch;

  int64_t n(char letter) const { return dims.Get(letter); }
  char Letter(std::string_view key) const { return static_cast<char>(options.find(key)->second); }
  bool Flag(std::string_view key) const { return options.find(key)->second != 0; }
  template <typename T>
  T* in(size_t i) const {
    return reinterpret_cast<T*>(operands[i]);
  }
  template <typename T>
  T* out(size_t i) const {
    return reinterpret_cast<T*>(results[i]);
  }
  void Info(size_t i, int info) const { *out<int32_t>(i) = info; }
};

template <typename T>
struct Routines {
  using L = Lapack<T>;
  using Real = typename L::Real;
  using Complex = std::complex<Real>;
  static constexpr bool kComplex = std::is_same_v<T, Complex>;

  static void Potrf(const Frame& f) {
    f.Info(1, L::Potrf(f.Letter("uplo"), f.n('n'), f.out<T>(0)));
  }
  static void Geqrf(const Frame& f) {
    L::Geqrf(f.n('m'), f.n('n'), f.out<T>(0), f.out<T>(1), f.scratch);
  }
  static void Geqp3(const Frame& f) {
    L::Geqp3(f.n('m'), f.n('n'), f.out<T>(0), f.out<int32_t>(1), f.out<T>(2), f.scratch);
  }
  static void Orgqr(const Frame& f) {
    L::Orgqr(f.n('m'), f.n('n'), f.n('t'), f.out<T>(0), f.in<T>(1), f.scratch);
  }
  static void Ormqr(const Frame& f) {
    L::Ormqr({f.Flag("left"), f.Flag("transpose"), f.n('t')}, f.n('m'), f.n('n'), f.in<T>(0),
             f.in<T>(1), f.out<T>(0), f.scratch);
  }
  static void Getrf(const Frame& f) {
    f.Info(2, L::Getrf(f.n('m'), f.n('n'), f.out<T>(0), f.out<int32_t>(1)));
  }
  static void Trsm(const Frame& f) {
    L::Trsm({f.Letter("side"), f.Letter("uplo"), f.Letter("trans_x"), f.Letter("diag")}, f.n('m'),
            f.n('n'), f.in<T>(0), f.out<T>(0));
  }
  static void Syevd(const Frame& f) {
    f.Info(2, L::Syevd(f.Letter("mode"), f.Letter("uplo"), f.n('n'), f.out<T>(0), f.out<Real>(1),
                       f.scratch));
  }
  static void Gesdd(const Frame& f) {
    f.Info(4, L::Gesdd(f.Letter("mode"), f.n('m'), f.n('n'), f.out<T>(0),
                       {f.out<Real>(1), f.out<T>(2), f.out<T>(3), f.n('v')}, f.scratch));
  }
  static void Geev(const Frame& f) {
    Eigenvectors(f, {f.Letter("compute_left"), f.Letter("compute_right")});
  }
  static void Gehrd(const Frame& f) {
    f.Info(2, L::Gehrd(f.n('n'), f.options.find("low")->second, f.options.find("high")->second,
                       f.out<T>(0), f.out<T>(1), f.scratch));
  }
  static void Sytrd(const Frame& f) {
    f.Info(4, L::Sytrd(f.Letter("uplo"), f.n('n'), f.out<T>(0), f.out<Real>(1), f.out<Real>(2),
                       f.out<T>(3), f.scratch));
  }
  static void Gees(const Frame& f) {
    const int64_t n = f.n('n');
    const size_t after = kComplex ? 3 : 4;
    Complex* w =
        reinterpret_cast<Complex*>(f.scratch.Allocate(static_cast<size_t>(n) * sizeof(Complex)));
    f.Info(after, 0);  // eigenvalues selected: there is no sorting
    f.Info(after + 1, L::Gees(f.Letter("mode"), n, f.out<T>(0), w, f.out<T>(1), f.scratch));
    StoreValues(f, 2, w, n);
  }
  // Diagonals have one length: the first element of the lower and the last of the upper are unused.
  static void Gtsv(const Frame& f) {
    f.Info(4, L::Gtsv(f.n('n'), f.n('z'), f.out<T>(0) + 1, f.out<T>(1), f.out<T>(2), f.out<T>(3)));
  }

  // --- as GPUs have them

  // The right vectors are columns of the fourth result.
  static void Gesvdj(const Frame& f) {
    const int64_t n = f.n('n'), v = f.n('v');
    T* vt = reinterpret_cast<T*>(
        f.scratch.Allocate(std::max<size_t>(1, static_cast<size_t>(n * v)) * sizeof(T)));
    f.Info(4, Svd(f, f.out<T>(2), vt));
    if (!f.Flag("compute_uv")) return;
    for (int64_t i = 0; i < v; ++i) {
      for (int64_t j = 0; j < n; ++j) {
        if constexpr (kComplex) {
          f.out<T>(3)[j + i * n] = std::conj(vt[i + j * v]);
        } else {
          f.out<T>(3)[j + i * n] = vt[i + j * v];
        }
      }
    }
  }
  static void Gesvd(const Frame& f) { f.Info(4, Svd(f, f.out<T>(2), f.out<T>(3))); }
  static void GesvdTransposed(const Frame& f) { f.Info(4, Svd(f, f.out<T>(3), f.out<T>(2))); }
  static void GesvdValues(const Frame& f) { f.Info(4, Svd(f, nullptr, nullptr)); }
  static void Gtsv2(const Frame& f) {
    L::Gtsv(f.n('n'), f.n('z'), f.in<T>(0) + 1, f.in<T>(1), f.in<T>(2), f.out<T>(0));
  }
  // Rows are exchanged one after the other; pivots count from 0.
  static void PivotsToPermutation(const Frame& f) {
    Permute(f.in<int32_t>(0), f.n('t'), f.out<int32_t>(0), f.n('m'));
  }

  // --- as TPUs have them

  static void Eigh(const Frame& f) {
    L::Syevd(f.Letter("mode"), f.Letter("uplo"), f.n('n'), f.out<T>(0), f.out<Real>(1), f.scratch);
  }
  static void Lu(const Frame& f) {
    int32_t* pivots = f.out<int32_t>(1);
    L::Getrf(f.n('m'), f.n('n'), f.out<T>(0), pivots);
    for (int64_t i = 0; i < f.n('k'); ++i) --pivots[i];
    Permute(pivots, f.n('k'), f.out<int32_t>(2), f.n('m'));
  }

 private:
  static void Permute(const int32_t* pivots, int64_t count, int32_t* permutation, int64_t rows) {
    for (int64_t i = 0; i < rows; ++i) permutation[i] = static_cast<int32_t>(i);
    for (int64_t i = 0; i < count; ++i) {
      if (pivots[i] >= 0 && pivots[i] < rows) std::swap(permutation[i], permutation[pivots[i]]);
    }
  }
  // Singular values to result 1; vectors where they are wanted: all, or as many as values.
  static int Svd(const Frame& f, T* u, T* vt) {
    const int64_t m = f.n('m'), n = f.n('n');
    const bool is_full = f.n('u') == m && f.n('v') == n;
    const char job = !f.Flag("compute_uv") ? 'N' : is_full ? 'A' : 'S';
    return L::Gesdd(job, m, n, f.out<T>(0), {f.out<Real>(1), u, vt, std::max<int64_t>(f.n('v'), 1)},
                    f.scratch);
  }
  static void Eigenvectors(const Frame& f, const EigenvectorJobs& jobs) {
    const int64_t n = f.n('n');
    const size_t vectors = kComplex ? 1 : 2;
    Complex* w =
        reinterpret_cast<Complex*>(f.scratch.Allocate(static_cast<size_t>(n) * sizeof(Complex)));
    f.Info(vectors + 2, L::Geev(jobs, n, f.in<T>(0), w, f.out<Complex>(vectors),
                                f.out<Complex>(vectors + 1), f.scratch));
    StoreValues(f, 0, w, n);
  }
  // Complex values, or real and imaginary parts in two results.
  static void StoreValues(const Frame& f, size_t first, const Complex* w, int64_t n) {
    for (int64_t i = 0; i < n; ++i) {
      if constexpr (kComplex) {
        f.out<T>(first)[i] = w[i];
      } else {
        f.out<T>(first)[i] = w[i].real();
        f.out<T>(first + 1)[i] = w[i].imag();
      }
    }
  }
};

using Function = void (*)(const Frame&);

struct Row {
  std::string_view name;          // of real types
  std::string_view complex_name;  // of complex types; empty: the same
  // Operands -> results: a letter a dim, then :i s32, :r the real type, :c the complex type. k is
  // min(m, n), h is n - 1.
  std::string_view shapes, complex_shapes;
  std::string_view options;  // keys that must be in its backend_config
  // In place: result i starts as operand in_place[i] - '0'.
  std::string_view in_place;
  std::array<Function, 4> functions;  // s, d, c, z
};

#define GSHARD_ROUTINE(name)                                                               \
  {                                                                                        \
    &Routines<float>::name, &Routines<double>::name, &Routines<std::complex<float>>::name, \
        &Routines<std::complex<double>>::name                                              \
  }

constexpr Row kRows[] = {
    {"potrf", "", "nn -> nn :i", "", "uplo", "0", GSHARD_ROUTINE(Potrf)},
    {"geqrf", "", "mn -> mn k", "", "", "0", GSHARD_ROUTINE(Geqrf)},
    {"geqp3", "", "mn n:i -> mn n:i k", "", "", "01", GSHARD_ROUTINE(Geqp3)},
    {"orgqr", "ungqr", "mn t -> mn", "", "", "0", GSHARD_ROUTINE(Orgqr)},
    {"ormqr", "unmqr", "xt t mn -> mn", "", "left transpose", "2", GSHARD_ROUTINE(Ormqr)},
    {"getrf", "", "mn -> mn k:i :i", "", "", "0", GSHARD_ROUTINE(Getrf)},
    {"trsm", "", "xx mn -> mn", "", "side uplo trans_x diag", "1", GSHARD_ROUTINE(Trsm)},
    {"syevd", "heevd", "nn -> nn n:r :i", "", "mode uplo", "0", GSHARD_ROUTINE(Syevd)},
    {"gesdd", "", "mn -> mn k:r mu vn :i", "", "mode", "0", GSHARD_ROUTINE(Gesdd)},
    {"geev", "", "nn -> n n nn:c nn:c :i", "nn -> n nn nn :i", "compute_left compute_right", "",
     GSHARD_ROUTINE(Geev)},
    {"gehrd", "", "nn -> nn h :i", "", "low high", "0", GSHARD_ROUTINE(Gehrd)},
    {"sytrd", "hetrd", "nn -> nn n:r h:r h :i", "", "uplo", "0", GSHARD_ROUTINE(Sytrd)},
    {"gees", "", "nn -> nn nn n n :i :i", "nn -> nn nn n :i :i", "mode", "0", GSHARD_ROUTINE(Gees)},
    {"gtsv", "", "n n n nz -> n n n nz :i", "", "", "0123", GSHARD_ROUTINE(Gtsv)},
};
// On GPUs: cusolver_getrf_ffi, hipsolver_getrf_ffi, cusparse_gtsv2_ffi, .. A "_" is a result that
// nobody reads.
constexpr Row kGpuRows[] = {
    {"potrf", "", "nn -> nn :i", "", "lower", "0", GSHARD_ROUTINE(Potrf)},
    {"geqrf", "", "mn -> mn k", "", "", "0", GSHARD_ROUTINE(Geqrf)},
    {"orgqr", "", "mn t -> mn", "", "", "0", GSHARD_ROUTINE(Orgqr)},
    {"getrf", "", "mn -> mn k:i :i", "", "", "0", GSHARD_ROUTINE(Getrf)},
    {"syevd", "", "nn -> nn n:r :i", "", "lower", "0", GSHARD_ROUTINE(Syevd)},
    {"sytrd", "", "nn -> nn n:r h:r h :i", "", "lower", "0", GSHARD_ROUTINE(Sytrd)},
    {"gesvdj", "", "mn -> mn k:r mu nv :i", "", "compute_uv", "0", GSHARD_ROUTINE(Gesvdj)},
    {"gesvd", "", "mn -> mn k:r mu vn :i", "", "compute_uv", "0", GSHARD_ROUTINE(Gesvd)},
    {"eig", "", "nn -> n n nn:c nn:c :i", "nn -> n nn nn :i", "left right", "",
     GSHARD_ROUTINE(Geev)},
    {"gtsv2", "", "n n n nz -> nz", "", "", "3", GSHARD_ROUTINE(Gtsv2)},
    {"lu_pivots_to_permutation", "", "t:i -> m:i", "", "", "", GSHARD_ROUTINE(PivotsToPermutation)},
};
constexpr Row kGesvdTransposed = {"gesvd",      "",  "mn -> mn k:r vn mu :i",        "",
                                  "compute_uv", "0", GSHARD_ROUTINE(GesvdTransposed)};
constexpr Row kGesvdValues = {"gesvd",      "",  "mn -> mn k:r _ _ :i",      "",
                              "compute_uv", "0", GSHARD_ROUTINE(GesvdValues)};

// On TPUs, and in what TensorFlow and torch_xla make.
constexpr Row kTpuRows[] = {
    {"Qr", "", "mn -> mn k", "", "", "0", GSHARD_ROUTINE(Geqrf)},
    {"ProductOfElementaryHouseholderReflectors", "", "mn t -> mn", "", "", "0",
     GSHARD_ROUTINE(Orgqr)},
    {"Eigh", "", "nn -> nn n:r", "", "", "0", GSHARD_ROUTINE(Eigh)},
    {"LuDecomposition", "", "mn -> mn k:i m:i", "", "", "0", GSHARD_ROUTINE(Lu)},
};
#undef GSHARD_ROUTINE

constexpr std::string_view kLetters = "sdcz";
constexpr DType kTypes[] = {DType::kF32, DType::kF64, DType::kC64, DType::kC128};

struct Target {
  const Row* row = nullptr;
  size_t type = 0;  // index in kLetters
  bool IsComplex() const { return type >= 2; }
};

const Row* FindRow(std::span<const Row> rows, std::string_view name) {
  const auto found = std::ranges::find(rows, name, &Row::name);
  return found == rows.end() ? nullptr : &*found;
}

// Those of GPUs and TPUs are of the type of their first operand.
Target FindTarget(std::string_view target, DType dtype) {
  constexpr std::string_view kPrefix = "lapack_", kSuffix = "_ffi";
  if (!target.starts_with(kPrefix) || !target.ends_with(kSuffix)) {
    const Row* row = FindRow(kTpuRows, target);
    if (row == nullptr) row = FindRow(kGpuRows, GpuLinalgRoutine(target));
    const auto type = std::ranges::find(kTypes, dtype);
    return {row, type == std::end(kTypes) ? 0 : static_cast<size_t>(type - std::begin(kTypes))};
  }
  target.remove_prefix(kPrefix.size());
  target.remove_suffix(kSuffix.size());
  if (target.empty()) return {};
  const size_t type = kLetters.find(target[0]);
  if (type == std::string_view::npos) return {};
  for (const Row& row : kRows) {
    const bool renamed = type >= 2 && !row.complex_name.empty();
    if (target.substr(1) == (renamed ? row.complex_name : row.name)) return {&row, type};
  }
  return {};
}

class LapackKernel : public Kernel {
 public:
  LapackKernel(Target target, DimTable dims, LinalgOptions options, std::vector<Leaf> operands,
               std::vector<Leaf> results, int64_t batch)
      : target_(target),
        dims_(std::move(dims)),
        options_(std::move(options)),
        operands_(std::move(operands)),
        results_(std::move(results)),
        batch_(batch) {
    for (const Leaf& operand : operands_) empty_ |= operand.bytes() == 0;
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    std::byte* in[kMax];
    std::byte* out[kMax];
    for (size_t i = 0; i < operands_.size(); ++i) in[i] = Room(operands_[i], scratch);
    for (size_t i = 0; i < results_.size(); ++i) out[i] = Room(results_[i], scratch);
    const Frame frame{dims_, options_, {in, operands_.size()}, {out, results_.size()}, scratch};
    const Scratch::Mark mark = scratch.Position();
    for (int64_t b = 0; b < batch_; ++b) {
      scratch.Rewind(mark);
      for (size_t i = 0; i < results_.size(); ++i) {
        std::memset(out[i], 0, static_cast<size_t>(results_[i].bytes()));
      }
      for (size_t i = 0; i < operands_.size(); ++i) {
        const Leaf& leaf = operands_[i];
        const size_t place = target_.row->in_place.find(static_cast<char>('0' + i));
        Transpose(leaf.rows, leaf.columns, leaf.element_bytes, operands[i] + b * leaf.bytes(),
                  place == std::string_view::npos ? in[i] : out[place]);
      }
      if (!empty_) target_.row->functions[target_.type](frame);
      for (size_t i = 0; i < results_.size(); ++i) {
        const Leaf& leaf = results_[i];
        Transpose(leaf.columns, leaf.rows, leaf.element_bytes, out[i],
                  results[i] + b * leaf.stride());
      }
    }
  }

  static constexpr size_t kMax = 8;  // operands or results

 private:
  static std::byte* Room(const Leaf& leaf, Scratch& scratch) {
    return scratch.Allocate(static_cast<size_t>(std::max<int64_t>(leaf.bytes(), 1)));
  }

  // [rows, columns] -> [columns, rows].
  static void Transpose(int64_t rows, int64_t columns, int64_t bytes, const std::byte* from,
                        std::byte* to) {
    if (rows == 1 || columns == 1) {
      std::memcpy(to, from, static_cast<size_t>(rows * columns * bytes));
      return;
    }
    const StridedCopy copy({{rows, columns, 1}, {columns, 1, rows}}, bytes);
    copy.Run(from, to);
  }

  Target target_;
  DimTable dims_;
  LinalgOptions options_;
  std::vector<Leaf> operands_, results_;
  int64_t batch_;
  bool empty_ = false;
};

// Reads the shapes of a call against its routine's pattern.
class ShapeReader {
 public:
  explicit ShapeReader(Target target) : target_(target) {}

  // False if `shapes` are not those of `pattern` ("mn k:i :i").
  bool Read(std::string_view pattern, std::span<const Shape* const> shapes,
            std::vector<Leaf>& leaves) {
    size_t i = 0;
    while (!pattern.empty()) {
      const size_t end = std::min(pattern.find(' '), pattern.size());
      if (i == shapes.size() || !ReadLeaf(pattern.substr(0, end), shapes[i++], leaves)) {
        return false;
      }
      pattern.remove_prefix(std::min(end + 1, pattern.size()));
    }
    return i == shapes.size();
  }
  const DimTable& dims() const { return dims_; }
  int64_t BatchCount() const {
    int64_t count = 1;
    for (const int64_t size : batch_) count *= size;
    return count;
  }

 private:
  bool ReadLeaf(std::string_view word, const Shape* shape, std::vector<Leaf>& leaves) {
    if (word == "_") {
      leaves.push_back({shape->element_count(), 1, StorageBytes(shape->dtype()), true});
      return shape->IsArray();
    }
    const size_t colon = std::min(word.find(':'), word.size());
    const std::string_view letters = word.substr(0, colon);
    if (!shape->IsArray() || shape->dtype() != TypeOf(word.substr(colon))) return false;
    const int64_t rank = static_cast<int64_t>(letters.size());
    if (shape->rank() < rank) return false;
    const std::span<const int64_t> batch =
        shape->dims().first(static_cast<size_t>(shape->rank() - rank));
    if (leaves.empty() && !has_batch_) batch_.assign(batch.begin(), batch.end());
    has_batch_ = true;
    if (!std::equal(batch.begin(), batch.end(), batch_.begin(), batch_.end())) return false;
    Leaf leaf;
    leaf.element_bytes = StorageBytes(shape->dtype());
    for (int64_t d = 0; d < rank; ++d) {
      const int64_t size = shape->dim(shape->rank() - rank + d);
      if (!dims_.Bind(letters[static_cast<size_t>(d)], size)) return false;
      (d == 0 ? leaf.rows : leaf.columns) = size;
    }
    leaves.push_back(leaf);
    return true;
  }
  DType TypeOf(std::string_view suffix) const {
    if (suffix == ":i") return DType::kS32;
    if (suffix == ":r") return kTypes[target_.type % 2];
    if (suffix == ":c") return kTypes[2 + target_.type % 2];
    return kTypes[target_.type];
  }

  Target target_;
  DimTable dims_;
  bool has_batch_ = false;
  std::vector<int64_t> batch_;
};

// Conditions between dims that the pattern does not say.
bool FitTogether(const Row& row, const DimTable& dims, const LinalgOptions& options) {
  const int64_t m = dims.Get('m'), n = dims.Get('n'), t = dims.Get('t'), x = dims.Get('x');
  const auto value = [&](std::string_view key) { return options.find(key)->second; };
  const auto fits_vectors = [&](char letter, int64_t all) {
    return dims.Get(letter) == all || dims.Get(letter) == std::min(m, n);
  };
  if (row.name == "orgqr" || row.name == "ProductOfElementaryHouseholderReflectors")
    return t <= n && n <= m;
  if (row.name == "lu_pivots_to_permutation") return t <= m;
  if (row.name == "gesvdj" || (row.name == "gesvd" && &row != &kGesvdValues))
    return fits_vectors('u', m) && fits_vectors('v', n);
  if (row.name == "ormqr") return x == (value("left") != 0 ? m : n) && t <= x;
  if (row.name == "trsm") return x == (value("side") == 'L' ? m : n);
  if (row.name == "gehrd") {
    return value("low") >= 1 && value("low") <= std::max<int64_t>(value("high"), 1) &&
           value("high") <= n;
  }
  if (row.name == "gesdd") {
    const bool reduced = value("mode") == 'S';
    return dims.Get('u') == (reduced ? std::min(m, n) : m) &&
           dims.Get('v') == (reduced ? std::min(m, n) : n);
  }
  return true;
}

// The letters that an option may have.
std::string_view Choices(std::string_view key) {
  if (key == "uplo") return "LU";
  if (key == "side") return "LR";
  if (key == "diag") return "NU";
  if (key == "trans_x") return "NTC";
  if (key == "mode") return "NVSA";
  if (key == "compute_left" || key == "compute_right") return "NV";
  return "";
}

}  // namespace

bool IsLapackTarget(std::string_view target) {
  return FindTarget(target, DType::kF32).row != nullptr;
}

KernelOrError MakeLapackCall(const Instruction& instruction) {
  const std::string_view name = instruction.attributes<CustomCallAttributes>().target;
  const DType dtype = instruction.operand_count() > 0 && instruction.operand(0)->shape()->IsArray()
                          ? instruction.operand(0)->shape()->dtype()
                          : DType::kF32;
  Target target = FindTarget(name, dtype);
  const auto error = [&](std::string message) {
    return Fail(
        instruction.parent()->module().ErrorAt(&instruction, "E-RUN-006", std::move(message)));
  };
  LinalgOptions options = LinalgOptionsOf(instruction);
  if (target.row->name == "gesvd") {
    if (options.contains("compute_uv") && options["compute_uv"] == 0) {
      target.row = &kGesvdValues;
    } else if (options["transposed"] != 0) {
      target.row = &kGesvdTransposed;
    }
  }
  const Row& row = *target.row;
  for (std::string_view keys = row.options; !keys.empty();) {
    const size_t end = std::min(keys.find(' '), keys.size());
    const std::string_view key = keys.substr(0, end);
    keys.remove_prefix(std::min(end + 1, keys.size()));
    const auto entry = options.find(key);
    if (entry == options.end()) {
      return error(fmt::format("{} needs {} in its backend_config", name, key));
    }
    const std::string_view choices = Choices(key);
    const bool fits_char = entry->second > 0 && entry->second < 128;
    if (!choices.empty() &&
        (!fits_char || choices.find(static_cast<char>(entry->second)) == std::string_view::npos)) {
      return error(
          fmt::format("{} cannot be {} in the backend_config of {}", key, entry->second, name));
    }
  }
  const std::string_view pattern =
      target.IsComplex() && !row.complex_shapes.empty() ? row.complex_shapes : row.shapes;
  constexpr std::string_view kArrow = " -> ";
  const size_t arrow = pattern.find(kArrow);
  std::vector<const Shape*> operand_shapes;
  for (const Instruction* operand : instruction.operands()) {
    operand_shapes.push_back(operand->shape());
  }
  const Shape* result = instruction.shape();
  const std::span<const Shape* const> result_shapes =
      result->IsTuple() ? result->elements() : std::span<const Shape* const>(&result, 1);
  ShapeReader reader(target);
  std::vector<Leaf> operands, results;
  if (!reader.Read(pattern.substr(0, arrow), operand_shapes, operands) ||
      !reader.Read(pattern.substr(arrow + kArrow.size()), result_shapes, results) ||
      !FitTogether(row, reader.dims(), options)) {
    return error(fmt::format("operands and results of {} must be {} (batch dims first), found {}",
                             name, pattern, ToString(result, false)));
  }
  return std::make_unique<LapackKernel>(target, reader.dims(), std::move(options),
                                        std::move(operands), std::move(results),
                                        reader.BatchCount());
}

}  // namespace gshard::cpu
