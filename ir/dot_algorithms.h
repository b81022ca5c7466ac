// Names of the algorithms that a dot may ask for.
#ifndef GSHARD_IR_DOT_ALGORITHMS_H_
#define GSHARD_IR_DOT_ALGORITHMS_H_

#include <array>
#include <string_view>

namespace gshard {

// By the numbers of PrecisionConfig.Algorithm in HLO protos; the first one is unset.
inline constexpr std::array<std::string_view, 14> kDotAlgorithms = {
    "",
    "dot_any_f8_any_f8_f32",
    "dot_any_f8_any_f8_f32_fast_accum",
    "dot_f16_f16_f16",
    "dot_f16_f16_f32",
    "dot_bf16_bf16_bf16",
    "dot_bf16_bf16_f32",
    "dot_bf16_bf16_f32_x3",
    "dot_bf16_bf16_f32_x6",
    "dot_tf32_tf32_f32",
    "dot_tf32_tf32_f32_x3",
    "dot_f32_f32_f32",
    "dot_f64_f64_f64",
    "dot_bf16_bf16_f32_x9",
};

}  // namespace gshard

#endif  // GSHARD_IR_DOT_ALGORITHMS_H_
