// Which values are kept between a pass that computes a stage again and the backward pass.
#include "core/pipeline/emit/kept_values.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <set>
#include <string>

#include "tests/unit/core/propagation/propagated.h"

namespace gshard::pipeline {
namespace {

constexpr const char* kSoftmax = R"(HloModule m
sum { a = f32[] parameter(0)  b = f32[] parameter(1)  ROOT s = f32[] add(a, b) }
less {
  a = f32[] parameter(0)
  b = f32[] parameter(1)
  c = f32[] parameter(2)
  d = f32[] parameter(3)
  ROOT l = pred[] compare(a, b), direction=LT
}
ENTRY e {
  q = f32[64,8] parameter(0)
  k = f32[64,8] parameter(1)
  zero = f32[] constant(0)
  scores = f32[64,64] dot(q, k), lhs_contracting_dims={1}, rhs_contracting_dims={1}
  powers = f32[64,64] exponential(scores)
  total = f32[64] reduce(powers, zero), dimensions={1}, to_apply=sum
  totals = f32[64,64] broadcast(total), dimensions={0}
  shares = f32[64,64] divide(powers, totals)
  pair = (f32[64,64], f32[64,64]) sort(shares, powers), dimensions={0}, to_apply=less
  sorted = f32[64,64] get-tuple-element(pair), index=0
  halves = bf16[64,64] convert(sorted)
  again = f32[64,64] convert(halves)
  twice = f32[64,64] add(again, again)
  ROOT r = (f32[64,64], f32[64,64]) tuple(shares, twice)
}
)";

// Names of what is kept of the values named; empty also where nothing can be.
class Keeper {
 public:
  std::optional<std::set<std::string>> Kept(const std::vector<std::string>& needed) const {
    KeptValuesQuery query;
    for (Instruction* x : module_->entry()->instructions()) {
      if (std::find(needed.begin(), needed.end(), x->name()) != needed.end())
        query.needed.push_back(x);
      if (leaves_layer.count(std::string(x->name())) != 0) leaves_.insert(x);
    }
    query.is_given = [](const Instruction* x) {
      return x->opcode() == Opcode::kParameter || x->opcode() == Opcode::kConstant;
    };
    query.may_be_kept = [&](const Instruction* x) {
      return refused.count(std::string(x->name())) == 0;
    };
    query.leaves_layer = &leaves_;
    const auto kept = FewestBytesToKeep(query);
    if (!kept) return std::nullopt;
    std::set<std::string> names;
    for (const Instruction* x : *kept) names.emplace(x->name());
    return names;
  }

  std::set<std::string> leaves_layer, refused;

 private:
  std::unique_ptr<Module> module_ = Parsed(kSoftmax);
  mutable std::unordered_set<const Instruction*> leaves_;
};

using Names = std::set<std::string>;

TEST_CASE("of values that follow from one another the fewest bytes are kept", "[pipeline]") {
  Keeper keeper;
  // Shares follow from powers alone: as many bytes as the scores, and less to compute again.
  CHECK(keeper.Kept({"powers", "shares"}) == Names{"powers"});
  CHECK(keeper.Kept({"scores", "powers", "shares"}) == Names{"scores"});
  CHECK(keeper.Kept({"total", "powers"}) == Names{"powers"});
  CHECK(keeper.Kept({"total"}) == Names{"total"});
  // Half as many bytes, a few operations earlier.
  CHECK(keeper.Kept({"twice"}) == Names{"halves"});
}

TEST_CASE("what may not be kept is computed again, what leaves a layer is not", "[pipeline]") {
  Keeper keeper;
  keeper.refused = {"powers", "shares"};
  CHECK(keeper.Kept({"powers", "shares"}) == Names{"scores"});
  keeper.refused.insert("scores");
  CHECK(keeper.Kept({"powers", "shares"}) == Names{});  // the product, too: from what is given
  keeper.refused = {};
  keeper.leaves_layer = {"again"};
  CHECK(keeper.Kept({"twice"}) == Names{"twice"});
}

TEST_CASE("a tuple that is needed can neither be kept nor be computed again", "[pipeline]") {
  CHECK(!Keeper().Kept({"pair"}));
}

}  // namespace
}  // namespace gshard::pipeline
