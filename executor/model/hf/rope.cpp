#include <algorithm>
#include <cmath>
#include <numbers>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>
#include <inlay/weights/rope_frequencies.hpp>

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
Status refuse_unread(const Json& scaling, const std::string& type, bool with_alpha, bool temperature,
                     const std::string& where) {
  constexpr std::string_view always[] = {
      "rope_type", "type", "rope_theta", "partial_rotary_factor", "factor", "original_max_position_embeddings",
      "finetuned"};
  constexpr std::string_view llama3[] = {"low_freq_factor", "high_freq_factor"};
  constexpr std::string_view longrope[] = {"short_factor", "long_factor", "attention_factor", "short_mscale",
                                           "long_mscale"};
  constexpr std::string_view ntk_alpha[] = {"alpha", "beta_fast", "beta_slow", "mscale", "mscale_all_dim"};
  constexpr std::string_view of_temperature[] = {"llama_4_scaling_beta", "max_position_embeddings"};
  constexpr std::string_view yarn[] = {"beta_fast", "beta_slow",      "attention_factor",
                                       "mscale",    "mscale_all_dim", "truncate"};
  std::span<const std::string_view> own;
  if (type == "llama3") own = llama3;
  if (type == "yarn") own = yarn;
  if (type == "longrope") own = longrope;
  if (with_alpha) own = ntk_alpha;
  const auto in = [](std::span<const std::string_view> list, std::string_view key) {
    return std::find(list.begin(), list.end(), key) != list.end();
  };
  for (const auto& [key, value] : scaling.members()) {
    const bool known = value.is_null() || in(always, key) || in(own, key) || (temperature && in(of_temperature, key));
    if (!known)
      return {StatusCode::unsupported,
              where + " has the key " + quote(key) + ", which a scaling of the type " + quote(type) + " does not read"};
  }
  return {};
}

// How YaRN sharpens attention: by this much q and k are multiplied, or by a quotient of two of them.
double yarn_magnitude(double factor, double mscale) { return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1; }
double yarn_attention_factor(double factor, double mscale, double mscale_all_dim) {
  const bool both = mscale != 0 && mscale_all_dim != 0;
  return both ? yarn_magnitude(factor, mscale) / yarn_magnitude(factor, mscale_all_dim) : yarn_magnitude(factor, 1);
}

// LongRoPE's divisors of the frequencies, one for each pair.
std::vector<float> read_factors(JsonFields& fields, const Json& scaling, const char* key, index pairs) {
  std::vector<float> factors;
  const Json list = scaling.find(key);
  if (!list.is_array() || static_cast<index>(list.size()) != pairs) {
    fields.fail(StatusCode::corrupt_data, std::string(key) + " must be a list of " + std::to_string(pairs) +
                                              " numbers, one for each pair that turns");
    return factors;
  }
  for (const Json each : list.elements()) {
    if (!each.is_number()) {
      fields.fail(StatusCode::corrupt_data,
                  std::string(key) + " holds " + quote(written(each)) + "; it must hold numbers");
      break;
    }
    factors.push_back(static_cast<float>(each.number()));
  }
  return factors;
}

// Of each head what may turn.
index turning_dim(const ModelConfig& c) { return c.is_latent() ? c.latent.rope_dim : c.head_dim; }

// The first part of each head turns, in families that know it. transformers passes the key over in others, and vLLM
// does not: whose text is meant nobody can tell.
void read_partial(JsonFields& fields, const Family& family, index head_dim, double otherwise, RopeConfig& rope) {
  double partial = otherwise;
  if (fields.number("partial_rotary_factor", partial) && family.partial_rotary == 0 && partial != 1)
    return fields.fail(StatusCode::unsupported, "partial_rotary_factor is " + std::to_string(partial) +
                                                    "; in this architecture it must be 1 or absent");
  if (!(partial > 0 && partial <= 1))
    return fields.fail(StatusCode::corrupt_data, "partial_rotary_factor must be in (0, 1]");
  rope.dim = static_cast<index>(static_cast<double>(head_dim) * partial);
}

// Gemma 4's full layers: the first pairs turn, at the pace of all the head's, and the others stand still.
std::vector<float> proportional_factors(JsonFields& fields, const RopeConfig& rope) {
  constexpr float still = 1e30f;  // as GGUF's writers have it
  double partial = 1;
  fields.number("partial_rotary_factor", partial);
  if (!(partial > 0 && partial <= 1)) fields.fail(StatusCode::corrupt_data, "partial_rotary_factor must be in (0, 1]");
  if (!fields.ok()) return {};
  std::vector<float> factors(static_cast<std::size_t>(rope.dim / 2), still);
  const auto turning = static_cast<std::ptrdiff_t>(std::floor(partial * static_cast<double>(rope.dim) / 2));
  std::fill(factors.begin(), factors.begin() + turning, static_cast<float>(rope.factor));
  return factors;
}

// One object of `rope_type`, `factor` and so on; `where` names it in messages.
Status read_scaling(const Json& scaling, const std::string& where, JsonFields& top, const Family& family,
                    ModelConfig& c, RopeConfig& rope) {
  if (!scaling.is_object()) return {StatusCode::corrupt_data, where + " is no object"};
  JsonFields fields(scaling, where);
  fields.number("rope_theta", rope.theta);
  std::string type = "default";
  if (!fields.text("rope_type", type)) fields.text("type", type);
  const bool proportional = type == "proportional" && family.kinds.differ();
  if (scaling.contains("partial_rotary_factor") && !proportional) read_partial(fields, family, turning_dim(c), 1, rope);
  if (type == "su") type = "longrope";  // its name in older files
  double alpha = 0;
  const bool with_alpha = family.ntk_alpha && type == "dynamic" && fields.number("alpha", alpha);
  const bool yarn_by_lengths = type == "yarn" && scaling.contains("factor") && !scaling.find("factor");  // null
  const bool scaled = type == "linear" || type == "llama3" || type == "yarn";
  const bool has_factor = fields.number("factor", rope.factor, scaled && !yarn_by_lengths);
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
    if (c.is_latent() && mscale_all_dim != 0) {
      // What does not turn is sharpened with the scores.
      const double all = yarn_magnitude(rope.factor, mscale_all_dim);
      c.attn_scale = all * all / std::sqrt(static_cast<double>(c.head_dim));
    }
  } else if (type == "longrope") {
    rope.scaling = RopeConfig::Scaling::longrope;
    if (!has_factor)
      rope.factor = static_cast<double>(c.context) / static_cast<double>(std::max<index>(rope.original_context, 1));
    if (rope.original_context > 1)
      rope.attention_factor =
          inlay::detail::rope_magnitude({.scaling = RopeScaling::longrope,
                                         .factor = rope.factor,
                                         .original_context = static_cast<double>(rope.original_context)});
    fields.number("attention_factor", rope.attention_factor);
    // Phi-3.5-MoE's, of short texts and of long ones.
    const bool said = fields.number("short_mscale", rope.attention_factor);
    double of_long = rope.attention_factor;
    if ((fields.number("long_mscale", of_long) || said) && (!said || of_long != rope.attention_factor))
      fields.fail(StatusCode::unsupported, "short_mscale and long_mscale are not the same number");
    rope.freq_factors = read_factors(fields, scaling, "short_factor", rope.dim / 2);
    rope.long_factors = read_factors(fields, scaling, "long_factor", rope.dim / 2);
    rope.factor = 1;  // the lists hold all of it
  } else if (proportional) {
    rope.scaling = RopeConfig::Scaling::freq_factors;
    rope.freq_factors = proportional_factors(fields, rope);
    rope.factor = 1;
  } else if (with_alpha) {
    if (!(alpha > 0) || rope.dim < 4)
      fields.fail(StatusCode::corrupt_data,
                  "alpha is " + std::to_string(alpha) + "; it must be positive, for 4 elements or more that turn");
    else
      rope.theta *= std::pow(alpha, static_cast<double>(rope.dim) / static_cast<double>(rope.dim - 2));
    rope.factor = 1;
  } else if (type == "default" || type == "dynamic") {
    rope.factor = 1;  // dynamic scaling sets in beyond the context length, which is as far as we go
  } else {
    fields.fail(StatusCode::unsupported,
                "rope scaling " + quote(type) + "; it must be default, linear, dynamic, yarn, llama3 or longrope");
  }
  if (double beta = 0; family.temperature && fields.number("llama_4_scaling_beta", beta) && beta != 0)
    c.context = std::min(c.context, rope.original_context);
  if (Status status = fields.take_status(); !status) return status;
  return refuse_unread(scaling, type, with_alpha, family.temperature, where);
}

// Newer files: a description for each kind of layer.
Status read_by_kind(const Json& ropes, const std::string& where, JsonFields& top, const Family& family,
                    HfLayerKinds kinds, ModelConfig& c) {
  const RopeConfig plain = c.ropes[0];
  c.ropes.clear();
  const std::pair<const char*, bool> wanted[] = {{"full_attention", kinds.full}, {"sliding_attention", kinds.sliding}};
  for (const auto& [kind, there] : wanted) {
    if (!there) continue;
    const Json scaling = ropes.find(kind);
    if (!scaling) return {StatusCode::not_found, where + " has no key " + quote(kind)};
    RopeConfig rope = plain;
    const bool full = std::string_view(kind) == "full_attention";
    if (family.kinds.differ()) rope.dim = full ? kinds.full_head_dim : kinds.sliding_head_dim;
    if (Status status = read_scaling(scaling, where + " of " + kind, top, family, c, rope); !status) return status;
    c.ropes.push_back(std::move(rope));
  }
  return {};
}

}  // namespace

Status read_hf_rope(const Json& json, const std::string& origin, const Family& family, HfLayerKinds kinds,
                    ModelConfig& c) {
  RopeConfig rope{.pairing = family.pairing, .dim = turning_dim(c), .theta = family.theta};
  // Newer and older files. Where there are both, transformers takes the older one as a whole.
  const bool older =
      json.find("rope_scaling") && (json.find("rope_scaling").size() > 0 || !json.find("rope_parameters"));
  const char* key = older ? "rope_scaling" : "rope_parameters";
  const Json scaling = json.find(key);
  const std::string where = origin + ": " + key;
  JsonFields top(json, origin);
  if (bool by_neighbours = true; family.pairing_key && top.boolean(family.pairing_key, by_neighbours) && !by_neighbours)
    rope.pairing = RopeConfig::Pairing::half;
  top.number("rope_theta", rope.theta);
  read_partial(top, family, turning_dim(c), family.partial_rotary == 0 ? 1 : family.partial_rotary, rope);
  if (family.rotary_dim && top.integer("rotary_dim", rope.dim) && (rope.dim < 2 || rope.dim > c.head_dim))
    top.fail(StatusCode::corrupt_data, "rotary_dim is " + std::to_string(rope.dim) + "; it must be 2 to " +
                                           std::to_string(c.head_dim) + ", the length of a head");
  c.ropes = {rope};
  if (!scaling && family.scaled)
    top.fail(StatusCode::not_found, "there is no rope_parameters, which the architecture needs");
  if (scaling && top.ok()) {
    const bool by_kind = scaling.find("full_attention") || scaling.find("sliding_attention");
    if (by_kind) {
      if (Status status = read_by_kind(scaling, where, top, family, kinds, c); !status) return status;
      return top.take_status();
    }
    if (Status status = read_scaling(scaling, where, top, family, c, c.ropes[0]); !status) return status;
  }
  if (family.turns_back && top.ok()) {
    RopeConfig& only = c.ropes[0];
    if (only.scaling != RopeConfig::Scaling::none)
      return {StatusCode::unsupported, where + " has a scaling; it must have none in this architecture"};
    only.scaling = RopeConfig::Scaling::freq_factors;
    only.freq_factors.assign(static_cast<std::size_t>(only.dim / 2), -1.0f);
  }
  // Layers with a window may have a theta of their own, and are never scaled then.
  if (family.local_theta > 0) rope.theta = family.local_theta;
  if ((top.number("rope_local_base_freq", rope.theta) || family.plain_windows) && kinds.sliding) {
    if (!kinds.full) c.ropes.clear();
    c.ropes.push_back(rope);
  }
  return top.take_status();
}

}  // namespace inlay::exec
