// Ranks that differ are refused before the first step, and one that is lost is told of: every other rank gets a Status
// that says who, and where.
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <thread>
#include <vector>

#include "tests/exec/support/ranks.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

// Two ranks of which the second differs: what both say.
std::string met(const RankOfModel& second, RankOfModel first = {}) {
  LoopComm ranks(2);
  Followers other(ranks, {first, second});
  auto engine = first.engine(ranks.comm(0));
  EXPECT_FALSE(engine.has_value());
  if (engine) return "";
  EXPECT_EQ(other.of(1).message(), engine.error().message());
  return std::string(engine.error().message());
}

TEST(ranks_lost, those_that_differ_are_refused_by_name) {
  const std::string same = " on rank 0; it must be the same on all ranks";
  EXPECT_EQ(met({.run = [] { return Eager(Reference{}); }}),
            "the backend is reference on rank 1 and cpu " + std::string(name(Cpu().isa())) + same);
  EXPECT_EQ(met({.options = {.max_tokens = 12, .context = 96}}), "max_tokens is 12 on rank 1 and 11" + same);
  EXPECT_EQ(met({.options = {.max_tokens = 11, .context = 95}}), "context is 95 on rank 1 and 96" + same);
  EXPECT_EQ(met({.kv_type = DType::f32}), "the cache's type is f32 on rank 1 and f16" + same);
  EXPECT_NE(met({.seed = 8}).find("the model's digest is "), std::string::npos);
  RankOfModel wide;
  wide.config.vocab = 117;
  EXPECT_EQ(met(wide), "the model's vocab is 117 on rank 1 and 101" + same);
  const RankOfModel codes{.type = "w4a16"};
  RankOfModel rounded = codes;
  rounded.options.activations = Activations::int8;
  EXPECT_EQ(met(rounded, codes), "activations is 1 on rank 1 and 0" + same);
}

// A rank to which something happens behind so many exchanges: it gives up, or comes no more until it is let go, or
// waits for others no longer than 200 ms from then on.
struct Counted {
  enum What { gives_up, hangs, hurries };

  Comm comm;
  index left;
  What what;
  std::atomic<bool>* let_go;

  Status next(double& seconds) {
    if (left-- > 0) return {};
    if (what == hurries) {
      seconds = 0.2;
      return {};
    }
    if (what == hangs) {
      while (!let_go->load()) std::this_thread::yield();
      return {StatusCode::internal, "it was let go"};
    }
    return {StatusCode::out_of_memory, "it is lost"};
  }
  Comm as_comm() {
    Comm wrapped = comm;
    wrapped.context = this;
    wrapped.all_gather = [](void* context, const void* own, std::span<const std::size_t> bytes, void* all,
                            double seconds) {
      Counted& self = *static_cast<Counted*>(context);
      Status status = self.next(seconds);
      return status.ok() ? self.comm.all_gather(self.comm.context, own, bytes, all, seconds) : std::move(status);
    };
    wrapped.broadcast = [](void* context, void* bytes, std::size_t count, double seconds) {
      Counted& self = *static_cast<Counted*>(context);
      Status status = self.next(seconds);
      return status.ok() ? self.comm.broadcast(self.comm.context, bytes, count, seconds) : std::move(status);
    };
    wrapped.abort = [](void* context, std::string_view why) {
      Counted& self = *static_cast<Counted*>(context);
      self.comm.abort(self.comm.context, why);
    };
    return wrapped;
  }
};

// A prompt and two tokens.
Status pass(Engine& engine) {
  Sequence text;
  Batch batch;
  const auto prompt = tokens(5, engine.config().vocab);
  Status status = engine.reserve_logits(1);
  if (status.ok()) status = batch.add_prompt(engine.blocks(), text, prompt, 1);
  if (status.ok()) status = engine.forward(batch, 0);
  text.length = 5;
  for (Token token = 0; token < 2 && status.ok(); ++token, ++text.length) {
    batch.clear();
    status = batch.add_generated(engine.blocks(), text, {&token, 1});
    if (status.ok()) status = engine.forward(batch, 0);
  }
  return status;
}

struct Ended {
  std::string first, second, third;  // what the ranks say; empty: all is well
};
// Of three ranks one is lost behind so many exchanges.
Ended lose(int rank, index exchanges, Counted::What what) {
  LoopComm ranks(3, 20);
  std::atomic<bool> let_go = false;
  Status ended[3];
  const auto run = [&](int each) {
    Counted counted{ranks.comm(each), exchanges, each == rank ? what : Counted::hurries, &let_go};
    const Comm comm = each == rank || what == Counted::hangs ? counted.as_comm() : ranks.comm(each);
    auto engine = RankOfModel().engine(comm);
    if (!engine) return std::move(engine.error());
    return each == 0 ? pass(**engine) : follow(**engine, comm);
  };
  std::vector<std::thread> threads;
  std::atomic<int> at_work = 2;
  for (int each = 0; each < 3; ++each)
    threads.emplace_back([&, each] {
      ended[each] = run(each);
      if (each != rank && --at_work == 0) let_go = true;  // the others know, whatever the lost one does
    });
  for (std::thread& each : threads) each.join();
  const auto words = [](const Status& status) { return status.ok() ? "" : std::string(status.message()); };
  return {words(ended[0]), words(ended[1]), words(ended[2])};
}

// Rank 0 may be ahead of those that listen, but not so far that they lose what it said.
TEST(ranks_lost, who_is_told_hears_every_word) {
  LoopComm ranks(2);
  std::thread slow([comm = ranks.comm(1)] {
    std::this_thread::sleep_for(std::chrono::milliseconds(20));
    for (int said = 0; said < 9; ++said) {
      int heard = -1;
      EXPECT_TRUE(ok(comm.broadcast(comm.context, &heard, sizeof heard, comm.deadline)));
      EXPECT_EQ(heard, said);
    }
  });
  const Comm comm = ranks.comm(0);
  for (int said = 0; said < 9; ++said) EXPECT_TRUE(ok(comm.broadcast(comm.context, &said, sizeof said, comm.deadline)));
  slow.join();
}

TEST(ranks_lost, one_that_gives_up_at_any_step_ends_the_others) {
  index gathers = 0;
  const index all = 2 + 1 + 3 * (2 + 9);  // to meet, to reserve logits, and for each pass: its words and its steps
  for (const int rank : {0, 2}) {
    SCOPED_TRACE("rank " + std::to_string(rank));
    const Ended well = lose(rank, all + 1, Counted::gives_up);
    EXPECT_EQ(well.first + well.second + well.third, "");
    for (index exchanges = 0; exchanges < all; ++exchanges) {
      SCOPED_TRACE("exchange " + std::to_string(exchanges));
      const Ended ended = lose(rank, exchanges, Counted::gives_up);
      const std::string& own = rank == 0 ? ended.first : ended.third;
      EXPECT_NE(own.find("it is lost"), std::string::npos) << own;
      const std::string by = "rank " + std::to_string(rank) + " gave up: ";
      for (const std::string& other : {rank == 0 ? ended.third : ended.first, ended.second})
        EXPECT_NE(other.find(by), std::string::npos) << other;
      if (own.starts_with("all_gather of ")) ++gathers;
    }
  }
  EXPECT_EQ(gathers, 2 * 3 * 9);
}

TEST(ranks_lost, one_that_hangs_is_named_with_the_step_within_the_deadline) {
  // Behind what they say to meet, to reserve logits, for a whole pass, and to begin the second one.
  const Ended ended = lose(2, 2 + 1 + (2 + 9) + 2 + 1, Counted::hangs);
  EXPECT_EQ(ended.third, "all_gather of attn_output in layer 0, step 2 of pass 2: it was let go");
  for (const std::string& other : {ended.first, ended.second}) {
    EXPECT_NE(other.find("all_gather of attn_output in layer 0, step 2 of pass 2: "), std::string::npos) << other;
    EXPECT_NE(other.find(" has not come within 200 ms"), std::string::npos) << other;
  }
}

}  // namespace
}  // namespace inlay::exec::test
