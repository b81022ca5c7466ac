// The dims of convolutions by their labels: b01f_01io->b01f.
#ifndef GSHARD_IR_DIM_LABELS_H_
#define GSHARD_IR_DIM_LABELS_H_

#include <optional>
#include <string>
#include <string_view>

#include "ir/arena.h"
#include "ir/attributes.h"

namespace gshard {

struct WrongLabels {
  std::string_view labels;  // those of one array
  std::string message;
};

// "b01f_01io->b01f" of where the dims of each role are; dims of no role are '?'.
std::string DimLabelsOf(const ConvolutionAttributes& convolution);

// Fills in the dim of each role from convolution.dim_labels, which has the form above; the spatial
// ones in the order of their digits. The window is not looked at.
std::optional<WrongLabels> PlaceDimLabels(Arena& arena, ConvolutionAttributes& convolution);

}  // namespace gshard

#endif  // GSHARD_IR_DIM_LABELS_H_
