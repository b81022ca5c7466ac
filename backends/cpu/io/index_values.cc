#include "backends/cpu/io/index_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "backends/cpu/arrays/fill.h"
#include "ir/dims.h"

namespace gshard::cpu {
namespace {

constexpr int64_t kMaxPlaces = 1 << 21;  // strata: times a range of an index, it fits int64_t
constexpr int64_t kBeyondShare = 16;     // of the strata, beyond each end
constexpr int64_t kTiles[] = {8, 4, 2};  // whose edges are drawn
constexpr int64_t kFewValues = 16;       // each of them is drawn
constexpr int64_t kFewStrata = 2;        // beside the edges, of scalars
constexpr size_t kMaxNames = 2;

// A permutation of 0..count-1 that follows from `key`: rounds of bijections of the numbers with as
// many bits, again until the number is in range (cycle walking).
int64_t Permuted(int64_t at, int64_t count, uint64_t key) {
  if (count <= 1) return 0;
  const auto bits = static_cast<int>(std::bit_width(static_cast<uint64_t>(count - 1)));
  const uint64_t mask = (uint64_t{1} << bits) - 1;
  const int shift = std::max(bits / 2, 1);
  auto x = static_cast<uint64_t>(at);
  do {
    uint64_t round = key;
    for (int i = 0; i < 3; ++i) {
      x = (x + round) & mask;
      x = (x * (round >> 20 | 1)) & mask;
      x ^= x >> shift;
      round = std::rotl(round, 23) * 0x9e3779b97f4a7c15u;
    }
  } while (x >= static_cast<uint64_t>(count));
  return static_cast<int64_t>(x);
}

}  // namespace

IndexValues::IndexValues(const IndexInput& input, DType dtype, std::span<const int64_t> dims)
    : input_(input), ranges_(input.ranges), dtype_(dtype) {
  const int bits = DTypeBits(dtype);
  if (dtype == DType::kPred) {
    most_ = 1;
  } else if (ClassOf(dtype) == DTypeClass::kUnsigned) {
    most_ = bits >= 48 ? int64_t{1} << 48 : (int64_t{1} << bits) - 1;
  } else {
    most_ = bits >= 48 ? int64_t{1} << 48 : (int64_t{1} << (bits - 1)) - 1;
    least_ = -most_ - 1;
  }
  for (IndexRange& range : ranges_) {
    range.low = std::clamp(range.low, least_, most_);
    range.high = std::clamp(range.high, range.low, most_);
    range.has_beyond &= range.low > least_ || range.high < most_;
  }
  int64_t elements = 1;
  for (int64_t dim : dims) elements *= dim;
  const int64_t along = input.component_dim;
  if (along >= 0 && along < static_cast<int64_t>(dims.size()) &&
      dims[At(along)] == static_cast<int64_t>(ranges_.size())) {
    components_ = dims[At(along)];
    for (size_t d = At(along) + 1; d < dims.size(); ++d) inner_ *= dims[d];
  } else if (ranges_.size() > 1) {
    // Not the dims that were looked at: one range for all.
    for (const IndexRange& range : ranges_) {
      ranges_[0].low = std::min(ranges_[0].low, range.low);
      ranges_[0].high = std::max(ranges_[0].high, range.high);
      ranges_[0].has_beyond |= range.has_beyond;
    }
    ranges_.resize(1);
  }
  vectors_ = std::max<int64_t>(elements / components_, 1);
  for (const IndexRange& range : ranges_) {
    places_.push_back(PlacesOf(range));
    const int64_t wanted = std::min(places_.back().count(), kMaxWanted);
    wanted_draws_ = std::max(wanted_draws_, (wanted + vectors_ - 1) / vectors_);
  }
}

int64_t IndexValues::WantedDraws() const { return wanted_draws_; }

IndexValues::Places IndexValues::PlacesOf(const IndexRange& range) const {
  const int64_t inside = range.high - range.low + 1;
  Places places;
  if (input_.is_distinct || input_.is_sorted) {
    places.strata = std::min({inside, vectors_, kMaxPlaces});
    return places;  // one draw
  }
  if (inside <= kFewValues) {
    for (int64_t value = range.low; value <= range.high; ++value) places.edges.push_back(value);
  } else {
    const int64_t extent = range.extent > 0 ? range.extent : inside;
    for (const int64_t tiles : kTiles) {
      const int64_t tile = std::max<int64_t>((extent + tiles - 1) / tiles, 1);
      for (int64_t edge = range.low; edge <= range.high; edge += tile) {
        places.edges.push_back(edge);
        places.edges.push_back(std::min(edge + tile - 1, range.high));
      }
    }
    std::ranges::sort(places.edges);
    const auto rest = std::ranges::unique(places.edges);
    places.edges.erase(rest.begin(), rest.end());
    const int64_t room = std::min(vectors_, kMaxPlaces) - static_cast<int64_t>(places.edges.size());
    if (range.has_beyond)
      places.beyond = std::max<int64_t>(1, std::min(room, inside) / kBeyondShare);
    places.strata = std::clamp<int64_t>(room - 2 * places.beyond, kFewStrata, inside);
  }
  if (range.has_beyond) places.beyond = std::max<int64_t>(1, places.beyond);
  return places;
}

int64_t IndexValues::ValueAt(uint64_t seed, uint64_t stream, int64_t draw, int64_t place) const {
  const int64_t vector = place / (inner_ * components_) * inner_ + place % inner_;
  const int64_t component = components_ == 1 ? 0 : place / inner_ % components_;
  const IndexRange& range = ranges_[At(component)];
  const Places& places = places_[At(component)];
  const int64_t inside = range.high - range.low + 1;
  // Several draws go on where the one before has ended, but for values that are to differ within
  // each.
  const int64_t at = input_.is_distinct || input_.is_sorted ? vector : draw * vectors_ + vector;
  const uint64_t leaf_stream = stream * 64 + static_cast<uint64_t>(component % 64);
  const auto edges = static_cast<int64_t>(places.edges.size());
  const int64_t inner = edges + places.strata;
  const int64_t outer = 2 * places.beyond;
  // Of every `window` values, which all draws together have, some lie beyond the ends.
  const int64_t window = std::min(inner + outer, wanted_draws_ * vectors_);
  const int64_t turn = input_.is_distinct ? draw : at / window;
  const uint64_t key = RandomBits(seed ^ 0x696e646578, leaf_stream, turn);
  const uint64_t bits = RandomBits(seed, leaf_stream, draw * vectors_ + vector);
  int64_t which = Permuted(at % window, window, key);
  if (which < outer) {
    const bool is_above = (which % 2 == 0 && range.high < most_) || range.low <= least_;
    const int64_t room = is_above ? most_ - range.high : range.low - least_;
    const int64_t far = std::min(std::max<int64_t>(inside / 8, 1), room);
    const auto away = 1 + static_cast<int64_t>(bits % static_cast<uint64_t>(far));
    return is_above ? range.high + away : range.low - away;
  }
  // The others go on from turn to turn; sorted ones are in the order of the places, as is promised.
  which += turn % inner * (window - outer) - outer;
  which = input_.is_sorted ? vector * inner / vectors_
                           : Permuted(which % inner, inner, RandomBits(seed, leaf_stream, -1));
  if (which < edges) return places.edges[At(which)];
  which -= edges;
  const int64_t from = range.low + which * inside / places.strata;
  const int64_t to = range.low + (which + 1) * inside / places.strata;
  return from + static_cast<int64_t>(bits % static_cast<uint64_t>(to - from));
}

void IndexValues::Fill(uint64_t seed, uint64_t stream, int64_t draw, int64_t first, int64_t count,
                       std::byte* out) const {
  const int bytes = StorageBytes(dtype_);
  for (int64_t i = 0; i < count; ++i) {
    const int64_t value = ValueAt(seed, stream, draw, first + i);
    std::memcpy(out + i * bytes, &value, static_cast<size_t>(bytes));
  }
}

std::string IndexValues::InWords() const {
  std::vector<std::string> texts;
  for (const IndexRange& range : ranges_) {
    std::string text = fmt::format("{}..{}", range.low, range.high);
    if (range.has_beyond) text += " and beyond";
    if (std::ranges::find(texts, text) == texts.end()) texts.push_back(std::move(text));
  }
  const auto& names = input_.readers;
  std::string text =
      fmt::format("{}{} (", input_.ends_loop ? "small, " : "", fmt::join(texts, ", "));
  for (size_t i = 0; i < std::min(names.size(), kMaxNames); ++i) {
    text += (i > 0 ? ", " : "") + names[i];
  }
  if (names.size() > kMaxNames) text += fmt::format(" and {} more", names.size() - kMaxNames);
  return text + ")";
}

}  // namespace gshard::cpu
