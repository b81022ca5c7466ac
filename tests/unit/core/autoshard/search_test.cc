// The search against all plans there are, priced by the real pipeline.

#include "core/autoshard/search.h"

#include <fmt/format.h>

#include <algorithm>
#include <catch2/catch.hpp>

#include "core/autoshard/auto_sharding.h"
#include "core/autoshard/plan_moves.h"
#include "core/transforms/annotations/annotate.h"
#include "ir/parser.h"
#include "ir/printer.h"
#include "tests/unit/random.h"
#include "tests/unit/source_file.h"

namespace gshard::autoshard {
namespace {

// A chain of dots with an elementwise operation behind each; large enough that launches do not
// decide. Some weights are returned updated.
std::string RandomChain(Random& random, int dots) {
  constexpr int64_t kSizes[] = {512, 1024, 4096, 8192};
  const auto size = [&] { return kSizes[random.Below(std::size(kSizes))]; };
  const int64_t rows = size();
  int64_t width = size();
  std::string text =
      fmt::format("HloModule chain\nENTRY e {{\n  x0 = f32[{},{}] parameter(0)\n", rows, width);
  for (int i = 1; i <= dots; ++i) {
    const int64_t next = size();
    text += fmt::format("  w{} = f32[{},{}] parameter({})\n", i, width, next, i);
    text += fmt::format(
        "  d{} = f32[{},{}] dot(x{}, w{}), lhs_contracting_dims={{1}}, rhs_contracting_dims={{0}}\n"
        "  x{} = f32[{},{}] tanh(d{})\n",
        i, rows, next, i - 1, i, i, rows, next, i);
    width = next;
  }
  if (random.Below(2) == 0)
    return text + fmt::format("  ROOT r = f32[{},{}] copy(x{})\n}}\n", rows, width, dots);
  return text +
         fmt::format("  u = f32[{0},{1}] negate(x{2})\n  ROOT r = f32[{0},{1}] add(u, x{2})\n}}\n",
                     rows, width, dots);
}

struct Problem {
  std::unique_ptr<PlanPricer> pricer;

  Problem(const std::string& text, const std::vector<MeshAxis>& mesh, int threads = 1) {
    auto module = *ParseModule(SourceText::FromString("t.hlo", text));
    REQUIRE(Annotate(*module, {.mesh = mesh, .rules = {}}));
    PricingOptions options;
    options.chip = *BuiltInChip("h100");
    options.threads = threads;
    pricer = std::move(*PlanPricer::Make(PrintModule(*module), "", mesh, options));
  }
};

// The least of all plans.
PricedPlan BruteForce(Problem& problem, int64_t limit) {
  const std::vector<Plan> plans = AllPlans(problem.pricer->space(), false);
  const auto figures = problem.pricer->Price(plans);
  std::optional<PricedPlan> best;
  for (size_t i = 0; i < plans.size(); ++i) {
    if (!figures[i]) continue;
    PricedPlan priced{plans[i], *figures[i], problem.pricer->space().AnnotationsOf(plans[i])};
    if (!best || IsBetter(priced, *best, limit)) best = std::move(priced);
  }
  return *best;
}

TEST_CASE("plans that propagation makes alike are one program", "[autoshard]") {
  Random random(3);
  Problem problem(RandomChain(random, 2), {{"a", 8}});
  const std::vector<Plan> plans = AllPlans(problem.pricer->space(), false);
  const auto figures = problem.pricer->Price(plans);
  CHECK(problem.pricer->evaluations() == static_cast<int64_t>(plans.size()));
  CHECK(problem.pricer->programs() < problem.pricer->evaluations());
  const Chip chip = *BuiltInChip("h100");
  DeviceProgramOptions program;
  program.is_partitioned = false;
  for (size_t i = 0; i < plans.size(); ++i) {  // each for itself
    auto module = problem.pricer->Apply(plans[i]);
    REQUIRE(module);
    auto made = MakeDeviceProgram(std::move(*module), program);
    REQUIRE(made);
    const auto alone = PriceProgram(std::move(*made), chip, {});
    REQUIRE((alone && figures[i]));
    CHECK(figures[i]->step.step_time_s == alone->step_time_s);
    CHECK(figures[i]->step.peak_bytes == alone->peak_bytes);
  }
}

// Is the plan as fast as the least one, to a fifth of a percent, and does it fit where that does?
bool IsAsGood(const PricedPlan& plan, const PricedPlan& least, int64_t limit) {
  const StepFigures& found = plan.figures.step;
  return found.step_time_s <= least.figures.step.step_time_s * (1 + 2e-3) &&
         (limit == 0 || found.peak_bytes <= std::max(limit, least.figures.step.peak_bytes));
}

TEST_CASE("the search finds the least of all plans", "[autoshard]") {
  Random random(7);
  int found = 0, tried = 0;
  for (int graph = 0; graph < 12; ++graph) {
    const bool two_axes = graph % 3 == 2;
    const std::string text = RandomChain(random, two_axes ? 1 : 2);
    const std::vector<MeshAxis> mesh =
        two_axes ? std::vector<MeshAxis>{{"a", 4}, {"b", 2}} : std::vector<MeshAxis>{{"a", 8}};
    Problem all(text, mesh);
    const PricedPlan unlimited = BruteForce(all, 0);
    const int64_t plans = all.pricer->evaluations();
    for (const int64_t limit : {int64_t{0}, unlimited.figures.step.peak_bytes * 3 / 4}) {
      INFO(text << " limit " << limit);
      const PricedPlan least = BruteForce(all, limit);
      // With evaluations for all plans all are priced; with fewer they are searched.
      for (const int64_t evaluations : {int64_t{2000}, plans - 1}) {
        Problem problem(text, mesh);
        const auto result = SearchPlans(
            *problem.pricer, {.limit_bytes = limit, .evaluations = evaluations, .zero = false});
        REQUIRE(result);
        CHECK(result->is_exhaustive == (evaluations >= plans));
        const bool is_as_good = IsAsGood(result->plans.front(), least, limit);
        if (result->is_exhaustive) {
          CHECK(is_as_good);
        } else {
          ++tried;
          found += is_as_good;
        }
      }
    }
  }
  CHECK(found == tried);
}

TEST_CASE("a plan around an option keeps it", "[autoshard]") {
  Random random(5);
  Problem problem(RandomChain(random, 1), {{"a", 4}, {"b", 4}});
  const Plan none = problem.pricer->space().EmptyPlan();
  for (size_t g = 0; g < problem.pricer->space().groups().size(); ++g) {
    const auto options = static_cast<int>(problem.pricer->space().groups()[g].options.size());
    for (int option = 0; option < options; ++option) {
      const auto plan = BestWithOption(*problem.pricer, {.zero = false}, none, g, option, 100);
      if (plan) CHECK(plan->plan.choices[g] == option);
    }
  }
}

TEST_CASE("the plan does not depend on the number of threads", "[autoshard]") {
  Random random(3);
  const std::string text = RandomChain(random, 3);
  std::vector<std::string> plans;
  for (const int threads : {1, 3}) {
    Problem problem(text, {{"a", 4}, {"b", 2}}, threads);
    const auto result = SearchPlans(*problem.pricer, {.evaluations = 300});
    REQUIRE(result);
    const auto module = problem.pricer->Apply(result->plans.front().plan);
    REQUIRE(module);
    plans.push_back(PrintModule(**module) + std::to_string(result->plans.size()));
  }
  CHECK(plans[0] == plans[1]);
}

TEST_CASE("a plan that is good enough ends the search", "[autoshard]") {
  Random random(3);
  const std::string text = RandomChain(random, 4);
  const std::vector<MeshAxis> mesh = {{"a", 4}, {"b", 2}};
  Problem whole(text, mesh);
  const SearchOptions options{.most_enumerated = 0};
  const auto longest = SearchPlans(*whole.pricer, options);
  REQUIRE(longest);
  CHECK(!longest->is_settled);
  SearchOptions settled = options;
  const double shortest_s = longest->plans.front().figures.step.step_time_s;
  settled.perfect_s = shortest_s;
  settled.within = 1;
  Problem again(text, mesh);
  const auto shorter = SearchPlans(*again.pricer, settled);
  REQUIRE(shorter);
  CHECK(shorter->is_settled);
  CHECK(shorter->plans.front().figures.step.step_time_s <= 2 * shortest_s);
  CHECK(again.pricer->evaluations() < whole.pricer->evaluations());
}

// Kernels may be faster than their share of one device's, so that others may be so as well.
TEST_CASE("a plan that is faster than perfect scaling does not end the search", "[autoshard]") {
  Random random(3);
  const std::string text = RandomChain(random, 4);
  const std::vector<MeshAxis> mesh = {{"a", 4}, {"b", 2}};
  Problem whole(text, mesh), again(text, mesh);
  SearchOptions options{.most_enumerated = 0};
  const auto longest = SearchPlans(*whole.pricer, options);
  REQUIRE(longest);
  options.perfect_s = 10 * longest->plans.front().figures.step.step_time_s;
  options.within = .5;
  const auto other = SearchPlans(*again.pricer, options);
  REQUIRE(other);
  CHECK(!other->is_settled);
  CHECK(other->plans.front().figures.step.step_time_s ==
        longest->plans.front().figures.step.step_time_s);
}

TEST_CASE("annotations that save a few kilobytes are dropped", "[autoshard]") {
  Problem problem(R"(HloModule m
ENTRY e {
  x = f32[4096,4096] parameter(0)
  w = f32[4096,8192] parameter(1)
  scale = f32[2048] parameter(2)
  y = f32[4096,8192] dot(x, w), lhs_contracting_dims={1}, rhs_contracting_dims={0}
  next = f32[2048] multiply(scale, scale)
  ROOT r = (f32[4096,8192], f32[2048]) tuple(y, next)
})",
                  {{"a", 8}});
  const auto found = SearchPlans(*problem.pricer, {.zero = false, .most_enumerated = 0});
  REQUIRE(found);
  const PlanSpace& space = problem.pricer->space();
  for (size_t g = 0; g < space.groups().size(); ++g) {
    if (space.groups()[g].shape->rank() == 1) CHECK(found->plans.front().plan.choices[g] == 0);
  }
  // With it the plan is smaller, but not by a thousandth.
  CHECK(std::ranges::any_of(found->plans, [&](const PricedPlan& plan) {
    return IsBetter(plan, found->plans.front(), 0) &&
           !IsClearlyBetter(plan, found->plans.front(), 0);
  }));
}

AutoResult Sharded(const std::string& text, AutoOptions options) {
  options.pricing.chip = *BuiltInChip("h100");
  options.pricing.threads = 1;
  options.evaluations = 300;
  auto result =
      ShardAutomatically(*ParseModule(SourceText::FromString("t.hlo", text)), "t.hlo", options);
  if (!result) FAIL(Render(result.error()));
  return std::move(*result);
}

TEST_CASE("a mesh that a first look puts third may be the best", "[autoshard]") {
  constexpr int kWidths[] = {4096, 4096, 1024, 8192, 512, 4096, 8192};
  std::string text = "HloModule chain\nENTRY e {\n  x0 = f32[8192,4096] parameter(0)\n";
  for (int i = 1; i <= 6; ++i) {
    text += fmt::format(
        "  w{0} = f32[{2},{3}] parameter({0})\n"
        "  d{0} = f32[8192,{3}] dot(x{1}, w{0}), lhs_contracting_dims={{1}}, "
        "rhs_contracting_dims={{0}}\n"
        "  x{0} = f32[8192,{3}] tanh(d{0})\n",
        i, i - 1, kWidths[i - 1], kWidths[i]);
  }
  text += "  ROOT r = f32[8192,8192] copy(x6)\n}\n";
  const auto module = *ParseModule(SourceText::FromString("t.hlo", text));
  AutoOptions options;
  options.pricing.chip = *BuiltInChip("h100");
  options.pipelines = false;
  const auto all = ShardOverDevices(*module, "t.hlo", 12, options);
  options.mesh = {{"data", 4}, {"model", 3}};
  const auto one = ShardAutomatically(module->Clone(), "t.hlo", options);
  REQUIRE(all);
  REQUIRE(one);
  CHECK(all->plans[0].step_time_s <= one->plans[0].step_time_s * (1 + kSameTime));
}

TEST_CASE("the text of the best plan has the figures that are told", "[autoshard]") {
  Random random(5);
  for (int graph = 0; graph < 4; ++graph) {
    AutoOptions options;
    options.mesh = {{"data", 4}, {"model", 2}};
    const AutoResult result = Sharded(RandomChain(random, 2), options);
    const AutoPlan& best = result.plans.front();
    DeviceProgramOptions program;
    auto made = MakeDeviceProgram(
        *ParseModule(SourceText::FromString("o.hlo", result.texts.front())), program);
    REQUIRE(made);
    CostOptions cost;
    const Chip chip = *BuiltInChip("h100");
    const auto figures = PriceProgram(*std::move(made), chip, cost);
    REQUIRE(figures);
    CHECK(figures->step_time_s == best.step_time_s);
    CHECK(figures->peak_bytes == best.peak_bytes);
    CHECK(best.step_time_s >= result.bound_s);
    for (const AutoPlan& plan : result.plans) CHECK(plan.step_time_s >= best.step_time_s * .999);
  }
}

TEST_CASE("the smallest peak that is told is found where it is the limit", "[autoshard]") {
  AutoOptions options;
  options.mesh = {{"data", 2}, {"model", 4}};
  options.keep = Keep::kNone;
  options.pricing.chip = *BuiltInChip("tpu-v3");
  options.evaluations = 150;
  const auto best = [&] {
    auto module = *ParseModule(*SourceText::Open(SourceFile("samples/transformer_train.hlo")));
    auto result = ShardAutomatically(std::move(module), "t.hlo", options);
    REQUIRE(result);
    return std::move(result->plans.front());
  };
  options.limit_bytes = 8'000'000;
  const AutoPlan smallest = best();
  REQUIRE(!smallest.fits);
  options.limit_bytes = smallest.peak_bytes;
  CHECK(best().fits);
}

TEST_CASE("a batch is found through operations that propagation gives no sharding", "[autoshard]") {
  AutoOptions options;
  options.mesh = {{"data", 8}};
  for (const char* const result : {"c64[65536,2049] fft(y), fft_type=RFFT, fft_length={4096}",
                                   "c64[65536,2049] fft(z), fft_type=FFT, fft_length={2049}"}) {
    const AutoResult found = Sharded(fmt::format(R"(HloModule transforms
ENTRY e {{
  x = f32[65536,4096] parameter(0)
  y = f32[65536,4096] add(x, x)
  z = c64[65536,2049] fft(y), fft_type=RFFT, fft_length={{4096}}
  f = {}
  ROOT r = f32[65536,2049] real(f)
}})",
                                                 result),
                                     options);
    CHECK(found.plans.front().step_time_s < 1.2 * found.bound_s);
  }
}

TEST_CASE("a transpose of an array without elements is taken", "[autoshard]") {
  AutoOptions options;
  options.mesh = {{"data", 2}};
  const AutoResult result = Sharded(R"(HloModule empty
ENTRY e {
  x = f32[0,256] parameter(0)
  y = f32[64,256] parameter(1)
  t = f32[256,0] transpose(x), dimensions={1,0}
  ROOT d = f32[64,0] dot(y, t), lhs_contracting_dims={1}, rhs_contracting_dims={0}
})",
                                    options);
  CHECK_FALSE(result.plans.empty());
}

TEST_CASE("what is fixed stays as it is", "[autoshard]") {
  Random random(11);
  AutoOptions options;
  options.mesh = {{"data", 4}, {"model", 2}};
  options.rules = {{"^w1$", "model,data", "--fix", 0}};
  const AutoResult result = Sharded(RandomChain(random, 2), options);
  const auto module = *ParseModule(SourceText::FromString("o.hlo", result.texts.front()));
  const Mesh mesh{"mesh", options.mesh, TileAssignment::Iota(std::vector<int64_t>{4, 2}), ""};
  const std::vector<std::vector<int>> dims = {{1}, {0}};
  for (const Instruction* x : module->entry()->parameters()) {
    if (x->name() != "w1") continue;
    CHECK(SameSharding(x->sharding(), ShardingByAxes(module->context(), mesh, dims)));
  }
}

}  // namespace
}  // namespace gshard::autoshard
