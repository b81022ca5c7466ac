// Broadcasts, reshapes, slices and their like.
#include <fmt/format.h>

#include <algorithm>

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
      // A bitcast that changes the type is one of bits; otherwise a reshape of the same elements.
      if (x->shape()->dtype() != x->operand(0)->shape()->dtype()) {
        set("bitcast_convert", "");
        break;
      }
      [[fallthrough]];
    case Opcode::kReshape:
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
