// See step_trace.h.

#include "core/report/trace/step_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/analysis/device_groups.h"
#include "core/report/pipeline_text.h"
#include "core/report/trace/perfetto.h"
#include "ir/compiled_text.h"
#include "ir/metadata.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

int64_t Nanoseconds(double seconds) { return std::llround(seconds * 1e9); }

// "0..255" of neighbours, "0, 2, .. (128)" of others.
std::string DevicesText(std::span<const int64_t> devices) {
  if (devices.size() == 1) return fmt::format("device {}", devices[0]);
  if (devices.back() - devices.front() + 1 == static_cast<int64_t>(devices.size())) {
    return fmt::format("devices {}..{}", devices.front(), devices.back());
  }
  return fmt::format("devices {}, {}, .. ({})", devices[0], devices[1], devices.size());
}

class StepTracer {
 public:
  StepTracer(const Module& module, const CostReport& report)
      : report_(report), resolver_(CountDevices(module)), source_lines_(module) {
    for (const CollectiveCall& call : report.collective_calls) calls_[call.instruction] = &call;
  }

  // `device`: -1, all of them.
  Expected<void> AddDevice(int64_t device, const std::string& name) {
    const uint64_t process = trace_.AddProcess(name);
    const Timeline& timeline = report_.timeline;
    std::vector<std::vector<TraceSlice>> slices(timeline.streams.size());
    for (size_t i = 0; i < timeline.events.size(); ++i) {
      const TimelineEvent& event = timeline.events[i];
      TraceSlice slice = SliceOf(event);
      if (device >= 0 && event.work_class == WorkClass::kCollective) {
        auto done = AddFlows(i, static_cast<uint32_t>(device), slice);
        if (!done) return done;
      }
      slices[static_cast<size_t>(event.stream)].push_back(std::move(slice));
    }
    for (size_t stream = 0; stream < slices.size(); ++stream) {
      trace_.AddLane(process, timeline.streams[stream], std::move(slices[stream]));
      if (stream > 0) AddLinkUse(process, stream);
    }
    AddMemory(process);
    return {};
  }

  void AddStages() {
    const PipelineReport& pipeline = *report_.pipeline;
    const uint64_t process = trace_.AddProcess(fmt::format("stages of {}", pipeline.loop->name()));
    for (size_t k = 0; k < pipeline.stages.size(); ++k) {
      std::vector<TraceSlice> slices;
      for (const PipelineTick& tick : pipeline.ticks) {
        const PipelinePass& pass = pipeline.passes[tick.pass[k]];
        if (pass.is_idle) continue;
        TraceSlice slice;
        slice.begin_ns = Nanoseconds(tick.stage_s[k]);
        slice.end_ns = Nanoseconds(tick.stage_s[k] + pass.time_s);
        slice.name = PassKindName(pass);
        slice.category = slice.name;
        slice.arguments.push_back({"branch", std::string(pass.computation->name())});
        if (!tick.microbatch.empty() && !pass.is_padding && tick.microbatch[k] >= 0) {
          slice.name += fmt::format(" {}", tick.microbatch[k]);
          slice.flows.push_back(kMicrobatchFlows + static_cast<uint64_t>(tick.microbatch[k]));
        }
        slices.push_back(std::move(slice));
      }
      trace_.AddLane(process,
                     fmt::format("stage {}: {}", k, DevicesText(pipeline.stages[k].devices)),
                     std::move(slices));
    }
  }

  const std::string& bytes() const { return trace_.bytes(); }

 private:
  static constexpr uint64_t kMicrobatchFlows = uint64_t{1} << 62;

  TraceSlice SliceOf(const TimelineEvent& event) const {
    const Instruction& x = *event.instruction;
    TraceSlice slice;
    slice.begin_ns = Nanoseconds(event.start_s);
    slice.end_ns = Nanoseconds(event.end_s);
    slice.name = x.name();
    slice.category = WorkClassName(event.work_class);
    slice.arguments = {{"opcode", std::string(OpcodeName(x.opcode()))},
                       {"executions", event.trip_count},
                       {"critical", event.is_critical}};
    const auto add_text = [&](std::string_view name, std::string text) {
      if (!text.empty()) slice.arguments.push_back({name, std::move(text)});
    };
    add_text("op_name", OpNameOf(x));
    add_text("source", source_lines_.TextOf(x));
    if (auto call = calls_.find(&x); call != calls_.end()) {
      const CollectiveCost& cost = call->second->cost;
      slice.arguments.push_back({"bytes_per_device", cost.bytes_per_device});
      std::string axes;
      for (const std::string& axis : cost.axes) axes += (axes.empty() ? "" : "+") + axis;
      add_text("axes", std::move(axes));
      add_text("cause", cost.cause);
    }
    return slice;
  }

  // Those of one group have the same number; of a permute, a source and its target.
  Expected<void> AddFlows(size_t event, uint32_t device, TraceSlice& slice) {
    const Instruction* x = CollectiveOf(report_.timeline.events[event].instruction);
    Expected<const CollectiveDevices*> devices = resolver_.Of(*x);
    if (!devices) return Fail(std::move(devices.error()));
    const auto number = [&](uint32_t member) {
      return (static_cast<uint64_t>(event + 1) << 32) + member;
    };
    if (!IsCollectivePermute(*x)) {
      const uint32_t group = (*devices)->groups.group_of[device];
      if (group != kNoDevice) slice.flows.push_back(number(group));
      return {};
    }
    const std::vector<uint32_t>& sources = (*devices)->sources;
    if (sources[device] == device) return {};
    if (sources[device] != kNoDevice) slice.flows.push_back(number(sources[device]));
    if (std::ranges::find(sources, device) != sources.end()) {
      slice.flows.push_back(number(device));
    }
    return {};
  }

  void AddLinkUse(uint64_t process, size_t stream) {
    std::vector<TraceCount> counts;
    for (const TimelineEvent& event : report_.timeline.events) {
      const auto call = calls_.find(event.instruction);
      if (event.stream != static_cast<int>(stream) || call == calls_.end()) continue;
      const double seconds = event.end_s - event.start_s;
      if (seconds <= 0) continue;
      const int64_t begin = Nanoseconds(event.start_s);
      if (!counts.empty() && counts.back().at_ns == begin) counts.pop_back();
      counts.push_back({begin, call->second->cost.bytes_per_device / seconds});
      counts.push_back({Nanoseconds(event.end_s), 0});
    }
    if (counts.empty()) return;
    trace_.AddCounter(process, report_.timeline.streams[stream] + ": sent", "B/s", counts);
  }

  // The curve is in the order that keeps the peak low; where it is another than the timeline's, a
  // point is drawn no earlier than the one before it. Of points at one time the highest counts.
  void AddMemory(uint64_t process) {
    std::unordered_map<std::string_view, int64_t> begins;
    for (const TimelineEvent& event : report_.timeline.events) {
      if (event.parent < 0)
        begins.try_emplace(event.instruction->name(), Nanoseconds(event.start_s));
    }
    std::vector<TraceCount> total;
    std::vector<std::vector<TraceCount>> by_class(kBufferClasses);
    int64_t now = 0;
    for (const MemoryPoint& point : report_.memory.curve) {
      if (point.instruction != nullptr) {
        if (auto known = begins.find(point.instruction->name()); known != begins.end()) {
          now = std::max(now, known->second);
        }
      }
      double bytes = 0;
      for (int64_t part : point.bytes) bytes += static_cast<double>(part);
      const bool is_same = !total.empty() && total.back().at_ns == now;
      if (is_same && total.back().value >= bytes) continue;
      if (!is_same) total.emplace_back();
      total.back() = {now, bytes};
      for (size_t k = 0; k < kBufferClasses; ++k) {
        if (!is_same) by_class[k].emplace_back();
        by_class[k].back() = {now, static_cast<double>(point.bytes[k])};
      }
    }
    trace_.AddCounter(process, "memory", "B", total);
    for (size_t k = 0; k < kBufferClasses; ++k) {
      const auto is_zero = [](const TraceCount& count) { return count.value == 0; };
      if (std::ranges::all_of(by_class[k], is_zero)) continue;
      trace_.AddCounter(process,
                        fmt::format("memory: {}", BufferClassName(static_cast<BufferClass>(k))),
                        "B", by_class[k]);
    }
  }

  const CostReport& report_;
  CollectiveResolver resolver_;
  const SourceLines source_lines_;
  std::unordered_map<const Instruction*, const CollectiveCall*> calls_;
  PerfettoTrace trace_;
};

}  // namespace

Expected<std::string> StepAsPerfetto(const Module& module, const CostReport& report,
                                     std::span<const int64_t> devices) {
  StepTracer tracer(module, report);
  const std::string what = fmt::format("{} on {}", module.name(), report.chip);
  if (devices.empty()) {
    const std::string all =
        report.devices == 1 ? "device 0" : fmt::format("devices 0..{}", report.devices - 1);
    auto done = tracer.AddDevice(-1, fmt::format("{}: {}", all, what));
    if (!done) return Fail(std::move(done.error()));
  }
  for (int64_t device : devices) {
    auto done = tracer.AddDevice(device, fmt::format("device {}: {}", device, what));
    if (!done) return Fail(std::move(done.error()));
  }
  if (report.pipeline) tracer.AddStages();
  return tracer.bytes();
}

}  // namespace gshard
