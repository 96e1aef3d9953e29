// The rows of families with latent attention.
#include "executor/model/family.hpp"

namespace inlay::exec {
namespace {

constexpr auto interleaved = RopeConfig::Pairing::interleaved;
constexpr FlagKey never = {};

// Kimi K2 is DeepSeek V3 with other numbers, which its files say.
constexpr Family deepseek_v3 = {
    .hf = "deepseek_v3",
    .gguf = "deepseek2",
    .pairing = interleaved,
    .pairing_key = "rope_interleave",
    .gguf_pairing = interleaved,
    .context = 4096,
    .qkv_bias = never,
    .output_bias = never,
    .mlp_bias = never,
    .latent = {.q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128},
    .mixture = {.count_key = "n_routed_experts",
                .count = 256,
                .top_k = 8,
                .hidden = 2048,
                .score = MoeScore::sigmoid,
                .renormalize = {"norm_topk_prob", true},
                .choice_bias = true,
                .in_groups = true,
                .groups = 8,
                .groups_kept = 4,
                .scale = 2.5,
                .shared = Mixture::Shared::counted,
                .sparse = Mixture::Sparse::behind_first,
                .first_dense = 3,
                .gguf = true},
    .more_layers = true,
    .idle_keys = " aux_loss_alpha ep_size num_mtp_layers num_nextn_predict_layers seq_aux "};
constexpr Family named(std::string_view hf, Family row) {
  row.hf = hf;
  return row;
}

constexpr Family table[] = {
    {.hf = "minicpm3",
     .gguf = "minicpm3",
     .context = 32768,
     .norm_eps = 1e-5,
     .tied = true,
     .qkv_bias = never,
     .output_bias = never,
     .scales = Scales::minicpm,
     .latent = {.q_rank = 768, .kv_rank = 256, .nope_dim = 64, .rope_dim = 32}},
    {.hf = "youtu",
     .pairing = interleaved,
     .pairing_key = "rope_interleave",
     .context = 131072,
     .tied = true,
     .qkv_bias = never,
     .output_bias = never,
     .mlp_bias = never,
     .latent = {.q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128},
     .idle_keys = " embedding_initializer_range "},
    {.hf = "deepseek_v2",
     .gguf = "deepseek2",
     .pairing = interleaved,
     .gguf_pairing = interleaved,
     .qkv_bias = never,
     .output_bias = never,
     .mlp_bias = never,
     .latent = {.q_rank = 1536, .kv_rank = 512, .nope_dim = 128, .rope_dim = 64, .value_dim = 128},
     .mixture = {.count_key = "n_routed_experts",
                 .count = 64,
                 .hidden = 1407,
                 .in_groups = true,
                 .by_method = true,
                 .shared = Mixture::Shared::counted,
                 .shared_count = 2,
                 .sparse = Mixture::Sparse::behind_first,
                 .gguf = true},
     .more_layers = true,
     .idle_keys = " aux_loss_alpha ep_size seq_aux "},
    deepseek_v3,
    named("kimi_k2", deepseek_v3),
    {.hf = "glm4_moe_lite",
     .gguf = "deepseek2",
     .pairing = interleaved,
     .pairing_key = "rope_interleave",
     .gguf_pairing = interleaved,
     .context = 202752,
     .norm_eps = 1e-5,
     .qkv_bias = never,
     .output_bias = never,
     .mlp_bias = never,
     .latent = {.q_rank = 768, .kv_rank = 512, .nope_dim = 192, .rope_dim = 64, .value_dim = 256},
     .mixture = {.count_key = "n_routed_experts",
                 .count = 64,
                 .top_k = 4,
                 .hidden = 1536,
                 .score = MoeScore::sigmoid,
                 .renormalize = {"norm_topk_prob", true},
                 .choice_bias = true,
                 .in_groups = true,
                 .scale = 1.8,
                 .shared = Mixture::Shared::counted,
                 .sparse = Mixture::Sparse::listed,
                 .gguf = true},
     .more_layers = true,
     .idle_keys = " first_k_dense_replace num_mtp_layers num_nextn_predict_layers "},
};

}  // namespace

std::span<const Family> latent_families() { return table; }

}  // namespace inlay::exec
