#include <inlay/exec/calibration.hpp>

#include <cmath>
#include <cstdint>
#include <limits>
#include <utility>

#include "executor/exec/model_digest.hpp"
#include "files/strict_json.hpp"

namespace inlay::exec {
namespace {

using nlohmann::json;

constexpr const char* sites[] = {"attn_in", "attn_output", "ffn_in", "ffn_down"};

Status wrong(const std::string& place, const std::string& what) {
  return {StatusCode::corrupt_data, "scales: " + (place.empty() ? "the file" : place) + " " + what};
}

json of_range(const ActivationRange& range) { return {{"largest", range.largest}, {"range", range.range}}; }

// Reads members of one object, each of which must be there, and no other.
class Members {
 public:
  Members(const json& object, std::string place, std::size_t count) : object_(object), place_(std::move(place)) {
    if (!object.is_object() || object.size() != count)
      status_ = wrong(place_, "must be an object of " + std::to_string(count) + " members");
  }

  const json* find(const char* key, json::value_t type) {
    if (!status_.ok()) return nullptr;
    const auto found = object_.find(key);
    if (found != object_.end() && found->type() == type) return &*found;
    status_ = wrong(place_, std::string("must have ") + key + ", a " + json(type).type_name());
    return nullptr;
  }
  void read(const char* key, std::string& to) {
    if (const json* value = find(key, json::value_t::string)) to = value->get<std::string>();
  }
  void read(const char* key, index& to) {
    const json* value = find(key, json::value_t::number_unsigned);
    if (value == nullptr) return;
    if (value->get<std::uint64_t>() > std::uint64_t{1} << 40)
      status_ = wrong(files::child(place_, key), "is " + files::describe(*value) + "; it must be at most 2^40");
    else
      to = value->get<index>();
  }
  // A number above 0, at most `most`.
  template <class Number> void read(const char* key, Number& to, double most) {
    if (!status_.ok()) return;
    const auto found = object_.find(key);
    if (found == object_.end() || !found->is_number() || !(found->get<double>() > 0) || found->get<double>() > most ||
        static_cast<Number>(found->get<double>()) == 0)
      status_ = wrong(files::child(place_, key),
                      (found == object_.end() ? std::string("is missing") : "is " + files::describe(*found)) +
                          "; it must be a number above 0, at most " + json(most).dump());
    else
      to = static_cast<Number>(found->get<double>());
  }

  Status status_;

 private:
  const json& object_;
  std::string place_;
};

// Nothing where it is left out.
Status read_range(const json& object, const char* key, const std::string& place, std::optional<ActivationRange>& to) {
  const auto found = object.find(key);
  if (found == object.end()) return {};
  Members members(*found, files::child(place, key), 2);
  ActivationRange range;
  members.read("largest", range.largest, static_cast<double>(std::numeric_limits<float>::max()));
  members.read("range", range.range, static_cast<double>(range.largest));
  if (members.status_.ok()) to = range;
  return std::move(members.status_);
}

Status read_layer(const json& layer, const std::string& place, ActivationRanges::OfLayer& to) {
  if (!layer.is_object()) return wrong(place, "is " + files::describe(layer) + "; it must be an object");
  std::size_t known = 0;
  for (std::size_t site = 0; site < to.size(); ++site) {
    if (Status status = read_range(layer, sites[site], place, to[site]); !status.ok()) return status;
    known += to[site].has_value();
  }
  return known == layer.size() ? Status()
                               : wrong(place, "must have no members but attn_in, attn_output, ffn_in and ffn_down");
}

Status take_scale(LinearWeight& weight, const std::optional<ActivationRange>& range, index& taken) {
  auto* const int8 = std::get_if<LinearWeight::Int8>(&weight.form());
  if (int8 == nullptr || weight.channels() == 0 || !range) return {};
  auto scale = OwnedTensor<1>::make(DType::f32, {1});
  if (!scale) return std::move(scale.error());
  scale->view().as<float>()[0] = range->range / 127;
  int8->x_scale = std::move(*scale);
  ++taken;
  return {};
}

}  // namespace

ActivationRanges::Model ActivationRanges::Model::of(const ModelConfig& config, const Weights& weights) {
  return {config.architecture, config.layers, config.dim, config.vocab, digest_of(weights)};
}

std::string ActivationRanges::json() const {
  nlohmann::ordered_json of_layers = nlohmann::ordered_json::array();
  for (const OfLayer& layer : layers) {
    nlohmann::ordered_json object = nlohmann::ordered_json::object();
    for (std::size_t site = 0; site < layer.size(); ++site)
      if (layer[site]) object[sites[site]] = of_range(*layer[site]);
    of_layers.push_back(std::move(object));
  }
  nlohmann::ordered_json file{{"scales", 1},
                              {"model",
                               {{"architecture", model.architecture},
                                {"layers", model.layers},
                                {"dim", model.dim},
                                {"vocab", model.vocab},
                                {"digest", model.digest}}},
                              {"percentile", percentile},
                              {"tokens", tokens},
                              {"layers", std::move(of_layers)}};
  if (output) file["output"] = of_range(*output);
  return file.dump(1);
}

Expected<ActivationRanges> ActivationRanges::from_json(std::string_view text) {
  auto file = files::parse_strict_json(text, {.bytes = 4 << 20, .depth = 4, .values = 1 << 17});
  if (!file) return failure(std::move(file.error()));
  if (!file->is_object() || file->value("scales", nlohmann::json()) != 1)
    return failure(wrong("", "must have \"scales\": 1"));
  ActivationRanges ranges;
  index version = 0;
  Members members(*file, "", file->contains("output") ? 6 : 5);
  members.read("scales", version);
  members.read("percentile", ranges.percentile, 100);
  members.read("tokens", ranges.tokens);
  const auto* model = members.find("model", nlohmann::json::value_t::object);
  const auto* layers = members.find("layers", nlohmann::json::value_t::array);
  if (!members.status_.ok()) return failure(std::move(members.status_));
  Members of_model(*model, "/model", 5);
  of_model.read("architecture", ranges.model.architecture);
  of_model.read("layers", ranges.model.layers);
  of_model.read("dim", ranges.model.dim);
  of_model.read("vocab", ranges.model.vocab);
  of_model.read("digest", ranges.model.digest);
  if (!of_model.status_.ok()) return failure(std::move(of_model.status_));
  if (static_cast<index>(layers->size()) != ranges.model.layers)
    return failure(wrong("/layers", "has " + std::to_string(layers->size()) + " layers and the model " +
                                        std::to_string(ranges.model.layers) + "; there must be as many of both"));
  ranges.layers.resize(layers->size());
  for (std::size_t i = 0; i < layers->size(); ++i)
    if (Status status = read_layer((*layers)[i], "/layers/" + std::to_string(i), ranges.layers[i]); !status.ok())
      return failure(std::move(status));
  if (Status status = read_range(*file, "output", "", ranges.output); !status.ok()) return failure(std::move(status));
  return ranges;
}

Status ActivationRanges::apply(const ModelConfig& config, Weights& weights) const {
  const Model own = Model::of(config, weights);
  const auto differs = [&](const std::string& what, const std::string& theirs, const std::string& ours) {
    return invalid("scales: the model's " + what + " is " + ours + ", and the scales are of one of " + theirs +
                   "; they must be of this model");
  };
  if (own.architecture != model.architecture) return differs("architecture", model.architecture, own.architecture);
  if (own.layers != model.layers) return differs("layers", std::to_string(model.layers), std::to_string(own.layers));
  if (own.dim != model.dim) return differs("dim", std::to_string(model.dim), std::to_string(own.dim));
  if (own.vocab != model.vocab) return differs("vocab", std::to_string(model.vocab), std::to_string(own.vocab));
  if (own.digest != model.digest) return differs("digest", model.digest, own.digest);
  index taken = 0;
  Status status = take_scale(weights.head, output, taken);
  for (std::size_t i = 0; i < layers.size() && status.ok(); ++i) {
    LayerWeights& layer = weights.layers[i];
    const auto take = [&](LinearWeight& weight, ActivationSite site) {
      if (status.ok()) status = take_scale(weight, layers[i][static_cast<std::size_t>(site)], taken);
    };
    for (LinearWeight& each : layer.qkv) take(each, ActivationSite::attn_in);
    take(layer.output, ActivationSite::attn_output);
    for (LinearWeight& each : layer.gate_up) take(each, ActivationSite::ffn_in);
    take(layer.down, ActivationSite::ffn_down);
  }
  if (status.ok() && taken == 0)
    return invalid("scales: the model has no linear of int8 that they are for; it must have one");
  return status;
}

}  // namespace inlay::exec
