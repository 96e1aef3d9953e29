#include <algorithm>
#include <utility>
#include <vector>

#include <inlay/core/quote.hpp>

#include "executor/model/hf/experts.hpp"
#include "executor/model/hf/layers.hpp"
#include "executor/model/hf/rope.hpp"

namespace inlay::exec {

namespace {

// The list that has an entry for each layer; null where the key is missing.
Expected<Json> list_of_layers(const Json& json, const char* key, const std::string& origin, index layers) {
  const Json list = json.find(key);
  if (list && !list.is_array())
    return failure(StatusCode::corrupt_data, origin + ": the key " + quote(key) + " is no list");
  if (list && static_cast<index>(list.size()) != layers)
    return failure(StatusCode::corrupt_data, origin + ": " + key + " has " + std::to_string(list.size()) +
                                                 " entries; there must be one for each of the " +
                                                 std::to_string(layers) + " layers");
  return list;
}

Status read_widths(const Json& json, const char* dense_key, const std::string& origin,
                   std::vector<LayerConfig>& layers) {
  const char* key = dense_key;
  JsonFields fields(json, origin);
  if (!json.find(key).is_array()) {
    index width = 0;
    fields.integer(key, width, true);
    for (LayerConfig& layer : layers) layer.hidden = width;
    return fields.take_status();
  }
  auto list = list_of_layers(json, key, origin, static_cast<index>(layers.size()));
  if (!list) return std::move(list.error());
  std::size_t i = 0;
  for (const Json width : list->elements()) {
    if (!width.is_integer())
      return {StatusCode::corrupt_data, origin + ": entry " + std::to_string(i) + " of " + key + " is no integer"};
    layers[i++].hidden = width.integer();
  }
  return {};
}

// What layer_types says, or else the family.
Status read_windows(const Json& json, const std::string& origin, const Family& family,
                    std::vector<LayerConfig>& layers) {
  auto types = list_of_layers(json, "layer_types", origin, static_cast<index>(layers.size()));
  if (!types) return std::move(types.error());
  if (family.layers_are_listed && !*types)
    return {StatusCode::unsupported,
            origin + ": there are no layer_types, which means layers of Mamba; they must be attention"};
  const bool counts_if_flagged = family.windows == Windows::behind || family.windows == Windows::flagged_turns;
  const bool counts = counts_if_flagged || family.windows == Windows::always_behind;
  const bool flagged =
      counts_if_flagged || family.windows == Windows::flagged || family.windows == Windows::flagged_all;
  JsonFields fields(json, origin);
  bool used = !flagged;
  if (flagged) fields.boolean("use_sliding_window", used);
  index window = json.contains("sliding_window") ? 0 : family.window;
  index full_layers = family.full_layers, period = family.period;
  fields.integer("sliding_window", window);  // null: none
  if (counts) fields.integer("max_window_layers", full_layers);
  for (const char* key : {"_sliding_window_pattern", "sliding_window_pattern"})
    if (family.windows == Windows::all_but_last && !*types) fields.integer(key, period);
  if (fields.ok() && family.period > 0 && period < 1)
    fields.fail(StatusCode::corrupt_data,
                "sliding_window_pattern is " + std::to_string(period) + "; it must be at least 1");
  if (Status status = fields.take_status(); !status) return status;
  if (!used) window = 0;
  for (std::size_t i = 0; i < layers.size(); ++i) {
    const auto at = static_cast<index>(i);
    bool sliding = false;
    switch (family.windows) {
      case Windows::none:
      case Windows::flagged: break;
      case Windows::all:
      case Windows::flagged_all: sliding = true; break;
      case Windows::flagged_turns: sliding = at % 2 == 0 && at < full_layers; break;
      case Windows::behind:
      case Windows::always_behind: sliding = at >= full_layers; break;
      case Windows::all_but_last: sliding = (at + 1) % period != 0; break;
      case Windows::all_but_first: sliding = at % period != 0; break;
    }
    if (const Json type = (*types)[i]; *types) {
      sliding = type == "sliding_attention";
      if (!sliding && type != "full_attention" && !(family.layers_are_listed && type == "attention"))
        return {StatusCode::unsupported, origin + ": entry " + std::to_string(i) + " of layer_types is " +
                                             quote(shown(type)) + "; it must be full_attention or sliding_attention"};
      if (sliding && family.windows == Windows::none)
        return {StatusCode::unsupported, origin + ": entry " + std::to_string(i) +
                                             " of layer_types is 'sliding_attention'; in this architecture it must be "
                                             "full_attention"};
      if (sliding && window == 0)
        return {StatusCode::corrupt_data, origin + ": layer_types has sliding_attention, but sliding_window is absent" +
                                              (flagged ? " or use_sliding_window false" : "")};
    }
    layers[i].window = sliding ? window : 0;
  }
  if (family.last_is_full) layers.back().window = 0;
  return {};
}

// Which layers turn q and k, and by which rope.
Status read_turning(const Json& json, const std::string& origin, const Family& family, std::size_t ropes,
                    std::vector<LayerConfig>& layers) {
  const bool any_window = std::any_of(layers.begin(), layers.end(), [](const auto& each) { return each.window > 0; });
  auto listed = list_of_layers(family.turning == Turning::three_of_four ? json : Json(), "no_rope_layers", origin,
                               static_cast<index>(layers.size()));
  if (!listed) return std::move(listed.error());
  index interval = 4;
  if (JsonFields fields(json, origin); family.turning == Turning::three_of_four) {
    fields.integer("no_rope_layer_interval", interval);
    if (fields.ok() && interval < 1)
      fields.fail(StatusCode::corrupt_data,
                  "no_rope_layer_interval is " + std::to_string(interval) + "; it must be at least 1");
    if (Status status = fields.take_status(); !status) return status;
  }
  bool any_turns = true;
  if (family.turning == Turning::embedding_type) {
    JsonFields fields(json, origin);
    std::string type = "nope";
    fields.text("position_embedding_type", type);
    if (fields.ok() && type != "rope" && type != "nope")
      fields.fail(StatusCode::unsupported,
                  "position_embedding_type is " + quote(type) + "; it must be rope, nope or null");
    if (Status status = fields.take_status(); !status) return status;
    any_turns = type == "rope";
  }
  for (std::size_t i = 0; i < layers.size(); ++i) {
    LayerConfig& layer = layers[i];
    bool turns = family.turns(i, layer.window > 0, any_window, interval);
    if (const Json each = (*listed)[i]; *listed) {  // 1 where a layer does turn, whatever the name says
      if (!each.is_integer() || each.integer() < 0 || each.integer() > 1)
        return {StatusCode::corrupt_data, origin + ": entry " + std::to_string(i) + " of no_rope_layers is " +
                                              quote(written(each)) + "; it must be 0 or 1"};
      turns = each.integer() == 1;
    }
    layer.rope = !turns || !any_turns ? LayerConfig::no_rope : layer.window > 0 && ropes > 1 ? 1 : 0;
  }
  return {};
}

}  // namespace

Status read_hf_layers(const Json& json, const std::string& origin, const Family& family, ModelConfig& c) {
  std::vector<LayerConfig> layers(static_cast<std::size_t>(c.layers));
  const bool shared = family.mixture.shared_is_dense && c.experts.count == 0;
  const char* const width = shared ? "shared_intermediate_size" : "intermediate_size";
  if (Status status = read_widths(json, width, origin, layers); !status) return status;
  if (Status status = read_windows(json, origin, family, layers); !status) return status;
  if (Status status = read_hf_sparse(json, origin, family.mixture, c, layers); !status) return status;
  if (Status status = read_hf_heads(json, origin, family.kinds, c, layers); !status) return status;
  HfLayerKinds kinds;
  for (const LayerConfig& layer : layers) {
    const bool sliding = layer.window > 0;
    (sliding ? kinds.sliding : kinds.full) = true;
    index& head_dim = sliding ? kinds.sliding_head_dim : kinds.full_head_dim;
    head_dim = std::max(head_dim, layer.head_dim);
  }
  if (Status status = read_hf_rope(json, origin, family, kinds, c); !status) return status;
  if (Status status = read_turning(json, origin, family, c.ropes.size(), layers); !status) return status;
  c.set_layers(std::move(layers));
  return {};
}

}  // namespace inlay::exec
