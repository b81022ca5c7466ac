#include "core/report/failed_check.h"

namespace gshard {

Json FailedChecksAsJson(std::span<const FailedCheck> failed) {
  auto number = [](const std::optional<double>& value) { return value ? Json(*value) : Json(); };
  Json rows = Json::Array();
  for (const FailedCheck& check : failed) {
    rows.Append({{"check", check.check},
                 {"message", check.message},
                 {"key", check.key},
                 {"value", number(check.value)},
                 {"allowed", number(check.allowed)}});
  }
  return rows;
}

}  // namespace gshard
