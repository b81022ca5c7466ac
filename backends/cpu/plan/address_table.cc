#include "backends/cpu/plan/address_table.h"

#include "backends/cpu/plan/views.h"

namespace gshard::cpu {

const int64_t* AddressTable::Keep(std::vector<int64_t> table) {
  tables_.push_back(std::move(table));
  return tables_.back().data();
}

BufferRef AddressTable::LikeArena(ValueId id, int64_t begin, const DeviceClasses* classes) {
  const Value& v = value(id);
  const KeptInstances& kept = layout_.places.kept();
  BufferRef ref;
  ref.element_bytes = StorageBytes(v.shape->dtype());
  ref.stride = v.bytes;
  const ClassMap* map = program_.classes.MapOf(classes, v.classes);
  if (!kept.is_run(id)) {
    std::vector<int64_t> table(classes->count(), kNotHere);
    for (uint32_t c = 0; c < table.size(); ++c) {
      const uint32_t number = kept.number(id, map != nullptr ? (*map)[c] : c);
      if (number != KeptInstances::kNotKept) table[c] = begin + number * v.bytes;
    }
    ref.table = Keep(std::move(table));
    return ref;
  }
  ref.base = begin - kept.first(id) * v.bytes;
  if (map != nullptr && v.classes->IsUniform()) {
    ref.stride = 0;
  } else if (map != nullptr) {
    ref.map = map->data();
  }
  return ref;
}

BufferRef AddressTable::Arena(ValueId id, const DeviceClasses* classes) {
  const Value& v = value(id);
  if (v.view == nullptr) {
    CheckInternal(layout_.places.IsPlaced(id), "a value without storage is used");
    return LikeArena(id, layout_.places.begin(id), classes);
  }
  BufferRef ref;
  ref.element_bytes = StorageBytes(v.shape->dtype());
  auto [found, inserted] = view_refs_.insert({{id, classes}, ref});
  if (!inserted) return found->second;
  std::vector<int64_t> table(classes->count());
  for (uint32_t c = 0; c < classes->count(); ++c) {
    table[c] = layout_.places.OffsetOf(
        Locate(program_, id, v.classes->class_of(classes->first_device(c))));
  }
  ref.base = table[0];
  ref.stride = table.size() > 1 ? table[1] - table[0] : 0;
  for (size_t c = 1; c < table.size(); ++c) {
    if (table[c] - table[c - 1] != ref.stride) {
      ref.table = Keep(std::move(table));
      break;
    }
  }
  found.value() = ref;
  return ref;
}

BufferRef AddressTable::InChain(ValueId id, const ScheduledStep& step) {
  int64_t offset = 0;
  ValueId base = id;
  std::vector<int64_t> offsets;
  const DeviceClasses* classes = step.chain.classes;
  while (value(base).view != nullptr && !value(base).view->IsTable()) {
    const View& view = *value(base).view;
    offset += view.offset;
    if (!view.offsets.empty()) {
      offsets.resize(classes->count(), 0);
      for (uint32_t c = 0; c < classes->count(); ++c) {
        offsets[c] += view.offsets[value(base).classes->class_of(classes->first_device(c))];
      }
    }
    base = view.base;
  }
  const bool slot =
      value(base).view == nullptr && storage_.storage_class[base] == StorageClass::kSlot;
  if (!slot) return Arena(id, classes);
  BufferRef ref;
  ref.element_bytes = StorageBytes(value(id).shape->dtype());
  ref.space = BufferSpace::kSlot;
  ref.base = layout_.chains.at(&step).offsets.at(base) + offset;
  ref.stride = value(base).bytes;
  if (!offsets.empty()) ref.table = Keep(std::move(offsets));
  return ref;
}

}  // namespace gshard::cpu
