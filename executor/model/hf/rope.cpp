#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/hf/rope.hpp"

namespace inlay::exec {

namespace {

// Llama 3.1: long wavelengths are slowed down by `factor`, short ones kept, those between blended.
std::vector<float> llama3_freq_factors(const RopeConfig& rope) {
  std::vector<float> factors;
  const auto original = static_cast<double>(rope.original_context);
  for (index i = 0; i < rope.dim / 2; ++i) {
    const double wavelength =
        2 * std::numbers::pi * std::pow(rope.theta, 2 * static_cast<double>(i) / static_cast<double>(rope.dim));
    const double turns = original / wavelength;  // within the original context
    double factor = 1;
    if (turns < rope.low_freq_factor) {
      factor = rope.factor;
    } else if (turns <= rope.high_freq_factor) {
      const double smooth = (turns - rope.low_freq_factor) / (rope.high_freq_factor - rope.low_freq_factor);
      factor = 1 / ((1 - smooth) / rope.factor + smooth);
    }
    factors.push_back(static_cast<float>(factor));
  }
  return factors;
}

// Keys that a scaling is described by, beside those that any may have. What stands there and is read by nobody would
// change the numbers unseen.
Status refuse_unread(const Json& scaling, const std::string& type, const std::string& where) {
  constexpr std::string_view always[] = {
      "rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "original_max_position_embeddings",
      "finetuned"};
  constexpr std::string_view llama3[] = {"low_freq_factor", "high_freq_factor"};
  constexpr std::string_view yarn[] = {"beta_fast", "beta_slow",      "attention_factor",
                                       "mscale",    "mscale_all_dim", "truncate"};
  std::span<const std::string_view> own;
  if (type == "llama3") own = llama3;
  if (type == "yarn") own = yarn;
  const auto in = [](std::span<const std::string_view> list, std::string_view key) {
    return std::find(list.begin(), list.end(), key) != list.end();
  };
  for (const auto& [key, value] : scaling.members()) {
    const bool known = value.is_null() || in(always, key) || in(own, key);
    if (!known)
      return {StatusCode::unsupported,
              where + " has the key " + quote(key) + ", which a scaling of the type " + quote(type) + " does not read"};
  }
  return {};
}

// 0.1 mscale ln(factor) + 1, or a quotient of two of them: how YaRN sharpens attention.
double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  const auto magnitude = [&](double scale) { return factor <= 1 ? 1 : 0.1 * scale * std::log(factor) + 1; };
  const bool both = mscale != 0 && mscale_all_dim != 0;
  return both ? magnitude(mscale) / magnitude(mscale_all_dim) : magnitude(1);
}

// The first part of each head turns.
void read_partial(JsonFields& fields, index head_dim, RopeConfig& rope) {
  double partial = 1;
  if (!fields.number("partial_rotary_factor", partial)) return;
  if (!(partial > 0 && partial <= 1))
    return fields.fail(StatusCode::corrupt_data, "partial_rotary_factor must be in (0, 1]");
  rope.dim = static_cast<index>(static_cast<double>(head_dim) * partial);
}

// One object of `rope_type`, `factor` and so on; `where` names it in messages.
Status read_scaling(const Json& scaling, const std::string& where, JsonFields& top, const ModelConfig& c,
                    RopeConfig& rope) {
  if (!scaling.is_object()) return {StatusCode::corrupt_data, where + " is no object"};
  JsonFields fields(scaling, where);
  fields.number("rope_theta", rope.theta);
  read_partial(fields, c.head_dim, rope);
  std::string type = "default";
  if (!fields.text("rope_type", type)) fields.text("type", type);
  const bool yarn_by_lengths = type == "yarn" && scaling.contains("factor") && !scaling.find("factor");  // null
  const bool scaled = type == "linear" || type == "llama3" || type == "yarn";
  fields.number("factor", rope.factor, scaled && !yarn_by_lengths);
  constexpr const char* original = "original_max_position_embeddings";
  rope.original_context = c.context;
  const bool stated = top.integer(original, rope.original_context);
  const index outer = rope.original_context;
  if (fields.integer(original, rope.original_context) && stated && rope.original_context != outer)
    fields.fail(StatusCode::corrupt_data, std::string(original) + " is " + std::to_string(rope.original_context) +
                                              ", and " + std::to_string(outer) + " at the top of the file");
  if (type == "linear") {
    rope.scaling = RopeConfig::Scaling::linear;
  } else if (type == "llama3") {
    rope.scaling = RopeConfig::Scaling::llama3;
    fields.number("low_freq_factor", rope.low_freq_factor, true);
    fields.number("high_freq_factor", rope.high_freq_factor, true);
    if (!(rope.low_freq_factor < rope.high_freq_factor))
      fields.fail(StatusCode::corrupt_data, "low_freq_factor must be below high_freq_factor");
    if (fields.ok()) rope.freq_factors = llama3_freq_factors(rope);
  } else if (type == "yarn") {
    rope.scaling = RopeConfig::Scaling::yarn;
    if (yarn_by_lengths && rope.original_context > 0)
      rope.factor = static_cast<double>(c.context) / static_cast<double>(rope.original_context);
    fields.number("beta_fast", rope.beta_fast);
    fields.number("beta_slow", rope.beta_slow);
    fields.boolean("truncate", rope.truncate);
    double mscale = 0, mscale_all_dim = 0;
    fields.number("mscale", mscale);
    fields.number("mscale_all_dim", mscale_all_dim);
    rope.attention_factor = yarn_attention_factor(rope.factor, mscale, mscale_all_dim);
    fields.number("attention_factor", rope.attention_factor);
  } else if (type == "default" || type == "dynamic") {
    rope.factor = 1;  // dynamic scaling sets in beyond the context length, which is as far as we go
  } else {
    fields.fail(StatusCode::unsupported,
                "rope scaling " + quote(type) + "; it must be default, linear, dynamic, yarn or llama3");
  }
  if (Status status = fields.take_status(); !status) return status;
  return refuse_unread(scaling, type, where);
}

// Newer files: a description for each kind of layer. They may differ in theta.
Status read_by_kind(const Json& ropes, const std::string& where, JsonFields& top, HfLayerKinds kinds, ModelConfig& c,
                    double& sliding_theta) {
  RopeConfig full = c.rope, sliding = c.rope;
  const std::pair<const char*, std::pair<bool, RopeConfig*>> wanted[] = {
      {"full_attention", {kinds.full, &full}}, {"sliding_attention", {kinds.sliding, &sliding}}};
  for (const auto& [kind, to] : wanted) {
    if (!to.first) continue;
    const Json scaling = ropes.find(kind);
    if (!scaling) return {StatusCode::not_found, where + " has no key " + quote(kind)};
    if (Status status = read_scaling(scaling, where + " of " + kind, top, c, *to.second); !status) return status;
  }
  sliding_theta = sliding.theta;
  c.rope = kinds.full ? full : sliding;
  sliding.theta = c.rope.theta;
  if (kinds.full && kinds.sliding && sliding != c.rope)
    return {StatusCode::unsupported,
            where + ": full_attention and sliding_attention differ in more than their rope_theta"};
  return {};
}

}  // namespace

Status read_hf_rope(const Json& json, const std::string& origin, HfLayerKinds kinds, ModelConfig& c,
                    double& sliding_theta) {
  RopeConfig& rope = c.rope;
  rope.pairing = RopeConfig::Pairing::half;
  // Newer and older files. Where there are both, transformers takes the older one as a whole.
  const bool older =
      json.find("rope_scaling") && (json.find("rope_scaling").size() > 0 || !json.find("rope_parameters"));
  const char* key = older ? "rope_scaling" : "rope_parameters";
  const Json scaling = json.find(key);
  const std::string where = origin + ": " + key;
  JsonFields top(json, origin);
  top.number("rope_theta", rope.theta);
  rope.dim = c.head_dim;
  read_partial(top, c.head_dim, rope);
  if (scaling && top.ok()) {
    const bool by_kind = scaling.find("full_attention") || scaling.find("sliding_attention");
    if (by_kind) {
      if (Status status = read_by_kind(scaling, where, top, kinds, c, sliding_theta); !status) return status;
      return top.take_status();
    }
    if (Status status = read_scaling(scaling, where, top, c, rope); !status) return status;
  }
  sliding_theta = rope.theta;
  // The theta of sliding layers, which are never scaled where this key stands (Gemma 3).
  if (top.number("rope_local_base_freq", sliding_theta) && rope.scaling != RopeConfig::Scaling::none)
    top.fail(StatusCode::unsupported, "rope_local_base_freq together with a scaling of the other layers");
  return top.take_status();
}

}  // namespace inlay::exec
