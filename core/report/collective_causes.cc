// Joins collectives with the instructions they serve. See collective_causes.h.

#include "core/report/collective_causes.h"

#include <cctype>

#include "core/analysis/partitioned.h"
#include "ir/attribute_names.h"
#include "ir/metadata.h"

namespace gshard {
namespace {

bool IsNameCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_' || c == '-' || c == '.';
}

bool NamesWord(std::string_view text, std::string_view word) {
  for (size_t at = text.find(word); at != std::string_view::npos; at = text.find(word, at + 1)) {
    size_t end = at + word.size();
    if ((at == 0 || !IsNameCharacter(text[at - 1])) &&
        (end == text.size() || !IsNameCharacter(text[end]))) {
      return true;
    }
  }
  return false;
}

}  // namespace

std::vector<CausedCollective> CollectivesBecauseOf(const Module& partitioned,
                                                   const ExplainRecorder* recorder,
                                                   std::string_view instruction_name) {
  std::vector<CausedCollective> found;
  auto is_called_so = [&](const Instruction* x) {
    return x != nullptr && x->name() == instruction_name;
  };
  for (const Computation* computation : partitioned.computations()) {
    for (const Instruction* instruction : computation->instructions()) {
      if (!IsCollective(instruction->opcode())) continue;
      CausedCollective collective{
          instruction, FrontendAttribute(instruction->frontend_attributes(), kCauseAttribute)};
      if (recorder != nullptr) {
        if (const CollectiveCause* recorded = recorder->cause_of(instruction)) {
          collective.value = recorded->value;
          collective.user = recorded->user;
        }
      }
      if (is_called_so(collective.value) || is_called_so(collective.user) ||
          is_called_so(instruction) || NamesWord(collective.cause, instruction_name)) {
        found.push_back(std::move(collective));
      }
    }
  }
  return found;
}

}  // namespace gshard
