// docs/support_table.md as its readers see it: what each backend declares of each operator.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/core/backend.hpp>

namespace inlay::test {

struct SupportTable {
  std::vector<std::string> backends;                         // columns
  std::map<std::string, std::vector<std::string>> declared;  // by operator, a cell for each backend

  // The first table of the page.
  static const SupportTable& page() {
    static const SupportTable table = [] {
      SupportTable read;
      std::ifstream file(INLAY_SOURCE_DIR "/docs/support_table.md");
      for (std::string line; std::getline(file, line) && (read.backends.empty() || line.starts_with("|"));) {
        if (!line.starts_with("| ")) continue;
        std::vector<std::string> cells;
        for (std::size_t begin = 2, end; (end = line.find(" |", begin)) != std::string::npos; begin = end + 3)
          cells.push_back(line.substr(begin, end - begin));
        const std::string first = cells.front();
        cells.erase(cells.begin());
        if (read.backends.empty())
          read.backends = cells;
        else
          read.declared[first] = cells;
      }
      return read;
    }();
    return table;
  }

  // Nothing for a backend or an operator that the page does not name.
  const std::string* cell(std::string_view op, std::string_view backend) const {
    const auto row = declared.find(std::string(op));
    for (std::size_t column = 0; row != declared.end() && column < backends.size(); ++column)
      if (backends[column] == backend) return &row->second.at(column);
    return nullptr;
  }
};

// A cell is "all" of the contract, or "all but" and the messages of what is declined.
template <class Backend, class Op> bool is_declared(const Backend&, const Op&, const Status& declined) {
  const std::string* const cell = SupportTable::page().cell(Op::name, Backend::name);
  return cell && cell->starts_with("all but ") && cell->find(declined.message()) != std::string::npos;
}

template <class Backend, class Op> void expect_declared(const Backend& backend, const Op& op) {
  const Status status = supports(backend, op);
  EXPECT_TRUE(status.ok() || is_declared(backend, op, status))
      << Backend::name << " declines " << Op::name
      << ", which docs/support_table.md does not say: " << status.message();
}

// What ends a case for a backend that declines it as the page declares.
struct Declined {};

}  // namespace inlay::test
