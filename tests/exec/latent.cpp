// Latent attention in the executor: what the cache of k and v of different widths holds, how weights are packed, and
// that a text may take every way. That it computes what transformers does is tests/exec/families.cpp's.
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include <inlay/exec/decoder.hpp>
#include <inlay/exec/tensors.hpp>

#include "tests/exec/support/random_session.hpp"
#include "tests/support/backends.hpp"

namespace inlay::exec::test {
namespace {

using inlay::test::cpus, inlay::test::ok;

TEST(latent, keys_and_values_have_widths_of_their_own) {
  HostTensors tensors;
  const auto pool = KvPool<>::make(
      {.layers = 3, .kv_heads = 6, .head_dim = 20, .value_dim = 9, .dtype = DType::f16, .block_size = 4, .blocks = 5},
      tensors);
  ASSERT_TRUE(pool);
  EXPECT_EQ(pool->bytes(), 3u * 5 * 4 * 6 * (20 + 9) * 2);
  const auto* const first_key = static_cast<const char*>(pool->layer(0).k.data);
  const auto* const first_value = static_cast<const char*>(pool->layer(0).v.data);
  for (index layer = 0; layer < 3; ++layer) {
    EXPECT_EQ(pool->layer(layer).k.extents, (std::array<index, 4>{5, 4, 6, 20}));
    EXPECT_EQ(pool->layer(layer).v.extents, (std::array<index, 4>{5, 4, 6, 9}));
    EXPECT_EQ(static_cast<const char*>(pool->layer(layer).k.data) - first_key, layer * 5 * 4 * 6 * 20 * 2);
    EXPECT_EQ(static_cast<const char*>(pool->layer(layer).v.data) - first_value, layer * 5 * 4 * 6 * 9 * 2);
  }
  Session session = test::session(tiny_latent(24), "f32", Eager(Cpu()), {.block_size = 16});
  EXPECT_EQ(session.cache_bytes(), 2u * 96 * 6 * (20 + 9) * 2);
}

// Weights of every form that rounds no activation, whose first linears are joined where they are whole panels.
TEST(latent, every_form_of_weights_takes_every_way) {
  for (const bool panels : {false, true})
    for (const index q_rank : {index{0}, index{panels ? 48 : 10}})
      for (const char* type : {"f32", "f16", "bf16", "w4a16"}) {
        if (!panels && std::string(type) == "w4a16") continue;  // random codes come in whole groups
        SCOPED_TRACE(std::string(type) + " " + std::to_string(q_rank));
        const ModelConfig config = tiny_latent(q_rank, panels);
        const auto prompt = tokens(21, config.vocab);
        Session reference = session(config, type, Eager(Reference{}), {.kv_type = DType::f32});
        const auto expected = all(reference, reference.append(prompt, 21)), next = all(reference, reference.decode(5));
        for (const Cpu& cpu : cpus()) {
          SCOPED_TRACE(inlay::test::name(cpu));
          Session fast = session(config, type, Eager(cpu), {.chunk = 8, .kv_type = DType::f32});
          EXPECT_LE(distance(all(fast, fast.append(prompt, 21)), expected), 3e-5 * magnitude(expected));
          EXPECT_LE(distance(all(fast, fast.decode(5)), next), 3e-5 * magnitude(next));
        }
      }
}

// The linears behind the latent vectors count, too: one that is a float can be rounded to bf16.
TEST(latent, forms_of_all_linears_are_asked) {
  auto weights = random_weights(tiny_latent(24), "f32", serial());
  ASSERT_TRUE(weights);
  EXPECT_TRUE(weights->all_linears_are(true));
  auto codes = random_weights(tiny_latent(24), "int8", serial());
  ASSERT_TRUE(codes);
  for (LinearWeight LatentWeights::*member : {&LatentWeights::q_b, &LatentWeights::kv_b}) {
    std::swap(weights->layers[1].latent.*member, codes->layers[1].latent.*member);
    EXPECT_FALSE(weights->all_linears_are(true));
    std::swap(weights->layers[1].latent.*member, codes->layers[1].latent.*member);
  }
}

}  // namespace
}  // namespace inlay::exec::test
