#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/gguf/config.hpp"
#include "executor/model/gguf/metadata.hpp"

namespace inlay::exec {

namespace {

constexpr const char* truncate_key = "inlay.rope.yarn_truncate";

// YaRN's own magnitude, on top of which GGUF's attn_factor counts.
double yarn_magnitude(const RopeConfig& rope) { return 0.1 * std::log(rope.factor) + 1; }

// Keys that change what a model computes and that no field stands for, with the value that changes nothing.
struct Neutral {
  const char* key;
  double value;
};
constexpr Neutral neutral_numbers[] = {{"logit_scale", 1},
                                       {"residual_scale", 1},
                                       {"embedding_scale", 1},
                                       {"attn_logit_softcapping", 0},
                                       {"final_logit_softcapping", 0},
                                       {"attention.scale", 0},
                                       {"attention.output_scale", 1},
                                       {"attention.clamp_kqv", 0},
                                       {"attention.max_alibi_bias", 0},
                                       {"attention.temperature_scale", 0},
                                       {"rope.scaling.alpha", 0},
                                       {"rope.scaling.yarn_log_multiplier", 0},
                                       {"rope.scaling.yarn_ext_factor", 1},
                                       {"rope.scaling.yarn_attn_factor", 1}};

void refuse_unread(GgufMetadata& meta, const std::string& arch) {
  for (const auto& [name, neutral] : neutral_numbers) {
    const std::string key = arch + "." + name;
    if (double value = neutral; meta.number(key, value, false) && value != neutral)
      meta.fail(StatusCode::unsupported, "the key " + quote(key) + " is " + std::to_string(value) + "; it must be " +
                                             std::to_string(neutral) + " or absent");
  }
  if (index experts = 0; meta.integer(arch + ".expert_count", experts, false) && experts > 0)
    meta.fail(StatusCode::unsupported,
              "the architecture " + quote(arch) + " with " + std::to_string(experts) + " experts; it must have none");
  if (bool causal = true; meta.boolean(arch + ".attention.causal", causal) && !causal)
    meta.fail(StatusCode::unsupported, "the key " + quote(arch + ".attention.causal") + " is false; it must be true");
}

// What the tensors say of the architecture.
void read_tensors(const GgufFile& file, GgufMetadata& meta, ModelConfig& c) {
  c.tie_embeddings = true;
  c.qkv_bias = c.architecture == "qwen2", c.qk_norm = c.architecture == "qwen3";
  for (const WeightTensor& tensor : file.tensors()) {
    if (tensor.name == "token_embd.weight" && tensor.rank == 2) {
      c.vocab = tensor.extents[0];
      if (c.vocab == 0)
        return meta.fail(StatusCode::corrupt_data, "the tensor 'token_embd.weight' has extents " +
                                                       describe_extents(tensor) +
                                                       "; it must have a row for each token");
    }
    if (tensor.name == "output.weight") c.tie_embeddings = false;
    if (tensor.name == "blk.0.attn_q.bias") c.qkv_bias = true;
    if (tensor.name == "blk.0.attn_output.bias") c.output_bias = true;
    if (tensor.name == "blk.0.attn_q_norm.weight") c.qk_norm = true;
    if (tensor.name != "rope_freqs.weight") continue;
    if (tensor.type != GgmlType::F32 || tensor.rank != 1)
      return meta.fail(StatusCode::corrupt_data, "the tensor 'rope_freqs.weight' is no vector of F32");
    if (c.rope.scaling != RopeConfig::Scaling::none)
      return meta.fail(StatusCode::unsupported, "a rope scaling together with 'rope_freqs.weight'");
    c.rope.scaling = RopeConfig::Scaling::freq_factors;
    c.rope.freq_factors.resize(static_cast<std::size_t>(tensor.extents[0]));
    std::memcpy(c.rope.freq_factors.data(), tensor.data, static_cast<std::size_t>(tensor.bytes));
  }
  if (c.vocab == 0) meta.fail(StatusCode::not_found, "the matrix 'token_embd.weight' is missing");
}

void read_rope(const GgufFile& file, GgufMetadata& meta, const std::string& arch, ModelConfig& c) {
  RopeConfig& rope = c.rope;
  rope.pairing = gguf_pairing(arch);
  rope.dim = c.head_dim;
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
    rope.original_context = c.context;
    meta.integer(arch + ".rope.scaling.original_context_length", rope.original_context, false);
    meta.number(arch + ".rope.scaling.yarn_beta_fast", rope.beta_fast, false);
    meta.number(arch + ".rope.scaling.yarn_beta_slow", rope.beta_slow, false);
    meta.boolean(truncate_key, rope.truncate);
    rope.attention_factor = yarn_magnitude(rope);
  } else if (type != "none") {
    meta.fail(StatusCode::unsupported, "rope scaling " + quote(type) + "; it must be none, linear or yarn");
  }
  double attention = 1;  // of every type, none too
  meta.number(arch + ".rope.scaling.attn_factor", attention, false);
  rope.attention_factor *= attention;
}

// Widths, windows and thetas, each one number or one for each layer.
void read_layers(const GgufFile& file, GgufMetadata& meta, const std::string& arch, ModelConfig& c) {
  std::vector<index> widths, windowed;
  meta.per_layer(arch + ".feed_forward_length", c.layers, widths, true);
  index window = 0;
  double theta = c.rope.theta;
  meta.integer(arch + ".attention.sliding_window", window, false);
  const std::string pattern = arch + ".attention.sliding_window_pattern";
  meta.per_layer(pattern, c.layers, windowed, false);
  meta.number(arch + ".rope.freq_base_swa", theta, false);
  // llama.cpp reads one number as a period whose phase depends on the architecture.
  if (const GgufValue* value = file.find(pattern); value && value->type != GgufType::array)
    meta.fail(StatusCode::unsupported,
              "the key " + quote(pattern) + " is one number; it must be an array with an entry for each layer");
  if (!meta.ok()) return;
  c.hidden = widths[0], c.sliding_window = window;
  if (widths.size() == 1 && windowed.size() <= 1) {
    if (!windowed.empty() && windowed[0] == 0) c.sliding_window = 0;
    if (c.sliding_window > 0) c.rope.theta = theta;
    return;
  }
  std::vector<LayerConfig> each(static_cast<std::size_t>(c.layers));
  for (std::size_t i = 0; i < each.size(); ++i) {
    each[i].hidden = widths.size() == 1 ? widths[0] : widths[i];
    each[i].window = windowed.empty() || windowed[i] != 0 ? window : 0;
    each[i].rope_theta = each[i].window > 0 ? theta : c.rope.theta;
  }
  c.set_layers(std::move(each));
}

}  // namespace

std::string gguf_architecture(const ModelConfig& config) {
  return config.architecture == "mistral" ? "llama" : config.architecture;
}

RopeConfig::Pairing gguf_pairing(const std::string& architecture) {
  const bool interleaved = architecture == "llama" || architecture == "internlm2";
  return interleaved ? RopeConfig::Pairing::interleaved : RopeConfig::Pairing::half;
}

Status check_gguf_architecture(const GgufFile& file) {
  GgufMetadata meta(file);
  std::string arch;
  meta.text("general.architecture", arch, true);
  if (meta.ok() && arch != "llama" && arch != "qwen2" && arch != "qwen3" && arch != "internlm2")
    meta.fail(StatusCode::unsupported,
              "the architecture " + quote(arch) + "; it must be llama, qwen2, qwen3 or internlm2");
  return meta.take_status();
}

Expected<ModelConfig> read_gguf_config(const GgufFile& file) {
  if (Status status = check_gguf_architecture(file); !status) return failure(std::move(status));
  GgufMetadata meta(file);
  ModelConfig c;
  meta.text("general.architecture", c.architecture, true);
  meta.text("general.name", c.name, false);
  const std::string& arch = c.architecture;
  refuse_unread(meta, arch);
  meta.integer(arch + ".block_count", c.layers, true);
  meta.integer(arch + ".embedding_length", c.dim, true);
  meta.integer(arch + ".context_length", c.context, true);
  meta.integer(arch + ".attention.head_count", c.heads, true);
  c.kv_heads = c.heads;
  meta.integer(arch + ".attention.head_count_kv", c.kv_heads, false);
  meta.number(arch + ".attention.layer_norm_rms_epsilon", c.rms_eps, true);
  if (meta.ok() && (c.heads < 1 || c.dim < 1))
    meta.fail(StatusCode::corrupt_data, "the head count and the embedding length must be positive");
  if (meta.ok() && (c.layers < 1 || c.layers > max_layers))  // before there is a list of them
    meta.fail(StatusCode::corrupt_data,
              "the count of layers is " + std::to_string(c.layers) + "; it must be 1 to " + std::to_string(max_layers));
  if (meta.ok()) c.head_dim = c.dim / c.heads;
  meta.integer(arch + ".attention.key_length", c.head_dim, false);
  if (index value = c.head_dim; meta.integer(arch + ".attention.value_length", value, false) && value != c.head_dim)
    meta.fail(StatusCode::unsupported, "value heads of another length than key heads");
  read_rope(file, meta, arch, c);
  read_layers(file, meta, arch, c);
  if (meta.ok()) read_tensors(file, meta, c);
  if (Status status = meta.take_status(); !status) return failure(std::move(status));
  return c;
}

namespace {

// What differs between layers, in the one form that GGUF has for each: an array of widths; one window and which
// layers have it; one theta for those and one for the others.
Status write_layers(const ModelConfig& c, const std::string& origin, const std::string& arch, GgufWriter& writer) {
  std::vector<std::int32_t> widths;
  std::vector<std::uint8_t> windowed;
  double theta = c.rope.theta;  // of the layers with a window
  for (index i = 0; i < c.layers; ++i)
    if (const LayerConfig layer = c.layer(i); layer.window > 0) theta = layer.rope_theta;
  for (index i = 0; i < c.layers; ++i) {
    const LayerConfig layer = c.layer(i);
    widths.push_back(static_cast<std::int32_t>(layer.hidden));
    windowed.push_back(layer.window > 0);
    const auto refuse = [&](const std::string& what) {
      return Status(StatusCode::unsupported, origin + ": layer " + std::to_string(i) + " has " + what);
    };
    if (layer.window > 0 && layer.window != c.sliding_window)
      return refuse("a window of " + std::to_string(layer.window) + ", others one of " +
                    std::to_string(c.sliding_window) + "; GGUF has a form for one size only");
    if (layer.rope_theta != (layer.window > 0 ? theta : c.rope.theta))
      return refuse("the rope theta " + std::to_string(layer.rope_theta) +
                    "; GGUF has a form for one theta of the layers with a window and one of the others");
  }
  const auto alike = [](const auto& all) { return std::equal(all.begin() + 1, all.end(), all.begin()); };
  if (widths.empty() || alike(widths))
    writer.set(arch + ".feed_forward_length", static_cast<std::uint32_t>(c.hidden));
  else
    writer.set(arch + ".feed_forward_length", std::span<const std::int32_t>(widths));
  if (c.sliding_window > 0) {
    writer.set(arch + ".attention.sliding_window", static_cast<std::uint32_t>(c.sliding_window));
    if (!windowed.empty() && !alike(windowed)) writer.set_flags(arch + ".attention.sliding_window_pattern", windowed);
    if (theta != c.rope.theta) writer.set(arch + ".rope.freq_base_swa", static_cast<float>(theta));
  }
  return {};
}

}  // namespace

Status write_gguf_config(const ModelConfig& c, const std::string& origin, GgufWriter& writer) {
  const std::string arch = gguf_architecture(c);
  const auto number = [&](const char* name, index value) {
    writer.set(arch + "." + name, static_cast<std::uint32_t>(value));
  };
  const auto real = [&](const char* name, double value) { writer.set(arch + "." + name, static_cast<float>(value)); };
  writer.set("general.architecture", arch);
  writer.set("general.name", c.name.empty() ? c.architecture : c.name);
  number("context_length", c.context), number("embedding_length", c.dim), number("block_count", c.layers);
  number("vocab_size", c.vocab);
  number("attention.head_count", c.heads), number("attention.head_count_kv", c.kv_heads);
  number("attention.key_length", c.head_dim), number("attention.value_length", c.head_dim);
  real("attention.layer_norm_rms_epsilon", c.rms_eps);
  number("rope.dimension_count", c.rope.dim);
  real("rope.freq_base", c.rope.theta);
  if (Status status = write_layers(c, origin, arch, writer); !status) return status;
  const bool yarn = c.rope.scaling == RopeConfig::Scaling::yarn;
  if (const double attention = c.rope.attention_factor / (yarn ? yarn_magnitude(c.rope) : 1); yarn || attention != 1)
    real("rope.scaling.attn_factor", attention);
  if (!yarn && c.rope.scaling != RopeConfig::Scaling::linear) return {};
  writer.set(arch + ".rope.scaling.type", yarn ? "yarn" : "linear");
  real("rope.scaling.factor", c.rope.factor);
  if (!yarn) return {};
  number("rope.scaling.original_context_length", c.rope.original_context);
  real("rope.scaling.yarn_beta_fast", c.rope.beta_fast), real("rope.scaling.yarn_beta_slow", c.rope.beta_slow);
  if (!c.rope.truncate) writer.set(truncate_key, false);
  return {};
}

}  // namespace inlay::exec
