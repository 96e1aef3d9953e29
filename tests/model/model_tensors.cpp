// The list of a model's tensors, against one written out by hand.
#include <inlay/model/model_tensors.hpp>

#include "tests/model/support/tiny_model.hpp"

namespace inlay::exec::test {
namespace {

// "blk.0.attn_q.weight 32 32", in order.
std::vector<std::string> listed(const ModelConfig& config) {
  std::vector<std::string> all;
  const Status status = for_each_tensor(config, [&](const TensorFacts& facts) {
    std::string line = facts.name;
    for (int d = 0; d < facts.rank; ++d) line += " " + std::to_string(facts.extents[static_cast<std::size_t>(d)]);
    all.push_back(line + (facts.required ? "" : " optional"));
    return Status{};
  });
  EXPECT_TRUE(status) << status.message();
  return all;
}

TEST(model_tensors, a_model_is_these) {
  ModelConfig c = tiny_config();
  EXPECT_EQ(listed(c), (std::vector<std::string>{
                           "output.weight 264 32", "token_embd.weight 264 32", "rope_freqs.weight 4 optional",
                           "rope_factors_short.weight 4 optional", "rope_factors_long.weight 4 optional",
                           "blk.0.attn_norm.weight 32", "blk.0.attn_q.weight 32 32", "blk.0.attn_k.weight 16 32",
                           "blk.0.attn_v.weight 16 32", "blk.0.attn_output.weight 32 32", "blk.0.ffn_norm.weight 32",
                           "blk.0.ffn_gate.weight 32 32", "blk.0.ffn_up.weight 32 32", "blk.0.ffn_down.weight 32 32",
                           "output_norm.weight 32"}));
  c.tie_embeddings = c.qkv_bias = c.output_bias = true;
  c.qk_norm = QkNorm::head;
  c.layers = 2;
  c.set_layers({{32, 0, 0}, {48, 0, 0}});
  const std::vector<std::string> all = listed(c);
  ASSERT_EQ(all.size(), 5 + 2 * 15u);
  EXPECT_EQ(all.front(), "token_embd.weight 264 32");
  EXPECT_EQ(
      std::vector<std::string>(all.begin() + 19, all.end()),
      (std::vector<std::string>{"blk.1.attn_norm.weight 32", "blk.1.attn_q.weight 32 32", "blk.1.attn_q.bias 32",
                                "blk.1.attn_k.weight 16 32", "blk.1.attn_k.bias 16", "blk.1.attn_v.weight 16 32",
                                "blk.1.attn_v.bias 16", "blk.1.attn_q_norm.weight 8", "blk.1.attn_k_norm.weight 8",
                                "blk.1.attn_output.weight 32 32", "blk.1.attn_output.bias 32",
                                "blk.1.ffn_norm.weight 32", "blk.1.ffn_gate.weight 48 32", "blk.1.ffn_up.weight 48 32",
                                "blk.1.ffn_down.weight 32 48", "output_norm.weight 32"}));
}

TEST(model_tensors, latent_attention_has_these) {
  ModelConfig c = tiny_config();
  c.kv_heads = 4, c.head_dim = 10, c.ropes[0].dim = 4;
  c.latent = {.kv_rank = 12, .q_rank = 20, .rope_dim = 4, .value_dim = 7};
  const auto of_attention = [&] {
    const std::vector<std::string> all = listed(c);
    const auto begin = std::find(all.begin(), all.end(), "blk.0.attn_norm.weight 32");
    return std::vector<std::string>(begin + 1, std::find(begin, all.end(), "blk.0.ffn_norm.weight 32"));
  };
  EXPECT_EQ(of_attention(), (std::vector<std::string>{"blk.0.attn_q_a.weight 20 32", "blk.0.attn_q_a_norm.weight 20",
                                                      "blk.0.attn_q_b.weight 40 20", "blk.0.attn_kv_a_mqa.weight 16 32",
                                                      "blk.0.attn_kv_a_norm.weight 12", "blk.0.attn_kv_b.weight 52 12",
                                                      "blk.0.attn_output.weight 32 28"}));
  c.latent.q_rank = 0;
  EXPECT_EQ(of_attention(), (std::vector<std::string>{"blk.0.attn_q.weight 40 32", "blk.0.attn_kv_a_mqa.weight 16 32",
                                                      "blk.0.attn_kv_a_norm.weight 12", "blk.0.attn_kv_b.weight 52 12",
                                                      "blk.0.attn_output.weight 32 28"}));
}

TEST(model_tensors, the_first_failure_ends_the_list) {
  int visited = 0;
  const Status status = for_each_tensor(tiny_config(), [&](const TensorFacts& facts) {
    ++visited;
    return facts.part == Part::k ? Status(StatusCode::not_found, facts.name) : Status{};
  });
  EXPECT_EQ(status.message(), "blk.0.attn_k.weight");
  EXPECT_EQ(visited, 8);
}

}  // namespace
}  // namespace inlay::exec::test
