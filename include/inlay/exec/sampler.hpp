// Draws tokens from an engine's logits.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include <inlay/core/cache_line_allocator.hpp>
#include <inlay/exec/engine.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

// What is added to the logit of one token.
struct LogitBias {
  Token token;
  float bias;  // finite, or -infinity: the token never comes
};

class Sampler {
 public:
  // Could these settings draw one of `vocab` tokens?
  Status check(const Sampling<Host>& settings, std::span<const LogitBias> biases, index vocab);
  // From one row, by these settings, of host memory. Logits and tokens are filled in here; there are no probs. Biases
  // are added to the logits before anything else, on the host.
  Expected<Token> operator()(Engine& engine, index row, const Sampling<Host>& settings,
                             std::span<const LogitBias> biases);

 private:
  std::vector<float> biased_;  // a row of logits
  std::vector<std::byte, CacheLineAllocator<std::byte>> scratch_;
};

}  // namespace inlay::exec
