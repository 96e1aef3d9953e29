// Frequencies of rotary embeddings, computed once a model on the host, in double.
//
//   f_i = theta^(-2i / rotary_dim)                                     i in 0..rotary_dim/2
//
//   linear     f_i / factor                                            Chen et al., 2023
//   ntk        theta * factor^(d / (d - 2))                            bloc97, 2023
//   dynamic    the same with factor * length / original_context - (factor - 1) where the length
//              passes original_context; else factor 1
//   yarn       f_i / factor * r_i + f_i * (1 - r_i), r_i a ramp over i from 0 (turns more than
//              beta_fast times in the original context) to 1 (less than beta_slow times);
//              magnitude 0.1 ln(factor) + 1                            Peng et al., 2023
//   llama3     f_i where its wave is shorter than original_context / high_freq_factor, f_i / factor
//              where longer than original_context / low_freq_factor, between them linear in
//              1 / wave                                                Llama 3.1
//   longrope   f_i (the published factors are divisors below); magnitude
//              sqrt(1 + ln(factor) / ln(original_context))             Ding et al., 2024
//
// divisors (GGUF's rope_freqs, LongRoPE's factor lists) divide each frequency after the rule. By a negative one a pair
// turns the other way (NanoChat), by 1e30 it stands still (Gemma 4).
//
//   auto frequencies = rope_frequencies({.rotary_dim = 128, .theta = 500000});
//   RopeTable{.positions = p, .inv_freq = frequencies->view(), .magnitude = frequencies->magnitude, ...}
#pragma once

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>

namespace inlay {

enum class RopeScaling : unsigned char { none, linear, ntk, dynamic, yarn, llama3, longrope };

struct RopeParameters {
  index rotary_dim = 0;  // even: two elements a pair
  double theta = 10000;
  RopeScaling scaling = RopeScaling::none;
  double factor = 1;
  double original_context = 0;  // positions trained on: dynamic, yarn, llama3, longrope
  double length = 0;            // dynamic: positions in use
  double beta_fast = 32, beta_slow = 1;
  bool truncate = true;  // yarn: the ramp's ends are whole pairs (gpt-oss: false)
  double low_freq_factor = 1, high_freq_factor = 4;
  double attention_factor = 0;            // 0: the magnitude follows the rule
  double mscale = 0, mscale_all_dim = 0;  // DeepSeek's yarn: magnitude m(mscale) / m(mscale_all_dim)
  std::span<const float> divisors = {};   // empty, or one for each pair
};

struct RopeFrequencies {
  // Two rows, as RopeTable takes them: each frequency rounded to f32, then what the rounding lost.
  std::vector<float> rows;
  float magnitude = 1;

  index pairs() const { return static_cast<index>(rows.size()) / 2; }
  ConstView<2> view() const { return {rows.data(), {2, pairs()}}; }
  double operator[](index i) const { return static_cast<double>(rows[i]) + rows[pairs() + i]; }
};

namespace detail {

// The pair that turns `turns` times over the original context.
inline double yarn_pair(const RopeParameters& p, double turns) {
  const double tau = 2 * 3.14159265358979323846;
  return p.rotary_dim * std::log(p.original_context / (turns * tau)) / (2 * std::log(p.theta));
}

// 0 for pairs that turn fast and keep their frequency, 1 for those that are interpolated.
inline double yarn_ramp(const RopeParameters& p, index i) {
  double low = yarn_pair(p, p.beta_fast), high = yarn_pair(p, p.beta_slow);
  if (p.truncate) {
    low = std::floor(low);
    high = std::ceil(high);
  }
  low = std::fmax(low, 0);
  high = std::fmin(high, static_cast<double>(p.rotary_dim - 1));
  if (low == high) high += 0.001;  // the published code's guard against a ramp of no width
  return std::fmin(std::fmax((static_cast<double>(i) - low) / (high - low), 0), 1);
}

inline double yarn_magnitude(double factor, double mscale) {
  return factor <= 1 ? 1 : 0.1 * mscale * std::log(factor) + 1;
}

inline double llama3_frequency(const RopeParameters& p, double f) {
  const double waves = p.original_context * f / (2 * 3.14159265358979323846);  // in the original context
  if (waves > p.high_freq_factor) return f;
  if (waves < p.low_freq_factor) return f / p.factor;
  const double smooth = (waves - p.low_freq_factor) / (p.high_freq_factor - p.low_freq_factor);
  return (1 - smooth) * f / p.factor + smooth * f;
}

inline double rope_magnitude(const RopeParameters& p) {
  if (p.attention_factor > 0) return p.attention_factor;
  if (p.scaling == RopeScaling::yarn) {
    if (p.mscale != 0 && p.mscale_all_dim != 0)
      return yarn_magnitude(p.factor, p.mscale) / yarn_magnitude(p.factor, p.mscale_all_dim);
    return yarn_magnitude(p.factor, 1);
  }
  if (p.scaling == RopeScaling::longrope && p.factor > 1)
    return std::sqrt(1 + std::log(p.factor) / std::log(p.original_context));
  return 1;
}

inline Status check_rope(const RopeParameters& p) {
  const auto refuse = [](const char* name, double value, const char* must) {
    return invalid(std::string(name) + " is " + std::to_string(value) + "; it must be " + must);
  };
  if (p.rotary_dim < 0 || p.rotary_dim % 2 != 0)
    return invalid("rotary_dim is " + std::to_string(p.rotary_dim) + "; it must be even and zero or more");
  if (p.scaling > RopeScaling::longrope)
    return invalid("scaling is " + std::to_string(static_cast<int>(p.scaling)) + "; it must be in 0..6");
  if (!(p.theta > 0) || !std::isfinite(p.theta)) return refuse("theta", p.theta, "positive and finite");
  if (!(p.factor > 0) || !std::isfinite(p.factor)) return refuse("factor", p.factor, "positive and finite");
  const bool stretches = p.scaling == RopeScaling::ntk || p.scaling == RopeScaling::dynamic;
  if (stretches && p.rotary_dim == 2) return invalid("rotary_dim is 2; it must be 4 or more for NTK's rule");
  const bool trained = p.scaling >= RopeScaling::dynamic;
  if (trained && !(p.original_context > 1))
    return refuse("original_context", p.original_context, "above 1 for this scaling");
  if (p.scaling == RopeScaling::llama3 && !(p.high_freq_factor > p.low_freq_factor && p.low_freq_factor > 0))
    return refuse("high_freq_factor", p.high_freq_factor, "above low_freq_factor, which must be positive");
  if (p.scaling == RopeScaling::yarn && !(p.theta > 1)) return refuse("theta", p.theta, "above 1 for yarn");
  if (p.scaling == RopeScaling::yarn && !(p.beta_fast >= p.beta_slow && p.beta_slow > 0))
    return refuse("beta_fast", p.beta_fast, "beta_slow or more, which must be positive");
  if (!p.divisors.empty() && static_cast<index>(p.divisors.size()) != p.rotary_dim / 2)
    return invalid("divisors has " + std::to_string(p.divisors.size()) + " entries; it must have " +
                   std::to_string(p.rotary_dim / 2) + ", one for each pair");
  for (std::size_t i = 0; i < p.divisors.size(); ++i)
    if (p.divisors[i] == 0 || !std::isfinite(p.divisors[i]))
      return invalid("divisors[" + std::to_string(i) + "] is " + std::to_string(p.divisors[i]) +
                     "; it must be finite and not 0");
  return {};
}

}  // namespace detail

inline Expected<RopeFrequencies> rope_frequencies(const RopeParameters& p) {
  if (Status status = detail::check_rope(p); !status.ok()) return failure(std::move(status));
  const double dim = static_cast<double>(p.rotary_dim);
  double theta = p.theta;
  if (p.scaling == RopeScaling::ntk) theta *= std::pow(p.factor, dim / (dim - 2));
  if (p.scaling == RopeScaling::dynamic && p.length > p.original_context)
    theta *= std::pow(p.factor * p.length / p.original_context - (p.factor - 1), dim / (dim - 2));

  RopeFrequencies result;
  result.magnitude = static_cast<float>(detail::rope_magnitude(p));
  const index pairs = p.rotary_dim / 2;
  result.rows.resize(static_cast<std::size_t>(2 * pairs));
  for (index i = 0; i < pairs; ++i) {
    double f = std::pow(theta, -2 * static_cast<double>(i) / dim);
    if (p.scaling == RopeScaling::linear) f /= p.factor;
    if (p.scaling == RopeScaling::llama3) f = detail::llama3_frequency(p, f);
    if (p.scaling == RopeScaling::yarn) {
      const double ramp = detail::yarn_ramp(p, i);
      f = f / p.factor * ramp + f * (1 - ramp);
    }
    if (!p.divisors.empty()) f /= p.divisors[i];
    result.rows[i] = static_cast<float>(f);
    result.rows[pairs + i] = static_cast<float>(f - static_cast<double>(result.rows[i]));
  }
  return result;
}

// M-RoPE: which axis (time, height, width, ...) turns each pair. `sections` counts the pairs of each.
//
//   in blocks (Qwen2-VL)    t t t .. h h h .. w w w ..      sections repeat where pairs remain
//   interleaved (Qwen3-VL)  t h w t h w .. t t t            axis a > 0 has pairs a, a + n, .. below n * sections[a]
//
// n counts the axes in use: GGUF writes four sections, 24 20 20 0, and they are dealt out by three. Behind the
// end of its section an axis leaves its turns to t, as in Transformers and vLLM (ggml: to the fourth position).
inline std::vector<std::int32_t> rope_axes(std::span<const index> sections, index pairs, bool interleaved = false) {
  std::vector<std::int32_t> axes(static_cast<std::size_t>(pairs), 0);
  while (!sections.empty() && sections.back() == 0) sections = sections.first(sections.size() - 1);
  const index count = static_cast<index>(sections.size());
  if (interleaved) {
    for (index a = 1; a < count; ++a)
      for (index i = a; i < count * sections[a] && i < pairs; i += count) axes[i] = static_cast<std::int32_t>(a);
    return axes;
  }
  index a = 0, left = count > 0 ? sections[0] : 0, total = 0;
  for (index n : sections) total += n;
  if (total <= 0) return axes;
  for (index i = 0; i < pairs; ++i) {
    for (; left == 0; left = sections[a]) a = (a + 1) % count;
    axes[i] = static_cast<std::int32_t>(a);
    --left;
  }
  return axes;
}

}  // namespace inlay
