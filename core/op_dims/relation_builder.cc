#include "core/op_dims/relation_builder.h"

#include <optional>
#include <utility>

#include "core/op_dims/rule_text.h"

namespace gshard {
namespace {

size_t RankOf(const Shape* shape) { return shape->IsArray() ? At(shape->rank()) : 0; }

}  // namespace

RelationBuilder::RelationBuilder(const Instruction& x) : x_(x) {
  AppendLeafShapes(x.shape(), leaves_);
  relation_.operands.reserve(x.operands().size());
  for (const Instruction* operand : x.operands()) {
    relation_.operands.emplace_back(RankOf(operand->shape()));
  }
  relation_.results.reserve(leaves_.size());
  for (const Shape* leaf : leaves_) relation_.results.emplace_back(RankOf(leaf));
  // As many as nearly all operations have.
  size_t dims = 0;
  for (const auto* list : {&relation_.operands, &relation_.results}) {
    if (!list->empty()) dims += list->front().size();
  }
  relation_.factors.reserve(dims);
}

int RelationBuilder::Add(int64_t size, FactorKind kind, bool blocked) {
  relation_.factors.push_back({size, kind, blocked});
  return static_cast<int>(relation_.factors.size()) - 1;
}

void RelationBuilder::ToOperand(int64_t i, int64_t dim, int factor) {
  relation_.operands[At(i)][At(dim)].push_back(factor);
}

void RelationBuilder::ToResult(int64_t i, int64_t dim, int factor) {
  relation_.results[At(i)][At(dim)].push_back(factor);
}

void RelationBuilder::ToAllOperands(int64_t dim, int factor) {
  for (auto& dims : relation_.operands) dims[At(dim)].push_back(factor);
}

void RelationBuilder::ToAllResults(int64_t dim, int factor) {
  for (auto& dims : relation_.results) dims[At(dim)].push_back(factor);
}

void RelationBuilder::Alike(int64_t operands, int64_t dim, int factor) {
  for (int64_t i = 0; i < operands; ++i) ToOperand(i, dim, factor);
  ToAllResults(dim, factor);
}

void RelationBuilder::Elementwise() {
  const Shape* shape = result(0);
  for (int64_t d = 0; d < static_cast<int64_t>(RankOf(shape)); ++d) {
    const int factor = Add(shape->dim(d));
    for (auto* tensors : {&relation_.operands, &relation_.results}) {
      for (std::vector<FactorList>& dims : *tensors) {
        if (dims.size() == RankOf(shape)) dims[At(d)].push_back(factor);
      }
    }
  }
}

bool RelationBuilder::AddFromText(std::string_view rule) {
  std::optional<DimRelation> read = ReadRule(rule);
  if (!read || read->operands.size() != relation_.operands.size() ||
      read->results.size() != relation_.results.size()) {
    return false;
  }
  for (size_t i = 0; i < read->operands.size(); ++i) {
    if (read->operands[i].size() != relation_.operands[i].size()) return false;
  }
  for (size_t i = 0; i < read->results.size(); ++i) {
    if (read->results[i].size() != relation_.results[i].size()) return false;
  }
  relation_ = *std::move(read);
  return true;
}

DimRelation RelationBuilder::Finish() && {
  const auto fill = [this](std::vector<FactorList>& dims, const Shape* shape) {
    for (size_t d = 0; d < dims.size(); ++d) {
      if (dims[d].empty()) dims[d].push_back(Add(shape->dims()[d]));
    }
  };
  for (int64_t i = 0; i < operand_count(); ++i) fill(relation_.operands[At(i)], operand(i));
  for (int64_t i = 0; i < result_count(); ++i) fill(relation_.results[At(i)], result(i));
  return std::move(relation_);
}

}  // namespace gshard
