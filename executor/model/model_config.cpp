#include <algorithm>
#include <utility>

#include <inlay/model/model_config.hpp>

namespace inlay::exec {

void ModelConfig::set_layers(std::vector<LayerConfig> each) {
  per_layer.clear();
  if (each.empty()) return;
  hidden = each[0].hidden, sliding_window = each[0].window;
  for (const LayerConfig& layer : each) {
    hidden = std::max(hidden, layer.hidden);
    sliding_window = std::max(sliding_window, layer.window);
  }
  if (std::all_of(each.begin(), each.end(), [&](const LayerConfig& layer) { return layer == each[0]; }))
    rope.theta = each[0].rope_theta;
  else
    per_layer = std::move(each);
}

}  // namespace inlay::exec
