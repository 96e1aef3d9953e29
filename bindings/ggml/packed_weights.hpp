// The packed forms of a buffer's weights: each is made when it is first asked for and kept until the buffer is written.
#pragma once

#include <ggml-backend-impl.h>

#include <map>
#include <memory>
#include <mutex>
#include <span>
#include <tuple>
#include <vector>

#include <inlay/weights/linear_w4a16_import.hpp>

namespace inlay::ggml_binding {

// Some of the channels of a packed weight, from a panel of 16 on.
struct PackedSlice {
  const PackedW4* whole;
  index first_panel;

  LinearW4a16<Host> op(const ConstView<2>& x, const View<2>& y) const;
};

// Weights of one type, of as many inputs and, but for the last, of whole panels, side by side in one form. So are the
// experts of one weight; of several weights first those of the first expert, then those of the second.
Expected<PackedW4> pack(std::span<const ggml_tensor* const> weights, const Parallel& parallel);

class PackedWeights {
 public:
  void clear();
  // All of `weights` as one; each of them is a slice of it from then on, where they are no mixture's.
  Expected<PackedSlice> all(std::span<const ggml_tensor* const> weights, const Parallel& parallel);
  Expected<PackedSlice> one(const ggml_tensor* weight, const Parallel& parallel);

 private:
  using Key = std::tuple<const void*, int, index, index>;
  static Key key_of(const ggml_tensor* weight) {
    return {weight->data, weight->type, weight->ne[0], ggml_nrows(weight)};
  }
  Expected<PackedSlice> made(std::span<const ggml_tensor* const> weights, const Parallel& parallel);

  std::mutex mutex_;
  std::map<std::vector<Key>, std::unique_ptr<const PackedW4>> wholes_;
  std::map<Key, PackedSlice> slices_;
};

// Those of the weight's buffer; null where that may be written by a graph, so that nothing is kept.
PackedWeights* packed_weights(const ggml_tensor* weight);

}  // namespace inlay::ggml_binding
