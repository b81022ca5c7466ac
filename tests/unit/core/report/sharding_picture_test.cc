#include "core/report/sharding_picture.h"

#include <catch2/catch.hpp>
#include <numeric>

#include "ir/sharding_text.h"

namespace gshard {
namespace {

TEST_CASE("Devices are told as runs, steps and singles", "[show]") {
  CHECK(DeviceListText({3}) == "3");
  CHECK(DeviceListText({1, 0}) == "0,1");
  CHECK(DeviceListText({3, 1, 2, 0}) == "0-3");
  CHECK(DeviceListText({0, 8, 16, 24}) == "0,8..24");
  CHECK(DeviceListText({0, 1, 2, 8, 9, 10}) == "0-2,8-10");
  CHECK(DeviceListText({0, 1, 4, 5}) == "0,1,4,5");
  CHECK(DeviceListText({0, 3, 4, 9, 11, 20, 22, 30}) == "0,3,4,9,11,.. 8 in all");
}

TEST_CASE("Tiles cover the array once, on every device of the sharding", "[show]") {
  Context ctx;
  const int64_t dims[] = {10, 6};
  const Shape* shape = ctx.Array(DType::kF32, dims);
  for (const char* text : {"{replicated}", "{devices=[4,2]<=[8]}", "{devices=[8,1]<=[8]}",
                           "{devices=[2,2,2]<=[2,4]T(1,0) last_tile_dim_replicate}",
                           "{devices=[2,4]0,7,1,6,2,5,3,4}"}) {
    INFO(text);
    const auto tiles = TilesOf(shape, *ParseSharding(ctx, text), 8);
    int64_t elements = 0;
    std::vector<int64_t> devices;
    for (const ShardingTile& tile : tiles) {
      elements += (tile.end[0] - tile.begin[0]) * (tile.end[1] - tile.begin[1]);
      devices.insert(devices.end(), tile.devices.begin(), tile.devices.end());
    }
    CHECK(elements == 60);
    std::sort(devices.begin(), devices.end());
    std::vector<int64_t> all(8);
    std::iota(all.begin(), all.end(), 0);
    CHECK(devices == all);
  }
  CHECK(TilesOf(shape, ctx.Manual(), 8).empty());
  CHECK(TilesOf(shape, ctx.Maximal(3), 8).front().devices == std::vector<int64_t>{3});
}

TEST_CASE("A picture keeps to the width it is given, unless it is to be full", "[show]") {
  Context ctx;
  const int64_t dims[] = {4096, 4096};
  const Shape* shape = ctx.Array(DType::kF32, dims);
  const Sharding* sharding = *ParseSharding(ctx, "{devices=[32,64]<=[2048]}");
  auto widest = [](const std::string& text) {
    size_t most = 0;
    for (size_t begin = 0; begin < text.size();) {
      const size_t end = text.find('\n', begin);
      most = std::max(most, end - begin);
      begin = end + 1;
    }
    return most;
  };
  const std::string picture = ShardingPicture(ctx, shape, sharding, nullptr, 2048);
  CHECK(widest(picture) <= 102);
  CHECK(std::count(picture.begin(), picture.end(), '\n') < 40);
  const std::string full = ShardingPicture(ctx, shape, sharding, nullptr, 2048, {.full = true});
  CHECK(full.find("| 1000 ") != std::string::npos);
  CHECK(picture.find("| 1000 ") == std::string::npos);
}

}  // namespace
}  // namespace gshard
