// See table_text.h.

#include "core/report/table_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <string_view>

namespace gshard {
namespace {

std::string Line(const TextTable& table, const std::vector<size_t>& widths,
                 const std::vector<std::string>& cells) {
  std::string line;
  for (size_t i = 0; i < cells.size(); ++i) {
    line += table.columns[i].right ? fmt::format("  {:>{}}", cells[i], widths[i])
                                   : fmt::format("  {:<{}}", cells[i], widths[i]);
  }
  line.erase(line.find_last_not_of(' ') + 1);
  return line + "\n";
}

// `text` in a cell of a GitHub table.
std::string Cell(std::string_view text) {
  std::string cell;
  for (char c : text) {
    if (std::string_view("|\\`*_<>[]").find(c) != std::string_view::npos) cell += '\\';
    cell += c == '\n' ? ' ' : c;
  }
  return cell;
}

}  // namespace

std::string TableAsText(const TextTable& table) {
  std::vector<std::string> titles;
  std::vector<size_t> widths;
  for (const TextTable::Column& column : table.columns) {
    titles.push_back(column.title);
    widths.push_back(column.title.size());
  }
  for (const std::vector<std::string>& row : table.rows) {
    for (size_t i = 0; i < row.size(); ++i) widths[i] = std::max(widths[i], row[i].size());
  }
  std::string text = Line(table, widths, titles);
  for (const std::vector<std::string>& row : table.rows) text += Line(table, widths, row);
  return text;
}

std::string TableAsMarkdown(const TextTable& table) {
  std::string text = "|", rule = "|";
  for (const TextTable::Column& column : table.columns) {
    text += fmt::format(" {} |", Cell(column.title));
    rule += column.right ? "---:|" : "---|";
  }
  text += fmt::format("\n{}\n", rule);
  for (const std::vector<std::string>& row : table.rows) {
    text += "|";
    for (const std::string& cell : row) text += fmt::format(" {} |", Cell(cell));
    text += "\n";
  }
  return text;
}

}  // namespace gshard
