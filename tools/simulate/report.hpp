// A page of tables: what is predicted beside what was published.
#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace inlay::tools {

// The number with so many digits behind the point.
std::string digits(double value, int behind);

class Table {
 public:
  explicit Table(std::vector<std::string> heads) : heads_(std::move(heads)) {}

  void row(std::vector<std::string> cells) { rows_.push_back(std::move(cells)); }
  std::string text() const;

 private:
  std::vector<std::string> heads_;
  std::vector<std::vector<std::string>> rows_;
};

// what | predicted | published | predicted / published | where it is published
class Comparison {
 public:
  // `published` 0: not found, and `where` says where it was sought, or why there is none.
  void row(const std::string& what, double predicted, double published, const std::string& where, int behind = 2);
  // A published range, of which the nearest end counts.
  void range(const std::string& what, double predicted, double low, double high, const std::string& where,
             int behind = 2);
  std::string text() const { return table_.text(); }

 private:
  Table table_{{"what", "predicted", "published", "predicted / published", "where"}};
};

// The three parts of the page.
std::string heterollm_page();
std::string llm_npu_page();
std::string ascend_page();
// The whole of docs/fidelity.md.
std::string fidelity_page();

}  // namespace inlay::tools
