#include "core/partition/scope/strategy.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "core/partition/scope/partition_scope.h"
#include "core/partition/scope/strategy_search.h"

namespace gshard {

Labels Labels::Pointwise(int64_t operand_count, int64_t rank) {
  Labels labels;
  labels.labels.resize(static_cast<size_t>(rank));
  std::vector<int> dims(static_cast<size_t>(rank));
  std::iota(dims.begin(), dims.end(), 0);
  labels.operands.assign(static_cast<size_t>(operand_count), dims);
  labels.results = {dims};
  return labels;
}

namespace {

using StrategyKey = std::vector<int64_t>;

struct StrategyKeyHash {
  size_t operator()(const StrategyKey& key) const {
    size_t hash = key.size();
    for (int64_t word : key) {
      hash = (hash ^ static_cast<size_t>(word)) * 0x9E3779B97F4A7C15ull;
      hash ^= hash >> 32;
    }
    return hash;
  }
};

int64_t Word(const void* pointer) { return reinterpret_cast<int64_t>(pointer); }

// False: the key names an instruction, so that it holds for its module only.
bool AppendValue(StrategyKey& key, const PartitionedValue& value) {
  key.push_back(Word(value.shape->bare()));
  key.push_back(2 * static_cast<int64_t>(value.variants.size()) + (value.required_layout ? 1 : 0));
  for (const PartitionedValue::Variant& variant : value.variants) {
    key.push_back(Word(variant.layout));
  }
  if (value.required_layout != nullptr) key.push_back(Word(value.required_layout));
  if (value.maker == nullptr) return true;
  key.push_back(Word(value.maker));
  key.push_back(Word(value.layout));
  if (value.payload == nullptr || value.payload->shape->rank() == 0) return true;
  // What the payload costs depends on how the operation uses it: a convert as it is.
  const Opcode opcode = value.source->opcode();
  if (opcode == Opcode::kBroadcast) {
    const auto dims = value.source->attributes<DimensionsAttributes>().dimensions;
    key.insert(key.end(), dims.begin(), dims.end());
  } else if (opcode != Opcode::kConvert) {
    key.push_back(Word(value.source));
  }
  const bool is_of_payload = AppendValue(key, *value.payload);
  return is_of_payload && (opcode == Opcode::kBroadcast || opcode == Opcode::kConvert);
}

// The usual case, without a search: the operands lie already where the wanted results put them.
std::optional<Strategy> InPlace(PartitionScope& scope, const Labels& labels,
                                std::span<PartitionedValue* const> operands,
                                std::span<const MeshLayout* const> wanted) {
  std::vector<const AxisList*> cut(labels.labels.size(), nullptr);
  for (size_t r = 0; r < wanted.size(); ++r) {
    if (wanted[r]->kind != MeshLayout::Kind::kTiled || !wanted[r]->unreduced.empty() ||
        wanted[r]->manual != wanted[0]->manual || wanted[r]->order != wanted[0]->order) {
      return std::nullopt;
    }
    for (size_t d = 0; d < wanted[r]->dims.size(); ++d) {
      int label = labels.results[r][d];
      const AxisList& axes = wanted[r]->dims[d];
      if (label == Labels::kWhole) {
        if (!axes.empty()) return std::nullopt;
        continue;
      }
      const Labels::Label& kind = labels.labels[static_cast<size_t>(label)];
      if (!axes.empty() && (kind.divides || kind.max_tiles > 0 || kind.bytes_if_cut > 0)) {
        return std::nullopt;
      }
      const AxisList*& known = cut[static_cast<size_t>(label)];
      if (known != nullptr && *known != axes) return std::nullopt;
      known = &axes;
    }
  }
  Strategy strategy;
  for (size_t i = 0; i < operands.size(); ++i) {
    const std::vector<int>& dims = labels.operands[i];
    auto axes_of = [&](size_t d) -> const AxisList& {
      if (dims[d] == Labels::kWhole) return NoAxes();
      const AxisList* axes = cut[static_cast<size_t>(dims[d])];
      return axes == nullptr ? NoAxes() : *axes;
    };
    const MeshLayout* found = nullptr;
    for (const PartitionedValue::Variant& variant : operands[i]->variants) {
      const MeshLayout* layout = variant.layout;
      bool fits = layout->kind == MeshLayout::Kind::kTiled && layout->unreduced.empty() &&
                  layout->manual == wanted[0]->manual &&
                  (layout->order == wanted[0]->order || layout->TileCount() == 1);
      for (size_t d = 0; fits && d < dims.size(); ++d) fits = layout->dims[d] == axes_of(d);
      if (fits) {
        found = layout;
        break;
      }
    }
    if (found == nullptr) {
      if (operands[i]->maker == nullptr) return std::nullopt;
      std::vector<AxisList> axes;
      for (size_t d = 0; d < dims.size(); ++d) axes.push_back(axes_of(d));
      found = scope.layouts().WithDims(wanted[0], std::move(axes));
      if (!scope.IsAvailableWithoutCommunication(*operands[i], found)) return std::nullopt;
    }
    strategy.operands.push_back(found);
  }
  strategy.results.assign(wanted.begin(), wanted.end());
  for (const AxisList* axes : cut) strategy.cut.push_back(axes == nullptr ? NoAxes() : *axes);
  return strategy;
}

}  // namespace

struct StrategyTable::Impl {
  using Strategies = tsl::robin_map<StrategyKey, std::unique_ptr<Strategy>, StrategyKeyHash>;
  StrategyKey key;
  Strategies strategies;
  Strategies of_this_run;  // whose keys name instructions
};

StrategyTable::StrategyTable() : impl_(std::make_unique<Impl>()) {}
StrategyTable::~StrategyTable() = default;
void StrategyTable::BeginRun() { impl_->of_this_run.clear(); }

const Strategy& StrategyTable::Choose(PartitionScope& scope, const Labels& labels,
                                      std::span<PartitionedValue* const> operands,
                                      std::span<const Shape* const> results,
                                      std::span<const MeshLayout* const> wanted) {
  StrategyKey& key = impl_->key;
  key.clear();
  for (const Labels::Label& label : labels.labels) {
    key.push_back((label.summed ? 1 : 0) + (label.divides ? 2 : 0) +
                  (label.divides_slices ? 4 : 0) + 8 * label.max_tiles);
    key.push_back(label.groups);
    key.push_back(static_cast<int64_t>(label.bytes_if_cut));
  }
  key.push_back(4 * static_cast<int64_t>(labels.combiner) + (labels.placed_by_operands ? 1 : 0) +
                (labels.sums_leave_loop ? 2 : 0));
  key.push_back(static_cast<int64_t>(labels.flops));
  key.push_back(static_cast<int64_t>(labels.slices));
  bool holds_for_others = true;
  for (size_t i = 0; i < operands.size(); ++i) {
    key.insert(key.end(), labels.operands[i].begin(), labels.operands[i].end());
    holds_for_others &= AppendValue(key, *operands[i]);
    size_t first = FirstOfSame(operands, i);
    if (first != i) key.push_back(static_cast<int64_t>(first));
  }
  for (size_t i = 0; i < results.size(); ++i) {
    key.insert(key.end(), labels.results[i].begin(), labels.results[i].end());
    key.push_back(Word(results[i]->bare()));
    key.push_back(Word(wanted[i]));
  }
  Impl::Strategies& strategies = holds_for_others ? impl_->strategies : impl_->of_this_run;
  auto found = strategies.find(key);
  if (found == strategies.end()) {
    std::optional<Strategy> strategy = InPlace(scope, labels, operands, wanted);
    if (!strategy) strategy = CheapestStrategy(scope, labels, operands, results, wanted);
    found = strategies.emplace(StrategyKey(key), std::make_unique<Strategy>(std::move(*strategy)))
                .first;
  }
  return *found->second;
}

const Strategy& ChooseStrategy(PartitionScope& scope, const Labels& labels,
                               std::span<PartitionedValue* const> operands,
                               std::span<const Shape* const> results,
                               std::span<const MeshLayout* const> wanted) {
  return scope.run().tables.strategies.Choose(scope, labels, operands, results, wanted);
}

}  // namespace gshard
