// Attribute text of the iota_constant family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kParameter[] = {
    Attribute("parameter_replication", kRaw, offsetof(ParameterAttributes, replication)).Optional(),
};
constexpr AttributeRow kIota[] = {
    Attribute("iota_dimension", kInt, offsetof(IotaAttributes, dimension)),
};

}  // namespace

std::span<const OpcodeAttributes> IotaConstantRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kParameter, kParameter},
      {Opcode::kIota, kIota},
  };
  return kTable;
}

}  // namespace gshard
