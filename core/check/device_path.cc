#include "core/check/device_path.h"

#include <fmt/format.h>

#include <string>

#include "ir/computation.h"
#include "ir/host_transfers.h"
#include "ir/module.h"

namespace gshard {
namespace {

Diagnostic NoteAt(const Instruction& x, std::string message) {
  Diagnostic note = x.parent()->module().ErrorAt(&x, "", std::move(message));
  note.severity = Severity::kNote;
  return note;
}

// In text order, through what is called; null: there is none.
const Instruction* FirstCollective(const Computation& computation) {
  for (const Instruction* x : computation.instructions()) {
    if (IsCollective(x->opcode())) return x;
    for (const Computation* called : x->called()) {
      if (const Instruction* inner = FirstCollective(*called)) return inner;
    }
  }
  return nullptr;
}

std::string WhatBranchDoes(const Instruction& conditional, int32_t branch) {
  const Computation& taken = *conditional.called(branch);
  const Instruction* first = FirstCollective(taken);
  if (first == nullptr) return fmt::format("branch {}, which has no collective", taken.name());
  return fmt::format("branch {}, where it comes to {} {} instead", taken.name(),
                     OpcodeName(first->opcode()), first->name());
}

// The step by which a device was lost.
const DevicePath& StepWithout(uint32_t device, const DevicePath& path) {
  const DevicePath* step = &path;
  while (step->outer != nullptr && !step->outer->Has(device)) step = step->outer;
  return *step;
}

Diagnostic WhereTheyParted(uint32_t device, const DevicePath& path) {
  const DevicePath& step = StepWithout(device, path);
  const Instruction& split = *step.split;
  if (step.branch_of != nullptr) {
    return NoteAt(split, fmt::format("device {} takes {}", device,
                                     WhatBranchDoes(split, (*step.branch_of)[device])));
  }
  return NoteAt(split, step.trip <= 0
                           ? fmt::format("device {} never enters this loop", device)
                           : fmt::format("device {} has left this loop before its trip {}", device,
                                         step.trip + 1));
}

constexpr const char* kHint =
    "move it to where all devices of its groups come by, or make groups of those that do";

CommunicationFinding MakeFinding(const Instruction& collective, const MissingMember& member,
                                 Diagnostic diagnostic) {
  return {std::move(diagnostic), &collective, {member.present, member.missing}};
}

}  // namespace

DevicePath DevicePath::Into(const Instruction& instruction) const {
  DevicePath inner;
  inner.outer = this;
  inner.split = &instruction;
  inner.active = active;
  inner.may_part = may_part;
  inner.depends_on_data = depends_on_data;
  return inner;
}

std::optional<MissingMember> FindMemberThatMayBeMissing(const CollectiveDevices& devices,
                                                        const DevicePath& path) {
  auto part = [&](uint32_t a, uint32_t b) {
    return path.Has(a) && path.Has(b) && path.may_part->class_of(a) != path.may_part->class_of(b);
  };
  for (uint32_t target = 0; target < devices.sources.size(); ++target) {
    const uint32_t source = devices.sources[target];
    if (source != kNoDevice && part(source, target)) return MissingMember{source, target};
  }
  for (size_t g = 0; g < devices.groups.group_count(); ++g) {
    const auto members = devices.groups.group(g);
    for (uint32_t member : members) {
      if (part(members[0], member)) return MissingMember{members[0], member};
    }
  }
  return std::nullopt;
}

CommunicationFinding PartedFinding(const Instruction& collective, const MissingMember& member,
                                   const DevicePath& path) {
  Diagnostic error = DeadlockError(collective, member);
  error.hint = kHint;
  error.notes.push_back(WhereTheyParted(member.missing, path));
  if (path.depends_on_data) {
    error.severity = Severity::kWarning;
    error.code = "W-CHECK-001";
    error.message = "if devices come here, which depends on data: " + error.message;
  }
  return MakeFinding(collective, member, std::move(error));
}

CommunicationFinding MayPartFinding(const Instruction& collective, const MissingMember& member,
                                    const DevicePath& path) {
  const auto& [present, missing] = member;
  Diagnostic warning = collective.parent()->module().ErrorAt(
      &collective, "W-CHECK-001",
      fmt::format("may deadlock, depending on data: device {} waits in {} {} for device {} if the "
                  "two do not choose alike",
                  present, OpcodeName(collective.opcode()), collective.name(), missing));
  warning.severity = Severity::kWarning;
  for (const DevicePath* step = &path; step->outer != nullptr; step = step->outer) {
    if (step->choice == nullptr ||
        step->choice->class_of(present) == step->choice->class_of(missing)) {
      continue;
    }
    const Instruction& split = *step->split;
    const bool is_loop = split.opcode() == Opcode::kWhile;
    const Instruction& decides = is_loop ? *split.called(0)->root() : *split.operand(0);
    warning.notes.push_back(
        NoteAt(decides, fmt::format("{} decides {} {} and may differ between them", decides.name(),
                                    is_loop ? "how often runs" : "the branch of", split.name())));
    warning.hint = fmt::format(
        "combine {} over the group, say by an all-reduce, before it decides; or move the "
        "collective to where all devices come by",
        decides.name());
    break;
  }
  return MakeFinding(collective, member, std::move(warning));
}

}  // namespace gshard
