// What CPU kernels cut their work into: jobs, shares of them, and tiles of rows.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <vector>

#include <inlay/core/threads.hpp>

#include "cpu_kernels/linear/row_tiles.hpp"
#include "cpu_kernels/support/jobs.hpp"

namespace inlay {
namespace {

using cpu::JobShares;
using cpu::RowTiles;

// A team of `width` that runs its tasks one after the other, the last one first if it is told to.
Parallel one_by_one(int width, bool* last_first) {
  return {.context = last_first, .width = width, .run = [](void* context, index tasks, auto* task, void* data) {
            for (index i = 0; i < tasks; ++i) task(data, *static_cast<bool*>(context) ? tasks - 1 - i : i);
          }};
}

const index counts[] = {0, 1, 2, 5, 17, 63, 64, 65, 200};

TEST(cuts, every_job_of_the_shares_is_done_once) {
  bool last_first = false;
  std::vector<Parallel> teams = {threads(2), threads(5)};
  for (int width : {1, 2, 3, 63, 64, 65, 130}) teams.push_back(one_by_one(width, &last_first));
  for (const Parallel& parallel : teams)
    for (bool last : {false, true})
      for (index count : counts) {
        last_first = last;
        std::vector<std::atomic<int>> done(static_cast<std::size_t>(count));
        JobShares shares(count, parallel, Parallel::unestimated);
        parallel(parallel.width, Parallel::unestimated, [&](index worker) {
          shares.each(worker, [&](index job, bool) {
            ASSERT_LT(job, count);
            ++done[static_cast<std::size_t>(job)];
          });
        });
        for (const auto& times : done) EXPECT_EQ(times, 1) << "of " << count << " jobs by " << parallel.width;
      }
}

// Its own share in order, and then of each other what is done last; `more` names the job that does follow.
TEST(cuts, a_worker_that_is_alone_goes_on_with_the_next_job) {
  const auto run = [](void*, index, auto*, void*) {};
  const Parallel parallel{.width = 3, .run = run};
  for (index count : counts) {
    JobShares shares(count, parallel, Parallel::unestimated);
    std::vector<index> order;
    std::vector<bool> expected;
    shares.each(1, [&](index job, bool more) { order.push_back(job), expected.push_back(more); });
    const index first = count / 3, end = count * 2 / 3;
    ASSERT_EQ(std::ssize(order), count);
    for (index i = 0; i < count; ++i) {
      const auto at = static_cast<std::size_t>(i);
      const index later = i - (end - first), of_third = count - end;
      if (i < end - first)
        EXPECT_EQ(order[at], first + i);
      else
        EXPECT_EQ(order[at], later < of_third ? count - 1 - later : first - 1 - (later - of_third));
      EXPECT_EQ(expected[at], i + 1 < end - first) << i << " of " << count;
    }
  }
}

// Work that is not worth others' coming is one share.
TEST(cuts, a_caller_who_is_alone_has_one_share) {
  bool last_first = false;
  const Parallel parallel = one_by_one(4, &last_first);
  JobShares shares(10, parallel, Work{});
  index next = 0;
  shares.each(0, [&](index job, bool more) {
    EXPECT_EQ(job, next++);
    EXPECT_EQ(more, next < 10);
  });
  EXPECT_EQ(next, 10);
}

TEST(cuts, tiles_cover_the_rows_in_order) {
  std::vector<RowTiles> cuts;
  for (int most : {1, 2, 4, 6, 8, 12}) cuts.push_back({.most = most, .halves = true});
  for (int most : {1, 4, 6, 8}) cuts.push_back({.most = most});
  cuts.push_back({.most = 6, .alone = 8});
  for (const RowTiles& cut : cuts)
    for (index rows = 1; rows <= 50; ++rows) {
      index row = 0;
      std::set<index> sizes;
      for (index t = 0; t < cut.count(rows); ++t) {
        const cpu::TileOfRows tile = cut.tile(t, rows);
        ASSERT_EQ(tile.first, row) << cut.most << " of " << rows;
        ASSERT_EQ(cut.begin(t, rows), row);
        ASSERT_TRUE(0 < tile.rows && tile.rows <= (cut.count(rows) == 1 ? cut.alone : cut.most)) << tile.rows;
        for (; row < tile.first + tile.rows; ++row) {
          ASSERT_EQ(cut.holding(row, rows).first, tile.first) << row << " of " << rows << " by " << cut.most;
          ASSERT_EQ(cut.holding(row, rows).rows, tile.rows);
        }
        sizes.insert(tile.rows);
      }
      ASSERT_EQ(row, rows);
      ASSERT_EQ(cut.begin(cut.count(rows), rows), rows);
      if (!cut.halves) {
        EXPECT_LE(*sizes.rbegin() - *sizes.begin(), 1) << rows << " rows are not level";
        EXPECT_EQ(cut.count(rows), rows <= cut.alone ? 1 : (rows + cut.most - 1) / cut.most);
      }
      for (index size : sizes)  // of those that are compiled
        for (int has = std::max(cut.most, cut.alone); has != size; has = cut.smaller(has)) ASSERT_GT(has, 1);
    }
}

}  // namespace
}  // namespace inlay
