// The page's files (core/report/html), put into the program by the build.
#ifndef GSHARD_CORE_REPORT_EMBEDDED_PAGE_H_
#define GSHARD_CORE_REPORT_EMBEDDED_PAGE_H_

#include <string_view>

namespace gshard {

std::string_view PageTemplate();  // with the places @{title}, @{style}, @{data}, @{script}
std::string_view PageStyle();
std::string_view CostPageScript();
std::string_view SweepPageScript();

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_EMBEDDED_PAGE_H_
