// Rows of several pieces, which threads share and merge.
#include "tests/support/handed_out.hpp"
#include "tests/support/softmax_case.hpp"

namespace inlay::test {
namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();
constexpr index piece = cpu::softmax_piece;

// Around one piece and around several, with each of the options.
TEST(softmax, rows_around_pieces) {
  Rng rng(21);
  for (index n : {piece - 1, piece, piece + 1, 2 * piece - 1, 2 * piece, 3 * piece + 17})
    for (bool log : {false, true}) {
      SoftmaxCase c = softmax_case(DType::f32, DType::f32, {1, 2, n}, layouts[1], rng);
      c.scale = 0.4f, c.log = log;
      c.x.set(n - 1, 30), c.x.set(2 * n - 2, 30);  // the last of all weighs most, and the last but one
      ASSERT_NO_FATAL_FAILURE(compare_softmax(c));
    }
}

TEST(softmax, long_rows_with_sinks) {
  Rng rng(22);
  for (DType out : {DType::f32, DType::f16})
    for (bool log : {false, true}) {
      SoftmaxCase c = softmax_case(DType::f16, out, {3, 1, 2 * piece + 5}, {}, rng);
      c.add_sink(rng);
      c.sink.set(0, 30), c.sink.set(1, -30), c.sink.set(2, 17);  // above all, below all, as heavy as the others
      c.log = log;
      ASSERT_NO_FATAL_FAILURE(compare_softmax(c));
    }
}

// Every kind of mask, of each row and head or of all; one piece hidden whole.
TEST(softmax, long_rows_with_masks) {
  Rng rng(23);
  for (DType kind : {DType::boolean, DType::f32, DType::bf16})
    for (bool each : {false, true}) {
      SoftmaxCase c = softmax_case(DType::bf16, each ? DType::f32 : DType::bf16, {2, 2, 2 * piece + 33}, {}, rng);
      add_mask(c, kind, each, !each, rng);
      for (index j = each ? 0 : piece; j < (each ? piece : 2 * piece); ++j)
        c.mask.set(j, kind == DType::boolean ? 1 : -infinity);
      poison_masked(c);
      c.log = each == (kind == DType::f32);
      ASSERT_NO_FATAL_FAILURE(compare_softmax(c));
    }
}

// The largest score lies in the first piece, then in the second and in the last: pieces below it shrink, far or a
// little.
TEST(softmax, pieces_of_different_maxima) {
  Rng rng(24);
  for (index place : {index{3}, piece + 7, 2 * piece + 40})
    for (double largest : {12.0, 60.0, 200.0})
      for (DType out : {DType::f32, DType::bf16}) {
        SoftmaxCase c = softmax_case(DType::bf16, out, {1, 1, 2 * piece + 41}, {}, rng);
        c.x.set(place, largest);
        ASSERT_NO_FATAL_FAILURE(compare_softmax(c));
      }
}

TEST(softmax, a_long_row_masked_whole_gives_zeros) {
  Rng rng(25);
  for (bool log : {false, true})
    for (bool sinks : {false, true}) {
      SoftmaxCase c = softmax_case(DType::f32, DType::f32, {1, 1, piece + 20}, {}, rng);
      c.x.fill(-infinity);
      if (sinks) c.add_sink(rng);
      c.log = log;
      on_every_backend([&](const std::string&, auto run) {
        SoftmaxCase got = c;
        ASSERT_TRUE(ok(run(got.op())));
        for (index j = 0; j < got.y.size(); ++j) ASSERT_EQ(got.y.get(j), log ? -infinity : 0) << j;
      });
    }
}

// Two numbers for each piece of each row, and nothing where a row is one piece.
TEST(softmax, the_workspace_holds_every_piece) {
  Rng rng(29);
  const Cpu cpu;
  SoftmaxCase c = softmax_case(DType::f16, DType::f16, {5, 7, 2 * piece + 1}, {}, rng);
  EXPECT_GE(workspace_bytes(cpu, c.op()), 5 * 7 * 3 * 2 * sizeof(float));
  c = softmax_case(DType::f16, DType::f16, {5, 7, 100}, {}, rng);
  EXPECT_EQ(workspace_bytes(cpu, c.op()), 0u);
}

// One NaN makes all of its row NaN, other pieces included, and no other row.
TEST(softmax, what_is_not_finite_in_one_piece) {
  Rng rng(26);
  for (double bad : {std::nan(""), infinity})
    for (DType out : {DType::f32, DType::f16})
      for (bool log : {false, true})
        for (index place : {index{0}, piece - 1, piece, 2 * piece + 8}) {
          SoftmaxCase c = softmax_case(out, out, {1, 2, 2 * piece + 9}, {}, rng);
          c.x.set(place, bad);
          c.log = log;
          on_every_backend([&](const std::string&, auto run) {
            SoftmaxCase got = c;
            ASSERT_TRUE(ok(run(got.op())));
            for (index j = 0; j < got.y.size(); j += 7) ASSERT_EQ(std::isnan(got.y.get(j)), j < 2 * piece + 9) << j;
            ASSERT_TRUE(std::isnan(got.y.get(place)));
          });
        }
}

TEST(softmax, long_rows_in_place) {
  Rng rng(27);
  for (DType type : {DType::f32, DType::bf16})
    for (bool log : {false, true}) {
      SoftmaxCase start = softmax_case(type, type, {2, 1, piece + 77}, {}, rng);
      start.log = log;
      start.add_sink(rng);
      ASSERT_NO_FATAL_FAILURE(compare_softmax_in_place(start));
    }
}

// The vocabularies of large models: the same bits for any threads.
TEST(softmax, huge_rows) {
  Rng rng(28);
  for (index n : {200001, 643251}) {
    SoftmaxCase start = softmax_case(n == 200001 ? DType::bf16 : DType::f32, DType::f32, {1, 1, n}, {}, rng);
    for (index j = 0; j < piece; ++j) start.x.set(j, -infinity);  // one piece without a finite score
    start.x.set(n - 1, 8);
    if (n < 643251) {
      ASSERT_NO_FATAL_FAILURE(compare_softmax(start));
    }
    for (Isa isa : available_isas()) {
      const Cpu alone(isa, serial()), three_threads(isa, test::handed_out(3));
      Tensor<3> one = start.y, three = start.y;
      Softmax<Host> op = start.op();
      op.y = one;
      ASSERT_TRUE(ok(run_with_scratch(alone, op)));
      op.y = three;
      ASSERT_TRUE(ok(run_with_scratch(three_threads, op)));
      expect_equal(one, three);
      double sum = 0;
      for (index j = 0; j < n; ++j) sum += one.get(j);
      EXPECT_NEAR(sum, 1, 1e-5);
    }
  }
}

}  // namespace
}  // namespace inlay::test
