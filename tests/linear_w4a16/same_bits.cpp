// What must not change a bit: the form of the codes, threads, batches, a thread that flushes subnormals.
#include "tests/linear_w4a16/case.hpp"

namespace inlay::test {
namespace {

// What the operator runs is one of the forms that the other tests ask for by name.
TEST(linear_w4a16, the_operator_takes_one_of_its_forms) {
  Rng rng(11);
  for (const auto [form, bits] : code_kinds)
    for (index rows : {1, 5}) {
      const Case start = make({rows, 81, 531, 64, bits}, form, {.scales = DType::f16}, {}, rng);
      for (const Cpu& cpu : cpus()) {
        Case ordinary = start, converted = start;
        ASSERT_TRUE(ok(run_with_scratch(cpu, ordinary.op())));
        CpuWithForm with_form(cpu, simd::CodeForm::converted);
        ASSERT_TRUE(ok(run_with_scratch(with_form, converted.op())));
        expect_equal(ordinary.y, converted.y);
      }
    }
}

// Row by row, in a batch, on any number of threads: the same bits.
TEST(linear_w4a16, a_row_alone_and_in_a_batch_are_bitwise_equal) {
  Rng rng(12);
  for (W4Compute compute : {W4Compute::exact_float, W4Compute::int8_activations})
    for (const auto [form, bits] : code_kinds)
      for (index rows : {2, 4, 6, 15, 26}) {
        const DType scales = rows % 4 == 2 ? DType::i8 : DType::f16;
        Case start = make({rows, 81, 531, rows % 4 ? 64 : 40, bits}, form, {.scales = scales}, {}, rng);
        start.compute = compute;
        on_every_form(compute, [&](const std::string&, auto run) {
          Case alone = start, batch = start;
          for (index t = 0; t < rows; ++t) {
            LinearW4a16<Host> op = alone.op();
            op.x = op.x.slice(0, t, 1);
            op.y = op.y.slice(0, t, 1);
            ASSERT_TRUE(ok(run(op)));
          }
          ASSERT_TRUE(ok(run(batch.op())));
          expect_equal(batch.y, alone.y);
        });
      }
}

// Codes are subnormal operands in one of the forms: flushing may take what is small from x, and never a code. The
// thread's flags are what they were.
TEST(linear_w4a16, flushing_takes_no_code) {
  Rng rng(13);
  for (index rows : {1, 3, 30})
    for (const auto [form, bits] : code_kinds) {
      const Case start = make({rows, 150, 137, 32, bits}, form, {}, {}, rng);
      on_every_form(W4Compute::exact_float, [&](const std::string& label, auto run) {
        Case plain = start, flushing = start;
        ASSERT_TRUE(ok(run(plain.op())));
        const auto op = flushing.op();
        const volatile float least = 0x1p-149f;
        float after = 0;
        {
          FlushToZero mode(true);
          ASSERT_TRUE(ok(run(op)));
          after = least * 0x1p100f;
        }
        if (label.starts_with("cpu ")) {
          expect_equal(flushing.y, plain.y);
        }
        ASSERT_EQ(after, FlushToZero::works ? 0 : 0x1p-49f);
      });
    }
}

TEST(linear_w4a16, subnormal_activations) {
  Rng rng(14);
  for (index rows : {1, 3})
    for (const auto [form, bits] : code_kinds)
      for (bool flushing : {false, true}) {
        Case c = make({rows, 33, 100, 32, bits}, form, {}, {}, rng);
        subnormals(c.x, rng, true);
        c.add_bias(DType::f32, rng);
        const Answer numbers = answer(c);
        const Matrix w = Weight(c).w();
        Case expected = c;
        Reference reference;
        ASSERT_TRUE(ok(run(reference, expected.op())));
        // Each x, times its weight, and the result.
        const double lost = flushing ? smallest_normal() * (1 + w.cwiseAbs().rowwise().sum().maxCoeff()) : 0;
        on_every_form(c.compute, [&](const std::string&, auto run) {
          Case got = c;
          const auto op = got.op();
          {
            FlushToZero mode(flushing);
            ASSERT_TRUE(ok(run(op)));
          }
          expect_close(got.y, expected.y, walk_ulps, [&](index k) { return numbers.walk.data()[k]; },
                       {.lost = lost + 100 * 0x1p-135});
        });
      }
}

}  // namespace
}  // namespace inlay::test
