// The weights of a decoder model where it computes: uploaded once, each linear as an operator that lacks x and y.
#pragma once

#include <algorithm>
#include <memory>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>
#include <vector>

#include <inlay/core/rebind.hpp>
#include <inlay/exec/comm/gatherer.hpp>
#include <inlay/exec/tensors.hpp>
#include <inlay/model/weights.hpp>
#include <inlay/ops/embedding.hpp>

namespace inlay::exec {

// A linear of any form, complete but for x and y; of experts it lacks their ends, too (core/experts.hpp).
template <class Space> struct AnyLinear {
  std::variant<Linear<Space>, LinearInt8<Space>, LinearW4a16<Space>> op = {};
  index channels = 0;

  // Of a rank (RankCut) that has its columns of x, or computes its columns of y: who brings those of the others, and
  // where x is put together.
  struct Shared {
    RankShares x = {}, y = {};
    bool sums = false;  // x is its own alone, and y its part of a sum
    View<2, Space> whole_x = {};
    Gatherer* by = nullptr;
    std::string_view what = {};
    index layer = -1;
  };
  Shared shared = {};

  template <class Run>
  void operator()(Run& run, const View<2, Space>& x, const View<2, Space>& y,
                  const ConstView<1, Space>& expert_ends = {}) const {
    const View<2, Space> whole_x = together(run, x), own_y = own_part(y);
    std::visit(
        [&](auto complete) {
          complete.x = whole_x;
          complete.y = own_y;
          complete.expert_ends = expert_ends;
          run(complete);
        },
        op);
    gather(run, own_y, y, shared.y);
    if constexpr (std::is_same_v<Space, Host>)
      if (shared.sums) give(run, AllSum{.y = y, .by = shared.by, .what = shared.what, .layer = shared.layer});
  }

 private:
  template <class Run> View<2, Space> together(Run& run, const View<2, Space>& x) const {
    if (shared.x.columns == 0 || shared.sums) return x;
    const View<2, Space> whole = shared.whole_x.slice(0, 0, x.extents[0]).slice(1, 0, shared.x.columns);
    gather(run, x, whole, shared.x);
    return whole;
  }
  View<2, Space> own_part(const View<2, Space>& y) const {
    if (shared.y.columns == 0) return y;
    return y.slice(1, shared.y.begin(shared.by->comm().rank, shared.by->comm().size), channels);
  }
  template <class Run>
  void gather([[maybe_unused]] Run& run, [[maybe_unused]] const View<2, Space>& own,
              [[maybe_unused]] const View<2, Space>& whole, const RankShares& shares) const {
    if (shares.columns == 0) return;
    if constexpr (std::is_same_v<Space, Host>)
      give(run,
           AllGather{
               .own = own, .y = whole, .shares = shares, .by = shared.by, .what = shared.what, .layer = shared.layer});
  }
  // Who computes nothing, and engines that refuse ranks, have no gather.
  template <class Run, class Step> static void give([[maybe_unused]] Run& run, [[maybe_unused]] const Step& step) {
    if constexpr (requires { run.gather(step); }) run.gather(step);
  }
};

// Linears of one x: each writes the columns of y behind those of the one before it.
template <class Run, class Space>
void run_linears(Run& run, const std::vector<AnyLinear<Space>>& weights, const View<2, Space>& x,
                 const View<2, Space>& y) {
  index first = 0;
  for (const AnyLinear<Space>& weight : weights) {
    weight(run, x, y.slice(1, first, weight.channels));
    first += weight.channels;
  }
}

template <class Space> struct DecoderWeights {
  struct Norm {
    ConstView<1, Space> weight, bias;
  };
  struct Mixture {  // as MixtureWeights
    AnyLinear<Space> router, gate, up, down, shared_down, shared_router;
    ConstView<1, Space> choice_bias;
    std::vector<AnyLinear<Space>> shared_gate_up;
    ConstView<1, Space> router_scale, scales, norm, dense_post_norm, post_norm;
  };
  struct Latent {  // as LatentWeights
    AnyLinear<Space> q_b, kv_b;
    ConstView<1, Space> q_norm, kv_norm;
  };
  struct Input {  // as LayerInputWeights
    AnyLinear<Space> gate, projection;
    ConstView<1, Space> post_norm;
  };
  struct Table {  // as EmbeddingTable
    ConstView<2, Space> rows;
    ConstView<1, Space> row_scale;
    GgmlType format = GgmlType::F32;

    // The rows of `ids`, times `scale`.
    Embedding<Space> operator()(const ConstView<1, Space>& ids, const View<2, Space>& y, double scale) const {
      return {.table = rows,
              .row_scale = row_scale,
              .ids = ids,
              .y = y,
              .format = format,
              .scale = static_cast<float>(scale)};
    }
  };
  struct Layer {
    Norm attn_norm, attn_post_norm, ffn_norm, ffn_post_norm;  // as LayerWeights has them
    ConstView<1, Space> q_norm, k_norm, sinks;
    std::vector<AnyLinear<Space>> qkv, gate_up;  // one or several (FusedLinears)
    AnyLinear<Space> output, down;
    // Where there is one: a linear is a kilobyte of fields.
    std::unique_ptr<const Latent> latent;
    std::unique_ptr<const Mixture> mixture;
    std::unique_ptr<const Input> input;
    float scale = 1;
  };

  Table embedding, layer_inputs;
  AnyLinear<Space> layer_inputs_projection;
  ConstView<1, Space> layer_inputs_norm, ones;
  std::vector<Layer> layers;
  Norm output_norm;
  AnyLinear<Space> head;

  // In the memory of `tensors`; views look at `weights` where that is the host's. A rank's own weights have a gatherer,
  // for passes of at most so many tokens.
  template <class Tensors>
  static Expected<DecoderWeights> make(const Weights& weights, Tensors& tensors, Activations activations,
                                       Gatherer* gatherer = nullptr, index max_tokens = 0) {
    if ((weights.head.y_of.columns != 0) != (gatherer != nullptr))
      return failure(invalid(gatherer == nullptr ? "the weights are one rank's of several; they must be whole here"
                                                 : "the weights are whole; of several ranks each must have its own"));
    DecoderWeights there;
    Status status;
    const auto upload = [&]<int rank>(const ConstView<rank>& host) {
      ConstView<rank, Space> view;
      if (!status.ok() || !host.present()) return view;
      auto uploaded = tensors.upload(host);
      if (uploaded)
        view = *uploaded;
      else
        status = std::move(uploaded.error());
      return view;
    };
    // The weight emits its operator without x and y; its views are uploaded like any other.
    const auto bring_linear_as = [&](const LinearWeight& weight, Activations rounded) {
      AnyLinear<Space> linear{.channels = weight.channels(),
                              .shared = {.x = weight.x_of, .y = weight.y_of, .sums = weight.sums}};
      const auto take = [&](const auto& op) {
        linear.op = rebind<Space>(op, [&]<class V>(const auto&, const V& view) {
                      if constexpr (std::is_same_v<V, View<V::rank>>)
                        return View<V::rank, Space>();  // y, which is not there
                      else
                        return upload(view);
                    }).op;
      };
      weight(take, {}, {}, rounded);
      return linear;
    };
    const auto bring_linear = [&](const LinearWeight& weight) { return bring_linear_as(weight, activations); };
    const auto bring_linears = [&](const FusedLinears& linears) {
      std::vector<AnyLinear<Space>> all;
      for (const LinearWeight& each : linears) all.push_back(bring_linear(each));
      return all;
    };
    // What routes is not rounded: another expert is another answer.
    const auto bring_mixture = [&](const MixtureWeights& m) {
      AnyLinear<Space> shared_router{.channels = 1};
      if (const ConstView<1>& row = m.shared_router; row.present())
        shared_router.op = Linear<Space>{
            .x = {}, .weight_rows = upload(ConstView<2>(row.data, row.dtype, {1, row.extents[0]})), .y = {}};
      if (m.router.channels() == 0) return std::unique_ptr<const Mixture>();
      return std::unique_ptr<const Mixture>(new Mixture{.router = bring_linear_as(m.router, Activations::exact),
                                                        .gate = bring_linear(m.gate),
                                                        .up = bring_linear(m.up),
                                                        .down = bring_linear(m.down),
                                                        .shared_down = bring_linear(m.shared_down),
                                                        .shared_router = std::move(shared_router),
                                                        .choice_bias = upload(m.choice_bias),
                                                        .shared_gate_up = bring_linears(m.shared_gate_up),
                                                        .router_scale = upload(m.router_scale),
                                                        .scales = upload(m.scales),
                                                        .norm = upload(m.norm),
                                                        .dense_post_norm = upload(m.dense_post_norm),
                                                        .post_norm = upload(m.post_norm)});
    };
    const auto bring_latent = [&](const LatentWeights& l) {
      if (l.kv_b.channels() == 0) return std::unique_ptr<const Latent>();
      return std::unique_ptr<const Latent>(new Latent{.q_b = bring_linear(l.q_b),
                                                      .kv_b = bring_linear(l.kv_b),
                                                      .q_norm = upload(l.q_norm),
                                                      .kv_norm = upload(l.kv_norm)});
    };
    const auto bring_input = [&](const LayerInputWeights& i) {
      if (i.gate.channels() == 0) return std::unique_ptr<const Input>();
      return std::unique_ptr<const Input>(new Input{
          .gate = bring_linear(i.gate), .projection = bring_linear(i.projection), .post_norm = upload(i.post_norm)});
    };
    const auto bring_table = [&](const EmbeddingTable& table) {
      return Table{upload(table.rows), upload(table.row_scale), table.format};
    };
    there.embedding = bring_table(weights.embedding);
    there.layer_inputs = bring_table(weights.layer_inputs);
    there.layer_inputs_projection = bring_linear(weights.layer_inputs_projection);
    there.layer_inputs_norm = upload(weights.layer_inputs_norm);
    there.ones = upload(weights.ones);
    for (const LayerWeights& w : weights.layers)
      there.layers.push_back({.attn_norm = {upload(w.attn_norm), upload(w.attn_norm_bias)},
                              .attn_post_norm = {.weight = upload(w.attn_post_norm), .bias = {}},
                              .ffn_norm = {upload(w.ffn_norm), upload(w.ffn_norm_bias)},
                              .ffn_post_norm = {.weight = upload(w.ffn_post_norm), .bias = {}},
                              .q_norm = upload(w.q_norm),
                              .k_norm = upload(w.k_norm),
                              .sinks = upload(w.sinks),
                              .qkv = bring_linears(w.qkv),
                              .gate_up = bring_linears(w.gate_up),
                              .output = bring_linear(w.output),
                              .down = bring_linear(w.down),
                              .latent = bring_latent(w.latent),
                              .mixture = bring_mixture(w.mixture),
                              .input = bring_input(w.input),
                              .scale = w.scale});
    there.output_norm = {upload(weights.output_norm), upload(weights.output_norm_bias)};
    there.head = bring_linear(weights.head);
    if (status.ok() && gatherer != nullptr) status = there.share(*gatherer, max_tokens, tensors);
    if (!status.ok()) return failure(std::move(status));
    return there;
  }

 private:
  template <class Tensors> Status share(Gatherer& gatherer, index max_tokens, Tensors& tensors) {
    index widest = 0;  // of what is put together
    for (const Layer& layer : layers)
      for (const AnyLinear<Space>* linear : {&layer.output, &layer.down})
        if (!linear->shared.sums) widest = std::max(widest, linear->shared.x.columns);
    View<2, Space> whole_x;
    Status status = widest == 0 ? Status() : take(tensors, DType::f32, {max_tokens, widest}, whole_x);
    const auto share = [&](AnyLinear<Space>& linear, std::string_view what, index layer) {
      auto& shared = linear.shared;
      shared.whole_x = whole_x, shared.by = &gatherer, shared.what = what, shared.layer = layer;
    };
    for (index i = 0; i < std::ssize(layers); ++i) {
      Layer& layer = layers[static_cast<std::size_t>(i)];
      share(layer.output, "attn_output", i), share(layer.down, "ffn_down", i);
    }
    share(head, "output", -1);
    return status;
  }
};

}  // namespace inlay::exec
