#include "ir/shardy_text.h"

#include <catch2/catch.hpp>

namespace gshard {
namespace {

ShardyMeshes Meshes() {
  ShardyMeshes meshes;
  REQUIRE(ReadShardyMeshes("{mesh = #sdy.mesh<[\"a\"=2, \"b\"=4]>}", meshes));
  return meshes;
}

std::string FormOf(std::string_view text) {
  std::vector<ShardySharding> list;
  TextError error;
  if (!ReadShardyShardings(text, Meshes(), list, &error)) {
    return std::string(text.substr(0, error.offset)) + "^" + error.message;
  }
  std::string forms;
  for (const ShardySharding& sharding : list) forms += MeshFormOf(sharding);
  return forms;
}

TEST_CASE("shardings of a list may have their name before them", "[ir]") {
  constexpr std::string_view kForm = "{mesh['a'=2,'b'=4], [{'a'}, {}]}";
  CHECK(FormOf("#sdy.sharding_per_value<[<@mesh, [{\"a\"}, {}]>]>") == kForm);
  CHECK(FormOf("#sdy.sharding_per_value<[#sdy.sharding<@mesh, [{\"a\"}, {}]>]>") == kForm);
  CHECK(WithoutInnerNames("#sdy.sharding_per_value<[#sdy.sharding<@m, []>, <@m, []>]>") ==
        "#sdy.sharding_per_value<[<@m, []>, <@m, []>]>");
  CHECK(WithoutInnerNames("#sdy.sharding<@m, []>") == "#sdy.sharding<@m, []>");
}

TEST_CASE("partial values are put together by adding, or by max or min", "[ir]") {
  const auto unreduced = [](std::string_view how) {
    return FormOf("#sdy.sharding<@mesh, [{\"a\"}], unreduced=" + std::string(how) + "{\"b\"}>");
  };
  CHECK(unreduced("") == "{mesh['a'=2,'b'=4], [{'a'}], unreduced={'b'}}");
  CHECK(unreduced("sum") == "{mesh['a'=2,'b'=4], [{'a'}], unreduced={'b'}}");
  CHECK(unreduced("max") == "{mesh['a'=2,'b'=4], [{'a'}], unreduced=max{'b'}}");
  CHECK(unreduced("min") == "{mesh['a'=2,'b'=4], [{'a'}], unreduced=min{'b'}}");
}

TEST_CASE("what is wrong with a sharding is told with its place", "[ir]") {
  CHECK(FormOf("#sdy.sharding<@grid, []>") ==
        "#sdy.sharding<@^no mesh is called @grid; the module declares @mesh");
  CHECK(FormOf("#sdy.sharding<@mesh, [{a}]>") ==
        "#sdy.sharding<@mesh, [{^the name of an axis in quotes is expected here");
  CHECK(FormOf("#sdy.sharding<@mesh, [{\"a\"}], unreduced=mean{\"b\"}>") ==
        "#sdy.sharding<@mesh, [{\"a\"}], unreduced=^partial values are combined by sum, max or "
        "min, not by 'mean'");
  CHECK(FormOf("#sdy.sharding<@mesh, [{\"a\"}], partial={\"b\"}>") ==
        "#sdy.sharding<@mesh, [{\"a\"}], ^'partial' is neither replicated= nor unreduced=");
  CHECK(FormOf("#sdy.sharding<@mesh, [{\"a\"") ==
        "#sdy.sharding<@mesh, [{\"a\"^the name of an "
        "axis in quotes is expected here");
  std::vector<ShardySharding> list;
  TextError error;
  CHECK_FALSE(ReadShardyShardings("#sdy.sharding<@mesh, []>", {}, list, &error));
  CHECK(error.message == "no mesh is called @mesh: the module declares none");
}

}  // namespace
}  // namespace gshard
