// See embedded_page.h.

#include "core/report/embedded_page.h"

namespace gshard {
namespace {

// JSON within a script element: no text of the program can end it.
std::string ScriptSafe(const std::string& json) {
  std::string safe;
  safe.reserve(json.size());
  for (const char c : json) {
    if (c == '<') {
      safe += "\\u003c";
    } else {
      safe += c;
    }
  }
  return safe;
}

std::string Escaped(std::string_view text) {
  std::string escaped;
  for (const char c : text) {
    switch (c) {
      case '&':
        escaped += "&amp;";
        break;
      case '<':
        escaped += "&lt;";
        break;
      case '"':
        escaped += "&quot;";
        break;
      default:
        escaped += c;
    }
  }
  return escaped;
}

}  // namespace

// Fills the template's places, each once, in one pass: what is put in is not looked at again.
std::string HtmlPage(const std::string& title, const Json& data, PageScript script) {
  const std::string escaped = Escaped(title);
  const std::string safe = ScriptSafe(data.CompactText());
  std::string out;
  std::string_view page = PageTemplate();
  while (true) {
    const size_t begin = page.find("@{");
    const size_t end = page.find('}', begin == page.npos ? page.size() : begin);
    if (begin == page.npos || end == page.npos) break;
    out += page.substr(0, begin);
    const std::string_view place = page.substr(begin + 2, end - begin - 2);
    out += place == "title"   ? std::string_view(escaped)
           : place == "style" ? PageStyle()
           : place == "data"  ? std::string_view(safe)
                              : ScriptText(script);
    page.remove_prefix(end + 1);
  }
  return out.append(page);
}

}  // namespace gshard
