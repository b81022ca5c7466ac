// See perfetto.h. Field numbers are those of trace_packet.proto, track_descriptor.proto,
// track_event.proto and debug_annotation.proto.

#include "core/report/trace/perfetto.h"

#include <algorithm>
#include <utility>

namespace gshard {
namespace {

using proto::WireWriter;

// TrackEvent.type.
constexpr uint64_t kSliceBegin = 1, kSliceEnd = 2, kCounter = 4;
constexpr uint64_t kExplicitOrder = 3;   // TrackDescriptor.child_ordering
constexpr uint64_t kSequenceStarts = 1;  // TracePacket.sequence_flags: nothing before is needed

void AddArgument(const TraceArgument& argument, WireWriter& event) {
  WireWriter annotation;
  annotation.Bytes(10, argument.name);
  if (const bool* truth = std::get_if<bool>(&argument.value)) {
    annotation.Varint(2, *truth ? 1 : 0);
  } else if (const int64_t* integer = std::get_if<int64_t>(&argument.value)) {
    annotation.Integer(4, *integer);
  } else if (const double* real = std::get_if<double>(&argument.value)) {
    annotation.Double(5, *real);
  } else {
    annotation.Bytes(6, std::get<std::string>(argument.value));
  }
  event.Message(4, annotation);
}

}  // namespace

void PerfettoTrace::AddPacket(WireWriter& packet) {
  packet.Varint(10, sequence_);
  if (packets_.empty()) packet.Varint(13, kSequenceStarts);
  packets_.Message(1, packet);
}

uint64_t PerfettoTrace::AddTrack(uint64_t parent, WireWriter& descriptor) {
  ++tracks_;
  const uint64_t track = (uint64_t{sequence_} << 32) + tracks_;
  descriptor.Varint(1, track);
  if (parent != 0) descriptor.Varint(5, parent);
  descriptor.Varint(11, kExplicitOrder);
  descriptor.Varint(12, tracks_);
  WireWriter packet;
  packet.Message(60, descriptor);
  AddPacket(packet);
  return track;
}

uint64_t PerfettoTrace::AddProcess(std::string_view name) {
  WireWriter descriptor, process;
  // Viewers tell processes by their numbers.
  process.Varint(1, uint64_t{sequence_} * 100000 + tracks_ + 1);
  process.Bytes(6, name);
  descriptor.Message(3, process);
  return AddTrack(0, descriptor);
}

void PerfettoTrace::AddEvent(int64_t at_ns, const WireWriter& event) {
  WireWriter packet;
  packet.Integer(8, at_ns);
  packet.Message(11, event);
  AddPacket(packet);
}

// Slices that nest, in the order of their beginnings, outer ones first.
void PerfettoTrace::AddLine(uint64_t process, std::string_view name,
                            const std::vector<TraceSlice>& slices) {
  WireWriter descriptor;
  descriptor.Bytes(2, name);
  const uint64_t track = AddTrack(process, descriptor);
  std::vector<int64_t> open;  // ends, outermost first
  const auto close_until = [&](int64_t begin_ns) {
    for (; !open.empty() && open.back() <= begin_ns; open.pop_back()) {
      WireWriter end;
      end.Varint(9, kSliceEnd);
      end.Varint(11, track);
      AddEvent(open.back(), end);
    }
  };
  for (const TraceSlice& slice : slices) {
    close_until(slice.begin_ns);
    WireWriter begin;
    begin.Varint(9, kSliceBegin);
    begin.Varint(11, track);
    begin.Bytes(23, slice.name);
    if (!slice.category.empty()) begin.Bytes(22, slice.category);
    for (const TraceArgument& argument : slice.arguments) AddArgument(argument, begin);
    for (uint64_t flow : slice.flows) begin.Fixed64(47, flow);
    AddEvent(slice.begin_ns, begin);
    open.push_back(slice.end_ns);
  }
  close_until(INT64_MAX);
}

void PerfettoTrace::AddLane(uint64_t process, std::string_view name,
                            std::vector<TraceSlice> slices) {
  std::ranges::stable_sort(slices, [](const TraceSlice& a, const TraceSlice& b) {
    return a.begin_ns != b.begin_ns ? a.begin_ns < b.begin_ns : a.end_ns > b.end_ns;
  });
  struct Line {
    std::vector<TraceSlice> slices;
    std::vector<int64_t> open;
  };
  std::vector<Line> lines(1);
  for (TraceSlice& slice : slices) {
    auto line = std::ranges::find_if(lines, [&](Line& candidate) {
      std::vector<int64_t>& open = candidate.open;
      while (!open.empty() && open.back() <= slice.begin_ns) open.pop_back();
      return open.empty() || open.back() >= slice.end_ns;
    });
    if (line == lines.end()) line = lines.insert(line, Line());
    line->open.push_back(slice.end_ns);
    line->slices.push_back(std::move(slice));
  }
  for (const Line& line : lines) AddLine(process, name, line.slices);
}

void PerfettoTrace::AddCounter(uint64_t process, std::string_view name, std::string_view unit,
                               const std::vector<TraceCount>& counts) {
  WireWriter descriptor, counter;
  counter.Bytes(6, unit);
  descriptor.Bytes(2, name);
  descriptor.Message(8, counter);
  const uint64_t track = AddTrack(process, descriptor);
  for (const TraceCount& count : counts) {
    WireWriter event;
    event.Varint(9, kCounter);
    event.Varint(11, track);
    event.Double(44, count.value);
    AddEvent(count.at_ns, event);
  }
}

bool IsPerfettoFile(std::string_view path) {
  return path.ends_with(".pftrace") || path.ends_with(".perfetto-trace");
}

}  // namespace gshard
