// Which tensors a model has, under which names and in which shapes: stated once, for whoever checks a file, packs
// it, writes it or makes one up.
//
//   Status status = for_each_tensor(config, [&](const TensorFacts& tensor) -> Status { ... });
//
// The order is that of packing: what stands before the layers, the head and the embedding first, which are the largest;
// layer by layer (a weight before its bias); the last norm. A bias of the head comes behind the embedding, which may be
// the head.
#pragma once

#include <array>
#include <functional>
#include <string>
#include <string_view>

#include <inlay/core/status.hpp>
#include <inlay/model/model_config.hpp>

namespace inlay::exec {

// What a tensor is in the model.
enum class Part : unsigned char {
  // of the model
  head,
  embedding,
  head_bias,
  rope_factors,
  rope_short,
  rope_long,
  layer_inputs_embedding,
  layer_inputs_projection,
  layer_inputs_norm,
  output_norm,
  output_norm_bias,
  // of each layer
  attn_norm,
  attn_norm_bias,
  q,
  q_bias,
  q_a,
  q_a_norm,
  q_b,
  kv_a,
  kv_a_norm,
  kv_b,
  k,
  k_bias,
  v,
  v_bias,
  q_norm,
  k_norm,
  output,
  output_bias,
  sinks,
  attn_post_norm,
  ffn_norm,
  ffn_norm_bias,
  gate,
  gate_bias,
  up,
  up_bias,
  down,
  down_bias,
  router,
  router_scale,
  router_bias,
  choice_bias,
  expert_gate,
  expert_gate_bias,
  expert_up,
  expert_up_bias,
  expert_down,
  expert_down_bias,
  expert_scales,
  expert_norm,
  dense_post_norm,
  expert_post_norm,
  shared_gate,
  shared_gate_bias,
  shared_up,
  shared_up_bias,
  shared_down,
  shared_down_bias,
  shared_router,
  ffn_post_norm,
  input_gate,
  input_projection,
  input_post_norm,
  layer_scale
};

struct TensorFacts {
  Part part = Part::head;
  index layer = -1;  // -1: of the model
  std::string name = {};
  int rank = 1;  // 1, 2, or 3 of experts
  std::array<index, 4> extents =
      {};  // as in WeightTensor: a linear's weight is {n, k}, that of experts {experts, n, k}
  bool required = true;

  // Floats that are added or multiply, and no matrix of a linear. Biases of experts are {experts, n}.
  bool is_vector() const { return rank == 1 || name.ends_with(".bias"); }
};

// The name of a tensor of one layer: block_name(3, "attn_q.weight").
std::string block_name(index layer, std::string_view part);

// What the configuration says of one part, whether the model has it or not.
TensorFacts tensor_facts(const ModelConfig& config, Part part, index layer = -1);

// All tensors of the model; ends with the first failure of `visit`.
Status for_each_tensor(const ModelConfig& config, const std::function<Status(const TensorFacts&)>& visit);

}  // namespace inlay::exec
