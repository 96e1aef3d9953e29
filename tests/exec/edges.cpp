// What steps wait for: bytes against a count of each one, programs of additions over memory that is shared in every
// way, in any order that edges allow.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

#include <inlay/exec/plan/edges.hpp>
#include <inlay/exec/plan/step_graph.hpp>
#include <inlay/exec/plan/verify.hpp>
#include <inlay/ops/add.hpp>

#include "tests/exec/support/legal_orders.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::ok;

// Every byte of every element.
template <int Rank> std::set<std::ptrdiff_t> bytes_of(const View<Rank>& view) {
  std::set<std::ptrdiff_t> bytes;
  IndexArray<Rank> at{};
  for (index n = 0; n < view.size(); ++n) {
    index element = 0;
    for (std::size_t d = 0; d < Rank; ++d) element += at[d] * view.strides[d];
    const std::ptrdiff_t first = SpacePointer<Host>::byte_offset(view.data) * 8 + element * bits(view.dtype);
    for (std::ptrdiff_t bit = first; bit < first + bits(view.dtype); ++bit) bytes.insert(bit / 8);
    for (std::size_t d = Rank; d-- > 0 && ++at[d] == view.extents[d];) at[d] = 0;
  }
  return bytes;
}
std::set<std::ptrdiff_t> bytes_of(const Access& access) {
  std::set<std::ptrdiff_t> bytes;
  for (index row = 0; row < access.rows; ++row)
    for (std::ptrdiff_t i = 0; i < access.span; ++i) bytes.insert(access.begin + row * access.period + i);
  return bytes;
}
Access access_of(const View<3>& view) { return exec::access_of(SpacePointer<Host>::byte_offset(view.data), view); }

alignas(64) std::byte memory[4096];

// Strides in any order, negative and none, gaps of any width.
View<3> drawn_view(std::mt19937& random) {
  const DType types[] = {DType::f32, DType::f16, DType::i8, DType::i4};
  View<3> view(memory + 1024, types[random() % 4], {});
  index step = 1 + static_cast<index>(random() % 2);
  for (const std::size_t d : {random() % 2 ? 2u : 1u, 0u}) {
    const std::size_t dimensions[] = {d, d == 0 ? 3u : 3 - d};
    for (const std::size_t each : dimensions) {
      if (each > 2) continue;
      view.extents[each] = 1 + static_cast<index>(random() % 4);
      view.strides[each] = step;
      step = step * view.extents[each] + static_cast<index>(random() % 3);
    }
  }
  if (view.dtype != DType::i4) {
    if (random() % 4 == 0) view.strides[random() % 3] *= -1;
    if (random() % 8 == 0) view.strides[random() % 3] = 0;
    view.data = memory + 1024 + static_cast<std::ptrdiff_t>(random() % 16) * bits(view.dtype) / 8;
  }
  return view;
}

TEST(edges, an_access_has_the_bytes_of_its_view) {
  std::mt19937 random(1);
  index dense = 0;
  for (int i = 0; i < 4000; ++i) {
    const View<3> view = drawn_view(random);
    const auto exact = bytes_of(view);
    const Access access = access_of(view);
    const auto touched = bytes_of(access);
    if (access.dense) {
      ++dense;
      ASSERT_EQ(touched, exact) << i;
    } else {
      ASSERT_TRUE(std::includes(touched.begin(), touched.end(), exact.begin(), exact.end())) << i;
    }
    ASSERT_EQ(access.begin, *exact.begin());
    ASSERT_EQ(access.end(), *exact.rbegin() + 1);
  }
  EXPECT_GT(dense, 1500);
}

TEST(edges, rows_overlap_where_they_have_a_common_byte) {
  std::mt19937 random(2);
  index apart = 0, meet = 0;
  for (int i = 0; i < 6000; ++i) {
    const Access a = access_of(drawn_view(random)), b = access_of(drawn_view(random));
    const auto of_a = bytes_of(a), of_b = bytes_of(b);
    bool common = false;
    for (const std::ptrdiff_t byte : of_a) common = common || of_b.contains(byte);
    ASSERT_EQ(overlap(a, b), common) << i;
    ASSERT_EQ(overlap(b, a), common) << i;
    ++(common ? meet : apart);
  }
  EXPECT_GT(apart, 500);
  EXPECT_GT(meet, 500);
}

// What a model has: parts of fused rows are apart though their ranges interleave, heads of a part are the part.
TEST(edges, parts_of_fused_rows_are_apart) {
  float rows[4 * 10];
  const View<2> all(rows, {4, 10}), q = all.slice(1, 0, 6), k = all.slice(1, 6, 2), v = all.slice(1, 8, 2);
  const auto touched = [](const auto& view) {
    return exec::access_of(SpacePointer<Host>::byte_offset(view.data), view);
  };
  EXPECT_FALSE(overlap(touched(q), touched(k)));
  EXPECT_FALSE(overlap(touched(k), touched(v)));
  EXPECT_TRUE(overlap(touched(all), touched(v)));
  const View<4> heads(rows, {1, 4, 3, 2}, {40, 10, 2, 1});
  EXPECT_TRUE(touched(heads).dense);
  EXPECT_EQ(touched(heads).span, touched(q).span);
  EXPECT_FALSE(overlap(touched(heads), touched(k)));
  EXPECT_FALSE(overlap(touched(q.slice(0, 0, 2)), touched(all.slice(0, 2, 2))));
}

TEST(edges, each_hazard_makes_one) {
  float x[4] = {};
  const auto add = [&](int a, int y) {
    return accesses_of(
        Add<Host>{.a = View<2>(x + a, {1, 1}), .b = View<2>(x + a, {1, 1}), .y = View<2>(x + y, {1, 1})});
  };
  const auto count = [](const Accesses& first, const Accesses& second) {
    return Edges::of(std::vector{first, second}).count();
  };
  EXPECT_EQ(count(add(0, 1), add(1, 2)), 1);  // read after write
  EXPECT_EQ(count(add(0, 1), add(2, 0)), 1);  // write after read
  EXPECT_EQ(count(add(0, 1), add(2, 1)), 1);  // write after write
  EXPECT_EQ(count(add(0, 1), add(0, 2)), 0);
}

TEST(edges, a_path_needs_no_edge) {
  float x[5] = {};
  const auto add = [&](int a, int b, int y) {
    return accesses_of(
        Add<Host>{.a = View<2>(x + a, {1, 1}), .b = View<2>(x + b, {1, 1}), .y = View<2>(x + y, {1, 1})});
  };
  // 0 -> 1 -> 3, 2 -> 3: that 3 reads what 0 wrote the path says.
  const Edges edges = Edges::of(std::vector{add(0, 0, 1), add(1, 1, 2), add(0, 0, 3), add(1, 2, 4), add(3, 4, 4)});
  EXPECT_EQ(edges.count(), 4);
  EXPECT_EQ(edges.before(3).size(), 1u);
  EXPECT_TRUE(edges.precedes(0, 4));
  EXPECT_FALSE(edges.precedes(1, 2));
  EXPECT_FALSE(edges.precedes(4, 0));
  EXPECT_EQ(edges.unordered_pairs(), 3);  // 2 beside 0, 1 and 3
  EXPECT_EQ(edges.longest_path(), 4);
}

// What nobody reads must stay nevertheless.
TEST(edges, a_verifier_keeps_the_last_write) {
  float x[3] = {};
  StepGraph graph;
  GraphRecorder<Reference> record(graph);
  const auto cell = [&](int i) { return View<2>(x + i, {1, 1}); };
  for (const int from : {0, 1}) record(Add<Host>{.a = cell(from), .b = cell(from), .y = cell(2)});
  ASSERT_TRUE(ok(record.take_status()));
  const auto recorded = graph.accesses();
  EXPECT_TRUE(ok(verify(recorded, graph.steps(), Edges::of(recorded))));
  EXPECT_EQ(verify(recorded, graph.steps(), Edges::of(std::vector<Accesses>(2))).message(),
            "step 1 (add) may write before step 0 (add), to the same place");
}

// Programs of additions that read and write rows of any period in a small memory.
struct Program {
  explicit Program(std::mt19937& random) : memory(160) {
    for (float& value : memory) value = static_cast<float>(random() % 7 + 1);
    GraphRecorder<Reference> record(graph);
    for (int step = 0; step < 24; ++step) {
      const index rows = 1 + static_cast<index>(random() % 3), columns = 1 + static_cast<index>(random() % 4);
      const auto drawn = [&] {
        const index period = columns + static_cast<index>(random() % 20);
        const std::size_t room = memory.size() - static_cast<std::size_t>((rows - 1) * period + columns);
        return View<2>(memory.data() + random() % (room + 1), {rows, columns}, {period, 1});
      };
      record(Add<Host>{.a = drawn(), .b = drawn(), .y = drawn()});
      record.take_status().ok();  // operands that overlap are refused: another is drawn
    }
  }

  std::vector<float> run(const std::vector<index>& order) {
    const std::vector<float> before = memory;
    StepRunner runner{Reference()};
    for (const index step : order) EXPECT_TRUE(ok(runner.run(graph.steps()[static_cast<std::size_t>(step)])));
    const std::vector<float> after = memory;
    std::copy(before.begin(), before.end(), memory.begin());  // where operators look
    return after;
  }

  std::vector<float> memory;
  StepGraph graph;
};

TEST(edges, any_legal_order_computes_the_same) {
  std::mt19937 random(3);
  index steps = 0, edges_kept = 0, free_pairs = 0, pairs = 0;
  for (int i = 0; i < 300; ++i) {
    Program program(random);
    const Edges edges = Edges::of(program.graph.accesses());
    const auto expected = program.run(legal_order(Edges::in_order(edges.steps()), Pick::latest, random));
    for (const Pick pick : {Pick::latest, Pick::random, Pick::random, Pick::random}) {
      const auto order = legal_order(edges, pick, random);
      ASSERT_EQ(order.size(), static_cast<std::size_t>(edges.steps()));
      ASSERT_EQ(program.run(order), expected) << "program " << i;
    }
    steps += edges.steps(), edges_kept += edges.count();
    free_pairs += edges.unordered_pairs(), pairs += edges.steps() * (edges.steps() - 1) / 2;
  }
  EXPECT_GT(steps, 300 * 12);
  EXPECT_LT(edges_kept, 2 * steps);
  EXPECT_GT(free_pairs, pairs / 3);
}

// No edge is one too many: of steps that it holds apart some pair has a byte in common that one of them writes.
TEST(edges, none_is_without_a_reason) {
  std::mt19937 random(4);
  for (int i = 0; i < 100; ++i) {
    Program program(random);
    const auto accesses = program.graph.accesses();
    const Edges edges = Edges::of(accesses);
    for (index to = 0; to < edges.steps(); ++to)
      for (const index from : edges.before(to)) {
        bool reason = false;
        for (const Access& a : accesses[static_cast<std::size_t>(from)])
          for (const Access& b : accesses[static_cast<std::size_t>(to)]) {
            if (!a.writes && !b.writes) continue;
            const auto of_b = bytes_of(b);
            for (const std::ptrdiff_t byte : bytes_of(a)) reason = reason || of_b.contains(byte);
          }
        EXPECT_TRUE(reason) << from << " to " << to;
      }
  }
}

}  // namespace
}  // namespace inlay::exec::test
