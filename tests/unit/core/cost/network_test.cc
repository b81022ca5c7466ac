// Where mesh axes lie on a network, and the formulas of collective times.

#include "core/cost/network.h"

#include <catch2/catch.hpp>

namespace gshard {
namespace {

Chip ChipNamed(std::string_view name) { return *BuiltInChip(name); }

Mesh MeshOf(std::vector<MeshAxis> axes) {
  Mesh mesh;
  std::vector<int64_t> sizes;
  for (const MeshAxis& axis : axes) sizes.push_back(axis.size);
  mesh.axes = std::move(axes);
  mesh.devices = TileAssignment::Iota(sizes);
  return mesh;
}

double SecondsOf(const Network& network, std::string_view kind, double local_bytes,
                 std::vector<std::string> axes, int64_t group_size) {
  return network.TimeOf({kind, local_bytes, group_size, network.SegmentsOf(axes)}).seconds;
}

TEST_CASE("The innermost axis takes the cores of a chip and the nearest links", "[network]") {
  Mesh mesh = MeshOf({{"data", 8}, {"model", 16}});
  Network network = *Network::Make(ChipNamed("tpu-v3"), 128, &mesh);
  CHECK(network.Description() == "data -> x, model -> y+core; x=8, y=8, core=2");
  mesh = MeshOf({{"data", 8}, {"model", 8}});
  network = *Network::Make(ChipNamed("h100"), 64, &mesh);
  CHECK(network.Description() == "data -> nic, model -> nvlink; nic=8, nvlink=8");
}

TEST_CASE("Slices are shaped so that axes share no dim", "[network]") {
  Mesh mesh = MeshOf({{"data", 16}, {"model", 8}});
  Network network = *Network::Make(ChipNamed("tpu-v5p"), 128, &mesh);
  CHECK(network.Description() == "data -> x+y, model -> z; x=4 (ring), y=4 (ring), z=8 (ring)");
}

TEST_CASE("A mesh map overrides the default and is checked", "[network]") {
  Mesh mesh = MeshOf({{"data", 8}, {"model", 16}});
  Network network =
      *Network::Make(ChipNamed("tpu-v3"), 128, &mesh, {{"data", "core+x"}, {"model", "y"}});
  CHECK(network.Description() == "data -> x+core, model -> y; x=4, y=16, core=2");
  auto refused = Network::Make(ChipNamed("tpu-v3"), 128, &mesh, {{"batch", "x"}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().code == "E-COST-003");
  refused = Network::Make(ChipNamed("tpu-v3"), 128, &mesh, {{"data", "nvlink"}});
  REQUIRE_FALSE(refused);
  CHECK(refused.error().hint == "it has x, y, dcn, core");
}

TEST_CASE("Sub-axes cover the part of a dim that they name", "[network]") {
  Mesh mesh = MeshOf({{"data", 4}, {"model", 8}});
  Network network = *Network::Make(ChipNamed("tpu-v5e"), 32, &mesh);
  // "model" seen as (2, 4): its major part steps over four devices.
  std::vector<NetworkSegment> major = network.SegmentsOf("model:(1)2");
  REQUIRE(major.size() == 1);
  CHECK(major[0].extent == 2);
  CHECK(major[0].stride == 4);
  std::vector<NetworkSegment> minor = network.SegmentsOf("model:(2)4");
  REQUIRE(minor.size() == 1);
  CHECK(minor[0].extent == 4);
  CHECK(minor[0].stride == 1);
  CHECK(network.SegmentsOf("nothing").empty());
}

TEST_CASE("A ring carries twice what a line does, several dims their sum", "[network]") {
  Chip chip = ChipNamed("tpu-v5e");
  chip.collective_launch_s = 0;
  for (NetworkLevel& level : chip.network) level.latency_s = 0;
  const double w = chip.network[0].bytes_per_s * chip.network[0].efficiency;
  Mesh ring = MeshOf({{"a", 16}, {"b", 16}});
  Network wrapped = *Network::Make(chip, 256, &ring);
  const double shard = 1e6;
  CHECK(SecondsOf(wrapped, "all-gather", shard, {"a"}, 16) == Approx(15 * shard / (2 * w)));
  CHECK(SecondsOf(wrapped, "all-gather", shard, {"a", "b"}, 256) == Approx(255 * shard / (4 * w)));
  CHECK(SecondsOf(wrapped, "all-reduce", shard, {"b"}, 16) ==
        Approx(2 * shard * 15 / 16 / (2 * w)));
  CHECK(SecondsOf(wrapped, "all-to-all", shard, {"b"}, 16) == Approx(16 * shard / (8 * w)));
  Mesh line = MeshOf({{"a", 8}, {"b", 4}});
  Network open = *Network::Make(chip, 32, &line);
  CHECK(SecondsOf(open, "all-gather", shard, {"a"}, 8) == Approx(7 * shard / w));
  CHECK(SecondsOf(open, "all-to-all", shard, {"b"}, 4) == Approx(4 * shard / (4 * w)));
  CHECK(SecondsOf(open, "collective-permute", shard, {"a"}, 2) == Approx(shard / w));
}

TEST_CASE("The devices of a chip share its links; a line through both is a ring", "[network]") {
  Chip chip = ChipNamed("tpu-v3");
  chip.collective_launch_s = 0;
  for (NetworkLevel& level : chip.network) level.latency_s = 0;
  const double w = chip.network[0].bytes_per_s * chip.network[0].efficiency;
  Mesh mesh = MeshOf({{"data", 8}, {"model", 16}});
  Network network = *Network::Make(chip, 128, &mesh);
  const double shard = 1e6;
  CHECK(SecondsOf(network, "all-gather", shard, {"data"}, 8) == Approx(7 * shard / (w / 2)));
  CHECK(SecondsOf(network, "all-gather", shard, {"model"}, 16) == Approx(15 * shard / w));
}

TEST_CASE("All-to-all grows with the side of a torus, all-reduce hardly", "[network]") {
  Chip chip = ChipNamed("tpu-v3");
  auto seconds = [&](int64_t devices, std::string_view kind) {
    Network network = *Network::Make(chip, devices, nullptr);
    return network.TimeOf({kind, 8e6, devices, network.AllSegments()}).seconds;
  };
  // Sides of 4, 8 and 32 chips: GShard, section 5, measured 9 and 3.75.
  CHECK(seconds(2048, "all-to-all") / seconds(16, "all-to-all") == Approx(8).epsilon(0.06));
  CHECK(seconds(2048, "all-to-all") / seconds(128, "all-to-all") == Approx(4).epsilon(0.06));
  CHECK(seconds(2048, "all-reduce") < 1.5 * seconds(128, "all-reduce"));
}

TEST_CASE("Over switches a ring leaves each node once", "[network]") {
  Chip chip = ChipNamed("h100");
  chip.collective_launch_s = 0;
  for (NetworkLevel& level : chip.network) level.latency_s = 0;
  const double nvlink = chip.network[0].bytes_per_s * chip.network[0].efficiency;
  const double nic = chip.network[1].bytes_per_s * chip.network[1].efficiency;
  Mesh mesh = MeshOf({{"data", 16}});
  Network network = *Network::Make(chip, 16, &mesh);
  const double shard = 1e6;
  CHECK(SecondsOf(network, "all-gather", shard, {"data"}, 16) ==
        Approx(std::max(15 * shard / nvlink, 15 * shard / 8 / nic)));
  Mesh inside = MeshOf({{"data", 8}});
  network = *Network::Make(chip, 8, &inside);
  CHECK(SecondsOf(network, "all-gather", shard, {"data"}, 8) == Approx(7 * shard / nvlink));
}

TEST_CASE("Small all-reduces take latency, not steps of a ring", "[network]") {
  Network network = *Network::Make(ChipNamed("tpu-v3"), 2048, nullptr);
  CollectiveTime time = network.TimeOf({"all-reduce", 64, 2048, network.AllSegments()});
  CHECK(time.algorithm == "one-shot");
  CHECK(time.seconds < 50e-6);
  CHECK(network.TimeOf({"all-reduce", 64, 1, {}}).seconds == 0);
}

}  // namespace
}  // namespace gshard
