#include "core/pipeline/plan/split_batch.h"

#include <algorithm>
#include <memory>
#include <numeric>
#include <ranges>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "core/analysis/combiner.h"
#include "core/analysis/trip_count.h"
#include "core/analysis/updates.h"
#include "core/pipeline/plan/clone.h"
#include "core/pipeline/plan/inner_sums.h"
#include "core/pipeline/plan/phases.h"
#include "core/pipeline/plan/shard_rows.h"
#include "core/pipeline/rows/mixed_rows.h"
#include "core/pipeline/rows/mixing_hints.h"
#include "core/propagation/canonicalizer.h"
#include "core/spmd/per_device_module.h"
#include "core/transforms/collectives/collective_groups.h"
#include "core/transforms/cse.h"
#include "core/transforms/forward_tuple_elements.h"
#include "core/transforms/rewriter.h"
#include "fmt/format.h"
#include "ir/attribute_names.h"
#include "ir/builder.h"
#include "ir/custom_call.h"
#include "ir/dims.h"
#include "ir/dimwise_call.h"
#include "ir/linalg_call.h"
#include "ir/metadata.h"
#include "ir/op_traits.h"
#include "ir/sharding_algebra.h"
#include "ir/traversal.h"

namespace gshard::pipeline {
namespace {

// Sharding of an array whose dim `dimension` is cut into `count` tiles.
const Sharding* CutDim(Context& context, int64_t rank, int64_t dimension, int64_t count) {
  std::vector<int64_t> dims(static_cast<size_t>(rank), 1);
  dims[static_cast<size_t>(dimension)] = count;
  return context.Tiled(TileAssignment::Iota(dims));
}

// Of each output the dim that is cut; -1: none.
std::vector<int64_t> CutDims(const Module& module) {
  std::vector<int64_t> dims;
  for (const Instruction* x : OutputsOf(*module.entry())) {
    int64_t dimension = -1;
    const Sharding* s = x->sharding();
    for (int64_t d = 0; s != nullptr && s->IsTiled() && d < x->shape()->rank(); ++d) {
      if (s->TileCount(d) > 1) dimension = d;
    }
    dims.push_back(dimension);
  }
  return dims;
}

// Each shard of the batch has micro-batches of its own: M divides its rows.
Expected<void> CheckShards(const Module& module, const BatchDims& batch, int64_t microbatches,
                           int64_t shards) {
  for (auto [number, dim] : batch.dimension) {
    const Instruction* x = module.entry()->parameter(number);
    if (x->shape()->dim(dim) % (shards * microbatches) == 0) continue;
    return Fail(module.ErrorAt(
        x, "E-PIPELINE-001",
        fmt::format("{} micro-batches on {} shards do not divide the {} examples of '{}'",
                    microbatches, shards, x->shape()->dim(dim), x->name())));
  }
  return {};
}

// A custom call that nobody here knows is made for arrays of its shapes (a TPU kernel is compiled
// for them), so that nothing is known of its micro-batches. Of a propagated module.
Expected<void> CheckCustomCalls(const Module& module) {
  const auto is_cut = [](const Instruction* x) {
    const Sharding* s = x->sharding();
    return s != nullptr && s->IsTiled() && !s->IsReplicated();
  };
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->opcode() != Opcode::kCustomCall || IsIdentityCall(*x) || IsDimwiseCall(*x)) continue;
      if (IsWholeMark(*x)) continue;
      if (IsCustomCallTo(*x, kTopKTarget) || BatchDimsOf(*x) > 0) continue;
      if (std::ranges::none_of(x->operands(), is_cut)) continue;
      Diagnostic error = module.ErrorAt(
          x, "E-PIPELINE-011",
          fmt::format(
              "pipelines do not take '{}', a custom call to '{}': it is for arrays of these "
              "shapes, and what it makes of a micro-batch is not known",
              x->name(), x->attributes<CustomCallAttributes>().target));
      error.hint = "write what it computes in operations";
      return Fail(std::move(error));
    }
  }
  return {};
}

// A batch norm whose features are examples, as torch_xla writes a LayerNorm, has a scale and an
// offset of each example: constants, or examples themselves. Of a propagated module.
Expected<void> CheckBatchNorms(const Module& module, const BatchDims& batch) {
  for (const Instruction* x : module.entry()->instructions()) {
    if (AttributeTagOf(x->opcode()) != &AttributeType<BatchNormAttributes>::kTag) continue;
    const Sharding* s = x->operand(0)->sharding();
    const int64_t feature = x->attributes<BatchNormAttributes>().feature_index;
    if (s == nullptr || s->TileCount(feature) == 1) continue;
    for (const Instruction* vector : x->operands()) {
      while (vector->opcode() == Opcode::kConvert || vector->opcode() == Opcode::kReshape ||
             vector->opcode() == Opcode::kCopy) {
        vector = vector->operand(0);
      }
      if (vector->opcode() != Opcode::kParameter ||
          batch.dimension.contains(vector->attributes<ParameterAttributes>().number)) {
        continue;
      }
      Diagnostic error = module.ErrorAt(
          x, "E-PIPELINE-011",
          fmt::format("pipelines do not take '{}', whose features are examples: '{}' has a number "
                      "for each of them, but is none of the batch",
                      x->name(), vector->name()));
      error.hint = "name it too: --batch " + std::string(vector->name()) + "=0";
      return Fail(std::move(error));
    }
  }
  return {};
}

// A value in a wider type; of a sum that nobody else uses the sum of the wider terms.
Instruction* Widened(Instruction* x, DType wide, Rewriter& rewriter) {
  Builder& builder = rewriter.builder();
  if (x->opcode() != Opcode::kAdd || !rewriter.IsOnlyUse(x)) return builder.Convert(x, wide);
  Instruction* first = Widened(x->operand(0), wide, rewriter);
  return builder.Add(first, Widened(x->operand(1), wide, rewriter));
}

// A value that nobody else uses in a wider type, with its sums over micro-batches in that type.
// Null: there are none in it.
Instruction* WithWideSums(Instruction* x, DType wide, Rewriter& rewriter) {
  if (!rewriter.IsOnlyUse(x)) return nullptr;
  Builder& builder = rewriter.builder();
  std::vector<Instruction*> operands;
  switch (x->opcode()) {
    case Opcode::kAllReduce:
      if (x->operand_count() != 1 || CombinerOf(x->called(0)) != Opcode::kAdd) return nullptr;
      return builder.AllReduce(Widened(x->operand(0), wide, rewriter), ReplicaGroups(),
                               builder.BinaryComputation(Opcode::kAdd, wide));
    case Opcode::kTranspose:
    case Opcode::kReshape:
    case Opcode::kConcatenate:
      for (Instruction* operand : x->operands()) {
        operands.push_back(WithWideSums(operand, wide, rewriter));
      }
      break;
    default:  // no move of sums
      return nullptr;
  }
  if (std::ranges::count(operands, nullptr) == std::ssize(operands)) return nullptr;
  for (size_t i = 0; i < operands.size(); ++i) {
    Instruction* operand = x->operand(static_cast<int64_t>(i));
    if (operands[i] == nullptr) operands[i] = builder.Convert(operand, wide);
  }
  if (x->opcode() == Opcode::kReshape) return builder.Reshape(operands[0], x->shape()->dims());
  const Dims dims = x->attributes<DimensionsAttributes>().dimensions;
  return x->opcode() == Opcode::kTranspose ? builder.Transpose(operands[0], dims)
                                           : builder.Concatenate(operands, dims[0]);
}

// A gradient that is rounded and then widened, as mixed precision makes it of a bf16 product for an
// f32 weight, is added up in the wide type: a sum of M terms in the narrow one would be rounded M
// times. Example: convert(transpose(all-reduce(dot))) becomes transpose(all-reduce(convert(dot))),
// also where rows of layers are put together between. Terms are widened one by one: of a table that
// embedding and softmax share each stage adds up its own.
void SumInWideTypes(Module& module) {
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
    if (x->opcode() != Opcode::kConvert || x->parent() != module.entry()) return x;
    const DType wide = x->shape()->dtype();
    if (!IsFloat(x->operand(0)->shape()->dtype()) || !IsFloat(wide)) return x;
    if (x->shape()->byte_size() <= x->operand(0)->shape()->byte_size()) return x;
    Instruction* made = WithWideSums(x->operand(0), wide, rewriter);
    return made != nullptr ? made : x;
  });
}

// The partitioned form over `count` micro-batches of a batch that is cut into split.shards besides,
// or further by regions. `split` is told the output dims and the shards.
Expected<void> Partition(Module& module, const BatchDims& batch, int64_t count,
                         const ManualRegions& regions, SplitProgram& split) {
  Context& context = module.context();
  ModuleHeader& header = module.header();
  header.propagation_to_parameters = {false};
  header.propagation_to_output = {true};
  for (Instruction* x : module.entry()->parameters()) {
    auto it = batch.dimension.find(x->attributes<ParameterAttributes>().number);
    const Sharding* sharding = it == batch.dimension.end()
                                   ? context.Replicated()
                                   : CutDim(context, x->shape()->rank(), it->second, count);
    x->set_sharding(x->shape()->IsTuple()
                        ? context.TupleOf(LeafShardings(x->shape(), context.Replicated()))
                        : sharding);
  }
  if (split.makes_whole)
    MixedRows(module, batch.dimension, batch.PartsOf(count, split.shards), split.whole_sums)
        .MakeWhole(module, count);
  const std::string_view attributes = header.frontend_attributes;
  PassContext context_of_passes;
  context_of_passes.partition.bytes_per_moved_byte = 1e6;
  // What counts examples is a question about the operations, not about the user's compiler: GSPMD's
  // rules follow the stand-ins of manual regions.
  context_of_passes.propagation.mode = PropagationMode::kGspmd;
  context_of_passes.propagation.by_relations = true;
  PerDeviceOptions way;
  way.num_partitions = count;
  way.after_propagation = [&](Module&) -> Expected<void> {
    split.output_dimension = CutDims(module);
    if (auto done = CheckCustomCalls(module); !done) return done;
    if (auto done = CheckBatchNorms(module, batch); !done) return done;
    ManualRegions inside = regions;
    inside.FindInside(module);
    const int64_t parts = regions.PartsOfBatch(module, count);
    split.shards = std::lcm(split.shards, parts);
    if (auto done = CheckShards(module, batch, count, split.shards); !done) return done;
    FollowShards(module, count, split.shards, inside, parts);
    return {};
  };
  if (auto done = MakePerDeviceModule(module, context_of_passes, way); !done) {
    return Fail(std::move(done.error()));
  }
  header.frontend_attributes = attributes;
  header.num_partitions = 1;
  return {};
}

bool ReadsNumber(const Instruction* x) {
  return IsControlFlow(x->opcode()) && std::ranges::any_of(x->called(), [](const Computation* c) {
           return std::ranges::any_of(c->instructions(), [](const Instruction* y) {
             return y->opcode() == Opcode::kPartitionId || ReadsNumber(y);
           });
         });
}

// Hands the number of the micro-batch to loops and branches: later partition-id counts devices
// there, and the pass that runs them knows the number of its micro-batch.
class NumberInput {
 public:
  explicit NumberInput(Module& module) : module_(module) {}

  void Run() {
    RewriteModule(module_, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
      Builder& b = rewriter.builder();
      if (x->parent() == module_.entry() && ReadsNumber(x)) return Given(x, b.PartitionId(), b);
      return x;
    });
    ForwardTupleElements(module_);
    module_.SetComputations(CallPostOrder(module_));
  }

 private:
  // Of a loop or conditional whose operands are of the builder's computation.
  Instruction* Given(Instruction* x, Instruction* number, Builder& b) {
    std::vector<Instruction*> operands(x->operands().begin(), x->operands().end());
    const bool is_loop = x->opcode() == Opcode::kWhile;
    std::vector<Computation*> called;
    for (const Computation* old : x->called()) {
      called.push_back(Reading(*old, is_loop, is_loop && old == x->called(1)));
    }
    b.set_origin(x);
    if (!is_loop) {
      for (size_t i = 1; i < operands.size(); ++i) {
        Instruction* const pair[] = {operands[i], number};
        operands[i] = b.Tuple(pair);
      }
      return Named(
          b.Add(Opcode::kConditional, operands, NoAttributes{}, x->shape(), called, x->name()), x);
    }
    Instruction* const state[] = {b.Tuple(Elements(b, operands[0], number))};
    Instruction* loop = Named(
        b.Add(Opcode::kWhile, state, NoAttributes{}, state[0]->shape(), called, x->name()), x);
    std::vector<Instruction*> elements = Elements(b, loop, nullptr);
    elements.pop_back();
    return b.Tuple(elements);
  }

  static Instruction* Named(Instruction* made, Instruction* x) {
    const std::string_view name = x->name();
    x->set_name(made->name());
    made->set_name(name);
    return made;
  }

  static std::vector<Instruction*> Elements(Builder& b, Instruction* tuple, Instruction* last) {
    std::vector<Instruction*> elements;
    for (int64_t i = 0; i < static_cast<int64_t>(tuple->shape()->elements().size()); ++i) {
      elements.push_back(b.GetTupleElement(tuple, i));
    }
    if (last != nullptr) elements.push_back(last);
    return elements;
  }

  // A copy that is given the number as a last element of a loop's state, or beside a branch's
  // operand. `hands_on`: it returns it, too.
  Computation* Reading(const Computation& old, bool is_of_loop, bool hands_on) {
    Computation* made = module_.AddComputation(old.name());
    Builder b(module_, made);
    const Shape* given = old.parameter(0)->shape();
    std::vector<const Shape*> shapes = {given};
    if (is_of_loop) shapes.assign(given->elements().begin(), given->elements().end());
    shapes.push_back(module_.context().Array(DType::kU32, {}));
    Instruction* input = b.Parameter(0, module_.context().Tuple(shapes), "numbered");
    std::vector<Instruction*> parts = Elements(b, input, nullptr);
    Instruction* number = parts.back();
    parts.pop_back();
    std::unordered_map<const Instruction*, Instruction*> value;
    value[old.parameter(0)] = is_of_loop ? b.Tuple(parts) : parts[0];
    for (Instruction* x : old.instructions()) {
      if (x->opcode() == Opcode::kParameter) continue;
      std::vector<Instruction*> operands;
      for (const Instruction* operand : x->operands()) operands.push_back(value.at(operand));
      if (x->opcode() == Opcode::kPartitionId) {
        value[x] = number;
      } else if (x->opcode() == Opcode::kGetTupleElement) {
        value[x] = b.GetTupleElement(operands[0], x->attributes<GetTupleElementAttributes>().index);
      } else {
        Instruction* copy = CloneInto(module_, made, x, operands, /*take_name=*/true);
        value[x] = ReadsNumber(x) ? Given(copy, number, b) : copy;
      }
    }
    Instruction* root = value.at(old.root());
    made->set_root(hands_on ? b.Tuple(Elements(b, root, number)) : root);
    return made;
  }

  Module& module_;
};

// What a partitioned module still needs to be the program of one micro-batch.
void Settle(Module& module) {
  DropWholeMarks(module);
  MoveSumsOut(module);
  SumInWideTypes(module);
  for (Instruction* x : module.entry()->parameters()) x->set_sharding(nullptr);
}

// Of all micro-batches, not of some.
bool CombinesOneArray(const Instruction* x) {
  if (x->opcode() != Opcode::kAllReduce || x->operand_count() != 1) return false;
  const ReplicaGroups* groups = x->attributes<CollectiveAttributes>().replica_groups;
  return CombinerOf(x->called(0)).has_value() && (groups == nullptr || groups->GroupCount() == 1);
}

Expected<void> CheckMixing(const Module& module, const BatchDims& batch) {
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (!IsCollective(x->opcode())) continue;
      if (CombinesOneArray(x) && computation == module.entry()) continue;
      std::string cause = FrontendAttribute(x->frontend_attributes(), kCauseAttribute);
      Diagnostic mixed = module.ErrorAt(
          x, "E-PIPELINE-003",
          fmt::format("examples of different micro-batches are mixed by '{}' ({}){}{}", x->name(),
                      OpcodeName(x->opcode()), cause.empty() ? "" : ": ", cause));
      const Phases phases(module, batch);
      mixed.hint = HintOfMixing(module, x, [&](const Instruction* y) { return phases.Varies(y); });
      if (batch.is_guessed) {
        mixed.hint += (mixed.hint.empty() ? "" : ". ") + GuessText(module, batch);
      }
      return Fail(std::move(mixed));
    }
  }
  return {};
}

// [.., D * r, ..] as [.., D, 1, r, ..], or the whole [.., D * M * r, ..] as [.., D, M, r, ..].
std::vector<int64_t> ByMicrobatch(const Shape* shape, int64_t d, int64_t shards, int64_t count) {
  std::vector<int64_t> dims(shape->dims().begin(), shape->dims().end());
  dims[static_cast<size_t>(d)] = shards;
  dims.insert(dims.begin() + d + 1, {count, shape->dim(d) / shards / count});
  return dims;
}

// The sum that stands for the all-gather x.
Instruction* SumOfRows(Builder& b, const Instruction* x, int64_t shards) {
  const int64_t d = x->attributes<CollectiveAttributes>().dimension;
  Instruction* rows = x->operand(0);
  const int64_t count = x->shape()->dim(d) / rows->shape()->dim(d);
  const std::vector<int64_t> whole = ByMicrobatch(x->shape(), d, shards, count);
  std::vector<Instruction*> starts(whole.size(), b.ScalarInt(DType::kS32, 0));
  starts[static_cast<size_t>(d) + 1] = b.Convert(b.PartitionId(), DType::kS32);
  const DType type = x->shape()->dtype();
  Instruction* placed =
      b.DynamicUpdateSlice(b.Zero(b.context().Array(type, whole)),
                           b.Reshape(rows, ByMicrobatch(rows->shape(), d, shards, 1)), starts);
  const Opcode combiner = type == DType::kPred ? Opcode::kOr : Opcode::kAdd;
  return b.AllReduce(b.Reshape(placed, x->shape()->dims()), ReplicaGroups(),
                     b.BinaryComputation(combiner, type));
}

// An all-gather of examples whose rows no example needs that weights have met is known as a whole
// behind the micro-batches, or before them where examples alone decide the rows. It is a sum then,
// of arrays in which all but the rows of one micro-batch are zeros:
//
//   all-gather(x)
//   all-reduce(dynamic-update-slice(zeros, x, the number of the micro-batch times its rows))
//
// Example: keys of the batch that a memory bank takes in; ranks of rewards. `shards`: of the batch,
// each with micro-batches of its own.
void SumGatheredRows(Module& module, const BatchDims& batch, int64_t microbatches, int64_t shards) {
  const auto has_all_rows = [&](const Instruction* x) {
    const int64_t d = x->attributes<CollectiveAttributes>().dimension;
    const int64_t rows = x->operand(0)->shape()->dim(d);
    return rows % shards == 0 && x->shape()->dim(d) == rows * microbatches;
  };
  std::unordered_set<const Instruction*> gathers;
  for (const Instruction* x : module.entry()->instructions()) {
    if (IsPlainCollective(x, Opcode::kAllGather) && has_all_rows(x)) gathers.insert(x);
  }
  if (gathers.empty()) return;
  // With all of them ended, those that return are the ones that the micro-batch needs.
  const Phases phases(module, batch, {}, gathers);
  std::erase_if(gathers,
                [&](const Instruction* x) { return phases.PhaseOf(x) == Phase::kMicrobatch; });
  RewriteModule(module, [&](Instruction* x, Rewriter& rewriter) -> Instruction* {
    return gathers.contains(x) ? SumOfRows(rewriter.builder(), x, shards) : x;
  });
}

// M = 1: nothing is cut, but sums over the batch must be known. They are where they would be if
// the batch were cut in two: one-member all-reduces mark them.
Expected<void> MarkSums(Module& module, const BatchDims& batch, SplitProgram split) {
  std::unique_ptr<Module> halves = module.Clone();
  if (auto done = Partition(*halves, batch, 2, ManualRegions(), split); !done) return done;
  Settle(*halves);
  SumGatheredRows(*halves, batch, 2, 1);
  if (auto done = CheckMixing(*halves, batch); !done) return done;
  std::map<std::string, const Instruction*, std::less<>> sums;
  for (const Instruction* x : halves->entry()->instructions()) {
    if (x->opcode() == Opcode::kAllReduce) sums.emplace(x->operand(0)->name(), x);
  }
  InsertAfterEach(module, module.entry(), [&](Instruction* x, Builder& builder) -> Instruction* {
    auto it = sums.find(x->name());
    if (it == sums.end() || !x->shape()->IsArray()) return x;
    const std::optional<Opcode> combiner = CombinerOf(it->second->called(0));
    return builder.AllReduce(x, ReplicaGroups(),
                             builder.BinaryComputation(*combiner, x->shape()->dtype()));
  });
  return {};
}

// `split` has the shards; it is told the rest.
Expected<void> SplitInto(SplitProgram& split, Module& module, const BatchDims& batch,
                         int64_t microbatches, const ManualRegions& regions,
                         const std::function<Expected<void>()>& write_out) {
  for (const Instruction* x : module.entry()->parameters()) {
    split.parameter_shapes.push_back(x->shape());
  }
  for (const Instruction* x : OutputsOf(*module.entry())) split.output_shapes.push_back(x->shape());
  if (microbatches == 1) {
    if (auto done = MarkSums(module, batch, split); !done) return done;
    for (const Shape* shape : split.output_shapes) {
      split.output_dimension.push_back(shape->IsArray() && shape->rank() > 0 ? 0 : -1);
    }
    return {};
  }
  if (auto done = Partition(module, batch, microbatches, regions, split); !done) return done;
  if (write_out) {
    for (Instruction* x : module.entry()->parameters()) x->set_sharding(nullptr);
    if (auto done = write_out(); !done) return done;
    // Forward and backward loops, which recompute what checkpoints leave, have much in common.
    Canonicalize(module);
    MergeCommonSubexpressions(module);
  }
  Settle(module);
  SumGatheredRows(module, batch, microbatches, split.shards);
  if (auto done = CheckMixing(module, batch); !done) return done;
  if (std::ranges::any_of(module.entry()->instructions(), ReadsNumber)) NumberInput(module).Run();
  return {};
}

// Sums that return to the examples they are of: the names of what is summed.
std::set<std::string> ReturningSums(const Module& module, const BatchDims& batch) {
  std::set<std::string> names;
  const Phases phases(module, batch);
  for (const Instruction* x : module.entry()->instructions()) {
    if (x->opcode() != Opcode::kAllReduce || phases.PhaseOf(x) != Phase::kMicrobatch) continue;
    names.emplace(x->operand(0)->name());
  }
  return names;
}

// Do weights meet the examples of single micro-batches?
bool IsSplit(const Module& module, const BatchDims& batch) {
  const Phases phases(module, batch);
  const auto is_weight = [&](const Instruction* x) {
    return phases.UsesWeights(x) && !phases.Varies(x) && x->shape()->IsArray() &&
           IsFloat(x->shape()->dtype());
  };
  return std::ranges::any_of(module.entry()->instructions(), [&](const Instruction* x) {
    return phases.Varies(x) && x->opcode() != Opcode::kTuple &&
           std::ranges::any_of(x->operands(), is_weight);
  });
}

}  // namespace

Expected<SplitProgram> SplitBatch(Module& module, const BatchDims& batch, int64_t microbatches,
                                  int64_t shards, const ManualRegions& regions,
                                  const std::function<Expected<void>()>& write_out) {
  const std::unique_ptr<Module> whole = regions.empty() ? module.Clone() : nullptr;
  SplitProgram split;
  split.shards = shards;
  Expected<void> done = SplitInto(split, module, batch, microbatches, regions, write_out);
  if (!done && (done.error().code != "E-PIPELINE-003" || !whole)) {
    return Fail(std::move(done.error()));
  }
  if (!whole) return split;
  bool is_split = done.has_value();
  // A step that is split without whole rows may have sums that need them, and so may one with them.
  for (bool first = true;; first = false) {
    SplitProgram other;
    other.shards = shards;
    other.makes_whole = true;
    if (is_split) other.whole_sums = ReturningSums(module, batch);
    if (!other.whole_sums.empty()) MergeCommonSubexpressions(*whole);
    const int64_t parts =
        batch.PartsOf(std::max<int64_t>(microbatches, 2), shards);  // see MarkSums
    const MixedRows mixed(*whole, batch.dimension, parts, other.whole_sums);
    // Rows of a whole array are known by number only where the batch is cut once.
    const bool is_right = is_split && IsSplit(module, batch) && other.whole_sums.empty() &&
                          (split.makes_whole || shards == 1 || !mixed.CanBeWhole());
    bool is_better = false;
    if (!is_right && mixed.CanBeWhole()) {
      const std::unique_ptr<Module> kept = is_split ? module.Clone() : nullptr;
      module = std::move(*whole->Clone());
      is_better = SplitInto(other, module, batch, microbatches, regions, write_out).has_value();
      if (is_better) split = other;
      if (!is_better && kept) module = std::move(*kept);
    }
    is_split = is_split || is_better;
    if (is_better && first && other.whole_sums.empty()) continue;
    const Instruction* mixes = mixed.other();
    const Instruction* part = mixed.OtherOf(other.whole_sums);
    if (is_split && part != nullptr) return Fail(PartOfRows(module, *part));
    if (is_split && shards > 1 && mixes != nullptr) return Fail(RowsOfShards(module, *mixes));
    if (is_split) return split;
    if (mixes != nullptr) AddMixingHint(module, *mixes, mixed.IsLearned(mixes), done.error());
    return Fail(std::move(done.error()));
  }
}

bool SplitsInLoops(const Module& module, const BatchDims& batch, int64_t microbatches) {
  const auto counted_loops = [](const Module& of) {
    return std::ranges::count_if(of.entry()->instructions(), [](const Instruction* x) {
      return x->opcode() == Opcode::kWhile && TripCount(*x);
    });
  };
  const auto loops = counted_loops(module);
  if (loops == 0 || microbatches == 1) return false;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (x->sharding() != nullptr || IsCollective(x->opcode())) return false;
    }
  }
  const std::unique_ptr<Module> tried = module.Clone();
  SplitProgram split;
  if (!Partition(*tried, batch, microbatches, ManualRegions(), split)) return false;
  const bool only_sums = std::ranges::all_of(tried->computations(), [](const Computation* c) {
    return std::ranges::all_of(c->instructions(), [](const Instruction* x) {
      return !IsCollective(x->opcode()) || CombinesOneArray(x);
    });
  });
  return only_sums && counted_loops(*tried) == loops;
}

}  // namespace gshard::pipeline
