// Operations with regions of scalars.
#include <fmt/format.h>

#include <algorithm>

#include "ir/dims.h"
#include "ir/stablehlo/import/op_table.h"
#include "ir/stablehlo/print/dense_text.h"
#include "ir/stablehlo/print/module_writer.h"

namespace gshard::stablehlo {
namespace {

// The operation of a computation `op(p0, p1)` of two scalars of one type; empty for others.
std::string_view AppliedOperation(const Computation& computation) {
  const Instruction* root = computation.root();
  if (computation.parameter_count() != 2 || computation.instructions().size() != 3 ||
      !IsElementwise(root->opcode()) || root->operand_count() != 2 ||
      root->operand(0) != computation.parameter(0) ||
      root->operand(1) != computation.parameter(1) || root->opcode() == Opcode::kCompare ||
      root->shape()->bare() != root->operand(0)->shape()->bare()) {
    return {};
  }
  for (const OpRow& row : AllRows()) {
    if (row.opcode == root->opcode() && row.name.starts_with("stablehlo.")) return row.name;
  }
  return {};
}

bool WriteReduce(ModuleWriter& w, const Instruction* x) {
  const auto n = static_cast<size_t>(x->operand_count() / 2);
  const Leaves operands = w.OperandLeaves(x);
  ModuleWriter::Line line(x);
  line.head = "stablehlo.reduce";
  for (size_t i = 0; i < n; ++i) {
    line.head += fmt::format("{}({} init: {})", i > 0 ? ", " : "", operands[i], operands[n + i]);
  }
  const std::string_view applied = AppliedOperation(*x->called(0));
  if (n == 1 && !applied.empty()) line.head += fmt::format(" applies {}", applied);
  line.head += fmt::format(" across dimensions = {}",
                           ListText(x->attributes<DimensionsAttributes>().dimensions));
  line.types = w.FunctionType(x);
  if (n > 1 || applied.empty()) {
    Leaves arguments;
    const Computation& reducer = *x->called(0);
    const std::string body = w.RegionBody(reducer, arguments);
    line.tail = fmt::format("\n{} reducer", w.Spaces());
    for (size_t i = 0; i < n; ++i) {
      line.tail +=
          fmt::format("({}: {}, {}: {}) ", arguments[i],
                      w.Type(reducer.parameter(static_cast<int64_t>(i))->shape()), arguments[n + i],
                      w.Type(reducer.parameter(static_cast<int64_t>(n + i))->shape()));
    }
    line.tail += fmt::format(" {{\n{}{}}}", body, w.Spaces());
  }
  w.Emit(line);
  return true;
}

std::vector<std::string> WindowProps(std::span<const WindowDim> window) {
  std::vector<int64_t> sizes, strides, base, dilations;
  std::string padding;
  for (const WindowDim& dim : window) {
    sizes.push_back(dim.size);
    strides.push_back(dim.stride);
    base.push_back(dim.base_dilation);
    dilations.push_back(dim.window_dilation);
    padding += fmt::format("{}[{}, {}]", padding.empty() ? "" : ", ", dim.pad_low, dim.pad_high);
  }
  return {fmt::format("padding = dense<{}> : tensor<{}x2xi64>",
                      window.empty() ? std::string() : fmt::format("[{}]", padding), window.size()),
          "window_dimensions = " + ArrayText(sizes), "window_strides = " + ArrayText(strides),
          "base_dilations = " + ArrayText(base), "window_dilations = " + ArrayText(dilations)};
}

bool WriteGather(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<GatherAttributes>();
  std::string numbers = fmt::format(
      "dimension_numbers = #stablehlo.gather<offset_dims = {}, collapsed_slice_dims = {}, ",
      ListText(a.offset_dims), ListText(a.collapsed_slice_dims));
  if (!a.operand_batching_dims.empty()) {
    numbers +=
        fmt::format("operand_batching_dims = {}, start_indices_batching_dims = {}, ",
                    ListText(a.operand_batching_dims), ListText(a.start_indices_batching_dims));
  }
  numbers += fmt::format("start_index_map = {}, index_vector_dim = {}>",
                         ListText(a.start_index_map), a.index_vector_dim);
  w.Generic(x, "stablehlo.gather",
            {numbers, fmt::format("indices_are_sorted = {}", a.indices_are_sorted),
             "slice_sizes = " + ArrayText(a.slice_sizes)});
  return true;
}

bool WriteScatter(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<ScatterAttributes>();
  std::string numbers = fmt::format(
      "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = {}, "
      "inserted_window_dims = {}, ",
      ListText(a.update_window_dims), ListText(a.inserted_window_dims));
  if (!a.input_batching_dims.empty()) {
    numbers +=
        fmt::format("input_batching_dims = {}, scatter_indices_batching_dims = {}, ",
                    ListText(a.input_batching_dims), ListText(a.scatter_indices_batching_dims));
  }
  numbers += fmt::format("scatter_dims_to_operand_dims = {}, index_vector_dim = {}>",
                         ListText(a.scatter_dims_to_operand_dims), a.index_vector_dim);
  w.Generic(x, "stablehlo.scatter",
            {numbers, fmt::format("indices_are_sorted = {}", a.indices_are_sorted),
             fmt::format("unique_indices = {}", a.unique_indices)},
            w.Region(*x->called(0)));
  return true;
}

bool WriteTopK(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<TopKAttributes>();
  ModuleWriter::Line line(x);
  if (a.largest) {
    line.head = fmt::format("chlo.top_k({}, k = {})", w.Operands(x), a.k);
    line.types = fmt::format("{} -> ({}, {})", w.Type(x->operand(0)->shape()),
                             w.Type(x->shape()->element(0)), w.Type(x->shape()->element(1)));
  } else {
    line.head = fmt::format("stablehlo.custom_call @mhlo.topk({})", w.Operands(x));
    line.Add(fmt::format(
        "mhlo.attributes = {{k = {} : i64, largest = false}}, mhlo.version = 1 : i64", a.k));
    line.types = w.FunctionType(x);
  }
  w.Emit(line);
  return true;
}

bool WriteScan(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<ScanAttributes>();
  const auto results = static_cast<int64_t>(LeafShapes(x->shape()).size());
  w.Generic(x, "chlo.scan",
            {fmt::format("dimension = {} : i64", a.dimension),
             fmt::format("is_associative = {}", a.is_associative),
             fmt::format("is_reverse = {}", a.is_reverse),
             fmt::format("operandSegmentSizes = array<i32: {}, {}>",
                         x->operand_count() - a.num_carries, a.num_carries),
             fmt::format("resultSegmentSizes = array<i32: {}, {}>", results - a.num_carries,
                         a.num_carries)},
            w.Region(*x->called(0)));
  return true;
}

bool WriteBatchNorm(ModuleWriter& w, const Instruction* x) {
  const auto& a = x->attributes<BatchNormAttributes>();
  std::string epsilon;
  AppendNumber(epsilon, static_cast<float>(a.epsilon));
  std::string_view name = "stablehlo.batch_norm_training";
  if (x->opcode() == Opcode::kBatchNormInference) name = "stablehlo.batch_norm_inference";
  if (x->opcode() == Opcode::kBatchNormGrad) name = "stablehlo.batch_norm_grad";
  w.Generic(x, name,
            {fmt::format("epsilon = {} : f32", epsilon),
             fmt::format("feature_index = {} : i64", a.feature_index)});
  return true;
}

}  // namespace

bool WriteReduction(ModuleWriter& w, const Instruction* x) {
  switch (x->opcode()) {
    case Opcode::kReduce: {
      const std::vector<const Shape*> leaves = LeafShapes(x->shape());
      for (size_t i = 0; i < leaves.size(); ++i) {
        if (leaves[i]->dtype() == x->operand(static_cast<int64_t>(i))->shape()->dtype()) continue;
        return w.Fail(x, "StableHLO has no reduce that rounds, as compilers write it",
                      "convert its result instead");
      }
      return WriteReduce(w, x);
    }
    case Opcode::kMap:
      w.Generic(x, "stablehlo.map",
                {"dimensions = " + ArrayText(x->attributes<DimensionsAttributes>().dimensions)},
                w.Region(*x->called(0)));
      return true;
    case Opcode::kReduceWindow:
      w.Generic(x, "stablehlo.reduce_window", WindowProps(x->attributes<WindowAttributes>().window),
                w.Region(*x->called(0)));
      return true;
    case Opcode::kSelectAndScatter: {
      const auto window = x->attributes<WindowAttributes>().window;
      if (std::ranges::any_of(window, [](const WindowDim& dim) {
            return dim.base_dilation != 1 || dim.window_dilation != 1;
          })) {
        return w.Fail(x, "StableHLO has no dilations of select_and_scatter",
                      "pad its operand instead: pad with interior padding");
      }
      std::vector<std::string> props = WindowProps(window);
      props.resize(3);
      const std::string select = w.Region(*x->called(0));
      w.Generic(x, "stablehlo.select_and_scatter", std::move(props),
                select + ", " + w.Region(*x->called(1)));
      return true;
    }
    case Opcode::kGather:
      return WriteGather(w, x);
    case Opcode::kScatter:
      return WriteScatter(w, x);
    case Opcode::kSort: {
      const auto& a = x->attributes<SortAttributes>();
      w.Generic(x, "stablehlo.sort",
                {fmt::format("dimension = {} : i64", a.dimension),
                 fmt::format("is_stable = {}", a.is_stable)},
                w.Region(*x->called(0)));
      return true;
    }
    case Opcode::kScan:
      return WriteScan(w, x);
    case Opcode::kTopK:
      return WriteTopK(w, x);
    case Opcode::kBatchNormTraining:
    case Opcode::kBatchNormInference:
    case Opcode::kBatchNormGrad:
      return WriteBatchNorm(w, x);
    default:
      return false;
  }
}

}  // namespace gshard::stablehlo
