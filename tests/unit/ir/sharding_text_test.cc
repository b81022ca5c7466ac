#include "ir/sharding_text.h"

#include <catch2/catch.hpp>
#include <string>

namespace gshard {
namespace {

std::string Print(Context& ctx, std::string_view text) {
  const auto parsed = ParseSharding(ctx, text);
  if (!parsed)
    return "error at " + std::to_string(parsed.error().offset) + ": " + parsed.error().message;
  return ToString(*parsed);
}
std::string PrintTiles(Context& ctx, std::string_view text) {
  const auto parsed = ParseSharding(ctx, text);
  return parsed ? ToString((*parsed)->canonical) : "error";
}

// What XLA's HloSharding prints for the same input (jaxlib 0.10.2).
TEST_CASE("shardings print as XLA prints them", "[ir][sharding_text]") {
  const char* const table[][2] = {
      {"{devices=[1,1]<=[1]}", "{devices=[1,1]<=[1]}"},
      {"{devices=[1,1,1]<=[1] last_tile_dim_replicate}", "{replicated}"},
      {"{devices=[1,1,1,8]<=[8] last_tile_dims={manual, replicated}}", "{replicated}"},
      {"{devices=[1,1,8,1]<=[8] last_tile_dims={manual, replicated}}", "{manual}"},
      {"{devices=[1,1,2,4]<=[8] last_tile_dims={manual, manual}}", "{manual}"},
      {"{devices=[2,1,2,2]<=[8] last_tile_dims={replicated,manual}}",
       "{devices=[2,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated}}"},
      {"{devices=[2,1,2,2]<=[8] last_tile_dims={manual,replicated}}",
       "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, replicated}}"},
      {"{devices=[2,1,2,2]<=[8] last_tile_dims={manual,manual}}",
       "{devices=[2,1,4]<=[8] last_tile_dims={manual}}"},
      {"{devices=[2,1,2,2]<=[8] last_tile_dims={replicated,replicated}}",
       "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      {"{devices=[2,1,4]<=[8] last_tile_dims={replicated}}",
       "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      {"{devices=[2,1,4]<=[8] last_tile_dims={manual}}",
       "{devices=[2,1,4]<=[8] last_tile_dims={manual}}"},
      {"{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}",
       "{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}"},
      {"{devices=[2,1,4]<=[8] last_tile_dims={maximal}}",
       "{devices=[2,1,4]<=[8] last_tile_dims={maximal}}"},
      {"{devices=[2,1,2,2]<=[8] last_tile_dims={replicated, maximal}}",
       "{devices=[2,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={maximal, replicated}}"},
      {"{devices=[2,1,2,2]<=[8] last_tile_dims={manual, maximal}}",
       "{devices=[2,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={maximal, manual}}"},
      {"{devices=[1,8]<=[8] last_tile_dims={maximal}}",
       "{devices=[1,8]<=[8] last_tile_dims={maximal}}"},
      {"{devices=[2,4,1]<=[8] last_tile_dims={manual}}", "{devices=[2,4]<=[8]}"},
      {"{devices=[2,4,1]<=[8] last_tile_dim_replicate}", "{devices=[2,4]<=[8]}"},
      {"{devices=[2,1,4]0,2,1,3,7,6,5,4 last_tile_dim_replicate}",
       "{devices=[2,1,4]0,1,2,3,4,5,6,7 last_tile_dim_replicate}"},
      {"{devices=[2,1,4]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}",
       "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      {"{devices=[2,1,4]<=[2,2,2]T(0,2,1) last_tile_dims={manual}}",
       "{devices=[2,1,4]<=[2,2,2]T(0,2,1) last_tile_dims={manual}}"},
      {"{devices=[1,1,8]<=[8] last_tile_dim_replicate}", "{replicated}"},
      {"{devices=[1,1,8]<=[2,4]T(1,0) last_tile_dims={manual}}", "{manual}"},
      {"{devices=[1,1,8]<=[2,4]T(1,0) last_tile_dims={unreduced}}", "{unreduced}"},
      {"{devices=[1,8]<=[8] last_tile_dims={}}", "{devices=[1,8]<=[8]}"},
      {"{devices=[2,2,2,2]<=[16] last_tile_dims={unreduced, manual}}",
       "{devices=[2,2,2,2]<=[4,2,2]T(0,2,1) last_tile_dims={manual, unreduced}}"},
      {"{devices=[2,2,2,2,2]<=[32] last_tile_dims={replicated, manual, replicated}}",
       "{devices=[2,2,2,4]<=[4,2,2,2]T(0,2,1,3) last_tile_dims={manual, replicated}}"},
      {"{devices=[2,4]0,1,2,3,4,5,6,7}", "{devices=[2,4]0,1,2,3,4,5,6,7}"},
      {"{devices=[2,2,2]0,2,1,3,4,6,5,7 last_tile_dims={manual}}",
       "{devices=[2,2,2]0,2,1,3,4,6,5,7 last_tile_dims={manual}}"},
      {"{devices=[2,2,2]3,2,1,0,4,6,5,7 last_tile_dims={replicated}}",
       "{devices=[2,2,2]2,3,0,1,4,6,5,7 last_tile_dim_replicate}"},
      {"{devices=[2,4]<=[2,4]T(0,1)}", "{devices=[2,4]<=[8]}"},
      {"{devices=[8]<=[2,2,2]T(2,0,1)}", "{devices=[8]<=[4,2]T(1,0)}"},
      {"{devices=[60]<=[3,4,5]T(1,2,0)}", "{devices=[60]<=[3,20]T(1,0)}"},
      {"{devices=[2,4]<=[1,8]T(1,0)}", "{devices=[2,4]<=[8]}"},
      {"{shard_as 3 replicated}", "{replicated shard_as 3}"},
      {"{unknown shard_like 0}", "{unknown shard_like 0}"},
      {"{maximal device=3}", "{maximal device=3}"},
      {"{device=3 maximal}", "{maximal device=3}"},
      {"{last_tile_dim_replicate devices=[2,1,4]<=[8]}",
       "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      {"{{replicated}, {devices=[2]<=[2]}}", "{{replicated}, {devices=[2]<=[2]}}"},
      {"{{replicated}, {replicated}, {replicated}, {manual}, {replicated}, {unknown}}",
       "{{replicated}, {replicated}, {replicated}, {manual}, {replicated}, /*index=5*/{unknown}}"},
      {"{}", "{}"},
      {"{manual}", "{manual}"},
      {"{unreduced}", "{unreduced}"},
      {"{unknown}", "{unknown}"},
      {"{ replicated }", "{replicated}"},
      {"{devices=[2,4] <=[8]}", "{devices=[2,4]<=[8]}"},
      {"{devices=[8]<=[8] last_tile_dim_replicate}", "{replicated}"},
      {"{devices=[8]<=[8] last_tile_dims={manual}}", "{manual}"},
      // named
      {"{mesh['a'=2,'b'=4], [{'a','b'}, {}]}", "{mesh['a'=2,'b'=4], [{'a', 'b'}, {}]}"},
      {"{mesh['a'=2,'b'=4], [{'b', 'a', ?}, {?}]}", "{mesh['a'=2,'b'=4], [{'b', 'a', ?}, {?}]}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {'b':(2)2}]}", "{mesh['a'=2,'b'=4], [{'a'}, {'b':(2)2}]}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {}], unreduced={'b':(2)2}, replicated={'b':(1)2}}",
       "{mesh['a'=2,'b'=4], [{'a'}, {}], replicated={'b':(1)2}, unreduced={'b':(2)2}}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {}], manual={'b':(1)2}, unreduced={'b':(2)2}}",
       "{mesh['a'=2,'b'=4], [{'a'}, {}], unreduced={'b':(2)2}, manual={'b':(1)2}}"},
      {"{mesh['a'=2,'b'=4], [{}, {}], manual={'a','b'}}",
       "{mesh['a'=2,'b'=4], [{}, {}], manual={'a', 'b'}}"},
      {"{mesh['a'=2,'b'=4], replicated}", "{mesh['a'=2,'b'=4], replicated}"},
      {"{mesh['a'=2,'b'=4], manual}", "{mesh['a'=2,'b'=4], manual}"},
      {"{mesh['a'=2,'b'=4], unreduced}", "{mesh['a'=2,'b'=4], unreduced}"},
      {"{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {}]}",
       "{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {}]}"},
      {"{mesh['a'=2,'b'=4], device_ids=([8]), [{'a'}, {}]}", "{mesh['a'=2,'b'=4], [{'a'}, {}]}"},
      {"{mesh['a'=2,'b'=4], device_ids=(0,2,4,6,1,3,5,7), [{'a'}, {}]}",
       "{mesh['a'=2,'b'=4], device_ids=(0,2,4,6,1,3,5,7), [{'a'}, {}]}"},
      {"{mesh['a'=2,'b'=4,'c'=1], [{'c'}, {'b'}]}", "{mesh['a'=2,'b'=4,'c'=1], [{'c'}, {'b'}]}"},
      {"{maximal_mesh[device_id=3]}", "{maximal_mesh[device_id=3]}"},
      {"{mesh[\"a\"=2,\"b\"=4], [{\"a\"}, {}]}", "{mesh['a'=2,'b'=4], [{'a'}, {}]}"},
      {"{mesh['a b'=2,'b.c-d'=4], [{'a b'}, {}]}", "{mesh['a b'=2,'b.c-d'=4], [{'a b'}, {}]}"},
      {"{mesh['a'=8], [{'a':(4)2,'a':(1)2}, {}]}", "{mesh['a'=8], [{'a':(4)2, 'a':(1)2}, {}]}"},
      {"{mesh['a'=12], [{'a':(1)4}, {'a':(4)3}]}", "{mesh['a'=12], [{'a':(1)4}, {'a':(4)3}]}"},
      {"{{mesh['a'=2,'b'=4], [{'a'}, {}]}, {devices=[2,4]<=[8]}}",
       "{{mesh['a'=2,'b'=4], [{'a'}, {}]}, {devices=[2,4]<=[8]}}"},
  };
  Context ctx;
  for (const auto& row : table) {
    CHECK(Print(ctx, row[0]) == row[1]);
    CHECK(Print(ctx, row[1]) == row[1]);
  }
}

// XLA aborts on these; we read them and print what it takes.
TEST_CASE("spellings are made acceptable to XLA", "[ir][sharding_text]") {
  Context ctx;
  CHECK(Print(ctx, "{mesh['a'=2,'b'=4], [{'b':(1)2, 'b':(2)2}, {}]}") ==
        "{mesh['a'=2,'b'=4], [{'b'}, {}]}");
  CHECK(Print(ctx, "{mesh['a'=2,'b'=4], [{'b':(1)4}, {}]}") == "{mesh['a'=2,'b'=4], [{'b'}, {}]}");
  CHECK(Print(ctx, "{mesh['a'=2,'b'=4], [{}, {}], manual={'b','a'}}") ==
        "{mesh['a'=2,'b'=4], [{}, {}], manual={'a', 'b'}}");
  CHECK(Print(ctx, "{mesh['a'=2,'b'=4], device_ids=(0,1,2,3,4,5,6,7), [{'a'}, {}]}") ==
        "{mesh['a'=2,'b'=4], [{'a'}, {}]}");
}

// As XLA's own conversion of named shardings.
TEST_CASE("named shardings convert to tiles", "[ir][sharding_text]") {
  const char* const table[][2] = {
      {"{mesh['a'=2,'b'=4], [{'a'}, {}]}", "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=4], [{'b'}, {}]}",
       "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=4], [{'a','b'}, {}]}", "{devices=[8,1]<=[8]}"},
      {"{mesh['a'=2,'b'=4], [{'b', 'a', ?}, {?}]}", "{devices=[8,1]<=[2,4]T(1,0)}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {'b':(1)2}]}",
       "{devices=[2,2,2]<=[8] last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {'b':(2)2}]}",
       "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=4], [{'b':(2)2}, {'b':(1)2}]}",
       "{devices=[2,2,2]<=[2,2,2]T(2,1,0) last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {}], replicated={'b'}}",
       "{devices=[2,1,4]<=[8] last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {}], unreduced={'b'}}",
       "{devices=[2,1,4]<=[8] last_tile_dims={unreduced}}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {}], manual={'b'}}",
       "{devices=[2,1,4]<=[8] last_tile_dims={manual}}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {}], manual={'b':(1)2}, unreduced={'b':(2)2}}",
       "{devices=[2,1,2,2]<=[8] last_tile_dims={manual, unreduced}}"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {}], replicated={'b':(1)2}, unreduced={'b':(2)2}}",
       "{devices=[2,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={unreduced, replicated}}"},
      {"{mesh['a'=2,'b'=4], [{}, {}]}", "{replicated}"},
      {"{mesh['a'=2,'b'=4], []}", "{replicated}"},
      {"{mesh['a'=2,'b'=4], [{}, {}], manual={'a','b'}}", "{manual}"},
      {"{mesh['a'=2,'b'=4], unreduced}", "{unreduced}"},
      {"{mesh['a'=2,'b'=4], device_ids=([4,2]T(1,0)), [{'a'}, {}]}",
       "{devices=[2,1,4]<=[4,2]T(1,0) last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=4], device_ids=([2,2,2]T(2,1,0)), [{'b'}, {}]}",
       "{devices=[4,1,2]<=[2,2,2]T(1,0,2) last_tile_dim_replicate}"},
      {"{mesh['a'=2,'b'=4,'c'=3], [{'c'}, {'b'}], manual={'a'}}",
       "{devices=[3,4,2]<=[2,4,3]T(2,1,0) last_tile_dims={manual}}"},
      {"{mesh['a'=2,'b'=4,'c'=3], [{'c'}, {}], manual={'a'}}",
       "{devices=[3,1,2,4]<=[8,3]T(1,0) last_tile_dims={manual, replicated}}"},
      {"{mesh['a'=2,'b'=4,'c'=3], [{'c'}, {}], unreduced={'b'}, manual={'a'}}",
       "{devices=[3,1,2,4]<=[8,3]T(1,0) last_tile_dims={manual, unreduced}}"},
      {"{mesh['a'=1], [{'a'}]}", "{replicated}"},
      {"{mesh[], []}", "{replicated}"},
      {"{maximal_mesh[device_id=3]}", "{maximal device=3}"},
      {"{mesh['a'=8], [{'a':(1)2}, {'a':(4)2}]}",
       "{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}"},
      {"{mesh['a'=8], [{'a':(4)2,'a':(1)2}, {}]}",
       "{devices=[4,1,2]<=[4,2]T(1,0) last_tile_dim_replicate}"},
      {"{mesh['a'=12], [{'a':(1)4}, {'a':(4)3}]}", "{devices=[4,3]<=[12]}"},
      {"{mesh['a'=12], [{'a':(1)4}, {}]}", "{devices=[4,1,3]<=[12] last_tile_dim_replicate}"},
  };
  Context ctx;
  for (const auto& row : table) CHECK(PrintTiles(ctx, row[0]) == row[1]);
}

}  // namespace
}  // namespace gshard
