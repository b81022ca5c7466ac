// Which family of loops serves an operation on a type.
#include "backends/cpu/kernels/tile_functions.h"

#include <cstring>

#include "ir/diagnostic.h"

namespace gshard::cpu {
namespace {

template <int64_t kBytes>
void CopyTile(const Tile& tile) {
  if (tile.out == tile.in[0]) return;
  std::memcpy(tile.out, tile.in[0], static_cast<size_t>(tile.count * kBytes));
}

}  // namespace

TileFunction CopyTileFunction(int64_t element_bytes) {
  switch (element_bytes) {
    case 1:
      return &CopyTile<1>;
    case 2:
      return &CopyTile<2>;
    case 4:
      return &CopyTile<4>;
    case 8:
      return &CopyTile<8>;
    case 16:
      return &CopyTile<16>;
    default:
      throw InternalError("element size of a copy");
  }
}

DType ComputeType(DType dtype) {
  if (IsSmallFloat(dtype)) return DType::kF32;
  switch (dtype) {
    case DType::kS1:
    case DType::kS2:
    case DType::kS4:
      return DType::kS8;
    case DType::kU1:
    case DType::kU2:
    case DType::kU4:
      return DType::kU8;
    default:
      return dtype;
  }
}

bool IsSmallFloat(DType dtype) {
  return IsFloat(dtype) && dtype != DType::kF32 && dtype != DType::kF64;
}

bool IsSubByteInteger(DType dtype) { return IsInteger(dtype) && DTypeBits(dtype) < 8; }

TileFunction ArithmeticFunction(Opcode opcode, DType type) {
  if (opcode == Opcode::kComplex || IsComplex(type)) return ComplexFunction(opcode, type);
  if (IsFloat(type)) {
    const TileFunction function = FloatFunction(opcode, type);
    return function != nullptr ? function : MathFunction(opcode, type);
  }
  return IntegerFunction(opcode, type);
}

TileFunction CompareFunction(ComparisonDirection direction, bool total_order, DType type) {
  return IsComplex(type) ? ComplexCompareFunction(direction, type)
                         : RealCompareFunction(direction, total_order, type);
}

}  // namespace gshard::cpu
