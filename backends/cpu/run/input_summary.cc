#include "backends/cpu/run/input_summary.h"

#include <fmt/format.h>

#include <algorithm>

namespace gshard::cpu {
namespace {

constexpr size_t kMaxNamesListed = 4;

// FillRandom's in words.
std::string RandomValues(const GlobalArray& array) {
  switch (ClassOf(array.dtype)) {
    case DTypeClass::kPredicate:
      return "fair";
    case DTypeClass::kSigned:
    case DTypeClass::kUnsigned:
      return "uniform in 0..3";
    default:
      return array.is_positive ? "|normal, deviation 0.1| + 0.5" : "normal, deviation 0.1";
  }
}

void DescribeIndices(const GlobalArray& array, InputSummary::Random& random) {
  const IndexValues& indices = *array.indices;
  const bool is_scalar = std::ranges::all_of(array.dims, [](int64_t dim) { return dim == 1; });
  if (is_scalar) random.value = indices.ValueAt(array.seed, array.stream, array.draw, 0);
  random.values = indices.InWords();
  random.indexes = indices.readers();
  random.draws = indices.WantedDraws();
  random.low = indices.ranges()[0].low;
  random.high = indices.ranges()[0].high;
  for (const IndexRange& range : indices.ranges()) {
    random.low = std::min(random.low, range.low);
    random.high = std::max(random.high, range.high);
    random.has_beyond |= range.has_beyond;
  }
}

// By value: does an operation, a result or a view that is one read it?
std::vector<bool> ReadValues(const Program& program) {
  std::vector<bool> read(program.values.size());
  auto note = [&](ValueId id) {
    // Views lie in other values, which may be views.
    std::vector<ValueId> open = {id};
    while (!open.empty()) {
      const ValueId at = open.back();
      open.pop_back();
      if (at == kNoValue || read[at]) continue;
      read[at] = true;
      const View* view = program.values[at].view.get();
      if (view == nullptr) continue;
      open.push_back(view->base);
      for (const View::Entry& entry : view->entries) open.push_back(entry.base);
    }
  };
  for (const Block& block : program.blocks) {
    for (const Op& op : block.ops) {
      for (ValueId operand : op.operands) note(operand);
      for (ValueId operand : op.passed_on) note(operand);
    }
    for (ValueId result : block.results) note(result);
  }
  for (ValueId result : program.results) note(result);
  for (ValueId kept : program.kept) note(kept);
  return read;
}

std::string Listed(const std::vector<std::string>& names, std::string_view between = ", ") {
  std::string text = fmt::format(
      "{}",
      fmt::join(names.begin(),
                names.begin() + static_cast<std::ptrdiff_t>(std::min(names.size(), kMaxNamesListed)),
                between));
  if (names.size() > kMaxNamesListed) text += fmt::format(" and {} more", names.size() - kMaxNamesListed);
  return text;
}

}  // namespace

InputSummary SummarizeInputs(std::span<const ParameterLeaf> leaves,
                             std::span<const GlobalArray> arrays, const Program& program,
                             uint64_t seed) {
  InputSummary summary;
  summary.seed = seed;
  const std::vector<bool> read = ReadValues(program);
  for (size_t k = 0; k < leaves.size(); ++k) {
    if (!leaves[k].shape->IsArray()) continue;
    ++summary.parameters;
    const std::string& name = leaves[k].name;
    if (arrays[k].IsRandom()) {
      InputSummary::Random& random = summary.random.emplace_back();
      random.name = name;
      random.values = RandomValues(arrays[k]);
      if (arrays[k].indices != nullptr) DescribeIndices(arrays[k], random);
    }
    if (!arrays[k].converted_from.empty()) {
      summary.converted.push_back(
          {name, arrays[k].converted_from, std::string(DTypeName(leaves[k].shape->dtype()))});
    }
    if (!read[program.parameters[k]]) summary.unused.push_back(name);
  }
  return summary;
}

int64_t InputSummary::WantedDraws() const {
  int64_t draws = 1;
  for (const Random& r : random) draws = std::max(draws, r.draws);
  return draws;
}

std::string ToText(const InputSummary& inputs) {
  std::string text;
  const auto random = static_cast<int64_t>(inputs.random.size());
  std::vector<std::string> which;
  for (const InputSummary::Random& r : inputs.random) {
    // Where all are random it is enough to tell the kinds of values.
    std::string words =
        random == inputs.parameters ? r.values : fmt::format("{} ({})", r.name, r.values);
    if (std::ranges::find(which, words) == which.end()) which.push_back(std::move(words));
  }
  if (random > 0) {
    const std::string share =
        random == inputs.parameters ? "" : fmt::format("{} of {} ", random, inputs.parameters);
    text += fmt::format("inputs        {}random (seed {}): {}\n", share, inputs.seed,
                        Listed(which, "; "));
  }
  for (const InputSummary::Converted& c : inputs.converted) {
    text += fmt::format("inputs        {} is {} in the file, read as {}\n", c.name, c.from, c.to);
  }
  if (!inputs.unused.empty()) {
    text += fmt::format("inputs        no result follows from {}\n", Listed(inputs.unused));
  }
  return text;
}

Json ToJson(const InputSummary& inputs) {
  Json random = Json::Array(), converted = Json::Array();
  for (const InputSummary::Random& r : inputs.random) {
    Json row = {{"name", r.name}, {"values", r.values}};
    if (!r.indexes.empty()) {
      row.Set("range", std::vector<int64_t>{r.low, r.high});
      row.Set("beyond", r.has_beyond);
      row.Set("indexes", r.indexes);
      if (r.value) row.Set("value", *r.value);
    }
    random.Append(std::move(row));
  }
  for (const InputSummary::Converted& c : inputs.converted) {
    converted.Append({{"name", c.name}, {"from", c.from}, {"to", c.to}});
  }
  return {{"parameters", inputs.parameters},
          {"seed", inputs.seed},
          {"random", std::move(random)},
          {"converted", std::move(converted)},
          {"unused", inputs.unused}};
}

}  // namespace gshard::cpu
