#include "core/check/device_value.h"

#include <algorithm>
#include <map>
#include <numeric>

#include "core/analysis/integer_elements.h"
#include "ir/computation.h"
#include "ir/dims.h"
#include "ir/integer_operation.h"
#include "ir/leaves.h"
#include "ir/op_traits.h"
#include "ir/sharding_algebra.h"

namespace gshard {
namespace {

constexpr int64_t kMaxElements = 64;          // of a value that is computed
constexpr int64_t kMaxKnownElements = 65536;  // of it on all devices

// Is the element order of operand and result the same? A bitcast follows layouts.
bool KeepsElements(const Instruction& x) {
  if (x.opcode() != Opcode::kBitcast) return KeepsOrder(x.opcode());
  return x.shape()->IsArray() && x.operand(0)->shape()->IsArray() &&
         x.shape()->dtype() == x.operand(0)->shape()->dtype() &&
         std::ranges::count_if(x.shape()->dims(), [](int64_t d) { return d > 1; }) <= 1;
}

// Operations on single elements that ElementOf knows.
bool IsElementMove(Opcode opcode) {
  return opcode == Opcode::kBroadcast || opcode == Opcode::kSlice ||
         opcode == Opcode::kDynamicSlice || opcode == Opcode::kConcatenate;
}

const Sharding* PartOf(std::span<const Sharding* const> shardings, size_t i) {
  return i < shardings.size() ? shardings[i] : nullptr;
}

}  // namespace

int64_t DeviceValue::ElementOn(uint32_t device, int64_t at, int64_t count) const {
  if (literal != nullptr) return ElementAsInt64(*literal, at);
  return (*elements)[static_cast<size_t>(classes->class_of(device) * count + at)];
}

int64_t ElementsOf(const Shape* leaf) { return leaf->IsArray() ? leaf->element_count() : 0; }

DeviceLeaves DeviceValueRules::OfParameter(const Shape* shape, const Sharding* sharding) {
  const std::vector<const Shape*> shapes = LeafShapes(shape);
  std::vector<const Sharding*> shardings;
  if (sharding != nullptr) shardings = LeafShardings(shape, sharding);
  DeviceLeaves leaves;
  for (size_t i = 0; i < shapes.size(); ++i) {
    leaves.push_back(Unknown(ClassesOfTiles(shapes[i], PartOf(shardings, i))));
  }
  return leaves;
}

const DeviceClasses* DeviceValueRules::ClassesOfTiles(const Shape* leaf, const Sharding* part) {
  if (part != nullptr && !part->IsManual() && !(part->IsTiled() && leaf->IsArray())) part = nullptr;
  const DeviceClasses*& classes = classes_of_tiles_[part];
  if (classes != nullptr) return classes;
  std::vector<uint32_t> tiles(grid_.partitions);
  if (part != nullptr && part->IsManual()) {
    std::iota(tiles.begin(), tiles.end(), 0);
  } else if (part != nullptr) {
    tiles = TileNumbers(*part, grid_.partitions);
  }
  std::vector<uint64_t> labels(grid_.device_count());
  for (uint32_t d = 0; d < labels.size(); ++d) {
    labels[d] = uint64_t{tiles[d % grid_.partitions]} * grid_.replicas + d / grid_.partitions;
  }
  return classes = table_.Intern(labels);
}

const DeviceClasses* DeviceValueRules::ClassesOf(std::span<const DeviceLeaves* const> operands) {
  const DeviceClasses* classes = table_.Uniform();
  for (const DeviceLeaves* operand : operands) {
    for (const DeviceValue& leaf : *operand) classes = table_.Join(classes, leaf.classes);
  }
  return classes;
}

DeviceLeaves DeviceValueRules::Of(const Instruction& x,
                                  std::span<const DeviceLeaves* const> operands) {
  switch (x.opcode()) {
    case Opcode::kTuple: {
      DeviceLeaves leaves;
      for (const DeviceLeaves* operand : operands) {
        leaves.insert(leaves.end(), operand->begin(), operand->end());
      }
      return leaves;
    }
    case Opcode::kGetTupleElement: {
      const auto begin = operands[0]->begin() + FirstLeafRead(x);
      return {begin, begin + x.shape()->leaf_count()};
    }
    case Opcode::kOptBarrier:
      return *operands[0];
    case Opcode::kPartitionId:
    case Opcode::kReplicaId: {
      std::vector<int64_t> numbers(grid_.device_count());
      for (uint32_t d = 0; d < numbers.size(); ++d) {
        numbers[d] =
            x.opcode() == Opcode::kPartitionId ? d % grid_.partitions : d / grid_.partitions;
      }
      return {ByValue(table_.Distinct(), std::move(numbers), 1)};
    }
    case Opcode::kConstant: {
      const Literal* literal = x.attributes<ConstantAttributes>().literal;
      DeviceLeaves leaves(static_cast<size_t>(x.shape()->leaf_count()), Unknown(table_.Uniform()));
      if (IsIntegral(x.shape()) && !literal->elided) leaves[0].literal = literal;
      return leaves;
    }
    // Each device draws, or is fed, what no other has.
    case Opcode::kRng:
    case Opcode::kInfeed:
    case Opcode::kRecv:
    case Opcode::kRecvDone:
      return DeviceLeaves(static_cast<size_t>(x.shape()->leaf_count()), Unknown(table_.Distinct()));
    default:  // by its elements, below
      break;
  }
  if (KeepsElements(x) && operands[0]->size() == 1) return *operands[0];
  if (x.shape()->IsArray()) {
    DeviceValue value = Evaluated(x, operands);
    if (value.classes != nullptr) return {std::move(value)};
  }
  return DeviceLeaves(static_cast<size_t>(x.shape()->leaf_count()), Unknown(ClassesOf(operands)));
}

// No classes: it cannot be told.
DeviceValue DeviceValueRules::Evaluated(const Instruction& x,
                                        std::span<const DeviceLeaves* const> operands) {
  const DeviceValue none;
  const bool is_iota = x.opcode() == Opcode::kIota;
  const bool can = IsIntegral(x.shape()) && x.shape()->element_count() <= kMaxElements &&
                   (IsIntegerOperation(x.opcode()) || IsElementMove(x.opcode()) || is_iota);
  bool known = can;
  for (size_t i = 0; i < operands.size() && known; ++i) {
    known = operands[i]->size() == 1 && (*operands[i])[0].IsKnown() &&
            IsIntegral(x.operand(static_cast<int64_t>(i))->shape());
  }
  const int64_t count = known ? x.shape()->element_count() : 0;
  const DeviceClasses* classes = known ? ClassesOf(operands) : nullptr;
  if (!known || count * classes->count() > kMaxKnownElements) {
    return x.opcode() == Opcode::kSelect ? Selected(x, operands) : none;
  }
  std::vector<int64_t> elements(static_cast<size_t>(count * classes->count()));
  for (uint32_t c = 0; c < classes->count(); ++c) {
    for (int64_t at = 0; at < count; ++at) {
      elements[static_cast<size_t>(c * count + at)] =
          ElementOf(x, at, classes->first_device(c), operands);
    }
  }
  return ByValue(classes, std::move(elements), count);
}

int64_t DeviceValueRules::ElementOf(const Instruction& x, int64_t at, uint32_t device,
                                    std::span<const DeviceLeaves* const> operands) const {
  auto operand = [&](size_t i, int64_t element) {
    return (*operands[i])[0].ElementOn(
        device, element, x.operand(static_cast<int64_t>(i))->shape()->element_count());
  };
  std::vector<int64_t> index = IndexAt(x.shape()->dims(), at);
  auto from = [&](size_t i, std::span<const int64_t> place) {
    return operand(i, RowMajor(x.operand(static_cast<int64_t>(i))->shape()->dims(), place));
  };
  switch (x.opcode()) {
    case Opcode::kIota:
      return index[static_cast<size_t>(x.attributes<IotaAttributes>().dimension)];
    case Opcode::kBroadcast: {
      std::vector<int64_t> inner;
      for (int64_t dim : x.attributes<DimensionsAttributes>().dimensions) {
        inner.push_back(index[static_cast<size_t>(dim)]);
      }
      return from(0, inner);
    }
    case Opcode::kSlice: {
      const auto& slice = x.attributes<SliceAttributes>();
      for (size_t i = 0; i < index.size(); ++i) {
        index[i] = slice.starts[i] + index[i] * slice.strides[i];
      }
      return from(0, index);
    }
    case Opcode::kDynamicSlice: {
      const auto whole = x.operand(0)->shape()->dims();
      const bool is_list = operands.size() == 2 && x.operand(1)->shape()->rank() == 1;
      for (size_t i = 0; i < index.size(); ++i) {
        const int64_t start = is_list ? operand(1, static_cast<int64_t>(i)) : operand(i + 1, 0);
        const int64_t last = whole[i] - x.shape()->dim(static_cast<int64_t>(i));
        index[i] += std::clamp<int64_t>(start, 0, last);
      }
      return from(0, index);
    }
    case Opcode::kConcatenate: {
      const auto dim = static_cast<size_t>(x.attributes<DimensionsAttributes>().dimensions[0]);
      size_t part = 0;
      for (; index[dim] >= x.operand(static_cast<int64_t>(part))->shape()->dims()[dim]; ++part) {
        index[dim] -= x.operand(static_cast<int64_t>(part))->shape()->dims()[dim];
      }
      return from(part, index);
    }
    default: {
      int64_t in[3] = {};
      for (size_t i = 0; i < operands.size(); ++i) {
        const bool is_scalar = x.operand(static_cast<int64_t>(i))->shape()->rank() == 0;
        in[i] = operand(i, is_scalar ? 0 : at);
      }
      return EvaluateInteger(x, {in, operands.size()});
    }
  }
}

// A known predicate hands one operand on: devices that take the same stay as equal as it is.
DeviceValue DeviceValueRules::Selected(const Instruction& x,
                                       std::span<const DeviceLeaves* const> operands) {
  const DeviceValue& predicate = (*operands[0])[0];
  const Shape* shape = x.operand(0)->shape();
  if (!predicate.IsKnown() || shape->element_count() == 0 ||
      (shape->element_count() > 1 && predicate.literal != nullptr)) {
    return {};
  }
  const int64_t count = shape->element_count();
  std::vector<uint64_t> labels(grid_.device_count());
  for (uint32_t d = 0; d < labels.size(); ++d) {
    const bool truth = predicate.ElementOn(d, 0, count) != 0;
    for (int64_t at = 1; at < count; ++at) {
      if ((predicate.ElementOn(d, at, count) != 0) != truth) return {};
    }
    labels[d] = truth ? (*operands[1])[0].classes->class_of(d)
                      : uint64_t{1} << 32 | (*operands[2])[0].classes->class_of(d);
  }
  return Unknown(table_.Intern(labels));
}

DeviceValue DeviceValueRules::ByValue(const DeviceClasses* classes, std::vector<int64_t> elements,
                                      int64_t count) {
  std::map<std::vector<int64_t>, uint32_t> seen;
  std::vector<uint64_t> label_of(classes->count());
  for (uint32_t c = 0; c < classes->count(); ++c) {
    const auto begin = elements.begin() + c * count;
    label_of[c] = seen.try_emplace(std::vector<int64_t>(begin, begin + count), c).first->second;
  }
  if (seen.size() == classes->count()) {
    return {classes, std::make_shared<const std::vector<int64_t>>(std::move(elements)), nullptr};
  }
  const DeviceClasses* by_value = table_.Merge(classes, label_of);
  std::vector<int64_t> distinct;
  for (uint32_t c = 0; c < by_value->count(); ++c) {
    const auto begin = elements.begin() + classes->class_of(by_value->first_device(c)) * count;
    distinct.insert(distinct.end(), begin, begin + count);
  }
  return {by_value, std::make_shared<const std::vector<int64_t>>(std::move(distinct)), nullptr};
}

DeviceValue DeviceValueRules::Merge(std::span<const uint8_t> mask, const DeviceValue& taken,
                                    const DeviceValue& other, int64_t count) {
  std::vector<uint64_t> labels(grid_.device_count());
  for (uint32_t d = 0; d < labels.size(); ++d) {
    labels[d] =
        mask[d] != 0 ? uint64_t{1} << 32 | taken.classes->class_of(d) : other.classes->class_of(d);
  }
  const DeviceClasses* classes = table_.Intern(labels);
  if (!taken.IsKnown() || !other.IsKnown() || count > kMaxElements ||
      count * classes->count() > kMaxKnownElements) {
    return Unknown(classes);
  }
  std::vector<int64_t> elements;
  for (uint32_t c = 0; c < classes->count(); ++c) {
    const uint32_t device = classes->first_device(c);
    const DeviceValue& from = mask[device] != 0 ? taken : other;
    for (int64_t at = 0; at < count; ++at) elements.push_back(from.ElementOn(device, at, count));
  }
  return ByValue(classes, std::move(elements), count);
}

DeviceValue DeviceValueRules::Widen(const DeviceValue& a, const DeviceValue& b, int64_t count) {
  const DeviceClasses* classes = table_.Join(a.classes, b.classes);
  if (a.literal != nullptr && a.literal == b.literal) return a;
  bool equal = a.IsKnown() && b.IsKnown() && count <= kMaxElements;
  for (uint32_t c = 0; c < classes->count() && equal; ++c) {
    const uint32_t device = classes->first_device(c);
    for (int64_t at = 0; at < count && equal; ++at) {
      equal = a.ElementOn(device, at, count) == b.ElementOn(device, at, count);
    }
  }
  return equal ? a : Unknown(classes);
}

DeviceLeaves DeviceValueRules::OfCollective(const Instruction& x, const CollectiveDevices& devices,
                                            std::span<const DeviceLeaves* const> operands) {
  const bool of_tuples = x.opcode() == Opcode::kAllToAll && operands.size() > 1;
  const bool joined = of_tuples || x.opcode() == Opcode::kRaggedAllToAll;
  // Several operands have one result each; starts of some kinds return the operands, too.
  const size_t leaf_count = static_cast<size_t>(x.shape()->leaf_count());
  const bool returns_operands =
      x.opcode() == Opcode::kAllGatherStart || x.opcode() == Opcode::kCollectivePermuteStart;
  DeviceLeaves leaves;
  if (returns_operands) {
    for (const DeviceLeaves* operand : operands) leaves.push_back((*operand)[0]);
  }
  const DeviceClasses* all = ClassesOf(operands);
  if (x.opcode() == Opcode::kCollectivePermute && operands.size() > leaf_count) {
    // Of slices: what is no one's target stays as it is.
    return {Unknown(table_.Join(all, collectives_.Of(x, devices, *all)))};
  }
  for (size_t i = 0; i < operands.size() && leaves.size() < leaf_count; ++i) {
    const DeviceClasses& operand = joined ? *all : *(*operands[i])[0].classes;
    leaves.push_back(Unknown(collectives_.Of(x, devices, operand)));
  }
  leaves.resize(leaf_count, Unknown(table_.Uniform()));
  return leaves;
}

}  // namespace gshard
