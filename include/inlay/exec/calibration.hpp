// Static scales of what int8 linears round (LinearInt8::x_scale), as mllm-NPU has them: a model reads prompts, and of
// each x the largest magnitude is kept, and a percentile. x is rounded within that percentile; what lies beyond is
// clipped, and added in f32 (shadow outliers).
//
//   auto ranges = calibrate(config, weights, Cpu(), prompts, {});
//   Status status = ranges->apply(config, weights);          // of the same model, before it is given to an engine
//
// A file of it:
//
//   {"scales": 1,
//    "model": {"architecture": "llama", "layers": 1, "dim": 128, "vocab": 512, "digest": "0123456789abcdef"},
//    "percentile": 99.9, "tokens": 96,
//    "layers": [{"attn_in": {"largest": 4.5, "range": 2.25}, "attn_output": {..}, "ffn_in": {..}, "ffn_down": {..}}],
//    "output": {"largest": 30.0, "range": 12.5}}
//
// What no int8 linear reads is left out.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <inlay/cpu.hpp>
#include <inlay/model/model_config.hpp>
#include <inlay/model/weights.hpp>

namespace inlay::exec {

// Of the magnitudes of one x.
struct ActivationRange {
  float largest = 0;
  float range = 0;  // the percentile, and at most the largest
};

// What the linears of a layer read: q, k and v; attn_output; gate and up; ffn_down.
enum class ActivationSite : unsigned char { attn_in, attn_output, ffn_in, ffn_down };

class ActivationRanges {
 public:
  using OfLayer = std::array<std::optional<ActivationRange>, 4>;  // by ActivationSite

  // Errors, each with its place.
  static Expected<ActivationRanges> from_json(std::string_view text);
  std::string json() const;

  // Linears of int8 round by these from now on; others stay. Refused for another model, and where nothing would change.
  Status apply(const ModelConfig& config, Weights& weights) const;

  struct Model {
    std::string architecture;
    index layers = 0, dim = 0, vocab = 0;
    std::string digest;  // of norms, and of rows of the embedding

    static Model of(const ModelConfig& config, const Weights& weights);
  };
  Model model;
  double percentile = 100;
  index tokens = 0;  // that the prompts have
  std::vector<OfLayer> layers;
  std::optional<ActivationRange> output;  // of the head
};

struct CalibrationOptions {
  double percentile = 99.9;  // above 0, at most 100
  index chunk = 256;         // tokens of a pass
};

// Refused: a model without int8 linears; prompts that are none, or longer than the context; numbers that are not
// finite.
Expected<ActivationRanges> calibrate(const ModelConfig& config, Weights weights, Cpu cpu,
                                     std::span<const std::vector<std::int32_t>> prompts,
                                     const CalibrationOptions& options);

}  // namespace inlay::exec
