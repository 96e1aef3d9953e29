#include "tests/attention/contract.hpp"
#include "tests/paged_attention/bound.hpp"
#include "tests/support/refused.hpp"
#include "tests/support/subnormals.hpp"

namespace inlay::test {
INLAY_RUNS_OF(PagedAttention);

namespace {

// A problem of one query a sequence in pages of the layout that its form says.
class Paged : public Contract {
 public:
  Paged() {
    name = "pages";
    max_queries = 1, forms = static_cast<int>(std::size(all_pages));
    split = 128;
    three = {.batch = 2, .queries = 1, .keys = keys_of_three(split), .kv_heads = 2, .group = 2, .dim = 10, .v_dim = 12};
    rising_dim = 16;  // which four keys side by side take with groups of min_x4_rows and more
    groups = {cpu::min_x4_rows, 16, cpu::shared_unit_rows, cpu::shared_unit_rows + 1, 71, cpu::max_rows,
              cpu::max_rows + 1};
  }
  void compare(const AttentionCase& start, const Where&) const override { test::compare(case_of(start)); }
  void on_every_backend(const Problems& starts, const std::function<void(Problems& got)>& judge) const override {
    std::vector<Case> cases;
    for (const AttentionCase& start : starts) cases.push_back(case_of(start));
    test::on_every_backend([&](const std::string&, auto run) {
      Problems results = starts;
      for (std::size_t i = 0; i < cases.size(); ++i) {
        Case got = cases[i];
        PagedAttention<Host> op = got.op();
        if (!starts[i].with_lse) op.lse = {};
        SCOPED_TRACE(describe(op));
        ASSERT_TRUE(ok(run(op)));
        copy(got, results[i], 1);
      }
      judge(results);
    });
  }
  std::unique_ptr<Judge> judge(const AttentionCase& clean, double) const override {
    struct Judged : Judge {
      Judged(const AttentionCase& clean, const Case& start)
          : problem(clean), got(start), expected(start.unrounded()), limit{bound(start)} {
        Reference reference;
        EXPECT_TRUE(ok(run(reference, expected.op())));
        problem.out.memory = problem.out.memory.widened();
        copy(expected, problem, 1);
      }
      const AttentionCase& right() const override { return problem; }
      void compare(const AttentionCase& result, const Allow& allow) const override {
        Case of_result = got;
        AttentionCase values = result;
        copy(of_result, values, -1);
        limit(expected, of_result, allow);
      }
      AttentionCase problem;
      Case got, expected;
      Compare limit;
    };
    return std::make_unique<Judged>(clean, case_of(clean));
  }
  void compare_flushed(const AttentionCase& start, double, double operations) const override {
    const Case c = case_of(start);
    const Compare right{bound(c)};
    with_and_without_flushing(c, [&](const Case& expected, const Case& got, double lost) {
      right(expected, got, {.lost = operations * (lost + underflow(DType::f32))});
    });
  }

 private:
  // What a case has written becomes a problem's result, or with -1 the other way round.
  static void copy(Case& c, AttentionCase& problem, int way) {
    const auto one = [&](auto& of_case, index at, double value, auto&& set) {
      way > 0 ? set(of_case.get(at)) : of_case.set(at, value);
    };
    each_place(problem.out.view_extents(), [&](index b, index, index h, index d) {
      one(c.out, c.out_at(b, h, d), problem.out.get(b, 0, h, d), [&](double x) { problem.out.set(b, 0, h, d, x); });
      if (d == 0)
        one(c.lse, c.lse_at(b, h), problem.lse.get(b * c.q_heads + h),
            [&](double x) { problem.lse.set(b * c.q_heads + h, x); });
    });
  }
  Case case_of(const AttentionCase& p) const {
    const auto [batch, keys, kv_heads, dim] = p.k.view_extents();
    Shape shape{.q_heads = p.q.view_extents()[2],
                .kv_heads = kv_heads,
                .key_dim = dim,
                .value_dim = p.v.view_extents()[3],
                .block_size = std::array{16, 5, 8, 24}[static_cast<std::size_t>(keys % 4)],
                .cache = p.k.memory.dtype(),
                .q = p.q.memory.dtype(),
                .out = p.out.memory.dtype(),
                .pages = all_pages[p.form],
                .layout = layouts[static_cast<std::size_t>(keys % 3)],
                .shared = false};
    shape.lens.assign(static_cast<std::size_t>(batch), keys);
    for (index b = 0; b < batch && p.kv_lens.present(); ++b)
      shape.lens[static_cast<std::size_t>(b)] = static_cast<index>(p.kv_lens.get(b));
    Rng rng(static_cast<std::uint64_t>(keys));
    Case c = make(shape, rng);
    each_place(p.q.view_extents(), [&](index b, index, index h, index d) {
      c.q.set((b * c.q.extents()[1] + c.spare + h) * shape.key_dim + d, p.q.get(b, 0, h, d));
    });
    const auto fill = [&](Pool& pool, Tensor<3>& scales, float& all, const Permuted& from, const Tensor<4>& scale) {
      const bool of_all = scale.size() <= 1;
      if (of_all && scale.present()) all = static_cast<float>(scale.get(0)), scales = {};
      each_place(from.view_extents(), [&](index b, index j, index h, index d) {
        if (j >= shape.lens[static_cast<std::size_t>(b)]) return;
        pool.set(c.slot_of(b, j), h, d, from.get(b, j, h, d));
        if (!of_all && d == 0) c.set_scale(scales, c.slot_of(b, j), h, broadcast(scale, b, j, h, 0));
      });
    };
    fill(c.keys, c.k_scale, c.extra.k_tensor_scale, p.k, p.k_scale);
    fill(c.values, c.v_scale, c.extra.v_tensor_scale, p.v, p.v_scale);
    c.slopes = p.alibi, c.sinks = p.sinks;
    c.extra.scale = p.scale, c.extra.softcap = p.softcap, c.extra.bias_order = p.order;
    c.extra.window_left = p.left, c.extra.partition = split;
    return c;
  }
};

const Paged paged;
INSTANTIATE_TEST_SUITE_P(paged_attention, Attention, ::testing::Values(&paged), name_of);

TEST(paged_attention, block_sizes_layouts_and_types) {
  Rng rng(1);
  for (DType cache : {DType::f32, DType::f16, DType::bf16, DType::i8})
    for (Pages pages : all_pages)
      for (index block_size : {1, 3, 5, 8, 16, 32, 256}) {
        SCOPED_TRACE(name(pages));
        Case c = make({.lens = {0, 1, block_size, 70},
                       .block_size = block_size,
                       .cache = cache,
                       .pages = pages,
                       .layout = layouts[block_size % 3],
                       .spare = block_size % 2},
                      rng);
        c.extra.partition = 32;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

TEST(paged_attention, query_and_output_types_in_a_fused_row) {
  Rng rng(5);
  for (DType q : float_types)
    for (DType out : float_types)
      for (const Layout& layout : layouts)
        ASSERT_NO_FATAL_FAILURE(compare(
            make({.lens = {20, 0, 9}, .key_dim = 33, .value_dim = 17, .q = q, .out = out, .layout = layout}, rng)));
}

TEST(paged_attention, alibi_window_softcap_and_sinks) {
  Rng rng(6);
  for (bool slopes : {false, true})
    for (index window : {-1, 0, 1, 20})
      for (float softcap : {0.0f, 2.0f})
        for (bool sinks : {false, true})
          for (BiasOrder order : bias_orders) {
            // 12 heads: no power of two
            Case c = make({.lens = {0, 1, 21, 90}, .q_heads = 12, .kv_heads = 4, .key_dim = 8, .value_dim = 8}, rng);
            if (slopes) c.slopes = alibi_slopes(12);
            if (sinks) c.sinks = random_sinks(12, rng);
            c.extra.window_left = window;
            c.extra.softcap = softcap;
            c.extra.bias_order = order;
            c.extra.scale = 0.7f;
            c.extra.partition = 32;
            ASSERT_NO_FATAL_FAILURE(compare(c));
          }
}

// Logits from -20 to 20: the maximum moves from tile to tile and from part to part, and few keys carry the sum.
TEST(paged_attention, sharp_softmax) {
  Rng rng(21);
  for (Pages pages : all_pages)
    for (index partition : {0, 64, 100})
      for (float softcap : {0.0f, 5.0f}) {
        SCOPED_TRACE(name(pages));
        Case c =
            make({.lens = {300, 3, 129}, .key_dim = 16, .value_dim = 16, .cache = DType::f32, .pages = pages}, rng);
        c.sinks = Tensor<1>(DType::f32, {4}).uniform(rng, -15, 15);
        c.extra.scale = 6;
        c.extra.softcap = softcap;
        c.extra.partition = partition;
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
        Case c = make({.lens = {59},
                       .q_heads = heads.q,
                       .kv_heads = heads.kv,
                       .key_dim = 64,
                       .value_dim = 64,
                       .block_size = block_size,
                       .pages = block_size == 16 ? Pages::vllm : Pages::flat,
                       .spare = 0},
                      rng);
        if (alibi) c.slopes = alibi_slopes(heads.q);
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
  for (index length : {54, 97, 512, 1025})
    for (index page : {1, 8, 16}) {
      SCOPED_TRACE(length);
      ASSERT_NO_FATAL_FAILURE(compare(make({.lens = {length},
                                            .q_heads = 4,
                                            .kv_heads = 4,
                                            .key_dim = 32,
                                            .value_dim = 32,
                                            .block_size = page,
                                            .pages = Pages::head_major},
                                           rng)));
    }
}

// Blocks wholly before the window may be gone: their entries hold anything.
TEST(paged_attention, entries_before_the_window_are_not_read) {
  Rng rng(14);
  for (Pages pages : all_pages) {
    Case start = make({.lens = {90}, .pages = pages}, rng);
    start.extra.window_left = 20;  // 69..89: blocks 4 and 5
    for (index i = 0; i < 4; ++i) start.tables.set(i, -7);
    ASSERT_NO_FATAL_FAILURE(compare(start));
    start.tables.set(4, -7);
    expect_refused(start.op(), {"block_table[0, 4]", "-7"});
  }
}

// DeepSeek's latent: one kv head of 576, of which V is the first 512.
TEST(paged_attention, values_as_a_view_into_keys) {
  Rng rng(15);
  for (Pages pages : {Pages::flat, Pages::head_major}) {
    Case start =
        make({.lens = {70, 9}, .q_heads = 16, .kv_heads = 1, .key_dim = 576, .value_dim = 512, .pages = pages}, rng);
    for (index slot = 0; slot < slot_count(start.keys.view()); ++slot)
      for (index d = 0; d < 512; ++d) start.values.set(slot, 0, d, start.keys.get(slot, 0, d));
    const Compare right{bound(start)};
    Case expected = start.unrounded();
    Reference reference;
    ASSERT_TRUE(ok(run(reference, expected.op())));
    on_every_backend([&](const std::string&, auto run) {
      Case got = start;
      PagedAttention<Host> op = got.op();
      op.v = op.k.slice(4, 0, 512);
      ASSERT_TRUE(ok(run(op)));
      right(expected, got);
    });
  }
}

TEST(paged_attention, refuses_before_anything_is_written) {
  Rng rng(20);
  Case c = make({.lens = {40, 20}, .spare = 0}, rng);  // 3 + 2 blocks named, 4 table entries of 16
  const index blocks = c.keys.view().extents[0];
  const std::string last = "0.." + std::to_string(blocks - 1);
  const Refused refused(c.op(), [](const PagedAttention<Host>& op) {
    on_every_backend([&](const std::string&, auto run) { EXPECT_FALSE(run(op).ok()); });
  });
  const auto contents = [&](auto& tensor, index k, index bad, std::initializer_list<std::string_view> words) {
    const double before = tensor.get(k);
    tensor.set(k, static_cast<double>(bad));
    refused([](auto&) {}, words);
    tensor.set(k, before);
  };
  contents(c.tables, 5, blocks, {"block_table[1, 1]", std::to_string(blocks), last});
  contents(c.tables, 0, -1, {"block_table[0, 0]", "-1"});
  contents(c.lens, 1, 65, {"kv_lens[1]", "65", "0..64"});
  contents(c.lens, 0, -2, {"kv_lens[0]", "-2"});
  refused([](auto& op) { op.q.extents[1] = op.out.extents[1] = op.lse.extents[1] = 3; }, {"q", "3", "2"});
  refused([](auto& op) { op.q.extents[2] = 23; }, {"k", "24", "23"});
  refused([](auto& op) { op.v.dtype = DType::bf16; }, {"v", "bf16", "f16"});
  Tensor<3> scales(DType::f32, {blocks, 2, 16});
  refused([&](auto& op) { op.k_scale = scales; }, {"k_scale", "i8"});
  refused([](auto& op) { op.k_tensor_scale = 2; }, {"k_tensor_scale", "i8"});
  refused([](auto& op) { op.v_tensor_scale = 2; }, {"v_tensor_scale", "i8"});
  refused([](auto& op) { op.v.extents[0] -= 1; }, {"v", "dimension 0", last.substr(3)});
  refused([](auto& op) { op.v.extents[1] = 1; }, {"v", "dimension 1", "1", "2"});
  refused([](auto& op) { op.v.extents[3] = 15; }, {"v", "dimension 3", "15", "16"});
  refused([](auto& op) { op.kv_lens.dtype = DType::i64; }, {"kv_lens", "i64", "i32"});
  refused([](auto& op) { op.kv_lens.extents[0] = 1; }, {"kv_lens", "1", "2"});
  refused([](auto& op) { op.block_table.extents[0] = 1; }, {"block_table", "1", "2"});
  refused([](auto& op) { op.out.dtype = DType::i8; }, {"out", "i8"});
  refused([](auto& op) { op.softcap = -1; }, {"softcap", "-1"});
  refused([](auto& op) { op.partition = -1; }, {"partition", "-1"});
  refused([](auto& op) { op.bias_order = static_cast<BiasOrder>(3); }, {"bias_order", "3", "0..2"});
  refused([](auto& op) { op.scale = INFINITY; }, {"scale", "finite"});
  refused([](auto& op) { op.block_table.dtype = DType::i64; }, {"block_table", "i64", "i32"});
  Tensor<1> three(DType::f32, {3});
  refused([&](auto& op) { op.sinks = three; }, {"sinks", "3", "4"});
  refused([&](auto& op) { op.alibi_slopes = three; }, {"alibi_slopes", "3", "4"});
  refused([](auto& op) { op.out.extents[2] = 8; }, {"out", "8", "24"});
  refused([](auto& op) { op.lse.extents[1] = 2; }, {"lse", "[2, 2]", "[2, 4]"});
}

TEST(paged_attention, refuses_half_of_the_scales) {
  Rng rng(46);
  Case c = make({.lens = {40, 20}, .cache = DType::i8, .spare = 0}, rng);
  const Refused refused(c.op());
  refused([](auto& op) { op.v_scale = {}; }, {"k_scale", "left out", "v_scale"});
  refused([](auto& op) { op.k_scale.extents[2] = 15; }, {"k_scale", "15", "16"});
  refused([](auto& op) { op.v_scale.dtype = DType::f16; }, {"v_scale", "f16", "f32"});
  refused([](auto& op) { op.k_tensor_scale = 0; }, {"k_tensor_scale", "0", "positive"});
  refused([](auto& op) { op.v_tensor_scale = -1; }, {"v_tensor_scale", "-1", "positive"});
}

}  // namespace
}  // namespace inlay::test
