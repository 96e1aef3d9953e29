// docs/support_table.md names every operator and every backend. That its cells are true is tested wherever an operator
// runs (run_with_scratch).
#include "tests/support/source_dir.hpp"
#include "tests/support/support_table.hpp"

#include <gtest/gtest-spi.h>

#include <filesystem>
#include <iterator>
#include <regex>
#include <set>

#include <inlay/cpu.hpp>

namespace inlay::test {
namespace {

TEST(support_table, has_a_row_for_every_operator_and_a_column_for_every_backend) {
  const SupportTable& page = SupportTable::page();
  EXPECT_EQ(page.backends,
            (std::vector<std::string>{std::string(Reference::name), std::string(Cpu::name), "cl", "npu"}));
  std::set<std::string> operators, rows;
  const std::regex name("std::string_view name = \"(\\w+)\"");
  for (const auto& entry : std::filesystem::directory_iterator(inlay::test::source_path("include/inlay/ops"))) {
    std::ifstream file(entry.path());
    const std::string text{std::istreambuf_iterator<char>(file), {}};
    for (std::sregex_iterator found(text.begin(), text.end(), name), end; found != end; ++found)
      operators.insert((*found)[1]);
  }
  operators.erase("skeleton");  // there to be copied
  for (const auto& [op, cells] : page.declared) {
    rows.insert(op);
    ASSERT_EQ(cells.size(), page.backends.size()) << op;
    for (const std::string& cell : cells)
      EXPECT_TRUE(cell == "all" || cell.starts_with("all but ") || cell.starts_with("none: ")) << op << ": " << cell;
  }
  EXPECT_EQ(rows, operators);
}

// A backend that declines what the page does not declare.
struct Picky : Reference {};
template <class Op> Status supports(const Picky&, const Op&) {
  return Status(StatusCode::unsupported, "no rows on Mondays");
}
struct Norm {
  static constexpr std::string_view name = "rms_norm";
};

TEST(support_table, a_decline_that_it_does_not_declare_fails) {
  EXPECT_NONFATAL_FAILURE(expect_declared(Picky(), Norm()), "no rows on Mondays");
}

TEST(support_table, who_declines_everything_hides_behind_its_sentence) {
  EXPECT_EQ(fault("all but rows on Mondays", {.computed = 1, .declined = 9}), "");
  EXPECT_EQ(fault("all but rows on Mondays", {.computed = 0, .declined = 9}), "declines all 9 cases of");
  EXPECT_EQ(fault("none: tables are the host's", {.computed = 0, .declined = 9}), "");
  EXPECT_EQ(fault("none: tables are the host's", {.computed = 2, .declined = 9}), "computes 2 cases of");
  EXPECT_EQ(fault("all", {.computed = 0, .declined = 0}), "");
}

}  // namespace
}  // namespace inlay::test
