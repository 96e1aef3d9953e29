// The file of ClOptions::tuning. The schema is this file, read top to bottom; keys that it does not name are refused:
//
//   format     1
//   devices    [{platform, device, driver, shape: "per_item" | "per_group",
//                operators: {"<operator>": {"<parameter>": <value> or a record, ..}, ..}}, ..]
//
//   record     {"value": <value>, "usual": <what it takes the place of>, "measured": "<date>",
//               "seconds": {"<case>": [<with the value>, <with the usual one>], ..}}        all but "value" are for
//               readers
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <iterator>
#include <system_error>
#include <utility>

#include <filesystem>
#include <nlohmann/json.hpp>

#include <inlay/core/quote.hpp>

#include "cl_kernels/tuning/tuning.hpp"
#include "files/strict_json.hpp"
#include "files/whole_file.hpp"

namespace inlay {

namespace {

using Json = nlohmann::ordered_json;

// One section of `devices`, checked; `operators` is what stands there.
struct Section {
  std::string platform, device, driver;
  ClShape shape;
  const Json& operators;

  bool is_of(const ClDevice& record, ClShape wanted) const {
    return platform == record.platform && device == record.name && shape == wanted;
  }
};

Status corrupt(const std::string& where, const std::string& what) {
  return {StatusCode::corrupt_data, where + " " + what};
}

// What a message shows of a value from outside.
std::string shown(const Json& value) {
  constexpr std::size_t most = 60;
  std::string text = value.dump(-1, ' ', true, Json::error_handler_t::replace);
  if (text.size() > most) text = text.substr(0, most) + "..";
  return text;
}

// Three digits: a reader asks for no more, and the clock gives none.
double in_short(double seconds) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3g", seconds);
  return std::strtod(text, nullptr);
}

// Numbers of "seconds" lie deepest; what shows a value calls itself for each level.
constexpr files::JsonLimits limits{.bytes = std::size_t{1} << 20, .depth = 8, .values = std::size_t{1} << 20};

Expected<Json> parse(const std::string& file, const std::string& text) {
  auto json = files::parse_strict_ordered_json(text, limits);
  if (!json) return failure(corrupt(file + ": JSON", std::string(json.error().message())));
  return std::move(*json);
}

Expected<std::string> read_text(const std::string& file) {
  std::error_code error;
  const auto bytes = std::filesystem::file_size(file, error);  // an error too for what is no file
  if (error) return failure(StatusCode::not_found, file + " cannot be read: " + error.message());
  if (bytes > limits.bytes)
    return failure(
        corrupt(file, "has " + std::to_string(bytes) + " bytes; it must have at most " + std::to_string(limits.bytes)));
  std::ifstream stream(file, std::ios::binary);
  std::string text{std::istreambuf_iterator<char>(stream), std::istreambuf_iterator<char>()};
  if (!stream) return failure(StatusCode::not_found, file + " cannot be read");
  return text;
}

// An object with these keys, the required ones first.
Status has_keys(const std::string& where, const Json& json, std::size_t required,
                std::initializer_list<const char*> keys) {
  if (!json.is_object()) return corrupt(where, "is " + shown(json) + "; it must be an object");
  std::size_t at = 0;
  for (const char* key : keys)
    if (at++ < required && !json.contains(key))
      return corrupt(where, "has no " + std::string(key) + "; it must have one");
  for (const auto& [key, value] : json.items()) {
    std::string known;
    bool is_known = false;
    for (const char* one : keys) {
      is_known = is_known || key == one;
      known += (known.empty() ? "" : ", ") + std::string(one);
    }
    if (!is_known) return corrupt(where, "has the key " + quote(key) + "; those that it may have are " + known);
  }
  return {};
}

// The value of a parameter, whichever form it is written in; `where` grows to its place.
const Json& value_of(const Json& entry, std::string& where) {
  if (!entry.is_object()) return entry;
  where += ".value";
  return entry.at("value");
}

Status check_operators(const std::string& where, const Json& operators, ClShape shape) {
  if (!operators.is_object()) return corrupt(where, "is " + shown(operators) + "; it must be an object");
  for (const auto& [op, parameters] : operators.items()) {
    const std::string of_op = where + "." + printable(op);
    if (!parameters.is_object()) return corrupt(of_op, "is " + shown(parameters) + "; it must be an object");
    for (const auto& [name, entry] : parameters.items()) {
      std::string place = of_op + "." + printable(name);
      const auto parameter = cl::find_parameter(op, name);
      if (!parameter) return corrupt(place + ":", std::string(parameter.error().message()));
      if (entry.is_object())
        if (Status wrong = has_keys(place, entry, 1, {"value", "usual", "measured", "seconds"}); !wrong.ok())
          return wrong;
      const Json& value = value_of(entry, place);
      if (!value.is_number_integer() || value < 0 || value > (1 << 30))
        return corrupt(place, "is " + shown(value) + "; it must be " + cl::choices((*parameter)->of(shape).list()));
      if (Status wrong = cl::check_value(**parameter, shape, value.get<long>()); !wrong.ok())
        return corrupt(place, std::string(wrong.message()));
    }
  }
  return {};
}

Expected<std::vector<Section>> sections_of(const std::string& file, const Json& json) {
  if (Status wrong = has_keys(file + ": the file", json, 2, {"format", "devices"}); !wrong.ok())
    return failure(std::move(wrong));
  if (json["format"] != 1)
    return failure(corrupt(file + ": format", "is " + shown(json["format"]) + "; this version reads 1"));
  if (!json["devices"].is_array())
    return failure(corrupt(file + ": devices", "is " + shown(json["devices"]) + "; it must be an array"));
  std::vector<Section> sections;
  for (const Json& one : json["devices"]) {
    const std::string where = file + ": devices[" + std::to_string(sections.size()) + "]";
    Status wrong = has_keys(where, one, 5, {"platform", "device", "driver", "shape", "operators"});
    if (!wrong.ok()) return failure(std::move(wrong));
    for (const char* key : {"platform", "device", "driver"})
      if (!one[key].is_string())
        return failure(corrupt(where + "." + key, "is " + shown(one[key]) + "; it must be a string"));
    const auto shape = one["shape"].is_string() ? shape_called(one["shape"].get<std::string>()) : std::nullopt;
    if (!shape)
      return failure(
          corrupt(where + ".shape", "is " + shown(one["shape"]) + "; it must be \"per_item\" or \"per_group\""));
    if (wrong = check_operators(where + ".operators", one["operators"], *shape); !wrong.ok())
      return failure(std::move(wrong));
    Section section{one["platform"], one["device"], one["driver"], *shape, one["operators"]};
    for (const Section& other : sections)
      if (other.platform == section.platform && other.device == section.device && other.driver == section.driver &&
          other.shape == section.shape)
        return failure(
            corrupt(where, "is of the same device, driver and shape as one before it; it must be the only one"));
    sections.push_back(std::move(section));
  }
  return sections;
}

// An empty one where there is no file.
Expected<Json> read_or_begin(const std::string& file) {
  std::error_code error;
  if (!std::filesystem::exists(file, error)) {
    const auto folder = std::filesystem::path(file).parent_path();
    if (!folder.empty() && !std::filesystem::is_directory(folder, error))
      return failure(StatusCode::not_found, file + " cannot be written: there is no folder " + folder.string());
    return Json{{"format", 1}, {"devices", Json::array()}};
  }
  auto text = read_text(file);
  if (!text) return failure(std::move(text.error()));
  auto json = parse(file, *text);
  if (!json) return json;
  if (auto sections = sections_of(file, *json); !sections) return failure(std::move(sections.error()));
  return json;
}

}  // namespace

Status cl::Tuning::read(const std::string& file, const ClDevice& device) {
  auto text = read_text(file);
  if (!text) return std::move(text.error());
  const auto json = parse(file, *text);
  if (!json) return {json.error().code(), std::string(json.error().message())};
  const auto sections = sections_of(file, *json);
  if (!sections) return {sections.error().code(), std::string(sections.error().message())};
  origin_ = "as compiled in: " + file + " has none for this device and shape";
  for (const Section& section : *sections) {
    if (!section.is_of(device, shape_)) continue;
    if (section.driver != device.driver) {
      origin_ = "as compiled in: those of " + file + " were measured with driver " + printable(section.driver) +
                ", this is " + device.driver;
      continue;
    }
    int used = 0;
    for (const auto& [op, parameters] : section.operators.items())
      for (const auto& [name, entry] : parameters.items()) {
        std::string where;
        if (Status status = set(op, name, value_of(entry, where).get<long>()); !status.ok()) return status;
        ++used;
      }
    origin_ = std::to_string(used) + " of " + file + ", the others as compiled in";
    break;
  }
  return {};
}

Status check_cl_tuning(const std::string& file) {
  auto json = read_or_begin(file);
  return json ? Status() : std::move(json.error());
}

Status write_cl_tuning(const std::string& file, const Cl& cl, const std::string& date, std::span<const ClTuned> found) {
  auto json = read_or_begin(file);
  if (!json) return std::move(json.error());
  const ClDevice& device = cl.device();
  const std::string shape(name(cl.options().shape));
  Json* section = nullptr;
  for (Json& one : (*json)["devices"])
    if (one["platform"] == device.platform && one["device"] == device.name && one["shape"] == shape) section = &one;
  if (section == nullptr) section = &(*json)["devices"].emplace_back();
  // What another driver was measured with says nothing of this one.
  if (!section->contains("driver") || (*section)["driver"] != device.driver)
    *section = Json{{"platform", device.platform},
                    {"device", device.name},
                    {"driver", device.driver},
                    {"shape", shape},
                    {"operators", Json::object()}};
  Json& operators = (*section)["operators"];
  for (const ClTuned& one : found) {
    if (one.value == one.usual) {
      if (operators.contains(one.op)) operators[one.op].erase(one.name);
      continue;
    }
    Json seconds = Json::object();
    for (const ClTuned::Case& each : one.cases)
      seconds[each.what] = {in_short(each.seconds), in_short(each.usual_seconds)};
    operators[one.op][one.name] =
        Json{{"value", one.value}, {"usual", one.usual}, {"measured", date}, {"seconds", std::move(seconds)}};
  }
  for (auto op = operators.begin(); op != operators.end();) op = op->empty() ? operators.erase(op) : std::next(op);
  return files::write_whole(file, json->dump(2, ' ', false, Json::error_handler_t::replace) + "\n");
}

}  // namespace inlay
