// A description as text, with figures that were fitted: their sources beside the others, each figure on one line.
#include <array>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "files/strict_json.hpp"
#include "tile_machine/fit/fit.hpp"

namespace inlay::npu {

namespace {

using Json = nlohmann::ordered_json;

constexpr std::size_t line_length = 120, longest_source = 900;

// Five digits: more than any log tells.
double rounded(double value) {
  std::array<char, 32> text{};
  std::snprintf(text.data(), text.size(), "%.5g", value);
  return std::strtod(text.data(), nullptr);
}

Json number(double value) {
  const double near = rounded(value);
  if (near == std::floor(near) && std::abs(near) < 1e9) return static_cast<std::int64_t>(near);
  return near;
}

// Objects and lists that fit into a line stand in one.
void write(const Json& value, std::size_t indent, std::string& out) {
  const std::string flat = value.dump();
  if (!value.is_structured() || flat.size() + indent <= line_length) {
    out += flat;
    return;
  }
  const std::string inner(indent + 2, ' ');
  out += value.is_object() ? "{\n" : "[\n";
  bool first = true;
  for (const auto& item : value.items()) {
    if (!std::exchange(first, false)) out += ",\n";
    out += inner;
    if (value.is_object()) out += Json(item.key()).dump() + ": ";
    write(item.value(), indent + 2, out);
  }
  out += "\n" + std::string(indent, ' ') + (value.is_object() ? "}" : "]");
}

void collect_sources(const Json& node, std::set<std::string>& used) {
  if (node.is_array() && node.size() == 2 && node[0].is_number() && node[1].is_string())
    used.insert(node[1].get<std::string>());
  else if (node.is_structured())
    for (const Json& each : node) collect_sources(each, used);
}

Json source_of(const FittedFigure& figure) {
  Json source{{"confidence", "measured"}};
  const double low = rounded(std::min(figure.low, 1.0)), high = rounded(std::max(figure.high, 1.0));
  if (low < 1 || high > 1) source["range"] = {low, high};
  std::array<char, 64> before{};
  std::snprintf(before.data(), before.size(), ". It was %.6g.", figure.before);
  source["text"] = figure.from.substr(0, longest_source) + before.data();
  return source;
}

}  // namespace

tl::expected<std::string, Status> with_figures(std::string_view description, std::span<const FittedFigure> figures) {
  if (auto device = parse_device(description); !device) return failure(std::move(device.error()));
  auto json = files::parse_strict_ordered_json(description);
  if (!json) return failure(std::move(json.error()));
  Json fitted = std::move(*json);
  for (const FittedFigure& figure : figures) {
    const std::string key = "fit" + figure.pointer;
    fitted.at(Json::json_pointer(figure.pointer)) = {number(figure.value), key};
    fitted["sources"][key] = source_of(figure);
  }
  fitted["version"] = fitted["version"].get<int>() + 1;
  std::set<std::string> used;
  collect_sources(fitted, used);
  Json kept = Json::object();
  for (const auto& [key, source] : fitted["sources"].items())
    if (used.contains(key)) kept[key] = source;
  fitted["sources"] = std::move(kept);
  std::string text;
  write(fitted, 0, text);
  text += '\n';
  // Of the loader's rules that hold between figures a fit may break one: then it writes nothing.
  if (auto device = parse_device(text); !device) return failure(std::move(device.error()));
  return text;
}

}  // namespace inlay::npu
