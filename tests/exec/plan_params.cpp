// What Params refuses: a captured operator looks at contents without asking. Each refusal names what is wrong, and
// nothing is written.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <functional>
#include <string>
#include <vector>

#include <inlay/exec/kv_pool.hpp>
#include <inlay/exec/plan/params.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

constexpr index max_tokens = 8, block_size = 4, blocks = 10;

// Two generated tokens, and two prompts of which rows 0..2 and 3..4 come now.
struct Pass {
  std::vector<std::int32_t> tokens{100, 0, 1, 2, 3, 4, 5}, positions{10, 2, 0, 1, 2, 6, 7};
  std::vector<std::int64_t> slots{38, 2, -1, 5, 6, 14, 15};
  std::vector<std::int32_t> generated_lens{11, 3}, generated_table{7, 8, 9, 0, -7, -7};
  std::vector<std::int32_t> prompt_lens{3, 8}, prompt_table{1, 99, 2, 3}, q_indptr{0, 3, 5}, logit_rows{0, 1, 6};
  BatchViews<Host> views() const {
    const auto count = static_cast<index>(tokens.size());
    return {.tokens = {tokens.data(), {count}},
            .positions = {positions.data(), {1, count}},
            .slots = {slots.data(), {count}},
            .generated = {.kv_lens = {generated_lens.data(), {2}}, .block_table = {generated_table.data(), {2, 3}}},
            .prompts = {.kv_lens = {prompt_lens.data(), {2}}, .block_table = {prompt_table.data(), {2, 2}}},
            .q_indptr = {q_indptr.data(), {3}},
            .logit_rows = {logit_rows.data(), {static_cast<index>(logit_rows.size())}}};
  }
};

Params params(const ModelConfig& config = tiny()) {
  auto made = Params::make(config, cache_shape(config, DType::f16, block_size, blocks * block_size), max_tokens);
  EXPECT_TRUE(made.has_value());
  return std::move(*made);
}

std::vector<std::byte> contents(const Params& params) { return {params.memory().begin(), params.memory().end()}; }

template <class T> std::vector<T> elements(const auto& view) {
  return {view.template as<T>(), view.template as<T>() + view.size()};
}

TEST(plan_params, what_was_committed_stands_at_the_same_place) {
  Params there = params();
  Pass pass;
  ASSERT_TRUE(ok(there.commit(pass.views())));
  const BatchViews<Host> first = there.views();
  EXPECT_EQ(elements<std::int32_t>(first.tokens), pass.tokens);
  EXPECT_EQ(elements<std::int32_t>(first.positions), pass.positions);
  EXPECT_EQ(elements<std::int64_t>(first.slots), pass.slots);
  EXPECT_EQ(elements<std::int32_t>(first.generated.kv_lens), pass.generated_lens);
  EXPECT_EQ(elements<std::int32_t>(first.prompts.kv_lens), pass.prompt_lens);
  EXPECT_EQ(elements<std::int32_t>(first.q_indptr), pass.q_indptr);
  EXPECT_EQ(elements<std::int32_t>(first.logit_rows), pass.logit_rows);
  // Three blocks become four, and a column behind a text's own is nobody's block.
  EXPECT_EQ(elements<std::int32_t>(first.generated.block_table), (std::vector{7, 8, 9, -1, 0, -1, -1, -1}));
  EXPECT_EQ(elements<std::int32_t>(first.prompts.block_table), (std::vector{1, -1, 2, 3}));
  const std::int64_t generation = there.generation();
  const std::size_t used = there.used();
  pass.tokens = {7};
  pass.generated_lens = {2, 3};
  BatchViews<Host> one = pass.views();
  one.positions.extents = {1, 1}, one.slots.extents = {1};
  one.generated.kv_lens.extents = {1}, one.generated.block_table.extents[0] = 1;
  one.prompts.kv_lens.extents = {0}, one.prompts.block_table.extents = {0, 0}, one.q_indptr.extents = {1};
  one.logit_rows = {};
  ASSERT_TRUE(ok(there.commit(one)));
  EXPECT_EQ(there.generation(), generation);
  EXPECT_EQ(elements<std::int32_t>(there.views().generated.block_table), (std::vector{7, -1, -1, -1}));
  EXPECT_FALSE(there.views().logit_rows.present());
  // Side by side: one copy brings all, and no more than there is.
  EXPECT_LT(there.used(), used);
  EXPECT_LE(static_cast<const std::byte*>(there.views().prompts.block_table.data),
            there.memory().data() + there.used());
  // Whatever was committed between passes of equal shapes.
  ASSERT_TRUE(ok(there.commit(Pass().views())));
  EXPECT_EQ(there.used(), used);
  EXPECT_EQ(there.views().tokens.data, first.tokens.data);
  EXPECT_EQ(there.views().slots.data, first.slots.data);
  EXPECT_EQ(there.views().generated.kv_lens.data, first.generated.kv_lens.data);
  EXPECT_EQ(there.views().generated.block_table.data, first.generated.block_table.data);
  EXPECT_EQ(there.views().prompts.block_table.data, first.prompts.block_table.data);
  EXPECT_EQ(there.views().logit_rows.data, first.logit_rows.data);
}

// A slot of a token that is skipped, a text that sees nothing, a prompt without rows.
TEST(plan_params, nothing_is_something_that_a_pass_may_bring) {
  Params there = params();
  Pass pass;
  pass.slots[0] = -1;
  pass.generated_lens[1] = 0;
  pass.q_indptr[1] = 0;
  pass.prompt_lens[0] = 0;
  ASSERT_TRUE(ok(there.commit(pass.views())));
  EXPECT_EQ(elements<std::int32_t>(there.views().generated.block_table), (std::vector{7, 8, 9, -1, -1, -1, -1, -1}));
  EXPECT_EQ(elements<std::int32_t>(there.views().q_indptr), (std::vector{0, 0, 5}));
}

TEST(plan_params, wrong_contents_are_refused_by_name) {
  struct Row {
    std::function<void(Pass&)> change;
    const char* words;
  };
  const Row rows[] = {
      {[](Pass& p) { p.tokens[6] = 101; }, "tokens[6] is 101; it must be in 0..100"},
      {[](Pass& p) { p.tokens[0] = -1; }, "tokens[0] is -1; it must be in 0..100"},
      {[](Pass& p) { p.slots[3] = 40; }, "slots[3] is 40; it must be below 40"},
      {[](Pass& p) { p.generated_lens[1] = 13; }, "generated.kv_lens[1] is 13; it must be in 0..12"},
      {[](Pass& p) { p.generated_lens[0] = -1; }, "generated.kv_lens[0] is -1; it must be in 0..12"},
      {[](Pass& p) { p.generated_table[2] = 10; }, "generated.block_table[0, 2] is 10; it must be in 0..9"},
      {[](Pass& p) { p.generated_table[3] = -1; }, "generated.block_table[1, 0] is -1; it must be in 0..9"},
      {[](Pass& p) { p.generated_lens[1] = 5; }, "generated.block_table[1, 1] is -7; it must be in 0..9"},
      {[](Pass& p) { p.prompt_lens[0] = 9; }, "prompts.kv_lens[0] is 9; it must be in 0..8"},
      {[](Pass& p) { p.prompt_lens[0] = 5; }, "prompts.block_table[0, 1] is 99; it must be in 0..9"},
      {[](Pass& p) { p.q_indptr[0] = 1; }, "q_indptr[0] is 1; it must be 0 at the beginning"},
      {[](Pass& p) { p.q_indptr[1] = 6; }, "q_indptr[1] is 6; it must be 0 at the beginning, never fall and end by 5"},
      {[](Pass& p) { p.q_indptr[2] = 2; }, "q_indptr[2] is 2; it must be"},
      {[](Pass& p) { p.logit_rows[2] = 7; }, "logit_rows[2] is 7; it must be in 0..6"},
      {[](Pass& p) { p.logit_rows[0] = -1; }, "logit_rows[0] is -1; it must be in 0..6"},
      {[](Pass& p) { p.tokens.resize(9); }, "tokens has 9 entries; a pass must have at most 8"},
      {[](Pass& p) { p.logit_rows.resize(8); }, "logit_rows is i32 [8]; it must be i32 [7]"},
  };
  Params there = params();
  ASSERT_TRUE(ok(there.commit(Pass().views())));
  const auto before = contents(there);
  for (const Row& row : rows) {
    Pass wrong;
    row.change(wrong);
    const Status refused = there.commit(wrong.views());
    EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
    EXPECT_NE(refused.message().find(row.words), std::string_view::npos) << row.words << " | " << refused.message();
    EXPECT_EQ(contents(there), before) << row.words;
    EXPECT_EQ(there.views().size(), 7);
  }
}

TEST(plan_params, wrong_shapes_are_refused_by_name) {
  struct Row {
    std::function<void(BatchViews<Host>&)> change;
    const char* words;
  };
  using Views = BatchViews<Host>;
  const Row rows[] = {
      {[](Views& v) { v.positions.extents[1] = 6; }, "positions is i32 [1, 6]; it must be i32 [1, 7], contiguous"},
      {[](Views& v) { v.slots.dtype = DType::i32; }, "slots is i32 [7]; it must be i64 [7], contiguous"},
      {[](Views& v) { v.tokens.strides[0] = 2; }, "tokens is i32 [7]; it must be i32 [7], contiguous"},
      {[](Views& v) { v.generated.kv_lens.extents[0] = 8; }, "generated.kv_lens is i32 [8]; it must be i32 [7]"},
      {[](Views& v) { v.generated.block_table.extents[0] = 1; }, "generated.block_table is i32 [1, 3]; it must be"},
      {[](Views& v) { v.prompts.block_table.strides[0] = 3; }, "prompts.block_table is i32 [2, 2]; it must be"},
      {[](Views& v) { v.prompts.kv_lens.dtype = DType::i64; }, "prompts.kv_lens is i64 [2]; it must be i32 [2]"},
      {[](Views& v) { v.q_indptr.extents[0] = 2; }, "q_indptr is i32 [2]; it must be i32 [3], contiguous"},
  };
  Params there = params();
  const auto before = contents(there);
  for (const Row& row : rows) {
    const Pass pass;
    BatchViews<Host> wrong = pass.views();
    row.change(wrong);
    const Status refused = there.commit(wrong);
    EXPECT_EQ(refused.code(), StatusCode::invalid_argument);
    EXPECT_NE(refused.message().find(row.words), std::string_view::npos) << row.words << " | " << refused.message();
    EXPECT_EQ(contents(there), before) << row.words;
  }
}

// A generated token sees what the widest window lets it see, and all where one layer has none; a prompt's table is
// looked at whole.
TEST(plan_params, blocks_before_every_window_may_be_anything) {
  ModelConfig config = tiny();
  config.set_layers({{.hidden = 80, .window = 3}, {.hidden = 80, .window = 4}});
  Pass pass;
  pass.generated_table[0] = -5;  // keys 0..3; a token behind 10 others sees keys 7..10
  ASSERT_TRUE(ok(params(config).commit(pass.views())));
  pass.generated_lens[0] = 7;  // keys 3..6: of the wider window alone
  EXPECT_FALSE(params(config).commit(pass.views()).ok());
  pass.generated_lens[0] = 11;
  pass.prompt_table[2] = -5;  // keys 0..3 of 8
  EXPECT_FALSE(params(config).commit(pass.views()).ok());
  pass.prompt_table[2] = 2;
  config.set_layers({{.hidden = 80, .window = 3}, {.hidden = 80}});
  EXPECT_FALSE(params(config).commit(pass.views()).ok());
  config.set_layers({{.hidden = 80}, {.hidden = 80, .window = 3}});
  EXPECT_FALSE(params(config).commit(pass.views()).ok());
}

TEST(plan_params, a_table_that_is_wider_than_any_ends_a_generation) {
  ModelConfig config = tiny();
  config.context = 8;  // two blocks
  Params there = params(config);
  const std::int64_t generation = there.generation();
  Pass pass;
  pass.generated_lens = {8, 3};
  BatchViews<Host> narrow = pass.views();
  std::vector<std::int32_t> table{7, 8, 0, -7};
  narrow.generated.block_table = {table.data(), {2, 2}};
  ASSERT_TRUE(ok(there.commit(narrow)));
  EXPECT_EQ(there.generation(), generation);
  ASSERT_TRUE(ok(there.commit(pass.views())));
  EXPECT_EQ(there.generation(), generation + 1);
  EXPECT_EQ(elements<std::int32_t>(there.views().generated.block_table), (std::vector{7, 8, -1, -1, 0, -1, -1, -1}));
  ASSERT_TRUE(ok(there.commit(narrow)));
  EXPECT_EQ(there.generation(), generation + 1);
  std::vector<std::int32_t> wide(2 * 5, 3);
  narrow.prompts.block_table = {wide.data(), {2, 5}};
  ASSERT_TRUE(ok(there.commit(narrow)));
  EXPECT_EQ(there.generation(), generation + 2);
  EXPECT_EQ(there.views().prompts.block_table.extents[1], 8);
  there.renew();
  EXPECT_EQ(there.generation(), generation + 3);
}

}  // namespace
}  // namespace inlay::exec::test
