#include "core/report/collective_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <unordered_map>

#include "core/analysis/axis_text.h"
#include "core/analysis/meshes.h"
#include "core/analysis/trip_count.h"
#include "core/json.h"
#include "core/report/quantity_text.h"
#include "ir/metadata.h"
#include "ir/sharding_algebra.h"
#include "ir/sharding_text.h"
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
    std::unordered_map<const Computation*, double> executions = Executions(module_);
    for (const Computation* computation : module_.computations()) {
      for (const Instruction* x : computation->instructions()) {
        if (!IsCollective(x->opcode())) continue;
        report_.collectives.push_back({x, CostOfCollective(*x, report_.devices, mesh, nullptr),
                                       executions[computation],
                                       recorder_ == nullptr ? nullptr : recorder_->cause_of(x)});
        report_.bytes_per_device += report_.collectives.back().Bytes();
      }
    }
    std::stable_sort(
        report_.collectives.begin(), report_.collectives.end(),
        [](const Collective& a, const Collective& b) { return a.Bytes() > b.Bytes(); });
    for (const Collective& collective : report_.collectives) FindRematerialization(collective);
    return std::move(report_);
  }

 private:
  void FindRematerialization(const Collective& collective) {
    const CollectiveCause* cause = collective.cause;
    if (cause == nullptr || cause->value == nullptr) return;
    bool user_runs_whole = !cause->full_rematerialization && UserRunsWhole(*cause);
    if (!cause->full_rematerialization && !user_runs_whole) return;
    for (Rematerialization& known : report_.rematerializations) {
      if (known.cause.user == cause->user && known.cause.value == cause->value) {
        known.bytes_per_device += collective.Bytes();
        return;
      }
    }
    report_.rematerializations.push_back(
        {*cause, user_runs_whole, collective.Bytes(), std::nullopt});
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
std::string PlaceOf(const Module& module, const Instruction& x) {
  std::string place = SourceLineOf(module, x);
  if (!place.empty() || module.source() == nullptr || x.source().empty()) return place;
  Diagnostic at = module.source()->Locate(x.source(), Severity::kNote, "", "");
  return fmt::format("{}:{}", at.file, at.line);
}

std::string Counted(size_t count, std::string_view one) {
  return fmt::format("{} {}{}", count, one, count == 1 ? "" : "s");
}

std::string RematerializationText(Module& module, const Rematerialization& r) {
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
    out += fmt::format("{} goes from {} to {} for {}, over the whole value on every device\n",
                       cause.value->name(), text(cause.has), text(cause.wants), user->name());
  }
  std::string place = PlaceOf(module, *user);
  if (!place.empty()) out += fmt::format("{:18}at {}\n", "", place);
  if (r.advice) {
    out += fmt::format("{:18}avoided by --shard '{}': the program then sends {}\n", "",
                       r.advice->shard, HumanBytes(r.advice->bytes_per_device));
  } else {
    out += fmt::format("{:18}no annotation of {} or {} avoids it\n", "", cause.value->name(),
                       user->name());
  }
  return out;
}

}  // namespace

CollectiveReport MakeCollectiveReport(Module& partitioned, const ExplainRecorder* recorder) {
  return CollectiveSurvey(partitioned, recorder).Run();
}

std::string CollectiveReportText(Module& partitioned, const CollectiveReport& report) {
  std::string out = fmt::format(
      "{}: {}, {}, {} sent a device and step, {}\n", partitioned.name(),
      Counted(static_cast<size_t>(report.devices), "device"),
      Counted(report.collectives.size(), "collective"), HumanBytes(report.bytes_per_device),
      Counted(report.rematerializations.size(), "full rematerialisation"));
  if (!report.collectives.empty()) {
    out += fmt::format("\n  {:>14}  {:>5}  {:<20}{:<16}{}\n", "bytes a device", "times",
                       "collective", "axes", "why, where");
  }
  for (const Collective& collective : report.collectives) {
    const Instruction& x = *collective.instruction;
    const std::string& why = collective.cost.cause;
    out += fmt::format("  {:>14}  {:>5}  {:<20}{:<16}{}", HumanBytes(collective.Bytes()),
                       collective.executions, collective.cost.kind,
                       fmt::format("{}", fmt::join(collective.cost.axes, "+")),
                       why.empty() ? x.name() : why);
    std::string place = PlaceOf(partitioned, x);
    out += place.empty() ? "\n" : fmt::format("  [{}]\n", place);
  }
  if (!report.rematerializations.empty()) out += "\nfull rematerialisations\n";
  for (const Rematerialization& r : report.rematerializations) {
    out += RematerializationText(partitioned, r);
  }
  return out;
}

std::string CollectiveReportJson(const Module& partitioned, const CollectiveReport& report) {
  auto add_cause = [](Json& entry, const CollectiveCause& cause) {
    if (cause.user != nullptr) entry.Set("user", cause.user->name());
    if (cause.value != nullptr) entry.Set("value", cause.value->name());
    if (cause.has != nullptr) entry.Set("has", ToString(cause.has));
    if (cause.wants != nullptr) entry.Set("wants", ToString(cause.wants));
  };
  Json collectives = Json::Array(), rematerializations = Json::Array();
  for (const Collective& collective : report.collectives) {
    const Instruction& x = *collective.instruction;
    Json entry = {{"kind", collective.cost.kind},        {"name", x.name()},
                  {"shape", ToString(x.shape(), false)}, {"axes", collective.cost.axes},
                  {"count", collective.executions},      {"bytes_per_device", collective.Bytes()},
                  {"cause", collective.cost.cause},      {"source", PlaceOf(partitioned, x)}};
    if (collective.cause != nullptr) add_cause(entry, *collective.cause);
    collectives.Append(std::move(entry));
  }
  for (const Rematerialization& r : report.rematerializations) {
    Json entry = {{"bytes_per_device", r.bytes_per_device},
                  {"computed_whole", r.user_runs_whole},
                  {"source", PlaceOf(partitioned,
                                     *(r.cause.user == nullptr ? r.cause.value : r.cause.user))}};
    add_cause(entry, r.cause);
    if (r.advice) {
      entry.Set("avoided_by",
                {{"shard", r.advice->shard}, {"bytes_per_device", r.advice->bytes_per_device}});
    }
    rematerializations.Append(std::move(entry));
  }
  Json document = {{"schema", "gshard.collectives/1"},
                   {"devices", report.devices},
                   {"bytes_per_device", report.bytes_per_device},
                   {"collectives", std::move(collectives)},
                   {"full_rematerializations", std::move(rematerializations)}};
  return document.Text();
}

}  // namespace gshard
