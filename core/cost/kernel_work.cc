// Sums a kernel's members and what crosses its border. See kernel_work.h.

#include "core/cost/kernel_work.h"

#include <algorithm>
#include <ranges>
#include <string_view>
#include <type_traits>
#include <vector>

#include "core/analysis/indexed_dims.h"
#include "core/analysis/kernels/aliases.h"
#include "core/cost/custom_call_work.h"
#include "core/cost/memory/buffer_size.h"
#include "core/cost/memory/values_in_order.h"
#include "core/cost/op_cost.h"
#include "ir/computation.h"
#include "ir/custom_call.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

double BytesOf(const Shape* shape) { return static_cast<double>(shape->byte_size()); }

// Attributes of the family that IsProduct (ir/op_traits.h) means.
#define GSHARD_OPCODE(enumerator, text, arity, family, Attributes, ...)                          \
  static_assert(std::string_view(#family) != "dot" || std::is_same_v<Attributes, DotAttributes>, \
                "DotCost and MatrixOf read DotAttributes: " text " needs cases of its own there");
#include "ir/opcodes.def"
#undef GSHARD_OPCODE

const Instruction* SkipAliases(const Instruction* x, bool is_compiled) {
  while (IsAlias(x, is_compiled)) x = x->operand(0);
  return x;
}

// Type of a dot's operand where it comes from: narrower before a convert, which the unit or the
// compiler takes over.
DType SourceType(const Instruction* x) {
  x = SkipAliases(x, true);
  for (int depth = 0; depth < 8; ++depth) {
    if (x->opcode() == Opcode::kFusion && x->shape()->IsArray()) {
      x = SkipAliases(x->called(0)->root(), true);
      continue;
    }
    bool moves = x->opcode() == Opcode::kTranspose || x->opcode() == Opcode::kCopy ||
                 x->opcode() == Opcode::kBroadcast || x->opcode() == Opcode::kDynamicSlice;
    if (!moves) break;
    x = SkipAliases(x->operand(0), true);
  }
  if (x->opcode() == Opcode::kConvert) {
    const DType from = x->operand(0)->shape()->dtype(), to = x->shape()->dtype();
    const bool is_exact = IsFloat(from) || (IsInteger(from) && IsInteger(to));
    if (is_exact && DTypeBits(from) < DTypeBits(to)) return from;
  }
  return x->shape()->dtype();
}

DType Wider(DType a, DType b) { return DTypeBits(a) >= DTypeBits(b) ? a : b; }

// Which share of its operand `operand` an instruction needs.
double ShareOf(const Instruction* user, int64_t operand) {
  const Shape* from = user->operand(operand)->shape();
  const double whole = static_cast<double>(std::max<int64_t>(1, from->element_count()));
  switch (user->opcode()) {
    case Opcode::kSlice:
    case Opcode::kDynamicSlice:
    case Opcode::kGather:
      return operand != 0
                 ? 1
                 : std::min(1.0, static_cast<double>(user->shape()->element_count()) / whole);
    case Opcode::kDynamicUpdateSlice:
      return operand == 0 ? 0 : 1;  // updated in place
    case Opcode::kScatter: {
      const int64_t inputs = (user->operand_count() - 1) / 2;
      if (operand >= inputs) return 1;
      return std::min(
          1.0, static_cast<double>(user->operand(inputs + 1)->shape()->element_count()) / whole);
    }
    default:  // reads it whole
      return 1;
  }
}

// Bytes that an instruction's value takes to write.
double WrittenBytes(const Instruction* x) {
  while (x->opcode() == Opcode::kFusion && x->shape()->IsArray()) {
    x = SkipAliases(x->called(0)->root(), true);
  }
  if (x->opcode() == Opcode::kDynamicUpdateSlice) return BytesOf(x->operand(1)->shape());
  if (x->opcode() == Opcode::kScatter) {
    const int64_t inputs = (x->operand_count() - 1) / 2;
    double bytes = 0;
    for (int64_t i = 0; i < inputs; ++i) bytes += BytesOf(x->operand(inputs + 1 + i)->shape());
    return bytes;
  }
  const Shape* workspace = WorkspaceOf(*x);
  return BytesOf(x->shape()) - (workspace == nullptr ? 0 : BytesOf(workspace));
}

std::vector<double> ParameterShares(const Computation& body);

// Reads of one kernel. Members are visited consumers first; each says what it needs of its
// operands.
class Reads {
 public:
  explicit Reads(bool is_compiled) : is_compiled_(is_compiled) {}
  void Need(const Instruction* x, double share) {
    double& sum = shares_[x];
    sum = std::min(1.0, sum + share);
  }
  double ShareOfValue(const Instruction* x) const {
    const double* share = shares_.Find(x);
    return share == nullptr ? 0 : *share;
  }
  void NeedOperands(const Instruction* x, double share) {
    std::vector<double> of_fusion;
    if (x->opcode() == Opcode::kFusion) of_fusion = ParameterShares(*x->called(0));
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      const Instruction* operand = SkipAliases(x->operand(i), is_compiled_);
      const double part = of_fusion.empty() ? ShareOf(x, i) : of_fusion[static_cast<size_t>(i)];
      if (operand->shape()->IsArray()) Need(operand, share * part);
    }
  }
  const std::vector<ValuesInOrder<double>::Entry>& shares() const { return shares_.entries(); }

 private:
  bool is_compiled_;
  ValuesInOrder<double> shares_;
};

std::vector<const Instruction*> OutputsOf(const Computation& body) {
  const Instruction* root = body.root();
  if (root->opcode() != Opcode::kTuple) return {root};
  return {root->operands().begin(), root->operands().end()};
}

// What the computation of a fusion reads of its values.
Reads ReadsOf(const Computation& body) {
  Reads reads(/*is_compiled=*/true);
  for (const Instruction* output : OutputsOf(body)) reads.Need(SkipAliases(output, true), 1);
  for (const Instruction* x : std::views::reverse(body.instructions())) {
    if (x->opcode() == Opcode::kTuple || x->opcode() == Opcode::kReshape ||
        x->opcode() == Opcode::kBitcast) {
      continue;
    }
    reads.NeedOperands(x, reads.ShareOfValue(x));
  }
  return reads;
}

// By number: which share of each parameter it reads.
std::vector<double> ParameterShares(const Computation& body) {
  const Reads reads = ReadsOf(body);
  std::vector<double> shares;
  for (const Instruction* parameter : body.parameters()) {
    shares.push_back(reads.ShareOfValue(parameter));
  }
  return shares;
}

void AddArithmetic(const Instruction* x, KernelWork& work) {
  OpCost cost = CostOf(*x);
  work.flops += cost.flops;
  work.transcendentals += cost.transcendentals;
  if (x->opcode() == Opcode::kSine || x->opcode() == Opcode::kCosine || x->opcode() == Opcode::kTan)
    work.periodic_functions += cost.transcendentals;
  work.other_ops += cost.other_ops;
  if (IsProduct(x->opcode())) work.matrix.push_back(MatrixOf(*x));
  if (IsSort(*x)) work.sorts.push_back(SortWorkOf(*x));
  if (x->opcode() == Opcode::kFft) work.transforms.push_back(FftWorkOf(*x));
  work.sequential_cycles += FactorisationCycles(*x);
  work.indexed_slices += IndexedSlices(*x);
}

// Bytes that copies of arguments take which the kernel updates and the caller keeps.
double CopiedBytes(const FusionKernel& kernel, bool is_compiled) {
  double bytes = 0;
  for (const Instruction* x : kernel.members) {
    const bool is_scatter = x->opcode() == Opcode::kScatter;
    if (!is_scatter && x->opcode() != Opcode::kDynamicUpdateSlice) continue;
    const int64_t updated = is_scatter ? (x->operand_count() - 1) / 2 : 1;
    for (int64_t i = 0; i < updated; ++i) {
      bytes += 2 * KeptArgumentBytes(SkipAliases(x->operand(i), is_compiled));
    }
  }
  return bytes;
}

// What best stands for the kernel: a product, else a reduction or update, else the root.
void ChooseMain(const Instruction* x, KernelWork& work) {
  auto rank = [](const Instruction* y) {
    if (IsProduct(y->opcode())) return 3;
    return y->opcode() == Opcode::kReduce || y->opcode() == Opcode::kScatter ? 2 : 0;
  };
  if (work.main == nullptr || rank(x) > rank(work.main)) work.main = x;
}

void Classify(KernelWork& work) {
  if (!work.matrix.empty()) {
    work.work_class = WorkClass::kDot;
  } else if (work.flops == 0 && work.transcendentals == 0) {
    work.work_class = WorkClass::kMovement;
  }
}

}  // namespace

MatrixWork MatrixOf(const Instruction& dot) {
  MatrixWork work;
  work.flops = CostOf(dot).flops;
  work.dtype = Wider(SourceType(dot.operand(0)), SourceType(dot.operand(1)));
  const DType as_written =
      Wider(dot.operand(0)->shape()->dtype(), dot.operand(1)->shape()->dtype());
  if (IsInteger(work.dtype) && as_written != work.dtype) work.widened_to = as_written;
  std::span<const Precision> precision;
  const double per_term = IsComplex(dot.shape()->dtype()) ? 8 : 2;
  auto size = [](const Shape* shape, int64_t dim) { return static_cast<double>(shape->dim(dim)); };
  const Shape* lhs = dot.operand(0)->shape();
  if (dot.opcode() == Opcode::kConvolution) {
    const auto& conv = dot.attributes<ConvolutionAttributes>();
    precision = conv.precision;
    const double groups =
        static_cast<double>(std::max(conv.feature_group_count, conv.batch_group_count));
    work.batch = groups;
    for (const WindowDim& dim : conv.window) work.window *= static_cast<double>(dim.size);
    if (!conv.window.empty()) work.window_row = static_cast<double>(conv.window.back().size);
    double positions = 1;  // of the result
    for (int64_t dim : conv.output_spatial) positions *= size(dot.shape(), dim);
    // A kernel's gradient has a window as large as an image and a result of few positions: what it
    // contracts is the window's positions, and what counts as features is the batch.
    if (work.window <= positions) work.input_features = size(lhs, conv.input_feature);
    work.input_bytes = BytesOf(lhs);
    work.output_bytes = BytesOf(dot.shape());
    work.n = size(dot.shape(), conv.output_feature) / groups;
    work.m = static_cast<double>(dot.shape()->element_count()) /
             std::max(1.0, size(dot.shape(), conv.output_feature));
  } else {
    const auto& dims = dot.attributes<DotAttributes>();
    precision = dims.precision;
    work.algorithm = dims.algorithm;
    for (int64_t dim : dims.lhs_batch) work.batch *= size(lhs, dim);
    double contracted = 1;
    for (int64_t dim : dims.lhs_contracting) contracted *= size(lhs, dim);
    work.m = static_cast<double>(lhs->element_count()) / std::max(1.0, work.batch * contracted);
    work.n = static_cast<double>(dot.shape()->element_count()) / std::max(1.0, work.batch * work.m);
  }
  for (Precision p : precision) {
    if (p == Precision::kHigh || p == Precision::kHighest)
      work.precision = std::max(work.precision, p);
  }
  work.k = work.flops / std::max(1.0, per_term * work.batch * work.m * work.n);
  return work;
}

KernelWork WorkOf(const FusionModel& model, const FusionKernel& kernel) {
  const Instruction* root = kernel.root;
  if (root->opcode() == Opcode::kFusion) return WorkOfFusion(*root);
  KernelWork work;
  if (kernel.is_free) {
    work.main = root;
    return work;
  }
  const AttentionKernel* attention =
      kernel.attention < 0 ? nullptr : &model.attention()[static_cast<size_t>(kernel.attention)];
  auto is_residual = [&](const Instruction* x) {
    return attention != nullptr && model.IsSpared(x) &&
           std::find(attention->residuals.begin(), attention->residuals.end(), x) !=
               attention->residuals.end();
  };
  Reads reads(model.is_compiled());
  work.is_scalar = root->shape()->IsArray() && root->shape()->element_count() <= 1;
  for (size_t i = kernel.members.size(); i-- > 0;) {
    const Instruction* x = kernel.members[i];
    const bool is_drawn_elsewhere =  // random bits for attention kernels alone
        x->opcode() == Opcode::kRngBitGenerator && x->shape()->IsTuple() && model.IsSpared(x, 1);
    if (!is_residual(x) && !is_drawn_elsewhere) {
      if (model.ComparesPositions(x)) {
        work.other_ops += 2 * static_cast<double>(x->shape()->element_count());
      } else {
        AddArithmetic(x, work);
      }
      if (!model.IsFused(x)) {
        reads.Need(x, 1);
        const bool is_spared = x->shape()->IsArray() && model.IsSpared(x);
        if (!is_spared && !IsInFastMemory(x->shape())) work.bytes += WrittenBytes(x);
      }
      reads.NeedOperands(x, attention != nullptr ? 1 : reads.ShareOfValue(x));
      for (const Instruction* operand : x->operands()) {
        work.is_scalar =
            work.is_scalar && operand->shape()->IsArray() && operand->shape()->element_count() <= 1;
      }
    }
    ChooseMain(x, work);
  }
  for (size_t i = kernel.copies.size(); i-- > 0;) {
    reads.NeedOperands(kernel.copies[i], reads.ShareOfValue(kernel.copies[i]));
  }
  for (const auto& [value, share] : reads.shares()) {
    bool inside = model.KernelOf(value) == &kernel || model.IsFused(value);
    if (!inside && !model.IsSpared(value) && !IsInFastMemory(value->shape()))
      work.bytes += share * static_cast<double>(value->shape()->byte_size());
  }
  if (root->opcode() == Opcode::kCustomCall) {
    AddCustomCall(*root, work);
    return work;
  }
  OpCost own = CostOf(*root);
  const bool is_alone = kernel.members.size() == 1 && kernel.copies.empty();
  if (own.has_bytes && is_alone) work.bytes = own.bytes;
  work.bytes += CopiedBytes(kernel, model.is_compiled());
  Classify(work);
  if (attention != nullptr) {
    work.work_class = WorkClass::kAttention;
    work.recomputed_flops = attention->recomputed_flops;
    for (const MatrixWork& product : work.matrix) {
      work.masked_flops += product.flops * attention->masked_share;
      const double elements = product.batch * product.m * product.n;
      if (elements == static_cast<double>(attention->score_elements)) work.head_width = product.k;
    }
  }
  return work;
}

KernelWork WorkOfFusion(const Instruction& fusion) {
  KernelWork work;
  const Computation& body = *fusion.called(0);
  const std::vector<const Instruction*> outputs = OutputsOf(body);
  for (size_t i = 0; i < outputs.size(); ++i) {
    const Instruction* output = SkipAliases(outputs[i], true);
    const Shape* place = fusion.shape()->IsTuple() && fusion.shape()->elements().size() > i
                             ? fusion.shape()->element(static_cast<int64_t>(i))
                             : fusion.shape();
    if (output->opcode() != Opcode::kParameter && !IsInFastMemory(place)) {
      work.bytes += WrittenBytes(output);
    }
  }
  const Reads reads = ReadsOf(body);
  for (const Instruction* x : std::views::reverse(body.instructions())) {
    if (x->opcode() == Opcode::kTuple || x->opcode() == Opcode::kReshape ||
        x->opcode() == Opcode::kBitcast) {
      continue;
    }
    if (x->opcode() == Opcode::kParameter) {
      const int64_t number = x->attributes<ParameterAttributes>().number;
      if (IsInFastMemory(fusion.operand(number)->shape())) continue;
      work.bytes += reads.ShareOfValue(x) * BytesOf(x->shape());
      continue;
    }
    if (x->opcode() == Opcode::kFusion) {
      KernelWork inner = WorkOfFusion(*x);
      work.flops += inner.flops;
      work.transcendentals += inner.transcendentals;
      work.periodic_functions += inner.periodic_functions;
      work.other_ops += inner.other_ops;
      work.matrix.insert(work.matrix.end(), inner.matrix.begin(), inner.matrix.end());
      work.sorts.insert(work.sorts.end(), inner.sorts.begin(), inner.sorts.end());
      work.indexed_slices += inner.indexed_slices;
    } else {
      AddArithmetic(x, work);
    }
    ChooseMain(x, work);
  }
  work.main = &fusion;
  Classify(work);
  return work;
}

}  // namespace gshard
