// Stochastic rounding: to one of the two neighbours in the target type, the farther one with a
// probability equal to the share of the gap that x has covered.
#include <cmath>
#include <cstdint>
#include <limits>

#include "backends/cpu/kernels/tile_functions.h"
#include "ir/literal.h"

namespace gshard::cpu {
namespace {

double Round(DType to, double x) {
  if (!IsFloat(to)) return std::nearbyint(x);
  if (to == DType::kF64) return x;
  if (to == DType::kF32) return static_cast<double>(static_cast<float>(x));
  return DecodeSmallFloat(to, EncodeSmallFloat(to, x));
}

// The value of the type next to `nearest` on the side of x.
double Neighbour(DType to, double nearest, double x) {
  if (!IsFloat(to)) return nearest + (x > nearest ? 1 : -1);
  if (to == DType::kF32) {
    return static_cast<double>(std::nextafter(
        static_cast<float>(nearest), x > nearest ? std::numeric_limits<float>::infinity()
                                                 : -std::numeric_limits<float>::infinity()));
  }
  // Bits of one sign are ordered by magnitude; zero's neighbour is the smallest denormal.
  const bool away = std::fabs(x) > std::fabs(nearest);
  const uint16_t bits = EncodeSmallFloat(to, std::fabs(nearest));
  const double magnitude = DecodeSmallFloat(to, static_cast<uint16_t>(away ? bits + 1 : bits - 1));
  return std::copysign(magnitude, x);
}

void StochasticRound(const Tile& tile) {
  const double* in = static_cast<const double*>(tile.in[0]);
  const uint64_t* random = static_cast<const uint64_t*>(tile.in[1]);
  double* out = static_cast<double*>(tile.out);
  const DType to = static_cast<DType>(tile.parameter & 0xff);
  const int random_bits = static_cast<int>(tile.parameter >> 8);
  for (int64_t i = 0; i < tile.count; ++i) {
    const double x = in[i];
    const double nearest = Round(to, x);
    out[i] = nearest;
    if (nearest == x || !std::isfinite(x) || !std::isfinite(nearest)) continue;
    const double other = Neighbour(to, nearest, x);
    const double unit = std::ldexp(static_cast<double>(random[i]), -random_bits);
    if (unit < (x - nearest) / (other - nearest)) out[i] = other;
  }
}

}  // namespace

TileFunction StochasticRoundFunction() { return &StochasticRound; }

}  // namespace gshard::cpu
