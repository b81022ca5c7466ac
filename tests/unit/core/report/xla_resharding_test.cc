// Layouts between which XLA gathers everything; each pair was put to jaxlib.
#include "core/report/xla_resharding.h"

#include <catch2/catch.hpp>

#include "ir/sharding_text.h"

namespace gshard {
namespace {

bool Rematerializes(const char* has, const char* wants) {
  Context ctx;
  return XlaRematerializes(*ParseSharding(ctx, has), *ParseSharding(ctx, wants));
}

TEST_CASE("XLA rematerialises where neither tiles nor copies lead from one to the other",
          "[report]") {
  const char* rows_of_four = "{devices=[4,1,2]<=[8] last_tile_dim_replicate}";
  CHECK(Rematerializes(rows_of_four, "{devices=[1,2,4]<=[8] last_tile_dim_replicate}"));
}

TEST_CASE("XLA moves tiles by all-to-alls, gathers and slices of what it has", "[report]") {
  CHECK_FALSE(Rematerializes("{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}"));
  CHECK_FALSE(Rematerializes("{devices=[4,2]<=[8]}", "{devices=[2,4]<=[8]}"));
  CHECK_FALSE(
      Rematerializes("{devices=[8,1]<=[8]}", "{devices=[4,1,2]<=[8] last_tile_dim_replicate}"));
  CHECK_FALSE(Rematerializes("{devices=[2,1,4]<=[8] last_tile_dim_replicate}",
                             "{devices=[1,2,4]<=[8] last_tile_dim_replicate}"));
  CHECK_FALSE(Rematerializes("{devices=[2,2,2]<=[8] last_tile_dim_replicate}",
                             "{devices=[2,2,2]<=[2,2,2]T(1,2,0) last_tile_dim_replicate}"));
}

TEST_CASE("a whole value is what was asked for", "[report]") {
  CHECK_FALSE(Rematerializes("{devices=[4,2]<=[8]}", "{replicated}"));
  CHECK_FALSE(Rematerializes("{replicated}", "{devices=[4,2]<=[8]}"));
  CHECK_FALSE(Rematerializes("{maximal device=0}", "{devices=[4,2]<=[8]}"));
  Context ctx;
  CHECK_FALSE(XlaRematerializes(nullptr, *ParseSharding(ctx, "{devices=[8,1]<=[8]}")));
}

}  // namespace
}  // namespace gshard
