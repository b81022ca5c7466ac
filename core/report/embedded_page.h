// A page of HTML that needs nothing else: template, style and scripts (core/report/html), which the
// build puts into the program, and the data that the script draws.
#ifndef GSHARD_CORE_REPORT_EMBEDDED_PAGE_H_
#define GSHARD_CORE_REPORT_EMBEDDED_PAGE_H_

#include <cstdint>
#include <string>
#include <string_view>

#include "core/json.h"

namespace gshard {

// What draws the page: of one estimate (cost_page.h), of a sweep's points (gshard.sweep/1), of the
// plans of automatic sharding (gshard.auto/1).
enum class PageScript : uint8_t { kCost, kSweep, kPlans };

// Texts of the user's program in the title and the data are safe: they end no element.
std::string HtmlPage(const std::string& title, const Json& data, PageScript script);

// The files, as they are.
std::string_view PageTemplate();  // with the places @{title}, @{style}, @{data}, @{script}
std::string_view PageStyle();
std::string_view ScriptText(PageScript script);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_EMBEDDED_PAGE_H_
