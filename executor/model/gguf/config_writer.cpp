#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/family.hpp"
#include "executor/model/gguf/config.hpp"
#include "executor/model/gguf/experts.hpp"
#include "executor/model/gguf/heads.hpp"
#include "executor/model/gguf/latent.hpp"

namespace inlay::exec {

namespace {

constexpr int no_rope = LayerConfig::no_rope;

// The ropes of the two kinds of layers that GGUF tells apart, as places in ModelConfig::ropes; no_rope where no layer
// of the kind turns.
struct RopesByKind {
  int full = no_rope, windowed = no_rope;
};

Expected<RopesByKind> ropes_by_kind(const ModelConfig& c, const std::string& origin) {
  RopesByKind ropes;
  for (index i = 0; i < c.layers; ++i) {
    const LayerConfig layer = c.layer(i);
    const auto refuse = [&](const std::string& what) {
      return failure(StatusCode::unsupported, origin + ": layer " + std::to_string(i) + " has " + what);
    };
    if (layer.window > 0 && layer.window != c.sliding_window)
      return refuse("a window of " + std::to_string(layer.window) + ", others one of " +
                    std::to_string(c.sliding_window) + "; GGUF has a form for one size only");
    int& rope = layer.window > 0 ? ropes.windowed : ropes.full;
    if (layer.rope == no_rope) continue;
    if (rope != no_rope && rope != layer.rope)
      return refuse("the rope theta " + std::to_string(c.ropes[static_cast<std::size_t>(layer.rope)].theta) +
                    "; GGUF has a form for one theta of the layers with a window and one of the others");
    rope = layer.rope;
  }
  return ropes;
}

// What differs between layers, in the one form that GGUF has for each: an array of widths; one window and which layers
// have it; one theta for those and one for the others.
void write_layers(const ModelConfig& c, const std::string& arch, double theta, double windowed_theta,
                  GgufWriter& writer) {
  std::vector<std::int32_t> widths;
  std::vector<std::uint8_t> windowed;
  for (index i = 0; i < c.layers; ++i) {
    widths.push_back(static_cast<std::int32_t>(c.layer(i).hidden));
    windowed.push_back(c.layer(i).window > 0);
  }
  const auto alike = [](const auto& all) { return std::equal(all.begin() + 1, all.end(), all.begin()); };
  if (widths.empty() || alike(widths))
    writer.set(arch + ".feed_forward_length", static_cast<std::uint32_t>(c.hidden));
  else
    writer.set(arch + ".feed_forward_length", std::span<const std::int32_t>(widths));
  if (c.sliding_window == 0) return;
  writer.set(arch + ".attention.sliding_window", static_cast<std::uint32_t>(c.sliding_window));
  if (!windowed.empty() && !alike(windowed)) writer.set_flags(arch + ".attention.sliding_window_pattern", windowed);
  if (windowed_theta != theta) writer.set(arch + ".rope.freq_base_swa", static_cast<float>(windowed_theta));
}

// As they were read.
void write_xielu(const ModelConfig& c, GgufWriter& writer) {
  if (c.activation != Activation::xielu) return;
  for (const auto& [key, member] : gguf_xielu) {
    std::vector<float> all;
    for (index i = 0; i < c.layers; ++i) all.push_back(static_cast<float>(c.layer(i).xielu.*member));
    writer.set(key, std::span<const float>(all));
  }
}

bool near(double a, double b) { return std::abs(a - b) <= 1e-6 * std::max(std::abs(a), std::abs(b)); }

bool alike(const RopeConfig& a, const RopeConfig& b) {
  using enum RopeConfig::Scaling;
  // Llama 3.1's rule and its factors, and those of LongRoPE, are tensors, which are not written yet.
  const auto kind = [](const RopeConfig& rope) {
    return rope.scaling == llama3 || rope.scaling == freq_factors || rope.scaling == longrope ? none : rope.scaling;
  };
  const bool scaled = kind(a) != none;
  return a.dim == b.dim && kind(a) == kind(b) && near(a.theta, b.theta) &&
         near(a.attention_factor, b.attention_factor) && (!scaled || near(a.factor, b.factor));
}

}  // namespace

Status check_gguf_config(const ModelConfig& c, const std::string& origin, const GgufWriter& writer) {
  const std::string head = writer.head();
  auto file = GgufFile::parse(Mapping::borrow(std::as_bytes(std::span(head))), origin);
  if (!file) return std::move(file.error());
  auto read = read_gguf_keys(*file);
  if (!read) return std::move(read.error());
  const auto refuse = [&](const std::string& what) {
    return Status(
        StatusCode::unsupported,
        origin + ": " + what + " is none that GGUF has a form for in the architecture " + quote(read->architecture));
  };
  if (read->norms != c.norms || read->norm != c.norm || read->parallel != c.parallel ||
      read->activation != c.activation || read->gated != c.gated)
    return refuse("the kind or the order of norms, the activation or a gate");
  const bool by_tensors = c.qk_norm == QkNorm::head || c.qk_norm == QkNorm::each_head;
  if (read->qk_norm != c.qk_norm && !(read->qk_norm == QkNorm::none && by_tensors))
    return refuse("the norm of q and k");
  const double attn = 1 / std::sqrt(static_cast<double>(c.head_dim));
  const auto scale = [&](double each) { return each == 0 ? attn : each; };
  if (!near(read->embed_scale, c.embed_scale) || !near(read->residual_scale, c.residual_scale) ||
      !near(read->logit_scale, c.logit_scale) || !near(scale(read->attn_scale), scale(c.attn_scale)))
    return refuse("a scale of embeddings, branches, scores or logits");
  if (!near(read->attn_softcap, c.attn_softcap) || !near(read->final_softcap, c.final_softcap))
    return refuse("a cap of scores or logits");
  if (read->layer_inputs != c.layer_inputs || read->norm_weights != c.norm_weights || read->v_norm != c.v_norm)
    return refuse("the inputs of layers, or a norm without weights,");
  ExpertsConfig experts = read->experts;
  if (near(experts.scale, c.experts.scale)) experts.scale = c.experts.scale;
  if (experts != c.experts) return refuse("the mixture of experts");
  LatentConfig latent = read->latent;
  if (near(latent.norm_eps, c.latent.norm_eps)) latent.norm_eps = c.latent.norm_eps;
  if (latent != c.latent) return refuse("latent attention, whose norms have the eps of all others,");
  for (index i = 0; i < c.layers; ++i) {
    const LayerConfig ours = c.layer(i), theirs = read->layer(i);
    if (ours.kv_heads != theirs.kv_heads || ours.head_dim != theirs.head_dim || ours.kv_layer != theirs.kv_layer)
      return refuse("the heads of layer " + std::to_string(i));
    if (ours.sparse != theirs.sparse) return refuse("the choice of layers that have experts");
    const auto rope_of = [](const ModelConfig& of, const LayerConfig& layer) {
      return of.ropes[static_cast<std::size_t>(layer.rope)];
    };
    if (ours.window != theirs.window || (ours.rope == no_rope) != (theirs.rope == no_rope) ||
        (ours.rope != no_rope && !alike(rope_of(c, ours), rope_of(*read, theirs))))
      return refuse("the window or the rope of layer " + std::to_string(i));
  }
  return {};
}

Status write_gguf_config(const ModelConfig& c, const std::string& origin, GgufWriter& writer) {
  const Family* family = family_of(c.architecture);
  const std::string arch(family ? family->gguf : c.architecture);
  const auto number = [&](const char* name, index value) {
    writer.set(arch + "." + name, static_cast<std::uint32_t>(value));
  };
  const auto real = [&](const char* name, double value) { writer.set(arch + "." + name, static_cast<float>(value)); };
  auto kinds = ropes_by_kind(c, origin);
  if (!kinds) return std::move(kinds.error());
  if (kinds->full == no_rope) kinds->full = std::max(kinds->windowed, 0);
  if (kinds->windowed == no_rope) kinds->windowed = kinds->full;
  const RopeConfig& rope = c.ropes[static_cast<std::size_t>(kinds->full)];
  writer.set("general.architecture", arch);
  writer.set("general.name", c.name.empty() ? c.architecture : c.name);
  number("context_length", c.context), number("embedding_length", c.dim), number("block_count", c.layers);
  number("vocab_size", c.vocab);
  number("attention.head_count", c.heads);
  if (family && family->kinds.differ()) {
    if (Status status = write_gguf_heads(c, arch, origin, writer); !status) return status;
  } else {
    number("attention.head_count_kv", c.kv_heads);
    number("attention.key_length", c.head_dim), number("attention.value_length", c.value_dim());
  }
  write_gguf_latent(c, arch, writer);
  writer.set(arch + gguf_norm_eps(c.norm, family), static_cast<float>(c.norm_eps));
  if (family && family->parallel.key) writer.set(arch + "." + family->parallel.key, c.parallel);
  if (family && family->scales == Scales::cohere) real("logit_scale", c.logit_scale);
  if (family && family->scales == Scales::minicpm && !c.is_latent()) {
    real("embedding_scale", c.embed_scale), real("residual_scale", c.residual_scale);
    real("logit_scale", 1 / c.logit_scale);
  }
  if (family && family->scales == Scales::granite) {
    real("embedding_scale", c.embed_scale), real("residual_scale", c.residual_scale);
    real("logit_scale", 1 / c.logit_scale);
    real("attention.scale", c.attn_scale == 0 ? 1 / std::sqrt(static_cast<double>(c.head_dim)) : c.attn_scale);
  }
  if (family && c.attn_softcap != family->softcaps.scores) real("attn_logit_softcapping", c.attn_softcap);
  if (family && c.final_softcap != family->softcaps.logits) real("final_logit_softcapping", c.final_softcap);
  if (family) write_gguf_experts(c, arch, family->mixture, writer);
  number("rope.dimension_count", rope.dim);
  if (const index dim = c.ropes[static_cast<std::size_t>(kinds->windowed)].dim; dim != rope.dim)
    number("rope.dimension_count_swa", dim);
  real("rope.freq_base", rope.theta);
  write_xielu(c, writer);
  write_layers(c, arch, rope.theta, c.ropes[static_cast<std::size_t>(kinds->windowed)].theta, writer);
  const bool yarn = rope.scaling == RopeConfig::Scaling::yarn, linear = rope.scaling == RopeConfig::Scaling::linear;
  if (const double attention = rope.attention_factor / (yarn ? gguf_yarn_magnitude(c, rope) : 1);
      yarn || attention != 1)
    real("rope.scaling.attn_factor", attention);
  if (yarn || linear) {
    writer.set(arch + ".rope.scaling.type", yarn ? "yarn" : "linear");
    real("rope.scaling.factor", rope.factor);
  }
  if (yarn) {
    real("rope.scaling.yarn_beta_fast", rope.beta_fast), real("rope.scaling.yarn_beta_slow", rope.beta_slow);
    if (rope.truncate != (!family || family->yarn_truncates)) writer.set(gguf_yarn_truncate, rope.truncate);
  }
  if (yarn || rope.scaling == RopeConfig::Scaling::longrope)
    number("rope.scaling.original_context_length", rope.original_context);
  return {};
}

}  // namespace inlay::exec
