#include <inlay/model/model_tensors.hpp>

namespace inlay::exec {

namespace {

enum class Size : unsigned char { none, dim, q, kv, q_norm, k_norm, hidden, vocab, rope_pairs };

struct Row {
  Part part;
  const char* name;
  Size rows, columns;  // a vector has rows only
  bool (*present)(const ModelConfig&);
  bool required = true;
};

bool always(const ModelConfig&) { return true; }
bool untied(const ModelConfig& c) { return !c.tie_embeddings; }
bool has_qkv_bias(const ModelConfig& c) { return c.qkv_bias; }
bool has_output_bias(const ModelConfig& c) { return c.output_bias; }
bool has_mlp_bias(const ModelConfig& c) { return c.mlp_bias; }
bool gated(const ModelConfig& c) { return c.gated; }
bool has_gate_bias(const ModelConfig& c) { return c.gated && c.mlp_bias; }
bool has_head_bias(const ModelConfig& c) { return c.head_bias; }
bool has_norm_bias(const ModelConfig& c) { return c.norm_bias; }
bool has_attn_norm_bias(const ModelConfig& c) { return c.norm_bias && c.norms.before_attn; }
bool has_ffn_norm_bias(const ModelConfig& c) { return c.norm_bias && c.norms.before_ffn; }
bool has_qk_norm(const ModelConfig& c) { return c.qk_norm != QkNorm::none; }
bool before_attn(const ModelConfig& c) { return c.norms.before_attn; }
bool behind_attn(const ModelConfig& c) { return c.norms.behind_attn; }
bool before_ffn(const ModelConfig& c) { return c.norms.before_ffn; }
bool behind_ffn(const ModelConfig& c) { return c.norms.behind_ffn; }

// In the order of Part, which is the order of packing but for the last norm.
constexpr Row table[] = {
    {Part::head, "output.weight", Size::vocab, Size::dim, untied},
    {Part::embedding, "token_embd.weight", Size::vocab, Size::dim, always},
    {Part::head_bias, "output.bias", Size::vocab, Size::none, has_head_bias},
    {Part::rope_factors, "rope_freqs.weight", Size::rope_pairs, Size::none, always, false},
    {Part::rope_short, "rope_factors_short.weight", Size::rope_pairs, Size::none, always, false},
    {Part::rope_long, "rope_factors_long.weight", Size::rope_pairs, Size::none, always, false},
    {Part::output_norm, "output_norm.weight", Size::dim, Size::none, always},
    {Part::output_norm_bias, "output_norm.bias", Size::dim, Size::none, has_norm_bias},

    {Part::attn_norm, "attn_norm.weight", Size::dim, Size::none, before_attn},
    {Part::attn_norm_bias, "attn_norm.bias", Size::dim, Size::none, has_attn_norm_bias},
    {Part::q, "attn_q.weight", Size::q, Size::dim, always},
    {Part::q_bias, "attn_q.bias", Size::q, Size::none, has_qkv_bias},
    {Part::k, "attn_k.weight", Size::kv, Size::dim, always},
    {Part::k_bias, "attn_k.bias", Size::kv, Size::none, has_qkv_bias},
    {Part::v, "attn_v.weight", Size::kv, Size::dim, always},
    {Part::v_bias, "attn_v.bias", Size::kv, Size::none, has_qkv_bias},
    {Part::q_norm, "attn_q_norm.weight", Size::q_norm, Size::none, has_qk_norm},
    {Part::k_norm, "attn_k_norm.weight", Size::k_norm, Size::none, has_qk_norm},
    {Part::output, "attn_output.weight", Size::dim, Size::q, always},
    {Part::output_bias, "attn_output.bias", Size::dim, Size::none, has_output_bias},
    {Part::attn_post_norm, "post_attention_norm.weight", Size::dim, Size::none, behind_attn},
    {Part::ffn_norm, "ffn_norm.weight", Size::dim, Size::none, before_ffn},
    {Part::ffn_norm_bias, "ffn_norm.bias", Size::dim, Size::none, has_ffn_norm_bias},
    {Part::gate, "ffn_gate.weight", Size::hidden, Size::dim, gated},
    {Part::gate_bias, "ffn_gate.bias", Size::hidden, Size::none, has_gate_bias},
    {Part::up, "ffn_up.weight", Size::hidden, Size::dim, always},
    {Part::up_bias, "ffn_up.bias", Size::hidden, Size::none, has_mlp_bias},
    {Part::down, "ffn_down.weight", Size::dim, Size::hidden, always},
    {Part::down_bias, "ffn_down.bias", Size::dim, Size::none, has_mlp_bias},
    {Part::ffn_post_norm, "post_ffw_norm.weight", Size::dim, Size::none, behind_ffn},
};

constexpr const Row& row_of(Part part) { return table[static_cast<std::size_t>(part)]; }

constexpr bool in_order() {
  for (std::size_t i = 0; i < std::size(table); ++i)
    if (table[i].part != static_cast<Part>(i)) return false;
  return true;
}
static_assert(in_order());

index extent(const ModelConfig& c, index layer, Size size) {
  switch (size) {
    case Size::none: return 0;
    case Size::dim: return c.dim;
    case Size::q: return c.heads * c.head_dim;
    case Size::kv: return c.kv_heads * c.head_dim;
    case Size::q_norm: return c.qk_norm == QkNorm::row ? c.heads * c.head_dim : c.head_dim;
    case Size::k_norm: return c.qk_norm == QkNorm::row ? c.kv_heads * c.head_dim : c.head_dim;
    case Size::hidden: return c.layer(layer).hidden;
    case Size::vocab: return c.vocab;
    case Size::rope_pairs: return c.ropes[0].dim / 2;
  }
  return 0;
}

}  // namespace

std::string block_name(index layer, std::string_view part) {
  return "blk." + std::to_string(layer) + "." + std::string(part);
}

TensorFacts tensor_facts(const ModelConfig& config, Part part, index layer) {
  const Row& row = row_of(part);
  return {.part = part,
          .layer = layer,
          .name = layer < 0 ? row.name : block_name(layer, row.name),
          .rank = row.columns == Size::none ? 1 : 2,
          .extents = {extent(config, layer, row.rows), extent(config, layer, row.columns)},
          .required = row.required};
}

Status for_each_tensor(const ModelConfig& config, const std::function<Status(const TensorFacts&)>& visit) {
  const auto visit_part = [&](Part part, index layer) -> Status {
    return row_of(part).present(config) ? visit(tensor_facts(config, part, layer)) : Status{};
  };
  for (const Part part :
       {Part::head, Part::embedding, Part::head_bias, Part::rope_factors, Part::rope_short, Part::rope_long})
    if (Status status = visit_part(part, -1); !status) return status;
  for (index layer = 0; layer < config.layers; ++layer)
    for (std::size_t part = static_cast<std::size_t>(Part::attn_norm); part < std::size(table); ++part)
      if (Status status = visit_part(static_cast<Part>(part), layer); !status) return status;
  Status status = visit_part(Part::output_norm, -1);
  return status ? visit_part(Part::output_norm_bias, -1) : std::move(status);
}

}  // namespace inlay::exec
