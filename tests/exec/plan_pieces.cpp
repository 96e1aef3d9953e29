// Which operators are in which piece, and what a replay does between them.
#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <string_view>
#include <utility>

#include <inlay/exec/plan/pieces.hpp>
#include <inlay/ops/add.hpp>

#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

// Writes down what runs; the failing one fails.
struct Told {
  template <class Op> void operator()(const Op&) {
    if (!status.ok()) return;
    told += std::string(Op::name) + " ";
    if (told.ends_with(failing)) status = invalid("as it was told");
  }
  template <class Step> void gather(const Step&) { told += "gather "; }
  bool ok() const { return status.ok(); }
  Status take_status() { return std::exchange(status, Status()); }

  std::string told;
  std::string failing = "nothing that is called so";
  Status status;
};

// Attention of generated tokens beside a prompt, then of generated ones.
template <class Run> void line(Run& run) {
  run(Add<Host>{});
  run(PagedAttention<Host>{});
  run(FlashAttention<Host>{});
  run(Add<Host>{});
  run.gather(AllGather{});
  run(PagedAttention<Host>{});
  run(Add<Host>{});
}

TEST(plan_pieces, are_what_lies_between_attention) {
  std::string told;
  for (index piece = 0; piece < 4; ++piece) {
    Told run;
    PieceRun of(run, piece);
    line(of);
    EXPECT_EQ(of.pieces(), 3);
    told += run.told + "| ";
  }
  EXPECT_EQ(told, "add | add gather | add | | ");
}

// What a replay of three pieces tells; the generation is what `generation` says, and begins as 1.
struct Replayed {
  std::string told;
  Status status;
};
template <class Generation>
Replayed replayed(Generation&& generation, std::string_view failing = "nothing", StepObserver* observer = nullptr) {
  Told run;
  const Plan plan(
      [&](index piece, StepObserver* seen) {
        EXPECT_EQ(seen, observer);
        const std::string words = std::to_string(piece) + " ";
        run.told += words;
        return words == failing ? invalid("this piece fails") : Status();
      },
      3, 1);
  run.failing = failing;
  ReplayRun replay(
      run, plan, [&] { return generation(run.told); }, observer);
  line(replay);
  Status status = std::move(replay).finish();
  return {run.told, std::move(status)};
}
constexpr auto always = [](const std::string&) -> std::int64_t { return 1; };

TEST(plan_pieces, are_replayed_where_attention_begins) {
  const auto [told, status] = replayed(always);
  EXPECT_TRUE(ok(status));
  EXPECT_EQ(told, "0 paged_attention flash_attention 1 paged_attention 2 ");
}

TEST(plan_pieces, nothing_runs_behind_a_failure) {
  const auto piece = replayed(always, "1 ");
  EXPECT_EQ(piece.status.message(), "this piece fails");
  EXPECT_EQ(piece.told, "0 paged_attention flash_attention 1 ");
  const auto between = replayed(always, "flash_attention ");
  EXPECT_EQ(between.status.message(), "as it was told");
  EXPECT_EQ(between.told, "0 paged_attention flash_attention ");
}

// Memory moves while attention runs: what a plan knows is no longer there, and the pass goes on without one.
TEST(plan_pieces, a_generation_that_ends_within_a_pass_leaves_the_rest_to_it) {
  const auto [told, status] = replayed([](const std::string& so_far) -> std::int64_t {
    return so_far.find("flash_attention") == std::string::npos ? 1 : 2;
  });
  EXPECT_TRUE(ok(status));
  EXPECT_EQ(told, "0 paged_attention flash_attention add gather paged_attention add ");
}

TEST(plan_pieces, of_a_generation_that_is_over_are_refused) {
  const auto [told, status] = replayed([](const std::string&) -> std::int64_t { return 2; });
  EXPECT_EQ(status.code(), StatusCode::invalid_argument);
  EXPECT_EQ(told, "");
}

struct Witness final : StepObserver {
  void begin(std::string_view op, index) override { told += std::string(op) + " "; }
  void end() override { told += "done "; }

  std::string told;
};

TEST(plan_pieces, who_looks_on_is_told_of_attention) {
  Witness witness;
  EXPECT_TRUE(ok(replayed(always, "nothing", &witness).status));
  EXPECT_EQ(witness.told, "paged_attention done flash_attention done paged_attention done ");
}

}  // namespace
}  // namespace inlay::exec::test
