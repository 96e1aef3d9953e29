// Latent attention in GGUF (`deepseek2`, `minicpm3`): its keys, and its tensors of two generations.
//
//   older   head_count_kv heads, key_length of k, value_length of v
//           attn_kv_b {heads * (nope + value), kv_rank}: of each head the rows of k above those of v
//   newer   head_count_kv 1, key_length_mla of k, value_length_mla of v
//           attn_k_b {heads, kv_rank, nope}, each head's transposed, and attn_v_b {heads, value, kv_rank}
//
// Both are read, and become the older ones; those are written.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "executor/model/family.hpp"
#include "executor/model/gguf/metadata.hpp"
#include "executor/model/gguf/writer.hpp"

namespace inlay::exec {

// Fills config.latent, config.head_dim and config.kv_heads; those of a family without latent attention are left alone.
// Behind everything else of heads and norms.
void read_gguf_latent(GgufMetadata& meta, const std::string& arch, const Family& family, ModelConfig& config);

void write_gguf_latent(const ModelConfig& config, const std::string& arch, GgufWriter& writer);

// How YaRN sharpens what does not turn, in a key that other families must not have (read_rope reads what turns).
void read_gguf_latent_scale(GgufMetadata& meta, const std::string& arch, ModelConfig& config);

// Puts attn_kv_b, of floats, in the place of each layer's attn_k_b and attn_v_b.
Status join_gguf_latent(const ModelConfig& config, const std::string& origin, std::vector<WeightTensor>& tensors,
                        std::vector<std::shared_ptr<const Mapping>>& memory);

}  // namespace inlay::exec
