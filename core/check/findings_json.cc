#include "core/check/findings_json.h"

namespace gshard {

Json FindingsJson(const CommunicationFindings& findings) {
  Json list = Json::Array();
  for (const CommunicationFinding& finding : findings) {
    const Diagnostic& d = finding.diagnostic;
    Json notes = Json::Array();
    for (const Diagnostic& note : d.notes) {
      notes.Append({{"message", note.message}, {"line", note.line}});
    }
    list.Append({{"severity", finding.IsError() ? "error" : "warning"},
                 {"code", d.code},
                 {"message", d.message},
                 {"instruction", finding.instruction->name()},
                 {"opcode", OpcodeName(finding.instruction->opcode())},
                 {"devices", std::vector<int64_t>(finding.devices.begin(), finding.devices.end())},
                 {"file", d.file},
                 {"line", d.line},
                 {"column", d.column},
                 {"hint", d.hint},
                 {"notes", std::move(notes)}});
  }
  return list;
}

}  // namespace gshard
