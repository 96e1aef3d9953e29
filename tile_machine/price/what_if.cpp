#include "tile_machine/price/what_if.hpp"

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <functional>
#include <vector>

#include <nlohmann/json.hpp>

namespace inlay::npu {

namespace {

using Json = nlohmann::ordered_json;

std::string lower(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

// What a name stands for: figures to multiply, or to divide by.
struct Knob {
  std::string name;
  std::vector<Json*> faster, slower;
};

class Knobs {
 public:
  explicit Knobs(Json& device) {
    for (const char* section : {"dram", "l2"}) {
      if (!device.contains(section) || device[section].is_null()) continue;
      Json& bandwidth = device[section];
      knobs_.push_back({section, {&bandwidth["bytes_per_cycle"], &bandwidth["bytes_per_cycle_core"]}, {}});
    }
    for (const char* figure : {"ghz", "cores"}) knobs_.push_back({figure, {&device[figure]}, {}});
    Json& memories = device["memories"];  // the first is global memory
    for (std::size_t i = 1; i < memories.size(); ++i)
      knobs_.push_back({lower(memories[i]["name"].get<std::string>()), {&memories[i]["bytes"]}, {}});
    Knob vector{"vector", {}, {}}, matrix{"matrix", {}, {}};
    for (Json& operation : device["vector"]["operations"]) vector.slower.push_back(&operation["slope"]);
    for (Json& rate : device["matrix"]["rates"])
      if (rate.contains("cycles")) matrix.slower.push_back(&rate["cycles"]);
    knobs_.push_back(std::move(vector));
    if (!matrix.slower.empty()) knobs_.push_back(std::move(matrix));
    for (Json& queue : device["queues"]) {
      Knob paths{lower(queue["name"].get<std::string>()), {}, {}};
      for (Json& path : device["paths"])
        if (device["pipes"][path["pipe"].get<std::string>()] == queue["name"])
          paths.faster.push_back(&path["bytes_per_cycle"]);
      if (!paths.faster.empty()) knobs_.push_back(std::move(paths));
    }
  }

  // Those of that name, or that end in it: the vector cores' MTE2 and the cube core's.
  std::vector<const Knob*> find(const std::string& name) const {
    std::vector<const Knob*> found;
    for (const Knob& knob : knobs_)
      if (knob.name == name || knob.name.ends_with("." + name)) found.push_back(&knob);
    return found;
  }
  std::string names() const {
    std::string all;
    for (const Knob& knob : knobs_) all.append(all.empty() ? "" : ", ").append(knob.name);
    return all;
  }

 private:
  std::vector<Knob> knobs_;
};

// Null: there is nothing. An index beyond what a number holds is an exception of the library's.
Json* at(Json& device, const std::string& pointer) {
  try {
    return &device.at(Json::json_pointer(pointer));
  } catch (const Json::exception&) {
    return nullptr;
  }
}

void multiply(Json& figure, double factor) {
  Json& number = figure[0];
  const double product = number.get<double>() * factor;
  if (number.is_number_integer() && product == std::floor(product) && std::abs(product) < 0x1p53)
    number = static_cast<std::int64_t>(product);
  else
    number = product;
}

tl::expected<std::string, Status> wrong(std::string_view change, const std::string& why) {
  return tl::unexpected<Status>(invalid("what-if " + std::string(change) + ": " + why));
}

}  // namespace

tl::expected<std::string, Status> what_if(std::string_view description, std::string_view changes) {
  Json device = Json::parse(description, nullptr, false);
  if (device.is_discarded() || !device.is_object()) return wrong(changes, "the description is no JSON object");
  Knobs knobs(device);
  while (!changes.empty()) {
    const std::string_view change = changes.substr(0, changes.find(','));
    changes.remove_prefix(std::min(changes.size(), change.size() + 1));
    const std::size_t equals = change.find('=');
    std::string_view value = equals == change.npos ? "" : change.substr(equals + 1);
    double factor = 0;
    const bool times = value.ends_with('x');
    if (times) value.remove_suffix(1);
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), factor);
    if (!times || equals == 0 || error != std::errc() || end != value.data() + value.size() || !(factor > 0) ||
        !std::isfinite(factor))
      return wrong(change, "it must be NAME=FACTORx with a factor above 0, such as dram=0.5x");
    const std::string name(change.substr(0, equals));
    if (name.starts_with('/')) {
      if (name.find('~') != name.npos) return wrong(change, "there is no number at " + name);
      Json* figure = at(device, name);
      if (figure == nullptr || !figure->is_array() || figure->size() != 2 || !(*figure)[0].is_number())
        return wrong(change, "there is no number at " + name);
      multiply(*figure, factor);
      continue;
    }
    const std::vector<const Knob*> found = knobs.find(lower(name));
    if (found.empty())
      return wrong(change, "there is no " + name + "; there are " + knobs.names() + ", or a JSON pointer");
    for (const Knob* knob : found) {
      for (Json* figure : knob->faster) multiply(*figure, factor);
      for (Json* figure : knob->slower) multiply(*figure, 1 / factor);
    }
  }
  return device.dump();
}

}  // namespace inlay::npu
