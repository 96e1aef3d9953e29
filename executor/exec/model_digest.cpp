#include "executor/exec/model_digest.hpp"

#include <algorithm>
#include <cstdint>

#include <inlay/core/layout.hpp>

namespace inlay::exec {

namespace {

// FNV-1a, which tells models apart that nobody has made to look alike.
class Digest {
 public:
  void add(const void* data, std::size_t bytes) {
    const auto* at = static_cast<const unsigned char*>(data);
    for (std::size_t i = 0; i < bytes; ++i) hash_ = (hash_ ^ at[i]) * 0x100000001b3u;
  }
  template <int Rank> void add(const ConstView<Rank>& view) {
    if (view.present()) add(view.data, static_cast<std::size_t>(byte_size(view.dtype, view.size())));
  }
  void add(const RankShares& shares) {
    add(&shares.columns, sizeof shares.columns), add(&shares.unit, sizeof shares.unit);
  }
  std::string word() const {
    constexpr const char* digits = "0123456789abcdef";
    std::string word;
    for (int shift = 60; shift >= 0; shift -= 4) word += digits[(hash_ >> shift) & 15];
    return word;
  }

 private:
  std::uint64_t hash_ = 0xcbf29ce484222325u;
};

}  // namespace

std::string digest_of(const Weights& weights) {
  constexpr index rows = 64;
  Digest digest;
  const index all = weights.embedding.rows.extents[0];
  for (index i = 0; i < std::min(rows, all); ++i)
    digest.add(weights.embedding.rows.slice(0, all * i / std::min(rows, all), 1));
  for (const LayerWeights& layer : weights.layers) {
    digest.add(layer.attn_norm), digest.add(layer.ffn_norm);
    digest.add(layer.output.x_of), digest.add(layer.down.x_of);
  }
  digest.add(weights.output_norm);
  return digest.word();
}

}  // namespace inlay::exec
