#include "ir/leaves.h"

#include "ir/attributes.h"
#include "ir/dims.h"

namespace gshard {

int64_t FirstLeafRead(const Instruction& element) {
  const int64_t index = element.attributes<GetTupleElementAttributes>().index;
  return element.operand(0)->shape()->first_leaf(index);
}

Instruction* LeafValue(Builder& builder, Instruction* x, int64_t leaf) {
  while (x->shape()->IsTuple()) {
    int64_t element = 0;
    for (; leaf >= x->shape()->element(element)->leaf_count(); ++element) {
      leaf -= x->shape()->element(element)->leaf_count();
    }
    x = builder.GetTupleElement(x, element);
  }
  return x;
}

std::vector<Instruction*> LeafValues(Builder& builder, Instruction* x) {
  if (!x->shape()->IsTuple()) return {x};
  std::vector<Instruction*> leaves;
  const auto elements = static_cast<int64_t>(x->shape()->elements().size());
  for (int64_t i = 0; i < elements; ++i) {
    const std::vector<Instruction*> part = LeafValues(builder, builder.GetTupleElement(x, i));
    leaves.insert(leaves.end(), part.begin(), part.end());
  }
  return leaves;
}

Instruction* FromLeaves(Builder& builder, const Shape* shape,
                        std::span<Instruction* const> leaves) {
  if (!shape->IsTuple()) return leaves[0];
  std::vector<Instruction*> elements;
  for (const Shape* element : shape->elements()) {
    elements.push_back(FromLeaves(builder, element, leaves));
    leaves = leaves.subspan(At(element->leaf_count()));
  }
  return builder.Tuple(elements);
}

}  // namespace gshard
