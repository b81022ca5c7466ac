// The header against the entry computation.
#include <algorithm>
#include <utility>
#include <vector>

#include "ir/dims.h"
#include "ir/propagation_flags.h"
#include "ir/shape_inference.h"
#include "ir/verify/checks.h"

namespace gshard {

namespace {

using Problem = std::optional<std::string>;

std::string IndexText(const std::vector<int64_t>& index) {
  std::string text = "{";
  for (size_t i = 0; i < index.size(); ++i) {
    if (i > 0) text += ',';
    text += std::to_string(index[i]);
  }
  return text + "}";
}

Problem CheckLayout(const ModuleHeader& header, const Computation& entry) {
  if (header.entry_result_layout == nullptr) return std::nullopt;
  const size_t parameters = entry.parameters().size();
  if (header.entry_parameter_layouts.size() != parameters) {
    return "entry_computation_layout must have one shape per parameter: expected " +
           std::to_string(parameters) + ", found " +
           std::to_string(header.entry_parameter_layouts.size());
  }
  for (size_t k = 0; k < parameters; ++k) {
    const Shape* declared = header.entry_parameter_layouts[k];
    const Shape* actual = entry.parameters()[k]->shape();
    if (!SameUpToDynamic(declared, actual)) {
      return "entry_computation_layout gives " + ToString(declared, false) + " for parameter " +
             std::to_string(k) + ", which is " + ToString(actual, false);
    }
  }
  if (!SameUpToDynamic(header.entry_result_layout, entry.root()->shape())) {
    return "entry_computation_layout gives " + ToString(header.entry_result_layout, false) +
           " for the result, which is " + ToString(entry.root()->shape(), false);
  }
  return std::nullopt;
}

// The part of a parameter, or null with a problem.
Problem FindParameterPart(const Computation& entry, std::string_view attribute, int64_t parameter,
                          const std::vector<int64_t>& index, const Shape*& part) {
  if (parameter < 0 || parameter >= entry.parameter_count()) {
    return std::string(attribute) + " names parameter " + std::to_string(parameter) + " of " +
           std::to_string(entry.parameter_count());
  }
  const Shape* shape = entry.parameter(parameter)->shape();
  part = ShapePart(shape, index);
  if (part == nullptr) {
    return std::string(attribute) + " names part " + IndexText(index) + " of parameter " +
           std::to_string(parameter) + ", which is " + ToString(shape, false);
  }
  return std::nullopt;
}

using ParameterPart = std::pair<int64_t, std::vector<int64_t>>;

Problem CheckAliases(const ModuleHeader& header, const Computation& entry) {
  std::vector<std::vector<int64_t>> outputs;
  std::vector<ParameterPart> taken;
  for (const ModuleHeader::Alias& alias : header.input_output_alias) {
    const Shape* output = ShapePart(entry.root()->shape(), alias.output_index);
    if (output == nullptr) {
      return "input_output_alias names output " + IndexText(alias.output_index) + " of " +
             ToString(entry.root()->shape(), false);
    }
    const Shape* input = nullptr;
    if (Problem problem = FindParameterPart(entry, "input_output_alias", alias.parameter,
                                            alias.parameter_index, input)) {
      return problem;
    }
    // XLA's compiler for TPUs pairs what takes as many tiles: f32[16] and f32[64], one each.
    if (!header.is_scheduled && output->byte_size() != input->byte_size()) {
      return "input_output_alias pairs output " + IndexText(alias.output_index) + ", " +
             ToString(output, false) + ", with parameter " + std::to_string(alias.parameter) + " " +
             IndexText(alias.parameter_index) + ", " + ToString(input, false) +
             ": their sizes differ";
    }
    outputs.push_back(alias.output_index);
    taken.emplace_back(alias.parameter, alias.parameter_index);
  }
  std::sort(outputs.begin(), outputs.end());
  if (auto twice = std::adjacent_find(outputs.begin(), outputs.end()); twice != outputs.end()) {
    return "input_output_alias names output " + IndexText(*twice) + " twice";
  }
  for (const ModuleHeader::Donor& donor : header.buffer_donor) {
    const Shape* input = nullptr;
    if (Problem problem =
            FindParameterPart(entry, "buffer_donor", donor.parameter, donor.index, input)) {
      return problem;
    }
    taken.emplace_back(donor.parameter, donor.index);
  }
  std::sort(taken.begin(), taken.end());
  if (auto twice = std::adjacent_find(taken.begin(), taken.end()); twice != taken.end()) {
    return "parameter " + std::to_string(twice->first) + " " + IndexText(twice->second) +
           " is given away twice by input_output_alias and buffer_donor";
  }
  return std::nullopt;
}

}  // namespace

std::optional<std::string> CheckHeader(const Module& module) {
  const ModuleHeader& header = module.header();
  const Computation& entry = *module.entry();
  if (header.replica_count < 1 || header.num_partitions < 1) {
    return "replica_count and num_partitions must be positive, found " +
           std::to_string(header.replica_count) + " and " + std::to_string(header.num_partitions);
  }
  if (Problem problem = CheckLayout(header, entry)) return problem;
  if (Problem problem = CheckAliases(header, entry)) return problem;
  if (Problem problem = ParameterFlagsProblem("allow_spmd_sharding_propagation_to_parameters",
                                              header.propagation_to_parameters.size(), entry)) {
    return problem;
  }
  return OutputFlagsProblem("allow_spmd_sharding_propagation_to_output",
                            header.propagation_to_output.size(), entry);
}

}  // namespace gshard
