// Fields that protos of some versions have and others do not.
#include <catch2/catch.hpp>

#include "ir/printer.h"
#include "ir/proto/reader.h"
#include "ir/verify/verifier.h"
#include "tests/unit/ir/proto/message.h"

namespace gshard {
namespace {

Expected<proto::ReadResult> Read(const std::string& bytes) {
  return proto::ReadModule(SourceText::FromString("m.hlo.pb", bytes));
}

std::string Vector(int64_t type, int64_t size) {
  return Message().Int(2, type).Ints(3, {size}).bytes();
}
constexpr int64_t kPred = 1, kS32 = 4, kF32 = 11;

std::string Parameter(const std::string& name, int64_t number, int64_t size) {
  return Message()
      .Bytes(1, name)
      .Bytes(2, "parameter")
      .Bytes(3, Vector(kF32, size))
      .Int(9, number)
      .Int(35, number + 1)
      .bytes();
}

std::string ModuleOf(const std::vector<std::string>& instructions, int64_t root,
                     const std::string& more = "") {
  Message computation;
  computation.Bytes(1, "main");
  for (const std::string& instruction : instructions) computation.Bytes(2, instruction);
  computation.Int(5, 1).Int(6, root);
  return Message().Bytes(1, "m").Bytes(2, "main").Bytes(3, computation.bytes()).Int(6, 1).bytes() +
         more;
}

std::string Printed(const std::string& bytes) {
  const auto read = Read(bytes);
  if (!read.has_value()) return read.error().message;
  const auto verified = VerifyModule(*read->module);
  return verified.has_value() ? PrintModule(*read->module) : verified.error().message;
}

std::string AllReduce(const std::string& groups) {
  const std::string scalar = Message().Int(2, kF32).bytes();
  const auto part = [&](const char* name, int64_t number) {
    return Message()
        .Bytes(1, name)
        .Bytes(2, "parameter")
        .Bytes(3, scalar)
        .Int(9, number)
        .Int(35, 10 + number)
        .bytes();
  };
  Message sum;
  sum.Bytes(1, "s").Bytes(2, "add").Bytes(3, scalar).Int(35, 12).Ints(36, {10, 11});
  Message adder;
  adder.Bytes(1, "adder").Bytes(2, part("a", 0)).Bytes(2, part("b", 1)).Bytes(2, sum.bytes());
  adder.Int(5, 2).Int(6, 12);
  Message reduce;
  reduce.Bytes(1, "r").Bytes(2, "all-reduce").Bytes(3, Vector(kF32, 4)).Int(35, 2).Ints(36, {1});
  reduce.Ints(38, {2}).Int(26, 1).Int(71, 1);
  Message main;
  main.Bytes(1, "main").Bytes(2, Parameter("p", 0, 4)).Bytes(2, reduce.bytes() + groups);
  main.Int(5, 1).Int(6, 2);
  return Message()
      .Bytes(1, "m")
      .Bytes(2, "main")
      .Bytes(3, adder.bytes())
      .Bytes(3, main.bytes())
      .Int(6, 1)
      .bytes();
}

TEST_CASE("replica groups as an array of numbers stand in one of two fields", "[ir][proto]") {
  const std::string iota = Message().Int(1, 2).Int(2, 4).Ints(3, {4, 2}).Ints(4, {1, 0}).bytes();
  const std::string expected = "replica_groups=[2,4]<=[4,2]T(1,0)";
  CHECK(Printed(AllReduce(Message().Bytes(92, iota).bytes())).find(expected) != std::string::npos);
  const std::string within = Message().Bytes(2, iota).bytes();  // up to jaxlib 0.8.3
  CHECK(Printed(AllReduce(Message().Bytes(87, within).bytes())).find(expected) !=
        std::string::npos);
}

TEST_CASE("a broadcast may have a root that is known at run time", "[ir][proto]") {
  const std::string root = Message()
                               .Bytes(1, "r")
                               .Bytes(2, "parameter")
                               .Bytes(3, Vector(kS32, 1))
                               .Int(9, 1)
                               .Int(35, 2)
                               .bytes();
  const std::string broadcast = Message()
                                    .Bytes(1, "b")
                                    .Bytes(2, "collective-broadcast")
                                    .Bytes(3, Vector(kF32, 4))
                                    .Int(35, 3)
                                    .Ints(36, {1, 2})
                                    .Int(26, 1)
                                    .Int(100, 1)
                                    .bytes();
  CHECK(
      Printed(ModuleOf({Parameter("p", 0, 4), root, broadcast}, 3)).find("has_dynamic_root=true") !=
      std::string::npos);
}

TEST_CASE("a comparison in total order says so by its type or by its order", "[ir][proto]") {
  const auto compared = [](const std::string& how) {
    Message c;
    c.Bytes(1, "c").Bytes(2, "compare").Bytes(3, Vector(kPred, 4)).Int(35, 3).Ints(36, {1, 2});
    return Printed(
        ModuleOf({Parameter("a", 0, 4), Parameter("b", 1, 4), c.Bytes(63, "LT").bytes() + how}, 3));
  };
  const std::string total = "direction=LT, type=TOTALORDER";
  CHECK(compared(Message().Bytes(72, "TOTALORDER").bytes()).find(total) != std::string::npos);
  CHECK(compared(Message().Bytes(102, "TOTAL").bytes()).find(total) != std::string::npos);
  CHECK(compared(Message().Bytes(102, "PARTIAL").bytes()).find("TOTAL") == std::string::npos);
  CHECK(compared(Message().Bytes(102, "SOME").bytes()).find("'SOME'") != std::string::npos);
}

TEST_CASE("the module's field says how parameters and results are spread", "[ir][proto]") {
  // {devices=[2,2]<=[4] last_tile_dim_replicate} and {replicated}
  const std::string tiled =
      Message().Int(1, 3).Ints(3, {2, 2}).Int(6, 1).Ints(9, {4}).Ints(10, {0}).bytes();
  const std::string spread = Message().Bytes(14, tiled).Bytes(12, tiled).bytes();
  const std::string bare = ModuleOf({Parameter("p", 0, 4)}, 1, spread);
  const std::string text = Printed(bare);
  const std::string sharding = "{devices=[2,2]<=[4] last_tile_dim_replicate}";
  CHECK(text.find("parameter(0), sharding=" + sharding) != text.npos);
  CHECK(text.find("gshard.output_shardings=\"" + sharding + "\"") != text.npos);
  // Where the parameter has its own, that counts, and nothing is news.
  const std::string own = Parameter("p", 0, 4) + Message().Bytes(40, Message().bytes()).bytes();
  const std::string kept = Printed(ModuleOf({own}, 1, spread));
  CHECK(kept.find("parameter(0), sharding={replicated}") != kept.npos);
  CHECK(kept.find("output_shardings") == kept.npos);
}

TEST_CASE("content of fields that are not known is told", "[ir][proto]") {
  const auto warnings = [](const std::string& instruction, const std::string& module) {
    std::string text;
    const auto read = Read(ModuleOf({Parameter("p", 0, 4) + instruction}, 1, module));
    REQUIRE(read.has_value());
    for (const Diagnostic& warning : read->warnings) text += Render(warning);
    return text;
  };
  CHECK(warnings("", "").empty());
  CHECK(warnings(Message().Bytes(150, "").Int(151, 0).bytes(), Message().Int(300, 0).bytes())
            .empty());
  const std::string told =
      warnings(Message().Bytes(150, "x").bytes(), Message().Int(300, 7).bytes());
  CHECK(told.find("field 150 of instruction 'p' is not known") != told.npos);
  CHECK(told.find("field 300 of the module is not known") != told.npos);
  CHECK(told.find("[W-PROTO-001]") != told.npos);
}

TEST_CASE("rows of locations have all their columns", "[ir][proto]") {
  const std::string location = Message().Int(1, 1).Int(2, 1).Int(3, 9).bytes();
  const std::string tables = Message().Bytes(1, "f.py").Bytes(2, "f").Bytes(3, location).bytes();
  const std::string text =
      Printed(ModuleOf({Parameter("p", 0, 4)}, 1, Message().Bytes(17, tables).bytes()));
  CHECK(text.find("{file_name_id=1 function_name_id=1 line=9 end_line=0 column=0 end_column=0}") !=
        text.npos);
}

TEST_CASE("a damaged table of frames is left out", "[ir][proto]") {
  const auto read = Read(ModuleOf({Parameter("p", 0, 4)}, 1,
                                  Message()
                                      .Bytes(17,
                                             "\x0a\x7f"
                                             "f.py")
                                      .bytes()));
  REQUIRE(read.has_value());
  CHECK(read->module->debug_tables().empty());
  REQUIRE(read->warnings.size() == 1);
  CHECK(read->warnings[0].code == "W-PROTO-002");
  // A file that ends within the table has the whole program, in an HloProto, too.
  const std::string cut = ModuleOf({Parameter("p", 0, 4)}, 1) + std::string("\x8a\x01\x40\x0a", 4);
  REQUIRE(Read(cut).has_value());
  CHECK(Read(cut)->warnings.size() == 1);
  std::string wrapped = Message().Bytes(1, cut + "more").bytes();
  wrapped.resize(wrapped.size() - 4);
  CHECK(Read(wrapped).has_value());
  // One that ends within the program does not.
  CHECK_FALSE(Read(cut.substr(0, cut.size() / 2)).has_value());
}

}  // namespace
}  // namespace gshard
