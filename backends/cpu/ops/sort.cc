// sort and topk. A comparator that compares one key of each side is sorted by the bits of the keys;
// any other comparator drives a merge sort of indices. Both are stable.
#include <algorithm>
#include <optional>
#include <vector>

#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/elementwise/elementwise_program.h"
#include "backends/cpu/elementwise/scalar_program.h"
#include "backends/cpu/ops/factories.h"
#include "backends/cpu/ops/sort_keys.h"
#include "ir/comparison.h"
#include "ir/equality.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// Where the slices along one dim of dense arrays lie.
struct Slices {
  Slices(const Shape* shape, int64_t dim) : length(shape->dim(dim)) {
    const auto dims = shape->dims();
    inner = Product(dims.subspan(static_cast<size_t>(dim) + 1));
    outer = Product(dims.first(static_cast<size_t>(dim)));
  }
  int64_t count() const { return outer * inner; }
  int64_t Start(int64_t slice) const { return slice / inner * length * inner + slice % inner; }

  int64_t length, inner, outer;  // elements of a slice are `inner` apart
};

// Elements of a slice to and from dense memory.
void ReadSlice(const std::byte* array, int64_t start, int64_t stride, int64_t n, int64_t bytes,
               std::byte* dense) {
  GatherStrided(dense, array + start * bytes, stride, bytes, n);
}

// result[i] = dense[order[i].index] for all elements of a slice.
template <typename T>
void Permute(const std::byte* dense, const KeyedIndex* order, int64_t n, int64_t stride,
             std::byte* result) {
  const T* in = reinterpret_cast<const T*>(dense);
  T* out = reinterpret_cast<T*>(result);
  for (int64_t i = 0; i < n; ++i) out[i * stride] = in[order[i].index];
}

struct Wide {
  uint64_t low, high;
};

void PermuteSlice(const std::byte* dense, const KeyedIndex* order, int64_t n, int64_t stride,
                  int64_t bytes, std::byte* result) {
  switch (bytes) {
    case 1:
      return Permute<uint8_t>(dense, order, n, stride, result);
    case 2:
      return Permute<uint16_t>(dense, order, n, stride, result);
    case 4:
      return Permute<uint32_t>(dense, order, n, stride, result);
    case 8:
      return Permute<uint64_t>(dense, order, n, stride, result);
    default:
      return Permute<Wide>(dense, order, n, stride, result);
  }
}

// --- comparators by key

// A comparator of the form f(x) < f(y), x and y the two sides of one operand.
struct KeyComparator {
  int64_t operand = 0;
  bool descending = false;
  bool zeros_equal = false;          // FLOAT comparison: -0 and +0 tie
  const Instruction* key = nullptr;  // f(x), x the left parameter
};

// Decides whether two expressions are the same function of the two sides of an operand. Bodies are
// small; the number of steps is limited so that no odd graph can make this slow.
class FunctionMatcher {
 public:
  // `a` computes of parameter `left` what `b` computes of parameter left + 1.
  bool Same(const Instruction* a, const Instruction* b, int64_t left) {
    if (--budget_ < 0) return false;
    if (a->opcode() != b->opcode() || !Compatible(a->shape(), b->shape())) return false;
    if (a->opcode() == Opcode::kParameter) {
      return a->attributes<ParameterAttributes>().number == left &&
             b->attributes<ParameterAttributes>().number == left + 1;
    }
    if (a->opcode() == Opcode::kConstant) return SameConstant(*a, *b);
    if (!IsElementwise(a->opcode()) || a->opcode() == Opcode::kReducePrecision ||
        a->operand_count() != b->operand_count()) {
      return false;
    }
    if (a->opcode() == Opcode::kCompare) {
      const CompareAttributes& x = a->attributes<CompareAttributes>();
      const CompareAttributes& y = b->attributes<CompareAttributes>();
      if (x.direction != y.direction || x.type != y.type) return false;
    }
    for (int64_t i = 0; i < a->operand_count(); ++i) {
      if (!Same(a->operand(i), b->operand(i), left)) return false;
    }
    return true;
  }

  const Instruction* AnyParameter(const Instruction* x) {
    if (--budget_ < 0 || x->opcode() == Opcode::kParameter) return x;
    for (const Instruction* operand : x->operands()) {
      if (const Instruction* found = AnyParameter(operand)) return found;
    }
    return nullptr;
  }

 private:
  int budget_ = 1000;
};

std::optional<KeyComparator> FindKey(const Computation& comparator) {
  const Instruction* root = comparator.root();
  if (root->opcode() != Opcode::kCompare) return std::nullopt;
  const CompareAttributes& compare = root->attributes<CompareAttributes>();
  const Instruction* a = root->operand(0);
  const Instruction* b = root->operand(1);
  FunctionMatcher matcher;
  const Instruction* parameter = matcher.AnyParameter(a);
  if (parameter == nullptr || parameter->opcode() != Opcode::kParameter ||
      IsComplex(a->shape()->dtype()))
    return std::nullopt;
  const int64_t number = parameter->attributes<ParameterAttributes>().number;
  KeyComparator key;
  key.operand = number / 2;
  ComparisonDirection direction = compare.direction;
  if (number % 2 != 0) {  // f(y) < f(x)
    std::swap(a, b);
    direction = Mirrored(direction);
  }
  if (!matcher.Same(a, b, key.operand * 2)) return std::nullopt;
  // "Not after" would make ties come in reverse; a merge sort does what it says.
  if (direction != ComparisonDirection::kLt && direction != ComparisonDirection::kGt) {
    return std::nullopt;
  }
  key.descending = direction == ComparisonDirection::kGt;
  key.zeros_equal = IsFloat(a->shape()->dtype()) && compare.type != ComparisonType::kTotalOrder;
  key.key = a;
  return key;
}

// Program of f: one array input, one output in its compute type.
Expected<ElementwiseProgram> KeyProgram(const Computation& comparator, const KeyComparator& key) {
  ElementwiseProgram program;
  std::vector<ElementwiseProgram::Value> arguments;
  const DType input = comparator.parameter(key.operand * 2)->shape()->dtype();
  const ElementwiseProgram::Value x = program.AddArrayInput(input);
  for (const Instruction* parameter : comparator.parameters()) {
    const int64_t number = parameter->attributes<ParameterAttributes>().number;
    arguments.push_back(number == key.operand * 2 ? x
                                                  : program.AddZero(parameter->shape()->dtype()));
  }
  auto value = GSHARD_TRY(program.AddPartOfCall(comparator, *key.key, arguments));
  program.AddOutput(program.AddConvert(value, ComputeType(program.TypeOf(value))));
  program.Build();
  return program;
}

class SortKernel : public Kernel {
 public:
  SortKernel(const Instruction& instruction, std::optional<KeyComparator> key,
             ElementwiseProgram key_program, std::unique_ptr<ScalarProgram> comparator)
      : slices_(instruction.operand(0)->shape(),
                instruction.attributes<SortAttributes>().dimension),
        key_(key),
        key_program_(std::move(key_program)),
        comparator_(std::move(comparator)) {
    for (const Instruction* operand : instruction.operands()) {
      bytes_.push_back(StorageBytes(operand->shape()->dtype()));
    }
    if (key_) key_type_ = ComputeType(key_->key->shape()->dtype());
  }

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    Sort(0, slices_.count(), operands, results, scratch);
  }
  int64_t RangeGranule() const override { return slices_.inner == 1 ? slices_.length : 0; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    if (slices_.length == 0 || slices_.inner != 1) {
      Run(operands, results, scratch);
      return;
    }
    std::byte** targets =
        reinterpret_cast<std::byte**>(scratch.Allocate(bytes_.size() * sizeof(std::byte*)));
    for (size_t k = 0; k < bytes_.size(); ++k) targets[k] = results[k] - first * bytes_[k];
    Sort(first / slices_.length, count / slices_.length, operands, {targets, bytes_.size()},
         scratch);
  }

 private:
  void Sort(int64_t begin, int64_t count, ConstBuffers operands, Buffers results,
            Scratch& scratch) const {
    const int64_t n = slices_.length;
    if (n == 0 || count == 0) return;
    const auto allocate = [&](int64_t bytes) {
      return scratch.Allocate(static_cast<size_t>(bytes));
    };
    constexpr int64_t kItem = sizeof(KeyedIndex);
    KeyedIndex* items = reinterpret_cast<KeyedIndex*>(allocate(n * kItem));
    KeyedIndex* room = reinterpret_cast<KeyedIndex*>(allocate(n * kItem));
    uint64_t* keys = reinterpret_cast<uint64_t*>(allocate(n * 8));
    std::byte* computed = allocate(n * 8);
    std::byte** dense =
        reinterpret_cast<std::byte**>(allocate(static_cast<int64_t>(bytes_.size() * 8)));
    for (size_t k = 0; k < bytes_.size(); ++k) dense[k] = allocate(n * bytes_[k]);
    for (int64_t s = begin; s < begin + count; ++s) {
      const int64_t start = slices_.Start(s);
      for (size_t k = 0; k < bytes_.size(); ++k) {
        ReadSlice(operands[k], start, slices_.inner, n, bytes_[k], dense[k]);
      }
      if (key_) {
        const std::byte* input = dense[static_cast<size_t>(key_->operand)];
        key_program_.Run(0, n, {&input, 1}, {&computed, 1}, scratch);
        SortKeys(key_type_, key_->descending, key_->zeros_equal, computed, n, keys);
        for (int64_t i = 0; i < n; ++i) items[i] = {keys[i], i};
        SortByKey(items, n, room);
      } else {
        for (int64_t i = 0; i < n; ++i) items[i].index = i;
        MergeSort(items, room, n, dense, scratch);
      }
      for (size_t k = 0; k < bytes_.size(); ++k) {
        PermuteSlice(dense[k], items, n, slices_.inner, bytes_[k], results[k] + start * bytes_[k]);
      }
    }
  }

  // Bottom-up, from insertion-sorted runs.
  void MergeSort(KeyedIndex* items, KeyedIndex* room, int64_t n, std::byte* const* dense,
                 Scratch& scratch) const {
    const std::byte** arguments = reinterpret_cast<const std::byte**>(
        scratch.Allocate(2 * bytes_.size() * sizeof(std::byte*)));
    uint8_t verdict = 0;
    std::byte* verdict_bytes = reinterpret_cast<std::byte*>(&verdict);
    const auto before = [&](const KeyedIndex& a, const KeyedIndex& b) {
      for (size_t k = 0; k < bytes_.size(); ++k) {
        arguments[2 * k] = dense[k] + a.index * bytes_[k];
        arguments[2 * k + 1] = dense[k] + b.index * bytes_[k];
      }
      comparator_->Run(1, {arguments, 2 * bytes_.size()}, {&verdict_bytes, 1}, scratch);
      return verdict != 0;
    };
    constexpr int64_t kRun = 8;
    for (int64_t begin = 0; begin < n; begin += kRun) {
      const int64_t end = std::min(begin + kRun, n);
      for (int64_t i = begin + 1; i < end; ++i) {
        const KeyedIndex item = items[i];
        int64_t k = i;
        for (; k > begin && before(item, items[k - 1]); --k) items[k] = items[k - 1];
        items[k] = item;
      }
    }
    KeyedIndex* from = items;
    KeyedIndex* to = room;
    for (int64_t width = kRun; width < n; width *= 2) {
      for (int64_t begin = 0; begin < n; begin += 2 * width) {
        const int64_t middle = std::min(begin + width, n), end = std::min(begin + 2 * width, n);
        int64_t a = begin, b = middle;
        for (int64_t i = begin; i < end; ++i) {
          const bool take_b = a == middle || (b < end && before(from[b], from[a]));
          to[i] = take_b ? from[b++] : from[a++];
        }
      }
      std::swap(from, to);
    }
    if (from != items) std::copy_n(from, n, items);
  }

  Slices slices_;
  std::optional<KeyComparator> key_;
  ElementwiseProgram key_program_;
  DType key_type_ = DType::kF32;
  std::unique_ptr<ScalarProgram> comparator_;
  std::vector<int64_t> bytes_;
};

// --- topk

class TopKKernel : public Kernel {
 public:
  TopKKernel(const Shape* operand, int64_t k, bool largest)
      : length_(operand->dims().back()),
        rows_(length_ == 0 ? 0 : operand->element_count() / length_),
        k_(k),
        largest_(largest),
        bytes_(StorageBytes(operand->dtype())),
        type_(ComputeType(operand->dtype())),
        load_(IsSmallFloat(operand->dtype()) ? LoadFunction(operand->dtype()) : nullptr) {}

  void Run(ConstBuffers operands, Buffers results, Scratch& scratch) const override {
    RunRange(0, rows_ * k_, operands, results, scratch);
  }
  int64_t RangeGranule() const override { return k_; }
  void RunRange(int64_t first, int64_t count, ConstBuffers operands, Buffers results,
                Scratch& scratch) const override {
    if (count == 0 || k_ == 0) return;
    const size_t n = static_cast<size_t>(length_);
    KeyedIndex* items = reinterpret_cast<KeyedIndex*>(scratch.Allocate(n * sizeof(KeyedIndex)));
    uint64_t* keys = reinterpret_cast<uint64_t*>(scratch.Allocate(n * sizeof(uint64_t)));
    std::byte* computed = scratch.Allocate(n * sizeof(float));
    for (int64_t row = 0; row < count / k_; ++row) {
      const std::byte* in = operands[0] + (first / k_ + row) * length_ * bytes_;
      const std::byte* values = in;
      if (load_ != nullptr) {
        load_(Tile{{in, nullptr, nullptr}, computed, length_, 0});
        values = computed;
      }
      SortKeys(type_, largest_, false, values, length_, keys);
      for (int64_t i = 0; i < length_; ++i) items[i] = {keys[i], i};
      if (k_ < length_) std::nth_element(items, items + k_, items + length_, Before);
      std::sort(items, items + k_, Before);
      PermuteSlice(in, items, k_, 1, bytes_, results[0] + row * k_ * bytes_);
      int32_t* indices = reinterpret_cast<int32_t*>(results[1]) + row * k_;
      for (int64_t i = 0; i < k_; ++i) indices[i] = static_cast<int32_t>(items[i].index);
    }
  }

 private:
  int64_t length_, rows_, k_;
  bool largest_;
  int64_t bytes_;
  DType type_;
  TileFunction load_;
};

KernelOrError MakeComparatorSort(const Instruction& instruction) {
  const Computation& comparator = *instruction.called(0);
  if (const auto key = FindKey(comparator)) {
    auto program = GSHARD_TRY(KeyProgram(comparator, *key));
    return std::make_unique<SortKernel>(instruction, key, std::move(program), nullptr);
  }
  auto program = GSHARD_TRY(ScalarProgram::Compile(comparator));
  return std::make_unique<SortKernel>(instruction, std::nullopt, ElementwiseProgram(),
                                      std::move(program));
}

}  // namespace

std::unique_ptr<Kernel> MakeTopKKernel(const Shape* operand, int64_t k, bool largest) {
  return std::make_unique<TopKKernel>(operand, k, largest);
}

KernelOrError MakeSort(const Instruction& instruction) {
  if (instruction.opcode() == Opcode::kSort) return MakeComparatorSort(instruction);
  const TopKAttributes& topk = instruction.attributes<TopKAttributes>();
  return MakeTopKKernel(instruction.operand(0)->shape(), topk.k, topk.largest);
}

}  // namespace gshard::cpu
