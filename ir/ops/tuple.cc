// Attribute text of the tuple family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr AttributeRow kGetTupleElement[] = {
    Attribute("index", kInt, offsetof(GetTupleElementAttributes, index)),
};
constexpr AttributeRow kDomain[] = {
    Attribute("domain", kRaw, offsetof(DomainAttributes, domain)),
};
constexpr AttributeRow kCopyStart[] = {
    Attribute("cross_program_prefetch_index", kInt,
              offsetof(CopyStartAttributes, cross_program_prefetch_index))
        .OmittedIf(-1),
};

}  // namespace

std::span<const OpcodeAttributes> TupleRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kGetTupleElement, kGetTupleElement},
      {Opcode::kDomain, kDomain},
      {Opcode::kCopyStart, kCopyStart},
  };
  return kTable;
}

}  // namespace gshard
