#include "core/report/collective_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "core/analysis/trip_count.h"
#include "core/report/quantity_text.h"
#include "core/report/xla_resharding.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
#include "ir/source_lines.h"
#include "ir/traversal.h"

namespace gshard {
namespace {

using Collective = CollectiveReport::Collective;
using Rematerialization = CollectiveReport::Rematerialization;

// How often each computation runs in one step.
std::unordered_map<const Computation*, double> Executions(const Module& module) {
  std::unordered_map<const Computation*, double> executions;
  executions[module.entry()] = 1;
  std::vector<Computation*> order = CallPostOrder(module);
  for (auto it = order.rbegin(); it != order.rend(); ++it) {
    double here = executions[*it];
    for (const Instruction* x : (*it)->instructions()) {
      if (x->called().empty()) continue;
      double times = 1;
      if (x->opcode() == Opcode::kWhile) {
        times = static_cast<double>(TripCount(*x).value_or(1));
        executions[x->called(0)] += here * (times + 1);
        executions[x->called(1)] += here * times;
        continue;
      }
      for (const Computation* callee : x->called()) executions[callee] += here * times;
    }
  }
  return executions;
}

bool IsCut(const Sharding* sharding) {
  return sharding != nullptr && sharding->IsTiled() && sharding->TileCount() > 1;
}

class CollectiveSurvey {
 public:
  CollectiveSurvey(Module& module, const ExplainRecorder* recorder)
      : module_(module), recorder_(recorder) {
    report_.devices = module.DeviceCount();
  }

  CollectiveReport Run() {
    const Mesh* mesh = MainMesh(module_);
    CollectiveCosts costs(report_.devices, mesh, nullptr);
    std::unordered_map<const Computation*, double> executions = Executions(module_);
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        if (!IsCollective(x->opcode())) continue;
        report_.collectives.push_back({x, costs.Of(*x), executions[computation],
                                       recorder_ == nullptr ? nullptr : recorder_->cause_of(x)});
        report_.bytes_per_device += report_.collectives.back().Bytes();
      }
    }
    std::stable_sort(
        report_.collectives.begin(), report_.collectives.end(),
        [](const Collective& a, const Collective& b) { return a.Bytes() > b.Bytes(); });
    if (IsAsXla()) {
      AddXlaOwn();
    } else {
      for (const Collective& collective : report_.collectives) FindRematerialization(collective);
    }
    return std::move(report_);
  }

 private:
  bool IsAsXla() const {
    return FrontendAttribute(module_.header().frontend_attributes, kPartitionedAsAttribute) ==
           "xla";
  }

  // Those of a program that was partitioned as XLA decides, in order; the first of a value has the
  // bytes that bring it together.
  void AddXlaOwn() {
    if (recorder_ == nullptr) return;
    for (const CollectiveCause& cause : recorder_->rematerializations()) {
      Rematerialization own{cause, /*user_runs_whole=*/false, 0, std::nullopt};
      for (const Collective& collective : report_.collectives) {
        const CollectiveCause* why = collective.cause;
        if (why == nullptr || !why->full_rematerialization || why->wants != cause.wants) continue;
        if (why->value == cause.value && why->user == cause.user) {
          own.bytes_per_device += collective.Bytes();
        }
      }
      report_.rematerializations.push_back(std::move(own));
    }
  }

  void FindRematerialization(const Collective& collective) {
    const CollectiveCause* cause = collective.cause;
    if (cause == nullptr || cause->value == nullptr) return;
    const bool user_runs_whole = !cause->full_rematerialization && UserRunsWhole(*cause);
    if (cause->full_rematerialization || user_runs_whole) {
      Add(report_.rematerializations, collective, user_runs_whole);
    } else if (XlaRematerializes(cause->has, cause->wants)) {
      Add(report_.xla_rematerializations, collective, /*user_runs_whole=*/false);
    }
  }

  // One entry for all collectives that move the same value for the same user.
  static void Add(std::vector<Rematerialization>& list, const Collective& collective,
                  bool user_runs_whole) {
    const CollectiveCause& cause = *collective.cause;
    for (Rematerialization& known : list) {
      if (known.cause.user == cause.user && known.cause.value == cause.value) {
        known.bytes_per_device += collective.Bytes();
        return;
      }
    }
    list.push_back({cause, user_runs_whole, collective.Bytes(), std::nullopt});
  }

  // Was a cut value made whole for an operation whose result is to be cut, but is computed whole?
  bool UserRunsWhole(const CollectiveCause& cause) {
    if (cause.user == nullptr || cause.user == cause.value) return false;
    if (!IsCut(cause.has) || cause.wants == nullptr || !cause.wants->IsReplicated()) return false;
    if (!cause.user->shape()->IsArray() || !IsCut(cause.user->sharding())) return false;
    if (local_.empty()) {
      for (const Computation* computation : module_.computations()) {
        for (const Instruction* x : computation->instructions()) local_[x->name()] = x;
      }
    }
    // The local form of an instruction has its name.
    auto local = local_.find(cause.user->name());
    return local != local_.end() && local->second->opcode() == cause.user->opcode() &&
           Compatible(local->second->shape(), cause.user->shape());
  }

  Module& module_;
  const ExplainRecorder* recorder_;
  CollectiveReport report_;
  std::unordered_map<std::string_view, const Instruction*> local_;  // filled when first needed
};

// "model.py:12" of the user's program, else the place in the HLO text.
std::string PlaceOf(const Module& module, const SourceLines& lines, const Instruction& x) {
  std::string place = lines.TextOf(x);
  if (!place.empty() || module.source() == nullptr || x.source().empty()) return place;
  Diagnostic at = module.source()->Locate(x.source(), Severity::kNote, "", "");
  return fmt::format("{}:{}", at.file, at.line);
}

// More rows of collectives than that are summed by kind, too.
constexpr size_t kRowsAtAGlance = 8;

// How often each kind runs and what it sends: "all-gather 3 x, 1.5 MiB", most bytes first.
std::string KindsText(const CollectiveReport& report) {
  struct Kind {
    std::string name;
    double count = 0, bytes = 0;
  };
  std::vector<Kind> kinds;
  for (const Collective& collective : report.collectives) {
    auto kind = std::ranges::find(kinds, collective.cost.kind, &Kind::name);
    if (kind == kinds.end()) kind = kinds.insert(kinds.end(), {collective.cost.kind, 0, 0});
    kind->count += collective.executions;
    kind->bytes += collective.Bytes();
  }
  std::ranges::stable_sort(kinds, std::greater<>(), &Kind::bytes);
  std::string text;
  for (const Kind& kind : kinds) {
    text += fmt::format("  {:>14}  {:>5}  {}\n", HumanBytes(kind.bytes), kind.count, kind.name);
  }
  return text;
}

std::string RematerializationText(Module& module, const SourceLines& lines,
                                  const Rematerialization& r, double bytes_before, bool by_xla) {
  const CollectiveCause& cause = r.cause;
  const Instruction* user = cause.user == nullptr ? cause.value : cause.user;
  auto text = [&](const Sharding* sharding) {
    return AxisText(module.context(), sharding, NamedMesh(module));
  };
  std::string out = fmt::format("  {:>14}  ", HumanBytes(r.bytes_per_device));
  if (r.user_runs_whole) {
    out += fmt::format("every device gathers {} {}, computes all of {} and keeps its tile\n",
                       cause.value->name(), text(cause.has), user->name());
  } else {
    out += fmt::format("{} goes from {} to {} for {}{}\n", cause.value->name(), text(cause.has),
                       text(cause.wants), user->name(),
                       by_xla ? "" : ", over the whole value on every device");
  }
  std::string place = PlaceOf(module, lines, *user);
  if (!place.empty()) out += fmt::format("{:18}at {}\n", "", place);
  if (r.advice) {
    out += fmt::format("{:18}avoided by --shard '{}': the program then sends {} in place of {}\n",
                       "", r.advice->shard, HumanBytes(r.advice->bytes_per_device),
                       HumanBytes(bytes_before));
  } else {
    out += fmt::format("{:18}no annotation of {} or {} avoids it and sends less\n", "",
                       cause.value->name(), user->name());
  }
  return out;
}

std::string RematerializationsText(Module& module, const SourceLines& lines,
                                   const std::vector<Rematerialization>& list, double bytes_before,
                                   bool by_xla, size_t top) {
  std::string out;
  const size_t shown = top == 0 ? list.size() : std::min(top, list.size());
  for (size_t i = 0; i < shown; ++i) {
    out += RematerializationText(module, lines, list[i], bytes_before, by_xla);
  }
  if (shown < list.size()) out += fmt::format("  and {} more\n", list.size() - shown);
  return out;
}

}  // namespace

CollectiveReport MakeCollectiveReport(Module& partitioned, const ExplainRecorder* recorder) {
  return CollectiveSurvey(partitioned, recorder).Run();
}

std::string CollectiveReportText(Module& partitioned, const CollectiveReport& report, size_t top) {
  const SourceLines lines(partitioned);
  std::string out = fmt::format(
      "{}: {}, {}, {} sent a device and step, {}\n", partitioned.name(),
      Counted(static_cast<int64_t>(report.devices), "device"),
      Counted(static_cast<int64_t>(report.collectives.size()), "collective"),
      HumanBytes(report.bytes_per_device),
      Counted(static_cast<int64_t>(report.rematerializations.size()), "full rematerialisation"));
  if (report.propagated_as == PropagationMode::kShardy) {
    out += "shardings propagated by Shardy's rules\n";
  }
  const Mesh* mesh = MainMesh(partitioned);
  const std::vector<MeshAxis> axes = mesh == nullptr ? std::vector<MeshAxis>() : mesh->axes;
  if (axes.size() > 1 && NamedMesh(partitioned) == nullptr) {
    std::vector<std::string> sizes;
    for (const MeshAxis& axis : axes) sizes.push_back(fmt::format("{}={}", axis.name, axis.size));
    out += fmt::format("axes of the shardings, major first, which have no names: {}\n",
                       fmt::join(sizes, ", "));
  }
  const size_t shown =
      top == 0 ? report.collectives.size() : std::min(top, report.collectives.size());
  if (shown < report.collectives.size() || shown > kRowsAtAGlance) out += "\n" + KindsText(report);
  if (!report.collectives.empty()) {
    out += fmt::format("\n  {:>14}  {:>5}  {:<20}{:<16}{}\n", "bytes a device", "times",
                       "collective", "axes", "why, where");
  }
  for (size_t i = 0; i < shown; ++i) {
    const Collective& collective = report.collectives[i];
    const Instruction& x = *collective.instruction;
    const std::string& why = collective.cost.cause;
    out += fmt::format("  {:>14}  {:>5}  {:<20}{:<16}{}", HumanBytes(collective.Bytes()),
                       collective.executions, collective.cost.kind,
                       AxesInWords(collective.cost.axes, axes), why.empty() ? x.name() : why);
    std::string place = PlaceOf(partitioned, lines, x);
    out += place.empty() ? "\n" : fmt::format("  [{}]\n", place);
  }
  if (shown < report.collectives.size()) {
    out += fmt::format("  and {} more: --top shows them\n", report.collectives.size() - shown);
  }
  if (!report.rematerializations.empty()) out += "\nfull rematerialisations\n";
  out +=
      RematerializationsText(partitioned, lines, report.rematerializations, report.bytes_per_device,
                             /*by_xla=*/false, top);
  if (!report.xla_rematerializations.empty()) {
    out += "\nXLA would fully rematerialise here, gshard does not\n";
  }
  out += RematerializationsText(partitioned, lines, report.xla_rematerializations,
                                report.bytes_per_device,
                                /*by_xla=*/true, top);
  return out;
}

Json AdviceAsJson(const CollectiveReport::Rematerialization::Advice& advice, double bytes_without) {
  return {{"shard", advice.shard},
          {"bytes_per_device", advice.bytes_per_device},
          {"bytes_per_device_without", bytes_without}};
}

std::string CollectiveReportJson(const Module& partitioned, const CollectiveReport& report) {
  auto add_cause = [](Json& entry, const CollectiveCause& cause) {
    if (cause.user != nullptr) entry.Set("user", cause.user->name());
    if (cause.value != nullptr) entry.Set("value", cause.value->name());
    if (cause.has != nullptr) entry.Set("has", ToString(cause.has));
    if (cause.wants != nullptr) entry.Set("wants", ToString(cause.wants));
  };
  const SourceLines lines(partitioned);
  Json collectives = Json::Array();
  for (const Collective& collective : report.collectives) {
    const Instruction& x = *collective.instruction;
    Json entry = {
        {"kind", collective.cost.kind},        {"name", x.name()},
        {"shape", ToString(x.shape(), false)}, {"axes", collective.cost.axes},
        {"count", collective.executions},      {"bytes_per_device", collective.Bytes()},
        {"cause", collective.cost.cause},      {"source", PlaceOf(partitioned, lines, x)}};
    if (collective.cause != nullptr) add_cause(entry, *collective.cause);
    collectives.Append(std::move(entry));
  }
  auto rows = [&](const std::vector<Rematerialization>& list) {
    Json entries = Json::Array();
    for (const Rematerialization& r : list) {
      Json entry = {{"bytes_per_device", r.bytes_per_device},
                    {"computed_whole", r.user_runs_whole},
                    {"source", PlaceOf(partitioned, lines,
                                       *(r.cause.user == nullptr ? r.cause.value : r.cause.user))}};
      add_cause(entry, r.cause);
      if (r.advice) entry.Set("avoided_by", AdviceAsJson(*r.advice, report.bytes_per_device));
      entries.Append(std::move(entry));
    }
    return entries;
  };
  Json document = {{"schema", "gshard.collectives/1"},
                   {"devices", report.devices},
                   {"propagation", ModeName(report.propagated_as)},
                   {"bytes_per_device", report.bytes_per_device},
                   {"collectives", std::move(collectives)},
                   {"full_rematerializations", rows(report.rematerializations)},
                   {"xla_full_rematerializations", rows(report.xla_rematerializations)}};
  return document.Text();
}

}  // namespace gshard
