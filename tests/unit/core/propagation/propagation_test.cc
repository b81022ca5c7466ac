// The pass as a whole: options, boundary, annotations, errors, control flow, order. Expected
// shardings are XLA's for the same program (tests/differential/propagation has many more).
#include "core/propagation/propagation.h"

#include <chrono>

#include "fmt/format.h"
#include "tests/unit/core/propagation/propagated.h"

namespace gshard {
namespace {

const char* const kSmall = R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8,16] parameter(0), sharding={devices=[2,1,4]<=[8] last_tile_dim_replicate}
  b = f32[8,16] parameter(1)
  s = f32[8,16] sine(a)
  t = f32[8,16] tanh(b)
  k = f32[8,16] custom-call(t), custom_call_target="Sharding", sharding={devices=[1,8]<=[8]}
  ROOT r = (f32[8,16], f32[8,16]) tuple(s, k)
})";

const PropagationOptions kNothingAllowed = {.allow_to_parameters = {false},
                                            .allow_to_output = {false}};

TEST_CASE("Parameters and results that are refused a sharding stay", "[propagation]") {
  auto m = Parsed(kSmall);
  Propagate(*m, kNothingAllowed);
  CHECK(ShardingOf(*m, "b") == "none");
  CHECK(ShardingOf(*m, "r") == "none");
  CHECK(ShardingOf(*m, "s") == "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  CHECK(ShardingOf(*m, "t") == "{devices=[1,8]<=[8]}");
}

TEST_CASE("A refusal outlives propagation where it counts", "[propagation]") {
  auto m = Parsed(kSmall);
  Propagate(*m, kNothingAllowed);
  CHECK(m->header().propagation_to_parameters == std::vector<bool>{false});
  CHECK(m->header().propagation_to_output == std::vector<bool>{false});
  CHECK_FALSE(Propagate(*m));
  CHECK(ShardingOf(*m, "b") == "none");
  CHECK(ShardingOf(*m, "r") == "none");

  auto one = Parsed(kSmall);
  PropagationOptions options;
  options.allow_to_parameters = {true, false};
  options.allow_to_output = {true};
  Propagate(*one, options);
  CHECK(one->header().propagation_to_parameters == std::vector<bool>{false});
  CHECK(one->header().propagation_to_output.empty());
}

TEST_CASE("By default what has no annotation is free, and a note says so", "[propagation]") {
  auto m = Parsed(kSmall);
  std::vector<Diagnostic> notes;
  PropagationOptions options;
  options.warnings = &notes;
  Propagate(*m, options);
  CHECK(ShardingOf(*m, "a") == "{devices=[2,1,4]<=[8] last_tile_dim_replicate}");
  CHECK(ShardingOf(*m, "b") == "{devices=[1,8]<=[8]}");
  CHECK(ShardingOf(*m, "r") ==
        "{{devices=[2,1,4]<=[8] last_tile_dim_replicate}, {devices=[1,8]<=[8]}}");
  REQUIRE(notes.size() == 1);
  CHECK(notes[0].severity == Severity::kNote);
  CHECK(notes[0].message ==
        "2 results and 1 parameter without an annotation are sharded as propagation found best");
  CHECK_FALSE(Propagate(*m));
}

TEST_CASE("By default annotated leaves of a result stay, the others are free", "[propagation]") {
  auto m = Parsed(R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8,16] parameter(0), sharding={devices=[8,1]<=[8]}
  s = f32[8,16] sine(a)
  t = f32[8,16] tanh(a)
  ROOT r = (f32[8,16], f32[8,16]) tuple(s, t), sharding={{replicated}, {unknown}}
})");
  Propagate(*m);
  CHECK(ShardingOf(*m, "r") == "{{replicated}, {devices=[8,1]<=[8]}}");
}

TEST_CASE("By default a result that cannot be cut evenly or would be summands is whole",
          "[propagation]") {
  auto m = Parsed(R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[7] parameter(0), sharding={devices=[8]<=[8]}
  b = f32[8] parameter(1), sharding={unreduced}
  s = f32[7] sine(a)
  t = f32[8] negate(b), sharding={unreduced}
  ROOT r = (f32[7], f32[8]) tuple(s, t)
})");
  Propagate(*m);
  CHECK(ShardingOf(*m, "r") == "{{replicated}, {replicated}}");
}

TEST_CASE("What is allowed is inferred", "[propagation]") {
  auto m = Parsed(kSmall);
  PropagationOptions options;
  options.allow_to_parameters = {true};
  options.allow_to_output = {true};
  Propagate(*m, options);
  CHECK(ShardingOf(*m, "b") == "{devices=[1,8]<=[8]}");
  CHECK(ShardingOf(*m, "r") ==
        "{{devices=[2,1,4]<=[8] last_tile_dim_replicate}, {devices=[1,8]<=[8]}}");
}

TEST_CASE("A parameter with a false flag loses what it got", "[propagation]") {
  auto m = Parsed(kSmall);
  PropagationOptions options;
  options.allow_to_parameters = {true, false};
  Propagate(*m, options);
  CHECK(ShardingOf(*m, "b") == "none");
  CHECK(ShardingOf(*m, "t") == "{devices=[1,8]<=[8]}");
}

TEST_CASE("A dim that does not divide is not split at the boundary", "[propagation]") {
  auto m = Parsed(R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[7] parameter(0)
  s = f32[7] sine(a)
  ROOT k = f32[7] custom-call(s), custom_call_target="Sharding", sharding={devices=[8]<=[8]}
})");
  PropagationOptions options;
  options.allow_to_parameters = {true};
  Propagate(*m, options);
  CHECK(ShardingOf(*m, "a") == "{replicated}");
  CHECK(ShardingOf(*m, "s") == "{devices=[8]<=[8]}");

  // Of a tuple, each leaf has its own flag.
  auto pair = Parsed(R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8] parameter(0)
  b = f32[7] parameter(1)
  s = f32[8] custom-call(a), custom_call_target="Sharding", sharding={devices=[8]<=[8]}
  t = f32[7] custom-call(b), custom_call_target="Sharding", sharding={devices=[8]<=[8]}
  ROOT r = (f32[8], f32[7]) tuple(s, t)
})");
  options.allow_to_output = {false, true};
  Propagate(*pair, options);
  CHECK(ShardingOf(*pair, "r") == "{{devices=[8]<=[8]}, {replicated}}");
}

TEST_CASE("The user's annotation is never changed, and keeps its spelling", "[propagation]") {
  auto m = Parsed(R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8,16] parameter(0), sharding={devices=[8,1]0,1,2,3,4,5,6,7}
  s = f32[8,16] sine(a), sharding={mesh['x'=8], [{}, {'x'}]}
  ROOT r = f32[8,16] negate(s)
})");
  PropagationOptions options;
  options.allow_to_output = {true};
  Propagate(*m, options);
  CHECK(ShardingOf(*m, "a") == "{devices=[8,1]0,1,2,3,4,5,6,7}");
  CHECK(ShardingOf(*m, "s") == "{mesh['x'=8], [{}, {'x'}]}");
  CHECK(ShardingOf(*m, "r") == "{devices=[1,8]<=[8]}");
}

TEST_CASE("Propagation is idempotent and deterministic", "[propagation]") {
  auto first = Parsed(kSmall);
  auto second = Parsed(kSmall);
  Propagate(*first);
  Propagate(*second);
  std::string once = PrintModule(*first);
  CHECK(once == PrintModule(*second));
  CHECK_FALSE(Propagate(*first));
  CHECK(PrintModule(*first) == once);
}

TEST_CASE("An operand is asked again when another operand of its user changes", "[propagation]") {
  // `late` is tiled in the last level's second sweep, after `r` and `indices` were asked.
  auto m = Parsed(R"(HloModule m, num_partitions=2
add { a = f32[] parameter(0)
      b = f32[] parameter(1)
      ROOT s = f32[] add(a, b) }
ENTRY main {
  q = f32[13,7] parameter(0)
  w = f32[10,13] parameter(1)
  i = f32[13,5] iota(), iota_dimension=1
  x = f32[13,5] cosine(i)
  late = f32[2,13,5] broadcast(x), dimensions={1,2}
  r = f32[13,7] tanh(q)
  d = f32[2,5,7] dot(late, r), lhs_contracting_dims={1}, rhs_contracting_dims={0}, sharding={replicated}
  zero = s32[] constant(0)
  indices = s32[13] broadcast(zero), dimensions={}
  u = f32[10,13] scatter(w, indices, late), update_window_dims={0,2}, inserted_window_dims={}, scatter_dims_to_operand_dims={1}, index_vector_dim=1, to_apply=add, sharding={replicated}
  c = f32[13] iota(), iota_dimension=0, sharding={devices=[2]<=[2]}
  wide = f32[13,10] broadcast(c), dimensions={0}
  both = f32[13,20] concatenate(x, wide, x), dimensions={1}
  ROOT all = (f32[2,5,7], f32[10,13], f32[13,20]) tuple(d, u, both)
})");
  Propagate(*m);
  CHECK(ShardingOf(*m, "late") == "{devices=[1,2,1]<=[2]}");
  CHECK(ShardingOf(*m, "r") == "{devices=[2,1]<=[2]}");
  CHECK(ShardingOf(*m, "indices") == "{devices=[2]<=[2]}");
  CHECK_FALSE(Propagate(*m));
}

TEST_CASE("A Sharding call becomes a copy of its name", "[propagation]") {
  auto m = Parsed(kSmall);
  Propagate(*m);
  CHECK(Named(*m, "k")->opcode() == Opcode::kCopy);
  CHECK(m->entry()->root()->operand(1) == Named(*m, "k"));
}

TEST_CASE("A loop has one sharding", "[propagation]") {
  auto m = Parsed(R"(HloModule m, num_partitions=8
c {
  cp = (f32[8,16]) parameter(0)
  ROOT cr = pred[] constant(true)
}
b {
  bp = (f32[8,16]) parameter(0)
  bx = f32[8,16] get-tuple-element(bp), index=0
  by = f32[8,16] sine(bx), sharding={devices=[4,2]<=[8]}
  ROOT br = (f32[8,16]) tuple(by)
}
ENTRY e {
  a = f32[8,16] parameter(0)
  i = (f32[8,16]) tuple(a)
  w = (f32[8,16]) while(i), condition=c, body=b
  ROOT g = f32[8,16] get-tuple-element(w), index=0
})");
  Propagate(*m);
  for (const char* name : {"w", "br", "bp", "cp", "i"}) {
    CHECK(ShardingOf(*m, name) == "{{devices=[4,2]<=[8]}}");
  }
}

// Branches at the root: XLA prints the conditional as a tuple with a get-tuple-element behind it.
std::string Branches(const std::string& header, const std::string& annotation) {
  return fmt::format(R"(HloModule m, {}num_partitions=2
yes {{
  yp = f32[12,8] parameter(0)
  ROOT ys = f32[12,8] sine(yp){}
}}
no {{
  np = f32[12,8] parameter(0)
  ROOT ns = f32[12,8] cosine(np)
}}
ENTRY e {{
  a = f32[12,8] parameter(0), sharding={{devices=[2,1]<=[2]}}
  b = f32[12,8] parameter(1)
  i = s32[] parameter(2)
  ROOT c = f32[12,8] conditional(i, a, b), branch_computations={{yes, no}}
}})",
                     header, annotation);
}

TEST_CASE("A branch at the root is refined behind a fixed output", "[propagation]") {
  auto m = Parsed(Branches("", ""));
  Propagate(*m, kNothingAllowed);
  for (const char* name : {"c", "yp", "ys", "np", "ns"}) {
    CHECK(ShardingOf(*m, name) == "{devices=[2,1]<=[2]}");
  }
  CHECK(ShardingOf(*m, "b") == "none");
  const Instruction* root = m->entry()->root();
  CHECK(root->opcode() == Opcode::kCopy);
  CHECK(root->sharding() == nullptr);
  CHECK_FALSE(Propagate(*m));

  auto annotated = Parsed(Branches("", ", sharding={devices=[1,2]<=[2]}"));
  Propagate(*annotated, kNothingAllowed);
  CHECK(ShardingOf(*annotated, "c") == "{devices=[1,2]<=[2]}");
  CHECK(annotated->entry()->root()->sharding() == nullptr);
}

TEST_CASE("An annotated branch annotates the branches that end its computations", "[propagation]") {
  auto m = Parsed(R"(HloModule m, num_partitions=2
yes {
  yp = f32[16,4] parameter(0)
  ROOT ys = f32[16,4] sine(yp)
}
no {
  np = f32[16,4] parameter(0)
  nc = f32[] constant(1)
  ROOT nb = f32[16,4] broadcast(nc), dimensions={}
}
inner {
  ip = (f32[16,4], pred[]) parameter(0)
  ix = f32[16,4] get-tuple-element(ip), index=0
  ic = pred[] get-tuple-element(ip), index=1
  ROOT ib = f32[16,4] conditional(ic, ix, ix), true_computation=yes, false_computation=no
}
other {
  op = (f32[16,4], pred[]) parameter(0)
  ROOT ox = f32[16,4] get-tuple-element(op), index=0
}
ENTRY e {
  a = f32[16,4] parameter(0)
  p = pred[] parameter(1)
  t = (f32[16,4], pred[]) tuple(a, p)
  c = f32[16,4] conditional(p, t, t), true_computation=inner, false_computation=other,
    sharding={devices=[2,1]<=[2]}
  ROOT r = f32[16,4] sine(c)
})");
  Propagate(*m);
  for (const char* name : {"ib", "ys", "yp", "np", "nb", "ox"}) {
    CHECK(ShardingOf(*m, name) == "{devices=[2,1]<=[2]}");
  }
}

TEST_CASE("An annotated branch at the root stays, though the output may change", "[propagation]") {
  std::string text = Branches("allow_spmd_sharding_propagation_to_output={true}, ", "");
  text.replace(text.find("ROOT ys = f32[12,8] sine(yp)"), 28, "");
  text.replace(text.find("yp = "), 2, "ROOT yp");
  text.insert(text.rfind("\n}"), ", sharding={replicated}");
  auto m = Parsed(text);
  Propagate(*m);
  CHECK(ShardingOf(*m, "c") == "{replicated}");
  CHECK(ShardingOf(*m, "ns") == "{replicated}");
  const std::string once = PrintModule(*m);
  Propagate(*m);
  CHECK(PrintModule(*m) == once);
}

TEST_CASE("What nothing refines at the root stays the root", "[propagation]") {
  std::string text = Branches("", "");
  text.erase(text.find(", sharding"), std::string(", sharding={devices=[2,1]<=[2]}").size());
  auto m = Parsed(text);
  Propagate(*m);
  CHECK(m->entry()->root() == Named(*m, "c"));

  auto open = Parsed(Branches("allow_spmd_sharding_propagation_to_output={true}, ", ""));
  Propagate(*open);
  CHECK(open->entry()->root() == Named(*open, "c"));
  CHECK(ShardingOf(*open, "c") == "{devices=[2,1]<=[2]}");
  CHECK_FALSE(Propagate(*open));
}

TEST_CASE("A loop at the root that was refined is not copied by a second run", "[propagation]") {
  auto m = Parsed(R"(HloModule m, allow_spmd_sharding_propagation_to_output={true}, num_partitions=8
c {
  cp = (f32[8,16]) parameter(0)
  ROOT cr = pred[] constant(true)
}
b {
  ROOT bp = (f32[8,16]) parameter(0)
}
ENTRY e {
  a = f32[8,16] parameter(0), sharding={devices=[4,2]<=[8]}
  i = (f32[8,16]) tuple(a)
  ROOT w = (f32[8,16]) while(i), condition=c, body=b
})");
  Propagate(*m);
  CHECK(ShardingOf(*m, "w") == "{{devices=[4,2]<=[8]}}");
  Propagate(*m);
  CHECK(m->entry()->root() == Named(*m, "w"));
}

TEST_CASE("Impossible annotations are located, both places named", "[propagation]") {
  auto error = [](const std::string& text) {
    auto m = Parsed(text);
    auto result = PropagateShardings(*m);
    REQUIRE_FALSE(result.has_value());
    return Render(result.error());
  };
  std::string rank = error(R"(HloModule m, num_partitions=8
ENTRY e {
  ROOT a = f32[8,16] parameter(0), sharding={devices=[8]<=[8]}
})");
  CHECK_THAT(rank, Catch::Contains("test.hlo:3:") && Catch::Contains("E-PROP-001") &&
                       Catch::Contains("1 data dims, the shape f32[8,16] has 2"));
  std::string count = error(R"(HloModule m
ENTRY e {
  a = f32[8,16] parameter(0), sharding={devices=[8,1]<=[8]}
  ROOT b = f32[8,16] sine(a), sharding={devices=[4,1]<=[4]}
})");
  CHECK_THAT(count, Catch::Contains("test.hlo:4:") &&
                        Catch::Contains("for 4 devices, there are 8") &&
                        Catch::Contains("test.hlo:3:") &&
                        Catch::Contains("note: 'a' is sharded over 8 devices"));
  std::string missing = error(R"(HloModule m, num_partitions=8
ENTRY e {
  a = f32[8,16] parameter(0)
  ROOT b = f32[8,16] custom-call(a), custom_call_target="Sharding"
})");
  CHECK_THAT(missing, Catch::Contains("E-PROP-002"));
}

TEST_CASE("Contradicting annotations of a loop give a warning", "[propagation]") {
  auto m = Parsed(R"(HloModule m, num_partitions=8
c {
  cp = (f32[8,16]) parameter(0)
  ROOT cr = pred[] constant(true)
}
b {
  ROOT bp = (f32[8,16]) parameter(0), sharding={{devices=[1,8]<=[8]}}
}
ENTRY e {
  a = f32[8,16] parameter(0)
  i = (f32[8,16]) tuple(a)
  ROOT w = (f32[8,16]) while(i), condition=c, body=b, sharding={{devices=[8,1]<=[8]}}
})");
  std::vector<Diagnostic> warnings;
  PropagationOptions options;
  options.warnings = &warnings;
  Propagate(*m, options);
  REQUIRE_FALSE(warnings.empty());
  CHECK(warnings[0].code == "W-PROP-001");
  CHECK(warnings[0].notes.size() == 1);
  CHECK(ShardingOf(*m, "bp") == "{{devices=[8,1]<=[8]}}");
}

// A layer is five instructions; its cost must not depend on how many there are.
std::string Chain(int layers, int64_t devices) {
  std::string text = fmt::format(
      "HloModule m, num_partitions={0}\nENTRY e {{\n  x.0 = f32[4096,512] parameter(0), "
      "sharding={{devices=[{0},1]<=[{0}]}}\n  w = f32[512,512] parameter(1)\n",
      devices);
  for (int i = 0; i < layers; ++i) {
    text += fmt::format(
        "  d.{0} = f32[4096,512] dot(x.{0}, w), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{0}}\n  t.{0} = f32[4096,512] tanh(d.{0})\n"
        "  r.{0} = f32[4096,8,64] reshape(t.{0})\n  b.{0} = f32[4096,512] reshape(r.{0})\n"
        "  x.{1} = f32[4096,512] add(b.{0}, x.{0})\n",
        i, i + 1);
  }
  return text + fmt::format("  ROOT r = f32[4096,512] negate(x.{})\n}}\n", layers);
}

double MillisecondsFor(const std::string& text) {
  double best = 1e9;
  for (int k = 0; k < 3; ++k) {
    auto m = Parsed(text);
    auto start = std::chrono::steady_clock::now();
    Propagate(*m);
    best = std::min(
        best, std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start)
                  .count());
  }
  return best;
}

TEST_CASE("A hundred thousand instructions take no more than a second", "[propagation][clock]") {
  auto m = Parsed(Chain(20000, 64));
  auto start = std::chrono::steady_clock::now();
  Propagate(*m);
  CHECK(std::chrono::steady_clock::now() - start < std::chrono::seconds(5));
  CHECK(ShardingOf(*m, "x.20000") == "{devices=[64,1]<=[64]}");
}

TEST_CASE("The number of devices does not matter", "[propagation][clock]") {
  double few = MillisecondsFor(Chain(1000, 8));
  double many = MillisecondsFor(Chain(1000, 4096));
  CHECK(many < 3 * few + 5);
}

TEST_CASE("Calls that were not inlined: what comes in late is passed on", "[propagation]") {
  // A broadcast takes from its operand at the last level only.
  auto m = Parsed(R"(HloModule m, num_partitions=4
callee {
  p = f32[8,4] parameter(0)
  n = f32[8,4] negate(p)
  ROOT r = f32[8,4] tanh(n)
}
ENTRY e {
  a = f32[8] parameter(0), sharding={devices=[4]<=[4]}
  b = f32[8,4] broadcast(a), dimensions={0}
  ROOT c = f32[8,4] call(b), to_apply=callee
})");
  auto changed = PropagateShardings(*m, {}, nullptr);
  REQUIRE(changed.has_value());
  CHECK(ShardingOf(*m, "b") == "{devices=[4,1]<=[4]}");
  CHECK(ShardingOf(*m, "p") == "{devices=[4,1]<=[4]}");
  CHECK(ShardingOf(*m, "n") == "{devices=[4,1]<=[4]}");
}

TEST_CASE("Rows counted by an iota behind broadcasts, as far as is looked", "[propagation]") {
  const auto sharding_behind = [](int broadcasts) {
    std::string text = R"(HloModule m, num_partitions=4
ENTRY e {
  x = f32[8,16] parameter(0), sharding={devices=[4,1]<=[4]}
  columns = s32[8,1] parameter(1)
  b0 = s32[8,1] iota(), iota_dimension=0
)";
    for (int i = 1; i <= broadcasts; ++i) {
      text += "  b" + std::to_string(i) + " = s32[8,1] broadcast(b" + std::to_string(i - 1) +
              "), dimensions={0,1}\n";
    }
    text += "  at = s32[8,2] concatenate(b" + std::to_string(broadcasts) +
            ", columns), dimensions={1}\n  ROOT g = f32[8] gather(x, at), offset_dims={}, "
            "collapsed_slice_dims={0,1}, start_index_map={0,1}, index_vector_dim=1, "
            "slice_sizes={1,1}\n}\n";
    auto m = Parsed(text);
    Propagate(*m);
    return ShardingOf(*m, "g");
  };
  CHECK(sharding_behind(0) == "{devices=[4]<=[4]}");
  CHECK(sharding_behind(60) == "{devices=[4]<=[4]}");
  CHECK(sharding_behind(70) == "none");
}

}  // namespace
}  // namespace gshard
