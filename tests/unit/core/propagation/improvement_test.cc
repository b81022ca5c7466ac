// docs/propagation.md, "The improvement rule": expected values are its table and XLA's answers.
#include "core/propagation/improvement.h"

#include <catch2/catch.hpp>
#include <string>

#include "ir/sharding_text.h"

namespace gshard {
namespace {

struct Fixture {
  Context context;
  DerivedShardings derive{context};
  const Sharding* Parse(const std::string& text) {
    if (text.empty()) return nullptr;
    auto s = ParseSharding(context, text);
    REQUIRE(s.has_value());
    return (*s)->canonical;
  }
  // What f32[8,16] with `current` takes from `offered`; "kept" if it keeps what it has.
  std::string Take(const std::string& current, const std::string& offered, bool combine,
                   bool aggressive = false) {
    const int64_t dims[] = {8, 16};
    const Sharding* s = Improve(derive, context.Array(DType::kF32, dims), Parse(current),
                                Parse(offered), combine, aggressive);
    return s == nullptr ? "kept" : ToString(s);
  }
};

const char* const kRows = "{devices=[2,1,4]<=[8] last_tile_dim_replicate}";
const char* const kColumns = "{devices=[1,4,2]<=[2,4]T(1,0) last_tile_dim_replicate}";

TEST_CASE_METHOD(Fixture, "Anything beats nothing and replication", "[propagation]") {
  CHECK(Take("", kRows, false) == kRows);
  CHECK(Take("", "{replicated}", false) == "{replicated}");
  CHECK(Take("{replicated}", kRows, false) == kRows);
  CHECK(Take(kRows, "{replicated}", true) == "kept");
  CHECK(Take(kRows, kRows, true) == "kept");
}

TEST_CASE_METHOD(Fixture, "One device is never taken, and yields to tiles", "[propagation]") {
  CHECK(Take("", "{maximal device=3}", true) == "kept");
  CHECK(Take("{replicated}", "{maximal device=3}", true) == "kept");
  CHECK(Take("{maximal device=3}", kRows, true) == kRows);
}

TEST_CASE_METHOD(Fixture, "Manual beats replicated and maximal, nothing beats manual",
                 "[propagation]") {
  CHECK(Take("{replicated}", "{manual}", false) == "{manual}");
  CHECK(Take("{maximal device=0}", "{manual}", false) == "{manual}");
  CHECK(Take(kRows, "{manual}", false) == "kept");
  CHECK(Take("{manual}", kRows, true) == "kept");
}

TEST_CASE_METHOD(Fixture, "Partially replicated shardings merge from level 1", "[propagation]") {
  CHECK(Take(kRows, kColumns, true) == "{devices=[2,4]<=[8]}");
  // Without combining, four tiles are no refinement of two that cut the other way.
  CHECK(Take(kRows, kColumns, false) == "kept");
  CHECK(Take(kRows, kColumns, false, true) == kColumns);
  CHECK(Take(kRows, "{devices=[1,2,4]<=[8] last_tile_dim_replicate}", true) == "kept");
}

TEST_CASE_METHOD(Fixture, "A refinement is taken, more tiles across only aggressively",
                 "[propagation]") {
  CHECK(Take(kRows, "{devices=[8,1]<=[8]}", false) == "{devices=[8,1]<=[8]}");
  CHECK(Take("{devices=[8,1]<=[8]}", "{devices=[1,8]<=[8]}", true, true) == "kept");
  CHECK(Take("{devices=[1,2,4]<=[8] last_tile_dim_replicate}", "{devices=[8,1]<=[8]}", true) ==
        "kept");
  CHECK(Take("{devices=[1,2,4]<=[8] last_tile_dim_replicate}", "{devices=[8,1]<=[8]}", true,
             true) == "{devices=[8,1]<=[8]}");
}

TEST_CASE_METHOD(Fixture, "Tuples merge leaf by leaf", "[propagation]") {
  const int64_t dims[] = {8, 16};
  const Shape* array = context.Array(DType::kF32, dims);
  const Shape* const both[] = {array, array};
  const Shape* shape = context.Tuple(both);
  auto pair = [&](const std::string& a, const std::string& b) {
    return Parse("{" + a + ", " + b + "}");
  };
  // One leaf succeeds: the other takes what was offered, even if that is worse.
  CHECK(Improve(derive, shape, pair(kRows, kRows), pair(kColumns, "{replicated}"), true, false) ==
        pair("{devices=[2,4]<=[8]}", "{replicated}"));
  CHECK(Improve(derive, shape, pair(kRows, kRows), pair("{replicated}", "{replicated}"), true,
                false) == nullptr);
  // A manual leaf is taken at once, and not given up for nothing.
  CHECK(Improve(derive, shape, pair("{replicated}", kRows), pair("{manual}", kRows), false,
                false) == pair("{manual}", kRows));
  CHECK(Improve(derive, shape, pair("{manual}", "{replicated}"),
                pair("{replicated}", "{replicated}"), false, false) == nullptr);
  // What adds no tile to what is there is no success.
  CHECK(Improve(derive, shape, pair("{devices=[2,2,2]<=[8] last_tile_dim_replicate}", kRows),
                pair(kRows, "{replicated}"), true, false) == nullptr);
  // Leaves may be cut across.
  CHECK(ImproveLeaf(derive, Parse("{devices=[1,2,4]<=[8] last_tile_dim_replicate}"),
                    Parse("{devices=[8,1]<=[8]}"), false) == Parse("{devices=[8,1]<=[8]}"));
}

}  // namespace
}  // namespace gshard
