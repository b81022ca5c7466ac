// While loops as passes like them: a state tuple that is taken apart at once and put together last.
#ifndef GSHARD_CORE_TRANSFORMS_LOOP_PARTS_H_
#define GSHARD_CORE_TRANSFORMS_LOOP_PARTS_H_

#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "ir/builder.h"

namespace gshard {

// How many call sites each computation has.
class CallSites {
 public:
  explicit CallSites(const Module& module);
  int64_t Count(const Computation* computation) const;

 private:
  std::unordered_map<const Computation*, int64_t> count_;
};

// A loop whose body and condition nobody else calls and read their parameter by get-tuple-element
// only, and whose body ends in a tuple.
struct LoopParts {
  Instruction* loop = nullptr;
  Computation* condition = nullptr;
  Computation* body = nullptr;
  Instruction* condition_state = nullptr;  // the parameters
  Instruction* body_state = nullptr;

  // The value of element i at the end of an iteration.
  Instruction* Next(int64_t i) const { return body->root()->operand(i); }
  int64_t size() const { return body->root()->operand_count(); }
  // The value of element i on entry, made by `builder` if need be.
  Instruction* Init(Builder& builder, int64_t i) const {
    return builder.GetTupleElement(loop->operand(0), i);
  }
};
std::optional<LoopParts> PartsOf(Instruction* loop, const CallSites& sites);

// Does whoever reads `tuple` in its computation read one element of it?
bool IsReadByElement(const Instruction* tuple);

// i if x is element i of the state `parameter`; else nothing.
std::optional<int64_t> ElementOf(const Instruction* x, const Instruction* parameter);

// Replaces the values on entry; `builder` is of the computation that holds the loop, at the loop.
// The body and the root of the body must be brought into line by the caller.
void SetState(const LoopParts& parts, Builder& builder, std::span<Instruction* const> inits);

}  // namespace gshard

#endif  // GSHARD_CORE_TRANSFORMS_LOOP_PARTS_H_
