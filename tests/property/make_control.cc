// Loops, branches, calls, tuples.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/property/program_maker.h"

namespace gshard::property {
namespace {

Node TupleOf(std::vector<size_t> operands, std::vector<ArrayType> types) {
  Node node;
  node.opcode = Opcode::kTuple;
  node.tuple = true;
  node.operands = std::move(operands);
  node.types = std::move(types);
  return node;
}

}  // namespace

size_t ProgramMaker::MakeBody(const std::vector<ArrayType>& types, bool tuple,
                              std::vector<Magnitude> magnitudes,
                              const std::function<size_t()>& fill) {
  const size_t outer = body_;
  std::vector<std::vector<Magnitude>> outer_magnitudes = std::move(magnitudes_);
  magnitudes_.clear();
  body_ = program_.bodies.size();
  const size_t body = body_;
  program_.bodies.emplace_back();
  ++depth_;
  try {
    Node parameter;
    parameter.opcode = Opcode::kParameter;
    parameter.types = types;
    parameter.tuple = tuple;
    parameter.id = program_.next_id++;
    nodes().push_back(std::move(parameter));
    magnitudes_.push_back(std::move(magnitudes));
    const size_t root = fill();
    program_.bodies[body].root = root;
  } catch (const Rejected&) {
    body_ = outer;
    magnitudes_ = std::move(outer_magnitudes);
    throw;
  }
  --depth_;
  body_ = outer;
  magnitudes_ = std::move(outer_magnitudes);
  return body;
}

void ProgramMaker::MakeWhile() {
  if (depth_ > 1) throw Rejected();
  const int64_t trips = Between(0, 4);
  std::vector<size_t> values = {Scalar(DType::kS32, 0)};
  std::vector<ArrayType> types = {{DType::kS32, {}}};
  std::vector<Magnitude> magnitudes = {{10, 0, true}};
  // As often as a value says, carried along.
  const bool varies = Rarely(200);
  if (varies) {
    const size_t most = Scalar(DType::kS32, trips);
    values.push_back(Emit(Opcode::kMinimum, types[0], {Like(types[0]), most}));
    types.push_back(types[0]);
    magnitudes.push_back(magnitudes_[values.back()][0]);
  }
  const size_t carried = values.size();
  for (int64_t i = Between(1, 3); i > 0; --i) {
    values.push_back(AnyOfRank(0));
    types.push_back(TypeOf(values.back()));
    magnitudes.push_back(magnitudes_[values.back()][0]);
  }
  const size_t init = Emit(TupleOf(values, types));
  const size_t condition = MakeBody(types, true, magnitudes, [&] {
    const size_t i = Parts(0, 0);
    const size_t limit = varies ? Parts(0, 1) : Scalar(DType::kS32, trips);
    return Emit(Opcode::kCompare, {DType::kPred, {}}, {i, limit}, ", direction=LT");
  });
  const size_t body = MakeBody(types, true, magnitudes, [&] {
    std::vector<size_t> parts;
    for (size_t i = 0; i < types.size(); ++i) parts.push_back(Parts(0, i));
    RandomOperations(Between(1, 4));
    std::vector<size_t> next = {Emit(Opcode::kAdd, types[0], {parts[0], Scalar(DType::kS32, 1)})};
    if (varies) next.push_back(parts[1]);
    for (size_t i = carried; i < types.size(); ++i) {
      // The latest of the type; else the carried one and something new.
      size_t value = parts[i];
      for (size_t k = nodes().size(); k-- > 0;) {
        if (!nodes()[k].tuple && TypeOf(k) == types[i] && Chance(80)) {
          value = k;
          break;
        }
      }
      if (value == parts[i] && Chance(60) && types[i].dtype != DType::kPred) {
        value = Emit(Opcode::kAdd, types[i], {parts[i], Like(types[i])});
      }
      next.push_back(value);
    }
    return Emit(TupleOf(next, types));
  });
  Node node;
  node.opcode = Opcode::kWhile;
  node.types = types;
  node.tuple = true;
  node.operands = {init};
  node.called = {condition, body};
  node.trips = trips;
  node.trips_vary = varies;
  const size_t loop = Emit(std::move(node));
  for (size_t i = carried; i < types.size(); ++i) {
    if (i == carried || Chance(70)) Parts(loop, i);
  }
}

void ProgramMaker::MakeConditional() {
  if (depth_ > 1) throw Rejected();
  const bool by_index = Chance(40);
  const ArrayType chooser{by_index ? DType::kS32 : DType::kPred, {}};
  size_t selector = 0;
  if (Chance(50)) {
    selector = Like(chooser);
  } else if (by_index) {
    selector = Scalar(DType::kS32, Between(-1, 3));
  } else {
    const size_t a = Like({DType::kS32, {}});
    selector = Emit(Opcode::kCompare, chooser, {a, Scalar(DType::kS32, 3)}, ", direction=LT");
  }
  const int64_t branches = by_index ? Between(1, 3) : 2;
  const size_t example = AnyOfRank(0);
  std::vector<ArrayType> results = {TypeOf(example)};
  const bool tuple = Chance(50);
  if (tuple) results.push_back({RandomDType(), RandomDims(Between(0, 3))});
  Node node;
  node.opcode = Opcode::kConditional;
  node.types = results;
  node.tuple = tuple;
  node.operands = {selector};
  for (int64_t b = 0; b < branches; ++b) {
    std::vector<size_t> values;
    std::vector<ArrayType> types;
    std::vector<Magnitude> magnitudes;
    for (int64_t i = Between(1, 2); i > 0; --i) {
      values.push_back(Chance(50) ? example : AnyOfRank(0));
      types.push_back(TypeOf(values.back()));
      magnitudes.push_back(magnitudes_[values.back()][0]);
    }
    const bool packed = values.size() > 1 || Chance(40);
    node.operands.push_back(packed ? Emit(TupleOf(values, types)) : values[0]);
    node.called.push_back(MakeBody(types, packed, magnitudes, [&] {
      if (packed) {
        for (size_t i = 0; i < types.size(); ++i) Parts(0, i);
      }
      RandomOperations(Between(0, 3));
      std::vector<size_t> leaves;
      for (const ArrayType& type : results) leaves.push_back(Like(type));
      if (tuple) return Emit(TupleOf(leaves, results));
      return leaves[0];
    }));
  }
  const size_t result = Emit(std::move(node));
  for (size_t i = 0; tuple && i < results.size(); ++i) Parts(result, i);
}

void ProgramMaker::MakeCall() {
  if (depth_ > 1) throw Rejected();
  const size_t value = AnyOfRank(0);
  const ArrayType type = TypeOf(value);
  const size_t body = MakeBody({type}, false, magnitudes_[value], [&] {
    RandomOperations(Between(1, 3));
    return Like(type);
  });
  Node node;
  node.opcode = Opcode::kCall;
  node.types = {type};
  node.operands = {value};
  node.called = {body};
  const size_t first = Emit(node);
  if (Chance(40)) {
    node.operands = {first};
    Emit(node);
  }
}

void ProgramMaker::MakeTuple() {
  std::vector<size_t> values = {AnyOfRank(0), AnyOfRank(0)};
  std::vector<ArrayType> types = {TypeOf(values[0]), TypeOf(values[1])};
  size_t pair = Emit(TupleOf(values, types));
  if (Chance(60)) {
    Node barrier;
    barrier.opcode = Opcode::kOptBarrier;
    barrier.types = types;
    barrier.tuple = true;
    barrier.operands = {pair};
    pair = Emit(std::move(barrier));
  }
  Parts(pair, 0);
  Parts(pair, 1);
}

}  // namespace gshard::property
