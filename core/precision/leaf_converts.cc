#include "core/precision/leaf_converts.h"

#include <vector>

namespace gshard {

Instruction* ConvertLeaves(Instruction* x, const Shape* to, Builder& builder) {
  if (Compatible(x->shape(), to)) return x;
  if (!to->IsTuple()) {
    Instruction* converted = builder.Convert(x, to->dtype());
    converted->set_shape(to);  // with its layout
    return converted;
  }
  std::vector<Instruction*> elements;
  for (size_t i = 0; i < to->elements().size(); ++i) {
    const auto k = static_cast<int64_t>(i);
    elements.push_back(ConvertLeaves(builder.GetTupleElement(x, k), to->element(k), builder));
  }
  return builder.Tuple(elements);
}

}  // namespace gshard
