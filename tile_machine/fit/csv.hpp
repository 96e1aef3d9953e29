// Comma-separated values (RFC 4180): a line of column names, then rows with a cell for each of them. A cell in quotes
// may hold commas, line ends and, doubled, quotes.
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <tl/expected.hpp>

#include "inlay/core/status.hpp"

namespace inlay::npu {

struct CsvRow {
  std::size_t line = 0;  // of the file, from 1
  std::vector<std::string> cells;
};

struct CsvTable {
  std::vector<std::string> columns;
  std::vector<CsvRow> rows;

  std::optional<std::size_t> column(std::string_view name) const;
  bool has(std::string_view name) const { return column(name).has_value(); }
  // Errors: those of `names` that are no columns, beside those that there are.
  Status needs(std::initializer_list<std::string_view> names) const;
  // A cell as a number of at least 0. Errors name the line, the column and the cell.
  tl::expected<double, Status> number(const CsvRow& row, std::string_view column_name) const;
};

// Errors: no text, a quote that is not closed, a row with more or fewer cells than there are columns.
tl::expected<CsvTable, Status> parse_csv(std::string_view text);

}  // namespace inlay::npu
