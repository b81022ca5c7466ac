#include "core/pipeline/rows/row_sums.h"

#include <algorithm>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/transforms/rewriter.h"
#include "ir/constant_fill.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

bool IsSum(const Instruction* x) {
  return x->opcode() == Opcode::kAdd && x->shape()->IsArray() && x->shape()->rank() > 0;
}

// Zeros before and behind some rows, and nothing else.
bool PadsRows(const Instruction* x) {
  if (x->opcode() != Opcode::kPad || x->sharding() != nullptr || !IsFilledWithZero(x->operand(1))) {
    return false;
  }
  const auto& padding = x->attributes<PadAttributes>().padding;
  for (size_t d = 0; d < padding.size(); ++d) {
    const PadDim& dim = padding[d];
    if (dim.interior != 0 || dim.low < 0 || dim.high < 0) return false;
    if (d > 0 && (dim.low != 0 || dim.high != 0)) return false;
  }
  return !padding.empty();
}

int64_t FirstRow(const Instruction* pad) { return pad->attributes<PadAttributes>().padding[0].low; }

// A sum of padded rows that do not overlap, first to last, and of other terms.
struct RowSum {
  std::vector<Instruction*> pads, others;
};

// By the addition that is the whole sum.
std::unordered_map<const Instruction*, RowSum> FindRowSums(const Computation& entry) {
  const Users users(entry);
  // One term of a sum that nothing else reads.
  auto is_inner = [&](const Instruction* x) {
    return IsSum(x) && x != entry.root() && x->sharding() == nullptr && users.of(x).size() == 1 &&
           IsSum(users.of(x)[0]);
  };
  std::unordered_map<const Instruction*, RowSum> found;
  for (Instruction* x : entry.instructions()) {
    if (!IsSum(x) || is_inner(x)) continue;
    RowSum sum;
    std::vector<Instruction*> open = {x};
    while (!open.empty()) {
      Instruction* term = open.back();
      open.pop_back();
      if (term == x || is_inner(term)) {
        open.insert(open.end(), {term->operand(1), term->operand(0)});
      } else {
        (PadsRows(term) ? sum.pads : sum.others).push_back(term);
      }
    }
    std::ranges::stable_sort(sum.pads, {}, FirstRow);
    const auto overlap =
        std::ranges::adjacent_find(sum.pads, [](const Instruction* pad, const Instruction* after) {
          return FirstRow(pad) + pad->operand(0)->shape()->dim(0) > FirstRow(after);
        });
    if (sum.pads.size() >= 2 && overlap == sum.pads.end()) found.emplace(x, std::move(sum));
  }
  return found;
}

Instruction* Joined(const Instruction* x, const RowSum& sum, Rewriter& rewriter) {
  Builder& b = rewriter.builder();
  std::vector<Instruction*> rows;
  int64_t next = 0;
  auto zeros_to = [&](int64_t row) {
    if (row == next) return;
    std::vector<int64_t> dims(x->shape()->dims().begin(), x->shape()->dims().end());
    dims[0] = row - next;
    rows.push_back(b.Zero(b.context().Array(x->shape()->dtype(), dims)));
  };
  for (const Instruction* pad : sum.pads) {
    zeros_to(FirstRow(pad));
    rows.push_back(rewriter.ValueOf(pad->operand(0)));
    next = FirstRow(pad) + rows.back()->shape()->dim(0);
  }
  zeros_to(x->shape()->dim(0));
  Instruction* joined = b.Concatenate(rows, 0);
  for (Instruction* other : sum.others) joined = b.Add(rewriter.ValueOf(other), joined);
  return joined;
}

}  // namespace

void JoinPaddedRows(Module& module) {
  const auto sums = FindRowSums(*module.entry());
  if (sums.empty()) return;
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) {
    const auto sum = sums.find(x);
    return sum == sums.end() ? x : Joined(x, sum->second, rewriter);
  });
}

}  // namespace gshard::pipeline
