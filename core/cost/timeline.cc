#include "core/cost/timeline.h"

namespace gshard {

std::string_view WorkClassName(WorkClass work_class) {
  switch (work_class) {
    case WorkClass::kDot:
      return "dot";
    case WorkClass::kAttention:
      return "attention";
    case WorkClass::kMovement:
      return "movement";
    case WorkClass::kOther:
      return "other";
    case WorkClass::kCollective:
      return "collective";
    case WorkClass::kLoop:
      return "loop";
  }
  return "";
}

std::string_view OverlapName(Overlap overlap) {
  switch (overlap) {
    case Overlap::kChipDefault:
      return "default";
    case Overlap::kNone:
      return "none";
    case Overlap::kXla:
      return "xla";
    case Overlap::kPerfect:
      return "perfect";
  }
  return "";
}

}  // namespace gshard
