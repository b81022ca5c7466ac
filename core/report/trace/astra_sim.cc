// See astra_sim.h.

#include "core/report/trace/astra_sim.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <vector>

#include "core/json.h"

namespace gshard {
namespace {

struct Dim {
  std::string topology;
  int64_t devices = 1;
  double gigabytes_per_s = 0, latency_ns = 0;
};

std::vector<Dim> DimsOf(const PricedStep& priced, const Chip& chip) {
  const Network& network = *priced.network;
  std::vector<NetworkSegment> segments;  // of all axes, major to minor
  if (priced.mesh == nullptr) {
    segments = network.SegmentsOf("");
  } else {
    for (const MeshAxis& axis : priced.mesh->axes) {
      for (const NetworkSegment& segment : network.SegmentsOf(axis.name)) {
        segments.push_back(segment);
      }
    }
  }
  std::vector<Dim> dims;
  for (auto segment = segments.rbegin(); segment != segments.rend(); ++segment) {
    if (segment->extent < 2) continue;
    const NetworkDim& of = network.dims()[segment->dim];
    const char* const topology = of.kind == NetworkDim::Kind::kTorus    ? "Ring"
                                 : of.kind == NetworkDim::Kind::kSwitch ? "Switch"
                                                                        : "FullyConnected";
    // The devices of a chip exchange values in its memory: written once, read once.
    const double bytes_per_s = of.bytes_per_s > 0 ? of.bytes_per_s : chip.hbm_bytes_per_s / 2;
    dims.push_back({topology, segment->extent, bytes_per_s / 1e9, of.latency_s * 1e9});
  }
  if (dims.empty()) dims.push_back({"Ring", priced.devices, 1, 0});
  return dims;
}

}  // namespace

std::string AstraSimNetwork(const PricedStep& priced, const Chip& chip) {
  std::vector<std::string> topologies, devices, rates, latencies;
  for (const Dim& dim : DimsOf(priced, chip)) {
    topologies.push_back(dim.topology);
    devices.push_back(fmt::format("{}", dim.devices));
    rates.push_back(fmt::format("{:.6g}", dim.gigabytes_per_s));
    latencies.push_back(fmt::format("{:.6g}", dim.latency_ns));
  }
  return fmt::format(
      "topology: [ {} ]\nnpus_count: [ {} ]\nbandwidth: [ {} ]  # GB/s\nlatency: [ {} ]  # ns\n",
      fmt::join(topologies, ", "), fmt::join(devices, ", "), fmt::join(rates, ", "),
      fmt::join(latencies, ", "));
}

std::string AstraSimSystem(const PricedStep& priced, const Chip& chip) {
  std::vector<std::string> algorithms;
  for (const Dim& dim : DimsOf(priced, chip)) {
    algorithms.emplace_back(dim.topology == "FullyConnected" ? "direct" : "ring");
  }
  Json system = {{"scheduling-policy", "FIFO"},
                 {"endpoint-delay", int64_t{0}},
                 {"active-chunks-per-dimension", int64_t{1}},
                 {"preferred-dataset-splits", int64_t{1}},
                 {"all-reduce-implementation", algorithms},
                 {"all-gather-implementation", algorithms},
                 {"reduce-scatter-implementation", algorithms},
                 {"all-to-all-implementation", algorithms},
                 {"collective-optimization", "localBWAware"},
                 {"roofline-enabled", int64_t{0}},
                 {"peak-perf", chip.NominalFlops() / 1e12},
                 {"local-mem-bw", chip.hbm_bytes_per_s / 1e9}};
  return system.Text();
}

std::string AstraSimMemory() {
  Json memory = {{"memory-type", "NO_MEMORY_EXPANSION"}};
  return memory.Text();
}

}  // namespace gshard
