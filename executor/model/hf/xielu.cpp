#include "executor/model/hf/xielu.hpp"

#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/check_model.hpp"
#include "executor/model/hf/names.hpp"

namespace inlay::exec {

Expected<bool> HfXielu::take(const std::string& path, std::string_view name, const WeightTensor& tensor) {
  constexpr std::string_view room = "mlp.act_fn.";
  const std::string whole(name);
  index layer = 0;
  if (!take_hf_layer(name, layer) || !name.starts_with(room)) return false;
  name.remove_prefix(room.size());
  if (name != "alpha_p" && name != "alpha_n" && name != "beta" && name != "eps") return false;
  if (tensor.size() != 1 || tensor.codes)
    return failure(StatusCode::corrupt_data, path + ": the tensor " + quote(whole) + " has extents " +
                                                 describe_extents(tensor) + "; it must have one element");
  float value = 0;
  dequantize_row(tensor.type, tensor.data, 1, &value);
  if (!layers_[layer].emplace(name, static_cast<double>(value)).second)
    return failure(StatusCode::corrupt_data, path + ": two tensors for " + quote(whole));
  return true;
}

Status HfXielu::apply(const std::string& origin, ModelConfig& c) const {
  if (c.activation != Activation::xielu) {
    if (layers_.empty()) return {};
    return {StatusCode::unsupported, origin + ": there are tensors of xielu, and the activation is another one"};
  }
  std::vector<LayerConfig> layers;
  for (index i = 0; i < c.layers; ++i) {
    LayerConfig& layer = layers.emplace_back(c.layer(i));
    layer.xielu = {.beta = 0.5, .eps = -1e-6};
    const auto found = layers_.find(i);
    for (const auto& [part, to] : {std::pair{"alpha_p", &layer.xielu.alpha_p},
                                   {"alpha_n", &layer.xielu.alpha_n},
                                   {"beta", &layer.xielu.beta},
                                   {"eps", &layer.xielu.eps}}) {
      const bool has = found != layers_.end() && found->second.contains(part);
      if (has) *to = found->second.at(part);
      if (!has && std::string_view(part).starts_with("alpha"))
        return {StatusCode::not_found,
                origin + ": the tensor 'model.layers." + std::to_string(i) + ".mlp.act_fn." + part + "' is missing"};
    }
  }
  if (!layers_.empty() && layers_.rbegin()->first >= c.layers)
    return {StatusCode::corrupt_data, origin + ": there are tensors of xielu in layer " +
                                          std::to_string(layers_.rbegin()->first) + ", and " +
                                          std::to_string(c.layers) + " layers"};
  c.set_layers(std::move(layers));
  return {};
}

}  // namespace inlay::exec
