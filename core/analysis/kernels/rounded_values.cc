// Follows copies to those who read them. See rounded_values.h.

#include "core/analysis/kernels/rounded_values.h"

#include <algorithm>
#include <vector>

#include "ir/op_traits.h"

namespace gshard {
namespace {

bool RoundsOperands(const Instruction* x) {
  if (x->opcode() == Opcode::kConvert) return x->shape()->dtype() == DType::kBF16;
  std::span<const Precision> precision;
  if (x->opcode() == Opcode::kDot) {
    const auto& attributes = x->attributes<DotAttributes>();
    if (!attributes.algorithm.empty()) return false;
    precision = attributes.precision;
  } else if (x->opcode() == Opcode::kConvolution) {
    precision = x->attributes<ConvolutionAttributes>().precision;
  } else {
    return false;
  }
  return std::ranges::all_of(precision, [](Precision p) { return p == Precision::kDefault; });
}

// Is the element of the tuple that x reads passed on unchanged by the loop's body?
bool IsElement(const Instruction* x, const Instruction* tuple, int64_t index) {
  return x->opcode() == Opcode::kGetTupleElement && x->operand(0) == tuple &&
         x->attributes<GetTupleElementAttributes>().index == index;
}

// Walks from a copy to all who read it.
class ReaderWalk {
 public:
  explicit ReaderWalk(const Users& users) : users_(users) {}

  // The copy and the other names of what it holds; empty if anything reads all of its bits, or no
  // loop is given it.
  std::vector<const Instruction*> Run(const Instruction* copy) {
    names_ = {copy};
    for (size_t i = 0; i < names_.size(); ++i) {
      if (!AddUsers(names_[i])) return {};
    }
    return is_rounded_ && is_carried_ ? std::move(names_) : std::vector<const Instruction*>();
  }

 private:
  bool AddUsers(const Instruction* x) {
    if (x == x->parent()->root()) return false;
    for (const Instruction* user : users_.of(x)) {
      if (RoundsOperands(user)) {
        is_rounded_ = true;
      } else if (user->opcode() == Opcode::kTuple) {
        if (!AddCarried(x, user)) return false;
      } else if (MovesOneArray(user->opcode()) && user->operand(0) == x &&
                 MotionOf(user->opcode()) != Motion::kRepeats) {
        Add(user);
      } else {
        return false;
      }
    }
    return true;
  }

  // A tuple that is a body's root passes x on as what it is; others have to start loops.
  bool AddCarried(const Instruction* x, const Instruction* tuple) {
    if (tuple == tuple->parent()->root()) {
      for (int64_t i = 0; i < tuple->operand_count(); ++i) {
        if (tuple->operand(i) != x) continue;
        const bool is_unchanged = x->opcode() == Opcode::kGetTupleElement &&
                                  x->operand(0)->opcode() == Opcode::kParameter &&
                                  IsElement(x, x->operand(0), i);
        if (!is_unchanged) return false;
      }
      return true;
    }
    for (const Instruction* loop : users_.of(tuple)) {
      if (loop->opcode() != Opcode::kWhile) return false;
      for (int64_t i = 0; i < tuple->operand_count(); ++i) {
        if (tuple->operand(i) == x && !AddLoop(loop, i)) return false;
      }
    }
    return true;
  }

  bool AddLoop(const Instruction* loop, int64_t index) {
    const Instruction* root = loop->called(1)->root();
    const Instruction* state = loop->called(1)->parameter(0);
    if (root->opcode() != Opcode::kTuple || !IsElement(root->operand(index), state, index)) {
      return false;
    }
    is_carried_ = true;
    const Instruction* const tuples[] = {state, loop->called(0)->parameter(0), loop};
    for (const Instruction* tuple : tuples) {
      if (tuple == tuple->parent()->root()) return false;
      for (const Instruction* element : users_.of(tuple)) {
        if (element->opcode() != Opcode::kGetTupleElement) return false;
        if (IsElement(element, tuple, index)) Add(element);
      }
    }
    return true;
  }

  void Add(const Instruction* x) {
    if (std::ranges::find(names_, x) == names_.end()) names_.push_back(x);
  }

  const Users& users_;
  std::vector<const Instruction*> names_;
  bool is_rounded_ = false, is_carried_ = false;
};

}  // namespace

RoundedValues::RoundedValues(const Module& module, const Users& users) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      const bool is_copy = x->opcode() == Opcode::kTranspose && x->shape()->dtype() == DType::kF32;
      if (!is_copy || Has(x)) continue;
      for (const Instruction* name : ReaderWalk(users).Run(x)) values_.insert(name);
    }
  }
}

}  // namespace gshard
