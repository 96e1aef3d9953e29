#include "tile_machine/fit/csv.hpp"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <utility>

#include "files/strict_json.hpp"

namespace inlay::npu {

namespace {

std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t')) text.remove_suffix(1);
  return text;
}

std::string joined(const std::vector<std::string>& names) {
  std::string result;
  for (const std::string& name : names) result.append(result.empty() ? "" : ", ").append(name);
  return result;
}

// Takes the text of one row and its cells off the front of `text`. Returns false where a quote stays open.
bool take_row(std::string_view& text, CsvRow& row, std::size_t& line) {
  row = {.line = line, .cells = {}};
  std::string cell;
  bool quoted = false, was_quoted = false;
  const auto end_cell = [&] {
    row.cells.push_back(was_quoted ? std::move(cell) : std::string(trimmed(cell)));
    cell.clear();
    was_quoted = false;
  };
  while (!text.empty()) {
    const char c = text.front();
    text.remove_prefix(1);
    if (c == '\n') ++line;
    if (quoted) {
      if (c != '"') {
        cell += c;
      } else if (text.starts_with('"')) {
        cell += c;
        text.remove_prefix(1);
      } else {
        quoted = false;
      }
    } else if (c == '"' && trimmed(cell).empty() && !was_quoted) {
      cell.clear();
      quoted = was_quoted = true;
    } else if (c == ',') {
      end_cell();
    } else if (c == '\n') {
      break;
    } else if (c != '\r' && !(was_quoted && (c == ' ' || c == '\t'))) {
      cell += c;
    }
  }
  end_cell();
  return !quoted;
}

}  // namespace

std::optional<std::size_t> CsvTable::column(std::string_view name) const {
  const auto found = std::find(columns.begin(), columns.end(), name);
  if (found == columns.end()) return std::nullopt;
  return static_cast<std::size_t>(found - columns.begin());
}

Status CsvTable::needs(std::initializer_list<std::string_view> names) const {
  std::vector<std::string> missing;
  for (const std::string_view name : names)
    if (!has(name)) missing.emplace_back(name);
  if (missing.empty()) return {};
  return {StatusCode::corrupt_data,
          "line 1 has the columns " + joined(columns) + ": it must also have " + joined(missing)};
}

tl::expected<double, Status> CsvTable::number(const CsvRow& row, std::string_view column_name) const {
  const std::string& cell = row.cells[*column(column_name)];
  double value = 0;
  const auto [end, error] = std::from_chars(cell.data(), cell.data() + cell.size(), value);
  if (error == std::errc() && end == cell.data() + cell.size() && std::isfinite(value) && value >= 0) return value;
  return failure(StatusCode::corrupt_data, "line " + std::to_string(row.line) + ": " + std::string(column_name) +
                                               " is " + files::describe(cell) + ": it must be a number of at least 0");
}

tl::expected<CsvTable, Status> parse_csv(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  CsvTable table;
  CsvRow row;
  std::size_t line = 1;
  while (!text.empty()) {
    if (!take_row(text, row, line))
      return failure(StatusCode::corrupt_data,
                     "line " + std::to_string(row.line) + " has a quote that is not closed: it must be");
    if (row.cells.size() == 1 && row.cells[0].empty()) continue;
    if (table.columns.empty()) {
      table.columns = std::move(row.cells);
      continue;
    }
    if (row.cells.size() != table.columns.size())
      return failure(StatusCode::corrupt_data, "line " + std::to_string(row.line) + " has " +
                                                   std::to_string(row.cells.size()) + " cells: it must have " +
                                                   std::to_string(table.columns.size()) + ", as line 1 has");
    table.rows.push_back(std::move(row));
  }
  if (table.columns.empty()) return failure(StatusCode::corrupt_data, "is empty: it must have a line of columns");
  return table;
}

}  // namespace inlay::npu
