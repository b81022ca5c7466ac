// The chip table and its JSON form. Sources of the figures: docs/chips.md.

#include "core/cost/chip.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <optional>

#include "core/cost/embedded_chips.h"
#include "core/json.h"
#include "ir/parser_errors.h"

namespace gshard {
namespace {

constexpr std::pair<std::string_view, Chip::Stack> kStacks[] = {
    {"jax", Chip::Stack::kJax},
    {"pytorch", Chip::Stack::kPytorch},
    {"megatron", Chip::Stack::kMegatron}};
constexpr std::string_view kStackNames = "jax, pytorch or megatron";

std::optional<Chip::Stack> StackCalled(std::string_view name) {
  for (const auto& [known, stack] : kStacks) {
    if (known == name) return stack;
  }
  return std::nullopt;
}

void ReadNumber(const Json& json, std::string_view key, double& value) {
  if (json.Has(key)) value = json.NumberAt(key);
}

void ReadInteger(const Json& json, std::string_view key, int64_t& value) {
  if (json.Has(key)) value = static_cast<int64_t>(json.NumberAt(key));
}

void ReadCurve(const Json& json, std::string_view key, EfficiencyCurve& curve) {
  if (!json.Has(key)) return;
  const Json fields = json.At(key);
  curve = {1, 0};
  ReadNumber(fields, "limit", curve.limit);
  ReadNumber(fields, "half", curve.half);
}

void ReadTriple(const Json& json, std::string_view key, std::array<int64_t, 3>& values) {
  if (!json.Has(key)) return;
  const std::vector<double> list = json.NumberListAt(key);
  if (list.size() != 3) throw JsonError(fmt::format("'{}' must have three numbers", key));
  for (size_t i = 0; i < 3; ++i) values[i] = static_cast<int64_t>(list[i]);
}

NetworkLevel ReadLevel(const Json& json) {
  NetworkLevel level;
  const std::string kind = json.StringAt("kind");
  if (kind != "torus" && kind != "switch") {
    throw JsonError(fmt::format("a network's kind is torus or switch, not '{}'", kind));
  }
  level.kind = kind == "torus" ? NetworkLevel::Kind::kTorus : NetworkLevel::Kind::kSwitch;
  level.name = json.StringAt("name");
  level.bytes_per_s = json.NumberAt("bytes_per_s");
  ReadNumber(json, "latency_s", level.latency_s);
  ReadNumber(json, "efficiency", level.efficiency);
  ReadInteger(json, "wrap_multiple", level.wrap_multiple);
  ReadInteger(json, "devices", level.devices);
  if (json.Has("all_to_all_wraps")) level.all_to_all_wraps = json.BoolAt("all_to_all_wraps");
  if (json.Has("extents")) {
    for (double extent : json.NumberListAt("extents")) {
      level.extents.push_back(static_cast<int64_t>(extent));
    }
  }
  return level;
}

void ReadNetwork(const Json& json, Chip& chip) {
  if (json.Has("network")) {
    chip.network.clear();
    const Json levels = json.At("network");
    if (!levels.IsList()) {
      throw JsonError("'network' must be a list of objects, one a level");
    }
    for (size_t i = 0; i < levels.size(); ++i) chip.network.push_back(ReadLevel(levels.At(i)));
  }
  if (json.Has("link_bytes_per_s")) {
    NetworkLevel level;
    level.name = "link";
    level.bytes_per_s = json.NumberAt("link_bytes_per_s");
    level.latency_s = 1e-6;
    level.wrap_multiple = 1;
    ReadNumber(json, "link_latency_s", level.latency_s);
    chip.network = {level};
  }
}

void ReadStackRates(const Json& json, Chip::StackRates& rates) {
  ReadCurve(json, "attention_efficiency", rates.attention_efficiency);
  ReadNumber(json, "sustained", rates.sustained);
}

// What stands in the chip itself is all stacks'; 'stacks' has what one of them has instead.
void ReadStacks(const Json& json, Chip& chip) {
  for (Chip::StackRates& rates : chip.stacks) ReadStackRates(json, rates);
  if (!json.Has("stacks")) return;
  const Json stacks = json.At("stacks");
  for (const std::string& name : stacks.Keys()) {
    const std::optional<Chip::Stack> stack = StackCalled(name);
    if (!stack) throw JsonError(fmt::format("no stack '{}': {}", name, kStackNames));
    const Json rates = stacks.At(name);
    for (const std::string& key : rates.Keys()) {
      if (key != "attention_efficiency" && key != "sustained") {
        throw JsonError(fmt::format("a stack has no field '{}'", key));
      }
    }
    ReadStackRates(rates, chip.stacks[static_cast<size_t>(*stack)]);
  }
}

const std::vector<std::string_view>& KnownKeys() {
  static const std::vector<std::string_view> keys = {"base",
                                                     "name",
                                                     "comment",
                                                     "sources",
                                                     "compiler",
                                                     "peak_flops",
                                                     "vector_flops",
                                                     "vector_operations_per_byte",
                                                     "hbm_bytes",
                                                     "hbm_bytes_per_s",
                                                     "fast_memory_bytes",
                                                     "clock_hz",
                                                     "launch_s",
                                                     "collective_launch_s",
                                                     "indexed_slice_s",
                                                     "devices_per_chip",
                                                     "matrix_tile",
                                                     "matrix_units",
                                                     "f32_passes",
                                                     "dense_ragged_dots",
                                                     "dot_efficiency",
                                                     "attention_efficiency",
                                                     "memory_efficiency",
                                                     "sustained",
                                                     "stacks",
                                                     "products_have_row_statistics",
                                                     "overlaps_collectives",
                                                     "collective_compute_share",
                                                     "all_reduce_combine_bytes",
                                                     "network",
                                                     "link_bytes_per_s",
                                                     "link_latency_s"};
  return keys;
}

// Throws JsonError. `base` is found by `find_base`, which may throw too.
Chip ReadChip(const Json& json, const std::function<Chip(const std::string&)>& find_base) {
  for (const std::string& key : json.Keys()) {
    if (std::find(KnownKeys().begin(), KnownKeys().end(), key) == KnownKeys().end()) {
      throw JsonError(fmt::format("a chip has no field '{}'", key));
    }
  }
  const bool has_base = json.Has("base");
  Chip chip = has_base ? find_base(json.StringAt("base")) : Chip{};
  chip.name = json.StringAt("name");
  if (json.Has("compiler")) {
    const std::string compiler = json.StringAt("compiler");
    if (compiler != "tpu" && compiler != "gpu" && compiler != "cpu") {
      throw JsonError(fmt::format("compiler is tpu, gpu or cpu, not '{}'", compiler));
    }
    chip.compiler = compiler == "tpu"   ? Chip::Compiler::kTpu
                    : compiler == "gpu" ? Chip::Compiler::kGpu
                                        : Chip::Compiler::kCpu;
  }
  if (json.Has("peak_flops") || !has_base) {
    for (const auto& [type, rate] : json.NumbersAt("peak_flops")) chip.peak_flops[type] = rate;
  }
  if (!has_base) {
    chip.hbm_bytes = json.NumberAt("hbm_bytes");
    chip.hbm_bytes_per_s = json.NumberAt("hbm_bytes_per_s");
  }
  ReadNumber(json, "hbm_bytes", chip.hbm_bytes);
  ReadNumber(json, "hbm_bytes_per_s", chip.hbm_bytes_per_s);
  ReadInteger(json, "fast_memory_bytes", chip.fast_memory_bytes);
  ReadNumber(json, "vector_flops", chip.vector_flops);
  ReadNumber(json, "vector_operations_per_byte", chip.vector_operations_per_byte);
  ReadNumber(json, "clock_hz", chip.clock_hz);
  ReadNumber(json, "launch_s", chip.launch_s);
  ReadNumber(json, "collective_launch_s", chip.collective_launch_s);
  ReadNumber(json, "indexed_slice_s", chip.indexed_slice_s);
  ReadInteger(json, "devices_per_chip", chip.devices_per_chip);
  ReadInteger(json, "matrix_units", chip.matrix_units);
  ReadTriple(json, "matrix_tile", chip.matrix_tile);
  ReadTriple(json, "f32_passes", chip.f32_passes);
  if (json.Has("dense_ragged_dots")) chip.dense_ragged_dots = json.BoolAt("dense_ragged_dots");
  ReadCurve(json, "dot_efficiency", chip.dot_efficiency);
  ReadCurve(json, "memory_efficiency", chip.memory_efficiency);
  ReadStacks(json, chip);
  if (json.Has("products_have_row_statistics")) {
    chip.products_have_row_statistics = json.BoolAt("products_have_row_statistics");
  }
  if (json.Has("overlaps_collectives")) {
    chip.overlaps_collectives = json.BoolAt("overlaps_collectives");
  }
  ReadNumber(json, "collective_compute_share", chip.collective_compute_share);
  ReadInteger(json, "all_reduce_combine_bytes", chip.all_reduce_combine_bytes);
  ReadNetwork(json, chip);
  return chip;
}

bool IsSound(const EfficiencyCurve& curve) {
  return curve.limit > 0 && curve.limit <= 1 && curve.half >= 0;
}

// What is wrong with the numbers; empty if nothing.
std::string ProblemOf(const Chip& chip) {
  bool positive = chip.hbm_bytes > 0 && chip.hbm_bytes_per_s >= 1 && chip.launch_s >= 0 &&
                  chip.clock_hz >= 0 && chip.collective_launch_s >= 0 &&
                  chip.indexed_slice_s >= 0 && chip.vector_flops >= 0 &&
                  chip.vector_operations_per_byte >= 0 && chip.collective_compute_share >= 0 &&
                  chip.collective_compute_share < 1 && chip.PeakFlops(DType::kF32) >= 1;
  for (const auto& [type, rate] : chip.peak_flops) positive = positive && rate >= 1;
  if (!positive) return "rates are at least 1 a second, sizes positive, and f32 or bf16 has a peak";
  bool efficiencies = IsSound(chip.dot_efficiency) && IsSound(chip.memory_efficiency);
  for (const Chip::StackRates& rates : chip.stacks) {
    efficiencies =
        efficiencies && IsSound(rates.attention_efficiency) && IsSound({.limit = rates.sustained});
  }
  if (!efficiencies) {
    return "the limit of an efficiency, as 'sustained', is over 0 and at most 1, its half not "
           "negative";
  }
  bool counts = chip.devices_per_chip >= 1 && chip.matrix_units >= 1 &&
                chip.all_reduce_combine_bytes >= 0 && chip.fast_memory_bytes >= 0;
  for (int64_t tile : chip.matrix_tile) counts = counts && tile >= 1;
  for (int64_t passes : chip.f32_passes) counts = counts && passes >= 0;
  if (!counts) return "tiles, passes and numbers of units must be positive";
  for (const NetworkLevel& level : chip.network) {
    bool extents = std::all_of(level.extents.begin(), level.extents.end(),
                               [](int64_t extent) { return extent >= 1; });
    if (level.bytes_per_s < 1 || level.latency_s < 0 || level.efficiency <= 0 || !extents ||
        level.extents.size() > 3 || level.wrap_multiple < 0 || level.devices < 0) {
      return "links carry at least 1 byte a second, and a torus has at most three positive extents";
    }
  }
  return "";
}

const EmbeddedChip* FindEmbedded(std::string_view name) {
  const std::span<const EmbeddedChip> chips = EmbeddedChips();
  const auto found = std::ranges::find(chips, name, &EmbeddedChip::name);
  return found == chips.end() ? nullptr : &*found;
}

Chip ReadEmbedded(const EmbeddedChip& embedded) {
  Chip chip = ReadChip(Json::Parse(embedded.text), [](const std::string& name) {
    const EmbeddedChip* base = FindEmbedded(name);
    CheckInternal(base != nullptr, "the base of a built-in chip is none");
    return ReadEmbedded(*base);
  });
  CheckInternal(ProblemOf(chip).empty() && chip.name == embedded.name, "a built-in chip is wrong");
  return chip;
}

}  // namespace

double Chip::PeakFlops(DType dtype) const {
  auto find = [&](std::string_view type) {
    auto it = peak_flops.find(std::string(type));
    return it == peak_flops.end() ? 0 : it->second;
  };
  double exact = find(DTypeName(dtype));
  if (exact > 0) return exact;
  if (DTypeBits(dtype) == 8 && IsFloat(dtype) && find("f8") > 0) return find("f8");
  if (DTypeBits(dtype) <= 4 && IsFloat(dtype) && find("f4") > 0) return find("f4");
  // Narrow integers and 8-bit floats run at least at bf16 speed; f16 like bf16; all else like f32.
  bool narrow = DTypeBits(dtype) <= 16 && dtype != DType::kPred;
  double fallback = narrow ? find("bf16") : find("f32");
  if (narrow && fallback <= 0) fallback = find("f16");
  if (fallback <= 0) fallback = std::max({find("f32"), find("bf16"), find("f16")});
  return dtype == DType::kF64 || dtype == DType::kC128 ? fallback / 8 : fallback;
}

std::vector<std::string> BuiltInChipNames() {
  std::vector<std::string> names;
  for (const EmbeddedChip& chip : EmbeddedChips()) names.emplace_back(chip.name);
  return names;
}

namespace {

// Lower-case letters and digits: "TPU v5e" and "tpu-v5e" are one.
std::string Bare(std::string_view name) {
  std::string bare;
  for (char c : name) {
    if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')) bare += c;
  }
  return bare;
}

// "did you mean 'a100-40' or 'a100-80'? " for "A100": chips whose names hold what was given, or the
// other way round (v3-8); else the name that is nearest. Empty if none is.
std::string ChipsMeantBy(std::string_view name) {
  const std::string asked = Bare(name);
  std::vector<std::string> meant;
  for (const EmbeddedChip& chip : EmbeddedChips()) {
    const std::string bare = Bare(chip.name);
    const std::string model = bare.starts_with("tpu") ? bare.substr(3) : bare;
    if (asked.size() < 2) break;
    if (bare.find(asked) != bare.npos || asked.find(model) != asked.npos) {
      meant.push_back(fmt::format("'{}'", chip.name));
    }
  }
  if (meant.empty() || meant.size() > 4) {
    return DidYouMean(name, EmbeddedChips(), &EmbeddedChip::name);
  }
  return fmt::format("did you mean {}? ", fmt::join(meant, " or "));
}

}  // namespace

Expected<void> SetStack(Chip& chip, std::string_view name) {
  const std::optional<Chip::Stack> stack = StackCalled(name);
  if (!stack) {
    return Fail(MakeError("E-COST-001", fmt::format("no stack '{}': {}", name, kStackNames)));
  }
  if (*stack != Chip::Stack::kJax && chip.compiler != Chip::Compiler::kGpu) {
    return Fail(
        MakeError("E-COST-001", fmt::format("'{}' runs on GPUs, {} is none", name, chip.name)));
  }
  chip.stack = *stack;
  return {};
}

std::string_view NameOf(Chip::Stack stack) {
  for (const auto& [name, known] : kStacks) {
    if (known == stack) return name;
  }
  return "";
}

Expected<Chip> BuiltInChip(std::string_view name) {
  if (const EmbeddedChip* found = FindEmbedded(name)) return ReadEmbedded(*found);
  return Fail(MakeError("E-COST-001", fmt::format("no chip is called '{}'", name),
                        ChipsMeantBy(name) + fmt::format("there are {}; --chip-file reads another",
                                                         fmt::join(BuiltInChipNames(), ", "))));
}

Expected<Chip> ParseChip(std::string_view json, const std::string& file_name) {
  try {
    Chip chip = ReadChip(Json::Parse(json), [](const std::string& base) {
      Expected<Chip> found = BuiltInChip(base);
      if (!found) throw JsonError(found.error().message);
      return *std::move(found);
    });
    std::string problem = ProblemOf(chip);
    if (!problem.empty()) throw JsonError(problem);
    return chip;
  } catch (const JsonError& error) {
    return Fail(MakeError("E-COST-002", fmt::format("{}: {}", file_name, error.what()),
                          "docs/chips.md has the fields of a chip description"));
  }
}

}  // namespace gshard
