// Broadcasts, reshapes, slices and their like.
#include <fmt/format.h>

#include <algorithm>

#include "ir/dims.h"
#include "ir/stablehlo/print/module_writer.h"

namespace gshard::stablehlo {
namespace {

std::string SliceText(const SliceAttributes& a) {
  std::string text = "[";
  for (size_t i = 0; i < a.starts.size(); ++i) {
    if (i > 0) text += ", ";
    text += fmt::format("{}:{}", a.starts[i], a.limits[i]);
    if (a.strides[i] != 1) text += fmt::format(":{}", a.strides[i]);
  }
  return text + "]";
}

std::string PadText(const PadAttributes& a) {
  std::vector<int64_t> low, high, interior;
  for (const PadDim& dim : a.padding) {
    low.push_back(dim.low);
    high.push_back(dim.high);
    interior.push_back(dim.interior);
  }
  return fmt::format("low = {}, high = {}, interior = {}", ListText(low), ListText(high),
                     ListText(interior));
}

// Dims, major first, as their elements lie in memory.
std::vector<int64_t> MajorToMinor(const Shape* shape) {
  std::vector<int64_t> order;
  if (shape->layout() == nullptr) {
    for (int64_t i = 0; i < shape->rank(); ++i) order.push_back(i);
  } else {
    const auto minor_first = shape->layout()->minor_to_major;
    order.assign(minor_first.rbegin(), minor_first.rend());
  }
  return order;
}

std::vector<int64_t> Permuted(Dims dims, const std::vector<int64_t>& order) {
  std::vector<int64_t> permuted;
  for (const int64_t i : order) permuted.push_back(dims[At(i)]);
  return permuted;
}

// Why a bitcast has no StableHLO; empty: it has.
std::string WhyNoBitcast(const Shape* from, const Shape* to, bool moves) {
  const DType type = from->dtype(), other = to->dtype();
  const int64_t bits = DTypeBits(type), other_bits = DTypeBits(other);
  if (type != other &&
      (IsComplex(type) != IsComplex(other) || type == DType::kPred || other == DType::kPred ||
       std::max(bits, other_bits) % std::min(bits, other_bits) != 0)) {
    return fmt::format("StableHLO has no bitcast of {} as {}", DTypeName(type), DTypeName(other));
  }
  if ((moves || type != other) && from->byte_size() != to->byte_size()) {
    return "StableHLO has no bitcast of an array that a tiled layout pads";
  }
  if ((moves || bits != other_bits) && (from->HasDynamicDims() || to->HasDynamicDims())) {
    return "StableHLO has no bitcast of an array of a size known at run time";
  }
  return {};
}

struct Step {
  std::string_view name;
  std::string dims;
  const Shape* shape;
};

// What a bitcast reads anew are bytes in memory: the operand as it lies there, its bytes as another
// type, other dims, and the result in the order of its own layout. Each of them only where it
// changes something.
std::vector<Step> BitcastSteps(Context& context, const Shape* from, const Shape* to) {
  const std::vector<int64_t> order = MajorToMinor(from), wanted = MajorToMinor(to);
  const std::vector<int64_t> lies = Permuted(to->dims(), wanted);
  const DType type = to->dtype();
  const int64_t bits = DTypeBits(from->dtype()), wanted_bits = DTypeBits(type);
  std::vector<Step> steps;
  const Shape* now = from->bare();
  const auto add = [&](std::string_view name, std::string dims, const Shape* shape) {
    if (shape == now && name == "reshape") return;
    now = shape;
    steps.push_back({name, std::move(dims), shape});
  };
  if (!std::ranges::is_sorted(order)) {
    add("transpose", ", dims = " + ListText(order),
        context.Array(from->dtype(), Permuted(from->dims(), order)));
  }
  if (bits < wanted_bits) {
    std::vector<int64_t> parts = lies;
    parts.push_back(wanted_bits / bits);
    add("reshape", "", context.Array(from->dtype(), parts));
    add("bitcast_convert", "", context.Array(type, lies));
  } else if (bits > wanted_bits) {
    std::vector<int64_t> parts(now->dims().begin(), now->dims().end());
    parts.push_back(bits / wanted_bits);
    add("bitcast_convert", "", context.Array(type, parts));
  } else if (from->dtype() != type) {
    add("bitcast_convert", "", context.WithDType(now, type));
  }
  if (std::ranges::is_sorted(wanted)) {
    add("reshape", "", to->bare());
    return steps;
  }
  add("reshape", "", context.Array(type, lies));
  std::vector<int64_t> back(wanted.size());
  for (size_t i = 0; i < back.size(); ++i) back[At(wanted[i])] = static_cast<int64_t>(i);
  add("transpose", ", dims = " + ListText(back), to->bare());
  return steps;
}

bool WriteBitcast(ModuleWriter& w, const Instruction* x) {
  const Shape* from = x->operand(0)->shape();
  const Shape* to = x->shape();
  w.SetValue(x, w.Of(x->operand(0)));
  if (!from->IsArray()) return true;
  const bool moves =
      !std::ranges::is_sorted(MajorToMinor(from)) || !std::ranges::is_sorted(MajorToMinor(to));
  if (std::string why = WhyNoBitcast(from, to, moves); !why.empty()) return w.Fail(x, why);
  std::vector<Step> steps = BitcastSteps(w.module().context(), from, to);
  if (steps.empty()) steps.push_back({"reshape", "", to->bare()});
  std::string value = w.One(x);
  for (const Step& step : steps) {
    ModuleWriter::Line line(x);
    line.head = fmt::format("stablehlo.{} {}{}", step.name, value, step.dims);
    line.types = w.FunctionType({&from, 1}, {&step.shape, 1});
    from = step.shape;
    if (&step == &steps.back()) {
      w.Emit(line);
    } else {
      value = w.NewValue();
      w.EmitRaw(x, fmt::format("{} = {} : {}", value, line.head, line.types));
    }
  }
  return true;
}

}  // namespace

bool WriteMovement(ModuleWriter& w, const Instruction* x) {
  ModuleWriter::Line line(x);
  const auto set = [&](std::string_view name, const std::string& rest) {
    line.head = fmt::format("stablehlo.{} {}{}", name, w.Operands(x), rest);
    line.types = w.FunctionType(x);
  };
  const auto dims = [&] { return x->attributes<DimensionsAttributes>().dimensions; };
  switch (x->opcode()) {
    case Opcode::kBroadcast:
      // As they are read: nothing to do, or a reshape, where no element is repeated.
      if (x->shape()->bare() == x->operand(0)->shape()->bare() && std::ranges::is_sorted(dims())) {
        w.SetValue(x, w.Of(x->operand(0)));
        return true;
      }
      if (x->shape()->element_count() == x->operand(0)->shape()->element_count() &&
          std::ranges::is_sorted(dims())) {
        set("reshape", "");
        break;
      }
      set("broadcast_in_dim", ", dims = " + ListText(dims()));
      break;
    case Opcode::kBitcast:
      return WriteBitcast(w, x);
    case Opcode::kReshape:
      if (x->shape()->dtype() != x->operand(0)->shape()->dtype()) {
        return w.Fail(x, "StableHLO has no reshape that rounds, as compilers write it",
                      "convert its operand first");
      }
      set("reshape", "");
      break;
    case Opcode::kTranspose:
      set("transpose", ", dims = " + ListText(dims()));
      break;
    case Opcode::kReverse:
      set("reverse", ", dims = " + ListText(dims()));
      line.types = w.Type(x->shape());
      break;
    case Opcode::kConcatenate:
      set("concatenate", fmt::format(", dim = {}", dims()[0]));
      break;
    case Opcode::kSlice:
      set("slice", fmt::format(" {}", SliceText(x->attributes<SliceAttributes>())));
      break;
    case Opcode::kPad:
      set("pad", fmt::format(", {}", PadText(x->attributes<PadAttributes>())));
      break;
    case Opcode::kDynamicSlice:
      set("dynamic_slice",
          ", sizes = " + ListText(x->attributes<DynamicSliceAttributes>().slice_sizes));
      break;
    case Opcode::kDynamicUpdateSlice:
      set("dynamic_update_slice", "");
      break;
    case Opcode::kGetDimensionSize:
      set("get_dimension_size", fmt::format(", dim = {}", dims()[0]));
      break;
    case Opcode::kSetDimensionSize:
      set("set_dimension_size", fmt::format(", dim = {}", dims()[0]));
      break;
    default:
      return false;
  }
  w.Emit(line);
  return true;
}

}  // namespace gshard::stablehlo
