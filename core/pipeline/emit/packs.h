// Values of unlike stages as flat pieces.
//
// By slots.h a value has a place on every stage, which holds zeros on stages without a value of its
// shape. For shapes that few stages have this wastes memory. Instead each stage's values of one
// element type are one array, one after another, padded to the longest stage's:
//
//   stage 0   a f32[3,2]   b f32[4]     a a a a a a b b b b
//   stage 1   c f32[7]                  c c c c c c c . . .      f32[10] on each device
#ifndef GSHARD_CORE_PIPELINE_EMIT_PACKS_H_
#define GSHARD_CORE_PIPELINE_EMIT_PACKS_H_

#include <algorithm>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/pipeline/emit/slots.h"
#include "ir/context.h"

namespace gshard::pipeline {

// lists[k]: the values of stage k with their shapes.
template <typename Value>
using StageLists = std::vector<std::vector<std::pair<Value, const Shape*>>>;

template <typename Value>
class PackTable {
 public:
  struct Place {
    size_t pack = 0;
    int64_t offset = 0;  // in elements
    const Shape* shape = nullptr;
  };

  PackTable() = default;
  PackTable(const StageLists<Value>& lists, Context& context) {
    std::map<DType, size_t> packs;
    std::vector<int64_t> longest;
    for (const auto& list : lists) {
      std::map<size_t, int64_t> end;
      auto& places = places_.emplace_back();
      for (const auto& [value, shape] : list) {
        auto [it, fresh] = packs.try_emplace(shape->dtype(), longest.size());
        if (fresh) longest.push_back(0), types_.push_back(shape->dtype());
        int64_t& offset = end[it->second];
        places.emplace_back(value, Place{it->second, offset, shape->bare()});
        offset += shape->element_count();
        longest[it->second] = std::max(longest[it->second], offset);
      }
    }
    for (size_t i = 0; i < longest.size(); ++i) {
      const int64_t dims[] = {longest[i]};
      shapes_.push_back(context.Array(types_[i], dims));
    }
  }

  size_t size() const { return shapes_.size(); }
  const Shape* shape(size_t pack) const { return shapes_[pack]; }
  const std::vector<const Shape*>& shapes() const { return shapes_; }
  size_t lists() const { return places_.size(); }
  // Returns the places of stage k's values, in the order of its list.
  const std::vector<std::pair<Value, Place>>& places(size_t k) const { return places_[k]; }
  // Returns the place of a value of stage k; null if the value is in no pack.
  const Place* Find(size_t k, const Value& value) const {
    if (k >= places_.size()) return nullptr;
    for (const auto& [other, place] : places_[k]) {
      if (other == value) return &place;
    }
    return nullptr;
  }

 private:
  std::vector<DType> types_;
  std::vector<const Shape*> shapes_;
  std::vector<std::vector<std::pair<Value, Place>>> places_;
};

// Takes the values out of `lists`, and returns them, whose slot is filled on no more than half of
// the stages, if `may_go`. The slots of all others are empty on fewer stages than they are filled
// on.
template <typename Value>
StageLists<Value> TakeUnlike(StageLists<Value>& lists,
                             const std::function<bool(const Value&, const Shape*)>& may_go) {
  const SlotTable<Value> slots(lists);
  std::vector<size_t> filled(slots.size(), 0);
  for (size_t k = 0; k < lists.size(); ++k) {
    for (const auto& [slot, value] : slots.values(k)) ++filled[slot];
  }
  StageLists<Value> unlike(lists.size());
  for (size_t k = 0; k < lists.size(); ++k) {
    std::erase_if(lists[k], [&](const auto& entry) {
      const bool goes = 2 * filled[slots.SlotOf(k, entry.first)] <= lists.size() &&
                        may_go(entry.first, entry.second);
      if (goes) unlike[k].push_back(entry);
      return goes;
    });
  }
  return unlike;
}

}  // namespace gshard::pipeline

#endif  // GSHARD_CORE_PIPELINE_EMIT_PACKS_H_
