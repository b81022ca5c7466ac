// Tuples in a step that is divided into stages.
//
// What crosses from stage to stage, or is kept for a later pass, is an array. So a tuple that is an
// operand is always put together from arrays where it is used:
//
//   w = (f32[8], s32[]) while(..)          w = (f32[8], s32[]) while(..)
//   v = .. while(w), ..                    a = get-tuple-element(w), index=0
//                                          b = get-tuple-element(w), index=1
//                                          v = .. while(tuple(a, b)), ..
//
// LayerGraph places elements of a tuple where the tuple is, and gives `tuple` itself no place.
#ifndef GSHARD_CORE_PIPELINE_PLAN_TUPLE_ELEMENTS_H_
#define GSHARD_CORE_PIPELINE_PLAN_TUPLE_ELEMENTS_H_

#include "ir/module.h"

namespace gshard::pipeline {

// Makes the root of the entry a `tuple` where it is another operation with several results.
void TakeResultApart(Module& module);
// Afterwards only get-tuple-element reads a tuple of the entry that is not made by `tuple`.
void TakeTuplesApart(Module& module);

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_PLAN_TUPLE_ELEMENTS_H_
