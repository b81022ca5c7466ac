// Inputs from files or a counter-based generator.
#include "backends/cpu/inputs.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <cmath>
#include <cstring>

#include "backends/cpu/program.h"
#include "ir/literal.h"
#include "ir/sharding_algebra.h"

namespace gshard::cpu {
namespace {

// splitmix64 (Steele, Lea, Flood 2014): a bijection that scrambles a counter.
uint64_t Scramble(uint64_t x) {
  x += 0x9e3779b97f4a7c15u;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
  return x ^ (x >> 31);
}

uint64_t KeyOf(uint64_t seed, uint64_t stream) { return Scramble(Scramble(seed) ^ stream); }
uint64_t BitsAt(uint64_t key, int64_t index) {
  return Scramble(key + static_cast<uint64_t>(index));
}

// The sum of four 16-bit uniforms, centred, with deviation 0.1: near enough to normal.
float NormalOf(uint64_t bits) {
  const auto sum = static_cast<int32_t>((bits & 0xffff) + (bits >> 16 & 0xffff) +
                                        (bits >> 32 & 0xffff) + (bits >> 48));
  constexpr float kScale = 0.1f * 1.7320508f / 65536.0f;
  return static_cast<float>(sum - 2 * 65535) * kScale;
}

template <typename T>
void Store(std::byte* out, int64_t index, T value) {
  std::memcpy(out + index * static_cast<int64_t>(sizeof(T)), &value, sizeof(T));
}

float RandomFloat(uint64_t bits, bool positive) {
  const float x = NormalOf(bits);
  return positive ? std::fabs(x) + 0.5f : x;
}

template <typename T>
void StoreAll(std::byte* out, int64_t count, T value) {
  for (int64_t i = 0; i < count; ++i) Store(out, i, value);
}

// Floats of one value; integers and truth values of one byte.
void FillPadding(DType dtype, double number, int byte, std::byte* out, int64_t count) {
  const int bytes = StorageBytes(dtype);
  if (dtype == DType::kF32 || dtype == DType::kC64) {
    StoreAll(out, count * bytes / 4, static_cast<float>(number));
  } else if (dtype == DType::kF64 || dtype == DType::kC128) {
    StoreAll(out, count * bytes / 8, number);
  } else if (IsFloat(dtype) && DTypeBits(dtype) >= 8) {
    const uint16_t bits = EncodeSmallFloat(dtype, number);
    for (int64_t i = 0; i < count; ++i) {
      std::memcpy(out + i * bytes, &bits, static_cast<size_t>(bytes));
    }
  } else {
    std::memset(out, byte, static_cast<size_t>(count * bytes));
  }
}

void FillPadding(DType dtype, Padding padding, std::byte* out, int64_t count) {
  if (padding == Padding::kHarmless) return FillPadding(dtype, 1.0, 0, out, count);
  const bool small = dtype == DType::kPred || DTypeBits(dtype) < 8;
  FillPadding(dtype, std::nan(""), small ? 1 : 0x7f, out, count);
}

std::string BaseName(std::string_view name) {
  const size_t dot = name.rfind('.');
  if (dot == std::string_view::npos || dot + 1 == name.size() ||
      name.find_first_not_of("0123456789", dot + 1) != std::string_view::npos) {
    return std::string(name);
  }
  return std::string(name.substr(0, dot));
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

void FillRandom(DType dtype, int64_t rank, uint64_t seed, uint64_t stream, int64_t first,
                int64_t count, std::byte* out) {
  const uint64_t key = KeyOf(seed, stream);
  const bool positive = rank == 1;
  switch (dtype) {
    case DType::kF32:
      for (int64_t i = 0; i < count; ++i)
        Store(out, i, RandomFloat(BitsAt(key, first + i), positive));
      return;
    case DType::kF64:
      for (int64_t i = 0; i < count; ++i) {
        Store(out, i, static_cast<double>(RandomFloat(BitsAt(key, first + i), positive)));
      }
      return;
    case DType::kC64:
      for (int64_t i = 0; i < 2 * count; ++i) {
        Store(out, i, RandomFloat(BitsAt(key, 2 * first + i), false));
      }
      return;
    case DType::kC128:
      for (int64_t i = 0; i < 2 * count; ++i) {
        Store(out, i, static_cast<double>(RandomFloat(BitsAt(key, 2 * first + i), false)));
      }
      return;
    default:
      break;
  }
  const int bytes = StorageBytes(dtype);
  if (IsFloat(dtype)) {
    for (int64_t i = 0; i < count; ++i) {
      const float value =
          RandomFloat(BitsAt(key, first + i), positive || dtype == DType::kF8E8M0FNU);
      const uint16_t encoded = EncodeSmallFloat(dtype, static_cast<double>(value));
      std::memcpy(out + i * bytes, &encoded, static_cast<size_t>(bytes));
    }
    return;
  }
  const int bits = DTypeBits(dtype);
  const uint64_t most = dtype == DType::kPred || bits <= 2 ? 1 : 3;
  for (int64_t i = 0; i < count; ++i) {
    uint64_t value = BitsAt(key, first + i) & most;
    if (dtype == DType::kS1) value = 0;
    std::memcpy(out + i * bytes, &value, static_cast<size_t>(bytes));
  }
}

void FillElided(const Shape* shape, uint64_t seed, std::span<std::byte> out) {
  if (!shape->IsArray()) return;
  uint64_t stream = 0x656c69646564;  // apart from the parameters' streams
  for (char c : ToString(shape, false)) stream = Scramble(stream ^ static_cast<unsigned char>(c));
  FillRandom(shape->dtype(), shape->rank(), seed, stream, 0, shape->element_count(), out.data());
}

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

void GlobalArray::ReadBox(std::span<const int64_t> start, std::span<const int64_t> sizes,
                          Padding padding, std::byte* out) const {
  const int bytes = StorageBytes(dtype);
  const auto rank = static_cast<int64_t>(dims.size());
  int64_t count = 1;
  bool inside = true;
  for (size_t i = 0; i < dims.size(); ++i) {
    count *= sizes[i];
    inside &= start[i] + sizes[i] <= dims[i];
  }
  if (count == 0) return;
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
      if (IsRandom()) {
        FillRandom(dtype, rank, seed, stream, flat, length, out + at * bytes);
      } else {
        std::memcpy(out + at * bytes, data.data() + flat * bytes,
                    static_cast<size_t>(length * bytes));
      }
    }
    for (size_t i = run_dim; i-- > 0;) {
      if (++index[i] < sizes[i]) break;
      index[i] = 0;
    }
  }
}

Expected<std::unique_ptr<Inputs>> Inputs::Open(const std::string& path, uint64_t seed) {
  auto inputs = std::make_unique<Inputs>();
  inputs->path_ = path;
  inputs->seed_ = seed;
  if (!path.empty()) {
    auto file = NpzReader::Open(path);
    if (!file) return Fail(file.error());
    inputs->file_ = std::move(*file);
  }
  return inputs;
}

std::unique_ptr<Inputs> Inputs::FromArrays(std::vector<GlobalArray> arrays) {
  auto inputs = std::make_unique<Inputs>();
  inputs->arrays_ = std::move(arrays);
  return inputs;
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
  auto npy = file_->Read(name);
  if (!npy) return Fail(npy.error());
  return std::move(npy->dims);
}

Expected<GlobalArray> Inputs::Load(const ParameterLeaf& leaf, size_t k,
                                   std::span<const int64_t> dims,
                                   std::span<const int64_t> local_dims, bool exact,
                                   const DeviceGrid& grid, InputForm* form) const {
  *form = InputForm::kWhole;
  if (k < arrays_.size()) return arrays_[k];
  GlobalArray array;
  array.dtype = leaf.shape->dtype();
  array.dims.assign(dims.begin(), dims.end());
  array.seed = seed_;
  array.stream = k;
  const std::string name = NameOf(leaf, k);
  if (name.empty()) return array;
  auto npy = file_->Read(name);
  if (!npy) return Fail(npy.error());
  std::vector<int64_t> per_device{grid.device_count()}, per_replica{grid.replicas};
  per_device.insert(per_device.end(), local_dims.begin(), local_dims.end());
  per_replica.insert(per_replica.end(), dims.begin(), dims.end());
  // Where only tiles are known, a dim may be of any size that is cut into such tiles.
  bool covered = npy->dims.size() == dims.size();
  for (size_t i = 0; covered && i < dims.size(); ++i) {
    const int64_t tiles = exact || local_dims[i] == 0 ? 1 : dims[i] / local_dims[i];
    covered = npy->dims[i] == dims[i] ||
              (tiles > 1 && (npy->dims[i] + tiles - 1) / tiles == local_dims[i]);
  }
  if (!covered && npy->dims == per_device) {
    *form = InputForm::kPerDevice;
  } else if (!covered && grid.replicas > 1 && npy->dims == per_replica) {
    *form = InputForm::kPerReplica;
  } else if (!covered) {
    return Fail(MakeError("E-RUN-INPUT",
                          fmt::format("{}: {} is [{}], but parameter {} is [{}]", path_, name,
                                      fmt::join(npy->dims, ","), leaf.name, fmt::join(dims, ","))));
  }
  array.dims = npy->dims;
  auto data = ConvertNpy(std::move(*npy), array.dtype, fmt::format("{}: {}", path_, name));
  if (!data) return Fail(data.error());
  array.data = std::move(*data);
  if (array.data.empty()) array.data.resize(1);
  return array;
}

}  // namespace gshard::cpu
