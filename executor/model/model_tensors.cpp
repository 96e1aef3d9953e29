#include <algorithm>

#include <inlay/model/model_tensors.hpp>

namespace inlay::exec {

namespace {

enum class Size : unsigned char {
  none,
  dim,
  q,
  kv,
  q_norm,
  k_norm,
  q_rank,
  kv_rank,
  kv_a,
  kv_b,
  attended,
  hidden,
  vocab,
  heads,
  rope_pairs,
  experts,
  expert_hidden,
  shared_hidden,
  one,
  layer_input,
  layer_inputs  // of all layers
};

struct Row {
  Part part;
  const char* name;
  Size rows, columns;  // a vector has rows only
  bool (*present)(const ModelConfig&, const LayerConfig&);
  bool required = true;
  Size matrices = Size::none;  // so many of them
};

using Config = ModelConfig;
using Layer = LayerConfig;

bool always(const Config&, const Layer&) { return true; }
bool untied(const Config& c, const Layer&) { return !c.tie_embeddings; }
bool has_qkv_bias(const Config& c, const Layer&) { return c.qkv_bias; }
bool has_output_bias(const Config& c, const Layer&) { return c.output_bias; }
bool has_sinks(const Config& c, const Layer&) { return c.sinks; }
bool has_head_bias(const Config& c, const Layer&) { return c.head_bias; }
bool has_norm(const Config& c, const Layer&) { return c.norm_weights; }
bool has_norm_bias(const Config& c, const Layer&) { return c.norm_bias; }
bool has_attn_norm_bias(const Config& c, const Layer&) { return c.norm_bias && c.norms.before_attn; }
bool has_ffn_norm_bias(const Config& c, const Layer&) { return c.norm_bias && c.norms.before_ffn; }
bool has_kv(const Config& c, const Layer& layer) { return !c.is_latent() && layer.kv_layer == Layer::own_kv; }
bool has_v(const Config& c, const Layer& layer) { return has_kv(c, layer) && !layer.v_is_k; }
bool has_kv_bias(const Config& c, const Layer& layer) { return c.qkv_bias && has_kv(c, layer); }
bool has_v_bias(const Config& c, const Layer& layer) { return c.qkv_bias && has_v(c, layer); }
bool is_latent(const Config& c, const Layer&) { return c.is_latent(); }
bool has_q(const Config& c, const Layer&) { return c.latent.q_rank == 0; }
bool has_latent_q(const Config& c, const Layer&) { return c.latent.q_rank > 0; }
bool has_q_norm(const Config& c, const Layer&) { return c.norm_weights && c.qk_norm != QkNorm::none; }
bool has_k_norm(const Config& c, const Layer& layer) { return has_q_norm(c, layer) && has_kv(c, layer); }
bool before_attn(const Config& c, const Layer&) { return c.norm_weights && c.norms.before_attn; }
bool behind_attn(const Config& c, const Layer&) { return c.norm_weights && c.norms.behind_attn; }
bool before_ffn(const Config& c, const Layer&) { return c.norm_weights && c.norms.before_ffn; }
bool behind_ffn(const Config& c, const Layer&) { return c.norm_weights && c.norms.behind_ffn; }
bool has_inputs(const Config& c, const Layer&) { return c.layer_inputs.dim > 0; }
bool has_scale(const Config& c, const Layer&) { return c.layer_scales; }

bool dense(const Config& c, const Layer& layer) { return !layer.sparse || c.experts.beside; }
bool dense_gated(const Config& c, const Layer& layer) { return dense(c, layer) && c.gated; }
bool has_gate_bias(const Config& c, const Layer& layer) { return dense_gated(c, layer) && c.mlp_bias; }
bool has_mlp_bias(const Config& c, const Layer& layer) { return dense(c, layer) && c.mlp_bias; }

bool sparse(const Config&, const Layer& layer) { return layer.sparse; }
bool beside(const Config& c, const Layer& layer) { return layer.sparse && c.experts.beside; }
bool sparse_gated(const Config& c, const Layer& layer) { return layer.sparse && c.gated; }
bool has_expert_biases(const Config& c, const Layer& layer) { return layer.sparse && c.experts.biases; }
bool has_expert_gate_bias(const Config& c, const Layer& layer) { return has_expert_biases(c, layer) && c.gated; }
bool has_choice_bias(const Config& c, const Layer& layer) { return layer.sparse && c.experts.choice_bias; }
bool has_shared(const Config& c, const Layer& layer) { return layer.sparse && c.experts.shared_hidden > 0; }
bool has_gated_shared(const Config& c, const Layer& layer) { return has_shared(c, layer) && c.gated; }
bool has_shared_bias(const Config& c, const Layer& layer) { return has_shared(c, layer) && c.mlp_bias; }
bool has_shared_gate_bias(const Config& c, const Layer& layer) { return has_shared_bias(c, layer) && c.gated; }
bool has_shared_gate(const Config& c, const Layer& layer) { return has_shared(c, layer) && c.experts.shared_gate; }

// In the order of Part, which is the order of packing but for the last norm.
constexpr Row table[] = {
    {Part::head, "output.weight", Size::vocab, Size::dim, untied},
    {Part::embedding, "token_embd.weight", Size::vocab, Size::dim, always},
    {Part::head_bias, "output.bias", Size::vocab, Size::none, has_head_bias},
    {Part::rope_factors, "rope_freqs.weight", Size::rope_pairs, Size::none, always, false},
    {Part::rope_short, "rope_factors_short.weight", Size::rope_pairs, Size::none, always, false},
    {Part::rope_long, "rope_factors_long.weight", Size::rope_pairs, Size::none, always, false},
    {Part::layer_inputs_embedding, "per_layer_token_embd.weight", Size::vocab, Size::layer_inputs, has_inputs},
    {Part::layer_inputs_projection, "per_layer_model_proj.weight", Size::layer_inputs, Size::dim, has_inputs},
    {Part::layer_inputs_norm, "per_layer_proj_norm.weight", Size::layer_input, Size::none, has_inputs},
    {Part::output_norm, "output_norm.weight", Size::dim, Size::none, has_norm},
    {Part::output_norm_bias, "output_norm.bias", Size::dim, Size::none, has_norm_bias},

    {Part::attn_norm, "attn_norm.weight", Size::dim, Size::none, before_attn},
    {Part::attn_norm_bias, "attn_norm.bias", Size::dim, Size::none, has_attn_norm_bias},
    {Part::q, "attn_q.weight", Size::q, Size::dim, has_q},
    {Part::q_bias, "attn_q.bias", Size::q, Size::none, has_qkv_bias},
    {Part::q_a, "attn_q_a.weight", Size::q_rank, Size::dim, has_latent_q},
    {Part::q_a_norm, "attn_q_a_norm.weight", Size::q_rank, Size::none, has_latent_q},
    {Part::q_b, "attn_q_b.weight", Size::q, Size::q_rank, has_latent_q},
    {Part::kv_a, "attn_kv_a_mqa.weight", Size::kv_a, Size::dim, is_latent},
    {Part::kv_a_norm, "attn_kv_a_norm.weight", Size::kv_rank, Size::none, is_latent},
    {Part::kv_b, "attn_kv_b.weight", Size::kv_b, Size::kv_rank, is_latent},
    {Part::k, "attn_k.weight", Size::kv, Size::dim, has_kv},
    {Part::k_bias, "attn_k.bias", Size::kv, Size::none, has_kv_bias},
    {Part::v, "attn_v.weight", Size::kv, Size::dim, has_v},
    {Part::v_bias, "attn_v.bias", Size::kv, Size::none, has_v_bias},
    {Part::q_norm, "attn_q_norm.weight", Size::q_norm, Size::none, has_q_norm},
    {Part::k_norm, "attn_k_norm.weight", Size::k_norm, Size::none, has_k_norm},
    {Part::output, "attn_output.weight", Size::dim, Size::attended, always},
    {Part::output_bias, "attn_output.bias", Size::dim, Size::none, has_output_bias},
    {Part::sinks, "attn_sinks.weight", Size::heads, Size::none, has_sinks},
    {Part::attn_post_norm, "post_attention_norm.weight", Size::dim, Size::none, behind_attn},
    {Part::ffn_norm, "ffn_norm.weight", Size::dim, Size::none, before_ffn},
    {Part::ffn_norm_bias, "ffn_norm.bias", Size::dim, Size::none, has_ffn_norm_bias},
    {Part::gate, "ffn_gate.weight", Size::hidden, Size::dim, dense_gated},
    {Part::gate_bias, "ffn_gate.bias", Size::hidden, Size::none, has_gate_bias},
    {Part::up, "ffn_up.weight", Size::hidden, Size::dim, dense},
    {Part::up_bias, "ffn_up.bias", Size::hidden, Size::none, has_mlp_bias},
    {Part::down, "ffn_down.weight", Size::dim, Size::hidden, dense},
    {Part::down_bias, "ffn_down.bias", Size::dim, Size::none, has_mlp_bias},
    {Part::router, "ffn_gate_inp.weight", Size::experts, Size::dim, sparse},
    {Part::router_scale, "ffn_gate_inp.scale", Size::dim, Size::none, beside},
    {Part::router_bias, "ffn_gate_inp.bias", Size::experts, Size::none, has_expert_biases},
    {Part::choice_bias, "exp_probs_b.bias", Size::experts, Size::none, has_choice_bias},
    {Part::expert_gate, "ffn_gate_exps.weight", Size::expert_hidden, Size::dim, sparse_gated, true, Size::experts},
    {Part::expert_gate_bias, "ffn_gate_exps.bias", Size::experts, Size::expert_hidden, has_expert_gate_bias},
    {Part::expert_up, "ffn_up_exps.weight", Size::expert_hidden, Size::dim, sparse, true, Size::experts},
    {Part::expert_up_bias, "ffn_up_exps.bias", Size::experts, Size::expert_hidden, has_expert_biases},
    {Part::expert_down, "ffn_down_exps.weight", Size::dim, Size::expert_hidden, sparse, true, Size::experts},
    {Part::expert_down_bias, "ffn_down_exps.bias", Size::experts, Size::dim, has_expert_biases},
    {Part::expert_scales, "ffn_down_exps.scale", Size::experts, Size::none, beside},
    {Part::expert_norm, "pre_ffw_norm_2.weight", Size::dim, Size::none, beside},
    {Part::dense_post_norm, "post_ffw_norm_1.weight", Size::dim, Size::none, beside},
    {Part::expert_post_norm, "post_ffw_norm_2.weight", Size::dim, Size::none, beside},
    {Part::shared_gate, "ffn_gate_shexp.weight", Size::shared_hidden, Size::dim, has_gated_shared},
    {Part::shared_gate_bias, "ffn_gate_shexp.bias", Size::shared_hidden, Size::none, has_shared_gate_bias},
    {Part::shared_up, "ffn_up_shexp.weight", Size::shared_hidden, Size::dim, has_shared},
    {Part::shared_up_bias, "ffn_up_shexp.bias", Size::shared_hidden, Size::none, has_shared_bias},
    {Part::shared_down, "ffn_down_shexp.weight", Size::dim, Size::shared_hidden, has_shared},
    {Part::shared_down_bias, "ffn_down_shexp.bias", Size::dim, Size::none, has_shared_bias},
    {Part::shared_router, "ffn_gate_inp_shexp.weight", Size::dim, Size::none, has_shared_gate},
    {Part::ffn_post_norm, "post_ffw_norm.weight", Size::dim, Size::none, behind_ffn},
    {Part::input_gate, "inp_gate.weight", Size::layer_input, Size::dim, has_inputs},
    {Part::input_projection, "proj.weight", Size::dim, Size::layer_input, has_inputs},
    {Part::input_post_norm, "post_norm.weight", Size::dim, Size::none, has_inputs},
    {Part::layer_scale, "layer_output_scale.weight", Size::one, Size::none, has_scale},
};

constexpr const Row& row_of(Part part) { return table[static_cast<std::size_t>(part)]; }

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(table); ++i)
    if (table[i].part != static_cast<Part>(i)) return false;
  return true;
}
static_assert(in_order());

bool of_all_heads(const Config& c) { return c.qk_norm == QkNorm::row || c.qk_norm == QkNorm::each_head; }

index extent(const ModelConfig& c, index at, Size size) {
  const LayerConfig layer = c.layer(std::max<index>(at, 0));
  switch (size) {
    case Size::none: return 0;
    case Size::dim: return c.dim;
    case Size::q: return c.heads * layer.head_dim;
    case Size::kv: return layer.kv_heads * layer.head_dim;
    case Size::q_norm: return of_all_heads(c) ? c.heads * layer.head_dim : layer.head_dim;
    case Size::k_norm: return of_all_heads(c) ? layer.kv_heads * layer.head_dim : layer.head_dim;
    case Size::q_rank: return c.latent.q_rank;
    case Size::kv_rank: return c.latent.kv_rank;
    case Size::kv_a: return c.latent.kv_rank + c.latent.rope_dim;
    case Size::kv_b: return c.heads * (c.head_dim - c.latent.rope_dim + c.latent.value_dim);
    case Size::attended: return c.heads * c.value_dim(layer);
    case Size::hidden: return layer.hidden;
    case Size::vocab: return c.vocab;
    case Size::heads: return c.heads;
    case Size::rope_pairs: return c.ropes[0].dim / 2;
    case Size::experts: return c.experts.count;
    case Size::expert_hidden: return c.experts.hidden;
    case Size::shared_hidden: return c.experts.shared_hidden;
    case Size::one: return 1;
    case Size::layer_input: return c.layer_inputs.dim;
    case Size::layer_inputs: return c.layer_inputs.dim * c.layers;
  }
  return 0;
}

}  // namespace

std::string block_name(index layer, std::string_view part) {
  return "blk." + std::to_string(layer) + "." + std::string(part);
}

TensorFacts tensor_facts(const ModelConfig& config, Part part, index layer) {
  const Row& row = row_of(part);
  TensorFacts facts{.part = part,
                    .layer = layer,
                    .name = layer < 0 ? row.name : block_name(layer, row.name),
                    .rank = 0,
                    .required = row.required};
  for (const Size size : {row.matrices, row.rows, row.columns})
    if (size != Size::none) facts.extents[static_cast<std::size_t>(facts.rank++)] = extent(config, layer, size);
  return facts;
}

Status for_each_tensor(const ModelConfig& config, const std::function<Status(const TensorFacts&)>& visit) {
  const auto visit_part = [&](Part part, index layer) -> Status {
    const LayerConfig facts = layer < 0 ? LayerConfig() : config.layer(layer);
    return row_of(part).present(config, facts) ? visit(tensor_facts(config, part, layer)) : Status{};
  };
  constexpr auto first = static_cast<std::size_t>(Part::attn_norm), last = static_cast<std::size_t>(Part::output_norm);
  for (std::size_t part = 0; part < last; ++part)
    if (Status status = visit_part(static_cast<Part>(part), -1); !status) return status;
  for (index layer = 0; layer < config.layers; ++layer)
    for (std::size_t part = first; part < std::size(table); ++part)
      if (Status status = visit_part(static_cast<Part>(part), layer); !status) return status;
  Status status = visit_part(Part::output_norm, -1);
  return status ? visit_part(Part::output_norm_bias, -1) : std::move(status);
}

}  // namespace inlay::exec
