// Places of equal shape for the values of several stages.
//
// SPMD arrays have one shape on all devices. The values of each stage (or boundary) are matched by
// shape: slot s holds the j-th value of its shape of every stage that has so many. Alike stages
// fill all slots; where some have values that others lack, kinds of values say which are meant.
#ifndef GSHARD_CORE_PIPELINE_EMIT_SLOTS_H_
#define GSHARD_CORE_PIPELINE_EMIT_SLOTS_H_

#include <cstdint>
#include <functional>
#include <map>
#include <unordered_map>
#include <vector>

#include "ir/instruction.h"

namespace gshard::pipeline {

template <typename Value>
class SlotTable {
 public:
  // Values of one shape share slots only if they are of the same kind.
  using Kind = std::function<int64_t(const Value&)>;

  // lists[k]: the values of stage k with their shapes, in an order that alike stages share. No
  // `kind_of`: all are of one kind.
  explicit SlotTable(const std::vector<std::vector<std::pair<Value, const Shape*>>>& lists,
                     const Kind& kind_of = nullptr) {
    using ShapeAndKind = std::pair<const Shape*, int64_t>;
    std::map<std::pair<ShapeAndKind, size_t>, size_t> slots;
    for (const auto& list : lists) {
      std::map<ShapeAndKind, size_t> used;
      std::map<Value, size_t> of;
      std::vector<std::pair<size_t, Value>> at;
      for (const auto& [value, shape] : list) {
        const ShapeAndKind of_slot = {shape->bare(), kind_of ? kind_of(value) : 0};
        auto [it, fresh] = slots.try_emplace({of_slot, used[of_slot]++}, shapes_.size());
        if (fresh) shapes_.push_back(shape->bare());
        of[value] = it->second;
        at.emplace_back(it->second, value);
      }
      slot_of_.push_back(std::move(of));
      values_.push_back(std::move(at));
    }
  }
  SlotTable() = default;

  size_t size() const { return shapes_.size(); }
  const Shape* shape(size_t slot) const { return shapes_[slot]; }
  const std::vector<const Shape*>& shapes() const { return shapes_; }
  size_t SlotOf(size_t k, const Value& value) const { return slot_of_[k].at(value); }
  bool Has(size_t k, const Value& value) const { return slot_of_[k].count(value) != 0; }
  // (slot, value) of stage k, in the order of its list.
  const std::vector<std::pair<size_t, Value>>& values(size_t k) const { return values_[k]; }
  size_t lists() const { return values_.size(); }

 private:
  std::vector<const Shape*> shapes_;
  std::vector<std::map<Value, size_t>> slot_of_;
  std::vector<std::vector<std::pair<size_t, Value>>> values_;
};

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_SLOTS_H_
