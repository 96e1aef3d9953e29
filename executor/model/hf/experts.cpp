#include <algorithm>
#include <charconv>
#include <iterator>
#include <string_view>

#include <inlay/core/quote.hpp>

#include "executor/model/hf/experts.hpp"
#include "executor/model/hf/names.hpp"

namespace inlay::exec {

namespace {

using Shared = Mixture::Shared;
using Sparse = Mixture::Sparse;

// Two names of one number; files have either.
constexpr const char* count_keys[] = {"num_experts", "num_local_experts"};

}  // namespace

bool is_hf_experts_key(std::string_view key, const Mixture& mixture) {
  if (!mixture.count_key) return false;
  const auto in = [&](std::initializer_list<std::string_view> list) {
    return std::find(list.begin(), list.end(), key) != list.end();
  };
  return key == mixture.count_key || (mixture.enabled.key && key == mixture.enabled.key) || key == mixture.hidden_key ||
         (mixture.renormalize.key && key == mixture.renormalize.key) || key == mixture.top_k_key ||
         (mixture.jitter_key && key == mixture.jitter_key) || in({"num_experts_per_tok"}) ||
         in({count_keys[0], count_keys[1]}) || (mixture.by_method && key == "topk_method") ||
         (mixture.in_groups && in({"n_group", "topk_group", "routed_scaling_factor"})) ||
         (mixture.shared == Shared::gated && in({"shared_expert_intermediate_size"})) ||
         (mixture.shared == Shared::sized && in({"shared_intermediate_size"})) ||
         (mixture.shared == Shared::counted && key == mixture.shared_key) ||
         (mixture.sparse == Sparse::stepped && in({"decoder_sparse_step", "mlp_only_layers"})) ||
         (mixture.sparse == Sparse::behind_first && in({"first_k_dense_replace"})) ||
         (mixture.sparse == Sparse::listed && in({"mlp_layer_types"})) ||
         (mixture.sparse == Sparse::spaced &&
          in({"moe_layer_interval", "moe_layer_start_index", "moe_layer_end_index", "moe_norm_min"}));
}

bool is_idle_hf_experts_key(std::string_view key, const Json& value, const Mixture& mixture) {
  const bool sigmoid = mixture.score == MoeScore::sigmoid;
  return (key == "norm_topk_prob" && !mixture.renormalize.key && value.is_boolean() &&
          value.is_true() == mixture.renormalize.otherwise) ||
         (key == "topk_method" && sigmoid && mixture.in_groups && value == "noaux_tc") ||
         (key == "scoring_func" && sigmoid && (value == "sigmoid" || value == "noaux_tc")) ||
         (key == "scoring_func" && mixture.by_method && value == "softmax") ||
         (key == "moe_layer_freq" && mixture.sparse == Sparse::behind_first && value.is_integer() &&
          value.integer() == 1);
}

namespace {

// DeepSeek V2's experts are chosen out of all, whatever groups the file has, or out of the best groups.
void read_method(JsonFields& f, ExpertsConfig& e) {
  std::string method = "greedy";
  f.text("topk_method", method);
  if (method == "greedy")
    e.groups = e.groups_kept = 1;
  else if (method != "group_limited_greedy")
    f.fail(StatusCode::unsupported,
           "topk_method is " + quote(method) + "; it must be greedy or group_limited_greedy in this architecture");
}

}  // namespace

Status read_hf_experts(const Json& json, const std::string& origin, const Mixture& mixture, ModelConfig& c) {
  if (!mixture.count_key) return {};
  JsonFields f(json, origin);
  bool enabled = mixture.enabled.otherwise;
  if (mixture.enabled.key) f.boolean(mixture.enabled.key, enabled);
  if (!enabled) return f.take_status();
  ExpertsConfig& e = c.experts;
  e.beside = mixture.beside;
  e.count = mixture.count, e.top_k = mixture.top_k, e.hidden = mixture.hidden;
  f.integer(mixture.count_key, e.count);
  for (const char* other : count_keys) {
    index value = e.count;
    if (f.integer(other, value) && value != e.count && !json.contains(mixture.count_key)) e.count = value;
    if (f.ok() && value != e.count)
      f.fail(StatusCode::corrupt_data, std::string(other) + " is " + std::to_string(value) + ", and " +
                                           mixture.count_key + " is " + std::to_string(e.count));
  }
  if (e.count == 0 && mixture.count == 0 && !json.contains(mixture.count_key))
    f.fail(StatusCode::not_found, std::string("the key ") + quote(mixture.count_key) + " is missing");
  index top_k = mixture.top_k;
  const bool has_key = f.integer(mixture.top_k_key, e.top_k), has_other = f.integer("num_experts_per_tok", top_k);
  if (f.ok() && has_key && has_other && top_k != e.top_k)
    f.fail(StatusCode::corrupt_data, "num_experts_per_tok is " + std::to_string(top_k) + ", and " + mixture.top_k_key +
                                         " is " + std::to_string(e.top_k));
  if (has_other) e.top_k = top_k;
  f.integer(mixture.hidden_key, e.hidden, mixture.hidden == 0);
  e.score = mixture.score, e.jitter = mixture.jitter;
  if (mixture.jitter_key) f.number(mixture.jitter_key, e.jitter);
  if (f.ok() && e.count == 0 && mixture.shared_is_dense) {
    e = {};
    return f.take_status();
  }
  if (f.ok() && e.score == MoeScore::sparsemixer && e.top_k != 2)  // transformers takes two whatever the file says
    f.fail(StatusCode::unsupported,
           std::string(mixture.top_k_key) + " is " + std::to_string(e.top_k) + "; it must be 2 in this architecture");
  e.renormalize = mixture.renormalize.otherwise;
  if (mixture.renormalize.key) f.boolean(mixture.renormalize.key, e.renormalize);
  e.biases = mixture.biases, e.choice_bias = mixture.choice_bias;
  if (mixture.in_groups) {
    e.groups = mixture.groups, e.groups_kept = mixture.groups_kept, e.scale = mixture.scale;
    f.integer("n_group", e.groups), f.integer("topk_group", e.groups_kept);
    f.number("routed_scaling_factor", e.scale);
    if (mixture.by_method) read_method(f, e);
    e.group_score = moe_group_score(e);
  }
  if (mixture.shared == Shared::gated) {
    e.shared_hidden = mixture.shared_hidden, e.shared_gate = true;
    f.integer("shared_expert_intermediate_size", e.shared_hidden);
  } else if (mixture.shared == Shared::sized) {
    e.shared_hidden = mixture.shared_hidden;
    f.integer("shared_intermediate_size", e.shared_hidden);
  } else if (mixture.shared == Shared::counted) {
    index shared = mixture.shared_count;
    f.integer(mixture.shared_key, shared);
    if (f.ok() && (shared < 0 || shared > (index{1} << 16)))
      f.fail(StatusCode::corrupt_data,
             std::string(mixture.shared_key) + " is " + std::to_string(shared) + "; it must be 0 to 65536");
    if (f.ok() && __builtin_mul_overflow(shared, e.hidden, &e.shared_hidden)) e.shared_hidden = -1;
  }
  return f.take_status();
}

namespace {

Status read_types(const Json& types, const std::string& origin, std::vector<LayerConfig>& layers) {
  if (!types.is_array() || types.size() != layers.size())
    return {StatusCode::corrupt_data,
            origin + ": mlp_layer_types must be a list of " + std::to_string(layers.size()) + ", one for each layer"};
  std::size_t at = 0;
  for (const Json type : types.elements()) {
    if (!(type == "sparse") && !(type == "dense"))
      return {StatusCode::unsupported, origin + ": entry " + std::to_string(at) + " of mlp_layer_types is " +
                                           quote(written(type)) + "; it must be sparse or dense"};
    layers[at++].sparse = type == "sparse";
  }
  return {};
}

}  // namespace

Status read_hf_sparse(const Json& json, const std::string& origin, const Mixture& mixture, const ModelConfig& c,
                      std::vector<LayerConfig>& layers) {
  if (!mixture.count_key || c.experts.count == 0) return {};
  JsonFields f(json, origin);
  index step = 1, first = mixture.first_dense, last = -1;
  if (mixture.sparse == Sparse::stepped) f.integer("decoder_sparse_step", step);
  if (mixture.sparse == Sparse::behind_first) f.integer("first_k_dense_replace", first);
  const bool spaced = mixture.sparse == Sparse::spaced;
  if (spaced) {
    double least = 1e-12;
    f.integer("moe_layer_interval", step), f.integer("moe_layer_start_index", first);
    f.integer("moe_layer_end_index", last), f.number("moe_norm_min", least);
    // What divides the weights of a token is their sum: the largest shares of a softmax, which is never so small.
    const double lowest = static_cast<double>(c.experts.top_k) / static_cast<double>(c.experts.count);
    if (f.ok() && !(least >= 0 && least <= lowest / 2))
      f.fail(StatusCode::unsupported, "moe_norm_min is " + std::to_string(least) + "; it must be 0 to " +
                                          std::to_string(lowest / 2) + ", where it changes nothing");
  }
  if (f.ok() && step < 1)
    f.fail(StatusCode::corrupt_data, std::string(spaced ? "moe_layer_interval" : "decoder_sparse_step") + " is " +
                                         std::to_string(step) + "; it must be at least 1");
  if (Status status = f.take_status(); !status) return status;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto at = static_cast<index>(i);
    layers[i].sparse = mixture.sparse == Sparse::all || (mixture.sparse == Sparse::stepped && (at + 1) % step == 0) ||
                       (mixture.sparse == Sparse::behind_first && at >= first) ||
                       (mixture.sparse == Sparse::listed && at > 0) ||
                       (spaced && (at + 1) % step == 0 && at >= first && (last == -1 || at <= last));
  }
  if (const Json types = json.find("mlp_layer_types"); mixture.sparse == Sparse::listed && types)
    return read_types(types, origin, layers);
  const Json dense = mixture.sparse == Sparse::stepped ? json.find("mlp_only_layers") : Json();
  if (dense && !dense.is_array() && !dense.is_null())
    return {StatusCode::corrupt_data, origin + ": the key 'mlp_only_layers' is no list"};
  if (!dense.is_array()) return {};
  for (const Json layer : dense.elements()) {
    if (!layer.is_integer() || layer.integer() < 0 || layer.integer() >= c.layers)
      return {StatusCode::corrupt_data, origin + ": mlp_only_layers has " + quote(written(layer)) +
                                            "; it must have layers, 0 to " + std::to_string(c.layers - 1)};
    layers[static_cast<std::size_t>(layer.integer())].sparse = false;
  }
  return {};
}

bool take_hf_expert(std::string_view name, ExpertTensors::Place& place) {
  if (!take_hf_layer(name, place.layer)) return false;
  constexpr std::pair<std::string_view, const char*> stacked[] = {
      {"mlp.experts.gate_up_proj", ExpertTensors::gate_and_up},
      {"experts.gate_up_proj", ExpertTensors::gate_and_up},
      {"experts.down_proj", "ffn_down_exps"},
      {"mlp.experts.down_proj", "ffn_down_exps"},
      {"block_sparse_moe.experts.gate_up_proj", ExpertTensors::gate_and_up},
      {"block_sparse_moe.experts.down_proj", "ffn_down_exps"},
      {"block_sparse_moe.input_linear.weight", ExpertTensors::gate_and_up},
      {"block_sparse_moe.output_linear.weight", "ffn_down_exps"}};
  for (const auto& [theirs, ours] : stacked)
    if (name == theirs) return place.part = ours, true;
  constexpr std::string_view rooms[] = {"mlp.experts.", "block_sparse_moe.experts."};
  const auto room =
      std::find_if(std::begin(rooms), std::end(rooms), [&](std::string_view each) { return name.starts_with(each); });
  if (room == std::end(rooms)) return false;
  name.remove_prefix(room->size());
  const auto number = std::from_chars(name.data(), name.data() + name.size(), place.expert);
  if (number.ec != std::errc{} || place.expert < 0) return false;
  name.remove_prefix(static_cast<std::size_t>(number.ptr - name.data()));
  constexpr std::string_view weight = ".weight", bias = ".bias";
  place.bias = name.ends_with(bias);
  if (!place.bias && !name.ends_with(weight)) return false;
  name.remove_suffix((place.bias ? bias : weight).size());
  constexpr std::pair<std::string_view, const char*> parts[] = {
      {".gate_proj", "ffn_gate_exps"}, {".up_proj", "ffn_up_exps"}, {".down_proj", "ffn_down_exps"},
      {".w1", "ffn_gate_exps"},        {".w3", "ffn_up_exps"},      {".w2", "ffn_down_exps"}};
  for (const auto& [theirs, ours] : parts)
    if (name == theirs) return place.part = ours, true;
  return false;
}

}  // namespace inlay::exec
