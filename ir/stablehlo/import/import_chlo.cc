// CHLO: functions that are made of others, and operations that broadcast their operands.
#include <fmt/format.h>

#include "ir/stablehlo/import/converters.h"
#include "ir/stablehlo/import/importer.h"
#include "ir/stablehlo/import/special_functions.h"

namespace gshard::stablehlo {
namespace {

bool WantFloats(Importer& in, const Operation& op, size_t count) {
  if (!in.WantOperands(op, count) || !in.WantResults(op, 1)) return false;
  const Shape* shape = in.Operand(op, 0)->shape();
  for (size_t i = 0; i < count; ++i) {
    const Shape* operand = in.Operand(op, i)->shape();
    if (!IsFloat(operand->dtype()) || !Compatible(operand, shape)) {
      return in.Fail(op, ParseError::kShape,
                     fmt::format("{} takes tensors of one floating-point type", op.name));
    }
  }
  return true;
}

template <typename F>
bool Unary(Importer& in, const Operation& op, F&& function) {
  if (!WantFloats(in, op, 1)) return false;
  Builder builder = in.BuilderFor(op);
  return in.Define(op, 0, function(builder, in.Operand(op, 0)));
}

template <typename F>
bool Binary(Importer& in, const Operation& op, F&& function) {
  if (!WantFloats(in, op, 2)) return false;
  Builder builder = in.BuilderFor(op);
  return in.Define(op, 0, function(builder, in.Operand(op, 0), in.Operand(op, 1)));
}

}  // namespace

bool ConvertErfInv(Importer& in, const Operation& op) { return Unary(in, op, ErfInv); }
bool ConvertErfc(Importer& in, const Operation& op) { return Unary(in, op, Erfc); }
bool ConvertLgamma(Importer& in, const Operation& op) { return Unary(in, op, Lgamma); }
bool ConvertDigamma(Importer& in, const Operation& op) { return Unary(in, op, Digamma); }
bool ConvertBesselI1e(Importer& in, const Operation& op) { return Unary(in, op, BesselI1e); }
bool ConvertZeta(Importer& in, const Operation& op) { return Binary(in, op, Zeta); }
bool ConvertPolygamma(Importer& in, const Operation& op) { return Binary(in, op, Polygamma); }
bool ConvertNextAfter(Importer& in, const Operation& op) { return Binary(in, op, NextAfter); }

// Of complex numbers -i atanh(i z): atan2 loses digits of them.
bool ConvertComplexAtan(Importer& in, const Operation& op) {
  Builder builder = in.BuilderFor(op);
  const auto unary = [&](Opcode opcode, Instruction* x) { return builder.Add(opcode, {x}); };
  Instruction* z = in.Operand(op, 0);
  Instruction* turned = builder.Binary(
      Opcode::kComplex, unary(Opcode::kNegate, unary(Opcode::kImag, z)), unary(Opcode::kReal, z));
  Instruction* const operands[] = {turned};
  Instruction* y = builder.Add(Opcode::kAtanh, operands, MathAttributes{});
  return in.Define(op, 0,
                   builder.Binary(Opcode::kComplex, unary(Opcode::kImag, y),
                                  unary(Opcode::kNegate, unary(Opcode::kReal, y))));
}

bool ConvertAtan(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1)) return false;
  if (IsComplex(in.Operand(op, 0)->shape()->dtype())) return ConvertComplexAtan(in, op);
  return Unary(in, op, [](Builder& builder, Instruction* x) {
    Instruction* one = builder.Filled(x->shape()->bare(), builder.Scalar(x->shape()->dtype(), 1));
    return builder.Binary(Opcode::kAtan2, x, one);
  });
}

bool ConvertSquare(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1)) return false;
  Instruction* const operands[] = {in.Operand(op, 0), in.Operand(op, 0)};
  return in.EmitResults(op, Opcode::kMultiply, operands, NoAttributes{});
}

bool ConvertConj(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1)) return false;
  Instruction* x = in.Operand(op, 0);
  if (!IsComplex(x->shape()->dtype())) return in.Define(op, 0, x);
  Builder builder = in.BuilderFor(op);
  Instruction* real = builder.Add(Opcode::kReal, {x});
  Instruction* imaginary = builder.Add(Opcode::kNegate, {builder.Add(Opcode::kImag, {x})});
  return in.Define(op, 0, builder.Binary(Opcode::kComplex, real, imaginary));
}

bool ConvertIsInf(Importer& in, const Operation& op) {
  if (!WantFloats(in, op, 1)) return false;
  Builder builder = in.BuilderFor(op);
  Instruction* x = in.Operand(op, 0);
  const Shape* shape = x->shape()->bare();
  const double sign = op.name.ends_with("neg_inf") ? -1 : 1;
  if (op.name.ends_with("is_inf")) x = builder.Add(Opcode::kAbs, {x});
  Instruction* infinity = builder.Filled(
      shape, builder.Scalar(shape->dtype(), sign * std::numeric_limits<double>::infinity()));
  return in.Define(op, 0, builder.Compare(ComparisonDirection::kEq, x, infinity));
}

// chlo.constant_like: a value in every element of a tensor like the operand.
bool ConvertConstantLike(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, 1) || !in.WantResults(op, 1)) return false;
  const auto value = in.Find(op, {"value", "#0"});
  if (!value.has_value()) return in.BadValue(op, "value", "");
  const Shape* shape = in.Operand(op, 0)->shape()->bare();
  const Shape* scalar = in.context().Scalar(
      op.results[0].type->IsArray() ? op.results[0].type->dtype() : shape->dtype());
  DenseError error;
  const Literal* literal = ReadDense(in.arena(), *value, scalar, in.program().resources, error);
  if (literal == nullptr) return in.BadValue(op, "value", *value);
  Builder builder = in.BuilderFor(op);
  return in.Define(op, 0, builder.BroadcastScalar(builder.Constant(literal), shape->dims()));
}

// chlo.broadcast_*: operands are broadcast as NumPy does it, or along `broadcast_dimensions`.
bool ConvertBroadcasting(Importer& in, const Operation& op) {
  if (!in.WantOperands(op, op.row->opcode == Opcode::kSelect ? 3 : 2) || !in.WantResults(op, 1)) {
    return false;
  }
  Dims given;
  if (!in.Integers(op, {"broadcast_dimensions"}, given, false)) return false;
  std::vector<Instruction*> operands = in.Operands(op);
  size_t rank = 0;
  for (const Instruction* x : operands) rank = std::max(rank, x->shape()->dims().size());
  std::vector<int64_t> dims(rank, 1);
  std::vector<std::vector<int64_t>> places(operands.size());
  for (size_t k = 0; k < operands.size(); ++k) {
    const Dims from = operands[k]->shape()->dims();
    for (size_t i = 0; i < from.size(); ++i) {
      const bool mapped = !given.empty() && from.size() < rank && given.size() == from.size();
      const int64_t place = mapped ? given[i] : static_cast<int64_t>(rank - from.size() + i);
      if (place < 0 || place >= static_cast<int64_t>(rank) ||
          (from[i] != 1 && dims[At(place)] != 1 && dims[At(place)] != from[i])) {
        return in.Fail(op, ParseError::kShape,
                       fmt::format("the operands of {} cannot be broadcast together", op.name));
      }
      places[k].push_back(place);
      if (from[i] != 1) dims[At(place)] = from[i];
    }
  }
  Builder builder = in.BuilderFor(op);
  for (size_t k = 0; k < operands.size(); ++k) {
    std::vector<int64_t> kept, kept_places;
    const Dims from = operands[k]->shape()->dims();
    for (size_t i = 0; i < from.size(); ++i) {
      if (from[i] != dims[At(places[k][i])]) continue;
      kept.push_back(from[i]);
      kept_places.push_back(places[k][i]);
    }
    if (!std::ranges::is_sorted(kept_places)) {
      return in.BadValue(op, "broadcast_dimensions", "");
    }
    operands[k] = builder.Broadcast(builder.Reshape(operands[k], kept), dims, kept_places);
  }
  if (op.row->opcode != Opcode::kCompare) {
    return in.Define(op, 0,
                     in.EmitRaw(op, op.row->opcode, operands,
                                NewAttributes(in.arena(), op.row->opcode), nullptr, {}));
  }
  CompareAttributes attributes;
  return ReadComparison(in, op, attributes) &&
         in.Define(op, 0, in.Emit(op, Opcode::kCompare, operands, attributes, nullptr));
}

}  // namespace gshard::stablehlo
