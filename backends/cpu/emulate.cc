// The whole way from a module to a report.
#include "backends/cpu/emulate.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <unordered_map>
#include <unordered_set>

#include "backends/cpu/arrays/fill.h"
#include "backends/cpu/expand/channels.h"
#include "backends/cpu/expand/dynamic_root.h"
#include "backends/cpu/expand/dynamic_sizes.h"
#include "backends/cpu/expand/host_transfers.h"
#include "backends/cpu/expand/scan_loop.h"
#include "backends/cpu/expand/sliced_permute.h"
#include "backends/cpu/io/npz.h"
#include "backends/cpu/run/mesh_run.h"
#include "backends/cpu/run/workers.h"
#include "backends/cpu/verify/manual_reference.h"
#include "backends/cpu/verify/verify_instructions.h"
#include "core/analysis/partitioned.h"
#include "core/spmd/per_device_module.h"
#include "ir/dims.h"

namespace gshard::cpu {
namespace {

using Clock = std::chrono::steady_clock;

// For values that wait to be compared.
constexpr int64_t kWaitingBytes = int64_t{1} << 30;

double Since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

Expected<void> WriteBytes(const std::string& path, std::span<const std::byte> data) {
  std::ofstream out(path, std::ios::binary);
  out.write(reinterpret_cast<const char*>(data.data()), static_cast<std::streamsize>(data.size()));
  out.close();
  if (!out) return Fail(MakeError("E-IO-WRITE", fmt::format("{}: cannot be written", path)));
  return {};
}

class Emulator {
 public:
  // `given`: Emulate's reference; `capacities`: of feeds to the host that had more items than room
  // in a run before.
  Emulator(std::unique_ptr<Module> module, std::unique_ptr<Module> given,
           const EmulateOptions& options, const std::vector<FeedCapacity>& capacities)
      : module_(std::move(module)),
        given_(std::move(given)),
        options_(options),
        capacities_(capacities) {}

  Expected<Emulation> Run() {
    run_options_.threads = options_.threads > 0 ? options_.threads : AvailableCores();
    run_options_.seed = options_.seed;
    run_options_.memory_limit = options_.memory_limit;
    run_options_.fuse = !options_.check_nan;
    run_options_.padding = options_.check_nan ? Padding::kHarmless : Padding::kPoisoned;
    RunReport& report = emulation_.report;
    report.threads = run_options_.threads;
    auto inputs = Inputs::Open(options_.input, options_.seed);
    if (!inputs) return Fail(inputs.error());
    auto host = ReplaceHostTransfers(*module_, **inputs, capacities_);
    if (!host) return Fail(host.error());
    host_ = std::move(*host);
    if (Expected<void> done = ExpandDynamicSizes(*module_); !done) return Fail(done.error());
    if (Expected<void> done = Partition(**inputs); !done) return Fail(done.error());
    if (Expected<void> done = ExpandTransfers(*module_, run_options_.grid); !done)
      return Fail(done.error());
    if (reference_ != nullptr) ExpandScans(*reference_);
    DropFormsOfExpanded();
    report.devices = run_options_.grid.device_count();
    if (Expected<void> done = CheckFiles(); !done) return Fail(done.error());
    KeepDumps();
    Progress("plan", 0);
    auto run = MeshRun::Prepare(*module_, **inputs, run_options_);
    if (!run) return Fail(Explained(run.error()));
    for (const Diagnostic& warning : (*run)->warnings()) Warn(warning);
    report.plan_time_s = (*run)->plan_seconds();
    report.device_peak_bytes = (*run)->plan().memory.device_peak_bytes;
    // The reference runs before the mesh touches its memory, so that the peaks do not add up.
    if (options_.verify) {
      if (Expected<void> done = RunReference(**inputs); !done) return Fail(done.error());
      if (emulation_.interrupted) return std::move(emulation_);
      if (Expected<void> done = CheckResults(**run); !done) return Fail(done.error());
    }
    if (Expected<void> done = UnlessStopped((*run)->Start(options_.stop)); !done) {
      return Fail(done.error());
    }
    if (emulation_.interrupted) return std::move(emulation_);
    if (Expected<void> done = Repeat(**run); !done) return Fail(done.error());
    report.peak_memory_bytes = (*run)->executor().memory_bytes();
    if (emulation_.interrupted) return std::move(emulation_);
    if (Expected<void> done = CountItems(**run); !done) return Fail(done.error());
    if (!overflown_.empty()) return std::move(emulation_);
    if (Expected<void> done = WriteResults(**run); !done) return Fail(done.error());
    if (options_.verify) {
      Progress("compare", 0);
      report.verify = VerifyOutputs(**run, expected_, Reference());
      expected_.clear();
      run->reset();
      if (Expected<void> done = VerifyNamed(**inputs); !done) return Fail(done.error());
    }
    return std::move(emulation_);
  }

  // After Run: feeds to the host that had no room for all items. The results are lost.
  const std::vector<FeedCapacity>& overflown() const { return overflown_; }

 private:
  // To be stopped is no error, but an end with what there is.
  Expected<void> UnlessStopped(Expected<void> done) {
    if (done || done.error().code != "E-RUN-STOPPED") return done;
    emulation_.interrupted = emulation_.report.interrupted = true;
    return {};
  }

  // The groups of a partitioned program do not fit a single device.
  Diagnostic Explained(Diagnostic error) const {
    if (options_.unpartitioned && error.hint.empty() && IsPartitioned(*module_)) {
      error.hint =
          "this program is partitioned already: without --unpartitioned all devices run it";
    }
    return error;
  }
  void Progress(const std::string& phase, double share) {
    if (options_.progress) options_.progress(phase, share);
  }
  void Warn(const Diagnostic& warning) {
    if (options_.warn) options_.warn(warning);
  }

  // What becomes collectives that the mesh has.
  static Expected<void> ExpandTransfers(Module& module, const DeviceGrid& grid) {
    ExpandScans(module);
    if (Expected<void> done = PairChannels(module); !done) return done;
    if (Expected<void> done = ExpandDynamicRoots(module, grid); !done) return done;
    return ExpandSlicedPermutes(module);
  }

  // Makes module_ what every device runs; reference_ keeps the whole graph where it is needed.
  Expected<void> Partition(const Inputs& inputs) {
    const bool partitioned = options_.partitioned.value_or(IsPartitioned(*module_));
    auto devices = ReadDevices(*module_, partitioned ? 0 : options_.num_partitions);
    if (!devices) return Fail(devices.error());
    const bool manual = !partitioned && HasManualRegions(*module_);
    run_options_.grid = GridOf(*module_, options_.num_partitions);
    if (!partitioned || given_ != nullptr) reference_grid_.replicas = run_options_.grid.replicas;
    if (options_.unpartitioned && !manual) {
      run_options_.grid = reference_grid_;
      return {};
    }
    if (partitioned && given_ != nullptr) return TakeReference(inputs);
    if (given_ != nullptr) {
      return Fail(MakeError("E-RUN-VERIFY",
                            "--reference goes with a program that is partitioned, and this one is "
                            "not: --verify alone compares it with itself"));
    }
    if (partitioned || run_options_.grid.partitions == 1) {
      if (options_.verify && run_options_.grid.device_count() > 1) {
        return Fail(MakeError("E-RUN-VERIFY",
                              "--verify needs the graph before partitioning, and this one is "
                              "partitioned already",
                              "name that graph: --reference FILE"));
      }
      return {};
    }
    return PartitionGraph(*module_, options_.num_partitions);
  }

  // Keeps what is needed of the whole graph and partitions it.
  Expected<void> PartitionGraph(Module& graph, int64_t num_partitions) {
    const bool manual = HasManualRegions(graph);
    Progress("partition", 0);
    const Clock::time_point start = Clock::now();
    AppendLeaves(graph);
    PassContext context;
    context.propagation = options_.propagation;
    if (options_.verify || !options_.dumps.empty()) context.partition.local_forms = &local_forms_;
    PerDeviceOptions way;
    way.num_partitions = num_partitions;
    way.passes = options_.passes;
    way.after_inlining = [&](Module& inlined) {
      if (options_.verify && !manual) reference_ = inlined.Clone();
      return Expected<void>();
    };
    way.after_propagation = [&](Module& propagated) -> Expected<void> {
      if (options_.verify && manual) {
        if (Expected<void> done = MakeManualReference(propagated); !done) return done;
      }
      if (options_.unpartitioned) ReplicateOutsideManual(propagated);
      return {};
    };
    auto made = MakePerDeviceModule(graph, context, way);
    for (const Diagnostic& warning : context.diagnostics) Warn(warning);
    if (!made) return Fail(made.error());
    emulation_.report.partition_time_s = Since(start);
    return {};
  }

  // Values that expansion has replaced are no longer there to be compared.
  void DropFormsOfExpanded() {
    if (local_forms_.empty()) return;
    std::unordered_set<const Instruction*> there;
    for (const Computation* computation : module_->computations()) {
      for (const Instruction* x : computation->instructions()) there.insert(x);
    }
    std::erase_if(local_forms_,
                  [&](const LocalForm& form) { return there.count(form.local) == 0; });
  }

  // The graph of which module_ was made. Where our partitioner gives an array of it the name and
  // the shape that module_ has, it is taken for the same array, spread in the same way.
  Expected<void> TakeReference(const Inputs& inputs) {
    if (auto devices = ReadDevices(*given_, run_options_.grid.partitions); !devices) {
      return Fail(devices.error());
    }
    auto host = ReplaceHostTransfers(*given_, inputs, capacities_);
    if (!host) return Fail(host.error());
    if (Expected<void> done = ExpandDynamicSizes(*given_); !done) return done;
    if (Expected<void> done = PartitionGraph(*given_, run_options_.grid.partitions); !done) {
      return done;
    }
    emulation_.report.partition_time_s = 0;
    std::unordered_map<std::string_view, const Instruction*> by_name;
    for (const Computation* computation : module_->computations()) {
      for (const Instruction* x : computation->instructions()) by_name.emplace(x->name(), x);
    }
    std::erase_if(local_forms_, [&](LocalForm& form) {
      const auto found = by_name.find(form.local->name());
      if (found == by_name.end() || !SameArray(found->second->shape(), form.local->shape())) {
        return true;
      }
      form.local = found->second;
      return false;
    });
    return CheckParameters();
  }

  // Shapes of two contexts.
  static bool SameArray(const Shape* a, const Shape* b) {
    return a->IsArray() && b->IsArray() && a->dtype() == b->dtype() &&
           std::ranges::equal(a->dims(), b->dims());
  }

  // Shards of the given reference's parameters?
  Expected<void> CheckParameters() {
    const std::vector<ParameterLeaf> leaves = ParameterLeaves(*module_->entry());
    const std::vector<const Shape*>& whole = run_options_.global_parameters;
    bool equal = leaves.size() == whole.size();
    size_t k = 0;
    for (; equal && k < leaves.size(); ++k) {
      const Shape* local = leaves[k].shape;
      if (!local->IsArray() || !whole[k]->IsArray()) continue;
      equal = local->dtype() == whole[k]->dtype() && local->rank() == whole[k]->rank();
      for (int64_t d = 0; equal && d < local->rank(); ++d) {
        const Sharding* sharding = leaves[k].sharding;
        const int64_t tiles =
            sharding != nullptr && sharding->IsTiled() ? sharding->TileCount(d) : 1;
        equal = local->dim(d) == (whole[k]->dim(d) + tiles - 1) / tiles;
      }
    }
    if (equal) return {};
    return Fail(MakeError("E-RUN-VERIFY",
                          leaves.size() != whole.size()
                              ? fmt::format("the reference has {} parameters, this program {}",
                                            whole.size(), leaves.size())
                              : fmt::format("parameter {} is no shard of the reference's", k - 1)));
  }

  // Do the results form those of the reference?
  Expected<void> CheckResults(const MeshRun& run) const {
    if (given_ == nullptr) return {};
    bool equal = std::min(run.result_count(), host_.shown_results) == expected_.size();
    for (size_t k = 0; equal && k < expected_.size(); ++k) {
      equal = run.AssemblesTo(k, expected_[k].dims);
    }
    if (equal) return {};
    return Fail(MakeError("E-RUN-VERIFY",
                          "the results do not have the reference's shapes when put together",
                          "the header's gshard.output_shardings says how they are spread"));
  }

  // What is manual runs on all devices in the reference as well.
  Expected<void> MakeManualReference(const Module& graph) {
    reference_ = graph.Clone();
    ReplicateOutsideManual(*reference_);
    reference_grid_ = run_options_.grid;
    PartitionOptions partition;
    partition.num_partitions = reference_grid_.partitions;
    partition.local_forms = &reference_forms_;
    auto stats = PartitionModule(*reference_, partition);
    if (!stats) return Fail(stats.error());
    return ExpandTransfers(*reference_, reference_grid_);
  }

  // The whole shapes, which the partitioned module no longer has. Shapes live in the context.
  void AppendLeaves(const Module& graph) {
    for (const Instruction* parameter : graph.entry()->parameters()) {
      AppendLeafShapes(parameter->shape(), run_options_.global_parameters);
    }
    AppendLeafShapes(graph.entry()->root()->shape(), run_options_.global_results);
  }

  // A name of the graph that was partitioned means that whole array, whatever holds it.
  void KeepDumps() {
    for (const EmulateOptions::Dump& dump : options_.dumps) {
      const auto form = std::find_if(local_forms_.begin(), local_forms_.end(),
                                     [&](const LocalForm& f) { return f.name == dump.name; });
      const bool known = form != local_forms_.end();
      run_options_.keep.push_back(known ? std::string(form->local->name()) : dump.name);
      run_options_.keep_forms.push_back(known
                                            ? MeshRunOptions::WholeForm{form->sharding, form->whole}
                                            : MeshRunOptions::WholeForm());
    }
  }

  // What would fail after a long run should fail before it.
  Expected<void> CheckFiles() {
    std::vector<std::string> files;
    for (const EmulateOptions::Dump& dump : options_.dumps) {
      if (dump.device && *dump.device >= run_options_.grid.device_count()) {
        return Fail(
            MakeError("E-RUN-DUMP", fmt::format("--dump {}@{}: there are {} devices", dump.name,
                                                *dump.device, run_options_.grid.device_count())));
      }
      files.push_back(dump.file);
    }
    files.push_back(options_.output);
    files.push_back(options_.trace);
    for (const std::string& file : files) {
      if (file.empty()) continue;
      const bool existed = std::filesystem::exists(file);
      if (!std::ofstream(file, std::ios::app)) {
        return Fail(MakeError("E-IO-WRITE", fmt::format("{}: cannot be written", file)));
      }
      if (!existed) std::filesystem::remove(file);
    }
    return {};
  }

  // Of the last step.
  void NoteCounts(const RunCounts& counts) {
    RunReport& report = emulation_.report;
    report.flops = counts.flops;
    report.device_flops = counts.device_flops;
    report.partial_sum_bytes = counts.partial_sum_bytes;
    report.collectives.clear();
    for (const auto& [kind, totals] : counts.collectives) {
      report.collectives.push_back({kind, totals.count, totals.bytes_per_device});
    }
  }

  Expected<void> Repeat(MeshRun& run) {
    std::unique_ptr<Trace> trace;
    Progress("run", 0);
    for (int64_t i = 0; i < options_.repeat; ++i) {
      // One step is enough to look at: the last.
      if (!options_.trace.empty() && i + 1 == options_.repeat) {
        trace = std::make_unique<Trace>(run_options_.threads);
      }
      RunOptions options;
      options.check_nan = options_.check_nan;
      options.stop = options_.stop;
      options.trace = trace.get();
      options.progress = [&](double share) {
        Progress("run", (static_cast<double>(i) + share) / static_cast<double>(options_.repeat));
      };
      const Clock::time_point start = Clock::now();
      Expected<void> done = UnlessStopped(run.Run(options));
      // Part of a step counts only where there is no whole one.
      if (emulation_.interrupted && i == 0) NoteCounts(run.executor().counts());
      if (!done || emulation_.interrupted) return done;
      emulation_.report.step_times_s.push_back(Since(start));
      NoteCounts(run.executor().counts());
    }
    if (trace != nullptr) {
      const std::string json = trace->ToJson();
      return WriteBytes(options_.trace, std::as_bytes(std::span(json)));
    }
    return {};
  }

  // How many items the feeds took or had: enough, and room for all?
  Expected<void> CountItems(const MeshRun& run) {
    for (const HostFeed& feed : host_.feeds) {
      const OutputArray counts = run.Output(feed.count_result);
      int64_t items = 0;
      for (size_t at = 0; at + sizeof(int32_t) <= counts.data.size(); at += sizeof(int32_t)) {
        int32_t count = 0;
        std::memcpy(&count, counts.data.data() + at, sizeof count);
        items = std::max<int64_t>(items, count);
      }
      item_counts_.push_back(items);
      if (items <= feed.capacity || feed.starts_over) continue;
      if (!feed.to_device) {
        overflown_.push_back({feed.name, items});
        continue;
      }
      return Fail(module_->ErrorAt(
          feed.source, "E-RUN-HOST",
          fmt::format("deadlock: {} {} waits for more items than the {} of the file", feed.kind,
                      feed.name, feed.capacity)));
    }
    return {};
  }

  // Of a feed to the host only the items that there were.
  void CutToItems(size_t k, OutputArray& array, bool stacked) const {
    for (size_t f = 0; f < host_.feeds.size(); ++f) {
      const HostFeed& feed = host_.feeds[f];
      if (feed.to_device || k < feed.first_result || k >= feed.first_result + feed.leaf_count) {
        continue;
      }
      const size_t dim = stacked ? 1 : 0;
      const auto outer = static_cast<size_t>(stacked ? array.dims[0] : 1);
      const auto had = static_cast<size_t>(array.dims[dim]);
      const auto kept = static_cast<size_t>(item_counts_[f]);
      const size_t item = array.data.size() / (outer * had);
      for (size_t i = 1; i < outer; ++i) {
        std::memmove(array.data.data() + i * kept * item, array.data.data() + i * had * item,
                     kept * item);
      }
      array.data.resize(outer * kept * item);
      array.dims[dim] = item_counts_[f];
    }
  }

  Expected<void> WriteResults(const MeshRun& run) {
    if (!options_.output.empty()) {
      NpzWriter writer(options_.output);
      for (size_t k = 0; k < std::min(run.result_count(), host_.shown_results); ++k) {
        OutputArray array = run.Output(k);
        if (!IsArrayType(array.dtype)) continue;
        CutToItems(k, array, run.IsStacked(k));
        Expected<void> done =
            writer.Add(fmt::format("o{}", k), FormatNpy(array.dtype, array.dims, array.data));
        if (!done) return done;
      }
      if (Expected<void> done = writer.Finish(); !done) return done;
    }
    for (size_t d = 0; d < options_.dumps.size(); ++d) {
      const EmulateOptions::Dump& dump = options_.dumps[d];
      // Of a tuple the first leaf is written under the given name, the others with a number.
      const std::vector<size_t> leaves = run.KeptLeaves(d);
      for (size_t i = 0; i < leaves.size(); ++i) {
        const OutputArray array = run.Kept(leaves[i], dump.device);
        const std::string path = i == 0 ? dump.file : fmt::format("{}.{}", dump.file, i);
        Expected<void> done = WriteBytes(path, FormatNpy(array.dtype, array.dims, array.data));
        if (!done) return done;
      }
    }
    return {};
  }

  // Every instruction that both graphs have by name.
  Expected<void> VerifyNamed(const Inputs& inputs) {
    if (run_options_.grid.replicas > 1) return {};  // what an instruction is may differ by replica
    VerifyResult& verify = *emulation_.report.verify;
    const bool differs = !verify.ok || verify.discrete_differences > 0;
    if (local_forms_.empty() || (!options_.verify_instructions && !differs)) return {};
    InstructionsOptions options;
    options.only_choices = !options_.verify_instructions;
    options.mesh = run_options_;
    options.mesh.keep.clear();
    options.mesh.keep_forms.clear();
    options.whole_grid = reference_grid_;
    options.whole_forms = reference_forms_;
    options.budget_bytes = kWaitingBytes;
    options.output_count = host_.shown_results;
    options.run.stop = options_.stop;
    options.progress = [&](double share) { Progress("verify", share); };
    auto result = VerifyInstructions(*reference_, *module_, local_forms_, inputs, options);
    if (!result) return UnlessStopped(Fail(result.error()));
    verify.near_ties = std::move(result->near_ties);
    // Near ties explain what differs exactly if nothing does once both graphs pick the same.
    if (result->outputs_agree) verify.ok = *result->outputs_agree;
    if (options_.verify_instructions) verify.instructions = std::move(*result);
    return {};
  }

  // The whole graph: the module itself where it is not partitioned.
  const Module& Reference() const { return reference_ != nullptr ? *reference_ : *module_; }

  // Runs the whole graph on one device (its manual regions on all) and keeps its outputs for the
  // comparison.
  Expected<void> RunReference(const Inputs& inputs) {
    Progress("reference", 0);
    MeshRunOptions options = run_options_.ForWholeGraph(reference_grid_);
    options.keep.clear();
    options.keep_forms.clear();
    auto whole = MeshRun::Prepare(Reference(), inputs, options);
    if (!whole) return Fail(whole.error());
    Expected<void> done = UnlessStopped((*whole)->Start(options_.stop));
    if (!done || emulation_.interrupted) return done;
    RunOptions once;
    once.stop = options_.stop;
    once.progress = [&](double share) { Progress("reference", share); };
    done = UnlessStopped((*whole)->Run(once));
    if (!done || emulation_.interrupted) return done;
    const size_t results = std::min((*whole)->result_count(), host_.shown_results);
    for (size_t k = 0; k < results; ++k) expected_.push_back((*whole)->Output(k));
    return {};
  }

  std::unique_ptr<Module> module_;
  std::unique_ptr<Module> given_;  // --reference; partitioned for its forms
  HostFeeds host_;
  std::vector<int64_t> item_counts_;  // by feed
  std::unique_ptr<Module> reference_;
  DeviceGrid reference_grid_;
  std::vector<LocalForm> local_forms_;      // of the unpartitioned graph's values in module_
  std::vector<LocalForm> reference_forms_;  // in reference_, if that runs on several devices
  std::vector<OutputArray> expected_;       // of the reference
  const EmulateOptions& options_;
  const std::vector<FeedCapacity>& capacities_;
  std::vector<FeedCapacity> overflown_;
  MeshRunOptions run_options_;
  Emulation emulation_;
};

}  // namespace

Expected<Emulation> Emulate(std::unique_ptr<Module> module, const EmulateOptions& options,
                            std::unique_ptr<Module> reference) {
  std::vector<FeedCapacity> capacities;
  if (!HasHostTransfers(*module)) {
    return Emulator(std::move(module), std::move(reference), options, capacities).Run();
  }
  for (;;) {
    Emulator emulator(module->Clone(), reference != nullptr ? reference->Clone() : nullptr, options,
                      capacities);
    auto emulation = emulator.Run();
    if (!emulation || emulator.overflown().empty()) return emulation;
    // Now the number of items is known.
    capacities = emulator.overflown();
  }
}

}  // namespace gshard::cpu
