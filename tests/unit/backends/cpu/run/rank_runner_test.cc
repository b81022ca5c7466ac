// Every kind of collective over several ranks: the bits of one rank, the bytes that were planned,
// and no more than must be.
#include "backends/cpu/run/rank_runner.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <mutex>
#include <string>

#include "backends/cpu/run/mesh_run.h"
#include "ir/parser.h"
#include "tests/ranks_in_process.h"

namespace gshard::cpu {
namespace {

struct Outcome {
  std::vector<std::vector<std::byte>> results;
  int64_t sent_bytes = 0, sent_messages = 0, shared_bytes = 0;
  int64_t buffer_bytes = 0;  // of the rank that has most
  RankRunner::Predicted predicted;
};

Outcome RunOn(int count, const std::string& text, int threads = 1,
              const mpi::InProcessHosts& hosts = {}, const RankSpeeds& speeds = {}) {
  Outcome outcome;
  std::mutex mutex;
  mpi::RanksOptions sharing;
  sharing.least_shared_bytes = 64;
  const auto body = [&](mpi::Ranks& ranks) {
    auto need = [](auto expected) {
      if (!expected) throw std::runtime_error(Render(expected.error()));
      if constexpr (!std::is_void_v<typename decltype(expected)::value_type>) {
        return std::move(*expected);
      }
    };
    auto module = need(ParseModule(SourceText::FromString("test.hlo", text)));
    auto inputs = need(Inputs::Open("", 1));
    MeshRunOptions options;
    options.grid = CountDevices(*module);
    options.threads = threads;
    options.ranks = &ranks;
    options.rank_speeds = speeds;
    auto run = need(MeshRun::Prepare(*module, *inputs, options));
    need(run->Start());
    const mpi::Ranks::Traffic before = ranks.traffic();
    need(run->Run({}));
    {
      const std::lock_guard<std::mutex> lock(mutex);
      outcome.sent_bytes += ranks.traffic().bytes - before.bytes;
      outcome.sent_messages += ranks.traffic().messages - before.messages;
      outcome.shared_bytes += ranks.traffic().shared_bytes - before.shared_bytes;
      if (count > 1) {
        outcome.buffer_bytes =
            std::max(outcome.buffer_bytes, run->executor().ranks()->buffer_bytes());
      }
      if (ranks.rank() == 0 && count > 1) outcome.predicted = run->executor().ranks()->predicted();
    }
    for (size_t k = 0; k < run->result_count(); ++k) run->GatherResult(k);
    if (ranks.rank() != 0) return;
    for (size_t k = 0; k < run->result_count(); ++k) {
      outcome.results.push_back(run->Output(k).data);
    }
  };
  RunOnRanks(count, body, sharing, hosts);
  return outcome;
}

std::string Program(int devices, const std::string& body) {
  return "HloModule t, num_partitions=" + std::to_string(devices) +
         "\nadd { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
         "addb { a = bf16[] parameter(0)\n b = bf16[] parameter(1)\n ROOT r = bf16[] add(a, b) }\n"
         "ENTRY main {\n" +
         body + "\n}\n";
}

// `p`: [64,40] on each device, all different.
std::string Distinct(int devices, const std::string& rest) {
  const std::string n = std::to_string(devices);
  return Program(devices, "p = f32[64,40] parameter(0), sharding={devices=[" + n + ",1]<=[" + n +
                              "]}\n" + rest);
}

std::string Groups(int groups, int size) {
  return "replica_groups=[" + std::to_string(groups) + "," + std::to_string(size) + "]<=[" +
         std::to_string(groups * size) + "], channel_id=1, use_global_device_ids=true";
}

void CheckRanks(const std::string& text, bool at_least = true) {
  const Outcome one = RunOn(1, text);
  for (const int ranks : {2, 3, 4, 5, 8}) {
    for (const int threads : {1, 2}) {
      // All on hosts of their own; all on one; hosts of two ranks with little memory to share.
      const mpi::InProcessHosts hosts = threads == 1     ? mpi::InProcessHosts{}
                                        : ranks % 2 == 0 ? mpi::InProcessHosts{64 << 20, ranks}
                                                         : mpi::InProcessHosts{12 << 10, 2};
      INFO(ranks << " ranks, " << threads << " threads\n" << text);
      const Outcome several = RunOn(ranks, text, threads, hosts);
      if (hosts.ranks_per_host == ranks && several.sent_bytes > 4096) {
        CHECK(several.shared_bytes > 0);
      }
      CHECK(several.results == one.results);
      CHECK(several.sent_bytes == several.predicted.bytes);
      CHECK(several.sent_messages == several.predicted.messages);
      if (at_least && (ranks & (ranks - 1)) == 0) {
        CHECK(static_cast<double>(several.sent_bytes) <=
              1.05 * static_cast<double>(several.predicted.least_bytes));
      }
    }
  }
}

TEST_CASE("ranks: sums over all devices and inside ranks", "[ranks]") {
  CheckRanks(
      Distinct(16, "ROOT r = f32[64,40] all-reduce(p), " + Groups(1, 16) + ", to_apply=add"));
  CheckRanks(Distinct(16, "ROOT r = f32[64,40] all-reduce(p), " + Groups(8, 2) + ", to_apply=add"));
  CheckRanks(
      Distinct(256, "ROOT r = f32[64,40] all-reduce(p), " + Groups(1, 256) + ", to_apply=add"));
  CheckRanks(Distinct(16,
                      "ROOT r = f32[64,40] all-reduce(p), replica_groups={{0,8,1,9,2,10,3,11},"
                      "{4,12,5,13,6,14,7,15}}, channel_id=1, use_global_device_ids=true, "
                      "to_apply=add"),
             false);
  CheckRanks(Distinct(16, "c = bf16[64,40] convert(p)\nROOT r = bf16[64,40] all-reduce(c), " +
                              Groups(2, 8) + ", to_apply=addb"));
}

// Where a block of members lies on several ranks its sum is complete at the last of them, and what
// others want of it travels once more: 1 + 1/ranks of the least.
TEST_CASE("ranks: sums that are cut", "[ranks]") {
  CheckRanks(Distinct(16, "ROOT r = f32[4,40] reduce-scatter(p), dimensions={0}, " + Groups(1, 16) +
                              ", to_apply=add"),
             false);
  CheckRanks(Distinct(8, "ROOT r = f32[64,5] reduce-scatter(p), dimensions={1}, " + Groups(1, 8) +
                             ", to_apply=add"),
             false);
}

TEST_CASE("ranks: a sum over a rank's devices travels once", "[ranks]") {
  const std::string text =
      Distinct(64, "n = f32[64,40] negate(p)\nROOT r = f32[64,40] all-reduce(n), " + Groups(1, 64) +
                       ", to_apply=add");
  const Outcome two = RunOn(2, text);
  CHECK(two.results == RunOn(1, text).results);
  CHECK(two.sent_bytes == 2 * 64 * 40 * 4);
}

TEST_CASE("ranks: gathers, exchanges and permutes", "[ranks]") {
  CheckRanks(Distinct(8, "ROOT r = f32[512,40] all-gather(p), dimensions={0}, " + Groups(1, 8)));
  CheckRanks(Distinct(8, "ROOT r = f32[64,160] all-gather(p), dimensions={1}, " + Groups(2, 4)));
  CheckRanks(Distinct(8,
                      "ROOT r = f32[64,40] all-to-all(p), dimensions={1}, "
                      "replica_groups={{0,1,2,3,4,5,6,7}}, channel_id=1"));
  CheckRanks(Distinct(8,
                      "ROOT r = f32[64,40] collective-permute(p), channel_id=1, "
                      "source_target_pairs={{0,1},{1,2},{2,3},{3,4},{4,5},{5,6},{6,7},{7,0}}"));
  CheckRanks(Distinct(8,
                      "q = f32[64,40] collective-permute(p), channel_id=1, "
                      "source_target_pairs={{0,4},{1,5},{4,0}}\n"
                      "ROOT r = f32[64,40] add(p, q)"));
  CheckRanks(Distinct(8,
                      "ROOT r = f32[64,40] collective-broadcast(p), channel_id=1, "
                      "replica_groups={{1,0,2,6},{7,3}}"));
}

// 4 MiB a device: more than what is on its way at a time.
TEST_CASE("ranks: copies in many rounds", "[ranks]") {
  const std::string shard = "p = f32[1024,1024] parameter(0), sharding={devices=[4,1]<=[4]}\n";
  CheckRanks(Program(4, shard + "ROOT r = f32[1024,1024] all-to-all(p), dimensions={0}, "
                                "replica_groups={{0,1,2,3}}, channel_id=1"));
  CheckRanks(Program(4, shard + "ROOT r = f32[1024,1024] all-to-all(p), dimensions={1}, "
                                "replica_groups={{3,1,2,0}}, channel_id=1"));
  CheckRanks(Program(4, shard + "g = f32[4096,1024] all-gather(p), dimensions={0}, " +
                            Groups(1, 4) + "\nROOT r = f32[4096,1024] negate(g)"));
}

// More than what is on its way at a time: it is in memory for a few rounds only, on each rank.
TEST_CASE("ranks: sums in many rounds", "[ranks]") {
  const auto sum = [](int rows) {
    const std::string shape = "f32[" + std::to_string(rows) + ",1024]";
    return Program(8, "p = " + shape + " parameter(0), sharding={devices=[8,1]<=[8]}\nROOT r = " +
                          shape + " all-reduce(p), " + Groups(1, 8) + ", to_apply=add");
  };
  CheckRanks(sum(512), false);
  CheckRanks(Program(8,
                     "p = f32[512,1024] parameter(0), sharding={devices=[8,1]<=[8]}\n"
                     "ROOT r = f32[512,256] reduce-scatter(p), dimensions={1}, " +
                         Groups(2, 4) + ", to_apply=add"),
             false);
  // 16 MiB, of which the last rank sends seven copies.
  CHECK(RunOn(8, sum(4096)).buffer_bytes <= 24 << 20);
}

// Devices 0 and 2 of a rank get different results, which have a block of the other rank in common.
TEST_CASE("ranks: a block that two results want travels once", "[ranks]") {
  for (const std::string dimension : {"0", "1"}) {
    const std::string text = Program(
        8,
        "p = f32[64,40] parameter(0), sharding={devices=[4,1,2]<=[8] last_tile_dim_replicate}\n"
        "ROOT r = f32[64,40] all-to-all(p), dimensions={" +
            dimension + "}, replica_groups={{0,4},{2,5},{1,6},{3,7}}, channel_id=1");
    CheckRanks(text);
    CHECK(RunOn(2, text).sent_bytes == 4 * 64 * 20 * 4);
  }
}

// A plan of an all-to-all of thousands of devices must not have an item for every pair of them.
TEST_CASE("ranks: blocks of neighbours are one item", "[ranks]") {
  for (const std::string dimension : {"0", "1"}) {
    const std::string text =
        Distinct(32, "ROOT r = f32[64,40] all-to-all(p), dimensions={" + dimension +
                         "}, replica_groups=[4,8]<=[8,4]T(1,0), channel_id=1");
    size_t items = 0;
    RunOnRanks(2, [&](mpi::Ranks& ranks) {
      auto module = ParseModule(SourceText::FromString("test.hlo", text));
      auto inputs = Inputs::Open("", 1);
      MeshRunOptions options;
      options.grid = CountDevices(**module);
      options.ranks = &ranks;
      auto run = MeshRun::Prepare(**module, **inputs, options);
      if (ranks.rank() != 0) return;
      const Plan& plan = (*run)->plan();
      RankHolders holders(plan.cut, {});
      for (const Step& step : plan.blocks[plan.entry].steps) {
        const auto* collective = std::get_if<CollectiveStep>(&step);
        if (collective == nullptr) continue;
        for (const auto& round : MakeWirePlan(plan, *collective, holders).rounds) {
          for (const WireMessage& message : round) items += message.items.size();
        }
      }
    });
    CHECK(items > 0);
    CHECK(items <= 2 * 16);
  }
}

TEST_CASE("ranks: control flow that differs between devices", "[ranks]") {
  CheckRanks(
      "HloModule t, num_partitions=8\n"
      "add { a = f32[] parameter(0)\n b = f32[] parameter(1)\n ROOT r = f32[] add(a, b) }\n"
      "less { s = (s32[], s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] get-tuple-element(s), index=1\n"
      "  ROOT c = pred[] compare(i, n), direction=LT }\n"
      "body { s = (s32[], s32[], f32[4]) parameter(0)\n i = s32[] get-tuple-element(s), index=0\n"
      "  n = s32[] get-tuple-element(s), index=1\n  x = f32[4] get-tuple-element(s), index=2\n"
      "  one = s32[] constant(1)\n  j = s32[] add(i, one)\n"
      "  y = f32[4] all-reduce(x), replica_groups={{0,4},{1,5},{2,6},{3,7}}, channel_id=1,\n"
      "    use_global_device_ids=true, to_apply=add\n"
      "  ROOT t = (s32[], s32[], f32[4]) tuple(j, n, y) }\n"
      "ENTRY main {\n  p = f32[4] parameter(0), sharding={devices=[8]<=[8]}\n"
      "  id = u32[] partition-id()\n  w = s32[] convert(id)\n  four = s32[] constant(4)\n"
      "  n = s32[] remainder(w, four)\n  zero = s32[] constant(0)\n"
      "  s = (s32[], s32[], f32[4]) tuple(zero, n, p)\n"
      "  l = (s32[], s32[], f32[4]) while(s), condition=less, body=body\n"
      "  ROOT r = f32[4] get-tuple-element(l), index=2\n}\n",
      false);
}

// A product of weights that are cut four ways and the same on both halves of the devices, so that
// with two ranks each has all four: what of it several ranks would compute alike is divided between
// them where that takes longer than to send it.
TEST_CASE("ranks: what several would compute alike", "[ranks]") {
  const auto product = [](const std::string& k) {
    const std::string sharded = ", sharding={devices=[4,1,2]<=[2,4]T(1,0) last_tile_dim_replicate}";
    return Program(8, "w = f32[8," + k + "] parameter(0)" + sharded + "\nv = f32[" + k +
                          ",16] parameter(1), sharding={replicated}\n"
                          "p = f32[8,16] parameter(2), sharding={devices=[8,1]<=[8]}\n"
                          "d = f32[8,16] dot(w, v), lhs_contracting_dims={1}, "
                          "rhs_contracting_dims={0}\nROOT r = f32[8,16] add(d, p)");
  };
  constexpr int64_t kInstanceBytes = 8 * 16 * 4;
  const std::string text = product("64");
  const Outcome one = RunOn(1, text);
  // By the speeds stated, so small a product is computed by each rank.
  CHECK(RunOn(2, text).sent_bytes == 0);
  for (const int threads : {1, 2}) {
    // Of two ranks each runs two of the four and sends both. Of four, two have the same two
    // classes; of eight, two the same one, which nothing is gained by sending.
    for (const auto& [ranks, classes] :
         std::vector<std::pair<int, int64_t>>{{2, 4}, {4, 4}, {8, 0}}) {
      INFO(ranks << " ranks, " << threads << " threads");
      const Outcome several = RunOn(ranks, text, threads, {1 << 20, 2}, {1e9, 1e30, 0});
      CHECK(several.results == one.results);
      CHECK(several.sent_bytes == classes * kInstanceBytes);
      CHECK(several.sent_bytes == several.predicted.bytes);
      CHECK(several.sent_messages == several.predicted.messages);
      CHECK(several.predicted.least_bytes == several.predicted.bytes);
    }
  }
  // Two classes less are 32,768 operations: 164 us at 2e8 a second. Two instances of 512 bytes that
  // a rank sends take 102 us at 1e7 bytes a second, 1024 us at 1e6.
  CHECK(RunOn(2, text, 1, {}, {2e8, 1e7, 0}).sent_bytes == 4 * kInstanceBytes);
  CHECK(RunOn(2, text, 1, {}, {2e8, 1e6, 0}).sent_bytes == 0);
  CHECK(RunOn(2, text, 1, {}, {2e8, 1e7, 1e-3}).sent_bytes == 0);
}

// What the ranks' arenas hold, the first one's first.
std::vector<int64_t> ArenaBytes(int count, const std::string& text, int64_t memory_limit = 0) {
  std::vector<int64_t> bytes(static_cast<size_t>(count));
  RunOnRanks(count, [&](mpi::Ranks& ranks) {
    auto module = ParseModule(SourceText::FromString("test.hlo", text));
    auto inputs = Inputs::Open("", 1);
    MeshRunOptions options;
    options.grid = CountDevices(**module);
    options.ranks = &ranks;
    options.memory_limit = memory_limit;
    auto run = MeshRun::Prepare(**module, **inputs, options);
    if (run) bytes[static_cast<size_t>(ranks.rank())] = (*run)->plan().memory.arena_bytes();
  });
  return bytes;
}

// A replicated weight of 640 KiB, and of each of 64 devices values of 40 KiB that are not needed at
// the same times: what is replicated counts once a rank, the rest is divided.
TEST_CASE("ranks: memory is divided", "[ranks]") {
  const std::string weight = "w = f32[256,640] parameter(1), sharding={replicated}\n";
  const std::string rest =
      "s = f32[1,40] slice(w), slice={[3:4], [7:47]}\nv = f32[40] reshape(s)\n"
      "b = f32[256,40] broadcast(v), dimensions={1}\nx = f32[256,40] sine(b)\n"
      "q = f32[256,40] multiply(p, x)\nt = f32[40,256] transpose(q), dimensions={1,0}\n"
      "u = f32[40,256] cosine(t)\nz = f32[40,40] dot(u, q), lhs_contracting_dims={1}, "
      "rhs_contracting_dims={0}\n"
      "c = f32[40,40] collective-permute(z), channel_id=2, "
      "source_target_pairs={{0,1},{1,2},{62,63}}\n"
      "k = f32[40,256] dot(c, u), lhs_contracting_dims={1}, rhs_contracting_dims={0}\n"
      "ROOT r = f32[40,256] add(k, t)";
  const std::string text = Program(
      64, "p = f32[256,40] parameter(0), sharding={devices=[64,1]<=[64]}\n" + weight + rest);
  CheckRanks(text);
  const int64_t one = ArenaBytes(1, text)[0];
  const int64_t replicated = 256 * 640 * 4;
  for (const int ranks : {2, 4, 8}) {
    const std::vector<int64_t> several = ArenaBytes(ranks, text);
    INFO(one << " bytes in one process, " << several[0] << " on one of " << ranks << " ranks");
    for (const int64_t bytes : several) {
      CHECK(static_cast<double>(bytes) <=
            1.15 * static_cast<double>(one - replicated) / ranks + static_cast<double>(replicated));
    }
  }
  // What an all-to-all brings goes into its results.
  const std::string blocks =
      Distinct(64,
               "n = f32[64,40] sine(p)\na = f32[64,40] all-to-all(n), dimensions={0}, "
               "replica_groups=[1,64]<=[64], channel_id=1\nROOT r = f32[64,40] cosine(a)");
  CheckRanks(blocks);
  CHECK(static_cast<double>(ArenaBytes(2, blocks)[1]) <=
        1.15 * static_cast<double>(ArenaBytes(1, blocks)[0]) / 2);
  // Too large for one rank, not for one of four.
  CHECK(ArenaBytes(1, text, one / 2) == std::vector<int64_t>{0});
  for (const int64_t bytes : ArenaBytes(4, text, one / 2)) CHECK(bytes > 0);
}

}  // namespace
}  // namespace gshard::cpu
