// Commands go from the first rank to the others; instances come back, probe by probe.
#include "backends/cpu/verify/mesh_runs.h"

#include <algorithm>
#include <array>
#include <cstring>
#include <map>
#include <mutex>
#include <unordered_map>

#include "backends/cpu/run/rank_errors.h"
#include "backends/cpu/verify/widened_copy.h"
#include "ir/computation.h"
#include "ir/try.h"

namespace gshard::cpu {
namespace {

constexpr std::string_view kWhere = "the verification";

// Brings what all ranks' devices show to the first rank's observer.
class RankProbes final : public ProbeObserver {
 public:
  // `observer`: null on the others.
  RankProbes(mpi::Ranks& ranks, const MeshRun& run, ProbeObserver* observer)
      : ranks_(ranks), program_(*run.plan().program), observer_(observer) {}

  // The first rank's observer has ended the run, on all ranks.
  bool has_ended() const { return has_ended_; }

  bool Prepare(std::span<const uint32_t> probes) override {
    shown_.clear();
    wanted_.clear();
    // Whether the run goes on, and which values are looked at.
    std::vector<uint8_t> answer(1 + probes.size(), 0);
    if (observer_ != nullptr && observer_->Prepare(probes)) {
      answer[0] = 1;
      for (size_t i = 0; i < probes.size(); ++i)
        answer[1 + i] = observer_->Wants(probes[i]) ? 1 : 0;
    }
    std::vector<mpi::Ranks::Outgoing> out;
    std::vector<mpi::Ranks::Incoming> in;
    for (int r = 1; r < ranks_.size() && IsFirst(); ++r) {
      out.push_back({r, std::as_bytes(std::span(answer))});
    }
    if (!IsFirst()) in.push_back({0, std::as_writable_bytes(std::span(answer))});
    ranks_.Exchange(out, in, kWhere);
    has_ended_ = answer[0] == 0;
    for (size_t i = 0; i < probes.size(); ++i) {
      if (answer[1 + i] != 0 && program_.probed[probes[i]] != kNoValue)
        wanted_.push_back(probes[i]);
    }
    std::ranges::sort(wanted_);
    return !has_ended_;
  }

  void Show(uint32_t probe, uint32_t c, std::byte* data, int64_t part, int64_t parts) override {
    if (!std::ranges::binary_search(wanted_, probe)) return;
    {
      const std::lock_guard lock(mutex_);
      std::vector<std::byte>& copy = shown_[{probe, c}];
      if (!IsFirst()) {
        const int64_t bytes = ValueOf(probe).bytes;
        copy.resize(static_cast<size_t>(bytes));
        const int64_t begin = bytes * part / parts, end = bytes * (part + 1) / parts;
        if (end > begin)
          std::memcpy(copy.data() + begin, data + begin, static_cast<size_t>(end - begin));
      }
    }
    if (observer_ != nullptr) observer_->Show(probe, c, data, part, parts);
  }

  void Finish(std::span<const uint32_t> probes) override {
    if (!wanted_.empty()) Gather();
    if (observer_ != nullptr) observer_->Finish(probes);
    received_.clear();
  }

 private:
  bool IsFirst() const { return ranks_.rank() == 0; }
  const Value& ValueOf(uint32_t probe) const { return program_.values[program_.probed[probe]]; }

  // Of an instance that several ranks have, the lowest one's counts.
  void Gather() {
    const std::vector<std::vector<uint8_t>> shown = ShownByAll();
    std::vector<std::byte> mine;
    std::map<int, std::vector<std::pair<uint32_t, uint32_t>>> coming;  // probe and class, by rank
    std::map<int, size_t> coming_bytes;
    size_t at = 0;
    for (const uint32_t probe : wanted_) {
      for (uint32_t c = 0; c < ValueOf(probe).classes->count(); ++c, ++at) {
        int from = 0;
        while (from < ranks_.size() && shown[static_cast<size_t>(from)][at] == 0) ++from;
        if (from == 0 || from == ranks_.size()) continue;
        coming[from].push_back({probe, c});
        coming_bytes[from] += static_cast<size_t>(ValueOf(probe).bytes);
        if (from != ranks_.rank()) continue;
        const std::vector<std::byte>& data = shown_.at({probe, c});
        mine.insert(mine.end(), data.begin(), data.end());
      }
    }
    std::vector<mpi::Ranks::Outgoing> out;
    std::vector<mpi::Ranks::Incoming> in;
    if (!mine.empty()) out.push_back({0, mine});
    for (const auto& [from, bytes] : coming_bytes) {
      if (!IsFirst()) break;
      received_[from].resize(bytes);
      in.push_back({from, received_[from]});
    }
    ranks_.Exchange(out, in, kWhere);
    if (!IsFirst()) return;
    for (const auto& [from, instances] : coming) {
      std::byte* data = received_[from].data();
      for (const auto& [probe, c] : instances) {
        observer_->Show(probe, c, data, 0, 1);
        data += ValueOf(probe).bytes;
      }
    }
  }

  // By rank, and by probe and class in order.
  std::vector<std::vector<uint8_t>> ShownByAll() {
    std::vector<uint8_t> mine;
    for (const uint32_t probe : wanted_) {
      const size_t begin = mine.size();
      mine.resize(begin + ValueOf(probe).classes->count(), 0);
      for (auto it = shown_.lower_bound({probe, 0}); it != shown_.end() && it->first.first == probe;
           ++it) {
        mine[begin + it->first.second] = 1;
      }
    }
    std::vector<std::vector<uint8_t>> all(static_cast<size_t>(ranks_.size()), mine);
    std::vector<mpi::Ranks::Outgoing> out;
    std::vector<mpi::Ranks::Incoming> in;
    for (int r = 0; r < ranks_.size(); ++r) {
      if (r == ranks_.rank()) continue;
      out.push_back({r, std::as_bytes(std::span(mine))});
      in.push_back({r, std::as_writable_bytes(std::span(all[static_cast<size_t>(r)]))});
    }
    ranks_.Exchange(out, in, kWhere);
    return all;
  }

  mpi::Ranks& ranks_;
  const Program& program_;
  ProbeObserver* observer_;
  bool has_ended_ = false;
  std::vector<uint32_t> wanted_;  // sorted
  std::mutex mutex_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> shown_;  // by probe and class
  std::map<int, std::vector<std::byte>> received_;                         // by rank
};

}  // namespace

void MeshRuns::Send(std::span<const std::byte> data) const {
  std::vector<mpi::Ranks::Outgoing> out;
  for (int r = 1; r < ranks_->size(); ++r) out.push_back({r, data});
  ranks_->Exchange(out, {}, kWhere);
}

void MeshRuns::Receive(std::span<std::byte> data) const {
  const mpi::Ranks::Incoming in[] = {{0, data}};
  ranks_->Exchange({}, in, kWhere);
}

Expected<void> MeshRuns::Agree(const Expected<void>& mine) const {
  auto error = AgreeOnError(*ranks_, mine ? nullptr : &mine.error());
  if (error) return Fail(*std::move(error));
  return {};
}

Expected<std::unique_ptr<MeshRun>> MeshRuns::Prepare(const Module& partitioned,
                                                     const Inputs& inputs,
                                                     const MeshRunOptions& options) const {
  if (ranks_ == nullptr) return MeshRun::Prepare(partitioned, inputs, options);
  Send(Command{Act::kPrepare, options.memory_limit, options.probed_bytes, options.probes.size(),
               widened_ ? uint64_t{1} : 0});
  std::vector<std::array<uint32_t, 2>> probes;
  for (const ProbePoint& probe : options.probes)
    probes.push_back({probe.shown->id(), probe.after->id()});
  Send(std::as_bytes(std::span(probes)));
  auto run = MeshRun::Prepare(partitioned, inputs, options);
  GSHARD_TRY(Agree(run ? Expected<void>() : Fail(run.error())));
  return run;
}

Expected<std::unique_ptr<MeshRun>> MeshRuns::PrepareIfRoom(const Module& partitioned,
                                                           const Inputs& inputs,
                                                           const MeshRunOptions& options,
                                                           std::string& no_room) const {
  auto run = Prepare(partitioned, inputs, options);
  if (run || run.error().code != "E-RUN-MEMORY") return run;
  no_room = run.error().message;
  return nullptr;
}

Expected<void> MeshRuns::Start(MeshRun& run, const std::atomic<bool>* stop) const {
  if (ranks_ == nullptr) return run.Start(stop);
  Send(Command{Act::kStart});
  return Agree(run.Start(stop));
}

Expected<void> MeshRuns::Run(MeshRun& run, const RunOptions& options) const {
  if (ranks_ == nullptr) return run.Run(options);
  Send(Command{Act::kRun});
  return RunHere(run, options);
}

Expected<void> MeshRuns::RunHere(MeshRun& run, const RunOptions& options) const {
  RankProbes probes(*ranks_, run, options.observer);
  RunOptions of_rank = options;
  of_rank.observer = &probes;
  Expected<void> done = run.Run(of_rank);
  // A deadlock, and that the first rank wants no more, all see.
  if (!done && !probes.has_ended() && done.error().code != "E-RUN-DEADLOCK" && fail_alone_) {
    fail_alone_(done.error());
  }
  return done;
}

void MeshRuns::GatherResults(MeshRun& run) const {
  if (ranks_ == nullptr) return;
  Send(Command{Act::kGather});
  for (size_t k = 0; k < run.result_count(); ++k) run.GatherResult(k);
}

void MeshRuns::Finish() const {
  if (ranks_ != nullptr) Send(Command{Act::kFinish});
}

void MeshRuns::ReportProgress() const {
  if (ranks_ != nullptr) ranks_->ReportProgress();
}

std::vector<ProbePoint> MeshRuns::ReceiveProbes(const Module& partitioned, uint64_t count) const {
  std::vector<std::array<uint32_t, 2>> ids(count);
  Receive(std::as_writable_bytes(std::span(ids)));
  std::unordered_map<uint32_t, const Instruction*> by_id;
  for (const Computation* computation : partitioned.computations()) {
    for (const Instruction* x : computation->instructions()) by_id[x->id()] = x;
  }
  std::vector<ProbePoint> probes;
  for (const auto& [shown, after] : ids) probes.push_back({by_id.at(shown), by_id.at(after)});
  return probes;
}

void MeshRuns::Replay(const Module& partitioned, const Inputs& inputs, MeshRunOptions options,
                      const std::atomic<bool>* stop) const {
  std::vector<ProbePoint> probes;
  std::unique_ptr<Module> widened;
  MeshRunOptions of_widened;
  std::unique_ptr<MeshRun> run;
  for (;;) {
    Command command;
    Receive(std::as_writable_bytes(std::span(&command, 1)));
    switch (command.act) {
      case Act::kPrepare: {
        run.reset();
        if (command.widened != 0 && widened == nullptr) {
          widened = WidenedCopy(partitioned, {.keep_converts = true});
          of_widened = WidenedMesh(options, widened->context());
        }
        const Module& program = command.widened != 0 ? *widened : partitioned;
        MeshRunOptions& how = command.widened != 0 ? of_widened : options;
        probes = ReceiveProbes(program, command.probes);
        how.probes = probes;
        how.memory_limit = command.memory_limit;
        how.probed_bytes = command.probed_bytes;
        auto prepared = MeshRun::Prepare(program, inputs, how);
        if (Agree(prepared ? Expected<void>() : Fail(prepared.error()))) run = std::move(*prepared);
        break;
      }
      case Act::kStart:
        (void)Agree(run->Start(stop));
        break;
      case Act::kRun: {
        RunOptions once;
        once.stop = stop;
        once.progress = [this](double) { ReportProgress(); };
        (void)RunHere(*run, once);
        break;
      }
      case Act::kGather:
        for (size_t k = 0; k < run->result_count(); ++k) run->GatherResult(k);
        break;
      case Act::kFinish:
        return;
    }
  }
}

}  // namespace gshard::cpu
