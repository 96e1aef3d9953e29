// What a recorder decides, and what it leaves to the replay: of backends that tell how often they are asked.
#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <inlay/exec/plan/recorder.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/embedding.hpp>
#include <inlay/ops/linear.hpp>
#include <inlay/ops/linear_w4a16.hpp>
#include <inlay/ops/paged_attention.hpp>
#include <inlay/ops/sampling.hpp>

#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

// Its scratch depends on the first id, and it says what it is told to.
struct Asked {
  using Space = Host;
  [[maybe_unused]] static constexpr std::string_view name = "asked";

  index supported = 0, sized = 0, computed = 0;  // how often it was asked
  std::size_t given = 0;                         // bytes of the last workspace
  StatusCode supports = StatusCode::ok, computes = StatusCode::ok;
};
struct Willing : Asked {};

Status supports(Asked& asked, const Embedding<Host>&) {
  ++asked.supported;
  return asked.supports == StatusCode::ok ? Status() : Status(asked.supports, "as it was told");
}
std::size_t scratch_bytes(Asked& asked, const Embedding<Host>& op) {
  ++asked.sized;
  return 64 * static_cast<std::size_t>(1 + *op.ids.as<std::int32_t>());
}
Status compute(Asked& asked, const Embedding<Host>&, Workspace workspace) {
  ++asked.computed;
  asked.given = workspace.size();
  return asked.computes == StatusCode::ok ? Status() : Status(asked.computes, "as it was told");
}

}  // namespace
}  // namespace inlay::exec::test

template <> inline constexpr bool inlay::exec::declines_nothing<inlay::exec::test::Willing> = true;

namespace inlay::exec::test {
namespace {

// One row of a table of four.
struct OneRow {
  float table[4] = {10, 11, 12, 13}, y[1] = {-1};
  std::int32_t ids[1] = {1};

  Embedding<Host> op() { return {.table = View<2>(table, {4, 1}), .ids = View<1>(ids, {1}), .y = View<2>(y, {1, 1})}; }
  std::span<const std::byte> brought() const { return std::as_bytes(std::span(ids)); }
};

template <class Chain, class Op>
Expected<Tape> captured(Chain& chain, const Op& op, std::span<const std::byte> brought = {}) {
  Recorder record(chain, brought);
  record(op);
  return std::move(record).take();
}

TEST(plan_recorder, what_is_there_is_looked_at_once) {
  Asked asked;
  Chain chain(std::ref(asked));
  OneRow row;
  const auto tape = captured(chain, row.op());
  ASSERT_TRUE(tape.has_value());
  EXPECT_EQ(asked.supported, 1);
  EXPECT_EQ(asked.sized, 1);
  EXPECT_EQ(asked.computed, 0);
  row.ids[0] = 3;
  ASSERT_TRUE(ok(tape->replay()));
  EXPECT_EQ(asked.supported, 1);
  EXPECT_EQ(asked.sized, 1);
  EXPECT_EQ(asked.computed, 1);
  EXPECT_EQ(asked.given, 128u);
  row.ids[0] = 4;
  EXPECT_EQ(captured(chain, row.op()).error().message(), "ids[0] is 4; it must be in 0..3");
}

TEST(plan_recorder, what_a_pass_brings_is_looked_at_in_each_replay) {
  Willing willing;
  Chain chain(std::ref(willing));
  OneRow row;
  row.ids[0] = 4;
  const auto tape = captured(chain, row.op(), row.brought());
  ASSERT_TRUE(tape.has_value());
  EXPECT_EQ(willing.supported, 1);
  EXPECT_EQ(willing.sized, 0);
  for (const std::int32_t id : {2, 3, 0}) {
    row.ids[0] = id;
    ASSERT_TRUE(ok(tape->replay()));
    EXPECT_EQ(willing.given, 64u * static_cast<unsigned>(id + 1));
  }
  EXPECT_EQ(willing.supported, 1);
}

// A list that is there is not looked at beside one that is not: a contract asks for both together.
TEST(plan_recorder, one_list_that_is_not_there_is_enough) {
  Chain chain{Cpu(serial())};
  float q[1] = {1}, out[1] = {-1}, keys[4] = {1, 1, 1, 1}, values[4] = {5, 7, 9, 11};
  std::int32_t block[1] = {0}, length[1] = {99};
  const PagedAttention<Host> op{.q = View<3>(q, {1, 1, 1}),
                                .k = flat_cache(View<4>(keys, {1, 4, 1, 1})),
                                .v = flat_cache(View<4>(values, {1, 4, 1, 1})),
                                .block_table = View<2>(block, {1, 1}),
                                .kv_lens = View<1>(length, {1}),
                                .out = View<3>(out, {1, 1, 1})};
  const auto tape = captured(chain, op, std::as_bytes(std::span(length)));
  ASSERT_TRUE(tape.has_value()) << tape.error().message();
  for (const auto& [keys_seen, mean] : {std::pair{2, 6.f}, {4, 8.f}, {0, 0.f}}) {
    length[0] = keys_seen;
    ASSERT_TRUE(ok(tape->replay()));
    EXPECT_EQ(out[0], mean);
  }
}

TEST(plan_recorder, who_may_decline_contents_is_asked_in_each_replay) {
  Asked asked;
  Chain chain(std::ref(asked), Reference());
  OneRow row;
  row.ids[0] = 4;
  Recorder record(chain, row.brought());
  record(row.op());
  EXPECT_EQ(record.eager_steps(), 1u);
  const auto tape = std::move(record).take();
  ASSERT_TRUE(tape.has_value());
  EXPECT_EQ(asked.supported, 0);
  row.ids[0] = 2;
  ASSERT_TRUE(ok(tape->replay()));
  EXPECT_EQ(asked.supported, 1);
  EXPECT_EQ(asked.computed, 1);
  asked.supports = StatusCode::unsupported;
  ASSERT_TRUE(ok(tape->replay()));
  EXPECT_EQ(asked.computed, 1);
  EXPECT_EQ(row.y[0], 12);
  row.ids[0] = 4;
  EXPECT_EQ(tape->replay().code(), StatusCode::invalid_argument);
}

TEST(plan_recorder, what_one_backend_declines_is_captured_for_the_next) {
  Asked asked{.supports = StatusCode::unsupported};
  Chain chain(std::ref(asked), Reference());
  OneRow row;
  const auto tape = captured(chain, row.op());
  ASSERT_TRUE(tape.has_value());
  ASSERT_EQ(chain.fallbacks().size(), 1u);
  EXPECT_EQ(chain.fallbacks()[0].from, "asked");
  EXPECT_EQ(chain.fallbacks()[0].to, "reference");
  EXPECT_EQ(row.y[0], -1);
  ASSERT_TRUE(ok(tape->replay()));
  EXPECT_EQ(row.y[0], 11);
  EXPECT_EQ(asked.supported, 1);
  asked.supports = StatusCode::internal;
  EXPECT_EQ(captured(chain, row.op()).error().code(), StatusCode::internal);
}

TEST(plan_recorder, what_writes_nothing_is_no_step) {
  Asked asked;
  Chain chain(std::ref(asked));
  OneRow row;
  Embedding<Host> op = row.op();
  op.ids.extents = {0}, op.y.extents = {0, 1};
  const auto tape = captured(chain, op);
  ASSERT_TRUE(tape.has_value());
  EXPECT_EQ(tape->steps(), 0u);
}

TEST(plan_recorder, shapes_are_refused_when_captured) {
  Asked asked;
  Chain chain(std::ref(asked));
  OneRow row;
  Embedding<Host> wrong = row.op();
  wrong.y.extents = {1, 2};
  Recorder record(chain, row.brought());
  record(wrong);
  record(row.op());
  const auto tape = std::move(record).take();
  ASSERT_FALSE(tape.has_value());
  EXPECT_EQ(tape.error().code(), StatusCode::invalid_argument);
  EXPECT_NE(tape.error().message().find("table has extent 1"), std::string_view::npos) << tape.error().message();
  EXPECT_EQ(asked.supported, 0);
}

// What only the data tell ends a replay, as it ends a pass.
TEST(plan_recorder, nothing_is_computed_behind_a_failure) {
  Chain chain{Cpu(serial())};
  float logits[3] = {1, 2, 3}, y[1] = {-1};
  std::int32_t token[1] = {-1};
  OneRow row;
  Recorder record(chain, {});
  record(Sampling<Host>{.logits = View<2>(logits, {1, 3}), .tokens = View<1>(token, {1}), .temperature = 0});
  record(Add<Host>{.a = View<2>(row.table, {1, 1}), .b = View<2>(row.table, {1, 1}), .y = View<2>(y, {1, 1})});
  const auto tape = std::move(record).take();
  ASSERT_TRUE(tape.has_value()) << tape.error().message();
  logits[1] = NAN;
  EXPECT_FALSE(tape->replay().ok());
  EXPECT_EQ(y[0], -1);
  logits[1] = 2;
  ASSERT_TRUE(ok(tape->replay()));
  EXPECT_EQ(token[0], 2);
  EXPECT_EQ(y[0], 20);
}

// Writes down what it is told, and how y stands then.
struct Witness final : StepObserver {
  explicit Witness(const float& y) : y(y) {}
  void begin(std::string_view op, index width) override {
    told += std::string(op) + " " + std::to_string(width) + " from " + std::to_string(static_cast<int>(y));
  }
  void end() override { told += " to " + std::to_string(static_cast<int>(y)) + "; "; }

  const float& y;
  std::string told;
};

TEST(plan_recorder, who_looks_on_is_told_before_and_behind_each_step) {
  Chain chain{Cpu(serial())};
  float a[3] = {1, 2, NAN}, y[3] = {};
  std::int32_t token[1] = {-1};
  Recorder record(chain, {});
  const View<2> one(a, {2, 1}), two(y, {2, 1});
  record(Add<Host>{.a = one, .b = one, .y = two});
  record(Add<Host>{.a = two, .b = two, .y = two});
  record(Sampling<Host>{.logits = View<2>(a, {1, 3}), .tokens = View<1>(token, {1}), .temperature = 0});
  record(Add<Host>{.a = one, .b = one, .y = two});
  const auto tape = std::move(record).take();
  ASSERT_TRUE(tape.has_value()) << tape.error().message();
  Witness witness(y[0]);
  EXPECT_FALSE(tape->replay(witness).ok());
  EXPECT_EQ(witness.told, "add 1 from 0 to 2; add 1 from 2 to 4; sampling 1 from 4 to 4; ");
}

// Threads that wait ask for it (Parallel::Ahead): each linear, as it begins, tells what the next one reads.
class Announcements final : public StepObserver {
 public:
  using Told = std::tuple<int, const void*, std::size_t>;  // the step under way, and the memory

  void begin(std::string_view, index) override { ++step_; }
  void end() override {}
  Parallel::Ahead ahead() {
    return {this, [](void* context, const void* begin, std::size_t bytes) {
              auto& self = *static_cast<Announcements*>(context);
              self.told.emplace_back(self.step_, begin, bytes);
            }};
  }

  std::vector<Told> told;

 private:
  int step_ = -1;
};

TEST(plan_recorder, a_linear_tells_what_the_next_one_reads) {
  Announcements announcements;
  Parallel threads = serial();
  threads.ahead = announcements.ahead();
  Chain chain{Cpu(threads)};
  // y = W x four times, by a weight of rows, a packed one, codes of 4 bits and rows again; a sum between the first two.
  std::vector<float> x(16, 1), y(16), rows(16 * 16), packed(16 * 16), last(2 * 16);
  std::vector<std::uint8_t> codes(8 * 16);
  std::vector<float> scales(16);
  const View<2> from(x.data(), {1, 16}), to(y.data(), {1, 16});
  const Linear<Host> of_rows{.x = from, .weight_rows = View<2>(rows.data(), {16, 16}), .y = to};
  const Linear<Host> of_packed{
      .x = from, .weight = View<3>(packed.data(), linear_packed_extents(16, 16, DType::f32)), .y = to};
  const LinearW4a16<Host> of_codes{.x = from,
                                   .codes = View<3>(codes.data(), {1, w4_steps(16, 4), 64}),
                                   .scales = View<3>(scales.data(), {1, 1, 16}),
                                   .y = to};
  const Linear<Host> of_last{.x = from, .weight_rows = View<2>(last.data(), {2, 16}), .y = View<2>(y.data(), {1, 2})};
  Recorder record(chain, {});
  record(of_rows);
  record(Add<Host>{.a = from, .b = from, .y = to});
  record(of_packed);
  record(of_codes);
  record(of_last);
  const auto tape = std::move(record).take();
  ASSERT_TRUE(tape.has_value()) << tape.error().message();
  EXPECT_TRUE(announcements.told.empty());
  ASSERT_TRUE(ok(tape->replay(announcements)));
  const std::vector<Announcements::Told> expected = {
      {0, packed.data(), 1024}, {2, codes.data(), 128}, {3, last.data(), 128}};
  EXPECT_EQ(announcements.told, expected);
}

}  // namespace
}  // namespace inlay::exec::test
