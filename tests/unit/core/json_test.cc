// Documents as text, and what is said of text that is none.
#include "core/json.h"

#include <catch2/catch.hpp>

namespace gshard {
namespace {

TEST_CASE("members keep their order and values their types", "[core]") {
  Json rows = Json::Array();
  rows.Append({{"name", std::string_view("dot.1")}, {"bytes", int64_t{1} << 40}});
  Json document = {{"schema", "gshard.test/1"}, {"ok", true}, {"rate", 0.5}};
  document.Set("rows", std::move(rows));
  document.Set("dims", std::vector<int64_t>{2, 3});
  document.Set("ok", false);
  CHECK(document.Text() ==
        "{\n"
        "  \"schema\": \"gshard.test/1\",\n"
        "  \"ok\": false,\n"
        "  \"rate\": 0.5,\n"
        "  \"rows\": [\n"
        "    {\n"
        "      \"name\": \"dot.1\",\n"
        "      \"bytes\": 1099511627776\n"
        "    }\n"
        "  ],\n"
        "  \"dims\": [\n"
        "    2,\n"
        "    3\n"
        "  ]\n"
        "}\n");
}

TEST_CASE("text that is no UTF-8 still gives a document", "[core]") {
  CHECK(JsonString("a\"b\n") == "\"a\\\"b\\n\"");
  CHECK(JsonString("a\xff") == "\"a\xEF\xBF\xBD\"");
}

TEST_CASE("what a document lacks is said in words", "[core]") {
  const Json document = Json::Parse(R"({"name": "x", "rates": {"bf16": 2}, "size": 8})");
  CHECK(document.StringAt("name") == "x");
  CHECK(document.NumberAt("size") == 8);
  CHECK(document.NumbersAt("rates").at("bf16") == 2);
  CHECK(document.Has("size"));
  CHECK_FALSE(document.Has("width"));
  CHECK_THROWS_WITH(document.NumberAt("width"), "'width' is missing: a number");
  CHECK_THROWS_WITH(document.NumberAt("name"), "'name' must be a number, found a string");
  CHECK_THROWS_AS(Json::Parse("{"), JsonError);
}

}  // namespace
}  // namespace gshard
