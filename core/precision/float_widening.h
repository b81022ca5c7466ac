// The same program in double precision: what is left of a difference between two programs then is
// no rounding.
//
// Every f16, bf16 and f32 becomes f64, every c64 c128: in parameters of called computations, loop
// states, reducers, comparators, fusions, collectives. The program's own roundings to these types
// (convert, reduce-precision) go with them. What is about bits, or whose values depend on the type,
// stays between converts: bitcast-convert, stochastic-convert, rng, transfers to and from the host,
// custom calls to code that is not known (those to LAPACK take its double routines), constants
// whose values the text leaves out. 8-bit and smaller floats stay, and so do integers: quantisation
// is no rounding error.
//
//   p = f32[8] parameter(0)                    p = f32[8] parameter(0)
//   b = bf16[8] convert(p)               =>    w = f64[8] convert(p)
//   ROOT r = bf16[8] multiply(b, b)            ROOT r = f64[8] multiply(w, w)
//
// The entry's parameters keep their types, so the same inputs are read; its results have the wider
// ones. Aliases of results with parameters that no longer fit are dropped.
#ifndef GSHARD_CORE_PRECISION_FLOAT_WIDENING_H_
#define GSHARD_CORE_PRECISION_FLOAT_WIDENING_H_

#include "ir/module.h"

namespace gshard {

// f64 for f16, bf16 and f32, c128 for c64, any other type itself.
DType WidenedType(DType dtype);
// The same of every leaf.
const Shape* WidenedShape(Context& context, const Shape* shape);

struct WideningOptions {
  // Roundings to a type that is widened stay as conversions from f64 to f64, so that each array of
  // the module still has an instruction of its name.
  bool keep_converts = false;
};

// In place; linear in the size of the module. True if it had anything to widen.
bool WidenFloats(Module& module, const WideningOptions& options = {});

}  // namespace gshard

#endif  // GSHARD_CORE_PRECISION_FLOAT_WIDENING_H_
