// Perfetto's own trace format: tracks with slices and counters, as ui.perfetto.dev and its trace
// processor read it.
//
// A trace is a list of packets, so traces of several writers joined are one trace, as long as their
// sequences differ. Schema: protos/perfetto/trace/ of github.com/google/perfetto.
#ifndef GSHARD_CORE_REPORT_TRACE_PERFETTO_H_
#define GSHARD_CORE_REPORT_TRACE_PERFETTO_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "ir/proto/wire_writer.h"

namespace gshard {

struct TraceArgument {
  std::string_view name;
  std::variant<bool, int64_t, double, std::string> value;
};

// Something that takes time. Nanoseconds since the trace began.
struct TraceSlice {
  int64_t begin_ns = 0, end_ns = 0;
  std::string name;
  std::string category = {};  // empty: none
  std::vector<TraceArgument> arguments = {};
  // Arrows lead from each slice with a number to the next one in time that has it. None is 0.
  std::vector<uint64_t> flows = {};
};

struct TraceCount {
  int64_t at_ns = 0;
  double value = 0;  // from then on
};

class PerfettoTrace {
 public:
  // `sequence`: differs between writers whose traces are joined; from 1 on.
  explicit PerfettoTrace(uint32_t sequence = 1) : sequence_(sequence) {}

  // A group of lanes; its number. Shown in the order in which they are made.
  uint64_t AddProcess(std::string_view name);
  // Slices that nest, or lie beside each other, share a line; others have lines of their own under
  // the same name.
  void AddLane(uint64_t process, std::string_view name, std::vector<TraceSlice> slices);
  // `unit`: "B", "B/s", ..
  void AddCounter(uint64_t process, std::string_view name, std::string_view unit,
                  const std::vector<TraceCount>& counts);

  const std::string& bytes() const { return packets_.bytes(); }

 private:
  uint64_t AddTrack(uint64_t parent, proto::WireWriter& descriptor);
  void AddPacket(proto::WireWriter& packet);
  void AddEvent(int64_t at_ns, const proto::WireWriter& event);
  void AddLine(uint64_t process, std::string_view name, const std::vector<TraceSlice>& slices);

  uint32_t sequence_;
  uint64_t tracks_ = 0;
  proto::WireWriter packets_;
};

// Does a file of this name hold Perfetto's format (.pftrace, .perfetto-trace)? Others hold Chrome's
// JSON.
bool IsPerfettoFile(std::string_view path);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_TRACE_PERFETTO_H_
