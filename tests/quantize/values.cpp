// Values that tell roundings, ends and zero points apart, most of them with their answers written by hand.
#include <numeric>

#include "tests/quantize/case.hpp"
#include "tests/support/handed_out.hpp"

namespace inlay::test {
namespace {

using Case = QuantizeCase;

// Ties go to even, ranges saturate, zero points move: written out by hand.
TEST(quantize, worked_example) {
  Case c = quantize_by(2, DType::f32, DType::u8, 1, 8);
  c.zero = Tensor<2>(DType::u8, {1, 1}).fill(128);
  const double x[] = {1, 3, 5, -1, -3, 1000, -1000, std::nan("")}, expected[] = {128, 130, 130, 128, 126, 255, 0, 128};
  for (int i = 0; i < 8; ++i) c.x.set(i, x[i]);
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    for (int i = 0; i < 8; ++i) EXPECT_EQ(got.y.get(i), expected[i]) << i;
  });
}

// Halves, and the numbers beside them, over the range of every code and beyond both its ends.
TEST(quantize, halves_go_to_even) {
  for (DType code : codes)
    for (DType type : float_types) {
      std::vector<double> x, expected;
      for (int k = lowest(code) - 20; k <= highest(code) + 20; ++k) {
        const double half = k + 0.5, even = k % 2 == 0 ? k : k + 1;
        const double beside = type == DType::f32 ? 0x1p-10 : type == DType::f16 ? 0.25 : 0;  // bf16: none is near
        for (double value : {half - beside, half, half + beside, static_cast<double>(k)}) {
          if (round_to(type, value) != value) continue;
          x.push_back(value);
          const double nearest = value == k ? k : value < half ? k : value > half ? k + 1 : even;
          expected.push_back(std::clamp<double>(nearest, lowest(code), highest(code)));
        }
      }
      Case c = quantize_by(4, type, code, 1, static_cast<index>(x.size()));
      for (std::size_t i = 0; i < x.size(); ++i) c.x.set(static_cast<index>(i), 4 * x[i]);
      on_every_backend([&](const std::string&, auto run) {
        Case got = c;
        got.y.fill(1);
        ASSERT_TRUE(ok(run(got.op())));
        for (std::size_t i = 0; i < x.size(); ++i)
          ASSERT_EQ(got.y.get(static_cast<index>(i)), expected[i]) << inlay::name(code) << " of " << x[i];
      });
    }
}

// x is what a tie times the scale is rounded to, and the numbers beside it: the quotient decides, and neither a product
// with 1 / scale nor a wider quotient gives the same everywhere.
TEST(quantize, quotients_around_ties) {
  Rng rng(2);
  std::uniform_real_distribution<float> scales(0.01f, 3);
  for (DType code : codes) {
    Case c{.x = {DType::f32, {40, 3 * 64}}, .scale = {DType::f32, {40, 1}}, .y = {code, {40, 3 * 64}}};
    const int span = highest(code) - lowest(code);
    for (index t = 0; t < 40; ++t) {
      const float scale = scales(rng);
      c.scale.set(t, scale);
      for (index i = 0; i < 64; ++i) {
        const float tie = (static_cast<float>(lowest(code) + static_cast<int>(rng() % span)) + 0.5f) * scale;
        c.x.set(t * 192 + 3 * i, tie);
        c.x.set(t * 192 + 3 * i + 1, std::nextafter(tie, -1e9f));
        c.x.set(t * 192 + 3 * i + 2, std::nextafter(tie, 1e9f));
      }
    }
    ASSERT_NO_FATAL_FAILURE(compare(c));
  }
}

// Every zero point with quotients from below to above the range: saturate(round(q) + z), with q a tie too.
TEST(quantize, every_zero_point) {
  for (DType code : codes) {
    const int low = lowest(code), high = highest(code), zeros = high - low + 1;
    std::vector<double> x;
    for (double q : {-1e30, -700.0, -513.0, -512.0, -300.5, -256.0, -255.5, -128.5, -16.0, -15.5, -8.5,
                     -7.0,  -1.5,   -0.5,   0.0,    0.5,    1.0,    2.5,    7.5,    8.0,   14.5,  15.0,
                     126.5, 127.5,  200.5,  254.5,  255.0,  256.5,  511.5,  600.0,  1e30})
      x.push_back(q);
    const index rows = static_cast<index>(x.size());
    Case c{.x = {DType::f32, {rows, zeros}}, .scale = {DType::f32, {1, zeros}}, .y = {code, {rows, zeros}}};
    c.zero = Tensor<2>(code, {1, zeros});
    c.scale.fill(0.5);
    for (int z = 0; z < zeros; ++z) c.zero.set(z, low + z);
    for (index k = 0; k < c.x.size(); ++k) c.x.set(k, x[static_cast<std::size_t>(k / zeros)] / 2);
    on_every_backend([&](const std::string&, auto run) {
      Case got = c;
      ASSERT_TRUE(ok(run(got.op())));
      for (index k = 0; k < got.y.size(); ++k) {
        const double q = x[static_cast<std::size_t>(k / zeros)], z = low + static_cast<double>(k % zeros);
        ASSERT_EQ(got.y.get(k), std::clamp<double>(std::nearbyint(q) + z, low, high)) << q << " + " << z;
      }
    });
  }
}

// NaN counts as 0 and gives the zero point, also 0 / 0; infinities saturate; whatever the place in a register.
TEST(quantize, what_is_not_a_number_in_every_place) {
  const double inf = std::numeric_limits<double>::infinity(), nan = std::nan("");
  struct Special {
    double x, scale;
    int answer;  // -1 lowest, 1 highest, 0 the zero point
  };
  for (DType code : codes)
    for (const Special& special : {Special{nan, 1, 0}, Special{inf, 1, 1}, Special{-inf, 1, -1}, Special{0, 0, 0},
                                   Special{1, 0, 1}, Special{-1, 0, -1}, Special{1, nan, 0}, Special{5, inf, 0},
                                   Special{inf, inf, 0}, Special{1, -1e-30, -1}, Special{3e38, 1e-10, 1}}) {
      constexpr index cols = 39;
      Case c{.x = {DType::f32, {cols, cols}}, .scale = {DType::f32, {1, cols}}, .y = {code, {cols, cols}}};
      const int zero = (lowest(code) + highest(code)) / 2 - 1;
      c.zero = Tensor<2>(code, {1, cols}).fill(zero);
      c.scale.fill(special.scale);
      c.x.fill(special.scale == 0 ? 0 : 2 * special.scale);
      for (index t = 0; t < cols; ++t) c.x.set(t * cols + t, special.x);
      on_every_backend([&](const std::string&, auto run) {
        Case got = c;
        ASSERT_TRUE(ok(run(got.op())));
        for (index k = 0; k < cols * cols; ++k) {
          const bool here = k / cols == k % cols, number = std::isfinite(special.scale) && special.scale != 0;
          const double q = here ? 0 : number ? 2 : 0;
          const int answer = here ? special.answer : 0;
          const double expected = answer < 0 ? lowest(code) : answer > 0 ? highest(code) : zero + q;
          ASSERT_EQ(got.y.get(k), expected) << k << ": " << special.x << " / " << special.scale;
        }
      });
    }
}

// A zero has a sign, and the infinity that a quotient becomes has it too, whoever shares the scale (found by fuzzing).
TEST(quantize, scales_of_minus_zero) {
  for (DType type : {DType::f32, DType::f16})
    for (index group : {0, 1, 5})
      for (double zero : {0.0, -0.0}) {
        constexpr index cols = 20;
        Case c{
            .x = {type, {3, cols}}, .scale = {type, {1, group == 0 ? 1 : cols / group}}, .y = {DType::u4, {3, cols}}};
        c.column_group = group, c.row_group = group == 0 ? 0 : 3;
        c.scale.fill(zero);
        for (index k = 0; k < c.x.size(); ++k) c.x.set(k, k % 3 - 1);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// The number that decides about the scale of a row, in every place and on either side.
TEST(quantize, the_largest_is_found_in_every_place) {
  for (DType code : {DType::i8, DType::i4, DType::u8, DType::u4})
    for (double largest : {100.0, -100.0}) {
      constexpr index cols = 39;
      const bool asymmetric = code == DType::u8 || code == DType::u4;
      Case c = quantize_rows(DType::f32, code, cols, cols, asymmetric);
      for (index k = 0; k < cols * cols; ++k) c.x.set(k, k / cols == k % cols ? largest : k % 7 - 3);
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

// Scales of 1, so that codes and zero points are seen to be rounded to even: by hand.
TEST(quantize, dynamic_ties) {
  on_every_backend([&](const std::string&, auto run) {
    Case c = quantize_rows(DType::f32, DType::i8, 1, 9, false);
    const double x[] = {127, 0.5, 1.5, 2.5, -0.5, -1.5, -2.5, 126.5, -126.5};
    const double codes[] = {127, 0, 2, 2, 0, -2, -2, 126, -126};
    for (index i = 0; i < 9; ++i) c.x.set(i, x[i]);
    ASSERT_TRUE(ok(run(c.op())));
    EXPECT_EQ(c.row_scale.get(0), 1);
    for (index i = 0; i < 9; ++i) EXPECT_EQ(c.y.get(i), codes[i]) << x[i];

    // low, high; the zero point of lowest - low, a tie that goes to the even one.
    struct Row {
      DType code;
      double low, high, zero;
    };
    for (const Row& row : {Row{DType::i8, -64.5, 190.5, -64}, Row{DType::i8, -63.5, 191.5, -64},
                           Row{DType::u8, -64.5, 190.5, 64}, Row{DType::u8, -65.5, 189.5, 66},
                           Row{DType::u4, -4.5, 10.5, 4}, Row{DType::u4, -5.5, 9.5, 6}, Row{DType::i4, -4.5, 10.5, -4},
                           Row{DType::i4, -5.5, 9.5, -2}, Row{DType::i4, 0, 15, -8}, Row{DType::u8, -255, 0, 255}}) {
      Case r = quantize_rows(DType::f32, row.code, 1, 2, true);
      r.x.set(0, row.low), r.x.set(1, row.high);
      ASSERT_TRUE(ok(run(r.op())));
      EXPECT_EQ(r.row_scale.get(0), 1);
      EXPECT_EQ(r.row_zero.get(0), row.zero) << inlay::name(row.code) << ' ' << row.low;
      const double first = std::clamp<double>(std::nearbyint(row.low) + row.zero, lowest(row.code), highest(row.code));
      EXPECT_EQ(r.y.get(0), first) << inlay::name(row.code) << ' ' << row.low;
    }
  });
}

// A scale of one least subnormal number stands for 1.2 of them: the zero point would lie 45 beyond the range, and so
// would what lies between the ends.
TEST(quantize, zero_points_saturate) {
  Case c = quantize_rows(DType::f32, DType::i8, 1, 3, true);
  c.x.set(0, -300 * 0x1p-149), c.x.set(1, -150 * 0x1p-149), c.x.set(2, 0);
  on_every_backend([&](const std::string&, auto run) {
    Case got = c;
    ASSERT_TRUE(ok(run(got.op())));
    EXPECT_EQ(got.row_scale.get(0), 0x1p-149);
    EXPECT_EQ(got.row_zero.get(0), 127);
    EXPECT_EQ(got.y.get(0), -128);
    EXPECT_EQ(got.y.get(1), -150 + 127);
    EXPECT_EQ(got.y.get(2), 127);
  });
}

// high - low is beyond f32, and no result is. A row beside it is as ever.
TEST(quantize, spans_beyond_f32) {
  struct Row {
    DType code;
    double zero, steps;
  };
  for (const Row& row :
       {Row{DType::u8, 102, 255}, Row{DType::i8, 102 - 128, 255}, Row{DType::u4, 6, 15}, Row{DType::i4, 6 - 8, 15}})
    on_every_backend([&](const std::string&, auto run) {
      SCOPED_TRACE(inlay::name(row.code));
      Case c = quantize_rows(DType::f32, row.code, 2, 3, true);
      for (index t = 0; t < 2; ++t)
        for (index i = 0; i < 3; ++i) c.x.set(3 * t + i, (t == 0 ? 1e38 : 1) * (i == 0 ? 3 : i == 1 ? -2 : 1));
      ASSERT_TRUE(ok(run(c.op())));
      for (index t = 0; t < 2; ++t) {
        EXPECT_FLOAT_EQ(static_cast<float>(c.row_scale.get(t)), static_cast<float>((t == 0 ? 5e38 : 5) / row.steps));
        EXPECT_EQ(c.row_zero.get(t), row.zero);
        EXPECT_EQ(c.y.get(3 * t), highest(row.code));
        EXPECT_EQ(c.y.get(3 * t + 1), lowest(row.code));
        EXPECT_EQ(c.y.get(3 * t + 2), row.zero + row.steps / 5);
      }
    });
}

// NaN or an infinity anywhere: no scale, codes and zero point 0. A row of zeros: scale 0, and so are the others. Rows
// beside them are as ever.
TEST(quantize, rows_without_a_scale) {
  const double inf = std::numeric_limits<double>::infinity();
  constexpr index cols = 37;
  for (DType code : codes)
    for (bool asymmetric : {false, true})
      for (double special : {std::nan(""), inf, -inf, 0.0, -0.0}) {
        if (!asymmetric && (code == DType::u8 || code == DType::u4)) continue;
        Case c = quantize_rows(DType::f16, code, cols + 1, cols, asymmetric);
        c.x.fill(1);
        for (index t = 0; t < cols; ++t)
          if (special == 0)
            for (index i = 0; i < cols; ++i) c.x.set(t * cols + i, special);
          else
            c.x.set(t * cols + t, special);
        on_every_backend([&](const std::string&, auto run) {
          Case got = c;
          got.y.fill(1), got.row_zero.fill(1), got.row_scale.poison();
          if (special != 0) got.row_scale.fill(1);
          ASSERT_TRUE(ok(run(got.op())));
          for (index t = 0; t < cols; ++t) {
            ASSERT_TRUE(special == 0 ? got.row_scale.get(t) == 0 : std::isnan(got.row_scale.get(t))) << t;
            if (asymmetric) {
              ASSERT_EQ(got.row_zero.get(t), 0) << t;
            }
            for (index i = 0; i < cols; ++i) ASSERT_EQ(got.y.get(t * cols + i), 0) << t << ' ' << i;
          }
          ASSERT_EQ(got.y.get(cols * cols), highest(code));
        });
      }
}

// Threads write different bytes: two tasks never share one, though two rows of nibbles may. Each task runs alone from
// two backgrounds, and what it changes belongs to it.
class Watch {
 public:
  explicit Watch(std::vector<Tensor<1>*> watched) : watched_(std::move(watched)) {}
  Parallel parallel() { return {.context = this, .width = 64, .run = run}; }
  index tasks() const { return tasks_; }

 private:
  static void run(void* context, index tasks, void (*task)(void*, index), void* data) {
    Watch& self = *static_cast<Watch*>(context);
    self.tasks_ = tasks;
    std::vector<std::vector<index>> owner;
    for (auto* bytes : self.watched_) owner.emplace_back(static_cast<std::size_t>(bytes->size()), -1);
    for (index i = 0; i < tasks; ++i)
      for (double background : {0.0, 255.0}) {
        for (auto* bytes : self.watched_) bytes->fill(background);
        task(data, i);
        for (std::size_t w = 0; w < owner.size(); ++w)
          for (index b = 0; b < self.watched_[w]->size(); ++b)
            if (self.watched_[w]->get(b) != background) {
              index& who = owner[w][static_cast<std::size_t>(b)];
              EXPECT_TRUE(who < 0 || who == i) << "byte " << b << " is written by tasks " << who << " and " << i;
              who = i;
            }
      }
  }
  std::vector<Tensor<1>*> watched_;
  index tasks_ = 0;
};

TEST(quantize, no_two_tasks_write_one_byte) {
  Rng rng(7);
  constexpr index rows = 11, cols = 5;
  for (Isa isa : available_isas())
    for (index stride : {cols, cols + 1, cols + 2}) {
      Tensor<1> y(DType::u8, {rows * stride}), zeros(DType::u8, {rows});
      Case c = quantize_rows(DType::f32, DType::u4, rows, cols, true);
      c.x.uniform(rng, -2, 3);
      Watch watch({&y, &zeros});
      Cpu cpu(isa, handed_out(watch.parallel()));
      Quantize<Host> op = c.op();
      op.y = View<2>(y.data<std::uint8_t>(), DType::u4, {rows, cols}, {stride, 1});
      op.row_zero = View<1>(zeros.data<std::uint8_t>(), DType::u4, {rows}, {1});
      ASSERT_TRUE(ok(run(cpu, op)));
      EXPECT_GT(watch.tasks(), 3);
    }
}

}  // namespace
}  // namespace inlay::test
