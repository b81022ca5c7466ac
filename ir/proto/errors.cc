#include "ir/proto/errors.h"

#include <fmt/format.h>

namespace gshard::proto {

bool Errors::Fail(Error error, std::string message) {
  if (first_.has_value()) return false;
  constexpr const char* kCodes[] = {"E-PROTO-001", "E-PROTO-002", "E-PROTO-003"};
  std::string where;
  if (!name_.empty()) where = fmt::format("{} '{}': ", kind_, name_);
  const char* begin = source_->text().data();
  std::string at;
  if (place_.data() >= begin && place_.data() <= begin + source_->text().size()) {
    at = fmt::format(" (byte {})", place_.data() - begin);
  }
  first_ = MakeError(kCodes[static_cast<int>(error)], where + std::move(message) + at);
  first_->file = source_->name();
  return false;
}

bool Errors::Damaged(std::string_view what) {
  return Fail(Error::kDamaged, fmt::format("{} is cut short or damaged", what));
}

}  // namespace gshard::proto
