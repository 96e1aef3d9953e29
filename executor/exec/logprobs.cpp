#include <inlay/exec/logprobs.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <string>

namespace inlay::exec {

Expected<Logprobs> logprobs_of(const ConstView<1>& logits, Token chosen, index count) {
  const index vocab = logits.extents[0];
  if (logits.dtype != DType::f32 || logits.strides[0] != 1) return failure(invalid("logits must be contiguous f32"));
  if (chosen < 0 || chosen >= vocab)
    return failure(
        invalid("the chosen token is " + std::to_string(chosen) + "; it must be in 0.." + std::to_string(vocab - 1)));
  if (count < 0 || count > vocab)
    return failure(invalid("count is " + std::to_string(count) + "; it must be in 0.." + std::to_string(vocab)));
  const float* const row = logits.as<float>();
  double most = -std::numeric_limits<double>::infinity(), sum = 0;
  for (index i = 0; i < vocab; ++i) most = std::fmax(most, static_cast<double>(row[i]));
  if (!std::isfinite(most)) return failure(StatusCode::corrupt_data, "the logits hold no finite value, or +infinity");
  for (index i = 0; i < vocab; ++i) sum += std::exp(static_cast<double>(row[i]) - most);
  const double norm = most + std::log(sum);
  const auto of = [&](Token token) { return TokenLogprob{token, static_cast<double>(row[token]) - norm}; };
  Logprobs result{of(chosen), {}};
  std::vector<Token> ids(static_cast<std::size_t>(vocab));
  std::iota(ids.begin(), ids.end(), 0);
  std::partial_sort(ids.begin(), ids.begin() + count, ids.end(),
                    [&](Token a, Token b) { return row[a] != row[b] ? row[a] > row[b] : a < b; });
  for (index i = 0; i < count; ++i) result.likeliest.push_back(of(ids[static_cast<std::size_t>(i)]));
  return result;
}

}  // namespace inlay::exec
