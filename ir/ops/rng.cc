// Attribute text of the rng family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr std::string_view kDistributions[] = {"rng_uniform", "rng_normal"};
constexpr std::string_view kRngAlgorithms[] = {"rng_default", "rng_three_fry", "rng_philox"};

constexpr AttributeRow kRng[] = {
    Attribute("distribution", kEnum, offsetof(RngAttributes, distribution)).Words(kDistributions),
};
constexpr AttributeRow kRngBitGenerator[] = {
    Attribute("algorithm", kEnum, offsetof(RngBitGeneratorAttributes, algorithm))
        .Words(kRngAlgorithms),
};
constexpr AttributeRow kRngState[] = {
    Attribute("delta", kInt, offsetof(RngStateAttributes, delta)),
};

}  // namespace

std::span<const OpcodeAttributes> RngRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kRng, kRng},
      {Opcode::kRngBitGenerator, kRngBitGenerator},
      {Opcode::kRngGetAndUpdateState, kRngState},
  };
  return kTable;
}

}  // namespace gshard
