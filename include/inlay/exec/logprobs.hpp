// How likely a model held the tokens: the logarithms of its probabilities, before penalties, biases, temperature and
// filters, as OpenAI and vLLM tell them.
#pragma once

#include <vector>

#include <inlay/core/status.hpp>
#include <inlay/core/view.hpp>
#include <inlay/text/tokenizer.hpp>

namespace inlay::exec {

struct TokenLogprob {
  Token token;
  double logprob;
};

struct Logprobs {
  TokenLogprob chosen;
  std::vector<TokenLogprob> likeliest;  // the likeliest first; of two alike, the smaller id
};

// Of one row of logits: [vocab] f32 on the host. `count`: how many of the likeliest.
Expected<Logprobs> logprobs_of(const ConstView<1>& logits, Token chosen, index count);

}  // namespace inlay::exec
