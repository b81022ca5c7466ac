// A called scalar computation as a function over arrays.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_ELEMENT_FUNCTION_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_ELEMENT_FUNCTION_H_

#include <cstdint>
#include <memory>

#include "backends/cpu/elementwise/kernel.h"
#include "ir/computation.h"

namespace gshard::cpu {

// A computation over scalars (to_apply of map, reduce, scatter, all-reduce, ..) applied to arrays:
// element i of every result from elements i of all arguments. Arguments are parameters in order,
// results the leaves of the root. A result buffer may be the same as an argument's. Immutable.
class ElementFunction {
 public:
  virtual ~ElementFunction() = default;
  virtual void Run(int64_t count, ConstBuffers arguments, Buffers results,
                   Scratch& scratch) const = 0;
};
// Calls, fusions, conditionals and whiles inside are followed; captured constants are splat.
Expected<std::unique_ptr<ElementFunction>> CompileElementFunction(const Computation& computation);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_ELEMENT_FUNCTION_H_
