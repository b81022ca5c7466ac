// Inputs from files or a counter-based generator.
#include "backends/cpu/io/inputs.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>

#include "backends/cpu/arrays/fill.h"
#include "ir/dims.h"
#include "ir/literal.h"
#include "ir/sharding_algebra.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

std::string BaseName(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size() ||
      name.find_first_not_of("0123456789", dot + 1) != std::string_view::npos) {
    return std::string(name);
  }
  return std::string(name.substr(0, dot));
}

// "float64" for "<f8".
std::string NumPyName(const std::string& descr) {
  if (descr.size() < 3) return descr;
  const char* kind = nullptr;
  switch (descr[1]) {
    case 'f':
      kind = "float";
      break;
    case 'i':
      kind = "int";
      break;
    case 'u':
      kind = "uint";
      break;
    case 'c':
      kind = "complex";
      break;
    case 'b':
      return "bool";
    default:
      return descr;
  }
  return fmt::format("{}{}", kind, 8 * std::atoi(descr.c_str() + 2));
}

void AppendLeaves(const Instruction& parameter, const Shape* shape,
                  std::span<const Sharding* const> shardings, std::vector<ParameterLeaf>& leaves,
                  size_t first) {
  if (shape->IsTuple()) {
    for (const Shape* element : shape->elements()) {
      AppendLeaves(parameter, element, shardings, leaves, first);
    }
    return;
  }
  const size_t index = leaves.size() - first;
  leaves.push_back({std::string(parameter.name()), BaseName(parameter.name()),
                    parameter.attributes<ParameterAttributes>().number, shape,
                    index < shardings.size() ? shardings[index] : nullptr});
}

}  // namespace

std::vector<ParameterLeaf> ParameterLeaves(const Computation& entry) {
  std::vector<ParameterLeaf> leaves;
  for (const Instruction* parameter : entry.parameters()) {
    std::vector<const Sharding*> shardings;
    if (parameter->sharding() != nullptr) {
      shardings = LeafShardings(parameter->shape(), parameter->sharding());
    }
    AppendLeaves(*parameter, parameter->shape(), shardings, leaves, leaves.size());
  }
  tsl::robin_map<std::string, int> uses;
  for (const ParameterLeaf& leaf : leaves) ++uses[leaf.base_name];
  for (ParameterLeaf& leaf : leaves) {
    if (uses[leaf.base_name] > 1) leaf.base_name = leaf.name;
  }
  return leaves;
}

Expected<void> GlobalArray::ReadBox(std::span<const int64_t> start, std::span<const int64_t> sizes,
                                    Padding padding, std::byte* out) const {
  const int bytes = StorageBytes(dtype);
  int64_t count = 1;
  bool inside = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    count *= sizes[i];
    inside &= start[i] + sizes[i] <= dims[i];
  }
  if (count == 0) return {};
  if (!inside) FillPadding(dtype, padding, out, count);
  // Runs: the innermost dims that are taken whole, and the dim around them.
  size_t run_dim = dims.size();
  int64_t run = 1;
  while (run_dim > 0) {
    --run_dim;
    run *= sizes[run_dim];
    if (sizes[run_dim] != dims[run_dim] || start[run_dim] != 0) break;
  }
  int64_t inner = 1;  // elements per index of run_dim
  for (size_t i = run_dim + 1; i < dims.size(); ++i) inner *= dims[i];
  const int64_t wanted = dims.empty() ? 1 : sizes[run_dim];
  const int64_t valid =
      dims.empty() ? 1 : std::clamp<int64_t>(dims[run_dim] - start[run_dim], 0, wanted);
  std::optional<RunReader> reader;
  if (stored.file != nullptr) reader.emplace(*stored.file);
  std::vector<int64_t> index(dims.size(), 0);
  for (int64_t at = 0; at < count; at += run) {
    int64_t flat = 0;
    bool exists = valid > 0;
    for (size_t i = 0; i < dims.size(); ++i) {
      const int64_t global = start[i] + index[i];
      exists &= i >= run_dim || global < dims[i];
      flat = flat * dims[i] + global;
    }
    if (exists) {
      const int64_t length = dims.empty() ? 1 : valid * inner;
      std::byte* to = out + at * bytes;
      const auto begin = static_cast<size_t>(flat * bytes);
      const auto length_bytes = static_cast<size_t>(length * bytes);
      if (IsRandom() && indices != nullptr) {
        indices->Fill(seed, stream, draw, flat, length, to);
      } else if (IsRandom()) {
        const int64_t rank = is_positive ? 1 : static_cast<int64_t>(dims.size());
        FillRandom(dtype, rank, seed, stream, flat, length, to);
      } else if (!reader) {
        std::memcpy(to, data.data() + begin, length_bytes);
      } else if (!reader->Read(stored.begin + begin, {to, length_bytes})) {
        return Fail(MakeError("E-NPZ-FILE", stored.name + " was cut off while it was read"));
      }
    }
    for (size_t i = run_dim; i-- > 0;) {
      if (++index[i] < sizes[i]) break;
      index[i] = 0;
    }
  }
  return {};
}

Expected<std::unique_ptr<Inputs>> Inputs::Open(const std::string& path, uint64_t seed) {
  auto inputs = std::make_unique<Inputs>();
  inputs->path_ = path;
  inputs->seed_ = seed;
  if (!path.empty()) {
    inputs->file_ = GSHARD_TRY(NpzReader::Open(path));
  }
  return inputs;
}

std::unique_ptr<Inputs> Inputs::FromArrays(std::vector<GlobalArray> arrays) {
  auto inputs = std::make_unique<Inputs>();
  inputs->arrays_ = std::move(arrays);
  return inputs;
}

Expected<std::unique_ptr<Inputs>> Inputs::FromLiterals(std::span<const Literal* const> literals,
                                                       const Computation& entry, uint64_t seed) {
  std::vector<const Literal*> leaves(literals.begin(), literals.end());
  for (size_t i = 0; i < leaves.size();) {
    if (!leaves[i]->shape->IsTuple()) {
      ++i;
      continue;
    }
    const auto elements = leaves[i]->elements;
    leaves.erase(leaves.begin() + static_cast<std::ptrdiff_t>(i));
    leaves.insert(leaves.begin() + static_cast<std::ptrdiff_t>(i), elements.begin(),
                  elements.end());
  }
  const std::vector<ParameterLeaf> parameters = ParameterLeaves(entry);
  if (leaves.size() != parameters.size()) {
    return Fail(MakeError("E-RUN-INPUT", fmt::format("the snapshot has {} arguments, the program "
                                                     "takes {}",
                                                     leaves.size(), parameters.size())));
  }
  std::vector<GlobalArray> arrays;
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (!Compatible(leaves[k]->shape, parameters[k].shape)) {
      return Fail(
          MakeError("E-RUN-INPUT",
                    fmt::format("argument {} of the snapshot is {}, parameter {} is {}", k,
                                ToString(leaves[k]->shape, /*layouts=*/false), parameters[k].name,
                                ToString(parameters[k].shape, /*layouts=*/false))));
    }
    GlobalArray& array = arrays.emplace_back();
    array.dtype = leaves[k]->shape->dtype();
    array.dims.assign(leaves[k]->shape->dims().begin(), leaves[k]->shape->dims().end());
    array.data.assign(leaves[k]->data.begin(), leaves[k]->data.end());
    array.seed = seed;
    array.stream = k;
  }
  return FromArrays(std::move(arrays));
}

std::string Inputs::NameOf(const ParameterLeaf& leaf, size_t k) const {
  if (file_ == nullptr) return {};
  std::string by_order = fmt::format("p{}", k);
  if (file_->Has(by_order)) return by_order;
  if (file_->Has(leaf.name)) return leaf.name;
  if (file_->Has(leaf.base_name)) return leaf.base_name;
  return {};
}

std::string Inputs::UnknownName(std::span<const ParameterLeaf> leaves) const {
  if (file_ == nullptr) return {};
  for (const std::string& name : file_->names()) {
    bool known = false;
    for (size_t k = 0; k < leaves.size() && !known; ++k) {
      known =
          name == leaves[k].name || name == leaves[k].base_name || name == fmt::format("p{}", k);
    }
    if (!known) return name;
  }
  return {};
}

Expected<std::optional<std::vector<int64_t>>> Inputs::FileDims(const ParameterLeaf& leaf,
                                                               size_t k) const {
  const std::string name = NameOf(leaf, k);
  if (name.empty()) return std::nullopt;
  auto header = GSHARD_TRY(file_->Header(name));
  return std::move(header.dims);
}

// `array`, if it is random, with what it is used for: what it indexes, or that it is positive.
GlobalArray Inputs::WithUse(GlobalArray array, size_t k) const {
  if (!array.IsRandom()) return array;
  array.is_positive =
      array.dims.size() == 1 || Contains(positive_inputs_, static_cast<int64_t>(k));
  const auto found = std::ranges::find(index_inputs_, static_cast<int64_t>(k), &IndexInput::leaf);
  if (found == index_inputs_.end()) return array;
  array.indices = std::make_shared<IndexValues>(*found, array.dtype, array.dims);
  array.draw = draw_;
  return array;
}

Expected<GlobalArray> Inputs::Load(const ParameterLeaf& leaf, size_t k,
                                   std::span<const int64_t> dims,
                                   std::span<const int64_t> local_dims, bool exact,
                                   const DeviceGrid& grid, InputForm* form) const {
  *form = InputForm::kWhole;
  if (k < arrays_.size()) return WithUse(arrays_[k], k);
  GlobalArray array;
  array.dtype = leaf.shape->dtype();
  array.dims.assign(dims.begin(), dims.end());
  array.seed = seed_;
  array.stream = k;
  const std::string name = NameOf(leaf, k);
  if (name.empty()) return WithUse(std::move(array), k);
  auto header = GSHARD_TRY(file_->Header(name));
  std::vector<int64_t> per_device{grid.device_count()}, per_replica{grid.replicas};
  per_device.insert(per_device.end(), local_dims.begin(), local_dims.end());
  per_replica.insert(per_replica.end(), dims.begin(), dims.end());
  // Where only tiles are known, a dim may be of any size that is cut into such tiles.
  bool covered = header.dims.size() == dims.size();
  for (size_t i = 0; covered && i < dims.size(); ++i) {
    const int64_t tiles = exact || local_dims[i] == 0 ? 1 : dims[i] / local_dims[i];
    covered = header.dims[i] == dims[i] ||
              (tiles > 1 && (header.dims[i] + tiles - 1) / tiles == local_dims[i]);
  }
  if (!covered && header.dims == per_device) {
    *form = InputForm::kPerDevice;
  } else if (!covered && grid.replicas > 1 && header.dims == per_replica) {
    *form = InputForm::kPerReplica;
  } else if (!covered) {
    return Fail(MakeError(
        "E-RUN-INPUT", fmt::format("{}: {} is [{}], but parameter {} is [{}]", path_, name,
                                   fmt::join(header.dims, ","), leaf.name, fmt::join(dims, ","))));
  }
  array.dims = header.dims;
  std::string descr = header.descr;
  if (descr[0] == '>') descr[0] = '<';  // turned round on the way, which nobody needs to hear of
  if (descr != NpyDescr(array.dtype) && !descr.starts_with("|V")) {
    array.converted_from = NumPyName(descr);
  }
  if (LiesAsRead(header, array.dtype)) {
    array.stored = GSHARD_TRY(file_->Stored(name));
    if (array.stored.file != nullptr) return array;
  }
  auto npy = GSHARD_TRY(file_->Read(name));
  array.data =
      GSHARD_TRY(ConvertNpy(std::move(npy), array.dtype, fmt::format("{}: {}", path_, name)));
  if (array.data.empty()) array.data.resize(1);
  return array;
}

}  // namespace gshard::cpu
