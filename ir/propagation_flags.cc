#include "ir/propagation_flags.h"

namespace gshard {
namespace {

std::optional<std::string> FlagsProblem(std::string_view name, size_t flags, size_t wanted,
                                        std::string_view of) {
  if (flags <= 1 || flags == wanted) return std::nullopt;
  return std::string(name) + " must have one flag, or one per " + std::string(of) + ": expected " +
         std::to_string(wanted) + ", found " + std::to_string(flags);
}

}  // namespace

std::optional<std::string> ParameterFlagsProblem(std::string_view name, size_t flags,
                                                 const Computation& entry) {
  if (entry.parameter_count() == 1 && entry.parameter(0)->shape()->IsTuple()) {
    return FlagsProblem(name, flags, entry.parameter(0)->shape()->elements().size(),
                        "element of the parameter");
  }
  return FlagsProblem(name, flags, entry.parameters().size(), "parameter");
}

std::optional<std::string> OutputFlagsProblem(std::string_view name, size_t flags,
                                              const Computation& entry) {
  const Shape* result = entry.root()->shape();
  return FlagsProblem(name, flags, result->IsTuple() ? result->elements().size() : 1, "output");
}

}  // namespace gshard
