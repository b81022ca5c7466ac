#include "core/transforms/expand/dynamic_padder.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>
#include <unordered_map>
#include <vector>

#include "core/analysis/combiner.h"
#include "core/analysis/integer_value.h"
#include "core/propagation/shardy_import.h"
#include "core/transforms/inline_calls.h"
#include "core/transforms/rewriter.h"
#include "ir/dims.h"
#include "ir/leaves.h"

namespace gshard {
namespace {

const Shape* WithBounds(Context& context, const Shape* shape) {
  if (shape->IsTuple()) {
    std::vector<const Shape*> elements;
    for (const Shape* element : shape->elements()) {
      elements.push_back(WithBounds(context, element));
    }
    return context.Tuple(elements);
  }
  if (!shape->IsArray() || !shape->HasDynamicDims()) return shape;
  return context.Array(shape->dtype(), shape->dims(), shape->layout());
}

int64_t ProductBefore(const Shape* shape, int64_t dim) {
  int64_t product = 1;
  for (int64_t d = 0; d < dim; ++d) product *= shape->dim(d);
  return product;
}

// The run-time sizes of an array: s32[] by dim. Dims that are not named are as large as they look.
using Sizes = std::map<int64_t, Instruction*>;

class DynamicPadder {
 public:
  explicit DynamicPadder(Module& module) : module_(module), rewriter_(module) {}

  Expected<void> Run(Computation* computation) {
    rewriter_.Begin(computation);
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    for (Instruction* x : old) {
      rewriter_.RedirectOperands(x);
      builder().set_origin(x);
      if (Expected<void> done = Rewrite(x); !done) return done;
    }
    Instruction* root = rewriter_.ValueOf(computation->root());
    if (computation == module_.entry()) {
      root = WithoutRest(root);
    } else if (IsDynamic(root)) {
      return Error(*root, "leaves a loop or branch");
    }
    rewriter_.Finish();
    computation->set_root(root);
    return {};
  }

 private:
  tl::unexpected<Diagnostic> Error(const Instruction& x, const std::string& what) {
    Diagnostic error =
        module_.ErrorAt(&x, "E-RUN-DYNAMIC",
                        fmt::format("an array whose size is known only at run time {} at {} {}",
                                    what, OpcodeName(x.opcode()), x.name()));
    error.hint = "give it its full size before (set-dimension-size to the bound) and mask the rest";
    return Fail(std::move(error));
  }

  // Of every leaf of a value.
  const std::vector<Sizes>& SizesOf(const Instruction* x) {
    std::vector<Sizes>& sizes = sizes_[x];
    sizes.resize(static_cast<size_t>(x->shape()->leaf_count()));
    return sizes;
  }
  const Sizes& ArraySizes(const Instruction* x) { return SizesOf(x)[0]; }
  bool IsDynamic(const Instruction* x) {
    const std::vector<Sizes>& leaves = SizesOf(x);
    return std::any_of(leaves.begin(), leaves.end(), [](const Sizes& s) { return !s.empty(); });
  }
  void Keep(Instruction* x, Sizes sizes) {
    rewriter_.Keep(x);
    sizes_[x].assign(static_cast<size_t>(x->shape()->leaf_count()), std::move(sizes));
  }
  void Replace(Instruction* x, Instruction* by, Sizes sizes) {
    rewriter_.Replace(x, by);
    sizes_[by].assign(static_cast<size_t>(by->shape()->leaf_count()), std::move(sizes));
  }
  Instruction* Int(int64_t value) { return builder().ScalarInt(DType::kS32, value); }
  Instruction* SizeOf(Instruction* x, int64_t dim) {
    const Sizes& sizes = ArraySizes(x);
    const auto found = sizes.find(dim);
    return found == sizes.end() ? Int(x->shape()->dim(dim)) : found->second;
  }

  // `fill` in what does not count along `dims`.
  Instruction* Masked(Instruction* x, const Sizes& sizes, Instruction* fill, Dims dims) {
    const Shape* shape = x->shape();
    for (const auto& [dim, size] : sizes) {
      if (!Contains(dims, dim)) continue;
      const Shape* places = builder().context().Array(DType::kS32, shape->dims());
      Instruction* counts = builder().Compare(ComparisonDirection::kLt, builder().Iota(places, dim),
                                              builder().BroadcastScalar(size, shape->dims()));
      x = builder().Select(counts, x, builder().BroadcastScalar(fill, shape->dims()));
    }
    return x;
  }
  Instruction* ZeroOf(const Instruction* x) { return builder().Scalar(x->shape()->dtype(), 0); }
  static std::vector<int64_t> AllDims(const Shape* shape) {
    std::vector<int64_t> dims(static_cast<size_t>(shape->rank()));
    std::iota(dims.begin(), dims.end(), 0);
    return dims;
  }

  // What the entry returns: arrays, or a tuple of them.
  Instruction* WithoutRest(Instruction* root) {
    if (!IsDynamic(root)) return root;
    builder().set_origin(root);
    if (root->shape()->IsArray()) {
      return Masked(root, ArraySizes(root), ZeroOf(root), AllDims(root->shape()));
    }
    if (root->opcode() != Opcode::kTuple) return root;
    std::vector<Instruction*> elements;
    for (Instruction* element : root->operands()) elements.push_back(WithoutRest(element));
    Instruction* tuple = builder().Tuple(elements);
    tuple->set_sharding(root->sharding());
    return tuple;
  }

  Expected<void> Rewrite(Instruction* x) {
    const Shape* declared = x->shape();
    x->set_shape(WithBounds(module_.context(), declared));
    bool dynamic = false;
    for (const Instruction* operand : x->operands()) dynamic |= IsDynamic(operand);
    switch (x->opcode()) {
      case Opcode::kSetDimensionSize:
        return SetSize(x);
      case Opcode::kDynamicReshape:
        return DynamicReshape(x);
      default:  // below
        break;
    }
    if (!dynamic) {
      rewriter_.Keep(x);
      return {};
    }
    if (IsElementwise(x->opcode()) && x->shape()->IsArray()) return Elementwise(x);
    switch (x->opcode()) {
      case Opcode::kGetDimensionSize:
        rewriter_.Replace(
            x, SizeOf(x->operand(0), x->attributes<DimensionsAttributes>().dimensions[0]));
        return {};
      case Opcode::kMap:
      case Opcode::kAllReduce:
      case Opcode::kCollectivePermute:
      case Opcode::kCollectiveBroadcast:
        return x->shape()->IsArray() ? Elementwise(x) : Error(*x, "is an operand");
      case Opcode::kTuple:
        return Tuple(x);
      case Opcode::kGetTupleElement:
        return Element(x);
      case Opcode::kCopy:
      case Opcode::kOptBarrier:
      case Opcode::kAddDependency:
      case Opcode::kDomain:
        rewriter_.Keep(x);
        sizes_[x] = SizesOf(x->operand(0));
        return {};
      case Opcode::kBroadcast:
        return Broadcast(x);
      case Opcode::kTranspose:
        return Transpose(x);
      case Opcode::kReshape:
      case Opcode::kBitcast:
        return Reshape(x);
      case Opcode::kSlice:
        return Slice(x);
      case Opcode::kDynamicSlice:
        return DynamicSlice(x);
      case Opcode::kPad:
        return Pad(x);
      case Opcode::kConcatenate:
        return Concatenate(x);
      case Opcode::kReduce:
        return Reduce(x);
      case Opcode::kDot:
        return Dot(x);
      case Opcode::kSort:
        return Sort(x);
      default:  // not padded: refused
        return Error(*x, "is an operand");
    }
  }

  // A copy: others may read the operand as it is.
  Expected<void> SetSize(Instruction* x) {
    Instruction* operand = x->operand(0);
    const int64_t dim = x->attributes<DimensionsAttributes>().dimensions[0];
    Sizes sizes = ArraySizes(operand);
    sizes[dim] = builder().Clamp(Int(0), x->operand(1), Int(x->shape()->dim(dim)));
    const auto constant = ConstantScalar(x->operand(1));
    if (constant && *constant >= x->shape()->dim(dim)) sizes.erase(dim);
    Replace(x, builder().Add(Opcode::kCopy, {operand}), std::move(sizes));
    return {};
  }

  Expected<void> Elementwise(Instruction* x) {
    Sizes sizes;
    for (const Instruction* operand : x->operands()) {
      if (operand->shape()->rank() != x->shape()->rank()) continue;
      const Sizes& of_operand = ArraySizes(operand);
      sizes.insert(of_operand.begin(), of_operand.end());
    }
    Keep(x, std::move(sizes));
    return {};
  }

  Expected<void> Tuple(Instruction* x) {
    std::vector<Sizes> all;
    for (const Instruction* operand : x->operands()) {
      const std::vector<Sizes>& sizes = SizesOf(operand);
      all.insert(all.end(), sizes.begin(), sizes.end());
    }
    rewriter_.Keep(x);
    sizes_[x] = std::move(all);
    return {};
  }
  Expected<void> Element(Instruction* x) {
    const auto first = SizesOf(x->operand(0)).begin() + FirstLeafRead(*x);
    std::vector<Sizes> part(first, first + x->shape()->leaf_count());
    rewriter_.Keep(x);
    sizes_[x] = std::move(part);
    return {};
  }

  Expected<void> Broadcast(Instruction* x) {
    const Dims dims = x->attributes<DimensionsAttributes>().dimensions;
    Sizes sizes;
    for (const auto& [dim, size] : ArraySizes(x->operand(0))) {
      sizes[dims[static_cast<size_t>(dim)]] = size;
    }
    Keep(x, std::move(sizes));
    return {};
  }
  Expected<void> Transpose(Instruction* x) {
    const Dims permutation = x->attributes<DimensionsAttributes>().dimensions;
    const Sizes& before = ArraySizes(x->operand(0));
    Sizes sizes;
    for (size_t i = 0; i < permutation.size(); ++i) {
      const auto found = before.find(permutation[i]);
      if (found != before.end()) sizes[static_cast<int64_t>(i)] = found->second;
    }
    Keep(x, std::move(sizes));
    return {};
  }

  // A dynamic dim must stay a dim of its own.
  Expected<void> Reshape(Instruction* x) {
    const Shape* from = x->operand(0)->shape();
    Sizes sizes;
    for (const auto& [dim, size] : ArraySizes(x->operand(0))) {
      int64_t to = 0;
      while (to < x->shape()->rank() &&
             (x->shape()->dim(to) != from->dim(dim) ||
              ProductBefore(x->shape(), to) != ProductBefore(from, dim))) {
        ++to;
      }
      if (to == x->shape()->rank()) return Error(*x, "is cut or merged");
      sizes[to] = size;
    }
    Keep(x, std::move(sizes));
    return {};
  }
  // Elements stay in order only if no dim but the first has a rest.
  Expected<void> DynamicReshape(Instruction* x) {
    const Sizes& before = ArraySizes(x->operand(0));
    Sizes sizes;
    for (int64_t d = 0; d < x->shape()->rank(); ++d) {
      Instruction* size = x->operand(d + 1);
      const auto constant = ConstantScalar(size);
      if (constant && *constant >= x->shape()->dim(d)) continue;
      if (d > 0) return Error(*x, "is cut or merged");
      sizes[0] = builder().Clamp(Int(0), size, Int(x->shape()->dim(0)));
    }
    if (before.size() > 1 || (before.size() == 1 && before.begin()->first != 0)) {
      return Error(*x, "is cut or merged");
    }
    Instruction* operand = x->operand(0);
    Instruction* reshaped = builder().Reshape(operand, x->shape()->dims());
    if (reshaped == operand) reshaped = builder().Add(Opcode::kCopy, {operand});
    Replace(x, reshaped, std::move(sizes));
    return {};
  }

  Expected<void> Slice(Instruction* x) {
    const auto& attributes = x->attributes<SliceAttributes>();
    Sizes sizes;
    for (const auto& [dim, size] : ArraySizes(x->operand(0))) {
      const auto d = static_cast<size_t>(dim);
      if (attributes.strides[d] != 1) return Error(*x, "is taken in strides");
      Instruction* rest = builder().Subtract(size, Int(attributes.starts[d]));
      sizes[dim] = builder().Clamp(Int(0), rest, Int(x->shape()->dim(dim)));
    }
    Keep(x, std::move(sizes));
    return {};
  }
  // Dims that are not taken whole are in the part that counts.
  Expected<void> DynamicSlice(Instruction* x) {
    Sizes sizes;
    for (const auto& [dim, size] : ArraySizes(x->operand(0))) {
      if (x->shape()->dim(dim) == x->operand(0)->shape()->dim(dim)) sizes[dim] = size;
    }
    Keep(x, std::move(sizes));
    return {};
  }

  Expected<void> Pad(Instruction* x) {
    const auto& padding = x->attributes<PadAttributes>().padding;
    const Sizes before = ArraySizes(x->operand(0));
    Sizes sizes;
    for (const auto& [dim, size] : before) {
      const PadDim& pad = padding[static_cast<size_t>(dim)];
      if (pad.interior != 0 || pad.low < 0 || pad.high < 0) return Error(*x, "is spread or cut");
      sizes[dim] = builder().Add(size, Int(pad.low + pad.high));
    }
    x->set_operand(0, Masked(x->operand(0), before, x->operand(1), AllDims(x->shape())));
    Keep(x, std::move(sizes));
    return {};
  }

  // One part after another, each over the rest of the one before.
  Expected<void> Concatenate(Instruction* x) {
    const int64_t along = x->attributes<DimensionsAttributes>().dimensions[0];
    Sizes sizes;
    bool packs = false;
    for (Instruction* part : x->operands()) {
      const Sizes& of_part = ArraySizes(part);
      packs |= of_part.count(along) != 0;
      sizes.insert(of_part.begin(), of_part.end());
    }
    if (!packs) {
      Keep(x, std::move(sizes));
      return {};
    }
    Instruction* packed = builder().Zero(x->shape());
    Instruction* total = Int(0);
    for (Instruction* part : x->operands()) {
      std::vector<Instruction*> starts(static_cast<size_t>(x->shape()->rank()), Int(0));
      starts[static_cast<size_t>(along)] = total;
      packed = builder().DynamicUpdateSlice(packed, part, starts);
      total = builder().Add(total, SizeOf(part, along));
    }
    sizes[along] = total;
    Replace(x, packed, std::move(sizes));
    return {};
  }

  // The rest counts as nothing: the identity of sums and products, else the initial value.
  Expected<void> Reduce(Instruction* x) {
    const Dims dims = x->attributes<DimensionsAttributes>().dimensions;
    const int64_t arrays = x->operand_count() / 2;
    const auto opcode = arrays == 1 ? SingleBinaryOperation(*x->called(0)) : std::nullopt;
    Sizes all;
    for (int64_t k = 0; k < arrays; ++k) {
      const Sizes& sizes = ArraySizes(x->operand(k));
      all.insert(sizes.begin(), sizes.end());
    }
    for (int64_t k = 0; k < arrays; ++k) {
      Instruction* fill = x->operand(arrays + k);
      if (opcode == Opcode::kAdd) fill = ZeroOf(fill);
      if (opcode == Opcode::kMultiply) fill = builder().Scalar(fill->shape()->dtype(), 1);
      x->set_operand(k, Masked(x->operand(k), all, fill, dims));
    }
    Sizes sizes;
    for (const auto& [dim, size] : all) {
      if (Contains(dims, dim)) continue;
      sizes[dim - std::count_if(dims.begin(), dims.end(),
                                [&, d = dim](int64_t reduced) { return reduced < d; })] = size;
    }
    Keep(x, std::move(sizes));
    return {};
  }

  Expected<void> Dot(Instruction* x) {
    const auto& dot = x->attributes<DotAttributes>();
    Instruction *lhs = x->operand(0), *rhs = x->operand(1);
    const Sizes left = ArraySizes(lhs), right = ArraySizes(rhs);
    // What counts on one side only is a product with the other side's rest: both are masked.
    Sizes both_left = left, both_right = right;
    for (size_t i = 0; i < dot.lhs_contracting.size(); ++i) {
      const int64_t a = dot.lhs_contracting[i], b = dot.rhs_contracting[i];
      if (left.count(a) != 0) both_right.emplace(b, left.at(a));
      if (right.count(b) != 0) both_left.emplace(a, right.at(b));
    }
    x->set_operand(0, Masked(lhs, both_left, ZeroOf(lhs), dot.lhs_contracting));
    x->set_operand(1, Masked(rhs, both_right, ZeroOf(rhs), dot.rhs_contracting));
    Sizes sizes;
    int64_t next = 0;
    auto append = [&](const Sizes& of_operand, int64_t dim) {
      const auto found = of_operand.find(dim);
      if (found != of_operand.end()) sizes.emplace(next, found->second);
      ++next;
    };
    for (size_t i = 0; i < dot.lhs_batch.size(); ++i) {
      const bool on_left = left.count(dot.lhs_batch[i]) != 0;
      append(on_left ? left : right, on_left ? dot.lhs_batch[i] : dot.rhs_batch[i]);
    }
    for (int64_t d = 0; d < lhs->shape()->rank(); ++d) {
      if (!Contains(dot.lhs_batch, d) && !Contains(dot.lhs_contracting, d)) append(left, d);
    }
    for (int64_t d = 0; d < rhs->shape()->rank(); ++d) {
      if (!Contains(dot.rhs_batch, d) && !Contains(dot.rhs_contracting, d)) append(right, d);
    }
    Keep(x, std::move(sizes));
    return {};
  }

  // What does not count comes last: one more key, before the others.
  Expected<void> Sort(Instruction* x) {
    const int64_t along = x->attributes<SortAttributes>().dimension;
    const Shape* shape = x->operand(0)->shape();
    Sizes sizes;
    for (const Instruction* operand : x->operands()) {
      const Sizes& of_operand = ArraySizes(operand);
      sizes.insert(of_operand.begin(), of_operand.end());
    }
    if (sizes.count(along) == 0) {
      Keep(x, std::move(sizes));
      return {};
    }
    const Shape* flags = builder().context().Array(DType::kS32, shape->dims());
    std::vector<Instruction*> operands = {
        Masked(builder().Zero(flags), sizes, Int(1), {&along, 1})};
    operands.insert(operands.end(), x->operands().begin(), x->operands().end());
    std::vector<const Shape*> results;
    for (const Instruction* operand : operands) results.push_back(operand->shape());
    Computation* called[] = {RestLast(*x->called(0))};
    Instruction* sorted = builder().Add(Opcode::kSort, operands, x->attributes<SortAttributes>(),
                                        builder().context().Tuple(results), called);
    std::vector<Instruction*> elements;
    for (size_t k = 1; k < operands.size(); ++k) {
      elements.push_back(builder().GetTupleElement(sorted, static_cast<int64_t>(k)));
    }
    Replace(x, elements.size() == 1 ? elements[0] : builder().Tuple(elements), std::move(sizes));
    return {};
  }

  Computation* RestLast(const Computation& comparator) {
    Builder builder(module_, module_.AddComputation(comparator.name()));
    const Shape* flag = module_.context().Scalar(DType::kS32);
    Instruction* a = builder.Parameter(0, flag, "rest_a");
    Instruction* b = builder.Parameter(1, flag, "rest_b");
    std::vector<Instruction*> arguments;
    for (const Instruction* parameter : comparator.parameters()) {
      arguments.push_back(builder.Parameter(builder.computation()->parameter_count(),
                                            parameter->shape(), parameter->name()));
    }
    Computation* called[] = {const_cast<Computation*>(&comparator)};
    Instruction* less =
        builder.Add(Opcode::kCall, arguments, CallAttributes{}, comparator.root()->shape(), called);
    Instruction* equal = builder.Compare(ComparisonDirection::kEq, a, b);
    Instruction* first = builder.Compare(ComparisonDirection::kLt, a, b);
    builder.computation()->set_root(builder.Binary(Opcode::kOr, first, builder.And(equal, less)));
    return builder.computation();
  }

  Builder& builder() { return rewriter_.builder(); }

  Module& module_;
  Rewriter rewriter_;
  std::unordered_map<const Instruction*, std::vector<Sizes>> sizes_;
};

}  // namespace

bool HasDynamicSizes(const Module& module) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() == Opcode::kSetDimensionSize || x->opcode() == Opcode::kDynamicReshape) {
        return true;
      }
    }
  }
  return false;
}

Expected<bool> PadDynamicSizes(Module& module) {
  if (!HasDynamicSizes(module)) return false;
  if (auto done = ImportShardyShardings(module); !done) return Fail(done.error());
  if (auto done = InlineCalls(module); !done) return Fail(done.error());
  ModuleHeader& header = module.header();
  header.entry_result_layout = nullptr;
  for (const Shape*& shape : header.entry_parameter_layouts) {
    shape = WithBounds(module.context(), shape);
  }
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  DynamicPadder padder(module);
  for (Computation* computation : all) {
    if (Expected<void> done = padder.Run(computation); !done) return Fail(done.error());
  }
  // Comparators call what they were.
  if (auto done = InlineCalls(module); !done) return Fail(done.error());
  return true;
}

}  // namespace gshard
