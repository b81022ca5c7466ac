#include "core/cost/memory/donated_results.h"

namespace gshard {
namespace {

// The leaf that an index into a tuple names, tuples flattened; SIZE_MAX: there is none.
size_t LeafAt(const Shape* shape, std::span<const int64_t> index) {
  size_t leaf = 0;
  for (int64_t i : index) {
    if (!shape->IsTuple() || i < 0 || i >= static_cast<int64_t>(shape->elements().size()))
      return SIZE_MAX;
    leaf += static_cast<size_t>(shape->first_leaf(i));
    shape = shape->element(i);
  }
  return shape->IsTuple() ? SIZE_MAX : leaf;
}

size_t ParameterLeaf(const Computation& entry, int64_t number, std::span<const int64_t> index) {
  if (number < 0 || number >= entry.parameter_count()) return SIZE_MAX;
  size_t leaf = LeafAt(entry.parameter(number)->shape(), index);
  if (leaf == SIZE_MAX) return SIZE_MAX;
  for (int64_t k = 0; k < number; ++k)
    leaf += static_cast<size_t>(entry.parameter(k)->shape()->leaf_count());
  return leaf;
}

}  // namespace

std::vector<int32_t> ArgumentsOfResults(const Module& module, std::span<const int64_t> result_bytes,
                                        std::span<const int64_t> argument_bytes) {
  const Computation& entry = *module.entry();
  const ModuleHeader& header = module.header();
  std::vector<int32_t> argument_of(result_bytes.size(), -1);
  std::vector<bool> has_result(argument_bytes.size(), false);
  const auto place = [&](size_t result, size_t argument) {
    argument_of[result] = static_cast<int32_t>(argument);
    has_result[argument] = true;
  };
  for (const ModuleHeader::Alias& alias : header.input_output_alias) {
    const size_t result = LeafAt(entry.root()->shape(), alias.output_index);
    const size_t argument = ParameterLeaf(entry, alias.parameter, alias.parameter_index);
    if (result < argument_of.size() && argument < has_result.size()) place(result, argument);
  }
  for (const ModuleHeader::Donor& donor : header.buffer_donor) {
    const size_t argument = ParameterLeaf(entry, donor.parameter, donor.index);
    if (argument >= has_result.size() || has_result[argument]) continue;
    for (size_t result = 0; result < argument_of.size(); ++result) {
      if (argument_of[result] >= 0 || result_bytes[result] != argument_bytes[argument]) continue;
      place(result, argument);
      break;
    }
  }
  return argument_of;
}

}  // namespace gshard
