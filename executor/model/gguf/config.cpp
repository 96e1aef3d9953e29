#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/family.hpp"
#include "executor/model/gguf/config.hpp"
#include "executor/model/gguf/experts.hpp"
#include "executor/model/gguf/heads.hpp"
#include "executor/model/gguf/latent.hpp"
#include "executor/model/gguf/metadata.hpp"

namespace inlay::exec {

namespace {

// Keys that change what a model computes and that no field stands for, with the value that changes nothing.
struct Neutral {
  const char* key;
  double value;
};
constexpr Neutral granite_numbers[] = {
    {"logit_scale", 1}, {"residual_scale", 1}, {"embedding_scale", 1}, {"attention.scale", 0}};
constexpr Neutral softcap_numbers[] = {{"attn_logit_softcapping", 0}, {"final_logit_softcapping", 0}};
constexpr Neutral neutral_numbers[] = {{"attention.output_scale", 1},       {"attention.clamp_kqv", 0},
                                       {"attention.max_alibi_bias", 0},     {"rope.scaling.alpha", 0},
                                       {"rope.scaling.yarn_ext_factor", 1}, {"rope.scaling.yarn_attn_factor", 1}};
constexpr Neutral temperature_number = {"attention.temperature_scale", 0};
constexpr Neutral latent_number = {"rope.scaling.yarn_log_multiplier", 0};

void refuse_unread(GgufMetadata& meta, const std::string& arch, const Family& family) {
  const auto refuse = [&](const Neutral& neutral) {
    const std::string key = arch + "." + neutral.key;
    if (double value = neutral.value; meta.number(key, value, false) && value != neutral.value)
      meta.fail(StatusCode::unsupported, "the key " + quote(key) + " is " + std::to_string(value) + "; it must be " +
                                             std::to_string(neutral.value) + " or absent");
  };
  for (const Neutral& each : neutral_numbers) refuse(each);
  const bool minicpm = family.scales == Scales::minicpm && family.latent.kv_rank == 0;
  for (const Neutral& each : granite_numbers)
    if (family.scales != Scales::granite && !(minicpm && std::string_view(each.key) != "attention.scale") &&
        !(family.scales == Scales::cohere && std::string_view(each.key) == "logit_scale"))
      refuse(each);
  if (!family.temperature) refuse(temperature_number);
  if (!family.softcaps.has_keys)
    for (const Neutral& each : softcap_numbers) refuse(each);
  if (family.latent.kv_rank == 0 && !family.temperature) refuse(latent_number);
  if (index experts = 0; !family.mixture.gguf && meta.integer(arch + ".expert_count", experts, false) && experts > 0)
    meta.fail(StatusCode::unsupported,
              "the architecture " + quote(arch) + " with " + std::to_string(experts) + " experts; it must have none");
  if (bool causal = true; meta.boolean(arch + ".attention.causal", causal) && !causal)
    meta.fail(StatusCode::unsupported, "the key " + quote(arch + ".attention.causal") + " is false; it must be true");
}

void read_original_context(GgufMetadata& meta, ModelConfig& c) {
  c.ropes[0].original_context = c.context;
  meta.integer(c.architecture + ".rope.scaling.original_context_length", c.ropes[0].original_context, false);
}

// What the tensors say of the architecture.
void read_tensors(const GgufFile& file, GgufMetadata& meta, const Family& family, ModelConfig& c) {
  c.tie_embeddings = true;
  if (family.parallel.key) c.parallel = true;  // where no layer has a norm of its feed-forward
  RopeConfig& rope = c.ropes[0];
  const auto factors = [&](const WeightTensor& tensor, RopeConfig::Scaling scaling, std::vector<float>& to) {
    if (tensor.type != GgmlType::F32 || tensor.rank != 1)
      return meta.fail(StatusCode::corrupt_data, "the tensor " + quote(tensor.name) + " is no vector of F32");
    if (rope.scaling != RopeConfig::Scaling::none && rope.scaling != scaling)
      return meta.fail(StatusCode::unsupported, "a rope scaling together with " + quote(tensor.name));
    rope.scaling = scaling;
    to.resize(static_cast<std::size_t>(tensor.extents[0]));
    std::memcpy(to.data(), tensor.data, static_cast<std::size_t>(tensor.bytes));
  };
  for (const WeightTensor& tensor : file.tensors()) {
    if (tensor.name == "token_embd.weight" && tensor.rank == 2) {
      c.vocab = tensor.extents[0];
      if (c.vocab == 0)
        return meta.fail(StatusCode::corrupt_data, "the tensor 'token_embd.weight' has extents " +
                                                       describe_extents(tensor) +
                                                       "; it must have a row for each token");
    }
    if (tensor.name == "output.weight") c.tie_embeddings = false;
    if (tensor.name == "blk.0.attn_q.bias" || tensor.name == "blk.0.attn_qkv.bias") c.qkv_bias = true;
    if (tensor.name == "blk.0.attn_output.bias") c.output_bias = true;
    if (tensor.name == "blk.0.ffn_down.bias" || tensor.name == "blk.0.ffn_down_shexp.bias") c.mlp_bias = true;
    if (tensor.name == "blk.0.attn_norm.bias") c.norm_bias = true;
    if (tensor.name == "output.bias") c.head_bias = true;
    if (tensor.name == "blk.0.layer_output_scale.weight") c.layer_scales = true;
    if (tensor.name == "blk.0.ffn_norm.weight" && family.parallel.key) c.parallel = false;
    if (tensor.name == "blk.0.attn_q_norm.weight" && c.qk_norm == QkNorm::none)
      c.qk_norm = c.norm == NormKind::layer ? QkNorm::each_head : QkNorm::head;
    using enum RopeConfig::Scaling;
    if (tensor.name == "rope_freqs.weight") factors(tensor, freq_factors, rope.freq_factors);
    if (tensor.name == "rope_factors_short.weight") factors(tensor, longrope, rope.freq_factors);
    if (tensor.name == "rope_factors_long.weight") factors(tensor, longrope, rope.long_factors);
  }
  if (c.vocab == 0) meta.fail(StatusCode::not_found, "the matrix 'token_embd.weight' is missing");
  if (rope.scaling != RopeConfig::Scaling::longrope) return;
  read_original_context(meta, c);
  if (rope.freq_factors.size() != rope.long_factors.size())
    meta.fail(StatusCode::corrupt_data, "there are " + std::to_string(rope.freq_factors.size()) +
                                            " short factors of rope and " + std::to_string(rope.long_factors.size()) +
                                            " long ones; there must be one of each for a pair");
}

void read_rope(const GgufFile& file, GgufMetadata& meta, const std::string& arch, const Family& family,
               ModelConfig& c) {
  RopeConfig& rope = c.ropes[0];
  rope.pairing = family.gguf_pairing;
  rope.dim = c.is_latent() ? c.latent.rope_dim : c.head_dim;
  meta.integer(arch + ".rope.dimension_count", rope.dim, false);
  meta.number(arch + ".rope.freq_base", rope.theta, false);
  std::string type = "none";
  meta.text(arch + ".rope.scaling.type", type, false);
  if (meta.number(arch + ".rope.scaling.factor", rope.factor, false) ||
      meta.number(arch + ".rope.scale_linear", rope.factor, false))
    if (!file.find(arch + ".rope.scaling.type")) type = "linear";  // files older than the type
  if (type == "linear") {
    rope.scaling = rope.factor == 1 ? RopeConfig::Scaling::none : RopeConfig::Scaling::linear;
  } else if (type == "yarn") {
    rope.scaling = RopeConfig::Scaling::yarn;
    read_original_context(meta, c);
    meta.number(arch + ".rope.scaling.yarn_beta_fast", rope.beta_fast, false);
    meta.number(arch + ".rope.scaling.yarn_beta_slow", rope.beta_slow, false);
    rope.truncate = family.yarn_truncates;
    meta.boolean(gguf_yarn_truncate, rope.truncate);
    rope.attention_factor = gguf_yarn_magnitude(c, rope);
    if (double all = 0; family.temperature && meta.number(arch + ".rope.scaling.yarn_log_multiplier", all, false))
      rope.attention_factor /= 0.1 * all * std::log(rope.factor) + 1;
  } else if (type != "none" && type != "longrope") {  // which tensors tell of
    meta.fail(StatusCode::unsupported, "rope scaling " + quote(type) + "; it must be none, linear, yarn or longrope");
  }
  double attention = 1;  // of every type, none too
  meta.number(arch + ".rope.scaling.attn_factor", attention, false);
  rope.attention_factor *= attention;
  if (c.is_latent()) read_gguf_latent_scale(meta, arch, c);
  if (double beta = 0; family.temperature && meta.number(arch + ".attention.temperature_scale", beta, false) &&
                       beta != 0 && type == "yarn")
    c.context = std::min(c.context, rope.original_context);
}

// Which layers have a window: the array that says it, or else what goes without saying in the family.
std::vector<bool> read_windows(const GgufFile& file, GgufMetadata& meta, const std::string& arch, const Family& family,
                               index layers) {
  std::vector<index> listed;
  const std::string pattern = arch + ".attention.sliding_window_pattern";
  const GgufValue* value = file.find(pattern);
  index period = family.windows == Windows::all_but_last ? family.period : 1;
  if (value && value->type != GgufType::array && family.windows == Windows::all_but_last)
    meta.integer(pattern, period, true);
  else if (value && value->type != GgufType::array)
    meta.fail(StatusCode::unsupported,
              "the key " + quote(pattern) + " is one number; it must be an array with an entry for each layer");
  else
    meta.per_layer(pattern, layers, listed, false);
  if (meta.ok() && period < 1)
    meta.fail(StatusCode::corrupt_data,
              "the key " + quote(pattern) + " is " + std::to_string(period) + "; it must be at least 1");
  std::vector<bool> windowed(static_cast<std::size_t>(layers), true);
  for (std::size_t i = 0; meta.ok() && i < windowed.size(); ++i) {
    if (!listed.empty())
      windowed[i] = listed[listed.size() == 1 ? 0 : i] != 0;
    else if (period > 1)
      windowed[i] = (static_cast<index>(i) + 1) % period != 0;
  }
  return windowed;
}

// The numbers of each layer's xIELU.
void read_xielu(GgufMetadata& meta, const ModelConfig& c, std::vector<LayerConfig>& layers) {
  if (c.activation != Activation::xielu) return;
  for (const auto& [key, member] : gguf_xielu) {
    std::vector<double> all;
    if (!meta.numbers_per_layer(key, c.layers, all)) return;
    for (std::size_t i = 0; i < layers.size(); ++i) layers[i].xielu.*member = all[all.size() == 1 ? 0 : i];
  }
}

// Widths, windows and ropes of the layers.
void read_layers(const GgufFile& file, GgufMetadata& meta, const std::string& arch, const Family& family,
                 ModelConfig& c) {
  const GgufSparse sparse = read_gguf_sparse(meta, arch, c);
  if (!meta.ok()) return;  // before there is a list of layers, however many the file claims
  std::vector<index> widths;
  meta.per_layer(arch + ".feed_forward_length", c.layers, widths, true);
  index window = 0;
  meta.integer(arch + ".attention.sliding_window", window, false);
  const std::vector<bool> windowed = read_windows(file, meta, arch, family, c.layers);
  RopeConfig local = c.ropes[0];
  if (family.plain_windows) local = {.pairing = local.pairing, .dim = local.dim, .theta = local.theta};
  if (family.local_theta > 0) local.theta = family.local_theta;
  meta.number(arch + ".rope.freq_base_swa", local.theta, false);
  if (!meta.ok()) return;
  c.hidden = *std::max_element(widths.begin(), widths.end());
  meta.integer(arch + ".rope.dimension_count_swa", local.dim, false);
  if (local != c.ropes[0]) c.ropes.push_back(std::move(local));
  std::vector<LayerConfig> each(static_cast<std::size_t>(c.layers));
  for (std::size_t i = 0; i < each.size(); ++i) {
    LayerConfig& layer = each[i];
    layer.hidden = widths[widths.size() == 1 ? 0 : i];
    layer.window = windowed[i] ? window : 0;
    layer.rope = layer.window > 0 && c.ropes.size() > 1 ? 1 : 0;
    layer.sparse = sparse.has(static_cast<index>(i));
    if (!family.turns(i, layer.window > 0, window > 0)) layer.rope = LayerConfig::no_rope;
  }
  read_xielu(meta, c, each);
  if (family.kinds.differ()) read_gguf_heads(file, meta, arch, c, each);
  if (!meta.ok()) return;
  c.set_layers(std::move(each));
}

// What multiplies; Gemma's files do not say it.
void read_scales(GgufMetadata& meta, const std::string& arch, const Family& family, ModelConfig& c) {
  switch (family.scales) {
    case Scales::none: return;
    case Scales::gemma: {
      const double width = static_cast<double>(c.layers == family.layers_of_largest ? c.dim / c.heads : c.head_dim);
      c.embed_scale = std::sqrt(static_cast<double>(c.dim)), c.attn_scale = 1 / std::sqrt(width);
      return;
    }
    case Scales::gemma4: c.embed_scale = std::sqrt(static_cast<double>(c.dim)), c.attn_scale = 1; return;
    case Scales::minicpm: {  // older files, and all of MiniCPM3, say none of them
      double logits = static_cast<double>(c.dim) / 256;
      c.embed_scale = 12, c.residual_scale = 1.4 / std::sqrt(static_cast<double>(c.layers));
      if (family.latent.kv_rank == 0) {
        meta.number(arch + ".embedding_scale", c.embed_scale, false);
        meta.number(arch + ".residual_scale", c.residual_scale, false);
        meta.number(arch + ".logit_scale", logits, false);
      }
      c.logit_scale = 1 / logits;
      return;
    }
    case Scales::cohere: meta.number(arch + ".logit_scale", c.logit_scale, true); return;
    case Scales::granite: {
      double logits = 1;
      meta.number(arch + ".embedding_scale", c.embed_scale, false);
      meta.number(arch + ".residual_scale", c.residual_scale, false);
      meta.number(arch + ".attention.scale", c.attn_scale, false);
      meta.number(arch + ".logit_scale", logits, true);
      c.logit_scale = 1 / logits;
      return;
    }
  }
}

void read_softcaps(GgufMetadata& meta, const std::string& arch, const Family& family, ModelConfig& c) {
  c.attn_softcap = family.softcaps.scores, c.final_softcap = family.softcaps.logits;
  if (!family.softcaps.has_keys) return;
  meta.number(arch + ".attn_logit_softcapping", c.attn_softcap, false);
  meta.number(arch + ".final_logit_softcapping", c.final_softcap, false);
}

Expected<ModelConfig> read_config(const GgufFile& file, bool with_tensors) {
  if (Status status = check_gguf_architecture(file); !status) return failure(std::move(status));
  GgufMetadata meta(file);
  ModelConfig c;
  meta.text("general.architecture", c.architecture, true);
  meta.text("general.name", c.name, false);
  const std::string& arch = c.architecture;
  const Family& family = *family_of_gguf(arch);
  refuse_unread(meta, arch, family);
  meta.integer(arch + ".block_count", c.layers, true);
  if (index more = 0; family.more_layers && meta.integer(arch + ".nextn_predict_layers", more, false)) {
    if (more < 0 || more >= c.layers)
      meta.fail(StatusCode::corrupt_data, "the key " + quote(arch + ".nextn_predict_layers") + " is " +
                                              std::to_string(more) + "; it must be fewer than the blocks");
    c.layers -= more;
  }
  meta.integer(arch + ".embedding_length", c.dim, true);
  meta.integer(arch + ".context_length", c.context, true);
  meta.integer(arch + ".attention.head_count", c.heads, true);
  c.kv_heads = c.heads;
  if (!family.kinds.differ()) meta.integer(arch + ".attention.head_count_kv", c.kv_heads, false);
  c.norm = family.norm;
  meta.number(arch + gguf_norm_eps(c.norm, &family), c.norm_eps, true);
  if (meta.ok() && (c.heads < 1 || c.dim < 1))
    meta.fail(StatusCode::corrupt_data, "the head count and the embedding length must be positive");
  if (meta.ok() && (c.layers < 1 || c.layers > max_layers))  // before there is a list of them
    meta.fail(StatusCode::corrupt_data,
              "the count of layers is " + std::to_string(c.layers) + "; it must be 1 to " + std::to_string(max_layers));
  if (meta.ok()) c.head_dim = c.dim / c.heads;
  if (family.latent.kv_rank == 0) meta.integer(arch + ".attention.key_length", c.head_dim, false);
  read_gguf_latent(meta, arch, family, c);
  if (index value = c.head_dim;
      !c.is_latent() && meta.integer(arch + ".attention.value_length", value, false) && value != c.head_dim)
    meta.fail(StatusCode::unsupported, "value heads of another length than key heads");
  c.parallel = family.parallel.otherwise;
  if (family.parallel.key) meta.boolean(arch + "." + family.parallel.key, c.parallel);
  c.qk_norm = family.has_qk_norm.key ? QkNorm::none : family.qk_norm, c.activation = family.activation;
  c.gated = family.gated, c.sinks = family.sinks;
  c.norm_weights = family.norm_weights, c.embed_norm = family.embed_norm, c.v_norm = family.v_norm;
  c.qkv_bias = !family.qkv_bias.key && family.qkv_bias.otherwise;
  read_rope(file, meta, arch, family, c);
  if (meta.ok() && with_tensors) read_tensors(file, meta, family, c);
  c.norms = family.norms(c.parallel);
  read_gguf_experts(meta, arch, family.mixture, c);
  read_layers(file, meta, arch, family, c);
  if (meta.ok()) read_scales(meta, arch, family, c);
  read_softcaps(meta, arch, family, c);
  if (Status status = meta.take_status(); !status) return failure(std::move(status));
  return c;
}

}  // namespace

Status check_gguf_architecture(const GgufFile& file) {
  GgufMetadata meta(file);
  std::string arch;
  meta.text("general.architecture", arch, true);
  if (meta.ok() && !family_of_gguf(arch))
    meta.fail(StatusCode::unsupported,
              "the architecture " + quote(arch) + "; it must be " + known_families(&Family::gguf));
  return meta.take_status();
}

Expected<ModelConfig> read_gguf_config(const GgufFile& file) {
  auto config = read_config(file, true);
  if (!config) return config;
  if (Status status = check_config(*config, file.origin()); !status) return failure(std::move(status));
  return config;
}
Expected<ModelConfig> read_gguf_keys(const GgufFile& file) { return read_config(file, false); }

}  // namespace inlay::exec
