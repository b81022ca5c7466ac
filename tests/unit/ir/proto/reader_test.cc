// HLO protos written field by field: what the reader makes of each kind of message.
#include "ir/proto/reader.h"

#include <catch2/catch.hpp>
#include <cstring>

#include "ir/printer.h"
#include "ir/verify/verifier.h"
#include "tests/unit/ir/proto/message.h"

namespace gshard {
namespace {

constexpr int64_t kS32 = 4;
constexpr int64_t kF32 = 11;

std::string ShapeOf(int64_t type, std::initializer_list<int64_t> dims) {
  Message shape;
  shape.Int(2, type);
  if (dims.size() > 0) shape.Ints(3, dims);
  return shape.bytes();
}
std::string Floats(std::initializer_list<float> values) {
  std::string raw(values.size() * sizeof(float), '\0');
  std::memcpy(raw.data(), values.begin(), raw.size());
  return raw;
}
std::string Literal22(std::initializer_list<int64_t> minor_to_major) {
  Message shape;
  shape.Int(2, kF32).Ints(3, {2, 2}).Bytes(5, Message().Ints(1, minor_to_major).bytes());
  return Message().Bytes(1, shape.bytes()).Bytes(8, Floats({1, 2, 3, 4})).bytes();
}

// f(p, q) = p + constant, both of `shape`, f32[2,2]; ids as XLA has them: computation << 32 | n.
std::string ModuleBytes(const std::string& literal, const std::string& parameter_extra = "",
                        const std::string& shape = ShapeOf(kF32, {2, 2})) {
  Message p;
  p.Bytes(1, "p").Bytes(2, "parameter").Bytes(3, shape).Int(35, int64_t{5} << 32);
  Message c;
  c.Bytes(1, "c").Bytes(2, "constant").Bytes(3, shape).Bytes(8, literal);
  c.Int(35, (int64_t{5} << 32) + 1);
  Message r;
  r.Bytes(1, "r").Bytes(2, "add").Bytes(3, shape).Int(35, (int64_t{5} << 32) + 2);
  r.Ints(36, {int64_t{5} << 32, (int64_t{5} << 32) + 1});
  r.Bytes(7, Message().Bytes(2, "jit(f)/it's").Int(4, 7).bytes());
  Message computation;
  computation.Bytes(1, "main").Bytes(2, p.bytes() + parameter_extra).Bytes(2, c.bytes());
  computation.Bytes(2, r.bytes()).Int(5, 5).Int(6, (int64_t{5} << 32) + 2);
  return Message().Bytes(1, "m").Bytes(2, "main").Bytes(3, computation.bytes()).Int(6, 5).bytes();
}

Expected<proto::ReadResult> Read(const std::string& bytes) {
  return proto::ReadModule(SourceText::FromString("m.hlo.pb", bytes));
}
std::string Printed(const std::string& bytes) {
  const auto read = Read(bytes);
  if (!read.has_value()) return read.error().message;
  const auto verified = VerifyModule(*read->module);
  return verified.has_value() ? PrintModule(*read->module) : verified.error().message;
}

TEST_CASE("a module proto reads as its text", "[ir][proto]") {
  const std::string text = Printed(ModuleBytes(Literal22({1, 0})));
  CHECK(text.find("%c = f32[2,2] constant({ { 1, 2 }, { 3, 4 } })") != text.npos);
  CHECK(text.find("ROOT %r = f32[2,2] add(%p, %c), "
                  "metadata={op_name=\"jit(f)/it\\'s\" source_line=7}") != text.npos);
}

TEST_CASE("literals lie in the layout of their shape", "[ir][proto]") {
  const std::string text = Printed(ModuleBytes(Literal22({0, 1})));
  CHECK(text.find("constant({ { 1, 3 }, { 2, 4 } })") != text.npos);
}

TEST_CASE("literals without their elements are elided", "[ir][proto]") {
  const std::string stripped = Message().Bytes(1, ShapeOf(kF32, {2, 2})).bytes();
  CHECK(Printed(ModuleBytes(stripped)).find("constant({...})") != std::string::npos);
  const std::string scalar = Message().Bytes(1, ShapeOf(kF32, {})).bytes();
  CHECK(Printed(ModuleBytes(scalar, "", ShapeOf(kF32, {}))).find("f32[] constant({...})") !=
        std::string::npos);
}

TEST_CASE("instructions of the same metadata share its text", "[ir][proto]") {
  const std::string metadata = Message().Bytes(7, Message().Bytes(2, "f").bytes()).bytes();
  const std::string other = Message().Bytes(7, Message().Bytes(2, "g").bytes()).bytes();
  const std::string head = Message().Bytes(2, "parameter").Bytes(3, ShapeOf(kF32, {})).bytes();
  const auto parameter = [&](const std::string& name, int64_t n, const std::string& tail) {
    return Message().Bytes(1, name).bytes() + head + Message().Int(9, n).Int(35, n).bytes() + tail;
  };
  Message computation;
  computation.Bytes(1, "main").Bytes(2, parameter("p", 0, metadata));
  computation.Bytes(2, parameter("q", 1, other)).Bytes(2, parameter("r", 2, metadata));
  const auto read =
      Read(Message().Bytes(1, "m").Bytes(2, "main").Bytes(3, computation.bytes()).bytes());
  REQUIRE(read.has_value());
  const auto parameters = read->module->entry()->parameters();
  CHECK(parameters[0]->metadata() == "{op_name=\"f\"}");
  CHECK(parameters[1]->metadata() == "{op_name=\"g\"}");
  CHECK(parameters[2]->metadata().data() == parameters[0]->metadata().data());
}

TEST_CASE("names of threads are escaped", "[ir][proto]") {
  Message p, computation;
  p.Bytes(1, "p").Bytes(2, "parameter").Bytes(3, ShapeOf(kF32, {})).Int(35, 0);
  computation.Bytes(1, "main").Bytes(2, p.bytes()).Bytes(8, std::string("a\"\0b", 4));
  const std::string text =
      Printed(Message().Bytes(1, "m").Bytes(2, "main").Bytes(3, computation.bytes()).bytes());
  CHECK(text.find("}, execution_thread=\"a\\\"\\000b\"") != text.npos);
}

TEST_CASE("snapshots have arguments", "[ir][proto]") {
  const std::string module = ModuleBytes(Literal22({1, 0}));
  const std::string argument = Literal22({1, 0});
  const std::string snapshot =
      Message().Bytes(1, Message().Bytes(1, module).bytes()).Bytes(2, argument).bytes();
  const std::string unoptimised =
      Message().Bytes(1, module).Bytes(2, Message().Bytes(1, argument).bytes()).bytes();
  for (const std::string& bytes : {snapshot, unoptimised}) {
    const auto read = Read(bytes);
    REQUIRE(read.has_value());
    REQUIRE(read->arguments.size() == 1);
    CHECK(read->arguments[0]->values<float>()[3] == 4.0f);
  }
  CHECK(Read(Message().Bytes(1, module).bytes())->arguments.empty());
  CHECK(Read(module)->arguments.empty());
}

TEST_CASE("errors of protos name the instruction and its byte", "[ir][proto]") {
  const std::string three =
      Message().Bytes(1, ShapeOf(kF32, {2, 2})).Bytes(8, Floats({1, 2, 3})).bytes();
  CHECK(Printed(ModuleBytes(three)) ==
        "instruction 'c': a literal of f32[2,2] with 3 elements (byte 51)");
  const std::string integers =
      Message().Bytes(1, ShapeOf(kS32, {2, 2})).Ints(4, {1, 2, 3, -4}).bytes();
  CHECK(Printed(ModuleBytes(integers)) ==
        "instruction 'c': a literal of s32[2,2] for a constant of f32[2,2] (byte 51)");
  const std::string unknown_operand = Message().Ints(36, {77}).bytes();
  CHECK(Printed(ModuleBytes(Literal22({1, 0}), unknown_operand)) ==
        "instruction 'p': no instruction before it has the id 77 of its operand (byte 20)");
  const std::string sharding = Message().Bytes(40, Message().Int(1, 9).bytes()).bytes();
  CHECK(Printed(ModuleBytes(Literal22({1, 0}), sharding)) ==
        "instruction 'p': a sharding of type 9 (byte 20)");
  const auto none = Read(
      "\x0a\x03"
      "abc");
  REQUIRE_FALSE(none.has_value());
  CHECK(none.error().code == "E-PROTO-001");
  CHECK(none.error().file == "m.hlo.pb");
}

// What is left of a dump that stops behind its first computation, which has the id 0.
TEST_CASE("another computation is not taken for the entry that is missing", "[ir][proto]") {
  Message p;
  p.Bytes(1, "p").Bytes(2, "parameter").Bytes(3, ShapeOf(kF32, {2})).Int(35, 1);
  const std::string region = Message().Bytes(1, "region").Bytes(2, p.bytes()).Int(6, 1).bytes();
  auto module = [&](const std::string& entry) {
    Message m;
    m.Bytes(1, "m");
    if (!entry.empty()) m.Bytes(2, entry);
    return m.Bytes(3, region).bytes();
  };
  CHECK(Printed(module("main")) == "there is no entry computation 'main': is the file cut short?");
  CHECK(Read(module("region")).has_value());
  CHECK(Read(module("")).has_value());
  CHECK(Read(module("main") + Message().Int(6, 0).bytes()).has_value());
  CHECK(Printed(module("main") + Message().Int(6, 3).bytes()) ==
        "there is no entry computation of id 3");
}

}  // namespace
}  // namespace gshard
