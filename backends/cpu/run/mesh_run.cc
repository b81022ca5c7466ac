// Planning with parameter layouts, loading of shards, assembling of results.
#include "backends/cpu/run/mesh_run.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <mutex>
#include <set>
#include <string_view>
#include <unordered_map>

#include "backends/cpu/arrays/array_rows.h"
#include "backends/cpu/arrays/buffer_bytes.h"
#include "backends/cpu/memory/memory.h"
#include "backends/cpu/mesh/partial_values.h"
#include "backends/cpu/plan/lowering.h"
#include "backends/cpu/plan/memory_error.h"
#include "backends/cpu/plan/uniformity.h"
#include "backends/cpu/plan/views.h"
#include "core/analysis/partition_record.h"
#include "core/report/quantity_text.h"
#include "ir/dims.h"
#include "ir/metadata.h"
#include "ir/parser_errors.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

using Clock = std::chrono::steady_clock;

std::vector<int64_t> WholeDims(const Shape* local, const Sharding* sharding) {
  std::vector<int64_t> dims(local->dims().begin(), local->dims().end());
  if (sharding != nullptr && sharding->IsTiled()) {
    for (size_t i = 0; i < dims.size(); ++i) {
      dims[i] *= sharding->TileCount(static_cast<int64_t>(i));
    }
  }
  return dims;
}

// Devices with the same tile are one class; of partial values (`by_part`) with the same part.
const DeviceClasses* ClassesOfTiles(DeviceClassTable& table, const DeviceGrid& grid,
                                    const Sharding* sharding, bool by_part = false) {
  by_part = by_part && IsPartial(sharding);
  if (sharding == nullptr || (!sharding->IsTiled() && !by_part)) return table.Uniform();
  std::vector<uint32_t> tiles(grid.partitions);
  if (sharding->IsTiled()) tiles = TileNumbers(*sharding, grid.partitions);
  std::vector<uint64_t> labels(grid.device_count());
  for (uint32_t d = 0; d < labels.size(); ++d) {
    const uint32_t partition = d % grid.partitions;
    labels[d] = tiles[partition];
    if (!by_part) continue;
    const int64_t place = std::min(PartialPlace(sharding, partition), kDistinctPlaces);
    labels[d] |= static_cast<uint64_t>(place) << 32;
  }
  return table.Intern(labels);
}

// Of `x`'s leaves, if it is a parameter of the entry and they are known.
std::vector<const Shape*> WholeShapesOfParameter(const Module& module, const Instruction& x,
                                                 const MeshRunOptions& options) {
  size_t first = 0;
  for (const Instruction* parameter : module.entry()->parameters()) {
    const auto count = static_cast<size_t>(parameter->shape()->leaf_count());
    if (parameter == &x && first + count <= options.global_parameters.size()) {
      const auto begin = options.global_parameters.begin() + static_cast<std::ptrdiff_t>(first);
      return {begin, begin + static_cast<std::ptrdiff_t>(count)};
    }
    first += count;
  }
  return {};
}

const DeviceClasses* ClassesOfReplicas(DeviceClassTable& table, const DeviceGrid& grid) {
  std::vector<uint64_t> labels(grid.device_count());
  for (uint32_t d = 0; d < labels.size(); ++d) labels[d] = d / grid.partitions;
  return table.Intern(labels);
}

}  // namespace

MeshRunOptions MeshRunOptions::ForWholeGraph(const DeviceGrid& whole_grid) const {
  MeshRunOptions options = *this;
  options.grid = whole_grid;
  options.ranks = nullptr;
  options.index_observer = whole_index_observer;
  if (whole_grid.partitions == 1) {
    options.global_parameters.clear();
    options.global_results.clear();
  }
  return options;
}

Expected<std::unique_ptr<MeshRun>> MeshRun::Prepare(const Module& module, const Inputs& inputs,
                                                    const MeshRunOptions& options) {
  std::unique_ptr<MeshRun> run(new MeshRun());
  run->grid_ = options.grid;
  run->padding_ = options.padding;
  run->threads_ = options.threads;
  if (options.ranks != nullptr && options.ranks->size() > 1) run->ranks_ = options.ranks;
  const Clock::time_point start = Clock::now();
  auto program = GSHARD_TRY(run->Lower(module, options));
  const Clock::time_point load = Clock::now();
  GSHARD_TRY(run->LoadParameters(module, inputs, options, program->classes));
  const Clock::duration loading = Clock::now() - load;
  GSHARD_TRY(run->MakePlan(std::move(program), options));
  // Refusals of plans that are too large come from MakePlan, too; reading files is no planning.
  run->plan_seconds_ = std::chrono::duration<double>(Clock::now() - start - loading).count();
  GSHARD_TRY(run->FindResultLayouts(module, options));
  run->FindKeptLayouts(module, options);
  return run;
}

Expected<std::unique_ptr<Program>> MeshRun::Lower(const Module& module,
                                                  const MeshRunOptions& options) {
  LoweringOptions lowering;
  lowering.keep = options.keep;
  lowering.probes = options.probes;
  lowering.index_observer = options.index_observer;
  lowering.seed = options.seed;
  lowering.memory_limit = options.memory_limit;
  auto program = GSHARD_TRY(LowerModule(module, grid_, lowering));
  for (const Instruction* constant : program->elided_constants) {
    Diagnostic warning = module.ErrorAt(
        constant, "W-RUN-ELIDED",
        fmt::format("the values of {} were left out of the text; random ones stand in",
                    constant->name()));
    warning.severity = Severity::kWarning;
    warning.hint = ElidedHint();
    warnings_.push_back(std::move(warning));
  }
  return program;
}

Expected<void> MeshRun::LoadParameters(const Module& module, const Inputs& inputs,
                                       const MeshRunOptions& options, DeviceClassTable& table) {
  const std::vector<ParameterLeaf> leaves = ParameterLeaves(*module.entry());
  if (const std::string unknown = inputs.UnknownName(leaves); !unknown.empty()) {
    NearestWord nearest(unknown);
    for (const ParameterLeaf& leaf : leaves) nearest.Offer(leaf.base_name);
    const std::string naming =
        leaves.empty() ? std::string("the program has no parameters")
                       : fmt::format("arrays are named after parameters, or p0 to p{} in order",
                                     leaves.size() - 1);
    return Fail(MakeError("E-RUN-INPUT", fmt::format("no parameter is named {}", unknown),
                          nearest.best().empty() ? naming : nearest.Hint()));
  }
  parameters_.resize(leaves.size());
  inputs_.resize(leaves.size());
  for (size_t k = 0; k < leaves.size(); ++k) {
    Layout& layout = parameters_[k];
    if (!leaves[k].shape->IsArray()) {
      parameter_classes_.push_back(table.Uniform());
      continue;
    }
    layout.sharding = grid_.partitions > 1 ? leaves[k].sharding : nullptr;
    layout.local_dims.assign(leaves[k].shape->dims().begin(), leaves[k].shape->dims().end());
    const bool whole_is_known = k < options.global_parameters.size();
    if (whole_is_known) {
      const Shape* whole = options.global_parameters[k];
      layout.global_dims.assign(whole->dims().begin(), whole->dims().end());
    } else {
      layout.global_dims = WholeDims(leaves[k].shape, layout.sharding);
    }
    InputForm form = InputForm::kWhole;
    auto array = GSHARD_TRY(inputs.Load(leaves[k], k, layout.global_dims, layout.local_dims,
                                        whole_is_known, grid_, &form));
    layout.stacked = form == InputForm::kPerDevice;
    layout.by_replica = form == InputForm::kPerReplica;
    layout.global_dims = array.dims;
    inputs_[k] = std::move(array);
    const DeviceClasses* tiles =
        layout.stacked ? table.Distinct() : ClassesOfTiles(table, grid_, layout.sharding, true);
    parameter_classes_.push_back(
        layout.by_replica ? table.Join(tiles, ClassesOfReplicas(table, grid_)) : tiles);
  }
  return {};
}

Expected<void> MeshRun::MakePlan(std::unique_ptr<Program> program, const MeshRunOptions& options) {
  GSHARD_TRY(AnalyzeUniformity(*program, parameter_classes_));
  FindViews(*program);
  RemoveDeadOps(*program);
  input_summary_ =
      SummarizeInputs(ParameterLeaves(*program->module->entry()), inputs_, *program, options.seed);
  PlanOptions plan_options;
  plan_options.threads = options.threads;
  plan_options.fuse = options.fuse;
  plan_options.fused_accumulators = options.fuse;
  plan_options.probed_bytes = options.probed_bytes;
  plan_options.cut.devices = grid_.device_count();
  plan_options.speeds = options.rank_speeds;
  if (ranks_ != nullptr) {
    plan_options.cut.rank = ranks_->rank();
    plan_options.cut.size = ranks_->size();
  }
  plan_options.memory_limit =
      options.memory_limit > 0 ? std::max<int64_t>(1, options.memory_limit - program->elided_bytes)
                               : AvailableMemory();
  plan_ = GSHARD_TRY(BuildPlan(std::move(program), plan_options));
  if (plan_->memory.arena_bytes() <= plan_options.memory_limit) return {};
  return Fail(options.memory_limit > 0
                  ? MemoryError(*plan_, "limit of ", plan_options.memory_limit)
                  : MemoryError(*plan_, "machine's free ", plan_options.memory_limit,
                                "--memory-limit SIZE runs it all the same; "));
}

Expected<void> MeshRun::FindResultLayouts(const Module& module, const MeshRunOptions& options) {
  AppendLeafShapes(module.entry()->root()->shape(), result_shapes_);
  std::vector<const Sharding*> record;
  if (grid_.partitions > 1) {
    record = GSHARD_TRY(RecordedOutputShardings(module));
  }
  const bool several = grid_.device_count() > 1;
  for (size_t k = 0; k < result_shapes_.size(); ++k) {
    Layout layout;
    const Shape* shape = result_shapes_[k];
    layout.sharding = k < record.size() ? record[k] : nullptr;
    const bool stacked = several && (layout.sharding == nullptr || layout.sharding->IsManual());
    const bool by_replica = !stacked && grid_.replicas > 1;
    const Shape* whole = k < options.global_results.size() ? options.global_results[k] : nullptr;
    SetLayout(shape, whole, shape->IsArray() && stacked, shape->IsArray() && by_replica, layout);
    results_.push_back(std::move(layout));
  }
  return {};
}

void MeshRun::SetLayout(const Shape* shape, const Shape* whole, bool stacked, bool by_replica,
                        Layout& layout) const {
  DeviceClassTable& table = plan_->program->classes;
  if (shape->IsArray()) {
    layout.local_dims.assign(shape->dims().begin(), shape->dims().end());
    if (stacked) {
      layout.global_dims = layout.local_dims;
      layout.global_dims.insert(layout.global_dims.begin(), grid_.device_count());
    } else if (whole != nullptr) {
      layout.global_dims.assign(whole->dims().begin(), whole->dims().end());
    } else {
      layout.global_dims = WholeDims(shape, layout.sharding);
    }
  }
  layout.stacked = stacked;
  layout.by_replica = by_replica;
  layout.tiles = stacked ? table.Distinct() : ClassesOfTiles(table, grid_, layout.sharding);
  if (!by_replica) return;
  layout.global_dims.insert(layout.global_dims.begin(), grid_.replicas);
  layout.tiles = table.Join(layout.tiles, ClassesOfReplicas(table, grid_));
}

void MeshRun::SetResultSpread(size_t k, const Sharding* sharding, std::span<const int64_t> whole) {
  Layout layout;
  layout.sharding = sharding;
  SetLayout(result_shapes_[k], nullptr, false, grid_.replicas > 1, layout);
  const std::ptrdiff_t replica_dims = layout.by_replica ? 1 : 0;
  layout.global_dims.resize(static_cast<size_t>(replica_dims));
  layout.global_dims.insert(layout.global_dims.end(), whole.begin() + replica_dims, whole.end());
  results_[k] = std::move(layout);
}

void MeshRun::FindKeptLayouts(const Module& module, const MeshRunOptions& options) {
  const Program& program = *plan_->program;
  std::unordered_map<std::string_view, const Instruction*> by_name;
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) by_name.emplace(x->name(), x);
  }
  for (size_t i = 0; i < options.keep.size(); ++i) {
    const Instruction& x = *by_name.at(options.keep[i]);
    MeshRunOptions::WholeForm form;
    if (i < options.keep_forms.size()) form = options.keep_forms[i];
    const bool sharded = grid_.device_count() > 1;
    const bool known = form.sharding != nullptr || (sharded && x.sharding() != nullptr);
    const std::vector<const Sharding*> shardings =
        known ? LeafShardings(x.shape(), form.sharding != nullptr ? form.sharding : x.sharding())
              : std::vector<const Sharding*>();
    const size_t begin = program.kept_begin[i];
    const size_t end =
        i + 1 < program.kept_begin.size() ? program.kept_begin[i + 1] : program.kept.size();
    const std::vector<const Shape*> whole = WholeShapesOfParameter(module, x, options);
    for (size_t leaf = begin; leaf < end; ++leaf) {
      const Shape* shape = program.kept_shapes[leaf];
      Layout& layout = kept_.emplace_back();
      if (!shape->IsArray()) continue;
      if (leaf - begin < shardings.size()) layout.sharding = shardings[leaf - begin];
      if (layout.sharding != nullptr && layout.sharding->IsManual()) layout.sharding = nullptr;
      const bool differs = !program.values[program.kept[leaf]].classes->IsUniform();
      const bool stacked = layout.sharding == nullptr && differs;
      const Shape* known_whole = leaf - begin < whole.size() ? whole[leaf - begin] : form.whole;
      SetLayout(shape, known_whole, stacked, !stacked && differs && grid_.replicas > 1, layout);
    }
  }
}

// A box of so many bytes; in rows of its first dim that has several where that is much, so that
// other ranks hear that this one gets on.
Expected<void> MeshRun::ReadInPieces(const GlobalArray& input, std::vector<int64_t> start,
                                     std::vector<int64_t> sizes, int64_t bytes,
                                     std::byte* data) const {
  constexpr int64_t kPieceBytes = 16 << 20;
  size_t dim = 0;
  while (dim < sizes.size() && sizes[dim] == 1) ++dim;
  if (ranks_ == nullptr || dim == sizes.size() || bytes <= kPieceBytes) {
    return input.ReadBox(start, sizes, padding_, data);
  }
  const int64_t row_bytes = bytes / sizes[dim];
  const int64_t rows = std::max<int64_t>(kPieceBytes / row_bytes, 1);
  const int64_t end = start[dim] + sizes[dim];
  for (; start[dim] < end; start[dim] += sizes[dim]) {
    sizes[dim] = std::min(rows, end - start[dim]);
    GSHARD_TRY(input.ReadBox(start, sizes, padding_, data));
    data += sizes[dim] * row_bytes;
    ranks_->ReportProgress();
  }
  return {};
}

Expected<void> MeshRun::Start(const std::atomic<bool>* stop) {
  auto stopped = [stop] { return stop != nullptr && stop->load(std::memory_order_relaxed); };
  try {
    executor_ = std::make_unique<Executor>(*plan_, ranks_);
  } catch (const std::bad_alloc&) {
    return Fail(MakeError(
        "E-RUN-MEMORY", fmt::format("the system does not give {}",
                                    HumanBytes(static_cast<double>(plan_->memory.arena_bytes())))));
  }
  Workers workers(threads_);
  std::mutex mutex;
  Expected<void> all_read;
  for (size_t k = 0; k < parameters_.size() && all_read; ++k) {
    const Value& value = plan_->program->values[plan_->program->parameters[k]];
    if (!value.shape->IsArray()) continue;
    const Layout& layout = parameters_[k];
    const DeviceClasses* classes = parameter_classes_[k];
    const std::vector<int64_t> sizes = SizesOf(layout);
    const uint8_t* here =
        ranks_ == nullptr ? nullptr : executor_->ranks()->everyone()->OfClasses(classes).data();
    workers.For(classes->count(), value.bytes * classes->count(), [&](int64_t c, int) {
      if (stopped() || (here != nullptr && here[c] == 0)) return;
      const uint32_t device = classes->first_device(static_cast<uint32_t>(c));
      std::byte* data = executor_->Parameter(k, static_cast<uint32_t>(c));
      Expected<void> read =
          ReadInPieces(inputs_[k], StartOf(layout, device), sizes, value.bytes, data);
      if (!read) {
        const std::lock_guard lock(mutex);
        all_read = std::move(read);
        return;
      }
      if (layout.stacked || !IsPartial(layout.sharding)) return;
      MakePartial(value.shape->dtype(), layout.sharding->reduction,
                  PartialPlace(layout.sharding, device % grid_.partitions),
                  value.shape->element_count(), data);
    });
    inputs_[k] = {};
    if (stopped()) return Fail(MakeError("E-RUN-STOPPED", "interrupted"));
  }
  return all_read;
}

std::vector<int64_t> MeshRun::StartOf(const Layout& layout, uint32_t device) const {
  std::vector<int64_t> start(layout.local_dims.size(), 0);
  if (layout.stacked) {
    start.insert(start.begin(), device);
  } else if (layout.sharding != nullptr && layout.sharding->IsTiled()) {
    start =
        TileIndexOf(layout.sharding, device % grid_.partitions, static_cast<int64_t>(start.size()));
    for (size_t i = 0; i < start.size(); ++i) start[i] *= layout.local_dims[i];
  }
  if (layout.by_replica) start.insert(start.begin(), device / grid_.partitions);
  return start;
}

std::vector<int64_t> MeshRun::SizesOf(const Layout& layout) {
  std::vector<int64_t> sizes = layout.local_dims;
  if (layout.stacked || layout.by_replica) sizes.insert(sizes.begin(), 1);
  return sizes;
}

MeshRun::Instance MeshRun::InstanceOn(ValueId value, const Layout& layout, uint32_t device) const {
  Instance instance{device, StartOf(layout, device), SizesOf(layout), nullptr};
  instance.data = executor_->Result(value, SourceOf(layout, device));
  return instance;
}

uint32_t MeshRun::SourceOf(const Layout& layout, uint32_t device) const {
  const uint32_t first = device - device % grid_.partitions;  // of the replica
  const bool maximal = layout.sharding != nullptr && layout.sharding->IsMaximal();
  return maximal ? first + static_cast<uint32_t>(layout.sharding->device) : device;
}

std::vector<MeshRun::Instance> MeshRun::Instances(size_t k) const {
  if (!result_shapes_[k]->IsArray()) return {};
  return InstancesOf(plan_->program->results[k], results_[k]);
}

MeshRun::Instance MeshRun::CombinedOn(ValueId value, const Layout& layout, uint32_t device,
                                      std::vector<std::byte>& storage) const {
  Instance instance = InstanceOn(value, layout, device);
  if (layout.stacked || !IsPartial(layout.sharding)) return instance;
  const uint32_t first = device - device % grid_.partitions;  // of the replica
  std::vector<const std::byte*> parts;
  for (uint32_t p : PartialGroup(layout.sharding, device - first, grid_.partitions)) {
    parts.push_back(executor_->Result(value, first + p));
  }
  const Shape* shape = plan_->program->values[value].shape;
  storage.resize(static_cast<size_t>(BufferBytes(shape)));
  CombineParts(shape->dtype(), layout.sharding->reduction, parts, shape->element_count(),
               storage.data());
  instance.data = storage.data();
  return instance;
}

std::vector<MeshRun::Instance> MeshRun::InstancesOf(ValueId value, const Layout& layout) const {
  const DeviceClasses* classes =
      plan_->program->classes.Join(plan_->program->values[value].classes, layout.tiles);
  if (layout.sharding != nullptr && layout.sharding->IsMaximal()) classes = layout.tiles;
  std::vector<Instance> instances;
  if (IsPartial(layout.sharding) && !layout.stacked) {
    // Of every group one, where its first member is.
    std::set<std::vector<uint32_t>> seen;
    for (uint32_t d = 0; d < grid_.device_count(); ++d) {
      const uint32_t first = d - d % grid_.partitions;
      if (PartialPlace(layout.sharding, d - first) != 0) continue;
      std::vector<uint32_t> parts;
      if (layout.by_replica) parts.push_back(first);
      for (uint32_t p : PartialGroup(layout.sharding, d - first, grid_.partitions)) {
        parts.push_back(classes->class_of(first + p));
      }
      if (!seen.insert(std::move(parts)).second) continue;
      instances.push_back(CombinedOn(value, layout, d, combined_.emplace_back()));
    }
    return instances;
  }
  for (uint32_t c = 0; c < classes->count(); ++c) {
    instances.push_back(InstanceOn(value, layout, classes->first_device(c)));
  }
  return instances;
}

std::optional<MeshRun::ProbeSpread> MeshRun::SpreadOfProbe(size_t probe,
                                                           const Sharding* sharding) const {
  const Program& program = *plan_->program;
  const ValueId shown = program.probed[probe];
  if (shown == kNoValue) return std::nullopt;
  // A reshape without effect has its operand's value: the shape is the probed instruction's.
  const Shape* shape = program.values[program.probe_results[probe]].shape;
  return SpreadOver(*program.values[shown].classes, *shape, sharding);
}

MeshRun::ProbeSpread MeshRun::SpreadOfTiles(const Shape* tile, const Sharding* sharding) const {
  return SpreadOver(*ClassesOfTiles(plan_->program->classes, grid_, sharding, tile->rank()), *tile,
                    sharding);
}

MeshRun::ProbeSpread MeshRun::SpreadOver(const DeviceClasses& classes, const Shape& tile,
                                         const Sharding* sharding) const {
  ProbeSpread spread;
  spread.classes_ = &classes;
  spread.layout_.sharding = sharding;
  spread.layout_.local_dims.assign(tile.dims().begin(), tile.dims().end());
  std::vector<std::vector<uint32_t>> devices(classes.count());
  if (sharding != nullptr && sharding->IsMaximal()) {
    const auto device = static_cast<uint32_t>(sharding->device);
    devices[classes.class_of(device)].push_back(device);
  } else {
    spread.layout_.tiles = ClassesOfTiles(plan_->program->classes, grid_, sharding, tile.rank());
    const DeviceClasses* joined = plan_->program->classes.Join(&classes, spread.layout_.tiles);
    for (uint32_t j = 0; j < joined->count(); ++j) {
      const uint32_t device = joined->first_device(j);
      devices[classes.class_of(device)].push_back(device);
    }
  }
  spread.begin_.push_back(0);
  for (const std::vector<uint32_t>& of_class : devices) {
    spread.devices_.insert(spread.devices_.end(), of_class.begin(), of_class.end());
    spread.begin_.push_back(static_cast<uint32_t>(spread.devices_.size()));
  }
  return spread;
}

OutputArray MeshRun::Assemble(ValueId value, const Shape* shape, const Layout& layout) const {
  OutputArray out;
  out.dtype = shape->dtype();
  out.dims = layout.global_dims;
  int64_t count = 1;
  for (int64_t dim : out.dims) count *= dim;
  const int bytes = shape->IsArray() ? StorageBytes(out.dtype) : 0;
  out.data.resize(static_cast<size_t>(count * bytes));
  if (out.data.empty()) return out;
  std::vector<std::byte> combined;
  for (uint32_t c = 0; c < layout.tiles->count(); ++c) {
    const Instance instance = CombinedOn(value, layout, layout.tiles->first_device(c), combined);
    ForEachRow(instance.start, instance.sizes, out.dims,
               [&](int64_t global, int64_t local, int64_t length) {
                 std::memcpy(out.data.data() + global * bytes, instance.data + local * bytes,
                             static_cast<size_t>(length * bytes));
               });
  }
  return out;
}

void MeshRun::GatherResult(size_t k, bool to_all) {
  if (ranks_ == nullptr) return;
  executor_->ranks()->Gather(plan_->program->results[k], to_all, "the results");
}

bool MeshRun::InPieces(size_t k) const {
  return result_shapes_[k]->IsArray() && (results_[k].stacked || !IsPartial(results_[k].sharding));
}

void MeshRun::VisitTiles(size_t k, const std::function<void(const Instance&)>& visit) {
  const ValueId value = plan_->program->results[k];
  const Value& v = plan_->program->values[value];
  const Layout& layout = results_[k];
  RankRunner* ranks = executor_->ranks();
  for (int from = 0; from < (ranks_ == nullptr ? 1 : ranks_->size()); ++from) {
    if (from > 0) ranks->GatherFrom(value, from, "the results");
    for (uint32_t c = 0; visit && c < layout.tiles->count() && v.bytes > 0; ++c) {
      const uint32_t device = layout.tiles->first_device(c);
      const uint32_t source = SourceOf(layout, device);
      const int producer =
          ranks == nullptr ? 0 : ranks->GiverOf(value, v.classes->class_of(source));
      if (producer == from) visit(InstanceOn(value, layout, device));
    }
    if (from > 0) ranks->ReleaseGathered(value);
  }
}

void MeshRun::GatherKept(size_t leaf) {
  if (ranks_ != nullptr) executor_->ranks()->Gather(plan_->program->kept[leaf], false, "a dump");
}

OutputArray MeshRun::Output(size_t k) const {
  return Assemble(plan_->program->results[k], result_shapes_[k], results_[k]);
}

std::vector<OutputArray> MeshRun::Outputs(size_t most) const {
  std::vector<OutputArray> outputs;
  for (size_t k = 0; k < std::min(result_count(), most); ++k) outputs.push_back(Output(k));
  return outputs;
}

bool MeshRun::AssemblesTo(size_t k, std::span<const int64_t> dims) const {
  const Layout& layout = results_[k];
  if (layout.by_replica) {
    if (dims.empty() || dims[0] != grid_.replicas) return false;
    dims = dims.subspan(1);
  }
  if (layout.stacked) return std::ranges::equal(layout.global_dims, dims);
  if (layout.local_dims.size() != dims.size()) return false;
  for (size_t i = 0; i < dims.size(); ++i) {
    const bool tiled = layout.sharding != nullptr && layout.sharding->IsTiled();
    const int64_t tiles = tiled ? layout.sharding->TileCount(static_cast<int64_t>(i)) : 1;
    if (layout.local_dims[i] != (dims[i] + tiles - 1) / tiles) return false;
  }
  return true;
}

std::vector<size_t> MeshRun::KeptLeaves(size_t i) const {
  const std::vector<size_t>& begin = plan_->program->kept_begin;
  const size_t end = i + 1 < begin.size() ? begin[i + 1] : plan_->program->kept.size();
  std::vector<size_t> leaves;
  for (size_t leaf = begin[i]; leaf < end; ++leaf) {
    if (plan_->program->values[plan_->program->kept[leaf]].shape->IsArray()) leaves.push_back(leaf);
  }
  return leaves;
}

OutputArray MeshRun::Kept(size_t leaf, std::optional<uint32_t> device) const {
  const ValueId id = plan_->program->kept[leaf];
  const Shape* shape = plan_->program->kept_shapes[leaf];
  if (!device) return Assemble(id, shape, kept_[leaf]);
  OutputArray out;
  out.dtype = shape->dtype();
  out.dims = kept_[leaf].local_dims;
  const std::byte* data = executor_->Result(id, *device);
  out.data.assign(data, data + plan_->program->values[id].bytes);
  return out;
}

}  // namespace gshard::cpu
