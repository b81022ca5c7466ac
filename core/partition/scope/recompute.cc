#include "core/partition/scope/recompute.h"

#include <algorithm>

#include "ir/dims.h"

namespace gshard {

namespace {

constexpr size_t kMaxRecomputed = 32;  // operations

class Recomputation {
 public:
  Recomputation(PartitionScope& scope, double budget) : scope_(scope), budget_(budget) {}

  bool Again(const PartitionedValue& value, const MeshLayout* layout) {
    const Instruction* source = value.source;
    if (source == nullptr || !IsElementwise(source->opcode()) || !source->called().empty() ||
        scope_.run().value_of[source->id()] != &value || done_.size() == kMaxRecomputed) {
      return false;
    }
    done_.push_back(&value);
    cost_ += Repeated(value, layout) * scope_.run().options.bytes_per_repeated_flop;
    if (cost_ >= budget_) return false;
    return std::ranges::all_of(source->operands(), [&](const Instruction* x) {
      const PartitionedValue* operand = scope_.run().value_of[x->id()];
      const bool is_pointwise =
          x->shape()->IsArray() && (x->shape()->rank() == 0 || SameDims(x->shape(), value.shape));
      return is_pointwise && IsThere(*operand, LayoutOfOperand(scope_, *operand, layout));
    });
  }

 private:
  bool IsThere(const PartitionedValue& value, const MeshLayout* layout) {
    if (value.required_layout == layout || std::ranges::find(done_, &value) != done_.end() ||
        scope_.IsAvailableWithoutCommunication(value, layout)) {
      return true;
    }
    if (value.maker == nullptr) return Again(value, layout);
    return IsThere(*value.payload, value.maker->payload_layout(scope_, value, layout));
  }

  // Elements that a device computes beyond those that it has.
  double Repeated(const PartitionedValue& value, const MeshLayout* layout) const {
    auto elements = [&](const MeshLayout* x) {
      return static_cast<double>(LocalShape(scope_.context(), value.shape, x)->element_count());
    };
    const double had = value.variants.empty() ? 0 : elements(value.variants[0].layout);
    return std::max(0.0, elements(layout) - had);
  }

  PartitionScope& scope_;
  double budget_;
  double cost_ = 0;
  std::vector<const PartitionedValue*> done_;
};

}  // namespace

bool IsCheaperToRecompute(PartitionScope& scope, const PartitionedValue& value,
                          const MeshLayout* layout, double bytes) {
  return layout->unreduced.empty() && Recomputation(scope, bytes).Again(value, layout);
}

const MeshLayout* LayoutOfOperand(PartitionScope& scope, const PartitionedValue& operand,
                                  const MeshLayout* layout) {
  const bool is_scalar = operand.shape->rank() == 0 && layout->rank() != 0;
  return is_scalar ? scope.layouts().ReplicatedLike(layout, 0) : layout;
}

}  // namespace gshard
