#include "ir/proto/instruction_proto.h"

#include <algorithm>
#include <iterator>

#include "ir/proto/wire.h"

namespace gshard::proto {
namespace {

// Of fields by number, apart from those that nearly every instruction has, which Read knows.

// Strings and messages.
struct ViewField {
  uint32_t number;
  std::string_view InstructionProto::*view;
  bool InstructionProto::*has = nullptr;
};
using P = InstructionProto;
constexpr ViewField kViews[] = {
    {8, &P::literal, &P::has_literal},
    {11, &P::fusion_kind},
    {15, &P::window},
    {16, &P::convolution_dims},
    {21, &P::padding},
    {22, &P::outfeed_config},
    {27, &P::infeed_config},
    {28, &P::target},
    {29, &P::outfeed_shape, &P::has_outfeed_shape},
    {30, &P::dot_dims, &P::has_dot_dims},
    {33, &P::gather_dims},
    {40, &P::sharding, &P::has_sharding},
    {43, &P::backend_config},
    {48, &P::scatter_dims},
    {51, &P::precision},
    {54, &P::domain_exit},
    {55, &P::domain_entry},
    {59, &P::triangular_solve},
    {61, &P::replication},
    {62, &P::cholesky},
    {63, &P::comparison_direction},
    {72, &P::comparison_type},
    {79, &P::async_thread},
    {87, &P::group_list, &P::has_group_list},
    {88, &P::origin},
    {90, &P::ragged_dims},
    {91, &P::accuracy},
    {92, &P::iota_groups, &P::has_iota_groups},
    {93, &P::mesh_groups, &P::has_mesh_groups},
    {102, &P::comparison_order},
};
struct IntegerField {
  uint32_t number;
  int64_t InstructionProto::*value;
};
constexpr IntegerField kIntegers[] = {
    {9, &P::parameter_number},
    {13, &P::tuple_index},
    {18, &P::exponent_bits},
    {19, &P::mantissa_bits},
    {23, &P::distribution},
    {25, &P::feature_index},
    {26, &P::channel_id},
    {31, &P::fft_type},
    {50, &P::feature_group_count},
    {58, &P::batch_group_count},
    {66, &P::delta},
    {70, &P::rng_algorithm},
    {75, &P::padding_type},
    {76, &P::schedule},
    {77, &P::api_version},
    {80, &P::prefetch_index},
    {81, &P::k},
    {95, &P::num_carries},
    {96, &P::associativity},
    {97, &P::convolution_kind},
};
struct BooleanField {
  uint32_t number;
  bool InstructionProto::*value;
};
constexpr BooleanField kBooleans[] = {
    {47, &P::is_host_transfer},
    {56, &P::constrain_layout},
    {60, &P::is_stable},
    {65, &P::has_side_effect},
    {67, &P::indices_are_sorted},
    {69, &P::unique_indices},
    {71, &P::use_global_device_ids},
    {85, &P::largest},
    {89, &P::is_composite},
    {94, &P::is_reverse},
    {100, &P::has_dynamic_root},
};
struct ListField {
  uint32_t number;
  std::vector<int64_t> InstructionProto::*values;
};
constexpr ListField kLists[] = {
    {14, &P::dimensions},         {20, &P::dynamic_slice_sizes}, {32, &P::fft_length},
    {34, &P::gather_slice_sizes}, {37, &P::control_ids},         {38, &P::called_ids},
};
struct MessagesField {
  uint32_t number;
  std::vector<std::string_view> InstructionProto::*messages;
};
constexpr MessagesField kMessages[] = {
    {17, &P::slice_dims},     {49, &P::groups},   {52, &P::source_target_pairs},
    {57, &P::operand_shapes}, {74, &P::aliasing},
};

// Which of the tables has a field, and where in it.
enum Kind : uint8_t { kNone, kView, kInteger, kBoolean, kList, kMessage };
struct Slot {
  Kind kind = kNone;
  uint8_t index = 0;
};
constexpr uint32_t kSlotCount = 103;

struct Slots {
  Slot of[kSlotCount] = {};
  constexpr Slots() {
    uint8_t i = 0;
    for (const auto& field : kViews) of[field.number] = {kView, i++};
    i = 0;
    for (const auto& field : kIntegers) of[field.number] = {kInteger, i++};
    i = 0;
    for (const auto& field : kBooleans) of[field.number] = {kBoolean, i++};
    i = 0;
    for (const auto& field : kLists) of[field.number] = {kList, i++};
    i = 0;
    for (const auto& field : kMessages) of[field.number] = {kMessage, i++};
  }
};
constexpr Slots kSlots;

// Fields whose content says nothing of what the program computes, or says again what others say.
constexpr uint32_t kLeftOut[] = {24, 82, 99};

bool HasContent(const FieldReader& field) {
  return field.IsBytes() ? !field.bytes().empty() : field.value() != 0;
}

}  // namespace

// Few of the other fields: those are made empty, not all.
void InstructionProto::Clear() {
  name = opcode = shape = metadata = frontend_attributes = statistics = {};
  id = 0;
  operand_ids.clear();
  static const InstructionProto kEmpty;
  for (const uint8_t number : others_) {
    const Slot slot = kSlots.of[number];
    switch (slot.kind) {
      case kNone:
        break;
      case kView: {
        const ViewField& view = kViews[slot.index];
        this->*view.view = {};
        if (view.has != nullptr) this->*view.has = false;
        break;
      }
      case kInteger:
        this->*kIntegers[slot.index].value = kEmpty.*kIntegers[slot.index].value;
        break;
      case kBoolean:
        this->*kBooleans[slot.index].value = false;
        break;
      case kList:
        (this->*kLists[slot.index].values).clear();
        break;
      case kMessage:
        (this->*kMessages[slot.index].messages).clear();
        break;
    }
  }
  others_.clear();
  unknown.clear();
  epsilon = 0;
}

bool InstructionProto::Read(std::string_view bytes) {
  Clear();
  FieldReader field(bytes);
  bool ok = true;
  while (ok && field.Next()) {
    switch (field.number()) {
      case 1:
        name = field.bytes();
        break;
      case 2:
        opcode = field.bytes();
        break;
      case 3:
        shape = field.bytes();
        break;
      case 7:
        metadata = field.bytes();
        break;
      case 35:
        id = field.integer();
        break;
      case 36:
        ok = field.AppendTo(operand_ids);
        break;
      case 68:
        frontend_attributes = field.bytes();
        break;
      case 82:
        statistics = field.bytes();
        break;
      default:
        ok = ReadOther(field);
        break;
    }
  }
  return ok && field.ok();
}

bool InstructionProto::ReadOther(FieldReader field) {
  if (field.number() == 24) epsilon = field.real();
  const Slot slot = field.number() < kSlotCount ? kSlots.of[field.number()] : Slot{};
  if (slot.kind == kNone && HasContent(field) &&
      std::ranges::find(kLeftOut, field.number()) == std::end(kLeftOut) &&
      std::ranges::find(unknown, field.number()) == unknown.end()) {
    unknown.push_back(field.number());
  }
  if (slot.kind != kNone) others_.push_back(static_cast<uint8_t>(field.number()));
  switch (slot.kind) {
    case kNone:
      break;
    case kView: {
      const ViewField& view = kViews[slot.index];
      this->*view.view = field.bytes();
      if (view.has != nullptr) this->*view.has = true;
      break;
    }
    case kInteger:
      this->*kIntegers[slot.index].value = field.integer();
      break;
    case kBoolean:
      this->*kBooleans[slot.index].value = field.boolean();
      break;
    case kList:
      return field.AppendTo(this->*kLists[slot.index].values);
    case kMessage:
      (this->*kMessages[slot.index].messages).push_back(field.bytes());
      break;
  }
  return true;
}

}  // namespace gshard::proto
