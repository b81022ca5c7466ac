// The analysis: one walk in order, loops until stable.
#include "backends/cpu/plan/uniformity.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>
#include <tsl/robin_set.h>

#include <algorithm>
#include <cstring>
#include <string>
#include <string_view>

#include "backends/cpu/memory/memory.h"
#include "backends/cpu/ops/kernel_table.h"
#include "backends/cpu/plan/index_observer.h"
#include "core/analysis/collective_classes.h"
#include "ir/attribute_equality.h"
#include "ir/equality.h"
#include "ir/hash.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// Results of at most this size are computed while planning when all operands are known.
constexpr int64_t kKnownInstanceBytes = 1024;
constexpr int64_t kKnownTotalBytes = int64_t{1} << 20;
// Work limit of one such computation, in operand bytes over all classes.
constexpr int64_t kKnownOperandBytes = int64_t{64} << 20;

// Chains hold operations with kernels; what a probe does is up to whoever runs the chain.
const Kernel& ProbeKernel() {
  class NoKernel final : public Kernel {
   public:
    void Run(ConstBuffers, Buffers, Scratch&) const override {}
  };
  static const NoKernel kernel;
  return kernel;
}

// An operation on known values. Equal ones have equal results.
struct KnownOperation {
  const Op* op = nullptr;
  std::vector<const std::byte*> operands;

  bool operator==(const KnownOperation& other) const {
    const Instruction &a = *op->instruction, &b = *other.op->instruction;
    return operands == other.operands && a.shape() == b.shape() &&
           std::ranges::equal(a.operands(), b.operands(), {}, &Instruction::shape,
                              &Instruction::shape) &&
           SameOperation(a, b);
  }
};

struct KnownOperationHash {
  size_t operator()(const KnownOperation& x) const {
    size_t hash = HashPointer(HashOfAttributes(*x.op->instruction), x.op->instruction->shape());
    for (const std::byte* operand : x.operands) hash = HashPointer(hash, operand);
    return hash;
  }
};

class Uniformity {
 public:
  explicit Uniformity(Program& program)
      : program_(program), table_(program.classes), collectives_(program.classes) {}

  Expected<void> AnalyzeBlock(Block& block) {
    for (Op& op : block.ops) {
      GSHARD_TRY(Analyze(op));
    }
    return {};
  }

 private:
  Value& value(ValueId id) { return program_.values[id]; }
  const DeviceClasses* ClassesOf(ValueId id) { return program_.values[id].classes; }

  Expected<void> Analyze(Op& op) {
    switch (op.kind) {
      case OpKind::kKernel:
        return AnalyzeKernel(op);
      case OpKind::kCollective:
        return AnalyzeCollective(op);
      case OpKind::kWhile:
        return AnalyzeWhile(op);
      case OpKind::kConditional:
        return AnalyzeConditional(op);
      case OpKind::kRngState:
        value(op.results[0]).classes = table_.Uniform();
        return {};
      case OpKind::kProbe:
        op.kernel = &ProbeKernel();
        value(op.results[0]).classes = ClassesOf(op.operands[0]);
        return {};
    }
    throw InternalError("op kind");
  }

  Expected<void> MakeKernel(Op& op) {
    const Instruction& x = *op.instruction;
    if (program_.kernels.size() <= x.id()) {
      program_.kernels.resize(program_.module->instruction_limit());
    }
    std::unique_ptr<Kernel>& kernel = program_.kernels[x.id()];
    if (kernel == nullptr) {
      KernelFactory factory = KernelFactoryOf(x.opcode());
      if (factory == nullptr) {
        return Fail(program_.module->ErrorAt(
            &x, "E-RUN-OPCODE", fmt::format("{} cannot be executed", OpcodeName(x.opcode()))));
      }
      auto made = factory(x);
      if (!made) {
        Diagnostic error = made.error();
        if (error.file.empty()) {
          std::string hint = std::move(error.hint);
          error = program_.module->ErrorAt(&x, error.code, error.message);
          error.hint = std::move(hint);
        }
        return Fail(error);
      }
      kernel = std::move(*made);
      IndexObserver* const observer = program_.index_observer;
      if (observer != nullptr && observer->Observes(x)) {
        kernel = ObservedKernel(std::move(kernel), x, *observer);
      }
    }
    op.kernel = kernel.get();
    return {};
  }

  Expected<void> AnalyzeKernel(Op& op) {
    if (op.kernel == nullptr) {
      GSHARD_TRY(MakeKernel(op));
    }
    if (value(op.results[0]).IsKnown()) return {};
    const DeviceClasses* classes = table_.Uniform();
    bool known = op.instruction->opcode() != Opcode::kRng;
    int64_t operand_bytes = 0;
    for (ValueId operand : op.operands) {
      const Value& v = value(operand);
      classes = table_.Join(classes, v.classes);
      known &= v.IsKnown();
      operand_bytes += v.bytes;
    }
    int64_t result_bytes = 0;
    for (ValueId result : op.results) {
      value(result).classes = classes;
      result_bytes += value(result).bytes;
    }
    const int64_t count = classes->count();
    if (ReadsOnlyItsResultSize(op.instruction->opcode())) operand_bytes = result_bytes;
    if (known && result_bytes <= kKnownInstanceBytes && result_bytes * count <= kKnownTotalBytes &&
        operand_bytes * count <= kKnownOperandBytes) {
      Evaluate(op, classes);
      return {};
    }
    if (op.instruction->opcode() == Opcode::kBroadcast && value(op.operands[0]).IsKnown() &&
        value(op.operands[0]).shape->IsScalar()) {
      value(op.results[0]).splat = op.operands[0];
    }
    if (op.instruction->opcode() == Opcode::kSelect) AnalyzeSelect(op);
    return {};
  }

  static bool ReadsOnlyItsResultSize(Opcode opcode) {
    return opcode == Opcode::kDynamicSlice || opcode == Opcode::kSlice ||
           opcode == Opcode::kGather || opcode == Opcode::kIota;
  }

  // A select whose predicate is one known truth per device hands one operand on: devices that take
  // the same operand stay as equal as that operand is.
  void AnalyzeSelect(const Op& op) {
    Value& result = value(op.results[0]);
    result.is_per_device_select = false;
    const ConstantSelect choice = ChoiceOf(program_, op.operands[0]);
    if (choice.predicate == nullptr) return;
    const DeviceClasses* on_true = ClassesOf(op.operands[1]);
    const DeviceClasses* on_false = ClassesOf(op.operands[2]);
    std::vector<uint64_t> labels(result.classes->count());
    for (uint32_t c = 0; c < labels.size(); ++c) {
      const uint32_t d = result.classes->first_device(c);
      labels[c] =
          choice.OnTrue(d) ? on_true->class_of(d) : (uint64_t{1} << 32) | on_false->class_of(d);
    }
    const DeviceClasses* classes = table_.Merge(result.classes, labels);
    if (classes->count() >= result.classes->count()) return;
    result.classes = classes;
    result.is_per_device_select = true;
  }

  // Where a known value lies; small constants that are equal lie at one place.
  const std::byte* PlaceOf(ValueId id) {
    constexpr int64_t kSmall = 64;
    const Value& known = value(id);
    if (!known.classes->IsUniform() || known.bytes > kSmall) return known.known.data();
    const std::string_view text(reinterpret_cast<const char*>(known.known.data()),
                                static_cast<size_t>(known.bytes));
    return small_constants_.try_emplace(text, known.known.data()).first->second;
  }

  // The partitioner makes offsets and masks anew for every instruction that needs them: what was
  // computed once is not computed again.
  void Evaluate(const Op& op, const DeviceClasses* classes) {
    KnownOperation known{&op, {}};
    for (ValueId operand : op.operands) known.operands.push_back(PlaceOf(operand));
    const auto [found, is_new] = known_operations_.insert(std::move(known));
    if (is_new) return Compute(op, classes);
    for (size_t k = 0; k < op.results.size(); ++k) {
      const Value& same = value(found->op->results[k]);
      value(op.results[k]).classes = same.classes;
      value(op.results[k]).known = same.known;
    }
  }

  // Runs the kernel once per class and gives each result the classes of equal bytes.
  void Compute(const Op& op, const DeviceClasses* classes) {
    const uint32_t count = classes->count();
    std::vector<std::vector<const std::byte*>> items(op.operands.size());
    std::vector<BatchOperand> operands(op.operands.size());
    for (size_t k = 0; k < op.operands.size(); ++k) {
      const Value& operand = value(op.operands[k]);
      items[k].resize(count);
      for (uint32_t c = 0; c < count; ++c) {
        const uint32_t from = operand.classes->class_of(classes->first_device(c));
        items[k][c] = operand.known.data() + static_cast<int64_t>(from) * operand.bytes;
      }
      operands[k] = {items[k].data(), count == 1 ? 0 : BatchOperand::kUneven};
    }
    std::vector<std::vector<std::byte>> data(op.results.size());
    std::vector<BatchResult> results(op.results.size());
    for (size_t k = 0; k < op.results.size(); ++k) {
      const int64_t bytes = value(op.results[k]).bytes;
      data[k].resize(static_cast<size_t>(std::max<int64_t>(bytes * count, 1)));
      results[k] = {data[k].data(), bytes};
    }
    op.kernel->RunBatch(count, operands, results, scratch_);
    scratch_.Rewind({});
    for (size_t k = 0; k < op.results.size(); ++k) {
      SetKnown(op.results[k], classes, std::move(data[k]));
    }
  }

  void SetKnown(ValueId id, const DeviceClasses* classes, std::vector<std::byte> data) {
    const auto bytes = static_cast<size_t>(value(id).bytes);
    if (classes->IsUniform()) {
      program_.SetKnown(id, classes, std::move(data));
      return;
    }
    std::vector<uint64_t> class_label(classes->count());
    tsl::robin_map<std::string_view, uint32_t> seen;
    for (uint32_t c = 0; c < classes->count(); ++c) {
      std::string_view text(reinterpret_cast<const char*>(data.data()) + c * bytes, bytes);
      class_label[c] = seen.insert({text, c}).first->second;
    }
    if (seen.size() == classes->count()) {  // no two are equal
      program_.SetKnown(id, classes, std::move(data));
      return;
    }
    const DeviceClasses* by_value = table_.Merge(classes, class_label);
    std::vector<std::byte> distinct(std::max<size_t>(bytes * by_value->count(), 1));
    for (uint32_t c = 0; c < by_value->count() && bytes > 0; ++c) {
      std::memcpy(distinct.data() + c * bytes,
                  data.data() + classes->class_of(by_value->first_device(c)) * bytes, bytes);
    }
    program_.SetKnown(id, by_value, std::move(distinct));
  }

  Expected<void> AnalyzeCollective(Op& op) {
    if (op.devices == nullptr) {
      auto resolved = GSHARD_TRY(program_.collectives.Of(*op.instruction));
      op.devices = resolved;
    }
    const Opcode opcode = op.instruction->opcode();
    if (opcode == Opcode::kAllToAll &&
        op.instruction->attributes<CollectiveAttributes>().dimension < 0) {
      return AnalyzeTupleAllToAll(op);
    }
    if (opcode == Opcode::kRaggedAllToAll) {
      const DeviceClasses* classes = table_.Uniform();
      for (ValueId operand : op.operands) classes = table_.Join(classes, ClassesOf(operand));
      value(op.results[0]).classes = collectives_.Of(*op.instruction, *op.devices, *classes);
      return {};
    }
    for (size_t k = 0; k < op.results.size(); ++k) {
      value(op.results[k]).classes =
          collectives_.Of(*op.instruction, *op.devices, *ClassesOf(op.operands[k]));
    }
    return {};
  }

  // Result j of the member at position k comes from member j's operand k.
  Expected<void> AnalyzeTupleAllToAll(Op& op) {
    const ResolvedGroups& groups = op.devices->groups;
    std::vector<uint64_t> labels(table_.device_count());
    for (size_t j = 0; j < op.results.size(); ++j) {
      for (size_t g = 0; g < groups.group_count(); ++g) {
        std::span<const uint32_t> members = groups.group(g);
        if (members.size() != op.operands.size()) {
          return Fail(
              program_.module->ErrorAt(op.instruction, "E-RUN-GROUPS",
                                       fmt::format("all-to-all of {} operands in groups of {}",
                                                   op.operands.size(), members.size())));
        }
        for (size_t k = 0; k < members.size(); ++k) {
          labels[members[k]] =
              (uint64_t{op.operands[k]} << 32) | ClassesOf(op.operands[k])->class_of(members[j]);
        }
      }
      value(op.results[j]).classes = table_.Intern(labels);
    }
    return {};
  }

  // Carried values start as their initial values do and get finer until the body keeps them.
  Expected<void> AnalyzeWhile(Op& op) {
    for (size_t i = 0; i < op.results.size(); ++i) {
      value(op.results[i]).classes = ClassesOf(op.operands[i]);
    }
    for (;;) {
      GSHARD_TRY(AnalyzeBlock(*op.blocks[0]));
      GSHARD_TRY(AnalyzeBlock(*op.blocks[1]));
      const DeviceClasses* predicate = ClassesOf(op.blocks[0]->results[0]);
      bool changed = false;
      for (size_t i = 0; i < op.results.size(); ++i) {
        Value& carried = value(op.results[i]);
        const DeviceClasses* join = table_.Join(carried.classes, predicate);
        join = table_.Join(join, ClassesOf(op.blocks[1]->results[i]));
        changed |= join != carried.classes;
        carried.classes = join;
      }
      if (!changed) return {};
    }
  }

  Expected<void> AnalyzeConditional(Op& op) {
    for (Block* branch : op.blocks) {
      GSHARD_TRY(AnalyzeBlock(*branch));
    }
    for (size_t i = 0; i < op.results.size(); ++i) {
      const DeviceClasses* classes = ClassesOf(op.operands[0]);
      for (Block* branch : op.blocks) {
        classes = table_.Join(classes, ClassesOf(branch->results[i]));
      }
      value(op.results[i]).classes = classes;
    }
    return {};
  }

  Program& program_;
  DeviceClassTable& table_;
  CollectiveClasses collectives_;
  tsl::robin_map<std::string_view, const std::byte*> small_constants_;
  tsl::robin_set<KnownOperation, KnownOperationHash> known_operations_;
  BumpScratch scratch_;
};

}  // namespace

ConstantSelect ChoiceOf(const Program& program, ValueId predicate) {
  const Value& value = program.values[predicate];
  if (value.splat != kNoValue) return {&program.values[value.splat]};
  if (!value.IsKnown() || value.bytes == 0) return {};
  for (size_t i = 0; i < value.known.size(); ++i) {
    const size_t first = i / static_cast<size_t>(value.bytes) * static_cast<size_t>(value.bytes);
    if (value.known[i] != value.known[first]) return {};
  }
  return {&value};
}

Expected<void> AnalyzeUniformity(Program& program,
                                 std::span<const DeviceClasses* const> parameter_classes) {
  CheckInternal(parameter_classes.size() == program.parameters.size(), "classes of parameters");
  for (size_t i = 0; i < program.parameters.size(); ++i) {
    program.values[program.parameters[i]].classes = parameter_classes[i];
  }
  return Uniformity(program).AnalyzeBlock(*program.entry);
}

}  // namespace gshard::cpu
