// What automatic sharding tells: a table and rules for people, gshard.auto/1 for programs.
#ifndef GSHARD_CORE_AUTOSHARD_REPORT_H_
#define GSHARD_CORE_AUTOSHARD_REPORT_H_

#include <string>

#include "core/autoshard/auto_sharding.h"

namespace gshard::autoshard {

// The plans found, and the annotations of the best.
std::string AutoSummary(const AutoResult& result);
std::string AutoAsText(const AutoResult& result);  // with the best plan's command
std::string AutoAsJson(const AutoResult& result);  // gshard.auto/1
// One HTML file that needs nothing else: a plot of the plans, their annotations and commands.
std::string AutoAsPage(const AutoResult& result);

// Where no plan fits and annotations of the user were kept: that they were, and how to free them;
// else empty. One line without its end.
std::string KeptAnnotationsText(const AutoResult& result);

// A file of rules for `gshard-opt annotate --rules`.
std::string RulesFile(const AutoResult& result, const AutoPlan& plan);

}  // namespace gshard::autoshard

#endif  // GSHARD_CORE_AUTOSHARD_REPORT_H_
