#include "executor/model/hf/latent.hpp"

#include <algorithm>
#include <iterator>
#include <utility>

namespace inlay::exec {

bool is_hf_latent_key(std::string_view key, const Latent& latent) {
  constexpr std::string_view keys[] = {"kv_lora_rank",     "q_lora_rank", "qk_head_dim",
                                       "qk_nope_head_dim", "v_head_dim",  "qk_rope_head_dim"};
  return latent.kv_rank > 0 && std::find(std::begin(keys), std::end(keys), key) != std::end(keys);
}

Status read_hf_latent(const Json& json, const std::string& origin, const Latent& latent, ModelConfig& c) {
  if (latent.kv_rank == 0) return {};
  JsonFields f(json, origin);
  LatentConfig& l = c.latent;
  index nope = latent.nope_dim;
  l = {.kv_rank = latent.kv_rank,
       .q_rank = json.contains("q_lora_rank") ? 0 : latent.q_rank,  // null: q is one linear of x
       .rope_dim = latent.rope_dim,
       .value_dim = latent.value_dim > 0 ? latent.value_dim : c.dim / c.heads};
  for (const auto& [key, to] : {std::pair{"kv_lora_rank", &l.kv_rank},
                                {"q_lora_rank", &l.q_rank},
                                {"qk_nope_head_dim", &nope},
                                {"qk_rope_head_dim", &l.rope_dim},
                                {"v_head_dim", &l.value_dim}}) {
    constexpr index most = index{1} << 28;  // before they are added and multiplied
    if (f.integer(key, *to) && (*to < 1 || *to > most))
      f.fail(StatusCode::corrupt_data,
             std::string(key) + " is " + std::to_string(*to) + "; it must be 1 to " + std::to_string(most));
  }
  // transformers writes two lengths more, which follow from these: of what turns, and of a whole head.
  const std::pair<const char*, index> follow[] = {{"head_dim", l.rope_dim}, {"qk_head_dim", nope + l.rope_dim}};
  for (const auto& [key, must] : follow)
    if (index said = must; f.integer(key, said) && said != must)
      f.fail(StatusCode::corrupt_data,
             std::string(key) + " is " + std::to_string(said) + "; it must be " + std::to_string(must));
  c.head_dim = nope + l.rope_dim;
  if (f.ok() && c.kv_heads != c.heads)
    f.fail(StatusCode::unsupported, "num_key_value_heads is " + std::to_string(c.kv_heads) + "; it must be " +
                                        std::to_string(c.heads) + ", the heads, where attention is latent");
  return f.take_status();
}

}  // namespace inlay::exec
