#include "core/report/sharding_report.h"

#include <algorithm>
#include <map>
#include <numeric>
#include <utility>

#include "core/analysis/axis_text.h"
#include "core/json.h"
#include "core/report/quantity_text.h"
#include "fmt/format.h"
#include "ir/dims.h"
#include "ir/dtype.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/source_lines.h"

namespace gshard {
namespace {

bool MakesItsValue(const Instruction* x, const Module& module) {
  switch (x->opcode()) {
    case Opcode::kTuple:
    case Opcode::kGetTupleElement:
    case Opcode::kOptBarrier:
    case Opcode::kWhile:
    case Opcode::kConditional:
    case Opcode::kCall:
      return false;
    case Opcode::kParameter:
      return x->parent() == module.entry();
    default:  // makes it
      return true;
  }
}

int64_t CeilDivide(int64_t a, int64_t b) { return (a + b - 1) / b; }

class ShardingSurvey {
 public:
  explicit ShardingSurvey(ShardingReport& report) : report_(report) {}

  void Add(const Instruction* x) {
    if (!x->shape()->IsTuple()) {
      AddLeaf(x, 0, x->shape(), x->sharding());
      return;
    }
    // Variadic results are flat.
    const Shape* shape = x->shape();
    if (shape->leaf_count() != static_cast<int64_t>(shape->elements().size())) return;
    for (int64_t i = 0; i < shape->leaf_count(); ++i) {
      const Sharding* s = x->sharding();
      AddLeaf(x, i, shape->element(i),
              s == nullptr ? nullptr : s->elements[static_cast<size_t>(i)]);
    }
  }

 private:
  void AddLeaf(const Instruction* x, int64_t leaf, const Shape* shape, const Sharding* s) {
    if (!shape->IsArray() || shape->element_count() <= 1) return;
    if (s != nullptr && !s->IsTiled() && !s->IsReplicated()) return;
    int64_t tiles = s == nullptr ? 1 : s->TileCount();
    int64_t manual = s != nullptr && s->IsTiled() ? s->SubgroupSize(SubgroupType::kManual) : 1;
    int64_t copies = report_.devices / std::max<int64_t>(1, tiles * manual);
    auto shard_size = [&](int64_t d) {
      if (shape->dim(d) == Shape::kUnbounded) return int64_t{0};  // not known: counts as nothing
      return CeilDivide(shape->dim(d), s == nullptr ? 1 : s->TileCount(d));
    };
    int64_t shard_elements = 1;
    for (int64_t d = 0; d < shape->rank(); ++d) shard_elements *= shard_size(d);
    double per_element =
        static_cast<double>(shape->byte_size()) / static_cast<double>(shape->element_count());
    auto bytes = [&](int64_t elements) {
      return static_cast<int64_t>(per_element * static_cast<double>(elements));
    };
    if (copies > 1) {
      ShardingReport::Replicated entry{x, leaf, copies, -1, 1, bytes(shard_elements)};
      for (int64_t d = 0; d < shape->rank(); ++d) {
        int64_t factor = std::gcd(shard_size(d), copies);
        if (factor > entry.factor) {
          entry.factor = factor;
          entry.dim = d;
        }
      }
      if (entry.dim >= 0) {
        report_.replicated.push_back(entry);
        report_.replicated_bytes += entry.bytes_per_device;
      }
    }
    if (s == nullptr || !s->IsTiled()) return;
    for (int64_t d = 0; d < shape->rank(); ++d) {
      int64_t count = s->TileCount(d);
      if (shape->dim(d) == Shape::kUnbounded || shape->dim(d) % count == 0) continue;
      int64_t padded = CeilDivide(shape->dim(d), count) * count;
      report_.uneven.push_back(
          {x, leaf, d, shape->dim(d), count,
           bytes(shape->element_count() / shape->dim(d) * (padded - shape->dim(d)))});
    }
  }

  ShardingReport& report_;
};

std::string NameOf(const Instruction* x, int64_t leaf) {
  return x->shape()->IsTuple() ? fmt::format("{}#{}", x->name(), leaf) : std::string(x->name());
}

const Shape* LeafShape(const Instruction* x, int64_t leaf) {
  return x->shape()->IsTuple() ? x->shape()->element(leaf) : x->shape();
}

std::string PlaceOf(const SourceLines& lines, const Instruction* x) {
  std::string place = lines.TextOf(*x);
  return place.empty() ? OpNameOf(*x) : place;
}

// "; the 25 largest:" where not all are listed.
std::string Listed(size_t listed, bool lists_all, const char* which) {
  return lists_all ? "" : fmt::format("; the {} {}:", listed, which);
}

// Keeps the first of the entries with equal keys and counts the others; then at most `limit`.
template <typename Entry, typename KeyOf>
bool KeepOneOfAKind(std::vector<Entry>& entries, size_t limit, KeyOf key_of) {
  std::vector<Entry> kept;
  std::map<decltype(key_of(entries.front())), size_t> first;
  for (const Entry& entry : entries) {
    auto [known, fresh] = first.try_emplace(key_of(entry), kept.size());
    if (fresh) {
      kept.push_back(entry);
    } else {
      ++kept[known->second].alike;
    }
  }
  bool all = kept.size() <= limit;
  if (!all) kept.resize(limit);
  entries = std::move(kept);
  return all;
}

// "; 3 more like it, 96 KiB in all"
std::string AlikeText(int64_t alike, int64_t bytes) {
  if (alike == 0) return "";
  return fmt::format("; {} more like it, {} in all", alike,
                     HumanBytes(static_cast<double>((alike + 1) * bytes)));
}

std::string InBrackets(const std::string& place) {
  return place.empty() ? "" : "  [" + place + "]";
}

}  // namespace

ShardingReport MakeShardingReport(const Module& module, const PropagationFindings& findings,
                                  size_t limit) {
  ShardingReport report;
  report.devices = module.DeviceCount();
  report.findings = findings;
  ShardingSurvey survey(report);
  for (const Computation* computation : module.computations()) {
    for (const Instruction* x : computation->instructions()) {
      if (MakesItsValue(x, module)) survey.Add(x);
    }
  }
  // Stable: ties stay in program order.
  std::stable_sort(
      report.replicated.begin(), report.replicated.end(),
      [](const auto& a, const auto& b) { return a.bytes_per_device > b.bytes_per_device; });
  std::stable_sort(report.uneven.begin(), report.uneven.end(),
                   [](const auto& a, const auto& b) { return a.padding_bytes > b.padding_bytes; });
  report.replicated_count = static_cast<int64_t>(report.replicated.size());
  report.uneven_count = static_cast<int64_t>(report.uneven.size());
  report.conflict_count = static_cast<int64_t>(report.findings.conflicts.size());
  auto kind_of = [&](const auto& entry) {
    const Sharding* s = LeafSharding(entry.instruction->sharding(), At(entry.leaf));
    return std::pair(LeafShape(entry.instruction, entry.leaf)->bare(),
                     s == nullptr ? module.context().Replicated() : s->canonical);
  };
  report.lists_all = KeepOneOfAKind(report.replicated, limit, kind_of);
  report.lists_all_uneven = KeepOneOfAKind(report.uneven, limit, [&](const auto& entry) {
    return std::pair(kind_of(entry), entry.dim);
  });
  if (report.findings.conflicts.size() > limit) report.findings.conflicts.resize(limit);
  return report;
}

std::string ShardingReportText(const Module& module, const ShardingReport& report,
                               const Mesh* mesh) {
  Context& ctx = module.context();
  const SourceLines lines(module);
  std::string out = fmt::format(
      "{}: shardings over {}{}\n", module.name(), Counted(report.devices, "device"),
      report.propagated_as == PropagationMode::kShardy ? ", propagated by Shardy's rules" : "");
  out +=
      fmt::format("\nReplicated although a dim could be cut further: {}, {} per device in all{}\n",
                  Counted(report.replicated_count, "value"),
                  HumanBytes(static_cast<double>(report.replicated_bytes)),
                  Listed(report.replicated.size(), report.lists_all, "largest"));
  for (const ShardingReport::Replicated& r : report.replicated) {
    const Sharding* sharding = LeafSharding(r.instruction->sharding(), At(r.leaf));
    std::string axes = FreeAxesText(ctx, sharding, mesh);
    out += fmt::format(
        "  {:>10}  {} {}: {} devices have each tile, dim {} could be cut {} ways{}{}{}\n",
        HumanBytes(static_cast<double>(r.bytes_per_device)), NameOf(r.instruction, r.leaf),
        ToString(LeafShape(r.instruction, r.leaf), false), r.copies, r.dim, r.factor,
        axes.empty() ? "" : ", free: " + axes, AlikeText(r.alike, r.bytes_per_device),
        InBrackets(PlaceOf(lines, r.instruction)));
  }
  out += fmt::format(
      "\nAnnotations that conflict with a neighbour: {}{}\n", report.conflict_count,
      Listed(report.findings.conflicts.size(),
             static_cast<int64_t>(report.findings.conflicts.size()) == report.conflict_count,
             "first"));
  for (const PropagationFindings::Conflict& c : report.findings.conflicts) {
    out += fmt::format("  {} is {}, its {} '{}' wants {}{}\n", c.annotated->name(),
                       AxisText(ctx, c.annotated->sharding(), mesh),
                       c.neighbour_is_user ? "user" : "operand", c.neighbour->name(),
                       AxisText(ctx, c.wanted, mesh), InBrackets(PlaceOf(lines, c.annotated)));
  }
  out += fmt::format("\nDims that do not divide: {}{}\n", report.uneven_count,
                     Listed(report.uneven.size(), report.lists_all_uneven, "costliest"));
  for (const ShardingReport::Uneven& u : report.uneven) {
    out +=
        fmt::format("  {:>10} of padding  {} {}: dim {} of size {} in {} tiles{}{}\n",
                    HumanBytes(static_cast<double>(u.padding_bytes)), NameOf(u.instruction, u.leaf),
                    ToString(LeafShape(u.instruction, u.leaf), false), u.dim, u.size, u.tiles,
                    AlikeText(u.alike, u.padding_bytes), InBrackets(PlaceOf(lines, u.instruction)));
  }
  return out;
}

std::string ShardingReportJson(const Module& module, const ShardingReport& report) {
  const SourceLines lines(module);
  Json replicated = Json::Array(), conflicts = Json::Array(), uneven = Json::Array();
  auto value = [&](const Instruction* x, int64_t leaf) {
    Json entry = {
        {"name", x->name()}, {"leaf", leaf}, {"shape", ToString(LeafShape(x, leaf), false)}};
    std::string place = PlaceOf(lines, x);
    if (!place.empty()) entry.Set("source", std::move(place));
    return entry;
  };
  for (const ShardingReport::Replicated& r : report.replicated) {
    Json entry = value(r.instruction, r.leaf);
    entry.Set("copies", r.copies);
    entry.Set("dim", r.dim);
    entry.Set("factor", r.factor);
    entry.Set("bytes_per_device", r.bytes_per_device);
    entry.Set("alike", r.alike);
    replicated.Append(std::move(entry));
  }
  for (const PropagationFindings::Conflict& c : report.findings.conflicts) {
    conflicts.Append({{"name", c.annotated->name()},
                      {"sharding", ToString(c.annotated->sharding())},
                      {"neighbour", c.neighbour->name()},
                      {"neighbour_is", c.neighbour_is_user ? "user" : "operand"},
                      {"wanted", ToString(c.wanted)}});
  }
  for (const ShardingReport::Uneven& u : report.uneven) {
    Json entry = value(u.instruction, u.leaf);
    entry.Set("dim", u.dim);
    entry.Set("size", u.size);
    entry.Set("tiles", u.tiles);
    entry.Set("padding_bytes", u.padding_bytes);
    uneven.Append(std::move(entry));
  }
  Json document = {{"schema", "gshard.shardings/1"},
                   {"devices", report.devices},
                   {"propagation", ModeName(report.propagated_as)},
                   {"replicated_count", report.replicated_count},
                   {"replicated_bytes_per_device", report.replicated_bytes},
                   {"replicated", std::move(replicated)},
                   {"conflict_count", report.conflict_count},
                   {"conflicts", std::move(conflicts)},
                   {"uneven_count", report.uneven_count},
                   {"uneven", std::move(uneven)}};
  return document.Text();
}

}  // namespace gshard
