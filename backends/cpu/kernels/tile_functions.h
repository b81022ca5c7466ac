// Vectorised inner loops over a tile: one operation, one type, contiguous elements.
//
// Elements are in their compute type (ComputeType): small floats widened to f32 whose value the
// small type can hold, types below 8 bits as s8/u8 in range, pred as 0 or 1. Lookups return the
// loop compiled for this machine (Highway's run-time dispatch; plain loops are vectorised by the
// compiler), or null if the operation has no meaning for the type. `out` may equal an input
// exactly; other overlaps are not allowed. Rules of each operation: docs/semantics.md.
#ifndef GSHARD_BACKENDS_CPU_KERNELS_TILE_FUNCTIONS_H_
#define GSHARD_BACKENDS_CPU_KERNELS_TILE_FUNCTIONS_H_

#include <cstdint>

#include "ir/attributes.h"
#include "ir/dtype.h"
#include "ir/opcode.h"

// Before a loop whose steps do not depend on each other: an output is an input exactly, or apart.
#ifdef __clang__
#define GSHARD_INDEPENDENT_STEPS _Pragma("clang loop vectorize(assume_safety)")
#else
#define GSHARD_INDEPENDENT_STEPS _Pragma("GCC ivdep")
#endif

namespace gshard::cpu {

struct Tile {
  const void* in[3];
  void* out;
  int64_t count;
  int64_t parameter;  // bit width of integers; packed bits of reduce-precision; else unused
};
using TileFunction = void (*)(const Tile&);

// Type in which elements of `dtype` are held while computing.
DType ComputeType(DType dtype);
// Floats of at most 16 bits: computed as f32 and rounded.
bool IsSmallFloat(DType dtype);
bool IsSubByteInteger(DType dtype);

// Operations whose inputs all have the compute type `type` (select: not here). The result has it
// too, except: is-finite (pred), abs, real, imag of complex types (their real type).
// complex: inputs are the parts. Integer operations read the true bit width from Tile::parameter.
TileFunction ArithmeticFunction(Opcode opcode, DType type);
TileFunction FloatFunction(Opcode opcode, DType type);    // f32, f64: arithmetic
TileFunction MathFunction(Opcode opcode, DType type);     // f32, f64: transcendental
TileFunction IntegerFunction(Opcode opcode, DType type);  // integers and pred
// combine(left(x, c), right(x, width - c)) is rotate(x) with parameter c, 0 < c < width. Of
// elements of 4 and 8 bytes; null: of others.
struct Rotation {
  TileFunction combine = nullptr, left = nullptr, right = nullptr, rotate = nullptr;
};
Rotation RotationOf(int64_t element_bytes);
TileFunction ComplexFunction(Opcode opcode, DType type);  // c64, c128; complex of f32, f64

// Result pred. Complex types know only EQ and NE.
TileFunction CompareFunction(ComparisonDirection direction, bool total_order, DType type);
TileFunction RealCompareFunction(ComparisonDirection direction, bool total_order, DType type);
TileFunction ComplexCompareFunction(ComparisonDirection direction, DType type);
// pred ? a : b on elements of that many bytes.
TileFunction SelectFunction(int64_t element_bytes);
// Elements of that many bytes, as they are.
TileFunction CopyTileFunction(int64_t element_bytes);

// Between compute types, by the rules of convert; f32 to integers saturates at the storage width.
// Complex types only to and from their real type and each other.
TileFunction ConvertFunction(DType from, DType to);
TileFunction ComplexConvertFunction(DType from, DType to);
// To f32 with round to odd, so that a later rounding to a smaller float is exact. From f64 and
// 32/64-bit integers.
TileFunction ConvertToOddFunction(DType from);
// Small floats: stored bits -> f32; f32 -> stored bits; f32 -> nearest representable f32.
TileFunction LoadFunction(DType small);
TileFunction StoreFunction(DType small);
TileFunction RoundFunction(DType small);
// s8/u8 -> low bits of s1 .. u4, extended; and clamped to its range (after a conversion from
// float).
TileFunction WrapFunction(DType sub_byte);
TileFunction SaturateFunction(DType sub_byte);
// f64 x, u64 random -> f64 that the target type holds; parameter: DType | random bits << 8.
TileFunction StochasticRoundFunction();
// f32, f64, f16 as stored; parameter: exponent_bits | mantissa_bits << 8.
TileFunction ReducePrecisionFunction(DType type);

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_KERNELS_TILE_FUNCTIONS_H_
