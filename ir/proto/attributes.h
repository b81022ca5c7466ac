// The own attributes of an instruction from its proto, as ir/attributes.h has them.
#ifndef GSHARD_IR_PROTO_ATTRIBUTES_H_
#define GSHARD_IR_PROTO_ATTRIBUTES_H_

#include <span>

#include "ir/module.h"
#include "ir/proto/errors.h"
#include "ir/proto/instruction_proto.h"
#include "ir/proto/shapes.h"
#include "ir/text_hash.h"
#include "tsl/robin_map.h"

namespace gshard::proto {

class AttributeReader {
 public:
  AttributeReader(Module& module, ShapeReader& shapes, Errors& errors)
      : module_(module), shapes_(shapes), errors_(errors) {}

  // Attributes of `opcode` in the module's arena; null after an error.
  void* Read(Opcode opcode, const InstructionProto& proto, const Shape* shape,
             std::span<Instruction* const> operands);

 private:
  template <typename T>
  T* New(T attributes) {
    return module_.arena().New<T>(attributes);
  }
  void* Fail(std::string message);
  Dims Copy(std::span<const int64_t> values) { return module_.arena().Copy(values); }
  // A repeated integer field of a message; nothing after an error.
  bool ReadList(std::string_view message, uint32_t number, Dims& dims);
  // The first dimension, or -1.
  int64_t OneDimension(const InstructionProto& proto) const {
    return proto.dimensions.empty() ? -1 : proto.dimensions[0];
  }

  void* Literal(const InstructionProto& proto, const Shape* shape);
  void* Compare(const InstructionProto& proto, std::span<Instruction* const> operands);
  void* Slice(const InstructionProto& proto, std::span<Instruction* const> operands);
  void* Pad(const InstructionProto& proto);
  void* Dot(const InstructionProto& proto);
  void* Convolution(const InstructionProto& proto, std::span<Instruction* const> operands,
                    const Shape* shape);
  void* Gather(const InstructionProto& proto);
  void* Scatter(const InstructionProto& proto);
  void* TriangularSolve(const InstructionProto& proto);
  void* Domain(const InstructionProto& proto);
  void* Collective(Opcode opcode, const InstructionProto& proto);
  void* CustomCall(const InstructionProto& proto, std::span<Instruction* const> operands,
                   const Shape* shape);
  void* Other(Opcode opcode, const InstructionProto& proto);
  void* Calling(Opcode opcode, const InstructionProto& proto);

  bool Window(std::string_view bytes, std::span<const WindowDim>& window);
  bool Precisions(std::string_view bytes, std::span<const Precision>& precision,
                  std::string_view* algorithm);
  bool DimLabels(const InstructionProto& proto, std::span<Instruction* const> operands,
                 const Shape* shape, ConvolutionAttributes& convolution);
  bool Groups(const InstructionProto& proto, const ReplicaGroups*& groups);
  bool Pairs(const InstructionProto& proto, std::span<const DevicePair>& pairs);
  bool Aliasing(const InstructionProto& proto, std::string_view& text);
  bool OneEnum(int64_t value, int64_t count, std::string_view what);

  Module& module_;
  ShapeReader& shapes_;
  Errors& errors_;
  tsl::robin_map<std::string_view, const ReplicaGroups*, TextHash> groups_;
};

}  // namespace gshard::proto

#endif  // GSHARD_IR_PROTO_ATTRIBUTES_H_
