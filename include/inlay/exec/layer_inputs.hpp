// What the layers of Gemma 3n and 4 are given of the tokens themselves (LayerInputs), with the buffers of one pass.
#pragma once

#include <cmath>
#include <utility>

#include <inlay/exec/decoder_weights.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/model/model_config.hpp>
#include <inlay/ops/add.hpp>
#include <inlay/ops/gelu.hpp>
#include <inlay/ops/rms_norm.hpp>

namespace inlay::exec {

template <class Space> class PerLayerInputs {
 public:
  using Rows = View<2, Space>;
  using Weights = DecoderWeights<Space>;

  // For passes of at most so many tokens, in the memory of `tensors`.
  template <class Tensors> Status take_room(const ModelConfig& config, index max_tokens, Tensors& tensors) {
    dim_ = config.layer_inputs.dim, layers_ = config.layers;
    if (dim_ == 0) return {};
    // The norm of x / sqrt(dim) is that of x, with an eps that is dim times as large.
    eps_ = static_cast<float>(config.norm_eps * static_cast<double>(config.dim));
    for (const auto& [rows, columns] :
         {std::pair{&all_, layers_ * dim_}, {&projected_, layers_ * dim_}, {&gate_, dim_}})
      if (Status status = take(tensors, DType::f32, {max_tokens, columns}, *rows); !status.ok()) return status;
    return {};
  }

  bool present() const { return dim_ > 0; }

  // Those of a pass; `x`: the stream before the first layer.
  template <class Run>
  void prepare(Run& run, const Weights& weights, const ConstView<1, Space>& ids, const Rows& x) const {
    const index tokens = x.extents[0];
    const Rows all = all_.slice(0, 0, tokens), projected = projected_.slice(0, 0, tokens);
    weights.layer_inputs_projection(run, x, projected);
    run(RmsNorm<Space>{
        .x = projected, .weight = weights.layer_inputs_norm, .y = projected, .heads = layers_, .eps = eps_});
    run(weights.layer_inputs(ids, all, std::sqrt(static_cast<double>(dim_) / 2)));
    run(Add<Space>{.a = all, .b = projected, .y = all});
  }

  // What they add to the stream `x` behind a layer, before its norm.
  template <class Run>
  void operator()(Run& run, const typename Weights::Input& w, index layer, const Rows& x, const Rows& y) const {
    const index tokens = x.extents[0];
    const Rows gate = gate_.slice(0, 0, tokens);
    w.gate(run, x, gate);
    run(Gelu<Space>{
        .x = gate, .up = all_.slice(0, 0, tokens).slice(1, layer * dim_, dim_), .y = gate, .form = GeluForm::tanh});
    w.projection(run, gate, y);
  }

 private:
  index dim_ = 0, layers_ = 0;
  float eps_ = 0;
  Rows all_, projected_, gate_;  // [tokens, layers * dim], the same, [tokens, dim]
};

}  // namespace inlay::exec
