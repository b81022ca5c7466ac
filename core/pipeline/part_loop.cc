#include "core/pipeline/part_loop.h"

#include <algorithm>
#include <array>

#include "core/analysis/combiner.h"
#include "core/analysis/integer_value.h"
#include "ir/dims.h"
#include "ir/integer_operation.h"

namespace gshard::pipeline {
namespace {

bool SameRest(const Shape* part, const Shape* whole) {
  return part->rank() == whole->rank() &&
         std::ranges::equal(part->dims().subspan(1), whole->dims().subspan(1));
}

}  // namespace

bool AddsUpRows(const Instruction& x) {
  if (x.opcode() != Opcode::kReduce || x.operand_count() != 2) return false;
  const Dims dims = x.attributes<DimensionsAttributes>().dimensions;
  return dims.size() == 1 && dims[0] == 0 && CombinerOf(x.called(0)) == Opcode::kAdd;
}

PartLoop::PartLoop(const Instruction* loop, const LoopCounter& counter, const Users& users)
    : loop_(loop), counter_(counter), users_(users), body_(loop->called(1)) {
  const Instruction* root = body_->root();
  for (int64_t i = 0; i < root->operand_count(); ++i) kinds_.push_back(KindOf(i));
  FindChains();
}

bool PartLoop::IsUnderstood() const {
  return std::ranges::find(kinds_, Kind::kOther) == kinds_.end() &&
         std::ranges::find(kinds_, Kind::kSum) != kinds_.end();
}

const Instruction* PartLoop::Unknown() const {
  if (std::ranges::find(kinds_, Kind::kSum) == kinds_.end()) return nullptr;
  const auto other = std::ranges::find(kinds_, Kind::kOther);
  return other == kinds_.end() ? nullptr : body_->root()->operand(other - kinds_.begin());
}

bool PartLoop::AddsToSum(const Instruction* x, int64_t& total) const {
  const auto found = adds_.find(x);
  if (found != adds_.end()) total = found->second;
  return found != adds_.end();
}

bool PartLoop::TakesPart(const Instruction* x) const {
  if (x->opcode() != Opcode::kDynamicSlice) return false;
  const Shape *part = x->shape(), *whole = x->operand(0)->shape();
  return KeptElementOf(x->operand(0)) >= 0 && part->dim(0) * parts() == whole->dim(0) &&
         SameRest(part, whole) && StartsByTurn(x, 1, part->dim(0));
}

PartLoop::Kind PartLoop::KindOf(int64_t i) {
  const Instruction* result = body_->root()->operand(i);
  if (FindCounter(i)) return Kind::kCounter;
  if (StateElement(result) == i) return Kind::kKept;
  std::vector<const Instruction*> reads;
  for (const Instruction* user : users_.of(body_->parameter(0))) {
    if (user->opcode() != Opcode::kGetTupleElement) return Kind::kOther;
    if (StateElement(user) == i) reads.push_back(user);
  }
  if (reads.size() != 1) return Kind::kOther;
  return IsStack(result, reads[0]) ? Kind::kStack
         : IsSum(result, reads[0]) ? Kind::kSum
                                   : Kind::kOther;
}

void PartLoop::FindChains() {
  for (Kind& kind : kinds_) {
    if (kind == Kind::kOther) kind = Kind::kChain;
  }
  std::unordered_set<const Instruction*> behind;
  for (bool changes = true; changes;) {
    changes = false;
    behind.clear();
    for (int64_t i = 0; i < std::ssize(kinds_); ++i) {
      if (kind(i) != Kind::kChain || FollowsFromChains(body_->root()->operand(i), behind)) continue;
      kinds_[static_cast<size_t>(i)] = Kind::kOther;
      changes = true;
    }
  }
  for (Instruction* x : body_->instructions()) {
    if (behind.contains(x)) chain_.push_back(x);
  }
}

bool PartLoop::FollowsFromChains(const Instruction* x,
                                 std::unordered_set<const Instruction*>& behind) const {
  if (behind.contains(x)) return true;
  for (const Shape* leaf : LeafShapes(x->shape())) {
    const bool is_whole_number = leaf->IsArray() && ClassOf(leaf->dtype()) != DTypeClass::kFloat &&
                                 ClassOf(leaf->dtype()) != DTypeClass::kComplex;
    if (!is_whole_number) return false;
  }
  if (const std::optional<int64_t> element = StateElement(x)) {
    const Kind of = kind(*element);
    if (of != Kind::kCounter && of != Kind::kKept && of != Kind::kChain) return false;
  } else {
    for (const Instruction* operand : x->operands()) {
      if (!FollowsFromChains(operand, behind)) return false;
    }
  }
  behind.insert(x);
  return true;
}

bool PartLoop::FindCounter(int64_t i) {
  const Instruction* result = body_->root()->operand(i);
  if (i == counter_.element) {
    starts_[i] = {counter_.start, counter_.step};
  } else if (result->opcode() == Opcode::kAdd && result->shape()->rank() == 0 &&
             StateElement(result->operand(0)) == i) {
    const auto start = ConstantScalar(loop_->operand(0)->operand(i));
    const auto step = ConstantScalar(result->operand(1));
    if (start && step) starts_[i] = {*start, *step};
  }
  return starts_.contains(i);
}

bool PartLoop::IsReadOnce(const Instruction* x) const {
  return users_.of(x).size() == 1 && std::ranges::count(users_.of(x)[0]->operands(), x) == 1;
}

bool PartLoop::IsSum(const Instruction* result, const Instruction* element) {
  std::vector<std::pair<const Instruction*, int64_t>> adds;
  const Instruction* x = element;
  while (x != result) {
    if (!IsReadOnce(x)) return false;
    const Instruction* user = users_.of(x)[0];
    const int64_t place = user->operand(0) == x ? 0 : 1;
    const bool adds_up =
        user->opcode() == Opcode::kAdd || (user->opcode() == Opcode::kSubtract && place == 0);
    if (!adds_up) return false;
    adds.emplace_back(user, place);
    x = user;
  }
  if (!IsReadOnce(result)) return false;
  adds_.insert(adds.begin(), adds.end());
  return !adds.empty();
}

bool PartLoop::IsStack(const Instruction* result, const Instruction* element) const {
  if (result->opcode() != Opcode::kDynamicUpdateSlice || result->operand(0) != element)
    return false;
  const Shape *row = result->operand(1)->shape(), *whole = result->shape();
  return IsReadOnce(element) && whole->rank() > 0 && row->dim(0) == 1 && whole->dim(0) == parts() &&
         SameRest(row, whole) && StartsByTurn(result, 2, 1);
}

bool PartLoop::StartsByTurn(const Instruction* x, int64_t first, int64_t rows) const {
  for (int64_t turn = 0; turn < parts(); ++turn) {
    for (int64_t k = first; k < x->operand_count(); ++k) {
      if (Number(x->operand(k), turn) != (k == first ? turn * rows : 0)) return false;
    }
  }
  return true;
}

std::optional<int64_t> PartLoop::Number(const Instruction* x, int64_t turn) const {
  if (const std::optional<int64_t> element = StateElement(x)) {
    const auto found = starts_.find(*element);
    if (found == starts_.end()) return std::nullopt;
    return found->second.first + turn * found->second.second;
  }
  if (x->opcode() == Opcode::kConstant) return ConstantScalar(x);
  if (x->opcode() == Opcode::kSelect) {
    const std::optional<int64_t> choice = Number(x->operand(0), turn);
    if (!choice) return std::nullopt;
    return Number(x->operand(*choice != 0 ? 1 : 2), turn);
  }
  if (!x->shape()->IsArray() || x->shape()->rank() != 0 || !IsIntegerOperation(x->opcode())) {
    return std::nullopt;
  }
  std::array<int64_t, 3> operands{};
  for (int64_t i = 0; i < x->operand_count(); ++i) {
    const std::optional<int64_t> value = Number(x->operand(i), turn);
    if (!value) return std::nullopt;
    operands[static_cast<size_t>(i)] = *value;
  }
  return EvaluateInteger(*x, operands);
}

}  // namespace gshard::pipeline
