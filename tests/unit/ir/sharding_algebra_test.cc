#include "ir/sharding_algebra.h"

#include <catch2/catch.hpp>
#include <numeric>
#include <random>
#include <set>
#include <string>

#include "ir/parser.h"
#include "ir/sharding_text.h"

namespace gshard {
namespace {

using Ints = std::vector<int64_t>;

// "l" at the end abbreviates last_tile_dim_replicate; "m" last_tile_dims={manual}.
const Sharding* Parse(Context& ctx, std::string text) {
  if (text[0] != '{') {
    if (text.ends_with(" l")) text.replace(text.size() - 1, 1, "last_tile_dim_replicate");
    if (text.ends_with(" m")) text.replace(text.size() - 1, 1, "last_tile_dims={manual}");
    text = "{devices=" + text + "}";
  }
  const auto parsed = ParseSharding(ctx, text);
  INFO(text);
  REQUIRE(parsed.has_value());
  return *parsed;
}

std::string Print(const Sharding* s) {
  if (s == nullptr) return "none";
  std::string text = ToString(s);
  const auto replace = [&text](const std::string& from, const std::string& to) {
    if (const size_t at = text.find(from); at != std::string::npos)
      text.replace(at, from.size(), to);
  };
  if (text.starts_with("{devices=")) {
    text = text.substr(9, text.size() - 10);
    replace("last_tile_dim_replicate", "l");
    replace("last_tile_dims={manual}", "m");
  }
  return text;
}

TEST_CASE("rep-on and keep-only", "[ir][sharding_algebra]") {
  Context ctx;
  const Sharding* s = Parse(ctx, "[2,4]<=[8]");
  CHECK(Print(ReplicateOnDims(ctx, s, Ints{0})) == "[1,4,2]<=[2,4]T(1,0) l");
  CHECK(Print(ReplicateOnDims(ctx, s, Ints{1})) == "[2,1,4]<=[8] l");
  CHECK(Print(ReplicateOnDims(ctx, s, Ints{0, 1})) == "{replicated}");
  CHECK(Print(ReplicateOnDims(ctx, s, Ints{})) == "[2,4]<=[8]");
  CHECK(Print(KeepOnlyDims(ctx, s, Ints{0})) == "[2,1,4]<=[8] l");
  CHECK(Print(ReplicateAllDataDims(ctx, s, 3)) == "{replicated}");
  const Sharding* manual = Parse(ctx, "[1,2,4]<=[4,2]T(1,0) m");
  CHECK(Print(ReplicateAllDataDims(ctx, manual, 1)) ==
        "[1,4,2]<=[8] last_tile_dims={manual, replicated}");
  CHECK(Print(ReplicateOnDims(ctx, Parse(ctx, "{maximal device=3}"), Ints{0})) ==
        "{maximal device=3}");
  // With an explicit list, and where dims cut an axis unevenly.
  CHECK(Print(ReplicateOnDims(ctx, Parse(ctx, "[2,2]3,1,2,0"), Ints{0})) == "[1,2,2]2,3,0,1 l");
  CHECK(Print(ReplicateOnDims(ctx, Parse(ctx, "[2,3]<=[3,2]T(1,0)"), Ints{1})) ==
        "[2,1,3]<=[3,2]T(1,0) l");
}

TEST_CASE("moving dims", "[ir][sharding_algebra]") {
  Context ctx;
  const Sharding* s = Parse(ctx, "[2,2,2]<=[8]");
  CHECK(Print(TransposeSharding(ctx, s, Ints{2, 0, 1})) == "[2,2,2]<=[4,2]T(1,0)");
  CHECK(Print(TransposeSharding(ctx, Parse(ctx, "[1,2,4]<=[4,2]T(1,0) m"), Ints{1, 0})) ==
        "[2,1,4]<=[4,2]T(1,0) m");
  CHECK(Print(RemoveDims(ctx, Parse(ctx, "[2,1,4]<=[8]"), Ints{1})) == "[2,4]<=[8]");
  CHECK(Print(AddDims(ctx, Parse(ctx, "[2,4]<=[8]"), Ints{0, 2})) == "[1,2,1,4]<=[8]");
  CHECK(Print(MapDims(ctx, Parse(ctx, "[2,1,4]<=[8]"), Ints{2, -1, 0}, 3)) ==
        "[4,1,2]<=[2,4]T(1,0)");
  CHECK(Print(MapDims(ctx, Parse(ctx, "[2,2,2]<=[8]"), Ints{2, -1, 0}, 3)) == "none");
  CHECK(Print(AlongDims(ctx, Parse(ctx, "[2,4]<=[8]"), Ints{1}, Ints{2}, 3)) ==
        "[1,1,4,2]<=[2,4]T(1,0) l");
  CHECK(Print(AlongDims(ctx, Parse(ctx, "[8,1]<=[8]"), Ints{1}, Ints{2}, 3)) == "{replicated}");
  CHECK(Print(ReverseSharding(ctx, s, Ints{0})) == "[2,2,2]4,5,6,7,0,1,2,3");
  CHECK(Print(ReverseSharding(ctx, Parse(ctx, "[1,8]<=[8]"), Ints{0})) == "[1,8]<=[8]");
  CHECK(Print(SplitDim(ctx, Parse(ctx, "[8,1]<=[8]"), 0, 2)) == "[2,4,1]<=[8]");
  CHECK(Print(MergeDims(ctx, Parse(ctx, "[2,4,1]<=[8]"), 0)) == "[8,1]<=[8]");
  CHECK(Print(MoveTiles(ctx, Parse(ctx, "[2,4]<=[8]"), 1, 0)) == "[8,1]<=[8]");
  CHECK(Print(MoveTiles(ctx, Parse(ctx, "[2,4]<=[8]"), 0, 1)) == "[1,8]<=[2,4]T(1,0)");
}

TEST_CASE("merge table", "[ir][sharding_algebra]") {
  const char* const table[][3] = {
      {"[1,4,2]<=[2,4]T(1,0) l", "[2,1,4]<=[8] l", "[2,4]<=[8]"},
      {"[1,2,4]<=[4,2]T(1,0) l", "[2,1,4]<=[8] l", "[2,2,2]<=[2,2,2]T(0,2,1) l"},
      {"[1,2,4]<=[2,2,2]T(1,0,2) l", "[2,1,4]<=[8] l", "[2,2,2]<=[8] l"},
      {"[1,2,4]<=[8] l", "[2,1,4]<=[8] l", "none"},
      {"[8,1]<=[8]", "[2,1,4]<=[8] l", "none"},
      {"{replicated}", "[2,1,4]<=[8] l", "none"},
      {"[2,1,4]<=[8] l", "{replicated}", "[2,1,4]<=[8] l"},
      {"[2,1,4]<=[8] l", "{maximal device=1}", "[2,1,4]<=[8] l"},
      {"{manual}", "[2,1,4]<=[8] l", "none"},
      // A needs no replicas of its own; B does.
      {"[2,4]<=[8]", "[2,1,4]<=[8] l", "[2,4]<=[8]"},
      {"[2,1,4]<=[8] l", "[2,4]<=[8]", "none"},
      // Lists: crossing the sets {0,3},{1,2} and {0,1},{2,3}.
      {"[1,2,2]0,3,1,2 l", "[2,1,2]<=[4] l", "[2,2]0,1,3,2"},
  };
  Context ctx;
  // Manual subgroups take devices, too: 8 tiles in each of 4 would need 32. Devices 14 and 15 have
  // changed places, so that nothing is found by axes.
  const char* const devices = "0,1,2,3,4,5,6,7,8,9,10,11,12,13,15,14 last_tile_dims=";
  CHECK(
      MergeShardings(
          ctx, Parse(ctx, (std::string("{devices=[4,1,4]") + devices + "{manual}}").c_str()),
          Parse(ctx,
                (std::string("{devices=[1,2,4,2]") + devices + "{manual,replicated}}").c_str())) ==
      nullptr);
  for (const auto& row : table) {
    INFO(row[0] << " into " << row[1]);
    CHECK(Print(MergeShardings(ctx, Parse(ctx, row[0]), Parse(ctx, row[1]))) == row[2]);
  }
  const Sharding* same = Parse(ctx, "[2,1,4]<=[8] l");
  CHECK(MergeShardings(ctx, same, same) == nullptr);
  CHECK(MergeShardings(ctx, same, same, 2) == same);
  const Sharding* list[] = {Parse(ctx, "[2,1,4]<=[8] l"), Parse(ctx, "[1,2,4]<=[4,2]T(1,0) l"),
                            Parse(ctx, "[1,2,4]<=[8] l")};
  CHECK(Print(CommonSharding(ctx, std::span(list, 2))) == "[2,2,2]<=[2,2,2]T(0,2,1) l");
  CHECK(CommonSharding(ctx, list) == list[0]);
  CHECK(CommonSharding(ctx, list, ctx.Replicated()) == ctx.Replicated());
}

TEST_CASE("reshape propagation table", "[ir][sharding_algebra]") {
  struct Row {
    Ints from;
    const char* sharding;
    Ints to;
    const char* result;
  };
  const Row table[] = {
      {{8, 16, 4}, "[2,2,2]<=[8]", {8, 64}, "[2,2,2]<=[8] l"},
      {{16, 12}, "[2,3]<=[6]", {2, 8, 3, 4}, "[2,1,3,1]<=[6]"},
      {{16, 12}, "[2,3]<=[6]", {192}, "[2,3]<=[6] l"},
      {{12, 2}, "[6,1]<=[6]", {4, 6}, "[2,1,3]<=[6] l"},
      {{192}, "[6]<=[6]", {2, 96}, "[2,3]<=[6]"},
      {{6, 1, 8}, "[3,1,2]<=[6]", {6, 2, 4, 1}, "[3,2,1,1]<=[6]"},
      {{5, 4}, "[2,3]<=[6]", {5, 2, 2}, "[2,1,1,3]<=[6] l"},
      {{8, 16}, "{replicated}", {128}, "{replicated}"},
      {{8, 16}, "[1,2,4]<=[4,2]T(1,0) m", {8, 2, 8}, "[1,2,1,4]<=[4,2]T(1,0) m"},
  };
  Context ctx;
  for (const Row& row : table) {
    INFO(row.sharding);
    CHECK(Print(PropagateThroughReshape(ctx, Parse(ctx, row.sharding), row.from, row.to)) ==
          row.result);
  }
}

TEST_CASE("sub-tiling", "[ir][sharding_algebra]") {
  Context ctx;
  const Shape* even = ctx.Array(DType::kF32, Ints{8, 8});
  const auto refines = [&](const char* a, const char* b, const Shape* shape) {
    return IsSubTiling(Parse(ctx, a), Parse(ctx, b), shape);
  };
  CHECK(refines("[4,2]<=[8]", "[2,2,2]<=[2,2,2]T(0,2,1) l", even));
  CHECK_FALSE(refines("[2,2,2]<=[2,2,2]T(0,2,1) l", "[4,2]<=[8]", even));
  CHECK(refines("[8,1]<=[8]", "[2,1,4]<=[8] l", even));
  CHECK_FALSE(refines("[8,1]<=[2,4]T(1,0)", "[2,1,4]<=[8] l", even));
  CHECK(refines("[8,1]<=[8]", "{replicated}", even));
  CHECK_FALSE(refines("{replicated}", "[8,1]<=[8]", even));
  CHECK_FALSE(refines("{manual}", "[8,1]<=[8]", even));
  CHECK(refines("[3]<=[3]", "[3]<=[3]", ctx.Array(DType::kF32, Ints{7})));
}

TEST_CASE("device groups", "[ir][sharding_algebra]") {
  Context ctx;
  DeviceGroups groups = GroupOnDims(ctx, Parse(ctx, "[2,4]<=[8]"), Ints{1});
  CHECK(groups.groups.ToList() == Ints{0, 4, 1, 5, 2, 6, 3, 7});
  CHECK(groups.group_count() == 4);
  CHECK(Print(groups.inside) == "[2,1]<=[2]");
  CHECK(Print(Ungroup(ctx, groups, Ints{1}, Ints{4}, groups.inside)) == "[2,4]<=[8]");

  const Sharding* manual = Parse(ctx, "[1,2,4]<=[4,2]T(1,0) m");
  groups = GroupOnDims(ctx, manual, Ints{2});
  CHECK(groups.groups.ToList() == Ints{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(groups.group_count() == 4);
  CHECK(Print(groups.inside) == "[1,2]<=[2]");
  CHECK(Ungroup(ctx, groups, Ints{2}, Ints{4}, groups.inside) == manual);

  groups = GroupOnDims(ctx, Parse(ctx, "[4,2]<=[8]"), Ints{0}, Ints{2});
  CHECK(groups.groups.ToList() == Ints{0, 1, 2, 3, 4, 5, 6, 7});
  CHECK(groups.group_count() == 2);
  CHECK(Print(groups.inside) == "[2,2]<=[4]");

  CHECK(CollectiveGroups(Parse(ctx, "[2,4]<=[8]"), Ints{0}).ToString() == "[4,2]<=[2,4]T(1,0)");
  CHECK(CollectiveGroups(Parse(ctx, "[2,4]<=[8]"), Ints{1, 0}).ToString() == "[1,8]<=[2,4]T(1,0)");
}

TEST_CASE("geometry", "[ir][sharding_algebra]") {
  Context ctx;
  const Sharding* s = Parse(ctx, "[4,1,2]<=[2,4]T(1,0) l");
  const Shape* shape = ctx.Array(DType::kF32, Ints{8, 16});
  CHECK(ToString(ShardShape(ctx, shape, s)) == "f32[2,16]");
  CHECK(TileIndexOf(s, 5, 2) == Ints{1, 0});
  CHECK(TileIndexOf(s, 7, 2) == Ints{3, 0});
  CHECK(DividesEvenly(s, shape));
  CHECK_FALSE(DividesEvenly(s, ctx.Array(DType::kF32, Ints{7, 16})));
  CHECK(ToString(ShardShape(ctx, ctx.Array(DType::kF32, Ints{5, 0}), s)) == "f32[2,0]");
}

TEST_CASE("groups of replicas", "[ir][sharding_algebra]") {
  Context ctx;
  // The replicated dim gives all groups.
  DeviceGroups groups = GroupOnReplicated(ctx, Parse(ctx, "[2,1,4]<=[8] l"), 8, 2, {});
  CHECK(groups.groups.ToList() == Ints{0, 1, 4, 5, 2, 3, 6, 7});
  CHECK(Print(groups.inside) == "[2,1,2]<=[4] l");
  // It does not suffice: the rest is borrowed from data dim 0.
  groups = GroupOnReplicated(ctx, Parse(ctx, "[2,2,2]<=[8] l"), 8, 4, Ints{0, 1});
  CHECK(groups.groups.ToList() == Ints{0, 2, 4, 6, 1, 3, 5, 7});
  CHECK(Print(groups.inside) == "[1,2]<=[2]");
  // Nothing to borrow: consecutive blocks.
  groups = GroupOnReplicated(ctx, Parse(ctx, "[2,4]<=[2,4]T(1,0)"), 8, 2, {});
  CHECK(groups.groups.ToString() == "[2,4]<=[8]");
  CHECK(groups.inside->IsReplicated());
  CHECK(GroupOnReplicated(ctx, ctx.Replicated(), 8, 4, {}).groups.ToString() == "[4,2]<=[8]");
}

TEST_CASE("uneven sub-tiling", "[ir][sharding_algebra]") {
  Context ctx;
  const auto refines = [&](const char* a, const char* b, int64_t n) {
    return IsSubTiling(Parse(ctx, a), Parse(ctx, b), ctx.Array(DType::kF32, Ints{n}));
  };
  // 7 in 4: [0,2) [2,4) [4,6) [6,8); 7 in 2: [0,4) [4,8).
  CHECK(refines("[4]<=[4]", "[2,2]<=[4] l", 7));
  // 5 in 4: tiles of 2, [0,2) [2,4) [4,6); 5 in 2: tiles of 3, [0,3) [3,6). Tile 1 crosses.
  CHECK_FALSE(refines("[4]<=[4]", "[2,2]<=[4] l", 5));
  // 2 in 4 and in 2: tiles of 1. Device 1 has element 1 under A, element 0 under B.
  CHECK_FALSE(refines("[4]<=[4]", "[2,2]<=[4] l", 2));
  // Empty tiles clip: 1 in 4 and in 2 are tiles of 1; device 1 is beyond the end under A.
  CHECK(refines("[4]<=[4]", "[2,2]<=[4] l", 1));
}

TEST_CASE("more specific", "[ir][sharding_algebra]") {
  Context ctx;
  const auto better = [&](const char* a, const char* b) {
    return IsMoreSpecific(Parse(ctx, a), Parse(ctx, b));
  };
  CHECK(better("{manual}", "{replicated}"));
  CHECK(better("{manual}", "{maximal device=0}"));
  CHECK_FALSE(better("{manual}", "[2]<=[2]"));
  CHECK_FALSE(better("[2]<=[2]", "{manual}"));
  CHECK(better("[8,1]<=[8]", "[2,1,4]<=[8] l"));
  CHECK_FALSE(better("[8,1]<=[8]", "[1,8]<=[8]"));
  CHECK(better("[2]<=[2]", "{replicated}"));
  CHECK(better("{maximal device=0}", "{replicated}"));
  CHECK(better("[2]<=[2]", "{maximal device=0}"));
  CHECK_FALSE(better("{replicated}", "{maximal device=0}"));
  CHECK(better("{{manual}, {devices=[2]<=[2]}}", "{{replicated}, {devices=[2]<=[2]}}"));
  CHECK_FALSE(better("{{manual}, {replicated}}", "{{replicated}, {devices=[2]<=[2]}}"));
  CHECK_FALSE(better("{{replicated}}", "{{replicated}}"));
}

TEST_CASE("shardings of tuples and what does not fit", "[ir][sharding_algebra]") {
  Context ctx;
  const Shape* matrix = ctx.Array(DType::kF32, Ints{8, 16});
  const Shape* inner = ctx.Tuple(std::vector<const Shape*>{matrix, ctx.Token()});
  const Shape* tuple = ctx.Tuple(std::vector<const Shape*>{matrix, inner, ctx.Tuple({})});
  const Sharding* s =
      Parse(ctx, "{{devices=[8,1]<=[8]}, {devices=[1,8]<=[8]}, {maximal device=2}}");
  CHECK(ToString(ElementSharding(ctx, tuple, s, 0)) == "{devices=[8,1]<=[8]}");
  CHECK(ToString(ElementSharding(ctx, tuple, s, 1)) ==
        "{{devices=[1,8]<=[8]}, {maximal device=2}}");
  CHECK(ToString(ElementSharding(ctx, tuple, s, 2)) == "{}");
  CHECK(ToString(ShardShape(ctx, tuple, s)) == "(f32[1,16], (f32[8,2], token[]), ())");
  CHECK(LeafShardings(tuple, ctx.Replicated()).size() == 3);
  CHECK(DividesEvenly(s, tuple));
  CHECK_FALSE(DividesEvenly(Parse(ctx, "[1,3]<=[3]"), matrix));

  const auto why = [&](const char* text, const Shape* shape) {
    return WhyNotApplicable(Parse(ctx, text), shape, 8);
  };
  CHECK(why("{devices=[8,1]<=[8]}", matrix) == "");
  CHECK(why("{devices=[8,1]<=[8]}", ctx.Token()) == "");
  CHECK(why("{replicated}", tuple) == "");
  CHECK(why("{{replicated}}", ctx.Tuple({})) == "");
  CHECK(why("{}", ctx.Tuple({})) == "");
  CHECK(why("{devices=[4,1]<=[4]}", matrix) == "the sharding is for 4 devices, there are 8");
  CHECK(WhyNotApplicable(Parse(ctx, "{devices=[4,1]<=[4]}"), matrix, 8, true) == "");
  CHECK(why("{devices=[4,1]0,1,4,5}", matrix) == "");
  CHECK(why("{devices=[4,1]0,1,4,8}", matrix) == "device 8 does not exist: there are 8 devices");
  CHECK(why("{devices=[8]<=[8]}", matrix) ==
        "the sharding has 1 data dims, the shape f32[8,16] has 2");
  CHECK(why("{maximal device=8}", matrix) == "device 8 does not exist: there are 8 devices");
  CHECK(why("{mesh['a'=8], [{}]}", matrix) == "the sharding has 1 dims, the shape f32[8,16] has 2");
  CHECK(why("{{replicated}}", matrix) ==
        "a sharding of a tuple on the shape f32[8,16], which is none");
  CHECK(why("{{replicated}}", tuple) == "the sharding has 1 entries, the tuple has 3 leaves");
}

// --- the axis-form paths against plain lists of devices

Ints RandomFactors(std::mt19937& rng, int64_t n) {
  Ints factors;
  while (n > 1) {
    Ints divisors;
    for (int64_t d = 2; d <= n; ++d) {
      if (n % d == 0) divisors.push_back(d);
    }
    factors.push_back(divisors[rng() % divisors.size()]);
    n /= factors.back();
  }
  return factors;
}

// A tiled sharding over n devices with `rank` data dims, mostly in axis form.
const Sharding* RandomSharding(Context& ctx, std::mt19937& rng, int64_t n, size_t rank,
                               bool manual) {
  const Ints reshape = RandomFactors(rng, n);
  Ints permutation(reshape.size());
  std::iota(permutation.begin(), permutation.end(), int64_t{0});
  std::shuffle(permutation.begin(), permutation.end(), rng);
  Ints dims(rank + 2, 1);
  for (int64_t factor : RandomFactors(rng, n)) dims[rng() % (rank + (manual ? 2 : 1))] *= factor;
  std::vector<SubgroupType> types = {SubgroupType::kReplicated, SubgroupType::kManual};
  TileAssignment tiles = TileAssignment::Iota(dims, reshape, permutation);
  if (rng() % 10 == 0) {
    Ints list = tiles.ToList();
    std::shuffle(list.begin(), list.end(), rng);
    tiles = TileAssignment::List(dims, list);
  }
  return ctx.Tiled(std::move(tiles), std::move(types));
}

struct Place {
  Ints tile;
  int64_t manual;
};
Place PlaceOf(const Sharding* s, int64_t device) {
  Ints coordinate = s->tiles.CoordinateOf(device);
  const int64_t dim = s->SubgroupDim(SubgroupType::kManual);
  Place place{{}, dim < 0 ? 0 : coordinate[static_cast<size_t>(dim)]};
  place.tile.assign(coordinate.begin(), coordinate.begin() + s->data_rank());
  return place;
}

// The definition of merge: sets of devices. Empty string: no merge.
std::string ReferenceMerge(Context& ctx, const Sharding* a, const Sharding* b) {
  if (!b->IsPartiallyReplicated()) return "none";
  const int64_t manual = a->SubgroupSize(SubgroupType::kManual);
  if (manual != b->SubgroupSize(SubgroupType::kManual)) return "none";
  Ints dims;
  int64_t tiles = 1;
  for (int64_t i = 0; i < a->data_rank(); ++i) {
    const int64_t x = a->tiles.dim(i), y = b->tiles.dim(i);
    if (x != y && x != 1 && y != 1) return "none";
    dims.push_back(std::max(x, y));
    tiles *= dims.back();
  }
  const int64_t n = a->device_count();
  if (tiles <= b->TileCount() || n % (tiles * manual) != 0) return "none";
  dims.push_back(manual);
  const int64_t replicas = n / (tiles * manual);
  Ints list;
  for (int64_t index = 0; index < tiles * manual; ++index) {
    Ints at(dims.size());
    int64_t rest = index;
    for (size_t i = dims.size(); i-- > 0;) {
      at[i] = rest % dims[i];
      rest /= dims[i];
    }
    int64_t members = 0;
    for (int64_t device = 0; device < n; ++device) {
      const Place pa = PlaceOf(a, device), pb = PlaceOf(b, device);
      bool in = pa.manual == at.back() && pb.manual == at.back();
      for (size_t i = 0; i + 1 < dims.size(); ++i) {
        if (a->tiles.dims()[i] > 1) in = in && pa.tile[i] == at[i];
        if (b->tiles.dims()[i] > 1) in = in && pb.tile[i] == at[i];
      }
      if (in) {
        list.push_back(device);
        ++members;
      }
    }
    if (members != replicas) return "none";
  }
  dims.push_back(replicas);
  return Print(ctx.Tiled(TileAssignment::List(dims, list),
                         {SubgroupType::kManual, SubgroupType::kReplicated}));
}

bool ReferenceSubTiling(const Sharding* a, const Sharding* b, const Shape* shape) {
  for (int64_t device = 0; device < a->device_count(); ++device) {
    const Place pa = PlaceOf(a, device), pb = PlaceOf(b, device);
    for (int64_t d = 0; d < shape->rank(); ++d) {
      const int64_t n = shape->dim(d), ca = a->tiles.dim(d), cb = b->tiles.dim(d);
      if (ca < cb) return false;
      const int64_t sa = (n + ca - 1) / ca, sb = (n + cb - 1) / cb;
      const int64_t start_a = sa * pa.tile[static_cast<size_t>(d)];
      const int64_t start_b = sb * pb.tile[static_cast<size_t>(d)];
      if (start_a < start_b) return false;
      if (start_a + sa > start_b + sb && start_a + sa <= n) return false;
    }
  }
  return true;
}

TEST_CASE("merge and sub-tiling agree with sets of devices", "[ir][sharding_algebra]") {
  std::mt19937 rng(11);
  Context ctx;
  const Ints counts = {4, 6, 8, 12, 16, 24};
  int merged = 0, refined = 0, tiled = 0;
  for (int trial = 0; trial < 20000; ++trial) {
    const int64_t n = counts[rng() % counts.size()];
    const size_t rank = 1 + rng() % 3;
    const bool manual = rng() % 4 == 0;
    const Sharding* a = RandomSharding(ctx, rng, n, rank, manual);
    const Sharding* b = RandomSharding(ctx, rng, n, rank, manual);
    if (rng() % 2 == 0) {  // parts of one sharding merge more often
      if (!a->IsTiled()) continue;
      b = KeepOnlyDims(ctx, a, Ints{static_cast<int64_t>(rng() % rank)});
      a = KeepOnlyDims(ctx, a, Ints{static_cast<int64_t>(rng() % rank)});
    }
    if (!a->IsTiled() || !b->IsTiled() || a->data_rank() != b->data_rank()) continue;
    ++tiled;
    INFO(Print(a) << " into " << Print(b));
    const std::string expected = ReferenceMerge(ctx, a, b);
    REQUIRE(Print(MergeShardings(ctx, a, b)) == expected);
    merged += expected != "none" ? 1 : 0;

    Ints dims;
    for (size_t i = 0; i < rank; ++i)
      dims.push_back(rng() % 2 == 0 ? n : static_cast<int64_t>(rng() % 30));
    const Shape* shape = ctx.Array(DType::kF32, dims);
    INFO(ToString(shape));
    const bool expect_refined = ReferenceSubTiling(a, b, shape);
    REQUIRE(IsSubTiling(a, b, shape) == expect_refined);
    refined += expect_refined ? 1 : 0;
  }
  CHECK(tiled > 8000);
  CHECK(merged > 500);
  CHECK(refined > 1000);
}

TEST_CASE("groups agree with their definition", "[ir][sharding_algebra]") {
  std::mt19937 rng(5);
  Context ctx;
  const Ints counts = {4, 6, 8, 12, 16, 24};
  for (int trial = 0; trial < 5000; ++trial) {
    const int64_t n = counts[rng() % counts.size()];
    const size_t rank = 1 + rng() % 3;
    const Sharding* s = RandomSharding(ctx, rng, n, rank, rng() % 2 == 0);
    if (!s->IsTiled()) continue;
    Ints dims, kept, group_counts;
    for (int64_t i = 0; i < s->tiles.rank(); ++i) {
      if (rng() % 2 == 0) dims.push_back(i);
    }
    std::shuffle(dims.begin(), dims.end(), rng);
    for (int64_t d : dims) {
      const int64_t count = s->tiles.dim(d);
      kept.push_back(d < s->data_rank() && rng() % 2 == 0 ? std::gcd(count, int64_t{2}) : 1);
      group_counts.push_back(count / kept.back());
    }
    INFO(Print(s));
    const DeviceGroups groups = GroupOnDims(ctx, s, dims, kept);
    // Group number of a device, row-major over dims in the order given.
    for (int64_t device = 0; device < n; ++device) {
      const Ints at = s->tiles.CoordinateOf(device);
      int64_t group = 0;
      for (size_t k = 0; k < dims.size(); ++k) {
        group = group * group_counts[k] + at[static_cast<size_t>(dims[k])] / kept[k];
      }
      REQUIRE(groups.groups.CoordinateOf(device)[0] == group);
    }
    // Members in tile-array order.
    for (int64_t g = 0; g < groups.group_count(); ++g) {
      for (int64_t m = 0; m + 1 < groups.group_size(); ++m) {
        const int64_t flat = g * groups.group_size() + m;
        REQUIRE(s->tiles.FlatIndexOf(groups.groups.DeviceAtFlat(flat)) <
                s->tiles.FlatIndexOf(groups.groups.DeviceAtFlat(flat + 1)));
      }
    }
    // Inside each group the device at a place has the tile that `inside` says.
    if (groups.inside->IsTiled()) {
      for (int64_t flat = 0; flat < n; ++flat) {
        const Ints whole = PlaceOf(s, groups.groups.DeviceAtFlat(flat)).tile;
        const Ints part = PlaceOf(groups.inside, flat % groups.group_size()).tile;
        for (size_t i = 0; i < whole.size(); ++i) {
          REQUIRE(whole[i] % groups.inside->tiles.dims()[i] == part[i]);
        }
      }
    }
    const Sharding* back = Ungroup(ctx, groups, dims, group_counts, groups.inside);
    REQUIRE(Print(back) == Print(s->canonical));
  }
}

TEST_CASE("Shardings of an outfeed: one for each leaf of its data", "[sharding_algebra]") {
  const auto parse = [](const std::string& sharding) {
    auto module = ParseModule(SourceText::FromString(
        "test.hlo",
        "HloModule m, num_partitions=2\nENTRY e {\n a = f32[4] parameter(0)\n"
        " b = (f32[4], (f32[], s32[2])) parameter(1)\n t = token[] after-all()\n"
        " ROOT o = token[] outfeed(b, t), outfeed_shape=(f32[4], (f32[], s32[2]))" +
            sharding + "\n}\n"));
    if (!module) FAIL(Render(module.error()));
    return std::move(*module);
  };
  const auto none = parse("");
  CHECK(OutfeedShardings(*none->entry()->root()) == std::vector<const Sharding*>(3, nullptr));
  const auto one = parse(", sharding={maximal device=1}");
  const Sharding* s = one->entry()->root()->sharding();
  CHECK(OutfeedShardings(*one->entry()->root()) == std::vector<const Sharding*>(3, s));
  const auto each = parse(
      ", sharding={{devices=[2]<=[2]}, {replicated}, {maximal device=1}, {maximal device=0}}");
  const std::vector<const Sharding*>& all = each->entry()->root()->sharding()->elements;
  REQUIRE(all.size() == 4);  // with the token's
  CHECK(OutfeedShardings(*each->entry()->root()) ==
        std::vector<const Sharding*>(all.begin(), all.begin() + 3));
}

}  // namespace
}  // namespace gshard
