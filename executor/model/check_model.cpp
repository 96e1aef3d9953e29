#include <algorithm>
#include <cmath>
#include <unordered_set>
#include <utility>

#include <inlay/core/quote.hpp>
#include <inlay/model/model_ropes.hpp>
#include <inlay/model/model_tensors.hpp>

#include "executor/model/check_model.hpp"

namespace inlay::exec {

namespace {

constexpr index max_head_dim = index{1} << 16;  // factors of its pairs are made before any tensor is seen

Status check_tensor(const ModelFile& file, const TensorFacts& facts) {
  const WeightTensor* tensor = file.find(facts.name);
  const std::string named = file.path + ": the tensor " + quote(facts.name);
  if (!tensor && !facts.required) return {};
  if (!tensor) return {StatusCode::not_found, named + " is missing"};
  if (tensor->rank != facts.rank || tensor->extents != facts.extents)
    return {StatusCode::corrupt_data, named + " has extents " + describe_extents(*tensor) + "; they must be " +
                                          describe_extents({.rank = facts.rank, .extents = facts.extents})};
  const bool vector = facts.is_vector();
  const bool plain = tensor->type == GgmlType::F32 || tensor->type == GgmlType::F16 || tensor->type == GgmlType::BF16;
  if (vector ? !plain : !is_weight_type(tensor->type))
    return {StatusCode::unsupported, named + " has the type " + std::string(ggml_format(tensor->type).name) +
                                         "; it must be " +
                                         (vector ? "F32, F16 or BF16" : "a float, a block format or I8")};
  if (tensor->type != GgmlType::I8) return {};
  if (facts.part == Part::embedding || facts.part == Part::layer_inputs_embedding)
    return {StatusCode::unsupported, named + " has the type I8; embeddings stay floats or blocks"};
  const WeightTensor* scales = file.scales_of(*tensor);
  if (!scales) return {StatusCode::not_found, named + " is I8 and has no " + quote(facts.name + ".scale")};
  if (scales->type != GgmlType::F32 || scales->rank != 1 || scales->extents[0] != tensor->rows())
    return {StatusCode::corrupt_data, file.path + ": the tensor " + quote(scales->name) + " must be F32 of [" +
                                          std::to_string(tensor->rows()) + "]"};
  return {};
}

bool positive(double x) { return x > 0 && x < 1e30; }

// What the operators of a mixture want, before a tensor is seen.
Status check_experts(const ModelConfig& c, const std::string& origin) {
  const ExpertsConfig& e = c.experts;
  constexpr index most = index{1} << 16, widest = index{1} << 28;
  const auto refuse = [&](const std::string& what, index value, index limit) {
    return Status(StatusCode::corrupt_data, origin + ": the " + what + " is " + std::to_string(value) +
                                                "; it must be 1 to " + std::to_string(limit));
  };
  if (e.count == 0) return {};
  if (e.count < 1 || e.count > most) return refuse("count of experts", e.count, most);
  if (e.top_k < 1 || e.top_k > e.count) return refuse("count of a token's experts", e.top_k, e.count);
  if (e.hidden < 1 || e.hidden > widest) return refuse("width of an expert", e.hidden, widest);
  if (e.shared_hidden < 0 || e.shared_hidden > widest)
    return refuse("width of the shared expert", e.shared_hidden, widest);
  if (e.groups < 1 || e.groups > e.count || e.count % e.groups != 0)
    return {StatusCode::corrupt_data, origin + ": " + std::to_string(e.count) + " experts cannot be divided into " +
                                          std::to_string(e.groups) + " groups evenly"};
  if (e.groups_kept < 1 || e.groups_kept > e.groups) return refuse("count of groups kept", e.groups_kept, e.groups);
  if (e.groups_kept * (e.count / e.groups) < e.top_k)
    return {StatusCode::corrupt_data, origin + ": " + std::to_string(e.groups_kept) + " groups of " +
                                          std::to_string(e.count / e.groups) + " experts have fewer than the " +
                                          std::to_string(e.top_k) + " of a token"};
  if (e.group_score == MoeGroupScore::sum_of_two && e.groups > 1 && e.count / e.groups < 2)
    return {StatusCode::corrupt_data, origin + ": groups are scored by two experts, and have one"};
  if (e.score == MoeScore::softmax_of_chosen && (e.choice_bias || e.groups > 1))
    return {StatusCode::unsupported,
            origin + ": experts are chosen with a bias or out of groups, and weighed by a softmax of the chosen"};
  if (!positive(e.scale)) return {StatusCode::corrupt_data, origin + ": the scale of experts must be positive"};
  const bool mixes = e.score == MoeScore::sparsemixer;
  if (mixes && (e.choice_bias || e.groups > 1))
    return {StatusCode::unsupported, origin + ": experts of sparsemixer are chosen with a bias or out of groups"};
  if (mixes ? !(e.jitter >= 0 && e.jitter < 1e30) : e.jitter != 0)
    return {StatusCode::corrupt_data, origin + ": the jitter of routing is " + std::to_string(e.jitter) +
                                          "; it must be 0 or more, of sparsemixer"};
  if (c.activation == Activation::xielu)
    return {StatusCode::unsupported, origin + ": the activation of experts is xielu, whose numbers are a layer's"};
  if (c.parallel) return {StatusCode::unsupported, origin + ": experts stand beside the attention"};
  if (e.beside && (e.shared_hidden > 0 || !c.norms.before_ffn || c.norm != NormKind::rms || !c.norm_weights))
    return {StatusCode::unsupported,
            origin + ": experts beside the feed-forward have a shared one, or there is no RMS norm before both"};
  return {};
}

// What tensors and keys say of xIELU.
Status check_xielu(const ModelConfig& c, const std::string& origin) {
  for (index i = 0; i < c.layers && c.activation == Activation::xielu; ++i) {
    const Xielu x = c.layer(i).xielu;
    for (const auto& [what, value] : {std::pair{"alpha_p", x.alpha_p}, {"alpha_n", x.alpha_n}, {"beta", x.beta}})
      if (!(std::abs(value) < 1e30))
        return {StatusCode::corrupt_data, origin + ": " + what + " of xielu in layer " + std::to_string(i) + " is " +
                                              std::to_string(value) + "; it must be a finite number"};
    if (!(x.eps <= 0 && x.eps > -1e30))
      return {StatusCode::corrupt_data, origin + ": eps of xielu in layer " + std::to_string(i) + " is " +
                                            std::to_string(x.eps) + "; it must be 0 or less"};
  }
  return {};
}

Status check_latent(const ModelConfig& c, const std::string& origin) {
  constexpr index widest = index{1} << 28;
  const LatentConfig& l = c.latent;
  if (l == LatentConfig{}) return {};
  const auto refuse = [&](const std::string& what, index value, index least, index limit) {
    return Status(StatusCode::corrupt_data, origin + ": the " + what + " is " + std::to_string(value) +
                                                "; it must be " + std::to_string(least) + " to " +
                                                std::to_string(limit));
  };
  if (l.kv_rank < 1 || l.kv_rank > widest) return refuse("rank of keys and values", l.kv_rank, 1, widest);
  if (l.q_rank < 0 || l.q_rank > widest) return refuse("rank of q", l.q_rank, 0, widest);
  if (l.value_dim < 1 || l.value_dim > max_head_dim) return refuse("value head dim", l.value_dim, 1, max_head_dim);
  if (l.rope_dim < 2 || l.rope_dim >= c.head_dim) return refuse("rope dim of a head", l.rope_dim, 2, c.head_dim - 1);
  for (const RopeConfig& rope : c.ropes)
    if (rope.dim != l.rope_dim) return refuse("rope dimension", rope.dim, l.rope_dim, l.rope_dim);
  if (c.kv_heads != c.heads) return refuse("count of kv heads of latent attention", c.kv_heads, c.heads, c.heads);
  if (!(l.norm_eps >= 0 && l.norm_eps < 1))
    return {StatusCode::corrupt_data, origin + ": the eps of norms of latent vectors must be 0 to 1"};
  if (c.qkv_bias || c.qk_norm != QkNorm::none)
    return {StatusCode::unsupported, origin + ": q, k or v of latent attention have biases or norms of their own"};
  return {};
}

// What norms without weights, inputs of layers and layers with heads of their own cannot be together with.
Status check_norms_without_weights(const ModelConfig& c, const std::string& origin) {
  const bool any = !c.norm_weights || c.embed_norm || c.v_norm;
  if (any && (c.norm != NormKind::rms || c.is_latent()))
    return {StatusCode::unsupported, origin + ": norms without weights are no RMS norms, or attention is latent"};
  if (!c.norm_weights && (c.norms.behind_attn || c.norms.behind_ffn || c.qk_norm == QkNorm::row || c.logit_scale != 1))
    return {StatusCode::unsupported,
            origin + ": norms without weights stand behind branches or norm whole rows, or logits are scaled"};
  return {};
}

Status check_layer_inputs(const ModelConfig& c, const std::string& origin) {
  const index dim = c.layer_inputs.dim;
  if (dim < 0 || dim > (index{1} << 28) / c.layers)
    return {StatusCode::corrupt_data, origin + ": the length of a layer's inputs is " + std::to_string(dim) +
                                          "; it must be 0 to " + std::to_string((index{1} << 28) / c.layers)};
  if (dim > 0 && (c.activation != Activation::gelu_tanh || c.residual_scale != 1))
    return {StatusCode::unsupported, origin + ": layers have inputs, and another activation or scaled branches"};
  return {};
}

// The heads of one layer, and whose keys and values they see.
Status check_heads(const ModelConfig& c, index i, const std::string& origin) {
  const LayerConfig layer = c.layer(i);
  const std::string which = " of layer " + std::to_string(i);
  if (layer.kv_heads < 1 || c.heads % layer.kv_heads != 0)
    return {StatusCode::corrupt_data, origin + ": " + std::to_string(c.heads) + " heads" + which + " cannot share " +
                                          std::to_string(layer.kv_heads) + " kv heads evenly"};
  if (layer.head_dim < 1 || layer.head_dim > c.head_dim)
    return {StatusCode::corrupt_data, origin + ": the head dim" + which + " is " + std::to_string(layer.head_dim) +
                                          "; it must be 1 to " + std::to_string(c.head_dim)};
  if (layer.rope >= 0 && c.ropes[static_cast<std::size_t>(layer.rope)].dim > layer.head_dim)
    return {StatusCode::corrupt_data, origin + ": the rope dimension" + which + " is " +
                                          std::to_string(c.ropes[static_cast<std::size_t>(layer.rope)].dim) +
                                          "; it must be at most its head dim " + std::to_string(layer.head_dim)};
  if (layer.v_is_k && !c.v_norm) return {StatusCode::unsupported, origin + ": v" + which + " is k, and has no norm"};
  if (layer.kv_layer == LayerConfig::own_kv) return {};
  const bool before = layer.kv_layer >= 0 && layer.kv_layer < i;
  const LayerConfig other = before ? c.layer(layer.kv_layer) : LayerConfig();
  if (!before || other.kv_layer != LayerConfig::own_kv || other.kv_heads != layer.kv_heads ||
      other.head_dim != layer.head_dim || c.is_latent())
    return {StatusCode::corrupt_data, origin + ": the keys and values" + which + " are those of layer " +
                                          std::to_string(layer.kv_layer) +
                                          "; it must be one before it with its own, of the same shape"};
  return {};
}

Status check_rope(const RopeConfig& rope, index head_dim, const std::string& origin) {
  if (rope.dim < 2 || rope.dim > head_dim || rope.dim % 2 != 0)
    return {StatusCode::corrupt_data, origin + ": the rope dimension is " + std::to_string(rope.dim) +
                                          "; it must be even and at most the head dim " + std::to_string(head_dim)};
  if (!positive(rope.theta) || !positive(rope.factor) || !positive(rope.attention_factor))
    return {StatusCode::corrupt_data, origin + ": rope's theta and factors must be positive numbers"};
  for (const std::vector<float>* factors : {&rope.freq_factors, &rope.long_factors}) {
    if (factors->empty()) continue;
    if (static_cast<index>(factors->size()) != rope.dim / 2)
      return {StatusCode::corrupt_data, origin + ": rope has " + std::to_string(factors->size()) +
                                            " frequency factors; there must be " + std::to_string(rope.dim / 2)};
    // All pairs may turn the other way, not some of them.
    const bool back = rope.scaling == RopeConfig::Scaling::freq_factors && factors->front() < 0;
    for (const float f : *factors)
      if (!std::isfinite(f) || !(back ? f < 0 : f > 0))
        return {StatusCode::corrupt_data,
                origin + ": rope's frequency factors must be positive, or those of all pairs negative"};
  }
  // Of whatever context: LongRoPE's factors are as good as the short ones.
  if (auto frequencies = frequencies_of(rope, rope.original_context); !frequencies)
    return {StatusCode::corrupt_data, origin + ": rope: " + std::string(frequencies.error().message())};
  return {};
}

}  // namespace

std::string describe_extents(const WeightTensor& tensor) {
  std::string text = "[";
  for (int d = 0; d < tensor.rank; ++d) text += (d ? ", " : "") + std::to_string(tensor.extents[d]);
  return text + "]";
}

void flatten_head_norm(const ModelConfig& c, WeightTensor& tensor) {
  const bool of_q = tensor.name.ends_with(".attn_q_norm.weight"), of_k = tensor.name.ends_with(".attn_k_norm.weight");
  if (c.qk_norm != QkNorm::each_head || !(of_q || of_k) || tensor.rank != 2 || tensor.extents[1] != c.head_dim) return;
  tensor.rank = 1, tensor.extents = {tensor.extents[0] * tensor.extents[1]};
}

bool is_needless(std::string_view name) {
  constexpr std::string_view endings[] = {"rotary_emb.inv_freq",     // a buffer of older Hugging Face checkpoints
                                          ".attn_rot_embd.weight"};  // the same in older GGUF files
  return std::any_of(std::begin(endings), std::end(endings), [&](std::string_view end) { return name.ends_with(end); });
}

Status check_config(const ModelConfig& c, const std::string& origin) {
  constexpr index most = index{1} << 28;  // products of two of them stay far below 2^63
  const std::pair<const char*, index> sizes[] = {{"embedding length", c.dim},  {"heads", c.heads},
                                                 {"kv heads", c.kv_heads},     {"hidden", c.hidden},
                                                 {"vocabulary size", c.vocab}, {"context length", c.context}};
  const auto refuse = [&](const std::string& what, index value, index limit) {
    return Status(StatusCode::corrupt_data, origin + ": the " + what + " is " + std::to_string(value) +
                                                "; it must be 1 to " + std::to_string(limit));
  };
  for (const auto& [what, value] : sizes)
    if (value < 1 || value > most) return refuse(what, value, most);
  if (c.head_dim < 1 || c.head_dim > max_head_dim) return refuse("head dim", c.head_dim, max_head_dim);
  if (c.layers < 1 || c.layers > max_layers) return refuse("count of layers", c.layers, max_layers);
  if (c.heads % c.kv_heads != 0)
    return {StatusCode::corrupt_data, origin + ": " + std::to_string(c.heads) + " heads cannot share " +
                                          std::to_string(c.kv_heads) + " kv heads evenly"};
  if (!c.per_layer.empty() && static_cast<index>(c.per_layer.size()) != c.layers)
    return {StatusCode::corrupt_data, origin + ": there are " + std::to_string(c.per_layer.size()) +
                                          " layers with facts of their own; there must be none or " +
                                          std::to_string(c.layers)};
  if (Status status = check_latent(c, origin); !status) return status;
  for (const RopeConfig& rope : c.ropes)
    if (Status status = check_rope(rope, c.head_dim, origin); !status) return status;
  if (!positive(c.embed_scale) || !positive(c.residual_scale) || !positive(c.logit_scale) || !(c.attn_scale >= 0) ||
      !(c.attn_scale < 1e30))
    return {StatusCode::corrupt_data,
            origin + ": the scales of embeddings, branches, scores and logits must be positive"};
  for (const double cap : {c.attn_softcap, c.final_softcap})
    if (cap != 0 && !positive(cap))
      return {StatusCode::corrupt_data, origin + ": the caps of scores and logits must be positive, or 0 for none"};
  if (!c.gated && c.activation == Activation::silu)
    return {StatusCode::unsupported, origin + ": the activation is silu, and there is no gate"};
  if (c.qk_norm != QkNorm::none && (c.norm == NormKind::layer) != (c.qk_norm == QkNorm::each_head))
    return {StatusCode::unsupported,
            origin + ": norms of q and k and those of the stream are not both layer norms, with weights for each head"};
  if (c.norm_bias && (c.norm == NormKind::rms || c.norms.behind_attn || c.norms.behind_ffn))
    return {StatusCode::unsupported, origin + ": norms have biases that are RMS norms, or stand behind a branch"};
  if (c.head_bias && c.logit_scale != 1)
    return {StatusCode::unsupported, origin + ": logits are scaled, and their head has a bias"};
  if (c.parallel && c.norms != LayerNorms{.before_ffn = false})
    return {StatusCode::unsupported, origin + ": branches side by side have other norms than one before both"};
  if (c.residual_scale != 1 && !(c.norms.before_attn && c.norms.before_ffn))
    return {StatusCode::unsupported, origin + ": branches are scaled, and read a stream without a norm"};
  if (!(c.norm_eps >= 0 && c.norm_eps < 1))
    return {StatusCode::corrupt_data, origin + ": the eps of norms must be 0 to 1"};
  if (Status status = check_experts(c, origin); !status) return status;
  if (Status status = check_norms_without_weights(c, origin); !status) return status;
  if (Status status = check_layer_inputs(c, origin); !status) return status;
  // Whole values stand for all layers where those have none of their own.
  for (index i = 0; i < std::max<index>(static_cast<index>(c.per_layer.size()), 1); ++i) {
    const LayerConfig layer = c.layer(i);
    const std::string which = c.per_layer.empty() ? "" : " of layer " + std::to_string(i);
    if (layer.hidden < 1 || layer.hidden > c.hidden) return refuse("hidden" + which, layer.hidden, c.hidden);
    if (layer.sparse && c.experts.count == 0)
      return {StatusCode::corrupt_data, origin + ": the layer" + which + " has experts, and there are none"};
    if (layer.window < 0 || layer.window > most)
      return {StatusCode::corrupt_data, origin + ": the window" + which + " is " + std::to_string(layer.window) +
                                            "; it must be 1 to " + std::to_string(most) + ", or 0 for none"};
    if (layer.rope < LayerConfig::no_rope || layer.rope >= static_cast<int>(c.ropes.size()))
      return {StatusCode::corrupt_data, origin + ": the rope" + which + " is " + std::to_string(layer.rope) +
                                            "; there are " + std::to_string(c.ropes.size())};
    if (Status status = check_heads(c, i, origin); !status) return status;
  }
  return {};
}

// Of a layer that looks at another's keys and values, whose own ones nobody computes? Files have them nevertheless.
bool is_of_unused_kv(const ModelConfig& c, std::string_view name) {
  for (index i = 0; i < c.layers && !c.per_layer.empty(); ++i)
    if (c.layer(i).kv_layer != LayerConfig::own_kv)
      for (const std::string_view part : {"attn_k.", "attn_v.", "attn_k_norm."})
        if (name.starts_with(block_name(i, part))) return true;
  return false;
}

Status check_model(const ModelFile& file) {
  if (Status status = check_config(file.config, file.path); !status) return status;
  if (Status status = check_xielu(file.config, file.path); !status) return status;
  std::unordered_set<std::string> known;
  Status status = for_each_tensor(file.config, [&](const TensorFacts& facts) {
    known.insert(facts.name);
    if (const WeightTensor* tensor = file.find(facts.name); tensor && tensor->type == GgmlType::I8)
      known.insert(facts.name + ".scale");
    return check_tensor(file, facts);
  });
  if (!status) return status;
  for (const WeightTensor& tensor : file.tensors())
    if (!known.contains(tensor.name) && !is_needless(tensor.name) && !is_of_unused_kv(file.config, tensor.name) &&
        tensor.size() > 0)
      return {StatusCode::unsupported, file.path + ": the tensor " + quote(tensor.name) + " of extents " +
                                           describe_extents(tensor) + " has no place in a model of the architecture " +
                                           quote(file.config.architecture) +
                                           "; leaving it out would change what it computes"};
  return check_vocabulary(file);
}

Status check_vocabulary(const ModelFile& file) {
  if (file.tokenizer.kind != TokenizerData::Kind::none &&
      static_cast<index>(file.tokenizer.tokens.size()) > file.config.vocab)
    return {StatusCode::corrupt_data, file.path + ": the vocabulary has " +
                                          std::to_string(file.tokenizer.tokens.size()) +
                                          " tokens, the embedding only " + std::to_string(file.config.vocab) + " rows"};
  return {};
}

}  // namespace inlay::exec
