// Tables for people: in the terminal, and as markdown.
#ifndef GSHARD_CORE_REPORT_TABLE_TEXT_H_
#define GSHARD_CORE_REPORT_TABLE_TEXT_H_

#include <string>
#include <vector>

namespace gshard {

struct TextTable {
  struct Column {
    std::string title;
    bool right = false;  // numbers
  };
  std::vector<Column> columns;
  std::vector<std::vector<std::string>> rows;  // as wide as `columns`
};

// Columns as wide as they must be, two spaces between and before; the title line first.
std::string TableAsText(const TextTable& table);
// A GitHub table; what would end a cell is escaped.
std::string TableAsMarkdown(const TextTable& table);

}  // namespace gshard

#endif  // GSHARD_CORE_REPORT_TABLE_TEXT_H_
