// Reductions: over whole dims, over windows and along a dim.
#include "core/op_dims/relation_rules.h"

namespace gshard::op_dims {

// Operands are n arrays and their n initial values.
void Reduce(RelationBuilder& b) {
  const Dims reduced = b.attributes<DimensionsAttributes>().dimensions;
  const int64_t arrays = b.operand_count() / 2;
  int64_t result_dim = 0;
  for (int64_t d = 0; d < b.operand(0)->rank(); ++d) {
    const bool sums = Contains(reduced, d);
    const int factor = b.Add(b.operand(0)->dim(d),
                             sums ? FactorKind::kReduction : FactorKind::kPassThrough);
    for (int64_t i = 0; i < arrays; ++i) b.ToOperand(i, d, factor);
    if (!sums) b.ToAllResults(result_dim++, factor);
  }
}

// Operands are inputs, which have the scanned dim, and initial carries, which have not. Results are
// outputs, which have it, and final carries.
void Scan(RelationBuilder& b) {
  const auto& scan = b.attributes<ScanAttributes>();
  const int64_t inputs = b.operand_count() - scan.num_carries;
  const int64_t outputs = b.result_count() - scan.num_carries;
  const Shape* whole = b.operand(0);
  const auto is_element = [&](const Shape* shape) {
    if (!shape->IsArray() || shape->rank() != whole->rank() - 1) return false;
    for (int64_t d = 0; d < shape->rank(); ++d) {
      if (shape->dim(d) != whole->dim(d < scan.dimension ? d : d + 1)) return false;
    }
    return true;
  };
  for (int64_t d = 0; d < whole->rank(); ++d) {
    const bool along = d == scan.dimension;
    const int factor = b.Add(whole->dim(d), along ? FactorKind::kNeedReplication
                                                  : FactorKind::kPassThrough);
    const int64_t element_dim = d < scan.dimension ? d : d - 1;
    for (int64_t i = 0; i < b.operand_count(); ++i) {
      const Shape* shape = b.operand(i);
      if (i < inputs && SameDims(shape, whole)) b.ToOperand(i, d, factor);
      if (i >= inputs && !along && is_element(shape)) b.ToOperand(i, element_dim, factor);
    }
    for (int64_t i = 0; i < b.result_count(); ++i) {
      const Shape* shape = b.result(i);
      if (i < outputs && SameDims(shape, whole)) b.ToResult(i, d, factor);
      if (i >= outputs && !along && is_element(shape)) b.ToResult(i, element_dim, factor);
    }
  }
}

// Every array has the operand's dims or just the feature dim; the statistics are sums over all
// others.
void BatchNorm(RelationBuilder& b) {
  const int64_t feature_index = b.attributes<BatchNormAttributes>().feature_index;
  const Shape* whole = b.operand(0);
  const bool sums = b.instruction().opcode() != Opcode::kBatchNormInference;
  for (int64_t d = 0; d < whole->rank(); ++d) {
    const bool is_feature = d == feature_index;
    const int factor = b.Add(whole->dim(d), is_feature || !sums ? FactorKind::kPassThrough
                                                                : FactorKind::kReduction);
    for (int64_t i = 0; i < b.operand_count(); ++i) {
      if (b.operand(i)->rank() == whole->rank()) {
        b.ToOperand(i, d, factor);
      } else if (is_feature) {
        b.ToOperand(i, 0, factor);
      }
    }
    for (int64_t i = 0; i < b.result_count(); ++i) {
      if (b.result(i)->rank() == whole->rank()) {
        b.ToResult(i, d, factor);
      } else if (is_feature) {
        b.ToResult(i, 0, factor);
      }
    }
  }
}

namespace {

bool IsTrivial(const WindowDim& window) {
  return window.size == 1 && window.stride == 1 && window.pad_low == 0 && window.pad_high == 0 &&
         window.base_dilation == 1;
}

}  // namespace

void ReduceWindow(RelationBuilder& b) {
  const auto window = b.attributes<WindowAttributes>().window;
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    b.Alike(b.operand_count() / 2, d,
            b.Add(b.result(0)->dim(d), IsTrivial(window[At(d)]) ? FactorKind::kPassThrough
                                                                : FactorKind::kPermutation));
  }
}

// Operands: the array, the source (one element a window) and an initial value. The result has the
// array's dims.
void SelectAndScatter(RelationBuilder& b) {
  for (int64_t d = 0; d < b.result(0)->rank(); ++d) {
    const bool windowed = b.operand(0)->dim(d) != b.operand(1)->dim(d);
    b.Alike(windowed ? 1 : 2, d,
            b.Add(b.result(0)->dim(d),
                  windowed ? FactorKind::kPermutation : FactorKind::kPassThrough));
    if (windowed) {
      b.ToOperand(1, d, b.Add(b.operand(1)->dim(d), FactorKind::kNeedReplication));
    }
  }
}

}  // namespace gshard::op_dims
