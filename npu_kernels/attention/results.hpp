// What becomes of a row's sum, total and maximum: sink, division, lse, the output's type.
//
//   m' = max(m, sink)    l' = l exp(m - m') + exp(sink - m')    out = exp(m - m') sum / l'    lse = m' + log l'
#pragma once

#include <array>
#include <optional>

#include "npu_kernels/attention/problem.hpp"
#include "tile_machine/run/core.hpp"

namespace inlay::npu {

// Rows (query, head) of out, and the columns of them.
struct RowWindow {
  index outer = 0, row = 0, rows = 0, head = 0, heads = 0, column = 0, columns = 0;
  index count() const { return rows * heads; }
  // Of [outer, row, head, ..].
  NdTensor of(const NdTensor& tensor) const { return tensor.at(0, outer).slice(0, row, rows).slice(1, head, heads); }
};

class Results {
 public:
  // Of windows of `rows` at most, which leave `block` at a time, so many on their way.
  Results(Core& core, const Outputs& to, index rows, index block, index columns, std::uint32_t blocks = 2);
  // Of a window's rows; what is given is overwritten. The caller has a chain of the vector unit open.
  void store(const RowWindow& window, const Tensor& sum, const Tensor& total, const Tensor& maximum) {
    begin(window, sum, total, maximum);
    finish();
  }
  // .. block by block between other work of the vector unit: what is given must stay until the last is stored.
  void begin(const RowWindow& window, const Tensor& sum, const Tensor& total, const Tensor& maximum);
  void advance();
  void finish() {
    while (stored_rows_ < window_.count()) advance();
  }

 private:
  bool coded() const { return to_.out_scale.present(); }
  NdTensor of_heads(const NdTensor& list, const RowWindow& window) const;
  Tensor coefficient(const Tensor& slot, const NdTensor& from, const RowWindow& window) const;
  void load(const RowWindow& window);
  bool with_lse(const RowWindow& window) const { return to_.lse.present() && window.column == 0; }
  // Scales and offsets of codes.
  void store_part(const RowWindow& window, const Tensor& sum, const Tensor& factor, const Tensor& lse,
                  const std::array<Tensor, 2>& coefficients);
  void add_sinks(const Tensor& sinks, const Tensor& sum, const Tensor& total, const Tensor& maximum);

  Core& core_;
  const Outputs& to_;
  const index block_;
  std::optional<TupleRing<3>> loaded_;  // sinks, scales, offsets
  TupleRing<2> stored_;                 // out, lse
  Tensor zero_, none_, factor_, top_;
  RowWindow window_;  // that is being stored
  index stored_rows_ = 0;
  Tensor sum_, lse_;
  std::array<Tensor, 2> coefficients_;
};

}  // namespace inlay::npu
