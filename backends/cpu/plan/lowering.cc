// Flattens computations by walking them in text order, calls in place.
#include "backends/cpu/plan/lowering.h"

#include <fmt/format.h>
#include <tsl/robin_map.h>

#include <algorithm>
#include <cstring>
#include <optional>
#include <string_view>

#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/arrays/fill.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/plan/short_loops.h"
#include "core/report/quantity_text.h"
#include "ir/async_sugar.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/leaves.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"
#include "ir/ops/shape_rules.h"
#include "ir/parser_errors.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

// Inlining may blow up a graph of calls; beyond this many operations it is refused.
constexpr int64_t kMaxOps = 20'000'000;
constexpr double kMaxBytes = 0x1p58;

// Dims other than those of size 1 keep their order.
bool KeepsDimOrder(std::span<const int64_t> permutation, const Shape* operand) {
  int64_t previous = -1;
  for (int64_t dim : permutation) {
    if (operand->dim(dim) == 1) continue;
    if (dim < previous) return false;
    previous = dim;
  }
  return true;
}

// The result has the same bytes as operand 0: no kernel is needed.
bool IsRenaming(const Instruction& x) {
  switch (x.opcode()) {
    case Opcode::kReshape:
      return !x.shape()->HasDynamicDims() && !x.operand(0)->shape()->HasDynamicDims();
    case Opcode::kBitcast:
      return IsRowMajor(x.shape()) && IsRowMajor(x.operand(0)->shape()) &&
             StorageBytes(x.shape()->dtype()) == StorageBytes(x.operand(0)->shape()->dtype()) &&
             x.shape()->element_count() == x.operand(0)->shape()->element_count();
    case Opcode::kBitcastConvert:
      return DTypeBits(x.shape()->dtype()) == DTypeBits(x.operand(0)->shape()->dtype()) &&
             DTypeBits(x.shape()->dtype()) >= 8 && x.shape()->dtype() != DType::kPred &&
             x.operand(0)->shape()->dtype() != DType::kPred;
    case Opcode::kConvert:
      return x.shape()->dtype() == x.operand(0)->shape()->dtype();
    case Opcode::kTranspose:
      return KeepsDimOrder(x.attributes<DimensionsAttributes>().dimensions, x.operand(0)->shape());
    case Opcode::kBroadcast: {
      const Shape* operand = x.operand(0)->shape();
      if (x.shape()->element_count() != operand->element_count()) return false;
      int64_t previous = -1;
      Dims dims = x.attributes<DimensionsAttributes>().dimensions;
      for (size_t i = 0; i < dims.size(); ++i) {
        if (operand->dim(static_cast<int64_t>(i)) == 1) continue;
        if (dims[i] < previous) return false;
        previous = dims[i];
      }
      return true;
    }
    case Opcode::kSlice:
    case Opcode::kConcatenate:  // one operand taken whole
      return x.shape()->element_count() == x.operand(0)->shape()->element_count() &&
             (x.opcode() == Opcode::kSlice || x.operand_count() == 1) &&
             x.shape()->element_count() > 0;
    case Opcode::kCustomCall:
      return IsIdentityCall(x);
    default:  // copies and barriers; halves of pairs have leaves of their own
      return KeepsOrder(x.opcode()) && PurityOf(x.opcode()) != Purity::kPaired;
  }
}

// In the order of values.
void AppendValueShapes(const Shape* shape, std::vector<const Shape*>& leaves) {
  if (shape->IsTuple()) {
    for (const Shape* element : shape->elements()) AppendValueShapes(element, leaves);
  } else if (shape->kind() == ShapeKind::kBuffer) {
    AppendValueShapes(shape->element(0), leaves);
  } else {
    leaves.push_back(shape);
  }
}

class Lowering {
 public:
  Lowering(Program& program, const LoweringOptions& options)
      : program_(program), options_(options), leaves_(program.module->instruction_limit()) {}

  Expected<void> Run() {
    GSHARD_TRY(CheckGrowth());
    const Computation& entry = *program_.module->entry();
    for (const Instruction* parameter : entry.parameters()) {
      for (ValueId leaf : NewLeaves(*parameter)) program_.parameters.push_back(leaf);
    }
    for (uint32_t t = 0; t < options_.probes.size(); ++t) {
      probes_[options_.probes[t].after].push_back(t);
    }
    program_.probed.assign(options_.probes.size(), kNoValue);
    program_.probe_results.assign(options_.probes.size(), kNoValue);
    program_.entry = NewBlock();
    program_.results = GSHARD_TRY(LowerComputation(entry, program_.parameters, program_.entry));
    GSHARD_TRY(FindKept());
    ResolveAll();
    return {};
  }

 private:
  using Leaves = std::vector<ValueId>;

  Block* NewBlock() {
    program_.blocks.emplace_back();
    return &program_.blocks.back();
  }

  tl::unexpected<Diagnostic> ErrorAt(const Instruction& x, std::string code, std::string message) {
    return Fail(program_.module->ErrorAt(&x, std::move(code), std::move(message)));
  }

  // Callees stand before callers.
  Expected<void> CheckGrowth() {
    tsl::robin_map<const Computation*, int64_t> sizes;
    for (const Computation* computation : program_.module->computations()) {
      auto size = static_cast<int64_t>(computation->instructions().size());
      for (const Instruction* x : computation->instructions()) {
        for (const Computation* called : x->called()) {
          if (!IsControlFlow(x->opcode())) continue;
          const auto found = sizes.find(called);
          if (found != sizes.end()) size += found->second;
        }
        if (size > kMaxOps) {
          return ErrorAt(*x, "E-RUN-SIZE",
                         "the program grows beyond 20 million operations when calls are inlined");
        }
      }
      sizes.emplace(computation, size);
    }
    return {};
  }

  bool HasLoop() {
    if (has_loop_) return *has_loop_;
    has_loop_ =
        std::ranges::any_of(program_.module->computations(), [](const Computation* computation) {
          return std::ranges::any_of(computation->instructions(), [](const Instruction* x) {
            return x->opcode() == Opcode::kWhile;
          });
        });
    return *has_loop_;
  }

  // Afterwards sums of sizes over all values and devices do not overflow.
  Expected<void> CheckSize(const Instruction& x) {
    if (HasUnbounded(x.shape())) {
      return ErrorAt(x, "E-RUN-DYNAMIC", "a dimension without a bound cannot be executed");
    }
    total_bytes_ += static_cast<double>(x.shape()->byte_size()) * program_.grid.device_count();
    if (total_bytes_ > kMaxBytes) {
      return ErrorAt(x, "E-RUN-MEMORY", "the arrays of the program exceed any memory");
    }
    const bool elided =
        x.opcode() == Opcode::kConstant && HasElided(*x.attributes<ConstantAttributes>().literal);
    if (!elided) return {};
    if (x.shape()->IsScalar() && !IsFloat(x.shape()->dtype()) && HasLoop()) {
      Diagnostic error = program_.module->ErrorAt(
          &x, "E-RUN-ELIDED",
          fmt::format("the value of {} was left out of the text, and loops may count with it: a "
                      "random one may never end them",
                      x.name()));
      error.hint = ElidedHint();
      return Fail(std::move(error));
    }
    program_.elided_bytes += x.shape()->byte_size();
    const bool has_limit = options_.memory_limit > 0;
    const int64_t limit = has_limit ? options_.memory_limit : AvailableMemory();
    if (program_.elided_bytes > limit) {
      return ErrorAt(
          x, "E-RUN-MEMORY",
          fmt::format("constants without values take {} up to here, more than the {} {}",
                      HumanBytes(static_cast<double>(program_.elided_bytes)),
                      has_limit ? "limit of" : "machine's free", HumanBytes(double(limit))));
    }
    return {};
  }

  // One new value per leaf of the instruction's shape; tokens share one value.
  Leaves NewLeaves(const Instruction& x) {
    Leaves leaves;
    AppendLeaves(x, x.shape(), leaves);
    return leaves;
  }
  void AppendLeaves(const Instruction& x, const Shape* shape, Leaves& leaves) {
    if (shape->IsTuple()) {
      for (const Shape* element : shape->elements()) AppendLeaves(x, element, leaves);
    } else if (shape->kind() == ShapeKind::kBuffer) {
      AppendLeaves(x, shape->element(0), leaves);
    } else if (!shape->IsArray()) {
      leaves.push_back(Token(x, shape));
    } else {
      leaves.push_back(program_.NewValue(shape, &x, static_cast<uint32_t>(leaves.size())));
    }
  }
  ValueId Token(const Instruction& x, const Shape* shape) {
    if (token_ == kNoValue) {
      token_ = program_.NewValue(shape, &x, 0);
      program_.SetKnown(token_, program_.classes.Uniform(), std::vector<std::byte>(1));
    }
    return token_;
  }

  ValueId Resolve(ValueId value) {
    while (value < forward_.size() && forward_[value] != kNoValue) value = forward_[value];
    return value;
  }
  void Forward(ValueId from, ValueId to) {
    if (forward_.size() <= from) forward_.resize(program_.values.size(), kNoValue);
    forward_[from] = to;
  }

  const Leaves& LeavesOf(const Instruction* x) { return leaves_[x->id()]; }
  Leaves OperandLeaves(const Instruction& x) {
    Leaves all;
    for (const Instruction* operand : x.operands()) {
      const Leaves& leaves = LeavesOf(operand);
      all.insert(all.end(), leaves.begin(), leaves.end());
    }
    return all;
  }

  Expected<Leaves> LowerComputation(const Computation& computation, const Leaves& arguments,
                                    Block* block) {
    size_t next = 0;
    for (const Instruction* parameter : computation.parameters()) {
      CheckInternal(parameter != nullptr, "parameter numbers with gaps");
      const auto count = static_cast<size_t>(parameter->shape()->leaf_count());
      if (next + count > arguments.size()) {
        return ErrorAt(*parameter, "E-RUN-CALL", "the caller passes fewer values than this");
      }
      leaves_[parameter->id()].assign(arguments.begin() + static_cast<ptrdiff_t>(next),
                                      arguments.begin() + static_cast<ptrdiff_t>(next + count));
      next += count;
      GSHARD_TRY(CheckSize(*parameter));
      AppendProbes(*parameter, block);
    }
    for (const Instruction* x : computation.instructions()) {
      if (x->opcode() == Opcode::kParameter) continue;
      GSHARD_TRY(CheckSize(*x));
      leaves_[x->id()] = GSHARD_TRY(LowerInstruction(*x, block));
      AppendProbes(*x, block);
    }
    return leaves_[computation.root()->id()];
  }

  void AppendProbes(const Instruction& x, Block* block) {
    if (probes_.empty()) return;
    const auto probes = probes_.find(&x);
    if (probes == probes_.end()) return;
    for (uint32_t probe : probes->second) {
      if (program_.probe_results[probe] != kNoValue) {  // a second place
        program_.probed[probe] = kNoValue;
        continue;
      }
      Op op;
      op.kind = OpKind::kProbe;
      const Instruction& shown = *options_.probes[probe].shown;
      op.instruction = &shown;
      op.probe = probe;
      op.operands = {LeavesOf(&shown).front()};
      op.results = {program_.NewValue(shown.shape(), &shown, 0)};
      program_.values[op.results[0]].bytes = 0;
      program_.probed[probe] = op.operands[0];
      program_.probe_results[probe] = op.results[0];
      block->ops.push_back(std::move(op));
    }
  }

  Leaves Emit(OpKind kind, const Instruction& x, Block* block, Leaves operands) {
    Leaves results = NewLeaves(x);
    Op op;
    op.kind = kind;
    op.instruction = &x;
    op.operands = std::move(operands);
    op.results = results;
    block->ops.push_back(std::move(op));
    return results;
  }

  Expected<Leaves> LowerRenaming(const Instruction& x) {
    if (x.opcode() == Opcode::kCustomCall && x.shape()->leaf_count() == 1 && x.shape()->IsArray() &&
        (x.shape()->element_count() != x.operand(0)->shape()->element_count())) {
      return ErrorAt(x, "E-RUN-MANUAL",
                     "a manual region can only run on one device if its shapes are whole; "
                     "partition the module first");
    }
    return LeavesOf(x.operand(0));
  }

  // An all-gather or a permute that another instruction ends.
  Leaves LowerStart(const Instruction& x, Block* block) {
    const Shape* result = x.shape()->IsTuple() ? x.shape()->element(1) : x.shape();
    Op op;
    op.kind = OpKind::kCollective;
    op.instruction = &x;
    op.operands = OperandLeaves(x);
    AppendLeaves(x, result, op.results);
    Leaves results = op.results;
    block->ops.push_back(std::move(op));
    return x.shape()->IsTuple() ? StartLeaves(x, OperandLeaves(x), results) : results;
  }

  Expected<Leaves> LowerInstruction(const Instruction& x, Block* block) {
    if (IsRenaming(x)) return LowerRenaming(x);
    switch (x.opcode()) {
      case Opcode::kConstant:
        return LowerConstant(x);
      case Opcode::kPartitionId:
      case Opcode::kReplicaId:
        return Leaves{DeviceNumber(x.opcode(), x)};
      case Opcode::kTuple:
        return OperandLeaves(x);
      case Opcode::kGetTupleElement:
        return Part(LeavesOf(x.operand(0)), FirstLeafRead(x), x.shape()->leaf_count());
      case Opcode::kAfterAll:
        return Leaves{Token(x, x.shape())};
      case Opcode::kCopyStart: {
        // (destination, source, context)
        Leaves leaves = NewLeaves(x);
        leaves[0] = leaves[1] = LeavesOf(x.operand(0))[0];
        for (size_t i = 2; i < leaves.size(); ++i) leaves[i] = ZeroLike(leaves[i]);
        return leaves;
      }
      case Opcode::kCopyDone:
      case Opcode::kAllReduceDone:
        return Part(LeavesOf(x.operand(0)), 0, x.shape()->leaf_count());
      case Opcode::kAllGatherDone:
      case Opcode::kCollectivePermuteDone:
      case Opcode::kAsyncDone: {
        // The start's result is (operands, results, context..).
        const Shape* start = x.operand(0)->shape();
        if (!start->IsTuple() || start->elements().size() < 2) {
          return Part(LeavesOf(x.operand(0)), 0, x.shape()->leaf_count());
        }
        return Part(LeavesOf(x.operand(0)), start->element(0)->leaf_count(),
                    x.shape()->leaf_count());
      }
      case Opcode::kAsyncUpdate: {
        if (!BringsOperands(x)) return LeavesOf(x.operand(0));
        const Leaves brought = Part(OperandLeaves(x), x.operand(0)->shape()->leaf_count());
        auto results = GSHARD_TRY(LowerComputation(*AsyncStartOf(&x)->called(0), brought, block));
        return StartLeaves(x, brought, results);
      }
      case Opcode::kAsyncStart: {
        if (StartsWithoutOperands(x)) return StartLeaves(x, {}, {});
        auto results = GSHARD_TRY(LowerComputation(*x.called(0), OperandLeaves(x), block));
        return StartLeaves(x, OperandLeaves(x), results);
      }
      case Opcode::kAllGatherStart:
      case Opcode::kCollectivePermuteStart:
        return LowerStart(x, block);
      case Opcode::kAllReduce:
      case Opcode::kAllReduceStart:
      case Opcode::kAllGather:
      case Opcode::kReduceScatter:
      case Opcode::kAllToAll:
      case Opcode::kRaggedAllToAll:
      case Opcode::kCollectivePermute:
      case Opcode::kCollectiveBroadcast:
        return Emit(OpKind::kCollective, x, block, OperandLeaves(x));
      case Opcode::kCall:
      case Opcode::kFusion:
        return LowerComputation(*x.called(0), OperandLeaves(x), block);
      case Opcode::kWhile:
        return LowerWhile(x, block);
      case Opcode::kConditional:
        return LowerConditional(x, block);
      case Opcode::kRng: {
        // Devices draw numbers of their own.
        Leaves operands = OperandLeaves(x);
        operands.push_back(DeviceNumber(Opcode::kPartitionId, x));
        operands.push_back(DeviceNumber(Opcode::kReplicaId, x));
        return Emit(OpKind::kKernel, x, block, std::move(operands));
      }
      case Opcode::kRngGetAndUpdateState:
        return Emit(OpKind::kRngState, x, block, {});
      case Opcode::kSend:
      case Opcode::kRecv:
      case Opcode::kSendDone:
      case Opcode::kRecvDone:
      case Opcode::kInfeed:
      case Opcode::kOutfeed:
        return ErrorAt(x, "E-RUN-HOST",
                       fmt::format("{} talks to a host or a channel that the emulated mesh does "
                                   "not have",
                                   OpcodeName(x.opcode())));
      default:  // one kernel
        return Emit(OpKind::kKernel, x, block, OperandLeaves(x));
    }
  }

  static Leaves Part(const Leaves& leaves, int64_t begin, int64_t count) {
    return Leaves(leaves.begin() + begin, leaves.begin() + begin + count);
  }
  static Leaves Part(const Leaves& leaves, int64_t begin) {
    return Leaves(leaves.begin() + begin, leaves.end());
  }

  // (operands, results, context..) of an async start.
  Leaves StartLeaves(const Instruction& x, Leaves leaves, const Leaves& results) {
    leaves.insert(leaves.end(), results.begin(), results.end());
    Leaves fresh = NewLeaves(x);
    for (size_t i = leaves.size(); i < fresh.size(); ++i) leaves.push_back(ZeroLike(fresh[i]));
    return leaves;
  }

  ValueId ZeroLike(ValueId value) {
    const int64_t bytes = program_.values[value].bytes;
    program_.SetKnown(value, program_.classes.Uniform(),
                      std::vector<std::byte>(static_cast<size_t>(std::max<int64_t>(bytes, 1))));
    return value;
  }

  Expected<Leaves> LowerConstant(const Instruction& x) {
    Leaves& known = constants_[x.id()];
    if (!known.empty()) return known;
    Leaves leaves = NewLeaves(x);
    size_t next = 0;
    FillConstant(x, *x.attributes<ConstantAttributes>().literal, leaves, next);
    known = leaves;
    return leaves;
  }
  void FillConstant(const Instruction& x, const Literal& literal, const Leaves& leaves,
                    size_t& next) {
    if (literal.shape->IsTuple() && !literal.elided) {
      for (const Literal* element : literal.elements) FillConstant(x, *element, leaves, next);
      return;
    }
    if (literal.elided) {
      program_.elided_constants.push_back(&x);
      for (; next < leaves.size(); ++next) {
        Value& value = program_.values[leaves[next]];
        std::vector<std::byte> data(static_cast<size_t>(std::max<int64_t>(value.bytes, 1)));
        FillElided(value.shape, options_.seed, data);
        program_.SetKnown(leaves[next], program_.classes.Uniform(), std::move(data));
      }
      return;
    }
    Value& value = program_.values[leaves[next]];
    value.classes = program_.classes.Uniform();
    static constexpr std::byte kEmpty{};
    value.known = literal.data.empty() ? std::span<const std::byte>(&kEmpty, 0) : literal.data;
    ++next;
  }

  // What partition-id or replica-id (`opcode`) is, wanted by x.
  ValueId DeviceNumber(Opcode opcode, const Instruction& x) {
    ValueId& value = opcode == Opcode::kPartitionId ? partition_id_ : replica_id_;
    if (value != kNoValue) return value;
    value = program_.NewValue(program_.module->context().Scalar(DType::kU32), &x, 0);
    const uint32_t devices = program_.grid.device_count();
    std::vector<uint64_t> labels(devices);
    for (uint32_t d = 0; d < devices; ++d) {
      labels[d] = opcode == Opcode::kPartitionId ? d % program_.grid.partitions
                                                 : d / program_.grid.partitions;
    }
    const DeviceClasses* classes = program_.classes.Intern(labels);
    std::vector<std::byte> data(sizeof(uint32_t) * classes->count());
    for (uint32_t c = 0; c < classes->count(); ++c) {
      const auto number = static_cast<uint32_t>(labels[classes->first_device(c)]);
      std::memcpy(data.data() + sizeof(uint32_t) * c, &number, sizeof number);
    }
    program_.SetKnown(value, classes, std::move(data));
    return value;
  }

  Expected<Leaves> LowerWhile(const Instruction& x, Block* block) {
    const Leaves initial = LeavesOf(x.operand(0));
    // Who asks for values inside, by name or by probes, gets those of each trip.
    const auto trips = probes_.empty() && options_.keep.empty() ? TripsToUnroll(x) : std::nullopt;
    if (trips) {
      Leaves carried = initial;
      for (int64_t trip = 0; trip < *trips; ++trip) {
        carried = GSHARD_TRY(LowerComputation(*x.called(1), carried, block));
      }
      return carried;
    }
    Leaves carried = NewLeaves(x);
    Block* condition = NewBlock();
    Block* body = NewBlock();
    auto predicate = GSHARD_TRY(LowerComputation(*x.called(0), carried, condition));
    auto next = GSHARD_TRY(LowerComputation(*x.called(1), carried, body));
    Op op;
    op.kind = OpKind::kWhile;
    op.instruction = &x;
    condition->results = predicate;
    op.blocks = {condition, body};
    // A leaf that the body hands on as it is equals its initial value all the time. Swaps among
    // invariant leaves are not looked for.
    for (size_t i = 0; i < carried.size(); ++i) {
      if (carried[i] == token_) continue;
      if (Resolve(next[i]) == Resolve(carried[i])) {
        Forward(carried[i], initial[i]);
        carried[i] = initial[i];
        continue;
      }
      op.operands.push_back(initial[i]);
      op.results.push_back(carried[i]);
      body->results.push_back(next[i]);
    }
    block->ops.push_back(std::move(op));
    return carried;
  }

  Expected<Leaves> LowerConditional(const Instruction& x, Block* block) {
    Op op;
    op.kind = OpKind::kConditional;
    op.instruction = &x;
    op.operands = {LeavesOf(x.operand(0))[0]};
    for (size_t b = 0; b < x.called().size(); ++b) {
      Block* branch = NewBlock();
      branch->results = GSHARD_TRY(LowerComputation(
          *x.called()[b], LeavesOf(x.operand(static_cast<int64_t>(b) + 1)), branch));
      op.blocks.push_back(branch);
    }
    Leaves results = NewLeaves(x);
    std::vector<Leaves> kept(op.blocks.size());
    for (size_t i = 0; i < results.size(); ++i) {
      bool same = true;
      const ValueId first = Resolve(op.blocks[0]->results[i]);
      for (const Block* branch : op.blocks) same &= Resolve(branch->results[i]) == first;
      // Only values from before the conditional may be forwarded out of it.
      if (same && (op.blocks.size() > 1 || program_.values[first].IsKnown())) {
        results[i] = first;
        continue;
      }
      op.results.push_back(results[i]);
      for (size_t b = 0; b < op.blocks.size(); ++b) kept[b].push_back(op.blocks[b]->results[i]);
    }
    for (size_t b = 0; b < op.blocks.size(); ++b) op.blocks[b]->results = std::move(kept[b]);
    block->ops.push_back(std::move(op));
    return results;
  }

  Expected<void> FindKept() {
    if (options_.keep.empty()) return {};
    tsl::robin_map<std::string_view, const Instruction*> by_name;
    for (const Computation* computation : program_.module->computations()) {
      for (const Instruction* x : computation->instructions()) by_name[x->name()] = x;
    }
    for (const std::string& name : options_.keep) {
      auto found = by_name.find(name);
      if (found == by_name.end() || leaves_[found->second->id()].empty()) {
        NearestWord nearest(name);
        for (const auto& [candidate, x] : by_name) nearest.Offer(candidate);
        return Fail(MakeError("E-RUN-NAME", fmt::format("there is no instruction named {}", name),
                              nearest.best().empty()
                                  ? "gshard-opt print and gshard-opt partition show the names"
                                  : nearest.Hint()));
      }
      program_.kept_begin.push_back(program_.kept.size());
      for (ValueId leaf : leaves_[found->second->id()]) program_.kept.push_back(leaf);
      AppendValueShapes(found->second->shape(), program_.kept_shapes);
    }
    return {};
  }

  void ResolveAll() {
    forward_.resize(program_.values.size(), kNoValue);
    auto resolve = [&](std::vector<ValueId>& values) {
      for (ValueId& value : values) value = Resolve(value);
    };
    for (Block& block : program_.blocks) {
      for (Op& op : block.ops) {
        resolve(op.operands);
        resolve(op.results);
      }
      resolve(block.results);
    }
    resolve(program_.results);
    resolve(program_.kept);
    for (size_t t = 0; t < program_.probed.size(); ++t) {
      if (program_.probed[t] == kNoValue) {
        program_.probe_results[t] = kNoValue;
      } else {
        program_.probed[t] = Resolve(program_.probed[t]);
      }
    }
  }

  Program& program_;
  const LoweringOptions& options_;
  std::vector<Leaves> leaves_;  // by instruction id
  tsl::robin_map<uint32_t, Leaves> constants_;
  tsl::robin_map<const Instruction*, std::vector<uint32_t>> probes_;
  std::vector<ValueId> forward_;
  double total_bytes_ = 0;        // of all values on all devices
  std::optional<bool> has_loop_;  // has the program a while? Empty: not asked for yet
  ValueId token_ = kNoValue;
  ValueId partition_id_ = kNoValue;
  ValueId replica_id_ = kNoValue;
};

}  // namespace

ValueId Program::NewValue(const Shape* shape, const Instruction* source, uint32_t leaf) {
  const auto id = static_cast<ValueId>(values.size());
  Value& value = values.emplace_back();
  value.shape = shape;
  value.source = source;
  value.leaf = leaf;
  value.bytes = BufferBytes(shape);
  return id;
}

void Program::SetKnown(ValueId value, const DeviceClasses* value_classes,
                       std::vector<std::byte> data) {
  owned_data.push_back(std::move(data));
  values[value].classes = value_classes;
  values[value].known = owned_data.back();
}

std::string ElidedHint() {
  return "all values are in as_text() of what JAX lowered, in HLO protos, TensorFlow's "
         "stage='hlo_serialized' among them, and in a dump with "
         "XLA_FLAGS=--xla_dump_large_constants; .compile().as_text() has few";
}

Expected<std::unique_ptr<Program>> LowerModule(const Module& module, const DeviceGrid& grid,
                                               const LoweringOptions& options) {
  auto program = std::make_unique<Program>(module, grid);
  program->index_observer = options.index_observer;
  GSHARD_TRY(Lowering(*program, options).Run());
  RemoveDeadOps(*program);
  return program;
}

}  // namespace gshard::cpu
