// A module flattened for execution: arrays instead of tuples, calls inlined, no-ops gone.
//
// Stages, each filling in more of the same structure:
//   LowerModule      (lowering.h)   operations and values
//   AnalyzeUniformity (uniformity.h)  which devices hold equal values; what is known before running
//   FindViews        (views.h)      values that are parts of other values' buffers
//   BuildPlan        (plan.h)       segments, chains, buffers, addresses
#ifndef GSHARD_BACKENDS_CPU_PLAN_PROGRAM_H_
#define GSHARD_BACKENDS_CPU_PLAN_PROGRAM_H_

#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "backends/cpu/elementwise/kernel.h"
#include "backends/cpu/plan/probe.h"
#include "core/analysis/device_classes.h"
#include "core/analysis/device_groups.h"
#include "ir/module.h"

namespace gshard::cpu {

using ValueId = uint32_t;
inline constexpr ValueId kNoValue = UINT32_MAX;

// Where a value without a buffer of its own lies in other values' buffers.
struct View {
  // Form 1, base != kNoValue: instance c is at offset (+ offsets[c]) of the base's instance c; base
  // and view have the same classes.
  ValueId base = kNoValue;
  int64_t offset = 0;
  std::vector<int64_t> offsets;  // empty, or one per class
  // Form 2: one entry per class; base == kNoValue is a buffer of zeros.
  struct Entry {
    ValueId base = kNoValue;
    uint32_t base_class = 0;
    int64_t offset = 0;
  };
  std::vector<Entry> entries;

  bool IsTable() const { return base == kNoValue; }
};

// One array of the program: what one leaf of an instruction's result is on every device.
struct Value {
  const Shape* shape = nullptr;         // an array (or token: no bytes)
  const Instruction* source = nullptr;  // for reports and diagnostics
  uint32_t leaf = 0;                    // which leaf of `source`
  int64_t bytes = 0;                    // of one device's instance
  const DeviceClasses* classes = nullptr;
  // Known before running: one instance per class, dense. data() != nullptr iff known.
  std::span<const std::byte> known;
  ValueId splat = kNoValue;            // every element equals this known scalar
  bool fused_into_reduction = false;   // into, or out of, a reduction that a chain performs
  bool accumulated_by_kernel = false;  // so, and added up by the kernel that makes it: never stored
  bool is_per_device_select =
      false;  // a select whose known predicate picks a whole operand per device
  std::unique_ptr<View> view;

  bool IsKnown() const { return known.data() != nullptr; }
};

enum class OpKind : uint8_t {
  kKernel,
  kCollective,
  kWhile,        // blocks: condition, body; operands: initial values of the carried ones
  kConditional,  // blocks: the branches; operands: {predicate or index}
  kRngState,     // rng-get-and-update-state
  kProbe,        // shows its operand to an observer; in chains, as kernels
};

struct Block;
class IndexObserver;

struct Op {
  OpKind kind = OpKind::kKernel;
  const Instruction* instruction = nullptr;
  const Kernel* kernel = nullptr;              // kKernel, once made
  const CollectiveDevices* devices = nullptr;  // kCollective, once resolved
  std::vector<ValueId> operands;
  // kCollective: the operands, also where all results are views, which leaves nothing to read.
  std::vector<ValueId> passed_on;
  // while: the carried values, which are parameters of both blocks and afterwards the results.
  std::vector<ValueId> results;
  std::vector<Block*> blocks;
  uint32_t probe = kNoProbe;  // kProbe
};

struct Block {
  std::vector<Op> ops;           // in an order that respects dependences
  std::vector<ValueId> results;  // while body: next carried values; condition: the predicate
};

struct Program {
  explicit Program(const Module& m, const DeviceGrid& g)
      : module(&m), grid(g), classes(g.device_count()), collectives(g) {}

  const Module* module;
  DeviceGrid grid;
  IndexObserver* index_observer = nullptr;  // of what runs; null: none
  DeviceClassTable classes;
  std::vector<Value> values;
  std::deque<Block> blocks;
  Block* entry = nullptr;
  std::vector<ValueId> parameters;        // leaves of the entry's parameters, in order
  std::vector<ValueId> results;           // leaves of the entry's root
  std::vector<ValueId> kept;              // leaves that must stay readable after a run (--dump)
  std::vector<const Shape*> kept_shapes;  // of the leaves asked for, whatever they are names of
  std::vector<size_t> kept_begin;         // per name asked for: its first leaf in `kept`
  // Per probe: the value shown, or kNoValue if its instruction runs nowhere or in several places.
  // An operation must have results: those of probes have no bytes.
  std::vector<ValueId> probed, probe_results;
  std::vector<const Instruction*> elided_constants;
  int64_t elided_bytes = 0;                      // that stand in for them, beside the plan's arrays
  std::vector<std::unique_ptr<Kernel>> kernels;  // by instruction id; null where not needed
  CollectiveResolver collectives;
  std::deque<Op> fused_ops;  // see fusion.h
  std::vector<std::unique_ptr<Kernel>> fused_kernels;
  std::deque<std::vector<std::byte>> owned_data;  // behind Value::known

  ValueId NewValue(const Shape* shape, const Instruction* source, uint32_t leaf);
  // Keeps `data` and makes the value known with these classes.
  void SetKnown(ValueId value, const DeviceClasses* value_classes, std::vector<std::byte> data);
};

}  // namespace gshard::cpu

#endif  // GSHARD_BACKENDS_CPU_PLAN_PROGRAM_H_
