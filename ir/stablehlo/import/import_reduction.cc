// Operations with a region of scalars: reductions, windows, gather and scatter, sort.
#include <fmt/format.h>

#include "ir/stablehlo/import/converters.h"
#include "ir/stablehlo/import/importer.h"

namespace gshard::stablehlo {
namespace {

bool ReadWindow(Importer& in, const Operation& op, std::span<const WindowDim>& window) {
  Dims sizes, strides, base, dilations, padding;
  if (!in.Integers(op, {"window_dimensions"}, sizes) ||
      !in.Integers(op, {"window_strides"}, strides, false) ||
      !in.Integers(op, {"base_dilations"}, base, false) ||
      !in.Integers(op, {"window_dilations"}, dilations, false) ||
      !in.Integers(op, {"padding"}, padding, false)) {
    return false;
  }
  const size_t rank = sizes.size();
  const auto fits = [rank](Dims dims, size_t per_dim) {
    return dims.empty() || dims.size() == rank * per_dim;
  };
  if (!fits(strides, 1) || !fits(base, 1) || !fits(dilations, 1) || !fits(padding, 2)) {
    return in.Fail(op, ParseError::kAttributeValue,
                   fmt::format("the window's attributes do not all have {} dims", rank));
  }
  std::vector<WindowDim> dims(rank);
  for (size_t i = 0; i < rank; ++i) {
    dims[i].size = sizes[i];
    if (!strides.empty()) dims[i].stride = strides[i];
    if (!base.empty()) dims[i].base_dilation = base[i];
    if (!dilations.empty()) dims[i].window_dilation = dilations[i];
    if (!padding.empty()) {
      dims[i].pad_low = padding[2 * i];
      dims[i].pad_high = padding[2 * i + 1];
    }
  }
  window = in.arena().Copy(dims);
  return true;
}

// The fields of #stablehlo.gather<..> and #stablehlo.scatter<..>.
struct DimsField {
  std::string_view key;
  Dims* dims;
};
bool ReadNumbers(Importer& in, const Operation& op, std::initializer_list<std::string_view> keys,
                 std::span<const DimsField> lists, int64_t& index_vector_dim) {
  const auto text = in.Find(op, keys);
  std::vector<NamedAttribute> fields;
  if (!text.has_value() || !SplitFields(*text, fields)) {
    return in.BadValue(op, *keys.begin(), text.value_or(""));
  }
  for (const NamedAttribute& field : fields) {
    if (field.key == "index_vector_dim") {
      if (!ReadInteger(field.value, index_vector_dim)) {
        return in.BadValue(op, field.key, field.value);
      }
      continue;
    }
    for (const DimsField& list : lists) {
      if (list.key != field.key) continue;
      std::vector<int64_t> dims;
      if (!ReadIntegers(field.value, dims)) return in.BadValue(op, field.key, field.value);
      *list.dims = in.arena().Copy(dims);
    }
  }
  return true;
}

}  // namespace

bool ConvertReduce(Importer& in, const Operation& op) {
  DimensionsAttributes attributes;
  if (!in.Integers(op, {"dimensions"}, attributes.dimensions)) return false;
  if (op.operands.empty() || op.operands.size() % 2 != 0) {
    return in.Fail(op, ParseError::kOperandCount,
                   "a reduce has as many initial values as tensors, at least one");
  }
  Computation* computation = nullptr;
  if (const auto applies = in.Find(op, {"applies"})) {
    computation = in.AppliedComputation(op, *applies, in.Operand(op, 0)->shape()->dtype());
  } else if (in.WantRegions(op, 1)) {
    computation = in.RegionComputation(op, *op.regions[0]);
  }
  if (computation == nullptr) return false;
  Computation* const called[] = {computation};
  return in.EmitResults(op, Opcode::kReduce, in.Operands(op), attributes, called);
}

bool ConvertReduceWindow(Importer& in, const Operation& op) {
  WindowAttributes attributes;
  if (!ReadWindow(in, op, attributes.window) || !in.WantRegions(op, 1)) return false;
  Computation* const called[] = {in.RegionComputation(op, *op.regions[0])};
  return called[0] != nullptr &&
         in.EmitResults(op, Opcode::kReduceWindow, in.Operands(op), attributes, called);
}

bool ConvertSelectAndScatter(Importer& in, const Operation& op) {
  WindowAttributes attributes;
  if (!in.WantOperands(op, 3) || !in.WantResults(op, 1) || !in.WantRegions(op, 2)) return false;
  if (!in.Find(op, {"window_dimensions"}).has_value()) {
    std::vector<WindowDim> window(in.Operand(op, 0)->shape()->dims().size());
    attributes.window = in.arena().Copy(window);
  } else if (!ReadWindow(in, op, attributes.window)) {
    return false;
  }
  Computation* select = in.RegionComputation(op, *op.regions[0]);
  Computation* scatter = select != nullptr ? in.RegionComputation(op, *op.regions[1]) : nullptr;
  Computation* const called[] = {select, scatter};
  return scatter != nullptr &&
         in.EmitResults(op, Opcode::kSelectAndScatter, in.Operands(op), attributes, called);
}

bool ConvertGather(Importer& in, const Operation& op) {
  GatherAttributes attributes;
  const DimsField lists[] = {
      {"offset_dims", &attributes.offset_dims},
      {"collapsed_slice_dims", &attributes.collapsed_slice_dims},
      {"start_index_map", &attributes.start_index_map},
      {"operand_batching_dims", &attributes.operand_batching_dims},
      {"start_indices_batching_dims", &attributes.start_indices_batching_dims},
  };
  const bool dynamic = op.name.ends_with("dynamic_gather");
  if (!in.WantOperands(op, dynamic ? 3 : 2) || !in.WantResults(op, 1) ||
      !ReadNumbers(in, op, {"dimension_numbers"}, lists, attributes.index_vector_dim) ||
      !in.Bool(op, {"indices_are_sorted"}, attributes.indices_are_sorted)) {
    return false;
  }
  if (dynamic) {
    std::vector<int64_t> sizes;
    if (!in.ConstantDims(op, 2, sizes)) return false;
    attributes.slice_sizes = in.arena().Copy(sizes);
  } else if (!in.Integers(op, {"slice_sizes"}, attributes.slice_sizes)) {
    return false;
  }
  Instruction* const operands[] = {in.Operand(op, 0), in.Operand(op, 1)};
  return in.Define(op, 0, in.Emit(op, Opcode::kGather, operands, attributes, in.ResultShape(op)));
}

bool ConvertScatter(Importer& in, const Operation& op) {
  ScatterAttributes attributes;
  const DimsField lists[] = {
      {"update_window_dims", &attributes.update_window_dims},
      {"inserted_window_dims", &attributes.inserted_window_dims},
      {"scatter_dims_to_operand_dims", &attributes.scatter_dims_to_operand_dims},
      {"input_batching_dims", &attributes.input_batching_dims},
      {"scatter_indices_batching_dims", &attributes.scatter_indices_batching_dims},
  };
  if (!ReadNumbers(in, op, {"scatter_dimension_numbers"}, lists, attributes.index_vector_dim) ||
      !in.Bool(op, {"indices_are_sorted"}, attributes.indices_are_sorted) ||
      !in.Bool(op, {"unique_indices"}, attributes.unique_indices) || !in.WantRegions(op, 1)) {
    return false;
  }
  Computation* const called[] = {in.RegionComputation(op, *op.regions[0])};
  return called[0] != nullptr &&
         in.EmitResults(op, Opcode::kScatter, in.Operands(op), attributes, called);
}

bool ConvertSort(Importer& in, const Operation& op) {
  SortAttributes attributes;
  attributes.dimension = -1;
  if (op.operands.empty()) return in.WantOperands(op, 1);
  if (!in.Int(op, {"dimension"}, attributes.dimension, false) ||
      !in.Bool(op, {"is_stable"}, attributes.is_stable) || !in.WantRegions(op, 1)) {
    return false;
  }
  if (attributes.dimension < 0) attributes.dimension += in.Operand(op, 0)->shape()->rank();
  Computation* const called[] = {in.RegionComputation(op, *op.regions[0])};
  return called[0] != nullptr &&
         in.EmitResults(op, Opcode::kSort, in.Operands(op), attributes, called);
}

bool ConvertTopK(Importer& in, const Operation& op) {
  TopKAttributes attributes;
  return in.WantOperands(op, 1) && in.WantResults(op, 2) && in.Int(op, {"k"}, attributes.k) &&
         in.Bool(op, {"largest"}, attributes.largest) &&
         in.EmitResults(op, Opcode::kTopK, in.Operands(op), attributes);
}

bool ConvertScan(Importer& in, const Operation& op) {
  ScanAttributes attributes;
  if (!in.Int(op, {"dimension"}, attributes.dimension) ||
      !in.Int(op, {"num_carries"}, attributes.num_carries, false) ||
      !in.Bool(op, {"is_reverse"}, attributes.is_reverse) ||
      !in.Bool(op, {"is_associative"}, attributes.is_associative) || !in.WantRegions(op, 1)) {
    return false;
  }
  // Operands are inputs, then initial carries, as many as the region's last arguments.
  const auto segments = in.Find(op, {"operandSegmentSizes"});
  std::vector<int64_t> sizes;
  if (segments.has_value() && ReadIntegers(*segments, sizes) && sizes.size() == 2) {
    attributes.num_carries = sizes[1];
  } else if (op.leading_operands >= 0) {
    attributes.num_carries = static_cast<int64_t>(op.operands.size()) - op.leading_operands;
  }
  Computation* const called[] = {in.RegionComputation(op, *op.regions[0])};
  return called[0] != nullptr &&
         in.EmitResults(op, Opcode::kScan, in.Operands(op), attributes, called);
}

bool ConvertBatchNorm(Importer& in, const Operation& op) {
  BatchNormAttributes attributes;
  const auto epsilon = in.Find(op, {"epsilon"});
  if (!epsilon.has_value() || !ReadNumber(*epsilon, attributes.epsilon)) {
    return in.BadValue(op, "epsilon", epsilon.value_or(""));
  }
  return in.Int(op, {"feature_index"}, attributes.feature_index) &&
         in.EmitResults(op, op.row->opcode, in.Operands(op), attributes);
}

}  // namespace gshard::stablehlo
