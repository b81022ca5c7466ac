// Gathers and scatters.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "tests/property/program_maker.h"

namespace gshard::property {

// How a window of the operand is found by a vector of indices: common to gather and scatter.
struct ProgramMaker::GatherDims {
  Sizes slice_sizes;
  Sizes collapsed, index_map, operand_batching, indices_batching;
  Sizes indices;  // shape of the index array
  int64_t vector_dim = 0;
  Sizes batch;          // shape of the index array without the vector dim
  Sizes window;         // sizes of the dims that stay, in operand order
  Sizes window_places;  // their places in the result (gather) or the updates (scatter)
  Sizes result;
};

ProgramMaker::GatherDims ProgramMaker::RandomGatherDims(const Sizes& operand) {
  GatherDims dims;
  std::vector<std::pair<int64_t, int64_t>> batch;  // (size, operand dim or -1)
  const bool batching = Chance(35);
  std::vector<int64_t> indexed;
  for (size_t i = 0; i < operand.size(); ++i) {
    const auto dim = static_cast<int64_t>(i);
    const int64_t role = Below(10);
    if (operand[i] == 0 && role < 7) throw Rejected();
    if (batching && role < 3) {
      dims.operand_batching.push_back(dim);
      batch.emplace_back(operand[i], dim);
      dims.slice_sizes.push_back(1);
    } else if (role < 7) {
      indexed.push_back(dim);
      const int64_t size = Chance(65) ? 1 : Between(1, operand[i]);
      dims.slice_sizes.push_back(size);
      if (size == 1 && Chance(80)) {
        dims.collapsed.push_back(dim);
      } else {
        dims.window.push_back(size);
      }
    } else {
      const int64_t size = Chance(80) ? operand[i] : Between(1, operand[i]);
      dims.slice_sizes.push_back(size);
      dims.window.push_back(size);
    }
  }
  if (indexed.empty()) throw Rejected();
  if (Chance(30)) Shuffle(indexed);
  dims.index_map = indexed;
  for (int64_t more = Between(0, 2); more > 0; --more) batch.emplace_back(RandomSize(), -1);
  Shuffle(batch);
  for (const auto& [size, dim] : batch) dims.batch.push_back(size);
  // Where the index vector stands.
  dims.vector_dim = Between(0, static_cast<int64_t>(batch.size()));
  dims.indices = dims.batch;
  const auto length = static_cast<int64_t>(indexed.size());
  if (length == 1 && Chance(60)) {
    dims.vector_dim = static_cast<int64_t>(batch.size());
  } else {
    dims.indices.insert(dims.indices.begin() + dims.vector_dim, length);
  }
  for (int64_t operand_dim : dims.operand_batching) {
    for (size_t i = 0; i < batch.size(); ++i) {
      if (batch[i].second != operand_dim) continue;
      auto place = static_cast<int64_t>(i);
      if (dims.indices.size() > batch.size() && place >= dims.vector_dim) ++place;
      dims.indices_batching.push_back(place);
    }
  }
  // The result: batch and window dims interleaved.
  std::vector<bool> is_window(dims.batch.size() + dims.window.size(), false);
  for (size_t i = 0; i < dims.window.size(); ++i) is_window[i + dims.batch.size()] = true;
  if (Chance(50)) {
    std::vector<int> order(is_window.begin(), is_window.end());
    Shuffle(order);
    is_window.assign(order.begin(), order.end());
  }
  size_t next_batch = 0, next_window = 0;
  for (size_t i = 0; i < is_window.size(); ++i) {
    if (is_window[i]) dims.window_places.push_back(static_cast<int64_t>(i));
    dims.result.push_back(is_window[i] ? dims.window[next_window++] : dims.batch[next_batch++]);
  }
  return dims;
}

void ProgramMaker::MakeGather() {
  const size_t x = AnyOfRank(1);
  const ArrayType from = TypeOf(x);
  const GatherDims dims = RandomGatherDims(from.dims);
  const size_t indices = Like({Chance(85) ? DType::kS32 : DType::kU32, dims.indices});
  std::string attributes =
      fmt::format(", offset_dims={{{}}}, collapsed_slice_dims={{{}}}, start_index_map={{{}}}",
                  fmt::join(dims.window_places, ","), fmt::join(dims.collapsed, ","),
                  fmt::join(dims.index_map, ","));
  if (!dims.operand_batching.empty()) {
    attributes +=
        fmt::format(", operand_batching_dims={{{}}}, start_indices_batching_dims={{{}}}",
                    fmt::join(dims.operand_batching, ","), fmt::join(dims.indices_batching, ","));
  }
  attributes += fmt::format(", index_vector_dim={}, slice_sizes={{{}}}", dims.vector_dim,
                            fmt::join(dims.slice_sizes, ","));
  Emit(Opcode::kGather, {from.dtype, dims.result}, {x, indices}, attributes);
}

void ProgramMaker::MakeScatter() {
  const size_t x = AnyNumeric(1);
  const ArrayType type = TypeOf(x);
  const GatherDims dims = RandomGatherDims(type.dims);
  const size_t indices = Like({DType::kS32, dims.indices});
  const size_t updates = Like({type.dtype, dims.result});
  std::vector<Opcode> opcodes = {Opcode::kAdd, Opcode::kAdd, Opcode::kMaximum, Opcode::kMinimum};
  if (IsInteger(type.dtype)) opcodes.push_back(Opcode::kMultiply);
  Node node;
  node.opcode = Opcode::kScatter;
  node.fold_opcode = Pick(opcodes);
  node.fold = Product(dims.batch);
  node.types = {type};
  node.operands = {x, indices, updates};
  node.attributes = fmt::format(
      ", update_window_dims={{{}}}, inserted_window_dims={{{}}}, "
      "scatter_dims_to_operand_dims={{{}}}",
      fmt::join(dims.window_places, ","), fmt::join(dims.collapsed, ","),
      fmt::join(dims.index_map, ","));
  if (!dims.operand_batching.empty()) {
    node.attributes +=
        fmt::format(", input_batching_dims={{{}}}, scatter_indices_batching_dims={{{}}}",
                    fmt::join(dims.operand_batching, ","), fmt::join(dims.indices_batching, ","));
  }
  node.attributes += fmt::format(", index_vector_dim={}", dims.vector_dim);
  node.combiner = Combiner(node.fold_opcode, type.dtype);
  Emit(std::move(node));
}

// Rows take the place of others, each of another one; some beyond the end are dropped.
void ProgramMaker::MakeScatterReplace() {
  const size_t x = AnyNumeric(1);
  const ArrayType type = TypeOf(x);
  const size_t dim = Index(type.dims.size());
  const int64_t size = type.dims[dim], count = Between(1, std::max<int64_t>(size, 1));
  ArrayType rows{type.dtype, {count}};
  Sizes window;
  for (size_t i = 0; i < type.dims.size(); ++i) {
    if (i == dim) continue;
    window.push_back(static_cast<int64_t>(rows.dims.size()));
    rows.dims.push_back(type.dims[i]);
  }
  const ArrayType list{DType::kS32, {count}};
  const size_t first = BroadcastTo(Scalar(DType::kS32, Below(size - count + 2)), list.dims);
  const size_t places = Emit(Opcode::kAdd, list, {Iota(list), first});
  Node node;
  node.opcode = Opcode::kScatter;
  node.types = {type};
  node.operands = {x, places, Like(rows)};
  node.attributes = fmt::format(
      ", update_window_dims={{{}}}, inserted_window_dims={{{}}}, "
      "scatter_dims_to_operand_dims={{{}}}, index_vector_dim=1{}{}",
      fmt::join(window, ","), dim, dim, Chance(50) ? ", indices_are_sorted=true" : "",
      Chance(50) ? ", unique_indices=true" : "");
  node.fold_opcode = Opcode::kMaximum;
  node.combiner = fmt::format("replace_{}", DTypeName(type.dtype));
  program_.combiners[node.combiner] =
      fmt::format("{0} {{\n  {0}.a = {1}[] parameter(0)\n  ROOT {0}.b = {1}[] parameter(1)\n}}\n",
                  node.combiner, DTypeName(type.dtype));
  Emit(std::move(node));
}

}  // namespace gshard::property
