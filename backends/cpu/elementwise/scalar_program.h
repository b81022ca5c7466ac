// Called scalar computations (bodies of reduce, sort, scatter, map, ..) ready to run over arrays.
//
// A body is an elementwise program with its parameters as array inputs. What reductions and sorts
// can do faster than in general is recognised here: one operation on the two parameters, or a
// comparison of keys.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_SCALAR_PROGRAM_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_SCALAR_PROGRAM_H_

#include <memory>
#include <optional>

#include "backends/cpu/elementwise/element_function.h"
#include "backends/cpu/elementwise/elementwise_program.h"
#include "backends/cpu/elementwise/kernel.h"
#include "ir/computation.h"

namespace gshard::cpu {

class ScalarProgram : public ElementFunction {
 public:
  static Expected<std::unique_ptr<ScalarProgram>> Compile(const Computation& computation);

  void Run(int64_t count, ConstBuffers arguments, Buffers results,
           Scratch& scratch) const override {
    program_.Run(0, count, arguments, results, scratch);
  }
  int64_t argument_count() const { return program_.input_count(); }
  int64_t result_count() const { return program_.output_count(); }
  int64_t FlopsPerElement() const { return program_.FlopsPerElement(); }

 private:
  ElementwiseProgram program_;
};

// The opcode if the computation is `op(p0, p1)` or, for commutative ones, `op(p1, p0)`, all of the
// same type; conversions of small floats to f32 and back around an operation are looked through
// (JAX's bf16 reductions).
std::optional<Opcode> SingleBinaryOperation(const Computation& computation);

// Which parameter the computation returns unchanged; -1: none.
int64_t ForwardedParameter(const Computation& computation);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_SCALAR_PROGRAM_H_
