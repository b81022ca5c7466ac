#include "ir/equality.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <string_view>
#include <utility>
#include <vector>

#include "ir/attribute_equality.h"
#include "ir/dims.h"

namespace gshard {

namespace {

std::string_view LayoutTail(const Shape* shape) {
  return shape->layout() == nullptr ? std::string_view() : shape->layout()->tail;
}

// The same types and dims, in the same places of memory: a row-major layout need not be written.
bool SameInMemory(const Shape* a, const Shape* b) {
  if (a == b) return true;
  if (!Compatible(a, b)) return false;
  if (a->IsTuple()) return std::ranges::equal(a->elements(), b->elements(), SameInMemory);
  return a->IsArray() && IsRowMajor(a) && IsRowMajor(b) && LayoutTail(a) == LayoutTail(b);
}

}  // namespace

bool SameButFrontendAttributes(const Instruction& a, const Instruction& b) {
  return a.backend_config() == b.backend_config() && SameAttributes(a, b) &&
         std::ranges::equal(a.called(), b.called(), [](const Computation* x, const Computation* y) {
           return SameComputation(*x, *y);
         });
}

bool SameConstant(const Instruction& a, const Instruction& b) {
  return a.opcode() == Opcode::kConstant && SameAttributes(a, b);
}

bool SameOperation(const Instruction& a, const Instruction& b) {
  return &a == &b ||
         (a.frontend_attributes() == b.frontend_attributes() && SameButFrontendAttributes(a, b));
}

bool SameComputation(const Computation& a, const Computation& b) {
  if (&a == &b) return true;
  if (a.instructions().size() != b.instructions().size() ||
      a.execution_thread() != b.execution_thread()) {
    return false;
  }
  tsl::robin_map<const Instruction*, const Instruction*> in_b;
  std::vector<std::pair<const Instruction*, const Instruction*>> open = {{a.root(), b.root()}};
  while (!open.empty()) {
    auto [x, y] = open.back();
    open.pop_back();
    auto [known, is_new] = in_b.emplace(x, y);
    if (!is_new) {
      if (known->second != y) return false;
      continue;
    }
    if (!SameInMemory(x->shape(), y->shape()) || x->sharding() != y->sharding() ||
        x->operand_count() != y->operand_count() || !SameButFrontendAttributes(*x, *y)) {
      return false;
    }
    for (size_t i = 0; i < static_cast<size_t>(x->operand_count()); ++i) {
      open.emplace_back(x->operands()[i], y->operands()[i]);
    }
  }
  return true;
}

}  // namespace gshard
