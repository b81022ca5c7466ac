// Greedy grouping in program order. Open groups never depend on one another: an operation that
// reads a group without being able to join it closes it.
#include "backends/cpu/plan/fusion.h"

#include <tsl/robin_map.h>

#include <algorithm>
#include <cstring>

#include "backends/cpu/elementwise/epilogue_kernel.h"
#include "backends/cpu/elementwise/produced_reduce.h"
#include "backends/cpu/elementwise/program_kernel.h"
#include "ir/literal.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// A group that nothing joined for so many operations is closed: its operands would stay alive too
// long.
constexpr size_t kMaxIdleOps = 24;
constexpr size_t kMaxMembers = 128;

class Fusion {
 public:
  explicit Fusion(Program& program)
      : program_(program),
        uses_(program.values.size(), 0),
        group_of_(program.values.size(), kNone) {
    CountUses();
  }

  Expected<void> VisitBlock(ScheduledBlock& block) {
    for (ScheduledStep& step : block.steps) {
      if (step.op == nullptr) {
        GSHARD_TRY(VisitChain(step.chain));
      }
      for (ScheduledBlock* inner : step.blocks) {
        GSHARD_TRY(VisitBlock(*inner));
      }
    }
    return {};
  }

 private:
  static constexpr uint32_t kNone = UINT32_MAX;

  struct Group {
    int64_t elements = 0;
    std::vector<const Op*> ops;
    size_t last_joined = 0;
    bool open = true;
  };

  void Use(ValueId value) {
    ++uses_[value];
    if (program_.values[value].view == nullptr) return;
    for (ValueId base : BasesOf(program_, value)) ++uses_[base];
  }
  void CountUses() {
    for (const Block& block : program_.blocks) {
      for (const Op& op : block.ops) {
        for (ValueId operand : op.operands) Use(operand);
      }
      for (ValueId result : block.results) Use(result);
    }
    for (ValueId result : program_.results) Use(result);
    for (ValueId kept : program_.kept) Use(kept);
  }

  static bool IsFusable(const Op& op) {
    return op.kind == OpKind::kKernel && op.results.size() == 1 && op.kernel->RangeGranule() == 1 &&
           CanFuseElementwise(*op.instruction) && op.instruction->opcode() != Opcode::kConstant;
  }

  Expected<void> VisitChain(Chain& chain) {
    groups_.clear();
    done_.clear();
    products_.clear();
    for (size_t i = 0; i < chain.ops.size(); ++i) {
      for (uint32_t g = first_open_; g < groups_.size(); ++g) {
        if (groups_[g].open && groups_[g].last_joined + kMaxIdleOps < i) {
          GSHARD_TRY(Close(g));
        }
      }
      const Op* op = chain.ops[i];
      const int64_t elements = IsFusable(*op) ? op->instruction->shape()->element_count() : 0;
      uint32_t joins = kNone;
      std::vector<uint32_t> blocking;
      const std::vector<const Op*> producers = TakeProducers(*op);
      for (const Op* producer : producers) {
        for (ValueId operand : producer->operands) {
          if (group_of_[operand] != kNone) blocking.push_back(group_of_[operand]);
        }
      }
      for (size_t k = 0; k < op->operands.size(); ++k) {
        const ValueId operand = op->operands[k];
        if (program_.values[operand].view != nullptr) {
          for (ValueId base : BasesOf(program_, operand)) {
            if (group_of_[base] != kNone) blocking.push_back(group_of_[base]);
          }
          continue;
        }
        const uint32_t group = group_of_[operand];
        if (group == kNone) continue;
        const bool elementwise = elements > 0 && groups_[group].elements == elements &&
                                 op->kernel->IsElementwiseIn(static_cast<int64_t>(k));
        if (elementwise) {
          joins = group;
        } else {
          blocking.push_back(group);
        }
      }
      for (uint32_t group : blocking) {
        if (!groups_[group].open) continue;
        GSHARD_TRY(Close(group));
      }
      if (!producers.empty()) {
        GSHARD_TRY(FuseReduce(*op, producers));
        continue;
      }
      if (elements == 0) {
        if (IsProduct(*op)) products_[op->results[0]] = done_.size();
        done_.push_back(op);
        continue;
      }
      if (joins == kNone || !groups_[joins].open) joins = OpenGroupOf(elements);
      if (groups_[joins].ops.size() >= kMaxMembers) {
        GSHARD_TRY(Close(joins));
        joins = OpenGroupOf(elements);
      }
      groups_[joins].ops.push_back(op);
      groups_[joins].last_joined = i;
      group_of_[op->results[0]] = joins;
    }
    for (uint32_t g = first_open_; g < groups_.size(); ++g) {
      if (!groups_[g].open) continue;
      GSHARD_TRY(Close(g));
    }
    first_open_ = 0;
    std::erase(done_, nullptr);  // products that went into their users
    chain.ops = std::move(done_);
    return {};
  }

  uint32_t OpenGroupOf(int64_t elements) {
    for (uint32_t g = first_open_; g < groups_.size(); ++g) {
      if (groups_[g].open && groups_[g].elements == elements) return g;
    }
    groups_.push_back({elements, {}, 0, true});
    return static_cast<uint32_t>(groups_.size() - 1);
  }

  Expected<void> Close(uint32_t index) {
    Group& group = groups_[index];
    group.open = false;
    while (first_open_ < groups_.size() && !groups_[first_open_].open) ++first_open_;
    for (const Op* op : group.ops) group_of_[op->results[0]] = kNone;
    if (group.ops.empty()) return {};
    const ValueId product = ProductOf(group);
    if (group.ops.size() == 1 && product == kNoValue) {
      done_.push_back(group.ops[0]);
      return {};
    }
    return Fuse(group, product);
  }

  // A dot or convolution that is worth being finished panel by panel.
  bool IsProduct(const Op& op) const {
    const Opcode opcode = op.instruction->opcode();
    if ((opcode != Opcode::kDot && opcode != Opcode::kConvolution) || op.results.size() != 1) {
      return false;
    }
    const Shape* shape = program_.values[op.results[0]].shape;
    return program_.values[op.results[0]].view == nullptr &&
           EpilogueKernel::Pays(*op.kernel, shape->element_count(), StorageBytes(shape->dtype()));
  }

  // The largest product that only this group reads, element by element; kNoValue: none.
  ValueId ProductOf(const Group& group) const {
    tsl::robin_map<ValueId, uint32_t> inside;
    ValueId largest = kNoValue;
    for (const Op* op : group.ops) {
      for (size_t k = 0; k < op->operands.size(); ++k) {
        const ValueId operand = op->operands[k];
        if (products_.find(operand) == products_.end() ||
            !op->kernel->IsElementwiseIn(static_cast<int64_t>(k)) ||
            program_.values[operand].shape->element_count() != group.elements ||
            ++inside[operand] != uses_[operand]) {
          continue;
        }
        if (largest == kNoValue || FlopsOf(operand) > FlopsOf(largest)) largest = operand;
      }
    }
    return largest;
  }
  int64_t FlopsOf(ValueId product) const { return done_[products_.at(product)]->kernel->Flops(); }

  // What all elements of a known value are, on all devices: better inside the program than an
  // operand. Empty if they differ.
  std::span<const std::byte> InlineConstant(ValueId id) const {
    const Value& value = program_.values[id];
    if (!value.IsKnown() || !value.shape->IsArray() || !value.classes->IsUniform()) return {};
    const auto bytes = static_cast<size_t>(StorageBytes(value.shape->dtype()));
    const std::span<const std::byte> data = value.known.first(static_cast<size_t>(value.bytes));
    if (data.empty()) return {};
    // Equal to itself, an element further.
    const size_t rest = data.size() - bytes;
    return std::memcmp(data.data(), data.data() + bytes, rest) == 0 ? data.first(bytes)
                                                                    : data.first(0);
  }
  bool IsInlineConstant(ValueId id) const { return !InlineConstant(id).empty(); }

  // Operations as members of one program, and what they read from outside.
  struct Members {
    std::vector<FusedMember> list;
    std::vector<const Shape*> shapes;  // of the externals
    std::vector<ValueId> externals;
    tsl::robin_map<ValueId, int32_t> numbers;  // of members, or -1 - external
    tsl::robin_map<ValueId, uint32_t> inside;  // uses by the members
  };
  Members Collect(std::span<const Op* const> ops) const {
    Members members;
    for (const Op* op : ops) {
      FusedMember member{op->instruction, {}, {}, {}};
      for (ValueId operand : op->operands) {
        ++members.inside[operand];
        auto known = members.numbers.find(operand);
        if (known == members.numbers.end()) {
          int32_t number = 0;
          if (const auto element = InlineConstant(operand); !element.empty()) {
            number = static_cast<int32_t>(members.list.size());
            members.list.push_back({nullptr, {}, program_.values[operand].shape->dtype(), element});
          } else {
            number = -1 - static_cast<int32_t>(members.externals.size());
            members.shapes.push_back(program_.values[operand].shape);
            members.externals.push_back(operand);
          }
          known = members.numbers.insert({operand, number}).first;
        }
        member.operands.push_back(known->second);
      }
      members.numbers[op->results[0]] = static_cast<int32_t>(members.list.size());
      members.list.push_back(std::move(member));
    }
    return members;
  }

  void Emit(Op fused, std::unique_ptr<Kernel> kernel) {
    fused.kernel = kernel.get();
    program_.fused_kernels.push_back(std::move(kernel));
    program_.fused_ops.push_back(std::move(fused));
    done_.push_back(&program_.fused_ops.back());
  }

  // Takes out of the open groups what only the inputs of this reduction are made of, in order.
  // Empty: not worth it.
  std::vector<const Op*> TakeProducers(const Op& reduce) {
    if (reduce.kind != OpKind::kKernel ||
        !ProducedReduceKernel::Pays(*reduce.instruction, *reduce.kernel)) {
      return {};
    }
    tsl::robin_map<ValueId, uint32_t> wanted;  // uses by the reduction and its producers
    uint32_t from = kNone;
    for (size_t k = 0; k < reduce.operands.size() / 2; ++k) {
      const ValueId input = reduce.operands[k];
      if (++wanted[input] > 1) return {};
      if (group_of_[input] != kNone) from = group_of_[input];
    }
    if (from == kNone) return {};
    Group& group = groups_[from];
    std::vector<const Op*> producers, rest;
    tsl::robin_map<ValueId, bool> arrays;  // that are read instead
    for (size_t i = group.ops.size(); i-- > 0;) {
      const Op* op = group.ops[i];
      auto found = wanted.find(op->results[0]);
      if (found == wanted.end() || found->second != uses_[op->results[0]]) {
        rest.push_back(op);
        continue;
      }
      producers.push_back(op);
      arrays.erase(op->results[0]);
      for (size_t k = 0; k < op->operands.size(); ++k) {
        ++wanted[op->operands[k]];
        if (op->kernel->IsElementwiseIn(static_cast<int64_t>(k))) arrays[op->operands[k]] = true;
      }
    }
    // Storing one array and reading it again costs as much as reading three.
    constexpr size_t kMaxArrays = 2;
    if (arrays.size() > kMaxArrays) return {};
    std::reverse(producers.begin(), producers.end());
    std::reverse(rest.begin(), rest.end());
    group.ops = std::move(rest);
    for (const Op* op : producers) group_of_[op->results[0]] = kNone;
    return producers;
  }

  Expected<void> FuseReduce(const Op& reduce, std::span<const Op* const> producers) {
    Members members = Collect(producers);
    ProducedReduceKernel::Arrays arrays;
    Op fused;
    fused.kind = OpKind::kKernel;
    fused.instruction = reduce.instruction;
    fused.operands = members.externals;
    fused.results = reduce.results;
    const size_t inputs = reduce.operands.size() / 2;
    const Shape* input = reduce.instruction->operand(0)->shape();
    arrays.rows = program_.values[reduce.results[0]].shape->element_count();
    arrays.length = input->element_count() / arrays.rows;
    for (const Shape* shape : members.shapes) {
      arrays.operands.push_back(StorageBytes(shape->dtype()));
    }
    std::vector<int32_t> outputs;
    for (size_t k = 0; k < inputs; ++k) {
      const ValueId value = reduce.operands[k];
      arrays.inputs.push_back(StorageBytes(program_.values[value].shape->dtype()));
      auto number = members.numbers.find(value);
      const bool produced =
          number != members.numbers.end() && number->second >= 0 && !IsInlineConstant(value);
      arrays.produced.push_back(produced ? static_cast<int32_t>(outputs.size()) : -1);
      if (produced) {
        outputs.push_back(number->second);
      } else {
        fused.operands.push_back(value);
      }
    }
    fused.operands.insert(fused.operands.end(),
                          reduce.operands.begin() + static_cast<ptrdiff_t>(inputs),
                          reduce.operands.end());
    auto program = GSHARD_TRY(
        MakeFusedElementwise(members.list, members.shapes, outputs, input->element_count()));
    Emit(std::move(fused), std::make_unique<ProducedReduceKernel>(
                               *reduce.kernel, std::move(program), std::move(arrays)));
    return {};
  }

  Expected<void> Fuse(const Group& group, ValueId product) {
    Members members = Collect(group.ops);
    Op fused;
    fused.kind = OpKind::kKernel;
    fused.instruction = group.ops.back()->instruction;
    fused.operands = std::move(members.externals);
    std::vector<int32_t> outputs;
    for (const Op* op : group.ops) {
      const ValueId result = op->results[0];
      auto used = members.inside.find(result);
      if (used != members.inside.end() && used->second == uses_[result]) continue;
      outputs.push_back(members.numbers[result]);
      fused.results.push_back(result);
    }
    auto kernel = MakeFusedElementwise(members.list, members.shapes, outputs, group.elements);
    if (!kernel) return Fail(kernel.error());
    if (product != kNoValue) *kernel = Finish(product, std::move(*kernel), members.shapes, fused);
    Emit(std::move(fused), std::move(*kernel));
    return {};
  }

  // The product and the group in one kernel, where the group reads the product element by element.
  std::unique_ptr<Kernel> Finish(ValueId product, std::unique_ptr<Kernel> program,
                                 std::span<const Shape* const> externals, Op& fused) {
    const auto through = static_cast<size_t>(
        std::find(fused.operands.begin(), fused.operands.end(), product) - fused.operands.begin());
    if (!program->IsElementwiseIn(static_cast<int64_t>(through))) return program;
    const Op*& made_by = done_[products_.at(product)];
    EpilogueKernel::Arrays arrays;
    const Shape* shape = program_.values[product].shape;
    arrays.count = shape->element_count();
    arrays.product_bytes = StorageBytes(shape->dtype());
    for (const Shape* external : externals) {
      arrays.operands.push_back(StorageBytes(external->dtype()));
    }
    for (ValueId result : fused.results) {
      arrays.results.push_back(StorageBytes(program_.values[result].shape->dtype()));
    }
    fused.operands.erase(fused.operands.begin() + static_cast<ptrdiff_t>(through));
    fused.operands.insert(fused.operands.begin(), made_by->operands.begin(),
                          made_by->operands.end());
    auto kernel = std::make_unique<EpilogueKernel>(*made_by->kernel, made_by->operands.size(),
                                                   std::move(program), through, std::move(arrays));
    made_by = nullptr;
    products_.erase(product);
    return kernel;
  }

  Program& program_;
  std::vector<uint32_t> uses_;      // by value
  std::vector<uint32_t> group_of_;  // by value: the open group that makes it
  std::vector<Group> groups_;       // of the chain being visited
  uint32_t first_open_ = 0;
  std::vector<const Op*> done_;
  tsl::robin_map<ValueId, size_t> products_;  // results of IsProduct: where in done_
};

}  // namespace

Expected<void> FuseElementwise(Program& program, Schedule& schedule) {
  return Fusion(program).VisitBlock(*schedule.entry);
}

}  // namespace gshard::cpu
