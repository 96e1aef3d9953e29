#include "tile_machine/device/figure_reader.hpp"

#include <algorithm>
#include <array>
#include <cctype>
#include <cmath>
#include <tuple>

namespace inlay::npu {
namespace {

using Json = nlohmann::json;

constexpr std::array<std::string_view, 4> confidences{"documented", "measured", "derived", "assumed"};
// The factors between which a number may be wrong whose source does not say.
constexpr std::array<std::pair<double, double>, 4> usual_ranges{{{1, 1}, {1, 1}, {0.8, 1.2}, {0.5, 2}}};
constexpr Range below{0.01, 1}, above{1, 100};

}  // namespace

std::string listed(Words words) {
  std::string result;
  for (const std::string_view word : words) result.append(result.empty() ? "" : ", ").append(word);
  return result;
}

std::string shown(double number) {
  const auto text = Json(number).dump();
  return text.ends_with(".0") ? text.substr(0, text.size() - 2) : text;
}

void FigureReader::refuse(const std::string& pointer, const std::string& what) {
  if (ok()) status_ = Status(StatusCode::corrupt_data, (pointer.empty() ? "/" : pointer) + " " + what);
}

void FigureReader::refuse_value(const Node& node, const std::string& must) {
  if (ok()) refuse(node.pointer, "is " + describe(*node.json) + ": it must be " + must);
}

Node FigureReader::object(Node node, Words keys) {
  if (!ok() || node.json == nullptr) return {};
  if (node.json->is_object())
    for (const std::string_view key : keys)
      if (!node.json->contains(key)) refuse(child(node.pointer, key), "is missing; the keys here are " + listed(keys));
  return some_of(std::move(node), keys);
}

Node FigureReader::some_of(Node node, Words keys) {
  if (!ok() || node.json == nullptr) return {};
  if (!node.json->is_object()) {
    refuse_value(node, "an object");
    return {};
  }
  if (node.json->empty()) refuse(node.pointer, "is empty: it must have some of the keys " + listed(keys));
  for (const auto& item : node.json->items())
    if (std::find(keys.begin(), keys.end(), item.key()) == keys.end())
      refuse(child(node.pointer, item.key()), "is unknown: the key must be one of " + listed(keys));
  return ok() ? node : Node{};
}

Node FigureReader::get(const Node& parent, std::string_view key) const {
  if (!ok() || parent.json == nullptr) return {};
  return {&parent.json->at(key), child(parent.pointer, key)};
}

std::size_t FigureReader::list_size(const Node& node, std::size_t most) {
  if (!ok() || node.json == nullptr) return 0;
  if (!node.json->is_array() || node.json->empty() || node.json->size() > most)
    refuse_value(node, "an array of 1 to " + std::to_string(most));
  return node.json->size();
}

std::string FigureReader::text(const Node& node, std::size_t longest) {
  if (!ok() || node.json == nullptr) return {};
  const auto* value = node.json->get_ptr<const std::string*>();
  if (value == nullptr || value->empty() || value->size() > longest) {
    refuse_value(node, "a text of 1 to " + std::to_string(longest) + " bytes");
    return {};
  }
  return *value;
}

std::string FigureReader::identifier(const Node& node) {
  const std::string value = text(node, longest_name);
  const auto allowed = [](unsigned char c) { return std::isalnum(c) || c == '-' || c == '_' || c == '.'; };
  if (ok() && !std::all_of(value.begin(), value.end(), allowed))
    refuse_value(node, "of letters, digits, '-', '_' and '.'");
  return value;
}

bool FigureReader::boolean(const Node& node) {
  if (!ok() || node.json == nullptr) return false;
  if (!node.json->is_boolean()) refuse_value(node, "true or false");
  return ok() && node.json->get<bool>();
}

int FigureReader::choice(const Node& node, Words words) {
  if (!ok() || node.json == nullptr) return 0;
  const auto* value = node.json->get_ptr<const std::string*>();
  const auto found = value == nullptr ? words.end() : std::find(words.begin(), words.end(), *value);
  if (found == words.end()) refuse_value(node, "one of " + listed(words));
  return ok() ? static_cast<int>(found - words.begin()) : 0;
}

// [number, "<source>"]
double FigureReader::figure(const Node& node, const Range& range) {
  if (!ok() || node.json == nullptr) return 0;
  if (!node.json->is_array() || node.json->size() != 2) {
    refuse_value(node, "a figure: [number, \"<source>\"]");
    return 0;
  }
  const Node number{&(*node.json)[0], child(node.pointer, 0)}, from{&(*node.json)[1], child(node.pointer, 1)};
  const double value = number.json->is_number() ? number.json->get<double>() : NAN;
  const bool inside = value >= range.low && value <= range.high;  // false for NaN
  const bool whole = inside && (!range.whole || value == std::floor(value));
  const bool power = whole && (!range.power_of_two || std::exp2(std::round(std::log2(value))) == value);
  if (!power) {
    const std::string kind = range.power_of_two ? "a power of two" : range.whole ? "a whole number" : "a number";
    refuse_value(number, kind + " from " + shown(range.low) + " to " + shown(range.high));
    return 0;
  }
  const std::string key = text(from, longest_name);
  if (!ok()) return 0;
  const auto source = std::find_if(sources_.begin(), sources_.end(), [&](const Source& s) { return s.key == key; });
  if (source == sources_.end()) {
    refuse_value(from, "a key of /sources");
    return 0;
  }
  source->used = true;
  provenance_.push_back({.pointer = node.pointer,
                         .source = source->text,
                         .confidence = source->confidence,
                         .key = source->key,
                         .value = value,
                         .whole = range.whole,
                         .low = std::max(range.low, value * source->low),
                         .high = std::min(range.high, value * source->high)});
  return value + 0.0;  // -0 becomes 0
}

void FigureReader::sources(const Node& node) {
  if (!ok()) return;
  if (!node.json->is_object() || node.json->empty()) return refuse_value(node, "an object with at least one source");
  for (const auto& item : node.json->items()) {
    const bool ranged = item.value().is_object() && item.value().contains("range");
    const Node entry{&item.value(), child(node.pointer, item.key())};
    const Node source = ranged ? object(entry, {"confidence", "text", "range"}) : object(entry, {"confidence", "text"});
    const Node reason = get(source, "text");
    const int sure = choice(get(source, "confidence"), confidences);
    const std::string confidence(confidences[static_cast<std::size_t>(sure)]);
    auto [low, high] = usual_ranges[static_cast<std::size_t>(sure)];
    if (ranged) std::tie(low, high) = factors(get(source, "range"));
    const std::string where = text(reason, longest_text);
    if (!ok()) return;
    const bool public_address = where.find("https://") != where.npos || where.find("arXiv:") != where.npos,
               log = where.find("log:") != where.npos;
    if (confidence == "documented" && !public_address)
      return refuse_value(reason, "findable: what is documented names an https:// or arXiv: address");
    if (confidence == "measured" && !public_address && !log)
      return refuse_value(reason,
                          "findable: what is measured names an https:// or arXiv: address, or a file as log:FILE");
    sources_.push_back({item.key(), where, confidence, low, high});
  }
}

// [low, high]: a number times `low` to times `high`.
std::pair<double, double> FigureReader::factors(const Node& node) {
  if (!ok()) return {1, 1};
  if (!node.json->is_array() || node.json->size() != 2) refuse_value(node, "[low, high], two factors");
  const auto factor = [&](std::size_t i, const Range& range) {
    if (!ok()) return 1.0;
    const Node number{&(*node.json)[i], child(node.pointer, i)};
    const double value = number.json->is_number() ? number.json->get<double>() : NAN;
    if (value >= range.low && value <= range.high) return value;
    refuse_value(number, "a number from " + shown(range.low) + " to " + shown(range.high));
    return 1.0;
  };
  const double low = factor(0, below), high = factor(1, above);
  return {low, high};
}

void FigureReader::refuse_unused_sources(const Node& node) {
  for (const Source& source : sources_)
    if (!source.used) refuse(child(node.pointer, source.key), "is the source of no figure: it must be of at least one");
}

}  // namespace inlay::npu
