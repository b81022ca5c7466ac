#include "ir/sharding_text.h"

#include <catch2/catch.hpp>
#include <string>
#include <string_view>

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

// Text, then a line with carets under what is wrong and the message.
struct BadText {
  std::string_view text;
  std::string_view marked;
};
std::string Mark(const TextError& error) {
  return std::string(error.offset, ' ') + std::string(error.length, '^') + " " + error.message;
}

TEST_CASE("bad shardings are refused with their place", "[ir][sharding_text]") {
  const BadText table[] = {
      {"{", " ^ the sharding is not closed: expected '}'"},
      {"{replicated} x", "             ^ text after the end"},
      {"{devices=[1000000000000]<=[1000000000000]}",
       "          ^^^^^^^^^^^^^ a size is too large, at most 1048576 is possible"},
      {"{devices=[1000000,1000000]<=[1]}", "         ^^^^^^^^^^^^^^^^^ more than 1048576 devices"},
      {"{devices=[99999999999999999999]<=[8]}",
       "          ^^^^^^^^^^^^^^^^^^^^ a size is too large, at most 1048576 is possible"},
      {"{devices=[2,4]<=[4]}", "                ^^^ the iota has 4 devices, the dims have 8"},
      {"{devices=[2,4]<=[2,4]}",
       "                     ^ expected the transpose T(..) of an iota of several dims"},
      {"{devices=[2,4]<=[8]T(0)}",
       "                   ^ an iota of one dim takes no transpose T(..)"},
      {"{devices=[2,4]<=[2,4]T(1,1)}",
       "                     ^^^^^^ not a permutation of the dims 0 to 1"},
      {"{devices=[0,4]<=[0]}", "          ^ a size must be at least 1"},
      {"{devices=[2,2]0,1,2}", "              ^^^^^ 3 devices are listed, the dims have 4"},
      {"{devices=[2,2]0,1,2,2}", "              ^^^^^^^ device 2 is listed twice"},
      {"{devices=[1]0}",
       "         ^^^^ one device is not tiled: write {replicated} or {maximal device=0}"},
      {"{devices=[2]<=[2] last_tile_dims={manual, replicated}}",
       "         ^^^^^^^^^ 2 types of last tile dims for 1 tile dims"},
      {"{devices=[2]<=[2] last_tile_dims={foo}}",
       "                                  ^^^ unknown type 'foo' of a tile dim"},
      {"{replicated manual}", "            ^^^^^^ a sharding has one kind only"},
      {"{replicated device=3}", "            ^^^^^^ device= is for maximal only"},
      {"{maximal}", " ^ maximal needs device="},
      {"{{replicated}, {{manual}}}",
       "                ^ shardings of tuples do not nest: one entry per leaf is expected"},
      {"{replicated shard_as 1 shard_like 2}",
       "                       ^^^^^^^^^^ two shard groups"},
      {"{mesh['a'=2,'b'=4], [{'c'}, {}]}",
       "                      ^^^ the mesh has no axis 'c'; it has 'a', 'b'"},
      {"{mesh['a'=2,'b'=4], [{'a'}, {'a'}]}",
       "                             ^^^ axis 'a' is used twice"},
      {"{mesh['a'=12], [{'a':(1)6}, {'a':(4)3}]}",
       "                             ^^^^^^^^ 'a':(4)3 overlaps 'a':(1)6"},
      {"{mesh['a'=12], [{'a':(1)2}, {'a':(3)4}]}",
       "                             ^^^^^^^^ 'a':(3)4 and another part of its axis do not nest"},
      {"{mesh['a'=4], [{'a':(1)3}]}",
       "                ^^^^^^^^ 1 * 3 does not divide the size of the axis, 4"},
      {"{mesh['a'=2,'a'=4], [{'a'}]}", "            ^^^ the mesh has two axes 'a'"},
      {"{mesh['a'=2,'b'=4], device_ids=(0,1), [{'a'}]}",
       "                                ^^^ 2 devices are listed, the dims have 8"},
      {"{mesh['a'=2,'b'=4], replicated, manual={'b'}}",
       "                                ^^^^^^ manual= needs the axes of each dim in [..]"},
      {"{@pod, replicated}", "  ^^^ no mesh 'pod': the module declares none (meshes={..})"},
      {"{ /* replicated }", "  ^^ comment is not closed"},
  };
  Context ctx;
  for (const BadText& row : table) {
    INFO(row.text);
    const auto parsed = ParseSharding(ctx, row.text);
    REQUIRE_FALSE(parsed.has_value());
    CHECK(Mark(parsed.error()) == row.marked);
  }
}

TEST_CASE("every cut of a sharding text is refused or read, never worse", "[ir][sharding_text]") {
  const std::string_view texts[] = {
      "{devices=[2,1,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual, replicated} shard_as 3 "
      "metadata={a={}}}",
      "{mesh['a'=2,'b'=4], device_ids=(0,2,4,6,1,3,5,7), [{'a', ?}, {'b':(1)2}], "
      "manual={'b':(2)2}}",
      "{{replicated}, {maximal device=3}, {maximal_mesh[device_id=3]}}"};
  for (std::string_view text : texts) {
    for (size_t i = 0; i < text.size(); ++i) {
      Context ctx;
      const auto cut = ParseSharding(ctx, text.substr(0, i));
      REQUIRE_FALSE(cut.has_value());
      REQUIRE(cut.error().offset <= i);
      const std::string without = std::string(text.substr(0, i)) + std::string(text.substr(i + 1));
      if (const auto parsed = ParseSharding(ctx, without)) {
        const std::string printed = ToString(*parsed);
        REQUIRE(ToString(*ParseSharding(ctx, printed)) == printed);
      }
    }
  }
}

TEST_CASE("equal meaning, one canonical pointer", "[ir][sharding_text]") {
  Context ctx;
  const auto canonical = [&](std::string_view text) {
    return (*ParseSharding(ctx, text))->canonical;
  };
  const Sharding* s = canonical("{devices=[2,4]<=[8]}");
  CHECK(canonical("{devices=[2,4]0,1,2,3,4,5,6,7}") == s);
  CHECK(canonical("{devices=[2,4]<=[2,2,2]T(0,1,2)}") == s);
  CHECK(canonical("{devices=[2,4]<=[8] shard_as 3 metadata={op_name=\"x\"}}") == s);
  CHECK(canonical("{mesh['a'=2,'b'=4], [{'a'}, {'b'}]}") == s);
  CHECK(canonical("{mesh['a'=8], [{'a':(1)2}, {'a':(2)4}]}") == s);
  CHECK(canonical("{devices=[2,4]<=[2,4]T(1,0)}") != s);
  CHECK(canonical("{{devices=[2,4]0,1,2,3,4,5,6,7}}") == canonical("{{devices=[2,4]<=[8]}}"));
  // Order inside a manual dim is kept, inside a replicated one it is not.
  CHECK(canonical("{devices=[2,2,2]<=[2,2,2]T(0,2,1) last_tile_dims={manual}}") !=
        canonical("{devices=[2,2,2]<=[8] last_tile_dims={manual}}"));
  CHECK(canonical("{devices=[2,4]<=[2,2,2]T(0,2,1) last_tile_dim_replicate}") ==
        canonical("{devices=[2,4]<=[8] last_tile_dim_replicate}"));
  // Spellings of their own stay apart, and the same spelling is the same pointer.
  CHECK(*ParseSharding(ctx, "{devices=[2,4]0,1,2,3,4,5,6,7}") != s);
  CHECK(*ParseSharding(ctx, "{ devices=[2,4]<=[8] }") == s);
}

TEST_CASE("meshes and sugar", "[ir][sharding_text]") {
  Context ctx;
  const std::string text =
      "{pod=['data'=32,'model'=64], ring=['stage'=8], device_ids=([4,2]T(1,0))}";
  const auto meshes = ParseMeshes(ctx, text);
  REQUIRE(meshes.has_value());
  REQUIRE(meshes->size() == 2);
  CHECK(ToString(std::span<const Mesh* const>(*meshes)) == text);
  CHECK((*meshes)[1]->devices.ToList() == std::vector<int64_t>{0, 2, 4, 6, 1, 3, 5, 7});

  const char* const table[][3] = {
      // sugar, expanded, tiles
      {"{@pod, [{'data'}, {}, {'model'}]}",
       "{mesh['data'=32,'model'=64], [{'data'}, {}, {'model'}]}", "{devices=[32,1,64]<=[2048]}"},
      {"{@pod, [{'model', 'data':(1)4, ?}, {}]}",
       "{mesh['data'=32,'model'=64], [{'model', 'data':(1)4, ?}, {}]}",
       "{devices=[256,1,8]<=[32,64]T(1,0) last_tile_dim_replicate}"},
      {"{@pod, [{}, {}], manual={'data'}}",
       "{mesh['data'=32,'model'=64], [{}, {}], manual={'data'}}",
       "{devices=[1,1,32,64]<=[2048] last_tile_dims={manual, replicated}}"},
      {"{@pod, replicated}", "{replicated}", "{replicated}"},
      {"{@pod, maximal device=3}", "{maximal device=3}", "{maximal device=3}"},
      {"{@ring, [{'stage'}]}", "{mesh['stage'=8], device_ids=([4,2]T(1,0)), [{'stage'}]}",
       "{devices=[8]<=[4,2]T(1,0)}"},
  };
  for (const auto& row : table) {
    const auto parsed = ParseSharding(ctx, row[0], *meshes);
    REQUIRE(parsed.has_value());
    CHECK(ToString(*parsed, {.keep_sugar = true}) == row[0]);
    CHECK(ToString(*parsed) == row[1]);
    CHECK(ToString((*parsed)->canonical) == row[2]);
  }
  // Sugar is not remembered: another module may declare another "pod".
  const auto other = ParseMeshes(ctx, "{pod=['data'=8]}");
  CHECK(ToString((*ParseSharding(ctx, "{@pod, [{'data'}]}", *other))->canonical) ==
        "{devices=[8]<=[8]}");
  CHECK_FALSE(ParseSharding(ctx, "{@pod, [{'data'}, {}, {'model'}]}", *other).has_value());
  CHECK(ParseMeshes(ctx, "{pod=['a'=2], pod=['b'=2]}").error().offset == 14);
}

TEST_CASE("shardings are spelled by the axes of a mesh", "[ir][sharding_text]") {
  Context ctx;
  const auto meshes = ParseMeshes(ctx,
                                  "{pod=['a'=2,'b'=4], ring=['c'=8], device_ids=([4,2]T(1,0)), "
                                  "odd=['d'=4], device_ids=(0,3,1,2)}");
  REQUIRE(meshes.has_value());
  struct Row {
    size_t mesh;
    const char* text;
    const char* spelled;
  };
  const Row table[] = {
      {0, "{devices=[2,1,4]<=[8] last_tile_dim_replicate}", "{@pod, [{'a'}, {}]}"},
      {0, "{devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}", "{@pod, [{'b'}, {}]}"},
      {0, "{devices=[8,1]<=[8]}", "{@pod, [{'a', 'b'}, {}]}"},
      {0, "{devices=[4,2]<=[8]}", "{@pod, [{'a', 'b':(1)2}, {'b':(2)2}]}"},
      {0, "{devices=[2,1,4]<=[8] last_tile_dims={manual}}", "{@pod, [{'a'}, {}], manual={'b'}}"},
      {0, "{devices=[2,1,4]<=[2,2,2]T(0,2,1) last_tile_dims={manual}}",
       "{devices=[2,1,4]<=[2,2,2]T(0,2,1) last_tile_dims={manual}}"},
      {0, "{devices=[3]<=[3]}", "{devices=[3]<=[3]}"},
      {0, "{replicated}", "{@pod, replicated}"},
      {0, "{{manual}, {maximal device=3}, {unknown}}",
       "{{@pod, manual}, {@pod, maximal device=3}, {unknown}}"},
      {1, "{devices=[8]<=[4,2]T(1,0)}", "{@ring, [{'c'}]}"},
      {1, "{devices=[2,4]<=[2,4]T(1,0) last_tile_dim_replicate}", "{@ring, [{'c':(4)2}]}"},
      {1, "{devices=[8]<=[8]}", "{@ring, [{'c':(2)4, 'c':(1)2}]}"},
      {2, "{devices=[2,2]0,3,1,2}", "{@odd, [{'d':(1)2}, {'d':(2)2}]}"},
      {2, "{devices=[2,2]<=[4]}", "{devices=[2,2]<=[4]}"},
  };
  for (const Row& row : table) {
    INFO(row.text);
    const Sharding* s = *ParseSharding(ctx, row.text);
    const Sharding* spelled = SpelledByMesh(ctx, s, (*meshes)[row.mesh], true);
    CHECK(SameSharding(s, spelled));
    const bool same = std::string_view(row.text) == row.spelled;
    CHECK(ToString(spelled, {.keep_sugar = true}) == (same ? ToString(s) : row.spelled));
  }
  const Sharding* s = *ParseSharding(ctx, "{devices=[4,2]<=[8]}");
  CHECK(ToString(SpelledByMesh(ctx, s, (*meshes)[0], false)) ==
        "{mesh['a'=2,'b'=4], [{'a', 'b':(1)2}, {'b':(2)2}]}");
}

// As XLA prints them.
TEST_CASE("replica groups", "[ir][replica_groups]") {
  const char* const table[][2] = {
      {"{{0,1},{2,3},{4,5,6,7}}", "{{0,1},{2,3},{4,5,6,7}}"},
      {"{}", "{}"},
      {"{{}}", "{{}}"},
      {"{{0, 1}, {2,3}}", "{{0,1},{2,3}}"},
      {"{{0,0}}", "{{0,0}}"},
      {"[2,4]<=[8]", "[2,4]<=[8]"},
      {"[4,2]<=[2,4]T(1,0)", "[4,2]<=[2,4]T(1,0)"},
      {"[2,4]<=[2,2,2]T(0,1,2)", "[2,4]<=[8]"},
      {"mesh['x'=2,'y'=4], {'x'}", "mesh['x'=2,'y'=4] {'x'}"},
      {"mesh['x'=2,'y'=4] {'y','x'}", "mesh['x'=2,'y'=4] {'y','x'}"},
      {"mesh['x'=2,'y'=4] {'y':(1)2}", "mesh['x'=2,'y'=4] {'y':(1)2}"},
      {"mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y'}",
       "mesh['x'=2,'y'=4], device_ids=([4,2]T(1,0)) {'y'}"},
  };
  for (const auto& row : table) {
    const auto groups = ParseReplicaGroups(row[0]);
    REQUIRE(groups.has_value());
    CHECK(ToString(*groups) == row[1]);
  }
  for (const char* bad : {"[8]<=[8]", "[2,2,2]<=[8]", "[2,4]<=[4]", "mesh['x'=2] {}",
                          "mesh['x'=2] {'z'}", "mesh['x'=2", "{{0,1}} x", "[2,4]<=[8] x",
                          "{{0,-1}}", "{{0,1}", "", "foo", "[1048577,1]<=[1048577]"}) {
    INFO(bad);
    CHECK_FALSE(ParseReplicaGroups(bad).has_value());
  }

  using Lists = std::vector<std::vector<int64_t>>;
  const auto lists = [](const char* text) { return ParseReplicaGroups(text)->ToLists(8); };
  CHECK(lists("{}") == Lists{{0, 1, 2, 3, 4, 5, 6, 7}});
  CHECK(lists("[4,2]<=[2,4]T(1,0)") == Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  CHECK(lists("mesh['x'=2,'y'=4] {'x'}") == Lists{{0, 4}, {1, 5}, {2, 6}, {3, 7}});
  // The first axis is major, as an all-gather on XLA's CPU backend shows.
  CHECK(lists("mesh['x'=2,'y'=4] {'y','x'}") == Lists{{0, 4, 1, 5, 2, 6, 3, 7}});
  CHECK(*ParseReplicaGroups("{{0,4},{1,5},{2,6},{3,7}}") ==
        *ParseReplicaGroups("[4,2]<=[2,4]T(1,0)"));
  CHECK_FALSE(*ParseReplicaGroups("{{0,4},{1,5},{2,6},{3,7}}") ==
              *ParseReplicaGroups("[2,4]<=[8]"));
  CHECK(ParseReplicaGroups("{{0,4},{1,5},{2,6},{3,7}}")->tiles()->has_axes());
  CHECK(ParseReplicaGroups("{{0,1},{2}}")->tiles() == nullptr);
  CHECK(ParseReplicaGroups("{{0,1},{2}}")->GroupSize(8, 1) == 1);
  CHECK(ParseReplicaGroups("{}")->GroupSize(8) == 8);
}

TEST_CASE("Groups by mesh axes that end too soon", "[sharding_text]") {
  const std::string whole = "mesh['a'=2,'b'=2] {'a'}";
  CHECK(ParseReplicaGroups(whole).has_value());
  for (size_t n = 0; n < whole.size(); ++n) {
    CAPTURE(n);
    CHECK(!ParseReplicaGroups(whole.substr(0, n)).has_value());
  }
}

}  // namespace
}  // namespace gshard
