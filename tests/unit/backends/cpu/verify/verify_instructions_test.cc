// A wrong value inside the graph is found where it begins, with the way the error takes.
#include "backends/cpu/verify/verify_instructions.h"

#include "tests/ranks_in_process.h"
#include "tests/unit/backends/cpu/mesh_fixture.h"

namespace gshard::cpu {
namespace {

// Ranks call it side by side, and Catch's assertions are not for several threads.
std::unique_ptr<Module> ParseText(const std::string& text) {
  auto module = ParseModule(SourceText::FromString("test.hlo", text));
  if (!module) throw std::runtime_error(Render(module.error()));
  return std::move(*module);
}

// y = 2 (x + 1) + x; on device 2 `wrong` is added to the sum.
std::unique_ptr<Module> OnFourDevices(const std::string& wrong) {
  return ParseText(
      "HloModule m, num_partitions=4\nENTRY e { x = f32[2] parameter(0), "
      "sharding={devices=[4]<=[4]}\n t = f32[4] constant({1,1," +
      wrong +
      ",1})\n p = u32[] partition-id()\n o = f32[1] dynamic-slice(t, p), "
      "dynamic_slice_sizes={1}\n b = f32[2] broadcast(o), dimensions={0}\n a = f32[2] add(x, b)\n "
      "two = f32[] constant(2)\n bt = f32[2] broadcast(two), dimensions={}\n m = f32[2] "
      "multiply(a, bt)\n ROOT y = f32[2] add(m, x) }\n");
}

// All arrays of the partitioned module that are a quarter of the whole one's.
std::vector<LocalForm> FormsOf(const Module& partitioned) {
  std::vector<LocalForm> forms;
  for (const Computation* computation : partitioned.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->shape()->IsArray() && x->shape()->rank() > 0 && x->shape()->dim(0) == 2) {
        forms.push_back({x->name(), x, partitioned.entry()->parameter(0)->sharding()});
      }
    }
  }
  return forms;
}

InstructionsResult Compare(const Module& whole, const Module& partitioned,
                           InstructionsOptions options) {
  const std::vector<LocalForm> forms = FormsOf(partitioned);
  const auto inputs = std::move(*Inputs::Open("", 0));
  options.mesh.grid = CountDevices(partitioned, 4);
  options.mesh.threads = 2;
  auto result = VerifyInstructions(whole, partitioned, forms, *inputs, options);
  REQUIRE(result);
  return *result;
}

InstructionsResult Verify(const std::string& wrong, int64_t budget, int64_t memory_limit = 0) {
  const auto whole = ParseText(
      "HloModule m\nENTRY e { x = f32[8] parameter(0)\n one = f32[] constant(1)\n b = f32[8] "
      "broadcast(one), dimensions={}\n a = f32[8] add(x, b)\n two = f32[] constant(2)\n bt = "
      "f32[8] broadcast(two), dimensions={}\n m = f32[8] multiply(a, bt)\n ROOT y = f32[8] "
      "add(m, x) }\n");
  InstructionsOptions options;
  options.budget_bytes = budget;
  options.mesh.memory_limit = memory_limit;
  return Compare(*whole, *OnFourDevices(wrong), options);
}

TEST_CASE("equal graphs agree in every instruction", "[cpu]") {
  const InstructionsResult result = Verify("1", 1 << 20);
  CHECK(result.compared == 4);  // neither b nor bt: scalars
  CHECK_FALSE(result.first);
  CHECK(result.max_rel_error == 0);
}

TEST_CASE("the first instruction that diverges is named, whatever is held at a time", "[cpu]") {
  for (const int64_t budget : {int64_t{1}, int64_t{100}, int64_t{1} << 20}) {
    const InstructionsResult result = Verify("1.5", budget);
    REQUIRE(result.first);
    CHECK(result.first->name == "a");
    CHECK(result.first->device == 2);
    CHECK(result.first->index.at(0) / 2 == 2);  // in the tile of device 2
    const double value = std::stod(result.first->value);
    CHECK(value - std::stod(result.first->expected) == Approx(0.5));
    CHECK(result.first->ulps == Approx(0.5 / std::ldexp(1.0, std::ilogb(value - 0.5) - 23)));
    REQUIRE_FALSE(result.growth.empty());
    CHECK(result.growth.back().name == "a");
  }
}

TEST_CASE("a parameter has its value before what stands above it in the text", "[cpu]") {
  const auto whole = ParseText(
      "HloModule m\nENTRY e { x = f32[8] parameter(0)\n y = f32[8] parameter(1)\n"
      " a = f32[8] add(x, x)\n b = f32[8] add(y, y)\n c = f32[8] multiply(y, b)\n"
      " ROOT d = f32[8] add(a, c) }\n");
  const auto partitioned = ParseText(
      "HloModule m, num_partitions=4\nENTRY e { x = f32[2] parameter(0), "
      "sharding={devices=[4]<=[4]}\n a = f32[2] add(x, x)\n y = f32[2] parameter(1), "
      "sharding={devices=[4]<=[4]}\n b = f32[2] add(y, y)\n c = f32[2] multiply(y, b)\n"
      " ROOT d = f32[2] add(a, c) }\n");
  InstructionsOptions options;
  options.budget_bytes = 1 << 20;
  const InstructionsResult result = Compare(*whole, *partitioned, options);
  CHECK(result.compared == 6);
  CHECK_FALSE(result.first);
}

TEST_CASE("where both graphs do not fit at once they run after each other", "[cpu]") {
  const InstructionsResult result = Verify("1.5", 100, 1 << 20);
  REQUIRE(result.first);
  CHECK(result.first->name == "a");
  CHECK(result.compared == 4);
  CHECK(result.skipped == 0);
}

TEST_CASE("many passes are one progress: only the first, which hopes to be the last, falls back",
          "[cpu]") {
  const auto program = [](const std::string& header, const std::string& array,
                          const std::string& sharding) {
    std::string text =
        "HloModule m" + header + "\nENTRY e { x0 = " + array + " parameter(0)" + sharding + "\n";
    for (int i = 1; i < 9; ++i) {
      const std::string operand = "x" + std::to_string(i - 1);
      text += (i == 8 ? " ROOT x" : " x") + std::to_string(i) + " = " + array + " add(" + operand +
              ", " + operand + ")\n";
    }
    return ParseText(text + "}\n");
  };
  const auto whole = program("", "f32[8,131072]", "");
  const auto partitioned =
      program(", num_partitions=4", "f32[2,131072]", ", sharding={devices=[4,1]<=[4]}");
  int with_passes = 0;
  for (int64_t limit = int64_t{10} << 20; limit <= int64_t{60} << 20; limit += 5 << 20) {
    std::vector<double> shares;
    InstructionsOptions options;
    options.budget_bytes = 1;
    options.mesh.memory_limit = limit;
    options.progress = [&](double share) { shares.push_back(share); };
    if (Compare(*whole, *partitioned, options).skipped > 0) continue;
    REQUIRE_FALSE(shares.empty());
    CHECK(shares.back() == Approx(1));
    int falls = 0;
    for (size_t i = 1; i < shares.size(); ++i) falls += shares[i] < shares[i - 1];
    CHECK(falls <= 1);
    with_passes += falls;
  }
  CHECK(with_passes > 0);
}

TEST_CASE("without memory for either graph nothing is compared", "[cpu]") {
  const InstructionsResult result = Verify("1.5", 1 << 20, 1);
  CHECK_FALSE(result.first);
  CHECK(result.compared == 0);
  CHECK(result.skipped == 4);
}

// Three turns of y = x + i; `size` elements a device. What is added to i is wrong in turn 1 if
// asked for, which the last turn does not show.
std::string Loop(const std::string& header, const std::string& size, const std::string& sharding,
                 const std::string& in_turn_1) {
  const std::string array = "f32[" + size + "]", carried = "(s32[], " + array + ", " + array + ")";
  return "HloModule m" + header + "\nbody { p = " + carried +
         " parameter(0)\n i = s32[] get-tuple-element(p), index=0\n x = " + array +
         " get-tuple-element(p), index=1\n one = s32[] constant(1)\n n = s32[] add(i, one)\n f = "
         "f32[] convert(i)\n at = pred[] compare(i, one), direction=EQ\n w = f32[] constant(" +
         in_turn_1 + ")\n s = f32[] select(at, w, f)\n b = " + array +
         " broadcast(s), dimensions={}\n y = " + array + " add(x, b)\n ROOT t = " + carried +
         " tuple(n, x, y) }\ncond { p = " + carried +
         " parameter(0)\n i = s32[] get-tuple-element(p), index=0\n three = s32[] constant(3)\n "
         "ROOT l = pred[] compare(i, three), direction=LT }\nENTRY e { x0 = " +
         array + " parameter(0)" + sharding + "\n zero = s32[] constant(0)\n t0 = " + carried +
         " tuple(zero, x0, x0)\n l = " + carried +
         " while(t0), condition=cond, body=body\n ROOT r = " + array +
         " get-tuple-element(l), index=2 }\n";
}

TEST_CASE("loops are compared turn by turn", "[cpu]") {
  const auto whole = ParseText(Loop("", "8", "", "1"));
  const std::string sharding = ", sharding={devices=[4]<=[4]}";
  InstructionsOptions options;
  options.budget_bytes = 1 << 20;
  const auto right = ParseText(Loop(", num_partitions=4", "2", sharding, "1"));
  InstructionsResult result = Compare(*whole, *right, options);
  CHECK_FALSE(result.first);
  CHECK(result.compared == 3);  // x0, y, r
  const auto wrong = ParseText(Loop(", num_partitions=4", "2", sharding, "1.25"));
  for (const int64_t budget : {int64_t{1}, int64_t{1} << 20}) {
    options.budget_bytes = budget;
    result = Compare(*whole, *wrong, options);
    REQUIRE(result.first);
    CHECK(result.first->name == "y");
    CHECK(std::stod(result.first->value) - std::stod(result.first->expected) == Approx(0.25));
  }
}

TEST_CASE("what is within the tolerance is no divergence", "[cpu]") {
  const InstructionsResult result = Verify("1.00001", 1 << 20);
  CHECK_FALSE(result.first);
  CHECK(result.max_rel_error > 5e-6);
  CHECK(result.max_rel_error < 2e-5);
}

// Which of a row's six floats is largest, and what follows from it. `keys` makes the floats k of x.
std::string ArgMax(const std::string& header, const std::string& rows, const std::string& sharding,
                   const std::string& keys, const std::string& direction = "GT") {
  const std::string floats = "f32[" + rows + "]", picks = "s32[" + rows + "]";
  return "HloModule m" + header +
         "\npick { a = f32[] parameter(0)\n i = s32[] parameter(1)\n b = f32[] parameter(2)\n j = "
         "s32[] parameter(3)\n gt = pred[] compare(a, b), direction=" +
         direction +
         "\n v = f32[] select(gt, a, b)\n n = s32[] select(gt, i, j)\n ROOT t = (f32[], s32[]) "
         "tuple(v, n) }\nENTRY e { x = "
         "f32[" +
         rows + ",6] parameter(0)" + sharding + "\n" + keys + " it = s32[" + rows +
         ",6] iota(), iota_dimension=1\n low = f32[] constant(-1)\n no = s32[] constant(-1)\n r = "
         "(" +
         floats + ", " + picks +
         ") reduce(k, it, low, no), dimensions={1}, to_apply=pick\n best = " + picks +
         " get-tuple-element(r), index=1\n f = " + floats + " convert(best)\n ROOT y = " + floats +
         " multiply(f, f) }\n";
}

// The last row is {0, 9 + skew, 0, 0, 9, 0}, the others are x. `marks`: 1 where the last row is.
std::string Keys(const std::string& rows, const std::string& marks, const std::string& skew) {
  const std::string keys = "f32[" + rows + ",6]";
  return marks + " row = f32[6] constant({0,9,0,0,9,0})\n column = f32[6] constant({0," + skew +
         ",0,0,0,0})\n both = f32[6] add(row, column)\n ms = " + keys +
         " broadcast(m), dimensions={0}\n bs = " + keys +
         " broadcast(both), dimensions={1}\n peaks = " + keys + " multiply(ms, bs)\n xm = " + keys +
         " multiply(x, ms)\n rest = " + keys + " subtract(x, xm)\n k = " + keys +
         " add(rest, peaks)\n";
}

// The whole graph's last row has the 9 a little larger, the mesh's the 9 + skew.
InstructionsResult VerifyPicks(const std::string& skew, int64_t memory_limit = 0,
                               const std::string& direction = "GT") {
  const std::string marks = "f32[12] constant({0,0,0,0,0,0,0,0,0,0,0,1})\n";
  const auto whole = ParseText(ArgMax("", "12", "", Keys("12", " m = " + marks, "-0.0001")));
  const auto mesh = ParseText(ArgMax(
      ", num_partitions=4, "
      "frontend_attributes={gshard.output_shardings=\"{devices=[4]<=[4]}\"}",
      "3", ", sharding={devices=[4,1]<=[4]}",
      Keys("3",
           " table = " + marks +
               " p = u32[] partition-id()\n three = u32[] constant(3)\n at = u32[] multiply(p, "
               "three)\n m = f32[3] dynamic-slice(table, at), dynamic_slice_sizes={3}\n",
           skew),
      direction));
  const auto vectors = ParseText(
      "HloModule s, num_partitions=4\nENTRY e { ROOT x = f32[12] parameter(0), "
      "sharding={devices=[4]<=[4]} }\n");
  std::vector<LocalForm> forms;
  for (const Instruction* x : mesh->entry()->instructions()) {
    if (!x->shape()->IsArray() || x->shape()->rank() == 0 || x->shape()->dim(0) != 3) continue;
    const Module& like = x->shape()->rank() == 2 ? *mesh : *vectors;
    forms.push_back({x->name(), x, like.entry()->parameter(0)->sharding()});
  }
  const auto inputs = std::move(*Inputs::Open("", 0));
  InstructionsOptions options;
  options.budget_bytes = 1 << 20;
  options.mesh.grid = CountDevices(*mesh, 4);
  options.mesh.threads = 2;
  options.mesh.memory_limit = memory_limit;
  auto result = VerifyInstructions(*whole, *mesh, forms, *inputs, options);
  REQUIRE(result);
  return *result;
}

TEST_CASE("a pick that flips within rounding is a near tie, and what follows is none", "[cpu]") {
  // Without a limit in turns, else after each other.
  const InstructionsResult result = VerifyPicks("0.0001", GENERATE(0, 1 << 20));
  REQUIRE(result.near_ties.size() == 1);
  const NearTie& tie = result.near_ties[0];
  CHECK(tie.opcode == "reduce");
  CHECK(tie.pick.name == "best");
  CHECK(tie.pick.device == 3);
  CHECK(tie.pick.index == std::vector<int64_t>{11});
  CHECK(tie.pick.differences == 1);
  CHECK(tie.pick.elements == 12);
  REQUIRE(tie.candidates.size() == 2);
  CHECK(tie.candidates[0].name == "k");
  CHECK(tie.pick.value == "1");
  CHECK(tie.candidates[0].index == std::vector<int64_t>{11, 1});
  CHECK(std::stod(tie.candidates[0].value) == Approx(9.0001).epsilon(1e-7));
  CHECK(std::stod(tie.candidates[0].expected) == Approx(8.9999).epsilon(1e-7));
  CHECK(tie.pick.expected == "4");
  CHECK(tie.candidates[1].index == std::vector<int64_t>{11, 4});
  CHECK(tie.candidates[1].expected == "9");
  // 8.9999 to 9 in steps of 2^-20.
  CHECK(tie.ulps == Approx(105).margin(1));
  CHECK_FALSE(result.first);
  CHECK(result.outputs_agree == true);
}

TEST_CASE("picks of equal floats that do not follow from them are no near ties", "[cpu]") {
  const InstructionsResult result = VerifyPicks("-0.0001", 0, "LE");  // an arg-min
  CHECK(result.near_ties.empty());
  REQUIRE(result.first);
  CHECK(result.first->name == "best");
}

TEST_CASE("floats that differ by more than the tolerance are no near tie", "[cpu]") {
  const InstructionsResult result = VerifyPicks("1");
  CHECK(result.near_ties.empty());
  REQUIRE(result.first);
  CHECK(result.first->name == "bs");
}

// x = p + 1, its sum over all devices, and a loop that a device leaves by its number; on device 2
// `wrong` is added.
std::unique_ptr<Module> LoopOnFourDevices(const std::string& wrong) {
  return ParseText(
      "HloModule m, num_partitions=4\n"
      "less { s = (s32[], f32[2]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(5)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[2]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      "  v = f32[2] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)\n t = f32[4] constant({0,0," +
      wrong +
      ",0})\n p = u32[] partition-id()\n o = f32[1] dynamic-slice(t, p), dynamic_slice_sizes={1}\n"
      "  b = f32[2] broadcast(o), dimensions={0}\n w = f32[2] cosine(v)\n"
      "  a = f32[2] add(w, b)\n ROOT r = (s32[], f32[2]) tuple(j, a) }\n"
      "ENTRY e { x = f32[2] parameter(0), sharding={devices=[4]<=[4]}\n"
      "  zero = s32[] constant(0)\n q = (s32[], f32[2]) tuple(zero, x)\n"
      "  l = (s32[], f32[2]) while(q), condition=less, body=body\n"
      "  ROOT y = f32[2] get-tuple-element(l), index=1 }\n");
}

std::unique_ptr<Module> WholeLoop() {
  return ParseText(
      "HloModule m\n"
      "less { s = (s32[], f32[8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] constant(5)\n ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], f32[8]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      "  v = f32[8] get-tuple-element(s), index=1\n one = s32[] constant(1)\n"
      "  j = s32[] add(i, one)\n  a = f32[8] cosine(v)\n"
      "  ROOT r = (s32[], f32[8]) tuple(j, a) }\n"
      "ENTRY e { x = f32[8] parameter(0)\n  zero = s32[] constant(0)\n"
      "  q = (s32[], f32[8]) tuple(zero, x)\n"
      "  l = (s32[], f32[8]) while(q), condition=less, body=body\n"
      "  ROOT y = f32[8] get-tuple-element(l), index=1 }\n");
}

TEST_CASE("over ranks the first one finds what it would alone", "[cpu][ranks]") {
  for (const std::string wrong : {"0", "0.5"}) {
    const auto whole = WholeLoop();
    InstructionsOptions alone;
    alone.budget_bytes = 1 << 20;
    const InstructionsResult want = Compare(*whole, *LoopOnFourDevices(wrong), alone);
    CHECK(want.first.has_value() == (wrong != "0"));
    for (const int count : {2, 3, 5}) {
      RunOnRanks(count, [&](mpi::Ranks& ranks) {
        const auto own_whole = WholeLoop();
        const auto partitioned = LoopOnFourDevices(wrong);
        const std::vector<LocalForm> forms = FormsOf(*partitioned);
        const auto inputs = std::move(*Inputs::Open("", 0));
        InstructionsOptions options;
        options.budget_bytes = 1 << 20;
        options.mesh.grid = CountDevices(*partitioned, 4);
        options.mesh.ranks = &ranks;
        options.runs = MeshRuns(&ranks, nullptr);
        if (ranks.rank() != 0) {
          options.runs.Replay(*partitioned, *inputs, options.mesh, nullptr);
          return;
        }
        auto got = VerifyInstructions(*own_whole, *partitioned, forms, *inputs, options);
        options.runs.Finish();
        if (!got || got->compared != want.compared || got->max_rel_error != want.max_rel_error ||
            got->worst != want.worst || got->first.has_value() != want.first.has_value()) {
          throw std::logic_error("another result");
        }
        if (want.first &&
            (got->first->name != want.first->name || got->first->device != want.first->device ||
             got->first->index != want.first->index || got->first->value != want.first->value ||
             got->first->differences != want.first->differences ||
             got->first->elements != want.first->elements)) {
          throw std::logic_error("another first instruction");
        }
      });
    }
  }
}

}  // namespace
}  // namespace gshard::cpu
