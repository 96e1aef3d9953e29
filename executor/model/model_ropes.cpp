#include <inlay/model/model_ropes.hpp>

namespace inlay::exec {

Expected<RopeFrequencies> frequencies_of(const RopeConfig& rope, index context) {
  RopeParameters parameters{.rotary_dim = rope.dim, .theta = rope.theta};
  parameters.factor = rope.factor;
  parameters.original_context = static_cast<double>(rope.original_context);
  parameters.low_freq_factor = rope.low_freq_factor;
  parameters.high_freq_factor = rope.high_freq_factor;
  parameters.beta_fast = rope.beta_fast;
  parameters.beta_slow = rope.beta_slow;
  parameters.truncate = rope.truncate;
  parameters.attention_factor = rope.attention_factor;
  switch (rope.scaling) {
    case RopeConfig::Scaling::none: break;
    case RopeConfig::Scaling::linear: parameters.scaling = RopeScaling::linear; break;
    case RopeConfig::Scaling::yarn: parameters.scaling = RopeScaling::yarn; break;
    case RopeConfig::Scaling::llama3:
    case RopeConfig::Scaling::freq_factors: parameters.divisors = rope.freq_factors; break;
    case RopeConfig::Scaling::longrope:
      parameters.divisors = context > rope.original_context ? rope.long_factors : rope.freq_factors;
      break;
  }
  return rope_frequencies(parameters);
}

}  // namespace inlay::exec
