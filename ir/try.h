// One line for what may fail: the value, or the error to the caller.
//
//   const auto run = GSHARD_TRY(MeshRun::Prepare(program, inputs, options));
//   GSHARD_TRY(run->Start());
#ifndef GSHARD_IR_TRY_H_
#define GSHARD_IR_TRY_H_

#include <utility>

#include "ir/diagnostic.h"

namespace gshard {

template <typename T>
T TakeValue(Expected<T>&& from) {
  return *std::move(from);
}
inline void TakeValue(Expected<void>&& /*from*/) {}

}  // namespace gshard

// An expression: what an Expected<T> holds. If it holds an error the function that this stands in,
// which returns an Expected of any type, returns the error.
#define GSHARD_TRY(...)                                                       \
  __extension__({                                                             \
    auto gshard_tried = (__VA_ARGS__);                                        \
    if (!gshard_tried) return ::gshard::Fail(std::move(gshard_tried).error()); \
    ::gshard::TakeValue(std::move(gshard_tried));                             \
  })

#endif  // GSHARD_IR_TRY_H_
