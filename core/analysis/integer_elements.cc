#include "core/analysis/integer_elements.h"

namespace gshard {

bool IsIntegral(const Shape* shape) {
  if (!shape->IsArray()) return false;
  const DTypeClass type = ClassOf(shape->dtype());
  if (type == DTypeClass::kUnsigned) return DTypeBits(shape->dtype()) < 64;
  return type != DTypeClass::kFloat && type != DTypeClass::kComplex;
}

int64_t RowMajor(std::span<const int64_t> dims, std::span<const int64_t> index) {
  int64_t at = 0;
  for (size_t i = 0; i < dims.size(); ++i) at = at * dims[i] + index[i];
  return at;
}

std::vector<int64_t> IndexAt(std::span<const int64_t> dims, int64_t at) {
  std::vector<int64_t> index(dims.size());
  for (size_t i = dims.size(); i-- > 0;) {
    index[i] = at % dims[i];
    at /= dims[i];
  }
  return index;
}

}  // namespace gshard
