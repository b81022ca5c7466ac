// Several elementwise operations over the same elements, evaluated tile by tile so that temporaries
// stay in L1. Single elementwise instructions, fused chains and called scalar computations all run
// on it.
//
// A program is straight-line code over virtual registers (one tile each) plus structured loops for
// whiles inside scalar computations. Types: small floats are computed in f32 and rounded after
// every operation, types below 8 bits in a byte and wrapped. Immutable after Build; Run is
// thread-safe, allocates from Scratch only and gives the same bits for any split of the elements
// into ranges.
#ifndef GSHARD_BACKENDS_CPU_ELEMENTWISE_ELEMENTWISE_PROGRAM_H_
#define GSHARD_BACKENDS_CPU_ELEMENTWISE_ELEMENTWISE_PROGRAM_H_

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/arrays/strided.h"
#include "backends/cpu/elementwise/kernel.h"
#include "backends/cpu/kernels/tile_functions.h"
#include "ir/computation.h"
#include "ir/literal.h"

namespace gshard::cpu {

class ElementwiseProgram {
 public:
  using Value = int32_t;  // index of a value while building

  // --- building
  // Inputs are numbered in the order of these calls; so are the pointers given to Run.
  Value AddArrayInput(DType dtype);    // element i of the program is element i of the input
  Value AddUniformInput(DType dtype);  // one element for all
  // Reads through strides; `view` covers all elements of the program.
  Value AddViewInput(DType dtype, StridedView view);
  // Element i has value (i / inner) % size: an iota. Takes no pointer.
  Value AddIota(DType dtype, int64_t inner, int64_t size);
  // A scalar (or splat) constant; element 0 of the literal counts.
  Value AddConstant(const Literal& literal);
  Value AddZero(DType dtype);
  // The result of an elementwise instruction on values. Error: no meaning for the types (E-RUN-*).
  Expected<Value> AddInstruction(const Instruction& instruction, std::span<const Value> operands);
  // The same operation without an instruction around it.
  Value AddOperation(Opcode opcode, DType result, std::span<const Value> operands);
  Value AddConvert(Value value, DType to);
  Value AddBitcast(Value value, DType to);
  Value AddCompare(ComparisonDirection direction, bool total_order, Value a, Value b);
  Value AddSelect(Value pred, Value a, Value b);
  // A constant whose elements are all these bytes, of StorageBytes(dtype).
  Value AddConstantBytes(DType dtype, std::span<const std::byte> bytes);
  // All leaves of the root of a computation over scalars, called with `arguments` (leaves of its
  // parameters in order).
  Expected<std::vector<Value>> AddCall(const Computation& computation,
                                       std::span<const Value> arguments);
  // The value of one array instruction of a computation over scalars.
  Expected<Value> AddPartOfCall(const Computation& computation, const Instruction& part,
                                std::span<const Value> arguments);
  void AddOutput(Value value);
  // Fixes registers and tile size; nothing can be added afterwards. With `outputs_may_alias` any
  // output buffer may be that of any array input of the same element size.
  void Build(bool outputs_may_alias = false);
  // Runs of at most `count` elements, if these are few, need not write out the constants each time.
  // After Build.
  void KeepConstants(int64_t count);

  DType TypeOf(Value value) const { return values_[static_cast<size_t>(value)].dtype; }

  // --- running
  // Elements [first, first + count). Pointers of array inputs and of outputs are those of element
  // `first`; of uniform and view inputs, of their whole buffer. An output may equal an array input
  // if MayOverwrite says so.
  void Run(int64_t first, int64_t count, ConstBuffers inputs, Buffers outputs,
           Scratch& scratch) const;
  // True if every read of the (array) input comes before, or with, the write of output 0.
  bool MayOverwrite(int64_t input) const;

  int64_t input_count() const { return static_cast<int64_t>(inputs_.size()); }
  int64_t output_count() const { return static_cast<int64_t>(outputs_.size()); }
  bool IsArrayInput(int64_t input) const {
    return inputs_[static_cast<size_t>(input)].kind == InputKind::kArray;
  }
  // Iotas and views: the value of an element depends on its index.
  bool DependsOnPosition() const;
  // Operations on floats per element, an estimate.
  int64_t FlopsPerElement() const { return flops_; }

 private:
  enum class InputKind : uint8_t { kArray, kUniform, kView };
  enum class StepKind : uint8_t { kFunction, kSplat, kReadView, kIota, kWhile };
  using Register = int32_t;
  static constexpr Register kNone = -1;

  struct Input {
    InputKind kind;
    DType dtype;
    Register reg;
    StridedView view;
  };
  // A value in up to two forms: as stored, and as computed with. They are the same register for
  // most types.
  struct ValueInfo {
    DType dtype = DType::kPred;
    Register stored = kNone;
    Register computed = kNone;
    Register unrounded = kNone;  // f32 result of a small-float operation before rounding
    bool uniform = false;
  };
  struct RegisterInfo {
    int32_t bytes = 0;
    int32_t input = kNone;   // is the buffer of this array input
    int32_t output = kNone;  // is the buffer of this output
    int32_t slot = kNone;
    bool uniform = false;
  };
  struct Step {
    StepKind kind = StepKind::kFunction;
    TileFunction function = nullptr;
    Register in[3] = {kNone, kNone, kNone};
    Register out = kNone;
    int64_t parameter = 0;  // of the function; the input of kReadView and kSplat (-1: constants_)
    int64_t inner = 1, size = 1;          // kIota; kWhile: steps of the condition, of the body
    std::vector<Register> carried, next;  // kWhile: loop values and their successors
  };

  // A step of kFunction as it is run. Its registers are places in the list of pointers that a run
  // has: none, the slots, then the buffers of inputs and outputs.
  struct Operation {
    TileFunction function = nullptr;  // null: another kind of step
    int64_t parameter = 0;
    Register in[3] = {0, 0, 0};
    Register out = 0;
  };

  Value NewValue(DType dtype, Register stored, bool uniform);
  Register NewRegister(int64_t bytes, bool uniform);
  Register Stored(Value value);
  Register Computed(Value value);
  Register Emit(TileFunction function, std::span<const Register> in, int64_t bytes,
                int64_t parameter = 0);
  Value FromComputed(DType dtype, Register reg);  // a fresh result, rounded or wrapped as needed
  Value AddComplexParts(Opcode opcode, Value value);
  Value AddStochasticConvert(DType to, Value value, Value random);
  Value AddReducePrecision(const ReducePrecisionAttributes& to, Value value);
  Expected<std::vector<Value>> AddWhile(const Instruction& instruction,
                                        std::span<const Value> initial);
  Expected<std::vector<Value>> AddConditional(const Instruction& instruction,
                                              std::span<const std::vector<Value>> operands);
  // Forgets the forms that values below `saved.size()` took on since the copy was made.
  Expected<std::vector<Value>> AddCallUpTo(const Computation& computation, const Instruction& last,
                                           std::span<const Value> arguments);
  void RestoreForms(std::span<const ValueInfo> saved);
  void PlaceOutputs(bool outputs_may_alias);
  bool MayOverwriteAll() const;
  void JoinRotations();
  void AssignSlots();
  void NumberPointers();
  struct Frame;
  void RunSteps(size_t begin, size_t end, Frame& frame) const;
  void RunStep(const Step& step, Frame& frame) const;

  std::vector<Input> inputs_;
  std::vector<ValueInfo> values_;
  std::vector<RegisterInfo> registers_;
  std::vector<Step> steps_;
  std::vector<Operation> operations_;  // one a step
  std::vector<Value> output_values_;
  std::vector<Register> outputs_;
  std::vector<std::byte> constants_;
  std::vector<int64_t> slot_offsets_;  // in bytes per element of a tile
  int64_t bytes_per_element_ = 0;      // of all slots
  int64_t tile_ = 1024;
  std::vector<Register> moving_;  // registers that are buffers of inputs or outputs
  size_t splats_ = 0;             // the first steps write out constants
  size_t prologue_ = 0;           // the first steps are uniform: run once
  int64_t kept_elements_ = 0;     // of each constant in `kept_`
  std::vector<std::byte> kept_;   // constants of tiles, in the order of the first steps
  int loop_depth_ = 0;            // while building: inside how many while loops
  int64_t flops_ = 0;
  bool has_while_ = false;
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_ELEMENTWISE_ELEMENTWISE_PROGRAM_H_
