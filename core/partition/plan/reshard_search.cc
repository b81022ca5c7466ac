#include "core/partition/plan/reshard_search.h"

#include <tsl/robin_set.h>

#include <algorithm>
#include <array>
#include <limits>
#include <optional>
#include <queue>
#include <span>

#include "core/partition/plan/halo_plan.h"
#include "ir/diagnostic.h"
#include "ir/hash.h"

namespace gshard {

namespace {

// States larger than both ends cost memory; weight of one byte of excess.
constexpr double kExcessWeight = 0.25;
constexpr int kMaxStates = 2000;
constexpr int kNowhere = -1;

// Sub-axes, as indices into those of the search, in place: searches copy lists all the time.
class SubAxisList {
 public:
  SubAxisList() = default;
  SubAxisList(std::initializer_list<uint8_t> sub_axes) { append(sub_axes.begin(), sub_axes.end()); }
  explicit SubAxisList(std::span<const uint8_t> sub_axes) {
    append(sub_axes.data(), sub_axes.data() + sub_axes.size());
  }

  size_t size() const { return size_; }
  bool empty() const { return size_ == 0; }
  const uint8_t* begin() const { return sub_axes_.data(); }
  const uint8_t* end() const { return sub_axes_.data() + size_; }
  uint8_t* begin() { return sub_axes_.data(); }
  uint8_t* end() { return sub_axes_.data() + size_; }
  uint8_t operator[](size_t i) const { return sub_axes_[i]; }
  bool operator==(const SubAxisList& other) const {
    return std::equal(begin(), end(), other.begin(), other.end());
  }

  void push_back(uint8_t sub_axis) { sub_axes_[size_++] = sub_axis; }
  void append(const uint8_t* first, const uint8_t* last) {
    for (; first != last; ++first) push_back(*first);
  }
  void resize(size_t size) { size_ = static_cast<uint8_t>(size); }
  void clear() { size_ = 0; }

 private:
  std::array<uint8_t, kMaxSearchedSubAxes> sub_axes_;
  uint8_t size_ = 0;
};

struct Node {
  std::vector<SubAxisList> dims;
  std::vector<int64_t> tiles;
  uint64_t unreduced = 0;
  bool operator==(const Node&) const = default;
};

struct SubAxisMove {
  SubAxisList sub_axes;
  int from = kNowhere;
  int to = kNowhere;
};

struct Edge {
  ReshardKind kind = ReshardKind::kRetile;
  std::vector<SubAxisMove> moves;
  int64_t bytes = 0;
};

class Search {
 public:
  Search(const Shape* shape, const MeshLayout* from, const MeshLayout* to, AxisList sub_axes,
         const ReshardWeights& weights)
      : sizes_(shape->dims()),
        element_bytes_(static_cast<double>(DTypeBits(shape->dtype())) / 8),
        can_sum_(!IsComplex(shape->dtype()) && DTypeBits(shape->dtype()) >= 8),
        weights_(weights),
        sub_axes_(std::move(sub_axes)) {
    for (uint8_t sub_axis : ToSubAxes(from->manual)) manual_ |= uint64_t{1} << sub_axis;
    start_ = NodeOf(from);
    goal_ = NodeOf(to);
    place_.assign(sub_axes_.size(), kNowhere);
    rank_.assign(sub_axes_.size(), 0);
    for (size_t d = 0; d < goal_.dims.size(); ++d) {
      for (size_t k = 0; k < goal_.dims[d].size(); ++k) {
        place_[goal_.dims[d][k]] = static_cast<int>(d);
        rank_[goal_.dims[d][k]] = static_cast<int>(k);
      }
    }
    goal_bytes_ = Bytes(goal_);
    largest_end_ = std::max(Bytes(start_), goal_bytes_);
    has_empty_tiles_ = HasEmptyTiles(start_) || HasEmptyTiles(goal_);
  }

  ReshardPlan Run();
  // With steps of these kinds and re-tiling; nothing: there is no such plan.
  std::optional<ReshardPlan> RunOf(std::span<const ReshardKind> kinds) {
    kinds_ = 1u << static_cast<int>(ReshardKind::kRetile);
    for (ReshardKind kind : kinds) kinds_ |= 1u << static_cast<int>(kind);
    return Shortest();
  }

 private:
  struct Visit {
    Node node;
    int parent = -1;
    Edge edge;
    double cost = 0;
    bool settled = false;
  };

  Node NodeOf(const MeshLayout* layout) const {
    Node node;
    for (const AxisList& axes : layout->dims) node.dims.push_back(ToSubAxes(axes));
    for (uint8_t sub_axis : ToSubAxes(layout->unreduced)) node.unreduced |= uint64_t{1} << sub_axis;
    for (size_t d = 0; d < node.dims.size(); ++d) {
      node.tiles.push_back(CeilOfRatio(sizes_[d], Size(node.dims[d])));
    }
    return node;
  }

  SubAxisList ToSubAxes(const AxisList& axes) const {
    SubAxisList list;
    for (const DeviceAxis& axis : axes) {
      for (int sub_axis : SubAxesOf(sub_axes_, axis))
        list.push_back(static_cast<uint8_t>(sub_axis));
    }
    return list;
  }

  AxisList ToAxes(const SubAxisList& list) const {
    AxisList axes;
    for (uint8_t sub_axis : list) axes.push_back(sub_axes_[sub_axis]);
    return MergedAxes(axes);
  }

  int64_t Size(std::span<const uint8_t> list) const {
    int64_t size = 1;
    for (uint8_t sub_axis : list) size *= sub_axes_[sub_axis].size;
    return size;
  }

  double Bytes(const Node& node) const {
    double bytes = element_bytes_;
    for (int64_t tile : node.tiles) bytes *= static_cast<double>(tile);
    return bytes;
  }

  static uint64_t Mask(std::span<const uint8_t> sub_axes) {
    uint64_t mask = 0;
    for (uint8_t sub_axis : sub_axes) mask |= uint64_t{1} << sub_axis;
    return mask;
  }

  bool HasEmptyTiles(const Node& node) const {
    for (size_t d = 0; d < node.dims.size(); ++d) {
      if ((Size(node.dims[d]) - 1) * node.tiles[d] >= sizes_[d]) return true;
    }
    return false;
  }

  uint64_t InDims(const Node& node) const {
    uint64_t mask = 0;
    for (const SubAxisList& list : node.dims) mask |= Mask(list);
    return mask;
  }

  // Bytes that are still to arrive, whatever the moves: the goal's tile without what of it may be
  // here. Never falls by more than a move brings.
  double LeastBytes(const Node& node) const {
    if (node.unreduced != 0) return 0;
    double overlap = element_bytes_;
    for (size_t d = 0; d < node.tiles.size(); ++d) {
      overlap *= static_cast<double>(std::min(node.tiles[d], goal_.tiles[d]));
    }
    return goal_bytes_ - overlap;
  }

  // Tile size that a dim with `count` tiles should have so that later cuts towards the goal nest.
  int64_t NestingTile(size_t dim, int64_t count) const {
    int64_t goal_count = Size(goal_.dims[dim]);
    if (goal_count % count != 0) return CeilOfRatio(sizes_[dim], count);
    return goal_count / count * CeilOfRatio(sizes_[dim], goal_count);
  }

  // Bytes received when dim `dim` of `node` gets tiles of size `tile`; the other dims as they are.
  double RetileBytes(const Node& node, size_t dim, int64_t tile) const {
    int64_t count = Size(node.dims[dim]);
    if (count == 1 || node.tiles[dim] == tile) return 0;
    HaloPlan halo = PlanHalo({.shards = count,
                              .tile = node.tiles[dim],
                              .size = sizes_[dim],
                              .scale = tile,
                              .width = tile});
    double row = Bytes(node) / static_cast<double>(node.tiles[dim]);
    return row * static_cast<double>(halo.elements_received);
  }

  // Makes dim's tile divisible by `gain`, so that the pieces nest. Returns the cost in bytes.
  double PrepareGain(Node& node, size_t dim, int64_t gain) const {
    int64_t count = Size(node.dims[dim]);
    if (count > 1 && node.tiles[dim] % gain == 0) return 0;
    int64_t tile = gain * NestingTile(dim, count * gain);
    double bytes = RetileBytes(node, dim, tile);
    node.tiles[dim] = tile;
    return bytes;
  }

  void AppendSubAxes(Node& node, size_t dim, const SubAxisList& list) const {
    node.tiles[dim] /= Size(list);
    node.dims[dim].append(list.begin(), list.end());
  }

  void DropSuffix(Node& node, size_t dim, size_t length) const {
    SubAxisList& list = node.dims[dim];
    std::span<const uint8_t> suffix = std::span<const uint8_t>(list).last(length);
    node.tiles[dim] *= Size(suffix);
    list.resize(list.size() - length);
    if (list.empty()) node.tiles[dim] = sizes_[dim];
  }

  void Start();
  void Push(int parent, Node node, Edge edge, double bytes, int messages);
  void Expand(int index);
  void ExpandSlices(int index);
  void ExpandFill(int index);
  void ExpandEmptyTiles(int index);
  void ExpandGathers(int index);
  void ExpandExchanges(int index);
  using Suffix = std::pair<size_t, size_t>;  // dim, length
  void TryExchange(int index, std::span<const Suffix> losers, int gainer);
  std::vector<SubAxisMove> MovesOf(int index, std::span<const Suffix> losers, int gainer) const;
  void ExpandPermute(int index);
  void ExpandReductions(int index);
  void ExpandDetours(int index, uint64_t excess);
  void ExpandFinish(int index);
  bool MayCut(const Node& node, size_t dim, uint8_t sub_axis) const;
  bool IsGoal(const Node& node) const {
    return node.dims == goal_.dims && node.tiles == goal_.tiles &&
           node.unreduced == goal_.unreduced;
  }
  std::optional<ReshardPlan> Shortest();
  ReshardPlan Extract(int index) const;

  std::span<const int64_t> sizes_;
  double element_bytes_;
  bool can_sum_;
  ReshardWeights weights_;
  AxisList sub_axes_;
  uint32_t kinds_ = ~0u;  // of steps that may be taken, a bit each
  uint64_t manual_ = 0;   // sub-axes that no dim may have, of both ends
  Node start_, goal_;
  std::vector<int> place_;           // dim of the goal that a sub-axis cuts, or kNowhere
  std::vector<int> rank_;            // its index there
  std::vector<SubAxisList> gained_;  // per dim, of the exchange being tried
  double goal_bytes_ = 0;
  double largest_end_ = 0;
  bool has_empty_tiles_ = false;                                // at one of the ends
  double goal_cost_ = std::numeric_limits<double>::infinity();  // of the best way known

  std::vector<Visit> visits_;
  // Visits by their nodes.
  struct NodeHash {
    const std::vector<Visit>* visits;
    size_t operator()(int index) const {
      const Node& node = (*visits)[static_cast<size_t>(index)].node;
      size_t hash = node.unreduced;
      for (size_t d = 0; d < node.dims.size(); ++d) {
        hash = HashCombine(hash, static_cast<uint64_t>(node.tiles[d]));
        for (uint8_t sub_axis : node.dims[d]) hash = hash * 32 + sub_axis + 1;
      }
      return HashCombine(hash, 0);
    }
  };
  struct SameNode {
    const std::vector<Visit>* visits;
    bool operator()(int a, int b) const {
      return (*visits)[static_cast<size_t>(a)].node == (*visits)[static_cast<size_t>(b)].node;
    }
  };
  tsl::robin_set<int, NodeHash, SameNode> index_{16, NodeHash{&visits_}, SameNode{&visits_}};
  using QueueEntry = std::pair<double, int>;
  std::priority_queue<QueueEntry, std::vector<QueueEntry>, std::greater<>> queue_;
};

void Search::Push(int parent, Node node, Edge edge, double bytes, int messages) {
  if ((kinds_ >> static_cast<int>(edge.kind) & 1) == 0) return;
  bool adds = edge.kind == ReshardKind::kAllReduce || edge.kind == ReshardKind::kReduceScatter;
  double price = adds ? bytes : bytes * weights_.bytes_per_moved_byte;
  double cost = visits_[static_cast<size_t>(parent)].cost + price + kReshardStepCost +
                messages * weights_.bytes_per_message;
  cost += kExcessWeight * std::max(0.0, Bytes(node) - largest_end_);
  double bound = cost + LeastBytes(node);
  if (bound >= goal_cost_) return;
  edge.bytes = static_cast<int64_t>(bytes);
  int index = static_cast<int>(visits_.size());
  visits_.push_back({std::move(node), parent, std::move(edge), cost, false});
  auto [found, added] = index_.insert(index);
  if (!added) {
    index = *found;
    Visit& visit = visits_[static_cast<size_t>(index)];
    bool is_better = !visit.settled && cost < visit.cost;
    if (is_better) {
      visit.parent = parent;
      visit.edge = std::move(visits_.back().edge);
      visit.cost = cost;
    }
    visits_.pop_back();
    if (!is_better) return;
  }
  if (IsGoal(visits_[static_cast<size_t>(index)].node)) goal_cost_ = cost;
  queue_.push({bound, index});
}

// May a sub-axis that no dim has become the minor sub-axis of `dim`, on the way to the goal?
bool Search::MayCut(const Node& node, size_t dim, uint8_t sub_axis) const {
  int target = place_[sub_axis];
  if (target == kNowhere) return false;
  const SubAxisList& list = node.dims[dim];
  const SubAxisList& wanted = goal_.dims[static_cast<size_t>(target)];
  auto rank = static_cast<size_t>(rank_[sub_axis]);
  if (static_cast<size_t>(target) == dim) {
    // After a prefix of the goal's list, perhaps followed by sub-axes the goal does not have.
    if (list.size() < rank ||
        !std::equal(wanted.begin(), wanted.begin() + rank_[sub_axis], list.begin())) {
      return false;
    }
    return std::all_of(list.begin() + rank_[sub_axis], list.end(),
                       [&](uint8_t d) { return place_[d] == kNowhere; });
  }
  // Elsewhere only to travel with the sub-axes before it.
  if (list.empty() || rank == 0 || list.size() > rank) return false;
  return std::equal(list.begin(), list.end(), wanted.begin() + (rank - list.size()));
}

void Search::ExpandSlices(int index) {
  const Node node = visits_[static_cast<size_t>(index)].node;
  uint64_t taken = InDims(node) | node.unreduced;
  for (uint8_t sub_axis = 0; sub_axis < sub_axes_.size(); ++sub_axis) {
    if ((taken >> sub_axis & 1) != 0 || place_[sub_axis] == kNowhere) continue;
    for (size_t dim = 0; dim < node.dims.size(); ++dim) {
      if (!MayCut(node, dim, sub_axis)) continue;
      Node next = node;
      double bytes = PrepareGain(next, dim, sub_axes_[sub_axis].size);
      AppendSubAxes(next, dim, {sub_axis});
      Edge edge{ReshardKind::kSlice, {{{sub_axis}, kNowhere, static_cast<int>(dim)}}};
      Push(index, std::move(next), std::move(edge), bytes, bytes > 0 ? 1 : 0);
    }
  }
}

// Cuts every dim into as many tiles as the goal has, with whatever sub-axes are free: the permute
// that follows then moves the smallest tiles.
void Search::ExpandFill(int index) {
  Node next = visits_[static_cast<size_t>(index)].node;
  if (next.unreduced != 0) return;
  uint64_t taken = InDims(next) | manual_;
  std::vector<SubAxisMove> moves;
  double bytes = 0;
  for (size_t dim = 0; dim < next.dims.size(); ++dim) {
    int64_t count = Size(next.dims[dim]);
    int64_t goal_count = Size(goal_.dims[dim]);
    if (goal_count % count != 0) return;
    int64_t missing = goal_count / count;
    SubAxisList list;
    for (uint8_t sub_axis = 0; sub_axis < sub_axes_.size() && missing > 1; ++sub_axis) {
      if ((taken >> sub_axis & 1) != 0 || missing % sub_axes_[sub_axis].size != 0) continue;
      list.push_back(sub_axis);
      taken |= uint64_t{1} << sub_axis;
      missing /= sub_axes_[sub_axis].size;
    }
    if (missing != 1) return;
    if (list.empty()) continue;
    bytes += PrepareGain(next, dim, Size(list));
    AppendSubAxes(next, dim, list);
    moves.push_back({list, kNowhere, static_cast<int>(dim)});
  }
  if (moves.empty()) return;
  Push(index, std::move(next), {ReshardKind::kSlice, std::move(moves)}, bytes, bytes > 0 ? 1 : 0);
}

void Search::ExpandGathers(int index) {
  const Node node = visits_[static_cast<size_t>(index)].node;
  for (size_t dim = 0; dim < node.dims.size(); ++dim) {
    const SubAxisList& list = node.dims[dim];
    // What already stands where the goal has it stays.
    size_t settled = 0;
    while (settled < list.size() && settled < goal_.dims[dim].size() &&
           list[settled] == goal_.dims[dim][settled]) {
      ++settled;
    }
    for (size_t length = 1; length <= list.size() - settled; ++length) {
      SubAxisList suffix(std::span<const uint8_t>(list).last(length));
      Node next = node;
      DropSuffix(next, dim, length);
      auto group = static_cast<double>(Size(suffix));
      double bytes = Bytes(node) * (group - 1);
      Edge edge{ReshardKind::kAllGather, {{suffix, static_cast<int>(dim), kNowhere}}};
      if (length == list.size() && can_sum_ && node.tiles[dim] > 0) {
        // Only the tiles that hold data are summed; a gather would move the empty ones as well.
        auto filled = static_cast<double>(CeilOfRatio(sizes_[dim], node.tiles[dim]));
        double by_sum = 2 * Bytes(node) * filled * (group - 1) / group;
        if (by_sum < bytes) {
          bytes = by_sum;
          edge.kind = ReshardKind::kGatherBySum;
        }
      }
      Push(index, std::move(next), std::move(edge), bytes, 1);
    }
  }
}

// Where more than the first tiles along the major sub-axes are empty: those sub-axes enter for
// nothing (what their tiles hold is padding) and leave by a sum of what the first tiles have.
void Search::ExpandEmptyTiles(int index) {
  const Node node = visits_[static_cast<size_t>(index)].node;
  uint64_t taken = InDims(node) | node.unreduced;
  for (size_t dim = 0; dim < node.dims.size(); ++dim) {
    const SubAxisList& list = node.dims[dim];
    const SubAxisList& wanted = goal_.dims[dim];
    if (list.size() < wanted.size() && !list.empty() &&
        Size(list) * node.tiles[dim] >= sizes_[dim]) {
      const size_t lead = wanted.size() - list.size();
      const std::span<const uint8_t> sub_axes = std::span<const uint8_t>(wanted).first(lead);
      if ((Mask(sub_axes) & taken) == 0 &&
          std::ranges::equal(list, std::span<const uint8_t>(wanted).subspan(lead))) {
        Node next = node;
        next.dims[dim] = wanted;
        Push(index, std::move(next), {ReshardKind::kRetile, {}}, 0, 0);
      }
    }
    if (!can_sum_ || (Size(list) - 1) * node.tiles[dim] < sizes_[dim]) continue;
    for (size_t lead = 1; lead < list.size(); ++lead) {
      SubAxisList rest(std::span<const uint8_t>(list).subspan(lead));
      if (Size(rest) * node.tiles[dim] < sizes_[dim]) break;
      SubAxisList major(std::span<const uint8_t>(list).first(lead));
      auto group = static_cast<double>(Size(major));
      Node next = node;
      next.dims[dim] = rest;
      Push(index, std::move(next),
           {ReshardKind::kGatherBySum, {{major, static_cast<int>(dim), kNowhere}}},
           2 * Bytes(node) * (group - 1) / group, 1);
    }
  }
}

// Moves suffixes (dim, length) of `losers` at once. gainer: the dim that gets all; kNowhere: each
// sub-axis goes to the dim where the goal has it.
void Search::TryExchange(int index, std::span<const Suffix> losers, int gainer) {
  const Node& node = visits_[static_cast<size_t>(index)].node;
  size_t rank = node.dims.size();
  gained_.assign(rank, {});
  size_t gainers = 0;
  bool any_home = false;
  for (auto [dim, length] : losers) {
    const SubAxisList& list = node.dims[dim];
    for (size_t k = list.size() - length; k < list.size(); ++k) {
      int to = gainer == kNowhere ? place_[list[k]] : gainer;
      if (to == kNowhere) return;
      for (auto [loser, unused] : losers) {
        if (static_cast<int>(loser) == to) return;
      }
      any_home |= place_[list[k]] == to;
      SubAxisList& gained = gained_[static_cast<size_t>(to)];
      if (gained.empty()) ++gainers;
      gained.push_back(list[k]);
    }
  }
  if (!any_home || (gainer == kNowhere && gainers < 2)) return;
  Node next = node;
  double bytes = 0;
  int64_t group = 1;
  for (size_t dim = 0; dim < rank; ++dim) {
    if (gained_[dim].empty()) continue;
    bytes += PrepareGain(next, dim, Size(gained_[dim]));
    group *= Size(gained_[dim]);
  }
  bytes += Bytes(next) * static_cast<double>(group - 1) / static_cast<double>(group);
  for (auto [dim, length] : losers) DropSuffix(next, dim, length);
  for (size_t dim = 0; dim < rank; ++dim) {
    if (gained_[dim].empty()) continue;
    std::stable_sort(gained_[dim].begin(), gained_[dim].end(), [&](uint8_t a, uint8_t b) {
      bool a_home = place_[a] == static_cast<int>(dim), b_home = place_[b] == static_cast<int>(dim);
      if (a_home != b_home) return a_home;
      return a_home && rank_[a] < rank_[b];
    });
    AppendSubAxes(next, dim, gained_[dim]);
  }
  Push(index, std::move(next), {ReshardKind::kAllToAll, MovesOf(index, losers, gainer)}, bytes, 1);
}

// By (from, to), sub-axes in the order they leave.
std::vector<SubAxisMove> Search::MovesOf(int index, std::span<const Suffix> losers,
                                         int gainer) const {
  std::vector<SubAxisMove> moves;
  for (auto [dim, length] : losers) {
    const SubAxisList& list = visits_[static_cast<size_t>(index)].node.dims[dim];
    for (size_t k = list.size() - length; k < list.size(); ++k) {
      int to = gainer == kNowhere ? place_[list[k]] : gainer;
      if (moves.empty() || moves.back().from != static_cast<int>(dim) || moves.back().to != to) {
        moves.push_back({{}, static_cast<int>(dim), to});
      }
      moves.back().sub_axes.push_back(list[k]);
    }
  }
  return moves;
}

void Search::ExpandExchanges(int index) {
  // Push may reallocate visits_: only sizes are read inside the loops.
  std::vector<size_t> lengths;
  for (const SubAxisList& list : visits_[static_cast<size_t>(index)].node.dims) {
    lengths.push_back(list.size());
  }
  int rank = static_cast<int>(lengths.size());
  for (size_t a = 0; a < lengths.size(); ++a) {
    for (size_t length_a = 1; length_a <= lengths[a]; ++length_a) {
      for (int gainer = kNowhere; gainer < rank; ++gainer) {
        if (gainer == static_cast<int>(a)) continue;
        Suffix pair[] = {{a, length_a}, {0, 0}};
        TryExchange(index, std::span(pair).first(1), gainer);
        for (size_t b = a + 1; b < lengths.size(); ++b) {
          if (gainer == static_cast<int>(b)) continue;
          for (size_t length_b = 1; length_b <= lengths[b]; ++length_b) {
            pair[1] = {b, length_b};
            TryExchange(index, pair, gainer);
          }
        }
      }
    }
  }
}

// Other sub-axes, same counts: each dim gets as much of the goal's list as its count allows, the
// rest from sub-axes the goal does not have.
void Search::ExpandPermute(int index) {
  const Node node = visits_[static_cast<size_t>(index)].node;
  if (node.unreduced != 0) return;
  Node next = node;
  uint64_t taken = manual_;
  std::vector<int64_t> missing(node.dims.size());
  for (size_t dim = 0; dim < node.dims.size(); ++dim) {
    int64_t count = Size(node.dims[dim]);
    next.dims[dim].clear();
    for (uint8_t sub_axis : goal_.dims[dim]) {
      if (count % sub_axes_[sub_axis].size != 0) break;
      count /= sub_axes_[sub_axis].size;
      next.dims[dim].push_back(sub_axis);
      taken |= uint64_t{1} << sub_axis;
    }
    missing[dim] = count;
  }
  for (int pass = 0; pass < 2; ++pass) {  // first sub-axes that stay in their dim
    for (size_t dim = 0; dim < node.dims.size(); ++dim) {
      for (uint8_t sub_axis = 0; sub_axis < sub_axes_.size() && missing[dim] > 1; ++sub_axis) {
        if ((taken >> sub_axis & 1) != 0) continue;
        const SubAxisList& list = node.dims[dim];
        bool here = std::find(list.begin(), list.end(), sub_axis) != list.end();
        if ((pass == 0 && !here) || missing[dim] % sub_axes_[sub_axis].size != 0) continue;
        next.dims[dim].push_back(sub_axis);
        taken |= uint64_t{1} << sub_axis;
        missing[dim] /= sub_axes_[sub_axis].size;
      }
    }
  }
  for (int64_t count : missing) {
    if (count != 1) return;
  }
  if (next.dims == node.dims) return;
  Push(index, std::move(next), {ReshardKind::kPermute, {}}, Bytes(node), 1);
}

void Search::ExpandReductions(int index) {
  const Node node = visits_[static_cast<size_t>(index)].node;
  uint64_t excess = node.unreduced & ~goal_.unreduced;
  // Partial sub-axes that the goal has in no dim, then all of them: one all-reduce.
  uint64_t unplaced = 0;
  for (uint8_t sub_axis = 0; sub_axis < sub_axes_.size(); ++sub_axis) {
    if ((excess >> sub_axis & 1) != 0 && place_[sub_axis] == kNowhere)
      unplaced |= uint64_t{1} << sub_axis;
  }
  std::array<uint64_t, 2> sets = {unplaced, excess};
  for (size_t i = 0; i < sets.size(); ++i) {
    if (sets[i] == 0 || (i == 1 && sets[1] == sets[0])) continue;
    SubAxisList list;
    for (uint8_t sub_axis = 0; sub_axis < sub_axes_.size(); ++sub_axis) {
      if ((sets[i] >> sub_axis & 1) != 0) list.push_back(sub_axis);
    }
    Node next = node;
    next.unreduced &= ~sets[i];
    auto group = static_cast<double>(Size(list));
    Push(index, std::move(next), {ReshardKind::kAllReduce, {{list, kNowhere, kNowhere}}},
         2 * Bytes(node) * (group - 1) / group, 1);
  }
  for (size_t dim = 0; dim < node.dims.size(); ++dim) {
    // The run of partial sub-axes that the goal has next in this dim.
    SubAxisList run;
    Node next = node;
    for (size_t k = node.dims[dim].size(); k < goal_.dims[dim].size(); ++k) {
      uint8_t sub_axis = goal_.dims[dim][k];
      if ((excess >> sub_axis & 1) == 0 || !MayCut(next, dim, sub_axis)) break;
      run.push_back(sub_axis);
      next.dims[dim].push_back(sub_axis);
    }
    if (run.empty()) continue;
    next = node;
    auto group = static_cast<double>(Size(run));
    double bytes = PrepareGain(next, dim, Size(run));
    bytes += Bytes(next) * (group - 1) / group;
    AppendSubAxes(next, dim, run);
    for (uint8_t sub_axis : run) next.unreduced &= ~(uint64_t{1} << sub_axis);
    Push(index, std::move(next),
         {ReshardKind::kReduceScatter, {{run, kNowhere, static_cast<int>(dim)}}}, bytes, 1);
  }
  ExpandDetours(index, excess);
}

// Partial sub-axes whose place in the goal is taken by others scatter over another dim for now: the
// moves that free their place then carry a part each instead of the whole.
void Search::ExpandDetours(int index, uint64_t excess) {
  const Node node = visits_[static_cast<size_t>(index)].node;
  for (size_t home = 0; home < node.dims.size(); ++home) {
    SubAxisList run;
    for (uint8_t sub_axis : goal_.dims[home]) {
      if ((excess >> sub_axis & 1) != 0) run.push_back(sub_axis);
    }
    if (run.empty() || MayCut(node, home, run[0])) continue;
    const int64_t group = Size(run);
    for (size_t dim = 0; dim < node.dims.size(); ++dim) {
      const bool is_even = sizes_[dim] % (Size(node.dims[dim]) * group) == 0;
      if (dim == home || !is_even || node.tiles[dim] % group != 0) continue;
      Node next = node;
      AppendSubAxes(next, dim, run);
      for (uint8_t sub_axis : run) next.unreduced &= ~(uint64_t{1} << sub_axis);
      Push(index, std::move(next),
           {ReshardKind::kReduceScatter, {{run, kNowhere, static_cast<int>(dim)}}},
           Bytes(node) * static_cast<double>(group - 1) / static_cast<double>(group), 1);
    }
  }
}

// The right sub-axes everywhere: what is left are tile sizes and partial sub-axes of the goal.
void Search::ExpandFinish(int index) {
  const Node node = visits_[static_cast<size_t>(index)].node;
  if (node.dims != goal_.dims || (node.unreduced & ~goal_.unreduced) != 0) return;
  uint64_t made_partial = goal_.unreduced & ~node.unreduced;
  if (made_partial != 0) {
    SubAxisList list;
    for (uint8_t sub_axis = 0; sub_axis < sub_axes_.size(); ++sub_axis) {
      if ((made_partial >> sub_axis & 1) != 0) list.push_back(sub_axis);
    }
    Node next = node;
    next.unreduced = goal_.unreduced;
    Push(index, std::move(next), {ReshardKind::kPartial, {{list, kNowhere, kNowhere}}}, 0, 0);
    return;
  }
  if (node.tiles == goal_.tiles) return;
  Node next = node;
  double bytes = 0;
  for (size_t dim = 0; dim < node.dims.size(); ++dim) {
    bytes += RetileBytes(next, dim, goal_.tiles[dim]);
    next.tiles[dim] = goal_.tiles[dim];
  }
  Push(index, std::move(next), {ReshardKind::kRetile, {}}, bytes, bytes > 0 ? 1 : 0);
}

void Search::Expand(int index) {
  ExpandFinish(index);
  ExpandSlices(index);
  ExpandFill(index);
  if (has_empty_tiles_) ExpandEmptyTiles(index);
  ExpandReductions(index);
  ExpandExchanges(index);
  ExpandPermute(index);
  ExpandGathers(index);
}

void Search::Start() {
  visits_.clear();
  index_.clear();
  queue_ = {};
  goal_cost_ = std::numeric_limits<double>::infinity();
  visits_.push_back({start_, -1, {}, 0, false});
  index_.insert(0);
  queue_.push({0, 0});
}

std::optional<ReshardPlan> Search::Shortest() {
  Start();
  int settled = 0;
  while (!queue_.empty()) {
    int index = queue_.top().second;
    queue_.pop();
    Visit& visit = visits_[static_cast<size_t>(index)];
    if (visit.settled) continue;
    visit.settled = true;
    if (IsGoal(visit.node)) return Extract(index);
    if (++settled > kMaxStates) break;
    Expand(index);
  }
  return std::nullopt;
}

ReshardPlan Search::Run() {
  if (std::optional<ReshardPlan> plan = Shortest()) return *std::move(plan);
  // Too many states: reduce, gather everything, cut again. Always possible.
  Start();
  int at = 0;
  auto step = [&](auto expand) {
    for (;;) {
      size_t before = visits_.size();
      expand(at);
      if (visits_.size() == before) return;
      at = static_cast<int>(visits_.size()) - 1;
    }
  };
  step([&](int i) { ExpandReductions(i); });
  step([&](int i) { ExpandGathers(i); });
  step([&](int i) { ExpandSlices(i); });
  step([&](int i) { ExpandFinish(i); });
  CheckInternal(IsGoal(visits_[static_cast<size_t>(at)].node), "no plan between two layouts");
  return Extract(at);
}

ReshardPlan Search::Extract(int index) const {
  ReshardPlan plan;
  plan.cost = visits_[static_cast<size_t>(index)].cost;
  bool whole_on_the_way = false;
  for (int at = index; visits_[static_cast<size_t>(at)].parent >= 0;
       at = visits_[static_cast<size_t>(at)].parent) {
    const Visit& visit = visits_[static_cast<size_t>(at)];
    ReshardStep step;
    step.kind = visit.edge.kind;
    step.bytes = visit.edge.bytes;
    for (const SubAxisMove& move : visit.edge.moves) {
      step.moves.push_back({ToAxes(move.sub_axes), move.from, move.to});
    }
    for (const SubAxisList& list : visit.node.dims) step.after.dims.push_back(ToAxes(list));
    step.after.tiles = visit.node.tiles;
    SubAxisList partial;
    for (uint8_t sub_axis = 0; sub_axis < sub_axes_.size(); ++sub_axis) {
      if ((visit.node.unreduced >> sub_axis & 1) != 0) partial.push_back(sub_axis);
    }
    step.after.unreduced = ToAxes(partial);
    plan.bytes += step.bytes;
    whole_on_the_way |= InDims(visit.node) == 0;
    plan.steps.push_back(std::move(step));
  }
  std::reverse(plan.steps.begin(), plan.steps.end());
  plan.full_rematerialization = whole_on_the_way && InDims(start_) != 0 && InDims(goal_) != 0;
  return plan;
}

}  // namespace

ReshardPlan SearchPlan(const Shape* shape, const MeshLayout* from, const MeshLayout* to,
                       AxisList sub_axes, const ReshardWeights& weights) {
  return Search(shape, from, to, std::move(sub_axes), weights).Run();
}

std::optional<ReshardPlan> SearchPlanOf(std::span<const ReshardKind> kinds, const Shape* shape,
                                        const MeshLayout* from, const MeshLayout* to,
                                        AxisList sub_axes, const ReshardWeights& weights) {
  return Search(shape, from, to, std::move(sub_axes), weights).RunOf(kinds);
}

}  // namespace gshard
