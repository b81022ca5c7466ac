// Masked shares that were found before: layers of a program mask alike, and a search prices one
// program over and over.
#ifndef GSHARD_CORE_ANALYSIS_ATTENTION_KNOWN_MASKED_SHARES_H_
#define GSHARD_CORE_ANALYSIS_ATTENTION_KNOWN_MASKED_SHARES_H_

#include <cstdint>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

namespace gshard {

// By all that a share depends on, whatever module it is of (PositionValues::AppendKey).
// Thread-safe.
class KnownMaskedShares {
 public:
  using Key = std::vector<uint64_t>;

  // Nothing: it is not known yet.
  std::optional<double> Find(const Key& key) const {
    const std::lock_guard lock(mutex_);
    const auto found = shares_.find(key);
    if (found == shares_.end()) return std::nullopt;
    return found->second;
  }
  void Add(Key key, double share) {
    const std::lock_guard lock(mutex_);
    shares_.emplace(std::move(key), share);
  }

 private:
  mutable std::mutex mutex_;
  std::map<Key, double> shares_;
};

}  // namespace gshard

#endif  // GSHARD_CORE_ANALYSIS_ATTENTION_KNOWN_MASKED_SHARES_H_
