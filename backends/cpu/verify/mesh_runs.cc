// Commands go from the first rank to the others; instances come back, tap by tap.
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

namespace gshard::cpu {
namespace {

constexpr std::string_view kWhere = "the verification";

// Brings what all ranks' devices show to the first rank's observer.
class RankTaps final : public TapObserver {
 public:
  // `observer`: null on the others.
  RankTaps(mpi::Ranks& ranks, const MeshRun& run, TapObserver* observer)
      : ranks_(ranks), program_(*run.plan().program), observer_(observer) {}

  // The first rank's observer has ended the run, on all ranks.
  bool has_ended() const { return has_ended_; }

  bool Prepare(std::span<const uint32_t> taps) override {
    shown_.clear();
    wanted_.clear();
    // Whether the run goes on, and which values are looked at.
    std::vector<uint8_t> answer(1 + taps.size(), 0);
    if (observer_ != nullptr && observer_->Prepare(taps)) {
      answer[0] = 1;
      for (size_t i = 0; i < taps.size(); ++i) answer[1 + i] = observer_->Wants(taps[i]) ? 1 : 0;
    }
    std::vector<mpi::Ranks::Outgoing> out;
    std::vector<mpi::Ranks::Incoming> in;
    for (int r = 1; r < ranks_.size() && IsFirst(); ++r) {
      out.push_back({r, std::as_bytes(std::span(answer))});
    }
    if (!IsFirst()) in.push_back({0, std::as_writable_bytes(std::span(answer))});
    ranks_.Exchange(out, in, kWhere);
    has_ended_ = answer[0] == 0;
    for (size_t i = 0; i < taps.size(); ++i) {
      if (answer[1 + i] != 0 && program_.tapped[taps[i]] != kNoValue) wanted_.push_back(taps[i]);
    }
    std::ranges::sort(wanted_);
    return !has_ended_;
  }

  void Show(uint32_t tap, uint32_t c, std::byte* data, int64_t part, int64_t parts) override {
    if (!std::ranges::binary_search(wanted_, tap)) return;
    {
      const std::lock_guard lock(mutex_);
      std::vector<std::byte>& copy = shown_[{tap, c}];
      if (!IsFirst()) {
        const int64_t bytes = ValueOf(tap).bytes;
        copy.resize(static_cast<size_t>(bytes));
        const int64_t begin = bytes * part / parts, end = bytes * (part + 1) / parts;
        if (end > begin)
          std::memcpy(copy.data() + begin, data + begin, static_cast<size_t>(end - begin));
      }
    }
    if (observer_ != nullptr) observer_->Show(tap, c, data, part, parts);
  }

  void Finish(std::span<const uint32_t> taps) override {
    if (!wanted_.empty()) Gather();
    if (observer_ != nullptr) observer_->Finish(taps);
    received_.clear();
  }

 private:
  bool IsFirst() const { return ranks_.rank() == 0; }
  const Value& ValueOf(uint32_t tap) const { return program_.values[program_.tapped[tap]]; }

  // Of an instance that several ranks have, the lowest one's counts.
  void Gather() {
    const std::vector<std::vector<uint8_t>> shown = ShownByAll();
    std::vector<std::byte> mine;
    std::map<int, std::vector<std::pair<uint32_t, uint32_t>>> coming;  // tap and class, by rank
    std::map<int, size_t> coming_bytes;
    size_t at = 0;
    for (const uint32_t tap : wanted_) {
      for (uint32_t c = 0; c < ValueOf(tap).classes->count(); ++c, ++at) {
        int from = 0;
        while (from < ranks_.size() && shown[static_cast<size_t>(from)][at] == 0) ++from;
        if (from == 0 || from == ranks_.size()) continue;
        coming[from].push_back({tap, c});
        coming_bytes[from] += static_cast<size_t>(ValueOf(tap).bytes);
        if (from != ranks_.rank()) continue;
        const std::vector<std::byte>& data = shown_.at({tap, c});
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
      for (const auto& [tap, c] : instances) {
        observer_->Show(tap, c, data, 0, 1);
        data += ValueOf(tap).bytes;
      }
    }
  }

  // By rank, and by tap and class in order.
  std::vector<std::vector<uint8_t>> ShownByAll() {
    std::vector<uint8_t> mine;
    for (const uint32_t tap : wanted_) {
      const size_t begin = mine.size();
      mine.resize(begin + ValueOf(tap).classes->count(), 0);
      for (auto it = shown_.lower_bound({tap, 0}); it != shown_.end() && it->first.first == tap;
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
  TapObserver* observer_;
  bool has_ended_ = false;
  std::vector<uint32_t> wanted_;  // sorted
  std::mutex mutex_;
  std::map<std::pair<uint32_t, uint32_t>, std::vector<std::byte>> shown_;  // by tap and class
  std::map<int, std::vector<std::byte>> received_;                         // by rank
};

}  // namespace

void MeshRuns::Tell(std::span<const std::byte> data) const {
  std::vector<mpi::Ranks::Outgoing> out;
  for (int r = 1; r < ranks_->size(); ++r) out.push_back({r, data});
  ranks_->Exchange(out, {}, kWhere);
}

void MeshRuns::Hear(std::span<std::byte> data) const {
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
  Tell(Command{Act::kPrepare, options.memory_limit, options.tapped_bytes, options.taps.size(),
               widened_ ? uint64_t{1} : 0});
  std::vector<std::array<uint32_t, 2>> taps;
  for (const TapPoint& tap : options.taps) taps.push_back({tap.shown->id(), tap.after->id()});
  Tell(std::as_bytes(std::span(taps)));
  auto run = MeshRun::Prepare(partitioned, inputs, options);
  const Expected<void> agreed = Agree(run ? Expected<void>() : Fail(run.error()));
  if (!agreed) return Fail(agreed.error());
  return run;
}

Expected<void> MeshRuns::Start(MeshRun& run, const std::atomic<bool>* stop) const {
  if (ranks_ == nullptr) return run.Start(stop);
  Tell(Command{Act::kStart});
  return Agree(run.Start(stop));
}

Expected<void> MeshRuns::Run(MeshRun& run, const RunOptions& options) const {
  if (ranks_ == nullptr) return run.Run(options);
  Tell(Command{Act::kRun});
  return RunHere(run, options);
}

Expected<void> MeshRuns::RunHere(MeshRun& run, const RunOptions& options) const {
  RankTaps taps(*ranks_, run, options.observer);
  RunOptions of_rank = options;
  of_rank.observer = &taps;
  Expected<void> done = run.Run(of_rank);
  // A deadlock, and that the first rank wants no more, all see.
  if (!done && !taps.has_ended() && done.error().code != "E-RUN-DEADLOCK" && fail_alone_) {
    fail_alone_(done.error());
  }
  return done;
}

void MeshRuns::GatherResults(MeshRun& run) const {
  if (ranks_ == nullptr) return;
  Tell(Command{Act::kGather});
  for (size_t k = 0; k < run.result_count(); ++k) run.GatherResult(k);
}

void MeshRuns::Finish() const {
  if (ranks_ != nullptr) Tell(Command{Act::kFinish});
}

void MeshRuns::GetOn() const {
  if (ranks_ != nullptr) ranks_->GetOn();
}

std::vector<TapPoint> MeshRuns::HearTaps(const Module& partitioned, uint64_t count) const {
  std::vector<std::array<uint32_t, 2>> ids(count);
  Hear(std::as_writable_bytes(std::span(ids)));
  std::unordered_map<uint32_t, const Instruction*> by_id;
  for (const Computation* computation : partitioned.computations()) {
    for (const Instruction* x : computation->instructions()) by_id[x->id()] = x;
  }
  std::vector<TapPoint> taps;
  for (const auto& [shown, after] : ids) taps.push_back({by_id.at(shown), by_id.at(after)});
  return taps;
}

void MeshRuns::Follow(const Module& partitioned, const Inputs& inputs, MeshRunOptions options,
                      const std::atomic<bool>* stop) const {
  std::vector<TapPoint> taps;
  std::unique_ptr<Module> widened;
  MeshRunOptions of_widened;
  std::unique_ptr<MeshRun> run;
  for (;;) {
    Command command;
    Hear(std::as_writable_bytes(std::span(&command, 1)));
    switch (command.act) {
      case Act::kPrepare: {
        run.reset();
        if (command.widened != 0 && widened == nullptr) {
          widened = WidenedCopy(partitioned, {.keep_converts = true});
          of_widened = WidenedMesh(options, widened->context());
        }
        const Module& program = command.widened != 0 ? *widened : partitioned;
        MeshRunOptions& how = command.widened != 0 ? of_widened : options;
        taps = HearTaps(program, command.taps);
        how.taps = taps;
        how.memory_limit = command.memory_limit;
        how.tapped_bytes = command.tapped_bytes;
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
        once.progress = [this](double) { GetOn(); };
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
