#include "ir/dim_labels.h"

#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <span>

namespace gshard {
namespace {

std::string Labels(char first, int64_t first_dim, char second, int64_t second_dim, Dims spatial) {
  std::string text(spatial.size() + 2, '?');
  text[static_cast<size_t>(first_dim)] = first;
  text[static_cast<size_t>(second_dim)] = second;
  for (size_t i = 0; i < spatial.size(); ++i) {
    text[static_cast<size_t>(spatial[i])] = static_cast<char>('0' + i);
  }
  return text;
}

}  // namespace

std::string DimLabelsOf(const ConvolutionAttributes& c) {
  return Labels('b', c.input_batch, 'f', c.input_feature, c.input_spatial) + "_" +
         Labels('i', c.kernel_input_feature, 'o', c.kernel_output_feature, c.kernel_spatial) +
         "->" + Labels('b', c.output_batch, 'f', c.output_feature, c.output_spatial);
}

std::optional<WrongLabels> PlaceDimLabels(Arena& arena, ConvolutionAttributes& convolution) {
  const std::string_view labels = convolution.dim_labels;
  const size_t underscore = labels.find('_');
  const size_t arrow = labels.find("->");
  const std::string_view parts[3] = {labels.substr(0, underscore),
                                     labels.substr(underscore + 1, arrow - underscore - 1),
                                     labels.substr(arrow + 2)};
  struct Roles {
    char first, second;
    int64_t *first_dim, *second_dim;
    Dims* spatial;
  };
  const Roles roles[3] = {
      {'b', 'f', &convolution.input_batch, &convolution.input_feature, &convolution.input_spatial},
      {'i', 'o', &convolution.kernel_input_feature, &convolution.kernel_output_feature,
       &convolution.kernel_spatial},
      {'b', 'f', &convolution.output_batch, &convolution.output_feature,
       &convolution.output_spatial},
  };
  for (size_t part = 0; part < 3; ++part) {
    const std::string_view text = parts[part];
    *roles[part].first_dim = *roles[part].second_dim = -1;
    int64_t spatial[10];
    std::fill(std::begin(spatial), std::end(spatial), -1);
    size_t spatial_count = 0;
    bool ok = true;
    for (size_t i = 0; i < text.size(); ++i) {
      int64_t* slot = nullptr;
      if (text[i] >= '0' && text[i] <= '9') {
        slot = &spatial[text[i] - '0'];
        ++spatial_count;
      } else if (text[i] == roles[part].first) {
        slot = roles[part].first_dim;
      } else if (text[i] == roles[part].second) {
        slot = roles[part].second_dim;
      } else if (text[i] == '?') {
        continue;
      }
      if (slot == nullptr || *slot >= 0) {
        ok = false;
        break;
      }
      *slot = static_cast<int64_t>(i);
    }
    for (size_t i = 0; i < spatial_count && ok; ++i) ok = spatial[i] >= 0;
    if (!ok || *roles[part].first_dim < 0 || *roles[part].second_dim < 0) {
      return WrongLabels{
          text, fmt::format("'{}' must have '{}', '{}' and the digits from 0, each once", text,
                            roles[part].first, roles[part].second)};
    }
    *roles[part].spatial = arena.Copy(std::span<const int64_t>(spatial, spatial_count));
  }
  return std::nullopt;
}

}  // namespace gshard
