// OpenCL sums keys in parts, for few rows side by side and for many one after the other: both give the same bits.
#include "tests/flash_attention/case.hpp"

#ifdef INLAY_TESTS_CL

#include "cl_kernels/runtime/runtime.hpp"

namespace inlay::test {
namespace {

constexpr index part = 2048;

// So many rows that they go through parts in order on any device; a part ends amid them.
constexpr index queries = 172, group = 3, behind = 30;
static_assert(queries * group > part / 4);

// Chunks of growing size against the whole, and the whole against the reference.
template <class Change> void chunks_over(index parts, DType kv, bool rising, Change&& change) {
  const index keys = (parts - 1) * part + behind, past = keys - queries;
  Rng rng(50);
  Case whole = make({.queries = queries, .keys = keys, .kv_heads = 1, .group = group, .dim = 9, .v_dim = 7}, rng,
                    DType::f32, kv);
  whole.causal = true;
  drift(whole, rising);
  change(whole, rng);
  const Expected<Case> expected(whole);
  ASSERT_TRUE(expected.ran());
  on_every_cl([&](const std::string&, auto run) {
    Case all = whole, chunks = whole;
    ASSERT_TRUE(ok(run(all.op())));
    expected.compare(all);
    for (index begin = 0, step = 1; begin < queries; begin += step, step = step * 3 + 1) {
      const index count = std::min(step, queries - begin), end = past + begin + count;
      FlashAttention<Host> op = chunks.op();
      op.q = op.q.slice(1, begin, count), op.out = op.out.slice(1, begin, count);
      op.lse = op.lse.slice(1, begin, count);
      op.k = op.k.slice(1, 0, end), op.v = op.v.slice(1, 0, end);
      if (op.mask.present()) op.mask = op.mask.slice(2, begin, count).slice(3, 0, end);
      ASSERT_TRUE(ok(run(op)));
    }
    expect_equal(chunks.out.memory, all.out.memory);
    expect_equal(chunks.lse, all.lse);
  });
}

TEST(flash_attention, parts_of_chunks_have_the_bits_of_the_whole) {
  for (bool rising : {false, true}) {
    const DType kv = rising ? DType::f16 : DType::i8;
    ASSERT_NO_FATAL_FAILURE(chunks_over(2, kv, rising, [&](Case& c, Rng& rng) {
      c.sinks = random_sinks(group, rng);
      if (kv == DType::i8) c.v_offset = Tensor<4>(DType::f32, {1, 1, 1, 7}).uniform(rng, -20, 20);
    }));
  }
}

// The first part that a row sees is another one within a unit: 0, from some row on 1.
TEST(flash_attention, parts_that_windows_leave_have_the_bits_of_the_whole) {
  ASSERT_NO_FATAL_FAILURE(chunks_over(3, DType::f32, false, [&](Case& c, Rng&) { c.left = part - 18; }));
}

// Parts in which a row sees nothing: the first, the one between, the last, and all of them.
TEST(flash_attention, parts_under_masks_have_the_bits_of_the_whole) {
  ASSERT_NO_FATAL_FAILURE(chunks_over(3, DType::f16, true, [](Case& c, Rng& rng) {
    const index keys = c.longest;
    c.mask = {DType::boolean, {1, 1, queries, keys}};
    c.mask.integers(rng, 0, 1);
    for (index i = 0; i < c.mask.size(); ++i) {
      const index which = i / keys % 5, of = i % keys / part;
      if (which == of || which == 3) c.mask.set(i, 1);
    }
    c.softcap = 3;
  }));
}

// As many sequences as keep a device busy by themselves, of lengths around the ends of parts: each has the bits that it
// has alone, ragged and in blocks too.
TEST(flash_attention, parts_of_a_sequence_beside_others_and_alone) {
  Rng rng(53);
  const std::array<index, 6> lengths{2 * part + 5, part, part + 1, 3, 2 * part, part - 1};
  on_every_cl([&](const std::string&, auto run) {
    index batch = 6;
    for (WatchedCl& watched : cl_devices_to_test()) batch = std::max(batch, watched.cl().runtime().busy_groups());
    Case c = make({.batch = batch, .queries = 2, .keys = lengths[0], .kv_heads = 1, .group = 2, .dim = 8, .v_dim = 8},
                  rng, DType::f32, DType::f16);
    std::vector<index> keys;
    for (index b = 0; b < batch; ++b) keys.push_back(lengths[static_cast<std::size_t>(b) % 6]);
    c.kv_lens = list_of(DType::i32, keys);
    c.causal = true;
    Case together = c, paged = c;
    ASSERT_TRUE(ok(run(together.op())));
    for (index b = 0; b < 6; ++b) {
      Case alone = c;
      FlashAttention<Host> op = alone.op();
      const auto of = [b](auto& view) { view = view.slice(0, b, 1); };
      of(op.q), of(op.k), of(op.v), of(op.out), of(op.lse), of(op.kv_lens);
      ASSERT_TRUE(ok(run(op)));
      for (index i = b * 32; i < (b + 1) * 32; ++i)
        EXPECT_EQ(alone.out.memory.get(i), together.out.memory.get(i)) << "sequence " << b;
      for (index i = b * 4; i < (b + 1) * 4; ++i) EXPECT_EQ(alone.lse.get(i), together.lse.get(i)) << "sequence " << b;
    }
    page(paged, 96, rng);
    ASSERT_TRUE(ok(run(paged.op())));
    expect_equal(paged.out.memory, together.out.memory);
    expect_equal(paged.lse, together.lse);
  });
}

// What the workspace holds tells which way parts go.
std::size_t scratch_of(Cl& cl, index batch, index rows, index keys) {
  const FlashAttention<Cl> op{.q = {{}, DType::f16, {batch, rows, 1, 16}},
                              .k = {{}, DType::f16, {batch, keys, 1, 16}},
                              .v = {{}, DType::f16, {batch, keys, 1, 16}},
                              .out = {{}, DType::f16, {batch, rows, 1, 16}}};
  return scratch_bytes(cl, op);
}

TEST(flash_attention, parts_go_side_by_side_where_units_are_few) {
  for (WatchedCl& watched : cl_devices_to_test()) {
    SCOPED_TRACE(watched.label());
    Cl& cl = watched.cl();
    const index busy = cl.runtime().busy_groups();
    const auto beyond = [&](index batch, index rows, index keys) {  // what the sequences need
      return scratch_of(cl, batch, rows, keys) - scratch_of(cl, batch, rows, part);
    };
    const auto floats = [](index count) { return WorkspaceCutter::padded<float>(count); };
    EXPECT_EQ(beyond(1, 3, part), 0u);
    EXPECT_EQ(beyond(1, 3, part + 1), floats(2 * 3 * 16) + floats(2 * 3 * 2));
    EXPECT_EQ(beyond(1, 3, 7 * part), floats(7 * 3 * 16) + floats(7 * 3 * 2));
    const bool in_memory = !cl.runtime().per_item();  // a work-item keeps what it has so far
    EXPECT_EQ(beyond(busy, 3, 7 * part), in_memory ? floats(busy * 3 * 16) : 0);
    EXPECT_EQ(beyond(1, part / 4 + 1, 7 * part), in_memory ? floats((part / 4 + 1) * 16) : 0);
    EXPECT_EQ(beyond(1, 1, 65536 * part), in_memory ? floats(16) : 0);
  }
}

}  // namespace
}  // namespace inlay::test

#endif
