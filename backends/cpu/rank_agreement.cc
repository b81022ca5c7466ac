#include "backends/cpu/rank_agreement.h"

#include <fmt/format.h>
#include <unistd.h>

#include <span>
#include <string>

namespace gshard::cpu {

void RankAgreement::FailAlone(const Diagnostic& error) const {
  if (several() && error.code != "E-RUN-DEADLOCK") fail_alone_(error);
}

void RankAgreement::GatherResults(MeshRun& run, bool reads, size_t dump_count) const {
  if (!several()) return;
  for (size_t k = 0; reads && k < run.result_count(); ++k) run.GatherResult(k);
  for (size_t d = 0; d < dump_count; ++d) {
    for (size_t leaf : run.KeptLeaves(d)) run.GatherKept(leaf);
  }
}

std::vector<std::string> RankAgreement::Gather(std::string mine, std::string_view where) const {
  std::vector<std::string> texts;
  if (!several()) {
    texts.push_back(std::move(mine));
    return texts;
  }
  const std::vector<std::string> sizes = ranks_->AllGatherText(std::to_string(mine.size()), where);
  std::vector<mpi::Ranks::Outgoing> out;
  std::vector<mpi::Ranks::Incoming> in;
  if (IsFirst()) {
    for (const std::string& size : sizes) texts.emplace_back(std::stoull(size), ' ');
    texts.front() = std::move(mine);
    for (size_t rank = 1; rank < texts.size(); ++rank) {
      in.push_back({static_cast<int>(rank), std::as_writable_bytes(std::span(texts[rank]))});
    }
  } else {
    out.push_back({0, std::as_bytes(std::span(mine))});
  }
  ranks_->Exchange(out, in, where);
  return texts;
}

std::vector<RunReport::Rank> RankAgreement::RankReports(const MeshRun& run) const {
  if (!several()) return {};
  char host[256] = "";
  gethostname(host, sizeof host - 1);
  const mpi::Ranks::Traffic& traffic = ranks_->traffic();
  const RunReport::Rank mine{
      host,          run.executor().memory_bytes(), traffic.wait_seconds, traffic.messages,
      traffic.bytes, traffic.shared_bytes};
  std::vector<RunReport::Rank> reports;
  for (const std::string& text : ranks_->AllGatherText(mine.Pack(), "the report")) {
    reports.push_back(RunReport::Rank::Unpack(text));
  }
  return reports;
}

}  // namespace gshard::cpu
