// The table of library calls. See custom_call_work.h.

#include "core/cost/custom_call_work.h"

#include <algorithm>
#include <cmath>
#include <optional>
#include <string>
#include <vector>

#include "core/op_dims/dim_relation.h"
#include "ir/attention_call.h"
#include "ir/call_config.h"
#include "ir/custom_call.h"
#include "ir/dimwise_call.h"
#include "ir/linalg_call.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

bool HasText(std::string_view text, std::string_view part) {
  return text.find(part) != std::string_view::npos;
}

const Shape* FirstArray(const Shape* shape) {
  while (shape->IsTuple() && !shape->elements().empty()) shape = shape->element(0);
  return shape;
}

double Elements(const Shape* shape) { return static_cast<double>(shape->element_count()); }
double Dim(const Shape* shape, int64_t from_end) {
  return shape->rank() < from_end ? 1 : static_cast<double>(shape->dim(shape->rank() - from_end));
}

// A figure of the author's estimate.
std::optional<double> Estimated(const Instruction& call, std::string_view key) {
  const std::optional<double> value = ConfigNumber(call.backend_config(), key);
  return value && *value >= 0 ? value : std::nullopt;
}

// A GEMM: dims by its configuration where it has one. Without, |a| |b| |c| = (b m n k)^2 / batch.
std::optional<MatrixWork> Gemm(const Instruction& call) {
  if (call.operand_count() < 2) return std::nullopt;
  const Shape* a = call.operand(0)->shape();
  const Shape* b = call.operand(1)->shape();
  const Shape* c = FirstArray(call.shape());
  if (!a->IsArray() || !b->IsArray() || !c->IsArray() || Elements(a) * Elements(b) == 0) {
    return std::nullopt;
  }
  MatrixWork work;
  for (int64_t dim : ConfigDims(call.backend_config(), "lhs_batch_dimensions")) {
    if (dim < a->rank()) work.batch *= static_cast<double>(a->dim(dim));
  }
  std::vector<int64_t> contracting =
      ConfigDims(call.backend_config(), "lhs_contracting_dimensions");
  double k = 1;
  for (int64_t dim : contracting) {
    if (dim < a->rank()) k *= static_cast<double>(a->dim(dim));
  }
  if (contracting.empty()) k = std::sqrt(Elements(a) * Elements(b) / Elements(c) / work.batch);
  work.k = std::max(1.0, k);
  work.m = std::max(1.0, Elements(a) / work.k / work.batch);
  work.n = std::max(1.0, Elements(c) / work.m / work.batch);
  work.flops = (IsComplex(c->dtype()) ? 8 : 2) * work.batch * work.m * work.n * work.k;
  work.dtype = DTypeBits(a->dtype()) >= DTypeBits(b->dtype()) ? a->dtype() : b->dtype();
  work.algorithm = {};
  return work;
}

// Attention over q [.., sq, .., d], k, v: two products forward, five backward. Scores have
// |q| |k| / (batch * heads_of_k * d^2) elements a query head; with k's rows read off its shape.
std::optional<MatrixWork> Attention(const Instruction& call, bool backward) {
  if (call.operand_count() < 3) return std::nullopt;
  const Shape* q = call.operand(0)->shape();
  const Shape* k = call.operand(1)->shape();
  if (!q->IsArray() || !k->IsArray() || q->rank() < 3 || k->rank() < 3) return std::nullopt;
  // [batch, seq, heads, d] (cuDNN's BTNH) or [batch, heads, seq, d]: dims but the last that q and
  // k have in common are batch and heads; the longest of the others is the sequence.
  const double d = Dim(q, 1);
  double keys = 0;
  for (int64_t i = 1; i + 1 < k->rank(); ++i) keys = std::max(keys, static_cast<double>(k->dim(i)));
  std::string_view config = call.backend_config();
  if (HasText(config, "\"BNTH\"") && k->rank() == 4) keys = static_cast<double>(k->dim(2));
  if (HasText(config, "\"BTNH\"") && k->rank() == 4) keys = static_cast<double>(k->dim(1));
  MatrixWork work;
  work.n = keys;
  work.k = d;
  work.m = Elements(q) / d;
  work.flops = (backward ? 5 : 2) * 2 * Elements(q) * keys;
  work.dtype = q->dtype();
  return work;
}

// Convolutions of cuDNN: the result's elements times what each is made of.
std::optional<MatrixWork> Convolution(const Instruction& call) {
  const auto& conv = call.attributes<CustomCallAttributes>();
  if (call.operand_count() < 2) return std::nullopt;
  const Shape* input = call.operand(0)->shape();
  const Shape* kernel = call.operand(1)->shape();
  const Shape* output = FirstArray(call.shape());
  const std::string_view target = conv.target;
  // Backward, the roles are taken by others: input and filter gradients do the forward's work.
  if (HasText(target, "BackwardInput")) std::swap(input, output);
  if (HasText(target, "BackwardFilter")) std::swap(kernel, output);
  if (!input->IsArray() || !kernel->IsArray() || !output->IsArray()) return std::nullopt;
  size_t arrow = conv.dim_labels.find("->"), bar = conv.dim_labels.find('_');
  if (arrow == std::string_view::npos || bar == std::string_view::npos) return std::nullopt;
  std::string_view kernel_labels = conv.dim_labels.substr(bar + 1, arrow - bar - 1);
  size_t out_feature = kernel_labels.find('o');
  if (out_feature == std::string_view::npos ||
      static_cast<int64_t>(kernel_labels.size()) != kernel->rank()) {
    return std::nullopt;
  }
  const double features = static_cast<double>(kernel->dim(static_cast<int64_t>(out_feature)));
  MatrixWork work;
  work.n = features;
  work.m = Elements(output) / std::max(1.0, features);
  work.k = Elements(kernel) / std::max(1.0, features);
  work.flops = 2 * work.m * work.n * work.k;
  work.dtype = input->dtype();
  return work;
}

// Floating-point operations of LAPACK's and cuSOLVER's factorisations (Golub and Van Loan's
// counts), for each matrix of the batch.
double Factorisation(const Instruction& call, std::string_view target) {
  if (call.operand_count() == 0) return 0;
  const Shape* a = nullptr;
  for (const Instruction* operand : call.operands()) {
    const Shape* shape = operand->shape();
    if (shape->IsArray() && shape->rank() >= 2 && (a == nullptr || Elements(shape) > Elements(a))) {
      a = shape;
    }
  }
  if (a == nullptr) return 0;
  const double m = Dim(a, 2), n = Dim(a, 1);
  const double least = std::min(m, n), most = std::max(m, n);
  const double batch = Elements(a) / std::max(1.0, m * n);
  double one = 0;
  if (HasText(target, "potrf") || target == "Cholesky") {
    one = n * n * n / 3;
  } else if (HasText(target, "getrf") || target == "LuDecomposition") {
    one = m * n * least - least * least * (m + n) / 2 + 2 * least * least * least / 3;
  } else if (HasText(target, "geqrf") || HasText(target, "geqp3") || target == "Qr") {
    one = 2 * least * least * (most - least / 3);
  } else if (HasText(target, "orgqr") || HasText(target, "ungqr") ||
             target == "ProductOfElementaryHouseholderReflectors") {
    one = 2 * least * least * (most - least / 3);
  } else if (HasText(target, "gesdd") || HasText(target, "gesvd")) {
    one = 4 * most * most * least + 8 * most * least * least + 9 * least * least * least;
  } else if (HasText(target, "syev") || HasText(target, "heev") || target == "Eigh") {
    one = 9 * n * n * n;
  } else if (HasText(target, "geev") || HasText(target, "gees")) {
    one = 25 * n * n * n;
  } else if (HasText(target, "gehrd")) {
    one = 10 * n * n * n / 3;
  } else if (HasText(target, "sytrd") || HasText(target, "hetrd")) {
    one = 4 * n * n * n / 3;
  } else if (HasText(target, "gtsv")) {
    return 8 * Elements(a);
  } else if (HasText(target, "trsm")) {
    return Elements(FirstArray(call.shape())) * n;
  }
  return batch * one * (IsComplex(a->dtype()) ? 4 : 1);
}

bool IsFactorisation(std::string_view target) {
  return target.starts_with("lapack_") || target.starts_with("cusolver") ||
         target.starts_with("hipsolver") || target.starts_with("cublas_trsm") || target == "Qr" ||
         target == "Eigh" || target == "Cholesky" || target == "LuDecomposition" ||
         target == "ProductOfElementaryHouseholderReflectors";
}

bool IsGemm(std::string_view target) {
  return target.starts_with("__cublas$") || target.starts_with("__triton_gemm") ||
         target.starts_with("__onednn$matmul") || HasText(target, "te_gemm") ||
         HasText(target, "te_scaled_matmul") || target == "__cudnn$blockScaledDot";
}

// A product over groups of rows, each by a matrix of its own (megablox): [m, k] x [g, k, n] -> [m,
// n], or [m, k] x [m, n] -> [g, k, n].
std::optional<MatrixWork> GroupedProduct(const Instruction& call) {
  const Shape* result = FirstArray(call.shape());
  const Shape* rows = nullptr;
  const Shape* matrices = result->IsArray() && result->rank() == 3 ? result : nullptr;
  for (const Instruction* operand : call.operands()) {
    const Shape* shape = operand->shape();
    if (!shape->IsArray()) continue;
    if (shape->rank() == 2 && rows == nullptr) rows = shape;
    if (shape->rank() == 3 && matrices == nullptr) matrices = shape;
  }
  if (rows == nullptr || matrices == nullptr) return std::nullopt;
  MatrixWork work;
  work.k = Dim(matrices, 2);
  work.n = Dim(matrices, 1);
  work.m = std::max(1.0, Elements(rows) / std::max(1.0, work.k));
  work.flops = 2 * work.m * work.k * work.n;
  work.dtype = rows->dtype();
  return work;
}

// The sizes of a product, by which of its two operands and its result have each letter of the
// call's sharding rule. Scales, which have letters of these with fewer elements, are further
// operands.
class ProductByRule {
 public:
  explicit ProductByRule(const Instruction& call)
      : call_(call), relation_(RelationOf(call)), places_(relation_.factors.size()) {}

  std::optional<MatrixWork> Find() {
    const Shape* result = FirstArray(call_.shape());
    if (call_.operand_count() < 2 || !relation_.relates || !result->IsArray() ||
        !Has(relation_.operands[0], call_.operand(0)->shape(), 1) ||
        !Has(relation_.operands[1], call_.operand(1)->shape(), 2) ||
        !Has(relation_.results[0], result, 4)) {
      return std::nullopt;
    }
    MatrixWork work;
    bool is_sum = false;
    for (const Place& place : places_) {
      is_sum |= place.tensors == 3;
      if (place.tensors == 3) work.k *= place.size;
      if (place.tensors == 5) work.m *= place.size;
      if (place.tensors == 6) work.n *= place.size;
      if (place.tensors == 7) work.batch *= place.size;
      if (place.tensors == 1 || place.tensors == 2 || place.tensors == 4) return std::nullopt;
    }
    if (!is_sum) return std::nullopt;
    work.flops = (IsComplex(result->dtype()) ? 8 : 2) * work.batch * work.m * work.n * work.k;
    const DType a = call_.operand(0)->shape()->dtype(), b = call_.operand(1)->shape()->dtype();
    work.dtype = DTypeBits(a) >= DTypeBits(b) ? a : b;
    return work;
  }

 private:
  struct Place {
    int tensors = 0;  // 1: the first operand, 2: the second, 4: the result
    double size = 1;
  };

  bool Has(const std::vector<FactorList>& dims, const Shape* shape, int tensor) {
    if (!shape->IsArray() || static_cast<int64_t>(dims.size()) != shape->rank()) return false;
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].size() != 1) return false;
      Place& place = places_[static_cast<size_t>(dims[d].front())];
      place.tensors |= tensor;
      place.size = std::max(place.size, static_cast<double>(shape->dim(static_cast<int64_t>(d))));
    }
    return true;
  }

  const Instruction& call_;
  DimRelation relation_;
  std::vector<Place> places_;
};

// What a Pallas kernel is called: by the name in its configuration, or by those of its caller.
enum class KernelKind : uint8_t { kUnknown, kAttention, kGroupedProduct };
KernelKind KindByName(const Instruction& call) {
  const std::string name =
      OpNameOf(call) + " " +
      std::string(ConfigValue(call.backend_config(), "kernel_name").substr(0, 80));
  for (std::string_view attention : {"attention", "flash", "splash", "mha"}) {
    if (HasText(name, attention)) return KernelKind::kAttention;
  }
  for (std::string_view product : {"megablox", "gmm", "grouped_matmul"}) {
    if (HasText(name, product)) return KernelKind::kGroupedProduct;
  }
  return KernelKind::kUnknown;
}

// Arithmetic of more operations than this an element that crosses the kernel's border is products:
// elementwise work does not do as much with what it reads.
constexpr double kMaxElementwiseFlops = 64;

struct Known {
  std::optional<MatrixWork> product;
  double flops = 0, transcendentals = 0;
  std::optional<double> bytes;
  bool is_attention = false;
};

// By the author's cost_estimate. What exponentials outnumber the elements that a kernel of products
// reads and writes, it keeps to itself: scores.
void RecogniseEstimated(const Instruction& call, double flops, Known& known) {
  known.flops = flops;
  known.transcendentals = Estimated(call, "transcendentals").value_or(0);
  known.bytes = Estimated(call, "bytes_accessed");
  double elements = Elements(FirstArray(call.shape()));
  for (const Instruction* operand : call.operands()) {
    if (operand->shape()->IsArray()) elements += Elements(operand->shape());
  }
  const KernelKind kind = KindByName(call);
  const bool has_products = flops > kMaxElementwiseFlops * elements;
  known.is_attention =
      kind == KernelKind::kAttention || (has_products && known.transcendentals > elements);
  if (!has_products && kind == KernelKind::kUnknown) return;
  MatrixWork work;
  work.flops = flops;
  work.dtype = call.operand_count() > 0 ? FirstArray(call.operand(0)->shape())->dtype()
                                        : FirstArray(call.shape())->dtype();
  work.m = 0;  // its shape is not known: no padding
  known.product = work;
}

// A mean, a variance, scale and bias, an element; the gradients do about as much.
constexpr double kNormFlops = 8;

Known Recognise(const Instruction& call) {
  const std::string_view target = call.attributes<CustomCallAttributes>().target;
  Known known;
  if (IsGemm(target)) {
    known.product = Gemm(call);
  } else if (HasText(target, "fmha") || HasText(target, "fused_attn") ||
             HasText(target, "flash_attn") || HasText(target, "flash_attention") ||
             HasText(target, "mha_")) {
    const bool backward = HasText(target, "ackward") || HasText(target, "_bwd");
    known.product = Attention(call, backward);
    known.is_attention = known.product.has_value();
  } else if (target.starts_with("__cudnn$conv")) {
    known.product = Convolution(call);
  } else if (target == "__cudnn$norm" && call.operand_count() > 0) {
    known.flops = kNormFlops * Elements(FirstArray(call.operand(0)->shape()));
  } else if (IsFactorisation(target)) {
    known.flops = Factorisation(call, target);
  } else if (target == kPythonPartitionedTarget) {
    known.product = ProductByRule(call).Find();
    const std::optional<AttentionCall> attention = AttentionByDims(call);
    if (!known.product && attention) {
      known.product = Attention(call, attention->is_backward);
      known.is_attention = known.product.has_value();
    }
  } else if (std::optional<double> flops = Estimated(call, "flops")) {
    RecogniseEstimated(call, *flops, known);
  } else if (target == "tpu_custom_call" || HasText(target, "triton")) {
    const KernelKind kind = KindByName(call);
    const std::string name = OpNameOf(call);
    if (kind == KernelKind::kGroupedProduct) {
      known.product = GroupedProduct(call);
    } else if (kind == KernelKind::kAttention) {
      known.is_attention = true;
      // Paged caches hold keys that few queries read: their bytes are what counts.
      if (!HasText(name, "paged")) {
        known.product = Attention(call, HasText(name, "bwd") || HasText(name, "transpose("));
      }
    }
  }
  if (known.product) known.flops = known.product->flops;
  return known;
}

}  // namespace

void AddCustomCall(const Instruction& call, KernelWork& work) {
  Known known = Recognise(call);
  work.main = &call;
  work.flops = known.flops;
  work.transcendentals += known.transcendentals;
  if (known.bytes) work.bytes = *known.bytes;
  if (known.product) {
    work.matrix.push_back(*known.product);
  }
  work.work_class = known.is_attention                      ? WorkClass::kAttention
                    : !work.matrix.empty()                  ? WorkClass::kDot
                    : work.flops == 0 && work.sorts.empty() ? WorkClass::kMovement
                                                            : WorkClass::kOther;
}

double CustomCallFlops(const Instruction& call) { return Recognise(call).flops; }

bool HasUnknownWork(const Instruction& call) {
  if (IsIdentityCall(call) || IsCustomCallTo(call, kAllocateBufferTarget) ||
      IsCustomCallTo(call, kConcatBitcastTarget) ||
      IsCustomCallTo(call, kAsyncCollectiveStartTarget) ||
      IsCustomCallTo(call, kAsyncCollectiveDoneTarget) || IsDimwiseCall(call) || IsSort(call)) {
    return false;
  }
  // A few integers.
  const std::string_view target = call.attributes<CustomCallAttributes>().target;
  if (LinalgRoutine(target) == "lu_pivots_to_permutation") return false;
  const Known known = Recognise(call);
  return known.flops == 0 && !known.bytes && !known.is_attention;
}

}  // namespace gshard
