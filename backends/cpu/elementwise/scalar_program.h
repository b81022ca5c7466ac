// Called scalar computations (bodies of reduce, sort, scatter, map, ..) ready to run over arrays.
//
// A body is an elementwise program with its parameters as array inputs. What can be done faster
// than in general is recognised by core/analysis/combiner.h.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_SCALAR_PROGRAM_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_SCALAR_PROGRAM_H_

#include <memory>

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

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_SCALAR_PROGRAM_H_
