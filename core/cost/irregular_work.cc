// See irregular_work.h.

#include "core/cost/irregular_work.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <initializer_list>
#include <string_view>
#include <vector>

#include "core/cost/memory/donated_results.h"
#include "ir/computation.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/module.h"

namespace gshard {
namespace {

// Vector operations that a stage takes an operand and element: neighbours are fetched by rotations,
// and one of two is chosen, by the comparison and the direction of the stage. XLA's instructions
// for v5e (libtpu 0.0.52) are 6 bundles of four for a stage of 1,024 pairs of 4,096 x 4,096.
constexpr double kOperationsOfStage = 12;
// A top-k of long rows takes the largest and strikes it out, k times: so many vector operations an
// element (the same compiler's for 50 of 64 x 128,256). Shorter rows are sorted.
constexpr double kOperationsOfLargest = 35, kLeastLengthOfLargest = 1024;
constexpr double kBitsOfPass = 8;
// Cycles of a column, by the same compiler's instructions for v5e: of a Cholesky factorisation
// (blocks of 128 x 128), of a triangular matrix (the same), and of LU with pivots, for the column
// and each of its rows (panels of 512 and 1,024 rows).
constexpr double kCholeskyColumn = 56, kTriangularColumn = 33, kPivotColumn = 50, kPivotRow = 1.1;
// Of a round of rotations of Jacobi's method (32 x 32 and 256 x 256), for the round and each 1,024
// elements of the matrix.
constexpr double kRotations = 150, kRotatedElements = 8.3, kElementsOfRegister = 1024;
// Of the shared memory of a GPU's block, what all kinds of them have.
constexpr double kBlockBytes = 32768;

// Is operand `i` compared: does the comparator read either of its two parameters?
bool IsKey(const Instruction& sort, int64_t i) {
  const Computation& comparator = *sort.called(0);
  for (int64_t side = 0; side < 2; ++side) {
    const Instruction* parameter = comparator.parameter(2 * i + side);
    if (comparator.root() == parameter) return true;
    for (const Instruction* x : comparator.instructions()) {
      if (std::ranges::find(x->operands(), parameter) != x->operands().end()) return true;
    }
  }
  return false;
}

// JAX's approx_max_k is a sort and its first k where a program is not made for TPUs, as XLA expands
// it.
bool IsApproximate(const Instruction& sort) { return OpNameOf(sort).ends_with("approx_top_k"); }

// Are these the positions along the sorted dim?
bool IsPositions(const Instruction* x, int64_t dim) {
  return x->opcode() == Opcode::kIota && x->attributes<IotaAttributes>().dimension == dim;
}

enum class Factorisation { kNone, kCholesky, kTriangular, kLu, kEigen };

Factorisation FactorisationOf(const Instruction& x) {
  if (x.opcode() == Opcode::kCholesky) return Factorisation::kCholesky;
  if (x.opcode() == Opcode::kTriangularSolve) return Factorisation::kTriangular;
  if (x.opcode() != Opcode::kCustomCall) return Factorisation::kNone;
  const std::string_view target = x.attributes<CustomCallAttributes>().target;
  auto is = [target](std::initializer_list<std::string_view> parts) {
    return std::ranges::any_of(parts,
                               [target](auto part) { return target.find(part) != target.npos; });
  };
  if (is({"potrf"}) || target == "Cholesky") return Factorisation::kCholesky;
  if (is({"trsm"})) return Factorisation::kTriangular;
  if (is({"getrf"}) || target == "LuDecomposition") return Factorisation::kLu;
  if (is({"syev", "heev"}) || target == "Eigh") return Factorisation::kEigen;
  return Factorisation::kNone;
}

// Leaves of values, tuples flattened: whose they are, and their sizes.
struct Leaves {
  std::vector<const Instruction*> owners;
  std::vector<int64_t> bytes;

  void Add(const Instruction* value) {
    for (const Shape* leaf : LeafShapes(value->shape())) {
      owners.push_back(value);
      bytes.push_back(leaf->byte_size());
    }
  }
};

Leaves ResultsOf(const Computation& entry) {
  Leaves leaves;
  if (entry.root()->opcode() != Opcode::kTuple) {
    leaves.Add(entry.root());
  } else {
    for (const Instruction* result : entry.root()->operands()) leaves.Add(result);
  }
  return leaves;
}

Leaves ArgumentsOf(const Computation& entry) {
  Leaves leaves;
  for (int64_t i = 0; i < entry.parameter_count(); ++i) leaves.Add(entry.parameter(i));
  return leaves;
}

// Rows and, of the same rank, their largest elements and positions.
bool IsTopKCall(const Instruction& x) {
  if (!IsCustomCallTo(x, kTopKTarget) && !IsCustomCallTo(x, "__gpu$TopK")) return false;
  if (x.operand_count() == 0 || !x.shape()->IsTuple() || x.shape()->elements().empty())
    return false;
  const Shape *keys = x.operand(0)->shape(), *values = x.shape()->element(0);
  return keys->IsArray() && values->IsArray() && keys->rank() > 0 && values->rank() == keys->rank();
}

}  // namespace

bool IsSort(const Instruction& x) {
  return x.opcode() == Opcode::kSort || x.opcode() == Opcode::kTopK || IsTopKCall(x) ||
         IsRadixSortCall(x);
}

SortWork SortWorkOf(const Instruction& sort) {
  const Shape* keys = sort.operand(0)->shape();
  SortWork work{.elements = static_cast<double>(keys->element_count())};
  auto element_bytes = [](const Instruction* x) { return DTypeBits(x->shape()->dtype()) / 8.0; };
  if (IsRadixSortCall(sort)) {
    work.length = static_cast<double>(keys->dim(keys->rank() - 1));
    work.operands = static_cast<double>(sort.operand_count());
    work.key_bytes = element_bytes(sort.operand(0));
    for (const Instruction* operand : sort.operands()) work.element_bytes += element_bytes(operand);
    return work;
  }
  if (sort.opcode() != Opcode::kSort) {
    work.length = static_cast<double>(keys->dim(keys->rank() - 1));
    work.operands = 2;  // values and positions
    work.largest = static_cast<double>(sort.shape()->element(0)->dim(keys->rank() - 1));
    work.key_bytes = element_bytes(sort.operand(0));
    work.element_bytes = work.key_bytes + 4;
    return work;
  }
  const auto& attributes = sort.attributes<SortAttributes>();
  work.length = static_cast<double>(keys->dim(attributes.dimension));
  work.operands = static_cast<double>(sort.operand_count());
  bool has_positions = false;
  for (int64_t i = 0; i < sort.operand_count(); ++i) {
    work.element_bytes += element_bytes(sort.operand(i));
    if (IsKey(sort, i)) work.key_bytes += element_bytes(sort.operand(i));
    has_positions = has_positions || IsPositions(sort.operand(i), attributes.dimension);
  }
  if (attributes.is_stable && !has_positions) work.operands += 1;
  work.is_approximate = IsApproximate(sort);
  return work;
}

double SortOperations(const SortWork& sort) {
  if (sort.length < 2) return 0;
  // One comparison, and one choice for each operand (Chern et al., arXiv 2206.14286).
  if (sort.is_approximate) return sort.elements * (1 + sort.operands);
  const double padded = static_cast<double>(std::bit_ceil(static_cast<uint64_t>(sort.length)));
  const double log = std::log2(padded);
  const double elements = sort.elements * padded / sort.length;
  const double network = elements * log * (log + 1) / 2 * sort.operands * kOperationsOfStage;
  if (sort.largest <= 0 || sort.length < kLeastLengthOfLargest) return network;
  return std::min(network, sort.elements * sort.largest * kOperationsOfLargest);
}

double RadixPasses(const SortWork& sort) {
  if (sort.largest > 0 || sort.is_approximate) return 0;
  if (sort.length * sort.element_bytes <= kBlockBytes) return 0;
  return std::ceil(sort.key_bytes * 8 / kBitsOfPass);
}

double RadixBytes(const SortWork& sort) {
  const double passes = RadixPasses(sort);
  if (passes == 0) return 0;
  return sort.elements * (sort.key_bytes + 2 * (passes - 1) * sort.element_bytes);
}

FftWork FftWorkOf(const Instruction& fft) {
  constexpr int64_t kWidth = 128;
  FftWork work{.elements = static_cast<double>(std::max(fft.shape()->element_count(),
                                                        fft.operand(0)->shape()->element_count())),
               .factors = {}};
  for (int64_t length : fft.attributes<FftAttributes>().length) {
    for (; length > kWidth && length % kWidth == 0; length /= kWidth) {
      work.factors.push_back(static_cast<double>(kWidth));
    }
    if (length > 1) work.factors.push_back(static_cast<double>(length));
  }
  return work;
}

double FactorisationCycles(const Instruction& x) {
  const Factorisation kind = FactorisationOf(x);
  if (kind == Factorisation::kNone || x.operand_count() == 0) return 0;
  const Shape* a = x.operand(0)->shape();
  if (!a->IsArray() || a->rank() < 2 || a->element_count() == 0) return 0;
  const double m = static_cast<double>(a->dim(a->rank() - 2));
  const double n = static_cast<double>(a->dim(a->rank() - 1));
  const double batch = static_cast<double>(a->element_count()) / (m * n);
  const double columns = std::min(m, n);
  switch (kind) {
    case Factorisation::kCholesky:
      return batch * n * kCholeskyColumn;
    case Factorisation::kTriangular:
      return batch * n * kTriangularColumn;
    case Factorisation::kLu:
      return batch * columns * (kPivotColumn + kPivotRow * (m - columns / 2));
    case Factorisation::kEigen:
      // As many sweeps as its logarithm, of n - 1 rounds (Brent and Luk, 1985).
      return batch * std::log2(std::max(2.0, n)) * (n - 1) *
             (kRotations + kRotatedElements * std::ceil(n * n / kElementsOfRegister));
    case Factorisation::kNone:
      break;
  }
  return 0;
}

double KeptArgumentBytes(const Instruction* x) {
  const Module& module = x->parent()->module();
  if (x->opcode() != Opcode::kParameter || x->parent() != module.entry()) return 0;
  const int64_t number = x->attributes<ParameterAttributes>().number;
  auto is_it = [number](const auto& donation) { return donation.parameter == number; };
  const ModuleHeader& header = module.header();
  if (std::ranges::any_of(header.input_output_alias, is_it) ||
      std::ranges::any_of(header.buffer_donor, is_it)) {
    return 0;
  }
  return static_cast<double>(x->shape()->byte_size());
}

double CopiedResultBytes(const Instruction* loop) {
  const Module& module = loop->parent()->module();
  const Computation& entry = *module.entry();
  const ModuleHeader& header = module.header();
  const Instruction* init = loop->operand(0);
  const bool is_donated = !header.input_output_alias.empty() || !header.buffer_donor.empty();
  if (loop->parent() != &entry || init->opcode() != Opcode::kTuple || !is_donated) return 0;
  const Leaves results = ResultsOf(entry), arguments = ArgumentsOf(entry);
  const std::vector<int32_t> argument_of =
      ArgumentsOfResults(module, results.bytes, arguments.bytes);
  double bytes = 0;
  for (size_t i = 0; i < argument_of.size(); ++i) {
    const Instruction* result = results.owners[i];
    if (argument_of[i] < 0 || !result->shape()->IsArray()) continue;
    if (result->opcode() != Opcode::kGetTupleElement || result->operand(0) != loop) continue;
    const Instruction* argument = arguments.owners[static_cast<size_t>(argument_of[i])];
    const int64_t element = result->attributes<GetTupleElementAttributes>().index;
    const bool reads = std::ranges::find(init->operands(), argument) != init->operands().end();
    // What starts as the argument is in its memory.
    if (reads && init->operand(element) != argument) {
      bytes += static_cast<double>(argument->shape()->byte_size());
    }
  }
  return bytes;
}

}  // namespace gshard
