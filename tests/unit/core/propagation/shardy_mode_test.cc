#include <fmt/format.h>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

PropagationOptions AsShardy() {
  PropagationOptions options;
  options.mode = PropagationMode::kShardy;
  return options;
}

// x + tanh(x @ w) with w on both axes.
std::unique_ptr<Module> Residual(bool with_sum) {
  return Parsed(std::string(R"(HloModule m, num_partitions=8, meshes={mesh=['a'=2,'b'=4]}
ENTRY e {
  x = f32[16,16] parameter(0)
  w = f32[16,16] parameter(1), sharding={@mesh, [{'a'}, {'b'}]}
  d = f32[16,16] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  t = f32[16,16] tanh(d)
)") + (with_sum ? "  ROOT r = f32[16,16] add(x, t)\n}" : "  ROOT r = f32[16,16] negate(t)\n}"));
}

TEST_CASE("contracted dims give axes only where pass-through factors do not", "[shardy]") {
  auto with_sum = Residual(true);
  Propagate(*with_sum, AsShardy());
  CHECK(ShardingOf(*with_sum, "x") == "{mesh['a'=2,'b'=4], [{}, {'b'}]}");
  CHECK(ShardingOf(*with_sum, "d") == "{mesh['a'=2,'b'=4], [{}, {'b'}]}");
  auto alone = Residual(false);
  Propagate(*alone, AsShardy());
  CHECK(ShardingOf(*alone, "x") == "{mesh['a'=2,'b'=4], [{}, {'a'}]}");
  CHECK(ShardingOf(*alone, "d") == "{mesh['a'=2,'b'=4], [{}, {'b'}]}");
}

TEST_CASE("broadcasts and other operations give axes backward in the order of the text",
          "[shardy]") {
  for (const bool broadcast_first : {false, true}) {
    const std::string joined = "  k = f32[32,16] concatenate(x, y), dimensions={0}\n";
    const std::string wide =
        "  b = f32[16,16,4] broadcast(x), dimensions={0,1}\n"
        "  c = f32[16,16,4] custom-call(b), custom_call_target=\"Sharding\", "
        "sharding={@mesh, [{'a'}, {}, {}]}\n";
    auto m = Parsed(
        "HloModule m, num_partitions=8, meshes={mesh=['a'=2,'b'=4]}\nENTRY e {\n"
        "  x = f32[16,16] parameter(0)\n"
        "  y = f32[16,16] parameter(1), sharding={@mesh, [{}, {'a'}]}\n" +
        (broadcast_first ? wide + joined : joined + wide) +
        "  ROOT r = (f32[32,16], f32[16,16,4]) tuple(k, c)\n}");
    Propagate(*m, AsShardy());
    CHECK(ShardingOf(*m, "x") == (broadcast_first ? "{mesh['a'=2,'b'=4], [{'a'}, {}]}"
                                                  : "{mesh['a'=2,'b'=4], [{}, {'a'}]}"));
  }
}

TEST_CASE("parts of an axis meet as in Shardy's passes", "[shardy]") {
  struct Row {
    std::string x, y, both;
  };
  // Seen with jaxlib's passes. The shorter part is the beginning of the longer one; where more
  // follows it is what both have. Parts that do not nest are taken for one that is in use.
  const Row rows[] = {
      {"{'a':(1)4}, {}", "{'a':(1)6}, {}", "{'a':(1)6}, {}"},
      {"{'a':(1)4, 'b'}, {}", "{'a':(1)6}, {}", "{'a':(1)4}, {}"},
      {"{'a':(1)6}, {}", "{'a':(1)4, 'b'}, {}", "{'a':(1)4}, {}"},
      {"{}, {'a':(1)3}", "{'a':(1)2}, {}", "{}, {'a':(1)3}"},
      {"{}, {'a':(3)2}", "{'a':(1)2}, {}", "{}, {'a':(3)2}"},
      {"{'a':(1)2}, {'a':(6)2}", "{'a':(1)4}, {}", "{'a':(1)4}, {}"},
      {"{'a':(1)2}, {'a':(6)2}", "{'a':(1)3}, {}", "{'a':(1)3}, {'a':(6)2}"},
      {"{'a':(1)2}, {'a':(6)2}", "{'a'}, {}", "{'a'}, {}"},
  };
  for (const Row& row : rows) {
    CAPTURE(row.x, row.y);
    auto m =
        Parsed("HloModule m, num_partitions=24, meshes={mesh=['a'=12,'b'=2]}\nENTRY e {\n" +
               fmt::format("  x = f32[48,48] parameter(0), sharding={{@mesh, [{}]}}\n", row.x) +
               fmt::format("  y = f32[48,48] parameter(1), sharding={{@mesh, [{}]}}\n", row.y) +
               "  d = f32[48,48] subtract(x, y)\n  ROOT r = f32[48,48] negate(d)\n}");
    Propagate(*m, AsShardy());
    CHECK(ShardingOf(*m, "d") == fmt::format("{{mesh['a'=12,'b'=2], [{}]}}", row.both));
  }
  // An open value between two users takes what the first has, and more of it from the second.
  auto m = Parsed(R"(HloModule m, num_partitions=24, meshes={mesh=['a'=12,'b'=2]}
ENTRY e {
  p = f32[48,48] parameter(0)
  q = f32[48,48] exponential(p)
  x = f32[48,48] tanh(q), sharding={@mesh, [{}, {'a':(3)2}]}
  y = f32[48,48] negate(q), sharding={@mesh, [{'a':(1)6}, {}]}
  ROOT r = (f32[48,48], f32[48,48]) tuple(x, y)
})");
  Propagate(*m, AsShardy());
  CHECK(ShardingOf(*m, "q") == "{mesh['a'=12,'b'=2], [{'a':(1)3}, {'a':(3)2}]}");
}

TEST_CASE("annotations that a neighbour contradicts are found in Shardy's mode", "[shardy]") {
  auto m = Parsed(R"(HloModule m, num_partitions=8, meshes={mesh=['a'=2,'b'=4]}
ENTRY e {
  x = f32[16,16] parameter(0), sharding={@mesh, [{'a'}, {}]}
  y = f32[16,16] parameter(1), sharding={@mesh, [{'a'}, {'b'}]}
  s = f32[16,16] add(x, y), sharding={@mesh, [{}, {'a'}]}
  t = f32[16,16] sine(y), sharding={@mesh, [{'a'}, {}]}
  ROOT r = (f32[16,16], f32[16,16]) tuple(s, t)
})");
  PropagationFindings findings;
  PropagationOptions options = AsShardy();
  options.findings = &findings;
  Propagate(*m, options);
  std::vector<std::string> found;
  for (const auto& conflict : findings.conflicts) {
    found.push_back(std::string(conflict.annotated->name()) +
                    (conflict.neighbour_is_user ? " for " : " from ") +
                    std::string(conflict.neighbour->name()) + " " + ToString(conflict.wanted));
  }
  // What t has is part of what y has, and the other way round.
  CHECK(found == std::vector<std::string>{"x for s {mesh['a'=2,'b'=4], [{}, {'a'}]}",
                                          "y for s {mesh['a'=2,'b'=4], [{}, {'a'}]}",
                                          "s from x {mesh['a'=2,'b'=4], [{'a'}, {}]}"});
}

}  // namespace
}  // namespace gshard
