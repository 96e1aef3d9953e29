#include <algorithm>
#include <utility>

#include <inlay/model/model_config.hpp>

namespace inlay::exec {

void ModelConfig::set_layers(std::vector<LayerConfig> each) {
  per_layer.clear();
  if (each.empty()) return;
  hidden = each[0].hidden, sliding_window = each[0].window;
  std::vector<RopeConfig> used;
  for (const LayerConfig& layer : each) {
    hidden = std::max(hidden, layer.hidden);
    sliding_window = std::max(sliding_window, layer.window);
  }
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
  if (!alike || each[0].rope == LayerConfig::no_rope || each[0].xielu != Xielu{}) per_layer = std::move(each);
}

}  // namespace inlay::exec
