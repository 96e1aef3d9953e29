#include <inlay/core/parallel.hpp>

#include <gtest/gtest.h>

#include <atomic>
#include <limits>
#include <set>
#include <thread>
#include <vector>

#include <inlay/core/threads.hpp>
#include <inlay/core/workspace.hpp>
#include <inlay/cpu.hpp>
#include <inlay/ops/softmax.hpp>

namespace inlay {
namespace {

// A pool in the shape that engines have: run(n, f) and wait.
struct ThreadPerTask {
  template <class F> void run(index tasks, F f) {
    std::vector<std::thread> threads;
    for (index i = 0; i < tasks; ++i) threads.emplace_back([=] { f(i); });
    for (auto& thread : threads) thread.join();
  }
};

std::vector<Parallel> all(ThreadPerTask& pool) {
  return {serial(), openmp(1), openmp(2), openmp(3), threads(2), threads(3), from_pool(pool, 3)};
}

TEST(parallel, every_task_runs_once) {
  ThreadPerTask pool;
  for (const Parallel& parallel : all(pool))
    for (index tasks : {0, 1, 2, 3, 17}) {
      std::vector<std::atomic<int>> ran(static_cast<std::size_t>(tasks));
      parallel(tasks, [&](index i) { ++ran[i]; });
      for (const auto& count : ran) EXPECT_EQ(count, 1);
    }
}

TEST(parallel, ranges_cover_without_overlap_and_keep_to_the_grain) {
  ThreadPerTask pool;
  for (const Parallel& parallel : all(pool))
    for (index count : {0, 1, 15, 16, 17, 100})
      for (index grain : {1, 16, 200}) {
        std::vector<std::atomic<int>> seen(static_cast<std::size_t>(count));
        std::atomic<int> pieces = 0;
        parallel.ranges(count, grain, [&](index begin, index end) {
          EXPECT_EQ(begin % grain, 0);
          EXPECT_TRUE(end % grain == 0 || end == count);
          ++pieces;
          for (index i = begin; i < end; ++i) ++seen[i];
        });
        for (const auto& times : seen) EXPECT_EQ(times, 1);
        EXPECT_LE(pieces, parallel.width > 1 ? Parallel::pieces_a_thread * parallel.width : 1);
      }
}

// Work that takes less than others need to come stays with the caller, in one piece; more is cut finer than there are
// threads, and long work into pieces that are soon over.
TEST(parallel, work_is_handed_out_by_its_size) {
  int calls = 0;
  Parallel counted{.context = &calls, .width = 3, .run = [](void* context, index tasks, auto task, void* data) {
                     ++*static_cast<int*>(context);
                     for (index i = 0; i < tasks; ++i) task(data, i);
                   }};
  const auto handed_out = [&](const Work& work) {
    const int before = calls;
    index ran = 0;
    counted(5, work, [&](index) { ++ran; });
    EXPECT_EQ(ran, 5);
    return calls > before;
  };
  const auto pieces = [&](const Work& work) {
    index count = 0;
    counted.ranges(100000, 1, work, [&](index, index) { ++count; });
    EXPECT_EQ(count, counted.pieces(100000, work));
    return count;
  };
  EXPECT_FALSE(handed_out({}));
  EXPECT_FALSE(handed_out({.bytes = 300e3, .operations = 1.9e6}));
  EXPECT_TRUE(handed_out({.bytes = 500e3}));
  EXPECT_TRUE(handed_out({.operations = 2.1e6}));
  EXPECT_TRUE(handed_out(Parallel::unestimated));
  EXPECT_EQ(pieces({.bytes = 300e3}), 1);
  EXPECT_EQ(pieces({.bytes = 500e3}), 24);
  EXPECT_EQ(pieces(Parallel::unestimated), 24);
  EXPECT_EQ(pieces({.bytes = 2e9}), 5000);  // a tenth of a second
  EXPECT_EQ(counted.pieces(7, {.bytes = 2e9}), 7);
  EXPECT_EQ(counted.pieces(0, {.bytes = 2e9}), 0);
  counted.least = 0;
  EXPECT_TRUE(handed_out({}));
  counted.least = 1;
  EXPECT_FALSE(handed_out({.bytes = 500e3}));
  counted.least = 0;
  counted.width = 1;
  EXPECT_FALSE(handed_out({.bytes = 2e9}));
}

TEST(workspace, too_small_or_misaligned_is_refused) {
  alignas(64) std::byte bytes[256];
  EXPECT_TRUE(check_workspace({bytes, 256}, 256).ok());
  EXPECT_TRUE(check_workspace({}, 0).ok());
  EXPECT_EQ(check_workspace({bytes, 255}, 256).message(),
            "workspace has 255 bytes; it must have at least 256 (workspace_bytes)");
  EXPECT_FALSE(check_workspace({bytes + 1, 200}, 100).ok());
}

TEST(workspace, arrays_are_aligned_and_apart) {
  alignas(64) std::byte bytes[256];
  WorkspaceCutter cut({bytes, sizeof bytes});
  float* a = cut.take<float>(3);
  double* b = cut.take<double>(1);
  EXPECT_EQ(static_cast<void*>(a), bytes);
  EXPECT_EQ(static_cast<void*>(b), bytes + 64);
  EXPECT_EQ(WorkspaceCutter::padded<float>(17), 128u);
}

// A row of several pieces needs scratch: asked for once, of the size that workspace_bytes states.
TEST(workspace, is_provided_after_the_check) {
  constexpr index n = 40000;
  std::vector<float> x(n, 1), y(n);
  alignas(64) std::byte bytes[256];
  Softmax<Host> op{.x = View<3>(x.data(), {1, 1, n}), .y = View<3>(y.data(), {1, 1, n})};
  const Cpu cpu(serial());
  std::vector<std::size_t> asked;
  std::size_t given = 0;
  const auto provide = [&](std::size_t needed) {
    asked.push_back(needed);
    return Workspace(bytes, given);
  };
  EXPECT_NE(run(cpu, op, provide).message().find("workspace has 0 bytes"), std::string_view::npos);
  given = sizeof bytes;
  EXPECT_TRUE(run(cpu, op, provide).ok());
  EXPECT_FLOAT_EQ(y[n - 1], 1.0f / n);
  op.scale = std::numeric_limits<float>::infinity();
  EXPECT_FALSE(run(cpu, op, provide).ok());
  op.scale = 1;
  EXPECT_EQ(asked, std::vector<std::size_t>(2, workspace_bytes(cpu, op)));
}

TEST(cpu, levels_are_listed_in_order_and_can_be_forced) {
  const auto levels = available_isas();
  ASSERT_FALSE(levels.empty());
  EXPECT_EQ(levels.front(), all_isas[0]);
  EXPECT_TRUE(all_isas[0] == Isa::scalar || !is_built(Isa::scalar));
  for (std::size_t i = 1; i < levels.size(); ++i) EXPECT_LT(levels[i - 1], levels[i]);
  for (Isa isa : levels) {
    EXPECT_EQ(Cpu(isa).isa(), isa);
    setenv("INLAY_ISA", std::string(name(isa)).c_str(), 1);
    EXPECT_EQ(Cpu().isa(), isa);
    unsetenv("INLAY_ISA");
    EXPECT_EQ(available_isa(name(isa)), isa);
  }
  const auto bogus = available_isa("bogus");
  ASSERT_FALSE(bogus.has_value());
  for (std::string_view word : {std::string_view("bogus"), std::string_view("scalar"), name(levels.back())})
    EXPECT_NE(bogus.error().message().find(word), std::string_view::npos) << bogus.error().message();
  setenv("INLAY_ISA", "bogus", 1);
  EXPECT_EQ(Cpu().isa(), levels.back());
  unsetenv("INLAY_ISA");
  EXPECT_EQ(Cpu().isa(), levels.back());
  for (Isa isa : all_isas) EXPECT_LE(Cpu(isa).isa(), isa);  // what is missing falls back
}

}  // namespace
}  // namespace inlay
