#include <inlay/ops/paged_attention.hpp>

#include <sys/mman.h>

#include <Eigen/Core>
#include <limits>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/paged.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {
namespace {

constexpr double nan = std::numeric_limits<double>::quiet_NaN();
constexpr double infinity = std::numeric_limits<double>::infinity();

struct Shape {
  std::vector<index> lens = {0, 1, 7, 70};
  index q_heads = 4, kv_heads = 2, key_dim = 24, value_dim = 24, block_size = 16;
  DType cache = DType::f16, q = DType::f32, out = DType::f32;
  Pages pages = Pages::flat;
  Layout layout = {};
};

// What no query may see is NaN (scales and floats) or out of range (table entries): slots past a
// context, blocks that no table names, entries past the last block.
struct Case {
  Tensor<3> q, out, key_scales, value_scales;
  Tensor<2> tables, lse;
  Tensor<1> lens, slopes, sinks;
  Pool keys, values;
  PagedAttention<Host> extra;  // scalars
  bool with_slopes = false, with_sinks = false;

  PagedAttention<Host> op() {
    PagedAttention<Host> op = extra;
    op.q = q;
    op.key_cache = keys;
    op.value_cache = values;
    op.block_tables = tables;
    op.context_lens = lens;
    op.out = out;
    op.lse = lse;
    if (keys.memory.dtype() == DType::i8) {
      op.key_scales = key_scales;
      op.value_scales = value_scales;
    }
    if (with_slopes) op.alibi_slopes = slopes;
    if (with_sinks) op.sinks = sinks;
    return op;
  }
};

// Full blocks are drawn with repetition, so sequences share them; each last block is its own.
Case make(const Shape& shape, Rng& rng) {
  const index seqs = static_cast<index>(shape.lens.size()), bs = shape.block_size, shared = 5, unnamed = 2;
  index longest = 0;
  for (index length : shape.lens) longest = std::max(longest, length);
  const index columns = (longest + bs - 1) / bs + 1, blocks = shared + seqs + unnamed;
  Case c{
      .q = {shape.q, {seqs, shape.q_heads, shape.key_dim}, shape.layout},
      .out = {shape.out, {seqs, shape.q_heads, shape.value_dim}, shape.layout},
      .key_scales = {DType::f32, {blocks, shape.kv_heads, bs}, shape.layout},
      .value_scales = {DType::f32, {blocks, shape.kv_heads, bs}, shape.layout},
      .tables = {DType::i32, {seqs, columns}, shape.layout},
      .lse = {DType::f32, {seqs, shape.q_heads}, shape.layout},
      .lens = {DType::i32, {seqs}},
      .slopes = {DType::f32, {shape.q_heads}},
      .sinks = {DType::f32, {shape.q_heads}},
      .keys = {shape.cache, {blocks, bs, shape.kv_heads, shape.key_dim}, shape.pages, Pool::keys, shape.layout},
      .values = {shape.cache, {blocks, bs, shape.kv_heads, shape.value_dim}, shape.pages, Pool::values, shape.layout},
      .extra = {}};
  c.q.uniform(rng);
  c.out.poison();
  c.lse.poison();
  c.sinks.uniform(rng, -2, 2);
  for (index h = 0; h < shape.q_heads; ++h) c.slopes.set(h, alibi_slope(h, shape.q_heads));
  c.keys.memory.poison();
  c.values.memory.poison();
  c.key_scales.poison();
  c.value_scales.poison();
  c.tables.fill(std::numeric_limits<std::int32_t>::max());
  std::uniform_real_distribution<double> number(-1, 1);
  const bool quantized = shape.cache == DType::i8;
  const auto fill = [&](index block, index slots) {
    for (index slot = block * bs; slot < block * bs + slots; ++slot)
      for (index h = 0; h < shape.kv_heads; ++h) {
        for (index d = 0; d < shape.key_dim; ++d) c.keys.set(slot, h, d, number(rng) * (quantized ? 127 : 1));
        for (index d = 0; d < shape.value_dim; ++d) c.values.set(slot, h, d, number(rng) * (quantized ? 127 : 1));
        for (auto* scales : {&c.key_scales, &c.value_scales})
          scales->set((block * shape.kv_heads + h) * bs + slot % bs, (1.5 + number(rng)) / 254);
      }
  };
  for (index block = 0; block < shared; ++block) fill(block, bs);
  for (index b = 0; b < seqs; ++b) {
    const index length = shape.lens[b], full = length / bs;
    c.lens.set(b, static_cast<double>(length));
    for (index i = 0; i < full; ++i) c.tables.set(b * columns + i, static_cast<double>(rng() % shared));
    if (length % bs == 0) continue;
    c.tables.set(b * columns + full, static_cast<double>(shared + b));
    fill(shared + b, length % bs);
  }
  return c;
}

// max over tokens of ||vector||, as the operator sees it.
double largest_norm(const Case& start, bool keys) {
  Case c = start;
  const PagedAttention<Host> op = c.op();
  const ConstPagedView<>& cache = keys ? op.key_cache : op.value_cache;
  const ConstView<3>& scales = keys ? op.key_scales : op.value_scales;
  double largest = 0;
  for (index slot = 0; slot < slot_count(cache); ++slot)
    for (index h = 0; h < kv_head_count(cache); ++h) {
      double sum = 0;
      for (index d = 0; d < head_dim_of(cache); ++d) {
        const double x = load_element(cache.data, cache.dtype, paged_offset(cache, slot, h, d));
        sum += x * x;
      }
      const index bs = block_size_of(cache);
      const double scale = scales.present() ? at(scales, slot / bs, h, slot % bs) : 1;
      if (sum * scale * scale > largest) largest = sum * scale * scale;  // NaN, the poison, is passed over
    }
  return std::sqrt(largest);
}

// A score is a sum of dim products: its error is at most (dim + 8) eps S with S = scale |q| |k| + |bias|
// (Cauchy-Schwarz; 8 covers scales, scale, bias, softcap and the subtraction of the maximum). It moves a
// weight by as much relatively, numerator and denominator: twice. Both sums over n tokens add n eps, exp
// and merges a few. All of it is relative to sum p |v| <= max |v|.
struct Bound {
  double out, lse, value;
};
Bound bound(const Case& c) {
  double n = 0, q = 0;
  for (index b = 0; b < c.lens.size(); ++b) n = std::max(n, c.lens.get(b));
  const index dim = c.q.extents()[2];
  for (index row = 0; row < c.q.size() / dim; ++row) {
    double sum = 0;
    for (index d = 0; d < dim; ++d) sum += c.q.get(row * dim + d) * c.q.get(row * dim + d);
    q = std::max(q, sum);
  }
  const double s = std::sqrt(q / static_cast<double>(dim)) * largest_norm(c, true) + (c.with_slopes ? n : 0);
  const double score = (static_cast<double>(dim) + 8) * s;
  return {2 * score + 2 * n + 32, score + n + 32, largest_norm(c, false)};
}

void compare(const Case& start) {
  Case expected = start;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  const Bound limit = bound(start);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    expect_close(got.out, expected.out, limit.out, [&](index) { return limit.value; });
    expect_close(got.lse, expected.lse, limit.lse, [&](index k) { return 1 + std::abs(expected.lse.get(k)); });
    EXPECT_TRUE(got.out.gaps_untouched());
    EXPECT_TRUE(got.lse.gaps_untouched());
  });
  for (index k = 0; k < expected.out.size(); ++k) ASSERT_TRUE(std::isfinite(expected.out.get(k)));
}

TEST(paged_attention, block_sizes_layouts_and_types) {
  Rng rng(1);
  for (DType cache : {DType::f32, DType::f16, DType::bf16, DType::i8})
    for (Pages pages : all_pages)
      for (index block_size : {1, 3, 5, 8, 16, 32, 256}) {
        SCOPED_TRACE(describe(cache, name(pages), block_size));
        Case c = make({.lens = {0, 1, block_size, 70},
                       .block_size = block_size,
                       .cache = cache,
                       .pages = pages,
                       .layout = layouts[block_size % 3]},
                      rng);
        c.extra.partition = 32;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(paged_attention, head_dims) {
  Rng rng(2);
  for (index dim : head_dims)
    for (Pages pages : {Pages::flat, Pages::vllm}) {
      SCOPED_TRACE(describe(dim, name(pages)));
      compare(
          make({.lens = {5, 37}, .q_heads = 3, .kv_heads = 1, .key_dim = dim, .value_dim = dim, .pages = pages}, rng));
    }
  for (Pages pages : all_pages)
    compare(make({.lens = {37}, .key_dim = 192, .value_dim = 128, .cache = DType::bf16, .pages = pages}, rng));
}

TEST(paged_attention, groups) {
  Rng rng(3);
  for (index group : {1, 2, 3, 4, 5, 7, 8, 9, 16})
    for (Pages pages : {Pages::flat, Pages::vllm}) {
      SCOPED_TRACE(describe(group, name(pages)));
      compare(make({.lens = {65, 3}, .q_heads = 3 * group, .kv_heads = 3, .pages = pages}, rng));
    }
}

TEST(paged_attention, lengths_around_tiles_and_partitions) {
  Rng rng(4);
  for (index partition : {0, 1, 16, 63, 64, 65, 512})
    for (Pages pages : {Pages::flat, Pages::vllm}) {
      SCOPED_TRACE(describe(partition, name(pages)));
      Case c = make({.lens = {1, 15, 16, 17, 31, 63, 64, 65, 127, 128, 129},
                     .q_heads = 2,
                     .kv_heads = 1,
                     .key_dim = 8,
                     .value_dim = 9,
                     .block_size = 5,
                     .pages = pages},
                    rng);
      c.extra.partition = partition;
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
}

TEST(paged_attention, query_and_output_types_in_a_fused_row) {
  Rng rng(5);
  for (DType q : float_types)
    for (DType out : float_types)
      for (const Layout& layout : layouts) {
        SCOPED_TRACE(describe(q, out, layout));
        compare(make({.lens = {20, 0, 9}, .key_dim = 33, .value_dim = 17, .q = q, .out = out, .layout = layout}, rng));
      }
}

TEST(paged_attention, alibi_window_softcap_and_sinks) {
  Rng rng(6);
  for (bool slopes : {false, true})
    for (index window : {-1, 0, 1, 20})
      for (float softcap : {0.0f, 2.0f})
        for (bool sinks : {false, true})
          for (BiasOrder order :
               {BiasOrder::scale_bias_softcap, BiasOrder::scale_softcap_bias, BiasOrder::bias_scale_softcap}) {
            SCOPED_TRACE(
                describe(slopes ? "alibi" : "", window, softcap, sinks ? "sinks" : "", static_cast<int>(order)));
            // 12 heads: no power of two
            Case c = make({.lens = {0, 1, 21, 90}, .q_heads = 12, .kv_heads = 4, .key_dim = 8, .value_dim = 8}, rng);
            c.with_slopes = slopes;
            c.with_sinks = sinks;
            c.extra.window_left = window;
            c.extra.softcap = softcap;
            c.extra.bias_order = order;
            c.extra.scale = 0.7f;
            c.extra.partition = 32;
            ASSERT_NO_FATAL_FAILURE(compare(c));
          }
}

// vLLM's and FlashInfer's own test dimensions, with contexts cut to what a scalar reference does in time.
TEST(paged_attention, third_party_dimensions) {
  Rng rng(7);
  struct Heads {
    index q, kv;
  };
  for (Heads heads : {Heads{32, 8}, Heads{40, 40}, Heads{64, 8}})
    for (index block_size : {16, 32})
      for (bool alibi : {false, true}) {
        SCOPED_TRACE(describe(heads.q, heads.kv, block_size));
        Case c = make({.lens = {59},
                       .q_heads = heads.q,
                       .kv_heads = heads.kv,
                       .key_dim = 64,
                       .value_dim = 64,
                       .block_size = block_size,
                       .pages = block_size == 16 ? Pages::vllm : Pages::flat},
                      rng);
        c.with_slopes = alibi;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
  for (index length : {54, 97, 512, 1025})
    for (index page : {1, 8, 16}) {
      SCOPED_TRACE(describe(length, page));
      compare(make({.lens = {length},
                    .q_heads = 4,
                    .kv_heads = 4,
                    .key_dim = 32,
                    .value_dim = 32,
                    .block_size = page,
                    .pages = Pages::head_major},
                   rng));
    }
}

// A second oracle, dense and in matrices: K and V gathered by hand.
TEST(paged_attention, reference_agrees_with_eigen) {
  Rng rng(8);
  Case c = make({.lens = {23, 70}, .q_heads = 6, .kv_heads = 2, .cache = DType::f32, .pages = Pages::vllm}, rng);
  Reference reference;
  ASSERT_TRUE(ok(run(reference, c.op())));
  for (index b = 0; b < 2; ++b)
    for (index h = 0; h < 6; ++h) {
      const index n = static_cast<index>(c.lens.get(b)), columns = c.tables.extents()[1];
      Eigen::MatrixXd k(n, 24), v(n, 24);
      Eigen::VectorXd q(24);
      for (index d = 0; d < 24; ++d) q(d) = c.q.get((b * 6 + h) * 24 + d);
      for (index j = 0; j < n; ++j)
        for (index d = 0; d < 24; ++d) {
          const index slot = static_cast<index>(c.tables.get(b * columns + j / 16)) * 16 + j % 16;
          k(j, d) = c.keys.get(slot, h / 3, d);
          v(j, d) = c.values.get(slot, h / 3, d);
        }
      const Eigen::VectorXd s = k * q / std::sqrt(24.0);
      const Eigen::VectorXd p = (s.array() - s.maxCoeff()).exp();
      const Eigen::VectorXd expected = v.transpose() * p / p.sum();
      for (index d = 0; d < 24; ++d) EXPECT_NEAR(c.out.get((b * 6 + h) * 24 + d), expected(d), 1e-7);
      EXPECT_NEAR(c.lse.get(b * 6 + h), std::log(p.sum()) + s.maxCoeff(), 1e-6);
    }
}

TEST(paged_attention, equal_scores_give_the_mean_and_log_n) {
  Rng rng(9);
  for (DType cache : {DType::f32, DType::i8}) {
    Case start = make({.lens = {70, 0}, .q_heads = 2, .kv_heads = 2, .cache = cache}, rng);
    start.q.fill(0);
    start.extra.partition = 32;
    Case expected = start;
    Reference reference;
    ASSERT_TRUE(ok(run(reference, expected.op())));
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      expect_close(got.out, expected.out, 2 * 70, [](index) { return 1.0; });
      EXPECT_NEAR(got.lse.get(0), std::log(70.0), 1e-6);
      EXPECT_EQ(got.lse.get(2), -infinity);
      for (index k = 48; k < 96; ++k) EXPECT_EQ(got.out.get(k), 0);
    });
  }
}

TEST(paged_attention, huge_logits_choose_one_key) {
  Rng rng(10);
  for (double huge : {1e5, -1e5}) {
    Case start =
        make({.lens = {70}, .q_heads = 1, .kv_heads = 1, .key_dim = 1, .value_dim = 8, .cache = DType::f32}, rng);
    start.q.fill(huge);
    start.extra.scale = 1;
    start.extra.partition = 16;
    // Keys 0, 1/64, 2/64, ..: logits are exact and apart by 1562, so all weights but one underflow.
    const index columns = start.tables.extents()[1];
    const auto slot_of = [&](index j) { return static_cast<index>(start.tables.get(j / 16)) * 16 + j % 16; };
    for (index i = 0; i < columns - 1; ++i) start.tables.set(i, static_cast<double>(i));  // no repetition
    for (index j = 0; j < 70; ++j) {
      start.keys.set(slot_of(j), 0, 0, static_cast<double>(j) / 64);
      for (index d = 0; d < 8; ++d) start.values.set(slot_of(j), 0, d, static_cast<double>(j + d));
    }
    const index chosen = huge > 0 ? 69 : 0;
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index d = 0; d < 8; ++d) EXPECT_EQ(got.out.get(d), static_cast<double>(chosen + d));
      EXPECT_EQ(got.lse.get(0), static_cast<float>(huge * static_cast<double>(chosen) / 64));
    });
  }
}

TEST(paged_attention, sinks_of_an_empty_context_and_without_a_sink) {
  Rng rng(11);
  Case start = make({.lens = {0, 5}}, rng);
  start.with_sinks = true;
  start.sinks.set(0, 1.5);
  start.sinks.set(1, -infinity);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start, none = start;
    none.with_sinks = false;
    ASSERT_TRUE(ok(run(got.op())));
    ASSERT_TRUE(ok(run(none.op())));
    for (index k = 0; k < 4 * 24; ++k) EXPECT_EQ(got.out.get(k), 0);
    EXPECT_EQ(got.lse.get(0), 1.5);
    EXPECT_EQ(got.lse.get(1), -infinity);
    for (index d = 0; d < 24; ++d) EXPECT_EQ(got.out.get(5 * 24 + d), none.out.get(5 * 24 + d));  // sink -inf
  });
}

TEST(paged_attention, one_part_and_many_agree) {
  Rng rng(12);
  const Case start = make({.lens = {1300, 600}, .q_heads = 8, .kv_heads = 2, .key_dim = 64, .value_dim = 64}, rng);
  const Bound limit = bound(start);
  on_every_backend([&](const std::string&, auto run) {
    Case v1 = start, v2 = start;
    v1.extra.partition = 0;
    ASSERT_TRUE(ok(run(v1.op())));
    ASSERT_TRUE(ok(run(v2.op())));
    expect_close(v1.out, v2.out, limit.out, [&](index) { return limit.value; });
    expect_close(v1.lse, v2.lse, limit.lse, [&](index) { return 1.0; });
  });
}

// Neither threads nor neighbours in the batch leave a trace.
TEST(paged_attention, bits_depend_on_the_sequence_alone) {
  Rng rng(13);
  const Case start =
      make({.lens = {300, 77, 0, 130}, .q_heads = 14, .kv_heads = 2, .key_dim = 40, .value_dim = 40}, rng);
  for (Isa isa : available_isas()) {
    Case first = start;
    first.extra.partition = 64;
    const Cpu one(isa, serial());
    ASSERT_TRUE(ok(run_with_scratch(one, first.op())));
    // Width decides how heads are cut; 16 of them need no 16 threads.
    Parallel wide = openmp(2);
    wide.width = 16;
    for (const Parallel& parallel : {openmp(2), openmp(3), wide}) {
      Case got = start;
      got.extra.partition = 64;
      const Cpu many(isa, parallel);
      ASSERT_TRUE(ok(run_with_scratch(many, got.op())));
      expect_equal(got.out, first.out);
      expect_equal(got.lse, first.lse);
    }
    Case got = start;
    got.extra.partition = 64;
    PagedAttention<Host> alone = got.op();
    alone.q = alone.q.slice(0, 1, 1);
    alone.block_tables = alone.block_tables.slice(0, 1, 1);
    alone.context_lens = alone.context_lens.slice(0, 1, 1);
    alone.out = alone.out.slice(0, 1, 1);
    alone.lse = alone.lse.slice(0, 1, 1);
    ASSERT_TRUE(ok(run_with_scratch(one, alone)));
    for (index k = 14 * 40; k < 2 * 14 * 40; ++k) ASSERT_EQ(got.out.get(k), first.out.get(k));
  }
}

// Blocks wholly before the window may be gone: their entries hold anything.
TEST(paged_attention, entries_before_the_window_are_not_read) {
  Rng rng(14);
  Case start = make({.lens = {90}}, rng);
  start.extra.window_left = 20;  // 69..89: blocks 4 and 5
  Case expected = start;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  for (index i = 0; i < 4; ++i) start.tables.set(i, -7);
  const Bound limit = bound(start);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    expect_close(got.out, expected.out, limit.out, [&](index) { return limit.value; });
  });
}

// DeepSeek's latent: one kv head of 576, of which V is the first 512.
TEST(paged_attention, values_as_a_view_into_keys) {
  Rng rng(15);
  Case start = make({.lens = {70, 9}, .q_heads = 16, .kv_heads = 1, .key_dim = 576, .value_dim = 512}, rng);
  Case expected = start;
  const auto latent = [](Case& c) {
    PagedAttention<Host> op = c.op();
    op.value_cache = op.key_cache.slice(4, 0, 512);
    return op;
  };
  Reference reference;
  ASSERT_TRUE(ok(run(reference, latent(expected))));
  const Bound limit = bound(start);
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(latent(got))));
    expect_close(got.out, expected.out, limit.out, [](index) { return std::sqrt(576.0); });
  });
}

TEST(paged_attention, int8_with_one_scale_for_all) {
  Rng rng(16);
  Case start = make({.lens = {40}, .cache = DType::i8, .pages = Pages::vllm}, rng);
  start.key_scales.fill(1);
  start.value_scales.fill(1);
  start.extra.key_scale = 0.01f;
  start.extra.value_scale = 0.02f;
  Case expected = start;
  Reference reference;
  ASSERT_TRUE(ok(run(reference, expected.op())));
  on_every_backend([&](const std::string&, auto run) {
    Case got = start;
    PagedAttention<Host> op = got.op();
    op.key_scales = op.value_scales = {};
    ASSERT_TRUE(ok(run(op)));
    // |q . k| <= 24 * 1.27: 32 * 32 ulps of score, twice, on values up to 2.54.
    expect_close(got.out, expected.out, 2 * 32 * 32 / 4.8, [](index) { return 2.54; });
  });
}

// -128 throughout: the sums are exact in f32.
TEST(paged_attention, int8_extremes) {
  Rng rng(17);
  for (Pages pages : all_pages) {
    Case start = make({.lens = {256},
                       .q_heads = 2,
                       .kv_heads = 1,
                       .key_dim = 576,
                       .value_dim = 576,
                       .cache = DType::i8,
                       .pages = pages},
                      rng);
    start.q.fill(-1);
    start.keys.memory.fill(-128);
    start.values.memory.fill(-128);
    start.key_scales.fill(1);
    start.value_scales.fill(1);
    start.extra.scale = 1;
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index k = 0; k < got.out.size(); ++k) ASSERT_EQ(got.out.get(k), -128);
      // log 256 is lost beside 576 * 128, whose f32 neighbours lie 2^-7 apart
      EXPECT_NEAR(got.lse.get(0), 576.0 * 128 + std::log(256.0), 0x1p-8);
    });
  }
}

TEST(paged_attention, nan_and_infinity_stay_in_their_head) {
  Rng rng(18);
  for (double bad : {nan, infinity}) {
    Case start = make({.lens = {40}, .pages = Pages::head_major}, rng);
    start.keys.set(static_cast<index>(start.tables.get(0)) * 16 + 3, 1, 2, bad);
    start.q.fill(0.5);
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      ASSERT_TRUE(ok(run(got.op())));
      for (index k = 0; k < 4 * 24; ++k) EXPECT_EQ(std::isnan(got.out.get(k)), k >= 2 * 24) << k;
    });
  }
}

// Blocks 2^32 elements apart; a few pages are touched.
TEST(paged_attention, offsets_pass_2_31_elements) {
  constexpr index block_size = 16, heads = 2, dim = 16, stride = index{1} << 32;
  constexpr std::size_t bytes = (stride + (1 << 20)) * sizeof(f16);
  void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    std::printf("no %zu bytes of address space here: offsets beyond 2^31 were not tried\n", bytes);
    return;
  }
  f16* const far = static_cast<f16*>(memory) + stride;
  for (index i = 0; i < block_size * heads * dim; ++i) far[i] = f16(static_cast<float>(i % dim));
  const ConstPagedView<> cache =
      flat_cache(ConstView<4>(static_cast<f16*>(memory), {2, block_size, heads, dim}, {stride, heads * dim, dim, 1}));
  const std::vector<float> q(heads * dim, 0.25f);
  const std::int32_t table[] = {1}, length[] = {16};
  on_every_backend([&](const std::string&, auto run) {
    std::vector<float> out(heads * dim, -1);
    ASSERT_TRUE(ok(run(PagedAttention<Host>{.q = ConstView<3>(q.data(), {1, heads, dim}),
                                            .key_cache = cache,
                                            .value_cache = cache,
                                            .block_tables = ConstView<2>(table, {1, 1}),
                                            .context_lens = ConstView<1>(length, {1}),
                                            .out = View<3>(out.data(), {1, heads, dim})})));
    for (index i = 0; i < heads * dim; ++i) EXPECT_EQ(out[i], static_cast<float>(i % dim));
  });
  munmap(memory, bytes);
}

TEST(paged_attention, empty_batches) {
  Rng rng(19);
  compare(make({.lens = {}}, rng));
  compare(make({.lens = {0, 0}}, rng));
  Case none = make({.lens = {0, 0}}, rng);
  on_every_backend([&](const std::string&, auto run) {
    Case got = none;
    PagedAttention<Host> op = got.op();
    op.block_tables.extents[1] = 0;
    ASSERT_TRUE(ok(run(op)));
    for (index k = 0; k < got.out.size(); ++k) EXPECT_EQ(got.out.get(k), 0);
  });
}

TEST(paged_attention, refuses_before_anything_is_written) {
  Rng rng(20);
  const Case start = make({.lens = {40, 20}}, rng);  // 9 blocks, 4 table entries of 16
  const auto refuse = [&](auto change, std::initializer_list<std::string_view> words) {
    Case c = start;
    PagedAttention<Host> op = c.op();
    change(c, op);
    expect_refused(op, words);
    on_every_backend([&](const std::string&, auto run) {
      EXPECT_FALSE(run(op).ok());
      expect_equal(c.out, start.out);
    });
  };
  refuse([](Case& c, auto&) { c.tables.set(5, 9); }, {"block_tables[1, 1]", "9", "0..8"});
  refuse([](Case& c, auto&) { c.tables.set(0, -1); }, {"block_tables[0, 0]", "-1"});
  refuse([](Case& c, auto&) { c.lens.set(1, 65); }, {"context_lens[1]", "65", "0..64"});
  refuse([](Case& c, auto&) { c.lens.set(0, -2); }, {"context_lens[0]", "-2"});
  refuse([](Case&, auto& op) { op.q.extents[1] = op.out.extents[1] = op.lse.extents[1] = 3; }, {"q", "3", "2"});
  refuse([](Case&, auto& op) { op.q.extents[2] = 23; }, {"key_cache", "24", "23"});
  refuse([](Case&, auto& op) { op.value_cache.dtype = DType::bf16; }, {"value_cache", "bf16", "f16"});
  refuse([](Case& c, auto& op) { op.key_scales = c.key_scales; }, {"key_scales", "i8"});
  refuse([](Case&, auto& op) { op.key_scale = 2; }, {"key_scale", "i8"});
  refuse([](Case&, auto& op) { op.softcap = -1; }, {"softcap", "-1"});
  refuse([](Case&, auto& op) { op.partition = -1; }, {"partition", "-1"});
  refuse([](Case&, auto& op) { op.scale = INFINITY; }, {"scale", "finite"});
  refuse([](Case&, auto& op) { op.block_tables.dtype = DType::i64; }, {"block_tables", "i64", "i32"});
  refuse([](Case& c, auto& op) { op.sinks = c.slopes.view().slice(0, 0, 3); }, {"sinks", "3", "4"});
  refuse([](Case&, auto& op) { op.out.extents[2] = 8; }, {"out", "8", "24"});
}

}  // namespace
}  // namespace inlay::test
