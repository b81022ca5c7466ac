#include "backends/cpu/run/rank_errors.h"

#include <fmt/format.h>

#include <string>
#include <utility>
#include <vector>

namespace gshard::cpu {

std::optional<Diagnostic> AgreeOnError(mpi::Ranks& ranks, const Diagnostic* mine) {
  std::string text;
  if (mine != nullptr) text = mine->code + "\n" + mine->message;
  const std::vector<std::string> all = ranks.AllGatherText(text, "the start");
  for (size_t r = 0; r < all.size(); ++r) {
    if (all[r].empty()) continue;
    const size_t end = all[r].find('\n');
    std::string code = all[r].substr(0, end);
    // The same error has a place where it was found.
    if (mine != nullptr && (r == 0 || ranks.rank() != 0 || mine->code == code)) return *mine;
    return MakeError(std::move(code), fmt::format("rank {}: {}", r, all[r].substr(end + 1)));
  }
  return std::nullopt;
}

}  // namespace gshard::cpu
