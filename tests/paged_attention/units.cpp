// How a call is cut: groups beyond a tile of rows, kv heads that share a unit, chunks, threads, scratch.
#include "cpu_kernels/attention/rows.hpp"
#include "tests/paged_attention/bound.hpp"
#include "tests/support/handed_out.hpp"

namespace inlay::test {
namespace {

using cpu::key_tile;
using cpu::max_rows;
using cpu::row_tile;
using cpu::shared_unit_rows;

TEST(paged_attention, groups) {
  Rng rng(3);
  for (index group : {1, 2, 3, 4, 5, 7, 8, 9, 16})
    for (Pages pages : {Pages::flat, Pages::vllm}) {
      SCOPED_TRACE(name(pages));
      ASSERT_NO_FATAL_FAILURE(compare(
          make({.lens = {65, 3}, .q_heads = 3 * group, .kv_heads = 3, .key_dim = 12, .value_dim = 12, .pages = pages},
               rng)));
    }
}

// Groups that fill a unit, or more than one, and kv heads that fit into a unit together, or just do not.
TEST(paged_attention, groups_around_a_unit_of_rows) {
  Rng rng(35);
  struct Heads {
    index group, kv;
  };
  std::vector<Heads> all = {{71, 2}, {128, 1}, {2 * max_rows + 1, 1}};
  for (index more : {-1, 0, 1}) {
    all.push_back({shared_unit_rows + more, 3});
    all.push_back({max_rows + more, 2});
    all.push_back({1, max_rows + more});
  }
  for (Heads heads : all)
    for (Pages pages : {Pages::flat, Pages::vllm})
      for (DType cache : {DType::f32, DType::i8}) {
        SCOPED_TRACE(name(pages));
        Case c = make({.lens = {5, 75},
                       .q_heads = heads.group * heads.kv,
                       .kv_heads = heads.kv,
                       .key_dim = 4,
                       .value_dim = 3,
                       .block_size = 16,
                       .cache = cache,
                       .pages = pages},
                      rng);
        c.sinks = random_sinks(c.q_heads, rng);
        c.slopes = alibi_slopes(c.q_heads);
        c.extra.partition = 40;
        ASSERT_NO_FATAL_FAILURE(compare(c));
      }
}

// The tokens of a chunk: from all of a tile down to the fewest, as the keys of one token grow.
TEST(paged_attention, chunks_of_every_length) {
  Rng rng(36);
  for (index kv_chunk = key_tile; kv_chunk >= row_tile; kv_chunk /= 2) {
    constexpr index dim = 16;
    index heads = 1;
    while (cpu::kv_chunk_tokens(heads * dim * 4) > kv_chunk) ++heads;
    ASSERT_EQ(cpu::kv_chunk_tokens(heads * dim * 4), kv_chunk);
    for (Pages pages : all_pages) {
      SCOPED_TRACE(describe(name(pages), "chunk", kv_chunk));
      Case c = make({.lens = {key_tile + kv_chunk / 2 + 1, kv_chunk + 1},
                     .q_heads = heads,
                     .kv_heads = heads,
                     .key_dim = dim,
                     .value_dim = 4,
                     .block_size = 24,
                     .cache = DType::f32,
                     .pages = pages},
                    rng);
      c.extra.partition = 52;  // the second part begins in the middle of a tile
      ASSERT_NO_FATAL_FAILURE(compare(c));
    }
  }
}

// Neither threads nor neighbours in the batch leave a trace.
TEST(paged_attention, bits_depend_on_the_sequence_alone) {
  Rng rng(13);
  for (Pages pages : all_pages)
    for (DType cache : {DType::f16, DType::i8}) {
      SCOPED_TRACE(name(pages));
      Case start = make({.lens = {300, 77, 0, 130},
                         .q_heads = 14,
                         .kv_heads = 2,
                         .key_dim = 40,
                         .value_dim = 40,
                         .cache = cache,
                         .pages = pages},
                        rng);
      start.extra.partition = 64;
      start.extra.window_left = 270;
      for (Isa isa : available_isas()) {
        SCOPED_TRACE(inlay::name(isa));
        Case first = start;
        const Cpu one(isa, serial());
        ASSERT_TRUE(ok(run_with_scratch(one, first.op())));
        // Width decides how heads are cut; 16 of them need no 16 threads.
        Parallel wide = test::handed_out(2);
        wide.width = 16;
        for (const Parallel& parallel : {test::handed_out(2), test::handed_out(3), wide}) {
          Case got = start;
          const Cpu many(isa, parallel);
          ASSERT_TRUE(ok(run_with_scratch(many, got.op())));
          expect_equal(got.out, first.out);
          expect_equal(got.lse, first.lse);
        }
        for (index b : {0, 1, 3}) {
          Case got = start;
          PagedAttention<Host> alone = got.op();
          alone.q = alone.q.slice(0, b, 1);
          alone.block_table = alone.block_table.slice(0, b, 1);
          alone.kv_lens = alone.kv_lens.slice(0, b, 1);
          alone.out = alone.out.slice(0, b, 1);
          alone.lse = alone.lse.slice(0, b, 1);
          ASSERT_TRUE(ok(run_with_scratch(one, alone)));
          for (index h = 0; h < 14; ++h) {
            ASSERT_EQ(got.lse.get(got.lse_at(b, h)), first.lse.get(got.lse_at(b, h)));
            for (index d = 0; d < 40; ++d)
              ASSERT_EQ(got.out.get(got.out_at(b, h, d)), first.out.get(got.out_at(b, h, d)));
          }
        }
      }
    }
}

// The workspace is what the table asks for, whatever the contexts are; nothing behind its end is written.
TEST(paged_attention, scratch_is_enough_and_no_more_is_written) {
  Rng rng(37);
  for (std::vector<index> lens : {std::vector<index>{300}, {300, 0, 40}, {64, 65, 1, 2, 3, 4, 5, 6, 7}})
    for (index group : {index{1}, index{7}, max_rows + 1})
      for (index partition : {0, 30, 64}) {
        Case start = make({.lens = lens, .q_heads = 2 * group, .kv_heads = 2, .key_dim = 20, .value_dim = 9}, rng);
        start.extra.partition = partition;
        Case shorter = start;
        for (index b = 0; b < shorter.lens.size(); ++b) shorter.lens.set(b, std::min(shorter.lens.get(b), 1.0));
        Parallel wide = test::handed_out(2);
        wide.width = 16;
        for (const Parallel& parallel : {serial(), test::handed_out(2), test::handed_out(3), wide}) {
          const Cpu cpu(available_isas().back(), parallel);
          const index bytes = static_cast<index>(workspace_bytes(cpu, start.op()));
          EXPECT_EQ(static_cast<index>(workspace_bytes(cpu, shorter.op())), bytes);
          constexpr unsigned char guard = 0x5a;
          const Bytes memory(static_cast<std::size_t>(bytes) + 4096, guard);
          Case got = start;
          ASSERT_TRUE(
              ok(run(cpu, got.op(), {reinterpret_cast<std::byte*>(memory.data()), static_cast<std::size_t>(bytes)})));
          for (index i = bytes; i < static_cast<index>(memory.size()); ++i)
            ASSERT_EQ(memory.data()[i], guard) << i - bytes;
        }
      }
}

}  // namespace
}  // namespace inlay::test
