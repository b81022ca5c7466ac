#include "core/transforms/expand/dynamic_root_expander.h"

#include <algorithm>
#include <string_view>
#include <vector>

#include "core/analysis/device_groups.h"
#include "core/transforms/rewriter.h"

namespace gshard {
namespace {

bool HasDynamicRoot(const Instruction& x) {
  return x.opcode() == Opcode::kCollectiveBroadcast &&
         x.attributes<CollectiveAttributes>().has_dynamic_root == "true";
}

DType UnsignedOfWidth(int64_t bits) {
  switch (bits) {
    case 8:
      return DType::kU8;
    case 16:
      return DType::kU16;
    case 32:
      return DType::kU32;
    default:
      return DType::kU64;
  }
}

class DynamicRootExpansion {
 public:
  DynamicRootExpansion(Builder& builder, const Instruction& x, const DeviceGrid& grid,
                       const ResolvedGroups& groups)
      : builder_(builder), x_(x), grid_(grid), groups_(groups) {}

  Instruction* Run() {
    Instruction* root =
        builder_.Convert(builder_.Reshape(x_.operand(x_.operand_count() - 1), {}), DType::kS32);
    is_root_ = builder_.Compare(ComparisonDirection::kEq, Position(), root);
    std::vector<Instruction*> results;
    for (Instruction* value : x_.operands().first(static_cast<size_t>(x_.operand_count()) - 1)) {
      results.push_back(FromRoot(value));
    }
    return results.size() == 1 ? results[0] : builder_.Tuple(results);
  }

 private:
  // This device's place in its group; -1 in none.
  Instruction* Position() {
    std::vector<int64_t> positions(grid_.device_count(), -1);
    for (uint32_t device = 0; device < grid_.device_count(); ++device) {
      if (groups_.group_of[device] != kNoDevice) positions[device] = groups_.position_of[device];
    }
    Instruction* replica =
        builder_.Add(Opcode::kReplicaId, {}, builder_.context().Scalar(DType::kU32));
    Instruction* device =
        builder_.Add(builder_.Multiply(replica, builder_.ScalarInt(DType::kU32, grid_.partitions)),
                     builder_.PartitionId());
    constexpr int64_t kOne[] = {1};
    return builder_.Reshape(
        builder_.DynamicSlice(builder_.IntegerTable(DType::kS32, positions), {&device, 1}, kOne),
        {});
  }

  Instruction* FromRoot(Instruction* value) {
    const Shape* shape = value->shape();
    if (IsComplex(shape->dtype())) {
      Instruction* real = FromRoot(builder_.Add(Opcode::kReal, {value}));
      Instruction* imag = FromRoot(builder_.Add(Opcode::kImag, {value}));
      return builder_.Add(Opcode::kComplex, {real, imag});
    }
    const int64_t bits = DTypeBits(shape->dtype());
    const bool is_float = IsFloat(shape->dtype()) && bits >= 8;
    const Shape* word_shape = builder_.context().WithDType(shape, UnsignedOfWidth(bits));
    Instruction* words =
        is_float ? builder_.Add(Opcode::kBitcastConvert, {value}, word_shape) : value;
    Instruction* mine = builder_.Select(builder_.BroadcastScalar(is_root_, shape->dims()), words,
                                        builder_.Zero(words->shape()));
    Instruction* all = builder_.AllReduce(
        mine, Groups(), builder_.BinaryComputation(Opcode::kOr, words->shape()->dtype()));
    if (!named_) all->set_name(x_.name());  // reports name what the user wrote
    named_ = true;
    return is_float ? builder_.Add(Opcode::kBitcastConvert, {all}, shape) : all;
  }

  // Those of the broadcast; who is in none is alone.
  ReplicaGroups Groups() const {
    std::vector<std::vector<int64_t>> lists;
    for (size_t g = 0; g < groups_.group_count(); ++g) {
      lists.emplace_back(groups_.group(g).begin(), groups_.group(g).end());
    }
    for (uint32_t device = 0; device < grid_.device_count(); ++device) {
      if (groups_.group_of[device] == kNoDevice) lists.push_back({device});
    }
    return ReplicaGroups::FromLists(std::move(lists));
  }

  Builder& builder_;
  const Instruction& x_;
  const DeviceGrid& grid_;
  const ResolvedGroups& groups_;
  Instruction* is_root_ = nullptr;
  bool named_ = false;
};

}  // namespace

Expected<bool> ExpandDynamicRoots(Module& module, const DeviceGrid& grid) {
  bool changed = false;
  const std::vector<Computation*> all(module.computations().begin(), module.computations().end());
  for (Computation* computation : all) {
    const std::vector<Instruction*> old(computation->instructions().begin(),
                                        computation->instructions().end());
    if (std::none_of(old.begin(), old.end(), [](auto* x) { return HasDynamicRoot(*x); })) continue;
    changed = true;
    Rewriter rewriter(module);
    rewriter.Begin(computation);
    for (Instruction* x : old) {
      rewriter.RedirectOperands(x);
      rewriter.builder().set_origin(x);
      if (!HasDynamicRoot(*x)) {
        rewriter.Keep(x);
        continue;
      }
      auto groups = ResolveGroups(*x, grid);
      if (!groups) return Fail(groups.error());
      rewriter.Replace(x, DynamicRootExpansion(rewriter.builder(), *x, grid, *groups).Run());
    }
    rewriter.Finish();
  }
  return changed;
}

}  // namespace gshard
