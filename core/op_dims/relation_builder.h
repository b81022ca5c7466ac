// Builds the relation of one operation: used by the rules of core/op_dims/ops only.
#ifndef GSHARD_CORE_OP_DIMS_RELATION_BUILDER_H_
#define GSHARD_CORE_OP_DIMS_RELATION_BUILDER_H_

#include <cstdint>
#include <string_view>
#include <vector>

#include "core/op_dims/dim_relation.h"
#include "ir/dims.h"

namespace gshard {

class RelationBuilder {
 public:
  explicit RelationBuilder(const Instruction& x);

  const Instruction& instruction() const { return x_; }
  template <typename T>
  const T& attributes() const {
    return x_.attributes<T>();
  }
  // Shapes of operands and of the result's leaves; of what is no array, rank 0.
  const Shape* operand(int64_t i) const { return x_.operand(i)->shape(); }
  const Shape* result(int64_t i) const { return leaves_[At(i)]; }
  int64_t operand_count() const { return x_.operand_count(); }
  int64_t result_count() const { return static_cast<int64_t>(leaves_.size()); }

  // A new factor; its index.
  int Add(int64_t size, FactorKind kind = FactorKind::kPassThrough, bool blocked = false);
  // Appends a factor to a dim, as its minor-most so far.
  void ToOperand(int64_t i, int64_t dim, int factor);
  void ToResult(int64_t i, int64_t dim, int factor);
  void ToAllOperands(int64_t dim, int factor);
  void ToAllResults(int64_t dim, int factor);

  int64_t SizeOf(int factor) const { return relation_.factors[At(factor)].size; }
  const FactorList& FactorsOfOperand(int64_t i, int64_t dim) const {
    return relation_.operands[At(i)][At(dim)];
  }

  // The same factor for dim `dim` of operands [0, operands) and of all results.
  void Alike(int64_t operands, int64_t dim, int factor);
  // One factor a dim for every operand and result of the first result's dims: what is computed
  // element by element. Scalars take no part.
  void Elementwise();
  // The factors that a rule in Shardy's text names (core/op_dims/rule_text.h). False, and nothing has
  // been added, if it cannot be read or is not for these shapes.
  bool AddFromText(std::string_view rule);
  // Nothing relates: every dim keeps a factor of its own.
  void Unrelated() { relation_.relates = false; }

  // Dims without a factor get one of their own, in the order operands, results.
  DimRelation Finish() &&;

 private:
  const Instruction& x_;
  std::vector<const Shape*> leaves_;
  DimRelation relation_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_OP_DIMS_RELATION_BUILDER_H_
