// Attribute text of the fft family (see ir/attribute_table.h).
#include <cstddef>

#include "ir/attribute_table.h"

namespace gshard {
namespace {

using enum AttributeKind;

constexpr std::string_view kFftTypes[] = {"FFT", "IFFT", "RFFT", "IRFFT"};

constexpr AttributeRow kFft[] = {
    Attribute("fft_type", kEnum, offsetof(FftAttributes, type)).Words(kFftTypes),
    Attribute("fft_length", kDims, offsetof(FftAttributes, length)),
};

}  // namespace

std::span<const OpcodeAttributes> FftRows() {
  static constexpr OpcodeAttributes kTable[] = {
      {Opcode::kFft, kFft},
  };
  return kTable;
}

}  // namespace gshard
