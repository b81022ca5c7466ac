// Element-for-element reads. See in_place.h.

#include "core/cost/memory/in_place.h"

#include <algorithm>
#include <charconv>

#include "core/analysis/kernels/aliases.h"
#include "core/cost/memory/values_in_order.h"
#include "ir/op_traits.h"

namespace gshard {
namespace {

// How a value of the kernel is read from the result: a set of these.
enum Reading : uint8_t { kSameIndex = 1, kSliced = 2, kOtherwise = 4 };

// Is element i of the result of elements i of the operands?
bool KeepsPlaces(const Instruction* x) {
  const Opcode opcode = x->opcode();
  return IsElementwise(opcode) || KeepsOrder(opcode) || opcode == Opcode::kMap || MovesNothing(*x);
}

// Walks a kernel from its root, noting how each value is read.
class KernelReadings {
 public:
  explicit KernelReadings(const std::function<bool(const Instruction*)>& is_input)
      : is_input_(is_input) {}

  void Visit(const Instruction* value, Reading reading) {
    if (pending_.capacity() == 0) pending_.reserve(8);
    pending_.push_back({value, reading});
    while (!pending_.empty()) {
      auto [x, how] = pending_.back();
      pending_.pop_back();
      uint8_t& known = readings_[x];
      if ((known & how) != 0) continue;
      known = static_cast<uint8_t>(known | how);
      if (!is_input_(x)) VisitOperands(x, how);
    }
  }

  // Inputs read at the result's index only, slices at the place of an update allowed if `sliced`.
  std::vector<OperandLeaf> Inputs(bool sliced) const {
    std::vector<OperandLeaf> inputs;
    uint8_t allowed = sliced ? kSameIndex | kSliced : kSameIndex;
    for (const auto& [x, reading] : readings_.entries()) {
      if (is_input_(x) && (reading & kSameIndex) != 0 && (reading | allowed) == allowed)
        inputs.push_back({x, 0});
    }
    return inputs;
  }

 private:
  void VisitOperands(const Instruction* x, Reading how) {
    bool keeps = KeepsPlaces(x);
    for (int64_t i = 0; i < x->operand_count(); ++i) {
      Reading next = kOtherwise;
      if (keeps) {
        next = how;
      } else if (x->opcode() == Opcode::kDynamicSlice && i == 0) {
        next = kSliced;
      }
      pending_.push_back({x->operand(i), next});
    }
  }

  const std::function<bool(const Instruction*)>& is_input_;
  ValuesInOrder<uint8_t> readings_;
  std::vector<std::pair<const Instruction*, Reading>> pending_;
};

const Instruction* ThroughBitcasts(const Instruction* x,
                                   const std::function<bool(const Instruction*)>& is_input) {
  while (!is_input(x) && (x->opcode() == Opcode::kBitcast || x->opcode() == Opcode::kReshape ||
                          x->opcode() == Opcode::kCopy)) {
    x = x->operand(0);
  }
  return x;
}

std::vector<OperandLeaf> OneOperand(const Instruction* root, int64_t operand) {
  if (operand >= root->operand_count()) return {};
  return {{root->operand(operand), 0}};
}

std::vector<OperandLeaf> UpdatedArray(const Instruction* update,
                                      const std::function<bool(const Instruction*)>& is_input) {
  KernelReadings readings(is_input);
  const Instruction* array = ThroughBitcasts(update->operand(0), is_input);
  // Computed on the fly: then the result is an array of its own.
  if (!is_input(array)) return {};
  readings.Visit(array, kSameIndex);
  for (int64_t i = 1; i < update->operand_count(); ++i)
    readings.Visit(update->operand(i), kOtherwise);
  return readings.Inputs(/*sliced=*/true);
}

}  // namespace

std::vector<OperandLeaf> InPlaceInputs(const Instruction* root, int64_t leaf,
                                       const std::function<bool(const Instruction*)>& is_input) {
  switch (root->opcode()) {
    case Opcode::kDynamicUpdateSlice:
      return UpdatedArray(root, is_input);
    case Opcode::kScatter:
    case Opcode::kSort:
    case Opcode::kSetDimensionSize:
    case Opcode::kCholesky:
      return OneOperand(root, leaf);
    case Opcode::kTriangularSolve:
      return OneOperand(root, 1);
    default:  // elementwise operations, below
      break;
  }
  if (!KeepsPlaces(root)) return {};
  const Instruction* moved = ThroughBitcasts(root, is_input);
  if (!is_input(moved) && moved->opcode() == Opcode::kDynamicUpdateSlice)
    return UpdatedArray(moved, is_input);
  KernelReadings readings(is_input);
  for (const Instruction* operand : root->operands()) readings.Visit(operand, kSameIndex);
  return readings.Inputs(/*sliced=*/false);
}

bool ReadsReductionOf(const Instruction* array, const Instruction* root,
                      const std::function<bool(const Instruction*)>& is_input) {
  constexpr size_t kMaxValues = 64;
  std::vector<const Instruction*> values = {root};  // of the kernel, then those reduced
  std::vector<const Instruction*> reduced;
  for (size_t i = 0; i < values.size() && i < kMaxValues; ++i) {
    for (const Instruction* operand : values[i]->operands()) {
      if (values[i]->opcode() == Opcode::kBroadcast) {
        while (operand->opcode() == Opcode::kConvert || operand->opcode() == Opcode::kReshape) {
          operand = operand->operand(0);
        }
        if (operand->opcode() == Opcode::kReduce) reduced.push_back(operand->operand(0));
      } else if (!is_input(operand)) {
        values.push_back(operand);
      }
    }
  }
  for (size_t i = 0; i < reduced.size() && i < kMaxValues; ++i) {
    if (reduced[i] == array) return true;
    if (!KeepsPlaces(reduced[i])) continue;
    reduced.insert(reduced.end(), reduced[i]->operands().begin(), reduced[i]->operands().end());
  }
  return false;
}

const Instruction* AliasedOperand(const Instruction* call, std::string_view aliasing,
                                  int64_t leaf) {
  // {{}: (0, {}), {1}: (2, {})}: the verifier has read it already.
  auto number = [&](size_t& at) {
    int64_t value = -1;
    auto [end, error] =
        std::from_chars(aliasing.data() + at, aliasing.data() + aliasing.size(), value);
    if (error == std::errc()) at = static_cast<size_t>(end - aliasing.data());
    return value;
  };
  size_t at = 1;
  while ((at = aliasing.find('{', at)) != std::string_view::npos) {
    ++at;
    int64_t output = aliasing[at] == '}' ? 0 : number(at);
    bool nested = at < aliasing.size() && aliasing[at] == ',';
    at = aliasing.find('(', at);
    if (at == std::string_view::npos) break;
    ++at;
    int64_t operand = number(at);
    at = aliasing.find(')', at);
    if (at == std::string_view::npos) break;
    if (!nested && output == leaf && operand >= 0 && operand < call->operand_count() &&
        call->operand(operand)->shape()->leaf_count() == 1) {
      return call->operand(operand);
    }
  }
  return nullptr;
}

}  // namespace gshard
