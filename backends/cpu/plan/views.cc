// Recognises values that are parts of other values' buffers.
#include "backends/cpu/plan/views.h"

#include <algorithm>
#include <optional>

#include "backends/cpu/plan/uniformity.h"
#include "ir/literal.h"

namespace gshard::cpu {
namespace {

int64_t TotalBytes(const Value& value) { return value.bytes * value.classes->count(); }

// Bytes from one index to the next along each dim.
std::vector<int64_t> StridesOf(const Shape* shape) {
  std::vector<int64_t> strides(static_cast<size_t>(shape->rank()));
  int64_t stride = StorageBytes(shape->dtype());
  for (size_t i = strides.size(); i-- > 0;) {
    strides[i] = stride;
    stride *= shape->dims()[i];
  }
  return strides;
}

// A box of `sizes` inside `shape` is one run of memory: full dims behind the first cut one, size 1
// before it.
bool IsContiguous(const Shape* shape, std::span<const int64_t> sizes) {
  size_t first = 0;
  while (first < sizes.size() && sizes[first] == 1) ++first;
  for (size_t i = first + 1; i < sizes.size(); ++i) {
    if (sizes[i] != shape->dims()[i]) return false;
  }
  return true;
}

class Views {
 public:
  explicit Views(Program& program) : program_(program), is_parameter_(program.values.size()) {
    for (ValueId parameter : program.parameters) is_parameter_[parameter] = true;
  }

  void VisitBlock(Block& block) {
    for (Op& op : block.ops) {
      switch (op.kind) {
        case OpKind::kKernel:
          if (!value(op.results[0]).IsKnown()) VisitKernel(op);
          break;
        case OpKind::kCollective:
          Collective(op);
          op.passed_on = op.operands;
          // What only passes on reads nothing itself. It stays in the program to be counted.
          if (std::all_of(op.results.begin(), op.results.end(),
                          [&](ValueId result) { return value(result).view != nullptr; })) {
            op.operands.clear();
          }
          break;
        default:
          for (Block* inner : op.blocks) VisitBlock(*inner);
      }
    }
  }

 private:
  Value& value(ValueId id) { return program_.values[id]; }

  // Buffers that stay for the whole run anyway.
  bool IsPinned(ValueId id) {
    const View::Entry entry = Locate(program_, id, 0);
    return entry.base == kNoValue || is_parameter_[entry.base] ||
           program_.values[entry.base].IsKnown();
  }

  void VisitKernel(const Op& op) {
    switch (op.instruction->opcode()) {
      case Opcode::kSlice:
        Slice(op);
        break;
      case Opcode::kDynamicSlice:
        DynamicSlice(op);
        break;
      case Opcode::kSelect:
        Select(op);
        break;
      default:  // makes new elements
        break;
    }
  }

  void Slice(const Op& op) {
    const Instruction& x = *op.instruction;
    const auto& attributes = x.attributes<SliceAttributes>();
    const Shape* operand = x.operand(0)->shape();
    if (!IsContiguous(operand, x.shape()->dims())) return;
    const std::vector<int64_t> strides = StridesOf(operand);
    int64_t offset = 0;
    for (size_t i = 0; i < strides.size(); ++i) {
      if (attributes.strides[i] != 1 && x.shape()->dims()[i] > 1) return;
      offset += attributes.starts[i] * strides[i];
    }
    const Value& base = value(op.operands[0]);
    Value& result = value(op.results[0]);
    if (!IsPinned(op.operands[0]) && result.bytes * 8 < base.bytes) return;
    SetSlice(op.operands[0], result, offset, {});
  }

  void SetSlice(ValueId base, Value& result, int64_t offset, std::vector<int64_t> offsets) {
    auto view = std::make_unique<View>();
    view->base = base;
    view->offset = offset;
    view->offsets = std::move(offsets);
    result.view = std::move(view);
  }

  void DynamicSlice(const Op& op) {
    const Instruction& x = *op.instruction;
    const Shape* operand = x.operand(0)->shape();
    std::span<const int64_t> sizes = x.shape()->dims();
    if (op.operands.size() != sizes.size() + 1 || !IsContiguous(operand, sizes)) return;
    for (size_t i = 1; i < op.operands.size(); ++i) {
      if (!value(op.operands[i]).IsKnown()) return;
    }
    const Value& base = value(op.operands[0]);
    Value& result = value(op.results[0]);
    if (!IsPinned(op.operands[0]) && TotalBytes(result) * 2 < TotalBytes(base)) return;
    const std::vector<int64_t> strides = StridesOf(operand);
    std::vector<int64_t> offsets(result.classes->count(), 0);
    for (size_t i = 0; i < sizes.size(); ++i) {
      const Value& start = value(op.operands[i + 1]);
      // Of the instruction's type: the value may be another type's bits.
      const Shape* index_shape = x.operand(static_cast<int64_t>(i) + 1)->shape();
      const Literal literal{index_shape, false, start.known, {}};
      const int64_t limit = operand->dims()[i] - sizes[i];
      std::vector<int64_t> clamped(start.classes->count());
      for (uint32_t c = 0; c < clamped.size(); ++c) {
        int64_t index = ElementAsInt64(literal, c);
        if (index_shape->dtype() == DType::kU64 && index < 0) index = limit;
        clamped[c] = std::clamp<int64_t>(index, 0, limit);
      }
      for (uint32_t c = 0; c < offsets.size(); ++c) {
        offsets[c] +=
            clamped[start.classes->class_of(result.classes->first_device(c))] * strides[i];
      }
    }
    if (result.classes == base.classes) {
      const bool same = std::all_of(offsets.begin(), offsets.end(),
                                    [&](int64_t offset) { return offset == offsets[0]; });
      if (same) {
        SetSlice(op.operands[0], result, offsets[0], {});
      } else {
        SetSlice(op.operands[0], result, 0, std::move(offsets));
      }
      return;
    }
    auto view = std::make_unique<View>();
    view->entries.reserve(offsets.size());
    for (uint32_t c = 0; c < offsets.size(); ++c) {
      View::Entry entry = EntryOf(op.operands[0], result.classes->first_device(c));
      entry.offset += offsets[c];
      view->entries.push_back(entry);
    }
    result.view = std::move(view);
  }

  View::Entry EntryOf(ValueId id, uint32_t device) {
    return Locate(program_, id, value(id).classes->class_of(device));
  }

  void Select(const Op& op) {
    Value& result = value(op.results[0]);
    if (!result.is_per_device_select) return;
    const ConstantSelect choice = ChoiceOf(program_, op.operands[0]);
    SetTable(result, [&](uint32_t device) {
      return EntryOf(op.operands[choice.OnTrue(device) ? 1 : 2], device);
    });
  }

  // A table with the entry of each class's first device.
  template <typename EntryOfDevice>
  void SetTable(Value& result, EntryOfDevice entry_of) {
    auto view = std::make_unique<View>();
    view->entries.reserve(result.classes->count());
    for (uint32_t c = 0; c < result.classes->count(); ++c) {
      view->entries.push_back(entry_of(result.classes->first_device(c)));
    }
    result.view = std::move(view);
  }

  void Collective(const Op& op) {
    const ResolvedGroups& groups = op.devices->groups;
    const auto& attributes = op.instruction->attributes<CollectiveAttributes>();
    switch (op.instruction->opcode()) {
      case Opcode::kCollectivePermute:
      case Opcode::kCollectivePermuteStart:
        for (size_t k = 0; k < op.results.size(); ++k) {
          SetTable(value(op.results[k]), [&](uint32_t device) {
            const uint32_t source = op.devices->sources[device];
            return source == kNoDevice ? View::Entry{} : EntryOf(op.operands[k], source);
          });
        }
        return;
      case Opcode::kCollectiveBroadcast:
        for (size_t k = 0; k < op.results.size(); ++k) {
          SetTable(value(op.results[k]), [&](uint32_t device) {
            const uint32_t group = groups.group_of[device];
            return group == kNoDevice ? View::Entry{}
                                      : EntryOf(op.operands[k], groups.group(group)[0]);
          });
        }
        return;
      case Opcode::kAllToAll:
        if (attributes.dimension < 0) {
          for (size_t j = 0; j < op.results.size(); ++j) {
            SetTable(value(op.results[j]), [&](uint32_t device) {
              return EntryOf(op.operands[groups.position_of[device]],
                             groups.group(groups.group_of[device])[j]);
            });
          }
          return;
        }
        break;
      case Opcode::kRaggedAllToAll:
        return;
      case Opcode::kAllGather:
      case Opcode::kAllGatherStart:
        AllGather(op);
        return;
      default:  // makes new elements
        break;
    }
    // A group of one hands its operand on.
    if (groups.group_count() == 0 || groups.members.size() != groups.group_count()) return;
    for (size_t k = 0; k < op.results.size(); ++k) {
      SetTable(value(op.results[k]),
               [&](uint32_t device) { return EntryOf(op.operands[k], device); });
    }
  }

  // Shards that lie one after another in memory already are the gathered value, if nothing is in
  // front of the gathered dim.
  void AllGather(const Op& op) {
    const ResolvedGroups& groups = op.devices->groups;
    const auto dimension =
        static_cast<size_t>(op.instruction->attributes<CollectiveAttributes>().dimension);
    for (size_t k = 0; k < op.results.size(); ++k) {
      Value& result = value(op.results[k]);
      const Value& operand = value(op.operands[k]);
      std::span<const int64_t> dims =
          op.instruction->operand(static_cast<int64_t>(k))->shape()->dims();
      const bool front = std::all_of(dims.begin(), dims.begin() + static_cast<ptrdiff_t>(dimension),
                                     [](int64_t size) { return size == 1; });
      if (!front && groups.members.size() != groups.group_count()) continue;
      auto view = std::make_unique<View>();
      for (uint32_t c = 0; c < result.classes->count(); ++c) {
        std::optional<View::Entry> first =
            Adjacent(op.operands[k], operand,
                     groups.group(groups.group_of[result.classes->first_device(c)]));
        if (!first) break;
        view->entries.push_back(*first);
      }
      if (view->entries.size() == result.classes->count()) result.view = std::move(view);
    }
  }

  std::optional<View::Entry> Adjacent(ValueId id, const Value& operand,
                                      std::span<const uint32_t> members) {
    const View::Entry first = EntryOf(id, members[0]);
    if (members.size() > 1 && first.base == kNoValue) return std::nullopt;
    for (size_t i = 1; i < members.size(); ++i) {
      const View::Entry entry = EntryOf(id, members[i]);
      if (entry.base != first.base) return std::nullopt;
      const int64_t base_bytes = value(first.base).bytes;
      const int64_t distance =
          (static_cast<int64_t>(entry.base_class) - first.base_class) * base_bytes + entry.offset -
          first.offset;
      if (distance != static_cast<int64_t>(i) * operand.bytes) return std::nullopt;
    }
    return first;
  }

  Program& program_;
  std::vector<bool> is_parameter_;
};

}  // namespace

View::Entry Locate(const Program& program, ValueId value, uint32_t c) {
  int64_t offset = 0;
  for (;;) {
    const Value& v = program.values[value];
    if (v.view == nullptr) return {value, c, offset};
    if (v.view->IsTable()) {
      View::Entry entry = v.view->entries[c];
      entry.offset += offset;
      return entry;
    }
    offset += v.view->offset + (v.view->offsets.empty() ? 0 : v.view->offsets[c]);
    value = v.view->base;
  }
}

void FindViews(Program& program) { Views(program).VisitBlock(*program.entry); }

}  // namespace gshard::cpu
