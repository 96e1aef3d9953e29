#include "tools/simulate/report.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>

namespace inlay::tools {

std::string digits(double value, int behind) {
  char text[64];
  std::snprintf(text, sizeof(text), "%.*f", behind, value);
  return text;
}

std::string Table::text() const {
  std::string text;
  const auto line = [&](const std::vector<std::string>& cells) {
    text += "|";
    for (const std::string& cell : cells) text += (cell.empty() ? "" : " " + cell) + " |";
    text += "\n";
  };
  line(heads_);
  text += "|";
  for (std::size_t i = 0; i < heads_.size(); ++i) text += "---|";
  text += "\n";
  for (const auto& row : rows_) line(row);
  return text;
}

void Comparison::row(const std::string& what, double predicted, double published, const std::string& where,
                     int behind) {
  const bool found = published > 0;
  table_.row({what, digits(predicted, behind), found ? digits(published, behind) : "not found",
              found ? digits(predicted / published, 2) : "", where});
}

void Comparison::range(const std::string& what, double predicted, double low, double high, const std::string& where,
                       int behind) {
  table_.row({what, digits(predicted, behind), digits(low, behind) + " to " + digits(high, behind),
              digits(predicted / std::clamp(predicted, low, high), 2), where});
}

}  // namespace inlay::tools
