#include <algorithm>
#include <utility>

#include <inlay/model/model_config.hpp>

namespace inlay::exec {

void ModelConfig::set_layers(std::vector<LayerConfig> each) {
  per_layer.clear();
  if (each.empty()) return;
  for (LayerConfig& layer : each) {
    if (layer.kv_heads == 0) layer.kv_heads = kv_heads;
    if (layer.head_dim == 0) layer.head_dim = head_dim;
  }
  const auto largest = [&](index LayerConfig::*member) {
    const auto less = [&](const LayerConfig& a, const LayerConfig& b) { return a.*member < b.*member; };
    return *std::max_element(each.begin(), each.end(), less).*member;
  };
  hidden = largest(&LayerConfig::hidden), sliding_window = largest(&LayerConfig::window);
  kv_heads = largest(&LayerConfig::kv_heads), head_dim = largest(&LayerConfig::head_dim);
  for (LayerConfig& layer : each) {  // 0 says that they are those of the model
    if (layer.kv_heads == kv_heads) layer.kv_heads = 0;
    if (layer.head_dim == head_dim) layer.head_dim = 0;
  }
  std::vector<RopeConfig> used;
  for (int rope = 0; rope < static_cast<int>(ropes.size()); ++rope) {
    const int place = static_cast<int>(used.size());
    bool found = false;
    for (LayerConfig& layer : each)
      if (layer.rope == rope) layer.rope = place, found = true;
    if (found) used.push_back(std::move(ropes[static_cast<std::size_t>(rope)]));
  }
  if (!used.empty()) ropes = std::move(used);
  if (std::none_of(each.begin(), each.end(), [](const LayerConfig& layer) { return layer.sparse; })) experts = {};
  const bool alike = std::all_of(each.begin(), each.end(), [&](const LayerConfig& layer) { return layer == each[0]; });
  if (!alike || each[0].rope == LayerConfig::no_rope || each[0].xielu != Xielu{} || each[0].v_is_k)
    per_layer = std::move(each);
}

}  // namespace inlay::exec
