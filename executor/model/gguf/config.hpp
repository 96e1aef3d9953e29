// The configuration of a model in GGUF's metadata, read and written: what one of the two says the other knows.
//
// Keys are llama.cpp's. One is ours, because no other reader has a word for it:
//
//   inlay.rope.yarn_truncate   bool; false: the ends of YaRN's ramp are no whole pairs (absent: true)
#pragma once

#include <cmath>
#include <string>

#include <inlay/model/model_config.hpp>

#include "executor/model/family.hpp"
#include "executor/model/gguf/gguf.hpp"
#include "executor/model/gguf/writer.hpp"

namespace inlay::exec {

inline constexpr const char* gguf_yarn_truncate = "inlay.rope.yarn_truncate";

// The key of the eps of norms, behind the architecture.
inline const char* gguf_norm_eps(NormKind norm, const Family* family) {
  const bool as_rms = norm == NormKind::rms || (family && family->gguf_rms_eps);
  return as_rms ? ".attention.layer_norm_rms_epsilon" : ".attention.layer_norm_epsilon";
}

// The keys of xIELU's numbers, as llama.cpp has them: without the architecture before them.
inline constexpr std::pair<const char*, double Xielu::*> gguf_xielu[] = {{"xielu.alpha_p", &Xielu::alpha_p},
                                                                         {"xielu.alpha_n", &Xielu::alpha_n},
                                                                         {"xielu.beta", &Xielu::beta},
                                                                         {"xielu.eps", &Xielu::eps}};

// YaRN's own magnitude, on top of which GGUF's attn_factor counts. Latent attention has another key for it, which
// multiplies scores.
inline double gguf_yarn_magnitude(const ModelConfig& config, const RopeConfig& rope) {
  return config.is_latent() ? 1 : 0.1 * std::log(rope.factor) + 1;
}

// Refuses an architecture that nothing here runs, by name.
Status check_gguf_architecture(const GgufFile& file);

Expected<ModelConfig> read_gguf_config(const GgufFile& file);
// Without what the tensors say.
Expected<ModelConfig> read_gguf_keys(const GgufFile& file);

// Refuses what the keys have no form for. `origin` names the model in messages.
Status write_gguf_config(const ModelConfig& config, const std::string& origin, GgufWriter& writer);

// Whether a reader will make the same of the keys that were written: some facts have none, and go without saying in
// their family.
Status check_gguf_config(const ModelConfig& config, const std::string& origin, const GgufWriter& writer);

}  // namespace inlay::exec
