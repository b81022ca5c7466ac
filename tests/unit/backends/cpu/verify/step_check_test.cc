// Steps are right or wrong by themselves, whatever came before them.
#include "backends/cpu/verify/step_check.h"

#include <functional>
#include <memory>
#include <vector>

#include "backends/cpu/verify/analysis/chain_ends.h"
#include "backends/cpu/verify/analysis/dot_checksums.h"
#include "ir/verify/verifier.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

// Modules stay: results name their instructions.
const Module* ParseText(const std::string& text, std::shared_ptr<Context> context = nullptr) {
  static std::vector<std::unique_ptr<Module>> modules;
  auto module = ParseModule(SourceText::FromString("test.hlo", text), std::move(context));
  REQUIRE(module);
  return modules.emplace_back(std::move(*module)).get();
}

const Sharding* ShardingOf(const std::string& shape, const std::string& sharding) {
  const Module* module = ParseText("HloModule m, num_partitions=4\nENTRY e { ROOT x = " + shape +
                                   " parameter(0), sharding=" + sharding + " }");
  return module->entry()->root()->sharding();
}

// By name, where both modules have an array: spread by `sharding` if it is a quarter of the whole.
StepCheckResult Check(const Module& whole, const Module& partitioned) {
  const Sharding* tiled = partitioned.entry()->parameter(0)->sharding();
  const Sharding* replicated = ShardingOf("f32[]", "{replicated}");
  std::vector<LocalForm> forms;
  for (const Computation* computation : partitioned.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (!x->shape()->IsArray()) continue;
      const bool is_tile = x->shape()->rank() == 1 && x->shape()->dim(0) == 2;
      forms.push_back({x->name(), x, is_tile ? tiled : replicated});
    }
  }
  const auto inputs = std::move(*Inputs::Open("", 0));
  InstructionsOptions options;
  options.mesh.grid = CountDevices(partitioned, 4);
  options.mesh.threads = 2;
  options.budget_bytes = 1 << 20;
  auto result = CheckSteps(whole, partitioned, forms, *inputs, options);
  REQUIRE(result);
  return *result;
}

const std::string kSum =
    ", channel_id=1, replica_groups={{0,1,2,3}}, use_global_device_ids=true, to_apply=add";

// The sum of x - mean(x), which is rounding. `total`: of the four devices' parts.
std::string Centred(const std::string& header, const std::string& size, const std::string& sharding,
                    const std::string& total) {
  const std::string array = "f32[" + size + "]";
  return "HloModule m" + header +
         "\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
         "ENTRY e { x = " +
         array + " parameter(0)" + sharding +
         "\n zero = f32[] constant(0)\n part = f32[] reduce(x, zero), dimensions={0}, "
         "to_apply=add\n" +
         " sum = f32[] " +
         (header.empty() ? std::string("copy(part)") : "all-reduce(part)" + kSum) +
         "\n eighth = f32[] constant(0.125)\n mean = f32[] multiply(sum, eighth)\n means = " +
         array + " broadcast(mean), dimensions={}\n y = " + array +
         " subtract(x, means)\n rest = f32[] reduce(y, zero), dimensions={0}, to_apply=add\n" +
         " ROOT out = f32[] " + total + " }\n";
}

TEST_CASE("what cancels to rounding is right where each step is", "[cpu]") {
  const auto whole = ParseText(Centred("", "8", "", "copy(rest)"));
  const std::string four =
      ", num_partitions=4, frontend_attributes={gshard.output_shardings=\"{replicated}\"}";
  const std::string tiles = ", sharding={devices=[4]<=[4]}";
  const auto right = ParseText(Centred(four, "2", tiles, "all-reduce(rest)" + kSum));
  // `part` and `rest` are partial sums there, and no arrays of the whole graph.
  StepCheckResult result = Check(*ParseText(Centred("", "8", "", "copy(rest)")), *right);
  REQUIRE(result.fault);
  CHECK(result.fault->x->name() == "part");
  auto without_parts = [](const std::string& text) {
    std::string renamed = text;
    for (const std::string name : {"part", "rest"}) {
      for (size_t at = 0; (at = renamed.find(name, at)) != std::string::npos; at += 7) {
        if (renamed.compare(at, 9, "partition") == 0 ||
            renamed.compare(at, 10, "partitions") == 0) {
          continue;
        }
        renamed.replace(at, name.size(), "local_" + name);
      }
    }
    return renamed;
  };
  const auto parts = ParseText(without_parts(Centred(four, "2", tiles, "all-reduce(rest)" + kSum)));
  result = Check(*whole, *parts);
  CHECK_FALSE(result.fault);
  CHECK(result.outputs_agree);
  CHECK(result.judged == 4);  // sum, mean, y, out: x is given
  CHECK(result.arrays == 4);
  const auto dropped = ParseText(without_parts(Centred(four, "2", tiles, "copy(rest)")));
  result = Check(*whole, *dropped);
  REQUIRE(result.fault);
  CHECK(result.fault->x->name() == "out");
  CHECK(result.fault->want.dims.empty());
}

// tanh(x + c) on four devices.
std::string Moved(const std::string& header, const std::string& size, const std::string& sharding,
                  const std::string& c, const std::string& sum = "add(x, cs)") {
  const std::string array = "f32[" + size + "]";
  return "HloModule m" + header + "\nENTRY e { x = " + array + " parameter(0)" + sharding +
         "\n c = f32[] constant(" + c + ")\n cs = " + array +
         " broadcast(c), dimensions={}\n y = " + array + " " + sum + "\n ROOT out = " + array +
         " tanh(y) }\n";
}

TEST_CASE("what one operation makes of equal operands is equal", "[cpu]") {
  const auto whole = ParseText(Moved("", "8", "", "1e-6"));
  const std::string four =
      ", num_partitions=4, frontend_attributes={gshard.output_shardings=\"{devices=[4]<=[4]}\"}";
  const std::string tiles = ", sharding={devices=[4]<=[4]}";
  StepCheckResult result = Check(*whole, *ParseText(Moved(four, "2", tiles, "1e-6")));
  CHECK_FALSE(result.fault);
  CHECK(result.judged == 2);
  CHECK(result.max_rel_error == 0);
  // Far less than what sums may be off by.
  result = Check(*whole, *ParseText(Moved(four, "2", tiles, "2e-6")));
  REQUIRE(result.fault);
  CHECK(result.fault->x->name() == "y");
  // The mesh may take another way, with other roundings, if it does not compute it by the
  // operation.
  result = Check(*whole, *ParseText(Moved(four, "2", tiles, "-2e-6", "subtract(x, cs)")));
  CHECK_FALSE(result.fault);
}

// Two elementwise chains of x and a constant that end in `out`.
std::string Chains(const std::string& header, const std::string& size, const std::string& sharding,
                   const std::string& c = "3", const std::string& order = "n, s") {
  const std::string array = "f32[" + size + "]";
  return "HloModule m" + header + "\nENTRY e { x = " + array + " parameter(0)" + sharding +
         "\n c = f32[] constant(" + c + ")\n cs = " + array +
         " broadcast(c), dimensions={}\n n = " + array + " negate(x)\n m = " + array +
         " maximum(n, cs)\n s = " + array + " sine(x)\n d = " + array + " subtract(" + order +
         ")\n ROOT out = " + array + " multiply(m, d) }\n";
}

TEST_CASE("of an elementwise chain that both graphs have the end is looked at", "[cpu]") {
  const auto whole = ParseText(Chains("", "8", ""));
  const std::string four =
      ", num_partitions=4, frontend_attributes={gshard.output_shardings=\"{devices=[4]<=[4]}\"}";
  const std::string tiles = ", sharding={devices=[4]<=[4]}";
  const auto local = ParseText(Chains(four, "2", tiles));
  const StepCheckResult result = Check(*whole, *local);
  CHECK_FALSE(result.fault);
  CHECK(result.judged == 5);  // n, m, s, d by out
  CHECK(result.arrays == 5);
  // A maximum hides what it is made of: -x is never above 100.
  const auto hides = ParseText(Chains("", "8", "", "100"));
  StepCheckResult found = Check(*hides, *ParseText(Chains(four, "2", tiles, "99")));
  REQUIRE(found.fault);
  CHECK(found.fault->x->name() == "m");
  found = Check(*whole, *ParseText(Chains(four, "2", tiles, "3", "s, n")));
  REQUIRE(found.fault);
  CHECK(found.fault->x->name() == "d");
}

std::vector<std::string> NamesOfEnds(
    const Module& whole, const Module& local,
    const std::function<const Sharding*(std::string_view)>& spread) {
  std::vector<LocalForm> forms;
  for (const Computation* computation : local.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->shape()->IsArray()) forms.push_back({x->name(), x, spread(x->name())});
    }
  }
  const ComparedArrays arrays = CollectArrays(whole, DeviceGrid(), {}, forms);
  std::vector<std::string> names;
  for (const Candidate& candidate : ChainEnds(arrays.candidates)) {
    names.emplace_back(candidate.x->name());
  }
  return names;
}

TEST_CASE("what is inside of chains", "[cpu]") {
  using Names = std::vector<std::string>;
  const auto whole = ParseText(Chains("", "8", ""));
  const auto local = ParseText(Chains(", num_partitions=4", "2", ", sharding={devices=[4]<=[4]}"));
  const Sharding* tiled = local->entry()->parameter(0)->sharding();
  const auto alike = [&](std::string_view) { return tiled; };
  CHECK(NamesOfEnds(*whole, *local, alike) == Names{"x", "out"});
  // Another constant, another order of operands: these steps are to be looked at.
  const auto constant =
      ParseText(Chains(", num_partitions=4", "2", ", sharding={devices=[4]<=[4]}", "4"));
  CHECK(NamesOfEnds(*whole, *constant, alike) == Names{"x", "n", "m", "out"});
  const auto swapped =
      ParseText(Chains(", num_partitions=4", "2", ", sharding={devices=[4]<=[4]}", "3", "s, n"));
  CHECK(NamesOfEnds(*whole, *swapped, alike) == Names{"x", "n", "s", "d", "out"});
  // Other elements than the user's.
  const auto moved = [&](std::string_view name) { return name == "s" ? nullptr : tiled; };
  CHECK(NamesOfEnds(*whole, *local, moved) == Names{"x", "n", "s", "d", "out"});
}

// An array that is renamed, folded to matrices, and turned.
std::string Moves(const std::string& header, const std::string& rows, const std::string& of_x,
                  const std::string& y) {
  const std::string array = "f32[" + rows + ",4]", turned = "f32[2," + rows + ",2]";
  return "HloModule m" + header + "\nENTRY e { x = " + array + " parameter(0)" + of_x +
         "\n y = " + array + " " + y + "\n c = " + array + " copy(y)\n r = f32[" + rows +
         ",2,2] reshape(c)\n t = " + turned +
         " transpose(r), dimensions={1,0,2}\n ROOT out = " + turned + " tanh(t) }\n";
}

TEST_CASE("what is only moved from an array that is looked at", "[cpu]") {
  using Names = std::vector<std::string>;
  const std::string tiles = ", sharding={devices=[4,1]<=[4]}";
  const auto whole = ParseText(Moves("", "8", "", "add(x, x)"));
  const auto chain = ParseText(Moves(", num_partitions=4", "2", tiles, "add(x, x)"));
  const auto other = ParseText(Moves(", num_partitions=4", "2", tiles, "multiply(x, x)"));
  const auto shardings = ParseText(
      "HloModule s\nENTRY e { r = f32[8,2,2] parameter(0), sharding={devices=[4,1,1]<=[4]}\n"
      " t = f32[2,8,2] parameter(1), sharding={devices=[1,4,1]<=[4]}\n"
      " ROOT u = f32[2,8,2] parameter(2), sharding={devices=[1,4,1]<=[2,2]T(1,0)} }");
  const auto of = [&](int64_t k) { return shardings->entry()->parameter(k)->sharding(); };
  const auto spread = [&](std::string_view name) {
    if (name == "r") return of(0);
    return name == "t" || name == "out" ? of(1) : chain->entry()->parameter(0)->sharding();
  };
  CHECK(NamesOfEnds(*whole, *chain, spread) == Names{"x", "out"});
  // y is another operation: it is looked at, and stands for what it is moved to.
  CHECK(NamesOfEnds(*whole, *other, spread) == Names{"x", "y", "out"});
  // Other devices have the turned rows.
  const auto moved = [&](std::string_view name) {
    return name == "t" || name == "out" ? of(2) : spread(name);
  };
  CHECK(NamesOfEnds(*whole, *other, moved) == Names{"x", "y", "t", "out"});
}

// The sum of exp(x - s) by row.
std::string Rows(const std::string& header, const std::string& rows, const std::string& of_x,
                 const std::string& of_s) {
  const std::string row = "f32[" + rows + "]", array = "f32[" + rows + ",4]";
  return "HloModule m" + header +
         "\nadd { p = f32[] parameter(0) q = f32[] parameter(1) ROOT c = f32[] add(p, q) }\n"
         "ENTRY e { x = " +
         array + " parameter(0)" + of_x + "\n s = " + row + " parameter(1)" + of_s +
         "\n b = " + array + " broadcast(s), dimensions={0}\n d = " + array +
         " subtract(x, b)\n n = " + array +
         " exponential(d)\n z = f32[] constant(0)\n ROOT out = " + row +
         " reduce(n, z), dimensions={1}, to_apply=add }\n";
}

TEST_CASE("broadcasts lie inside of chains that sums end", "[cpu]") {
  using Names = std::vector<std::string>;
  const auto whole = ParseText(Rows("", "8", "", ""));
  const auto ends_with = [&](const std::string& devices) {
    const auto local = ParseText(Rows(", num_partitions=4", "2", ", sharding={devices=[4,1]<=[4]}",
                                      ", sharding={devices=[4]" + devices + "}"));
    const Sharding* of_x = local->entry()->parameter(0)->sharding();
    const Sharding* of_s = local->entry()->parameter(1)->sharding();
    return NamesOfEnds(*whole, *local, [&](std::string_view name) {
      return name == "s" || name == "out" ? of_s : of_x;
    });
  };
  CHECK(ends_with("<=[4]") == Names{"x", "s", "out"});
  // Devices have other rows of s than of x: the broadcast is to be looked at.
  CHECK(ends_with("3,2,1,0") == Names{"x", "s", "b", "out"});
}

// Of what is cut by rows: a product, its rows' sums, and their largest.
std::string RowSums(const std::string& header, const std::string& rows, const std::string& tiles,
                    const std::string& product) {
  const std::string array = "f32[" + rows + ",4]", column = "f32[" + rows + "]";
  return "HloModule m" + header +
         "\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
         "ENTRY e { x = " +
         array + " parameter(0)" + tiles +
         "\n w = f32[4,4] parameter(1), sharding={replicated}\n p = " + array + " " + product +
         "\n zero = f32[] constant(0)\n sums = " + column +
         " reduce(p, zero), dimensions={1}, to_apply=add\n ROOT out = " + column +
         " tanh(sums) }\n";
}

TEST_CASE("chains go through sums where all are of whole rows", "[cpu]") {
  using Names = std::vector<std::string>;
  const std::string four = ", num_partitions=4", tiles = ", sharding={devices=[4,1]<=[4]}";
  const std::string dot = "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}";
  const auto whole = ParseText(RowSums("", "8", "", dot));
  const auto local = ParseText(RowSums(four, "2", tiles, dot), whole->shared_context());
  const Sharding* by_rows = local->entry()->parameter(0)->sharding();
  const Sharding* replicated = local->entry()->parameter(1)->sharding();
  const Sharding* in_four = ShardingOf("f32[2]", "{devices=[4]<=[4]}");
  const auto spread = [&](std::string_view name) {
    return name == "w" || name == "zero"     ? replicated
           : name == "sums" || name == "out" ? in_four
                                             : by_rows;
  };
  CHECK(NamesOfEnds(*whole, *local, spread) == Names{"x", "w", "out"});
  // One of them by another product: all sums are looked at.
  const auto other = ParseText(
      RowSums(four, "2", tiles, "dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={1}"));
  CHECK(NamesOfEnds(*whole, *other, spread) == Names{"x", "w", "p", "sums", "out"});
  // Rows that are cut are not whole.
  const Sharding* by_columns = ShardingOf("f32[2,4]", "{devices=[1,4]<=[4]}");
  const auto cut = [&](std::string_view name) { return name == "x" ? by_columns : spread(name); };
  CHECK(NamesOfEnds(*whole, *local, cut) == Names{"x", "w", "p", "sums", "out"});
}

// The sums of rows, and of their doubles, as one reduction; `element` is the result.
std::string TwoSums(const std::string& header, const std::string& rows, const std::string& tiles,
                    const std::string& element) {
  const std::string array = "f32[" + rows + ",4]", column = "f32[" + rows + "]";
  return "HloModule m" + header +
         "\nadd2 { a = f32[] parameter(0) b = f32[] parameter(1) c = f32[] parameter(2) d = f32[] "
         "parameter(3) e = f32[] add(a, c) f = f32[] add(b, d) ROOT s = (f32[], f32[]) tuple(e, f) "
         "}\nENTRY m { x = " +
         array + " parameter(0)" + tiles + "\n y = " + array +
         " add(x, x)\n zero = f32[] constant(0)\n both = (" + column + ", " + column +
         ") reduce(x, y, zero, zero), dimensions={1}, to_apply=add2\n one = " + column +
         " get-tuple-element(both), index=" + element + "\n ROOT out = " + column +
         " tanh(one) }\n";
}

TEST_CASE("chains go through one result of a reduction of several arrays", "[cpu]") {
  using Names = std::vector<std::string>;
  const std::string four = ", num_partitions=4", tiles = ", sharding={devices=[4,1]<=[4]}";
  const auto whole = ParseText(TwoSums("", "8", "", "1"));
  const auto ends = [&](const std::string& element) {
    const auto local = ParseText(TwoSums(four, "2", tiles, element), whole->shared_context());
    const Sharding* by_rows = local->entry()->parameter(0)->sharding();
    const Sharding* in_four = ShardingOf("f32[2]", "{devices=[4]<=[4]}");
    return NamesOfEnds(*whole, *local, [&](std::string_view name) {
      return name == "one" || name == "out" ? in_four : by_rows;
    });
  };
  CHECK(ends("1") == Names{"x", "out"});
  const Names other = ends("0");  // the other result
  CHECK(std::ranges::count(other, "one") == 1);
}

// A loop that writes rows; what it leaves is told by its body's.
std::string Rows(const std::string& header, const std::string& columns, const std::string& tiles) {
  const std::string row = "f32[1," + columns + "]", rows = "f32[3," + columns + "]";
  const std::string state = "(s32[], " + rows + ", " + row + ")";
  return "HloModule m" + header + "\nbody { t = " + state +
         " parameter(0)\n i = s32[] get-tuple-element(t), index=0\n a = " + rows +
         " get-tuple-element(t), index=1\n r = " + row +
         " get-tuple-element(t), index=2\n zero = s32[] constant(0)\n u = " + rows +
         " dynamic-update-slice(a, r, i, zero)\n one = s32[] constant(1)\n n = s32[] add(i, one)\n "
         "ROOT o = " +
         state + " tuple(n, u, r) }\ncondition { t = " + state +
         " parameter(0)\n i = s32[] get-tuple-element(t), index=0\n three = s32[] constant(3)\n "
         "ROOT l = pred[] compare(i, three), direction=LT }\nENTRY e { x = " +
         row + " parameter(0)" + tiles + "\n y = " + rows + " parameter(1)" + tiles +
         "\n zero.1 = s32[] constant(0)\n init = " + state +
         " tuple(zero.1, y, x)\n loop = " + state +
         " while(init), condition=condition, body=body\n left = " + rows +
         " get-tuple-element(loop), index=1\n ROOT out = " + rows + " negate(left) }\n";
}

TEST_CASE("what a loop leaves is what its body has made last", "[cpu]") {
  const auto whole = ParseText(Rows("", "8", ""));
  const auto local = ParseText(Rows(", num_partitions=4", "2", ", sharding={devices=[1,4]<=[4]}"));
  const Sharding* tiled = local->entry()->parameter(0)->sharding();
  const auto names = NamesOfEnds(*whole, *local, [&](std::string_view) { return tiled; });
  CHECK(std::ranges::count(names, "u") == 1);
  CHECK(std::ranges::count(names, "left") == 0);
  CHECK(std::ranges::count(names, "out") == 1);
}

// A product that the mesh sums over devices, large enough to be told by sums of its columns.
std::string Product(const std::string& header, const std::string& depth, const std::string& of_x,
                    const std::string& of_y, const std::string& total) {
  return "HloModule m" + header +
         "\nadd { a = f32[] parameter(0) b = f32[] parameter(1) ROOT s = f32[] add(a, b) }\n"
         "ENTRY e { x = f32[256," +
         depth + "] parameter(0)" + of_x + "\n y = f32[" + depth + ",256] parameter(1)" + of_y +
         "\n part = f32[256,256] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n " +
         total + "\n ROOT out = f32[256,256] tanh(p) }\n";
}

TEST_CASE("large products are told by sums of columns", "[cpu]") {
  const std::string four = ", num_partitions=4";
  const std::string by_columns = ", sharding={devices=[1,4]<=[4]}";
  const std::string by_rows = ", sharding={devices=[4,1]<=[4]}";
  const auto whole = ParseText(
      "HloModule m\nENTRY e { x = f32[256,256] parameter(0)\n y = f32[256,256] parameter(1)\n"
      " p = f32[256,256] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      " ROOT out = f32[256,256] tanh(p) }\n");
  const auto check = [&](const std::string& total) {
    const auto local = ParseText(Product(four, "64", by_columns, by_rows, total));
    std::vector<LocalForm> forms;
    const Sharding* replicated = ShardingOf("f32[]", "{replicated}");
    for (const Instruction* x : local->entry()->instructions()) {
      if (x->name() == "part") continue;
      forms.push_back({x->name(), x, x->sharding() != nullptr ? x->sharding() : replicated});
    }
    const auto inputs = std::move(*Inputs::Open("", 0));
    InstructionsOptions options;
    options.mesh.grid = CountDevices(*local, 4);
    options.mesh.threads = 2;
    options.budget_bytes = 1 << 24;
    auto result = CheckSteps(*whole, *local, forms, *inputs, options);
    REQUIRE(result);
    return *result;
  };
  const std::string sum = "p = f32[256,256] all-reduce(part)" + kSum;
  const StepCheckResult right = check(sum);
  CHECK_FALSE(right.fault);
  CHECK(right.arrays == 2);
  CHECK(right.max_rel_error > 0);
  CHECK(right.max_rel_error < 1e-5);
  // Found by its sums, then told by its elements: all of them, or one alone.
  const StepCheckResult missing = check("p = f32[256,256] copy(part)");
  REQUIRE(missing.fault);
  CHECK(missing.fault->x->name() == "p");
  CHECK(missing.fault->mismatch.differences > 65000);
  const StepCheckResult one =
      check("q = f32[256,256] all-reduce(part)" + kSum +
            "\n i = s32[] constant(77)\n v = f32[1,1] constant({{0.5}})\n p = f32[256,256] "
            "dynamic-update-slice(q, v, i, i)");
  REQUIRE(one.fault);
  CHECK(one.fault->x->name() == "p");
  CHECK(one.fault->mismatch.differences == 1);
}

TEST_CASE("the graph without its large products", "[cpu]") {
  const auto whole = ParseText(
      "HloModule m\nENTRY e { x = f32[2,256,128] parameter(0)\n y = f32[2,512,128] parameter(1)\n"
      " p = f32[2,256,512] dot(x, y), lhs_batch_dims={0}, rhs_batch_dims={0},"
      " lhs_contracting_dims={2}, rhs_contracting_dims={2}\n"
      " ROOT out = f32[2,256,512] tanh(p) }\n");
  const auto local = ParseText("HloModule l\nENTRY e { ROOT p = f32[2,256,512] parameter(0) }");
  const LocalForm form{"p", local->entry()->root()};
  std::vector<Candidate> candidates(1);
  candidates[0].x = whole->entry()->instructions()[2];
  candidates[0].form = &form;
  const std::vector<ProbePoint> probes = WholeProbes(candidates);
  const auto graph = ChecksumDots(*whole, candidates, probes);
  REQUIRE(graph);
  REQUIRE(graph->checksums.size() == 1);
  CHECK(VerifyModule(*graph->module));
  const DotChecksum& sums = graph->checksums[0];
  CHECK(ToString(sums.of_product.shown->shape(), false) == "f32[2,256,16]");
  CHECK(ToString(sums.of_operands.shown->shape(), false) == "f32[2,256,16]");
  CHECK(sums.growth * sums.growth == Approx(32));
  const Instruction* out = graph->module->entry()->root();
  CHECK(out->operand(0) == graph->probes[0].shown);
  CHECK(out->operand(0)->operand(0)->shape()->dim(2) == 1);  // one of its terms stands in
  // Sums of short floats are taken in f32.
  const auto narrow = ParseText(
      "HloModule m\nENTRY e { x = bf16[256,256] parameter(0)\n y = bf16[256,256] parameter(1)\n"
      " p = bf16[256,256] dot(x, y), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      " ROOT out = bf16[256,256] tanh(p) }\n");
  candidates[0].x = narrow->entry()->instructions()[2];
  const auto in_f32 = ChecksumDots(*narrow, candidates, WholeProbes(candidates));
  REQUIRE(in_f32);
  CHECK(VerifyModule(*in_f32->module));
  CHECK(in_f32->probes[0].shown->shape()->dtype() == DType::kBF16);
  CHECK(in_f32->checksums[0].of_product.shown->shape()->dtype() == DType::kF32);
  CHECK(in_f32->checksums[0].of_operands.shown->shape()->dtype() == DType::kF32);
  for (const Computation* computation : in_f32->module->computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kDot) continue;
      CHECK(x->operand(0)->shape()->dtype() == x->operand(1)->shape()->dtype());
    }
  }
  // Not worth it: few FLOPs for what is read, or an array that is not looked at in every iteration.
  candidates[0].stride_in_iterations = 2;
  CHECK_FALSE(ChecksumDots(*narrow, candidates, WholeProbes(candidates)));
}

TEST_CASE("one device's copy is wrong", "[cpu]") {
  const auto whole = ParseText(
      "HloModule m\nENTRY e { x = f32[8] parameter(0)\n y = f32[8] negate(x)\n"
      " ROOT out = f32[8] tanh(y) }\n");
  auto on_device = [](const std::string& device) {
    return ParseText(
        "HloModule m, num_partitions=4, frontend_attributes={gshard.output_shardings="
        "\"{replicated}\"}\nENTRY e { x = f32[8] parameter(0), sharding={replicated}\n"
        " id = u32[] partition-id()\n bad = u32[] constant(" +
        device +
        ")\n is = pred[] compare(id, bad), direction=EQ\n n = f32[8] negate(x)\n"
        " y = f32[8] select(is, x, n)\n ROOT out = f32[8] tanh(y) }\n");
  };
  for (const char* device : {"0", "3"}) {
    const StepCheckResult result = Check(*whole, *on_device(device));
    REQUIRE(result.fault);
    CHECK(result.fault->x->name() == "y");
  }
  CHECK_FALSE(Check(*whole, *on_device("4")).fault);
}

}  // namespace
}  // namespace gshard::cpu
