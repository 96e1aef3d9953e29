// One case of reshape_and_cache, and what its cache must hold afterwards, element for element.
#pragma once

#include <inlay/ops/kv_cache.hpp>

#include <map>
#include <optional>

#include "tests/support/backends.hpp"
#include "tests/support/cases.hpp"
#include "tests/support/compare.hpp"
#include "tests/support/paged.hpp"
#include "tests/support/tolerance.hpp"

namespace inlay::test {

constexpr double untouched = 7;

// Keys and values are parts of one fused row, head by head [. | key | value], with a head to spare.
struct Case {
  Tensor<3> fused;
  index heads, key_dim, value_dim;
  Pool keys, values;
  Tensor<3> k_scale = {}, v_scale = {};  // of an int8 cache, with a head to spare
  Tensor<1> slots;

  ConstView<3> part(index first, index dim) {
    const View<3> all = fused;
    return all.slice(1, 0, heads).slice(2, first, dim);
  }
  View<3> scales_of(Tensor<3>& scales) const { return scales.present() ? scales.view().slice(1, 1, heads) : View<3>(); }
  ReshapeAndCache<Host> op() {
    ReshapeAndCache<Host> op{.k = part(1, key_dim),
                             .v = part(1 + key_dim, value_dim),
                             .k_cache = keys,
                             .v_cache = values,
                             .slot_mapping = slots};
    op.k_scale = scales_of(k_scale);
    op.v_scale = scales_of(v_scale);
    return op;
  }
  double source(bool value, index t, index h, index d) const {
    const index width = fused.extents()[2];
    return fused.get((t * fused.extents()[1] + h) * width + 1 + (value ? key_dim : 0) + d);
  }
  static index scale_at(const Tensor<3>& scales, index slot, index h) {
    const index block_size = scales.extents()[2];
    return (slot / block_size * scales.extents()[1] + 1 + h) * block_size + slot % block_size;
  }
};

struct Shape {
  index tokens, block_size, heads = 2, key_dim = 8, value_dim = 3;
  index x = 0;  // of pieces
  std::optional<Pages> value_pages = {};
};

// Slots in any order, each once; every fifth token is skipped.
inline Case make(DType type, DType cache, Pages pages, const Shape& shape, Layout layout, Rng& rng) {
  const auto& [tokens, block_size, heads, key_dim, value_dim, x, value_pages] = shape;
  const index blocks = tokens / block_size + 3, slot_total = blocks * block_size;
  const PoolShape pool{blocks, block_size, heads, key_dim, x, 1};
  PoolShape value_pool = pool;
  value_pool.dim = value_dim;
  if (x > 0 && value_dim % x != 0) value_pool.x = 0;
  Case c{.fused = {type, {tokens, heads + 1, 1 + key_dim + value_dim}, layout},
         .heads = heads,
         .key_dim = key_dim,
         .value_dim = value_dim,
         .keys = {cache, pool, pages, Pool::keys, layout},
         .values = {cache, value_pool, value_pages.value_or(pages), Pool::values, layout},
         .slots = {DType::i64, {tokens}}};
  c.fused.uniform(rng, -3, 3);
  c.keys.memory.fill(untouched);
  c.values.memory.fill(untouched);
  if (cache == DType::i8)
    c.k_scale = c.v_scale = Tensor<3>(DType::f32, {blocks, heads + 2, block_size}, layout).fill(untouched);
  std::vector<index> order(static_cast<std::size_t>(slot_total));
  std::iota(order.begin(), order.end(), 0);
  std::shuffle(order.begin(), order.end(), rng);
  for (index t = 0; t < tokens; ++t) c.slots.set(t, t % 5 == 3 ? -1 : static_cast<double>(order[t]));
  return c;
}

// The case with its cache written by hand: the last token of each slot, rounded to nearest even; int8 by max / 127.
inline Case written(const Case& start) {
  Case c = start;
  std::map<index, index> last;  // slot -> token
  for (index t = 0; t < c.slots.size(); ++t)
    if (c.slots.get(t) >= 0) last[static_cast<index>(c.slots.get(t))] = t;
  for (const auto& [slot, t] : last)
    for (index h = 0; h < c.heads; ++h)
      for (bool value : {false, true}) {
        Pool& pool = value ? c.values : c.keys;
        Tensor<3>& scales = value ? c.v_scale : c.k_scale;
        const index dim = value ? c.value_dim : c.key_dim;
        float scale = 0;
        for (index d = 0; d < dim; ++d) scale = std::max(scale, static_cast<float>(std::abs(c.source(value, t, h, d))));
        scale /= 127;
        if (scales.present()) scales.set(Case::scale_at(scales, slot, h), scale);
        for (index d = 0; d < dim; ++d) {
          const double x = c.source(value, t, h, d);
          pool.set(slot, h, d, !scales.present() ? x : scale > 0 ? std::nearbyint(static_cast<float>(x) / scale) : 0);
        }
      }
  return c;
}

// All of the memory, whoever named it, and what lies around.
template <int Rank> void expect_same_memory(const Tensor<Rank>& got, const Tensor<Rank>& right) {
  if (got.same_bytes(right)) return;
  expect_equal(got, right);
  EXPECT_TRUE(got.gaps_untouched());
}

// Conversions round to nearest even and the quotient is f32's, so every backend writes the same numbers.
inline void expect_same_memory(const Case& got, const Case& right) {
  expect_same_memory(got.keys.memory, right.keys.memory);
  expect_same_memory(got.values.memory, right.values.memory);
  expect_same_memory(got.k_scale, right.k_scale);
  expect_same_memory(got.v_scale, right.v_scale);
}

// Runs tasks on the caller's thread, the last one first: what depends on their order comes out wrong every time.
inline Parallel backwards(int width) {
  return {.context = nullptr, .width = width, .run = [](void*, index tasks, void (*task)(void*, index), void* data) {
            for (index i = tasks; i-- > 0;) task(data, i);
          }};
}

template <class Test> void on_backwards(Test&& test) {
  for (int width : {2, 16}) {
    SCOPED_TRACE("backwards, " + std::to_string(width));
    const Cpu cpu(available_isas().back(), backwards(width));
    test([&](const auto& op) { return run_with_scratch(cpu, op); });
    if (::testing::Test::HasFatalFailure()) return;
  }
}

inline void compare(const Case& start) {
  const Case right = written(start);
  against_the_reference(start, [&](const Case& expected, const Case& got) {
    ASSERT_NO_FATAL_FAILURE(expect_same_memory(expected, right));
    expect_same_memory(got, right);
  });
  on_backwards([&](auto run) {
    Case got = start;
    ASSERT_TRUE(ok(run(got.op())));
    expect_same_memory(got, right);
  });
}

INLAY_RUNS_OF(ReshapeAndCache, extern);
INLAY_RUNS_OF(CopyBlocks, extern);

}  // namespace inlay::test
