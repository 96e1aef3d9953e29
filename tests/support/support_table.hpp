// docs/support_table.md as its readers see it: what each backend declares of each operator.
#pragma once

#include <gtest/gtest.h>

#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/backend.hpp>

#include "tests/support/source_dir.hpp"

namespace inlay::test {

struct SupportTable {
  std::vector<std::string> backends;                         // columns
  std::map<std::string, std::vector<std::string>> declared;  // by operator, a cell for each backend

  // The first table of the page.
  static const SupportTable& page() {
    static const SupportTable table = [] {
      SupportTable read;
      std::ifstream file(std::string(source_dir) + "/docs/support_table.md");
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

// How often a backend computed an operator in a program of tests, and how often it declined it.
struct Counted {
  std::size_t computed = 0, declined = 0;
};

// What is wrong with it, or "": a cell "all but" says that something is done, and who declined every case has hidden
// behind its sentence; "none:" says that nothing is.
inline std::string fault(const std::string& cell, const Counted& counted) {
  const bool none = cell.starts_with("none: ");
  if (cell == "all") return {};  // each decline has failed already
  if (none && counted.computed > 0) return "computes " + std::to_string(counted.computed) + " cases of";
  if (!none && counted.computed == 0 && counted.declined > 0)
    return "declines all " + std::to_string(counted.declined) + " cases of";
  return {};
}

// Counts of this program, judged when all of its tests have run.
class Counts : public ::testing::Environment {
 public:
  static void add(std::string_view backend, std::string_view op, bool declined) {
    static Counts* const counts = [] {
      auto* made = new Counts;
      ::testing::AddGlobalTestEnvironment(made);  // which owns it
      return made;
    }();
    Counted& counted = counts->counted_[{std::string(op), std::string(backend)}];
    ++(declined ? counted.declined : counted.computed);
  }

  void TearDown() override {
    if (::testing::GTEST_FLAG(filter) != "*") return;
    for (const auto& [names, counted] : counted_) {
      const std::string* const cell = SupportTable::page().cell(names.first, names.second);
      EXPECT_EQ(cell == nullptr ? "" : fault(*cell, counted), "")
          << names.second << " .. " << names.first << "; docs/support_table.md says " << *cell;
    }
  }

 private:
  std::map<std::pair<std::string, std::string>, Counted> counted_;  // by operator and backend
};

// A cell is "all" of the contract, "all but" and the messages of what is declined, or "none:" and one message.
template <class Backend, class Op> void expect_declared(const Backend& backend, const Op& op) {
  const Status status = supports(backend, op);
  Counts::add(Backend::name, Op::name, !status.ok());
  const std::string* const cell = SupportTable::page().cell(Op::name, Backend::name);
  if (!cell || *cell == "all")
    EXPECT_TRUE(status.ok()) << Backend::name << " declines " << Op::name
                             << ", which docs/support_table.md does not say: " << status.message();
  else
    EXPECT_TRUE(status.ok() || (!status.message().empty() && cell->find(status.message()) != std::string::npos))
        << Backend::name << " declines " << Op::name
        << " with a reason that docs/support_table.md does not have: " << status.message();
}

}  // namespace inlay::test
